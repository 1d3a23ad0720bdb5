/* SPDX-License-Identifier: MIT */
/*
 * show - bytes and stories for whoever reads of a failure.
 */
#ifndef WIRE_SHOW_H
#define WIRE_SHOW_H

#include "story.h"

/* Room for so many bytes when they are shown. */
#define SHOWN_ROOM(size) ((size)*4 + 4)

/* Writes at most max of the bytes, those that cannot be printed as escapes. */
void show_bytes(const char *data, size_t size, size_t max, char *out);

/* Prints what is left of a story up to a turn. */
void show_story(const struct story *story, size_t last);

#endif
