/* SPDX-License-Identifier: MIT */
/*
 * The simple form, one topic and one callback: simple [URL]
 *
 * Six jobs are put, to come after a while each; bide_run() calls back for each one when its time
 * has come. A second of the text is 20 ms here. This queue keeps time with a ring of slots that
 * moves every 10 ms; "sqlite:jobs.db" would also keep the jobs when the program ends.
 */
#include <bide/bide.h>
#include <bide/worker.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SECOND_MS = 20 };

static const int delays[] = {2, 15, 8, 43, 50, 28};

struct tally {
    int consumed;
    int early;
};

static int consume(bide_context *context, const bide_slice *body, void *arg)
{
    struct tally *tally = arg;
    int64_t age_ms = bide_context_job(context)->age_ms;

    printf("%s: %" PRId64 " ms after it was put\n", (const char *)body->data, age_ms);
    if (age_ms < strtol(body->data, NULL, 10) * SECOND_MS)
        tally->early++;
    if (++tally->consumed == sizeof delays / sizeof delays[0])
        return bide_context_quit(context); /* bide_run() returns; else it goes on for ever */
    return BIDE_DONE;                      /* anything else: it comes again */
}

int main(int argc, char **argv)
{
    bide *queue;
    struct tally tally = {0};
    const char *url = argc > 1 ? argv[1] : "memory:?ticker=wheel&wheel_tick=10ms";
    int code = bide_open(url, NULL, &queue);

    for (size_t i = 0; i < sizeof delays / sizeof delays[0] && code == BIDE_OK; i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        char body[32];
        int size = snprintf(body, sizeof body, "%d seconds", delays[i]);
        options.delay_ms = delays[i] * SECOND_MS; /* or a moment: options.run_at_ms */
        code = bide_put(queue, "orders", body, (size_t)size, &options, NULL);
    }
    if (code || bide_run(queue, "orders", consume, &tally)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    bide_close(queue);
    return tally.early == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
