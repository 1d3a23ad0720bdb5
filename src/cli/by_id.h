/* SPDX-License-Identifier: MIT */
/*
 * by_id - a verb that does the same to each of several jobs.
 *
 * The jobs are words, or with "-" lines of standard input: an id, or an id, a space and the token
 * of its lease. Many are on their way at the same time; what became of them is said in order. One
 * that is refused is said, and the others go on.
 *
 * Answers    Of one job its own exit code; of several BI_EXIT_PARTIAL if any was refused.
 */
#ifndef BI_BY_ID_H
#define BI_BY_ID_H

#include "cli/cli.h"

struct id_verb {
    const char *past_tense; /* "deleted", for people on a terminal */
    uint64_t token;         /* of --token: only one job then; 0: none */
    bool requires_token;    /* makes no sense without a token */
    int accepted_status;    /* an outcome that is told although it is none of BIDE_OK; 0: none */

    /* Sets the kind and all arguments of an op that is zero. What they point to stays. */
    void (*build_op)(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token);
    /* Says what became of a job that was not refused. NULL: bi_by_id_print(). */
    void (*print)(const struct id_verb *id_verb, const struct cli *cli, const bide_op *op,
                  uint64_t id);
};

/* For a verb's check(): are the words ids, and is there a token where there must be one?
 * BI_EXIT_OK, or says what is wrong. */
int bi_by_id_check(const struct cli *cli, const struct id_verb *id_verb);

int bi_by_id_run(const struct cli *cli, const struct id_verb *id_verb);

/* {"id":12,"verb":"delete"}; on a terminal "job 12 deleted"; nothing elsewhere. */
void bi_by_id_print(const struct id_verb *id_verb, const struct cli *cli, const bide_op *op,
                    uint64_t id);

#endif
