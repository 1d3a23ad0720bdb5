/* SPDX-License-Identifier: MIT */
#include "queue/queue.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[BIDE_ERROR_SIZE];
static _Thread_local int last_code;

const char *bide_last_error(void)
{
    return last_error;
}

void bi_error_clear(void)
{
    last_error[0] = 0;
    last_code = BIDE_OK;
}

int bi_error_code(void)
{
    return last_code;
}

int bi_error_set(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    last_code = code;
    return code;
}
