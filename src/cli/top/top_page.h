/* SPDX-License-Identifier: MIT */
/*
 * top_page - lines that are scrolled through: the properties of a job, its texts and its bytes.
 *
 * Text (UTF-8) is shown as it is, its long lines folded; what could steer a terminal as \xNN.
 * Anything else is shown as a table of bytes. Of very long ones the beginning is shown.
 */
#ifndef BI_TOP_PAGE_H
#define BI_TOP_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#define BI_TOP_PAGE_BYTES_MAX ((size_t)256 << 10) /* of one run of bytes that are shown */

struct page {
    char **lines;
    size_t count, capacity;
    int width;
    bool out_of_memory; /* some lines are missing */
};

/* Begins anew, for a window of so many columns. */
void bi_top_page_reset(struct page *page, int width);
void bi_top_page_free(struct page *page);

/* A line; cut by whoever shows it. */
void bi_top_page_add_line(struct page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes, with a heading that says how many there are. */
void bi_top_page_add_bytes(struct page *page, const char *heading, const void *data, size_t size);

#endif
