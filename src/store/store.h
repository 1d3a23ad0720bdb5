/* SPDX-License-Identifier: MIT */
/*
 * store - where the local backend keeps what the core hands out.
 *
 * A store knows nothing of states and times: it stores a batch, all of it or nothing, reads
 * bodies, and gives back what it has after a restart. Every store is one const struct of functions.
 *
 * Threads    Four threads of the local backend use a store, each for its own functions: the one
 *            that opens and closes, the commit thread, the reader thread and the slow thread. A
 *            store must expect the last three at the same time.
 */
#ifndef BI_STORE_H
#define BI_STORE_H

#include "core/core.h"
#include "util/clock.h"
#include "util/log.h"

struct store;

/* What a store found when it was opened. */
struct store_start {
    uint64_t next_id;        /* no job that is stored has this id or a higher one */
    uint64_t next_token;     /* no token of this number was ever given */
    uint64_t token_from;     /* smaller numbers are tokens themselves */
    uint64_t lease_from;     /* leases in images are good from this number on; 0: none are */
    struct bi_secret secret; /* stored at the latest with the first batch */
    uint64_t damaged;        /* rows that had to be set aside before anything could be served */
};

/*
 * Called for what is stored, jobs in the order of their ids: kind BI_INSERT or BI_PAUSE. damage is
 * NULL, or says what is wrong with the row; then only the id of the image is set. The image is the
 * store's and valid during the call only; its body is there if the store had it at hand. Not
 * BIDE_OK: stop, and pass it up.
 */
typedef int (*store_visit)(void *ctx, const struct bi_record *record, const char *damage);

/* The damage of rows that were not read at all: they stay where they are. The id is the first that
 * may be among them. */
extern const char bi_store_unreadable[];

/* A body that is wanted: id and size in; the body, or NULL and the reason, out. */
struct store_want {
    uint64_t id;
    uint32_t size;
    bide_buf *body;
    bool again; /* it could not be read now, and may be read later */
    char reason[80];
};

/* What a store says about itself. */
struct store_report {
    uint64_t jobs;    /* rows that can be read */
    uint64_t damaged; /* rows that cannot, and those set aside */
};

struct store_ops {
    const char *name;

    /* False: nothing outlives the process, so nothing is handed out and no answer is held; the
     * functions below but start and close are then never called. */
    bool keeps;

    /* On the opening thread, first of all; must not take longer with more jobs. A failure fails
     * the open. */
    int (*start)(struct store *store, struct store_start *start, char *error);

    /* On the opening thread, before anything is served: visits every pause. */
    int (*pauses)(struct store *store, store_visit visit, void *ctx, char *error);

    /* On the commit thread, no lock held; may block. BIDE_OK: it is stored and survives what the
     * store promises. Otherwise nothing of it is stored, error (BIDE_ERROR_SIZE bytes) has a
     * sentence, and the next commit may be tried. */
    int (*commit)(struct store *store, const struct bi_batch *batch, char *error);

    /* On the commit thread: keeps the files in shape, a little at a time. Called after the answers
     * of a commit were given, and, when it asked for it, while there is nothing to commit (idle).
     * Answers in how many microseconds it wants to be called again; BI_NEVER: not before the
     * next commit. May be NULL. */
    int64_t (*tidy)(struct store *store, bool idle);

    /* On the commit thread: puts rows that are damaged where they are not in the way. */
    int (*set_aside)(struct store *store, uint64_t id, const char *reason, char *error);

    /* On the reader thread: reads bodies. A failure to read one is told in its reason. */
    void (*read)(struct store *store, struct store_want *wants, size_t n);

    /* On the reader thread: visits one job. BIDE_NOT_FOUND if it is not stored. */
    int (*fetch)(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error);

    /* On the slow thread: how many jobs there are with smaller ids. */
    int (*count)(struct store *store, uint64_t below, uint64_t *count, char *error);

    /* On the slow thread: visits up to max jobs with *after < id < below, and moves *after on.
     * BIDE_NOT_FOUND at the end. */
    int (*scan)(struct store *store, uint64_t *after, uint64_t below, size_t max, store_visit visit,
                void *ctx, char *error);

    /* On the slow thread: writes a copy of everything to a new file. BIDE_CLOSED, and no file, if
     * the queue is closed meanwhile. */
    int (*backup)(struct store *store, const char *path, char *error);

    /* On the slow thread: looks at every byte. BIDE_OK, or BIDE_EIO and a sentence. */
    int (*check)(struct store *store, struct store_report *report, char *error);

    /* On the closing thread, after the last commit. Frees the store. next_id is the exact one. */
    void (*close)(struct store *store);
};

struct store {
    const struct store_ops *ops;
    const char *place; /* the file, for sentences; NULL: none */
    /* Set by commit when the files were closed and opened again because a write had failed: what
     * they hold of the batch must be compared with the core before anything more is acknowledged,
     * and everything else after that. Also set by tidy when a sync failed: then the next commit
     * begins the comparison. */
    bool reopened;
    /* Set when the queue closes: what takes long may end; and when only a check is to end. */
    _Atomic bool stopping;
    _Atomic bool check_cancelled;
    /* A moment of the boot-time clock behind which no commit and no other write begins, because the
     * process is to end; 0: none. */
    _Atomic int64_t late_at;
    /* Set while the disk is full: no new jobs, so that what there is can be worked off. */
    _Atomic bool full;
    /* Set when it is opened: what one commit should bring at most, so that it can be stored on a
     * full disk, too; 0: as much as the options say. */
    uint32_t batch_jobs;
    uint64_t batch_bytes;
};

static inline bool bi_store_ends_check(const struct store *store)
{
    return store->stopping || store->check_cancelled;
}

static inline bool bi_store_is_late(const struct store *store)
{
    return store->late_at != 0 && bi_clock_boot() >= store->late_at;
}

/* NULL when out of memory. */
struct store *bi_store_memory_new(void);

/* A store in the SQLite file at path, which is made if it does not exist. On failure *out is
 * untouched and error has a sentence. */
struct bi_sqlite_options {
    bide_sync sync;
    struct bi_log log;
};
int bi_store_sqlite_new(const char *path, const struct bi_sqlite_options *options,
                        struct store **out, char *error);

#endif
