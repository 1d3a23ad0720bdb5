/* SPDX-License-Identifier: MIT */
/*
 * A worker in a process of its own: consume [URL], with produce.c and a bided between them
 *
 *     bided --url memory: &
 *     consume beanstalk://127.0.0.1:11300 &
 *     produce beanstalk://127.0.0.1:11300
 *
 * Start as many as you like, on as many machines. Each runs until SIGTERM or SIGINT; when one dies,
 * its jobs are done by another as soon as their ttr is over.
 */
#include "thumbnail.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int make_thumbnail(bide_context *context, const struct picture *picture, void *arg)
{
    char path[4096];
    (void)arg;
    int size = snprintf(path, sizeof path, "%s.%dx%d", picture->path, picture->width / 10,
                        picture->height / 10);
    if (size < 0 || (size_t)size >= sizeof path)
        return bide_context_bury(context, "the path is too long");
    struct thumbnail made = {.path = path, .made_by = getpid()};
    return bide_context_result_as(context, thumbnail, made);
}

/* Called from several threads at a time; printf() locks by itself. */
static void print_event(void *user, const bide_work_event *event)
{
    const char *name = bide_work_name(event->kind);
    const char *colon = event->text[0] != 0 ? ": " : "";
    (void)user;
    if (event->id == 0) /* it is about the queue: starved, fed */
        printf("%s%s%s\n", name, colon, event->text);
    else
        printf("job %llu of %s %s%s%s\n", (unsigned long long)event->id, event->topic, name, colon,
               event->text);
}

int main(int argc, char **argv)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide *queue;
    bide_worker *worker;

    setvbuf(stdout, NULL, _IOLBF, 0);
    options.threads = 4;
    options.event = print_event;
    if (bide_open(argc > 1 ? argv[1] : "beanstalk://127.0.0.1:11300", NULL, &queue) ||
        bide_worker_new(queue, &options, &worker) ||
        bide_handle(worker, make_thumbnail, make_thumbnail, NULL) || bide_worker_run(worker)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    printf("stopped\n");
    bide_worker_free(worker);
    bide_close(queue);
    return EXIT_SUCCESS;
}
