/* SPDX-License-Identifier: MIT */
/*
 * table.c - columns that are as wide as what stands in them.
 */
#define _GNU_SOURCE /* vasprintf, wcswidth */
#include "cli/print.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define GAP 2

struct cell {
    char *text;
    enum bi_paint paint;
};

struct table {
    const struct cli *cli;
    char *heads; /* taken apart: each ends with NUL */
    const char *head[BI_TABLE_COLUMNS];
    bool right[BI_TABLE_COLUMNS];
    size_t columns;
    struct cell *cells;
    size_t count, room;
    bool failed;
};

/* How many columns of the terminal a text takes. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    mbstate_t state = {0};
    for (const char *at = text; *at != 0;) {
        wchar_t c;
        size_t size = mbrtowc(&c, at, strlen(at), &state);
        if (size == (size_t)-1 || size == (size_t)-2)
            return strlen(text);
        int columns = wcwidth(c);
        width += columns > 0 ? (size_t)columns : 0;
        at += size;
    }
    return width;
}

struct table *bi_table_new(const struct cli *cli, const char *heads)
{
    struct table *table = calloc(1, sizeof(*table));
    char *copy = strdup(heads);
    if (table == NULL || copy == NULL) {
        free(table);
        free(copy);
        return NULL;
    }
    *table = (struct table){.cli = cli, .heads = copy};
    for (char *rest = copy, *head; (head = strsep(&rest, "|")) != NULL;) {
        table->right[table->columns] = head[0] == '>';
        table->head[table->columns++] = head + (head[0] == '>');
    }
    return table;
}

static bool grow(struct table *table)
{
    if (table->count < table->room)
        return true;
    size_t room = table->room == 0 ? 256 : table->room * 2;
    struct cell *cells = realloc(table->cells, room * sizeof(*cells));
    if (cells == NULL)
        return false;
    table->cells = cells;
    table->room = room;
    return true;
}

void bi_table_cell(struct table *table, enum bi_paint paint, const char *format, ...)
{
    va_list args;
    char *text;
    if (table == NULL || table->failed)
        return;
    va_start(args, format);
    table->failed = !grow(table) || vasprintf(&text, format, args) < 0;
    va_end(args);
    if (!table->failed)
        table->cells[table->count++] = (struct cell){text, paint};
}

/* The room for the last column on a terminal; 0: as much as it wants. */
static size_t last_room(const struct table *table, const size_t *widths)
{
    struct winsize window = {.ws_col = 0};
    size_t used = 0;
    if (!table->cli->out_terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0)
        return 0;
    for (size_t i = 0; i + 1 < table->columns; i++)
        used += widths[i] + GAP;
    return window.ws_col > used + 8 ? window.ws_col - used : 8;
}

static void measure(const struct table *table, size_t *widths)
{
    for (size_t i = 0; i < table->columns; i++)
        widths[i] = width_of(table->head[i]);
    for (size_t i = 0; i < table->count; i++) {
        size_t width = width_of(table->cells[i].text);
        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }
}

static void print_cell(const struct table *table, size_t column, const char *text, size_t width,
                       enum bi_paint paint)
{
    size_t own = width_of(text);
    bool last = column + 1 == table->columns;
    int pad = own < width ? (int)(width - own) : 0;
    const char *on = paint == BI_PAINT_OFF ? "" : bi_paint(table->cli, paint);
    if (column > 0)
        printf("%*s", GAP, "");
    if (table->right[column])
        printf("%*s", pad, "");
    printf("%s%s%s", on, text, on[0] == 0 ? "" : bi_paint(table->cli, BI_PAINT_OFF));
    if (!table->right[column] && !last)
        printf("%*s", pad, "");
    if (last)
        putchar('\n');
}

static void print_rows(const struct table *table)
{
    size_t widths[BI_TABLE_COLUMNS];
    measure(table, widths);
    size_t room = last_room(table, widths);
    char *cut = room == 0 ? NULL : malloc(4 * room + 4);
    for (size_t i = 0; i < table->columns; i++)
        print_cell(table, i, table->head[i], widths[i], BI_PAINT_HEAD);
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % table->columns;
        const char *text = table->cells[i].text;
        if (column + 1 == table->columns && cut != NULL) {
            bi_print_excerpt(cut, room, text, strlen(text));
            text = cut;
        }
        print_cell(table, column, text, widths[column], table->cells[i].paint);
    }
    free(cut);
}

int bi_table_print(struct table *table)
{
    static const struct cli nobody;
    int exit = BI_EXIT_OK;
    if (table == NULL)
        return bi_cli_failed(&nobody, BI_EXIT_FAILED, "out of memory");
    if (table->failed)
        exit = bi_cli_failed(table->cli, BI_EXIT_FAILED, "out of memory");
    else
        print_rows(table);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i].text);
    free(table->cells);
    free(table->heads);
    free(table);
    return exit;
}
