/* SPDX-License-Identifier: MIT */
#include "core/topic.h"

#include "core/state.h"

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

static const struct table_items names = {
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

/* Of so many topics the names are copied. */
#define NAMES_TRIM 32768

/* After most topics have gone, what their names took goes, too: looked at when half of those that were
 * there at the last look have gone. The old ones are freed as a whole, because a large block that shrinks
 * gives its pages back at once, under the lock. */
static void trim_names(struct core *core)
{
    uint64_t used = core->topics.used;
    if (core->names.room <= 1024 || (used & (used - 1)) != 0 || used > core->names.room / 4)
        return;
    uint32_t limit = bi_pool_limit(&core->topics);
    if (limit == 0 || limit > core->names.room / 2 || limit > NAMES_TRIM)
        return;
    struct topic_name *all = bi_alloc_get(&core->alloc, limit * sizeof(*all));
    if (all == NULL)
        return;
    memcpy(all, core->names.all, limit * sizeof(*all));
    bi_alloc_put(&core->alloc, core->names.all);
    core->names = (struct topic_names){.all = all, .room = limit};
}

static bool is_called(const struct topic *topic, bide_slice name)
{
    return topic->name_size == name.size && memcmp(topic->name, name.data, name.size) == 0;
}

/* The name of a new topic is hashed when it is looked for, and again when it is made. */
static uint64_t hash_of(struct core *core, bide_slice name)
{
    if (core->hashed.size != name.size || memcmp(core->hashed.name, name.data, name.size) != 0) {
        assert(name.size <= sizeof(core->hashed.name));
        core->hashed.hash = bi_secret_hash(&core->name_secret, name.data, name.size);
        core->hashed.size = name.size;
        memcpy(core->hashed.name, name.data, name.size);
    }
    return core->hashed.hash;
}

static struct topic *find_hashed(struct core *core, bide_slice name, uint64_t hash)
{
    uint32_t ref = bi_table_first(&core->by_name, hash);
    for (; ref != 0; ref = core->names.all[ref].link) {
        if (core->names.all[ref].hash != (uint32_t)hash)
            continue;
        struct topic *topic = topic_at(core, ref);
        if (topic->hash == hash && is_called(topic, name))
            return topic;
    }
    return NULL;
}

/* Ops on one topic tend to come together: the last one found is looked at first. */
struct topic *bi_topic_find(struct core *core, bide_slice name)
{
    struct topic *topic = topic_at(core, core->recent_topic);
    if (topic != NULL && is_called(topic, name))
        return topic;
    topic = find_hashed(core, name, hash_of(core, name));
    if (topic != NULL)
        core->recent_topic = topic->self;
    return topic;
}

void bi_topic_approach(const struct core *core, bide_slice later, bide_slice next)
{
    if (core->by_name.count < BI_AHEAD_FROM)
        return;
    bi_table_foresee(&core->by_name, bi_secret_hash(&core->name_secret, later.data, later.size));
    uint64_t hash = bi_secret_hash(&core->name_secret, next.data, next.size);
    uint32_t ref = bi_table_first(&core->by_name, hash);
    if (ref != 0 && core->names.all[ref].hash == (uint32_t)hash)
        bi_ahead(topic_at(core, ref), offsetof(struct topic, serial));
}

/* ---- pages: the order of listing ---- */

/* The last page that begins at or before a serial; 0 if none does. */
static size_t page_of(const struct core *core, uint64_t serial)
{
    size_t low = 0;
    size_t high = core->pages.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (core->pages.all[middle].from <= serial)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first entry of a page with that serial or a later one. */
static uint32_t entry_of(const struct topic_page *page, uint64_t serial)
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

struct topic *bi_topic_from(const struct core *core, uint64_t serial)
{
    for (size_t i = page_of(core, serial); i < core->pages.count; i++) {
        const struct topic_page *page = core->pages.all[i].page;
        uint32_t at = entry_of(page, serial);
        if (at < page->count)
            return topic_at(core, page->entries[at].topic);
    }
    return NULL;
}

static bool reserve_page_link(struct core *core)
{
    struct topic_pages *pages = &core->pages;
    if (pages->count < pages->room)
        return true;
    size_t room = pages->room == 0 ? 16 : pages->room * 2;
    struct topic_page_link *all = bi_alloc_resize(&core->alloc, pages->all, room * sizeof(*all));
    if (all == NULL)
        return false;
    pages->all = all;
    pages->room = room;
    return true;
}

/* Makes sure that one more topic fits; false when out of memory. */
static bool reserve_entry(struct core *core)
{
    struct topic_pages *pages = &core->pages;
    if (pages->count > 0 && pages->all[pages->count - 1].page->count < TOPIC_PAGE)
        return true;
    if (!reserve_page_link(core))
        return false;
    struct topic_page *page = bi_alloc_get(&core->alloc, sizeof(*page));
    if (page == NULL)
        return false;
    page->count = 0;
    pages->all[pages->count++] = (struct topic_page_link){.from = core->next_serial, .page = page};
    return true;
}

static void add_entry(struct core *core, const struct topic *topic)
{
    struct topic_page *page = core->pages.all[core->pages.count - 1].page;
    assert(page->count < TOPIC_PAGE);
    page->entries[page->count++] =
        (struct topic_entry){.serial = topic->serial, .topic = topic->self};
}

/* Moves the entries of the page after this one into it. */
static void merge_pages(struct core *core, size_t index)
{
    struct topic_pages *pages = &core->pages;
    struct topic_page *into = pages->all[index].page;
    struct topic_page *from = pages->all[index + 1].page;
    memcpy(into->entries + into->count, from->entries, from->count * sizeof(*from->entries));
    into->count += from->count;
    bi_alloc_put(&core->alloc, from);
    pages->count--;
    memmove(pages->all + index + 1, pages->all + index + 2,
            (pages->count - index - 1) * sizeof(*pages->all));
}

static void remove_entry(struct core *core, const struct topic *topic)
{
    const struct topic_pages *pages = &core->pages;
    size_t index = page_of(core, topic->serial);
    struct topic_page *page = pages->all[index].page;
    uint32_t at = entry_of(page, topic->serial);
    assert(at < page->count && page->entries[at].topic == topic->self);
    page->count--;
    memmove(page->entries + at, page->entries + at + 1,
            (page->count - at) * sizeof(*page->entries));
    /* Two pages that are rather empty become one. */
    if (index + 1 < pages->count &&
        page->count + pages->all[index + 1].page->count <= TOPIC_PAGE / 2)
        merge_pages(core, index);
    else if (index > 0 && page->count + pages->all[index - 1].page->count <= TOPIC_PAGE / 2)
        merge_pages(core, index - 1);
}

/* ---- making and letting go ---- */

/* What a topic takes. */
#define TOPIC_COST (sizeof(struct topic) + sizeof(struct topic_name))

/* What every topic has a timer in. */
#define TIMERS_PER_TOPIC 5

static struct timers *timers_of(struct core *core, int i)
{
    struct timers *const all[TIMERS_PER_TOPIC] = {&core->mono, &core->mono, &core->wall,
                                                  &core->ages, &core->serving};
    return all[i];
}

static void delist_timers(struct core *core, int count)
{
    for (int i = 0; i < count; i++)
        bi_timers_delist(timers_of(core, i));
}

static bool enlist_timers(struct core *core, int *count)
{
    for (*count = 0; *count < TIMERS_PER_TOPIC; ++*count)
        if (!bi_timers_enlist(timers_of(core, *count)))
            return false;
    return true;
}

static struct topic *make(struct core *core, bide_slice name, uint64_t hash)
{
    if (!reserve_entry(core))
        return NULL;
    int enlisted;
    uint32_t ref = enlist_timers(core, &enlisted) ? bi_pool_take(&core->topics) : 0;
    if (ref != 0 && !reserve_name(core, ref)) {
        bi_pool_give(&core->topics, ref);
        ref = 0;
    }
    if (ref == 0) {
        delist_timers(core, enlisted);
        return NULL;
    }
    struct topic *topic = bi_pool_at(&core->topics, ref);
    memset(topic, 0, offsetof(struct topic, name));
    topic->self = ref;
    topic->hash = hash;
    topic->serial = core->next_serial++;
    topic->name_size = (uint8_t)name.size;
    memcpy(topic->name, name.data, name.size);
    topic->name[name.size] = 0;
    bi_timer_init(&topic->timer_mono, TIMER_DUE_MONO, TIMER_CLASS_JOB, 0);
    bi_timer_init(&topic->timer_wall, TIMER_DUE_WALL, TIMER_CLASS_JOB, 0);
    bi_timer_init(&topic->timer_pause, TIMER_PAUSE, TIMER_CLASS_TOPIC, topic->serial);
    bi_timer_init(&topic->age, TIMER_ORDER, TIMER_CLASS_TOPIC, topic->serial);
    bi_timer_init(&topic->serve, TIMER_ORDER, TIMER_CLASS_TOPIC, topic->serial);
    core->names.all[ref].hash = (uint32_t)hash;
    bi_table_insert(&core->by_name, &names, &core->names, ref);
    add_entry(core, topic);
    core->memory += TOPIC_COST;
    return topic;
}

static int get(struct core *core, bide_slice name, uint64_t max, struct topic **topic)
{
    uint64_t hash = hash_of(core, name);
    *topic = find_hashed(core, name, hash);
    if (*topic != NULL)
        return BIDE_OK;
    if (core->by_name.count >= max)
        return BIDE_TOO_MANY_TOPICS;
    *topic = make(core, name, hash);
    return *topic == NULL ? BIDE_ENOMEM : BIDE_OK;
}

int bi_topic_get(struct core *core, bide_slice name, struct topic **topic)
{
    return get(core, name, core->limits.max_topics, topic);
}

int bi_topic_need(struct core *core, bide_slice name, struct topic **topic)
{
    return get(core, name, UINT64_MAX, topic);
}

bool bi_topic_reserve(struct core *core, struct topic *topic)
{
    uint32_t room = topic->members + 1;
    for (struct kick_set *set = topic->kick_sets; set != NULL; set = set->older)
        if (!due_heap_reserve(&set->mono, &core->alloc, room) ||
            !due_heap_reserve(&set->wall, &core->alloc, room))
            return false;
    return ready_heap_reserve(&topic->ready, &core->alloc, room) &&
           due_heap_reserve(&topic->due_mono, &core->alloc, room) &&
           due_heap_reserve(&topic->due_wall, &core->alloc, room);
}

static void free_kick_set(struct core *core, struct kick_set *set)
{
    due_heap_free(&set->mono, &core->alloc);
    due_heap_free(&set->wall, &core->alloc);
    bi_alloc_put(&core->alloc, set);
}

static void free_heaps(struct core *core, struct topic *topic)
{
    while (topic->kick_sets != NULL) {
        struct kick_set *set = topic->kick_sets;
        topic->kick_sets = set->older;
        free_kick_set(core, set);
    }
    ready_heap_free(&topic->ready, &core->alloc);
    due_heap_free(&topic->due_mono, &core->alloc);
    due_heap_free(&topic->due_wall, &core->alloc);
}

static bool is_needed(const struct topic *topic)
{
    return topic->members > 0 || topic->waiting > 0 || topic->references > 0 || topic->pins > 0 ||
           topic->paused_until != 0 || topic->undo != 0 || topic->serve.set;
}

void bi_topic_cleanup(struct core *core, struct topic *topic)
{
    if (core->limits.topic_cleanup)
        bi_topic_unmake(core, topic);
}

void bi_topic_unpin(struct core *core, struct topic *topic)
{
    topic->pins--;
    bi_topic_cleanup(core, topic);
}

void bi_topic_unmake(struct core *core, struct topic *topic)
{
    if (is_needed(topic))
        return;
    bi_timers_clear(&core->ages, &topic->age);
    remove_entry(core, topic);
    bi_table_remove(&core->by_name, &names, &core->names, topic->self);
    free_heaps(core, topic);
    delist_timers(core, TIMERS_PER_TOPIC);
    core->memory -= TOPIC_COST;
    if (core->recent_topic == topic->self)
        core->recent_topic = 0;
    bi_pool_give(&core->topics, topic->self);
    trim_names(core);
}

void bi_topics_free(struct core *core)
{
    struct topic_pages *pages = &core->pages;
    for (size_t i = 0; i < pages->count; i++) {
        struct topic_page *page = pages->all[i].page;
        for (uint32_t at = 0; at < page->count; at++)
            free_heaps(core, topic_at(core, page->entries[at].topic));
        bi_alloc_put(&core->alloc, page);
    }
    bi_alloc_put(&core->alloc, pages->all);
    memset(pages, 0, sizeof(*pages));
    bi_alloc_put(&core->alloc, core->names.all);
    memset(&core->names, 0, sizeof(core->names));
}

/* ---- delayed jobs ---- */

static struct due_heap *heap_in(struct kick_set *set, bool wall)
{
    return wall ? &set->wall : &set->mono;
}

struct due_heap *bi_topic_heap_for(struct topic *topic, const struct job *job)
{
    bool wall = (job->flags & JOB_DUE_WALL) != 0;
    struct due_heap *heap = wall ? &topic->due_wall : &topic->due_mono;
    for (struct kick_set *set = topic->kick_sets; set != NULL && job->since <= set->bound;
         set = set->older)
        heap = heap_in(set, wall);
    return heap;
}

static bool sits_in(const struct core *core, const struct due_heap *heap, const struct job *job)
{
    uint32_t slot = core->slots[job->self];
    return slot < heap->count && heap->entries[slot].job == job->self;
}

struct due_heap *bi_topic_heap_of(const struct core *core, struct topic *topic,
                                  const struct job *job)
{
    bool wall = (job->flags & JOB_DUE_WALL) != 0;
    struct due_heap *heap = wall ? &topic->due_wall : &topic->due_mono;
    for (struct kick_set *set = topic->kick_sets; set != NULL && !sits_in(core, heap, job);
         set = set->older)
        heap = heap_in(set, wall);
    assert(sits_in(core, heap, job));
    return heap;
}

static const struct due_entry *sooner(const struct due_entry *best, const struct due_heap *heap)
{
    if (heap->count == 0 || (best != NULL && bi_due_before(best, &heap->entries[0])))
        return best;
    return &heap->entries[0];
}

const struct due_entry *bi_topic_soonest(const struct topic *topic, bool wall, int64_t bound)
{
    const struct due_entry *best = NULL;
    if (bound == BI_NEVER)
        best = sooner(best, wall ? &topic->due_wall : &topic->due_mono);
    for (struct kick_set *set = topic->kick_sets; set != NULL; set = set->older)
        if (set->bound <= bound)
            best = sooner(best, heap_in(set, wall));
    return best;
}

int bi_topic_begin_kick(struct core *core, struct topic *topic, int64_t *bound)
{
    struct kick_set *youngest = topic->kick_sets;
    if (youngest != NULL && topic->due_mono.count == 0 && topic->due_wall.count == 0) {
        *bound = youngest->bound;
        youngest->kicks++;
        return BIDE_OK;
    }
    int count = 0;
    for (struct kick_set *set = youngest; set != NULL; set = set->older)
        count++;
    if (count == BI_KICK_SETS_MAX)
        return BIDE_EBUSY;

    struct kick_set *set = bi_alloc_get(&core->alloc, sizeof(*set));
    if (set == NULL)
        return BIDE_ENOMEM;
    *set = (struct kick_set){.older = youngest, .bound = *bound, .kicks = 1};
    if (!due_heap_reserve(&set->mono, &core->alloc, topic->members) ||
        !due_heap_reserve(&set->wall, &core->alloc, topic->members)) {
        free_kick_set(core, set);
        return BIDE_ENOMEM;
    }

    /* The full heaps go into the set, the new empty ones take what is delayed from now on. */
    struct due_heap mono = set->mono;
    struct due_heap wall = set->wall;
    set->mono = topic->due_mono;
    set->wall = topic->due_wall;
    topic->due_mono = mono;
    topic->due_wall = wall;
    topic->kick_sets = set;
    return BIDE_OK;
}

/* Moves up to budget entries from one heap into another, the larger one staying where it is. */
static unsigned merge_heaps(struct core *core, struct due_heap *from, struct due_heap *into,
                            unsigned budget)
{
    if (from->count > into->count) {
        struct due_heap larger = *from;
        *from = *into;
        *into = larger;
    }
    for (; from->count > 0 && budget > 0; budget--) {
        struct due_entry last = from->entries[--from->count];
        due_heap_push(into, core->slots, last);
    }
    return budget;
}

void bi_topic_merge(struct core *core, struct topic *topic, unsigned budget)
{
    struct due_heap *mono = &topic->due_mono;
    struct due_heap *wall = &topic->due_wall;
    for (struct kick_set **link = &topic->kick_sets; *link != NULL;) {
        struct kick_set *set = *link;
        if (set->kicks == 0) {
            budget = merge_heaps(core, &set->mono, mono, budget);
            budget = merge_heaps(core, &set->wall, wall, budget);
            if (set->mono.count > 0 || set->wall.count > 0)
                return;
            *link = set->older;
            free_kick_set(core, set);
            continue;
        }
        mono = &set->mono;
        wall = &set->wall;
        link = &set->older;
    }
}

void bi_topic_end_kick(struct core *core, struct topic *topic, int64_t bound)
{
    struct kick_set *set = topic->kick_sets;
    while (set->bound != bound)
        set = set->older;
    assert(set->kicks > 0);
    set->kicks--;
    bi_topic_merge(core, topic, SLICE);
}

/* ---- time ---- */

static void arm(struct timers *timers, struct timer *timer, const struct due_entry *soonest)
{
    if (soonest == NULL)
        bi_timers_clear(timers, timer);
    else
        bi_timers_set_as(timers, timer, soonest->due, soonest->id);
}

void bi_topic_arm(struct core *core, struct topic *topic)
{
    arm(&core->mono, &topic->timer_mono, bi_topic_soonest(topic, false, BI_NEVER));
    arm(&core->wall, &topic->timer_wall, bi_topic_soonest(topic, true, BI_NEVER));
}

void bi_topic_pause(struct core *core, struct topic *topic, int64_t until)
{
    topic->paused_until = until;
    topic->pause = until == 0 || until == BI_NEVER ? 0 : until - core->now.mono;
    if (until == 0 || until == BI_NEVER)
        bi_timers_clear(&core->mono, &topic->timer_pause);
    else
        bi_timers_set(&core->mono, &topic->timer_pause, until);
    if (until == 0)
        bi_waiters_mark(core, topic);
}

void bi_fire_pause(struct core *core, struct timer *timer)
{
    struct topic *topic =
        (struct topic *)(void *)((char *)timer - offsetof(struct topic, timer_pause));
    bi_topic_pause(core, topic, 0);
    bi_topic_cleanup(core, topic);
}

static void fire_due(struct core *core, const struct due_entry *soonest)
{
    struct job *job = job_at(core, soonest->job);
    bi_job_leave(core, job);
    job->flags &= (uint8_t)~JOB_DUE_WALL;
    bi_job_enter(core, job, BIDE_STATE_READY);
    bi_event(core, BIDE_EVENT_READY, job);
}

void bi_fire_due_mono(struct core *core, struct timer *timer)
{
    struct topic *topic =
        (struct topic *)(void *)((char *)timer - offsetof(struct topic, timer_mono));
    fire_due(core, bi_topic_soonest(topic, false, BI_NEVER));
}

void bi_fire_due_wall(struct core *core, struct timer *timer)
{
    struct topic *topic =
        (struct topic *)(void *)((char *)timer - offsetof(struct topic, timer_wall));
    fire_due(core, bi_topic_soonest(topic, true, BI_NEVER));
}

uint64_t bi_topic_live(const struct topic *topic)
{
    return (uint64_t)topic->lists[BIDE_STATE_DELAYED].count + topic->lists[BIDE_STATE_READY].count +
           topic->lists[BIDE_STATE_RESERVED].count + topic->lists[BIDE_STATE_BURIED].count;
}
