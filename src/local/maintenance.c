/* SPDX-License-Identifier: MIT */
/*
 * maintenance - the queue of backups and checks, which the maintenance thread executes.
 *
 * A check has three parts: the store checks its file, the store is compared with the core
 * (store_verify.c), and the core checks itself.
 */
#include "local/local_internal.h"
#include "util/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Hash buckets that one slice of a check of the core visits. */
#define SLICE_BUCKETS 256

bool bi_maintenance_handles(const struct local *local, const bide_op *op)
{
    return local->persistent && bi_op_is(op, OP_MAINTENANCE);
}

/* ---- adding and cancelling ---- */

int bi_maintenance_enqueue(struct local *local, bide_op *op)
{
    assert(bi_maintenance_handles(local, op));
    if (!bi_local_can_wait(op))
        return bi_local_reject(op, BIDE_EINVAL, "the op takes long and names no completion queue");
    if (bi_op_is(op, OP_EXCLUSIVE) && local->check_op != NULL)
        return bi_local_reject(op, BIDE_EBUSY, bi_core_check_busy);

    int code = bi_local_backlog_add(local, op, NULL);
    if (code != BIDE_PENDING)
        return code;
    if (bi_op_is(op, OP_EXCLUSIVE))
        local->check_op = op;
    op->private_.flags |= BI_MAINTENANCE_QUEUED;
    bi_op_fifo_push(&local->maintenance_ops, op);
    pthread_cond_signal(&local->maintenance_work);
    return BIDE_PENDING;
}

bide_op *bi_maintenance_pop(struct local *local)
{
    bide_op *op = bi_op_fifo_pop(&local->maintenance_ops);
    if (op != NULL)
        op->private_.flags &= ~BI_MAINTENANCE_QUEUED;
    return op;
}

void bi_maintenance_abandon_backup(struct local *local, int code)
{
    bide_op *op = local->active_maintenance_op;
    if (op == NULL || !local->backup_running)
        return;

    local->active_maintenance_op = NULL;
    bi_op_count_remove(&local->backlog, op);
    bi_local_complete_with(local, op, code);
}

bool bi_maintenance_cancel(struct local *local, bide_op *op)
{
    /* A store that is not persistent is checked by the core, in slices on the timer thread. */
    bool sliced = bi_core_is_checking(local->core, op);
    if (op == local->active_maintenance_op) {
        /* The maintenance thread polls this flag. It completes a check, whose report it writes. */
        local->store->check_cancelled = true;
        bi_maintenance_abandon_backup(local, BIDE_CANCELLED);
        return true;
    }
    if (!sliced && (op->private_.flags & BI_MAINTENANCE_QUEUED) == 0)
        return false;

    bi_op_fifo_remove(sliced ? &local->sliced : &local->maintenance_ops, op);
    op->private_.flags &= ~BI_MAINTENANCE_QUEUED;
    if (!sliced)
        bi_op_count_remove(&local->backlog, op);
    if (op == local->check_op)
        local->check_op = NULL;
    bi_slice_abandon(local->core, op);
    bi_local_complete_with(local, op, BIDE_CANCELLED);
    return true;
}

/* ---- backups and checks ---- */

/* Checks the core's own structures, a slice at a time. NULL, or the first fault. */
static const char *check_core(struct local *local)
{
    const char *fault = NULL;
    uint64_t cursor = 0;
    bool end = false;
    while (!end && fault == NULL && !bi_store_check_stopped(local->store)) {
        bi_local_lock(local);
        fault = bi_core_check_slice(local->core, &cursor, SLICE_BUCKETS, &end);
        pthread_mutex_unlock(&local->lock);
    }
    return fault;
}

static int run_check(struct local *local, bide_check_report *report, char *error)
{
    struct store_report found = {.jobs = 0};
    memset(report, 0, sizeof(*report));

    int code = local->store->ops->check(local->store, &found, report->problem);
    report->jobs = found.jobs;
    report->damaged = found.damaged;

    /* BIDE_EIO means that the store has found damage. The check continues and reports the rest,
     * too. */
    if (code != BIDE_OK && code != BIDE_EIO) {
        bi_text_copy(error, report->problem);
        return code;
    }

    bi_store_verify_check(local, report);
    const char *fault = check_core(local);

    if (bi_store_check_stopped(local->store)) {
        code = local->store->stopping ? BIDE_CLOSED : BIDE_CANCELLED;
        return bi_error_set_code(error, code);
    }

    if (fault != NULL && report->problem[0] == 0)
        bi_text_copy(report->problem, fault);
    return BIDE_OK;
}

void bi_maintenance_execute(struct local *local, bide_op *op)
{
    assert(local->active_maintenance_op == NULL && !local->backup_running);
    char error[BIDE_ERROR_SIZE] = "";
    bool is_backup = op->kind == BIDE_OP_BACKUP;
    /* A backup that is abandoned may outlive its op. */
    char *path = is_backup ? strdup(op->backup.path) : NULL;
    int code;

    local->active_maintenance_op = op;
    local->backup_running = is_backup;
    pthread_mutex_unlock(&local->lock);

    if (!is_backup)
        code = run_check(local, op->check.report, error);
    else if (path != NULL)
        code = local->store->ops->backup(local->store, path, error);
    else
        code = BIDE_ENOMEM;

    bi_local_lock(local);
    /* A cancel may have been requested after the last poll. It must not stop the next check. */
    local->store->check_cancelled = false;
    local->backup_running = false;
    if (local->active_maintenance_op == NULL) {
        pthread_mutex_unlock(&local->lock);
        /* The caller of an abandoned backup was told that there is no copy. */
        if (is_backup && code == BIDE_OK)
            unlink(path);
        free(path);
        bi_local_lock(local);
        return;
    }

    assert(op == local->active_maintenance_op);
    if (op == local->check_op)
        local->check_op = NULL;
    local->active_maintenance_op = NULL;
    bi_op_count_remove(&local->backlog, op);

    op->private_.hold = 0;
    op->private_.status =
        code == BIDE_OK ? code : bi_local_reject(op, code, error[0] == 0 ? NULL : error);
    bi_op_fifo_push(&local->completed, op);

    bi_local_unlock(local);
    free(path);
    bi_local_lock(local);
}
