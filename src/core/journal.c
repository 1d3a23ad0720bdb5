/* SPDX-License-Identifier: MIT */
#include "core/journal.h"

#include "core/state.h"

#include <assert.h>
#include <string.h>

/* How far ahead the limit is stored. Every start takes a new block: there are 2^29 of them. */
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

static const struct table_items undos = {undo_hash, undo_link,
                                         offsetof(struct undo, link) - offsetof(struct undo, id)};

static struct undo *undo_at(const struct core *core, uint32_t ref)
{
    return ref == 0 ? NULL : bi_pool_at(&core->journal.undos, ref);
}

static struct undo *newest_of(const struct core *core, uint64_t id)
{
    uint32_t ref = bi_table_first(&core->journal.by_id, bi_core_id_hash(core, id));
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
    journal->gathering = 1;
    journal->next_seal = 1;
    bi_pool_init(&journal->undos, core->alloc, sizeof(struct undo), 6);
    if (!bi_table_init(&journal->by_id, core->alloc))
        return false;
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

/* Would this batch become too large? */
static bool must_turn(const struct core *core, uint32_t changes, uint64_t bytes)
{
    const struct journal *journal = &core->journal;
    const struct bi_limits *limits = &core->limits;
    if (journal->joined > 0 || journal->gathered == 0)
        return false;
    bool many = limits->batch_jobs != 0 && journal->gathered + changes > limits->batch_jobs;
    bool large = limits->batch_bytes != 0 && journal->gathered_bytes + bytes > limits->batch_bytes;
    return (many || large) && journal->gathering - journal->committed < BI_BATCHES_MAX;
}

/* Goes on to the next batch if this one would become too large. */
static void turn(struct core *core, uint32_t changes, uint64_t bytes)
{
    struct journal *journal = &core->journal;
    if (!must_turn(core, changes, bytes))
        return;
    journal->gathering++;
    journal->gathered = 0;
    journal->gathered_bytes = 0;
}

void bi_journal_join(struct core *core, uint32_t changes, uint64_t bytes)
{
    turn(core, changes, bytes);
    core->journal.joined++;
}

void bi_journal_part(struct core *core)
{
    core->journal.joined--;
}

static struct undo *entry_new(struct core *core, struct topic *topic, uint64_t bytes)
{
    turn(core, 1, bytes);
    if (!bi_topic_reserve(core, topic))
        return NULL;
    uint32_t ref = bi_pool_take(&core->journal.undos);
    if (ref == 0)
        return NULL;
    core->journal.gathered++;
    core->journal.gathered_bytes += bytes;
    struct undo *undo = undo_at(core, ref);
    memset(undo, 0, sizeof(*undo));
    undo->self = ref;
    undo->batch = core->journal.gathering;
    undo->topic = topic->self;
    topic->members++;
    list_append(core, &core->journal.changes, undo);
    raise_hold(core, undo->batch);
    return undo;
}

static void keep_form(struct core *core, struct undo *undo, const struct job *job)
{
    const struct more *more = more_of(core, job);
    undo->existed = true;
    undo->form = *job;
    undo->had_more = more != NULL;
    if (more == NULL)
        return;
    undo->more = *more;
    bide_buf_ref(more->key);
    bide_buf_ref(more->last_error);
    bide_buf_ref(more->result);
    bide_buf_ref(more->progress);
}

/* Gives back what an entry holds, and the entry. */
static void entry_free(struct core *core, struct undo *undo)
{
    struct topic *topic = topic_at(core, undo->topic);
    if (undo->had_more)
        bi_more_drop_texts(&undo->more);
    bi_pool_give(&core->journal.undos, undo->self);
    if (topic != NULL) {
        topic->members--;
        bi_topic_cleanup(core, topic);
    }
}

static void set_newest(struct core *core, struct undo *undo, struct undo *older)
{
    if (older != NULL) {
        undo->older = older->self;
        older->newer = undo->self;
        bi_table_remove(&core->journal.by_id, &undos, &core->journal.undos, older->self);
    }
    bi_table_insert(&core->journal.by_id, &undos, &core->journal.undos, undo->self);
}

int bi_journal_change(struct core *core, struct job *job)
{
    if (!core->journal.on)
        return BIDE_OK;
    struct undo *older = (job->flags & JOB_DIRTY) != 0 ? newest_of(core, job->id) : NULL;
    if (older != NULL && older->batch == core->journal.gathering) {
        raise_hold(core, older->batch);
        return BIDE_OK;
    }
    struct undo *undo = entry_new(core, topic_of(core, job), 0);
    if (undo == NULL)
        return BIDE_ENOMEM;
    undo->id = job->id;
    undo->job = job->self;
    undo->in_store = true;
    keep_form(core, undo, job);
    set_newest(core, undo, older);
    topic_of(core, job)->changed = undo->batch;
    job->flags |= JOB_DIRTY;
    return BIDE_OK;
}

int bi_journal_new(struct core *core, struct job *job)
{
    if (!core->journal.on)
        return BIDE_OK;
    struct undo *undo = entry_new(core, topic_of(core, job), job->body_size);
    if (undo == NULL)
        return BIDE_ENOMEM;
    undo->id = job->id;
    undo->job = job->self;
    set_newest(core, undo, NULL);
    job->flags |= JOB_DIRTY;
    return BIDE_OK;
}

void bi_journal_forget(struct core *core, struct job *job)
{
    struct journal *journal = &core->journal;
    if (!journal->on)
        return;
    struct undo *undo = newest_of(core, job->id);
    assert(undo != NULL && journal->changes.tail == undo->self);
    struct undo *before = NULL;
    for (uint32_t ref = journal->changes.head; ref != undo->self; ref = before->next)
        before = undo_at(core, ref);
    if (before != NULL)
        before->next = 0;
    else
        journal->changes.head = 0;
    journal->changes.tail = before == NULL ? 0 : before->self;
    journal->changes.count--;
    journal->gathered--;
    journal->gathered_bytes -= job->body_size;
    bi_table_remove(&journal->by_id, &undos, &journal->undos, undo->self);
    entry_free(core, undo);
}

void bi_journal_removed(struct core *core, struct job *job)
{
    if (!core->journal.on)
        bi_job_free(core, job);
}

int bi_journal_pause(struct core *core, struct topic *topic)
{
    if (!core->journal.on)
        return BIDE_OK;
    struct undo *older = undo_at(core, topic->undo);
    if (older != NULL && older->batch == core->journal.gathering) {
        raise_hold(core, older->batch);
        return BIDE_OK;
    }
    struct undo *undo = entry_new(core, topic, 0);
    if (undo == NULL)
        return BIDE_ENOMEM;
    undo->existed = true;
    undo->paused_until = topic->paused_until;
    undo->older = topic->undo;
    if (older != NULL)
        older->newer = undo->self;
    topic->undo = undo->self;
    return BIDE_OK;
}

bool bi_journal_stored(const struct core *core, uint64_t id, struct stored *out)
{
    const struct undo *undo = newest_of(core, id);
    if (undo == NULL) {
        out->form = bi_core_lookup(core, id);
        out->more = out->form == NULL ? NULL : more_of(core, out->form);
        out->in_flight = false;
        return out->form != NULL;
    }
    while (undo->older != 0)
        undo = undo_at(core, undo->older);
    out->form = &undo->form;
    out->more = undo->had_more ? &undo->more : NULL;
    out->in_flight = undo->batch == core->journal.in_flight;
    return undo->existed;
}

/* Does the entry keep a reservation that had no answer? */
static bool keeps_unanswered(const struct undo *undo, uint64_t token)
{
    return undo->had_more && undo->form.state == BIDE_STATE_RESERVED && undo->more.token == token &&
           undo->more.unanswered;
}

void bi_journal_lease_began(struct core *core, uint64_t id, uint64_t token)
{
    struct undo *undo = newest_of(core, id);
    for (; undo != NULL; undo = undo_at(core, undo->older))
        if (keeps_unanswered(undo, token))
            bi_lease_begin(core, &undo->form, &undo->more);
}

void bi_journal_disown(struct core *core, uint64_t id, uint64_t token)
{
    struct undo *undo = newest_of(core, id);
    for (; undo != NULL; undo = undo_at(core, undo->older))
        if (keeps_unanswered(undo, token))
            undo->more.disowned = true;
}

void bi_journal_see(struct core *core, uint64_t id)
{
    if (!core->journal.on)
        return;
    const struct undo *undo = newest_of(core, id);
    if (undo != NULL)
        raise_hold(core, undo->batch);
}

uint64_t bi_journal_next_batch(const struct core *core, const struct job *job)
{
    const struct journal *journal = &core->journal;
    if (!journal->on)
        return 0;
    if (job != NULL && (job->flags & JOB_DIRTY) != 0) {
        const struct undo *newest = newest_of(core, job->id);
        if (newest != NULL && newest->batch == journal->gathering)
            return journal->gathering;
    }
    return journal->gathering + must_turn(core, 1, 0);
}

void bi_journal_see_none(struct core *core, const struct topic *topic)
{
    const struct journal *journal = &core->journal;
    if (journal->on && topic->changed > journal->committed && topic->changed > journal->undone)
        raise_hold(core, topic->changed);
}

uint64_t bi_journal_batch_of(const struct core *core, const struct job *job)
{
    if (!core->journal.on)
        return 0;
    const struct undo *undo = newest_of(core, job->id);
    return undo == NULL ? 0 : undo->batch;
}

void bi_journal_force(struct core *core)
{
    core->journal.limit_changed = core->journal.on;
}

void bi_journal_token(struct core *core, uint64_t token)
{
    struct journal *journal = &core->journal;
    if (!journal->on)
        return;
    if (token + TOKEN_BLOCK / 2 >= journal->token_limit) {
        journal->token_limit += TOKEN_BLOCK;
        journal->limit_batch = journal->gathering;
        journal->limit_changed = true;
    }
    if (token >= journal->token_stored)
        raise_hold(core, journal->limit_batch);
}

/* ---- sealing ---- */

size_t bi_core_backlog(const struct core *core)
{
    return core->journal.changes.count;
}

bool bi_core_dirty(const struct core *core)
{
    return core->journal.changes.count > 0 || core->journal.limit_changed;
}

uint64_t bi_core_gathering(const struct core *core)
{
    return core->journal.gathering;
}

uint64_t bi_core_committed_batch(const struct core *core)
{
    return core->journal.committed;
}

/* A moment as it is stored. If the wall clock was set to before it began, it is the first there is:
 * 0 means never. */
static int64_t image_moment(const struct core *core, int64_t mono)
{
    int64_t wall = wall_of(core, mono);
    return wall < 1 ? 1 : wall;
}

static int64_t image_time(const struct core *core, int64_t mono)
{
    return mono == BI_NEVER ? 0 : image_moment(core, mono);
}

static void image_more(const struct core *core, const struct more *more, struct bi_image *image)
{
    image->max_retries = more->max_retries;
    image->failures = more->failures;
    image->backoff_base = more->backoff_base;
    image->backoff_max = more->backoff_max;
    image->expires_at = more->expires_at;
    image->retain = more->retain;
    image->bury_order = more->order;
    image->reserves = more->counters.reserves;
    image->timeouts = more->counters.timeouts;
    image->releases = more->counters.releases;
    image->fails = more->counters.fails;
    image->buries = more->counters.buries;
    image->kicks = more->counters.kicks;
    image->touches = more->counters.touches;
    image->ready = image_time(core, more->ready);
    image->reserved = image_time(core, bi_lease_began(core, more));
    image->touched = image_time(core, bi_lease_touched(more));
    image->buried = image_time(core, more->buried);
    image->done = image_time(core, more->done);
    image->key = bide_buf_ref(more->key);
    image->last_error = bide_buf_ref(more->last_error);
    image->result = bide_buf_ref(more->result);
}

static void image_of(const struct core *core, const struct job *job, const struct more *more,
                     struct bi_image *image)
{
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
    if (reserved && more != NULL && core->interrupt.begun && bi_lease_outlives(core, more)) {
        image->token = bi_core_number(core, more);
        /* Of one whose reserve has no answer yet all is left. */
        int64_t left = more->unanswered ? job->ttr : job->due - core->now.mono;
        image->lease = left > 0 ? left : 1;
    }
    if (job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_DONE)
        image->due = image->due_wall ? job->due : image_moment(core, job->due);
    image->max_retries = BIDE_NO_RETRY_LIMIT;
    image->created = image_moment(core, job->created);
    bool unanswered = reserved && more != NULL && more->unanswered;
    image->since = image_moment(core, unanswered ? core->now.mono : job->since);
    image->body_size = job->body_size;
    bool ready_before = (job->flags & JOB_READY_BEFORE) != 0;
    image->plain = more == NULL && !ready_before;
    if (more != NULL)
        image_more(core, more, image);
    else if (ready_before)
        image->ready = image->created;
}

static void record_pause(const struct core *core, const struct undo *undo, struct bi_record *record)
{
    const struct topic *topic = topic_at(core, undo->topic);
    record->kind = BI_PAUSE;
    memset(&record->image, 0, sizeof(record->image));
    memcpy(record->image.topic, topic->name, (size_t)topic->name_size + 1);
    const struct undo *newer = undo_at(core, undo->newer);
    int64_t until = newer != NULL ? newer->paused_until : topic->paused_until;
    record->image.due = until != 0 && until != BI_NEVER ? image_moment(core, until) : until;
}

/* False if there is nothing to store: a job that was made and removed in one batch. */
static bool record_of(const struct core *core, const struct undo *undo, struct bi_record *record)
{
    if (undo->id == 0) {
        record_pause(core, undo, record);
        return true;
    }
    /* A later batch may have changed it since. */
    const struct undo *newer = undo_at(core, undo->newer);
    const struct job *job = newer != NULL ? &newer->form : job_at(core, undo->job);
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
    const struct more *more = newer == NULL     ? more_of(core, job)
                              : newer->had_more ? &newer->more
                                                : NULL;
    image_of(core, job, more, &record->image);
    if (record->kind == BI_INSERT)
        record->image.body = bide_buf_ref(job->body);
    return true;
}

/* Cuts the entries of a batch off the list of changes. */
static void cut_batch(struct core *core, uint64_t number)
{
    struct journal *journal = &core->journal;
    struct undo *last = NULL;
    struct undo_list sealed = {.head = journal->changes.head};
    for (uint32_t ref = sealed.head; ref != 0; ref = last->next) {
        struct undo *undo = undo_at(core, ref);
        if (undo->batch != number)
            break;
        last = undo;
        sealed.count++;
    }
    memset(&journal->sealed, 0, sizeof(journal->sealed));
    if (last == NULL)
        return;
    journal->changes.head = last->next;
    journal->changes.count -= sealed.count;
    if (last->next == 0)
        journal->changes.tail = 0;
    last->next = 0;
    sealed.tail = last->self;
    journal->sealed = sealed;
}

static size_t count_batch(const struct core *core, uint64_t number)
{
    size_t count = 0;
    const struct undo *undo = undo_at(core, core->journal.changes.head);
    for (; undo != NULL && undo->batch == number; undo = undo_at(core, undo->next))
        count++;
    return count;
}

int bi_core_seal(struct core *core, struct bi_now now, struct bi_batch *batch)
{
    struct journal *journal = &core->journal;
    assert(journal->on && journal->in_flight == 0 && !journal->rollback.running);
    core->now = now;
    memset(batch, 0, sizeof(*batch));
    batch->number = journal->next_seal;
    size_t count = count_batch(core, batch->number);
    if (count > 0) {
        batch->records = bi_alloc_get(&core->alloc, count * sizeof(*batch->records));
        if (batch->records == NULL)
            return BIDE_ENOMEM;
    }
    cut_batch(core, batch->number);
    for (uint32_t ref = journal->sealed.head; ref != 0; ref = undo_at(core, ref)->next)
        if (record_of(core, undo_at(core, ref), &batch->records[batch->count]))
            batch->count++;
    batch->next_id = core->next_id;
    batch->next_token = journal->token_limit;
    batch->lease_from = core->interrupt.begun ? core->lease_from : 0;
    journal->limit_changed = false;
    journal->in_flight = journal->next_seal++;
    if (journal->in_flight == journal->gathering) {
        journal->gathering++;
        journal->gathered = 0;
        journal->gathered_bytes = 0;
    }
    return BIDE_OK;
}

void bi_batch_done(struct core *core, struct bi_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct bi_image *image = &batch->records[i].image;
        bide_buf_unref(image->body);
        bide_buf_unref(image->key);
        bide_buf_unref(image->last_error);
        bide_buf_unref(image->result);
    }
    bi_alloc_put(&core->alloc, batch->records);
    memset(batch, 0, sizeof(*batch));
}

/* ---- stored ---- */

static void settle_job(struct core *core, struct undo *undo)
{
    if (undo->newer != 0) {
        undo_at(core, undo->newer)->older = 0;
        return;
    }
    struct job *job = job_at(core, undo->job);
    bi_table_remove(&core->journal.by_id, &undos, &core->journal.undos, undo->self);
    job->flags &= (uint8_t)~JOB_DIRTY;
    if (job->state == BIDE_STATE_GONE)
        bi_job_free(core, job);
    else
        bi_cache_add(core, job);
}

static void settle_pause(struct core *core, const struct undo *undo)
{
    if (undo->newer != 0)
        undo_at(core, undo->newer)->older = 0;
    else
        topic_at(core, undo->topic)->undo = 0;
}

void bi_core_committed(struct core *core, const struct bi_batch *batch)
{
    struct journal *journal = &core->journal;
    assert(batch->number == journal->in_flight);
    uint32_t ref = journal->sealed.head;
    while (ref != 0) {
        struct undo *undo = undo_at(core, ref);
        ref = undo->next;
        if (undo->id != 0)
            settle_job(core, undo);
        else
            settle_pause(core, undo);
        entry_free(core, undo);
    }
    memset(&journal->sealed, 0, sizeof(journal->sealed));
    journal->committed = batch->number;
    journal->in_flight = 0;
    journal->token_stored = batch->next_token;
    bi_feeds_serve(core);
}

/* ---- not stored ---- */

static void put_back_more(struct core *core, struct job *job, struct undo *undo)
{
    struct more *more = more_of(core, job);
    if (more == NULL)
        return;
    struct more now = *more;
    core->memory -= bi_more_text_size(more);
    bi_more_drop_texts(more);
    if (undo->had_more) {
        *more = undo->more;
        undo->had_more = false;
    } else {
        memset(more, 0, sizeof(*more));
        more->max_retries = BIDE_NO_RETRY_LIMIT;
        more->ready = more->reserved = more->touched = more->buried = more->done = BI_NEVER;
        if ((undo->form.flags & JOB_READY_BEFORE) != 0)
            more->ready = undo->form.created;
    }
    more->self = now.self;
    more->job = now.job;
    more->timer = now.timer;
    more->expiry = now.expiry;
    more->watchers = now.watchers;
    core->memory += bi_more_text_size(more);
}

static void put_back(struct core *core, struct undo *undo)
{
    if (undo->older != 0)
        return;
    struct job *job = job_at(core, undo->job);
    job->undone = undo->existed ? undo->form.state : BIDE_STATE_GONE;
    if (!undo->existed)
        return;
    put_back_more(core, job, undo);
    /* The entry's membership becomes the job's, and the job's the entry's. */
    uint32_t topic = job->topic;
    job->topic = undo->form.topic;
    undo->topic = topic;
    job->priority = undo->form.priority;
    job->ttr = undo->form.ttr;
    job->due = undo->form.due;
    job->delay = undo->form.delay;
    job->since = undo->form.since;
    job->flags = (uint8_t)((undo->form.flags & ~(JOB_KEYED | JOB_DIRTY | JOB_CACHED)) |
                           (job->flags & JOB_CACHED));
}

static void bring_back(struct core *core, struct undo *undo)
{
    if (undo->newer != 0)
        return;
    struct job *job = job_at(core, undo->job);
    bide_state state = (bide_state)job->undone;
    job->undone = 0;
    bi_table_remove(&core->journal.by_id, &undos, &core->journal.undos, undo->self);
    if (state == BIDE_STATE_GONE) {
        bi_waiters_tell(core, job, BIDE_STATE_GONE, false);
        bi_job_free(core, job);
        return;
    }
    bi_job_enter_again(core, job, state);
    /* Its reserve was given up before what is undone now was done: it ends at once. */
    if (state == BIDE_STATE_RESERVED && more_of(core, job)->disowned)
        bi_timers_set(&core->mono, &more_of(core, job)->timer, core->now.mono);
    if ((job->flags & JOB_CACHED) != 0)
        bi_cache_add_again(core, job);
    else
        bi_cache_add(core, job);
    if (state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE)
        bi_waiters_tell(core, job, state, false);
}

static void put_back_pause(struct core *core, struct undo *undo)
{
    if (undo->older != 0)
        return;
    struct topic *topic = topic_at(core, undo->topic);
    bi_topic_pause(core, topic, undo->paused_until);
    topic->undo = 0;
}

static void take_away(struct core *core, struct undo *undo)
{
    struct job *job = job_at(core, undo->job);
    if (job->state != BIDE_STATE_GONE)
        bi_job_vanish(core, job);
}

/* What is done to the entries of jobs, of pauses, or of both; all entries before the next pass. */
static const struct pass {
    bool jobs, pauses;
    void (*visit)(struct core *core, struct undo *undo);
} passes[] = {
    {true, false, take_away},      {true, false, put_back},  {true, false, bring_back},
    {false, true, put_back_pause}, {true, true, entry_free},
};
#define PASSES (sizeof(passes) / sizeof(passes[0]))

/* All entries come into one row, those of the sealed batch first. */
static void begin_rollback(struct core *core)
{
    struct journal *journal = &core->journal;
    uint32_t head = journal->changes.head;
    if (journal->sealed.head != 0) {
        undo_at(core, journal->sealed.tail)->next = head;
        head = journal->sealed.head;
    }
    memset(&journal->changes, 0, sizeof(journal->changes));
    memset(&journal->sealed, 0, sizeof(journal->sealed));
    journal->rollback = (struct rollback){.running = true, .head = head, .next = head};
    core->interrupt.failed = core->interrupt.begun;
    bi_waiters_begin_rollback(core);
    bi_feeds_begin_rollback(core);
}

/* Answers how much of the budget is left. */
static unsigned visit_entries(struct core *core, unsigned budget)
{
    struct rollback *rollback = &core->journal.rollback;
    for (; rollback->pass < PASSES; rollback->pass++, rollback->next = rollback->head) {
        const struct pass *pass = &passes[rollback->pass];
        for (; rollback->next != 0 && budget > 0; budget--) {
            struct undo *undo = undo_at(core, rollback->next);
            rollback->next = undo->next;
            if (undo->id != 0 ? pass->jobs : pass->pauses)
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
    if (journal->in_flight != 0 || journal->limit_batch >= journal->gathering) {
        journal->limit_changed = true;
        journal->limit_batch = journal->gathering + 1;
    }
    journal->in_flight = 0;
    journal->undone = journal->gathering++;
    journal->next_seal = journal->gathering;
    journal->gathered = 0;
    journal->gathered_bytes = 0;
    memset(&journal->rollback, 0, sizeof(journal->rollback));
    bi_waiters_serve(core);
    bi_feeds_serve(core);
}

bool bi_core_rollback(struct core *core, struct bi_now now, unsigned budget)
{
    struct rollback *rollback = &core->journal.rollback;
    assert(core->journal.on && budget > 0);

    core->now = now;
    core->hold = 0;
    if (!rollback->running)
        begin_rollback(core);

    budget = bi_waiters_rollback(core, budget);
    if (budget > 0)
        budget = visit_entries(core, budget);
    if (budget > 0)
        budget = bi_feeds_rollback(core, budget);
    /* With nothing left of the budget, whatever is left to be done is the next slice's. */
    if (budget == 0)
        return true;

    end_rollback(core);
    return false;
}

/* What only the journal still holds: forms, and jobs whose removal was never stored. */
static void entry_drop(struct core *core, struct undo *undo)
{
    if (undo->had_more)
        bi_more_drop_texts(&undo->more);
    if (undo->id == 0 || undo->newer != 0)
        return;
    const struct job *job = job_at(core, undo->job);
    if (job->state != BIDE_STATE_GONE)
        return;
    bide_buf_unref(job->body);
    if (job->more != 0)
        bi_more_drop_texts(more_of(core, job));
}

static void drop_entries(struct core *core, const struct undo_list *list)
{
    for (uint32_t ref = list->head; ref != 0; ref = undo_at(core, ref)->next)
        entry_drop(core, undo_at(core, ref));
}

void bi_journal_done(struct core *core)
{
    assert(!core->journal.rollback.running);
    drop_entries(core, &core->journal.changes);
    drop_entries(core, &core->journal.sealed);
    bi_pool_done(&core->journal.undos);
    bi_table_done(&core->journal.by_id);
}
