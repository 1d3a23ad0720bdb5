/* SPDX-License-Identifier: MIT */
/*
 * pauses - the paused topics of a queue, for export, import and move.
 *
 *     {"kind":"pause","topic":"email","until_ms":1798153200000}
 *
 * Without until_ms the topic is paused until it is resumed.
 */
#ifndef BI_PAUSES_H
#define BI_PAUSES_H

#include "cli/cli.h"

#include <jansson.h>

struct pause {
    char topic[BIDE_TOPIC_MAX + 1];
    int64_t until_ms; /* 0: until it is resumed */
};

/* Returns true if the topic is paused until it is resumed. */
bool bi_pauses_is_endless(const bide_topic_stats *topic);

typedef int bi_pauses_fn(void *user, const struct pause *pause);

/* Calls visit for each pause of a queue, until it returns another code than BI_EXIT_OK. Returns that
 * code. */
int bi_pauses_foreach(const struct cli *cli, bide *queue, bi_pauses_fn *visit, void *user);

/* Sets a pause; *expired: its end has passed. */
int bi_pauses_set(const struct cli *cli, bide *queue, const struct pause *pause, bool *expired);

json_t *bi_pauses_to_json(const struct pause *pause);
/* False with an error text if it is invalid. */
bool bi_pauses_from_json(const json_t *object, struct pause *pause, char *error);

#endif
