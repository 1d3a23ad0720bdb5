/* SPDX-License-Identifier: MIT */
/*
 * Functions around every handler: middleware [URL]
 *
 * Each runs the rest by bide_context_next(), and may look at what that answers, or answer something
 * else. The first one that was added is the outermost. Handlers know nothing of them.
 */
#include <bide/worker.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct metrics {
    atomic_int done;
    atomic_int failed;
};

static int with_log(bide_context *context, void *arg)
{
    const bide_job *job = bide_context_job(context);
    fprintf(arg, "%s begins, attempt %u\n", job->topic, bide_context_attempt(context));
    int answer = bide_context_next(context);
    fprintf(arg, "%s answers %d\n", job->topic, answer);
    return answer;
}

static int with_time(bide_context *context, void *arg)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    int answer = bide_context_next(context);
    clock_gettime(CLOCK_MONOTONIC, &to);
    fprintf(arg, "%s took %.3f s\n", bide_context_job(context)->topic,
            (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    return answer;
}

static int with_metrics(bide_context *context, void *arg)
{
    struct metrics *metrics = arg; /* several threads at a time: atomic */
    int answer = bide_context_next(context);
    atomic_fetch_add(answer == BIDE_DONE ? &metrics->done : &metrics->failed, 1);
    return answer;
}

static int print(bide_context *context, const bide_slice *body, void *arg)
{
    (void)arg;
    if (bide_context_attempt(context) == 1)
        return bide_context_retry(context, "no paper");
    printf("%.*s\n", (int)body->size, (const char *)body->data);
    return BIDE_DONE;
}

int main(int argc, char **argv)
{
    struct metrics metrics = {0};
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide *queue;
    bide_worker *worker;
    uint64_t id;

    options.backoff_base_ms = 50;
    if (bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue) ||
        bide_worker_new(queue, NULL, &worker) || bide_worker_use(worker, with_log, stdout) ||
        bide_worker_use(worker, with_time, stdout) ||
        bide_worker_use(worker, with_metrics, &metrics) ||
        bide_worker_handle(worker, "print", print, NULL) || bide_worker_start(worker) ||
        bide_put(queue, "print", "a page", 6, &options, &id) ||
        bide_wait(queue, id, 30000, NULL, NULL)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    bide_worker_free(worker);
    bide_close(queue);
    return metrics.done == 1 && metrics.failed == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
