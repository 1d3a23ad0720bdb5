/* SPDX-License-Identifier: MIT */
/*
 * journal - the changes that are not stored yet.
 *
 * The first change of a job (or of a topic's pause or policy) in a batch creates an undo entry with a copy
 * of the state before that change. Entries of the batches that are not sealed form one list, batch
 * after batch; entries of the batch in flight form another. A job that several batches change has
 * one entry in each, linked from the oldest to the newest: the state that a batch stores is the
 * copy in the next newer entry, or the job itself if there is none.
 *
 * A commit frees the entries of its batch. A rollback restores the oldest copy of every job. A
 * removed job stays allocated, outside of all structures, until its removal is committed.
 *
 * Ordering   Batches are sealed and committed in the order of their numbers.
 * Ownership  An entry owns references to the texts of its copy and a membership in its topic. The
 *            membership keeps the topic, and heap room in it, for a job that must return.
 * Failure    Only creating an entry can fail, and it precedes the change. A rollback cannot fail.
 * Slices     A rollback runs in slices. Between two slices the structures are sound, but they mix
 *            old and new state: only bi_waiter_cancel() may change the core then.
 */
#ifndef BI_JOURNAL_H
#define BI_JOURNAL_H

#include "core/hash_table.h"
#include "core/job.h"
#include "util/alloc.h"

struct bi_now;
struct bide_subscription;
struct topic;

struct undo {
    uint64_t id;    /* of the job; 0: the entry is about the pause and the policy of a topic */
    uint64_t batch; /* that stores the change */
    uint32_t self, link;
    uint32_t next;  /* in its list */
    uint32_t older; /* entry of the same job or topic in an earlier batch; 0: none */
    uint32_t newer; /* the same in a later batch */
    uint32_t job;
    uint32_t topic; /* that it is a member of, or that has changed */
    bool existed;   /* false: the change created the job */
    bool in_store;  /* the store has the job once the earlier batches are committed */
    bool had_ext;
    int64_t paused_until, pause; /* of the topic before the change, */
    bide_buf *policy;            /* and the settings of its policy, referenced; NULL: none */
    struct job saved;
    struct job_ext ext;
};

struct undo_list {
    uint32_t head, tail;
    uint32_t count;
};

/* Progress of a rollback; see bi_journal_rollback(). */
struct rollback {
    bool running;
    unsigned pass;                  /* index into the table of passes */
    uint32_t head, next;            /* all entries in one list, and the next one to visit; 0: end */
    struct bide_subscription *feed; /* the subscription whose events are filtered */
    uint32_t scanned, kept;         /* events of it that were examined, and those that stay */
};

struct journal {
    bool on;
    unsigned group_depth; /* nested groups; changes of a group share one batch */
    uint64_t open_batch;  /* the batch that new changes go to */
    uint64_t next_seal;   /* the oldest batch that is not sealed */
    uint32_t open_count;  /* changes in the open batch */
    uint64_t open_bytes;  /* bytes of the bodies that they insert */
    uint64_t committed;
    uint64_t in_flight; /* 0: none */
    uint64_t undone;    /* the last batch that was rolled back; it never commits */
    struct pool undos;
    struct hash_table by_id; /* the newest entry of each job */
    struct undo_list changes, sealed;
    struct rollback rollback;
    /* A restart continues at a token that was never granted: the store keeps a limit, ahead of
     * the tokens in use. */
    uint64_t token_limit;  /* stored by limit_batch */
    uint64_t token_stored; /* tokens below need not wait for a commit */
    uint64_t limit_batch;
    bool limit_changed;
};

bool bi_journal_init(struct core *core, bool on);
void bi_journal_done(struct core *core);

/*
 * Call before a job changes, after it is created, and after it is removed. The first two return
 * BIDE_OK or BIDE_ENOMEM and raise the hold of the running op. remove() frees the job if there
 * is no journal to retain it.
 */
int bi_journal_change(struct core *core, struct job *job);
int bi_journal_insert(struct core *core, struct job *job);
void bi_journal_remove(struct core *core, struct job *job);
/* Reserves memory, so that so many of them cannot fail if their topics have room for as many members
 * (bi_topic_reserve()). False when out of memory. */
bool bi_journal_reserve(struct core *core, uint32_t changes);
/* Reverts bi_journal_insert() of a job that is not inserted after all. The entry must be the
 * last change; before is journal.changes.tail from before the insert. */
void bi_journal_undo_insert(struct core *core, struct job *job, uint32_t before);
/* Call before the pause or the policy of a topic changes. BIDE_OK or BIDE_ENOMEM. */
int bi_journal_change_topic(struct core *core, struct topic *topic);

/* A job as the store has it. */
struct stored_job {
    const struct job *saved;
    const struct job_ext *ext; /* NULL: none */
    bool in_flight; /* the batch in flight changes it: the store has this state or the next */
};
/* False if the store has no job of that id. */
bool bi_journal_find_stored(const struct core *core, uint64_t id, struct stored_job *out);

/* Marks the lease as started in the saved copies, too. A rollback must not revert it, because
 * the client already knows the lease. */
void bi_journal_start_lease(struct core *core, uint64_t id, uint64_t token);
/* The reserve fails, or its reply leaves out this job. If a rollback restores the reservation,
 * it is undone at once. */
void bi_journal_abandon_lease(struct core *core, uint64_t id, uint64_t token);

/* Raises the hold of the running op to the last change of this job: its reply shows that change. */
void bi_journal_depend_on(struct core *core, uint64_t id);
/* The same for an op that found no matching job in the topic: an uncommitted change may have
 * removed the job that it searched for. */
void bi_journal_depend_on_topic(struct core *core, const struct topic *topic);
/* The same for a reply that reports the policy of the topic. */
void bi_journal_depend_on_policy(struct core *core, const struct topic *topic);
/* The same for a reservation in the topic: if its limits were other ones before an uncommitted
 * change, or a reservation ended by one, a failed commit would leave more jobs reserved than may
 * be. */
void bi_journal_depend_on_limits(struct core *core, const struct topic *topic);
/* The batch of the last uncommitted change of the job; 0: none. */
uint64_t bi_journal_batch_of(const struct core *core, const struct job *job);
/* The batch that a change of this job would go to (NULL: of a job without changes in the open
 * batch); 0 without a journal. */
uint64_t bi_journal_next_batch(const struct core *core, const struct job *job);

/*
 * Begins a step of about this many changes and bytes. All changes up to bi_journal_end_group()
 * go to one batch, however large it becomes, so the step commits or fails as a whole. Groups
 * nest.
 */
void bi_journal_begin_group(struct core *core, uint32_t changes, uint64_t bytes);
void bi_journal_end_group(struct core *core);

/* Call before a token, or an order number of a burial or result, is used. Both continue above
 * all numbers of earlier processes, so both depend on the stored limit. */
void bi_journal_reserve_token(struct core *core, uint64_t token);

/* Makes the journal dirty even without a change, to store the limits that every batch carries. */
void bi_journal_force_batch(struct core *core);

/* ---- for journal_seal.c and journal_rollback.c ---- */

void bi_journal_open_next_batch(struct journal *journal);
/* Removes the newest entry of a job from the table. */
void bi_journal_unlist_entry(struct core *core, const struct undo *undo);
/* Releases the references and the membership of an entry, and the entry. */
void bi_journal_free_entry(struct core *core, struct undo *undo);

#endif
