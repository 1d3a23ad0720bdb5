/* SPDX-License-Identifier: MIT */
#include "core/job.h"

#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

/* ---- tables of ids and keys ---- */

static uint64_t id_hash(const void *ctx, uint32_t ref)
{
    const struct core *core =
        (const struct core *)(const void *)((const char *)ctx - offsetof(struct core, jobs));
    return bi_core_id_hash(core, job_in(ctx, ref)->id);
}

static uint32_t *id_link(const void *ctx, uint32_t ref)
{
    return &job_in(ctx, ref)->link;
}

static const struct hash_table_ops ids = {id_hash, id_link,
                                          offsetof(struct job, link) - offsetof(struct job, id)};

static uint64_t key_hash(const void *ctx, uint32_t ref)
{
    return ext_in(ctx, ref)->key_hash;
}

static uint32_t *key_link(const void *ctx, uint32_t ref)
{
    return &ext_in(ctx, ref)->link;
}

static const struct hash_table_ops keys = {key_hash, key_link, 0};

struct job *bi_job_lookup(const struct core *core, uint64_t id)
{
    uint32_t ref = bi_hash_table_first(&core->by_id, bi_core_id_hash(core, id));
    while (ref != 0) {
        struct job *job = job_in(&core->jobs, ref);
        if (job->id == id)
            return job;
        ref = job->link;
    }
    return NULL;
}

/* Prefetches for deletes only: they arrive in long lists of ids, and no earlier op has touched
 * their jobs. */
void bi_job_prefetch(const struct core *core, const bide_op *next, const bide_op *later)
{
    if (core->by_id.count < BI_PREFETCH_MIN)
        return;

    if (later->kind == BIDE_OP_DELETE)
        bi_hash_table_prefetch(&core->by_id, bi_core_id_hash(core, later->lease.id));

    if (next->kind != BIDE_OP_DELETE)
        return;
    uint32_t ref = bi_hash_table_first(&core->by_id, bi_core_id_hash(core, next->lease.id));
    if (ref != 0)
        bi_prefetch(job_in(&core->jobs, ref), sizeof(struct job));
}

struct job *bi_job_find(struct core *core, uint64_t id)
{
    /* Also if there is no such job: its removal may not be committed yet. */
    if (core->journal.on)
        bi_journal_depend_on(core, id);

    return bi_job_lookup(core, id);
}

static uint64_t hash_of_key(const struct core *core, const struct topic *topic, bide_slice key)
{
    /* Mix in the topic's hash, which is as secret as the key: equal keys of different topics do
     * not share a chain. */
    struct bi_hash_secret secret = core->name_secret;
    secret.key[1] ^= topic->hash;
    return bi_keyed_hash_bytes(&secret, key.data, key.size);
}

struct job *bi_job_find_by_key(const struct core *core, const struct topic *topic, bide_slice key)
{
    uint64_t hash = hash_of_key(core, topic, key);

    uint32_t ref = bi_hash_table_first(&core->by_key, hash);
    while (ref != 0) {
        const struct job_ext *ext = ext_in(&core->exts, ref);
        struct job *job = job_at(core, ext->job);
        if (ext->key_hash == hash && job->topic == topic->self &&
            bide_buf_size(ext->key) == key.size &&
            memcmp(bide_buf_data(ext->key), key.data, key.size) == 0)
            return job;
        ref = ext->link;
    }
    return NULL;
}

/* ---- allocation ---- */

static bool reserve_slot(struct core *core, uint32_t ref)
{
    if (ref < core->slot_room)
        return true;

    uint32_t room = ref < 512 ? 1024 : ref + ref / 2;
    uint32_t *slots = bi_alloc_resize(&core->alloc, core->slots, (size_t)room * sizeof(*slots));
    if (slots == NULL)
        return false;

    core->slots = slots;
    core->slot_room = room;
    return true;
}

/* Shrinks the array of slots after most jobs were freed. */
static void trim_slots(struct core *core)
{
    /* Every 512th free only: bi_pool_limit() may read all slabs. */
    if (core->slot_room <= 4096 || core->jobs.used % 512 != 0 ||
        core->jobs.used > core->slot_room / 4)
        return;

    uint32_t limit = bi_pool_limit(&core->jobs);
    if (limit == 0 || limit > core->slot_room / 2)
        return;

    uint32_t *slots = bi_alloc_resize(&core->alloc, core->slots, (size_t)limit * sizeof(*slots));
    if (slots == NULL)
        return;
    core->slots = slots;
    core->slot_room = limit;
}

struct job *bi_job_new(struct core *core, uint32_t topic, uint64_t id)
{
    struct topic *parent = topic_at(core, topic);
    assert(parent != NULL && id > 0);

    /* Room that is left reserved after a later failure serves the next member. */
    if (!bi_topic_reserve(core, parent, 1))
        return NULL;

    uint32_t ref = bi_pool_alloc(&core->jobs);
    if (ref == 0)
        return NULL;
    if (!reserve_slot(core, ref)) {
        bi_pool_free(&core->jobs, ref);
        return NULL;
    }

    struct job *job = job_in(&core->jobs, ref);
    memset(job, 0, sizeof(*job));
    job->self = ref;
    job->id = id;
    job->topic = topic;

    parent->members++;
    core->memory += JOB_COST;
    return job;
}

/* Most of them are NULL, and need no call. */
#define REF_BUF(kind, name, least, most) bide_buf_ref(ext->name);
#define UNREF_BUF(kind, name, least, most) \
    if (ext->name != NULL)                 \
        bide_buf_unref(ext->name);
#define ADD_SIZE(kind, name, least, most) \
    if (ext->name != NULL)                \
        size += bide_buf_size(ext->name);

void bi_job_ext_ref_texts(const struct job_ext *ext)
{
    BI_JOB_EXT_BUFS(REF_BUF)
}

void bi_job_ext_unref_texts(const struct job_ext *ext)
{
    BI_JOB_EXT_BUFS(UNREF_BUF)
}

void bi_job_unref_bufs(const struct core *core, const struct job *job)
{
    bide_buf_unref(job->body);
    if (job->ext != 0)
        bi_job_ext_unref_texts(ext_of(core, job));
}

uint64_t bi_job_ext_text_size(const struct job_ext *ext)
{
    uint64_t size = 0;
    BI_JOB_EXT_BUFS(ADD_SIZE)
    return size;
}

void bi_job_ext_set_text(struct core *core, bide_buf **dst, bide_buf *text)
{
    core->memory += bide_buf_size(text);
    core->memory -= bide_buf_size(*dst);
    bide_buf_unref(*dst);
    *dst = text;
}

void bi_job_free(struct core *core, struct job *job)
{
    struct topic *topic = topic_of(core, job);
    struct job_ext *ext = ext_of(core, job);

    assert(job->state == BIDE_STATE_GONE);
    bi_body_cache_remove(core, job);
    core->memory -= JOB_COST + (bi_job_body_missing(job) ? 0 : job->body_size);
    bide_buf_unref(job->body);

    if (ext != NULL) {
        assert(!ext->timer.set && !ext->expiry.set && ext->watch == NULL);
        core->memory -= JOB_EXT_COST + bi_job_ext_text_size(ext);
        bi_job_ext_unref_texts(ext);
        bi_timers_unreserve(&core->mono);
        bi_timers_unreserve(&core->wall);
        bi_pool_free(&core->exts, ext->self);
    }
    bi_pool_free(&core->jobs, job->self);
    trim_slots(core);

    assert(topic->members > 0);
    topic->members--;
    ready_heap_trim(&topic->ready, &core->alloc, topic->members);
    due_heap_trim(&topic->delayed.heaps[DUE_MONO], &core->alloc, topic->members);
    due_heap_trim(&topic->delayed.heaps[DUE_WALL], &core->alloc, topic->members);

    /* Last: this may destroy the topic. */
    bi_topic_cleanup(core, topic);
}

#define RESET_FIELD(kind, name) ext->name = BI_JOB_NONE_##kind;
#define RESET_TIME(kind, name)  ext->name = BI_NEVER;

void bi_job_ext_reset(struct job_ext *ext, const struct job *job)
{
    memset(ext, 0, sizeof(*ext));
    BI_JOB_EXT(RESET_FIELD)
    BI_JOB_TIMES(RESET_TIME)

    /* Without an extension the flag stands for "ready since created". */
    if ((job->flags & JOB_READY_BEFORE) != 0)
        ext->ready = job->created;
}

struct job_ext *bi_job_ensure_ext(struct core *core, struct job *job)
{
    if (job->ext != 0)
        return ext_of(core, job);

    if (!bi_timers_reserve(&core->mono))
        return NULL;
    if (!bi_timers_reserve(&core->wall)) {
        bi_timers_unreserve(&core->mono);
        return NULL;
    }

    uint32_t ref = bi_pool_alloc(&core->exts);
    if (ref == 0) {
        bi_timers_unreserve(&core->mono);
        bi_timers_unreserve(&core->wall);
        return NULL;
    }

    struct job_ext *ext = ext_in(&core->exts, ref);
    bi_job_ext_reset(ext, job);
    ext->self = ref;
    ext->job = job->self;
    bi_timer_init(&ext->timer, TIMER_LEASE, TIMER_CLASS_JOB, job->id);
    bi_timer_init(&ext->expiry, TIMER_EXPIRY, TIMER_CLASS_EXPIRY, job->id);
    job->ext = ref;
    core->memory += JOB_EXT_COST;
    return ext;
}

/* ---- lists ---- */

uint64_t bi_job_list_order(const struct core *core, const struct job *job)
{
    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        return ext_of(core, job)->order;
    /* Not by since: a reservation without a reply retains the since of its earlier state. */
    if (job->state == BIDE_STATE_RESERVED)
        return bi_lease_number(core, ext_of(core, job));
    return bi_job_time_order(job->since);
}

/* Does a come after b in the list of their state? */
static bool list_after(const struct core *core, const struct job *a, const struct job *b)
{
    assert(a->state == b->state);
    return bi_job_list_order(core, a) > bi_job_list_order(core, b);
}

/* The order of the tree: that of the list, with the id as tie-breaker. */
static bool tree_after(const struct core *core, const struct job *a, const struct job *b)
{
    uint64_t left = bi_job_list_order(core, a);
    uint64_t right = bi_job_list_order(core, b);
    return left > right || (left == right && a->id > b->id);
}

/* The heap order of the treap. The keyed hash of the id serves as its random priority: it is the
 * same in every replay of a seed, and clients cannot choose ids that unbalance the tree. */
static bool tree_above(const struct core *core, const struct job *a, const struct job *b)
{
    return bi_core_id_hash(core, a->id) > bi_core_id_hash(core, b->id);
}

static void tree_insert(struct core *core, struct job_list *list, struct job *job)
{
    assert(!job->in_tree && job->state != BIDE_STATE_GONE);
    uint32_t *dst = &list->root;
    struct job *node;

    while ((node = job_at(core, *dst)) != NULL && tree_above(core, node, job))
        dst = tree_after(core, job, node) ? &node->next : &node->prev;

    *dst = job->self;
    /* Split the subtree that was here into the jobs before and after the new one. */
    uint32_t *left = &job->prev;
    uint32_t *right = &job->next;
    while (node != NULL) {
        if (tree_after(core, job, node)) {
            *left = node->self;
            left = &node->next;
            node = job_at(core, node->next);
        } else {
            *right = node->self;
            right = &node->prev;
            node = job_at(core, node->prev);
        }
    }

    *left = *right = 0;
    job->in_tree = true;
    list->count++;
}

static void tree_remove(struct core *core, struct job_list *list, struct job *job)
{
    uint32_t *dst = &list->root;

    while (*dst != job->self) {
        struct job *node = job_at(core, *dst);
        assert(node != NULL);
        dst = tree_after(core, job, node) ? &node->next : &node->prev;
    }

    /* Merge both subtrees into the place of the job. The caller adjusts list->count. */
    struct job *left = job_at(core, job->prev);
    struct job *right = job_at(core, job->next);
    while (left != NULL && right != NULL) {
        if (tree_above(core, left, right)) {
            *dst = left->self;
            dst = &left->next;
            left = job_at(core, left->next);
        } else {
            *dst = right->self;
            dst = &right->prev;
            right = job_at(core, right->prev);
        }
    }

    *dst = left != NULL ? left->self : right != NULL ? right->self : 0;
    job->in_tree = false;
}

static struct job *tree_first(const struct core *core, const struct job_list *list)
{
    struct job *job = job_at(core, list->root);
    while (job != NULL && job->prev != 0)
        job = job_at(core, job->prev);
    return job;
}

static struct job *tree_next(const struct core *core, const struct job_list *list,
                             const struct job *job)
{
    struct job *best = NULL;
    struct job *node = job_at(core, list->root);

    /* Jobs have no parent link, so search from the root. */
    while (node != NULL) {
        bool after = tree_after(core, node, job);
        if (after)
            best = node;
        node = job_at(core, after ? node->prev : node->next);
    }
    return best;
}

static void list_append(struct core *core, struct job_list *list, struct job *job)
{
    assert(!job->in_tree);
    job->prev = list->tail;
    job->next = 0;
    if (list->tail != 0)
        job_at(core, list->tail)->next = job->self;
    else
        list->head = job->self;
    list->tail = job->self;
    list->count++;
}

static void list_remove(struct core *core, struct job_list *list, struct job *job)
{
    assert(list->count > 0);
    list->count--;

    if (job->in_tree) {
        tree_remove(core, list, job);
        return;
    }

    if (job->prev != 0)
        job_at(core, job->prev)->next = job->next;
    else
        list->head = job->next;
    if (job->next != 0)
        job_at(core, job->next)->prev = job->prev;
    else
        list->tail = job->prev;
}

struct job *bi_job_list_oldest(const struct core *core, const struct job_list *list)
{
    struct job *head = job_at(core, list->head);
    struct job *first = tree_first(core, list);
    return first != NULL && (head == NULL || list_after(core, head, first)) ? first : head;
}

struct job *bi_job_list_next(const struct core *core, const struct job_list *list,
                             const struct job *job)
{
    if (job != NULL && job->in_tree)
        return tree_next(core, list, job);

    struct job *next = job_at(core, job == NULL ? list->head : job->next);
    return next != NULL ? next : tree_first(core, list);
}

/* ---- keys ---- */

void bi_job_release_key(struct core *core, struct job *job)
{
    if ((job->flags & JOB_KEYED) == 0)
        return;
    bi_hash_table_remove(&core->by_key, &keys, &core->exts, job->ext);
    job->flags &= (uint8_t)~JOB_KEYED;
}

static void update_key(struct core *core, struct job *job, struct job_ext *ext)
{
    bool holds = job->state != BIDE_STATE_DONE || (job->flags & JOB_KEY_RETAINED) != 0;
    if (ext->key == NULL || !holds) {
        bi_job_release_key(core, job);
        return;
    }

    if ((job->flags & JOB_KEYED) != 0)
        return;

    ext->key_hash = hash_of_key(core, topic_of(core, job), bi_buf_slice(ext->key));
    bi_hash_table_insert(&core->by_key, &keys, &core->exts, job->ext);
    job->flags |= JOB_KEYED;
}

void bi_job_hold_key(struct core *core, struct job *job)
{
    if (job->ext != 0)
        update_key(core, job, ext_of(core, job));
}

void bi_job_move(struct core *core, struct job *job, uint32_t topic)
{
    assert(topic != job->topic);
    struct topic *from = topic_of(core, job);

    /* The hash of a key includes the topic. Entering the next state inserts the key again. */
    bi_job_release_key(core, job);
    topic_at(core, topic)->members++;
    job->topic = topic;

    assert(from->members > 0);
    from->members--;
    bi_topic_cleanup(core, from);
}

/* ---- what belongs to each state ---- */

static void enter_ready(struct core *core, struct topic *topic, struct job *job)
{
    struct ready_entry entry = {job->priority, job->self, job->id};
    ready_heap_push(&topic->ready, core->slots, entry);

    if (job->priority < BIDE_DEFAULT_PRIORITY) {
        topic->urgent++;
        core->urgent++;
    }

    /* A lower bound is enough: leave_ready() does not raise it, its readers do. */
    if (!topic->age.set || job->since < topic->age.due)
        bi_timers_set(&core->ages, &topic->age, job->since);

    bi_waiters_wake(core, topic);
}

/*
 * Most jobs leave from the top of the heap, and with millions of them each access to the next one
 * is a cache miss. Prefetches the body and the list neighbours of the new top, and the job that
 * will probably be the top after it (the least child).
 */
BI_PREFETCH_FN void prefetch_next(const struct core *core, const struct topic *topic)
{
    const struct ready_heap *heap = &topic->ready;
    if (heap->count < BI_PREFETCH_MIN)
        return;

    uint32_t second = heap->entries[ready_heap_least_child(heap, 0)].job;
    bi_prefetch(job_in(&core->jobs, second), sizeof(struct job));

    const struct job *top = job_in(&core->jobs, heap->entries[0].job);
    if (top->body != NULL)
        bi_prefetch(top->body, 1);
    if (top->prev != 0)
        bi_prefetch(&job_at(core, top->prev)->next, 1);
    if (top->next != 0)
        bi_prefetch(&job_at(core, top->next)->prev, 1);
}

static void leave_ready(struct core *core, struct topic *topic, struct job *job)
{
    assert(topic->ready.count > 0);
    bool top = topic->ready.entries[0].job == job->self;

    /* For the top job, do not read core->slots: that would be one more cache miss. */
    ready_heap_remove(&topic->ready, core->slots, top ? 0 : core->slots[job->self]);
    if (top)
        prefetch_next(core, topic);

    if (job->priority < BIDE_DEFAULT_PRIORITY) {
        topic->urgent--;
        core->urgent--;
    }
}

/* Jobs that each change of state moves out of kick sets without an active kick. More than one,
 * so that merging ends although new jobs are delayed. */
#define MERGE_BUDGET 8

static void enter_delayed(struct core *core, struct topic *topic, struct job *job)
{
    struct due_entry entry = {job->due, job->id, job->self};
    due_heap_push(bi_topic_insert_heap(topic, job), core->slots, entry);
    bi_topic_merge_kick_sets(core, topic, MERGE_BUDGET);
    bi_topic_arm_timers(core, topic);
}

static void leave_delayed(struct core *core, struct topic *topic, struct job *job)
{
    struct due_heap *heap = bi_topic_find_heap(core, topic, job);
    assert(heap != NULL);
    due_heap_remove(heap, core->slots, core->slots[job->self]);
    bi_topic_merge_kick_sets(core, topic, MERGE_BUDGET);
    bi_topic_arm_timers(core, topic);
}

static void enter_reserved(struct core *core, struct topic *topic, struct job *job)
{
    struct job_ext *ext = ext_of(core, job);
    assert(ext != NULL && ext->token != 0);
    ext->timer.kind = TIMER_LEASE;

    /* Without a reply the lease has not started; bi_lease_start() sets the timer. */
    if (!ext->reply_pending)
        bi_timers_set(&core->mono, &ext->timer, job->due);
    if (topic->policy != NULL)
        bi_policy_update(core, topic);
}

static void enter_done(struct core *core, struct topic *topic, struct job *job)
{
    (void)topic;
    struct job_ext *ext = ext_of(core, job);
    assert(ext != NULL);
    ext->timer.kind = TIMER_RETENTION;
    bi_timers_set(&core->mono, &ext->timer, job->due);
}

static void leave_timed(struct core *core, struct topic *topic, struct job *job)
{
    (void)topic;
    bi_timers_clear(&core->mono, &ext_of(core, job)->timer);
}

static void leave_reserved(struct core *core, struct topic *topic, struct job *job)
{
    bi_timers_clear(&core->mono, &ext_of(core, job)->timer);
    if (topic->policy != NULL)
        bi_policy_update(core, topic);
}

static void do_nothing(struct core *core, struct topic *topic, struct job *job)
{
    (void)core;
    (void)topic;
    (void)job;
}

/* For every state: what to do on entry and exit, and which states may follow. GONE means "no
 * state". */
static const struct {
    void (*enter)(struct core *, struct topic *, struct job *);
    void (*leave)(struct core *, struct topic *, struct job *);
    bool next[BIDE_STATE_DONE + 1]; /* gone delayed ready reserved buried done */
} states[BIDE_STATE_DONE + 1] = {
    [BIDE_STATE_GONE] = {do_nothing, do_nothing, {0, 1, 1, 0, 1, 1}},
    [BIDE_STATE_DELAYED] = {enter_delayed, leave_delayed, {1, 1, 1, 1, 1, 1}},
    [BIDE_STATE_READY] = {enter_ready, leave_ready, {1, 1, 1, 1, 1, 1}},
    [BIDE_STATE_RESERVED] = {enter_reserved, leave_reserved, {1, 1, 1, 0, 1, 1}},
    [BIDE_STATE_BURIED] = {do_nothing, do_nothing, {1, 0, 1, 1, 1, 1}},
    [BIDE_STATE_DONE] = {enter_done, leave_timed, {1, 0, 0, 0, 0, 1}},
};

bool bi_job_may_enter(bide_state from, bide_state to)
{
    return states[from].next[to];
}

/* ---- the state ---- */

/* How a job enters the list of its state. */
enum enter_mode { ENTER_APPEND, ENTER_RESTORED, ENTER_LOADED };

static void enter(struct core *core, struct job *job, bide_state state, enum enter_mode mode)
{
    struct topic *topic = topic_of(core, job);

    /* The legal changes bind ops and timers, not a rollback or a load. */
    assert(mode != ENTER_APPEND || bi_job_may_enter(job->state, state));
    assert(state > BIDE_STATE_GONE && state <= BIDE_STATE_DONE);
    if (job->state == BIDE_STATE_GONE) {
        bi_hash_table_insert(&core->by_id, &ids, &core->jobs, job->self);

        /* Ids are consecutive: prefetch the bucket of the next put. */
        bi_hash_table_prefetch(&core->by_id, bi_core_id_hash(core, job->id + 1));
    }

    /* The next op of the worker names this job: prefetch its bucket. */
    if (state == BIDE_STATE_RESERVED)
        bi_hash_table_prefetch(&core->by_id, bi_core_id_hash(core, job->id));

    /* First the state: the order of the list, the key and the expiry depend on it. */
    job->state = (uint8_t)state;
    struct job_ext *ext = ext_of(core, job);
    struct job_list *list = &topic->lists[state];

    /* One comparison with the tail is enough to notice any disorder of loaded jobs. */
    const struct job *last = job_at(core, list->tail);
    if (mode == ENTER_LOADED && last != NULL && list_after(core, last, job))
        core->unsorted_states |= 1u << state;

    if (mode == ENTER_RESTORED)
        tree_insert(core, list, job);
    else
        list_append(core, list, job);

    core->counts[state]++;
    states[state].enter(core, topic, job);

    if (ext == NULL)
        return;
    update_key(core, job, ext);

    /* A job that was reserved once does not expire any more. */
    bool live = state == BIDE_STATE_DELAYED || state == BIDE_STATE_READY;
    if (live && ext->expires_at != 0 && ext->counters.reserves == 0)
        bi_timers_set(&core->wall, &ext->expiry, ext->expires_at);
}

void bi_job_enter(struct core *core, struct job *job, bide_state state)
{
    job->since = bi_core_stamp(core);
    if (state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE) {
        /* The store must know the limit, so that the next run continues above this number. */
        bi_journal_reserve_token(core, core->next_order);
        ext_of(core, job)->order = core->next_order++;
    }

    enter(core, job, state, ENTER_APPEND);
}

void bi_job_enter_restored(struct core *core, struct job *job, bide_state state)
{
    enter(core, job, state, ENTER_RESTORED);
}

void bi_job_enter_loaded(struct core *core, struct job *job, bide_state state)
{
    assert(job->state == BIDE_STATE_GONE);
    enter(core, job, state, ENTER_LOADED);
}

void bi_job_move_to_front(struct core *core, struct job *job)
{
    struct job_list *list = &topic_of(core, job)->lists[job->state];
    list_remove(core, list, job);

    job->prev = 0;
    job->next = list->head;

    if (list->head != 0)
        job_at(core, list->head)->prev = job->self;
    else
        list->tail = job->self;
    list->head = job->self;
    list->count++;
}

int64_t bi_job_ready_since(const struct core *core, const struct job *job)
{
    if ((job->flags & JOB_READY_BEFORE) == 0)
        return job->since;
    const struct job_ext *ext = ext_of(core, job);
    return ext != NULL ? ext->ready : job->created;
}

void bi_job_leave(struct core *core, struct job *job)
{
    struct topic *topic = topic_of(core, job);
    struct job_ext *ext = ext_of(core, job);
    assert(job->state != BIDE_STATE_GONE && core->counts[job->state] > 0);

    /* Forget the time from before the restore. If the job leaves by a reservation,
     * bi_lease_grant() has saved that time and cleared the flag already. */
    if ((job->flags & JOB_READY_BEFORE) != 0) {
        if (ext != NULL)
            ext->ready = BI_NEVER;
        job->flags &= (uint8_t)~JOB_READY_BEFORE;
    }

    list_remove(core, &topic->lists[job->state], job);
    core->counts[job->state]--;
    states[job->state].leave(core, topic, job);
    if (ext != NULL)
        bi_timers_clear(&core->wall, &ext->expiry);
}

void bi_job_unlink(struct core *core, struct job *job)
{
    bi_job_leave(core, job);
    bi_job_release_key(core, job);
    bi_hash_table_remove(&core->by_id, &ids, &core->jobs, job->self);
    job->state = BIDE_STATE_GONE;
}

void bi_job_heap_remove(struct core *core, struct job *job)
{
    states[job->state].leave(core, topic_of(core, job), job);
}

void bi_job_heap_insert(struct core *core, struct job *job)
{
    assert(job->state != BIDE_STATE_GONE);
    states[job->state].enter(core, topic_of(core, job), job);
}
