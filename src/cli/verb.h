/* SPDX-License-Identifier: MIT */
/*
 * verb - the table of verbs. Their rows are in cmd_*.c and help.c, completion.c, user_server_start.c.
 */
#ifndef BI_VERB_H
#define BI_VERB_H

#include "cli/cli.h"
#include "cli/flag.h"

#define BI_VERB_NO_QUEUE     1u /* the verb opens queues itself, or needs none */
#define BI_VERB_PROGRAM      2u /* arguments after -- are a program */
#define BI_VERB_NO_CONFIG    4u /* do not read the config file */
#define BI_VERB_CREATES_FILE 8u /* create the file of the queue if it does not exist */

struct verb {
    const char *name;
    const char *group;        /* heading in the help */
    const char *usage;        /* arguments: "TOPIC [BODY...]" */
    const char *summary;      /* one line, lower case, without a full stop */
    const char *details;      /* text of `bide help VERB` below the flags: paragraphs, then
                            examples; ends with a newline. NULL: none */
    const struct flag *flags; /* ends with BI_FLAGS_END; NULL: none */
    size_t min, max;          /* number of arguments */
    unsigned traits;
    const void *data;     /* for check and run that several verbs share */
    bide_log_handler log; /* receives the log of the queue, user is the cli; NULL: none */
    /* Checks arguments and flags before the queue is opened, so that a mistake starts no server and
     * creates no file. Returns BI_EXIT_OK, or prints a usage error. NULL: nothing to check. */
    int (*check)(struct cli *cli);
    int (*run)(struct cli *cli); /* returns an exit code; main() flushes standard output */
};

/* The headings, in the order of the help. */
#define BI_GROUP_WORK  "Submit and process jobs"
#define BI_GROUP_LEASE "Process jobs one by one"
#define BI_GROUP_JOBS  "Change jobs"
#define BI_GROUP_QUERY "Inspect the queue"
#define BI_GROUP_TOPIC "Topics"
#define BI_GROUP_STORE "Administer the queue"
#define BI_GROUP_SELF  "About bide"

/* All verbs, in the order of the help. */
/* clang-format off */
#define BI_VERBS(X)                                                                   \
    X(put) X(work) X(wait)                                                            \
    X(reserve) X(touch) X(done) X(delete) X(release) X(fail) X(bury)                  \
    X(kick) X(update) X(cancel) X(purge)                                              \
    X(top) X(topics) X(stats) X(list) X(peek) X(job) X(events)                        \
    X(pause) X(resume)                                                                \
    X(export) X(import) X(move) X(backup) X(check) X(drain) X(ping) X(bench)          \
    X(stop)                  \
    X(help) X(completion)
/* clang-format on */

#define BI_VERB_DECLARE(name_) extern const struct verb bi_verb_##name_;
BI_VERBS(BI_VERB_DECLARE)
#undef BI_VERB_DECLARE

/* Returns the verb of an index from 0; NULL after the last. */
const struct verb *bi_verb_get(size_t index);
/* Returns the verb of a name; NULL: none. */
const struct verb *bi_verb_find(const char *name);
/* Prints the usage error of an unknown verb, with a suggestion if a name is similar. */
int bi_verb_reject(const struct cli *cli, const char *name);

/* Returns the common flags, which write to cli; NULL: for display only. */
const struct flag *bi_verb_common_flags(struct cli *cli);

/* Print the help of bide, and of a verb. */
void bi_help_print_all(FILE *to);
void bi_help_print_verb(FILE *to, const struct verb *verb);

#endif
