/* SPDX-License-Identifier: MIT */
/*
 * A worker that is told to stop: graceful [URL]
 *
 * bide_worker_run() waits for SIGTERM (or SIGINT). Then it takes no more jobs, and the handlers that
 * run have stop_timeout_ms to finish; jobs that nobody has begun stay in the queue for the next
 * start, or for another worker. Here the third job sends the signal.
 */
#include <bide/task.h>

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { JOBS = 20 };

static atomic_int begun, finished;

struct photo {
    int32_t number;
};
BIDE_TYPE(photo, struct photo, BIDE_FIELD(number));
BIDE_TASK(develop, photo);

static int develop(bide_context *context, const struct photo *photo, void *arg)
{
    (void)arg;
    if (++begun == 3) {
        printf("SIGTERM\n");
        raise(SIGTERM);
    }
    /* A stop is no reason to leave at once: only when its time is over does wait say STOPPING. */
    if (bide_context_wait(context, 200) != BIDE_REASON_NONE)
        return bide_context_retry(context, "stopped: no failure, somebody else begins anew");
    printf("photo %" PRId32 " is developed\n", photo->number);
    finished++;
    return BIDE_DONE;
}

int main(int argc, char **argv)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide *queue;
    bide_worker *worker;
    bide_topic_stats stats;

    options.threads = 2;
    options.stop_timeout_ms = 10000;
    int code = bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue);
    for (int32_t i = 1; i <= JOBS && code == BIDE_OK; i++)
        code = bide_publish(queue, develop, (struct photo){.number = i}, NULL, NULL);
    if (code || bide_worker_new(queue, &options, &worker) ||
        bide_handle(worker, develop, develop, NULL) || bide_worker_run(worker) ||
        bide_topic_get_stats(queue, "develop", &stats)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    printf("%d begun, %d finished; %" PRIu64 " stay in the queue\n", begun, finished,
           stats.jobs.ready);
    bide_worker_free(worker);
    bide_close(queue);
    return begun == finished && finished + (int)stats.jobs.ready == JOBS ? EXIT_SUCCESS
                                                                         : EXIT_FAILURE;
}
