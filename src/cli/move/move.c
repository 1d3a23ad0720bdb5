/* SPDX-License-Identifier: MIT */
#include "cli/move/move.h"

#include "cli/query.h"

#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 5 /* ids of missing jobs in the message */

/* Reports the failure of an op on a job; a fatal one ends the move. The ops that are in flight then
 * fail for the same reason and are not reported. */
static void report_job(struct mover *mover, uint64_t id, int code, const char *error, bool fatal)
{
    if (mover->exit != BI_EXIT_OK)
        return;
    int exit = bi_cli_report_job(mover->cli, id, code, error);
    if (fatal)
        mover->exit = exit;
}

static struct fingerprint fingerprint_of(const struct mover *mover, const bide_job *job)
{
    return bi_move_index_fingerprint(mover->secrets, mover->to.plain, job);
}

/* ---- indexing ---- */

static int index_job(void *user, bide_job *job)
{
    struct mover *mover = user;
    struct fingerprint print = fingerprint_of(mover, job);

    if (!bi_move_index_add(&mover->index, &print, job->id))
        return bi_cli_error(mover->cli, BI_EXIT_FAILED, "out of memory");
    return BI_EXIT_OK;
}

static int build_index(struct mover *mover)
{
    bide_stats stats;
    int code = bide_queue_stats(mover->to.queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_report_last(mover->cli, code);

    mover->index.tolerance = mover->to.plain     ? &bi_move_index_timeless
                             : mover->from.plain ? &bi_move_index_seconds
                                                 : &bi_move_index_exact;
    const bide_counts *jobs = &stats.jobs;
    if (jobs->delayed + jobs->ready + jobs->reserved + jobs->buried + jobs->done == 0)
        return BI_EXIT_OK;

    int exit = bi_job_scan_list(&mover->to);
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_read(&mover->to, "comparing", index_job, mover);
    bi_move_index_finish(&mover->index);
    return exit;
}

/* ---- copying ---- */

static int copy_pause(struct mover *mover, const bide_topic_stats *topic)
{
    struct pause pause;
    bool expired = false;

    if (!bi_transfer_get_pause(topic, &pause))
        return BI_EXIT_OK;
    int exit = bi_transfer_set_pause(mover->cli, mover->to.queue, &pause, &expired);
    mover->pauses += exit == BI_EXIT_OK && !expired;
    return exit;
}

/* A beanstalkd has no policies: the jobs have the defaults in them, the limits are left out. */
static int copy_policy(struct mover *mover, const bide_topic_stats *topic)
{
    struct policy_line line;
    bool found;

    int exit = bi_transfer_get_policy(mover->cli, mover->from.queue, topic, &line, &found);
    if (!found)
        return exit;
    if (!mover->restore_target.plain)
        return bi_transfer_set_policy(mover->cli, mover->to.queue, &line);
    bi_cli_note(mover->cli, "the policy of %s is not moved: a beanstalkd has none", line.topic);
    return BI_EXIT_OK;
}

static int copy_topic(void *user, const bide_topic_stats *topic)
{
    int exit = copy_pause(user, topic);
    return exit == BI_EXIT_OK ? copy_policy(user, topic) : exit;
}

static bool is_eligible(struct mover *mover, bide_job *job)
{
    if (job->state == BIDE_STATE_RESERVED && mover->skip_reserved) {
        mover->reserved++;
        return false;
    }
    bool expired = bi_transfer_skip_reason(job, bi_clock_wall() / 1000) != NULL;
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

static struct moved *add_moved(struct mover *mover, const bide_job *job,
                               const struct fingerprint *print)
{
    if (!BI_CLI_RESERVE(mover->moved, mover->count + 1, mover->capacity))
        return NULL;

    size_t size = bi_job_scan_job_size(job);
    struct moved *moved = &mover->moved[mover->count++];
    *moved = (struct moved){
        .hash = {print->hash[0], print->hash[1]},
        .id = job->id,
        .expires_ms = expiry_of(job),
        .size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
        .status = MOVE_PENDING,
    };
    return moved;
}

/* A job that cannot be copied, or whose copy is in doubt. */
static void reject(struct mover *mover, struct moved *moved, int code, const char *error)
{
    bool fatal = bi_cli_is_fatal(code);

    moved->status = MOVE_REJECTED;
    mover->rejected += mover->exit == BI_EXIT_OK && !fatal;
    report_job(mover, moved->id, code, error, fatal);
}

static void on_copied(void *user, struct op_slot *slot)
{
    struct mover *mover = user;
    struct moved *moved = &mover->moved[slot->number];

    assert(moved->status == MOVE_PENDING);
    if (slot->op.status != BIDE_OK) {
        reject(mover, moved, slot->op.status, slot->op.error);
        return;
    }
    moved->status = MOVE_COPIED;
    moved->target_id = mover->to.plain ? slot->op.put.id : slot->op.restore.id;
    mover->copied++;
}

/* Submits the op that creates a job in TO. The slot takes the job over. */
static void submit_copy(struct mover *mover, bide_job *job, size_t number)
{
    char error[BI_ERRMSG_SIZE];
    struct op_slot *slot = bi_ordered_pipeline_get_slot(mover->pipeline, bi_job_scan_job_size(job));

    assert(mover->moved[number].status == MOVE_PENDING && mover->moved[number].id == job->id);
    slot->job = *job;
    slot->number = number;
    if (bi_transfer_build_op(&mover->restore_target, slot, error)) {
        memset(job, 0, sizeof(*job));
        bi_ordered_pipeline_submit(mover->pipeline);
    } else {
        /* The slot was not submitted and will be reused: the caller still owns the job. */
        reject(mover, &mover->moved[number], BIDE_ENOTSUP, error);
    }
}

static int copy_job(void *user, bide_job *job)
{
    struct mover *mover = user;
    if (!is_eligible(mover, job))
        return BI_EXIT_OK;

    struct fingerprint print = fingerprint_of(mover, job);
    struct moved *moved = add_moved(mover, job, &print);
    if (moved == NULL)
        return bi_cli_error(mover->cli, BI_EXIT_FAILED, "out of memory");

    if (bi_move_index_take(&mover->index, &print, bi_clock_wall() / 1000, &moved->target_id)) {
        moved->status = MOVE_PRESENT;
        mover->present++;
    } else {
        submit_copy(mover, job, mover->count - 1);
    }
    return mover->exit;
}

static int copy_all(struct mover *mover)
{
    int exit = bi_job_scan_list(&mover->from);
    if (exit == BI_EXIT_OK)
        exit = bi_query_each_topic(mover->cli, mover->from.queue, false, copy_topic, mover);
    if (exit != BI_EXIT_OK)
        return exit;

    mover->pipeline = bi_ordered_pipeline_new(mover->cli, mover->to.queue, on_copied, mover);
    if (mover->pipeline == NULL)
        return BI_EXIT_FAILED;
    exit = bi_job_scan_read(&mover->from, "copying", copy_job, mover);
    bi_ordered_pipeline_free(mover->pipeline);
    mover->pipeline = NULL;
    return mover->exit != BI_EXIT_OK ? mover->exit : exit;
}

/* ---- verifying ---- */

static void on_peeked(void *user, struct op_slot *slot)
{
    struct mover *mover = user;
    struct moved *moved = &mover->moved[slot->number];
    int code = slot->op.status;

    assert(!moved->verified && (moved->status == MOVE_PRESENT || moved->status == MOVE_COPIED));
    bi_progress_set(&mover->progress, mover->progress.done + 1);
    if (code == BIDE_OK) {
        struct fingerprint print = fingerprint_of(mover, &slot->job);
        if (memcmp(print.hash, moved->hash, sizeof(print.hash)) == 0) {
            moved->verified = true;
            mover->verified++;
            return;
        }
    } else if (code != BIDE_NOT_FOUND) {
        report_job(mover, moved->id, code, slot->op.error,
                   !bi_job_scan_is_damaged_job(&mover->to, code));
    }

    /* A copy that was to expire by now, or whose retention was to end, is not missing. */
    bool expired = moved->expires_ms != 0 && moved->expires_ms <= bi_clock_wall() / 1000;
    moved->status = expired ? MOVE_EXPIRED : MOVE_MISSING;
    mover->expired += expired;
    mover->missing += !expired;
}

static int report_missing(const struct mover *mover)
{
    char ids[NAMED_MAX * 24 + 8] = "";
    size_t used = 0;
    int named = 0;
    for (size_t i = 0; i < mover->count && named < NAMED_MAX; i++)
        if (mover->moved[i].status == MOVE_MISSING)
            used +=
                (size_t)snprintf(ids + used, sizeof(ids) - used, "%s%llu", named++ == 0 ? "" : ", ",
                                 (unsigned long long)mover->moved[i].id);
    if (mover->missing > NAMED_MAX)
        snprintf(ids + used, sizeof(ids) - used, " ...");

    return bi_cli_error(mover->cli, BI_EXIT_PARTIAL,
                        "%s of %.100s not found in %.100s: %s (if no consumer has taken "
                        "jobs there, run the same command again)",
                        bi_text_jobs(mover->missing).s, mover->from_shown, mover->to_shown, ids);
}

/* ---- removing ---- */

bool bi_move_is_inexact(const struct mover *mover)
{
    return mover->from.plain || mover->to.plain;
}

static void on_deleted(void *user, struct op_slot *slot)
{
    struct mover *mover = user;

    bi_progress_set(&mover->progress, mover->progress.done + 1);
    mover->removed += slot->op.status == BIDE_OK;
    mover->kept += slot->op.status != BIDE_OK;
    if (slot->op.status != BIDE_OK && slot->op.status != BIDE_NOT_FOUND)
        report_job(mover, mover->moved[slot->number].id, slot->op.status, slot->op.error,
                   bi_cli_is_fatal(slot->op.status));
}

static void report_unproven(const struct mover *mover)
{
    bool one = mover->unproven == 1;

    bi_cli_error(
        mover->cli, BI_EXIT_PARTIAL,
        "%s job%s in %.100s before this run and may not be %s; not removed (the creation times of a "
        "beanstalkd do not identify a job; move to an empty queue, or compare the queues and delete "
        "from %.100s with bide delete)",
        bi_text_number(mover->unproven).s, one ? " was" : "s were", mover->to_shown,
        one ? "a copy" : "copies", mover->from_shown);
}

/* ---- the whole move ---- */

/* Verifies the copy of each job that is in TO, or removes its original. */
static int run_pass(struct mover *mover, bool removing)
{
    struct ordered_pipeline *pipeline =
        bi_ordered_pipeline_new(mover->cli, removing ? mover->from.queue : mover->to.queue,
                                removing ? on_deleted : on_peeked, mover);
    if (pipeline == NULL)
        return BI_EXIT_FAILED;

    assert(mover->exit == BI_EXIT_OK);
    bi_progress_begin(&mover->progress, mover->cli, removing ? "removing" : "verifying",
                      mover->present + mover->copied);
    for (size_t i = 0; i < mover->count && mover->exit == BI_EXIT_OK; i++) {
        const struct moved *moved = &mover->moved[i];
        if (moved->status != MOVE_PRESENT && moved->status != MOVE_COPIED)
            continue;
        if (removing && moved->status == MOVE_PRESENT && bi_move_is_inexact(mover)) {
            mover->unproven++;
            continue;
        }

        struct op_slot *slot = bi_ordered_pipeline_get_slot(pipeline, removing ? 0 : moved->size);
        slot->number = i;
        slot->op.kind = removing ? BIDE_OP_DELETE : BIDE_OP_PEEK;
        assert(!removing || moved->verified);
        if (removing) /* without a token: it fails if a consumer has reserved the job meanwhile */
            slot->op.lease = (bide_lease_args){.id = moved->id};
        else
            slot->op.query = (bide_query_args){.id = moved->target_id, .job = &slot->job};
        bi_ordered_pipeline_submit(pipeline);
        if (bi_interrupted() && mover->exit == BI_EXIT_OK)
            mover->exit = bi_interrupt_exit();
    }
    bi_ordered_pipeline_free(pipeline);
    bi_progress_end(&mover->progress);
    return mover->exit;
}

static int remove_verified(struct mover *mover)
{
    int exit = run_pass(mover, true);
    if (exit != BI_EXIT_OK)
        return exit;

    if (mover->unproven > 0)
        report_unproven(mover);
    return mover->kept > 0 || mover->unproven > 0 ? BI_EXIT_PARTIAL : BI_EXIT_OK;
}

int bi_move_run(struct mover *mover)
{
    for (int i = 0; i < 2; i++)
        bi_keyed_hash_generate_secret(&mover->secrets[i]);

    int exit = build_index(mover);
    if (exit == BI_EXIT_OK)
        exit = copy_all(mover);
    mover->lookalikes = bi_move_index_count_lookalikes(&mover->index);
    bi_move_index_free(&mover->index);
    if (exit != BI_EXIT_OK)
        return exit;

    exit = run_pass(mover, false);
    if (exit != BI_EXIT_OK)
        return exit;

    /* Missing copies do not prevent the removal of the jobs whose copies are verified. */
    if (mover->missing > 0)
        exit = report_missing(mover);
    if (mover->remove_copied) {
        int removed = remove_verified(mover);
        exit = removed != BI_EXIT_OK ? removed : exit;
    }
    return exit == BI_EXIT_OK && mover->rejected > 0 ? BI_EXIT_PARTIAL : exit;
}
