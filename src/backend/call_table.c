/* SPDX-License-Identifier: MIT */
/*
 * The order of fields is the order on the wire: new ones go to the end of a table, and a zero in
 * them must mean what their absence meant.
 */
#include "backend/call_table.h"

/* Fields of the struct whose name OF is, while its table is written. */
#define FIELD(codec, at, more_0, more_1, limit, shape)                  \
    {                                                                   \
        &bi_field_##codec, (at), {(more_0), (more_1)}, (limit), (shape) \
    }
#define PLACE(member)        offsetof(OF, member)
#define PLAIN(codec, member) FIELD(codec, PLACE(member), 0, 0, 0, NULL)
#define U32(member)          PLAIN(u32, member)
#define U64(member)          PLAIN(u64, member)
#define I32(member)          PLAIN(i32, member)
#define I64(member)          PLAIN(i64, member)
#define SIZE(member)         PLAIN(size, member)
#define FLAG(member)         PLAIN(flag, member)
#define ENUM(member)         PLAIN(enum, member)
#define STATUS(member)       PLAIN(status, member)
#define SLICE(member)        PLAIN(slice, member)
#define BUF(member)          PLAIN(buf, member)
#define CURSOR(member)       PLAIN(cursor, member)
#define PATH(member)         PLAIN(path, member)
/* From one member to another, in the order of the struct; it does not compile if they are not that
 * many: a new member among them must go to the end of the table. */
#define ROW_OF(codec, type, first, last, number)                                                \
    FIELD(codec, PLACE(first), 0, 0,                                                            \
          (number) *                                                                            \
              sizeof(char[PLACE(last) - PLACE(first) == ((number)-1) * sizeof(type) ? 1 : -1]), \
          NULL)
#define U32S(first, last, number) ROW_OF(u32s, uint32_t, first, last, number)
#define U64S(first, last, number) ROW_OF(u64s, uint64_t, first, last, number)
#define I64S(first, last, number) ROW_OF(i64s, int64_t, first, last, number)
#define FEED                      FIELD(feed, 0, 0, 0, 0, NULL)
#define TOPIC(member)             FIELD(topic, PLACE(member), 0, 0, sizeof(((OF *)0)->member), NULL)
#define TEXT(member)              FIELD(text, PLACE(member), 0, 0, sizeof(((OF *)0)->member), NULL)
#define BODY(member)              FIELD(body, PLACE(member), PLACE(buf), PLACE(made_), 0, NULL)
#define PART(member, place) \
    FIELD(part, PLACE(member), PLACE(member##_size), PLACE(bufs_[place]), 0, NULL)
#define INNER(member, of)               FIELD(struct, PLACE(member), 0, 0, 0, &(of))
#define POINTED(member, of)             FIELD(pointed, PLACE(member), 0, 0, 0, &(of))
#define TOPICS(max)                     FIELD(topics, 0, 0, 0, max, NULL)
#define ITEMS(member, of)               FIELD(items, PLACE(member), PLACE(count), 0, BIDE_BATCH_JOBS, &(of))
#define OUTCOMES(member, of)            FIELD(outcomes, PLACE(member), PLACE(count), 0, 0, &(of))
#define SPACE(member, of)               FIELD(space, PLACE(member), 0, 0, 0, &(of))
#define ONE(member, of)                 FIELD(one, PLACE(member), 0, 0, 0, &(of))
#define ROOM(member, most_at, most, of) FIELD(room, PLACE(member), PLACE(most_at), 0, most, &(of))
#define LIST(member, most_at, filled_at, least, of) \
    FIELD(list, PLACE(member), PLACE(most_at), PLACE(filled_at), least, &(of))

#define COUNT(array) (uint16_t)(sizeof(array) / sizeof((array)[0]))

/* The shape of what has such fields, and what else there is to say of it. */
#define SHAPE_WITH(name, ...)          \
    static const struct shape name = { \
        .fields = name##_fields, .count = COUNT(name##_fields), .size = sizeof(OF), __VA_ARGS__}
#define SHAPE(name)         SHAPE_WITH(name, .status = 0)
#define SHAPE_OF_ITEM(name) SHAPE_WITH(name, .status = PLACE(status))
#define SHAPE_OF_OUTCOME(name, follows, or_code) \
    SHAPE_WITH(name, .status = PLACE(status), .good = (follows), .also = (or_code))

static void clear_job(void *job)
{
    bide_job_clear(job);
}

/* ---- what ops point to ---- */

#define OF bide_put_options
static const struct field options_fields[] = {
    U32(priority),        ENUM(conflict),      I64(delay_ms),           I64(run_at_ms),
    I64(ttr_ms),          SLICE(key),          FLAG(key_hold_retained), I32(max_retries),
    I64(backoff_base_ms), I64(backoff_max_ms), I64(expires_at_ms),      I64(retain_ms),
};
SHAPE_WITH(options, .sized = true);
#undef OF

#define OF bide_job
static const struct field job_fields[] = {
    U64S(id, token, 2),
    TOPIC(topic),
    ENUM(state),
    U32(priority),
    SIZE(body_size),
    PART(body, 0),
    I64S(ttr_ms, run_at_ms, 5),
    I64S(created_ms, done_ms, 6),
    U32S(reserves, touches, 7),
    PART(key, 1),
    PART(last_error, 2),
    PART(result, 3),
    PART(progress, 4),
    FLAG(run_at_wall),
    FLAG(key_hold_retained),
    FLAG(cancel_wanted),
    I32(max_retries),
    U32(failures),
    I64S(backoff_base_ms, retain_ms, 4),
};
SHAPE_WITH(job, .clear = clear_job);
#undef OF

#define OF bide_counts
static const struct field counts_fields[] = {U64S(delayed, urgent, 6)};
SHAPE(counts);
#undef OF

#define OF bide_counters
static const struct field counters_fields[] = {U64S(puts, pauses, 14)};
SHAPE(counters);
#undef OF

#define OF bide_topic_stats
static const struct field topic_stats_fields[] = {
    TOPIC(name),  INNER(jobs, counts), INNER(total, counters),
    U64(waiting), U64(references),     I64(oldest_ready_age_ms),
    FLAG(paused), I64(pause_left_ms),  I64(pause_ms),
};
SHAPE(topic_stats);
#undef OF

#define OF bide_stats
static const struct field stats_fields[] = {
    INNER(jobs, counts), INNER(total, counters), U64(topics),       U64(waiting),
    U64(watching),       U64(pending_ops),       U64(memory_bytes), I64(oldest_ready_age_ms),
    I64(uptime_ms),      U64(last_id),           FLAG(draining),
};
SHAPE(stats);
#undef OF

#define OF bide_event
static const struct field event_fields[] = {ENUM(kind), ENUM(state), U64(id), I64(at_ms),
                                            TOPIC(topic)};
SHAPE(event);
#undef OF

#define OF bide_recovery
static const struct field recovery_fields[] = {ENUM(phase), U64(loaded), U64(failed), U64(total)};
SHAPE(recovery);
#undef OF

#define OF bide_check_report
static const struct field report_fields[] = {U64(jobs), U64(damaged), U64(differences),
                                             TEXT(problem)};
SHAPE(report);
#undef OF

/* ---- putting ---- */

#define OF bide_put_item
static const struct field put_in_fields[] = {SLICE(topic), POINTED(options, options), BODY(body)};
SHAPE_OF_ITEM(put_in);
static const struct field put_good_fields[] = {U64(id)};
SHAPE(put_good);
static const struct field put_outcome_fields[] = {STATUS(status)};
SHAPE_OF_OUTCOME(put_outcome, &put_good, BIDE_EXISTS);
#undef OF

#define OF bide_put_many_args
static const struct field put_many_in_fields[] = {ITEMS(items, put_in)};
SHAPE(put_many_in);
static const struct field put_many_always_fields[] = {OUTCOMES(items, put_outcome), SIZE(accepted)};
SHAPE(put_many_always);
#undef OF

#define OF bide_restore_args
static const struct field restore_in_fields[] = {POINTED(job, job)};
SHAPE(restore_in);
static const struct field restore_good_fields[] = {U64(id)};
SHAPE(restore_good);
#undef OF

/* ---- taking and finishing ---- */

#define OF bide_reserve_args
static const struct field reserve_in_fields[] = {
    TOPICS(BIDE_RESERVE_TOPICS),
    ENUM(strategy),
    I64(timeout_ms),
    ROOM(jobs, job_max, BIDE_BATCH_JOBS, job),
};
SHAPE(reserve_in);
static const struct field reserve_good_fields[] = {LIST(jobs, job_max, count, 1, job)};
SHAPE(reserve_good);
#undef OF

#define OF bide_reserve_job_args
static const struct field reserve_job_in_fields[] = {U64(id), SPACE(job, job)};
SHAPE(reserve_job_in);
static const struct field reserve_job_good_fields[] = {ONE(job, job)};
SHAPE(reserve_job_good);
#undef OF

#define OF bide_lease_args
static const struct field lease_in_fields[] = {U64(id), U64(token)};
SHAPE(lease_in);
#undef OF

#define OF bide_finish_item
static const struct field finish_in_fields[] = {
    U64(id), U64(token), FLAG(keep), I64(retain_ms), BODY(result),
};
SHAPE_OF_ITEM(finish_in);
static const struct field finish_outcome_fields[] = {STATUS(status)};
SHAPE_OF_OUTCOME(finish_outcome, NULL, BIDE_OK);
#undef OF

#define OF bide_finish_many_args
static const struct field finish_many_in_fields[] = {ITEMS(items, finish_in)};
SHAPE(finish_many_in);
static const struct field finish_many_always_fields[] = {OUTCOMES(items, finish_outcome)};
SHAPE(finish_many_always);
#undef OF

/* The status of the finish goes both ways: who asks sees whether it was touched at all. */
#define OF bide_finish_and_reserve_args
static const struct field finish_and_reserve_in_fields[] = {
    INNER(finish, finish_in),
    STATUS(finish.status),
    INNER(reserve, reserve_in),
};
SHAPE(finish_and_reserve_in);
static const struct field finish_and_reserve_always_fields[] = {STATUS(finish.status)};
SHAPE(finish_and_reserve_always);
static const struct field finish_and_reserve_good_fields[] = {
    LIST(reserve.jobs, reserve.job_max, reserve.count, 1, job),
};
SHAPE(finish_and_reserve_good);
#undef OF

#define OF bide_release_args
static const struct field release_in_fields[] = {U64(id), U64(token), I64(priority), I64(delay_ms)};
SHAPE(release_in);
#undef OF

#define OF bide_fail_args
static const struct field fail_in_fields[] = {U64(id), U64(token), SLICE(error), I64(retry_in_ms)};
SHAPE(fail_in);
static const struct field fail_good_fields[] = {ENUM(state), I64(delay_ms)};
SHAPE(fail_good);
#undef OF

#define OF bide_bury_args
static const struct field bury_in_fields[] = {U64(id), U64(token), I64(priority), SLICE(reason)};
SHAPE(bury_in);
#undef OF

#define OF bide_touch_item
static const struct field touch_in_fields[] = {U64(id), U64(token), I64(extend_ms),
                                               SLICE(progress)};
SHAPE_OF_ITEM(touch_in);
static const struct field touch_good_fields[] = {I64(left_ms)};
SHAPE(touch_good);
static const struct field touch_outcome_fields[] = {STATUS(status)};
SHAPE_OF_OUTCOME(touch_outcome, &touch_good, BIDE_CANCEL_WANTED);
#undef OF

#define OF bide_touch_many_args
static const struct field touch_many_in_fields[] = {ITEMS(items, touch_in)};
SHAPE(touch_many_in);
static const struct field touch_many_always_fields[] = {OUTCOMES(items, touch_outcome)};
SHAPE(touch_many_always);
#undef OF

/* ---- from outside ---- */

#define OF bide_kick_args
static const struct field kick_in_fields[] = {SLICE(topic), U64(max)};
SHAPE(kick_in);
static const struct field kick_always_fields[] = {U64(count)};
SHAPE(kick_always);
#undef OF

#define OF bide_update_args
static const struct field update_in_fields[] = {
    U64(id), I64(priority), I64(delay_ms), I64(run_at_ms), I64(ttr_ms), SLICE(topic),
};
SHAPE(update_in);
#undef OF

#define OF bide_purge_args
static const struct field purge_in_fields[] = {SLICE(topic), ENUM(state)};
SHAPE(purge_in);
static const struct field purge_always_fields[] = {U64(count)};
SHAPE(purge_always);
#undef OF

#define OF bide_topic_args
static const struct field topic_in_fields[] = {SLICE(topic), I64(for_ms), I32(delta)};
SHAPE(topic_in);
#undef OF

#define OF bide_drain_args
static const struct field drain_in_fields[] = {FLAG(on)};
SHAPE(drain_in);
#undef OF

/* ---- looking ---- */

#define OF bide_look_args
static const struct field look_in_fields[] = {
    U64(id), SLICE(topic), SLICE(key), ENUM(state), SPACE(job, job),
};
SHAPE(look_in);
static const struct field look_good_fields[] = {ONE(job, job)};
SHAPE(look_good);
#undef OF

#define OF bide_fetch_args
static const struct field fetch_in_fields[] = {U64(id)};
SHAPE(fetch_in);
static const struct field fetch_good_fields[] = {BUF(buf)};
SHAPE(fetch_good);
#undef OF

#define OF bide_wait_args
static const struct field wait_in_fields[] = {U64(id), I64(timeout_ms)};
SHAPE(wait_in);
static const struct field wait_good_fields[] = {ENUM(state), BUF(result), FLAG(finished)};
SHAPE(wait_good);
#undef OF

#define OF bide_list_args
static const struct field list_in_fields[] = {
    SLICE(topic),
    ENUM(state),
    SLICE(filter.key),
    SLICE(filter.text),
    I64(filter.min_age_ms),
    I64(filter.max_age_ms),
    FLAG(with_body),
    CURSOR(cursor),
    ROOM(jobs, job_max, BIDE_BATCH_JOBS, job),
    U32(filter.states),
};
SHAPE(list_in);
static const struct field list_good_fields[] = {LIST(jobs, job_max, count, 0, job), CURSOR(cursor)};
SHAPE(list_good);
#undef OF

#define OF bide_topics_args
static const struct field topics_in_fields[] = {
    CURSOR(cursor),
    ROOM(topics, topic_max, BIDE_BATCH_JOBS, topic_stats),
};
SHAPE(topics_in);
static const struct field topics_good_fields[] = {
    LIST(topics, topic_max, count, 0, topic_stats),
    CURSOR(cursor),
};
SHAPE(topics_good);
#undef OF

#define OF bide_stats_args
static const struct field stats_in_fields[] = {SPACE(stats, stats)};
SHAPE(stats_in);
static const struct field stats_good_fields[] = {ONE(stats, stats)};
SHAPE(stats_good);
#undef OF

#define OF bide_topic_stats_args
static const struct field topic_stats_in_fields[] = {SLICE(topic), SPACE(stats, topic_stats)};
SHAPE(topic_stats_in);
static const struct field topic_stats_good_fields[] = {ONE(stats, topic_stats)};
SHAPE(topic_stats_good);
#undef OF

#define OF bide_feed_args
static const struct field subscribe_in_fields[] = {SLICE(topic), U32(kinds), U32(capacity)};
SHAPE(subscribe_in);
static const struct field subscribe_good_fields[] = {FEED};
SHAPE(subscribe_good);
static const struct field events_in_fields[] = {
    FEED,
    I64(timeout_ms),
    ROOM(events, event_max, BIDE_EVENTS_MAX, event),
};
SHAPE(events_in);
static const struct field events_good_fields[] = {
    LIST(events, event_max, count, 0, event),
    U64(lost),
};
SHAPE(events_good);
static const struct field unsubscribe_in_fields[] = {FEED};
SHAPE(unsubscribe_in);
#undef OF

#define OF bide_recovered_args
static const struct field recovered_in_fields[] = {I64(timeout_ms)};
SHAPE(recovered_in);
static const struct field recovered_good_fields[] = {INNER(progress, recovery)};
SHAPE(recovered_good);
#undef OF

#define OF bide_check_args
static const struct field check_in_fields[] = {SPACE(report, report)};
SHAPE(check_in);
static const struct field check_good_fields[] = {ONE(report, report)};
SHAPE(check_good);
#undef OF

#define OF bide_backup_args
static const struct field backup_in_fields[] = {PATH(path)};
SHAPE(backup_in);
#undef OF

static const struct shape nothing = {.count = 0};

#define ANY_ROW(member, slow, in, always, good, also)                 \
    {                                                                 \
        offsetof(bide_op, member), true, slow, also, in, always, good \
    }
#define ROW(member, ...)      ANY_ROW(member, false, __VA_ARGS__)
#define SLOW_ROW(member, ...) ANY_ROW(member, true, __VA_ARGS__)

const struct call_kind bi_call_kinds[BIDE_OP_COUNT] = {
    [BIDE_OP_PUT] = ROW(put, &put_in, NULL, &put_good, BIDE_EXISTS),
    [BIDE_OP_PUT_MANY] = ROW(put_many, &put_many_in, &put_many_always, NULL, BIDE_OK),
    [BIDE_OP_RESERVE] = ROW(reserve, &reserve_in, NULL, &reserve_good, BIDE_OK),
    [BIDE_OP_RESERVE_JOB] = ROW(reserve_job, &reserve_job_in, NULL, &reserve_job_good, BIDE_OK),
    [BIDE_OP_DELETE] = ROW(lease, &lease_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_DONE] = ROW(finish, &finish_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_FINISH_MANY] = ROW(finish_many, &finish_many_in, &finish_many_always, NULL, BIDE_OK),
    [BIDE_OP_TOUCH_MANY] = ROW(touch_many, &touch_many_in, &touch_many_always, NULL, BIDE_OK),
    [BIDE_OP_FINISH_AND_RESERVE] =
        ROW(finish_and_reserve, &finish_and_reserve_in, &finish_and_reserve_always,
            &finish_and_reserve_good, BIDE_OK),
    [BIDE_OP_RELEASE] = ROW(release, &release_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_GIVE_BACK] = ROW(lease, &lease_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_FAIL] = ROW(fail, &fail_in, NULL, &fail_good, BIDE_OK),
    [BIDE_OP_BURY] = ROW(bury, &bury_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_KICK] = SLOW_ROW(kick, &kick_in, &kick_always, NULL, BIDE_OK),
    [BIDE_OP_KICK_JOB] = ROW(lease, &lease_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_TOUCH] = ROW(touch, &touch_in, NULL, &touch_good, BIDE_CANCEL_WANTED),
    [BIDE_OP_UPDATE] = ROW(update, &update_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_CANCEL] = ROW(lease, &lease_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_PEEK] = ROW(look, &look_in, NULL, &look_good, BIDE_OK),
    [BIDE_OP_PEEK_FIRST] = ROW(look, &look_in, NULL, &look_good, BIDE_OK),
    [BIDE_OP_FIND] = ROW(look, &look_in, NULL, &look_good, BIDE_OK),
    [BIDE_OP_JOB_STATS] = ROW(look, &look_in, NULL, &look_good, BIDE_OK),
    [BIDE_OP_BODY] = ROW(fetch, &fetch_in, NULL, &fetch_good, BIDE_OK),
    [BIDE_OP_RESULT] = ROW(fetch, &fetch_in, NULL, &fetch_good, BIDE_OK),
    [BIDE_OP_WAIT] = ROW(wait, &wait_in, NULL, &wait_good, BIDE_OK),
    [BIDE_OP_LIST] = SLOW_ROW(list, &list_in, NULL, &list_good, BIDE_OK),
    [BIDE_OP_TOPICS] = SLOW_ROW(topics, &topics_in, NULL, &topics_good, BIDE_OK),
    [BIDE_OP_WAITING] = SLOW_ROW(topics, &topics_in, NULL, &topics_good, BIDE_OK),
    [BIDE_OP_PURGE] = SLOW_ROW(purge, &purge_in, &purge_always, NULL, BIDE_OK),
    [BIDE_OP_PAUSE] = ROW(topic, &topic_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_RESUME] = ROW(topic, &topic_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_TOPIC_REF] = ROW(topic, &topic_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_RESTORE] = ROW(restore, &restore_in, NULL, &restore_good, BIDE_EXISTS),
    [BIDE_OP_STATS] = ROW(stats, &stats_in, NULL, &stats_good, BIDE_OK),
    [BIDE_OP_TOPIC_STATS] = ROW(topic_stats, &topic_stats_in, NULL, &topic_stats_good, BIDE_OK),
    [BIDE_OP_SUBSCRIBE] = ROW(feed, &subscribe_in, NULL, &subscribe_good, BIDE_OK),
    [BIDE_OP_EVENTS] = ROW(feed, &events_in, NULL, &events_good, BIDE_OK),
    [BIDE_OP_UNSUBSCRIBE] = ROW(feed, &unsubscribe_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_PING] = ROW(none, &nothing, NULL, NULL, BIDE_OK),
    [BIDE_OP_RECOVERED] = ROW(recovered, &recovered_in, NULL, &recovered_good, BIDE_TIMED_OUT),
    [BIDE_OP_BACKUP] = ROW(backup, &backup_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_CHECK] = SLOW_ROW(check, &check_in, NULL, &check_good, BIDE_OK),
    [BIDE_OP_DRAIN] = ROW(drain, &drain_in, NULL, NULL, BIDE_OK),
};
