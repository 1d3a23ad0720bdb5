/* SPDX-License-Identifier: MIT */
/*
 * print - formatted output: tables, colors, arbitrary bytes.
 */
#ifndef BI_PRINT_H
#define BI_PRINT_H

#include "cli/cli.h"
#include "util/datetime.h"

#include <stdio.h>

/* Prints bytes unchanged; on a terminal control characters and invalid UTF-8 are shown as \xNN,
 * except newlines and tabs. */
typedef void bi_print_fn(FILE *to, bool terminal, const void *data, size_t size);
bi_print_fn bi_print_bytes;

/* The same in one line: control characters (C1 too, as bytes and as UTF-8) are \n, \t, \r or \xNN,
 * also in a pipe, whose content is often shown later. Without a terminal other bytes are
 * unchanged. */
bi_print_fn bi_print_line;

/* Returns the length of the first character, and its width in columns, -1 for control characters.
 * 0: invalid UTF-8. */
size_t bi_print_char_width(const unsigned char *at, size_t size, int *columns);

/* Formats the beginning of some bytes in one line of at most width columns, ended by "…" if it is
 * cut. Control characters and invalid UTF-8 become ".". to: at least 4 * width + 4 bytes. Returns
 * the number of columns. */
size_t bi_print_excerpt(char *to, size_t width, const void *data, size_t size);

/* Returns true if the bytes are invalid UTF-8 or contain NUL. */
bool bi_print_is_binary(const void *data, size_t size);

/* Copies a text for JSON: invalid UTF-8 becomes "?", and the text is cut to the room. */
void bi_print_sanitize(char *to, size_t room, const char *text);

/* Returns the width of a text in columns. */
size_t bi_print_width(const char *text);

/* Colors, by meaning. bi_print_style() returns "" without colors. */
enum bi_print_style {
    BI_STYLE_OFF,
    BI_STYLE_HEADER, /* of a table */
    BI_STYLE_GOOD,
    BI_STYLE_WARN,
    BI_STYLE_BAD,
    BI_STYLE_DIM,
};
const char *bi_print_style(const struct cli *cli, enum bi_print_style style);
enum bi_print_style bi_print_state_style(bide_state state);

/* The name of a state, and how to begin and end its color. */
struct styled_state {
    const char *on, *name, *off;
};
struct styled_state bi_print_styled_state(const struct cli *cli, bide_state state);

/* Texts as values, to be used within one expression: bi_text_number(n).s. */
struct text {
    char s[BI_DATETIME_SIZE];
};
/* "1,234,567" and "1.5 MiB". */
struct text bi_text_number(uint64_t number);
struct text bi_text_size(uint64_t bytes);
/* "1 job", "1,234 jobs" */
struct text bi_text_jobs(uint64_t count);
/* "1,234,567" on a terminal, 1234567 elsewhere. */
struct text bi_text_count(const struct cli *cli, uint64_t number);
/* "1h30m", exactly. */
struct text bi_text_duration(int64_t ms);
/* The same in whole seconds from one second on; "-" if it is negative. */
struct text bi_text_age(int64_t ms);
/* A moment in local time; the same with the time from or since now_ms. */
struct text bi_text_moment(int64_t at_ms);
struct text bi_text_moment_from(int64_t at_ms, int64_t now_ms);
/* "attempt 3 timed out", "attempt 3 failed", ...; what happened to an attempt at a job. */
struct text bi_text_failure(const bide_failure *failure);
/* The same with its time, its holder and its error, which may have any bytes. Returns the size; a NUL
 * follows. */
#define BI_FAILURE_LINE_SIZE (2 * BI_DATETIME_SIZE + 16 + BIDE_FAILURE_TEXT_MAX)
size_t bi_text_failure_line(const bide_failure *failure, char *line);

/*
 * A table. On a terminal no row is wider than the window: the last column is cut first, then the
 * widest text columns, and columns that still do not fit are omitted. Otherwise there are no
 * colors, and nothing is cut. A row is always one line.
 */
struct table;
#define BI_TABLE_COLUMNS 16

/* headers: "TOPIC|>READY|>AGE"; > aligns the column to the right. Returns NULL without memory; the
 * other functions accept NULL, and print() reports it. */
struct table *bi_table_new(const struct cli *cli, const char *headers);
/* Appends a cell; a row is complete when every column has one. */
void bi_table_cell(struct table *table, enum bi_print_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bi_table_number(struct table *table, enum bi_print_style style, uint64_t number);
/* Appends bytes: an excerpt on a terminal, all of them elsewhere. */
void bi_table_bytes(struct table *table, enum bi_print_style style, const void *data, size_t size);
/* Prints and drops the rows so far; columns of later rows are at least as wide. This bounds the
 * memory of long tables. */
void bi_table_flush(struct table *table);
/* Prints the rest and frees. Returns BI_EXIT_OK, or prints an error if memory was exhausted. */
int bi_table_print(struct table *table);
/* Frees without printing; NULL is ignored. */
void bi_table_free(struct table *table);

/* Prints a "name    value" line. */
void bi_print_property(const struct cli *cli, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a number, as bi_text_count(). */
void bi_print_property_number(const struct cli *cli, const char *name, uint64_t number);
/* The same for bytes. */
void bi_print_property_bytes(const struct cli *cli, const char *name, const void *data,
                             size_t size);

/*
 * progress - a progress bar on the terminal; nothing elsewhere.
 *
 *     exporting  [======>         ]  41 %  41,230 of 100,000  52,000/s  1s left
 */

struct progress {
    const struct cli *cli;
    const char *label; /* "exporting" */
    uint64_t total;    /* 0: not known */
    uint64_t done;
    int64_t began_us;
    int64_t drawn_us; /* 0: never */
};

/* Nothing is drawn in the first half second, with --quiet or --json, or if standard error is not a
 * terminal. */
void bi_progress_begin(struct progress *progress, const struct cli *cli, const char *label,
                       uint64_t total);
/* Sets the amount that is done; draws at most ten times a second. */
void bi_progress_set(struct progress *progress, uint64_t done);
/* Draws the elapsed time, for an op without a count. */
void bi_progress_set_elapsed(struct progress *progress);
/* Removes the bar. */
void bi_progress_end(struct progress *progress);

#endif
