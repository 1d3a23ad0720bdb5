/* SPDX-License-Identifier: MIT */
/*
 * local - a queue in this process: core and store, with a lock, a timer thread and a commit
 * thread around them.
 *
 * Apply, commit, answer. An op changes the core at once, under the lock. If the store keeps
 * things, the change belongs to the batch that gathers, and the op's answer is held until that
 * batch is stored: while one batch is being written, the next one gathers. When a batch cannot be
 * stored, the core is put back to what is stored and every held answer becomes the error; ops that
 * come while that is being done wait for its end, but submit does not. With a
 * store that keeps nothing no answer is held and there is no commit thread.
 *
 * Threads    Callers run ops on their own thread. The timer thread fires what is due and carries
 *            on with kick and purge, a slice at a time. Completions are handed out after the lock
 *            has been given back.
 */
#ifndef BI_LOCAL_H
#define BI_LOCAL_H

#include "backend/backend.h"
#include "store/store.h"

/* Opens a queue on a store, which it then owns, also when this fails. */
int bi_local_open(const struct backend_context *context, const struct backend_ops *ops,
                  struct store *store, struct backend **out, char *error);

int bi_local_submit(struct backend *backend, bide_op *const *ops, size_t n);
bool bi_local_commit(struct backend *backend, bool lead);
int64_t bi_local_commit_age(struct backend *backend);
void bi_local_close_by(struct backend *backend, int64_t moment);
void bi_local_cancel(struct backend *backend, bide_op *op);
void bi_local_shutdown(struct backend *backend);
void bi_local_close(struct backend *backend);
void bi_local_free(struct backend *backend);

#endif
