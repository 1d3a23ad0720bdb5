/* SPDX-License-Identifier: MIT */
/*
 * The order of fields is the order on the wire. A new field goes to the end of its table, and zero
 * in it must mean what its absence meant before.
 *
 * The fields of each struct are listed between #define STRUCT and #undef STRUCT. Of the layouts of
 * an op, _in are the arguments, _always the results that do not depend on the code, and _good the
 * results on success.
 */
#include "op/op_codec_table.h"

/* Fields of STRUCT. */
#define FIELD(codec, at, aux_0, aux_1, limit, layout)                           \
    {                                                                           \
        &bi_op_codec_field_##codec, (at), {(aux_0), (aux_1)}, (limit), (layout) \
    }
#define OFFSET(member)        offsetof(STRUCT, member)
#define SCALAR(codec, member) FIELD(codec, OFFSET(member), 0, 0, 0, NULL)
#define U32(member)           SCALAR(u32, member)
#define U64(member)           SCALAR(u64, member)
#define I32(member)           SCALAR(i32, member)
#define I64(member)           SCALAR(i64, member)
#define SIZE(member)          SCALAR(size, member)
#define FLAG(member)          SCALAR(flag, member)
#define ENUM(member)          SCALAR(enum, member)
#define STATUS(member)        SCALAR(status, member)
#define SLICE(member)         SCALAR(slice, member)
#define BUF(member)           SCALAR(buf, member)
#define CURSOR(member)        SCALAR(cursor, member)
#define PATH(member)          SCALAR(path, member)
/* A run of members from first to last, in the order of the struct. It does not compile if their
 * number is wrong: a member that is inserted among them must go to the end of the table. */
#define RUN(codec, type, first, last, number)                                                     \
    FIELD(codec, OFFSET(first), 0, 0,                                                             \
          (number) *                                                                              \
              sizeof(char[OFFSET(last) - OFFSET(first) == ((number)-1) * sizeof(type) ? 1 : -1]), \
          NULL)
#define U32S(first, last, number) RUN(u32s, uint32_t, first, last, number)
#define U64S(first, last, number) RUN(u64s, uint64_t, first, last, number)
#define I64S(first, last, number) RUN(i64s, int64_t, first, last, number)
#define FEED                      FIELD(feed, 0, 0, 0, 0, NULL)
#define TOPIC(member)             FIELD(topic, OFFSET(member), 0, 0, sizeof(((STRUCT *)0)->member), NULL)
#define TEXT(member)              FIELD(text, OFFSET(member), 0, 0, sizeof(((STRUCT *)0)->member), NULL)
#define BODY(member)              FIELD(body, OFFSET(member), OFFSET(buf), OFFSET(made_), 0, NULL)
#define PART(member, buf_index) \
    FIELD(part, OFFSET(member), OFFSET(member##_size), OFFSET(bufs_[buf_index]), 0, NULL)
#define INNER(member, of)    FIELD(struct, OFFSET(member), 0, 0, 0, &(of))
#define POINTED(member, of)  FIELD(pointed, OFFSET(member), 0, 0, 0, &(of))
#define TOPICS(max)          FIELD(topics, 0, 0, 0, max, NULL)
#define ITEMS(member, of)    FIELD(items, OFFSET(member), OFFSET(count), 0, BIDE_BATCH_JOBS, &(of))
#define OUTCOMES(member, of) FIELD(outcomes, OFFSET(member), OFFSET(count), 0, 0, &(of))
#define SPACE(member, of)    FIELD(space, OFFSET(member), 0, 0, 0, &(of))
#define ONE(member, of)      FIELD(one, OFFSET(member), 0, 0, 0, &(of))
#define ROOM(member, max_at, max_items, of) \
    FIELD(room, OFFSET(member), OFFSET(max_at), 0, max_items, &(of))
#define LIST(member, max_at, count_at, min, of) \
    FIELD(list, OFFSET(member), OFFSET(max_at), OFFSET(count_at), min, &(of))

#define COUNT(array) (uint16_t)(sizeof(array) / sizeof((array)[0]))

/* The layout of a table of fields, with further members. */
#define LAYOUT_WITH(name, ...)                                        \
    static const struct layout name = {.fields = name##_fields,       \
                                       .count = COUNT(name##_fields), \
                                       .size = sizeof(STRUCT),        \
                                       __VA_ARGS__}
#define LAYOUT(name)      LAYOUT_WITH(name, .status = 0)
#define LAYOUT_ITEM(name) LAYOUT_WITH(name, .status = OFFSET(status))
#define LAYOUT_OUTCOME(name, fields_on_ok, alt_ok_code)                       \
    LAYOUT_WITH(name, .status = OFFSET(status), .results_ok = (fields_on_ok), \
                .alt_ok = (alt_ok_code))

static void clear_job(void *job)
{
    bide_job_clear(job);
}

/* ---- structs that ops point to ---- */

#define STRUCT bide_put_options
static const struct field options_fields[] = {
    U32(priority),        ENUM(conflict),      I64(delay_ms),           I64(run_at_ms),
    I64(ttr_ms),          SLICE(key),          FLAG(key_hold_retained), I32(max_retries),
    I64(backoff_base_ms), I64(backoff_max_ms), I64(expires_at_ms),      I64(retain_ms),
};
LAYOUT_WITH(options, .has_size_member = true);
#undef STRUCT

#define STRUCT bide_job
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
LAYOUT_WITH(job, .clear = clear_job);
#undef STRUCT

#define STRUCT bide_counts
static const struct field counts_fields[] = {U64S(delayed, urgent, 6)};
LAYOUT(counts);
#undef STRUCT

#define STRUCT bide_counters
static const struct field counters_fields[] = {U64S(puts, pauses, 14)};
LAYOUT(counters);
#undef STRUCT

#define STRUCT bide_topic_stats
static const struct field topic_stats_fields[] = {
    TOPIC(name),  INNER(jobs, counts), INNER(total, counters),
    U64(waiting), U64(references),     I64(oldest_ready_age_ms),
    FLAG(paused), I64(pause_left_ms),  I64(pause_ms),
};
LAYOUT(topic_stats);
#undef STRUCT

#define STRUCT bide_stats
static const struct field stats_fields[] = {
    INNER(jobs, counts), INNER(total, counters), U64(topics),       U64(waiting),
    U64(watching),       U64(pending_ops),       U64(memory_bytes), I64(oldest_ready_age_ms),
    I64(uptime_ms),      U64(last_id),           FLAG(draining),
};
LAYOUT(stats);
#undef STRUCT

#define STRUCT bide_event
static const struct field event_fields[] = {ENUM(kind), ENUM(state), U64(id), I64(at_ms),
                                            TOPIC(topic)};
LAYOUT(event);
#undef STRUCT

#define STRUCT bide_recovery
static const struct field recovery_fields[] = {ENUM(phase), U64(loaded), U64(failed), U64(total)};
LAYOUT(recovery);
#undef STRUCT

#define STRUCT bide_check_report
static const struct field report_fields[] = {U64(jobs), U64(damaged), U64(differences),
                                             TEXT(problem)};
LAYOUT(report);
#undef STRUCT

/* ---- put ---- */

#define STRUCT bide_put_item
static const struct field put_in_fields[] = {SLICE(topic), POINTED(options, options), BODY(body)};
LAYOUT_ITEM(put_in);
static const struct field put_good_fields[] = {U64(id)};
LAYOUT(put_good);
static const struct field put_outcome_fields[] = {STATUS(status)};
LAYOUT_OUTCOME(put_outcome, &put_good, BIDE_EXISTS);
#undef STRUCT

#define STRUCT bide_put_many_args
static const struct field put_many_in_fields[] = {ITEMS(items, put_in)};
LAYOUT(put_many_in);
static const struct field put_many_always_fields[] = {OUTCOMES(items, put_outcome), SIZE(accepted)};
LAYOUT(put_many_always);
#undef STRUCT

#define STRUCT bide_restore_args
static const struct field restore_in_fields[] = {POINTED(job, job)};
LAYOUT(restore_in);
static const struct field restore_good_fields[] = {U64(id)};
LAYOUT(restore_good);
#undef STRUCT

/* ---- reserve and finish ---- */

#define STRUCT bide_reserve_args
static const struct field reserve_in_fields[] = {
    TOPICS(BIDE_RESERVE_TOPICS),
    ENUM(strategy),
    I64(timeout_ms),
    ROOM(jobs, job_max, BIDE_BATCH_JOBS, job),
};
LAYOUT(reserve_in);
static const struct field reserve_good_fields[] = {LIST(jobs, job_max, count, 1, job)};
LAYOUT(reserve_good);
#undef STRUCT

#define STRUCT bide_reserve_job_args
static const struct field reserve_job_in_fields[] = {U64(id), SPACE(job, job)};
LAYOUT(reserve_job_in);
static const struct field reserve_job_good_fields[] = {ONE(job, job)};
LAYOUT(reserve_job_good);
#undef STRUCT

#define STRUCT bide_lease_args
static const struct field lease_in_fields[] = {U64(id), U64(token)};
LAYOUT(lease_in);
#undef STRUCT

#define STRUCT bide_finish_item
static const struct field finish_in_fields[] = {
    U64(id), U64(token), FLAG(keep), I64(retain_ms), BODY(result),
};
LAYOUT_ITEM(finish_in);
static const struct field finish_outcome_fields[] = {STATUS(status)};
LAYOUT_OUTCOME(finish_outcome, NULL, BIDE_OK);
#undef STRUCT

#define STRUCT bide_finish_many_args
static const struct field finish_many_in_fields[] = {ITEMS(items, finish_in)};
LAYOUT(finish_many_in);
static const struct field finish_many_always_fields[] = {OUTCOMES(items, finish_outcome)};
LAYOUT(finish_many_always);
#undef STRUCT

/* The status of the finish is an argument, too: unless the server sets it, the caller sees that the
 * finish was not executed. */
#define STRUCT bide_finish_and_reserve_args
static const struct field finish_and_reserve_in_fields[] = {
    INNER(finish, finish_in),
    STATUS(finish.status),
    INNER(reserve, reserve_in),
};
LAYOUT(finish_and_reserve_in);
static const struct field finish_and_reserve_always_fields[] = {STATUS(finish.status)};
LAYOUT(finish_and_reserve_always);
static const struct field finish_and_reserve_good_fields[] = {
    LIST(reserve.jobs, reserve.job_max, reserve.count, 1, job),
};
LAYOUT(finish_and_reserve_good);
#undef STRUCT

#define STRUCT bide_release_args
static const struct field release_in_fields[] = {U64(id), U64(token), I64(priority), I64(delay_ms)};
LAYOUT(release_in);
#undef STRUCT

#define STRUCT bide_fail_args
static const struct field fail_in_fields[] = {U64(id), U64(token), SLICE(error), I64(retry_in_ms)};
LAYOUT(fail_in);
static const struct field fail_good_fields[] = {ENUM(state), I64(delay_ms)};
LAYOUT(fail_good);
#undef STRUCT

#define STRUCT bide_bury_args
static const struct field bury_in_fields[] = {U64(id), U64(token), I64(priority), SLICE(reason)};
LAYOUT(bury_in);
#undef STRUCT

#define STRUCT bide_touch_item
static const struct field touch_in_fields[] = {U64(id), U64(token), I64(extend_ms),
                                               SLICE(progress)};
LAYOUT_ITEM(touch_in);
static const struct field touch_good_fields[] = {I64(left_ms)};
LAYOUT(touch_good);
static const struct field touch_outcome_fields[] = {STATUS(status)};
LAYOUT_OUTCOME(touch_outcome, &touch_good, BIDE_CANCEL_WANTED);
#undef STRUCT

#define STRUCT bide_touch_many_args
static const struct field touch_many_in_fields[] = {ITEMS(items, touch_in)};
LAYOUT(touch_many_in);
static const struct field touch_many_always_fields[] = {OUTCOMES(items, touch_outcome)};
LAYOUT(touch_many_always);
#undef STRUCT

/* ---- administration ---- */

#define STRUCT bide_kick_args
static const struct field kick_in_fields[] = {SLICE(topic), U64(max), FLAG(buried_only)};
LAYOUT(kick_in);
static const struct field kick_always_fields[] = {U64(count)};
LAYOUT(kick_always);
#undef STRUCT

#define STRUCT bide_update_args
static const struct field update_in_fields[] = {
    U64(id), I64(priority), I64(delay_ms), I64(run_at_ms), I64(ttr_ms), SLICE(topic),
};
LAYOUT(update_in);
#undef STRUCT

#define STRUCT bide_purge_args
static const struct field purge_in_fields[] = {SLICE(topic), ENUM(state)};
LAYOUT(purge_in);
static const struct field purge_always_fields[] = {U64(count)};
LAYOUT(purge_always);
#undef STRUCT

#define STRUCT bide_topic_args
static const struct field topic_in_fields[] = {SLICE(topic), I64(for_ms), I32(delta)};
LAYOUT(topic_in);
#undef STRUCT

#define STRUCT bide_drain_args
static const struct field drain_in_fields[] = {FLAG(on)};
LAYOUT(drain_in);
#undef STRUCT

/* ---- queries and events ---- */

#define STRUCT bide_query_args
static const struct field look_in_fields[] = {
    U64(id), SLICE(topic), SLICE(key), ENUM(state), SPACE(job, job),
};
LAYOUT(look_in);
static const struct field look_good_fields[] = {ONE(job, job)};
LAYOUT(look_good);
#undef STRUCT

#define STRUCT bide_fetch_args
static const struct field fetch_in_fields[] = {U64(id)};
LAYOUT(fetch_in);
static const struct field fetch_good_fields[] = {BUF(buf)};
LAYOUT(fetch_good);
#undef STRUCT

#define STRUCT bide_wait_args
static const struct field wait_in_fields[] = {U64(id), I64(timeout_ms)};
LAYOUT(wait_in);
static const struct field wait_good_fields[] = {ENUM(state), BUF(result), FLAG(finished)};
LAYOUT(wait_good);
#undef STRUCT

#define STRUCT bide_list_args
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
    U64(filter.after_id),
};
LAYOUT(list_in);
static const struct field list_good_fields[] = {LIST(jobs, job_max, count, 0, job), CURSOR(cursor),
                                                FLAG(ordered)};
LAYOUT(list_good);
#undef STRUCT

#define STRUCT bide_topics_args
static const struct field topics_in_fields[] = {
    CURSOR(cursor),
    ROOM(topics, topic_max, BIDE_BATCH_JOBS, topic_stats),
};
LAYOUT(topics_in);
static const struct field topics_good_fields[] = {
    LIST(topics, topic_max, count, 0, topic_stats),
    CURSOR(cursor),
};
LAYOUT(topics_good);
#undef STRUCT

#define STRUCT bide_stats_args
static const struct field stats_in_fields[] = {SPACE(stats, stats)};
LAYOUT(stats_in);
static const struct field stats_good_fields[] = {ONE(stats, stats)};
LAYOUT(stats_good);
#undef STRUCT

#define STRUCT bide_topic_stats_args
static const struct field topic_stats_in_fields[] = {SLICE(topic), SPACE(stats, topic_stats)};
LAYOUT(topic_stats_in);
static const struct field topic_stats_good_fields[] = {ONE(stats, topic_stats)};
LAYOUT(topic_stats_good);
#undef STRUCT

#define STRUCT bide_subscription_args
static const struct field subscribe_in_fields[] = {SLICE(topic), U32(kinds), U32(capacity)};
LAYOUT(subscribe_in);
static const struct field subscribe_good_fields[] = {FEED};
LAYOUT(subscribe_good);
static const struct field events_in_fields[] = {
    FEED,
    I64(timeout_ms),
    ROOM(events, event_max, BIDE_EVENTS_MAX, event),
};
LAYOUT(events_in);
static const struct field events_good_fields[] = {
    LIST(events, event_max, count, 0, event),
    U64(lost),
};
LAYOUT(events_good);
static const struct field unsubscribe_in_fields[] = {FEED};
LAYOUT(unsubscribe_in);
#undef STRUCT

#define STRUCT bide_recovered_args
static const struct field recovered_in_fields[] = {I64(timeout_ms)};
LAYOUT(recovered_in);
static const struct field recovered_good_fields[] = {INNER(progress, recovery)};
LAYOUT(recovered_good);
#undef STRUCT

#define STRUCT bide_check_args
static const struct field check_in_fields[] = {SPACE(report, report)};
LAYOUT(check_in);
static const struct field check_good_fields[] = {ONE(report, report)};
LAYOUT(check_good);
#undef STRUCT

#define STRUCT bide_backup_args
static const struct field backup_in_fields[] = {PATH(path)};
LAYOUT(backup_in);
#undef STRUCT

static const struct layout nothing = {.count = 0};

#define ANY_ROW(member, slow, args, results_any, results_ok, alt_ok)                 \
    {                                                                                \
        offsetof(bide_op, member), true, slow, alt_ok, args, results_any, results_ok \
    }
#define ROW(member, ...)      ANY_ROW(member, false, __VA_ARGS__)
#define SLOW_ROW(member, ...) ANY_ROW(member, true, __VA_ARGS__)

const struct op_codec_row bi_op_codec_table[BIDE_OP_COUNT] = {
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
    [BIDE_OP_PEEK] = ROW(query, &look_in, NULL, &look_good, BIDE_OK),
    [BIDE_OP_PEEK_FIRST] = ROW(query, &look_in, NULL, &look_good, BIDE_OK),
    [BIDE_OP_FIND] = ROW(query, &look_in, NULL, &look_good, BIDE_OK),
    [BIDE_OP_JOB_STATS] = ROW(query, &look_in, NULL, &look_good, BIDE_OK),
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
    [BIDE_OP_SUBSCRIBE] = ROW(subscription, &subscribe_in, NULL, &subscribe_good, BIDE_OK),
    [BIDE_OP_EVENTS] = ROW(subscription, &events_in, NULL, &events_good, BIDE_OK),
    [BIDE_OP_UNSUBSCRIBE] = ROW(subscription, &unsubscribe_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_PING] = ROW(none, &nothing, NULL, NULL, BIDE_OK),
    [BIDE_OP_RECOVERED] = ROW(recovered, &recovered_in, NULL, &recovered_good, BIDE_TIMED_OUT),
    [BIDE_OP_BACKUP] = ROW(backup, &backup_in, NULL, NULL, BIDE_OK),
    [BIDE_OP_CHECK] = SLOW_ROW(check, &check_in, NULL, &check_good, BIDE_OK),
    [BIDE_OP_DRAIN] = ROW(drain, &drain_in, NULL, NULL, BIDE_OK),
};
