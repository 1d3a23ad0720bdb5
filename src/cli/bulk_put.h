/* SPDX-License-Identifier: MIT */
/*
 * bulk_put - many jobs put in, in batches, several of them on their way at the same time.
 *
 * Whoever adds a job gives it a number (of its line, or of its file). What became of each is told
 * in the order in which they were added, by on_done(), from within the calls here.
 *
 * A code that no other job will escape (the disk is full, the connection broke, the queue drains)
 * sets `stopped`: what is on its way is still waited for and told, and more is not taken.
 */
#ifndef BI_BULK_PUT_H
#define BI_BULK_PUT_H

#include "cli/pipeline.h"
#include "cli/put_json.h"

/* One job of a batch, answered. code is BIDE_OK or why not; sentence may be "". */
struct put_result {
    uint64_t number;
    uint64_t id; /* of the job, or with BIDE_EXISTS of the one that holds the key */
    int code;
    const char *error;
};

typedef void bi_bulk_put_done(void *user, const struct put_result *result);

struct bulk_put;

/* BI_EXIT_OK, or says what is wrong. topic may be empty if every line has one; it and the options
 * stay where they are. */
int bi_bulk_put_new(struct bulk_put **out, const struct cli *cli, bide_slice topic,
                    const bide_put_options *options, bi_bulk_put_done *on_done, void *user);
/* Waits for what is on its way; what was not launched is dropped. */
void bi_bulk_put_free(struct bulk_put *bulk_put);

/* Adds a job with the topic and options of all; takes over the reference to the body. */
void bi_bulk_put_add(struct bulk_put *bulk_put, uint64_t number, bide_buf *body);
/* Adds one that has its own. */
void bi_bulk_put_add_json(struct bulk_put *bulk_put, uint64_t number, struct put_json *line);

/* Sends what has gathered. */
void bi_bulk_put_flush(struct bulk_put *bulk_put);
/* Sends what has gathered, and waits for all. */
void bi_bulk_put_drain(struct bulk_put *bulk_put);
/* Forgets what has gathered, and waits for what is on its way. */
void bi_bulk_put_discard(struct bulk_put *bulk_put);
/* Takes the answers that are there. */
void bi_bulk_put_poll(struct bulk_put *bulk_put);

bool bi_bulk_put_is_stopped(const struct bulk_put *bulk_put);
size_t bi_bulk_put_buffered(const struct bulk_put *bulk_put);
/* Is something on its way? */
bool bi_bulk_put_in_flight(const struct bulk_put *bulk_put);
/* Readable when there are answers. */
int bi_bulk_put_fd(const struct bulk_put *bulk_put);

#endif
