/* SPDX-License-Identifier: MIT */
#include "cli/move/move.h"

#include "util/clock.h"

#include <stdlib.h>

static int fail_no_memory(const struct mover *mover)
{
    return bi_cli_error(mover->cli, BI_EXIT_FAILED, "there is not enough memory");
}

/* ---- jobs of FROM ---- */

bool bi_move_is_eligible(struct mover *mover, bide_job *job)
{
    if (job->state == BIDE_STATE_RESERVED && mover->skip_reserved) {
        mover->reserved++;
        return false;
    }
    bool expired = bi_restore_op_skip_reason(job, bi_clock_wall() / 1000) != NULL;
    mover->expired += expired;
    return !expired;
}

static int64_t expiry_of(const bide_job *job)
{
    bool is_waiting = job->state == BIDE_STATE_READY || job->state == BIDE_STATE_DELAYED;
    if (job->state == BIDE_STATE_DONE)
        return bi_clock_wall() / 1000 + job->left_ms;
    return is_waiting && job->reserves == 0 ? job->expires_at_ms : 0;
}

struct moved *bi_move_add(struct mover *mover, const bide_job *job)
{
    if (mover->count == mover->capacity) {
        size_t capacity = mover->capacity == 0 ? 1024 : mover->capacity * 2;
        struct moved *moved = realloc(mover->moved, capacity * sizeof(*moved));
        if (moved == NULL) {
            fail_no_memory(mover);
            return NULL;
        }
        mover->moved = moved;
        mover->capacity = capacity;
    }
    size_t size = bi_job_scan_job_size(job);
    struct moved *moved = &mover->moved[mover->count++];
    *moved = (struct moved){
        .print = bi_move_fingerprint_of(&mover->key, mover->restore_target.plain, job),
        .expires_ms = expiry_of(job),
        .id = job->id,
        .size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
        .status = MOVE_PENDING,
    };
    return moved;
}

/* ---- what TO has ---- */

struct index_builder {
    struct mover *mover;
    struct move_index move_index;
};

static int index_job(void *user, bide_job *job)
{
    struct index_builder *index_builder = user;
    struct mover *mover = index_builder->mover;
    struct fingerprint print =
        bi_move_fingerprint_of(&mover->key, mover->restore_target.plain, job);
    return bi_move_index_add(&index_builder->move_index, &print, job->id) ? BI_EXIT_OK
                                                                          : fail_no_memory(mover);
}

static void found(void *user, uint64_t number)
{
    struct mover *mover = user;
    mover->moved[number].status = MOVE_PRESENT;
}

static const struct move_tolerance *tolerance_of(const struct mover *mover)
{
    if (mover->to.plain)
        return &bi_move_index_timeless;
    return mover->from.plain ? &bi_move_index_seconds : &bi_move_index_exact;
}

static int match(struct mover *mover, struct move_index *theirs, enum move_status status,
                 uint64_t *lookalikes)
{
    struct move_index ours = {.entries = NULL};
    bool good = true;
    for (size_t i = 0; good && i < mover->count; i++)
        if (mover->moved[i].status == status)
            good = bi_move_index_add(&ours, &mover->moved[i].print, i);
    good = good && bi_move_index_match(&ours, theirs, tolerance_of(mover), bi_clock_wall() / 1000,
                                       found, mover, lookalikes);
    bi_move_index_free(&ours);
    return good ? BI_EXIT_OK : fail_no_memory(mover);
}

int bi_move_match(struct mover *mover, const char *what, enum move_status status,
                  uint64_t *lookalikes)
{
    struct index_builder index_builder = {.mover = mover};
    int exit = bi_job_scan_list(&mover->to);
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_read(&mover->to, what, index_job, &index_builder);
    if (exit == BI_EXIT_OK)
        exit = match(mover, &index_builder.move_index, status, lookalikes);
    bi_move_index_free(&index_builder.move_index);
    return exit;
}

/* ---- what is left to be copied ---- */

static int add_job(void *user, bide_job *job)
{
    struct mover *mover = user;
    if (!bi_move_is_eligible(mover, job))
        return BI_EXIT_OK;
    return bi_move_add(mover, job) == NULL ? BI_EXIT_FAILED : BI_EXIT_OK;
}

/* Those that are there stay noted; the others will be noted again, as they are then. */
static int keep_pending(struct mover *mover)
{
    size_t kept = 0;
    bool good = true;
    bi_job_scan_clear(&mover->from);
    for (size_t i = 0; i < mover->count; i++) {
        const struct moved *moved = &mover->moved[i];
        if (moved->status == MOVE_PRESENT)
            mover->moved[kept++] = *moved;
        else
            good = good && bi_job_scan_add(&mover->from, moved->id, moved->size);
    }
    mover->present = mover->count = kept;
    return good ? BI_EXIT_OK : fail_no_memory(mover);
}

static int is_empty(const struct mover *mover, bool *empty)
{
    bide_stats stats;
    int code = bide_queue_stats(mover->to.queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_report_last(mover->cli, code);
    const bide_counts *jobs = &stats.jobs;
    *empty = jobs->delayed + jobs->ready + jobs->reserved + jobs->buried + jobs->done == 0;
    return BI_EXIT_OK;
}

int bi_move_compare(struct mover *mover)
{
    bool empty = false;
    int exit = is_empty(mover, &empty);
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_list(&mover->from);
    if (exit != BI_EXIT_OK || empty)
        return exit;
    exit = bi_job_scan_read(&mover->from, "reading", add_job, mover);
    if (exit == BI_EXIT_OK)
        exit = bi_move_match(mover, "comparing", MOVE_PENDING, &mover->lookalikes);
    return exit == BI_EXIT_OK ? keep_pending(mover) : exit;
}
