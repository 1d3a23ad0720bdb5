/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "cli/print.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_LINE 16
#define TAB_WIDTH      8

/* ---- the cursor ---- */

bool bi_top_page_move_cursor(int key, size_t count, size_t window, size_t *selected)
{
    static const struct {
        int key;
        int64_t lines, windows;
    } moves[] = {
        {TOP_KEY_UP, -1, 0},           {'k', -1, 0},
        {TOP_KEY_DOWN, 1, 0},          {'j', 1, 0},
        {TOP_KEY_PAGE_UP, 0, -1},      {TOP_KEY_PAGE_DOWN, 0, 1},
        {TOP_KEY_HOME, -INT32_MAX, 0}, {TOP_KEY_END, INT32_MAX, 0},
    };
    int64_t last = count == 0 ? 0 : (int64_t)count - 1;
    int64_t at = (int64_t)*selected < last ? (int64_t)*selected : last;

    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
        if (moves[i].key != key)
            continue;
        at += moves[i].lines + moves[i].windows * (int64_t)window;
        *selected = at < 0 ? 0 : at > last ? (size_t)last : (size_t)at;
        return true;
    }
    return false;
}

size_t bi_top_page_scroll(size_t first, size_t selected, size_t count, size_t window)
{
    size_t max_first = count > window ? count - window : 0;

    assert(window > 0);
    if (selected < first)
        first = selected;
    else if (selected >= first + window)
        first = selected - window + 1;
    return first < max_first ? first : max_first;
}

/* ---- lines ---- */

static void append_line(struct page *page, const char *text)
{
    char *line = strdup(text);

    if (line != NULL && BI_CLI_RESERVE(page->lines, page->count + 1, page->capacity)) {
        page->lines[page->count++] = line;
        return;
    }
    page->out_of_memory = true;
    free(line);
}

void bi_top_page_reset(struct page *page, int width)
{
    for (size_t i = 0; i < page->count; i++)
        free(page->lines[i]);
    page->count = 0;
    page->width = width;
    page->out_of_memory = false;
}

void bi_top_page_free(struct page *page)
{
    bi_top_page_reset(page, 0);
    free(page->lines);
    *page = (struct page){.width = 0};
}

void bi_top_page_add_line(struct page *page, const char *format, ...)
{
    char text[1024];

    BI_CLI_FORMAT(text, format);
    append_line(page, text);
}

/* ---- text ---- */

/* A line that is appended to the page when it is full. */
struct fold {
    struct page *page;
    int width;
    int used; /* columns */
    size_t size;
    char line[4 * BI_TOP_WIDTH_MAX + 1];
};

static void flush_line(struct fold *fold)
{
    fold->line[fold->size] = 0;
    append_line(fold->page, fold->line);
    fold->size = 0;
    fold->used = 0;
}

static void append(struct fold *fold, const char *text, size_t size, int columns)
{
    if (fold->used + columns > fold->width)
        flush_line(fold);
    /* Any number of combining characters may follow one column: drop those beyond the buffer. */
    if (fold->size + size > 4 * (size_t)fold->width)
        return;
    assert(fold->size + size < sizeof(fold->line));
    memcpy(fold->line + fold->size, text, size);
    fold->size += size;
    fold->used += columns;
}

static void append_char(struct fold *fold, const unsigned char *at, size_t length, int columns)
{
    if (*at == '\n') {
        flush_line(fold);
    } else if (*at == '\t') {
        int blanks = TAB_WIDTH - fold->used % TAB_WIDTH;
        append(fold, "        ", (size_t)blanks, blanks);
    } else if (columns >= 0) {
        append(fold, (const char *)at, length, columns);
    } else {
        for (size_t i = 0; i < length; i++) {
            char escape[8];
            snprintf(escape, sizeof(escape), "\\x%02x", at[i]);
            append(fold, escape, 4, 4);
        }
    }
}

static void append_text(struct page *page, const unsigned char *bytes, size_t size)
{
    struct fold fold;
    int columns;

    fold.page = page;
    fold.width = page->width < BI_TOP_WIDTH_MAX ? page->width : BI_TOP_WIDTH_MAX;
    fold.used = 0;
    fold.size = 0;
    for (size_t i = 0, length; i < size; i += length) {
        length = bi_print_char_width(bytes + i, size - i, &columns);
        if (length == 0)
            break; /* the limit cut a character */
        append_char(&fold, bytes + i, length, columns);
    }
    if (fold.size > 0)
        flush_line(&fold);
}

/* ---- bytes ---- */

static void append_hexdump(struct page *page, const unsigned char *bytes, size_t size)
{
    size_t per_line = BYTES_PER_LINE;

    /* A byte takes four columns, the offset ten. */
    while (per_line > 4 && page->width < 10 + 4 * (int)per_line)
        per_line /= 2;

    for (size_t from = 0; from < size; from += per_line) {
        char line[16 + 4 * BYTES_PER_LINE];
        int at = snprintf(line, sizeof(line), "%08zx ", from);
        for (size_t i = from; i < from + per_line; i++)
            at += i < size ? snprintf(line + at, 4, " %02x", bytes[i])
                           : snprintf(line + at, 4, "   ");
        line[at++] = ' ';
        for (size_t i = from; i < from + per_line && i < size; i++)
            line[at++] = (char)(bytes[i] >= 0x20 && bytes[i] < 0x7f ? bytes[i] : '.');
        line[at] = 0;
        append_line(page, line);
    }
}

void bi_top_page_add_bytes(struct page *page, const char *heading, const void *data, size_t size)
{
    size_t shown = size < BI_TOP_PAGE_BYTES_MAX ? size : BI_TOP_PAGE_BYTES_MAX;

    append_line(page, "");
    if (shown < size)
        bi_top_page_add_line(page, "%s: %zu bytes, the first %zu of them", heading, size, shown);
    else
        bi_top_page_add_line(page, "%s: %zu byte%s", heading, size, size == 1 ? "" : "s");

    if (data == NULL || size == 0)
        return;
    if (page->width > 0 && !bi_print_is_binary(data, size))
        append_text(page, data, shown);
    else
        append_hexdump(page, data, shown);
}
