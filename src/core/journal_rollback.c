/* SPDX-License-Identifier: MIT */
/*
 * journal_rollback - undoes all changes that are not committed, in slices.
 */
#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

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
    assert(job->id == undo->id && job->state == BIDE_STATE_GONE);
    job->undone = 0;
    /* Before notify: a completed wait must not depend on a batch that is rolled back. */
    bi_journal_unlist_entry(core, undo);

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
    assert(undo->id == 0 && topic->undo != 0);
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
    {true, false, unlink_job},    {true, false, restore_job},          {true, false, reenter_job},
    {false, true, restore_topic}, {true, true, bi_journal_free_entry},
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
    bi_journal_open_next_batch(journal);
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
