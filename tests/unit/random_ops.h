/* SPDX-License-Identifier: MIT */
/*
 * random_ops - ops of every kind with random arguments, and their comparison.
 *
 * Written from the public headers alone, independently of the tables that it tests.
 */
#ifndef BI_RANDOM_OPS_H
#define BI_RANDOM_OPS_H

#include "util/hash.h"

#include "unit.h"

#include <bide/op.h>

#include <stdlib.h>
#include <string.h>

#define LIST_MAX 5

/* The source of all random values. A test sets dice.state first, so that it can be repeated. */
extern struct bi_random dice;

/* Memory that the pointers of random ops point to. */
struct op_world {
    bide_put_item puts[LIST_MAX];
    bide_put_options options[LIST_MAX];
    bide_finish_item finishes[LIST_MAX];
    bide_touch_item touches[LIST_MAX];
    bide_slice topics[LIST_MAX];
    uint32_t weights[LIST_MAX];
    bide_job jobs[LIST_MAX];
    bide_job given;
    bide_topic_stats topic_stats[LIST_MAX];
    bide_topic_policy policies[2];
    bide_event events[LIST_MAX];
    bide_stats stats;
    bide_check_report report;
    bide_announced workers[LIST_MAX];
    bide_explanation why;
    char cursor[BIDE_CURSOR_SIZE];
    bide_buf *bufs[2 * LIST_MAX];
    size_t buf_count;
};

size_t below(size_t limit);

/* Every number of significant bits is equally likely. */
uint64_t any_u64(void);
int64_t any_i64(void);
int32_t any_i32(void);
bool any_bool(void);
bide_state any_state(void);

/* NULL, empty, or up to 300 bytes. */
bide_slice any_slice(void);
void any_text(char *to, size_t room);
void any_job(bide_job *job);
void any_topic_stats(bide_topic_stats *stats);
void any_policy(bide_topic_policy *policy);
void same_policy(const bide_topic_policy *a, const bide_topic_policy *b);
void any_stats(bide_stats *stats);
void any_event(bide_event *event);
void any_announced(bide_announced *announced);
void any_explanation(bide_explanation *why);
void any_op(struct op_world *world, bide_op *op, bide_op_kind kind);

/* Frees what any_op() allocated. The op has no result, or end_answer() has freed it. */
void end_op(struct op_world *world);

#define SAME(member)      assert_int_equal(a->member, b->member)
#define SAME_TEXT(member) assert_string_equal(a->member, b->member)

void same_bufs(const bide_buf *a, const bide_buf *b);
void same_job(const bide_job *a, const bide_job *b);

/* Asserts that the arguments of b, the decoded op, are those of a, the encoded one. */
void same_arguments(const bide_op *a, const bide_op *b);

#endif
