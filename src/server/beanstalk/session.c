/* SPDX-License-Identifier: MIT */
#include "server/beanstalk/session.h"

#include "util/hash.h"

#include <assert.h>
#include <stdlib.h>

#define LEASES_MIN     8
#define TOUCH_GRACE_US INT64_C(5000000) /* a lease with a pending touch lasts this much longer */
#define LEASES_KEEP    1024             /* capacity that an empty session retains */
#define EXPIRE_MAX     4096             /* leases removed in one call of next_deadline */
#define EXPIRE_AGAIN_US \
    INT64_C(1001000) /* until the next call: just after DEADLINE_SOON_US, so not "soon" */

void bi_session_done(struct session *session)
{
    struct bi_alloc alloc = bi_alloc_libc();
    free(session->watched);
    free(session->names);
    free(session->lease);
    free(session->buckets);
    deadline_heap_free(&session->deadlines, &alloc);
    *session = (struct session){0};
}

/* Leases do not count. The limits of the queue bound them, and a connection that may not reserve
 * could not consume the jobs of a full queue. */
size_t bi_session_memory(const struct session *session)
{
    return session->watched_room * (sizeof(struct tube *) + sizeof(bide_slice) + WAITER_LINK_SIZE);
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
    /* If the second allocation fails, watched is larger than watched_room says. The next call
     * allocates it again. */
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
    assert(at < session->watched_count);
    uint32_t last = --session->watched_count;
    session->watched[at] = session->watched[last];
    session->names[at] = session->names[last];
}

/* ---- hash table ---- */

static uint32_t *bucket_of(const struct session *session, uint64_t id)
{
    return &session->buckets[bi_hash_u64(id ^ session->hash_seed) & (session->lease_room - 1)];
}

static void link_bucket(struct session *session, uint32_t at)
{
    uint32_t *bucket = bucket_of(session, session->lease[at].id);
    session->lease[at].next = *bucket;
    *bucket = at;
}

/* Doubles the capacity and rehashes. Requires that no entry is free: all old ones hold leases. */
static bool grow(struct session *session)
{
    struct bi_alloc alloc = bi_alloc_libc();
    uint32_t old = session->lease_room;
    uint32_t room = old == 0 ? LEASES_MIN : old * 2;
    assert(session->lease_free == 0 && (room & (room - 1)) == 0);

    /* lease_room changes after the last allocation: a failure leaves the old table intact, and
     * merely larger arrays. */
    if (!deadline_heap_reserve(&session->deadlines, &alloc, room))
        return false;

    struct lease *lease = realloc(session->lease, room * sizeof(*lease));
    if (lease == NULL)
        return false;
    session->lease = lease;

    uint32_t *buckets = calloc(room, sizeof(*buckets));
    if (buckets == NULL)
        return false;

    /* The buckets held indices only; the links of all leases are rebuilt. */
    free(session->buckets);
    session->buckets = buckets;
    session->lease_room = room;

    for (uint32_t i = 1; i < old; i++)
        link_bucket(session, i);
    for (uint32_t i = old == 0 ? 1 : old; i < room; i++) {
        lease[i] = (struct lease){.next = session->lease_free};
        session->lease_free = i;
    }
    return true;
}

/* ---- order of reservation ---- */

static void link_order(struct session *session, uint32_t at)
{
    struct lease *lease = session->lease;
    lease[at].before = session->newest;
    lease[at].after = 0;
    *(session->newest != 0 ? &lease[session->newest].after : &session->oldest) = at;
    session->newest = at;
}

static void unlink_order(struct session *session, uint32_t at)
{
    struct lease *lease = session->lease;
    uint32_t before = lease[at].before;
    uint32_t after = lease[at].after;
    assert(before != 0 ? lease[before].after == at : session->oldest == at);
    assert(after != 0 ? lease[after].before == at : session->newest == at);

    *(before != 0 ? &lease[before].after : &session->oldest) = after;
    *(after != 0 ? &lease[after].before : &session->newest) = before;
}

/* ---- leases ---- */

static uint32_t find_slot(const struct session *session, uint64_t id)
{
    if (session->lease_count == 0)
        return 0;
    uint32_t at = *bucket_of(session, id);
    while (at != 0 && session->lease[at].id != id)
        at = session->lease[at].next;
    return at;
}

static void set_deadline(struct session *session, uint32_t at, int64_t deadline)
{
    struct deadline entry = {deadline, session->lease[at].id, at};
    assert(session->deadlines.entries[session->lease[at].slot].lease == at);
    deadline_heap_replace(&session->deadlines, session->lease, session->lease[at].slot, entry);
}

bool bi_session_add_lease(struct session *session, uint64_t id, uint64_t token, int64_t deadline,
                          bool has_retry_limit)
{
    uint32_t at = find_slot(session, id);
    assert(id != 0 && token != 0);

    if (at != 0) {
        /* The lease expired and this connection reserved the job again. Pending touches of the old
         * token still complete and decrement the counter, so it stays. */
        session->lease[at].token = token;
        session->lease[at].has_retry_limit = has_retry_limit;
        set_deadline(session, at, deadline);
        unlink_order(session, at);
        link_order(session, at);
        return true;
    }

    if (session->lease_free == 0 && !grow(session))
        return false;

    at = session->lease_free;
    struct lease *lease = &session->lease[at];
    assert(lease->id == 0); /* it is free */
    session->lease_free = lease->next;
    *lease = (struct lease){.id = id, .token = token, .has_retry_limit = has_retry_limit};
    link_bucket(session, at);
    link_order(session, at);

    session->lease_count++;
    deadline_heap_push(&session->deadlines, session->lease, (struct deadline){deadline, id, at});
    return true;
}

const struct lease *bi_session_find_lease(const struct session *session, uint64_t id)
{
    uint32_t at = find_slot(session, id);
    return at == 0 ? NULL : &session->lease[at];
}

int64_t bi_session_lease_end(const struct session *session, const struct lease *lease)
{
    return session->deadlines.entries[lease->slot].at;
}

void bi_session_begin_touch(struct session *session, uint64_t id)
{
    uint32_t at = find_slot(session, id);
    if (at != 0)
        session->lease[at].pending_touches++;
}

void bi_session_end_touch(struct session *session, uint64_t id, int64_t deadline)
{
    uint32_t at = find_slot(session, id);
    if (at == 0)
        return;

    if (session->lease[at].pending_touches > 0)
        session->lease[at].pending_touches--;
    if (deadline > 0)
        set_deadline(session, at, deadline);
}

/* A session that held a million jobs must not retain memory for them. */
static void shrink(struct session *session)
{
    struct bi_alloc alloc = bi_alloc_libc();

    if (session->lease_count > 0 || session->lease_room <= LEASES_KEEP)
        return;

    free(session->lease);
    free(session->buckets);
    session->lease = NULL;
    session->buckets = NULL;
    session->lease_room = session->lease_free = 0;
    deadline_heap_free(&session->deadlines, &alloc);
}

static void remove_lease(struct session *session, uint32_t at)
{
    struct lease *lease = &session->lease[at];
    assert(at != 0 && lease->id != 0 && session->lease_count > 0);
    uint32_t *link = bucket_of(session, lease->id);

    while (*link != at)
        link = &session->lease[*link].next;
    *link = lease->next;

    unlink_order(session, at);
    deadline_heap_remove(&session->deadlines, session->lease, lease->slot);

    /* shrink() may free the array, so it comes last. */
    lease->id = 0;
    lease->next = session->lease_free;
    session->lease_free = at;
    session->lease_count--;
    shrink(session);
}

void bi_session_remove_lease(struct session *session, uint64_t id)
{
    uint32_t at = find_slot(session, id);
    if (at != 0)
        remove_lease(session, at);
}

int64_t bi_session_next_deadline(struct session *session, int64_t now)
{
    for (int i = 0; session->lease_count > 0; i++) {
        const struct deadline *first = &session->deadlines.entries[0];
        if (first->at >= now)
            return first->at;
        /* A million leases may end at once; the loop must not block other connections. */
        if (i == EXPIRE_MAX)
            return now + EXPIRE_AGAIN_US;
        /* The touch may have extended the lease in the queue. Its completion sets the deadline. */
        if (session->lease[first->lease].pending_touches > 0)
            set_deadline(session, first->lease, now + TOUCH_GRACE_US);
        else
            remove_lease(session, first->lease);
    }
    return INT64_MAX;
}

const struct lease *bi_session_take_oldest_lease(struct session *session)
{
    uint32_t at = session->oldest;
    if (at == 0)
        return NULL;

    /* The session is being closed: bi_session_done() frees buckets and heap as a whole. */
    assert(session->lease_count > 0);
    session->oldest = session->lease[at].after;
    session->lease_count--;
    return &session->lease[at];
}
