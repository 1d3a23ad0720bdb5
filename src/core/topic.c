/* SPDX-License-Identifier: MIT */
#include "core/topic.h"

#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

/* ---- the table of names ---- */

static uint64_t name_hash(const void *ctx, uint32_t ref)
{
    return ((const struct topic_names *)ctx)->all[ref].hash;
}

static uint32_t *name_link(const void *ctx, uint32_t ref)
{
    return &((const struct topic_names *)ctx)->all[ref].link;
}

static const struct hash_table_ops names = {
    name_hash, name_link, offsetof(struct topic_name, link) - offsetof(struct topic_name, hash)};

static bool reserve_name(struct core *core, uint32_t ref)
{
    if (ref < core->names.room)
        return true;

    uint32_t room = ref < 32 ? 64 : ref + ref / 2;
    struct topic_name *all =
        bi_alloc_resize(&core->alloc, core->names.all, (size_t)room * sizeof(*all));
    if (all == NULL)
        return false;

    core->names = (struct topic_names){.all = all, .room = room};
    return true;
}

/* The most names to copy in one step, under the lock. */
#define NAMES_TRIM 32768

/* Shrinks the array of names after most topics were destroyed. Copies instead of shrinking in
 * place, because realloc() of a large block returns its pages to the system at once, under the
 * lock. */
static void trim_names(struct core *core)
{
    uint64_t used = core->topics.used;

    /* Test only when the count has fallen to a power of two: half of the topics that existed at the
     * last test have been destroyed then, which pays for the copy. */
    if (core->names.room <= 1024 || (used & (used - 1)) != 0 || used > core->names.room / 4)
        return;

    uint32_t limit = bi_pool_limit(&core->topics);
    if (limit == 0 || limit > core->names.room / 2 || limit > NAMES_TRIM)
        return;
    assert(limit > used); /* references begin with 1 */

    struct topic_name *all = bi_alloc_malloc(&core->alloc, limit * sizeof(*all));
    if (all == NULL)
        return;

    memcpy(all, core->names.all, limit * sizeof(*all));
    bi_alloc_free(&core->alloc, core->names.all);
    core->names = (struct topic_names){.all = all, .room = limit};
}

static bool has_name(const struct topic *topic, bide_slice name)
{
    return topic->name_size == name.size && memcmp(topic->name, name.data, name.size) == 0;
}

/* Caches the last hash: creating a topic hashes its name for the lookup and again for the
 * insert. */
static uint64_t hash_of(struct core *core, bide_slice name)
{
    if (core->hashed.size != name.size || memcmp(core->hashed.name, name.data, name.size) != 0) {
        assert(name.size <= sizeof(core->hashed.name));
        core->hashed.hash = bi_keyed_hash_bytes(&core->name_secret, name.data, name.size);
        core->hashed.size = name.size;
        memcpy(core->hashed.name, name.data, name.size);
    }
    return core->hashed.hash;
}

static struct topic *find_hashed(struct core *core, bide_slice name, uint64_t hash)
{
    uint32_t ref = bi_hash_table_first(&core->by_name, hash);
    for (; ref != 0; ref = core->names.all[ref].link) {
        /* Compare the half hash first: reading the topic itself costs a cache miss. */
        if (core->names.all[ref].hash != (uint32_t)hash)
            continue;

        struct topic *topic = topic_at(core, ref);
        if (topic->hash == hash && has_name(topic, name))
            return topic;
    }
    return NULL;
}

/* Consecutive ops often name the same topic, so the last result is tried first. */
struct topic *bi_topic_find(struct core *core, bide_slice name)
{
    struct topic *topic = topic_at(core, core->recent_topic);
    if (topic != NULL && has_name(topic, name))
        return topic;

    topic = find_hashed(core, name, hash_of(core, name));
    if (topic != NULL)
        core->recent_topic = topic->self;
    return topic;
}

void bi_topic_prefetch(const struct core *core, bide_slice later, bide_slice next)
{
    if (core->by_name.count < BI_PREFETCH_MIN)
        return;

    bi_hash_table_prefetch(&core->by_name,
                           bi_keyed_hash_bytes(&core->name_secret, later.data, later.size));

    uint64_t hash = bi_keyed_hash_bytes(&core->name_secret, next.data, next.size);
    uint32_t ref = bi_hash_table_first(&core->by_name, hash);
    if (ref != 0 && core->names.all[ref].hash == (uint32_t)hash)
        bi_prefetch(topic_at(core, ref), offsetof(struct topic, serial));
}

struct topic *bi_topic_at_or_after(const struct core *core, uint64_t serial)
{
    uint32_t ref = bi_serial_list_at_or_after(&core->topic_list, serial);
    return ref == 0 ? NULL : topic_at(core, ref);
}

/* ---- creation and destruction ---- */

/* Bytes that a topic counts for max_memory. */
#define TOPIC_COST (sizeof(struct topic) + sizeof(struct topic_name))

/* The timer sets in which every topic reserves an entry. */
#define TIMERS_PER_TOPIC 5

static struct timers *timers_of(struct core *core, int i)
{
    struct timers *const all[TIMERS_PER_TOPIC] = {&core->mono, &core->mono, &core->wall,
                                                  &core->ages, &core->serving};
    return all[i];
}

static void unreserve_timers(struct core *core, int count)
{
    for (int i = 0; i < count; i++)
        bi_timers_unreserve(timers_of(core, i));
}

static bool reserve_timers(struct core *core, int *count)
{
    for (*count = 0; *count < TIMERS_PER_TOPIC; ++*count)
        if (!bi_timers_reserve(timers_of(core, *count)))
            return false;
    return true;
}

static struct topic *create(struct core *core, bide_slice name, uint64_t hash)
{
    assert(name.size > 0 && name.size <= BIDE_TOPIC_MAX);
    if (!bi_serial_list_reserve(&core->topic_list))
        return NULL;

    int reserved;
    /* Allocate everything first; the steps after this block cannot fail. */
    uint32_t ref = reserve_timers(core, &reserved) ? bi_pool_alloc(&core->topics) : 0;
    if (ref != 0 && !reserve_name(core, ref)) {
        bi_pool_free(&core->topics, ref);
        ref = 0;
    }
    if (ref == 0) {
        unreserve_timers(core, reserved);
        return NULL;
    }

    struct topic *topic = topic_in(&core->topics, ref);
    memset(topic, 0, offsetof(struct topic, name));
    topic->self = ref;
    topic->hash = hash;
    topic->serial = bi_serial_list_add(&core->topic_list, ref);
    topic->name_size = (uint8_t)name.size;
    memcpy(topic->name, name.data, name.size);
    topic->name[name.size] = 0;

    topic->delayed.bound = BI_NEVER;
    bi_timer_init(&topic->due_timer[DUE_MONO], TIMER_DUE_MONO, TIMER_CLASS_JOB, 0);
    bi_timer_init(&topic->due_timer[DUE_WALL], TIMER_DUE_WALL, TIMER_CLASS_JOB, 0);
    bi_timer_init(&topic->timer_pause, TIMER_PAUSE, TIMER_CLASS_TOPIC, topic->serial);
    bi_timer_init(&topic->age, TIMER_ORDER, TIMER_CLASS_TOPIC, topic->serial);
    bi_timer_init(&topic->serve, TIMER_ORDER, TIMER_CLASS_TOPIC, topic->serial);

    core->names.all[ref].hash = (uint32_t)hash;
    bi_hash_table_insert(&core->by_name, &names, &core->names, ref);
    core->memory += TOPIC_COST;
    return topic;
}

int bi_topic_get(struct core *core, bide_slice name, uint64_t max, struct topic **topic)
{
    uint64_t hash = hash_of(core, name);
    *topic = find_hashed(core, name, hash);
    if (*topic != NULL)
        return BIDE_OK;

    if (core->by_name.count >= max)
        return BIDE_TOO_MANY_TOPICS;
    *topic = create(core, name, hash);
    return *topic == NULL ? BIDE_ENOMEM : BIDE_OK;
}

static bool reserve_due_set(struct core *core, struct due_set *set, uint32_t room)
{
    return due_heap_reserve(&set->heaps[DUE_MONO], &core->alloc, room) &&
           due_heap_reserve(&set->heaps[DUE_WALL], &core->alloc, room);
}

bool bi_topic_reserve(struct core *core, struct topic *topic, uint32_t count)
{
    uint32_t room = topic->members + count;

    /* Every heap needs room for all members: a rollback may return a job to any set, and a merge
     * may move all jobs of one set into another. */
    for (struct due_set *set = &topic->delayed; set != NULL; set = set->older)
        if (!reserve_due_set(core, set, room))
            return false;
    return ready_heap_reserve(&topic->ready, &core->alloc, room);
}

static void free_due_set(struct core *core, struct due_set *set)
{
    due_heap_free(&set->heaps[DUE_MONO], &core->alloc);
    due_heap_free(&set->heaps[DUE_WALL], &core->alloc);
}

/* Removes the set behind this one. */
static void drop_older(struct core *core, struct due_set *set)
{
    struct due_set *older = set->older;
    set->older = older->older;
    assert(set->older == NULL || set->older->bound < older->bound);
    free_due_set(core, older);
    bi_alloc_free(&core->alloc, older);
}

static void free_heaps(struct core *core, struct topic *topic)
{
    while (topic->delayed.older != NULL)
        drop_older(core, &topic->delayed);
    free_due_set(core, &topic->delayed);
    ready_heap_free(&topic->ready, &core->alloc);
    line_heap_free(&topic->line, &core->alloc);
}

bool bi_topic_is_in_use(const struct topic *topic)
{
    /* undo: a journal entry refers to the topic. serve.set: the topic is in core->serving. */
    return topic->members > 0 || topic->line.count > 0 || topic->references > 0 ||
           topic->pins > 0 || topic->paused_until != 0 || topic->undo != 0 || topic->serve.set ||
           bi_policy_settings(topic->policy) != NULL;
}

void bi_topic_cleanup(struct core *core, struct topic *topic)
{
    if (topic->members == 0 && core->limits.topic_cleanup)
        bi_topic_destroy(core, topic);
}

void bi_topic_unpin(struct core *core, struct topic *topic)
{
    assert(topic->pins > 0);
    topic->pins--;
    bi_topic_cleanup(core, topic);
}

void bi_topic_destroy(struct core *core, struct topic *topic)
{
    if (bi_topic_is_in_use(topic))
        return;

    /* The other timers are clear: without members and a pause none is set. Parked calls have left
     * the line, but pin the topic. */
    assert(!topic->due_timer[DUE_MONO].set && !topic->due_timer[DUE_WALL].set);
    assert(!topic->timer_pause.set && topic->ready.count == 0 && topic->urgent == 0);
    assert(topic->line_links == 0);
    bi_timers_clear(&core->ages, &topic->age);
    bi_policy_free(core, topic);
    bi_serial_list_remove(&core->topic_list, topic->serial);
    bi_hash_table_remove(&core->by_name, &names, &core->names, topic->self);

    free_heaps(core, topic);
    unreserve_timers(core, TIMERS_PER_TOPIC);
    core->memory -= TOPIC_COST;

    if (core->recent_topic == topic->self)
        core->recent_topic = 0;
    bi_pool_free(&core->topics, topic->self);
    trim_names(core);
}

void bi_topics_free(struct core *core)
{
    struct topic *topic = bi_topic_at_or_after(core, 0);
    for (; topic != NULL; topic = bi_topic_at_or_after(core, topic->serial + 1)) {
        bi_policy_free(core, topic);
        free_heaps(core, topic);
    }

    bi_serial_list_done(&core->topic_list);
    bi_alloc_free(&core->alloc, core->names.all);
    memset(&core->names, 0, sizeof(core->names));
}

/* ---- delayed jobs ---- */

static enum clock clock_of(const struct job *job)
{
    return (job->flags & JOB_DUE_WALL) != 0 ? DUE_WALL : DUE_MONO;
}

struct due_heap *bi_topic_insert_heap(struct topic *topic, const struct job *job)
{
    struct due_set *set = &topic->delayed;

    /* The bounds decrease from set to set: the last one at or above since is the right one. */
    while (set->older != NULL && job->since <= set->older->bound)
        set = set->older;
    return &set->heaps[clock_of(job)];
}

struct due_heap *bi_topic_find_heap(const struct core *core, struct topic *topic,
                                    const struct job *job)
{
    uint32_t slot = core->slots[job->self];

    /* since does not identify the heap: merging may have moved the job. A slot is an index into any
     * of the heaps. */
    for (struct due_set *set = &topic->delayed; set != NULL; set = set->older) {
        struct due_heap *heap = &set->heaps[clock_of(job)];
        if (slot < heap->count && heap->entries[slot].job == job->self)
            return heap;
    }
    return NULL;
}

const struct due_entry *bi_topic_soonest_due(const struct topic *topic, enum clock clock,
                                             int64_t bound)
{
    const struct due_entry *best = NULL;
    for (const struct due_set *set = &topic->delayed; set != NULL; set = set->older) {
        const struct due_heap *heap = &set->heaps[clock];
        if (set->bound <= bound && heap->count > 0 &&
            (best == NULL || bi_due_before(&heap->entries[0], best)))
            best = &heap->entries[0];
    }
    return best;
}

int bi_topic_begin_kick(struct core *core, struct topic *topic, int64_t *bound)
{
    struct due_set *own = &topic->delayed;
    struct due_set *youngest = own->older;

    /* No job was delayed since the last kick began: the jobs of its set are those of this kick. */
    if (youngest != NULL && own->heaps[DUE_MONO].count == 0 && own->heaps[DUE_WALL].count == 0) {
        *bound = youngest->bound;
        youngest->kicks++;
        return BIDE_OK;
    }

    /* Every set adds two heaps to each lookup and to the room of each member. */
    int count = 0;
    for (struct due_set *set = youngest; set != NULL; set = set->older)
        count++;
    if (count == BI_KICK_SETS_MAX)
        return BIDE_EBUSY;

    assert(youngest == NULL || youngest->bound < *bound); /* bi_topic_insert_heap() relies on it */
    struct due_set *set = bi_alloc_malloc(&core->alloc, sizeof(*set));
    if (set == NULL)
        return BIDE_ENOMEM;

    /* The new heaps become the topic's own, which any member may enter. */
    struct due_set fresh = {.bound = BI_NEVER, .older = set};
    if (!reserve_due_set(core, &fresh, topic->members)) {
        free_due_set(core, &fresh);
        bi_alloc_free(&core->alloc, set);
        return BIDE_ENOMEM;
    }

    *set = *own;
    set->bound = *bound;
    set->kicks = 1;
    *own = fresh;
    return BIDE_OK;
}

/* Moves up to budget entries of one heap into another, and returns the rest of the budget. */
static unsigned merge_heaps(struct core *core, struct due_heap *from, struct due_heap *into,
                            unsigned budget)
{
    assert(from != into);
    /* Move the smaller heap. Swapping the arrays leaves every slot valid, because a slot is a
     * position within its array. No active kick uses the set of from: it may hold younger jobs. */
    if (from->count > into->count) {
        struct due_heap larger = *from;
        *from = *into;
        *into = larger;
    }

    for (; from->count > 0 && budget > 0; budget--) {
        /* The last entry can be removed without sifting. */
        struct due_entry last = from->entries[--from->count];
        due_heap_push(into, core->slots, last);
    }

    return budget;
}

void bi_topic_merge_kick_sets(struct core *core, struct topic *topic, unsigned budget)
{
    struct due_set *set = &topic->delayed;
    while (set->older != NULL) {
        struct due_set *older = set->older;
        if (older->kicks > 0) {
            set = older;
            continue;
        }

        /* Into the next younger set: an active kick with a lower bound must not find younger jobs
         * in its set. */
        budget = merge_heaps(core, &older->heaps[DUE_MONO], &set->heaps[DUE_MONO], budget);
        budget = merge_heaps(core, &older->heaps[DUE_WALL], &set->heaps[DUE_WALL], budget);
        if (older->heaps[DUE_MONO].count > 0 || older->heaps[DUE_WALL].count > 0)
            return;
        drop_older(core, set);
    }
}

void bi_topic_end_kick(struct core *core, struct topic *topic, int64_t bound)
{
    struct due_set *set = topic->delayed.older;
    while (set != NULL && set->bound != bound)
        set = set->older;
    assert(set != NULL && set->kicks > 0);

    set->kicks--;
    bi_topic_merge_kick_sets(core, topic, SLICE);
}

/* ---- time ---- */

void bi_topic_arm_timers(struct core *core, struct topic *topic)
{
    struct timers *const timers[DUE_CLOCKS] = {&core->mono, &core->wall};
    for (int clock = 0; clock < DUE_CLOCKS; clock++) {
        struct timer *timer = &topic->due_timer[clock];
        const struct due_entry *soonest = bi_topic_soonest_due(topic, (enum clock)clock, BI_NEVER);
        if (soonest == NULL)
            bi_timers_clear(timers[clock], timer);
        else
            bi_timers_set_with_id(timers[clock], timer, soonest->due, soonest->id);
    }
}

void bi_topic_set_pause(struct core *core, struct topic *topic, int64_t until)
{
    assert(until >= 0);
    topic->paused_until = until;
    topic->pause = until == 0 || until == BI_NEVER ? 0 : until - core->now.mono;

    if (until == 0 || until == BI_NEVER)
        bi_timers_clear(&core->mono, &topic->timer_pause);
    else
        bi_timers_set(&core->mono, &topic->timer_pause, until);

    if (until == 0)
        bi_waiters_wake(core, topic);
}

void bi_fire_pause(struct core *core, struct timer *timer)
{
    struct topic *topic = BI_TIMER_OWNER(timer, struct topic, timer_pause);
    bi_topic_set_pause(core, topic, 0);
    bi_topic_cleanup(core, topic);
}

/* The soonest delayed job of a topic is due on one clock. */
static void fire_due(struct core *core, const struct topic *topic, enum clock clock)
{
    const struct due_entry *soonest = bi_topic_soonest_due(topic, clock, BI_NEVER);
    assert(soonest != NULL); /* a timer is set only while there is a delayed job */
    struct job *job = job_at(core, soonest->job);
    assert(job->state == BIDE_STATE_DELAYED);

    /* Leaving arms the timer for the next delayed job. It finds the heap by JOB_DUE_WALL, so the
     * flag is cleared after it. */
    bi_job_leave(core, job);
    job->flags &= (uint8_t)~JOB_DUE_WALL;
    bi_job_enter(core, job, BIDE_STATE_READY);
    bi_event_emit(core, BIDE_EVENT_READY, job);
}

void bi_fire_due_mono(struct core *core, struct timer *timer)
{
    fire_due(core, BI_TIMER_OWNER(timer, struct topic, due_timer[DUE_MONO]), DUE_MONO);
}

void bi_fire_due_wall(struct core *core, struct timer *timer)
{
    fire_due(core, BI_TIMER_OWNER(timer, struct topic, due_timer[DUE_WALL]), DUE_WALL);
}

uint64_t bi_topic_live_count(const struct topic *topic)
{
    return (uint64_t)topic->lists[BIDE_STATE_DELAYED].count + topic->lists[BIDE_STATE_READY].count +
           topic->lists[BIDE_STATE_RESERVED].count + topic->lists[BIDE_STATE_BURIED].count;
}
