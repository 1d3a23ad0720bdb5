/* SPDX-License-Identifier: MIT */
/*
 * Publishes work that another process does: produce [URL], see consume.c
 *
 * Everything is published first, and waited for afterwards: so many workers can be busy with it.
 */
#include "thumbnail.h"

#include <stdio.h>
#include <stdlib.h>

enum { PICTURES = 10 };

/* Answers whether there is a thumbnail now. */
static bool show(bide *queue, uint64_t id)
{
    bide_state state;
    bide_buf *json = NULL;
    struct thumbnail *made;

    if (bide_wait(queue, id, 60000, &state, &json) ||
        bide_decode(thumbnail, bide_buf_data(json), bide_buf_size(json), &made)) {
        fprintf(stderr, "job %llu: %s\n", (unsigned long long)id, bide_last_error());
        bide_buf_unref(json);
        return false;
    }
    printf("job %llu: %s by process %lld\n", (unsigned long long)id, made->path,
           (long long)made->made_by);
    bide_decoded_free(made);
    bide_buf_unref(json);
    return true;
}

int main(int argc, char **argv)
{
    bide *queue;
    uint64_t ids[PICTURES];
    int made = 0;

    int code = bide_open(argc > 1 ? argv[1] : "beanstalk://127.0.0.1:11300", NULL, &queue);
    for (int i = 0; i < PICTURES && code == BIDE_OK; i++) {
        char path[32];
        snprintf(path, sizeof path, "holiday/%02d.jpg", i + 1);
        struct picture picture = {.path = path, .width = 6000, .height = 4000};
        code = bide_publish(queue, make_thumbnail, picture, NULL, &ids[i]);
    }
    if (code != BIDE_OK) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    for (int i = 0; i < PICTURES; i++)
        made += show(queue, ids[i]);
    bide_close(queue);
    return made == PICTURES ? EXIT_SUCCESS : EXIT_FAILURE;
}
