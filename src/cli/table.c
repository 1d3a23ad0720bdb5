/* SPDX-License-Identifier: MIT */
/*
 * table.c - tables with columns as wide as their content.
 */
#define _GNU_SOURCE /* vasprintf */
#include "cli/print.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP         2
#define MIN_WIDTH   8   /* columns that are left of one with text, however narrow the terminal */
#define EXCERPT_MAX 500 /* columns: no terminal shows more */

struct cell {
    char *text;
    enum bi_print_style style;
};

struct table {
    const struct cli *cli;
    char *headers; /* taken apart: each ends with NUL */
    const char *header[BI_TABLE_COLUMNS];
    bool right[BI_TABLE_COLUMNS];
    size_t widths[BI_TABLE_COLUMNS];
    size_t columns;
    struct cell *cells;
    size_t count, room;
    bool header_printed; /* the heads are printed */
    bool failed;
};

struct table *bi_table_new(const struct cli *cli, const char *headers)
{
    struct table *table = calloc(1, sizeof(*table));
    char *copy = strdup(headers);
    if (table == NULL || copy == NULL) {
        free(table);
        free(copy);
        return NULL;
    }
    *table = (struct table){.cli = cli, .headers = copy};
    for (char *rest = copy, *header; (header = strsep(&rest, "|")) != NULL;) {
        assert(table->columns < BI_TABLE_COLUMNS);
        table->right[table->columns] = header[0] == '>';
        table->header[table->columns++] = header + (header[0] == '>');
    }
    return table;
}

/* ---- cells ---- */

/* Takes the text; NULL: out of memory. */
static void add_cell(struct table *table, enum bi_print_style style, char *text)
{
    assert(!table->failed);
    table->failed = text == NULL || !BI_CLI_RESERVE(table->cells, table->count + 1, table->room);
    if (table->failed)
        free(text);
    else
        table->cells[table->count++] = (struct cell){text, style};
}

/* Returns an allocated copy of the bytes in one line; NULL: out of memory. */
static char *escape_line(const struct table *table, const void *data, size_t size)
{
    char *text = NULL;
    size_t length;

    FILE *to = open_memstream(&text, &length);
    if (to == NULL)
        return NULL;
    bi_print_line(to, table->cli->out_terminal, data, size);
    bool good = ferror(to) == 0;
    if (fclose(to) == 0 && good)
        return text;
    free(text);
    return NULL;
}

static bool is_printable(const char *text)
{
    for (; *text != 0; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

void bi_table_cell(struct table *table, enum bi_print_style style, const char *format, ...)
{
    va_list args;
    char *text = NULL;

    if (table == NULL || table->failed)
        return;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    if (size < 0)
        text = NULL;

    if (text != NULL && !is_printable(text)) {
        char *shown = escape_line(table, text, (size_t)size);
        free(text);
        text = shown;
    }
    add_cell(table, style, text);
}

void bi_table_number(struct table *table, enum bi_print_style style, uint64_t number)
{
    if (table != NULL)
        bi_table_cell(table, style, "%s", bi_text_count(table->cli, number).s);
}

void bi_table_bytes(struct table *table, enum bi_print_style style, const void *data, size_t size)
{
    char shown[4 * EXCERPT_MAX + 4];

    if (table == NULL || table->failed)
        return;
    if (!table->cli->out_terminal) {
        add_cell(table, style, escape_line(table, data, size));
        return;
    }
    bi_print_excerpt(shown, EXCERPT_MAX, data, size);
    add_cell(table, style, strdup(shown));
}

/* ---- printing ---- */

static void widen(struct table *table, size_t column, const char *text)
{
    size_t width = bi_print_width(text);
    if (width > table->widths[column])
        table->widths[column] = width;
}

static void measure(struct table *table)
{
    assert(table->columns > 0);
    for (size_t i = 0; i < table->columns; i++)
        widen(table, i, table->header[i]);
    for (size_t i = 0; i < table->count; i++)
        widen(table, i % table->columns, table->cells[i].text);
}

/* Returns the width of the terminal; 0: none, nothing is cut. */
static size_t terminal_width(const struct table *table)
{
    struct winsize window = {.ws_col = 0};

    if (!table->cli->out_terminal)
        return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
        return 80;
    return window.ws_col;
}

static size_t total_width(const struct table *table, const size_t *widths)
{
    size_t total = 0;
    for (size_t i = 0; i < table->columns; i++)
        total += widths[i] + (i > 0 ? GAP : 0);
    return total;
}

/* Returns the widest text column that can be narrower; the number of columns: none. Numbers are
 * never cut: the rest would be another number. */
static size_t find_widest(const struct table *table, const size_t *widths)
{
    size_t widest = table->columns;

    for (size_t i = 0; i < table->columns; i++)
        if (!table->right[i] && widths[i] > MIN_WIDTH &&
            (widest == table->columns || widths[i] > widths[widest]))
            widest = i;
    return widest;
}

/* Computes the widths in a window; columns that do not fit get 0. The last column, the body, is cut
 * first, then the widest. */
static void fit_columns(const struct table *table, size_t window, size_t *widths)
{
    size_t last = table->columns - 1, widest;

    memcpy(widths, table->widths, sizeof(table->widths));
    while (!table->right[last] && widths[last] > MIN_WIDTH && total_width(table, widths) > window)
        widths[last]--;
    while (total_width(table, widths) > window &&
           (widest = find_widest(table, widths)) < table->columns)
        widths[widest]--;

    size_t used = 0;
    for (size_t i = 0; i < table->columns; i++) {
        if (widths[i] > window)
            widths[i] = window;
        used += widths[i] + (i > 0 ? GAP : 0);
        if (used > window && i > 0)
            widths[i] = 0;
    }
}

/* cut: a buffer for cells that are cut; NULL: nothing is cut. */
static void print_cell(const struct table *table, size_t column, size_t width, const char *text,
                       enum bi_print_style style, char *scratch)
{
    size_t cell_width = bi_print_width(text);
    if (scratch != NULL && cell_width > width) {
        cell_width = bi_print_excerpt(scratch, width, text, strlen(text));
        text = scratch;
    }

    assert(column < table->columns);
    bool last = column + 1 == table->columns;
    int pad = cell_width < width ? (int)(width - cell_width) : 0;
    const char *on = style == BI_STYLE_OFF ? "" : bi_print_style(table->cli, style);

    if (column > 0)
        printf("%*s", GAP, "");
    if (table->right[column])
        printf("%*s", pad, "");
    fputs(on, stdout);
    fputs(text, stdout);
    fputs(on[0] == 0 ? "" : bi_print_style(table->cli, BI_STYLE_OFF), stdout);
    if (!table->right[column] && !last)
        printf("%*s", pad, "");
}

static void print_row(const struct table *table, const size_t *widths, const struct cell *cells,
                      char *scratch)
{
    for (size_t i = 0; i < table->columns; i++) {
        const char *text = cells == NULL ? table->header[i] : cells[i].text;
        if (widths[i] > 0)
            print_cell(table, i, widths[i], text, cells == NULL ? BI_STYLE_HEADER : cells[i].style,
                       scratch);
    }
    putchar('\n');
}

static void clear_rows(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i].text);
    table->count = 0;
}

void bi_table_flush(struct table *table)
{
    if (table == NULL || table->failed)
        return;
    measure(table);
    size_t window = terminal_width(table), widths[BI_TABLE_COLUMNS];
    char *scratch = window == 0 ? NULL : malloc(4 * window + 4);
    table->failed = window != 0 && scratch == NULL;
    if (window != 0)
        fit_columns(table, window, widths);
    const size_t *used = window == 0 ? table->widths : widths;
    if (!table->failed && !table->header_printed)
        print_row(table, used, NULL, scratch);
    table->header_printed = true;
    for (size_t i = 0; !table->failed && i + table->columns <= table->count; i += table->columns)
        print_row(table, used, &table->cells[i], scratch);
    free(scratch);
    clear_rows(table);
}

void bi_table_free(struct table *table)
{
    if (table == NULL)
        return;
    clear_rows(table);
    free(table->cells);
    free(table->headers);
    free(table);
}

int bi_table_print(struct table *table)
{
    static const struct cli no_cli;
    int exit = BI_EXIT_OK;

    bi_table_flush(table);
    if (table == NULL || table->failed)
        exit = bi_cli_error(table == NULL ? &no_cli : table->cli, BI_EXIT_FAILED, "out of memory");
    bi_table_free(table);
    return exit;
}
