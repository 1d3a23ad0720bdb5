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

static struct undo *undo_at(const struct core *core, uint32_t ref)
{
    return ref == 0 ? NULL : bi_pool_at(&core->journal.undos, ref);
}

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

static void open_next_batch(struct journal *journal)
{
    journal->open_batch++;
    journal->open_count = 0;
    journal->open_bytes = 0;
}

void bi_journal_begin_group(struct core *core, uint32_t changes, uint64_t bytes)
{
    if (must_rotate(core, changes, bytes))
        open_next_batch(&core->journal);
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
        open_next_batch(&core->journal);

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

/* Releases the references and the membership of an entry, and the entry. */
static void entry_free(struct core *core, struct undo *undo)
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

static void set_newest(struct core *core, struct undo *undo, struct undo *older)
{
    /* The table has only the newest entry of a job; older ones are reached through it. */
    if (older != NULL) {
        assert(older->id == undo->id && older->batch < undo->batch && older->newer == 0);
        undo->older = older->self;
        older->newer = undo->self;
        bi_hash_table_remove(&core->journal.by_id, &undos, &core->journal.undos, older->self);
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

    bi_hash_table_remove(&journal->by_id, &undos, &journal->undos, undo->self);
    entry_free(core, undo);
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
    const struct journal *journal = &core->journal;
    /* Batches up to undone were rolled back: waiting for one would never end. */
    if (journal->on && topic->changed > journal->committed && topic->changed > journal->undone)
        raise_hold(core, topic->changed);
}

void bi_journal_depend_on_policy(struct core *core, const struct topic *topic)
{
    const struct journal *journal = &core->journal;
    uint64_t batch = topic->policy_batch;
    if (journal->on && batch > journal->committed && batch > journal->undone)
        raise_hold(core, batch);
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

/* ---- sealing a batch ---- */

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

/* A time as it is stored. 0 means never, so a time before the epoch (the wall clock was set
 * back) becomes 1. */
static int64_t image_time(const struct core *core, int64_t mono)
{
    int64_t wall = mono == BI_NEVER ? 0 : wall_of(core, mono);
    return wall < 1 && mono != BI_NEVER ? 1 : wall;
}

#define COPY_FIELD(kind, name)           image->name = ext->name;
#define COPY_COUNTER(kind, name)         image->name = ext->counters.name;
#define COPY_TIME(kind, name)            image->name = image_time(core, EXT_TIME_##name(core, ext));
#define REF_BUF(kind, name, least, most) image->name = bide_buf_ref(ext->name);

static void image_ext(const struct core *core, const struct job_ext *ext, struct bi_image *image)
{
    BI_JOB_EXT(COPY_FIELD)
    BI_JOB_COUNTERS(COPY_COUNTER)
    BI_JOB_TIMES(COPY_TIME)
    image->bury_order = ext->order;
    BI_JOB_IMAGE_BUFS(REF_BUF)
}

#define SET_NONE(kind, name) image->name = BI_JOB_NONE_##kind;

/* Encodes a job for the store. A reserved job is stored as ready, since a crash ends its lease;
 * started then makes the restart count a failure. */
static void image_of(const struct core *core, const struct job *job, const struct job_ext *ext,
                     struct bi_image *image)
{
    assert(job->state != BIDE_STATE_GONE);
    const struct topic *topic = topic_of(core, job);
    bool reserved = job->state == BIDE_STATE_RESERVED;

    memset(image, 0, sizeof(*image));
    image->id = job->id;
    memcpy(image->topic, topic->name, (size_t)topic->name_size + 1);

    image->state = reserved ? BIDE_STATE_READY : (bide_state)job->state;
    image->started = reserved && (job->flags & JOB_STARTED) != 0;
    image->cancel_wanted = (job->flags & JOB_CANCEL_WANTED) != 0;
    image->due_wall = (job->flags & JOB_DUE_WALL) != 0;
    image->key_hold_retained = (job->flags & JOB_KEY_RETAINED) != 0;

    image->priority = job->priority;
    image->ttr = job->ttr;

    /* Only an orderly stop stores leases: extensions are not journalled, so an earlier image
     * would soon be outdated. */
    if (reserved && ext != NULL && core->stop.begun && bi_lease_outlives_process(core, ext)) {
        image->token = bi_lease_number(core, ext);
        /* Before the reply no lease runs: the whole ttr is left. */
        int64_t left = ext->reply_pending ? job->ttr : job->due - core->now.mono;
        image->lease = left > 0 ? left : 1;
    }

    if (job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_DONE)
        image->due = image->due_wall ? job->due : image_time(core, job->due);

    image->created = image_time(core, job->created);
    /* Before the reply, since is still that of the previous state. */
    bool reply_pending = reserved && ext != NULL && ext->reply_pending;
    image->since = image_time(core, reply_pending ? core->now.mono : job->since);
    image->body_size = job->body_size;

    bool ready_before = (job->flags & JOB_READY_BEFORE) != 0;
    image->plain = ext == NULL && !ready_before;
    if (ext != NULL) {
        image_ext(core, ext, image);
        return;
    }
    BI_JOB_EXT(SET_NONE)
    if (ready_before)
        image->ready = image->created;
}

static void record_topic(const struct core *core, const struct undo *undo, struct bi_record *record)
{
    const struct topic *topic = topic_at(core, undo->topic);
    record->kind = BI_TOPIC;
    memset(&record->image, 0, sizeof(record->image));
    memcpy(record->image.topic, topic->name, (size_t)topic->name_size + 1);
    const struct undo *newer = undo_at(core, undo->newer);
    int64_t until = newer != NULL ? newer->paused_until : topic->paused_until;
    record->image.due = until != 0 && until != BI_NEVER ? image_time(core, until) : until;
    if (newer != NULL)
        record->image.body = bide_buf_ref(newer->policy);
    else if (topic->policy != NULL)
        record->image.body = bide_buf_ref(topic->policy->settings);
}

/* False if there is nothing to store: the batch both inserted and removed the job. */
static bool record_of(const struct core *core, const struct undo *undo, struct bi_record *record)
{
    if (undo->id == 0) {
        record_topic(core, undo, record);
        return true;
    }

    /* If a later batch changed the job again, its entry has the state that this batch stores. */
    const struct undo *newer = undo_at(core, undo->newer);
    const struct job *job = newer != NULL ? &newer->saved : job_at(core, undo->job);

    bool live = job->state != BIDE_STATE_GONE;
    if (!live && !undo->in_store)
        return false;

    if (!live) {
        memset(&record->image, 0, sizeof(record->image));
        record->kind = BI_REMOVE;
        record->image.id = undo->id;
        record->image.body_size = job->body_size;
        return true;
    }

    record->kind = undo->in_store ? BI_UPDATE : BI_INSERT;
    const struct job_ext *ext = newer == NULL    ? ext_of(core, job)
                                : newer->had_ext ? &newer->ext
                                                 : NULL;
    image_of(core, job, ext, &record->image);

    /* Only an insert stores the body; the store keeps it through updates. */
    if (record->kind == BI_INSERT)
        record->image.body = bide_buf_ref(job->body);
    return true;
}

/* Finds the entries of the oldest batch in the list of changes. They are the first ones. */
static struct undo_list find_batch(const struct core *core, uint64_t number)
{
    struct undo_list found = {.head = core->journal.changes.head};
    const struct undo *undo = undo_at(core, found.head);
    for (; undo != NULL && undo->batch == number; undo = undo_at(core, undo->next)) {
        found.tail = undo->self;
        found.count++;
    }
    return found.count == 0 ? (struct undo_list){0} : found;
}

/* Moves these entries to journal.sealed. */
static void detach_batch(struct core *core, struct undo_list batch)
{
    struct undo_list *changes = &core->journal.changes;
    assert(core->journal.sealed.head == 0 && changes->count >= batch.count);

    core->journal.sealed = batch;
    if (batch.count == 0)
        return;

    struct undo *last = undo_at(core, batch.tail);
    changes->head = last->next;
    changes->count -= batch.count;
    if (last->next == 0)
        changes->tail = 0;
    last->next = 0;
}

int bi_journal_seal(struct core *core, struct bi_now now, struct bi_batch *batch)
{
    struct journal *journal = &core->journal;
    assert(journal->on && journal->in_flight == 0 && !journal->rollback.running);

    core->now = now;
    memset(batch, 0, sizeof(*batch));
    batch->number = journal->next_seal;

    /* Allocate before the entries move: on failure the batch stays unsealed. */
    struct undo_list entries = find_batch(core, batch->number);
    if (entries.count > 0) {
        batch->records = bi_alloc_malloc(&core->alloc, entries.count * sizeof(*batch->records));
        if (batch->records == NULL)
            return BIDE_ENOMEM;
    }

    detach_batch(core, entries);
    for (uint32_t ref = journal->sealed.head; ref != 0; ref = undo_at(core, ref)->next)
        if (record_of(core, undo_at(core, ref), &batch->records[batch->count]))
            batch->count++;
    assert(batch->count <=
           entries.count); /* what is inserted and removed in one batch has no record */

    batch->next_id = core->next_id;
    batch->next_token = journal->token_limit;
    batch->lease_from = core->stop.begun ? core->lease_from : 0;

    journal->limit_changed = false;
    journal->in_flight = journal->next_seal++;
    /* Changes from now on are not in this batch. */
    if (journal->in_flight == journal->open_batch)
        open_next_batch(journal);
    return BIDE_OK;
}

void bi_journal_batch_done(struct core *core, struct bi_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        bi_image_unref(&batch->records[i].image);
    bi_alloc_free(&core->alloc, batch->records);
    memset(batch, 0, sizeof(*batch));
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
        topic_at(core, undo->topic)->undo = 0;
        return;
    }

    struct job *job = job_at(core, undo->job);
    bi_hash_table_remove(&core->journal.by_id, &undos, &core->journal.undos, undo->self);
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
        entry_free(core, undo);
    }

    memset(&journal->sealed, 0, sizeof(journal->sealed));
    journal->committed = batch->number;
    journal->in_flight = 0;
    journal->token_stored = batch->next_token;

    /* Events of this batch may be delivered now. */
    bi_event_deliver(core);
}

/* ---- a batch failed: rollback ---- */

static void restore_ext(struct core *core, struct job *job, struct undo *undo)
{
    struct job_ext *ext = ext_of(core, job);
    if (ext == NULL)
        return;

    struct job_ext now = *ext;
    core->memory -= bi_job_ext_text_size(ext);
    bi_job_ext_unref_texts(ext);

    /* The copy's references move to the job. A job that had no ext then keeps this one, emptied:
     * an empty ext means the same as none. */
    if (undo->had_ext) {
        *ext = undo->ext;
        undo->had_ext = false;
    } else {
        bi_job_ext_reset(ext, &undo->saved);
    }

    /* These belong to the present: the links, the timers (cleared by the unlink), and the calls
     * that still wait. */
    ext->self = now.self;
    ext->job = now.job;
    ext->timer = now.timer;
    ext->expiry = now.expiry;
    ext->watch = now.watch;

    core->memory += bi_job_ext_text_size(ext);
}

static void restore_job(struct core *core, struct undo *undo)
{
    /* Only the oldest copy is the committed state. */
    if (undo->older != 0)
        return;

    struct job *job = job_at(core, undo->job);
    assert(job->state == BIDE_STATE_GONE); /* by the first pass */
    job->undone = undo->existed ? undo->saved.state : BIDE_STATE_GONE;

    if (!undo->existed)
        return;

    restore_ext(core, job, undo);

    /* The job and the entry swap their memberships: no member count changes, so neither topic is
     * destroyed. */
    uint32_t topic = job->topic;
    job->topic = undo->saved.topic;
    undo->topic = topic;

    job->priority = undo->saved.priority;
    job->ttr = undo->saved.ttr;
    job->due = undo->saved.due;
    job->delay = undo->saved.delay;
    job->since = undo->saved.since;
    /* Key and journal flags follow the tables, which the job is out of; whether the body is
     * cached is no part of the undone state. */
    job->flags = (uint8_t)((undo->saved.flags & ~(JOB_KEYED | JOB_DIRTY | JOB_CACHED)) |
                           (job->flags & JOB_CACHED));
}

static void reenter_job(struct core *core, struct undo *undo)
{
    /* Once a job: the entry in the table is the newest. */
    if (undo->newer != 0)
        return;

    struct job *job = job_at(core, undo->job);
    bide_state state = (bide_state)job->undone;
    job->undone = 0;
    /* Before notify: a completed wait must not depend on a batch that is rolled back. */
    bi_hash_table_remove(&core->journal.by_id, &undos, &core->journal.undos, undo->self);

    if (state == BIDE_STATE_GONE) {
        bi_waiters_notify(core, job, BIDE_STATE_GONE, false);
        bi_job_free(core, job);
        return;
    }

    bi_job_enter_restored(core, job, state);
    /* The reserve was abandoned before the changes that are undone now: undo it at the next
     * tick. */
    if (state == BIDE_STATE_RESERVED && ext_of(core, job)->abandoned)
        bi_timers_set(&core->mono, &ext_of(core, job)->timer, core->now.mono);
    /* The cache skips ids of unlinked jobs, so it may have lost this one: queue it again. */
    if ((job->flags & JOB_CACHED) != 0)
        bi_body_cache_readd(core, job);
    else
        bi_body_cache_add(core, job);

    if (state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE)
        bi_waiters_notify(core, job, state, false);
}

static void restore_topic(struct core *core, struct undo *undo)
{
    if (undo->older != 0)
        return;
    struct topic *topic = topic_at(core, undo->topic);
    bi_topic_set_pause(core, topic, undo->paused_until);
    topic->pause = undo->pause; /* set_pause() stored the time left */
    /* A change of the pause alone leaves the bucket of the rate as it is. */
    if (topic->policy != NULL && topic->policy->settings != undo->policy) {
        bi_policy_replace(core, topic, undo->policy);
        undo->policy = NULL;
    }
    topic->undo = 0;
}

static void unlink_job(struct core *core, struct undo *undo)
{
    struct job *job = job_at(core, undo->job);
    if (job->state != BIDE_STATE_GONE)
        bi_job_unlink(core, job);
}

/*
 * The passes of a rollback. Each visits all entries before the next one begins, and the order is
 * what makes a rollback correct:
 * 1. Unlink every changed job. A job may return to a key that another changed job holds now.
 * 2. Restore the fields, from the oldest entry of each job.
 * 3. Enter the restored states: all keys are free now. Jobs that did not exist are freed.
 * 4. Restore the pauses and policies.
 * 5. Free the entries. Their memberships kept the topics and heap room until here.
 */
static const struct pass {
    bool jobs, topics;
    void (*visit)(struct core *core, struct undo *undo);
} passes[] = {
    {true, false, unlink_job},    {true, false, restore_job}, {true, false, reenter_job},
    {false, true, restore_topic}, {true, true, entry_free},
};
#define PASSES (sizeof(passes) / sizeof(passes[0]))

/* Joins all entries to one list, those of the batch in flight first. */
static void begin_rollback(struct core *core)
{
    struct journal *journal = &core->journal;
    assert(journal->group_depth == 0 && !journal->rollback.running);
    uint32_t head = journal->changes.head;

    if (journal->sealed.head != 0) {
        undo_at(core, journal->sealed.tail)->next = head;
        head = journal->sealed.head;
    }

    memset(&journal->changes, 0, sizeof(journal->changes));
    memset(&journal->sealed, 0, sizeof(journal->sealed));
    journal->rollback = (struct rollback){
        .running = true, .head = head, .next = head, .feed = LIST_FIRST(&core->subscriptions.all)};

    /* Leases of a stop that fails are left as after a crash. */
    core->stop.failed = core->stop.begun;
    bi_waiters_begin_rollback(&core->waiters);
}

/* Returns the rest of the budget. With 0, the next slice continues at rollback->next. */
static unsigned visit_entries(struct core *core, unsigned budget)
{
    struct rollback *rollback = &core->journal.rollback;

    for (; rollback->pass < PASSES; rollback->pass++, rollback->next = rollback->head) {
        const struct pass *pass = &passes[rollback->pass];
        for (; rollback->next != 0 && budget > 0; budget--) {
            /* Read next first: the last pass frees the entry. */
            struct undo *undo = undo_at(core, rollback->next);
            rollback->next = undo->next;
            if (undo->id != 0 ? pass->jobs : pass->topics)
                pass->visit(core, undo);
        }
        if (rollback->next != 0)
            break;
    }
    return budget;
}

static void end_rollback(struct core *core)
{
    struct journal *journal = &core->journal;
    assert(journal->rollback.pass == PASSES && journal->rollback.feed == NULL);
    assert(journal->group_depth == 0);

    /* The batch that was to store the token limit failed: the next batch stores it. */
    if (journal->in_flight != 0 || journal->limit_batch >= journal->open_batch) {
        journal->limit_changed = true;
        journal->limit_batch = journal->open_batch + 1;
    }

    journal->in_flight = 0;
    /* Numbers are never reused: a hold of a failed batch must not match a later one. */
    journal->undone = journal->open_batch;
    open_next_batch(journal);
    journal->next_seal = journal->open_batch;
    memset(&journal->rollback, 0, sizeof(journal->rollback));

    bi_waiters_serve(core);
    bi_event_deliver(core);
}

bool bi_journal_rollback(struct core *core, struct bi_now now, unsigned budget)
{
    struct rollback *rollback = &core->journal.rollback;
    assert(core->journal.on && budget > 0);

    core->now = now;
    core->hold = 0;
    if (!rollback->running)
        begin_rollback(core);

    /* Waiters first: the entries complete some of them, and their holds must not name a batch
     * that is rolled back. */
    budget = bi_waiters_rollback(core, budget);
    if (budget > 0)
        budget = visit_entries(core, budget);
    if (budget > 0)
        budget = bi_event_rollback(core, budget);

    /* With the budget used up, work may or may not be left: the next slice finds out. */
    if (budget == 0)
        return true;

    end_rollback(core);
    return false;
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
