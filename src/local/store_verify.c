/* SPDX-License-Identifier: MIT */
/*
 * store_verify - compares the store with the core after a failed write, and marks the queue as
 * diverged if acknowledged jobs are lost.
 *
 * After a failed write the store reopens its files. The kernel may have dropped pages that were
 * acknowledged before, so every row is compared with what the core believes to be stored: the rows
 * of the failed batch at once (bi_store_verify_batch), all others in the background, a slice at a
 * time. A check does the same on request.
 *
 * Races      Rows are read without the lock, while commits go on. A difference counts only if no
 *            batch was committed since before the read and none that changes the job is in flight;
 *            otherwise the row is read again.
 * Failure    With a difference the queue is diverged: it rejects ops until it is opened again, or
 *            until a check finds no difference. A store that cannot be read is retried.
 * Threads    Everything runs on the maintenance thread, except bi_store_verify_batch(), which runs
 *            on the thread that commits.
 */
#include "local/local_internal.h"
#include "util/clock.h"
#include "util/message.h"
#include "util/thread.h"

#include <assert.h>
#include <stdio.h>

/* Rows of one slice. */
#define SLICE_ROWS 256
/* The pause after each slice, for other users of the processor and the disk. */
#define SLICE_PAUSE_US 1000 /* us */
/* Attempts to compare a job that is written meanwhile. */
#define PROBE_TRIES    200
#define PROBE_RETRY_MS 5
/* Attempts to read a job when pages of the file are damaged. */
#define PROBE_READ_TRIES    20
#define PROBE_READ_RETRY_MS 50
/* The back-off for a store that cannot be read, and the attempts of a check. */
#define READ_RETRY_MIN_US 10000  /* us */
#define READ_RETRY_MAX_US 200000 /* us */
#define CHECK_TRIES       25
/* The pause between two full comparisons while writes fail repeatedly. */
#define VERIFY_INTERVAL_MIN_US 1000000  /* us */
#define VERIFY_INTERVAL_MAX_US 60000000 /* us */
/* Differences that are logged individually. */
#define LOGGED_MAX 10

/* ---- comparing jobs ---- */

/* One comparison of a job: its row, which is read without the lock, with what the core believes to
 * be stored. */
struct probe {
    struct local *local;
    uint64_t id;
    uint64_t committed;     /* the last committed batch before the row was read */
    const char *difference; /* NULL: none, or the job is not loaded yet */
    bool certain;           /* no commit changed the job meanwhile */
    bool damaged;           /* pages of the file are, and may hold what cannot be read */
};

/* image is NULL if there is no row. */
static void verify_row(struct probe *probe, const struct bi_image *image, const char *damage)
{
    assert(image != NULL || damage == NULL);
    struct local *local = probe->local;

    bi_local_lock(local);
    if (!bi_recovery_is_loaded(local, probe->id))
        probe->difference = NULL;
    else if (image != NULL && damage == NULL)
        probe->difference = bi_verify_job(local->core, image);
    else if (bi_verify_is_stored(local->core, probe->id))
        probe->difference = damage != NULL ? damage : "it is not stored";
    else
        probe->difference = NULL;

    /* A commit between the read and this comparison, or one in flight, explains any difference. */
    probe->certain = bi_journal_committed_batch(local->core) == probe->committed &&
                     !bi_verify_is_in_flight(local->core, probe->id);

    pthread_mutex_unlock(&local->lock);
}

static int visit_row(void *ctx, const struct bi_record *record, const char *damage)
{
    verify_row(ctx, &record->image, damage);
    return BIDE_OK;
}

/* Compares a job until its row is equal or certainly different. BIDE_OK, or the code of a store
 * that cannot be read. When the queue closes, no difference is reported: the next start loads the
 * rows. */
static int probe_job(struct probe *probe, char *error)
{
    struct local *local = probe->local;
    int failures = 0;

    for (int i = 0; i < PROBE_TRIES && !local->store->stopping; i++) {
        if (i > 0)
            bi_thread_sleep_ms(failures > 0 ? PROBE_READ_RETRY_MS : PROBE_RETRY_MS);

        bi_local_lock(local);
        probe->committed = bi_journal_committed_batch(local->core);
        pthread_mutex_unlock(&local->lock);

        int code = local->store->ops->fetch(local->store, probe->id, visit_row, probe, error);
        if (code == BIDE_NOT_FOUND) {
            verify_row(probe, NULL, NULL);
        } else if (code != BIDE_OK) {
            if (!probe->damaged)
                return code;
            /* The row may be on a damaged page. Only repeated failures make that certain. */
            probe->difference = bi_store_unreadable;
            probe->certain = ++failures == PROBE_READ_TRIES;
        }

        if (probe->difference == NULL || probe->certain)
            return BIDE_OK;
    }

    /* The job changes all the time: each commit writes its row anew. */
    probe->difference = NULL;
    return BIDE_OK;
}

static void record_difference(struct local *local, struct verification *verification,
                              const struct probe *probe)
{
    if (verification->differences++ == 0)
        snprintf(verification->first, sizeof(verification->first), "job %llu: %s",
                 (unsigned long long)probe->id, probe->difference);
    if (verification->differences <= LOGGED_MAX)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "job %llu is not stored as it was acknowledged: %s", (unsigned long long)probe->id,
               probe->difference);
}

/* Compares up to SLICE_ROWS jobs. Differences are recorded only if all could be read, because a
 * slice that fails is compared again as a whole. */
static int verify_ids(struct local *local, struct verification *verification, const uint64_t *ids,
                      size_t count, char *error)
{
    struct probe found[SLICE_ROWS];
    size_t found_count = 0;
    assert(count <= SLICE_ROWS);

    for (size_t i = 0; i < count; i++) {
        struct probe probe = {.local = local, .id = ids[i], .damaged = verification->damaged};
        int code = probe_job(&probe, error);
        if (code != BIDE_OK)
            return code;

        if (probe.difference != NULL)
            found[found_count++] = probe;
    }

    for (size_t i = 0; i < found_count; i++)
        record_difference(local, verification, &found[i]);
    return BIDE_OK;
}

/* ---- comparing everything ---- */

struct suspects {
    struct local *local;
    size_t count;
    uint64_t ids[SLICE_ROWS]; /* whose rows differ at the first read */
    bool damaged;             /* a page cannot be read, and the store has skipped it */
};

static int collect_suspect(void *ctx, const struct bi_record *record, const char *damage)
{
    struct suspects *suspects = ctx;
    struct probe probe = {.local = suspects->local, .id = record->image.id};

    if (damage == bi_store_unreadable) {
        suspects->damaged = true; /* verify_jobs() finds the jobs of that page by id */
        return BIDE_OK;
    }

    /* probe.certain is ignored here: verify_ids() reads the row of each suspect again. */
    verify_row(&probe, &record->image, damage);
    assert(suspects->count < SLICE_ROWS); /* a scan visits no more rows than that */
    if (probe.difference != NULL)
        suspects->ids[suspects->count++] = probe.id;

    return BIDE_OK;
}

/* Compares a slice of rows with the core: finds rows that differ or should not exist. */
static int verify_rows(struct local *local, struct verification *verification, char *error)
{
    struct suspects suspects = {.local = local};
    uint64_t after = verification->after;
    int scanned = local->store->ops->scan(local->store, &after, BIDE_ID_MAX, SLICE_ROWS,
                                          collect_suspect, &suspects, error);
    if (scanned != BIDE_OK && scanned != BIDE_NOT_FOUND)
        return scanned;

    int code = verify_ids(local, verification, suspects.ids, suspects.count, error);
    if (code != BIDE_OK)
        return code;

    /* Advance only now: a slice that failed is compared again from the same row. */
    verification->after = after;
    verification->damaged |= suspects.damaged;
    verification->rows_done = scanned == BIDE_NOT_FOUND;
    return BIDE_OK;
}

/* Compares a slice of jobs of the core with the store: finds rows that are missing. */
static int verify_jobs(struct local *local, struct verification *verification, char *error)
{
    uint64_t ids[SLICE_ROWS];
    uint64_t cursor = verification->cursor;
    bool end = false;
    bi_local_lock(local);
    size_t count = bi_verify_stored_ids(local->core, &cursor, ids, SLICE_ROWS, &end);
    pthread_mutex_unlock(&local->lock);

    int code = verify_ids(local, verification, ids, count, error);
    if (code != BIDE_OK)
        return code;

    verification->cursor = cursor;
    verification->done = end;
    return BIDE_OK;
}

/* Compares the next slice. BIDE_OK, or the code of a store that cannot be read: then the progress
 * is unchanged, and the next call compares the same slice. */
static int verify_slice(struct local *local, struct verification *verification, char *error)
{
    return verification->rows_done ? verify_jobs(local, verification, error)
                                   : verify_rows(local, verification, error);
}

/* ---- after a failed write ---- */

/* Makes the queue reject ops if there are differences: acknowledged jobs are lost or have
 * reappeared, and an operator must decide. The lock is held. */
static void mark_diverged(struct local *local, const struct verification *verification)
{
    if (verification->differences == 0)
        return;
    local->diverged = true;
    snprintf(
        local->diverged_error, sizeof(local->diverged_error),
        "%.50s does not hold what was acknowledged (%.60s); restart to go on with what it holds",
        bi_local_store_name(local), verification->first);
}

int bi_store_verify_batch(struct local *local, const struct bi_batch *batch, char *error)
{
    struct verification verification = {.differences = 0};
    uint64_t ids[SLICE_ROWS];
    size_t count = 0;
    int code = BIDE_OK;

    for (size_t i = 0; code == BIDE_OK && i < batch->count; i++) {
        if (batch->records[i].kind != BI_TOPIC)
            ids[count++] = batch->records[i].image.id;

        if (count == SLICE_ROWS || i + 1 == batch->count) {
            code = verify_ids(local, &verification, ids, count, error);
            count = 0;
        }
    }

    bi_local_lock(local);
    mark_diverged(local, &verification);
    pthread_mutex_unlock(&local->lock);
    return code;
}

/* Schedules the next full comparison. The pause doubles while writes fail repeatedly, so that a
 * failing disk is not also scanned all the time. */
static void set_due(struct local *local, int64_t now)
{
    bool again = local->verify_ended != 0 && now - local->verify_ended < VERIFY_INTERVAL_MAX_US;
    local->verify_pause = !again                     ? 0
                          : local->verify_pause == 0 ? VERIFY_INTERVAL_MIN_US
                          : local->verify_pause * 2 > VERIFY_INTERVAL_MAX_US
                              ? VERIFY_INTERVAL_MAX_US
                              : local->verify_pause * 2;
    local->verify_due = again ? local->verify_ended + local->verify_pause : now;
}

void bi_store_verify_request(struct local *local)
{
    /* A comparison that is running continues. Another one follows it, because rows that it has
     * passed may be affected. */
    if (!local->verify_wanted && !local->verify_running)
        set_due(local, bi_clock_boot());
    local->verify_wanted = true;
    pthread_cond_signal(&local->maintenance_work);
}

int64_t bi_store_verify_next_due(const struct local *local)
{
    return local->verify_wanted || local->verify_running ? local->verify_due : BI_NEVER;
}

/* Compares one slice and applies its outcome. Returns the number of failed reads if that is to be
 * logged, else 0. Without the lock. */
static uint64_t run_full_verify(struct local *local, char *error)
{
    struct verification *full_verify = &local->full_verify;
    uint64_t differences = full_verify->differences;
    assert(!full_verify->done);
    int code = verify_slice(local, full_verify, error);
    uint64_t failures = 0;

    bi_local_lock(local);
    int64_t now = bi_clock_boot();
    assert(local->verify_running);
    if (code == BIDE_OK) {
        bi_log_limit_reset(&local->full_verify_log);
        local->verify_due = now + SLICE_PAUSE_US;
    } else {
        failures = bi_log_limit_hit(&local->full_verify_log, now);
        local->verify_due = now + (local->full_verify_log.count > 4
                                       ? READ_RETRY_MAX_US
                                       : READ_RETRY_MIN_US << local->full_verify_log.count);
    }

    if (full_verify->differences > differences)
        mark_diverged(local, full_verify);

    if (full_verify->done) {
        local->verify_running = false;
        local->verify_ended = now;
        set_due(local, now);
    }

    pthread_mutex_unlock(&local->lock);
    return failures;
}

void bi_store_verify_continue(struct local *local)
{
    struct verification *full_verify = &local->full_verify;
    char error[BIDE_ERROR_SIZE] = "";

    bi_local_lock(local);
    if (!local->verify_running) {
        /* A request that comes from now on sets verify_wanted again and is not lost. */
        *full_verify = (struct verification){.after = 0};
        local->verify_running = true;
        local->verify_wanted = false;
    }
    pthread_mutex_unlock(&local->lock);

    uint64_t failures = run_full_verify(local, error);
    if (failures > 0)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "the store cannot be compared after a failed write (tried %llu times): %s",
               (unsigned long long)failures, error);

    if (full_verify->done && full_verify->differences == 0)
        bi_log(&local->context.log, BIDE_LOG_WARN,
               "the store was opened again after a failed write, and has everything");
    else if (full_verify->done)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "the store was opened again after a failed write: %llu jobs differ; nothing more is "
               "taken on until the queue is opened again, or a check finds no difference",
               (unsigned long long)full_verify->differences);
}

/* ---- on request ---- */

/* Compares everything without pauses. BIDE_OK, or the code of a store that could not be read for
 * CHECK_TRIES attempts. */
static int verify_all(struct local *local, struct verification *verification, char *error)
{
    for (int tries = 0; !verification->done && !bi_store_check_stopped(local->store);) {
        int code = verify_slice(local, verification, error);
        tries = code == BIDE_OK ? 0 : tries + 1;
        if (tries == CHECK_TRIES)
            return code;

        if (tries == 0)
            continue;

        bi_local_lock(local);
        bi_local_pause(local, &local->maintenance_work, &local->closing, READ_RETRY_MAX_US / 1000);
        pthread_mutex_unlock(&local->lock);
    }
    return BIDE_OK;
}

void bi_store_verify_check(struct local *local, bide_check_report *report)
{
    struct verification verification = {.after = 0};
    char error[BIDE_ERROR_SIZE] = "";
    int code = verify_all(local, &verification, error);

    report->differences = verification.differences;
    if (report->problem[0] == 0)
        bi_text_copy(report->problem, code != BIDE_OK ? error : verification.first);

    if (!verification.done || verification.differences > 0)
        return;

    bi_local_lock(local);
    bool was_diverged = local->diverged;
    local->diverged = false;
    pthread_mutex_unlock(&local->lock);
    if (was_diverged)
        bi_log(&local->context.log, BIDE_LOG_WARN,
               "a check finds no difference any more: the queue goes on");
}
