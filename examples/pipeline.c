/* SPDX-License-Identifier: MIT */
/*
 * A chain of three steps: pipeline [URL]
 *
 * A photo is downloaded, resized to several widths, and the copies are stored. Each step puts the next
 * ones with the end of its own job, in one atomic step: if the process dies, either the job runs again
 * or its successors are there, and never both. A handler that fails puts nothing, however much it has
 * published before. So the job of every copy is put exactly once, although some steps fail at first.
 */
#include <bide/task.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { PHOTOS = 5, COPIES = 3, WIDTHS = 1000 };

struct photo {
    int32_t number;
};
struct copy {
    int32_t number;
    int32_t width;
};
BIDE_TYPE(photo, struct photo, BIDE_FIELD(number));
BIDE_TYPE(copy, struct copy, BIDE_FIELD(number), BIDE_FIELD(width));

BIDE_TASK(download, photo, .backoff_base_ms = 20);
BIDE_TASK(resize, photo, .backoff_base_ms = 20);
BIDE_TASK(store, copy, .backoff_base_ms = 20);

static atomic_int stored[PHOTOS][WIDTHS];
static atomic_int total;

static int on_download(bide_context *context, const struct photo *photo, void *arg)
{
    (void)arg;
    if (bide_context_attempt(context) == 1 && photo->number % 2 == 1)
        return bide_context_retry(context, "the camera does not answer");
    printf("photo %d is here\n", photo->number);
    return bide_context_publish(context, resize, *photo, NULL);
}

static int on_resize(bide_context *context, const struct photo *photo, void *arg)
{
    (void)arg;
    for (int32_t i = 1; i <= COPIES; i++) {
        struct copy copy = {.number = photo->number, .width = 100 * i};
        /* It fails half way: what it has published until then is not put. */
        if (i == COPIES && bide_context_attempt(context) == 1 && photo->number % 3 == 0)
            return bide_context_retry(context, "out of memory");
        int code = bide_context_publish(context, store, copy, NULL);
        if (code != BIDE_OK)
            return code;
    }
    printf("photo %d is resized\n", photo->number);
    return BIDE_DONE;
}

static int on_store(bide_context *context, const struct copy *copy, void *arg)
{
    (void)arg;
    stored[copy->number][copy->width]++;
    printf("photo %d is stored, %d wide\n", copy->number, copy->width);
    return ++total == PHOTOS * COPIES ? bide_context_quit(context) : BIDE_DONE;
}

static bool each_is_stored_once(void)
{
    for (int number = 0; number < PHOTOS; number++)
        for (int i = 1; i <= COPIES; i++)
            if (stored[number][100 * i] != 1)
                return false;
    return true;
}

int main(int argc, char **argv)
{
    bide *queue;
    bide_worker *worker;
    int code = bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue);

    for (int32_t i = 0; i < PHOTOS && code == BIDE_OK; i++)
        code = bide_publish(queue, download, (struct photo){i}, NULL, NULL);
    if (code || bide_worker_new(queue, NULL, &worker) ||
        bide_handle(worker, download, on_download, NULL) ||
        bide_handle(worker, resize, on_resize, NULL) ||
        bide_handle(worker, store, on_store, NULL) || bide_worker_run(worker)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    bide_worker_free(worker);
    bide_close(queue);
    printf("%d copies of %d photos\n", total, PHOTOS);
    return each_is_stored_once() ? EXIT_SUCCESS : EXIT_FAILURE;
}
