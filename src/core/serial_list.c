/* SPDX-License-Identifier: MIT */
#include "core/serial_list.h"

#include <assert.h>
#include <string.h>

#define PAGE_ENTRIES 256

struct serial_entry {
    uint64_t serial;
    uint32_t item;
};

struct serial_page {
    uint32_t count;
    struct serial_entry entries[PAGE_ENTRIES];
};

void bi_serial_list_init(struct serial_list *list, struct bi_alloc alloc)
{
    *list = (struct serial_list){.alloc = alloc, .next = 1};
}

void bi_serial_list_done(struct serial_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        bi_alloc_free(&list->alloc, list->pages[i].page);
    bi_alloc_free(&list->alloc, list->pages);
    list->pages = NULL;
    list->count = list->room = 0;
}

/* Returns the index of the last page that begins at or before a serial; 0 if there is none. */
static size_t find_page(const struct serial_list *list, uint64_t serial)
{
    size_t low = 0;
    size_t high = list->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (list->pages[middle].from <= serial)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the index of the first entry of a page with this serial or a larger one. */
static uint32_t find_entry(const struct serial_page *page, uint64_t serial)
{
    uint32_t low = 0;
    uint32_t high = page->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (page->entries[middle].serial < serial)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t bi_serial_list_at_or_after(const struct serial_list *list, uint64_t serial)
{
    /* Continue with the next page: the serial may lie behind the last entry, and a page may be
     * empty. */
    for (size_t i = find_page(list, serial); i < list->count; i++) {
        const struct serial_page *page = list->pages[i].page;
        uint32_t at = find_entry(page, serial);
        if (at < page->count)
            return page->entries[at].item;
    }
    return 0;
}

static bool reserve_link(struct serial_list *list)
{
    if (list->count < list->room)
        return true;

    size_t room = list->room == 0 ? 16 : list->room * 2;
    struct serial_page_link *pages =
        bi_alloc_resize(&list->alloc, list->pages, room * sizeof(*pages));
    if (pages == NULL)
        return false;

    list->pages = pages;
    list->room = room;
    return true;
}

bool bi_serial_list_reserve(struct serial_list *list)
{
    if (list->count > 0 && list->pages[list->count - 1].page->count < PAGE_ENTRIES)
        return true;

    if (!reserve_link(list))
        return false;
    struct serial_page *page = bi_alloc_malloc(&list->alloc, sizeof(*page));
    if (page == NULL)
        return false;

    /* The page begins at the serial that the next item gets. If creating that item fails, the empty
     * page remains for the one after it. */
    page->count = 0;
    list->pages[list->count++] = (struct serial_page_link){.from = list->next, .page = page};
    return true;
}

uint64_t bi_serial_list_add(struct serial_list *list, uint32_t item)
{
    struct serial_page *page = list->pages[list->count - 1].page;
    assert(item != 0 && page->count < PAGE_ENTRIES);
    page->entries[page->count++] = (struct serial_entry){list->next, item};
    return list->next++;
}

/* Appends the entries of the next page to this one. Serials increase over pages, so the order
 * holds. */
static void merge_pages(struct serial_list *list, size_t index)
{
    struct serial_page *into = list->pages[index].page;
    struct serial_page *from = list->pages[index + 1].page;
    assert(into->count + from->count <= PAGE_ENTRIES);

    memcpy(into->entries + into->count, from->entries, from->count * sizeof(*from->entries));
    into->count += from->count;
    bi_alloc_free(&list->alloc, from);

    list->count--;
    memmove(list->pages + index + 1, list->pages + index + 2,
            (list->count - index - 1) * sizeof(*list->pages));
}

void bi_serial_list_remove(struct serial_list *list, uint64_t serial)
{
    size_t index = find_page(list, serial);
    struct serial_page *page = list->pages[index].page;
    uint32_t at = find_entry(page, serial);
    assert(at < page->count && page->entries[at].serial == serial);

    page->count--;
    memmove(page->entries + at, page->entries + at + 1,
            (page->count - at) * sizeof(*page->entries));
    /* Merge neighbours that fill half a page together. The result is half empty, so each merge
     * is paid for by many removals. */
    if (index + 1 < list->count &&
        page->count + list->pages[index + 1].page->count <= PAGE_ENTRIES / 2)
        merge_pages(list, index);
    else if (index > 0 && page->count + list->pages[index - 1].page->count <= PAGE_ENTRIES / 2)
        merge_pages(list, index - 1);
}
