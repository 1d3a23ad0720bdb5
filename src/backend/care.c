/* SPDX-License-Identifier: MIT */
/*
 * care - what takes long and disturbs nobody: backups and checks.
 */
#include "backend/inside.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows that are compared under one lock. */
#define SLICE_ROWS 256
/* How often a job that differs is looked at again: it may just have been changing. */
#define LOOKS 20

bool bi_care_is_chore(const struct local *local, const bide_op *op)
{
    return local->keeps && (op->kind == BIDE_OP_BACKUP || op->kind == BIDE_OP_CHECK);
}

/* ---- comparing ---- */

struct comparing {
    struct local *local;
    uint64_t id;
    bool same;
    uint64_t differences;
    char *error;
};

static void note(struct comparing *comparing, uint64_t id, const char *difference)
{
    if (comparing->differences++ == 0)
        snprintf(comparing->error, BIDE_ERROR_SIZE, "job %llu: %s", (unsigned long long)id,
                 difference);
}

/* What differs between a row and the core, which the lock is taken for; NULL: nothing, or it is not
 * loaded yet. */
static const char *difference_of(struct local *local, const struct bi_record *record,
                                 const char *damage)
{
    bi_local_lock(local);
    const char *difference = NULL;
    if (damage == NULL && bi_recovery_knows(local, record->image.id))
        difference = bi_core_compare(local->core, &record->image);
    pthread_mutex_unlock(&local->lock);
    return difference;
}

static int look_again(void *ctx, const struct bi_record *record, const char *damage)
{
    struct comparing *comparing = ctx;
    comparing->same = difference_of(comparing->local, record, damage) == NULL;
    return BIDE_OK;
}

/* The job is, or should be, in the store. Looks until row and core agree. */
static bool agrees(struct comparing *comparing, uint64_t id)
{
    struct local *local = comparing->local;
    char error[BIDE_ERROR_SIZE];
    for (int i = 0; i < LOOKS; i++) {
        if (i > 0)
            bi_alarm_sleep(5);
        comparing->same = false;
        int code = local->store->ops->fetch(local->store, id, look_again, comparing, error);
        if (code == BIDE_NOT_FOUND) {
            bi_local_lock(local);
            comparing->same = !bi_core_is_stored(local->core, id);
            pthread_mutex_unlock(&local->lock);
        }
        if (comparing->same)
            return true;
    }
    return false;
}

static int compare_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct comparing *comparing = ctx;
    const char *difference = difference_of(comparing->local, record, damage);
    if (difference != NULL && !agrees(comparing, record->image.id))
        note(comparing, record->image.id, difference);
    return BIDE_OK;
}

/* Every row is in the core. */
static int compare_rows(struct comparing *comparing, char *error)
{
    struct local *local = comparing->local;
    uint64_t after = 0;
    int code = BIDE_OK;
    while (code == BIDE_OK && !local->store->stopping)
        code = local->store->ops->scan(local->store, &after, BIDE_ID_MAX, SLICE_ROWS, compare_row,
                                       comparing, error);
    return code == BIDE_NOT_FOUND ? BIDE_OK : code;
}

/* Every job of the core has its row. */
static void compare_jobs(struct comparing *comparing)
{
    struct local *local = comparing->local;
    uint64_t ids[SLICE_ROWS];
    uint64_t place = 0;
    bool end = false;
    while (!end && !local->store->stopping) {
        bi_local_lock(local);
        size_t count = bi_core_stored_ids(local->core, &place, ids, SLICE_ROWS, &end);
        pthread_mutex_unlock(&local->lock);
        for (size_t i = 0; i < count; i++)
            if (!agrees(comparing, ids[i]))
                note(comparing, ids[i], "it is not stored as it should be");
    }
}

int bi_care_compare(struct local *local, uint64_t *differences, char *error)
{
    struct comparing comparing = {.local = local, .error = error};
    int code = compare_rows(&comparing, error);
    if (code == BIDE_OK)
        compare_jobs(&comparing);
    *differences = comparing.differences;
    return code;
}

/* ---- chores ---- */

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
    char difference[BIDE_ERROR_SIZE] = "";
    if (bi_care_compare(local, &report->differences, difference) != BIDE_OK ||
        report->differences > 0)
        if (report->problem[0] == 0)
            bi_text_copy(report->problem, difference);
    bi_local_lock(local);
    const char *fault = bi_core_check(local->core);
    pthread_mutex_unlock(&local->lock);
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
    op->private_.hold = 0;
    op->private_.status = code;
    list_add(&local->completed, op);
    bi_local_unlock(local);
}
