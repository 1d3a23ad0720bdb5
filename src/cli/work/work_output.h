/* SPDX-License-Identifier: MIT */
/*
 * work_output - what a program says: the end of it, for an error; or all of it up to a limit, for a
 * result.
 */
#ifndef BI_WORK_OUTPUT_H
#define BI_WORK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* So much of an error text is what the program said last. */
#define BI_WORK_TAIL_SIZE 900

/* The last bytes of what may be very long. Zeroed: nothing yet. */
struct tail {
    size_t size;
    bool truncated; /* there was more before it */
    char data[2 * BI_WORK_TAIL_SIZE];
};

void bi_work_output_add_tail(struct tail *tail, const void *data, size_t size);

/* The last lines that fit, without the newline at their end; where the last line alone does not,
 * the end of it. NULs become spaces. to: BI_WORK_TAIL_SIZE + 1 bytes. */
void bi_work_output_tail_text(const struct tail *tail, char *to);

/* The first bytes, kept. */
struct output {
    char *data;
    size_t size, capacity;
    size_t limit;   /* 0: nothing is kept */
    bool truncated; /* there was more, or no memory for it */
};

void bi_work_output_add(struct output *output, const void *data, size_t size);
/* Says at the end of what is kept that something is missing, if so. */
void bi_work_output_mark_truncated(struct output *output);
void bi_work_output_done(struct output *output);

/* The first lines that fit in BI_WORK_TAIL_SIZE bytes, as bi_work_output_tail_text(). */
void bi_work_output_head(const struct output *output, char *to);

#endif
