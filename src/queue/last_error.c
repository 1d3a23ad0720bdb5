/* SPDX-License-Identifier: MIT */
/*
 * last_error - code and message of the last failed call, one per thread.
 */
#include "queue/queue.h"
#include "util/thread.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[BIDE_ERROR_SIZE];
static BI_THREAD_LOCAL bool has_error; /* false: last_error is of an earlier call */
static BI_THREAD_LOCAL int last_code;

const char *bide_last_error(void)
{
    return has_error ? last_error : "";
}

void bi_last_error_clear(void)
{
    has_error = false;
    last_code = BIDE_OK;
}

int bi_last_error_code(void)
{
    return last_code;
}

int bi_last_error_set(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);

    has_error = true;
    last_code = code;
    return code;
}
