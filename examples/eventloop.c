/* SPDX-License-Identifier: MIT */
/*
 * One thread, an event loop, and a queue that never blocks it: eventloop [URL]
 *
 * One op is submitted again and again: it reserves a job, and when it has one it deletes it. Either
 * it finishes at once, and what follows is done here and now, or it is pending, and its callback
 * runs when poll() says that the completion queue has something. A queue in memory finishes most
 * ops at once; one in a file when they are stored. A real program has its sockets in the same
 * poll().
 */
#include <bide/bide.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { JOBS = 5 };

static const bide_slice topic = {"tick", 4};

struct worker {
    bide *queue;
    bide_op op;
    bide_job job;
    int handled;
};

static void reserve(struct worker *worker)
{
    worker->op.kind = BIDE_OP_RESERVE;
    worker->op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = 5000, .jobs = &worker->job, .job_max = 1};
}

static void finish(struct worker *worker)
{
    worker->op.kind = BIDE_OP_DELETE;
    worker->op.lease = (bide_lease_args){.id = worker->job.id, .token = worker->job.token};
}

/* The op has completed; it becomes what comes next. False when there is nothing more to do. */
static bool advance(struct worker *worker)
{
    if (worker->op.status != BIDE_OK) {
        fprintf(stderr, "%s\n", worker->op.error);
        return false;
    }
    if (worker->op.kind == BIDE_OP_RESERVE) {
        printf("%.*s, %d ms after it was put\n", (int)worker->job.body_size,
               (const char *)worker->job.body, (int)worker->job.age_ms);
        finish(worker);
        return true;
    }
    bide_job_clear(&worker->job);
    reserve(worker);
    return ++worker->handled < JOBS;
}

static void submit(struct worker *worker)
{
    bide_op *list[] = {&worker->op};
    int pending;
    while ((pending = bide_submit(worker->queue, list, 1)) == 0) /* finished: no callback */
        if (!advance(worker))
            return;
    if (pending < 0)
        fprintf(stderr, "%s\n", bide_last_error());
}

static void completed(bide_op *op)
{
    if (advance(op->user))
        submit(op->user);
}

int main(int argc, char **argv)
{
    struct worker worker = {0};
    bide_cq *cq;
    if (argc > 1 && argv[1][0] == '-') {
        fprintf(stderr, "use: eventloop [URL]\n");
        return EXIT_FAILURE;
    }
    if (bide_open(argc > 1 ? argv[1] : "memory:", NULL, &worker.queue) != BIDE_OK ||
        bide_cq_new(&cq) != BIDE_OK) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (int i = 0; i < JOBS; i++) {
        options.delay_ms = i * 50;
        bide_put(worker.queue, "tick", "tick", 4, &options, NULL);
    }
    worker.op = (bide_op){.cq = cq, .done = completed, .user = &worker};
    reserve(&worker);
    submit(&worker);
    struct pollfd fds[] = {{.fd = bide_cq_fd(cq), .events = POLLIN}};
    while (worker.op.status == BIDE_PENDING) {
        poll(fds, 1, -1);
        bide_cq_drain(cq, 0);
    }
    bide_close(worker.queue);
    bide_cq_free(cq);
    return worker.handled == JOBS ? EXIT_SUCCESS : EXIT_FAILURE;
}
