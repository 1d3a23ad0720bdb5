/* SPDX-License-Identifier: MIT */
/*
 * journal - what has changed and is not stored yet.
 *
 * The first change of a job (or of a topic's pause) in a batch leaves an entry with the form it had
 * just before. Entries of the batches that gather stand in one list, batch after batch, those of
 * the batch that is being stored in another. A job that several batches change has an entry in
 * each, linked from the oldest to the newest: what a batch stores of it is the form that the next
 * newer entry keeps. When a batch is stored its entries go; when it cannot be, the oldest forms are
 * put back. A removed job is kept, out of everything, until its removal is stored.
 *
 * A rollback goes over all entries several times, a slice at a time. Between two slices the core's
 * structures are sound, but what they say is neither the old nor the new: only cancelling a call
 * that waits is allowed.
 *
 * Ownership  An entry holds references to the texts of its form, and a membership in its topic:
 *            so the topic exists, and has room, if the job must come back.
 * Failure    Only making an entry can fail, before anything has changed. Undoing cannot.
 */
#ifndef BI_JOURNAL_H
#define BI_JOURNAL_H

#include "core/job.h"
#include "core/table.h"
#include "util/pool.h"

struct bi_now;
struct bide_feed;
struct topic;

struct undo {
    uint64_t id;    /* of the job; 0: the entry is about a pause */
    uint64_t batch; /* that will store the change */
    uint32_t self, link;
    uint32_t next;  /* in its list */
    uint32_t older; /* of the same job or topic, in an earlier batch; 0: none */
    uint32_t newer; /* in a later one */
    uint32_t job;
    uint32_t topic; /* where it has a membership, or whose pause it is */
    bool existed;   /* there was a form before the change */
    bool in_store;  /* the store has the job when the earlier batches are stored */
    bool had_more;
    int64_t paused_until;
    struct job form;
    struct more more;
};

struct undo_list {
    uint32_t head, tail;
    uint32_t count;
};

/* How far a rollback has come; see bi_core_rollback(). */
struct rollback {
    bool running;
    unsigned pass;          /* over the entries */
    uint32_t head, next;    /* all entries in a row, and where the pass goes on; 0: at its end */
    struct bide_feed *feed; /* then the events of the feeds: the one whose turn it is, */
    uint32_t seen, kept;    /* how many of its events were looked at, and how many of those stay */
};

struct journal {
    bool on;
    unsigned joined;    /* what changes now must not be parted: it belongs to one step */
    uint64_t gathering; /* the batch that changes go to */
    uint64_t next_seal; /* the oldest that is not sealed; those up to gathering are full */
    uint32_t gathered;  /* changes in the batch that gathers, and their bodies */
    uint64_t gathered_bytes;
    uint64_t committed;
    uint64_t in_flight; /* 0: none */
    uint64_t undone;    /* the last batch that was undone: it will never be committed */
    struct pool undos;
    struct table by_id; /* the newest entry of each job */
    struct undo_list changes, sealed;
    struct rollback rollback;
    /* A restart begins at a token that no one has been given: a limit is stored ahead. */
    uint64_t token_limit;  /* that the gathering or flying batch stores */
    uint64_t token_stored; /* tokens below may be given out freely */
    uint64_t limit_batch;
    bool limit_changed;
};

bool bi_journal_init(struct core *core, bool on);
void bi_journal_done(struct core *core);

/* To be called before a job is changed, after it is made, and after it is removed. The first two
 * may answer BIDE_ENOMEM, and raise the hold of the op that runs. */
int bi_journal_change(struct core *core, struct job *job);
int bi_journal_new(struct core *core, struct job *job);
void bi_journal_removed(struct core *core, struct job *job);
/* Takes back bi_journal_new() for a job that does not come in after all. */
void bi_journal_forget(struct core *core, struct job *job);
int bi_journal_pause(struct core *core, struct topic *topic);

/* The job as the store has it; false if it has none of that id. */
struct stored {
    const struct job *form;
    const struct more *more; /* NULL: none */
    bool in_flight;          /* the batch that is being stored changes it */
};
bool bi_journal_stored(const struct core *core, uint64_t id, struct stored *out);

/* The lease of a reservation has begun. That is not undone by a rollback, because the holder knows. */
void bi_journal_lease_began(struct core *core, uint64_t id, uint64_t token);
/* The reserve gets no answer, or is answered without this job: if a rollback brings the reservation
 * back, it is undone at once. */
void bi_journal_disown(struct core *core, uint64_t id, uint64_t token);

/* The op that runs looked at this job: its answer holds for the job's last change. */
void bi_journal_see(struct core *core, uint64_t id);
/* It looked for a job of this topic and found none: its answer holds for the last change of the
 * topic's jobs, which may have taken away what it looked for. */
void bi_journal_see_none(struct core *core, const struct topic *topic);
uint64_t bi_journal_batch_of(const struct core *core, const struct job *job);
/* The batch that a change of this job (NULL: of one that has not changed yet) would go to; 0 without
 * a journal. */
uint64_t bi_journal_next_batch(const struct core *core, const struct job *job);

/* So many changes, with so many bytes, are about to be made in one step: they come into one batch,
 * however large it becomes. To be ended by bi_journal_part(); steps may consist of steps. */
void bi_journal_join(struct core *core, uint32_t changes, uint64_t bytes);
void bi_journal_part(struct core *core);

/* A token, or a number in the order of burials, is about to be given: both begin above all of an
 * earlier life. */
void bi_journal_token(struct core *core, uint64_t token);

/* A batch is to be stored even if no job has changed: for the limits in it. */
void bi_journal_force(struct core *core);

#endif
