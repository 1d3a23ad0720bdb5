/* SPDX-License-Identifier: MIT */
#include "cli/move.h"

#include "util/clock.h"

#include <stdlib.h>

static int no_memory(const struct mover *mover)
{
    return bi_cli_failed(mover->cli, BI_EXIT_FAILED, "there is not enough memory");
}

/* ---- jobs of FROM ---- */

bool bi_move_wants(struct mover *mover, bide_job *job)
{
    if (job->state == BIDE_STATE_RESERVED && mover->skip_reserved) {
        mover->reserved++;
        return false;
    }
    bool over = bi_deliver_over(job, bi_clock_wall() / 1000) != NULL;
    mover->over += over;
    return !over;
}

static int64_t until_of(const bide_job *job)
{
    bool waits = job->state == BIDE_STATE_READY || job->state == BIDE_STATE_DELAYED;
    if (job->state == BIDE_STATE_DONE)
        return bi_clock_wall() / 1000 + job->left_ms;
    return waits && job->reserves == 0 ? job->expires_at_ms : 0;
}

struct moved *bi_move_note(struct mover *mover, const bide_job *job)
{
    if (mover->count == mover->room) {
        size_t room = mover->room == 0 ? 1024 : mover->room * 2;
        struct moved *moved = realloc(mover->moved, room * sizeof(*moved));
        if (moved == NULL) {
            no_memory(mover);
            return NULL;
        }
        mover->moved = moved;
        mover->room = room;
    }
    size_t size = bi_source_size(job);
    struct moved *moved = &mover->moved[mover->count++];
    *moved = (struct moved){
        .print = bi_fingerprint(&mover->key, mover->deliver.plain, job),
        .until_ms = until_of(job),
        .id = job->id,
        .size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
        .status = MOVED_WANTED,
    };
    return moved;
}

/* ---- what TO has ---- */

struct counting {
    struct mover *mover;
    struct census census;
};

static int count_job(void *user, bide_job *job)
{
    struct counting *counting = user;
    struct mover *mover = counting->mover;
    struct fingerprint print = bi_fingerprint(&mover->key, mover->deliver.plain, job);
    return bi_census_add(&counting->census, &print, job->id) ? BI_EXIT_OK : no_memory(mover);
}

static void found(void *user, uint64_t number)
{
    struct mover *mover = user;
    mover->moved[number].status = MOVED_THERE;
}

static const struct census_slack *slack_of(const struct mover *mover)
{
    if (mover->to.plain)
        return &bi_census_timeless;
    return mover->from.plain ? &bi_census_seconds : &bi_census_exact;
}

static int match(struct mover *mover, struct census *theirs, enum moved_status status,
                 uint64_t *alike)
{
    struct census ours = {.entries = NULL};
    bool good = true;
    for (size_t i = 0; good && i < mover->count; i++)
        if (mover->moved[i].status == status)
            good = bi_census_add(&ours, &mover->moved[i].print, i);
    good = good && bi_census_match(&ours, theirs, slack_of(mover), bi_clock_wall() / 1000, found,
                                   mover, alike);
    bi_census_free(&ours);
    return good ? BI_EXIT_OK : no_memory(mover);
}

int bi_move_look_for(struct mover *mover, const char *what, enum moved_status status,
                     uint64_t *alike)
{
    struct counting counting = {.mover = mover};
    int exit = bi_source_list(&mover->to);
    if (exit == BI_EXIT_OK)
        exit = bi_source_read(&mover->to, what, count_job, &counting);
    if (exit == BI_EXIT_OK)
        exit = match(mover, &counting.census, status, alike);
    bi_census_free(&counting.census);
    return exit;
}

/* ---- what is left to be copied ---- */

static int note_job(void *user, bide_job *job)
{
    struct mover *mover = user;
    if (!bi_move_wants(mover, job))
        return BI_EXIT_OK;
    return bi_move_note(mover, job) == NULL ? BI_EXIT_FAILED : BI_EXIT_OK;
}

/* Those that are there stay noted; the others will be noted again, as they are then. */
static int keep_wanted(struct mover *mover)
{
    size_t kept = 0;
    bool good = true;
    bi_source_clear(&mover->from);
    for (size_t i = 0; i < mover->count; i++) {
        const struct moved *moved = &mover->moved[i];
        if (moved->status == MOVED_THERE)
            mover->moved[kept++] = *moved;
        else
            good = good && bi_source_add(&mover->from, moved->id, moved->size);
    }
    mover->there = mover->count = kept;
    return good ? BI_EXIT_OK : no_memory(mover);
}

static int is_empty(const struct mover *mover, bool *empty)
{
    bide_stats stats;
    int code = bide_queue_stats(mover->to.queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_answered(mover->cli, code);
    const bide_counts *jobs = &stats.jobs;
    *empty = jobs->delayed + jobs->ready + jobs->reserved + jobs->buried + jobs->done == 0;
    return BI_EXIT_OK;
}

int bi_move_compare(struct mover *mover)
{
    bool empty = false;
    int exit = is_empty(mover, &empty);
    if (exit == BI_EXIT_OK)
        exit = bi_source_list(&mover->from);
    if (exit != BI_EXIT_OK || empty)
        return exit;
    exit = bi_source_read(&mover->from, "reading", note_job, mover);
    if (exit == BI_EXIT_OK)
        exit = bi_move_look_for(mover, "comparing", MOVED_WANTED, &mover->alike);
    return exit == BI_EXIT_OK ? keep_wanted(mover) : exit;
}
