/* SPDX-License-Identifier: MIT */
/*
 * print - output for people: columns, colours, bytes that may be anything.
 */
#ifndef BI_PRINT_H
#define BI_PRINT_H

#include "cli/cli.h"

#include <stdio.h>

/* Bytes as they are; but on a terminal what could steer it, and what is not UTF-8, is shown as \xNN.
 * Newlines and tabs stay. */
typedef void bi_print_fn(FILE *to, bool terminal, const void *data, size_t size);
bi_print_fn bi_print_bytes;

/* The same in one line: control characters (those from 0x80 to 0x9f, too, as bytes and as UTF-8) are
 * \n, \t, \r or \xNN, wherever it goes: what was piped is often shown later. Not on a terminal all
 * other bytes are as they are. */
bi_print_fn bi_print_line;

/* The length of the character at the beginning, and how many columns it takes: -1 where a terminal
 * must not have it. 0: it is not UTF-8. */
size_t bi_print_char_width(const unsigned char *at, size_t size, int *columns);

/* At most width columns of the beginning of some bytes, in one line, without control characters;
 * "…" where something is cut. Answers how many columns were used. UTF-8 is counted as a terminal
 * shows it; what is not UTF-8 is shown as ".". to: at least 4 * width + 4 bytes. */
size_t bi_print_excerpt(char *to, size_t width, const void *data, size_t size);

/* Are these bytes something else than text: not UTF-8, or with a NUL in them? */
bool bi_print_is_binary(const void *data, size_t size);

/* A text with "?" for each byte that is not UTF-8, cut where the room ends: what JSON can hold. */
void bi_print_sanitize(char *to, size_t room, const char *text);

/* How many columns a text takes. */
size_t bi_print_width(const char *text);

/* Colours, by meaning. bi_print_style() is "" where there are none. */
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

/* "1,234,567"; 32 bytes. And bytes as "1.5 MiB"; 32 bytes. */
void bi_print_number(char *to, uint64_t number);
void bi_print_size(char *to, uint64_t bytes);
/* A number in the output: "1,234,567" on a terminal, 1234567 elsewhere. */
void bi_print_count(const struct cli *cli, char *to, uint64_t number);

/*
 * A table. Columns are as wide as they must be. On a terminal no row is wider than the window: the
 * last column is cut first, then the widest of those with text, and columns that still do not fit are
 * left out. Not on a terminal: no colours, nothing cut, the same columns. A row is one line, whatever
 * is in it.
 */
struct table;
#define BI_TABLE_COLUMNS 16

/* heads: "TOPIC|>READY|>AGE", separated by |; > puts the column to the right. NULL: no memory,
 * which the other calls take, and the last one says. */
struct table *bi_table_new(const struct cli *cli, const char *headers);
/* One more cell, copied; a row is complete when every column has one. */
void bi_table_cell(struct table *table, enum bi_print_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bi_table_number(struct table *table, enum bi_print_style style, uint64_t number);
/* One of any bytes: an excerpt on a terminal, all of them elsewhere. */
void bi_table_bytes(struct table *table, enum bi_print_style style, const void *data, size_t size);
/* Prints the rows that there are, and forgets them; the columns of those that follow are at least
 * as wide. So a table of any length takes no more memory than a part of it. */
void bi_table_flush(struct table *table);
/* Prints what is left, and frees. BI_EXIT_OK, or says that there was not enough memory. */
int bi_table_print(struct table *table);
/* Frees without printing; NULL is fine. */
void bi_table_free(struct table *table);

/* "name    value" lines, for one thing with many properties. */
void bi_print_property(const struct cli *cli, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same of any bytes. */
void bi_print_property_bytes(const struct cli *cli, const char *name, const void *data,
                             size_t size);

#endif
