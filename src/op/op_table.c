/* SPDX-License-Identifier: MIT */
/*
 * The order of fields is the order on the wire. A new field goes to the end of its table, and zero
 * in it must mean what its absence meant before.
 *
 * The fields of each struct are listed between #define STRUCT and #undef STRUCT. Of the layouts of
 * an op, _in are the arguments, _always the results that do not depend on the code, and _good the
 * results on success.
 */
#include "op/op_table.h"

#include "op/job_fields.h"
#include "op/op_args.h"
#include "op/op_codec_field.h"

/* Fields of STRUCT. */
#define FIELD(codec, at, aux_0, aux_1, limit, layout)                           \
    {                                                                           \
        &bi_op_codec_field_##codec, (at), {(aux_0), (aux_1)}, (limit), (layout) \
    }
#define OFFSET(member)        offsetof(STRUCT, member)
#define SCALAR(codec, member) FIELD(codec, OFFSET(member), 0, 0, 0, NULL)
#define ID(member)            SCALAR(id, member)
#define TIMEOUT(member)       SCALAR(timeout, member)
#define U32(member)           SCALAR(u32, member)
#define U64(member)           SCALAR(u64, member)
#define I32(member)           SCALAR(i32, member)
#define I64(member)           SCALAR(i64, member)
#define SIZE(member)          SCALAR(size, member)
#define FLAG(member)          SCALAR(flag, member)
#define ENUM(member)          SCALAR(enum, member)
#define STATUS(member)        SCALAR(status, member)
#define SLICE(member)         SCALAR(slice, member)
#define CHANGED_TOPIC(member) SCALAR(changed_topic, member)
#define UNUSED_SLICE(member)  SCALAR(unused_slice, member)
#define MADE(member)          SCALAR(made, member)
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
#define ERROR_ITEM                FIELD(error_item, 0, 0, 0, 0, NULL)
#define TOPIC(member)             FIELD(topic, OFFSET(member), 0, 0, sizeof(((STRUCT *)0)->member), NULL)
#define TEXT(member)              FIELD(text, OFFSET(member), 0, 0, sizeof(((STRUCT *)0)->member), NULL)
#define BODY(member)              FIELD(body, OFFSET(member), OFFSET(buf), OFFSET(made_), 0, NULL)
#define PART_AS(codec, member, buf_index) \
    FIELD(codec, OFFSET(member), OFFSET(member##_size), OFFSET(bufs_[buf_index]), 0, NULL)
#define PART(member, buf_index)    PART_AS(part, member, buf_index)
#define PAYLOAD(member, buf_index) PART_AS(payload, member, buf_index)
#define INNER(member, of)          FIELD(struct, OFFSET(member), 0, 0, 0, &(of))
#define POINTED(member, of)        FIELD(pointed, OFFSET(member), 0, 0, 0, &(of))
#define RESTORED(member, of)       FIELD(restored, OFFSET(member), 0, 0, 0, &(of))
#define TOPICS(max)                FIELD(topics, 0, 0, 0, max, NULL)
#define ITEMS(member, of)          FIELD(items, OFFSET(member), OFFSET(count), 0, BIDE_BATCH_JOBS, &(of))
#define OUTCOMES(member, of)       FIELD(outcomes, OFFSET(member), OFFSET(count), 0, 0, &(of))
#define SPACE(member, of)          FIELD(space, OFFSET(member), 0, 0, 0, &(of))
#define ONE(member, of)            FIELD(one, OFFSET(member), 0, 0, 0, &(of))
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

/* The kinds of job_fields.h. */
#define JOB_ID(member)        U64(member),
#define JOB_TOPIC(member)     TOPIC(member),
#define JOB_STATE(member)     ENUM(member),
#define JOB_SIZE(member)      SIZE(member),
#define JOB_FLAG(member)      FLAG(member),
#define JOB_COUNT(member)     U32(member),
#define JOB_HISTORY(member)   U32(member),
#define JOB_RETRIES(member)   I32(member),
#define JOB_DURATION(member)  I64(member),
#define JOB_TIMESTAMP(member) I64(member),

#define JOB_FIELD(kind, name)              JOB_##kind(BI_JOB_MEMBER_##kind(name))
#define JOB_OPTION(kind, name)             BI_JOB_IF_PUT_##kind(JOB_FIELD(kind, name))
#define JOB_BYTES(kind, name, least, most) kind(name, BI_JOB_BUF_##name),
#define JOB_INDEX(kind, name)              JOB_INDEX_##name,

enum { BI_JOB_SCHEDULE(JOB_INDEX) SCHEDULE_COUNT };
enum { BI_JOB_CREATED(JOB_INDEX) BI_JOB_TIMES(JOB_INDEX) TIME_COUNT };
enum { BI_JOB_COUNTERS(JOB_INDEX) COUNTER_COUNT };

/* clang-format off */
#define STRUCT bide_put_options
static const struct field options_fields[] = {
    U32(priority), ENUM(conflict), I64(delay_ms), I64(run_at_ms),
    I64(ttr_ms), SLICE(key), FLAG(key_hold_retained), BI_JOB_EXT(JOB_OPTION)
};
LAYOUT_WITH(options, .has_size_member = true);
#undef STRUCT

#define STRUCT bide_job
static const struct field job_fields[] = {
    BI_JOB_BASE(JOB_FIELD)
    BI_JOB_BODY(JOB_BYTES)
    I64S(ttr_ms, run_at_ms, SCHEDULE_COUNT),
    I64S(created_ms, done_ms, TIME_COUNT),
    U32S(reserves, touches, COUNTER_COUNT),
    BI_JOB_TEXTS(JOB_BYTES)
    BI_JOB_FLAGS(JOB_FIELD)
    BI_JOB_EXT(JOB_FIELD)
};
/* clang-format on */
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
static const struct field put_in_fields[] = {CHANGED_TOPIC(topic), POINTED(options, options),
                                             BODY(body)};
LAYOUT_ITEM(put_in);
static const struct field put_good_fields[] = {ID(id)};
LAYOUT(put_good);
static const struct field put_outcome_fields[] = {STATUS(status)};
LAYOUT_OUTCOME(put_outcome, &put_good, BIDE_EXISTS);
#undef STRUCT

#define STRUCT bide_put_many_args
static const struct field put_many_in_fields[] = {ITEMS(items, put_in)};
LAYOUT(put_many_in);
static const struct field put_many_always_fields[] = {OUTCOMES(items, put_outcome), SIZE(accepted),
                                                      ERROR_ITEM};
LAYOUT(put_many_always);
#undef STRUCT

#define STRUCT bide_restore_args
static const struct field restore_in_fields[] = {RESTORED(job, job), MADE(made_body_),
                                                 MADE(made_result_)};
LAYOUT(restore_in);
static const struct field restore_good_fields[] = {ID(id)};
LAYOUT(restore_good);
#undef STRUCT

/* ---- reserve and finish ---- */

#define STRUCT bide_reserve_args
static const struct field reserve_in_fields[] = {
    TOPICS(BIDE_RESERVE_TOPICS),
    ENUM(strategy),
    TIMEOUT(timeout_ms),
    ROOM(jobs, job_max, BIDE_BATCH_JOBS, job),
};
LAYOUT(reserve_in);
static const struct field reserve_good_fields[] = {LIST(jobs, job_max, count, 1, job)};
LAYOUT(reserve_good);
#undef STRUCT

#define STRUCT bide_reserve_job_args
static const struct field reserve_job_in_fields[] = {ID(id), SPACE(job, job)};
LAYOUT(reserve_job_in);
static const struct field reserve_job_good_fields[] = {ONE(job, job)};
LAYOUT(reserve_job_good);
#undef STRUCT

#define STRUCT bide_lease_args
static const struct field lease_in_fields[] = {ID(id), U64(token)};
LAYOUT(lease_in);
#undef STRUCT

#define STRUCT bide_finish_item
static const struct field finish_in_fields[] = {
    ID(id), U64(token), FLAG(keep), I64(retain_ms), BODY(result),
};
LAYOUT_ITEM(finish_in);
static const struct field finish_outcome_fields[] = {STATUS(status)};
LAYOUT_OUTCOME(finish_outcome, NULL, BIDE_OK);
#undef STRUCT

#define STRUCT bide_finish_many_args
static const struct field finish_many_in_fields[] = {ITEMS(items, finish_in)};
LAYOUT(finish_many_in);
static const struct field finish_many_always_fields[] = {OUTCOMES(items, finish_outcome),
                                                         ERROR_ITEM};
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
static const struct field release_in_fields[] = {ID(id), U64(token), I64(priority), I64(delay_ms)};
LAYOUT(release_in);
#undef STRUCT

#define STRUCT bide_fail_args
static const struct field fail_in_fields[] = {ID(id), U64(token), SLICE(error), I64(retry_in_ms)};
LAYOUT(fail_in);
static const struct field fail_good_fields[] = {ENUM(state), I64(delay_ms)};
LAYOUT(fail_good);
#undef STRUCT

#define STRUCT bide_bury_args
static const struct field bury_in_fields[] = {ID(id), U64(token), I64(priority), SLICE(reason)};
LAYOUT(bury_in);
#undef STRUCT

#define STRUCT bide_touch_item
static const struct field touch_in_fields[] = {ID(id), U64(token), I64(extend_ms), SLICE(progress)};
LAYOUT_ITEM(touch_in);
static const struct field touch_good_fields[] = {I64(left_ms)};
LAYOUT(touch_good);
static const struct field touch_outcome_fields[] = {STATUS(status)};
LAYOUT_OUTCOME(touch_outcome, &touch_good, BIDE_CANCEL_WANTED);
#undef STRUCT

#define STRUCT bide_touch_many_args
static const struct field touch_many_in_fields[] = {ITEMS(items, touch_in)};
LAYOUT(touch_many_in);
static const struct field touch_many_always_fields[] = {OUTCOMES(items, touch_outcome), ERROR_ITEM};
LAYOUT(touch_many_always);
#undef STRUCT

/* ---- administration ---- */

#define STRUCT bide_kick_args
static const struct field kick_in_fields[] = {CHANGED_TOPIC(topic), U64(max), FLAG(buried_only)};
LAYOUT(kick_in);
static const struct field kick_always_fields[] = {U64(count)};
LAYOUT(kick_always);
#undef STRUCT

#define STRUCT bide_update_args
static const struct field update_in_fields[] = {
    ID(id), I64(priority), I64(delay_ms), I64(run_at_ms), I64(ttr_ms), CHANGED_TOPIC(topic),
};
LAYOUT(update_in);
#undef STRUCT

#define STRUCT bide_purge_args
static const struct field purge_in_fields[] = {CHANGED_TOPIC(topic), ENUM(state)};
LAYOUT(purge_in);
static const struct field purge_always_fields[] = {U64(count)};
LAYOUT(purge_always);
#undef STRUCT

#define STRUCT bide_topic_args
static const struct field topic_in_fields[] = {CHANGED_TOPIC(topic), I64(for_ms), I32(delta)};
LAYOUT(topic_in);
/* A reference changes nothing that the order of ops depends on. */
static const struct field topic_ref_in_fields[] = {SLICE(topic), I64(for_ms), I32(delta)};
LAYOUT(topic_ref_in);
#undef STRUCT

#define STRUCT bide_drain_args
static const struct field drain_in_fields[] = {FLAG(on)};
LAYOUT(drain_in);
#undef STRUCT

/* ---- queries and events ---- */

#define STRUCT bide_query_args
/* Both are the same bytes. A query by id ignores the rest, and one by name ignores the id. */
static const struct field query_id_in_fields[] = {
    ID(id), UNUSED_SLICE(topic), UNUSED_SLICE(key), ENUM(state), SPACE(job, job),
};
LAYOUT(query_id_in);
static const struct field query_name_in_fields[] = {
    U64(id), SLICE(topic), SLICE(key), ENUM(state), SPACE(job, job),
};
LAYOUT(query_name_in);
static const struct field query_good_fields[] = {ONE(job, job)};
LAYOUT(query_good);
#undef STRUCT

#define STRUCT bide_fetch_args
static const struct field fetch_in_fields[] = {ID(id)};
LAYOUT(fetch_in);
static const struct field fetch_good_fields[] = {BUF(buf)};
LAYOUT(fetch_good);
#undef STRUCT

#define STRUCT bide_wait_args
static const struct field wait_in_fields[] = {ID(id), TIMEOUT(timeout_ms)};
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
    TIMEOUT(timeout_ms),
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
static const struct field recovered_in_fields[] = {TIMEOUT(timeout_ms)};
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

/* ---- rows ---- */

static bool has_key(const bide_put_item *item)
{
    return item->options != NULL && item->options->key.size > 0;
}

/* A key must be unique among all jobs: also among those that are not loaded. */
static bool put_needs_recovery(const bide_op *op)
{
    return has_key(&op->put);
}

static bool put_many_needs_recovery(const bide_op *op)
{
    /* The options of a rejected item may be invalid. */
    for (size_t i = 0; i < op->put_many.count; i++)
        if (op->put_many.items[i].status == BIDE_OK && has_key(&op->put_many.items[i]))
            return true;
    return false;
}

static bool restore_needs_recovery(const bide_op *op)
{
    return op->restore.job->key_size > 0;
}

/* The key of the job must be free in the topic that it moves to. */
static bool update_needs_recovery(const bide_op *op)
{
    return op->update.topic.size > 0;
}

/* The call can be repeated with the cursor that it was made with. */
static void undo_list(bide_op *op)
{
    const char *saved = op->private_.step.fetch.part.cursor;
    op->list.ordered = false;
    memcpy(op->list.cursor, saved, strlen(saved) + 1);
}

/* The columns that every row has: check, arguments, results whatever the code, results on success,
 * flags. */
#define COLUMNS(check_name, args_layout, any_layout, ok_layout, flag_bits)                 \
    .check = bi_op_check_##check_name, .args = (args_layout), .results_any = (any_layout), \
    .results_ok = (ok_layout), .flags = (flag_bits)
/* Columns of some rows. */
#define ALSO_OK(code)      .alt_ok = (code)
#define COPY(payload_name) .copy = bi_op_payload_##payload_name
#define WAITS(timeout)     .timeout_at = offsetof(bide_op, timeout)
#define RESERVE_AT(args)   .reserve_at = offsetof(bide_op, args)
#define DEPENDS(function)  .needs_recovery = (function)
#define UNDO(function)     .undo = (function)

/* clang-format off */
#define ROW_PUT \
    COLUMNS(put, &put_in, NULL, &put_good, OP_INSERTS_JOBS), \
    ALSO_OK(BIDE_EXISTS), COPY(put), DEPENDS(put_needs_recovery)
#define ROW_PUT_MANY \
    COLUMNS(put_many, &put_many_in, &put_many_always, NULL, OP_INSERTS_JOBS), \
    COPY(put_many), DEPENDS(put_many_needs_recovery)
#define ROW_RESERVE \
    COLUMNS(reserve, &reserve_in, NULL, &reserve_good, OP_RESERVES | OP_REPEATABLE | OP_BODIES), \
    WAITS(reserve.timeout_ms), RESERVE_AT(reserve)
#define ROW_RESERVE_JOB \
    COLUMNS(reserve_job, &reserve_job_in, NULL, &reserve_job_good, \
            OP_RESERVES | OP_UNDO_ON_CANCEL | OP_BODIES)
#define ROW_DELETE COLUMNS(nothing, &lease_in, NULL, NULL, 0)
#define ROW_DONE   COLUMNS(done, &finish_in, NULL, NULL, 0), COPY(done)
#define ROW_FINISH_MANY \
    COLUMNS(finish_many, &finish_many_in, &finish_many_always, NULL, 0), COPY(finish_many)
#define ROW_TOUCH_MANY COLUMNS(touch_many, &touch_many_in, &touch_many_always, NULL, 0)
#define ROW_FINISH_AND_RESERVE \
    COLUMNS(finish_and_reserve, &finish_and_reserve_in, &finish_and_reserve_always, \
            &finish_and_reserve_good, OP_RESERVES | OP_TWO_PARTS | OP_BODIES), \
    COPY(finish_and_reserve), WAITS(finish_and_reserve.reserve.timeout_ms), \
    RESERVE_AT(finish_and_reserve.reserve)
#define ROW_RELEASE   COLUMNS(release, &release_in, NULL, NULL, 0)
#define ROW_GIVE_BACK COLUMNS(nothing, &lease_in, NULL, NULL, 0)
#define ROW_FAIL      COLUMNS(fail, &fail_in, NULL, &fail_good, 0)
#define ROW_BURY      COLUMNS(bury, &bury_in, NULL, NULL, 0)
#define ROW_KICK \
    COLUMNS(kick, &kick_in, &kick_always, NULL, OP_COUNTS | OP_NEEDS_RECOVERY | OP_SLOW)
#define ROW_KICK_JOB COLUMNS(nothing, &lease_in, NULL, NULL, 0)
#define ROW_TOUCH    COLUMNS(touch, &touch_in, NULL, &touch_good, 0), ALSO_OK(BIDE_CANCEL_WANTED)
#define ROW_UPDATE   COLUMNS(update, &update_in, NULL, NULL, 0), DEPENDS(update_needs_recovery)
#define ROW_CANCEL   COLUMNS(nothing, &lease_in, NULL, NULL, 0)
#define ROW_PEEK     COLUMNS(query, &query_id_in, NULL, &query_good, OP_REPEATABLE | OP_BODIES)
#define ROW_PEEK_FIRST \
    COLUMNS(peek_first, &query_name_in, NULL, &query_good, \
            OP_NEEDS_RECOVERY | OP_REPEATABLE | OP_BODIES)
#define ROW_FIND \
    COLUMNS(find, &query_name_in, NULL, &query_good, OP_NEEDS_RECOVERY | OP_REPEATABLE | OP_BODIES)
#define ROW_JOB_STATS COLUMNS(query, &query_id_in, NULL, &query_good, OP_REPEATABLE)
#define ROW_BODY      COLUMNS(nothing, &fetch_in, NULL, &fetch_good, OP_REPEATABLE | OP_BODIES)
#define ROW_RESULT    COLUMNS(nothing, &fetch_in, NULL, &fetch_good, OP_REPEATABLE | OP_RESULTS)
#define ROW_WAIT \
    COLUMNS(wait, &wait_in, NULL, &wait_good, OP_REPEATABLE | OP_RESULTS), WAITS(wait.timeout_ms)
#define ROW_LIST \
    COLUMNS(list, &list_in, NULL, &list_good, \
            OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE | OP_SLOW | OP_PAGE | OP_BODIES), \
    UNDO(undo_list)
#define ROW_TOPICS \
    COLUMNS(topics, &topics_in, NULL, &topics_good, \
            OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE | OP_SLOW | OP_PAGE)
#define ROW_WAITING ROW_TOPICS
#define ROW_PURGE \
    COLUMNS(purge, &purge_in, &purge_always, NULL, \
            OP_COUNTS | OP_NEEDS_RECOVERY | OP_ADMIN | OP_SLOW)
#define ROW_PAUSE     COLUMNS(pause, &topic_in, NULL, NULL, OP_ADMIN)
#define ROW_RESUME    COLUMNS(resume, &topic_in, NULL, NULL, OP_NEEDS_RECOVERY | OP_ADMIN)
#define ROW_TOPIC_REF COLUMNS(topic_ref, &topic_ref_in, NULL, NULL, OP_IMMEDIATE)
#define ROW_RESTORE \
    COLUMNS(restore, &restore_in, NULL, &restore_good, OP_INSERTS_JOBS), \
    ALSO_OK(BIDE_EXISTS), COPY(restore), DEPENDS(restore_needs_recovery)
#define ROW_STATS \
    COLUMNS(stats, &stats_in, NULL, &stats_good, OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE)
#define ROW_TOPIC_STATS \
    COLUMNS(topic_stats, &topic_stats_in, NULL, &topic_stats_good, \
            OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE)
/* Repeatable: the first stream has ended with its connection. */
#define ROW_SUBSCRIBE \
    COLUMNS(subscribe, &subscribe_in, NULL, &subscribe_good, OP_IMMEDIATE | OP_REPEATABLE)
#define ROW_EVENTS \
    COLUMNS(events, &events_in, NULL, &events_good, OP_REPEATABLE), WAITS(subscription.timeout_ms)
#define ROW_UNSUBSCRIBE COLUMNS(unsubscribe, &unsubscribe_in, NULL, NULL, OP_IMMEDIATE)
#define ROW_PING        COLUMNS(nothing, &nothing, NULL, NULL, OP_IMMEDIATE | OP_REPEATABLE)
#define ROW_RECOVERED \
    COLUMNS(recovered, &recovered_in, NULL, &recovered_good, OP_IMMEDIATE | OP_REPEATABLE), \
    ALSO_OK(BIDE_TIMED_OUT), WAITS(recovered.timeout_ms)
#define ROW_BACKUP COLUMNS(backup, &backup_in, NULL, NULL, OP_MAINTENANCE | OP_ADMIN)
#define ROW_CHECK \
    COLUMNS(check, &check_in, NULL, &check_good, \
            OP_MAINTENANCE | OP_EXCLUSIVE | OP_REPEATABLE | OP_ADMIN | OP_SLOW)
#define ROW_DRAIN COLUMNS(nothing, &drain_in, NULL, NULL, OP_IMMEDIATE | OP_REPEATABLE | OP_ADMIN)
/* clang-format on */

const struct op_row bi_op_table[BIDE_OP_COUNT] = {
#define ROW(NAME, number, op_name, member)                    \
    [BIDE_OP_##NAME] = {.name = #op_name,                     \
                        .name_size = sizeof(#op_name) - 1,    \
                        .args_at = offsetof(bide_op, member), \
                        ROW_##NAME},
    BIDE_OPS(ROW)
#undef ROW
};

const char *bide_op_name(bide_op_kind kind)
{
    return bi_op_is_kind((int)kind) ? bi_op_table[kind].name : "?";
}
