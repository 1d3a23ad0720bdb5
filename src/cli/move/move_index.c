/* SPDX-License-Identifier: MIT */
#include "cli/move/move_index.h"

#include "cli/cli.h"
#include "op/job_fields.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* 100 ms and 3 s leave room for a clock that was adjusted and for a slow connection between two
 * moves. */
const struct move_tolerance bi_move_index_exact = {2, 100};
const struct move_tolerance bi_move_index_seconds = {1100, 3000};
const struct move_tolerance bi_move_index_timeless = {BIDE_TIMESTAMP_MAX_MS, BIDE_TIMESTAMP_MAX_MS};

/* ---- fingerprints ---- */

#define PLAIN_FIELDS 5 /* topic, body and what else a beanstalkd keeps of a put */

#define VALUE(kind, name) (uint64_t) job->BI_JOB_MEMBER_##kind(name),

/* Strings are hashed one by one: "ab" and "c" do not hash as "a" and "bc". last_error is not hashed
 * because each queue truncates it at its own max_error_size. */
static uint64_t hash_job(const struct bi_hash_secret *secret, bool plain, const bide_job *job)
{
    /* Delayed, ready and reserved jobs become each other without a change of the job. */
    bool stays = job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE;
    const uint64_t fields[] = {
        stays ? job->state : BIDE_STATE_READY,
        bi_keyed_hash_bytes(secret, job->topic, strlen(job->topic)),
        bi_keyed_hash_bytes(secret, job->body, job->body_size), job->priority,
        (uint64_t)(plain ? (job->ttr_ms + 999) / 1000 : job->ttr_ms),
        /* The PLAIN_FIELDS end here. */
        job->key != NULL, bi_keyed_hash_bytes(secret, job->key, job->key_size),
        job->key_hold_retained, job->result != NULL,
        bi_keyed_hash_bytes(secret, job->result, job->result_size),
        BI_JOB_EXT(VALUE) BI_JOB_COUNTERS(VALUE)};
    size_t count = plain ? PLAIN_FIELDS : sizeof(fields) / sizeof(fields[0]);

    return bi_keyed_hash_bytes(secret, fields, count * sizeof(fields[0]));
}

struct fingerprint bi_move_index_fingerprint(const struct bi_hash_secret secrets[2], bool plain,
                                             const bide_job *job)
{
    return (struct fingerprint){
        .hash = {hash_job(&secrets[0], plain, job), hash_job(&secrets[1], plain, job)},
        .created_ms = job->created_ms,
        .due_ms = job->state == BIDE_STATE_DELAYED ? job->run_at_ms : 0,
    };
}

static bool has_same_hash(const struct fingerprint *one, const struct fingerprint *other)
{
    return one->hash[0] == other->hash[0] && one->hash[1] == other->hash[1];
}

/* ---- building ---- */

bool bi_move_index_add(struct move_index *index, const struct fingerprint *print, uint64_t id)
{
    if (index->count == UINT32_MAX ||
        !BI_CLI_RESERVE(index->entries, index->count + 1, index->capacity))
        return false;
    index->entries[index->count++] = (struct move_index_entry){.print = *print, .id = id};
    return true;
}

static int compare_prints(const struct fingerprint *one, const struct fingerprint *other)
{
    for (int i = 0; i < 2; i++)
        if (one->hash[i] != other->hash[i])
            return one->hash[i] < other->hash[i] ? -1 : 1;
    return one->created_ms < other->created_ms ? -1 : one->created_ms > other->created_ms;
}

/* Among equal jobs the smallest id comes first and is taken first, so the order of a copy stays the
 * order of its original. */
static int compare_entries(const void *a, const void *b)
{
    const struct move_index_entry *one = a, *other = b;
    int order = compare_prints(&one->print, &other->print);
    return order != 0 ? order : one->id < other->id ? -1 : one->id > other->id;
}

void bi_move_index_finish(struct move_index *index)
{
    if (index->count > 0)
        qsort(index->entries, index->count, sizeof(*index->entries), compare_entries);
    for (size_t i = 0; i < index->count; i++)
        index->entries[i].next = (uint32_t)i;
}

void bi_move_index_free(struct move_index *index)
{
    free(index->entries);
    *index = (struct move_index){.entries = NULL};
}

/* ---- matching ---- */

/* The first entry with this hash that was created at this time or later. */
static size_t lower_bound(const struct move_index *index, const struct fingerprint *print,
                          int64_t created_ms)
{
    struct fingerprint bound = {{print->hash[0], print->hash[1]}, created_ms, 0};
    size_t begin = 0, end = index->count;

    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (compare_prints(&index->entries[middle].print, &bound) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* The first unused entry at this position or behind it. Each call halves the path over used
 * entries; else a million equal jobs would take a million squared steps. */
static size_t next_unused(struct move_index *index, size_t position)
{
    struct move_index_entry *entries = index->entries;

    while (position < index->count && entries[position].next != position) {
        size_t next = entries[position].next;
        assert(next > position);
        if (next < index->count)
            entries[position].next = entries[next].next;
        position = next;
    }
    return position;
}

static int64_t difference(int64_t one, int64_t other)
{
    return one < other ? other - one : one - other;
}

/* How far the times of two jobs are apart; -1 if they cannot be the same job. */
static int64_t distance_of(const struct move_index *index, const struct fingerprint *one,
                           const struct fingerprint *other, int64_t now_ms)
{
    int64_t limit_ms = index->tolerance->limit_ms;
    int64_t created_ms = difference(one->created_ms, other->created_ms);
    int64_t due_ms = difference(one->due_ms, other->due_ms);

    /* The queues are read one after the other, and the job may have become due between. */
    if ((one->due_ms == 0) != (other->due_ms == 0))
        due_ms = due_ms <= now_ms + limit_ms ? 0 : INT64_MAX;

    return created_ms <= limit_ms && due_ms <= limit_ms ? created_ms + due_ms : -1;
}

static struct move_index_entry *find_closest(struct move_index *index,
                                             const struct fingerprint *print, int64_t now_ms)
{
    const struct move_tolerance *tolerance = index->tolerance;
    struct move_index_entry *closest = NULL;
    int64_t closest_ms = INT64_MAX;
    size_t i =
        next_unused(index, lower_bound(index, print, print->created_ms - tolerance->limit_ms));

    for (; i < index->count && closest_ms > tolerance->close_ms; i = next_unused(index, i + 1)) {
        struct move_index_entry *entry = &index->entries[i];
        if (!has_same_hash(&entry->print, print) ||
            entry->print.created_ms > print->created_ms + tolerance->limit_ms)
            break;
        int64_t distance_ms = distance_of(index, &entry->print, print, now_ms);
        if (distance_ms >= 0 && distance_ms < closest_ms) {
            closest = entry;
            closest_ms = distance_ms;
        }
    }
    return closest;
}

bool bi_move_index_take(struct move_index *index, const struct fingerprint *print, int64_t now_ms,
                        uint64_t *id)
{
    assert(index->tolerance != NULL);
    struct move_index_entry *entry = find_closest(index, print, now_ms);

    if (entry == NULL) {
        size_t first = lower_bound(index, print, INT64_MIN);
        if (first < index->count && has_same_hash(&index->entries[first].print, print))
            index->entries[first].misses++;
        return false;
    }

    assert(entry->next == (size_t)(entry - index->entries));
    entry->next++;
    *id = entry->id;
    return true;
}

uint64_t bi_move_index_count_lookalikes(const struct move_index *index)
{
    uint64_t lookalikes = 0;

    for (size_t i = 0, end; i < index->count; i = end) {
        uint64_t unused = 0, misses = index->entries[i].misses;
        for (end = i; end < index->count &&
                      has_same_hash(&index->entries[end].print, &index->entries[i].print);
             end++)
            unused += index->entries[end].next == end;
        lookalikes += misses < unused ? misses : unused;
    }
    return lookalikes;
}
