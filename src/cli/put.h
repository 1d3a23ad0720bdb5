/* SPDX-License-Identifier: MIT */
/*
 * put - the parts of `bide put`.
 *
 *     cmd_put.c   flags and their checks
 *     put.c       one run: reads the input, reports ids, refusals and how far it came
 *     put_json.c  a put as a line of JSON
 *     bulk_put.c  many puts, in batches, several of them in flight
 */
#ifndef BI_PUT_H
#define BI_PUT_H

#include "cli/input.h"
#include "cli/ordered_pipeline.h"
#include "cli/progress.h"

/* ---- a put as a line of JSON ---- */

/*
 *     {"topic":"email","body":"hello","priority":10,"delay":"1h30m","key":"welcome-7"}
 *
 * The body is "body" (a string), "body_base64" (any bytes) or "body_json" (any value, stored as
 * compact JSON); one of them is required. The other names are those of bide_put_options, with
 * milliseconds as numbers; names without _ms (delay, ttr, backoff, backoff_max, retain, at, expires,
 * expires_in) take what the flags of these names take. The command line has the defaults. An unknown
 * name, a value of another type, and two names for the same option are rejected.
 */
struct put_json {
    bide_put_options options; /* its key points to the one here, or to that of the defaults */
    char key[BIDE_KEY_MAX + 1];
    char topic[BIDE_TOPIC_MAX + 1];
    size_t topic_size; /* 0: none */
    bide_buf *body;    /* owned by the caller */
};

/* False: error continues "line 7: ", and there is no body. */
bool bi_put_json_parse(bide_slice text, const bide_put_options *defaults, int64_t now_ms,
                       struct put_json *line, char *error);
/* Copies a line with its key; the reference to the body moves along. */
void bi_put_json_move(struct put_json *to, const struct put_json *from);

/* ---- many puts ---- */

/* The result of one put. */
struct put_result {
    uint64_t number;   /* as given to bi_bulk_put_add() */
    uint64_t id;       /* of the job; with BIDE_EXISTS of the job that holds the key */
    int code;          /* BIDE_OK, or why it was not put */
    const char *error; /* may be "" */
};

typedef void bi_bulk_put_done(void *user, const struct put_result *result);

/*
 * Each put has a number (of its line or file). Results are reported in the order of the puts by
 * on_done(), from within the calls below.
 *
 * A code that every following put would get, too (disk full, connection lost, queue draining), stops
 * it: batches in flight are still awaited and reported, and the caller adds no more.
 */
struct bulk_put;

/* BI_EXIT_OK, or reports the error. topic may be empty if every line has one; it and the options are
 * borrowed. */
int bi_bulk_put_new(struct bulk_put **out, const struct cli *cli, bide_slice topic,
                    const bide_put_options *options, bi_bulk_put_done *on_done, void *user);
/* Waits for batches in flight; drops puts that were not sent. */
void bi_bulk_put_free(struct bulk_put *bulk_put);

/* Adds a put with the common topic and options; takes the reference to the body. */
void bi_bulk_put_add(struct bulk_put *bulk_put, uint64_t number, bide_buf *body);
/* Adds one with its own. */
void bi_bulk_put_add_json(struct bulk_put *bulk_put, uint64_t number, struct put_json *line);

/* Sends the open batch. */
void bi_bulk_put_flush(struct bulk_put *bulk_put);
/* Sends the open batch, and waits for all. */
void bi_bulk_put_drain(struct bulk_put *bulk_put);
/* Drops the open batch, and waits for those in flight. */
void bi_bulk_put_discard(struct bulk_put *bulk_put);
/* Handles completions without waiting. */
void bi_bulk_put_poll(struct bulk_put *bulk_put);

bool bi_bulk_put_is_stopped(const struct bulk_put *bulk_put);
size_t bi_bulk_put_buffered(const struct bulk_put *bulk_put);
bool bi_bulk_put_in_flight(const struct bulk_put *bulk_put);
/* Readable when there are completions. */
int bi_bulk_put_fd(const struct bulk_put *bulk_put);

/* ---- one run ---- */

enum put_form {
    BI_PUT_WHOLE, /* a body is an argument, a file, or all of standard input */
    BI_PUT_LINES,
    BI_PUT_NULLS,
    BI_PUT_JSON,
};

struct put_run {
    const struct cli *cli;
    enum put_form form;
    bide_slice topic; /* may be empty with BI_PUT_JSON */
    bide_put_options options;
    const char *const *files; /* "-": standard input */
    size_t file_count;        /* 0: the body is an argument */
    const char *body;         /* the argument; NULL: none */
    bool skip_empty, stop_on_error;
    bool print_ids;
    uint64_t *ids; /* filled with the ids, which are then not printed; NULL: not wanted */

    struct bulk_put *bulk_put;
    struct line_status line_status; /* of the current file */
    struct progress progress;
    const char *file; /* the current one; NULL: standard input */
    uint64_t put_count, refused;
    int exit;         /* of the first put that failed */
    bool failed;      /* for a reason that concerns all puts */
    bool should_stop; /* by stop_on_error */
    int64_t started_us;
};

/* Puts everything and reports it. Returns an exit code. */
int bi_put_run(struct put_run *run);

/* ---- waiting for jobs: cmd_wait.c ---- */

/* Fails if no other process can use the queue while this one has it open: the wait would never end. */
int bi_wait_check(const struct cli *cli);

/*
 * Waits for all jobs at once, and prints their results in the order given. result_expected: the jobs
 * were put to keep a result. Returns for one job: BI_EXIT_OK done, also without a result;
 * BI_EXIT_REFUSED buried; BI_EXIT_NOT_FOUND no such job, or removed before it was done;
 * BI_EXIT_TIMED_OUT. For several: BI_EXIT_PARTIAL unless all are done.
 */
int bi_wait_run(const struct cli *cli, const uint64_t *ids, size_t count, int64_t timeout_ms,
                bool result_expected);

#endif
