/* SPDX-License-Identifier: MIT */
#include "task/trail.h"

#include "queue/queue.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_SIZE 120 /* of BIDE_ERROR_SIZE: the rest is for the sentence */

/* Puts a text in front of what stands at the end of the buffer; false when it has no room. */
static bool prepend(char *buffer, size_t *begin, const char *text)
{
    size_t size = strlen(text);
    if (size > *begin)
        return false;
    *begin -= size;
    for (size_t i = 0; i < size; i++)
        buffer[*begin + i] = text[i];
    return true;
}

static bool prepend_step(char *buffer, size_t *begin, const struct trail *step)
{
    char index[32];
    if (step->name == NULL) {
        snprintf(index, sizeof(index), "[%zu]", step->index);
        return prepend(buffer, begin, index);
    }
    size_t before = *begin;
    if (prepend(buffer, begin, step->name) && (step->up == NULL || prepend(buffer, begin, ".")))
        return true;
    *begin = before;
    return false;
}

/* Written from its end; answers where it begins. */
static const char *path_of(const struct trail *at, char buffer[PATH_MAX_SIZE])
{
    const size_t dots = 3;
    size_t begin = PATH_MAX_SIZE - 1;
    buffer[begin] = 0;
    for (; at != NULL; at = at->up) {
        size_t room = begin < dots ? 0 : begin - dots;
        if (!prepend_step(buffer + dots, &room, at)) {
            prepend(buffer, &begin, "...");
            break;
        }
        begin = room + dots;
    }
    return buffer + begin;
}

int bi_trail_refuse(const struct trail *at, const char *format, ...)
{
    char buffer[PATH_MAX_SIZE];
    char sentence[BIDE_ERROR_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    return bi_error_set(BIDE_EINVAL, "%s: %s", path_of(at, buffer), sentence);
}
