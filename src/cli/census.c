/* SPDX-License-Identifier: MIT */
#include "cli/census.h"

#include <stdlib.h>

const struct census_slack bi_census_exact = {2, 100};
const struct census_slack bi_census_seconds = {1100, 3000};
const struct census_slack bi_census_timeless = {BIDE_WHEN_MAX_MS, BIDE_WHEN_MAX_MS};

bool bi_census_add(struct census *census, const struct fingerprint *print, uint64_t number)
{
    if (census->count == census->room) {
        size_t room = census->room == 0 ? 1024 : census->room * 2;
        struct census_entry *entries = NULL;
        if (room < UINT32_MAX)
            entries = realloc(census->entries, room * sizeof(*entries));
        if (entries == NULL)
            return false;
        census->entries = entries;
        census->room = room;
    }
    census->entries[census->count++] = (struct census_entry){*print, number};
    return true;
}

void bi_census_free(struct census *census)
{
    free(census->entries);
    *census = (struct census){.entries = NULL};
}

/* ---- order: by hash, then by the time they were made ---- */

static int compare_hash(const struct census_entry *one, const struct census_entry *other)
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
    const struct census_entry *one = a;
    const struct census_entry *other = b;
    int order = compare_hash(one, other);
    if (order == 0)
        order = compare_number((uint64_t)one->print.created_ms, (uint64_t)other->print.created_ms);
    return order == 0 ? compare_number(one->number, other->number) : order;
}

static void sort(struct census *census)
{
    if (census->count > 0)
        qsort(census->entries, census->count, sizeof(*census->entries), compare);
}

/* ---- those who have not been found yet ---- */

struct matching {
    struct census *ours, *theirs;
    uint32_t *next; /* of theirs: the first at this place, or behind it, that is left */
    bool *matched;  /* of ours */
    int64_t slack_ms, now_ms;
    bi_census_found *found;
    void *user;
};

/* The way is made shorter for whoever comes next. */
static size_t first_left(const struct matching *matching, size_t place)
{
    size_t left = place;
    while (matching->next[left] != left)
        left = matching->next[left];
    while (matching->next[place] != left) {
        size_t behind = matching->next[place];
        matching->next[place] = (uint32_t)left;
        place = behind;
    }
    return left;
}

static bool are_near(int64_t one, int64_t other, int64_t slack_ms)
{
    return one - other <= slack_ms && other - one <= slack_ms;
}

/* A job that was delayed when it was looked at in one queue may have been ready in the other. */
static bool are_due_alike(const struct matching *matching, const struct fingerprint *one,
                          const struct fingerprint *other)
{
    if ((one->due_ms == 0) == (other->due_ms == 0))
        return are_near(one->due_ms, other->due_ms, matching->slack_ms);
    int64_t due_ms = one->due_ms != 0 ? one->due_ms : other->due_ms;
    return due_ms <= matching->now_ms + matching->slack_ms;
}

/* begin rises with the time at which ours was made: theirs before it were made too early. */
static bool find_partner(const struct matching *matching, const struct fingerprint *print,
                         size_t *begin, size_t end)
{
    const struct census_entry *theirs = matching->theirs->entries;
    while (*begin < end && theirs[*begin].print.created_ms < print->created_ms - matching->slack_ms)
        ++*begin;
    for (size_t i = first_left(matching, *begin); i < end; i = first_left(matching, i + 1)) {
        if (theirs[i].print.created_ms > print->created_ms + matching->slack_ms)
            return false;
        if (are_due_alike(matching, print, &theirs[i].print)) {
            matching->next[i] = (uint32_t)i + 1;
            return true;
        }
    }
    return false;
}

/* ---- groups: all of one hash, on both sides ---- */

struct group {
    size_t our, our_end;
    size_t their, their_end;
};

static void match_group(const struct matching *matching, const struct group *group)
{
    const struct census_entry *ours = matching->ours->entries;
    size_t begin = group->their;
    for (size_t i = group->our; i < group->our_end; i++) {
        if (matching->matched[i] ||
            !find_partner(matching, &ours[i].print, &begin, group->their_end))
            continue;
        matching->matched[i] = true;
        matching->found(matching->user, ours[i].number);
    }
}

static uint64_t count_alike(const struct matching *matching, const struct group *group)
{
    uint64_t lonely = 0, left = 0;
    for (size_t i = group->our; i < group->our_end; i++)
        lonely += !matching->matched[i];
    for (size_t i = group->their; i < group->their_end; i++)
        left += matching->next[i] == i;
    return lonely < left ? lonely : left;
}

static size_t end_of(const struct census *census, size_t place)
{
    size_t end = place + 1;
    while (end < census->count && compare_hash(&census->entries[end], &census->entries[place]) == 0)
        end++;
    return end;
}

/* The next hash that both have, from where the group ends; false when there is none. */
static bool next_group(const struct matching *matching, struct group *group)
{
    const struct census *ours = matching->ours, *theirs = matching->theirs;
    group->our = group->our_end;
    group->their = group->their_end;
    while (group->our < ours->count && group->their < theirs->count) {
        int order = compare_hash(&ours->entries[group->our], &theirs->entries[group->their]);
        group->our_end = order <= 0 ? end_of(ours, group->our) : group->our;
        group->their_end = order >= 0 ? end_of(theirs, group->their) : group->their;
        if (order == 0)
            return true;
        group->our = group->our_end;
        group->their = group->their_end;
    }
    return false;
}

static void match_all(struct matching *matching, const struct census_slack *slack, uint64_t *alike)
{
    struct group group = {0, 0, 0, 0};
    sort(matching->ours);
    sort(matching->theirs);
    for (size_t i = 0; i <= matching->theirs->count; i++)
        matching->next[i] = (uint32_t)i;
    *alike = 0;
    while (next_group(matching, &group)) {
        matching->slack_ms = slack->close_ms;
        match_group(matching, &group);
        matching->slack_ms = slack->far_ms;
        match_group(matching, &group);
        *alike += count_alike(matching, &group);
    }
}

bool bi_census_match(struct census *ours, struct census *theirs, const struct census_slack *slack,
                     int64_t now_ms, bi_census_found *found, void *user, uint64_t *alike)
{
    struct matching matching = {
        .ours = ours, .theirs = theirs, .now_ms = now_ms, .found = found, .user = user};
    matching.next = calloc(theirs->count + 1, sizeof(*matching.next));
    matching.matched = calloc(ours->count + 1, sizeof(*matching.matched));
    bool good = matching.next != NULL && matching.matched != NULL;
    if (good)
        match_all(&matching, slack, alike);
    free(matching.next);
    free(matching.matched);
    return good;
}
