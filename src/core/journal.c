/* SPDX-License-Identifier: MIT */
#include "core/journal.h"

#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

/* How far ahead the limit is stored. Every start uses a new block: 2^53 tokens have room for
 * 2^29 of them. */
#define TOKEN_BLOCK (UINT64_C(1) << 24)

static uint64_t undo_hash(const void *ctx, uint32_t ref)
{
    const struct core *core =
        (const struct core *)(const void *)((const char *)ctx -
                                            offsetof(struct core, journal.undos));
    return bi_core_id_hash(core, ((const struct undo *)bi_pool_at(ctx, ref))->id);
}

static uint32_t *undo_link(const void *ctx, uint32_t ref)
{
    return &((struct undo *)bi_pool_at(ctx, ref))->link;
}

static const struct hash_table_ops undos = {
    undo_hash, undo_link, offsetof(struct undo, link) - offsetof(struct undo, id)};

static struct undo *newest_undo(const struct core *core, uint64_t id)
{
    uint32_t ref = bi_hash_table_first(&core->journal.by_id, bi_core_id_hash(core, id));
    while (ref != 0) {
        struct undo *undo = undo_at(core, ref);
        if (undo->id == id)
            return undo;
        ref = undo->link;
    }
    return NULL;
}

bool bi_journal_init(struct core *core, bool on)
{
    struct journal *journal = &core->journal;

    memset(journal, 0, sizeof(*journal));
    journal->on = on;
    journal->open_batch = 1;
    journal->next_seal = 1;

    bi_pool_init(&journal->undos, core->alloc, sizeof(struct undo), 6);
    if (!bi_hash_table_init(&journal->by_id, core->alloc))
        return false;

    /* The first batch stores the limit even if no job changes: until then every token is above
     * token_stored, and replies with one wait. */
    if (on) {
        journal->token_stored = core->next_token;
        journal->token_limit = core->next_token + TOKEN_BLOCK;
        journal->limit_batch = 1;
        journal->limit_changed = true;
    }
    return true;
}

static void raise_hold(struct core *core, uint64_t batch)
{
    if (batch > core->hold)
        core->hold = batch;
}

static void depend_on_batch(struct core *core, uint64_t batch)
{
    const struct journal *journal = &core->journal;
    /* Batches up to undone were rolled back: waiting for one would never end. */
    if (journal->on && batch > journal->committed && batch > journal->undone)
        raise_hold(core, batch);
}

/* ---- entries ---- */

static void list_append(struct core *core, struct undo_list *list, struct undo *undo)
{
    undo->next = 0;
    if (list->tail != 0)
        undo_at(core, list->tail)->next = undo->self;
    else
        list->head = undo->self;
    list->tail = undo->self;
    list->count++;
}

/* True if these changes would make the open batch too large. */
static bool must_rotate(const struct core *core, uint32_t changes, uint64_t bytes)
{
    const struct journal *journal = &core->journal;
    const struct bi_limits *limits = &core->limits;
    if (journal->group_depth > 0 || journal->open_count == 0)
        return false;
    bool many = limits->batch_jobs != 0 && journal->open_count + changes > limits->batch_jobs;
    bool large = limits->batch_bytes != 0 && journal->open_bytes + bytes > limits->batch_bytes;

    /* At the maximum number of batches the open one grows beyond its limits: a change never
     * fails because commits are slow. */
    return (many || large) && journal->open_batch - journal->committed < BI_BATCHES_MAX;
}

void bi_journal_open_next_batch(struct journal *journal)
{
    journal->open_batch++;
    journal->open_count = 0;
    journal->open_bytes = 0;
}

void bi_journal_begin_group(struct core *core, uint32_t changes, uint64_t bytes)
{
    if (must_rotate(core, changes, bytes))
        bi_journal_open_next_batch(&core->journal);
    core->journal.group_depth++;
}

void bi_journal_end_group(struct core *core)
{
    assert(core->journal.group_depth > 0);
    core->journal.group_depth--;
}

static struct undo *entry_new(struct core *core, struct topic *topic, uint64_t bytes)
{
    assert(core->journal.on && !core->journal.rollback.running);
    if (must_rotate(core, 1, bytes))
        bi_journal_open_next_batch(&core->journal);

    /* Heap room for one more member, now: a rollback puts the job back and must not allocate. */
    if (!bi_topic_reserve(core, topic, 1))
        return NULL;

    uint32_t ref = bi_pool_alloc(&core->journal.undos);
    if (ref == 0)
        return NULL;

    core->journal.open_count++;
    core->journal.open_bytes += bytes;

    struct undo *undo = undo_at(core, ref);
    memset(undo, 0, sizeof(*undo));
    undo->self = ref;
    undo->batch = core->journal.open_batch;
    undo->topic = topic->self;
    topic->members++;

    list_append(core, &core->journal.changes, undo);
    raise_hold(core, undo->batch);
    return undo;
}

bool bi_journal_reserve(struct core *core, uint32_t changes)
{
    return !core->journal.on || bi_pool_reserve(&core->journal.undos, changes);
}

static void save_job(struct core *core, struct undo *undo, const struct job *job)
{
    assert(!undo->existed && !undo->had_ext);
    const struct job_ext *ext = ext_of(core, job);

    undo->existed = true;
    undo->saved = *job;
    undo->had_ext = ext != NULL;
    if (ext == NULL)
        return;

    /* The body needs no reference: a rollback leaves the job's own body in place. */
    undo->ext = *ext;
    bi_job_ext_ref_texts(ext);
}

void bi_journal_free_entry(struct core *core, struct undo *undo)
{
    struct topic *topic = topic_at(core, undo->topic);
    if (undo->had_ext)
        bi_job_ext_unref_texts(&undo->ext);
    bide_buf_unref(undo->policy);
    bi_pool_free(&core->journal.undos, undo->self);
    if (topic != NULL) {
        assert(topic->members > 0);
        topic->members--;
        bi_topic_cleanup(core, topic);
    }
}

/* Inline, because each commit calls it for every change. */
static inline void unlist_entry(struct core *core, const struct undo *undo)
{
    assert(undo->newer == 0);
    bi_hash_table_remove(&core->journal.by_id, &undos, &core->journal.undos, undo->self);
}

void bi_journal_unlist_entry(struct core *core, const struct undo *undo)
{
    unlist_entry(core, undo);
}

static void set_newest(struct core *core, struct undo *undo, struct undo *older)
{
    /* The table has only the newest entry of a job; older ones are reached through it. */
    if (older != NULL) {
        assert(older->id == undo->id && older->batch < undo->batch && older->newer == 0);
        unlist_entry(core, older);
        undo->older = older->self;
        older->newer = undo->self;
    }
    bi_hash_table_insert(&core->journal.by_id, &undos, &core->journal.undos, undo->self);
}

int bi_journal_change(struct core *core, struct job *job)
{
    if (!core->journal.on)
        return BIDE_OK;

    /* One entry a batch: a second change in the same batch would save a state that is never
     * stored. */
    struct undo *older = (job->flags & JOB_DIRTY) != 0 ? newest_undo(core, job->id) : NULL;
    if (older != NULL && older->batch == core->journal.open_batch) {
        raise_hold(core, older->batch);
        return BIDE_OK;
    }

    struct undo *undo = entry_new(core, topic_of(core, job), 0);
    if (undo == NULL)
        return BIDE_ENOMEM;

    undo->id = job->id;
    undo->job = job->self;
    undo->in_store = true;
    save_job(core, undo, job);
    set_newest(core, undo, older);

    topic_of(core, job)->changed = undo->batch;
    job->flags |= JOB_DIRTY;
    return BIDE_OK;
}

int bi_journal_insert(struct core *core, struct job *job)
{
    if (!core->journal.on)
        return BIDE_OK;

    struct undo *undo = entry_new(core, topic_of(core, job), job->body_size);
    if (undo == NULL)
        return BIDE_ENOMEM;

    undo->id = job->id;
    undo->job = job->self;
    /* No copy: existed stays false, and a rollback removes the job. */
    set_newest(core, undo, NULL);
    job->flags |= JOB_DIRTY;
    return BIDE_OK;
}

void bi_journal_undo_insert(struct core *core, struct job *job, uint32_t before)
{
    struct journal *journal = &core->journal;
    if (!journal->on)
        return;

    struct undo *undo = newest_undo(core, job->id);
    struct undo *last = undo_at(core, before);
    assert(undo != NULL && journal->changes.tail == undo->self);
    assert((last == NULL ? journal->changes.head : last->next) == undo->self);

    if (last != NULL)
        last->next = 0;
    else
        journal->changes.head = 0;
    journal->changes.tail = before;
    journal->changes.count--;

    assert(journal->open_count > 0 && journal->open_bytes >= job->body_size);
    journal->open_count--;
    journal->open_bytes -= job->body_size;

    unlist_entry(core, undo);
    bi_journal_free_entry(core, undo);
}

void bi_journal_remove(struct core *core, struct job *job)
{
    /* With a journal commit_entry() frees it: until then a rollback may restore it. */
    if (!core->journal.on)
        bi_job_free(core, job);
}

int bi_journal_change_topic(struct core *core, struct topic *topic)
{
    if (!core->journal.on)
        return BIDE_OK;

    struct undo *older = undo_at(core, topic->undo);
    assert(older == NULL || (older->id == 0 && older->topic == topic->self));
    if (older != NULL && older->batch == core->journal.open_batch) {
        raise_hold(core, older->batch);
        return BIDE_OK;
    }

    struct undo *undo = entry_new(core, topic, 0);
    if (undo == NULL)
        return BIDE_ENOMEM;

    undo->existed = true;
    undo->paused_until = topic->paused_until;
    undo->pause = topic->pause;
    if (topic->policy != NULL)
        undo->policy = bide_buf_ref(topic->policy->settings);

    undo->older = topic->undo;
    if (older != NULL)
        older->newer = undo->self;
    topic->undo = undo->self;
    return BIDE_OK;
}

bool bi_journal_find_stored(const struct core *core, uint64_t id, struct stored_job *out)
{
    const struct undo *undo = newest_undo(core, id);
    /* Without uncommitted changes the core and the store agree. */
    if (undo == NULL) {
        out->saved = bi_job_lookup(core, id);
        out->ext = out->saved == NULL ? NULL : ext_of(core, out->saved);
        out->in_flight = false;
        return out->saved != NULL;
    }

    /* The oldest copy precedes every uncommitted batch. */
    while (undo->older != 0)
        undo = undo_at(core, undo->older);

    out->saved = &undo->saved;
    out->ext = undo->had_ext ? &undo->ext : NULL;
    out->in_flight = undo->batch == core->journal.in_flight;
    return undo->existed;
}

/* True if the entry saved this reservation before its reply was sent. */
static bool saves_pending_lease(const struct undo *undo, uint64_t token)
{
    return undo->had_ext && undo->saved.state == BIDE_STATE_RESERVED && undo->ext.token == token &&
           undo->ext.reply_pending;
}

void bi_journal_start_lease(struct core *core, uint64_t id, uint64_t token)
{
    struct undo *undo = newest_undo(core, id);
    for (; undo != NULL; undo = undo_at(core, undo->older))
        if (saves_pending_lease(undo, token))
            bi_lease_set_times(core, &undo->saved, &undo->ext);
}

void bi_journal_abandon_lease(struct core *core, uint64_t id, uint64_t token)
{
    struct undo *undo = newest_undo(core, id);
    for (; undo != NULL; undo = undo_at(core, undo->older))
        if (saves_pending_lease(undo, token))
            undo->ext.abandoned = true;
}

void bi_journal_depend_on(struct core *core, uint64_t id)
{
    if (!core->journal.on)
        return;
    const struct undo *undo = newest_undo(core, id);
    if (undo != NULL)
        raise_hold(core, undo->batch);
}

uint64_t bi_journal_next_batch(const struct core *core, const struct job *job)
{
    const struct journal *journal = &core->journal;
    if (!journal->on)
        return 0;
    if (job != NULL && (job->flags & JOB_DIRTY) != 0) {
        const struct undo *newest = newest_undo(core, job->id);
        if (newest != NULL && newest->batch == journal->open_batch)
            return journal->open_batch;
    }
    return journal->open_batch + must_rotate(core, 1, 0);
}

void bi_journal_depend_on_topic(struct core *core, const struct topic *topic)
{
    depend_on_batch(core, topic->changed);
}

void bi_journal_depend_on_policy(struct core *core, const struct topic *topic)
{
    depend_on_batch(core, topic->policy_batch);
}

void bi_journal_depend_on_limits(struct core *core, const struct topic *topic)
{
    const bide_topic_policy *settings = bi_policy_settings(topic->policy);
    bi_journal_depend_on_policy(core, topic);
    if (settings != NULL && settings->concurrency != 0)
        bi_journal_depend_on_topic(core, topic);
}

uint64_t bi_journal_batch_of(const struct core *core, const struct job *job)
{
    if (!core->journal.on)
        return 0;
    const struct undo *undo = newest_undo(core, job->id);
    return undo == NULL ? 0 : undo->batch;
}

void bi_journal_force_batch(struct core *core)
{
    core->journal.limit_changed = core->journal.on;
}

void bi_journal_reserve_token(struct core *core, uint64_t token)
{
    struct journal *journal = &core->journal;
    if (!journal->on)
        return;

    /* Raise the limit half a block early: its commit is normally over before the tokens reach
     * it, and no reserve has to wait. */
    if (token + TOKEN_BLOCK / 2 >= journal->token_limit) {
        journal->token_limit += TOKEN_BLOCK;
        journal->limit_batch = journal->open_batch;
        journal->limit_changed = true;
    }

    /* A reply must not carry a token that a restart could grant again. */
    if (token >= journal->token_stored)
        raise_hold(core, journal->limit_batch);
}

size_t bi_journal_backlog(const struct core *core)
{
    return core->journal.changes.count;
}

bool bi_journal_is_dirty(const struct core *core)
{
    return core->journal.changes.count > 0 || core->journal.limit_changed;
}

uint64_t bi_journal_open_batch(const struct core *core)
{
    return core->journal.open_batch;
}

uint64_t bi_journal_committed_batch(const struct core *core)
{
    return core->journal.committed;
}

/* ---- a batch was committed ---- */

static void commit_entry(struct core *core, struct undo *undo)
{
    /* Batches commit in order, so no older change is left. */
    assert(undo->older == 0 && undo->batch == core->journal.in_flight);

    /* The next newer entry becomes the oldest: its copy is what the store has now. */
    if (undo->newer != 0) {
        undo_at(core, undo->newer)->older = 0;
        return;
    }

    if (undo->id == 0) {
        assert(topic_at(core, undo->topic)->undo == undo->self);
        topic_at(core, undo->topic)->undo = 0;
        return;
    }

    struct job *job = job_at(core, undo->job);
    unlist_entry(core, undo);
    job->flags &= (uint8_t)~JOB_DIRTY;

    /* A body that the store has may be evicted from now on. */
    if (job->state == BIDE_STATE_GONE)
        bi_job_free(core, job);
    else
        bi_body_cache_add(core, job);
}

void bi_journal_committed(struct core *core, const struct bi_batch *batch)
{
    struct journal *journal = &core->journal;
    assert(batch->number == journal->in_flight && batch->number > journal->committed);

    uint32_t ref = journal->sealed.head;
    while (ref != 0) {
        struct undo *undo = undo_at(core, ref);
        ref = undo->next;

        commit_entry(core, undo);
        bi_journal_free_entry(core, undo);
    }

    memset(&journal->sealed, 0, sizeof(journal->sealed));
    journal->committed = batch->number;
    journal->in_flight = 0;
    assert(journal->committed < journal->open_batch);
    journal->token_stored = batch->next_token;

    /* Events of this batch may be delivered now. */
    bi_event_deliver(core);
}

/* Releases what only the journal references: copies, and jobs whose removal was not committed. */
static void unref_entries(struct core *core, const struct undo_list *list)
{
    for (const struct undo *undo = undo_at(core, list->head); undo != NULL;
         undo = undo_at(core, undo->next)) {
        if (undo->had_ext)
            bi_job_ext_unref_texts(&undo->ext);
        bide_buf_unref(undo->policy);
        const struct job *job = job_at(core, undo->job);
        if (job != NULL && undo->newer == 0 && job->state == BIDE_STATE_GONE)
            bi_job_unref_bufs(core, job);
    }
}

void bi_journal_done(struct core *core)
{
    assert(!core->journal.rollback.running);
    unref_entries(core, &core->journal.changes);
    unref_entries(core, &core->journal.sealed);
    bi_pool_done(&core->journal.undos);
    bi_hash_table_done(&core->journal.by_id);
}
