/* SPDX-License-Identifier: MIT */
/*
 * pauses - which topics are paused, and until when: what a copy of a queue has besides its jobs.
 *
 *     {"kind":"pause","topic":"email","until_ms":1798153200000}
 *
 * Without until_ms the topic is paused until somebody resumes it.
 */
#ifndef BI_PAUSES_H
#define BI_PAUSES_H

#include "cli/cli.h"

#include <jansson.h>

struct pause {
    char topic[BIDE_TOPIC_MAX + 1];
    int64_t until_ms; /* 0: until it is resumed */
};

/* Is this topic paused until it is resumed? */
bool bi_pauses_is_endless(const bide_topic_stats *topic);

typedef int bi_pauses_fn(void *user, const struct pause *pause);

/* Tells each pause of a queue; an answer that is not BI_EXIT_OK ends it, and is the answer. */
int bi_pauses_foreach(const struct cli *cli, bide *queue, bi_pauses_fn *visit, void *user);

/* Pauses the topic until then; *over when that has passed. */
int bi_pauses_set(const struct cli *cli, bide *queue, const struct pause *pause, bool *expired);

json_t *bi_pauses_to_json(const struct pause *pause);
/* False with a sentence when it is none. */
bool bi_pauses_from_json(const json_t *object, struct pause *pause, char *error);

#endif
