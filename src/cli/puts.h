/* SPDX-License-Identifier: MIT */
/*
 * puts - many jobs put in, in batches, several of them on their way at the same time.
 *
 * Whoever adds a job gives it a number (of its line, or of its file). What became of each is told
 * in the order in which they were added, by told(), from within the calls here.
 *
 * A code that no other job will escape (the disk is full, the connection broke, the queue drains)
 * sets `stopped`: what is on its way is still waited for and told, and more is not taken.
 */
#ifndef BI_PUTS_H
#define BI_PUTS_H

#include "cli/pipeline.h"
#include "cli/putline.h"

/* One job of a batch, answered. code is BIDE_OK or why not; sentence may be "". */
struct put_answer {
    uint64_t number;
    uint64_t id; /* of the job, or with BIDE_EXISTS of the one that holds the key */
    int code;
    const char *sentence;
};

typedef void bi_puts_told(void *user, const struct put_answer *answer);

struct puts;

/* BI_EXIT_OK, or says what is wrong. topic may be empty if every line has one; it and the options
 * stay where they are. */
int bi_puts_new(struct puts **out, const struct cli *cli, bide_slice topic,
                const bide_put_options *options, bi_puts_told *told, void *user);
/* Waits for what is on its way; what was not launched is dropped. */
void bi_puts_free(struct puts *puts);

/* Adds a job with the topic and options of all; takes over the reference to the body. */
void bi_puts_add(struct puts *puts, uint64_t number, bide_buf *body);
/* Adds one that has its own. */
void bi_puts_add_line(struct puts *puts, uint64_t number, struct put_line *line);

/* Sends what has gathered. */
void bi_puts_launch(struct puts *puts);
/* Sends what has gathered, and waits for all. */
void bi_puts_finish(struct puts *puts);
/* Forgets what has gathered, and waits for what is on its way. */
void bi_puts_abandon(struct puts *puts);
/* Takes the answers that are there. */
void bi_puts_look(struct puts *puts);

bool bi_puts_stopped(const struct puts *puts);
size_t bi_puts_gathered(const struct puts *puts);
/* Is something on its way? */
bool bi_puts_flying(const struct puts *puts);
/* Readable when there are answers. */
int bi_puts_fd(const struct puts *puts);

#endif
