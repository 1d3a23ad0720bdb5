/* SPDX-License-Identifier: MIT */
/*
 * local - a queue in this process: the core and a store, with a lock and threads around them.
 *
 * Apply, commit, reply. An op changes the core at once, under the lock. With a persistent store the
 * change belongs to the open batch, and the op is held until that batch is durable; while one batch
 * is written, the next one gathers. With a store in memory no op is held, and there is no commit
 * thread.
 *
 * Failure    If a batch cannot be written, the core is rolled back to what is stored, and every
 *            held op completes with the error. Ops that are submitted meanwhile wait for the end
 *            of the rollback; submit does not.
 * Threads    Callers run ops on their own thread. The timer thread fires deadlines and continues
 *            kick and purge in slices. Ops are completed after the lock has been released.
 */
#ifndef BI_LOCAL_H
#define BI_LOCAL_H

#include "backend/backend.h"
#include "store/store.h"

/* Opens a queue on a store. Takes ownership of the store, also on failure. */
int bi_local_open(const struct backend_context *context, const struct backend_ops *ops,
                  struct store *store, struct backend **out, char *error);

/* The functions of struct backend_ops; see there. */
int bi_local_submit(struct backend *backend, bide_op *const *ops, size_t n);
bool bi_local_commit(struct backend *backend, bool lead);
int64_t bi_commit_age(struct backend *backend);
void bi_local_set_close_deadline(struct backend *backend, int64_t deadline);
void bi_local_cancel(struct backend *backend, bide_op *op);
void bi_local_shutdown(struct backend *backend);
void bi_local_close(struct backend *backend);
void bi_local_free(struct backend *backend);

#endif
