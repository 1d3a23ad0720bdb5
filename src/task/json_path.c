/* SPDX-License-Identifier: MIT */
#include "task/type.h"

#include "queue/queue.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_SIZE 120 /* of BIDE_ERROR_SIZE; the rest is for the message */

/* The text grows towards the start of the buffer. False: no room, and nothing is changed. */
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

static bool prepend_step(char *buffer, size_t *begin, const struct json_path *step)
{
    char index[32];

    if (step->name == NULL) {
        snprintf(index, sizeof(index), "[%zu]", step->index);
        return prepend(buffer, begin, index);
    }

    /* Name and dot together or not at all: a path must not begin with half a step. */
    size_t before = *begin;
    if (prepend(buffer, begin, step->name) && (step->parent == NULL || prepend(buffer, begin, ".")))
        return true;

    *begin = before;
    return false;
}

/* Steps point to their parents only, so the text is built from its end. Returns its first byte. */
static const char *path_of(const struct json_path *path, char buffer[PATH_MAX_SIZE])
{
    const size_t dots = 3;
    size_t begin = PATH_MAX_SIZE - 1;

    buffer[begin] = 0;
    for (; path != NULL; path = path->parent) {
        /* Always leave room for "...", which replaces the steps that do not fit. */
        size_t room = begin < dots ? 0 : begin - dots;
        if (!prepend_step(buffer + dots, &room, path)) {
            prepend(buffer, &begin, "...");
            break;
        }
        begin = room + dots;
    }

    return buffer + begin;
}

int bi_json_path_error(const struct json_path *path, const char *format, ...)
{
    char buffer[PATH_MAX_SIZE];
    char sentence[BIDE_ERROR_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    return bi_last_error_set(BIDE_EINVAL, "%s: %s", path_of(path, buffer), sentence);
}
