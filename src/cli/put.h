/* SPDX-License-Identifier: MIT */
/*
 * put - the parts of `bide put`.
 *
 *     cmd_put.c   flags and their checks
 *     put.c       one run: reads the input, reports ids, refusals and how far it came
 *     put_json.c  a put as a line of JSON
 */
#ifndef BI_PUT_H
#define BI_PUT_H

#include "cli/input.h"
#include "cli/print.h"

#include <bide/task.h>

/* ---- the flags of a job, of put and of schedule set ---- */

#define BI_PUT_NOT_SET INT64_MIN /* of a flag whose 0 is a value */

struct put_flags {
    int64_t priority, ttr, retries, backoff, backoff_max, expires_in, retain;
    const char *key;
};

#define BI_PUT_FLAGS_INIT                                                                      \
    {                                                                                          \
        BIDE_DEFAULT_PRIORITY, BI_PUT_NOT_SET, BI_PUT_NOT_SET, BI_PUT_NOT_SET, BI_PUT_NOT_SET, \
            BI_PUT_NOT_SET, BI_PUT_NOT_SET, NULL                                               \
    }

/* Those that both verbs describe in the same way; to: struct put_flags. */
#define BI_PUT_FLAGS(to)                                                                        \
    BI_FLAG_PRIORITY('p', "priority", &(to)->priority, "lower is more urgent (default: 1024)"), \
        BI_FLAG_DURATION('t', "ttr", &(to)->ttr,                                                \
                         "time to run (default: that of the topic or queue, 1m)"),              \
        BI_FLAG_RETRIES('r', "retries", &(to)->retries,                                         \
                        "maximum retries, or unlimited (default: that of the topic, 25)"),      \
        BI_FLAG_DURATION(0, "backoff", &(to)->backoff,                                          \
                         "delay of the first retry, then doubled (default: 5s)"),               \
        BI_FLAG_DURATION(0, "backoff-max", &(to)->backoff_max,                                  \
                         "maximum delay of a retry (default: 1h)"),                             \
        BI_FLAG_DURATION(0, "expires-in", &(to)->expires_in,                                    \
                         "remove the job if not reserved in time"),                             \
        BI_FLAG_DURATION(0, "retain", &(to)->retain, "retention of the result")

/* Sets the options, except for the expiry. limits_retries: the queue can; a beanstalkd cannot. */
void bi_put_set_options(const struct put_flags *from, bool limits_retries, bide_put_options *to);
/* A flag that is not given is 0; one that is given as 0 excludes the default of the topic. */
int64_t bi_put_given(int64_t value);

/* As of tasks, so that a job that always fails ends buried; a topic may have another default. */
static inline void bi_put_set_default_retries(bide_put_options *options)
{
    options->max_retries = BIDE_TASK_RETRIES;
    options->fallbacks = BIDE_FALLBACK_RETRIES;
}

/* ---- a put as a line of JSON ---- */

/*
 *     {"topic":"email","body":"hello","priority":10,"delay":"1h30m","key":"welcome-7"}
 *
 * The body is "body" (a string), "body_base64" (any bytes) or "body_json" (any value, stored as
 * compact JSON); one of them is required. The other names are those of bide_put_options, with
 * milliseconds as numbers; names without _ms (delay, ttr, backoff, backoff_max, retain, at,
 * expires, expires_in) take what the flags of these names take. The command line has the defaults.
 * An unknown name, a value of another type, and two names for the same option are rejected.
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

    struct ordered_pipeline *pipeline;
    struct line_status line_status; /* of the current file */
    struct progress progress;
    const char *file; /* the current one; NULL: standard input */
    uint64_t put_count, refused;
    int exit;          /* of the last failure of all puts or of a file, else of the first refusal */
    bool failed;       /* for a reason that concerns all puts */
    size_t unreadable; /* files of records that could not be read to their end */
    bool should_stop;  /* by stop_on_error, or because every put would be refused */
    int64_t started_us;
};

/* Puts everything and reports it. Returns an exit code. */
int bi_put_run(struct put_run *run);

/* ---- waiting for jobs: cmd_wait.c ---- */

/* Fails if no other process can use the queue while this one has it open: the wait would never
 * end. */
int bi_wait_check(const struct cli *cli);

/*
 * Waits for all jobs at once, and prints their results in the order given. result_expected: the
 * jobs were put to keep a result. Returns for one job: BI_EXIT_OK done, also without a result;
 * BI_EXIT_REFUSED buried; BI_EXIT_NOT_FOUND no such job, or removed before it was done;
 * BI_EXIT_TIMED_OUT. For several: BI_EXIT_PARTIAL unless all are done.
 */
int bi_wait_run(const struct cli *cli, const uint64_t *ids, size_t count, int64_t timeout_ms,
                bool result_expected);

#endif
