/* SPDX-License-Identifier: MIT */
/*
 * cli - one run of the command line: arguments, queue, error messages.
 *
 * Output     Results go to standard output: formatted on a terminal, plain otherwise, and with
 *            --json one JSON value per line, whose fields never change their meaning. Errors, notes
 *            and progress go to standard error.
 * Failure    A verb returns an exit code. The function that detects an error prints it, once, by
 *            one of the functions here, which return the exit code; its callers pass the code on.
 */
#ifndef BI_CLI_H
#define BI_CLI_H

#include "cli/flag.h"
#include "util/url.h"

#include <bide/bide.h>
#include <jansson.h>

/* Exit codes, as in the man page. Codes may be added, never changed. */
enum bi_exit {
    BI_EXIT_OK = 0,
    BI_EXIT_FAILED = 1,        /* the queue, a file or the system failed */
    BI_EXIT_USAGE = 2,         /* invalid argument or secret; nothing was done */
    BI_EXIT_NOT_FOUND = 3,     /* no such job, key or topic */
    BI_EXIT_TIMED_OUT = 4,     /* timed out */
    BI_EXIT_REFUSED = 5,       /* the state of the job, its lease, or a limit does not allow it */
    BI_EXIT_NO_QUEUE = 6,      /* no server answers, or another process has the file */
    BI_EXIT_PARTIAL = 7,       /* some of several were refused, or a check failed */
    BI_EXIT_INTERRUPTED = 130, /* Ctrl-C, or 128 and the number of another signal */
    BI_EXIT_PIPE = 141,        /* the reader of the output has gone */
};

enum bi_color { BI_COLOR_AUTO, BI_COLOR_ALWAYS, BI_COLOR_NEVER };

struct verb;

struct cli {
    const struct verb *verb;
    const char *const *words; /* the arguments that are not flags, in order, ended by NULL */
    size_t word_count;
    uint64_t given; /* a bit per row of the flags of the verb: those on the command line */
    uint64_t ids[BI_WORDS_MAX]; /* the words, after bi_cli_parse_ids() */
    const char *const *program; /* arguments after "--", for BI_VERB_PROGRAM; NULL: none */

    /* Common flags. */
    const char *url;
    bool json;
    bool quiet;    /* no notes, no progress */
    bool verbose;  /* more notes */
    bool no_start; /* do not start a user server */
    enum bi_color color;

    bool out_terminal; /* standard output is one */
    bool err_terminal;
    bool creates_file; /* an open may create the file; by BI_VERB_CREATES_FILE, or by check() */
    bide *queue;       /* open, unless the verb is BI_VERB_NO_QUEUE */
    char child_url[BI_URL_MAX]; /* its URL without a secret, for child processes */
    char shown[BI_URL_MAX];     /* its URL for messages */
};

/* ---- errors; each function returns an exit code ---- */

/* Prints a usage error, "bide put: MESSAGE", and a hint to the help. */
int bi_cli_usage_error(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints an error, and returns exit. */
int bi_cli_error(const struct cli *cli, int exit, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints bide_last_error() for the code of a library call, and returns the exit code for it. Prints
 * nothing for BIDE_OK, nor if a signal has shut the queue down; then the exit code is the
 * signal's. */
int bi_cli_report_last(const struct cli *cli, int code);

/* The same with the error text of an op. subject may be NULL or ""; it is printed before the text:
 * "line 7", "job 12". */
int bi_cli_report(const struct cli *cli, const char *subject, int code, const char *message);

/* The same about a job. */
int bi_cli_report_job(const struct cli *cli, uint64_t id, int code, const char *message);

/* Returns the exit code for a code of the library. */
int bi_cli_exit_code(int code);

/* Returns true if further calls on the queue would get the same code: it failed or is closing.
 * Other codes are about one job. */
bool bi_cli_is_fatal(int code);

/* ---- notes ---- */

/* Prints a warning, also with --quiet: the result may be wrong or incomplete. */
void bi_cli_warn(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a note, with --json as {"note":"..."}; not with --quiet. */
void bi_cli_note(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints a note with --verbose only. */
void bi_cli_detail(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- confirmation ---- */

/* Asks a question on the terminal; true for y and yes. Without a terminal it is an error that names
 * --yes, and false. */
bool bi_cli_confirm(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- arguments ---- */

/* Parses a job id or token. False after a usage error. */
bool bi_cli_parse_id(const struct cli *cli, const char *word, uint64_t *id);
/* Parses all words as job ids into cli->ids. BI_EXIT_OK, or prints a usage error. */
int bi_cli_parse_ids(struct cli *cli);

/* Fails if leases on this queue end with the process that reserved: then a token is worth nothing
 * to another process. */
int bi_cli_require_leases(const struct cli *cli);

/* ---- memory and text ---- */

/* Makes room for so many items in an array, and sets its capacity. False: out of memory, and
 * nothing has changed. */
#define BI_CLI_RESERVE(array, needed, capacity) \
    bi_cli_reserve(&(array), sizeof(*(array)), (needed), &(capacity))
bool bi_cli_reserve(void *array, size_t item_size, size_t needed, size_t *capacity);

/* Formats the arguments behind `format` of a variadic function into an array. */
#define BI_CLI_FORMAT(array, format)                        \
    do {                                                    \
        va_list args_;                                      \
        va_start(args_, format);                            \
        vsnprintf((array), sizeof(array), (format), args_); \
        va_end(args_);                                      \
    } while (0)

/* ---- output ---- */

/* Flushes standard output. Returns BI_EXIT_OK; BI_EXIT_PIPE, without a message, if the reader has
 * gone; BI_EXIT_FAILED after an error message. */
int bi_cli_flush(const struct cli *cli);

/* Returns true if the reader of standard output has gone. */
bool bi_cli_is_output_closed(void);

/* Prints a value and a newline, and releases the value; NULL stands for a lack of memory. Returns
 * BI_EXIT_OK, or the exit code after an error message. */
int bi_cli_print_json(const struct cli *cli, json_t *value);

/*
 * interrupt - orderly end on Ctrl-C, SIGTERM and SIGHUP.
 *
 * A verb that waits or runs for long calls bi_interrupt_watch() when its queue is open. The first
 * signal then does not end the process: bi_interrupted() becomes true, the descriptor becomes
 * readable, and the queue is shut down, so waiting calls return BIDE_CLOSED; other calls complete.
 * The verb completes its current step, prints what is done, and returns bi_interrupt_exit(). A
 * second signal, at least half a second later, ends the process.
 */

/* Returns BI_EXIT_OK, or prints an error. queue may be NULL. Called once per process. */
int bi_interrupt_watch(const struct cli *cli, bide *queue);
/* Releases the queue, which may then be closed. main() calls it. */
void bi_interrupt_stop(void);

bool bi_interrupted(void);
/* Returns a descriptor that is readable after a signal, and must not be read; -1 before watch(). */
int bi_interrupt_fd(void);
/* Returns 128 plus the signal number. */
int bi_interrupt_exit(void);

/* Waits until the descriptor is ready for events of poll(). False with errno: EINTR after a
 * signal. */
bool bi_interrupt_wait(int fd, short events);
/* Writes all data, unless interrupted. False with errno; a part may have been written. */
bool bi_interrupt_write(int fd, const void *data, size_t size);

#endif
