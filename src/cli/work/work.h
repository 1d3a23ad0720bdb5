/* SPDX-License-Identifier: MIT */
/*
 * work - what the parts of `bide work` share.
 *
 *     cmd_work      the flags, and what is wrong with them
 *     work_attend   the main thread: starts the worker, waits for the end, stops
 *     work_handle   one job: has it run, and answers for it
 *     work_program  runs it by a program; work_process starts one
 *     work_hook     runs it by a web hook
 *     work_meta     what a job's program or web hook is told about it
 *     work_fate     how that ended, and what it means; work_output: what it said
 *     work_tell     lines, JSON and figures about all this; work_write: to slow readers
 *
 * Stopping   Programs are ended by us and not by the library's worker, which would give their jobs
 *            back while they still run. So its own time to stop is short, and only begun when no
 *            program runs any more. The lease is kept alive until then.
 */
#ifndef BI_WORK_H
#define BI_WORK_H

#include "cli/cli.h"
#include "cli/flag.h"
#include "cli/work/work_exit_rule.h"
#include "cli/work/work_output.h"

#include <bide/task.h>

#include <stdatomic.h>

struct work;

/* What runs jobs. */
struct work_runner {
    /* Before the first job: BI_EXIT_OK, or says what is wrong. */
    int (*open)(struct work *work);
    /* On any thread, many at a time: fills in fate (which is zeroed), and output with what is the
     * result if the job is done, and with what it has to say if not, in tail. */
    void (*run)(struct work *work, bide_context *context, const bide_slice *body,
                struct run_outcome *outcome, struct output *output, char *tail);
    /* After the last; also when open has failed. */
    void (*close)(struct work *work);
};

extern const struct work_runner bi_work_program;
extern const struct work_runner bi_work_webhook; /* with BIDE_WITH_CURL only */

#define BI_WORK_TIMEOUT_TTR (-2) /* timeout_ms: the ttr of the job */

struct work_plan {
    const struct work_runner *runner;
    uint32_t threads;
    bide_strategy strategy;
    int64_t timeout_ms; /* BIDE_FOREVER, BI_WORK_TIMEOUT_TTR */
    int64_t grace_ms;
    int64_t stop_timeout_ms; /* BIDE_FOREVER */
    int64_t retry_delay_ms;
    size_t keep_size;  /* 0: no results */
    int64_t retain_ms; /* of jobs that have no retention */
    uint64_t count;    /* 0: no limit */
    bool until_empty;
    struct exit_rules rules;

    const char *const *program; /* with its arguments */
    char path[4096];            /* where it is */

    const char *url; /* of the web hook */
    const struct words *headers;
    bool follow;
};

struct work {
    struct cli *cli;
    const struct work_plan *plan;
    const char *const *topics; /* without their weights */
    size_t topic_count;
    bide_worker *worker;
    void *state; /* the runner's */

    int end_fd;                /* readable: no more jobs are to be begun */
    int idle_fd;               /* readable: after the end, the last program may have ended */
    int stop_fd;               /* readable: programs are to end */
    int kill_fd;               /* readable: at once */
    _Atomic bool disconnected; /* there is no connection to the queue */
    _Atomic bool ending;       /* no program is begun any more */
    _Atomic uint64_t started;  /* jobs */
    _Atomic uint64_t running;  /* programs */
    _Atomic int open;          /* jobs that were begun and not answered for */
    _Atomic int exit;          /* what went wrong with ourselves */
    _Atomic uint64_t event_counts[BIDE_WORK_KINDS];
};

/* Starts, works, and stops. Answers an exit code. */
int bi_work_supervisor_run(struct work *work);

/* The handler of every topic; data is the body, arg the work. */
bide_handler_call bi_work_handler_run;

/* No more jobs are begun: for whoever notices that it makes no sense. exit: the code to end with. */
void bi_work_handler_request_stop(struct work *work, int exit);

/* Something tells us that the run of a job is to end, and the worker does not stop: fills in the fate,
 * and says it if the lease is gone. */
void bi_work_handler_set_revoked(const struct work *work, const bide_context *context,
                                 struct run_outcome *outcome);

/* How the run of a job ended that the queue has now been told of; once. False: it was not run. */
bool bi_work_handler_take_outcome(uint64_t id, struct run_outcome *outcome);

/* The handler of the worker's events; user is the work. */
void bi_work_report_event(void *user, const bide_work_event *event);
/* The figures, at the end. */
void bi_work_report_summary(const struct work *work);

/* How long a run may take; BIDE_FOREVER. And whose limit it is. */
int64_t bi_work_handler_time_limit(const struct work *work, const bide_job *job,
                                   const char **whose);

#endif
