/* SPDX-License-Identifier: MIT */
/*
 * verb - what the command line can do: one verb a file, cmd_<verb>.c, all in one table.
 */
#ifndef BI_VERB_H
#define BI_VERB_H

#include "cli/cli.h"
#include "cli/flag.h"

#define BI_VERB_NO_QUEUE     1u /* opens its queues itself, or none */
#define BI_VERB_PROGRAM      2u /* what stands behind -- is a program */
#define BI_VERB_NO_CONFIG    4u /* no config file is read */
#define BI_VERB_CREATES_FILE 8u /* a file that does not exist is made */

struct verb {
    const char *name;
    const char *group;   /* the heading in the help */
    const char *usage;   /* what stands behind the name: "TOPIC [BODY...]" */
    const char *summary; /* half a sentence, without a full stop */
    const char *details; /* what `bide help VERB` says below the flags: paragraphs of lines, then
                            examples; ends with a newline. NULL: nothing */
    const struct flag *flags; /* ends with BI_FLAGS_END; NULL: none */
    size_t min, max;          /* how many words it takes */
    unsigned traits;
    bide_log_handler log; /* hears the log of the queue, user is the cli; NULL: it is not wanted */
    /* Looks at words and flags before the queue is opened, so that a slip of the pen starts no
     * server and makes no file: BI_EXIT_OK, or says what is wrong. NULL: nothing to look at. */
    int (*check)(struct cli *cli);
    int (*run)(struct cli *cli); /* answers an exit code; standard output is flushed afterwards */
};

/* The headings, in the order of the help. */
#define BI_GROUP_WORK  "Put jobs in, and have them done"
#define BI_GROUP_LEASE "Take jobs one by one, and answer for them"
#define BI_GROUP_JOBS  "Change jobs from outside"
#define BI_GROUP_QUERY "Look"
#define BI_GROUP_TOPIC "Topics"
#define BI_GROUP_STORE "The whole queue"
#define BI_GROUP_SELF  "About bide"

/* All of them, in the order of the help. */
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

/* The verb of an index, from 0 on; NULL when there are no more. */
const struct verb *bi_verb_get(size_t index);
/* The verb of a name; NULL if there is none. */
const struct verb *bi_verb_find(const char *name);
/* What somebody may have meant: one or two names; NULL if none is near. */
const char *bi_verb_suggest(const char *name);

/* The flags that every verb has, which write into this; NULL: to be shown, not read. */
const struct flag *bi_verb_common_flags(struct cli *cli);

/* What `bide help` and `bide help VERB` print. */
void bi_help_print_all(FILE *to);
void bi_help_print_verb(FILE *to, const struct verb *verb);

#endif
