/* SPDX-License-Identifier: MIT */
/*
 * input - what comes in by a descriptor, in pieces: lines, or what stands between NULs.
 *
 * Reads much at a time and hands out pieces of what it has, without their separators. What is left
 * at the end of the input is a piece, too. Nothing but the separator means anything: a carriage
 * return stays, and so does every byte that is no text.
 *
 * Cost       A piece is looked at once; the memory is that of the longest piece, at most the limit.
 * Failure    A piece that is longer than the limit is told as such, and the next one follows.
 */
#ifndef BI_INPUT_H
#define BI_INPUT_H

#include "cli/cli.h"

#include <sys/types.h>

#define BI_INPUT_RECORD_MAX ((size_t)64 << 20) /* the longest line */
#define BI_INPUT_TOTAL_MAX  ((size_t)1 << 30)  /* the longest body: no queue takes a larger one */

struct input {
    int fd;
    char separator;
    size_t limit;
    char *data;
    size_t room;
    size_t start;    /* the piece that comes next begins here */
    size_t searched; /* no separator before this */
    size_t end;
    uint64_t number; /* of the last piece that was handed out, from 1 on */
    bool eof;        /* there is nothing more to read */
    bool skipping;   /* in the middle of a piece that is too long */
};

enum bi_input_status {
    BI_INPUT_NEED_MORE, /* more must be read first */
    BI_INPUT_RECORD,
    BI_INPUT_TOO_LONG,
    BI_INPUT_EOF,
};

void bi_input_init(struct input *input, int fd, char separator, size_t limit);
void bi_input_done(struct input *input);

/* The next piece of what was read; valid until the next call of fill. */
enum bi_input_status bi_input_next(struct input *input, bide_slice *record);

/* Reads once. False with errno when that failed, or there is no memory; may block, and is ended by
 * a signal (EINTR). */
bool bi_input_fill(struct input *input);

/* Is there something to read at once? The end of the input is. */
bool bi_input_is_ready(const struct input *input);

/* Reads until the end, as long as it is at most BI_INPUT_TOTAL_MAX (else errno is EFBIG); ended by a
 * signal that is watched. False with errno. */
bool bi_input_read_all(int fd, bide_buf **buf);

#endif
