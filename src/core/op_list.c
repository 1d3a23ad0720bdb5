/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
/*
 * op_list - pages of jobs.
 *
 * Where few jobs can match (what one call may examine covers all of them), all are looked at for
 * each page, and come in the order of their ids. Where many can, the table of ids is walked: its
 * order is fixed, whatever is added or removed meanwhile. A listing that began in order of ids and
 * finds too many goes on by walking, past the ids that it has had.
 *
 * Either way a cursor is a place in an order that does not change, so a job that matches during
 * the whole listing is returned exactly once. A place in the table would tell the hash of an id, and
 * so the secret of the table: it is shown permuted.
 */
#include "core/state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cursors: a letter and hexadecimal numbers ---- */

bool bi_cursor_read(const char *cursor, char letter, uint64_t *numbers, int count)
{
    if (cursor[0] == 0)
        return true;
    if (cursor[0] != letter)
        return false;
    const char *at = cursor + 1;
    for (int i = 0; i < count; i++) {
        uint64_t number = 0;
        int digits = 0;
        for (; digits <= 16; digits++, at++) {
            static const char hex[] = "0123456789abcdef";
            const char *digit = *at == 0 ? NULL : strchr(hex, *at);
            if (digit == NULL)
                break;
            number = number << 4 | (uint64_t)(digit - hex);
        }
        if (digits == 0 || digits > 16 || *at != (i + 1 < count ? '.' : 0))
            return false;
        numbers[i] = number;
        at++;
    }
    return true;
}

void bi_cursor_write(char *cursor, char letter, const uint64_t *numbers, int count)
{
    int size = snprintf(cursor, BIDE_CURSOR_SIZE, "%c%llx", letter, (unsigned long long)numbers[0]);
    if (count > 1)
        snprintf(cursor + size, (size_t)(BIDE_CURSOR_SIZE - size), ".%llx",
                 (unsigned long long)numbers[1]);
}

/* ---- what matches ---- */

struct listing {
    struct core *core;
    bide_list_args *args;
    const struct topic *topic; /* NULL: all topics */
    uint64_t past_id;          /* ids up to this one were returned already */
    uint64_t bytes;            /* shown by this page */
    bool full;
};

static bool has_key(const struct core *core, const struct job *job, bide_slice key)
{
    const struct more *more = more_of(core, job);
    return more != NULL && more->key != NULL && bide_buf_size(more->key) == key.size &&
           memcmp(bide_buf_data(more->key), key.data, key.size) == 0;
}

/* A body that is not in memory may have it: whoever reads the body will see. */
static bool has_text(const struct job *job, bide_slice text)
{
    if (bi_job_lacks_body(job))
        return true;
    return memmem(bide_buf_data(job->body), bide_buf_size(job->body), text.data, text.size) != NULL;
}

/* Bytes that take as long to be searched for a text as looking at a job does. */
#define SEARCHED_BYTES 64

/* What looking at a job costs: to search its body for a text costs more, the larger it is. */
static unsigned price(const struct listing *listing, const struct job *job)
{
    return 1 + (listing->args->filter.text.size > 0 ? job->body_size / SEARCHED_BYTES : 0);
}

static bool wants_state(const bide_list_args *args, int state)
{
    if (args->state != BIDE_STATE_ANY)
        return state == (int)args->state;
    return args->filter.states == 0 || (args->filter.states >> state & 1) != 0;
}

static bool matches(const struct listing *listing, const struct job *job)
{
    const bide_list_args *args = listing->args;
    const bide_filter *filter = &args->filter;
    const struct core *core = listing->core;
    if (job->id <= listing->past_id)
        return false;
    if (listing->topic != NULL && job->topic != listing->topic->self)
        return false;
    if (!wants_state(args, job->state))
        return false;
    int64_t age = age_of(core, job->created);
    if (age < us_of(filter->min_age_ms))
        return false;
    if (filter->max_age_ms != 0 && age > us_of(filter->max_age_ms))
        return false;
    if (filter->key.size > 0 && !has_key(core, job, filter->key))
        return false;
    return filter->text.size == 0 || has_text(job, filter->text);
}

/* Adds a job to the page; false, and the page is full, if there is no room for it. Where bodies are
 * searched they come along, and are taken away again at the end. */
static bool show(struct listing *listing, const struct job *job)
{
    bide_list_args *args = listing->args;
    bool with_body = args->with_body || args->filter.text.size > 0;
    uint64_t size = bi_core_shown_size(listing->core, job, with_body);
    bool fits = args->count == 0 || bi_core_page_fits(listing->core, listing->bytes, size);
    if (args->count == args->job_max || !fits) {
        listing->full = true;
        return false;
    }
    bide_job *out = &args->jobs[args->count++];
    bi_core_snapshot(listing->core, job, out, with_body);
    out->token = 0;
    listing->bytes += size;
    return true;
}

/* ---- in order of ids ---- */

struct pick_entry {
    uint64_t id;
    uint32_t job;
};

/* The largest id on top: it makes room for a smaller one. */
#define BI_HEAP_NAME              pick
#define BI_HEAP_ENTRY             struct pick_entry
#define BI_HEAP_LESS(a, b)        ((a)->id > (b)->id)
#define BI_HEAP_MOVED(ctx, e, at) ((void)(e))
#include "core/heap.h"

struct picks {
    struct pick_heap heap;
    struct pick_entry room[BIDE_BATCH_JOBS];
    bool more; /* some that match did not fit */
};

static void pick(struct listing *listing, struct picks *picks, const struct job *job)
{
    if (!matches(listing, job))
        return;
    struct pick_entry entry = {job->id, job->self};
    if (picks->heap.count < listing->args->job_max) {
        pick_heap_push(&picks->heap, NULL, entry);
        return;
    }
    picks->more = true;
    if (job->id < picks->heap.entries[0].id)
        pick_heap_replace(&picks->heap, NULL, 0, entry);
}

static void pick_states(struct listing *listing, struct picks *picks, const struct topic *topic)
{
    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++) {
        if (!wants_state(listing->args, state))
            continue;
        const struct job_list *list = &topic->lists[state];
        const struct job *job = NULL;
        while ((job = bi_list_next(listing->core, list, job)) != NULL)
            pick(listing, picks, job);
    }
}

static void list_by_id(struct listing *listing)
{
    struct core *core = listing->core;
    bide_list_args *args = listing->args;
    struct picks picks = {.heap = {.room = BIDE_BATCH_JOBS}};
    picks.heap.entries = picks.room;
    if (listing->topic != NULL)
        pick_states(listing, &picks, listing->topic);
    const struct topic *topic = listing->topic == NULL ? bi_topic_from(core, 0) : NULL;
    for (; topic != NULL; topic = bi_topic_from(core, topic->serial + 1))
        pick_states(listing, &picks, topic);
    /* The largest id leaves the heap first, and takes the place that it frees at the end. */
    size_t picked = picks.heap.count;
    while (picks.heap.count > 0) {
        struct pick_entry largest = picks.heap.entries[0];
        pick_heap_remove(&picks.heap, NULL, 0);
        picks.room[picks.heap.count] = largest;
    }
    args->count = 0;
    for (size_t i = 0; i < picked && show(listing, job_at(core, picks.room[i].job)); i++)
        continue;
    assert(picked == 0 || args->count > 0);
    if (args->count < picked || picks.more)
        bi_cursor_write(args->cursor, 'i', &args->jobs[args->count - 1].id, 1);
    else
        args->cursor[0] = 0;
}

/* ---- by walking ---- */

/* How much of a body the cache is told: it finds the rest itself. */
#define BODY_AHEAD 128

/* Items of a chain that are passed for the price of looking at one job. */
#define PASSED_PER_UNIT 8

/* The item of a chain with the smallest place that is not below from; 0 for none. *cost grows by what
 * the search costs: an ordinary chain has one or two items, and costs nothing. */
static uint32_t next_in_chain(const struct core *core, uint32_t chain, uint64_t from,
                              uint64_t *place, unsigned *cost)
{
    uint32_t best = 0;
    unsigned passed = 0;
    for (uint32_t ref = chain; ref != 0; ref = job_at(core, ref)->link, passed++) {
        uint64_t at = bi_table_place(bi_core_id_hash(core, job_at(core, ref)->id));
        if (at >= from && (best == 0 || at < *place)) {
            best = ref;
            *place = at;
        }
    }
    *cost += passed / PASSED_PER_UNIT;
    return best;
}

/* Returns what matches in a chain, and counts what was examined. The listing is full when the page is,
 * or when the call has examined enough: *from is then where the next page begins. */
static unsigned list_chain(struct listing *listing, uint32_t chain, unsigned examined,
                           uint64_t *from)
{
    uint64_t place = 0;
    uint32_t ref;
    while ((ref = next_in_chain(listing->core, chain, *from, &place, &examined)) != 0) {
        const struct job *job = job_at(listing->core, ref);
        examined += price(listing, job);
        if (matches(listing, job) && !show(listing, job)) {
            *from = place;
            return examined;
        }
        if (place == UINT64_MAX)
            break;
        *from = place + 1;
        if (examined >= BIDE_EXAMINE_MAX) {
            listing->full = true;
            break;
        }
    }
    return examined;
}

/* Tells the cache what a walk comes to soon: jobs, and the bodies that it searches. */
static void approach(const struct listing *listing, uint64_t place)
{
    enum { NEXT = 3, LATER = 8 }; /* chains */
    const struct core *core = listing->core;
    const struct job *later = job_at(core, bi_table_soon(&core->by_id, place, LATER));
    if (later != NULL)
        bi_ahead(later, sizeof(*later));
    if (listing->args->filter.text.size == 0)
        return;
    const struct job *next = job_at(core, bi_table_soon(&core->by_id, place, NEXT));
    if (next != NULL && next->body != NULL)
        bi_ahead(next->body, BODY_AHEAD);
}

static void list_by_walk(struct listing *listing, uint64_t place)
{
    bide_list_args *args = listing->args;
    unsigned examined = 0;
    bool end = false;
    args->count = 0;
    while (!end && examined < BIDE_EXAMINE_MAX) {
        uint64_t from = place;
        approach(listing, place);
        uint32_t chain = bi_table_walk(&listing->core->by_id, &place, &end);
        /* An empty chain is work, too. */
        examined = list_chain(listing, chain, examined + 1, &from);
        if (listing->full) {
            place = from;
            end = false;
            break;
        }
    }
    listing->core->work += examined;
    if (end)
        args->cursor[0] = 0;
    else
        bi_cursor_write(
            args->cursor, 'w',
            (uint64_t[]){bi_permute(&listing->core->cursors, 64, place), listing->past_id}, 2);
}

/* ---- list ---- */

static uint64_t candidates(const struct core *core, const struct listing *listing)
{
    uint64_t count = 0;
    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
        if (wants_state(listing->args, state))
            count +=
                listing->topic == NULL ? core->counts[state] : listing->topic->lists[state].count;
    /* All topics are looked at when none is named. */
    return listing->topic == NULL ? count + core->by_name.count : count;
}

void bi_list_strip(bide_list_args *args)
{
    for (size_t i = 0; !args->with_body && i < args->count; i++)
        bi_snapshot_strip(&args->jobs[i]);
}

/* Where the cursor of the call is kept: its letter, and its numbers. */
enum { BEGIN_LETTER, BEGIN_NUMBERS };

static void keep_cursor(bide_op *op, uint64_t first, uint64_t second)
{
    op->private_.bound[BEGIN_LETTER] = (unsigned char)op->list.cursor[0];
    op->private_.bound[BEGIN_NUMBERS] = first;
    op->private_.bound[BEGIN_NUMBERS + 1] = second;
}

void bi_core_unlist(bide_op *op)
{
    bide_list_args *args = &op->list;
    char letter = (char)op->private_.bound[BEGIN_LETTER];
    for (size_t i = 0; i < args->count; i++)
        bide_job_clear(&args->jobs[i]);
    args->count = 0;
    args->cursor[0] = 0;
    if (letter != 0)
        bi_cursor_write(args->cursor, letter, &op->private_.bound[BEGIN_NUMBERS],
                        letter == 'w' ? 2 : 1);
}

int bi_op_list(struct core *core, bide_op *op)
{
    bide_list_args *args = &op->list;
    struct listing listing = {.core = core, .args = args};
    uint64_t walk[2] = {0, 0};
    bool walking = args->cursor[0] == 'w';
    bool good = walking ? bi_cursor_read(args->cursor, 'w', walk, 2)
                        : bi_cursor_read(args->cursor, 'i', &listing.past_id, 1);
    if (!good)
        return bi_op_refuse(op, BIDE_EINVAL, "list: the cursor is not one that this call gave");
    keep_cursor(op, walking ? walk[0] : listing.past_id, walk[1]);
    if (args->topic.size > 0) {
        listing.topic = bi_topic_find(core, args->topic);
        if (listing.topic == NULL) {
            args->count = 0;
            args->cursor[0] = 0;
            return BIDE_OK;
        }
    }
    if (walking)
        listing.past_id = walk[1];
    /* Bodies are seldom as large as they may be. */
    uint64_t price_max = args->filter.text.size > 0
                             ? 1 + core->limits.max_job_size / ((uint64_t)8 * SEARCHED_BYTES)
                             : 1;
    bool costly = candidates(core, &listing) * price_max > BIDE_EXAMINE_MAX;
    if (!walking && !costly)
        core->work += candidates(core, &listing);
    if (walking || costly)
        list_by_walk(&listing, walking ? bi_unpermute(&core->cursors, 64, walk[0]) : 0);
    else
        list_by_id(&listing);
    if (!core->lacking)
        bi_list_strip(args);
    return BIDE_OK;
}
