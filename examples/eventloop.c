/* SPDX-License-Identifier: MIT */
/*
 * One thread, an event loop, and a queue that never blocks it.
 *
 * A reserve is submitted as an op. Either it finishes at once, and its job is handled here and
 * now, or it is pending, and its callback runs when poll() says that the completion queue has
 * something. A real program has its sockets in the same poll().
 */
#include <bide/bide.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { JOBS = 5 };

struct worker {
    bide *queue;
    bide_op op;
    bide_job job;
    int handled;
};

/* False when there is nothing more to take. */
static bool handle(struct worker *worker)
{
    if (worker->op.status != BIDE_OK) {
        fprintf(stderr, "%s\n", worker->op.error);
        return false;
    }
    printf("%.*s, %d ms after it was put\n", (int)worker->job.body_size,
           (const char *)worker->job.body, (int)worker->job.age_ms);
    bide_op finish = {.kind = BIDE_OP_DELETE};
    finish.lease = (bide_lease_args){.id = worker->job.id, .token = worker->job.token};
    bide_op *list[] = {&finish};
    bide_submit(worker->queue, list, 1); /* in memory it has finished when submit returns */
    bide_job_clear(&worker->job);
    return ++worker->handled < JOBS;
}

static void take(struct worker *worker)
{
    bide_op *list[] = {&worker->op};
    int pending;
    while ((pending = bide_submit(worker->queue, list, 1)) == 0) /* finished: no callback */
        if (!handle(worker))
            return;
    if (pending < 0)
        fprintf(stderr, "%s\n", bide_last_error());
}

static void taken(bide_op *op)
{
    if (handle(op->user))
        take(op->user);
}

int main(void)
{
    struct worker worker = {0};
    bide_cq *cq;
    if (bide_open("memory:", NULL, &worker.queue) != BIDE_OK || bide_cq_new(&cq) != BIDE_OK) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (int i = 0; i < JOBS; i++) {
        options.delay_ms = i * 50;
        bide_put(worker.queue, "tick", "tick", 4, &options, NULL);
    }
    const bide_slice topic = {"tick", 4};
    worker.op = (bide_op){.kind = BIDE_OP_RESERVE, .cq = cq, .done = taken, .user = &worker};
    worker.op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = 5000, .jobs = &worker.job, .job_max = 1};
    take(&worker);
    struct pollfd fds[] = {{.fd = bide_cq_fd(cq), .events = POLLIN}};
    while (worker.op.status == BIDE_PENDING) {
        poll(fds, 1, -1);
        bide_cq_drain(cq, 0);
    }
    bide_close(worker.queue);
    bide_cq_free(cq);
    return worker.handled == JOBS ? EXIT_SUCCESS : EXIT_FAILURE;
}
