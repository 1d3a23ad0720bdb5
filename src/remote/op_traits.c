/* SPDX-License-Identifier: MIT */
#include "remote/op_traits.h"

#include "op/op_table.h"
#include "util/text.h"

#include <stdarg.h>
#include <stdio.h>

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
    bide_finish_item *finish = bi_op_finish_part(op);
    if (finish != NULL)
        finish->status = code;
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

void bi_op_traits_fail_decode(bide_op *op, int code, const struct address *address)
{
    char text[BIDE_ERROR_SIZE];
    bool no_memory = code == BIDE_ENOMEM;

    snprintf(text, sizeof(text),
             no_memory ? "%s: out of memory for the answer of the server at %.100s"
                       : "%s: the answer of the server at %.100s makes no sense",
             bide_op_name(op->kind), address->name);

    /* A reply to a change that cannot be read does not prove whether it was executed. */
    bi_op_traits_fail(op,
                      !bi_op_is(op, OP_REPEATABLE) ? BIDE_EUNKNOWN
                      : no_memory                  ? BIDE_ENOMEM
                                                   : BIDE_EIO,
                      text);
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
