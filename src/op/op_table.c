/* SPDX-License-Identifier: MIT */
/*
 * The order of fields is the order on the wire. A new field goes to the end of its list, and zero
 * in it must mean what its absence meant before.
 *
 * First the structs that ops contain or point to, each between #define STRUCT and #undef STRUCT;
 * then the rows, whose fields are members of the op.
 */
#include "op/op_table.h"

#include "op/job_fields.h"
#include "op/op_args.h"
#include "op/op_codec_field.h"
#include "op/topic_policy.h"

#include <assert.h>

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
#define ERROR_ITEM            SCALAR(error_item, error_item)
#define FEED                  FIELD(feed, 0, 0, 0, 0, NULL)
/* A run of members from first to last, in the order of the struct. It does not compile if their
 * number is wrong: a member that is inserted among them must go to the end of the table. */
#define RUN(codec, type, first, last, number)                                                     \
    FIELD(codec, OFFSET(first), 0, 0,                                                             \
          (number) *                                                                              \
              sizeof(char[OFFSET(last) - OFFSET(first) == ((number)-1) * sizeof(type) ? 1 : -1]), \
          NULL)
#define U32S(first, last, number) RUN(u32, uint32_t, first, last, number)
#define U64S(first, last, number) RUN(u64, uint64_t, first, last, number)
#define I64S(first, last, number) RUN(i64, int64_t, first, last, number)
#define TOPIC(member)             FIELD(topic, OFFSET(member), 0, 0, sizeof(((STRUCT *)0)->member), NULL)
#define TEXT(member)              FIELD(text, OFFSET(member), 0, 0, sizeof(((STRUCT *)0)->member), NULL)
#define BODY(at, member)          FIELD(body, OFFSET(at member), OFFSET(at buf), OFFSET(at made_), 0, NULL)
#define RESULT(at, member) \
    FIELD(body, OFFSET(at member), OFFSET(at buf), OFFSET(at made_), OFFSET(at keep), NULL)
#define PART_AS(codec, member, buf_index) \
    FIELD(codec, OFFSET(member), OFFSET(member##_size), OFFSET(bufs_[buf_index]), 0, NULL)
#define PART(member, buf_index)    PART_AS(part, member, buf_index)
#define PAYLOAD(member, buf_index) PART_AS(payload, member, buf_index)
#define LOG(member, unused) \
    FIELD(part, OFFSET(member), OFFSET(member##_size), OFFSET(member##_buf_), 0, NULL)
#define NAME(member, unused) LOG(member, unused)
#define INNER(member, of)    FIELD(struct, OFFSET(member), 0, 0, 0, &(of))
#define POINTED(member, of)  FIELD(pointed, OFFSET(member), 0, 0, 0, &(of))
#define RESTORED(member, of) FIELD(restored, OFFSET(member), 0, 0, 0, &(of))
#define SPACE(member, of)    FIELD(space, OFFSET(member), 0, 0, 0, &(of))
#define ONE(member, of)      FIELD(one, OFFSET(member), 0, 0, 0, &(of))
/* NOLINTBEGIN(bugprone-macro-parentheses): args is a member */
#define ITEMS(args, of) \
    FIELD(items, OFFSET(args.items), OFFSET(args.count), 0, BIDE_BATCH_JOBS, &(of))
#define OUTCOMES(args, of) FIELD(outcomes, OFFSET(args.items), OFFSET(args.count), 0, 0, &(of))
/* NOLINTEND(bugprone-macro-parentheses) */
#define ROOM(member, max_at, max_items, of) \
    FIELD(room, OFFSET(member), 0, OFFSET(max_at), max_items, &(of))
#define LIST(member, count_at, max_at, min, of) \
    FIELD(list, OFFSET(member), OFFSET(count_at), OFFSET(max_at), min, &(of))

/* The codec takes the offset of topics for that of the bide_reserve_args. */
#define TOPICS(member) FIELD(topics, OFFSET(member), 0, 0, BIDE_RESERVE_TOPICS, NULL)
static_assert(offsetof(bide_reserve_args, topics) == 0, "topics is not the first member");

/* The fields of a layout. */
#define FIELDS(...)                                \
    .fields = (const struct field[]){__VA_ARGS__}, \
    .count = sizeof((const struct field[]){__VA_ARGS__}) / sizeof(struct field)
#define LAYOUT(name, ...) static const struct layout name = {.size = sizeof(STRUCT), __VA_ARGS__}

static void clear_job(void *job)
{
    bide_job_clear(job);
}

static size_t held_by_job(const void *of)
{
    const bide_job *job = of;
    return (job->body == NULL ? 0 : job->body_size) + job->result_size + job->last_error_size +
           job->history_size + job->holder_size;
}

static void clear_announced(void *announced)
{
    bide_announced_clear(announced);
}

static size_t held_by_announced(const void *announced)
{
    return ((const bide_announced *)announced)->data_size;
}

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

/* The arguments that are items of lists, too: `at` is their place in the op, or nothing. */
#define PUT_FIELDS(at) CHANGED_TOPIC(at topic), POINTED(at options, options), BODY(at, body)
#define FINISH_FIELDS(at) \
    ID(at id), U64(at token), FLAG(at keep), I64(at retain_ms), RESULT(at, result)
#define TOUCH_FIELDS(at) ID(at id), U64(at token), I64(at extend_ms), SLICE(at progress)
#define RESERVE_FIELDS(at)                                        \
    TOPICS(at topics), ENUM(at strategy), TIMEOUT(at timeout_ms), \
        ROOM(at jobs, at job_max, BIDE_BATCH_JOBS, job), SLICE(at holder)

/* clang-format off */
#define STRUCT bide_put_options
LAYOUT(options, .has_size_member = true, FIELDS(
    U32(priority), ENUM(conflict), I64(delay_ms), I64(run_at_ms), I64(ttr_ms), SLICE(key),
    FLAG(key_hold_retained), BI_JOB_EXT(JOB_OPTION) U64(fallbacks)));
#undef STRUCT

#define STRUCT bide_job
LAYOUT(job, .clear = clear_job, .held = held_by_job, .is_job = true, FIELDS(
    BI_JOB_BASE(JOB_FIELD)
    BI_JOB_BODY(JOB_BYTES)
    I64S(ttr_ms, run_at_ms, SCHEDULE_COUNT),
    I64S(created_ms, done_ms, TIME_COUNT),
    U32S(reserves, touches, COUNTER_COUNT),
    BI_JOB_TEXTS(JOB_BYTES)
    BI_JOB_FLAGS(JOB_FIELD)
    BI_JOB_EXT(JOB_FIELD)
    BI_JOB_LOG(JOB_BYTES)
    BI_JOB_LEASE(JOB_BYTES)));
#undef STRUCT

#define STRUCT bide_counts
LAYOUT(counts, FIELDS(U64S(delayed, urgent, 6)));
#undef STRUCT

#define STRUCT bide_counters
LAYOUT(counters, FIELDS(U64S(puts, pauses, 14)));
#undef STRUCT

#define STRUCT bide_topic_stats
LAYOUT(topic_stats, FIELDS(
    TOPIC(name), INNER(jobs, counts), INNER(total, counters), U64(waiting), U64(references),
    I64(oldest_ready_age_ms), FLAG(paused), I64(pause_left_ms), I64(pause_ms),
    U64(concurrency), U64(rate), I64(rate_period_ms), I64(limit_left_ms), ENUM(limited),
    FLAG(has_policy)));
#undef STRUCT

#define STRUCT bide_topic_policy
#define POLICY_FIELD(name, least, most) I64(name),
LAYOUT(policy, FIELDS(BI_TOPIC_POLICY(POLICY_FIELD)));
#undef STRUCT

#define STRUCT bide_stats
LAYOUT(stats, FIELDS(
    INNER(jobs, counts), INNER(total, counters), U64(topics), U64(waiting), U64(watching),
    U64(pending_ops), U64(memory_bytes), I64(oldest_ready_age_ms), I64(uptime_ms), U64(last_id),
    FLAG(draining)));
#undef STRUCT

#define STRUCT bide_event
LAYOUT(event, FIELDS(ENUM(kind), ENUM(state), U64(id), I64(at_ms), TOPIC(topic)));
#undef STRUCT

#define STRUCT bide_announced
LAYOUT(announced, .clear = clear_announced, .held = held_by_announced, FIELDS(
    LOG(data, unused), I64(announced_ms), I64(left_ms)));
#undef STRUCT

#define STRUCT bide_explanation
LAYOUT(explanation, FIELDS(
    ENUM(reason), ENUM(state), U64(id), I64(until_ms), I64(left_ms), U64(ahead), FLAG(ahead_more),
    FLAG(cancel_wanted), FLAG(draining), U32(attempts), U32(failures), U64(waiting), U64(workers),
    U64(running), U64(limit), TOPIC(topic), TEXT(holder), TEXT(error), TEXT(text)));
#undef STRUCT

#define STRUCT bide_recovery
LAYOUT(recovery, FIELDS(ENUM(phase), U64(loaded), U64(failed), U64(total)));
#undef STRUCT

#define STRUCT bide_check_report
LAYOUT(report, FIELDS(U64(jobs), U64(damaged), U64(differences), TEXT(problem)));
#undef STRUCT

/* Of an item: its arguments, its results on success, and its outcome, which precedes those. */
#define STRUCT bide_put_item
LAYOUT(put_item, .status = OFFSET(status), FIELDS(PUT_FIELDS()));
LAYOUT(put_ok, FIELDS(ID(id)));
LAYOUT(put_outcome, .status = OFFSET(status), .results_ok = &put_ok, .alt_ok = BIDE_EXISTS,
       FIELDS(STATUS(status)));
#undef STRUCT

#define STRUCT bide_finish_item
LAYOUT(finish_item, .status = OFFSET(status), FIELDS(FINISH_FIELDS()));
LAYOUT(finish_outcome, .status = OFFSET(status), FIELDS(STATUS(status)));
#undef STRUCT

#define STRUCT bide_touch_item
LAYOUT(touch_item, .status = OFFSET(status), FIELDS(TOUCH_FIELDS()));
LAYOUT(touch_ok, FIELDS(I64(left_ms)));
LAYOUT(touch_outcome, .status = OFFSET(status), .results_ok = &touch_ok,
       .alt_ok = BIDE_CANCEL_WANTED, FIELDS(STATUS(status)));
#undef STRUCT

#define STRUCT bide_reserve_args
LAYOUT(reserve_args, FIELDS(RESERVE_FIELDS()));
#undef STRUCT

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

static bool items_have_key(const bide_put_item *items, size_t count)
{
    /* The options of a rejected item may be invalid. */
    for (size_t i = 0; i < count; i++)
        if (items[i].status == BIDE_OK && has_key(&items[i]))
            return true;
    return false;
}

static bool put_many_needs_recovery(const bide_op *op)
{
    return items_have_key(op->put_many.items, op->put_many.count);
}

static bool finish_and_put_needs_recovery(const bide_op *op)
{
    return items_have_key(op->finish_and_put.items, op->finish_and_put.count);
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

/* ---- columns ---- */

#define STRUCT bide_op

/* What every row has: rules of its arguments, a check of them, or both; flags, and arguments. */
#define CHECK(name) .check = bi_op_check_##name
#define RULES(...)  .rules = (const struct op_rule[]){__VA_ARGS__, {NULL, NULL, 0}}
#define NO_RULES    .rules = (const struct op_rule[]){{NULL, NULL, 0}}
/* NOLINTBEGIN(bugprone-macro-parentheses): args is a member */
#define LIST_RULES(args) \
    RULES(RULE(pointer, "items", args.items), RULE(count, "count", args.count))
/* NOLINTEND(bugprone-macro-parentheses) */
#define RULE(rule, what, member) {bi_op_check_##rule, what, offsetof(bide_op, member)}
#define FLAGS(bits)   .flags = (bits)
#define ARGS(...)     .args = &(const struct layout){FIELDS(__VA_ARGS__)}
#define NO_ARGS       .args = &(const struct layout){.count = 0}
/* What some rows have: results whatever the code, and results on success. */
#define RESULTS(...)  .results_any = &(const struct layout){FIELDS(__VA_ARGS__)}
#define OK(...)       .results_ok = &(const struct layout){FIELDS(__VA_ARGS__)}
#define ALSO_OK(code)      .alt_ok = (code)
#define WAITS(timeout)     .timeout_at = offsetof(bide_op, timeout)
#define RESERVE_AT(args)   .reserve_at = offsetof(bide_op, args)
#define HOLDER_AT(holder)  .holder_at = offsetof(bide_op, holder)
#define DEPENDS(function)  .needs_recovery = (function)
#define UNDO(function)     .undo = (function)

/* ---- put ---- */

#define ROW_PUT \
    CHECK(put), FLAGS(OP_INSERTS_JOBS | OP_PAYLOAD), ARGS(PUT_FIELDS(put.)), OK(ID(put.id)), \
    ALSO_OK(BIDE_EXISTS), DEPENDS(put_needs_recovery)
#define ROW_PUT_MANY \
    LIST_RULES(put_many), CHECK(put_many), FLAGS(OP_INSERTS_JOBS | OP_PAYLOAD), \
    ARGS(ITEMS(put_many, put_item)), \
    RESULTS(OUTCOMES(put_many, put_outcome), SIZE(put_many.accepted), ERROR_ITEM), \
    DEPENDS(put_many_needs_recovery)
#define ROW_RESTORE \
    CHECK(restore), FLAGS(OP_INSERTS_JOBS | OP_PAYLOAD), \
    ARGS(RESTORED(restore.job, job), MADE(restore.made_body_), MADE(restore.made_result_)), \
    OK(ID(restore.id)), ALSO_OK(BIDE_EXISTS), DEPENDS(restore_needs_recovery)

/* ---- reserve and finish ---- */

#define ROW_RESERVE \
    RULES(RULE(holder, NULL, reserve.holder)), CHECK(reserve), FLAGS(OP_RESERVES | OP_REPEATABLE | OP_BODIES), \
    ARGS(RESERVE_FIELDS(reserve.)), \
    OK(LIST(reserve.jobs, reserve.count, reserve.job_max, 1, job)), \
    WAITS(reserve.timeout_ms), RESERVE_AT(reserve), HOLDER_AT(reserve.holder)
#define ROW_RESERVE_JOB \
    RULES(RULE(pointer, "job", reserve_job.job), RULE(holder, NULL, reserve_job.holder)), \
    FLAGS(OP_RESERVES | OP_UNDO_ON_CANCEL | OP_BODIES), \
    ARGS(ID(reserve_job.id), SPACE(reserve_job.job, job), SLICE(reserve_job.holder)), \
    OK(ONE(reserve_job.job, job)), HOLDER_AT(reserve_job.holder)
#define ROW_LEASE     NO_RULES, FLAGS(0), ARGS(ID(lease.id), U64(lease.token))
#define ROW_DELETE    ROW_LEASE
#define ROW_GIVE_BACK ROW_LEASE
#define ROW_DONE      CHECK(done), FLAGS(OP_PAYLOAD), ARGS(FINISH_FIELDS(finish.))
#define ROW_FINISH_MANY \
    LIST_RULES(finish_many), CHECK(finish_many), FLAGS(OP_PAYLOAD), ARGS(ITEMS(finish_many, finish_item)), \
    RESULTS(OUTCOMES(finish_many, finish_outcome), ERROR_ITEM)
/* The status of the finish is an argument, too: unless the server sets it, the caller sees that the
 * finish was not executed. */
#define ROW_FINISH_AND_RESERVE \
    RULES(RULE(holder, NULL, finish_and_reserve.reserve.holder)), CHECK(finish_and_reserve), FLAGS(OP_RESERVES | OP_TWO_PARTS | OP_BODIES | OP_PAYLOAD), \
    ARGS(INNER(finish_and_reserve.finish, finish_item), \
         STATUS(finish_and_reserve.finish.status), \
         INNER(finish_and_reserve.reserve, reserve_args)), \
    RESULTS(STATUS(finish_and_reserve.finish.status)), \
    OK(LIST(finish_and_reserve.reserve.jobs, finish_and_reserve.reserve.count, \
            finish_and_reserve.reserve.job_max, 1, job)), \
    WAITS(finish_and_reserve.reserve.timeout_ms), \
    RESERVE_AT(finish_and_reserve.reserve), HOLDER_AT(finish_and_reserve.reserve.holder)
/* The items first: functions for lists find them there. */
#define ROW_FINISH_AND_PUT \
    RULES(RULE(pointer, "items", finish_and_put.items), RULE(count, "count", finish_and_put.count), \
          RULE(ending, NULL, finish_and_put.ending), \
          RULE(priority, "the priority", finish_and_put.priority), \
          RULE(duration, "delay_ms", finish_and_put.delay_ms), \
          RULE(slice, "the reason", finish_and_put.reason)), \
    CHECK(finish_and_put), FLAGS(OP_INSERTS_JOBS | OP_PAYLOAD | OP_ATOMIC), \
    ARGS(ITEMS(finish_and_put, put_item), INNER(finish_and_put.finish, finish_item), \
         ENUM(finish_and_put.ending), I64(finish_and_put.priority), I64(finish_and_put.delay_ms), \
         I64(finish_and_put.run_at_ms), SLICE(finish_and_put.reason)), \
    RESULTS(OUTCOMES(finish_and_put, put_outcome), SIZE(finish_and_put.accepted), ERROR_ITEM), \
    DEPENDS(finish_and_put_needs_recovery)
#define ROW_RELEASE \
    RULES(RULE(priority, "the priority", release.priority), \
          RULE(duration, "delay_ms", release.delay_ms)), \
    FLAGS(0), \
    ARGS(ID(release.id), U64(release.token), I64(release.priority), I64(release.delay_ms))
#define ROW_FAIL \
    RULES(RULE(slice, "the error text", fail.error), \
          RULE(duration_or_keep, "retry_in_ms", fail.retry_in_ms), \
          RULE(fail_kind, NULL, fail.kind)), \
    FLAGS(0), \
    ARGS(ID(fail.id), U64(fail.token), SLICE(fail.error), I64(fail.retry_in_ms), ENUM(fail.kind)), \
    OK(ENUM(fail.state), I64(fail.delay_ms))
#define ROW_BURY \
    RULES(RULE(slice, "the reason", bury.reason), \
          RULE(priority, "the priority", bury.priority)), \
    FLAGS(0), \
    ARGS(ID(bury.id), U64(bury.token), I64(bury.priority), SLICE(bury.reason))
#define ROW_TOUCH \
    CHECK(touch), FLAGS(0), ARGS(TOUCH_FIELDS(touch.)), OK(I64(touch.left_ms)), \
    ALSO_OK(BIDE_CANCEL_WANTED)
#define ROW_TOUCH_MANY \
    LIST_RULES(touch_many), CHECK(touch_many), FLAGS(0), ARGS(ITEMS(touch_many, touch_item)), \
    RESULTS(OUTCOMES(touch_many, touch_outcome), ERROR_ITEM)

/* ---- administration ---- */

#define ROW_KICK \
    RULES(RULE(topic, NULL, kick.topic)), FLAGS(OP_COUNTS | OP_NEEDS_RECOVERY | OP_SLOW), \
    ARGS(CHANGED_TOPIC(kick.topic), U64(kick.max), FLAG(kick.buried_only)), \
    RESULTS(U64(kick.count))
#define ROW_KICK_JOB ROW_LEASE
#define ROW_UPDATE \
    RULES(RULE(priority, "the priority", update.priority), \
          RULE(duration_or_keep, "delay_ms", update.delay_ms), \
          RULE(duration_or_keep, "ttr_ms", update.ttr_ms), RULE(any_topic, NULL, update.topic)), \
    CHECK(update), FLAGS(0), \
    ARGS(ID(update.id), I64(update.priority), I64(update.delay_ms), I64(update.run_at_ms), \
         I64(update.ttr_ms), CHANGED_TOPIC(update.topic)), \
    DEPENDS(update_needs_recovery)
#define ROW_CANCEL ROW_LEASE
#define ROW_PURGE \
    RULES(RULE(topic, NULL, purge.topic), RULE(state, NULL, purge.state)), CHECK(purge), \
    FLAGS(OP_COUNTS | OP_NEEDS_RECOVERY | OP_ADMIN | OP_SLOW), \
    ARGS(CHANGED_TOPIC(purge.topic), ENUM(purge.state)), RESULTS(U64(purge.count))
#define TOPIC_ARGS(topic_field) ARGS(topic_field(topic.topic), I64(topic.for_ms), I32(topic.delta))
#define ROW_PAUSE  \
    RULES(RULE(topic, NULL, topic.topic), RULE(duration_or_forever, "for_ms", topic.for_ms)), \
    FLAGS(OP_ADMIN), TOPIC_ARGS(CHANGED_TOPIC)
#define ROW_RESUME \
    RULES(RULE(topic, NULL, topic.topic)), FLAGS(OP_NEEDS_RECOVERY | OP_ADMIN), TOPIC_ARGS(CHANGED_TOPIC)
#define ROW_TOPIC_SET \
    RULES(RULE(topic, NULL, topic_set.topic)), CHECK(topic_set), FLAGS(OP_ADMIN), \
    ARGS(CHANGED_TOPIC(topic_set.topic), INNER(topic_set.policy, policy))
/* Its topic as one that it changes: it does not overtake such an op that waits. */
#define ROW_TOPIC_GET \
    RULES(RULE(topic, NULL, topic_get.topic), RULE(pointer, "policy", topic_get.policy), \
          RULE(pointer, "in_force", topic_get.in_force)), \
    FLAGS(OP_REPEATABLE), \
    ARGS(CHANGED_TOPIC(topic_get.topic), SPACE(topic_get.policy, policy), \
         SPACE(topic_get.in_force, policy)), \
    OK(ONE(topic_get.policy, policy), ONE(topic_get.in_force, policy))
/* A reference changes nothing that the order of ops depends on. */
#define ROW_TOPIC_REF \
    RULES(RULE(topic, NULL, topic.topic)), CHECK(topic_ref), FLAGS(OP_IMMEDIATE), TOPIC_ARGS(SLICE)
#define ROW_DRAIN \
    NO_RULES, FLAGS(OP_IMMEDIATE | OP_REPEATABLE | OP_ADMIN), ARGS(FLAG(drain.on))

/* ---- queries and events ---- */

/* Both are the same bytes. A query by id ignores the rest, and one by name ignores the id. */
#define BY_ID \
    ARGS(ID(query.id), UNUSED_SLICE(query.topic), UNUSED_SLICE(query.key), ENUM(query.state), \
         SPACE(query.job, job)), \
    OK(ONE(query.job, job))
#define BY_NAME \
    ARGS(U64(query.id), SLICE(query.topic), SLICE(query.key), ENUM(query.state), \
         SPACE(query.job, job)), \
    OK(ONE(query.job, job))
#define ROW_PEEK       RULES(RULE(pointer, "job", query.job)), FLAGS(OP_REPEATABLE | OP_BODIES), BY_ID
#define ROW_PEEK_FIRST \
    RULES(RULE(pointer, "job", query.job), RULE(topic, NULL, query.topic), \
          RULE(state, NULL, query.state)), \
    FLAGS(OP_NEEDS_RECOVERY | OP_REPEATABLE | OP_BODIES), BY_NAME
#define ROW_FIND       \
    RULES(RULE(pointer, "job", query.job), RULE(topic, NULL, query.topic), \
          RULE(key, "the key", query.key)), \
    CHECK(find), FLAGS(OP_NEEDS_RECOVERY | OP_REPEATABLE | OP_BODIES), BY_NAME
#define ROW_JOB_STATS  RULES(RULE(pointer, "job", query.job)), FLAGS(OP_REPEATABLE), BY_ID
#define FETCH          ARGS(ID(fetch.id)), OK(BUF(fetch.buf))
#define ROW_BODY       NO_RULES, FLAGS(OP_REPEATABLE | OP_BODIES), FETCH
#define ROW_RESULT     NO_RULES, FLAGS(OP_REPEATABLE | OP_RESULTS), FETCH
#define ROW_WAIT \
    RULES(RULE(duration_or_forever, "timeout_ms", wait.timeout_ms)), \
    FLAGS(OP_REPEATABLE | OP_RESULTS), ARGS(ID(wait.id), TIMEOUT(wait.timeout_ms)), \
    OK(ENUM(wait.state), BUF(wait.result), FLAG(wait.finished)), WAITS(wait.timeout_ms)
#define ROW_LIST \
    RULES(RULE(cursor, "the cursor", list.cursor), RULE(pointer, "jobs", list.jobs), \
          RULE(count, "max", list.job_max), RULE(any_topic, NULL, list.topic), \
          RULE(any_state, NULL, list.state), RULE(state_set, "states", list.filter.states), \
          RULE(text, "the text of the filter", list.filter.text), \
          RULE(key, "the key", list.filter.key), \
          RULE(duration, "min_age_ms", list.filter.min_age_ms), \
          RULE(duration, "max_age_ms", list.filter.max_age_ms)), \
    CHECK(list), \
    FLAGS(OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE | OP_SLOW | OP_PAGE | OP_BODIES), \
    ARGS(SLICE(list.topic), ENUM(list.state), SLICE(list.filter.key), SLICE(list.filter.text), \
         I64(list.filter.min_age_ms), I64(list.filter.max_age_ms), FLAG(list.with_body), \
         CURSOR(list.cursor), ROOM(list.jobs, list.job_max, BIDE_BATCH_JOBS, job), \
         U32(list.filter.states), U64(list.filter.after_id)), \
    OK(LIST(list.jobs, list.count, list.job_max, 0, job), CURSOR(list.cursor), \
       FLAG(list.ordered)), \
    UNDO(undo_list)
#define ROW_TOPICS \
    RULES(RULE(cursor, "the cursor", topics.cursor), RULE(pointer, "topics", topics.topics), \
          RULE(count, "max", topics.topic_max)), \
    FLAGS(OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE | OP_SLOW | OP_PAGE), \
    ARGS(CURSOR(topics.cursor), \
         ROOM(topics.topics, topics.topic_max, BIDE_BATCH_JOBS, topic_stats)), \
    OK(LIST(topics.topics, topics.count, topics.topic_max, 0, topic_stats), CURSOR(topics.cursor))
#define ROW_WAITING ROW_TOPICS
#define ROW_ANNOUNCE \
    RULES(RULE(duration, "ttl_ms", announce.ttl_ms)), CHECK(announce), \
    FLAGS(OP_IMMEDIATE | OP_REPEATABLE | OP_PAYLOAD), \
    ARGS(BODY(announce., worker), I64(announce.ttl_ms))
#define ROW_WORKERS \
    RULES(RULE(cursor, "the cursor", workers.cursor), RULE(pointer, "workers", workers.workers), \
          RULE(count, "max", workers.worker_max)), \
    FLAGS(OP_IMMEDIATE | OP_REPEATABLE | OP_SLOW | OP_PAGE), \
    ARGS(CURSOR(workers.cursor), \
         ROOM(workers.workers, workers.worker_max, BIDE_BATCH_JOBS, announced)), \
    OK(LIST(workers.workers, workers.count, workers.worker_max, 0, announced), \
       CURSOR(workers.cursor))
/* What runs now, or comes first, may still have to be loaded. */
#define ROW_WHY \
    RULES(RULE(pointer, "why", why.why)), CHECK(why), \
    FLAGS(OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE), \
    ARGS(U64(why.id), SLICE(why.topic), SLICE(why.key), SPACE(why.why, explanation)), \
    OK(ONE(why.why, explanation))
#define ROW_STATS \
    RULES(RULE(pointer, "stats", stats.stats)), \
    FLAGS(OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE), \
    ARGS(SPACE(stats.stats, stats)), OK(ONE(stats.stats, stats))
#define ROW_TOPIC_STATS \
    RULES(RULE(topic, NULL, topic_stats.topic), RULE(pointer, "stats", topic_stats.stats)), \
    FLAGS(OP_IMMEDIATE | OP_NEEDS_RECOVERY | OP_REPEATABLE), \
    ARGS(SLICE(topic_stats.topic), SPACE(topic_stats.stats, topic_stats)), \
    OK(ONE(topic_stats.stats, topic_stats))
/* Repeatable: the first stream has ended with its connection. */
#define ROW_SUBSCRIBE \
    RULES(RULE(any_topic, NULL, subscription.topic)), CHECK(subscribe), \
    FLAGS(OP_IMMEDIATE | OP_REPEATABLE), \
    ARGS(SLICE(subscription.topic), U32(subscription.kinds), U32(subscription.capacity)), OK(FEED)
#define ROW_EVENTS \
    RULES(RULE(pointer, "feed", subscription.handle), \
          RULE(pointer, "events", subscription.events), \
          RULE(duration_or_forever, "timeout_ms", subscription.timeout_ms), \
          RULE(event_count, "max", subscription.event_max)), \
    FLAGS(OP_REPEATABLE), \
    ARGS(FEED, TIMEOUT(subscription.timeout_ms), \
         ROOM(subscription.events, subscription.event_max, BIDE_EVENTS_MAX, event)), \
    OK(LIST(subscription.events, subscription.count, subscription.event_max, 0, event), \
       U64(subscription.lost)), \
    WAITS(subscription.timeout_ms)
#define ROW_UNSUBSCRIBE \
    RULES(RULE(pointer, "feed", subscription.handle)), FLAGS(OP_IMMEDIATE), ARGS(FEED)
#define ROW_PING        NO_RULES, FLAGS(OP_IMMEDIATE | OP_REPEATABLE), NO_ARGS
#define ROW_RECOVERED \
    RULES(RULE(duration_or_forever, "timeout_ms", recovered.timeout_ms)), \
    FLAGS(OP_IMMEDIATE | OP_REPEATABLE), ARGS(TIMEOUT(recovered.timeout_ms)), \
    OK(INNER(recovered.progress, recovery)), ALSO_OK(BIDE_TIMED_OUT), WAITS(recovered.timeout_ms)
#define ROW_BACKUP \
    RULES(RULE(pointer, "path", backup.path)), CHECK(backup), FLAGS(OP_MAINTENANCE | OP_ADMIN), ARGS(PATH(backup.path))
#define ROW_CHECK \
    RULES(RULE(pointer, "report", check.report)), \
    FLAGS(OP_MAINTENANCE | OP_EXCLUSIVE | OP_REPEATABLE | OP_ADMIN | OP_SLOW), \
    ARGS(SPACE(check.report, report)), OK(ONE(check.report, report))
/* clang-format on */

const struct op_row bi_op_table[BIDE_OP_COUNT] = {
#define ROW(NAME, number, op_name, member) \
    [BIDE_OP_##NAME] = {.name = #op_name, .name_size = sizeof(#op_name) - 1, ROW_##NAME},
    BIDE_OPS(ROW)
#undef ROW
};

const char *bide_op_name(bide_op_kind kind)
{
    return bi_op_is_kind((int)kind) ? bi_op_table[kind].name : "?";
}
