/* SPDX-License-Identifier: MIT */
/*
 * Workers in threads: delays, retries, and an orderly end: workers [URL]
 *
 * Three workers take jobs of one topic. A job may go wrong and is tried again later; one that goes
 * wrong too often is buried. When all are finished the queue is shut down, which ends the reserves
 * that wait; then the workers are joined, and only then is the queue closed.
 */
#include <bide/bide.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, JOBS = 20 };

static bool work(const bide_job *job)
{
    if (job->body_size >= 3 && memcmp(job->body, "bad", 3) == 0)
        return false;
    return job->failures > 0 || job->id % 4 != 0; /* every fourth needs a second try */
}

static void *run(void *arg)
{
    bide *queue = arg;
    bide_job job;
    while (bide_reserve(queue, "mail", BIDE_FOREVER, &job) == BIDE_OK) {
        if (work(&job))
            bide_done(queue, job.id, job.token, "sent", 4, 60000);
        else
            bide_fail(queue, job.id, job.token, "no answer", BIDE_KEEP, NULL, NULL);
        bide_job_clear(&job);
    }
    return NULL; /* BIDE_CLOSED: told to stop */
}

int main(int argc, char **argv)
{
    bide *queue;
    if (argc > 1 && argv[1][0] == '-') {
        fprintf(stderr, "use: workers [URL]\n");
        return EXIT_FAILURE;
    }
    if (bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue) != BIDE_OK) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    pthread_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, run, queue);

    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 2;
    options.backoff_base_ms = 20;
    uint64_t ids[JOBS];
    for (int i = 0; i < JOBS; i++) {
        options.delay_ms = i; /* not all at once */
        const char *body = i == 7 ? "bad address" : "hello";
        if (bide_put(queue, "mail", body, strlen(body), &options, &ids[i]) != BIDE_OK)
            fprintf(stderr, "%s\n", bide_last_error());
    }
    int sent = 0;
    for (int i = 0; i < JOBS; i++) {
        bide_state state = BIDE_STATE_GONE;
        bide_wait(queue, ids[i], 10000, &state, NULL);
        sent += state == BIDE_STATE_DONE;
    }
    bide_topic_stats stats;
    bide_topic_get_stats(queue, "mail", &stats);
    printf("sent %d, buried %d, after %d failures\n", sent, (int)stats.jobs.buried,
           (int)stats.total.fails);

    bide_shutdown(queue);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    bide_close(queue);
    return sent == JOBS - 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
