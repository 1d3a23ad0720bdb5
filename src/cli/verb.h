/* SPDX-License-Identifier: MIT */
/*
 * verb - the table of verbs, and the help.
 *
 * The rows are in cmd_*.c, completion.c, user_server.c and verb.c. Help, completion and the number
 * of arguments come from them. The text of `bide help VERB` below the flags is in help.txt.
 */
#ifndef BI_VERB_H
#define BI_VERB_H

#include "cli/cli.h"

#define BI_VERB_NO_QUEUE     1u  /* the verb opens queues itself, or needs none */
#define BI_VERB_PROGRAM      2u  /* arguments after -- are a program */
#define BI_VERB_NO_CONFIG    4u  /* do not read the config file */
#define BI_VERB_CREATES_FILE 8u  /* create the file of the queue if it does not exist */
#define BI_VERB_COUNTS_WORDS 16u /* check() counts the arguments: the usage does not tell all */
#define BI_VERB_INTERRUPT    32u /* watch for signals; one shuts the queue down, so that calls end */
#define BI_VERB_FINISH       64u /* watch for signals, but the queue stays usable after one */

struct verb {
    const char *name;
    const char *usage;        /* arguments: "TOPIC [BODY...]"; their number is checked */
    const char *summary;      /* one line, lower case, without a full stop */
    const struct flag *flags; /* ends with BI_FLAGS_END; NULL: none */
    unsigned traits;
    const void *data;     /* for check and run that several verbs share */
    bide_log_handler log; /* receives the log of the queue, user is the cli; NULL: none */
    /* Checks arguments and flags before the queue is opened, so that a mistake starts no server and
     * creates no file. Returns BI_EXIT_OK, or prints a usage error. NULL: nothing to check. */
    int (*check)(struct cli *cli);
    int (*run)(struct cli *cli); /* returns an exit code; main() flushes standard output */
};

/* All verbs under their headings, in the order of the help. */
/* clang-format off */
#define BI_VERBS(HEADING, X)                                                          \
    HEADING("Submit and process jobs")                                                \
    X(put) X(work) X(wait)                                                            \
    HEADING("Put jobs at recurring times")                                            \
    X(schedule)                                                                       \
    HEADING("Process jobs one by one")                                                \
    X(reserve) X(touch) X(done) X(delete) X(release) X(fail) X(bury)                  \
    HEADING("Change jobs")                                                            \
    X(kick) X(update) X(cancel) X(purge)                                              \
    HEADING("Inspect the queue")                                                      \
    X(top) X(topics) X(stats) X(list) X(peek) X(job) X(why) X(workers) X(events)      \
    HEADING("Topics")                                                                 \
    X(topic) X(pause) X(resume)                                                                \
    HEADING("Administer the queue")                                                   \
    X(export) X(import) X(move) X(backup) X(check) X(drain) X(ping) X(bench)          \
    HEADING("About bide")                                                             \
    X(stop) X(help) X(completion)
/* clang-format on */

#define BI_VERB_NO_HEADING(text_)
#define BI_VERB_DECLARE(name_) extern const struct verb bi_verb_##name_;
BI_VERBS(BI_VERB_NO_HEADING, BI_VERB_DECLARE)
#undef BI_VERB_DECLARE

/* A part of help.txt, or a completion script; tools/embed.awk makes a table of them, which ends
 * with the name NULL. */
struct embedded_text {
    const char *name, *text;
};
extern const struct embedded_text bi_embedded_texts[];
/* Returns the text of a name, which must exist. */
const char *bi_verb_text(const char *name);

/* Returns the verb of an index from 0; NULL after the last. */
const struct verb *bi_verb_get(size_t index);
/* Returns the verb of a name; NULL: none. */
const struct verb *bi_verb_find(const char *name);
/* Prints the usage error of an unknown verb, with a suggestion if a name is similar. */
int bi_verb_reject(const struct cli *cli, const char *name);

#define BI_USAGE_WORDS_MAX 8
#define BI_USAGE_WORD_SIZE 64

/* The arguments in a usage, in order, up to the first flag or alternative usage. */
struct usage {
    char name[BI_USAGE_WORDS_MAX][BI_USAGE_WORD_SIZE]; /* "TOPIC", "on|off" */
    size_t count;
    size_t required; /* those without brackets */
    bool repeats;    /* the last argument may be repeated */
};
void bi_verb_parse_usage(struct usage *usage, const char *text);

/* Checks the number of arguments. BI_EXIT_OK, or prints a usage error. */
int bi_verb_check_words(const struct cli *cli, size_t min, size_t max);

/* Returns the common flags, which write to cli; NULL: for display only. */
const struct flag *bi_verb_common_flags(struct cli *cli);

/* Print the help of bide, and of a verb. */
void bi_verb_print_help(FILE *to);
void bi_verb_print_verb_help(FILE *to, const struct verb *verb);

/*
 * by_id - verbs that apply one op to each of several jobs.
 *
 * The jobs are arguments, or with "-" lines of standard input: an id, or an id, a space and the
 * token of its lease. Ops are pipelined; results are printed in the order of the jobs. A job that
 * is rejected is reported, and the others go on.
 *
 * A verb is one row: struct verb with .data = &row, .check = bi_by_id_check, .run = bi_by_id_run.
 *
 * Returns    For one job its own exit code, for several BI_EXIT_PARTIAL if any was rejected.
 */

enum by_id_token {
    BI_TOKEN_NONE,     /* the op has no lease */
    BI_TOKEN_OPTIONAL, /* without a token the op applies to jobs that are not reserved */
    BI_TOKEN_REQUIRED,
};

struct id_verb {
    const bide_op *op;      /* its arguments, except id and token, are set by flags and check */
    const char *past_tense; /* "deleted", printed on a terminal */
    enum by_id_token token;
    int accepted_status; /* a status besides BIDE_OK whose result is printed; 0: none */

    /* Checks the flags; BI_EXIT_OK or the code of a usage error. NULL: nothing to check. */
    int (*check)(const struct cli *cli);
    /* Completes the op when the queue is open; returns an exit code. NULL: nothing to do. */
    int (*prepare)(const struct cli *cli);
    /* Prints the result for a job that was not rejected. NULL: "job 12 deleted". */
    void (*print)(const struct cli *cli, const bide_op *op, uint64_t id);
};

/* The value of --token, which all these verbs share; 0: not given. */
extern uint64_t bi_by_id_token;

#define BI_FLAG_TOKEN                                  \
    BI_FLAG_ID('t', "token", "TOKEN", &bi_by_id_token, \
               "token of the lease, as printed by \"bide reserve\"")

/* check and run of a struct verb whose data is a struct id_verb. */
int bi_by_id_check(struct cli *cli);
int bi_by_id_run(struct cli *cli);

#endif
