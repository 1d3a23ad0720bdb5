/* SPDX-License-Identifier: MIT */
/*
 * backend - the interface between the public calls and what executes them: a core in this process,
 * or a server.
 *
 * The layers above do not know which backend they use. Every backend is one const struct of
 * functions; bi_queue_find_backend() maps the scheme of a URL to it.
 *
 * Ownership  An op belongs to the caller. The backend uses it from submit until it has passed it to
 *            finish() or complete(), and not after that.
 * Threads    Any thread may call submit, cancel and shutdown, also at the same time. close is
 *            called once, free after it and after the last call has returned.
 */
#ifndef BI_BACKEND_H
#define BI_BACKEND_H

#include "util/message.h"
#include "util/url.h"

#include <bide/bide.h>

struct backend;

/* What the queue passes to open. In options all defaults are resolved. */
struct backend_context {
    bide_options options;
    bide_options requested; /* as the caller passed them: 0 where the default applies */
    struct bi_log log;
    /* The queue of a server. Leases belong to its clients, which outlive the process, so close
     * stores them. private_.order of an op identifies the connection that it is from. */
    bool for_server;

    /* An op has finished within submit; its status is set. Called on the submitting thread,
     * possibly with a lock held, so it must be fast and must not call the backend. */
    void (*finish)(bide_op *op);

    /* One or more pending ops, linked by private_.next, have completed: their results are set, and
     * their codes are in private_.status. Called on any thread, without a lock of the backend. The
     * backend must not use the ops afterwards: their owners may free them. */
    void (*complete)(bide_op *ops);
};

struct backend_ops {
    const char *scheme;

    /* The URL parameters that the backend parses itself, terminated by NULL; or NULL. */
    const char *const *parameters;

    /* A server owns the queue and its limits. Options that only the server could apply are
     * rejected, and sizes are checked locally only if the caller has set a limit. */
    bool remote;

    /* submit and cancel contain cancellation points (I/O, waits), so pthread_cancel() must be
     * disabled around them. That costs two atomic operations, which a queue in memory avoids. */
    bool may_block;

    /* A bit set of bide_capability. */
    uint32_t capabilities;

    /* May block. On failure *out is unchanged and error (BIDE_ERROR_SIZE bytes) is written. */
    int (*open)(const struct backend_context *context, const struct bi_url *url,
                struct backend **out, char *error);

    /*
     * Runs those of the n ops whose status is BIDE_PENDING, in order; their arguments have been
     * checked. An op that finishes at once gets its status and is passed to finish(). Any other is
     * passed to complete(), possibly before submit returns, so the caller must not use it any more.
     * Blocks only for ops with private_.wake set, and only while the limit of pending ops is
     * reached. Returns the number of ops that are pending.
     */
    int (*submit)(struct backend *backend, bide_op *const *ops, size_t n);

    /*
     * For a caller with an event loop, which calls it once before the first submit and then after
     * each round of submits. From the first call on submit no longer starts a commit; this function
     * does, so that one commit covers a round. With lead set, and if commits are fast, it commits
     * in the calling thread and returns true; otherwise it wakes the commit thread. NULL: the
     * backend has no commits.
     */
    bool (*commit)(struct backend *backend, bool lead);

    /* The age of the commit that is in progress, in microseconds; 0: none. A checkpoint counts with
     * a fraction of its time. Takes no lock, for a watchdog. NULL: the backend has no commits. */
    int64_t (*commit_age)(struct backend *backend);

    /* No commit begins after this time of the boot-time clock. What is not stored then is rolled
     * back and completes with BIDE_CLOSED, so that a process with a slow disk can end in time.
     * NULL: the backend has no commits. */
    void (*set_close_deadline)(struct backend *backend, int64_t deadline);

    /* Cancels a pending op if it still waits. The op completes in any case, exactly once. */
    void (*cancel)(struct backend *backend, bide_op *op);

    /* Completes all waiting ops with BIDE_CLOSED. From now on ops that reserve jobs or would wait
     * are rejected with that code; all others continue until close. Does not block. */
    void (*shutdown)(struct backend *backend);

    /* Completes every pending op and joins every thread. May block. Calls that are returning may
     * still read the backend until free. */
    void (*close)(struct backend *backend);

    /* Frees a closed backend, after the last call has returned. */
    void (*free)(struct backend *backend);
};

struct backend {
    const struct backend_ops *ops;
};

extern const struct backend_ops bi_backend_beanstalk;
extern const struct backend_ops bi_backend_memory;
extern const struct backend_ops bi_backend_sqlite;

#endif
