/* SPDX-License-Identifier: MIT */
/*
 * Work that comes again and again: periodic [URL]
 *
 * Each run publishes the next one, for the next full period (a day; here: 200 ms). The moment is
 * part of the key: however often a run is repeated, and however many processes start the chain,
 * there is one job for each moment, and a chain that is already there is joined, not doubled.
 */
#include <bide/task.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PERIOD_MS = 200, RUNS = 3 }; /* 24 * 60 * 60 * 1000 */

struct cleanup {
    const char *what;
    int64_t at_ms;
};
BIDE_TYPE(cleanup, struct cleanup, BIDE_FIELD(what), BIDE_FIELD(at_ms));
BIDE_TASK(clean_up, cleanup, .topic = "clean-up", .key = "what, at_ms");

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* The run of the next full period. It is in the queue afterwards, whoever has put it there. */
static int publish_next(bide *queue, const char *what)
{
    bide_put_options options = bide_defaults(clean_up);
    options.run_at_ms = (now_ms() / PERIOD_MS + 1) * PERIOD_MS;
    struct cleanup next = {.what = what, .at_ms = options.run_at_ms};
    int code = bide_publish(queue, clean_up, next, &options, NULL);
    return code == BIDE_EXISTS ? BIDE_OK : code;
}

static int clean_up(bide_context *context, const struct cleanup *cleanup, void *arg)
{
    int *runs = arg;
    printf("cleaning up %s, due at %" PRId64 ", %" PRId64 " ms late\n", cleanup->what,
           cleanup->at_ms, now_ms() - cleanup->at_ms);
    if (++*runs == RUNS)
        return bide_context_quit(context); /* only because this is an example */
    /* Before this run is done: if the process dies in between, the run is repeated, and the
     * chain does not end. */
    if (publish_next(bide_context_queue(context), cleanup->what) != BIDE_OK)
        return bide_context_retry(context, "%s", bide_last_error());
    return BIDE_DONE;
}

int main(int argc, char **argv)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide *queue;
    bide_worker *worker;
    int runs = 0;

    options.threads = 1; /* so that `runs` needs no lock */
    if (bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue) ||
        publish_next(queue, "sessions") || bide_worker_new(queue, &options, &worker) ||
        bide_handle(worker, clean_up, clean_up, &runs) || bide_worker_run(worker)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    bide_worker_free(worker);
    bide_close(queue);
    return runs == RUNS ? EXIT_SUCCESS : EXIT_FAILURE;
}
