/* SPDX-License-Identifier: MIT */
/*
 * op_check - checks the arguments of an op, as far as that needs no state of the queue.
 *
 * One small check per kind of arguments, named by the rows of the op table. A check returns a code
 * and writes the message of the op. The items of a list are checked one by one; an invalid item fails
 * alone, and the others proceed.
 */
#ifndef BI_OP_CHECK_H
#define BI_OP_CHECK_H

#include "op/op_table.h"

/* BIDE_OK, or a code and the message of the op. The limits of body and result are in options. */
int bi_op_check(const bide_options *options, bide_op *op);

/* True for a topic name: 1 to 200 of the allowed bytes, not beginning with '-'. */
bool bi_topic_name_valid(bide_slice name);

/* The checks in the rows. */
typedef int op_check(const bide_options *options, bide_op *op);
op_check bi_op_check_put, bi_op_check_put_many, bi_op_check_restore, bi_op_check_reserve,
    bi_op_check_reserve_job, bi_op_check_done, bi_op_check_finish_many,
    bi_op_check_finish_and_reserve, bi_op_check_release, bi_op_check_fail, bi_op_check_bury,
    bi_op_check_touch, bi_op_check_touch_many, bi_op_check_kick, bi_op_check_update,
    bi_op_check_purge, bi_op_check_pause, bi_op_check_resume, bi_op_check_topic_ref,
    bi_op_check_query, bi_op_check_peek_first, bi_op_check_find, bi_op_check_wait, bi_op_check_list,
    bi_op_check_topics, bi_op_check_stats, bi_op_check_topic_stats, bi_op_check_subscribe,
    bi_op_check_events, bi_op_check_unsubscribe, bi_op_check_nothing, bi_op_check_recovered,
    bi_op_check_backup, bi_op_check_check;

#endif
