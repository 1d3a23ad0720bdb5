/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
/*
 * op_list - pages of jobs.
 *
 * If one call may examine all candidates, every page selects from all of them the jobs with the
 * smallest ids, in order of ids. Otherwise the page walks the table of ids, whose order does not
 * change when jobs are inserted or removed. A listing that began in order of ids and then finds
 * too many candidates continues by walking, and skips the ids that it has returned.
 *
 * Ordering   A cursor is a position in an order that does not change, so a job that matches during
 *            the whole listing is returned exactly once.
 * Cost       A call examines at most BIDE_EXAMINE_MAX jobs; searching a large body counts more.
 *
 * A position in the table reveals the hash of an id, and so the secret of the table. Cursors show
 * it encrypted by a permutation.
 */
#include "core/core_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cursors: a letter and hexadecimal numbers ---- */

bool bi_op_list_parse_cursor(const char *cursor, char letter, uint64_t *numbers, int count)
{
    if (cursor[0] == 0)
        return true;
    if (cursor[0] != letter)
        return false;

    const char *at = cursor + 1;
    for (int i = 0; i < count; i++) {
        uint64_t number = 0;
        int digits = 0;
        /* Up to 17 digits, so that a number that is too long is recognized. */
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

void bi_op_list_format_cursor(char *cursor, char letter, const uint64_t *numbers, int count)
{
    assert(count == 1 || count == 2);
    int size = snprintf(cursor, BIDE_CURSOR_SIZE, "%c%llx", letter, (unsigned long long)numbers[0]);
    if (count > 1)
        snprintf(cursor + size, (size_t)(BIDE_CURSOR_SIZE - size), ".%llx",
                 (unsigned long long)numbers[1]);
}

/* ---- filters ---- */

struct listing {
    struct core *core;
    bide_list_args *args;
    const struct topic *topic; /* NULL: all topics */
    uint64_t after_id;         /* ids up to this one were returned before */
    uint64_t bytes;            /* of this page */
    bool full;
};

static bool has_key(const struct core *core, const struct job *job, bide_slice key)
{
    const struct job_ext *ext = ext_of(core, job);
    return ext != NULL && ext->key != NULL && bide_buf_size(ext->key) == key.size &&
           memcmp(bide_buf_data(ext->key), key.data, key.size) == 0;
}

/* Bytes of a body that take as long to search as examining a job does. */
#define SEARCHED_BYTES 64

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

    /* The cheap tests first; the search of the body last. */
    if (job->id <= listing->after_id || job->id <= filter->after_id)
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
    /* A body that is not in memory counts as a match; supply_list() searches it when it was
     * read. */
    return filter->text.size == 0 || bi_job_body_missing(job) ||
           memmem(bide_buf_data(job->body), bide_buf_size(job->body), filter->text.data,
                  filter->text.size) != NULL;
}

/* Adds a job to the page. False, with listing->full set, if there is no room. For a text search
 * the snapshot includes the body, which is released at the end. */
static bool append_job(struct listing *listing, const struct job *job)
{
    bide_list_args *args = listing->args;
    assert(args->count <= args->job_max);
    bool with_body = args->with_body || args->filter.text.size > 0;
    uint64_t size = bi_snapshot_size(listing->core, job, with_body);
    bool fits = args->count == 0 || bi_snapshot_fits_page(listing->core, listing->bytes, size);

    if (args->count == args->job_max || !fits) {
        listing->full = true;
        return false;
    }

    bide_job *out = &args->jobs[args->count++];
    bi_snapshot_fill(listing->core, job, out, with_body);
    /* The token is the proof of another client's lease. */
    out->token = 0;
    listing->bytes += size;
    return true;
}

/* ---- in order of ids ---- */

struct pick_entry {
    uint64_t id;
    uint32_t job;
};

/* A max-heap of the smallest ids so far: a smaller id replaces the top. */
#define BI_HEAP_NAME              pick
#define BI_HEAP_ENTRY             struct pick_entry
#define BI_HEAP_LESS(a, b)        ((a)->id > (b)->id)
#define BI_HEAP_MOVED(ctx, e, at) ((void)(e))
#include "core/heap.h"

struct picks {
    struct pick_heap heap;
    struct pick_entry room[BIDE_BATCH_JOBS];
    bool truncated; /* some matches did not fit */
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

    picks->truncated = true;
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
        while ((job = bi_job_list_next(listing->core, list, job)) != NULL)
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
    const struct topic *topic = listing->topic == NULL ? bi_topic_at_or_after(core, 0) : NULL;
    for (; topic != NULL; topic = bi_topic_at_or_after(core, topic->serial + 1))
        pick_states(listing, &picks, topic);

    /* Sorts in place: the largest id leaves the heap first and moves to the slot that it frees
     * at the end. */
    size_t picked = picks.heap.count;
    while (picks.heap.count > 0) {
        struct pick_entry largest = picks.heap.entries[0];
        pick_heap_remove(&picks.heap, NULL, 0);
        picks.room[picks.heap.count] = largest;
    }

    args->count = 0;
    for (size_t i = 0; i < picked && append_job(listing, job_at(core, picks.room[i].job)); i++)
        continue;

    assert(picked == 0 || args->count > 0);
    if (args->count < picked || picks.truncated)
        bi_op_list_format_cursor(args->cursor, 'i', &args->jobs[args->count - 1].id, 1);
    else
        args->cursor[0] = 0;
}

/* ---- by walking ---- */

/* Bytes of a body to prefetch; the hardware prefetches the rest. */
#define BODY_PREFETCH 128

/* Chain items that may be passed at the cost of examining one job. */
#define PASSED_PER_UNIT 8

uint32_t bi_op_list_next_in_chain(const struct core *core, uint32_t chain, uint64_t from,
                                  uint64_t *position, unsigned *cost)
{
    uint32_t best = 0;
    unsigned passed = 0;
    for (uint32_t ref = chain; ref != 0; ref = job_at(core, ref)->link, passed++) {
        uint64_t at = bi_hash_table_position(bi_core_id_hash(core, job_at(core, ref)->id));
        if (at >= from && (best == 0 || at < *position)) {
            best = ref;
            *position = at;
        }
    }
    *cost += passed / PASSED_PER_UNIT;
    return best;
}

/*
 * Appends the matches of a chain and returns the cost so far. listing->full is set if the page
 * is full or the call has examined enough; *from is then the position where the next page
 * begins.
 */
static unsigned list_chain(struct listing *listing, uint32_t chain, unsigned examined,
                           uint64_t *from)
{
    bool searches = listing->args->filter.text.size > 0;
    uint64_t position = 0;
    uint32_t ref;
    while ((ref = bi_op_list_next_in_chain(listing->core, chain, *from, &position, &examined)) !=
           0) {
        const struct job *job = job_at(listing->core, ref);

        /* Searching a large body costs more than examining a job. */
        examined += 1 + (searches ? job->body_size / SEARCHED_BYTES : 0);
        if (matches(listing, job) && !append_job(listing, job)) {
            /* The page is full: the next one begins with this job. */
            *from = position;
            return examined;
        }

        if (position == UINT64_MAX)
            break;
        *from = position + 1;
        if (examined >= BIDE_EXAMINE_MAX) {
            listing->full = true;
            break;
        }
    }
    return examined;
}

/* Prefetches what the walk visits soon: jobs, and the bodies that it searches. */
static void prefetch(const struct listing *listing, uint64_t position)
{
    enum { NEXT = 3, LATER = 8 }; /* chains */
    const struct core *core = listing->core;
    const struct job *later = job_at(core, bi_hash_table_peek_ahead(&core->by_id, position, LATER));

    if (later != NULL)
        bi_prefetch(later, sizeof(*later));

    if (listing->args->filter.text.size == 0)
        return;
    const struct job *next = job_at(core, bi_hash_table_peek_ahead(&core->by_id, position, NEXT));
    if (next != NULL && next->body != NULL)
        bi_prefetch(next->body, BODY_PREFETCH);
}

static void list_by_walk(struct listing *listing, uint64_t position)
{
    bide_list_args *args = listing->args;
    unsigned examined = 0;
    bool end = false;
    args->count = 0;

    while (!end && examined < BIDE_EXAMINE_MAX) {
        uint64_t from = position;
        prefetch(listing, position);
        uint32_t chain = bi_hash_table_walk(&listing->core->by_id, &position, &end);
        /* An empty chain is work, too. */
        examined = list_chain(listing, chain, examined + 1, &from);

        /* The walk has moved past this chain: return to the position inside of it. */
        if (listing->full) {
            position = from;
            end = false;
            break;
        }
    }

    listing->core->work += examined;

    if (end)
        args->cursor[0] = 0;
    else
        bi_op_list_format_cursor(
            args->cursor, 'w',
            (uint64_t[]){bi_permutation_apply(&listing->core->cursors, 64, position),
                         listing->after_id},
            2);
}

/* ---- list ---- */

static uint64_t count_candidates(const struct core *core, const struct listing *listing)
{
    uint64_t count = 0;
    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
        if (wants_state(listing->args, state))
            count +=
                listing->topic == NULL ? core->counts[state] : listing->topic->lists[state].count;

    /* Without a topic every topic is visited, even if it has no candidates. */
    return listing->topic == NULL ? count + core->by_name.count : count;
}

void bi_op_list_strip_bodies(bide_list_args *args)
{
    for (size_t i = 0; !args->with_body && i < args->count; i++)
        bi_snapshot_drop_body(&args->jobs[i]);
}

int bi_exec_list(struct core *core, bide_op *op)
{
    bide_list_args *args = &op->list;
    struct listing listing = {.core = core, .args = args};
    uint64_t walk[2] = {0, 0};
    bool walking = args->cursor[0] == 'w';
    bool good = walking ? bi_op_list_parse_cursor(args->cursor, 'w', walk, 2)
                        : bi_op_list_parse_cursor(args->cursor, 'i', &listing.after_id, 1);

    if (!good)
        return bi_core_error(op, BIDE_EINVAL, "list: the cursor is not one that this call gave");

    /* If bodies cannot be read, bi_op_result_undo_list() restores the cursor, so that the call can
     * be repeated. It has been parsed: it is a letter and at most two numbers of 16 digits. */
    size_t size = strlen(args->cursor) + 1;
    assert(size <= sizeof(op->private_.step.fetch.part.cursor));
    memcpy(op->private_.step.fetch.part.cursor, args->cursor, size);

    if (args->topic.size > 0) {
        listing.topic = bi_topic_find(core, args->topic);
        if (listing.topic == NULL) {
            args->count = 0;
            args->ordered = true;
            args->cursor[0] = 0;
            return BIDE_OK;
        }
    }

    if (walking)
        listing.after_id = walk[1];

    /* An eighth of max_job_size as the average: most bodies are far smaller than they may be. */
    uint64_t price_max = args->filter.text.size > 0
                             ? 1 + core->limits.max_job_size / ((uint64_t)8 * SEARCHED_BYTES)
                             : 1;
    bool costly = count_candidates(core, &listing) * price_max > BIDE_EXAMINE_MAX;
    if (!walking && !costly)
        core->work += count_candidates(core, &listing);

    args->ordered = !walking && !costly;
    if (walking || costly)
        list_by_walk(&listing, walking ? bi_permutation_invert(&core->cursors, 64, walk[0]) : 0);
    else
        list_by_id(&listing);

    if (!core->body_missing)
        bi_op_list_strip_bodies(args);
    return BIDE_OK;
}
