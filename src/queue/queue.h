/* SPDX-License-Identifier: MIT */
/*
 * queue - what the files behind the public calls share: the handle, op preparation, completion
 * queues, the last error, and options.
 *
 * Threads    Every public call may be made on any thread. bide_close() waits for calls that are
 *            still inside the backend before it frees the handle.
 */
#ifndef BI_QUEUE_H
#define BI_QUEUE_H

#include "backend/backend.h"

#include <stdatomic.h>

struct bide {
    struct backend *backend;
    bide_options options;          /* resolved */
    _Atomic unsigned workers;      /* that use the queue; bide_close() fails while there are any */
    _Atomic unsigned active_calls; /* calls inside the backend; bide_close() waits for them */
};

/* The backend of a scheme; NULL if it is unknown. *names (may be NULL) is set to the list of all
 * schemes, for an error message. */
const struct backend_ops *bi_queue_find_backend(const char *scheme, const char **names);

/* Enclose every call of the backend that another thread may make while the queue is closed.
 * The handle may be freed after bi_queue_leave(). Exceptions: open, close and free; and
 * bi_queue_commit(), bi_queue_commit_age() and bi_queue_set_close_deadline(), see there. */
static inline void bi_queue_enter(struct bide *queue)
{
    atomic_fetch_add_explicit(&queue->active_calls, 1, memory_order_relaxed);
}

static inline void bi_queue_leave(struct bide *queue)
{
    atomic_fetch_sub_explicit(&queue->active_calls, 1, memory_order_release);
}

/* bide_open(). for_server: the clients of a server hold leases by token and may outlive the
 * server, so bide_close() stores the leases of a queue in a file, and the next open restores
 * them. Each client is one order of ops (private_.order). */
int bi_queue_open(const char *url, const bide_options *options, bool for_server, bide **out);

/* For an event loop that submits: see commit in backend.h. This and the next three are for a
 * server, and must not run while the queue is closed. */
bool bi_queue_commit(struct bide *queue, bool lead);

/* Whether the backend has commits. */
bool bi_queue_has_commits(const struct bide *queue);

/* See commit_age in backend.h. */
int64_t bi_queue_commit_age(struct bide *queue);

/* See set_close_deadline in backend.h. */
void bi_queue_set_close_deadline(struct bide *queue, int64_t deadline);

/* Runs one op and waits for it. Sets the last error of the thread and returns the status of
 * the op. */
int bi_blocking_call_run(struct bide *queue, bide_op *op);

/* Checks the op and copies its bytes. The status is then BIDE_PENDING, or the code of the
 * failure. */
void bi_submit_prepare(const struct bide *queue, bide_op *op);
/* The backend calls this for an op that completed within submit. */
void bi_submit_finish(bide_op *op);

/* Returns an op with its final status to the caller, and frees the copies that it still owns. */
void bi_submit_finalize(bide_op *op);

/* The completion function of all backends: wakes a blocking caller, or appends to the cq. */
void bi_cq_complete(bide_op *ops);
/* Counts the ops that will complete on a cq; remove is for an op that did not become pending. */
void bi_cq_add_pending(bide_cq *cq);
void bi_cq_remove_pending(bide_cq *cq);

/* For an owner that is awake and drains before it sleeps: disable saves the signal on the
 * descriptor. The owner enables it again before it sleeps; true: ops have completed meanwhile. */
void bi_cq_disable_notify(bide_cq *cq);
bool bi_cq_enable_notify(bide_cq *cq);

/* Ends bide_cq_wait() of the owner, now or at its next call, although no op has completed. Any
 * thread may call it. */
void bi_cq_wake(bide_cq *cq);

/* True on a thread that runs completion callbacks. */
bool bi_cq_in_callback(void);

/* The last error of the thread. set returns the code. */
int bi_last_error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bi_last_error_clear(void);
/* The code of the call that set it; BIDE_OK: none. */
int bi_last_error_code(void);

/* Fills *requested from the options of the caller and the parameters of the URL, except those
 * of the backend; 0 stands for the default. */
int bi_options_merge(const bide_options *given, const struct bi_url *url,
                     const char *const *backend_params, bide_options *requested);
/* Checks the requested options and fills in the defaults. remote: a server owns the queue. */
int bi_options_validate(const bide_options *requested, bool remote, bide_options *resolved);
/* Merge and validate, for a local queue. */
int bi_options_resolve(const bide_options *given, const struct bi_url *url, bide_options *resolved);

/* The type of a value and its notation: sizes and durations may have a unit. */
enum bi_option_type {
    BI_OPTION_COUNT,
    BI_OPTION_BYTES,
    BI_OPTION_DURATION,
    BI_OPTION_ON_OFF,
    BI_OPTION_TICKER,
    BI_OPTION_SYNC
};

/* "a number", "a size such as 64KiB", ... */
const char *bi_options_type_text(enum bi_option_type type);

/* False, and *value unchanged, if the text is not of this type. */
bool bi_options_parse(enum bi_option_type type, const char *text, uint64_t *value);

/* Sets the member that has this name in a URL. BIDE_OK, or BIDE_EINVAL and a message in error
 * (BIDE_ERROR_SIZE bytes). Does not check whether the options fit together. */
int bi_options_set(bide_options *to, const char *name, const char *text, char *error);

/* An option as documentation shows it. */
#define BI_OPTION_TEXT_SIZE 24
struct bi_option {
    const char *name;
    const char *kind;                   /* of bi_options_type_text() */
    char fallback[BI_OPTION_TEXT_SIZE]; /* the default, in the notation of its type */
};

/* Describes the option with this index; false behind the last one. */
bool bi_options_describe(size_t index, struct bi_option *out);

#endif
