/* SPDX-License-Identifier: MIT */
/*
 * work - the parts of `bide work`.
 *
 *     cmd_work.c         flags and their checks
 *     work_supervisor.c  the main thread: starts the worker, waits for the end, stops
 *     work_handler.c     one job: has it run, and finishes it according to the exit rules
 *     work_program.c     runs a job by a program; work_process.c starts one
 *     work_webhook.c     runs a job by an HTTP request
 *     work_metadata.c    what the program or web hook learns about its job
 *     work_exit_rule.c   how a run ended, and what that means for the job
 *     work_output.c      the end or the beginning of what a program writes
 *     work_next.c        the jobs that a program puts with the end of its own
 *     work_report.c      lines, JSON and figures about all this, for readers that may be slow
 *
 * Stopping   Programs are stopped here and not by the library's worker, which would give their jobs
 *            back while they still run. So the worker's own stop timeout is short, and starts
 *            when no program runs. The leases are extended until then.
 */
#ifndef BI_WORK_H
#define BI_WORK_H

#include "cli/cli.h"

#include <bide/task.h>

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#define BI_WORK_NEVER INT64_MAX /* a deadline that does not come */

struct work;

/* ---- exit rules ---- */

enum run_outcome_kind {
    RUN_STATUS,  /* the program exited, the web hook answered: status */
    RUN_SIGNAL,  /* a signal that was not sent by us: status */
    RUN_TIMEOUT, /* the time limit was exceeded: after_ms */
    RUN_ERROR,   /* no answer from the web hook: text */
    /* No rules apply to these. */
    RUN_STOPPED,     /* `bide work` stops and did not wait */
    RUN_REVOKED,     /* the job was cancelled, or its lease is lost: text */
    RUN_NOT_STARTED, /* the program cannot be started at all: text */
};

struct run_outcome {
    enum run_outcome_kind kind;
    int status;
    int64_t after_ms;          /* TIMEOUT: the limit; STATUS of a web hook: Retry-After, or -1 */
    const char *limit;         /* TIMEOUT: "ttr" or "--timeout" */
    char text[BI_ERRMSG_SIZE]; /* details of the other kinds */
};

enum exit_action { ACTION_DONE, ACTION_FAIL, ACTION_RETRY, ACTION_BURY };

struct exit_rule {
    enum run_outcome_kind kind;
    int from, to;          /* statuses or signals, inclusive */
    bool with_retry_after; /* only if the answer has a Retry-After */
    enum exit_action action;
};

#define BI_WORK_EXIT_RULES_MAX 200

/* The last rule that matches wins, so the rules of the command line, which stand behind the
 * built-in ones, override them. */
struct exit_rules {
    bool http; /* statuses of HTTP, not of programs */
    size_t count;
    struct exit_rule list[BI_WORK_EXIT_RULES_MAX];
};

/* The built-in rules of programs or web hooks. */
void bi_work_exit_rule_init(struct exit_rules *rules, bool http);
/* Adds "65=bury", "1-10=retry", "signal=bury", "SIGSEGV=bury", "timeout=fail"; for web hooks
 * "404=bury", "5xx=retry", "error=retry". False: error continues a sentence about text. */
bool bi_work_exit_rule_add(struct exit_rules *rules, const char *text, char *error);
enum exit_action bi_work_exit_rule_match(const struct exit_rules *rules,
                                         const struct run_outcome *outcome);
/* "exit status 3", "killed by SIGSEGV", "killed after 1m (ttr)", "HTTP 500", or the text. */
#define BI_WORK_OUTCOME_SIZE 600
void bi_work_exit_rule_describe(char *to, const struct run_outcome *outcome, bool http);

/* ---- output of programs ---- */

/* The size of the end of the output in an error text. */
#define BI_WORK_TAIL_SIZE 900

/* The last bytes of an output of any length. Zeroed: nothing yet. */
struct tail {
    size_t size;
    bool truncated; /* there was more before */
    char data[2 * BI_WORK_TAIL_SIZE];
};

void bi_work_output_add_tail(struct tail *tail, const void *data, size_t size);
/* The last lines that fit, without the final newline; of a longer last line its end. NULs become
 * spaces. to: BI_WORK_TAIL_SIZE + 1 bytes. */
void bi_work_output_tail_text(const struct tail *tail, char *to);

/* The first bytes, up to a limit. */
struct output {
    char *data;
    size_t size, capacity;
    size_t limit;   /* 0: nothing is kept */
    bool truncated; /* there was more, or no memory for it */
};

void bi_work_output_add(struct output *output, const void *data, size_t size);
/* If the output was truncated, overwrites its end with a note that says so. */
void bi_work_output_mark_truncated(struct output *output);
void bi_work_output_done(struct output *output);
/* The first lines that fit into BI_WORK_TAIL_SIZE bytes, as bi_work_output_tail_text(). */
void bi_work_output_head(const struct output *output, char *to);

/* ---- the jobs that follow ---- */

/* What a program writes to the descriptor BIDE_NEXT_FD: a put per line, as `bide put --jsonl` reads
 * them. Each line is parsed and collected (bide_context_put()) when it is complete. Zeroed: nothing
 * yet. */
struct next_jobs {
    char *line; /* the incomplete last line */
    size_t size, capacity;
    uint64_t number;            /* of the last line that was complete */
    char error[BI_ERRMSG_SIZE]; /* the first one, with the number of its line; "": none */
};

/* On the thread of the handler. After an error the rest is ignored. */
void bi_work_next_add(struct next_jobs *next, bide_context *context, const char *data, size_t size);
/* The end: a last line needs no newline. */
void bi_work_next_end(struct next_jobs *next, bide_context *context);
void bi_work_next_done(struct next_jobs *next);

/* ---- metadata of a job ---- */

#define BI_WORK_METADATA_COUNT 13
#define BI_WORK_METADATA_SIZE  320 /* name and value */

/* Lines "BIDE_ID=12" for an environment, where a key with a NUL is base64; or "Bide-Id: 12" for
 * headers, where a key that is not visible ASCII is. Returns their number. */
size_t bi_work_metadata_format(const bide_context *context, bool header,
                               char (*lines)[BI_WORK_METADATA_SIZE]);
/* Does "NAME=value" set one of the variables above, or BIDE_URL, or BIDE_NEXT_FD? */
bool bi_work_metadata_is_reserved(const char *line);

/* ---- processes ---- */

/* A program in a process group of its own, with pipes to it. It inherits no descriptor of ours but
 * its standard ones and next_fd of the plan. */
struct process {
    pid_t pid; /* also of the group */
    int fd;    /* pidfd: readable when it has ended */
    int in;    /* its standard input; -1: closed */
    int out;   /* its standard output, if it is kept; -1: closed */
    int err;
    int next;             /* where it writes the jobs that follow; -1: closed */
    bide_slice unwritten; /* rest of the input */
    int64_t kill_at;      /* when SIGTERM is followed by SIGKILL; BI_WORK_NEVER */
    bool killed;          /* it got SIGKILL */
};

/* Starts the program of the plan. 0, or an errno and nothing is left behind. mask: its blocked
 * signals. */
int bi_work_process_start(struct process *process, const struct work *work,
                          const char *const *environment, const sigset_t *mask, bide_slice input);
/* Writes as much input as the pipe takes; closes it after the last byte, or if it has no reader. */
void bi_work_process_write_input(struct process *process);
/* Send SIGTERM or SIGKILL to the group; only before bi_work_process_reap(). The caller kills a process
 * that has not ended at kill_at. */
void bi_work_process_terminate(struct process *process, int64_t kill_at);
void bi_work_process_kill(struct process *process);
/* After it has ended: its status as of waitpid(). */
int bi_work_process_reap(const struct process *process);
void bi_work_process_close(struct process *process);

/* ---- the plan ---- */

struct work_runner {
    /* Before the first job: BI_EXIT_OK, or reports the error. */
    int (*open)(struct work *work);
    /* On any worker thread: fills outcome (after_ms is -1, the rest zeroed), output with the
     * result, and tail with the text of an error. */
    void (*run)(struct work *work, bide_context *context, const bide_slice *body,
                struct run_outcome *outcome, struct output *output, char *tail);
    /* After the last job, also if open failed. */
    void (*close)(void);
};

extern const struct work_runner bi_work_program;
extern const struct work_runner bi_work_webhook; /* only with BIDE_WITH_CURL */

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
    int64_t retain_ms; /* of jobs without a retention */
    uint64_t count;    /* 0: no limit */
    bool until_empty;
    struct exit_rules rules;

    const char *const *program; /* with its arguments */
    int next_fd;                /* its number of BIDE_NEXT_FD; -1: the queue cannot do that */
    char path[4096];            /* of the program */

    const char *url; /* of the web hook; NULL: none */
    struct words headers;
    bool follow;
};

struct work {
    struct cli *cli;
    const struct work_plan *plan;
    const char *const *topics; /* without their weights */
    size_t topic_count;
    bide_worker *worker;

    int end_fd;                /* readable: start no more jobs */
    int idle_fd;               /* readable: after the end, the last program may have ended */
    int stop_fd;               /* readable: programs must end */
    int kill_fd;               /* readable: kill them now */
    _Atomic bool disconnected; /* from the queue */
    _Atomic bool ending;       /* no program is started any more */
    _Atomic uint64_t started;  /* jobs */
    _Atomic uint64_t running;  /* programs */
    _Atomic int open;          /* jobs that were started and are not finished */
    _Atomic int exit;          /* first error of `bide work` itself */
    _Atomic uint64_t event_counts[BIDE_WORK_KINDS];
};

/* ---- supervisor ---- */

/* Starts, works and stops. Returns an exit code. */
int bi_work_supervisor_run(struct work *work);
/* Makes an eventfd readable. */
void bi_work_supervisor_notify(int fd);
/* The timeout of a poll() that ends at a deadline, at most five seconds: poll() does not count the
 * time that the machine is suspended, deadlines do. */
int bi_work_supervisor_poll_ms(int64_t until_us);

/* ---- handler ---- */

/* Handles every topic; data is the body, arg the work. */
bide_handler_call bi_work_handler_run;
/* Starts no more jobs. exit: the code to end with. */
void bi_work_handler_request_stop(struct work *work, int exit);
/* When the run of a job must end; BI_WORK_NEVER. */
int64_t bi_work_handler_deadline(const struct work *work, const bide_context *context);
/* Sets the outcome of a run that exceeded its time limit. */
void bi_work_handler_set_timeout(const struct work *work, const bide_context *context,
                                 struct run_outcome *outcome);
/* Sets the outcome of a run whose job was cancelled or whose lease is lost, and reports the
 * latter. */
void bi_work_handler_set_revoked(const struct work *work, const bide_context *context,
                                 struct run_outcome *outcome);
/* Takes the outcome of the last run of a job; false: it was not run. */
bool bi_work_handler_take_outcome(uint64_t id, struct run_outcome *outcome);

/* ---- report ---- */

/* How long a slow reader is waited for although something else is due. */
#define BI_WORK_PATIENCE_US INT64_C(200000)

/*
 * Writes all of it, in pieces of up to 4096 bytes that do not mix with those of other threads.
 * Waits for a slow reader until the worker must stop its programs, wake_fd (-1: none) is readable,
 * or until_us: a reader must neither block a stop nor a time limit. False with errno; ETIMEDOUT:
 * the rest is dropped.
 */
bool bi_work_report_write(const struct work *work, int fd, const char *data, size_t size,
                          int wake_fd, int64_t until_us);
/* As bi_cli_note(), for a reader that may be slow. */
void bi_work_report_note(const struct work *work, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Handles the events of the worker; user is the work. */
void bi_work_report_event(void *user, const bide_work_event *event);
/* The totals, at the end. */
void bi_work_report_summary(const struct work *work);

#endif
