/* SPDX-License-Identifier: MIT */
/*
 * by_id - verbs that apply one op to each of several jobs.
 *
 * The jobs are arguments, or with "-" lines of standard input: an id, or an id, a space and the token
 * of its lease. Ops are pipelined; results are printed in the order of the jobs. A job that is rejected
 * is reported, and the others go on.
 *
 * A verb is one row: struct verb with .data = &row, .check = bi_by_id_check, .run = bi_by_id_run.
 *
 * Returns    For one job its own exit code, for several BI_EXIT_PARTIAL if any was rejected.
 */
#ifndef BI_BY_ID_H
#define BI_BY_ID_H

#include "cli/cli.h"

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
