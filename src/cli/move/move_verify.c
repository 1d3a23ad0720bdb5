/* SPDX-License-Identifier: MIT */
#include "cli/move/move.h"

#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "util/clock.h"

#define NAMED_MAX 5 /* ids that are said */

/* ---- verifying ---- */

/* Of a job that was to go by itself, and has gone, nothing is missing. */
static void count_results(struct mover *mover)
{
    int64_t now_ms = bi_clock_wall() / 1000;
    for (size_t i = 0; i < mover->count; i++) {
        struct moved *moved = &mover->moved[i];
        if (moved->status == MOVE_COPIED && moved->expires_ms != 0 && moved->expires_ms <= now_ms)
            moved->status = MOVE_EXPIRED;
        mover->verified += moved->status == MOVE_PRESENT;
        mover->missing += moved->status == MOVE_COPIED;
        mover->expired += moved->status == MOVE_EXPIRED;
    }
}

/* Those that were there before have to be there still. */
static void mark_unverified(struct mover *mover)
{
    for (size_t i = 0; i < mover->count; i++)
        if (mover->moved[i].status == MOVE_PRESENT)
            mover->moved[i].status = MOVE_COPIED;
}

/* "12, 13, 14 ..." */
static void format_missing(const struct mover *mover, char *text, size_t size)
{
    size_t used = 0;
    unsigned named = 0;
    text[0] = 0;
    for (size_t i = 0; i < mover->count && named < NAMED_MAX; i++)
        if (mover->moved[i].status == MOVE_COPIED)
            used += (size_t)snprintf(text + used, size - used, "%s%llu", named++ == 0 ? "" : ", ",
                                     (unsigned long long)mover->moved[i].id);
    if (mover->missing > NAMED_MAX)
        snprintf(text + used, size - used, " ...");
}

int bi_move_verify(struct mover *mover)
{
    char missing[32], ids[NAMED_MAX * 24 + 8];
    uint64_t lookalikes;
    mark_unverified(mover);
    int exit = bi_move_match(mover, "verifying", MOVE_COPIED, &lookalikes);
    if (exit != BI_EXIT_OK)
        return exit;
    count_results(mover);
    if (mover->missing == 0)
        return BI_EXIT_OK;
    bi_print_number(missing, mover->missing);
    format_missing(mover, ids, sizeof(ids));
    return bi_cli_error(mover->cli, BI_EXIT_PARTIAL,
                        "%s job%s of %.100s cannot be found in %.100s: %s; if nobody takes jobs "
                        "there yet, run this again",
                        missing, mover->missing == 1 ? "" : "s", mover->from_shown, mover->to_shown,
                        ids);
}

/* ---- removing ---- */

struct removing {
    struct mover *mover;
    struct progress progress;
};

/* Whoever took the job, or finished it, since it was copied, has his own plans with it. */
static void on_result(void *user, struct op_slot *slot)
{
    struct removing *removing = user;
    struct mover *mover = removing->mover;
    char subject[40];
    bi_progress_set(&removing->progress, removing->progress.done + 1);
    if (slot->op.status == BIDE_OK) {
        mover->removed++;
        return;
    }
    mover->kept++;
    snprintf(subject, sizeof(subject), "job %llu", (unsigned long long)slot->number);
    if (mover->exit != BI_EXIT_OK || slot->op.status == BIDE_NOT_FOUND)
        return;
    int exit = bi_cli_report(mover->cli, subject, slot->op.status, slot->op.error);
    if (bi_restore_op_is_fatal(slot->op.status))
        mover->exit = exit;
}

static void submit_deletes(struct mover *mover, struct ordered_pipeline *ordered_pipeline)
{
    for (size_t i = 0; i < mover->count && mover->exit == BI_EXIT_OK; i++) {
        if (mover->moved[i].status != MOVE_PRESENT)
            continue;
        if (mover->to.plain && !mover->moved[i].copied) {
            mover->unproven++;
            continue;
        }
        struct op_slot *slot = bi_ordered_pipeline_get_slot(ordered_pipeline, 0);
        slot->op.kind = BIDE_OP_DELETE;
        slot->op.lease = (bide_lease_args){.id = mover->moved[i].id};
        slot->number = mover->moved[i].id;
        bi_ordered_pipeline_submit(ordered_pipeline);
        if (bi_interrupted() && mover->exit == BI_EXIT_OK)
            mover->exit = bi_interrupt_exit();
    }
}

static void report_unproven(const struct mover *mover)
{
    char number[32];
    bool one = mover->unproven == 1;
    bi_print_number(number, mover->unproven);
    bi_cli_error(mover->cli, BI_EXIT_PARTIAL,
                 "%s job%s in %.100s before this run and may not be %s; not removed (a beanstalkd "
                 "does not tell when a job was first created; compare the queues, then delete from "
                 "%.100s with bide delete or bide purge)",
                 number, one ? " was" : "s were", mover->to_shown, one ? "a copy" : "copies",
                 mover->from_shown);
}

int bi_move_remove(struct mover *mover)
{
    struct removing removing = {.mover = mover};
    struct ordered_pipeline *ordered_pipeline =
        bi_ordered_pipeline_new(mover->cli, mover->from.queue, on_result, &removing);
    if (ordered_pipeline == NULL)
        return BI_EXIT_FAILED;
    bi_progress_begin(&removing.progress, mover->cli, "removing", mover->verified);
    submit_deletes(mover, ordered_pipeline);
    bi_ordered_pipeline_free(ordered_pipeline);
    bi_progress_end(&removing.progress);
    if (mover->exit != BI_EXIT_OK)
        return mover->exit;
    if (mover->unproven > 0)
        report_unproven(mover);
    return mover->kept > 0 || mover->unproven > 0 ? BI_EXIT_PARTIAL : BI_EXIT_OK;
}
