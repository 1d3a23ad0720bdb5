/* SPDX-License-Identifier: MIT */
#include "cli/move.h"

#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "util/clock.h"

#define NAMED 5 /* ids that are said */

/* ---- verifying ---- */

/* Of a job that was to go by itself, and has gone, nothing is missing. */
static void settle(struct mover *mover)
{
    int64_t now_ms = bi_clock_wall() / 1000;
    for (size_t i = 0; i < mover->count; i++) {
        struct moved *moved = &mover->moved[i];
        if (moved->status == MOVED_COPIED && moved->until_ms != 0 && moved->until_ms <= now_ms)
            moved->status = MOVED_OVER;
        mover->verified += moved->status == MOVED_THERE;
        mover->missing += moved->status == MOVED_COPIED;
        mover->over += moved->status == MOVED_OVER;
    }
}

/* Those that were there before have to be there still. */
static void doubt_all(struct mover *mover)
{
    for (size_t i = 0; i < mover->count; i++)
        if (mover->moved[i].status == MOVED_THERE)
            mover->moved[i].status = MOVED_COPIED;
}

/* "12, 13, 14 ..." */
static void name_missing(const struct mover *mover, char *text, size_t size)
{
    size_t used = 0;
    unsigned named = 0;
    text[0] = 0;
    for (size_t i = 0; i < mover->count && named < NAMED; i++)
        if (mover->moved[i].status == MOVED_COPIED)
            used += (size_t)snprintf(text + used, size - used, "%s%llu", named++ == 0 ? "" : ", ",
                                     (unsigned long long)mover->moved[i].id);
    if (mover->missing > NAMED)
        snprintf(text + used, size - used, " ...");
}

int bi_move_verify(struct mover *mover)
{
    char missing[32], ids[NAMED * 24 + 8];
    uint64_t alike;
    doubt_all(mover);
    int exit = bi_move_look_for(mover, "verifying", MOVED_COPIED, &alike);
    if (exit != BI_EXIT_OK)
        return exit;
    settle(mover);
    if (mover->missing == 0)
        return BI_EXIT_OK;
    bi_print_number(missing, mover->missing);
    name_missing(mover, ids, sizeof(ids));
    return bi_cli_failed(mover->cli, BI_EXIT_PARTLY,
                         "%s job%s of %.100s cannot be found in %.100s: %s; if nobody takes jobs "
                         "there yet, run this again",
                         missing, mover->missing == 1 ? "" : "s", mover->from_shown,
                         mover->to_shown, ids);
}

/* ---- removing ---- */

struct removing {
    struct mover *mover;
    struct progress progress;
};

/* Whoever took the job, or finished it, since it was copied, has his own plans with it. */
static void take_answer(void *user, struct piece *piece)
{
    struct removing *removing = user;
    struct mover *mover = removing->mover;
    char subject[40];
    bi_progress_set(&removing->progress, removing->progress.done + 1);
    if (piece->op.status == BIDE_OK) {
        mover->removed++;
        return;
    }
    mover->kept++;
    snprintf(subject, sizeof(subject), "job %llu", (unsigned long long)piece->number);
    if (mover->exit != BI_EXIT_OK || piece->op.status == BIDE_NOT_FOUND)
        return;
    int exit = bi_cli_refused(mover->cli, subject, piece->op.status, piece->op.error);
    if (bi_deliver_is_final(piece->op.status))
        mover->exit = exit;
}

static void remove_all(struct mover *mover, struct relay *relay)
{
    for (size_t i = 0; i < mover->count && mover->exit == BI_EXIT_OK; i++) {
        if (mover->moved[i].status != MOVED_THERE)
            continue;
        struct piece *piece = bi_relay_piece(relay, 0);
        piece->op.kind = BIDE_OP_DELETE;
        piece->op.lease = (bide_lease_args){.id = mover->moved[i].id};
        piece->number = mover->moved[i].id;
        bi_relay_send(relay);
        if (bi_interrupted() && mover->exit == BI_EXIT_OK)
            mover->exit = bi_interrupt_exit();
    }
}

int bi_move_remove(struct mover *mover)
{
    struct removing removing = {.mover = mover};
    struct relay *relay = bi_relay_new(mover->cli, mover->from.queue, take_answer, &removing);
    if (relay == NULL)
        return BI_EXIT_FAILED;
    bi_progress_begin(&removing.progress, mover->cli, "removing", mover->verified);
    remove_all(mover, relay);
    bi_relay_free(relay);
    bi_progress_end(&removing.progress);
    if (mover->exit != BI_EXIT_OK)
        return mover->exit;
    return mover->kept > 0 ? BI_EXIT_PARTLY : BI_EXIT_OK;
}
