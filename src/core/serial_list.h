/* SPDX-License-Identifier: MIT */
/*
 * serial_list - items of a pool in the order of their serials, for listing.
 *
 * Each item that is added gets the next serial, so a listing that continues behind the serial of
 * the last item returns an item that is there all the time exactly once. Topics and announced
 * workers are listed like this. Entries are in pages: removing one moves only those of its page,
 * and pages that are nearly empty are merged.
 *
 * Failure    Only reserve can fail; the list is then unchanged.
 * Cost       O(log n), and the entries of a page.
 */
#ifndef BI_SERIAL_LIST_H
#define BI_SERIAL_LIST_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdint.h>

struct serial_page;

struct serial_page_link {
    uint64_t from; /* above all serials of the page before, and not above those of this one */
    struct serial_page *page;
};

struct serial_list {
    struct bi_alloc alloc;
    struct serial_page_link *pages;
    size_t count, room;
    uint64_t next; /* the serial of the next item */
};

void bi_serial_list_init(struct serial_list *list, struct bi_alloc alloc);
void bi_serial_list_done(struct serial_list *list);

/* Reserves an entry for the next item; false when out of memory. */
bool bi_serial_list_reserve(struct serial_list *list);
/* Adds an item, not 0, and returns its serial. Requires a reserved entry. */
uint64_t bi_serial_list_add(struct serial_list *list, uint32_t item);
void bi_serial_list_remove(struct serial_list *list, uint64_t serial);

/* Returns the item with this serial or the next larger one; 0 if there is none. */
uint32_t bi_serial_list_at_or_after(const struct serial_list *list, uint64_t serial);

#endif
