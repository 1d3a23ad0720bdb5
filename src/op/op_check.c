/* SPDX-License-Identifier: MIT */
#include "op/op_table.h"

#include "op/job_fields.h"
#include "op/op_codec_field.h"
#include "op/op_result.h"
#include "op/topic_policy.h"
#include "op/worker_info.h"
#include "util/sized_struct.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TRY(expression)           \
    do {                          \
        int code_ = (expression); \
        if (code_ != BIDE_OK)     \
            return code_;         \
    } while (0)

int bi_op_reject(bide_op *op, int code, const char *format, ...)
{
    int size = snprintf(op->error, sizeof(op->error), "%s: ", bide_op_name(op->kind));
    va_list args;

    va_start(args, format);
    vsnprintf(op->error + size, sizeof(op->error) - (size_t)size, format, args);
    va_end(args);
    return code;
}

#define invalid(op, ...) bi_op_reject(op, BIDE_EINVAL, __VA_ARGS__)

static int check_size(bide_op *op, const char *what, size_t size, size_t max)
{
    if (size <= max)
        return BIDE_OK;
    return bi_op_reject(op, BIDE_TOO_BIG, "%s has %zu bytes, %zu are allowed", what, size, max);
}

/* A member of a newer version must not be ignored. */
static int check_room(bide_op *op, const char *what, const uint64_t *room, size_t count)
{
    uint64_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= room[i];
    return any == 0
               ? BIDE_OK
               : invalid(op, "%s has members that this version of the library does not know", what);
}

#define CHECK_ROOM(op, what, of) \
    check_room((op), (what), (of)->room_, sizeof((of)->room_) / sizeof(uint64_t))

/* ---- single arguments ---- */

bool bi_topic_name_valid(bide_slice name)
{
    /* A-Z a-z 0-9 - + / ; . $ _ ( ) as a set of bits; a test compares it with the alphabet. */
    static const uint64_t allowed[4] = {UINT64_C(0x0bffeb1000000000), UINT64_C(0x07fffffe87fffffe)};
    const unsigned char *bytes = name.data;

    /* The alphabet and the rule for '-' are those of beanstalkd's tubes. */
    if (bytes == NULL || name.size == 0 || name.size > BIDE_TOPIC_MAX || bytes[0] == '-')
        return false;

    for (size_t i = 0; i < name.size; i++)
        if ((allowed[bytes[i] >> 6] >> (bytes[i] & 63) & 1) == 0)
            return false;
    return true;
}

/* Copies the beginning of some bytes, with ? for what is not printable ASCII: the message may
 * end up on a terminal or in a log. */
static void make_printable(bide_slice bytes, char *to, size_t room)
{
    size_t size = bytes.size < room ? bytes.size : room - 1;

    for (size_t i = 0; i < size; i++) {
        char byte = ((const char *)bytes.data)[i];
        to[i] = (char)(byte >= 32 && byte < 127 ? byte : '?');
    }
    to[size] = 0;
}

int bi_op_check_topic(bide_op *op, const char *what, const void *member)
{
    const bide_slice *name = member;
    (void)what;

    /* The common case first; the rest only finds the best message. */
    if (bi_topic_name_valid(*name))
        return BIDE_OK;

    if (name->data == NULL || name->size == 0)
        return invalid(op, "a topic name is needed");
    if (name->size > BIDE_TOPIC_MAX)
        return invalid(op, "the topic name has %zu bytes; %d are allowed", name->size,
                       BIDE_TOPIC_MAX);

    char shown[41];
    make_printable(*name, shown, sizeof(shown));
    return invalid(
        op, "\"%s\" is not a valid topic name: letters, digits and -+/;.$_() only, no - in front",
        shown);
}

int bi_op_check_any_topic(bide_op *op, const char *what, const void *member)
{
    return ((const bide_slice *)member)->size == 0 ? BIDE_OK : bi_op_check_topic(op, what, member);
}

int bi_op_check_slice(bide_op *op, const char *what, const void *member)
{
    const bide_slice *slice = member;
    if (slice->data == NULL && slice->size > 0)
        return invalid(op, "%s is NULL and has %zu bytes", what, slice->size);
    return BIDE_OK;
}

int bi_op_check_key(bide_op *op, const char *what, const void *member)
{
    const bide_slice *key = member;
    TRY(bi_op_check_slice(op, what, key));
    if (key->size > BIDE_KEY_MAX)
        return invalid(op, "%s has %zu bytes; %d are allowed", what, key->size, BIDE_KEY_MAX);
    return BIDE_OK;
}

static int check_range(bide_op *op, const char *what, int64_t number, int64_t min, int64_t max,
                       const char *allowed)
{
    if (number >= min && number <= max)
        return BIDE_OK;
    return invalid(op, "%s is %lld; %s", what, (long long)number, allowed);
}

#define DURATIONS "0 to 136 years in milliseconds are allowed"

int bi_op_check_duration(bide_op *op, const char *what, const void *member)
{
    return check_range(op, what, *(const int64_t *)member, 0, BIDE_TIME_MAX_MS, DURATIONS);
}

int bi_op_check_duration_or_keep(bide_op *op, const char *what, const void *member)
{
    return check_range(op, what, *(const int64_t *)member, BIDE_KEEP, BIDE_TIME_MAX_MS,
                       DURATIONS ", or BIDE_KEEP");
}

int bi_op_check_duration_or_forever(bide_op *op, const char *what, const void *member)
{
    return check_range(op, what, *(const int64_t *)member, BIDE_FOREVER, BIDE_TIME_MAX_MS,
                       DURATIONS ", or BIDE_FOREVER");
}

int bi_op_check_priority(bide_op *op, const char *what, const void *member)
{
    return check_range(op, what, *(const int64_t *)member, BIDE_KEEP, UINT32_MAX,
                       "0 to 4294967295 are allowed, or BIDE_KEEP");
}

static int check_time(bide_op *op, const char *what, int64_t ms)
{
    return check_range(op, what, ms, 0, BIDE_TIMESTAMP_MAX_MS,
                       "allowed are milliseconds since 1970, up to the year 2200");
}

/* A time that the caller chooses; 0: none. A time before the year 2000 was given in seconds by
 * mistake. */
static int check_user_time(bide_op *op, const char *what, int64_t ms)
{
    const int64_t year_2000 = INT64_C(946684800000);

    if (ms > 0 && ms < year_2000)
        return invalid(op,
                       "%s is %lld, a time before the year 2000; it takes milliseconds since 1970",
                       what, (long long)ms);
    return check_time(op, what, ms);
}

int bi_op_check_pointer(bide_op *op, const char *what, const void *member)
{
    return pointer_at(member, 0) == NULL ? invalid(op, "%s is NULL", what) : BIDE_OK;
}

static int check_count(bide_op *op, const char *what, size_t count, int max)
{
    if (count >= 1 && count <= (size_t)max)
        return BIDE_OK;
    return invalid(op, "%s is %zu; 1 to %d are allowed", what, count, max);
}

int bi_op_check_count(bide_op *op, const char *what, const void *member)
{
    return check_count(op, what, *(const size_t *)member, BIDE_BATCH_JOBS);
}

int bi_op_check_event_count(bide_op *op, const char *what, const void *member)
{
    return check_count(op, what, *(const size_t *)member, BIDE_EVENTS_MAX);
}

int bi_op_check_state(bide_op *op, const char *what, const void *member)
{
    bide_state state = *(const bide_state *)member;
    (void)what;
    if (state < BIDE_STATE_DELAYED || state > BIDE_STATE_DONE)
        return invalid(op, "%d is not a state of a job", (int)state);
    return BIDE_OK;
}

int bi_op_check_any_state(bide_op *op, const char *what, const void *member)
{
    /* BIDE_STATE_GONE, which is 0, stands for every state. */
    return *(const bide_state *)member == BIDE_STATE_GONE ? BIDE_OK
                                                          : bi_op_check_state(op, what, member);
}

int bi_op_check_state_set(bide_op *op, const char *what, const void *member)
{
    const uint32_t all = 1u << BIDE_STATE_DELAYED | 1u << BIDE_STATE_READY |
                         1u << BIDE_STATE_RESERVED | 1u << BIDE_STATE_BURIED |
                         1u << BIDE_STATE_DONE;
    if ((*(const uint32_t *)member & ~all) != 0)
        return invalid(op, "%s has a bit that stands for no state", what);
    return BIDE_OK;
}

int bi_op_check_fail_kind(bide_op *op, const char *what, const void *member)
{
    bide_failure_kind kind = *(const bide_failure_kind *)member;
    (void)what;
    if (kind != BIDE_FAILURE_FAILED && kind != BIDE_FAILURE_DISCONNECTED)
        return invalid(op, "%d is not a kind of failure that a fail can report", (int)kind);
    return BIDE_OK;
}

int bi_op_check_ending(bide_op *op, const char *what, const void *member)
{
    (void)what;
    /* Unsigned, so that a negative value is rejected as well. */
    if (*(const unsigned *)member > BIDE_ENDING_BURY)
        return invalid(op, "%d is not an ending of a job", *(const int *)member);
    return BIDE_OK;
}

int bi_op_check_holder(bide_op *op, const char *what, const void *member)
{
    const bide_slice *holder = member;
    (void)what;
    TRY(bi_op_check_slice(op, "the holder", holder));
    if (holder->size > BIDE_HOLDER_MAX)
        return invalid(op, "the name of the holder has %zu bytes; %d are allowed", holder->size,
                       BIDE_HOLDER_MAX);
    return BIDE_OK;
}

int bi_op_check_text(bide_op *op, const char *what, const void *member)
{
    const bide_slice *text = member;
    TRY(bi_op_check_slice(op, what, text));
    return check_size(op, what, text->size, BIDE_TEXT_MAX);
}

int bi_op_check_cursor(bide_op *op, const char *what, const void *member)
{
    TRY(bi_op_check_pointer(op, what, member));
    /* An uninitialized buffer has no end. */
    if (memchr(pointer_at(member, 0), 0, BIDE_CURSOR_SIZE) == NULL)
        return invalid(op, "%s is not one that this call gave", what);
    return BIDE_OK;
}

/* ---- items of lists ---- */

/* Checks each item of a list. An invalid item fails alone. */
static int check_items(const bide_options *options, bide_op *op,
                       int (*check)(const bide_options *options, bide_op *op, const void *item))
{
    const struct field *list = &bi_op_row(op)->args->fields[0];
    assert(list->codec == &bi_op_codec_field_items);

    struct bulk_errors errors;
    char *item = pointer_at(op, list->at);
    size_t count = size_at(op, list->aux[0]);

    bi_bulk_begin(&errors, op);
    for (size_t i = 0; i < count; i++, item += list->layout->size) {
        int code = check(options, op, item);
        *(int *)member_at(item, list->layout->status) = code;
        bi_bulk_record(&errors, op, i, code);
    }
    bi_bulk_end(&errors, op);
    return BIDE_OK;
}

/* ---- put ---- */

/* Copies options of a program that was compiled with another version of the library. */
static int read_other_options(bide_op *op, const bide_put_options *options, bide_put_options *copy)
{
    char error[BIDE_ERROR_SIZE];
    *copy = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    if (bi_sized_struct_copy(copy, options, "BIDE_PUT_OPTIONS_INIT, or bide_defaults(TASK)",
                             error) != BIDE_OK)
        return invalid(op, "%s", error);

    op->private_.flags |= BI_OTHER_SIZE;
    return BIDE_OK;
}

/* The kinds of job_fields.h that a put can set. Every number is a valid COUNT. */
#define CHECK_RETRIES(what, value)                                   \
    TRY(check_range(op, what, value, BIDE_NO_RETRY_LIMIT, INT32_MAX, \
                    "0 or more, or BIDE_NO_RETRY_LIMIT"));
#define CHECK_COUNT(what, value)
#define CHECK_DURATION(what, value)  TRY(bi_op_check_duration(op, what, &(value)));
#define CHECK_TIMESTAMP(what, value) TRY(check_user_time(op, what, value));
#define CHECK_OPTION(kind, name)                                                                   \
    BI_JOB_IF_PUT_##kind(if (options->BI_JOB_MEMBER_##kind(name) != BIDE_NO_DEFAULT) CHECK_##kind( \
        BI_JOB_NAME(kind, name), options->BI_JOB_MEMBER_##kind(name)))

static int check_put_options(bide_op *op, const bide_put_options *options)
{
    bide_put_options copy;
    if (options->size != sizeof(copy)) {
        TRY(read_other_options(op, options, &copy));
        options = &copy;
    }

    /* Unsigned, so that a negative value is rejected as well. */
    if ((unsigned)options->conflict > BIDE_SKIP)
        return invalid(op, "%d is not a way to treat a conflict", (int)options->conflict);
    if (options->delay_ms != 0 && options->run_at_ms != 0)
        return invalid(op, "delay_ms and run_at_ms are both given; choose one");

    TRY(bi_op_check_duration(op, "delay_ms", &options->delay_ms));
    TRY(check_user_time(op, "run_at_ms", options->run_at_ms));
    if (options->ttr_ms != BIDE_NO_DEFAULT)
        TRY(bi_op_check_duration(op, "ttr_ms", &options->ttr_ms));
    BI_JOB_EXT(CHECK_OPTION)
    if ((options->fallbacks & ~(uint64_t)BIDE_FALLBACK_RETRIES) != 0)
        return invalid(op, "fallbacks has a bit that this version of the library does not know");
    return bi_op_check_key(op, "the key", &options->key);
}

static size_t payload_size(bide_slice slice, const bide_buf *buf)
{
    return buf != NULL ? bide_buf_size(buf) : slice.size;
}

static int check_put_item(const bide_options *options, bide_op *op, const void *put_item)
{
    const bide_put_item *item = put_item;
    TRY(bi_op_check_topic(op, NULL, &item->topic));
    /* A buffer takes precedence: the slice is not read then. */
    if (item->buf == NULL)
        TRY(bi_op_check_slice(op, "the body", &item->body));
    if (item->options != NULL)
        TRY(check_put_options(op, item->options));
    return check_size(op, "the body", payload_size(item->body, item->buf), options->max_job_size);
}

int bi_op_check_put(const bide_options *options, bide_op *op)
{
    return check_put_item(options, op, &op->put);
}

static int check_put_items(const bide_options *options, bide_op *op, const bide_put_item *items,
                           size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        size_t size = payload_size(items[i].body, items[i].buf);
        /* The sizes come from the caller: the sum must not wrap. */
        bytes = size > SIZE_MAX - bytes ? SIZE_MAX : bytes + size;
    }

    /* A single body is limited by max_job_size only, as in put. */
    if (count > 1)
        TRY(check_size(op, "the list of bodies", bytes, BIDE_BATCH_BYTES));
    return check_items(options, op, check_put_item);
}

int bi_op_check_put_many(const bide_options *options, bide_op *op)
{
    return check_put_items(options, op, op->put_many.items, op->put_many.count);
}

/* A restored time is not chosen by the caller, and what is derived for a snapshot is ignored. */
#define RESTORED_RETRIES(what, value) CHECK_RETRIES(what, value)
#define RESTORED_COUNT(what, value)
#define RESTORED_HISTORY(what, value)
#define RESTORED_DERIVED(what, value)
#define RESTORED_AGE(what, value)
#define RESTORED_TTR(what, value)       CHECK_DURATION(what, value)
#define RESTORED_DURATION(what, value)  CHECK_DURATION(what, value)
#define RESTORED_TIMESTAMP(what, value) TRY(check_time(op, what, value));
#define CHECK_FIELD(kind, name) \
    RESTORED_##kind(BI_JOB_NAME(kind, name), job->BI_JOB_MEMBER_##kind(name))

int bi_op_check_restore(const bide_options *options, bide_op *op)
{
    const bide_job *job = op->restore.job;
    if (job == NULL)
        return invalid(op, "job is NULL");

    const bide_slice topic = {job->topic, strnlen(job->topic, sizeof(job->topic))};
    const bide_slice body = {job->body, job->body_size};
    const bide_slice error = {job->last_error, job->last_error_size};
    const bide_slice result = {job->result, job->result_size};
    const bide_slice key = {job->key, job->key_size};
    const bide_slice history = {job->history, job->history_size};
    TRY(bi_op_check_topic(op, NULL, &topic));
    TRY(bi_op_check_state(op, NULL, &job->state));
    TRY(bi_op_check_slice(op, "the body", &body));
    TRY(bi_op_check_slice(op, "last_error", &error));
    TRY(bi_op_check_slice(op, "the result", &result));
    TRY(bi_op_check_slice(op, "the history", &history));
    TRY(bi_op_check_key(op, "the key", &key));
    TRY(bi_op_check_duration(op, "left_ms", &job->left_ms));
    BI_JOB_SCHEDULE(CHECK_FIELD)
    BI_JOB_CREATED(CHECK_FIELD)
    BI_JOB_TIMES(CHECK_FIELD)
    BI_JOB_EXT(CHECK_FIELD)

    /* Restoring without the members of a newer version would lose them silently. */
    TRY(CHECK_ROOM(op, "the job", job));

    if (job->key != NULL && job->key_size == 0)
        return invalid(op, "a key has 1 to %d bytes", BIDE_KEY_MAX);
    if (!bi_job_history_is_valid(job->history, job->history_size))
        return invalid(op, "the history is malformed");
    if (job->state == BIDE_STATE_DONE && job->left_ms == 0)
        return invalid(op, "the retention of this result is over");

    TRY(check_size(op, "the body", job->body_size, options->max_job_size));
    return check_size(op, "the result", job->result_size, options->max_result_size);
}

/* ---- reserve and finish ---- */

int bi_op_check_reserve(const bide_options *options, bide_op *op)
{
    const bide_reserve_args *args = bi_op_reserve_args(op);
    (void)options;
    TRY(bi_op_check_pointer(op, "topics", &args->topics));
    TRY(bi_op_check_pointer(op, "jobs", &args->jobs));
    TRY(bi_op_check_count(op, "job_max", &args->job_max));

    if (args->topic_count == 0 || args->topic_count > BIDE_RESERVE_TOPICS)
        return invalid(op, "%zu topics are named; 1 to %d are allowed", args->topic_count,
                       BIDE_RESERVE_TOPICS);
    /* A reserve may examine each topic for each job, under the lock of the queue. */
    if (args->topic_count * args->job_max > BIDE_RESERVE_WORK)
        return invalid(op, "%zu jobs of %zu topics are too much at once; ask for fewer of either",
                       args->job_max, args->topic_count);
    /* Unsigned, so that a negative value is rejected as well. */
    if ((unsigned)args->strategy > BIDE_FAIR)
        return invalid(op, "%d is not a strategy", (int)args->strategy);

    TRY(CHECK_ROOM(op, "the call", args));
    TRY(bi_op_check_duration_or_forever(op, "timeout_ms", &args->timeout_ms));
    for (size_t i = 0; i < args->topic_count; i++) {
        TRY(bi_op_check_topic(op, NULL, &args->topics[i]));
        if (args->weights != NULL && args->weights[i] == 0)
            return invalid(op, "weight %zu is 0; a weight is at least 1", i);
    }
    return BIDE_OK;
}

static int check_finish_item(const bide_options *options, bide_op *op, const void *finish_item)
{
    const bide_finish_item *item = finish_item;
    TRY(bi_op_check_duration_or_keep(op, "retain_ms", &item->retain_ms));
    if (item->buf == NULL)
        TRY(bi_op_check_slice(op, "the result", &item->result));
    return check_size(op, "the result", payload_size(item->result, item->buf),
                      options->max_result_size);
}

int bi_op_check_done(const bide_options *options, bide_op *op)
{
    /* A done always retains; only items of a list may say otherwise. */
    op->finish.keep = true;
    return check_finish_item(options, op, &op->finish);
}

int bi_op_check_finish_many(const bide_options *options, bide_op *op)
{
    return check_items(options, op, check_finish_item);
}

int bi_op_check_finish_and_reserve(const bide_options *options, bide_op *op)
{
    /* Until the finish has run: an op that is rejected as a whole has its code in both parts. */
    op->finish_and_reserve.finish.status = BIDE_PENDING;
    TRY(check_finish_item(options, op, &op->finish_and_reserve.finish));
    return bi_op_check_reserve(options, op);
}

int bi_op_check_finish_and_put(const bide_options *options, bide_op *op)
{
    const bide_finish_and_put_args *args = &op->finish_and_put;
    TRY(CHECK_ROOM(op, "the call", args));
    TRY(check_user_time(op, "run_at_ms", args->run_at_ms));
    if (args->delay_ms != 0 && args->run_at_ms != 0)
        return invalid(op, "delay_ms and run_at_ms are both given; choose one");
    TRY(check_finish_item(options, op, &args->finish));
    TRY(check_put_items(options, op, args->items, args->count));

    /* An invalid item fails all. */
    return op->error_item == 0 ? BIDE_OK : args->items[op->error_item - 1].status;
}

static int check_touch_item(const bide_options *options, bide_op *op, const void *touch_item)
{
    const bide_touch_item *item = touch_item;
    (void)options;
    TRY(bi_op_check_duration_or_keep(op, "extend_ms", &item->extend_ms));
    TRY(bi_op_check_slice(op, "the progress text", &item->progress));
    return check_size(op, "the progress text", item->progress.size, BIDE_PROGRESS_MAX);
}

int bi_op_check_touch(const bide_options *options, bide_op *op)
{
    return check_touch_item(options, op, &op->touch);
}

int bi_op_check_touch_many(const bide_options *options, bide_op *op)
{
    return check_items(options, op, check_touch_item);
}

/* ---- rules of more than one argument, or of one kind only ---- */

int bi_op_check_update(const bide_options *options, bide_op *op)
{
    const bide_update_args *args = &op->update;
    (void)options;

    TRY(CHECK_ROOM(op, "the update", args));
    if (args->run_at_ms != BIDE_KEEP)
        TRY(check_user_time(op, "run_at_ms", args->run_at_ms));
    if (args->delay_ms != BIDE_KEEP && args->run_at_ms != BIDE_KEEP)
        return invalid(op, "delay_ms and run_at_ms are both given; choose one");
    return BIDE_OK;
}

int bi_op_check_purge(const bide_options *options, bide_op *op)
{
    (void)options;
    if (op->purge.state == BIDE_STATE_RESERVED)
        return invalid(op, "a reserved job belongs to its holder; cancel it instead");
    return BIDE_OK;
}

int bi_op_check_list(const bide_options *options, bide_op *op)
{
    (void)options;
    TRY(CHECK_ROOM(op, "the filter", &op->list.filter));
    return CHECK_ROOM(op, "the call", &op->list);
}

int bi_op_check_topic_ref(const bide_options *options, bide_op *op)
{
    (void)options;
    if (op->topic.delta != 1 && op->topic.delta != -1)
        return invalid(op, "delta is %d; +1 or -1", op->topic.delta);
    return BIDE_OK;
}

int bi_op_check_topic_set(const bide_options *options, bide_op *op)
{
    (void)options;
    for (size_t i = 0; i < BI_TOPIC_POLICY_FIELDS; i++) {
        const struct policy_field *field = &bi_topic_policy_fields[i];
        int64_t value = bi_topic_policy_get(&op->topic_set.policy, field);
        if (value != BIDE_KEEP && value != BIDE_NO_DEFAULT &&
            (value < field->least || value > field->most))
            return invalid(op,
                           "%s is %lld; %lld to %lld are allowed, or BIDE_KEEP, or "
                           "BIDE_NO_DEFAULT to clear it",
                           field->name, (long long)value,
                           field->least < 0 ? 0 : (long long)field->least, (long long)field->most);
    }

    return CHECK_ROOM(op, "the policy", &op->topic_set.policy);
}

int bi_op_check_find(const bide_options *options, bide_op *op)
{
    (void)options;
    /* In a put an empty key means none: no job can be found by it. */
    return op->query.key.size == 0 ? invalid(op, "a key has 1 to %d bytes", BIDE_KEY_MAX) : BIDE_OK;
}

int bi_op_check_subscribe(const bide_options *options, bide_op *op)
{
    const bide_subscription_args *args = &op->subscription;
    (void)options;

    if (args->capacity > 1000000)
        return invalid(op, "the capacity is %u; 1,000,000 are allowed", args->capacity);
    /* A bit beyond the known kinds comes from a program that expects a newer library. */
    if ((args->kinds >> BIDE_EVENT_KINDS) != 0)
        return invalid(op, "there is no event with such a number in kinds");
    return BIDE_OK;
}

int bi_op_check_backup(const bide_options *options, bide_op *op)
{
    (void)options;
    return op->backup.path[0] == 0 ? invalid(op, "the path is empty") : BIDE_OK;
}

static int check_args(const bide_options *options, bide_op *op)
{
    const struct op_row *row = bi_op_row(op);
    for (const struct op_rule *rule = row->rules; rule != NULL && rule->check != NULL; rule++)
        TRY(rule->check(op, rule->name, const_member_at(op, rule->at)));
    return row->check == NULL ? BIDE_OK : row->check(options, op);
}

/* Gives all items of a list the code with which the op fails as a whole, if there is a list. */
static void fail_list(bide_op *op, int code)
{
    const struct field *list = &bi_op_row(op)->args->fields[0];
    size_t count = size_at(op, list->aux[0]);
    if (pointer_at(op, list->at) != NULL && count <= list->limit)
        bi_op_result_fail_items(op, code);
}

int bi_op_check(const bide_options *options, bide_op *op)
{
    /* The kind comes from the program and indexes the table. */
    if (!bi_op_is_kind((int)op->kind))
        return bi_error_set(op->error, BIDE_EINVAL, "submit: %d is not a kind of op",
                            (int)op->kind);

    int code = check_args(options, op);
    if (code != BIDE_OK && bi_op_is(op, OP_ATOMIC))
        fail_list(op, code);
    return code;
}

/* ---- workers and explanations ---- */

int bi_op_check_announce(const bide_options *options, bide_op *op)
{
    const bide_announce_args *args = &op->announce;
    (void)options;
    if (args->buf == NULL)
        TRY(bi_op_check_slice(op, "the worker", &args->worker));

    const char *problem =
        args->buf != NULL
            ? bi_worker_info_check_bytes(bide_buf_data(args->buf), bide_buf_size(args->buf))
            : bi_worker_info_check_bytes(args->worker.data, args->worker.size);
    return problem == NULL ? BIDE_OK : invalid(op, "%s", problem);
}

int bi_op_check_why(const bide_options *options, bide_op *op)
{
    const bide_why_args *args = &op->why;
    (void)options;
    if (args->id != 0)
        return BIDE_OK;

    TRY(bi_op_check_topic(op, NULL, &args->topic));
    TRY(bi_op_check_key(op, "the key", &args->key));
    return args->key.size == 0 ? invalid(op, "an id is needed, or a topic and a key") : BIDE_OK;
}
