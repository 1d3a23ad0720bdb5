/* SPDX-License-Identifier: MIT */
/*
 * presence - a mark at a queue that other clients can see and that ends with this process.
 *
 * The mark is a reserve that waits for a job of a topic that never has one. As long as it waits, the
 * topic exists and its statistics show a waiting client; when the process ends, however it ends,
 * the server drops the reserve and the topic.
 */
#ifndef BI_PRESENCE_H
#define BI_PRESENCE_H

#include "cli/cli.h"

/* The prefix of topics that exist only to find something out. */
#define BI_PRESENCE_PROBE_PREFIX "bide-probe-"
#define BI_PRESENCE_TOPIC_SIZE   64

struct presence {
    bide *queue;
    bide_cq *cq; /* NULL: not announced */
    bide_op op;
    bide_job job;
    char name[BI_PRESENCE_TOPIC_SIZE];
    bide_slice topic; /* name */
};

/* Writes the prefix (at most 24 characters) and a random suffix: a topic that no one else has. */
void bi_presence_make_topic(char name[BI_PRESENCE_TOPIC_SIZE], const char *prefix);

/* Announces a new topic with this prefix, and waits until other clients can see it. Returns a code
 * of the library, with bide_last_error(). The presence must not be moved; withdraw it also if this
 * fails. */
int bi_presence_announce(struct presence *presence, bide *queue, const char *prefix);
/* Accepts a zeroed presence. */
void bi_presence_withdraw(struct presence *presence);

/* Are both handles the same queue, whatever their URLs? BI_EXIT_OK, or reports what failed. */
int bi_presence_is_same_queue(const struct cli *cli, bide *one, bide *other, bool *same);

#endif
