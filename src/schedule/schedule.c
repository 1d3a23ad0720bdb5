/* SPDX-License-Identifier: MIT */
/*
 * schedule - the blocking calls of bide/schedule.h.
 */
#include <bide/schedule.h>

#include "queue/queue.h"
#include "schedule/scheduler.h"

#include <string.h>

#ifdef BIDE_WITH_JSON

#include "schedule/schedule.h"
#include "util/sized_struct.h"
#include "util/thread.h"

#include <stdlib.h>

/* Sets the last error to that of a call; the code is returned. */
static int fail(const char *call, int code, const char *error)
{
    return bi_last_error_set(code, "%s: %s", call, error);
}

/* Runs a call to its end, with cancellation disabled. A schedule that it returns goes to *out,
 * which may be NULL, as may id. */
static int run(bide *queue, const char *call_name, enum schedule_call_kind kind, const char *name,
               struct schedule *wanted, bide_schedule **out, uint64_t *id)
{
    struct schedule_call call;
    bide_op op;
    memset(&op, 0, sizeof(op));

    bi_schedule_call_begin(&call, kind, name, wanted, &op);
    do {
        int code = bi_blocking_call_run(queue, &op);
        /* Rejected before it became an op. */
        if (code == BIDE_ECALLBACK || queue == NULL) {
            bi_schedule_call_done(&call);
            return code;
        }
    } while (bi_schedule_call_next(&call, &op));

    int code = call.code;
    if (id != NULL && (code == BIDE_OK || code == BIDE_EXISTS))
        *id = call.id;
    if (out != NULL && code == BIDE_OK) {
        *out = &call.result->def;
        call.result = NULL;
    }
    char error[BIDE_ERROR_SIZE];
    bi_text_copy(error, call.error);
    bi_schedule_call_done(&call);
    bi_last_error_clear();
    return code == BIDE_OK ? code : fail(call_name, code, error);
}

int bide_schedule_set(bide *queue, const bide_schedule *schedule, bide_schedule **out)
{
    BI_NO_CANCEL;
    struct schedule *wanted = NULL;
    char error[BI_ERRMSG_SIZE] = "schedule is NULL";

    int code = schedule == NULL ? BIDE_EINVAL : bi_schedule_copy(schedule, &wanted, error);
    if (code == BIDE_OK)
        code = bi_schedule_open_zone(wanted, error);
    if (code != BIDE_OK) {
        bi_schedule_free(wanted);
        return fail("schedule_set", code, error);
    }
    return run(queue, "schedule_set", BI_SCHEDULE_SET, NULL, wanted, out, NULL);
}

/* The same for a call that names a schedule. */
static int run_named(bide *queue, const char *call_name, enum schedule_call_kind kind,
                     const char *name, bide_schedule **out, uint64_t *id)
{
    BI_NO_CANCEL;
    if (name == NULL || !bi_schedule_name_valid(name, strlen(name)))
        return bi_last_error_set(BIDE_EINVAL, "%s: \"%.60s\" is not the name of a schedule",
                                 call_name, name == NULL ? "" : name);
    return run(queue, call_name, kind, name, NULL, out, id);
}

int bide_schedule_get(bide *queue, const char *name, bide_schedule **out)
{
    if (out == NULL)
        return bi_last_error_set(BIDE_EINVAL, "schedule_get: out is NULL");
    return run_named(queue, "schedule_get", BI_SCHEDULE_GET, name, out, NULL);
}

int bide_schedule_remove(bide *queue, const char *name)
{
    return run_named(queue, "schedule_remove", BI_SCHEDULE_REMOVE, name, NULL, NULL);
}

int bide_schedule_pause(bide *queue, const char *name)
{
    return run_named(queue, "schedule_pause", BI_SCHEDULE_PAUSE, name, NULL, NULL);
}

int bide_schedule_resume(bide *queue, const char *name)
{
    return run_named(queue, "schedule_resume", BI_SCHEDULE_RESUME, name, NULL, NULL);
}

int bide_schedule_run(bide *queue, const char *name, uint64_t *id)
{
    return run_named(queue, "schedule_run", BI_SCHEDULE_RUN, name, NULL, id);
}

void bide_schedule_free(bide_schedule *schedule)
{
    /* The struct of the library begins with that of the caller. */
    bi_schedule_free((struct schedule *)(void *)schedule);
}

/* ---- list ---- */

/* Takes the schedules of a page. All or none. */
static int take_page(const bide_job *jobs, size_t count, bide_schedule **schedules)
{
    char error[BI_ERRMSG_SIZE];

    for (size_t i = 0; i < count; i++) {
        struct schedule *schedule;
        int code = bi_schedule_of_job(&jobs[i], &schedule, error);
        if (code != BIDE_OK) {
            while (i-- > 0)
                bide_schedule_free(schedules[i]);
            return fail("schedule_list", code, error);
        }
        schedules[i] = &schedule->def;
    }
    return BIDE_OK;
}

int bide_schedule_list(bide *queue, char *cursor, bide_schedule **schedules, size_t max,
                       size_t *count)
{
    BI_NO_CANCEL;
    if (cursor == NULL || schedules == NULL || count == NULL || max == 0 || max > BIDE_BATCH_JOBS)
        return bi_last_error_set(BIDE_EINVAL, "schedule_list: NULL, or not 1 to %d schedules",
                                 BIDE_BATCH_JOBS);
    bide_job *jobs = calloc(max, sizeof(*jobs));
    if (jobs == NULL)
        return bi_last_error_set(BIDE_ENOMEM, "schedule_list: out of memory");

    char next[BIDE_CURSOR_SIZE];
    memcpy(next, cursor, sizeof(next));
    size_t found = 0;
    int code = bide_list(queue, BIDE_SCHEDULE_TOPIC, BIDE_STATE_ANY, NULL, next, jobs, max, &found);
    if (code == BIDE_OK) {
        code = take_page(jobs, found, schedules);
        for (size_t i = 0; i < found; i++)
            bide_job_clear(&jobs[i]);
    }
    if (code == BIDE_OK) {
        memcpy(cursor, next, sizeof(next));
        *count = found;
    }
    free(jobs);
    return code;
}

/* ---- next ---- */

/* The definition of a struct of which only the moments matter. */
static int copy_moments(const bide_schedule *schedule, struct schedule **out, char *error)
{
    bide_schedule given = BIDE_SCHEDULE_INIT;
    int code = bi_sized_struct_copy(&given, schedule, "BIDE_SCHEDULE_INIT", error);
    given.name = given.topic = "x";
    given.options = NULL;
    given.body = (bide_slice){NULL, 0};
    return code == BIDE_OK ? bi_schedule_copy(&given, out, error) : code;
}

int bide_schedule_next(const bide_schedule *schedule, int64_t after_ms, int64_t *moments,
                       size_t max, size_t *count, char *zone)
{
    BI_NO_CANCEL;
    struct schedule *copy = NULL;
    char error[BI_ERRMSG_SIZE] = "NULL, or not 1 to 10,000 moments";

    bi_last_error_clear();
    int code = schedule == NULL || moments == NULL || count == NULL || max == 0 ||
                       max > BIDE_SCHEDULE_MOMENTS_MAX
                   ? BIDE_EINVAL
                   : copy_moments(schedule, &copy, error);
    if (code == BIDE_OK)
        code = bi_schedule_open_zone(copy, error);
    if (code != BIDE_OK) {
        bi_schedule_free(copy);
        return fail("schedule_next", code, error);
    }

    *count = bi_schedule_moments(copy, bi_schedule_first(copy, after_ms), INT64_MAX, moments, max);
    if (zone != NULL)
        snprintf(zone, BI_TIMEZONE_NAME_SIZE, "%s",
                 copy->def.zone == NULL ? "UTC" : copy->def.zone);
    bi_schedule_free(copy);
    return BIDE_OK;
}

#else /* without JSON */

#pragma GCC diagnostic ignored "-Wunused-parameter"

static int no_json(void)
{
    return bi_last_error_set(BIDE_ENOTSUP, "this bide was built without JSON (libjansson-dev), "
                                           "which schedules need");
}

#define WITHOUT_JSON(name, ...) \
    int name(__VA_ARGS__)       \
    {                           \
        return no_json();       \
    }

WITHOUT_JSON(bide_schedule_set, bide *queue, const bide_schedule *schedule, bide_schedule **out)
WITHOUT_JSON(bide_schedule_get, bide *queue, const char *name, bide_schedule **out)
WITHOUT_JSON(bide_schedule_list, bide *queue, char *cursor, bide_schedule **schedules, size_t max,
             size_t *count)
WITHOUT_JSON(bide_schedule_remove, bide *queue, const char *name)
WITHOUT_JSON(bide_schedule_pause, bide *queue, const char *name)
WITHOUT_JSON(bide_schedule_resume, bide *queue, const char *name)
WITHOUT_JSON(bide_schedule_run, bide *queue, const char *name, uint64_t *id)
WITHOUT_JSON(bide_schedule_next, const bide_schedule *schedule, int64_t after_ms, int64_t *moments,
             size_t max, size_t *count, char *zone)
WITHOUT_JSON(bi_scheduler_start, bide *queue, const bide_scheduler_options *options, bool patient,
             bide_scheduler **out)

/* There are no schedules and no schedulers. */

void bide_schedule_free(bide_schedule *schedule)
{
}

void bi_scheduler_notice(bide_scheduler *scheduler)
{
}

void bi_scheduler_quit(bide_scheduler *scheduler)
{
}

bool bi_scheduler_join(bide_scheduler *scheduler, int64_t us)
{
    return true;
}

void bi_scheduler_abandon(bide_scheduler *scheduler)
{
}

int bide_scheduler_stop(bide_scheduler *scheduler)
{
    return BIDE_OK;
}

#endif

int bide_scheduler_start(bide *queue, const bide_scheduler_options *options, bide_scheduler **out)
{
    return bi_scheduler_start(queue, options, false, out);
}
