/* SPDX-License-Identifier: MIT */
/*
 * presence - a sign at a queue that others can see, and that goes with us, however we end.
 *
 * It is a call that waits for a job of a topic that never has one: the topic is there, with
 * somebody who waits for it, as long as the call waits.
 */
#ifndef BI_PRESENCE_H
#define BI_PRESENCE_H

#include <bide/bide.h>

struct presence {
    bide *queue;
    bide_cq *cq; /* NULL: nothing was left */
    bide_op op;
    bide_job job;
    bide_slice topic;
};

#define BI_PRESENCE_TOPIC_SIZE 64

/* A topic that nobody else has, beginning with this. False: there are no random numbers. */
bool bi_presence_make_topic(char *name, const char *prefix);

/* Leaves a mark, and waits until it can be seen; topic is nobody else's, and must stay. A code of
 * the library, with bide_last_error(). */
int bi_presence_announce(struct presence *presence, bide *queue, const char *topic);
/* Takes it away; one that was not left, and is zeroed, is fine. */
void bi_presence_withdraw(struct presence *presence);

#endif
