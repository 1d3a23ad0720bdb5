/* SPDX-License-Identifier: MIT */
#include "cli/move/move.h"

#include "cli/pauses.h"

#include <string.h>

/* ---- pauses ---- */

static int copy_pause(void *user, const struct pause *pause)
{
    struct mover *mover = user;
    bool expired = false;
    int exit = bi_pauses_set(mover->cli, mover->to.queue, pause, &expired);
    mover->pauses += exit == BI_EXIT_OK && !expired;
    return exit;
}

/* ---- jobs ---- */

/* Once something has ended it, what is under way is not worth a word. */
static void refuse(struct mover *mover, struct moved *moved, int code, const char *sentence)
{
    char subject[40];
    snprintf(subject, sizeof(subject), "job %llu", (unsigned long long)moved->id);
    moved->status = MOVE_REFUSED;
    mover->refused += mover->exit == BI_EXIT_OK && !bi_restore_op_is_fatal(code);
    if (mover->exit == BI_EXIT_OK)
        bi_cli_report(mover->cli, subject, code, sentence);
}

static void on_result(void *user, struct op_slot *slot)
{
    struct mover *mover = user;
    struct moved *moved = &mover->moved[slot->number];
    int code = slot->op.status;
    if (code == BIDE_OK) {
        moved->status = MOVE_COPIED;
        moved->copied = true;
        mover->copied++;
        return;
    }
    refuse(mover, moved, code, slot->op.error);
    if (mover->exit == BI_EXIT_OK && bi_restore_op_is_fatal(code))
        mover->exit = bi_cli_exit_code(code);
}

static int copy_job(void *user, bide_job *job)
{
    struct mover *mover = user;
    char error[BI_ERRMSG_SIZE];
    if (!bi_move_is_eligible(mover, job))
        return BI_EXIT_OK;
    if (bi_move_add(mover, job) == NULL)
        return BI_EXIT_FAILED;
    size_t number = mover->count - 1;
    struct op_slot *slot = bi_ordered_pipeline_get_slot(
        mover->ordered_pipeline, sizeof(*job) + job->body_size + job->result_size);
    slot->job = *job;
    slot->number = number;
    if (bi_restore_op_build(&mover->restore_target, slot, error)) {
        memset(job, 0, sizeof(*job));
        bi_ordered_pipeline_submit(mover->ordered_pipeline);
    } else {
        refuse(mover, &mover->moved[number], BIDE_ENOTSUP, error);
    }
    return mover->exit;
}

int bi_move_copy(struct mover *mover)
{
    int exit = bi_pauses_foreach(mover->cli, mover->from.queue, copy_pause, mover);
    if (exit != BI_EXIT_OK)
        return exit;
    mover->ordered_pipeline =
        bi_ordered_pipeline_new(mover->cli, mover->to.queue, on_result, mover);
    if (mover->ordered_pipeline == NULL)
        return BI_EXIT_FAILED;
    exit = bi_job_scan_read(&mover->from, "copying", copy_job, mover);
    bi_ordered_pipeline_free(mover->ordered_pipeline);
    mover->ordered_pipeline = NULL;
    return mover->exit != BI_EXIT_OK ? mover->exit : exit;
}
