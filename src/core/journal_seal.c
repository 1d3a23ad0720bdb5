/* SPDX-License-Identifier: MIT */
/*
 * journal_seal - the records that the store gets for a batch.
 */
#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

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
    assert(topic->members > 0); /* the entry is one */
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
    /* A job that is inserted and removed in one batch has no record. */
    assert(batch->count <= entries.count);

    batch->next_id = core->next_id;
    batch->next_token = journal->token_limit;
    batch->lease_from = core->stop.begun ? core->lease_from : 0;

    journal->limit_changed = false;
    journal->in_flight = journal->next_seal++;
    /* Changes from now on are not in this batch. */
    if (journal->in_flight == journal->open_batch)
        bi_journal_open_next_batch(journal);
    return BIDE_OK;
}

void bi_journal_batch_done(struct core *core, struct bi_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        bi_image_unref(&batch->records[i].image);
    bi_alloc_free(&core->alloc, batch->records);
    memset(batch, 0, sizeof(*batch));
}
