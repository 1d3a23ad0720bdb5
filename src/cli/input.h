/* SPDX-License-Identifier: MIT */
/*
 * input - reads records from a descriptor: lines, or records separated by NUL.
 *
 * Records are returned without their separator. The rest at the end of input is a record, too. Only
 * the separator has a meaning: carriage returns and other bytes are part of the record.
 *
 * Cost       Each byte is scanned once. Memory is that of the longest record, at most the limit.
 * Failure    A record that is longer than the limit is skipped and reported as BI_INPUT_TOO_LONG.
 */
#ifndef BI_INPUT_H
#define BI_INPUT_H

#include "cli/ordered_pipeline.h"

#define BI_INPUT_RECORD_MAX ((size_t)64 << 20) /* the longest line */
#define BI_INPUT_TOTAL_MAX  ((size_t)1 << 30)  /* the longest body that a queue accepts */

struct input {
    int fd;
    char separator;
    size_t limit;
    char *data;
    size_t room;
    size_t start;    /* of the next record */
    size_t searched; /* no separator before this offset */
    size_t end;
    uint64_t number; /* of the last record, from 1 */
    bool eof;        /* end of input */
    bool skipping;   /* inside a record that is too long */
};

enum bi_input_status {
    BI_INPUT_NEED_MORE, /* there is no record yet */
    BI_INPUT_RECORD,
    BI_INPUT_TOO_LONG,
    BI_INPUT_EOF,
    BI_INPUT_FAILED, /* read: an error, with errno */
};

void bi_input_init(struct input *input, int fd, char separator, size_t limit);
void bi_input_done(struct input *input);

/* Returns the next record; valid until the next fill. */
enum bi_input_status bi_input_next(struct input *input, bide_slice *record);

/* Reads once; may block. False with errno, EINTR after a signal. */
bool bi_input_fill(struct input *input);

/* As next, but waits for more input once. Ops of the pipeline, which may be NULL, complete
 * meanwhile. BI_INPUT_NEED_MORE: input, completions or a signal have arrived; the caller decides
 * whether to go on. */
enum bi_input_status bi_input_read(struct input *input, struct ordered_pipeline *pipeline,
                                   bide_slice *record);

/* Reads to the end of input. False with errno: EFBIG beyond BI_INPUT_TOTAL_MAX, EINTR after a
 * signal that is watched. */
bool bi_input_read_all(int fd, bide_buf **buf);

/* The same of a file, "-": standard input. Returns BI_EXIT_OK, or prints an error. */
int bi_input_read_file(const struct cli *cli, const char *path, bide_buf **buf);

/* ---- which records have been stored ---- */

/*
 * So that an interrupted command can be continued without losing or duplicating jobs. Lines are
 * added in order. A line is done when its job is stored or was rejected for a reason of its own,
 * unknown when the reply was lost, and otherwise not stored.
 */
enum bi_line_outcome { BI_LINE_DONE, BI_LINE_UNKNOWN, BI_LINE_NOT_STORED };

/* Lines from first to last with the same outcome. */
struct line_range {
    enum bi_line_outcome outcome;
    uint64_t first, last;
};

#define BI_LINE_RANGES_MAX 8

struct line_status {
    uint64_t last_done;                           /* all lines up to this one are done */
    struct line_range ranges[BI_LINE_RANGES_MAX]; /* of the lines after it */
    size_t range_count;
};

/* Lines without a job (skipped or invalid) need not be added. */
void bi_input_add_outcome(struct line_status *line_status, uint64_t line,
                          enum bi_line_outcome outcome);

/* Returns true if no line after last_done is or may be stored: the input can then be continued at
 * the next line. */
bool bi_input_can_resume(const struct line_status *line_status);

/* Formats "lines 3,001 to 4,000 are unknown (...); lines 4,001 to 5,000 are not stored", or "" if
 * all lines are done. unit: "line". */
void bi_input_format_outcomes(const struct line_status *line_status, const char *unit, char *to,
                              size_t size);

#endif
