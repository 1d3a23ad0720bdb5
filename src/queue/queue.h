/* SPDX-License-Identifier: MIT */
/*
 * queue - what the files behind the public calls share.
 */
#ifndef BI_QUEUE_H
#define BI_QUEUE_H

#include "backend/backend.h"

#include <stdatomic.h>

struct bide {
    struct backend *backend;
    bide_options options;     /* resolved */
    _Atomic unsigned workers; /* that use it: it cannot be closed before they are freed */
    _Atomic unsigned inside;  /* calls that may still use the backend; it is not freed before */
};

/* Every call of the backend is made between these two. After bi_leave() the queue may be gone. */
static inline void bi_enter(struct bide *queue)
{
    atomic_fetch_add_explicit(&queue->inside, 1, memory_order_relaxed);
}

static inline void bi_leave(struct bide *queue)
{
    atomic_fetch_sub_explicit(&queue->inside, 1, memory_order_release);
}

/* bide_open(). serves is for a server: its clients hold leases by token and outlive it, so
 * bide_close() stores the leases of a queue in a file, and they are good after the next open; and each
 * of them is an order of ops (private_.order). */
int bi_queue_open(const char *url, const bide_options *options, bool serves, bide **out);

/* Checks the arguments of an op for form: BIDE_OK, or a code with the op's sentence written. */
int bi_args_check(const struct bide *queue, bide_op *op);

/* Makes buffers of the bodies and results that the op brings, so that nothing is copied under a
 * lock. Whoever runs the op takes them over; bi_answer_drop() gives back those of an op that was
 * not run. */
int bi_args_copy(bide_op *op);

/* A list that was refused as a whole: none of its items is good. Only for arguments that have been
 * checked. */
void bi_args_fail(bide_op *op);

/* For an event loop that submits: see commit in backend.h. */
bool bi_queue_commit(struct bide *queue, bool lead);

/* See commit_age in backend.h. */
int64_t bi_queue_commit_age(struct bide *queue);

/* See close_by in backend.h. */
void bi_queue_close_by(struct bide *queue, int64_t moment);

/* Runs one op and waits for it. Sets the thread's last error; answers the op's code. */
int bi_call(struct bide *queue, bide_op *op);

/* An op that finished within submit, refused or not. */
void bi_submit_finish(bide_op *op);

/* An op has its status: it is the caller's again, and what it still has of copies goes. */
void bi_submit_settle(bide_op *op);

/* An op that is good has nothing to say, unless it is about an item. */
void bi_submit_hush(bide_op *op);

/* In private_.flags: the op is submitted and has not come back. */
#define BI_IN_HAND 512

/* The completion that backends call: wakes a blocking caller, or fills a completion queue. */
void bi_cq_complete(bide_op *ops);
/* An op that names a completion queue is handed over; and did not become pending after all. */
void bi_cq_expect(bide_cq *cq);
void bi_cq_unexpect(bide_cq *cq);

/* The owner of a completion queue is awake and will drain it before it sleeps: its fd need not be
 * raised. Before it sleeps it leaves; true: something has completed meanwhile. */
void bi_cq_attend(bide_cq *cq);
bool bi_cq_leave(bide_cq *cq);

/* Ends the bide_cq_wait() of its owner, now or at its next call, though nothing has completed. Any
 * thread may do it. */
void bi_cq_wake(bide_cq *cq);

/* True on a thread that runs callbacks. */
bool bi_in_callback(void);

/* The thread's last error. */
int bi_error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bi_error_clear(void);
/* Of the call that set it; BIDE_OK: there is none. */
int bi_error_code(void);

/* Fills *asked from the caller's options and the parameters of the URL, but for those that are
 * others'; 0 stands for the default. */
int bi_options_ask(const bide_options *given, const struct bi_url *url, const char *const *others,
                   bide_options *asked);
/* Checks what was asked for and puts in the defaults. served: somebody else keeps the queue. */
int bi_options_settle(const bide_options *asked, bool served, bide_options *resolved);
/* Both, for a queue of our own. */
int bi_options_resolve(const bide_options *given, const struct bi_url *url, bide_options *resolved);

/* What a value is, and how it is written: sizes and durations may have a unit. */
enum bi_unit { BI_COUNT, BI_BYTES, BI_DURATION, BI_ON_OFF, BI_TICKER, BI_SYNC };

/* "a number", "a size such as 64KiB", ... */
const char *bi_options_kind(enum bi_unit unit);

/* False, and *value as it was, for a text that is no such value. */
bool bi_options_parse(enum bi_unit unit, const char *text, uint64_t *value);

/* Sets the field that has this name in a URL. BIDE_OK, or BIDE_EINVAL with a sentence in error
 * (BIDE_ERROR_SIZE bytes). Whether the options fit together is not looked at. */
int bi_options_set(bide_options *to, const char *name, const char *text, char *error);

/* An option as people see it. */
#define BI_OPTION_TEXT 24
struct bi_option {
    const char *name;
    const char *kind;              /* as bi_options_kind() says */
    char fallback[BI_OPTION_TEXT]; /* what 0 stands for, as it would be written */
};

/* The option of an index, from 0 on; false when there are no more. */
bool bi_options_describe(size_t index, struct bi_option *out);

#endif
