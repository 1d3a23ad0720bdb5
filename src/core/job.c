/* SPDX-License-Identifier: MIT */
#include "core/job.h"

#include "core/state.h"

#include <assert.h>
#include <string.h>

/* ---- the table of ids and the table of keys ---- */

static uint64_t id_hash(const void *ctx, uint32_t ref)
{
    const struct core *core =
        (const struct core *)(const void *)((const char *)ctx - offsetof(struct core, jobs));
    return bi_core_id_hash(core, ((const struct job *)bi_pool_at(ctx, ref))->id);
}

static uint32_t *id_link(const void *ctx, uint32_t ref)
{
    return &((struct job *)bi_pool_at(ctx, ref))->link;
}

static const struct table_items ids = {id_hash, id_link,
                                       offsetof(struct job, link) - offsetof(struct job, id)};

static uint64_t key_hash(const void *ctx, uint32_t ref)
{
    return ((const struct more *)bi_pool_at(ctx, ref))->key_hash;
}

static uint32_t *key_link(const void *ctx, uint32_t ref)
{
    return &((struct more *)bi_pool_at(ctx, ref))->link;
}

static const struct table_items keys = {key_hash, key_link, 0};

struct job *bi_core_lookup(const struct core *core, uint64_t id)
{
    uint32_t ref = bi_table_first(&core->by_id, bi_core_id_hash(core, id));
    while (ref != 0) {
        struct job *job = bi_pool_at(&core->jobs, ref);
        if (job->id == id)
            return job;
        ref = job->link;
    }
    return NULL;
}

/* Only deletes come in long lists that nothing else has brought near. */
void bi_core_approach(const struct core *core, const bide_op *next, const bide_op *later)
{
    if (core->by_id.count < BI_AHEAD_FROM)
        return;
    if (later->kind == BIDE_OP_DELETE)
        bi_table_foresee(&core->by_id, bi_core_id_hash(core, later->lease.id));
    if (next->kind != BIDE_OP_DELETE)
        return;
    uint32_t ref = bi_table_first(&core->by_id, bi_core_id_hash(core, next->lease.id));
    if (ref != 0)
        bi_ahead(bi_pool_at(&core->jobs, ref), sizeof(struct job));
}

struct job *bi_core_find(struct core *core, uint64_t id)
{
    if (core->journal.on)
        bi_journal_see(core, id);
    return bi_core_lookup(core, id);
}

uint64_t bi_core_key_hash(const struct core *core, const struct topic *topic, bide_slice key)
{
    /* The topic's hash is as secret as the key itself: equal keys of two topics share no chain. */
    struct bi_secret secret = core->name_secret;
    secret.key[1] ^= topic->hash;
    return bi_secret_hash(&secret, key.data, key.size);
}

struct job *bi_core_find_key(const struct core *core, const struct topic *topic, bide_slice key)
{
    uint64_t hash = bi_core_key_hash(core, topic, key);
    uint32_t ref = bi_table_first(&core->by_key, hash);
    while (ref != 0) {
        const struct more *more = bi_pool_at(&core->mores, ref);
        struct job *job = job_at(core, more->job);
        if (more->key_hash == hash && job->topic == topic->self &&
            bide_buf_size(more->key) == key.size &&
            memcmp(bide_buf_data(more->key), key.data, key.size) == 0)
            return job;
        ref = more->link;
    }
    return NULL;
}

/* ---- making and freeing ---- */

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

/* After many jobs have gone, what their slots took goes, too. */
static void trim_slots(struct core *core)
{
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
    struct topic *home = topic_at(core, topic);
    if (!bi_topic_reserve(core, home))
        return NULL;
    uint32_t ref = bi_pool_take(&core->jobs);
    if (ref == 0)
        return NULL;
    if (!reserve_slot(core, ref)) {
        bi_pool_give(&core->jobs, ref);
        return NULL;
    }
    struct job *job = bi_pool_at(&core->jobs, ref);
    memset(job, 0, sizeof(*job));
    job->self = ref;
    job->id = id;
    job->topic = topic;
    home->members++;
    core->memory += JOB_COST;
    return job;
}

void bi_more_drop_texts(const struct more *more)
{
    bide_buf_unref(more->key);
    bide_buf_unref(more->last_error);
    bide_buf_unref(more->result);
    bide_buf_unref(more->progress);
}

uint64_t bi_more_text_size(const struct more *more)
{
    return bide_buf_size(more->key) + bide_buf_size(more->last_error) +
           bide_buf_size(more->result) + bide_buf_size(more->progress);
}

void bi_more_set_text(struct core *core, bide_buf **place, bide_buf *text)
{
    core->memory += bide_buf_size(text);
    core->memory -= bide_buf_size(*place);
    bide_buf_unref(*place);
    *place = text;
}

static void free_more(struct core *core, struct more *more)
{
    core->memory -= MORE_COST + bi_more_text_size(more);
    bi_more_drop_texts(more);
    bi_timers_delist(&core->mono);
    bi_timers_delist(&core->wall);
    bi_pool_give(&core->mores, more->self);
}

void bi_job_free(struct core *core, struct job *job)
{
    struct topic *topic = topic_of(core, job);
    struct more *more = more_of(core, job);
    if (more != NULL)
        free_more(core, more);
    bi_cache_remove(core, job);
    core->memory -= JOB_COST + (bi_job_lacks_body(job) ? 0 : job->body_size);
    bide_buf_unref(job->body);
    bi_pool_give(&core->jobs, job->self);
    trim_slots(core);
    topic->members--;
    ready_heap_trim(&topic->ready, &core->alloc, topic->members);
    due_heap_trim(&topic->due_mono, &core->alloc, topic->members);
    due_heap_trim(&topic->due_wall, &core->alloc, topic->members);
    bi_topic_cleanup(core, topic);
}

struct more *bi_job_more(struct core *core, struct job *job)
{
    if (job->more != 0)
        return more_of(core, job);
    if (!bi_timers_enlist(&core->mono))
        return NULL;
    if (!bi_timers_enlist(&core->wall)) {
        bi_timers_delist(&core->mono);
        return NULL;
    }
    uint32_t ref = bi_pool_take(&core->mores);
    if (ref == 0) {
        bi_timers_delist(&core->mono);
        bi_timers_delist(&core->wall);
        return NULL;
    }
    struct more *more = bi_pool_at(&core->mores, ref);
    memset(more, 0, sizeof(*more));
    more->self = ref;
    more->job = job->self;
    more->max_retries = BIDE_NO_RETRY_LIMIT;
    more->ready = more->reserved = more->touched = more->buried = more->done = BI_NEVER;
    if ((job->flags & JOB_READY_BEFORE) != 0)
        more->ready = job->created;
    bi_timer_init(&more->timer, TIMER_LEASE, TIMER_CLASS_JOB, job->id);
    bi_timer_init(&more->expiry, TIMER_EXPIRY, TIMER_CLASS_EXPIRY, job->id);
    job->more = ref;
    core->memory += MORE_COST;
    return more;
}

/* ---- lists ---- */

/* Is a behind b in the order of their list? */
static bool list_after(const struct core *core, const struct job *a, const struct job *b)
{
    if (a->state == BIDE_STATE_BURIED || a->state == BIDE_STATE_DONE)
        return more_of(core, a)->order > more_of(core, b)->order;
    if (a->state == BIDE_STATE_RESERVED)
        return bi_core_number(core, more_of(core, a)) > bi_core_number(core, more_of(core, b));
    return a->since > b->since;
}

/* The order of the tree: that of the list, and jobs that came at the same moment by their ids. */
static bool tree_after(const struct core *core, const struct job *a, const struct job *b)
{
    return list_after(core, a, b) || (a->id > b->id && !list_after(core, b, a));
}

/* The job of a subtree that stands above all others of it. */
static bool tree_above(const struct core *core, const struct job *a, const struct job *b)
{
    return bi_core_id_hash(core, a->id) > bi_core_id_hash(core, b->id);
}

static void tree_insert(struct core *core, struct job_list *list, struct job *job)
{
    uint32_t *place = &list->root;
    struct job *node;
    while ((node = job_at(core, *place)) != NULL && tree_above(core, node, job))
        place = tree_after(core, job, node) ? &node->next : &node->prev;
    *place = job->self;
    /* What was below that place is split between the two sides of the job. */
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
    uint32_t *place = &list->root;
    while (*place != job->self) {
        struct job *node = job_at(core, *place);
        assert(node != NULL);
        place = tree_after(core, job, node) ? &node->next : &node->prev;
    }
    struct job *left = job_at(core, job->prev);
    struct job *right = job_at(core, job->next);
    while (left != NULL && right != NULL) {
        if (tree_above(core, left, right)) {
            *place = left->self;
            place = &left->next;
            left = job_at(core, left->next);
        } else {
            *place = right->self;
            place = &right->prev;
            right = job_at(core, right->prev);
        }
    }
    *place = left != NULL ? left->self : right != NULL ? right->self : 0;
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

static void list_load(struct core *core, struct job_list *list, struct job *job)
{
    const struct job *last = job_at(core, list->tail);
    if (last != NULL && list_after(core, last, job))
        core->disordered |= 1u << job->state;
    list_append(core, list, job);
}

struct job *bi_list_oldest(const struct core *core, const struct job_list *list)
{
    struct job *head = job_at(core, list->head);
    struct job *first = tree_first(core, list);
    return first != NULL && (head == NULL || list_after(core, head, first)) ? first : head;
}

struct job *bi_list_next(const struct core *core, const struct job_list *list,
                         const struct job *job)
{
    if (job != NULL && job->in_tree)
        return tree_next(core, list, job);
    struct job *next = job_at(core, job == NULL ? list->head : job->next);
    return next != NULL ? next : tree_first(core, list);
}

/* ---- the key ---- */

static bool holds_key(const struct job *job)
{
    return job->state != BIDE_STATE_DONE || (job->flags & JOB_KEY_RETAINED) != 0;
}

static void drop_key(struct core *core, struct job *job)
{
    if ((job->flags & JOB_KEYED) == 0)
        return;
    bi_table_remove(&core->by_key, &keys, &core->mores, job->more);
    job->flags &= (uint8_t)~JOB_KEYED;
}

static void settle_key(struct core *core, struct job *job, struct more *more)
{
    if (more->key == NULL || !holds_key(job)) {
        drop_key(core, job);
        return;
    }
    if ((job->flags & JOB_KEYED) != 0)
        return;
    bide_slice key = {bide_buf_data(more->key), bide_buf_size(more->key)};
    more->key_hash = bi_core_key_hash(core, topic_of(core, job), key);
    bi_table_insert(&core->by_key, &keys, &core->mores, job->more);
    job->flags |= JOB_KEYED;
}

void bi_job_move(struct core *core, struct job *job, uint32_t topic)
{
    struct topic *from = topic_of(core, job);
    drop_key(core, job);
    topic_at(core, topic)->members++;
    job->topic = topic;
    from->members--;
    bi_topic_cleanup(core, from);
}

/* ---- what each state has of its own ---- */

static void enter_ready(struct core *core, struct topic *topic, struct job *job)
{
    struct ready_entry entry = {job->priority, job->self, job->id};
    ready_heap_push(&topic->ready, core->slots, entry);
    if (job->priority < BIDE_DEFAULT_PRIORITY) {
        topic->urgent++;
        core->urgent++;
    }
    if (!topic->age.set || job->since < topic->age.due)
        bi_timers_set(&core->ages, &topic->age, job->since);
    bi_waiters_mark(core, topic);
}

/*
 * Most jobs leave from the top of the heap, and with millions of them each touch of the next one
 * would be a wait for memory. So the cache is told ahead: of the job that is now on top its body
 * and its neighbours in the list, of the one after it (the least child) the job itself.
 */
BI_AHEAD_FN void foresee(const struct core *core, const struct topic *topic)
{
    const struct ready_heap *heap = &topic->ready;
    if (heap->count < BI_AHEAD_FROM)
        return;
    uint32_t second = heap->entries[ready_heap_least_child(heap, 0)].job;
    bi_ahead(bi_pool_at(&core->jobs, second), sizeof(struct job));
    const struct job *top = bi_pool_at(&core->jobs, heap->entries[0].job);
    if (top->body != NULL)
        bi_ahead(top->body, 1);
    if (top->prev != 0)
        bi_ahead(&job_at(core, top->prev)->next, 1);
    if (top->next != 0)
        bi_ahead(&job_at(core, top->next)->prev, 1);
}

static void leave_ready(struct core *core, struct topic *topic, struct job *job)
{
    bool top = topic->ready.entries[0].job == job->self;
    ready_heap_remove(&topic->ready, core->slots, top ? 0 : core->slots[job->self]);
    if (top)
        foresee(core, topic);
    if (job->priority < BIDE_DEFAULT_PRIORITY) {
        topic->urgent--;
        core->urgent--;
    }
}

/* Jobs that each change merges out of kick sets that no kick needs any more. */
#define MERGE_BUDGET 8

static void enter_delayed(struct core *core, struct topic *topic, struct job *job)
{
    struct due_entry entry = {job->due, job->id, job->self};
    due_heap_push(bi_topic_heap_for(topic, job), core->slots, entry);
    bi_topic_merge(core, topic, MERGE_BUDGET);
    bi_topic_arm(core, topic);
}

static void leave_delayed(struct core *core, struct topic *topic, struct job *job)
{
    due_heap_remove(bi_topic_heap_of(core, topic, job), core->slots, core->slots[job->self]);
    bi_topic_merge(core, topic, MERGE_BUDGET);
    bi_topic_arm(core, topic);
}

static void enter_reserved(struct core *core, struct topic *topic, struct job *job)
{
    (void)topic;
    struct more *more = more_of(core, job);
    more->timer.kind = TIMER_LEASE;
    if (!more->unanswered)
        bi_timers_set(&core->mono, &more->timer, job->due);
}

static void enter_done(struct core *core, struct topic *topic, struct job *job)
{
    (void)topic;
    struct more *more = more_of(core, job);
    more->timer.kind = TIMER_RETENTION;
    bi_timers_set(&core->mono, &more->timer, job->due);
}

static void leave_timed(struct core *core, struct topic *topic, struct job *job)
{
    (void)topic;
    bi_timers_clear(&core->mono, &more_of(core, job)->timer);
}

static void nothing(struct core *core, struct topic *topic, struct job *job)
{
    (void)core;
    (void)topic;
    (void)job;
}

/* Every state: what goes with it, and which states may follow. GONE stands for "no state". */
static const struct {
    void (*enter)(struct core *, struct topic *, struct job *);
    void (*leave)(struct core *, struct topic *, struct job *);
    bool next[BIDE_STATE_DONE + 1]; /* gone delayed ready reserved buried done */
} states[BIDE_STATE_DONE + 1] = {
    [BIDE_STATE_GONE] = {nothing, nothing, {0, 1, 1, 0, 1, 1}},
    [BIDE_STATE_DELAYED] = {enter_delayed, leave_delayed, {1, 1, 1, 1, 1, 1}},
    [BIDE_STATE_READY] = {enter_ready, leave_ready, {1, 1, 1, 1, 1, 1}},
    [BIDE_STATE_RESERVED] = {enter_reserved, leave_timed, {1, 1, 1, 0, 1, 1}},
    [BIDE_STATE_BURIED] = {nothing, nothing, {1, 0, 1, 1, 1, 1}},
    [BIDE_STATE_DONE] = {enter_done, leave_timed, {1, 0, 0, 0, 0, 1}},
};

bool bi_job_may(bide_state from, bide_state to)
{
    return states[from].next[to];
}

/* ---- the state ---- */

static void set_expiry(struct core *core, const struct job *job, struct more *more)
{
    bool live = job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_READY;
    if (live && more->expires_at != 0 && more->counters.reserves == 0)
        bi_timers_set(&core->wall, &more->expiry, more->expires_at);
}

/* How a job comes into the list of its state. */
enum entrance { AT_END, IN_PLACE, LOADED };

static void enter(struct core *core, struct job *job, bide_state state, enum entrance how)
{
    struct topic *topic = topic_of(core, job);
    assert(how != AT_END || bi_job_may(job->state, state));
    if (job->state == BIDE_STATE_GONE) {
        bi_table_insert(&core->by_id, &ids, &core->jobs, job->self);
        bi_table_foresee(&core->by_id, bi_core_id_hash(core, job->id + 1)); /* the next put's */
    }
    if (state == BIDE_STATE_RESERVED)
        bi_table_foresee(&core->by_id, bi_core_id_hash(core, job->id)); /* its worker's next call */
    job->state = (uint8_t)state;
    struct more *more = more_of(core, job);
    struct job_list *list = &topic->lists[state];
    if (how == LOADED)
        list_load(core, list, job);
    else if (how == IN_PLACE)
        tree_insert(core, list, job);
    else
        list_append(core, list, job);
    core->counts[state]++;
    states[state].enter(core, topic, job);
    if (more != NULL) {
        settle_key(core, job, more);
        set_expiry(core, job, more);
    }
}

void bi_job_enter(struct core *core, struct job *job, bide_state state)
{
    job->since = bi_core_stamp(core);
    if (state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE) {
        bi_journal_token(core, core->next_order);
        more_of(core, job)->order = core->next_order++;
    }
    enter(core, job, state, AT_END);
}

void bi_job_enter_again(struct core *core, struct job *job, bide_state state)
{
    enter(core, job, state, IN_PLACE);
}

void bi_job_enter_loaded(struct core *core, struct job *job, bide_state state)
{
    enter(core, job, state, LOADED);
}

void bi_job_to_front(struct core *core, struct job *job)
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
    const struct more *more = more_of(core, job);
    return more != NULL ? more->ready : job->created;
}

/* If it leaves by a reservation, that has been noted already. */
static void forget_ready(struct core *core, struct job *job)
{
    if ((job->flags & JOB_READY_BEFORE) == 0)
        return;
    if (job->more != 0)
        more_of(core, job)->ready = BI_NEVER;
    job->flags &= (uint8_t)~JOB_READY_BEFORE;
}

void bi_job_leave(struct core *core, struct job *job)
{
    forget_ready(core, job);
    struct topic *topic = topic_of(core, job);
    list_remove(core, &topic->lists[job->state], job);
    core->counts[job->state]--;
    states[job->state].leave(core, topic, job);
    struct more *more = more_of(core, job);
    if (more != NULL)
        bi_timers_clear(&core->wall, &more->expiry);
}

void bi_job_vanish(struct core *core, struct job *job)
{
    bi_job_leave(core, job);
    drop_key(core, job);
    bi_table_remove(&core->by_id, &ids, &core->jobs, job->self);
    job->state = BIDE_STATE_GONE;
}

void bi_job_unseat(struct core *core, struct job *job)
{
    states[job->state].leave(core, topic_of(core, job), job);
}

void bi_job_seat(struct core *core, struct job *job)
{
    states[job->state].enter(core, topic_of(core, job), job);
}
