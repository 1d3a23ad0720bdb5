/* SPDX-License-Identifier: MIT */
/*
 * cli - one run of the command line: what was asked for, on which queue, and how to answer.
 *
 * Output     What a verb was asked for goes to standard output: for people on a terminal, plain
 *            otherwise, and with --json one JSON value a line, whose fields never change their
 *            meaning. Everything else (errors, notes, progress) goes to standard error.
 * Failure    A verb answers an exit code. Whoever notices what is wrong says so, once, by one of
 *            the functions here, which answer the code; everybody above only passes it on.
 */
#ifndef BI_CLI_H
#define BI_CLI_H

#include "util/errmsg.h"
#include "util/url.h"

#include <bide/bide.h>

/* What scripts see. The list is in the man page, and never changes but by growing. */
enum bi_exit {
    BI_EXIT_OK = 0,
    BI_EXIT_FAILED = 1,        /* the queue, a file or the system failed */
    BI_EXIT_USAGE = 2,         /* an argument is wrong, also the secret; nothing was done */
    BI_EXIT_NOT_FOUND = 3,     /* no such job, key or topic */
    BI_EXIT_TIMED_OUT = 4,     /* nothing came in time */
    BI_EXIT_REFUSED = 5,       /* the state of the job, its lease, or a limit does not allow it */
    BI_EXIT_NO_QUEUE = 6,      /* no server answers, or another process has the file */
    BI_EXIT_PARTIAL = 7,       /* some of several were refused, or what was checked is not good */
    BI_EXIT_INTERRUPTED = 130, /* Ctrl-C, or 128 and the number of another signal */
    BI_EXIT_PIPE = 141,        /* whoever reads the output has gone */
};

enum bi_color { BI_COLOR_AUTO, BI_COLOR_ALWAYS, BI_COLOR_NEVER };

struct verb;

struct cli {
    const struct verb *verb;
    const char *const *words; /* the arguments that are no flags, in order; NULL behind the last */
    size_t word_count;
    const char *const *program; /* what stands behind "--", for verbs that want it; NULL: none */

    /* Flags that every verb has. */
    const char *url;
    bool json;
    bool quiet;    /* no notes, no progress */
    bool verbose;  /* more notes */
    bool no_start; /* never start a server */
    enum bi_color color;

    bool out_terminal; /* standard output is one */
    bool err_terminal;
    bide *queue;                /* open, unless the verb is BI_VERB_NO_QUEUE */
    char child_url[BI_URL_MAX]; /* its URL, for programs that we start */
    char shown[BI_URL_MAX];     /* the same for people, without a password */
};

/* ---- saying what is wrong; each answers an exit code ---- */

/* The arguments are wrong: "bide put: SENTENCE", and how to get help. */
int bi_cli_usage_error(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Something else than a call of the library went wrong. exit: the code to answer. */
int bi_cli_error(const struct cli *cli, int exit, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A call of the library answered this code: says bide_last_error(), or nothing when the code is
 * BIDE_OK, and answers the exit code that belongs to it. */
int bi_cli_report_last(const struct cli *cli, int code);

/* The same for an op, which has its sentence in itself. subject (may be NULL) stands before it:
 * "line 7", "job 12". */
int bi_cli_report(const struct cli *cli, const char *subject, int code, const char *message);

/* The exit code of a code of the library. */
int bi_cli_exit_code(int code);

/* ---- notes ---- */

/* The result may be wrong or incomplete: "bide VERB: warning: SENTENCE"; with --json an object. Also
 * with --quiet. */
void bi_cli_warn(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A line for whoever sits there; not with --quiet. */
void bi_cli_note(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* One that few want: with --verbose only. */
void bi_cli_detail(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- asking ---- */

/* Asks a question on the terminal; true for y and yes. False, and says what to do (--yes), when
 * nobody can be asked. */
bool bi_cli_confirm(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- arguments ---- */

/* A word that must be a job's id (or a token). Else says so, and answers false. */
bool bi_cli_parse_id(const struct cli *cli, const char *word, uint64_t *id);

/* Refuses verbs that need a lease to outlive the process that took it, where it does not: says what
 * to use instead. BI_EXIT_OK where it does. */
int bi_cli_require_leases(const struct cli *cli);

/* ---- the end ---- */

/* Writes out what is buffered for standard output. BI_EXIT_OK; BI_EXIT_PIPE, silently, when the
 * reader has gone; BI_EXIT_FAILED, with a sentence. */
int bi_cli_flush(const struct cli *cli);

#endif
