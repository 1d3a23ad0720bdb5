/* SPDX-License-Identifier: MIT */
/*
 * backend - one place to keep a queue: the seam between the public calls and what carries them.
 *
 * Above this seam nobody knows which backend it is. Every backend is one const struct of
 * functions; scheme.c maps the scheme of a URL to it.
 */
#ifndef BI_BACKEND_H
#define BI_BACKEND_H

#include "util/log.h"
#include "util/url.h"

#include <bide/bide.h>

struct backend;

/* What the queue gives a backend when it opens it. The options are resolved: every field says what
 * holds, none is "the default". */
struct backend_context {
    bide_options options;
    bide_options asked; /* the same as the caller gave it: 0 where the default holds */
    struct bi_log log;
    /* The queue of a server: the holders of leases are its clients and outlive it, so that a close
     * stores the leases; and private_.order of an op says whose it is. */
    bool serves;

    /* An op has finished within submit: its status is set. Called on the submitting thread, perhaps
     * with a lock held, so it must be quick. */
    void (*finish)(bide_op *op);

    /* Pending ops, one or a chain linked by private_.next, have completed: their results are in
     * them, their codes in private_.status. Called on any thread, with no lock of the backend
     * held; nothing of them may be touched afterwards. */
    void (*complete)(bide_op *ops);
};

struct backend_ops {
    const char *scheme;

    /* The parameters of the URL that the backend reads itself, NULL at the end; or NULL. */
    const char *const *parameters;

    /* Somebody else's server keeps the queue, and its limits: options that only the server could
     * keep are refused, and sizes that were not asked for are not checked before. */
    bool served;

    /* submit and cancel reach cancellation points (I/O, waits), so that pthread_cancel() has to be
     * disabled around them. That costs two atomic operations, which a queue in memory would notice. */
    bool blocks;

    /* bide_capability, or-ed. */
    uint32_t can;

    /* On the opening thread; may block. On failure *out is untouched and error (BIDE_ERROR_SIZE
     * bytes) has a sentence. */
    int (*open)(const struct backend_context *context, const struct bi_url *url,
                struct backend **out, char *error);

    /*
     * Runs those of the n ops whose status is BIDE_PENDING, in order; arguments have been checked.
     * An op that finishes at once gets its status and is told to finish(); any other is told to
     * complete() and must not be touched by the caller any more: its owner may be quick.
     * Blocks only for ops with private_.wake set, and only while too much is pending. Answers how
     * many are still pending.
     */
    int (*submit)(struct backend *backend, bide_op *const *ops, size_t n);

    /*
     * For an owner with an event loop, who calls it once before the first submit, and then whenever
     * it has submitted: from then on submit does not begin to store what has gathered, this does.
     * With lead set, and if commits have been quick, it does so itself, and answers true when that
     * is done; else the commit thread does. NULL: there is nothing to store.
     */
    bool (*commit)(struct backend *backend, bool lead);

    /* How long the commit that is in progress has taken so far, in microseconds; 0: none is. A checkpoint
     * counts with a part of its time. Takes no lock. NULL: there is nothing to store. */
    int64_t (*commit_age)(struct backend *backend);

    /* Behind this moment of the boot-time clock no commit begins any more. What is not stored then is
     * undone, and completes with BIDE_CLOSED: for a process that is to end although its disk is slow.
     * NULL: there is nothing to store. */
    void (*close_by)(struct backend *backend, int64_t moment);

    /* Gives up an op that is pending, if it waits; it completes all the same. */
    void (*cancel)(struct backend *backend, bide_op *op);

    /* Completes what waits with BIDE_CLOSED, and answers so from now on to whatever takes jobs or
     * would wait; the rest goes on until close. Does not block. */
    void (*shutdown)(struct backend *backend);

    /* Completes every pending op and ends every thread. May block. Calls that are still on their way
     * out may read the backend until free. */
    void (*close)(struct backend *backend);

    /* Frees a closed backend, when no call is inside any more. */
    void (*free)(struct backend *backend);
};

struct backend {
    const struct backend_ops *ops;
};

extern const struct backend_ops bi_backend_beanstalk;
extern const struct backend_ops bi_backend_memory;
extern const struct backend_ops bi_backend_sqlite;

/* The backend of a scheme; NULL if there is none. names (may be NULL) is set to a list of all. */
const struct backend_ops *bi_backend_find(const char *scheme, const char **names);

#endif
