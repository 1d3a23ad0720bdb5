/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_kind.h"

#include "util/text.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct kind {
    bool repeats;
    bool takes;
    size_t timeout;   /* where it stands in the op; 0: it never waits */
    bool administers; /* what an operator does, and the log of a server tells */
    size_t topic;     /* of these: where its slice stands in the op; 0: it names none */
};

#define TIMEOUT(member) offsetof(bide_op, member)
#define TOPIC(member)   offsetof(bide_op, member)

static const struct kind kinds[BIDE_OP_COUNT] = {
    [BIDE_OP_RESERVE] = {.repeats = true, .takes = true, .timeout = TIMEOUT(reserve.timeout_ms)},
    [BIDE_OP_RESERVE_JOB] = {.takes = true},
    [BIDE_OP_FINISH_AND_RESERVE] = {.takes = true,
                                    .timeout = TIMEOUT(finish_and_reserve.reserve.timeout_ms)},
    [BIDE_OP_WAIT] = {.repeats = true, .timeout = TIMEOUT(wait.timeout_ms)},
    [BIDE_OP_EVENTS] = {.repeats = true, .timeout = TIMEOUT(feed.timeout_ms)},
    [BIDE_OP_RECOVERED] = {.repeats = true, .timeout = TIMEOUT(recovered.timeout_ms)},
    [BIDE_OP_PEEK] = {.repeats = true},
    [BIDE_OP_PEEK_FIRST] = {.repeats = true},
    [BIDE_OP_FIND] = {.repeats = true},
    [BIDE_OP_JOB_STATS] = {.repeats = true},
    [BIDE_OP_BODY] = {.repeats = true},
    [BIDE_OP_RESULT] = {.repeats = true},
    [BIDE_OP_LIST] = {.repeats = true},
    [BIDE_OP_TOPICS] = {.repeats = true},
    [BIDE_OP_WAITING] = {.repeats = true},
    [BIDE_OP_STATS] = {.repeats = true},
    [BIDE_OP_TOPIC_STATS] = {.repeats = true},
    [BIDE_OP_SUBSCRIBE] = {.repeats =
                               true}, /* the feed of the first has gone with its connection */
    [BIDE_OP_PING] = {.repeats = true},
    [BIDE_OP_CHECK] = {.repeats = true, .administers = true},
    [BIDE_OP_PURGE] = {.administers = true, .topic = TOPIC(purge.topic)},
    [BIDE_OP_PAUSE] = {.administers = true, .topic = TOPIC(topic.topic)},
    [BIDE_OP_RESUME] = {.administers = true, .topic = TOPIC(topic.topic)},
    [BIDE_OP_BACKUP] = {.administers = true},
    [BIDE_OP_DRAIN] = {.repeats = true, .administers = true},
};

bool bi_kind_repeats(bide_op_kind kind)
{
    return kinds[kind].repeats;
}

bool bi_kind_takes(bide_op_kind kind)
{
    return kinds[kind].takes;
}

bool bi_kind_administers(const bide_op *op, const bide_slice **topic)
{
    size_t offset = kinds[op->kind].topic;
    *topic = offset == 0 ? NULL : (const bide_slice *)(const void *)((const char *)op + offset);
    return kinds[op->kind].administers;
}

int64_t *bi_kind_timeout(bide_op *op)
{
    size_t offset = kinds[op->kind].timeout;
    return offset == 0 ? NULL : (int64_t *)(void *)((char *)op + offset);
}

void bi_kind_say(bide_op *op, int code)
{
    op->private_.status = code;
    bi_text_copy(op->error, bide_code_text(code));
}

void bi_kind_fail(bide_op *op, int code, const char *error)
{
    op->private_.status = code;
    bi_text_copy(op->error, error != NULL ? error : bide_code_text(code));
    if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        op->finish_and_reserve.finish.status = code;
}

void bi_kind_lost(bide_op *op, const struct address *address)
{
    char text[BIDE_ERROR_SIZE];
    snprintf(text, sizeof(text),
             "%s: the connection to %.90s broke before the answer came; it may have happened",
             bide_op_name(op->kind), address->name);
    bi_kind_fail(op, BIDE_EUNKNOWN, text);
}

static void fail_by(bide_op *op, int code, const char *reason)
{
    char text[BIDE_ERROR_SIZE];
    snprintf(text, sizeof(text), "%s: %.170s", bide_op_name(op->kind), reason);
    bi_kind_fail(op, code, text);
}

void bi_kind_unreached(bide_op *op, const char *reason)
{
    fail_by(op, BIDE_EIO, reason);
}

void bi_kind_refused(bide_op *op, const char *reason)
{
    fail_by(op, BIDE_EINVAL, reason);
}

void bi_kind_alone(bide_op *op, const struct address *address, int64_t seconds)
{
    char text[BIDE_ERROR_SIZE];
    snprintf(text, sizeof(text), "%s: no connection to %.100s since %lld s", bide_op_name(op->kind),
             address->name, (long long)seconds);
    bi_kind_fail(op, BIDE_TIMED_OUT, text);
}

void bi_kind_garbled(bide_op *op, const struct address *address)
{
    char text[BIDE_ERROR_SIZE];
    snprintf(text, sizeof(text), "%s: the answer of the server at %.100s makes no sense",
             bide_op_name(op->kind), address->name);
    bi_kind_fail(op, bi_kind_repeats(op->kind) ? BIDE_EIO : BIDE_EUNKNOWN, text);
}

int bi_kind_refuse(bide_op *op, int code, const char *format, ...)
{
    int size = snprintf(op->error, sizeof(op->error), "%s: ", bide_op_name(op->kind));
    va_list args;
    va_start(args, format);
    vsnprintf(op->error + size, sizeof(op->error) - (size_t)size, format, args);
    va_end(args);
    return code;
}
