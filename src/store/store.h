/* SPDX-License-Identifier: MIT */
/*
 * store - the interface of a store: what the local backend needs to make jobs persistent.
 *
 * A store knows nothing of job states and times. It commits batches, each completely or not at
 * all, reads bodies, and returns what it holds after a restart. A store is one const struct of
 * functions (store_ops) and an object that begins with struct store.
 *
 * Ownership  Records and images that a store passes to a visitor are valid during the call only.
 * Failure    A function that fails leaves the store usable, and writes a message to `error`
 *            (BIDE_ERROR_SIZE bytes).
 * Threads    Four threads of the local backend use a store, each its own functions: the thread
 *            that opens and closes, the thread that commits, the reader thread and the maintenance
 *            thread. The last three call at the same time. The thread that commits may be another
 *            one for each batch: a blocking caller commits its own.
 */
#ifndef BI_STORE_H
#define BI_STORE_H

#include "core/core.h"
#include "util/clock.h"
#include "util/message.h"

struct store;

/* What a store found when it was opened. */
struct store_start {
    uint64_t next_id;             /* above the id of every stored job */
    uint64_t next_token;          /* above the number of every token assigned so far */
    uint64_t token_from;          /* below this the token is the plain number */
    uint64_t lease_from;          /* stored leases are valid from this token number on; 0: none */
    struct bi_hash_secret secret; /* stored with the first batch at the latest */
    uint64_t damaged;             /* rows quarantined by the open */
};

/*
 * Called for each stored record, jobs in the order of their ids; kind is BI_INSERT or BI_TOPIC.
 *
 * damage is NULL, or what is wrong with the row; only the id of the job, or the end of the
 * pause, is set then. The text has static storage, so the visitor may retain the pointer. The
 * image belongs to the store and is valid during the call only; its body is set if the store
 * read it with the row. A result other than BIDE_OK stops the visit and is returned to its
 * caller.
 */
typedef int (*store_visit)(void *ctx, const struct bi_record *record, const char *damage);

/* The damage of rows that could not be read at all and were left in place. The id of the
 * record is the first one that may be among them. Compared by address. */
extern const char bi_store_unreadable[];

/* A body to read. In: id and size. Out: body, or NULL and the reason. */
struct store_body_request {
    uint64_t id;
    uint32_t size;
    bide_buf *body;
    bool retry;         /* the failure may be temporary */
    bool out_of_memory; /* retry: for lack of memory, which says nothing about the body */
    char reason[80];
};

/* The result of a check. */
struct store_report {
    uint64_t jobs;    /* rows that are intact */
    uint64_t damaged; /* rows that are not, and those in quarantine */
};

struct store_ops {
    const char *name;

    /* False: nothing survives the process. The core hands out no batches and replies at once,
     * and only start and close are called. */
    bool persistent;

    /* On the opening thread, before all others. Its time must not grow with the number of
     * jobs. A failure fails the open. */
    int (*start)(struct store *store, struct store_start *start, char *error);

    /* On the opening thread, before any job is served: visits every pause and every policy, each
     * in a record of its own. */
    int (*scan_topics)(struct store *store, store_visit visit, void *ctx, char *error);

    /*
     * On the thread that commits, without a lock; may block. BIDE_OK: the batch is stored as
     * durably as the store promises. BIDE_EUNKNOWN: the outcome is not known, and the next commit
     * must pass the same batch. Other failures: nothing of the batch is stored, now or after a
     * crash, and the next commit may be tried.
     */
    int (*commit)(struct store *store, const struct bi_batch *batch, char *error);

    /*
     * On the thread that has committed: does one step of maintenance. Called after the ops of a
     * commit were completed, and, if requested, while there is nothing to commit (idle). Returns
     * the microseconds until it wants to be called again; BI_NEVER: not before the next commit. May
     * be NULL.
     */
    int64_t (*maintain)(struct store *store, bool idle);

    /* On the commit thread: moves a damaged row to where it does not interfere with ids to
     * come. */
    int (*quarantine)(struct store *store, uint64_t id, const char *reason, char *error);

    /* On the reader thread: reads bodies. A failure is reported in the request. */
    void (*read)(struct store *store, struct store_body_request *requests, size_t n);

    /* On the reader thread: visits one job. BIDE_NOT_FOUND if it is not stored. */
    int (*fetch)(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error);

    /* On the maintenance thread: counts the jobs with smaller ids. */
    int (*count)(struct store *store, uint64_t below, uint64_t *count, char *error);

    /* On the maintenance thread: visits up to max jobs with *after < id < below, and advances
     * *after. BIDE_NOT_FOUND at the end. After a failure the scan continues behind *after. */
    int (*scan)(struct store *store, uint64_t *after, uint64_t below, size_t max, store_visit visit,
                void *ctx, char *error);

    /* On the maintenance thread: writes a copy of everything to a new file. A backup that fails
     * leaves no file; BIDE_CLOSED if the queue is closing, BIDE_CANCELLED if check_cancelled. */
    int (*backup)(struct store *store, const char *path, char *error);

    /* On the maintenance thread: verifies every byte. BIDE_OK, or BIDE_EIO and the first
     * problem. */
    int (*check)(struct store *store, struct store_report *report, char *error);

    /* On the closing thread, after the last commit: stores the exact next id and frees the
     * store. */
    void (*close)(struct store *store);
};

struct store {
    const struct store_ops *ops;
    const char *path; /* of the file, for messages; NULL: none */
    /*
     * Set by commit when it reopened the files because a write had failed: the caller must
     * compare the batch with the core before it acknowledges anything more, and everything else
     * after that. Also set by maintain when a sync failed; then the next commit begins the
     * comparison.
     */
    bool reopened;
    /* Set when the queue closes, so that long calls end; and when only a check or backup must
     * end. */
    _Atomic bool stopping;
    _Atomic bool check_cancelled;
    /* After this time (boot-time clock) no commit and no other write begins, because the
     * process must end; 0: no deadline. */
    _Atomic int64_t write_deadline;
    /* Set while the disk is full: new jobs are rejected, so that deletes have the space that
     * is left. */
    _Atomic bool full;
    /* Set by the open: the most that one commit should contain, so that it fits on a full disk
     * as well; 0: as the options say. */
    uint32_t batch_jobs;
    uint64_t batch_bytes;
};

static inline bool bi_store_check_stopped(const struct store *store)
{
    return store->stopping || store->check_cancelled;
}

static inline bool bi_store_past_deadline(const struct store *store)
{
    return store->write_deadline != 0 && bi_clock_boot() >= store->write_deadline;
}

/* NULL when out of memory. */
struct store *bi_memory_store_new(void);

/* A store in the SQLite file at path, which is created if it does not exist. On failure *out is
 * unchanged. */
struct bi_sqlite_options {
    bide_sync sync;
    struct bi_log log;
};
int bi_sqlite_store_new(const char *path, const struct bi_sqlite_options *options,
                        struct store **out, char *error);

#endif
