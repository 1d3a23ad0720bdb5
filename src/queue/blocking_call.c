/* SPDX-License-Identifier: MIT */
/*
 * blocking_call - submits one op and waits for it; what happens when the thread is cancelled
 * meanwhile.
 *
 * Threads    A thread can be cancelled only while the call waits for an event. Such a call cancels
 *            its op, waits for the end of it, and gives back the jobs that it reserved.
 */
#include "op/op_result.h"
#include "op/op_table.h"
#include "queue/queue.h"
#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <semaphore.h>
#include <time.h>

/* How long a cancelled call tries to give back its reservations, and the pause between tries. */
#define GIVE_BACK_US       5000000
#define GIVE_BACK_PAUSE_NS 10000000

/* A blocking call whose op is pending. */
struct call {
    struct bide *queue;
    bide_op *op;
    sem_t *completed;
};

/* Returns the semaphore of the calling thread, which is posted when the op of its call completes.
 * A thread makes one call at a time, so the value is 0 between calls. */
static sem_t *own_semaphore(void)
{
    static BI_THREAD_LOCAL sem_t semaphore;
    static BI_THREAD_LOCAL bool initialized;

    if (!initialized) {
        sem_init(&semaphore, 0, 0);
        initialized = true;
    }
    return &semaphore;
}

static void finish_call(const struct call *call)
{
    assert((call->op->private_.flags & BI_SUBMITTED) != 0);
    call->op->status = call->op->private_.status;
    bi_submit_finalize(call->op);
}

/* Gives reservations back. A store that fails is retried for a while; then the leases expire. */
static void give_back(struct bide *queue, const bide_reserve_args *reserved)
{
    assert(reserved->count <= reserved->job_max);
    int64_t until = bi_clock_boot() + GIVE_BACK_US;

    for (size_t i = 0; i < reserved->count; i++) {
        bide_op op;
        op.kind = BIDE_OP_GIVE_BACK;
        op.lease = (bide_lease_args){.id = reserved->jobs[i].id, .token = reserved->jobs[i].token};

        while (bi_blocking_call_run(queue, &op) < BIDE_OK && bi_clock_boot() < until)
            nanosleep(&(struct timespec){.tv_nsec = GIVE_BACK_PAUSE_NS}, NULL);
    }
}

/* Cleanup of a blocking call whose thread is cancelled. The op is on the stack that is being
 * unwound, so it must complete first. Jobs that it reserved in the meantime are given back. */
static void cancel_call(void *arg)
{
    struct call *call = arg;
    struct bide *queue = call->queue;
    bide_op *op = call->op;

    queue->backend->ops->cancel(queue->backend, op);
    while (sem_wait(call->completed) != 0)
        ;
    finish_call(call);

    if (op->status == BIDE_OK && bi_op_reserve_args(op) != NULL)
        give_back(queue, bi_op_reserve_args(op));

    /* The caller will never see the result. */
    if (op->status == BIDE_OK)
        bi_op_result_discard(op, BIDE_CANCELLED, bide_code_text(BIDE_CANCELLED));

    bi_queue_leave(queue);
}

/* Waits for a pending op. A thread may be cancelled here, and only here, if the op waits for an
 * event, perhaps for ever. */
static void await_completion(struct bide *queue, bide_op *op, bool cancellable, int cancel_state)
{
    struct call call = {.queue = queue, .op = op, .completed = op->private_.wake};

    pthread_cleanup_push(cancel_call, &call);
    if (cancellable)
        pthread_setcancelstate(cancel_state, NULL);
    while (sem_wait(call.completed) != 0)
        ;
    if (cancellable)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);

    finish_call(&call);
}

/* Whether the op waits for an event, as long as its timeout permits. */
static bool may_wait(bide_op *op)
{
    const int64_t *timeout_ms = bi_op_timeout(op);
    return timeout_ms != NULL && *timeout_ms != 0;
}

static inline void run_and_wait(struct bide *queue, bide_op *op)
{
    struct backend *backend = queue->backend;
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    bool may_block = backend->ops->may_block;
    bool waits = false;

    op->private_.wake = own_semaphore();
    /* Calls within a call, which handlers must not make, share the semaphore. If one of them takes
     * the post of the other, bi_submit_finalize() finds that its op has not completed. */
    op->private_.status = BIDE_PENDING;

    bi_queue_enter(queue);
    if (may_block) {
        cancel_state = bi_thread_disable_cancel();
        /* Read before the submit: a pending op belongs to the backend. */
        waits = may_wait(op);
    }

    bool pending = backend->ops->submit(backend, &op, 1) > 0;

    /* A backend without cancellation points (memory) does not write the kind and timeout of a
     * pending op, so they can be read now, and ops that complete at once are spared it. */
    if (pending && !may_block) {
        cancel_state = bi_thread_disable_cancel();
        waits = may_wait(op);
    }
    if (pending)
        await_completion(queue, op, waits, cancel_state);
    if (pending || may_block)
        bi_thread_restore_cancel(&cancel_state);
    bi_queue_leave(queue);

    op->private_.wake = NULL;
}

int bi_blocking_call_run(struct bide *queue, bide_op *op)
{
    bi_last_error_clear();
    if (queue == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: queue is NULL", bide_op_name(op->kind));
    if (bi_cq_in_callback())
        return bi_last_error_set(BIDE_ECALLBACK,
                                 "%s: a blocking call was made from a completion callback",
                                 bide_op_name(op->kind));

    op->cq = NULL;
    bi_submit_prepare(queue, op);
    if (op->status == BIDE_PENDING)
        run_and_wait(queue, op);
    else
        bi_submit_finalize(op);

    if (op->error_item != 0)
        bi_last_error_set(op->status, "item %u: %s", op->error_item - 1, op->error);
    else if (op->error[0] != 0)
        bi_last_error_set(op->status, "%s", op->error);
    return op->status;
}
