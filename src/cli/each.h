/* SPDX-License-Identifier: MIT */
/*
 * each - a verb that does the same to each of several jobs.
 *
 * The jobs are words, or with "-" lines of standard input: an id, or an id, a space and the token
 * of its lease. Many are on their way at the same time; what became of them is said in order. One
 * that is refused is said, and the others go on.
 *
 * Answers    Of one job its own exit code; of several BI_EXIT_PARTLY if any was refused.
 */
#ifndef BI_EACH_H
#define BI_EACH_H

#include "cli/cli.h"

struct each {
    const char *did; /* "deleted", for people on a terminal */
    uint64_t token;  /* of --token: only one job then; 0: none */
    bool leased;     /* makes no sense without a token */
    int also_good;   /* an outcome that is told although it is none of BIDE_OK; 0: none */

    /* Sets the kind and all arguments of an op that is zero. What they point to stays. */
    void (*aim)(const struct each *each, bide_op *op, uint64_t id, uint64_t token);
    /* Says what became of a job that was not refused. NULL: bi_each_tell(). */
    void (*tell)(const struct each *each, const struct cli *cli, const bide_op *op, uint64_t id);
};

/* For a verb's check(): are the words ids, and is there a token where there must be one?
 * BI_EXIT_OK, or says what is wrong. */
int bi_each_check(const struct cli *cli, const struct each *each);

int bi_each_run(const struct cli *cli, const struct each *each);

/* {"id":12,"verb":"delete"}; on a terminal "job 12 deleted"; nothing elsewhere. */
void bi_each_tell(const struct each *each, const struct cli *cli, const bide_op *op, uint64_t id);

#endif
