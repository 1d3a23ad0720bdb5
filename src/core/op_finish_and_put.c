/* SPDX-License-Identifier: MIT */
/*
 * op_finish_and_put - one job ends and others are put, or nothing changes.
 *
 * Failure    All parts are prepared, in the order of the arguments, before any of them is applied.
 *            The first part that fails fails the step, and those before it are abandoned.
 * Journal    All changes are in one group, so that they commit or fail together.
 */
#include "core/core_internal.h"

#include <assert.h>

struct step {
    struct core *core;
    bide_op *op;
    struct prepared_ending ending;
    struct prepared_put *puts; /* of the items; job is NULL for one that is left out */
    uint32_t changes;          /* journal entries */
    uint64_t bytes;            /* of their bodies */
};

static bool may_skip(const bide_put_item *item, int code)
{
    return code == BIDE_EXISTS && item->options != NULL && item->options->conflict == BIDE_SKIP;
}

static void abandon(struct step *step, size_t count)
{
    bide_put_item *items = step->op->finish_and_put.items;

    for (size_t i = count; i-- > 0;)
        if (step->puts[i].job != NULL)
            bi_op_put_abandon(step->core, &items[i], &step->puts[i]);
    bi_op_finish_abandon(step->core, &step->ending);

    /* The holder of a key may have been a put of this step: another job will get its id. */
    for (size_t i = 0; i <= count && i < step->op->finish_and_put.count; i++)
        if (items[i].id >= step->core->next_id)
            items[i].id = 0;
}

static int prepare_puts(struct step *step)
{
    const bide_finish_and_put_args *args = &step->op->finish_and_put;

    for (size_t i = 0; i < args->count; i++) {
        struct prepared_put *put = &step->puts[i];
        bide_put_item *item = &args->items[i];
        put->job = NULL;

        int code = bi_op_put_prepare(step->core, step->op, item, put);
        if (code == BIDE_OK) {
            step->changes += put->holder == NULL ? 1 : 2;
            step->bytes += put->job->body_size;
        } else if (!may_skip(item, code)) {
            step->op->error_item = (uint32_t)i + 1;
            abandon(step, i);
            return code;
        }
    }

    if (bi_journal_reserve(step->core, step->changes))
        return BIDE_OK;
    abandon(step, args->count);
    return bi_core_error_code(step->op, BIDE_ENOMEM);
}

static void apply(struct step *step)
{
    struct core *core = step->core;
    bide_finish_and_put_args *args = &step->op->finish_and_put;
    struct topic *topic = topic_of(core, step->ending.job);

    bi_journal_begin_group(core, step->changes, step->bytes);
    bi_op_finish_apply(core, &step->ending);

    args->accepted = 0;
    for (size_t i = 0; i < args->count; i++) {
        bide_put_item *item = &args->items[i];
        bool skipped = step->puts[i].job == NULL;
        item->status = skipped ? BIDE_EXISTS : BIDE_OK;
        if (skipped) {
            bide_buf_unref(item->made_);
            item->made_ = NULL;
        } else {
            bi_op_put_apply(core, item, &step->puts[i]);
            args->accepted++;
        }
    }

    bi_op_finish_end(core, topic, &step->ending);
    bi_journal_end_group(core);
}

int bi_exec_finish_and_put(struct core *core, bide_op *op)
{
    bide_finish_and_put_args *args = &op->finish_and_put;
    struct step step = {.core = core, .op = op, .changes = 1};
    assert(args->count > 0 && args->count <= BIDE_BATCH_JOBS);

    core->work += args->count * OP_WORK;
    step.puts = bi_alloc_malloc(&core->alloc, args->count * sizeof(*step.puts));
    if (step.puts == NULL)
        return bi_core_error_code(op, BIDE_ENOMEM);

    int code = bi_op_finish_prepare(core, op, &step.ending);
    if (code == BIDE_OK)
        code = prepare_puts(&step);
    if (code == BIDE_OK)
        apply(&step);

    bi_alloc_free(&core->alloc, step.puts);
    /* A copy of the result that was made for the queue and not used. */
    bide_buf_unref(args->finish.made_);
    args->finish.made_ = NULL;
    return code;
}
