/* SPDX-License-Identifier: MIT */
#include "cli/move.h"

#include "cli/pauses.h"

#include <string.h>

/* ---- pauses ---- */

static int copy_pause(void *user, const struct pause *pause)
{
    struct mover *mover = user;
    bool over = false;
    int exit = bi_pauses_set(mover->cli, mover->to.queue, pause, &over);
    mover->pauses += exit == BI_EXIT_OK && !over;
    return exit;
}

/* ---- jobs ---- */

/* Once something has ended it, what is under way is not worth a word. */
static void refuse(struct mover *mover, struct moved *moved, int code, const char *sentence)
{
    char subject[40];
    snprintf(subject, sizeof(subject), "job %llu", (unsigned long long)moved->id);
    moved->status = MOVED_REFUSED;
    mover->refused += mover->exit == BI_EXIT_OK && !bi_deliver_is_final(code);
    if (mover->exit == BI_EXIT_OK)
        bi_cli_refused(mover->cli, subject, code, sentence);
}

static void take_answer(void *user, struct piece *piece)
{
    struct mover *mover = user;
    struct moved *moved = &mover->moved[piece->number];
    int code = piece->op.status;
    if (code == BIDE_OK) {
        moved->status = MOVED_COPIED;
        mover->copied++;
        return;
    }
    refuse(mover, moved, code, piece->op.error);
    if (mover->exit == BI_EXIT_OK && bi_deliver_is_final(code))
        mover->exit = bi_cli_exit(code);
}

static int copy_job(void *user, bide_job *job)
{
    struct mover *mover = user;
    char error[BI_SENTENCE_SIZE];
    if (!bi_move_wants(mover, job))
        return BI_EXIT_OK;
    if (bi_move_note(mover, job) == NULL)
        return BI_EXIT_FAILED;
    size_t number = mover->count - 1;
    struct piece *piece =
        bi_relay_piece(mover->relay, sizeof(*job) + job->body_size + job->result_size);
    piece->job = *job;
    piece->number = number;
    if (bi_deliver_op(&mover->deliver, piece, error)) {
        memset(job, 0, sizeof(*job));
        bi_relay_send(mover->relay);
    } else {
        refuse(mover, &mover->moved[number], BIDE_ENOTSUP, error);
    }
    return mover->exit;
}

int bi_move_copy(struct mover *mover)
{
    int exit = bi_pauses_each(mover->cli, mover->from.queue, copy_pause, mover);
    if (exit != BI_EXIT_OK)
        return exit;
    mover->relay = bi_relay_new(mover->cli, mover->to.queue, take_answer, mover);
    if (mover->relay == NULL)
        return BI_EXIT_FAILED;
    exit = bi_source_read(&mover->from, "copying", copy_job, mover);
    bi_relay_free(mover->relay);
    mover->relay = NULL;
    return mover->exit != BI_EXIT_OK ? mover->exit : exit;
}
