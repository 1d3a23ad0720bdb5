/* SPDX-License-Identifier: MIT */
#include "remote/op_traits.h"

#include "util/text.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct kind {
    bool repeatable;
    bool reserves;
    size_t timeout; /* offset in the op; 0: the kind never waits */
    bool admin;     /* an operator's op: the server logs it */
    size_t topic;   /* admin: offset of the topic in the op; 0: none */
};

#define OFFSET_OF_TIMEOUT(member) offsetof(bide_op, member)
#define OFFSET_OF_TOPIC(member)   offsetof(bide_op, member)

/* A kind without a row is a change that must not be sent twice, and does not wait. */
static const struct kind kinds[BIDE_OP_COUNT] = {
    [BIDE_OP_RESERVE] = {.repeatable = true,
                         .reserves = true,
                         .timeout = OFFSET_OF_TIMEOUT(reserve.timeout_ms)},
    [BIDE_OP_RESERVE_JOB] = {.reserves = true},
    [BIDE_OP_FINISH_AND_RESERVE] = {.reserves = true,
                                    .timeout =
                                        OFFSET_OF_TIMEOUT(finish_and_reserve.reserve.timeout_ms)},
    [BIDE_OP_WAIT] = {.repeatable = true, .timeout = OFFSET_OF_TIMEOUT(wait.timeout_ms)},
    [BIDE_OP_EVENTS] = {.repeatable = true, .timeout = OFFSET_OF_TIMEOUT(subscription.timeout_ms)},
    [BIDE_OP_RECOVERED] = {.repeatable = true, .timeout = OFFSET_OF_TIMEOUT(recovered.timeout_ms)},
    [BIDE_OP_PEEK] = {.repeatable = true},
    [BIDE_OP_PEEK_FIRST] = {.repeatable = true},
    [BIDE_OP_FIND] = {.repeatable = true},
    [BIDE_OP_JOB_STATS] = {.repeatable = true},
    [BIDE_OP_BODY] = {.repeatable = true},
    [BIDE_OP_RESULT] = {.repeatable = true},
    [BIDE_OP_LIST] = {.repeatable = true},
    [BIDE_OP_TOPICS] = {.repeatable = true},
    [BIDE_OP_WAITING] = {.repeatable = true},
    [BIDE_OP_STATS] = {.repeatable = true},
    [BIDE_OP_TOPIC_STATS] = {.repeatable = true},
    [BIDE_OP_SUBSCRIBE] = {.repeatable = true}, /* the first stream ended with its connection */
    [BIDE_OP_PING] = {.repeatable = true},
    [BIDE_OP_CHECK] = {.repeatable = true, .admin = true},
    [BIDE_OP_PURGE] = {.admin = true, .topic = OFFSET_OF_TOPIC(purge.topic)},
    [BIDE_OP_PAUSE] = {.admin = true, .topic = OFFSET_OF_TOPIC(topic.topic)},
    [BIDE_OP_RESUME] = {.admin = true, .topic = OFFSET_OF_TOPIC(topic.topic)},
    [BIDE_OP_BACKUP] = {.admin = true},
    [BIDE_OP_DRAIN] = {.repeatable = true, .admin = true},
};

bool bi_op_traits_is_repeatable(bide_op_kind kind)
{
    return kinds[kind].repeatable;
}

bool bi_op_traits_reserves(bide_op_kind kind)
{
    return kinds[kind].reserves;
}

bool bi_op_traits_is_admin(const bide_op *op, const bide_slice **topic)
{
    size_t offset = kinds[op->kind].topic;
    *topic = offset == 0 ? NULL : (const bide_slice *)(const void *)((const char *)op + offset);
    return kinds[op->kind].admin;
}

int64_t *bi_op_traits_timeout(bide_op *op)
{
    size_t offset = kinds[op->kind].timeout;
    return offset == 0 ? NULL : (int64_t *)(void *)((char *)op + offset);
}

void bi_op_traits_set_code(bide_op *op, int code)
{
    op->private_.status = code;
    bi_text_copy(op->error, bide_code_text(code));
}

void bi_op_traits_fail(bide_op *op, int code, const char *error)
{
    op->private_.status = code;
    bi_text_copy(op->error, error != NULL ? error : bide_code_text(code));
    /* This op has a second result, which would otherwise stay BIDE_PENDING. */
    if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        op->finish_and_reserve.finish.status = code;
}

void bi_op_traits_fail_unknown(bide_op *op, const struct address *address)
{
    char text[BIDE_ERROR_SIZE];
    snprintf(text, sizeof(text),
             "%s: the connection to %.90s broke before the answer came; it may have happened",
             bide_op_name(op->kind), address->name);
    bi_op_traits_fail(op, BIDE_EUNKNOWN, text);
}

static void fail_with(bide_op *op, int code, const char *reason)
{
    char text[BIDE_ERROR_SIZE];
    snprintf(text, sizeof(text), "%s: %.170s", bide_op_name(op->kind), reason);
    bi_op_traits_fail(op, code, text);
}

void bi_op_traits_fail_unreachable(bide_op *op, const char *reason)
{
    fail_with(op, BIDE_EIO, reason);
}

void bi_op_traits_fail_rejected(bide_op *op, const char *reason)
{
    fail_with(op, BIDE_EINVAL, reason);
}

void bi_op_traits_fail_timed_out(bide_op *op, const struct address *address, int64_t seconds)
{
    char text[BIDE_ERROR_SIZE];
    snprintf(text, sizeof(text), "%s: no connection to %.100s since %lld s", bide_op_name(op->kind),
             address->name, (long long)seconds);
    bi_op_traits_fail(op, BIDE_TIMED_OUT, text);
}

void bi_op_traits_fail_malformed(bide_op *op, const struct address *address)
{
    char text[BIDE_ERROR_SIZE];

    snprintf(text, sizeof(text), "%s: the answer of the server at %.100s makes no sense",
             bide_op_name(op->kind), address->name);

    /* A malformed reply to a change does not prove whether it was executed. */
    bi_op_traits_fail(op, bi_op_traits_is_repeatable(op->kind) ? BIDE_EIO : BIDE_EUNKNOWN, text);
}

int bi_op_traits_reject(bide_op *op, int code, const char *format, ...)
{
    int size = snprintf(op->error, sizeof(op->error), "%s: ", bide_op_name(op->kind));

    va_list args;
    va_start(args, format);
    vsnprintf(op->error + size, sizeof(op->error) - (size_t)size, format, args);
    va_end(args);
    return code;
}
