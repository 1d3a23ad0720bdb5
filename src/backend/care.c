/* SPDX-License-Identifier: MIT */
/*
 * care - what takes long and disturbs nobody: backups and checks.
 */
#include "backend/inside.h"
#include "util/clock.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows that are read in one go. */
#define SLICE_ROWS 256
/* The pause after each: others want the processor and the disk, too. */
#define SLICE_REST 1000 /* us */
/* A job that is written while it is looked at is looked at again. */
#define LOOKS   200
#define LOOK_MS 5
/* So often, and with this pause, if it cannot be read and pages of the file are damaged. */
#define READ_LOOKS   20
#define READ_LOOK_MS 50
/* Pauses between two tries to read a store that cannot be read, and how often a check tries. */
#define READ_PAUSE_MIN 10000  /* us */
#define READ_PAUSE_MAX 200000 /* us */
#define CHECK_TRIES    25
/* Pauses between two comparisons when writes keep failing. */
#define AGAIN_MIN 1000000  /* us */
#define AGAIN_MAX 60000000 /* us */
/* Differences that are logged, each with its job. */
#define LOGGED_MAX 10

bool bi_care_is_chore(const struct local *local, const bide_op *op)
{
    return local->keeps && (op->kind == BIDE_OP_BACKUP || op->kind == BIDE_OP_CHECK);
}

/* ---- adding and cancelling ---- */

int bi_care_add(struct local *local, bide_op *op)
{
    if (!bi_local_can_wait(op))
        return bi_local_refuse(op, BIDE_EINVAL, "the op takes long and names no completion queue");
    if (op->kind == BIDE_OP_CHECK && local->checking != NULL)
        return bi_local_refuse(op, BIDE_EBUSY, bi_check_busy);
    if (!bi_local_keep(local, op))
        return bi_local_refuse(op, BIDE_ENOMEM, NULL);
    if (op->kind == BIDE_OP_CHECK)
        local->checking = op;
    list_add(&local->chores, op);
    pthread_cond_signal(&local->chore);
    return BIDE_PENDING;
}

bool bi_care_cancel(struct local *local, bide_op *op)
{
    bool sliced = bi_core_is_checking(local->core, op);
    if (!sliced && op != local->checking)
        return false;
    if (op == local->chore_op) { /* the slow thread is at it */
        local->store->check_cancelled = true;
        return true;
    }
    list_remove(sliced ? &local->sliced : &local->chores, op);
    local->checking = NULL;
    bi_core_abandon(local->core, op);
    bi_local_end(local, op, BIDE_CANCELLED);
    return true;
}

/* ---- comparing jobs ---- */

/* One look at a job: its row, which is read without the lock, beside what the core believes to be
 * stored. */
struct look {
    struct local *local;
    uint64_t id;
    uint64_t committed;     /* the last batch that was, before the row was read */
    const char *difference; /* NULL: none, or the job is not loaded yet */
    bool certain;           /* nothing that changes the job was stored meanwhile */
    bool damaged;           /* pages of the file are: what cannot be read may lie there */
};

/* image is NULL if there is no row. */
static void compare_row(struct look *look, const struct bi_image *image, const char *damage)
{
    struct local *local = look->local;
    bi_local_lock(local);
    if (!bi_recovery_knows(local, look->id))
        look->difference = NULL;
    else if (image != NULL && damage == NULL)
        look->difference = bi_core_compare(local->core, image);
    else if (bi_core_is_stored(local->core, look->id))
        look->difference = damage != NULL ? damage : "it is not stored";
    else
        look->difference = NULL;
    look->certain = bi_core_committed_batch(local->core) == look->committed &&
                    !bi_core_is_in_flight(local->core, look->id);
    pthread_mutex_unlock(&local->lock);
}

static int visit_row(void *ctx, const struct bi_record *record, const char *damage)
{
    compare_row(ctx, &record->image, damage);
    return BIDE_OK;
}

/* Looks at the job until its row is as it should be, or certainly is not. BIDE_OK, or the code of a
 * store that cannot be read. */
static int look_at(struct look *look, char *error)
{
    struct local *local = look->local;
    int failures = 0;
    for (int i = 0; i < LOOKS && !local->store->stopping; i++) {
        if (i > 0)
            bi_alarm_sleep(failures > 0 ? READ_LOOK_MS : LOOK_MS);
        bi_local_lock(local);
        look->committed = bi_core_committed_batch(local->core);
        pthread_mutex_unlock(&local->lock);
        int code = local->store->ops->fetch(local->store, look->id, visit_row, look, error);
        if (code == BIDE_NOT_FOUND) {
            compare_row(look, NULL, NULL);
        } else if (code != BIDE_OK) {
            if (!look->damaged)
                return code;
            look->difference = bi_store_unreadable;
            look->certain = ++failures == READ_LOOKS;
        }
        if (look->difference == NULL || look->certain)
            return BIDE_OK;
    }
    look->difference = NULL; /* it is written again and again, and each time anew */
    return BIDE_OK;
}

static void note(struct local *local, struct comparison *comparison, const struct look *look)
{
    if (comparison->differences++ == 0)
        snprintf(comparison->first, sizeof(comparison->first), "job %llu: %s",
                 (unsigned long long)look->id, look->difference);
    if (comparison->differences <= LOGGED_MAX)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "job %llu is not stored as it was acknowledged: %s", (unsigned long long)look->id,
               look->difference);
}

/* Differences are noted when all of the ids, SLICE_ROWS at most, could be looked at. */
static int compare_ids(struct local *local, struct comparison *comparison, const uint64_t *ids,
                       size_t count, char *error)
{
    struct look found[SLICE_ROWS];
    size_t found_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct look look = {.local = local, .id = ids[i], .damaged = comparison->damaged};
        int code = look_at(&look, error);
        if (code != BIDE_OK)
            return code;
        if (look.difference != NULL)
            found[found_count++] = look;
    }
    for (size_t i = 0; i < found_count; i++)
        note(local, comparison, &found[i]);
    return BIDE_OK;
}

/* ---- comparing everything ---- */

struct suspects {
    struct local *local;
    size_t count;
    uint64_t ids[SLICE_ROWS]; /* whose rows differ at first sight */
    bool damaged;             /* a page cannot be read, and the store has given it up */
};

static int suspect_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct suspects *suspects = ctx;
    struct look look = {.local = suspects->local, .id = record->image.id};
    if (damage == bi_store_unreadable) {
        suspects->damaged = true; /* the jobs on that page are looked for one by one */
        return BIDE_OK;
    }
    compare_row(&look, &record->image, damage);
    if (look.difference != NULL)
        suspects->ids[suspects->count++] = look.id;
    return BIDE_OK;
}

/* Every row is in the core. */
static int compare_rows(struct local *local, struct comparison *comparison, char *error)
{
    struct suspects suspects = {.local = local};
    uint64_t after = comparison->after;
    int scanned = local->store->ops->scan(local->store, &after, BIDE_ID_MAX, SLICE_ROWS,
                                          suspect_row, &suspects, error);
    if (scanned != BIDE_OK && scanned != BIDE_NOT_FOUND)
        return scanned;
    int code = compare_ids(local, comparison, suspects.ids, suspects.count, error);
    if (code != BIDE_OK)
        return code;
    comparison->after = after;
    comparison->damaged |= suspects.damaged;
    comparison->rows_done = scanned == BIDE_NOT_FOUND;
    return BIDE_OK;
}

/* Every job of the core has its row. */
static int compare_jobs(struct local *local, struct comparison *comparison, char *error)
{
    uint64_t ids[SLICE_ROWS];
    uint64_t place = comparison->place;
    bool end = false;
    bi_local_lock(local);
    size_t count = bi_core_stored_ids(local->core, &place, ids, SLICE_ROWS, &end);
    pthread_mutex_unlock(&local->lock);
    int code = compare_ids(local, comparison, ids, count, error);
    if (code != BIDE_OK)
        return code;
    comparison->place = place;
    comparison->done = end;
    return BIDE_OK;
}

/* Compares some more. BIDE_OK, or the code of a store that cannot be read: then the same is to be
 * compared again. */
static int compare_slice(struct local *local, struct comparison *comparison, char *error)
{
    return comparison->rows_done ? compare_jobs(local, comparison, error)
                                 : compare_rows(local, comparison, error);
}

/* ---- after a failed write ---- */

/* Acknowledged jobs are lost or have come back. Nothing more is taken on before that was looked
 * into. The lock is held. */
static void refuse_all(struct local *local, const struct comparison *comparison)
{
    if (comparison->differences == 0)
        return;
    local->differs = true;
    snprintf(
        local->differs_text, sizeof(local->differs_text),
        "%.50s does not hold what was acknowledged (%.60s); restart to go on with what it holds",
        local->store->place == NULL ? "the store" : local->store->place, comparison->first);
}

int bi_care_compare_batch(struct local *local, const struct bi_batch *batch, char *error)
{
    struct comparison comparison = {.differences = 0};
    uint64_t ids[SLICE_ROWS];
    size_t count = 0;
    int code = BIDE_OK;
    for (size_t i = 0; code == BIDE_OK && i < batch->count; i++) {
        if (batch->records[i].kind != BI_PAUSE)
            ids[count++] = batch->records[i].image.id;
        if (count == SLICE_ROWS || i + 1 == batch->count) {
            code = compare_ids(local, &comparison, ids, count, error);
            count = 0;
        }
    }
    bi_local_lock(local);
    refuse_all(local, &comparison);
    pthread_mutex_unlock(&local->lock);
    return code;
}

/* When the next comparison begins. If writes fail again and again, so would comparisons follow each
 * other: the pauses between them grow. */
static void schedule(struct local *local, int64_t now)
{
    bool again = local->rest_ended != 0 && now - local->rest_ended < AGAIN_MAX;
    local->rest_pause = !again                              ? 0
                        : local->rest_pause == 0            ? AGAIN_MIN
                        : local->rest_pause * 2 > AGAIN_MAX ? AGAIN_MAX
                                                            : local->rest_pause * 2;
    local->rest_due = again ? local->rest_ended + local->rest_pause : now;
}

void bi_care_want_comparison(struct local *local)
{
    if (!local->rest_wanted && !local->rest_running)
        schedule(local, bi_clock_boot());
    local->rest_wanted = true;
    pthread_cond_signal(&local->chore);
}

int64_t bi_care_next(const struct local *local)
{
    return local->rest_wanted || local->rest_running ? local->rest_due : BI_NEVER;
}

/* Compares a slice; the lock is taken for what follows from it. Answers how often reading has failed,
 * if that is to be logged. */
static uint64_t compare_rest(struct local *local, char *error)
{
    struct comparison *rest = &local->rest;
    uint64_t differences = rest->differences;
    int code = compare_slice(local, rest, error);
    uint64_t failures = 0;
    bi_local_lock(local);
    int64_t now = bi_clock_boot();
    if (code == BIDE_OK) {
        bi_log_ends(&local->rest_failing);
        local->rest_due = now + SLICE_REST;
    } else {
        failures = bi_log_repeats(&local->rest_failing, now);
        local->rest_due =
            now + (local->rest_failing.count > 4 ? READ_PAUSE_MAX
                                                 : READ_PAUSE_MIN << local->rest_failing.count);
    }
    if (rest->differences > differences)
        refuse_all(local, rest);
    if (rest->done) {
        local->rest_running = false;
        local->rest_ended = now;
        schedule(local, now);
    }
    pthread_mutex_unlock(&local->lock);
    return failures;
}

void bi_care_go_on(struct local *local)
{
    struct comparison *rest = &local->rest;
    char error[BIDE_ERROR_SIZE] = "";
    bi_local_lock(local);
    if (!local->rest_running) {
        *rest = (struct comparison){.after = 0};
        local->rest_running = true;
        local->rest_wanted = false;
    }
    pthread_mutex_unlock(&local->lock);
    uint64_t failures = compare_rest(local, error);
    if (failures > 0)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "the store cannot be compared after a failed write (tried %llu times): %s",
               (unsigned long long)failures, error);
    if (rest->done && rest->differences == 0)
        bi_log(&local->context.log, BIDE_LOG_WARN,
               "the store was opened again after a failed write, and has everything");
    else if (rest->done)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "the store was opened again after a failed write: %llu jobs differ; nothing more is "
               "taken on until the queue is opened again, or a check finds no difference",
               (unsigned long long)rest->differences);
}

/* ---- chores ---- */

/* Compares everything at once. BIDE_OK, or the code of a store that could not be read for seconds. */
static int compare_all(struct local *local, struct comparison *comparison, char *error)
{
    for (int tries = 0; !comparison->done && !bi_store_ends_check(local->store);) {
        int code = compare_slice(local, comparison, error);
        tries = code == BIDE_OK ? 0 : tries + 1;
        if (tries == CHECK_TRIES)
            return code;
        if (tries > 0)
            bi_alarm_sleep(READ_PAUSE_MAX / 1000);
    }
    return BIDE_OK;
}

/* Compares what is stored with the core for a check; a queue that has refused everything because of
 * differences goes on if there are none any more. */
static void check_differences(struct local *local, bide_check_report *report)
{
    struct comparison comparison = {.after = 0};
    char error[BIDE_ERROR_SIZE] = "";
    int code = compare_all(local, &comparison, error);
    report->differences = comparison.differences;
    if (report->problem[0] == 0)
        bi_text_copy(report->problem, code != BIDE_OK ? error : comparison.first);
    if (!comparison.done || comparison.differences > 0)
        return;
    bi_local_lock(local);
    bool differed = local->differs;
    local->differs = false;
    pthread_mutex_unlock(&local->lock);
    if (differed)
        bi_log(&local->context.log, BIDE_LOG_WARN,
               "a check finds no difference any more: the queue goes on");
}

/* The core's own structures, some jobs under each lock. NULL, or what is wrong. */
static const char *check_core(struct local *local)
{
    const char *fault = NULL;
    uint64_t place = 0;
    bool end = false;
    while (!end && fault == NULL && !bi_store_ends_check(local->store)) {
        bi_local_lock(local);
        fault = bi_core_check_some(local->core, &place, SLICE_ROWS, &end);
        pthread_mutex_unlock(&local->lock);
    }
    return fault;
}

static int check(struct local *local, bide_check_report *report, char *error)
{
    struct store_report found = {.jobs = 0};
    memset(report, 0, sizeof(*report));
    int code = local->store->ops->check(local->store, &found, report->problem);
    report->jobs = found.jobs;
    report->damaged = found.damaged;
    if (code != BIDE_OK && code != BIDE_EIO) {
        bi_text_copy(error, report->problem);
        return code;
    }
    check_differences(local, report);
    const char *fault = check_core(local);
    if (bi_store_ends_check(local->store)) {
        code = local->store->stopping ? BIDE_CLOSED : BIDE_CANCELLED;
        bi_text_copy(error, bide_code_text(code));
        return code;
    }
    if (fault != NULL && report->problem[0] == 0)
        bi_text_copy(report->problem, fault);
    return BIDE_OK;
}

void bi_care_do(struct local *local, bide_op *op)
{
    int code;
    if (op->kind == BIDE_OP_BACKUP)
        code = local->store->ops->backup(local->store, op->backup.path, op->error);
    else
        code = check(local, op->check.report, op->error);
    bi_local_lock(local);
    if (op == local->checking)
        local->checking = NULL;
    local->chore_op = NULL;
    local->store->check_cancelled = false;
    op->private_.hold = 0;
    op->private_.status = code;
    list_add(&local->completed, op);
    bi_local_unlock(local);
}
