/* SPDX-License-Identifier: MIT */
/* What produce.c and consume.c have to agree on: the task, its data, and its result. */
#ifndef THUMBNAIL_H
#define THUMBNAIL_H

#include <bide/task.h>

struct picture {
    const char *path;
    uint16_t width;
    uint16_t height;
};
BIDE_TYPE(picture, struct picture, BIDE_FIELD(path), BIDE_FIELD(width), BIDE_FIELD(height));
BIDE_TASK(make_thumbnail, picture, .topic = "make-thumbnail", .max_retries = 3, .ttr_ms = 10000,
          .retain_ms = 60000);

struct thumbnail {
    const char *path;
    int64_t made_by; /* which process */
};
BIDE_TYPE(thumbnail, struct thumbnail, BIDE_FIELD(path), BIDE_FIELD(made_by));

#endif
