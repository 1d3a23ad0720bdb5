/* SPDX-License-Identifier: MIT */
/*
 * Long work, in pieces: transcode [URL]
 *
 * A film takes longer than its ttr, which is short so that another worker takes over soon if this
 * one dies. After each piece the handler touches the job: that gives it the ttr once more, and
 * tells it when somebody has cancelled the film. (A handler that cannot do its work in pieces says
 * time_limit_ms in its task instead; then the worker keeps the lease alive for it.)
 */
#include <bide/task.h>

#include <stdio.h>
#include <stdlib.h>

struct film {
    const char *title;
    uint32_t minutes;
};
BIDE_TYPE(film, struct film, BIDE_FIELD(title), BIDE_FIELD(minutes));
BIDE_TASK(transcode, film, .ttr_ms = 1000, .backoff_base_ms = 100, .retain_ms = 60000);

static int transcode(bide_context *context, const struct film *film, void *arg)
{
    (void)arg;
    for (uint32_t minute = 1; minute <= film->minutes; minute++) {
        /* The work of a minute; wait() ends early if the job is cancelled meanwhile. */
        bide_reason reason = bide_context_wait(context, 100);
        if (reason != BIDE_REASON_NONE || bide_context_touch(context) != BIDE_OK) {
            printf("%s: stopped after %u minutes\n", film->title, minute - 1);
            /* Here is the place to remove half a film. The answer matters only if the reason
             * was a touch that failed, or the end of the worker: then it is begun again. */
            return bide_context_retry(context, "stopped: %s",
                                      bide_reason_name(bide_context_reason(context)));
        }
        bide_context_progress(context, "minute %u of %u", minute, film->minutes);
    }
    printf("%s: all %u minutes\n", film->title, film->minutes);
    return BIDE_DONE;
}

/* A viewer changes his mind, once something has been done. */
static int cancel_later(bide *queue, uint64_t id)
{
    bide_job job;
    bool begun = false;
    while (!begun && bide_wait(queue, id, 100, NULL, NULL) == BIDE_TIMED_OUT)
        if (bide_job_stats(queue, id, &job) == BIDE_OK) {
            begun = job.progress != NULL;
            bide_job_clear(&job);
        }
    return bide_cancel(queue, id);
}

int main(int argc, char **argv)
{
    bide *queue;
    bide_worker *worker;
    uint64_t ids[2];
    bide_state first, second;

    if (bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue) ||
        bide_publish(queue, transcode, (struct film){"Metropolis", 15}, NULL, &ids[0]) ||
        bide_publish(queue, transcode, (struct film){"Nosferatu", 100000}, NULL, &ids[1]) ||
        bide_worker_new(queue, NULL, &worker) || bide_handle(worker, transcode, transcode, NULL) ||
        bide_worker_start(worker) || cancel_later(queue, ids[1]) ||
        bide_wait(queue, ids[0], 60000, &first, NULL) ||
        bide_wait(queue, ids[1], 60000, &second, NULL)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    printf("the first is %s, the second is %s\n", bide_state_name(first), bide_state_name(second));
    bide_worker_free(worker);
    bide_close(queue);
    return first == BIDE_STATE_DONE && second == BIDE_STATE_GONE ? EXIT_SUCCESS : EXIT_FAILURE;
}
