/* SPDX-License-Identifier: MIT */
#include "server/session.h"

#include "util/hash.h"

#include <stdlib.h>

#define HELD_MIN          8
#define TOUCH_PATIENCE_US INT64_C(5000000) /* a lease that is being touched is not over */
#define HELD_KEEP         1024 /* more than this is given back when the last job is gone */
#define FORGET_MAX        4096 /* leases that one look at the deadlines forgets */
#define FORGET_AGAIN_US \
    INT64_C(1001000) /* until the next look: not soon (1 s), but right after that */

void bi_session_done(struct session *session)
{
    struct bi_alloc alloc = bi_alloc_libc();
    free(session->watched);
    free(session->names);
    free(session->held);
    free(session->buckets);
    deadline_heap_free(&session->deadlines, &alloc);
    *session = (struct session){0};
}

/* Jobs that it holds do not count: as many as there are jobs, which have a limit of their own, and a
 * connection that may not reserve could not work the queue off. */
size_t bi_session_memory(const struct session *session)
{
    return session->watched_room * (sizeof(struct tube *) + sizeof(bide_slice) + LINK_SIZE);
}

/* ---- tubes ---- */

uint32_t bi_session_find_tube(const struct session *session, const struct tube *tube)
{
    uint32_t at = 0;
    while (at < session->watched_count && session->watched[at] != tube)
        at++;
    return at;
}

bool bi_session_reserve_tube(struct session *session)
{
    if (session->watched_count >= BIDE_RESERVE_TOPICS)
        return false;
    if (session->watched_count < session->watched_room)
        return true;
    uint32_t room = session->watched_room == 0 ? 2 : session->watched_room * 2;
    struct tube **watched = realloc(session->watched, room * sizeof(struct tube *));
    if (watched == NULL)
        return false;
    session->watched = watched;
    bide_slice *names = realloc(session->names, room * sizeof(*names));
    if (names == NULL)
        return false;
    session->names = names;
    session->watched_room = room;
    return true;
}

void bi_session_add_tube(struct session *session, struct tube *tube)
{
    assert(session->watched_count < session->watched_room);
    session->watched[session->watched_count] = tube;
    session->names[session->watched_count++] = bi_tube_name(tube);
}

void bi_session_remove_tube(struct session *session, uint32_t at)
{
    uint32_t last = --session->watched_count;
    session->watched[at] = session->watched[last];
    session->names[at] = session->names[last];
}

/* ---- jobs ---- */

static uint32_t *bucket_of(const struct session *session, uint64_t id)
{
    return &session->buckets[bi_hash_u64(id ^ session->secret) & (session->held_room - 1)];
}

static void link_held(struct session *session, uint32_t at)
{
    uint32_t *bucket = bucket_of(session, session->held[at].id);
    session->held[at].next = *bucket;
    *bucket = at;
}

/* Twice the room, with every job in its new bucket. Only called when all places are taken, so none
 * of the old ones is free. */
static bool grow(struct session *session)
{
    struct bi_alloc alloc = bi_alloc_libc();
    uint32_t old = session->held_room;
    uint32_t room = old == 0 ? HELD_MIN : old * 2;
    if (!deadline_heap_reserve(&session->deadlines, &alloc, room))
        return false;
    struct held *held = realloc(session->held, room * sizeof(*held));
    if (held == NULL)
        return false;
    session->held = held;
    uint32_t *buckets = calloc(room, sizeof(*buckets));
    if (buckets == NULL)
        return false;
    free(session->buckets);
    session->buckets = buckets;
    session->held_room = room;
    for (uint32_t i = 1; i < old; i++)
        link_held(session, i);
    for (uint32_t i = old == 0 ? 1 : old; i < room; i++) {
        held[i] = (struct held){.next = session->held_free};
        session->held_free = i;
    }
    return true;
}

/* ---- the order of the reservations ---- */

static void join_order(struct session *session, uint32_t at)
{
    struct held *held = session->held;
    held[at].before = session->newest;
    held[at].after = 0;
    *(session->newest != 0 ? &held[session->newest].after : &session->oldest) = at;
    session->newest = at;
}

static void leave_order(struct session *session, uint32_t at)
{
    struct held *held = session->held;
    uint32_t before = held[at].before;
    uint32_t after = held[at].after;
    *(before != 0 ? &held[before].after : &session->oldest) = after;
    *(after != 0 ? &held[after].before : &session->newest) = before;
}

/* ---- one job ---- */

static uint32_t find(const struct session *session, uint64_t id)
{
    if (session->held_count == 0)
        return 0;
    uint32_t at = *bucket_of(session, id);
    while (at != 0 && session->held[at].id != id)
        at = session->held[at].next;
    return at;
}

static void set_deadline(struct session *session, uint32_t at, int64_t deadline)
{
    struct deadline entry = {deadline, session->held[at].id, at};
    deadline_heap_replace(&session->deadlines, session->held, session->held[at].slot, entry);
}

bool bi_session_hold(struct session *session, uint64_t id, uint64_t token, int64_t deadline,
                     bool has_retries)
{
    uint32_t at = find(session, id);
    if (at != 0) {
        session->held[at].token = token;
        session->held[at].has_retries = has_retries;
        set_deadline(session, at, deadline);
        leave_order(session, at);
        join_order(session, at);
        return true;
    }
    if (session->held_free == 0 && !grow(session))
        return false;
    at = session->held_free;
    struct held *held = &session->held[at];
    session->held_free = held->next;
    *held = (struct held){.id = id, .token = token, .has_retries = has_retries};
    link_held(session, at);
    join_order(session, at);
    session->held_count++;
    deadline_heap_push(&session->deadlines, session->held, (struct deadline){deadline, id, at});
    return true;
}

const struct held *bi_session_find(const struct session *session, uint64_t id)
{
    uint32_t at = find(session, id);
    return at == 0 ? NULL : &session->held[at];
}

int64_t bi_session_end(const struct session *session, const struct held *held)
{
    return session->deadlines.entries[held->slot].at;
}

void bi_session_touch_begins(struct session *session, uint64_t id)
{
    uint32_t at = find(session, id);
    if (at != 0)
        session->held[at].touches++;
}

void bi_session_touch(struct session *session, uint64_t id, int64_t deadline)
{
    uint32_t at = find(session, id);
    if (at == 0)
        return;
    if (session->held[at].touches > 0)
        session->held[at].touches--;
    if (deadline > 0)
        set_deadline(session, at, deadline);
}

/* A session that once held a million jobs need not keep the room for them. */
static void shrink(struct session *session)
{
    struct bi_alloc alloc = bi_alloc_libc();
    if (session->held_count > 0 || session->held_room <= HELD_KEEP)
        return;
    free(session->held);
    free(session->buckets);
    session->held = NULL;
    session->buckets = NULL;
    session->held_room = session->held_free = 0;
    deadline_heap_free(&session->deadlines, &alloc);
}

static void forget(struct session *session, uint32_t at)
{
    struct held *held = &session->held[at];
    uint32_t *link = bucket_of(session, held->id);
    while (*link != at)
        link = &session->held[*link].next;
    *link = held->next;
    leave_order(session, at);
    deadline_heap_remove(&session->deadlines, session->held, held->slot);
    held->id = 0;
    held->next = session->held_free;
    session->held_free = at;
    session->held_count--;
    shrink(session);
}

void bi_session_forget(struct session *session, uint64_t id)
{
    uint32_t at = find(session, id);
    if (at != 0)
        forget(session, at);
}

int64_t bi_session_deadline(struct session *session, int64_t now)
{
    for (int i = 0; session->held_count > 0; i++) {
        const struct deadline *first = &session->deadlines.entries[0];
        if (first->at >= now)
            return first->at;
        if (i == FORGET_MAX)
            return now + FORGET_AGAIN_US;
        if (session->held[first->held].touches > 0)
            set_deadline(session, first->held, now + TOUCH_PATIENCE_US);
        else
            forget(session, first->held);
    }
    return INT64_MAX;
}

const struct held *bi_session_take_oldest(struct session *session)
{
    uint32_t at = session->oldest;
    if (at == 0)
        return NULL;
    session->oldest = session->held[at].after;
    session->held_count--;
    return &session->held[at];
}
