/* SPDX-License-Identifier: MIT */
#include "cli/move/move_index.h"

#include <stdlib.h>

const struct move_tolerance bi_move_index_exact = {2, 100};
const struct move_tolerance bi_move_index_seconds = {1100, 3000};
const struct move_tolerance bi_move_index_timeless = {BIDE_TIMESTAMP_MAX_MS, BIDE_TIMESTAMP_MAX_MS};

bool bi_move_index_add(struct move_index *move_index, const struct fingerprint *print,
                       uint64_t number)
{
    if (move_index->count == move_index->capacity) {
        size_t capacity = move_index->capacity == 0 ? 1024 : move_index->capacity * 2;
        struct move_index_entry *entries = NULL;
        if (capacity < UINT32_MAX)
            entries = realloc(move_index->entries, capacity * sizeof(*entries));
        if (entries == NULL)
            return false;
        move_index->entries = entries;
        move_index->capacity = capacity;
    }
    move_index->entries[move_index->count++] = (struct move_index_entry){*print, number};
    return true;
}

void bi_move_index_free(struct move_index *move_index)
{
    free(move_index->entries);
    *move_index = (struct move_index){.entries = NULL};
}

/* ---- order: by hash, then by the time they were made ---- */

static int compare_hash(const struct move_index_entry *one, const struct move_index_entry *other)
{
    for (int i = 0; i < 2; i++)
        if (one->print.hash[i] != other->print.hash[i])
            return one->print.hash[i] < other->print.hash[i] ? -1 : 1;
    return 0;
}

static int compare_number(uint64_t one, uint64_t other)
{
    return one < other ? -1 : one > other;
}

static int compare(const void *a, const void *b)
{
    const struct move_index_entry *one = a;
    const struct move_index_entry *other = b;
    int order = compare_hash(one, other);
    if (order == 0)
        order = compare_number((uint64_t)one->print.created_ms, (uint64_t)other->print.created_ms);
    return order == 0 ? compare_number(one->number, other->number) : order;
}

static void sort(struct move_index *move_index)
{
    if (move_index->count > 0)
        qsort(move_index->entries, move_index->count, sizeof(*move_index->entries), compare);
}

/* ---- those who have not been found yet ---- */

struct matching {
    struct move_index *ours, *theirs;
    uint32_t *next; /* of theirs: the first at this place, or behind it, that is left */
    bool *matched;  /* of ours */
    int64_t tolerance_ms, now_ms;
    bi_move_index_found *found;
    void *user;
};

/* The way is made shorter for whoever comes next. */
static size_t next_unmatched(const struct matching *matching, size_t index)
{
    size_t unmatched = index;
    while (matching->next[unmatched] != unmatched)
        unmatched = matching->next[unmatched];
    while (matching->next[index] != unmatched) {
        size_t behind = matching->next[index];
        matching->next[index] = (uint32_t)unmatched;
        index = behind;
    }
    return unmatched;
}

static bool is_within(int64_t one, int64_t other, int64_t tolerance_ms)
{
    return one - other <= tolerance_ms && other - one <= tolerance_ms;
}

/* A job that was delayed when it was looked at in one queue may have been ready in the other. */
static bool is_same_due_time(const struct matching *matching, const struct fingerprint *one,
                             const struct fingerprint *other)
{
    if ((one->due_ms == 0) == (other->due_ms == 0))
        return is_within(one->due_ms, other->due_ms, matching->tolerance_ms);
    int64_t due_ms = one->due_ms != 0 ? one->due_ms : other->due_ms;
    return due_ms <= matching->now_ms + matching->tolerance_ms;
}

/* begin rises with the time at which ours was made: theirs before it were made too early. */
static bool find_partner(const struct matching *matching, const struct fingerprint *print,
                         size_t *begin, size_t end)
{
    const struct move_index_entry *theirs = matching->theirs->entries;
    while (*begin < end &&
           theirs[*begin].print.created_ms < print->created_ms - matching->tolerance_ms)
        ++*begin;
    for (size_t i = next_unmatched(matching, *begin); i < end;
         i = next_unmatched(matching, i + 1)) {
        if (theirs[i].print.created_ms > print->created_ms + matching->tolerance_ms)
            return false;
        if (is_same_due_time(matching, print, &theirs[i].print)) {
            matching->next[i] = (uint32_t)i + 1;
            return true;
        }
    }
    return false;
}

/* ---- groups: all of one hash, on both sides ---- */

struct group {
    size_t our_begin, our_end;
    size_t their_begin, their_end;
};

static void match_group(const struct matching *matching, const struct group *group)
{
    const struct move_index_entry *ours = matching->ours->entries;
    size_t begin = group->their_begin;
    for (size_t i = group->our_begin; i < group->our_end; i++) {
        if (matching->matched[i] ||
            !find_partner(matching, &ours[i].print, &begin, group->their_end))
            continue;
        matching->matched[i] = true;
        matching->found(matching->user, ours[i].number);
    }
}

static uint64_t count_lookalikes(const struct matching *matching, const struct group *group)
{
    uint64_t missing = 0, unmatched = 0;
    for (size_t i = group->our_begin; i < group->our_end; i++)
        missing += !matching->matched[i];
    for (size_t i = group->their_begin; i < group->their_end; i++)
        unmatched += matching->next[i] == i;
    return missing < unmatched ? missing : unmatched;
}

static size_t group_end(const struct move_index *move_index, size_t index)
{
    size_t end = index + 1;
    while (end < move_index->count &&
           compare_hash(&move_index->entries[end], &move_index->entries[index]) == 0)
        end++;
    return end;
}

/* The next hash that both have, from where the group ends; false when there is none. */
static bool next_group(const struct matching *matching, struct group *group)
{
    const struct move_index *ours = matching->ours, *theirs = matching->theirs;
    group->our_begin = group->our_end;
    group->their_begin = group->their_end;
    while (group->our_begin < ours->count && group->their_begin < theirs->count) {
        int order =
            compare_hash(&ours->entries[group->our_begin], &theirs->entries[group->their_begin]);
        group->our_end = order <= 0 ? group_end(ours, group->our_begin) : group->our_begin;
        group->their_end = order >= 0 ? group_end(theirs, group->their_begin) : group->their_begin;
        if (order == 0)
            return true;
        group->our_begin = group->our_end;
        group->their_begin = group->their_end;
    }
    return false;
}

static void match_all(struct matching *matching, const struct move_tolerance *tolerance,
                      uint64_t *lookalikes)
{
    struct group group = {0, 0, 0, 0};
    sort(matching->ours);
    sort(matching->theirs);
    for (size_t i = 0; i <= matching->theirs->count; i++)
        matching->next[i] = (uint32_t)i;
    *lookalikes = 0;
    while (next_group(matching, &group)) {
        matching->tolerance_ms = tolerance->close_ms;
        match_group(matching, &group);
        matching->tolerance_ms = tolerance->far_ms;
        match_group(matching, &group);
        *lookalikes += count_lookalikes(matching, &group);
    }
}

bool bi_move_index_match(struct move_index *ours, struct move_index *theirs,
                         const struct move_tolerance *tolerance, int64_t now_ms,
                         bi_move_index_found *found, void *user, uint64_t *lookalikes)
{
    struct matching matching = {
        .ours = ours, .theirs = theirs, .now_ms = now_ms, .found = found, .user = user};
    matching.next = calloc(theirs->count + 1, sizeof(*matching.next));
    matching.matched = calloc(ours->count + 1, sizeof(*matching.matched));
    bool good = matching.next != NULL && matching.matched != NULL;
    if (good)
        match_all(&matching, tolerance, lookalikes);
    free(matching.next);
    free(matching.matched);
    return good;
}
