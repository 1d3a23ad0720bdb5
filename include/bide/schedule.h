/* SPDX-License-Identifier: MIT */
/*
 * schedule.h - jobs that are put again and again: schedules, kept in the queue itself.
 *
 *     bide_schedule report = BIDE_SCHEDULE_INIT;
 *     report.name = "report";
 *     report.when = "30 6 * * mon-fri";
 *     report.zone = "Europe/Berlin";
 *     report.topic = "reports";
 *     bide_schedule_set(queue, &report, NULL);
 *
 *     bide_scheduler *scheduler; // in any number of processes
 *     bide_scheduler_start(queue, NULL, &scheduler);
 *
 * At each moment of a schedule a scheduler puts one job. Any number of schedulers may run on a
 * queue: each moment has exactly one job, also if schedulers or the queue are killed at any time.
 * bided and every worker run one.
 *
 * A schedule is a job in the topic BIDE_SCHEDULE_TOPIC. Its key is the name, its body the definition
 * as JSON, and its due time the next moment. The scheduler deletes that job, and puts its successor
 * and the jobs that are due, in one step (bide_finish_and_put()). So schedules are stored, restored
 * and backed up as all jobs are. Pausing the topic suspends all schedules.
 *
 * The key of a job that a schedule has put names the schedule and the moment:
 * "report@2026-11-20T05:30:00Z".
 *
 * Time       The clock of the queue decides when a moment has come, and which moments were missed.
 * Failure    As in bide.h. A queue without lists and keys (a plain beanstalkd), and a library that
 *            was built without JSON, return BIDE_ENOTSUP.
 * Ownership  The library copies what it is given. A schedule that it returns is one object with all
 *            its texts; the caller frees it.
 */
#ifndef BIDE_SCHEDULE_H
#define BIDE_SCHEDULE_H

#include <bide/bide.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BIDE_SCHEDULE_TOPIC       "$schedules"
#define BIDE_SCHEDULE_NAME_MAX    150     /* bytes of a name */
#define BIDE_SCHEDULE_BODY_MAX    1048576 /* bytes of a body; max_job_size also applies */
#define BIDE_SCHEDULE_MISSED_MAX  1000    /* the largest misfire_max */
#define BIDE_SCHEDULE_MOMENTS_MAX 10000   /* moments in one bide_schedule_next() */

/* What to do with moments that have passed when a scheduler gets to them. */
typedef enum bide_misfire {
    BIDE_MISFIRE_ONCE = 0, /* put one job, for the last of them */
    BIDE_MISFIRE_SKIP = 1, /* the same, but none if the last of them is older than grace_ms */
    BIDE_MISFIRE_ALL = 2,  /* put a job for each, but for the last misfire_max only */
} bide_misfire;

/* What to do if the last job of the schedule still lives: if it is delayed, ready, reserved or
 * buried. */
typedef enum bide_overlap {
    BIDE_OVERLAP_ALLOW = 0,   /* put the next one */
    BIDE_OVERLAP_SKIP = 1,    /* put none for this moment */
    BIDE_OVERLAP_REPLACE = 2, /* cancel it (bide_cancel()) and put the next one */
} bide_overlap;

typedef enum bide_schedule_state {
    BIDE_SCHEDULE_ACTIVE = 0,
    BIDE_SCHEDULE_PAUSED = 1,
    BIDE_SCHEDULE_ENDED = 2,   /* there is no further moment */
    BIDE_SCHEDULE_DAMAGED = 3, /* it cannot be run: see problem */
} bide_schedule_state;

/* "active", "paused", "ended", "damaged"; "once", "skip", "all"; "allow", "skip", "replace"; "?"
 * for an unknown number. */
BIDE_API const char *bide_schedule_state_name(bide_schedule_state state);
BIDE_API const char *bide_misfire_name(bide_misfire misfire);
BIDE_API const char *bide_overlap_name(bide_overlap overlap);

/* A schedule. Begin with BIDE_SCHEDULE_INIT; 0 and NULL are the defaults. */
typedef struct bide_schedule {
    size_t size;       /* sizeof(bide_schedule), set by the INIT macro */
    const char *name;  /* 1 to BIDE_SCHEDULE_NAME_MAX of the bytes of a topic name */
    const char *when;  /* a cron expression, or "every 15m"; see docs/SEMANTICS.md */
    const char *zone;  /* "Europe/Berlin"; default: the zone of the machine that sets it */
    const char *topic; /* of the jobs */
    bide_slice body;   /* of the jobs */
    /* Of the jobs; NULL: the defaults, as of a put. delay_ms counts from the moment. With a key,
     * which requires an overlap policy, the jobs have this key instead of one with the name and the
     * moment. conflict, run_at_ms and expires_at_ms must be 0. */
    const bide_put_options *options;
    /* A job expires so long after it was due. 0: the topic's default; BIDE_NO_DEFAULT: never. */
    int64_t expires_in_ms;
    int64_t jitter_ms;    /* delays each job by 0 to jitter_ms, a function of name and moment */
    int64_t start_at_ms;  /* the first possible moment, and the phase of "every"; 0: any */
    int64_t end_at_ms;    /* moments lie before it; 0: no end */
    int64_t grace_ms;     /* of BIDE_MISFIRE_SKIP; 0: 1 minute */
    uint32_t misfire_max; /* of BIDE_MISFIRE_ALL; 0: 100 */
    bide_misfire misfire;
    bide_overlap overlap;
    bide_schedule_state state; /* set: BIDE_SCHEDULE_PAUSED to pause it */

    /* Only in schedules that the library returns. */
    uint64_t id;         /* of the job of the schedule; another one after each change */
    int64_t next_at_ms;  /* the next moment; 0: none */
    int64_t last_at_ms;  /* the last moment that has made a job; 0: none */
    uint64_t made;       /* jobs that were put */
    const char *problem; /* why it is damaged, or the last failure to run it; NULL: none */
} bide_schedule;

#define BIDE_SCHEDULE_INIT                                                                \
    {                                                                                     \
        sizeof(bide_schedule), NULL, NULL, NULL, NULL, {NULL, 0}, NULL, 0, 0, 0, 0, 0, 0, \
            BIDE_MISFIRE_ONCE, BIDE_OVERLAP_ALLOW, BIDE_SCHEDULE_ACTIVE, 0, 0, 0, 0, NULL \
    }

/*
 * Creates a schedule, or replaces the one with this name, in one step. If when, zone, start and end
 * stay the same, the next moment does; otherwise the new definition decides about all moments that
 * have had no turn yet. A paused schedule stays paused. out (may be NULL) is the schedule as it is
 * stored, with its zone and its next moment.
 * BIDE_TOO_BIG; the codes of a put; BIDE_EBUSY: schedulers or other callers change it all the time.
 */
BIDE_API int bide_schedule_set(bide *queue, const bide_schedule *schedule, bide_schedule **out);

/* BIDE_NOT_FOUND. */
BIDE_API int bide_schedule_get(bide *queue, const char *name, bide_schedule **out);

/* Frees a schedule that the library has returned. NULL is allowed. */
BIDE_API void bide_schedule_free(bide_schedule *schedule);

/*
 * One page of schedules, at most max (1 to BIDE_BATCH_JOBS), in any order. cursor is
 * BIDE_CURSOR_SIZE bytes: "" begins, and is "" again after the last page. A schedule that makes a
 * job between two pages may appear again. The caller frees each.
 */
BIDE_API int bide_schedule_list(bide *queue, char *cursor, bide_schedule **schedules, size_t max,
                                size_t *count);

/* Jobs that it has put stay. BIDE_NOT_FOUND; BIDE_EBUSY. */
BIDE_API int bide_schedule_remove(bide *queue, const char *name);

/* Moments between pause and resume make no jobs, also not later. 0 also if there is nothing to
 * change. BIDE_NOT_FOUND; BIDE_EBUSY; BIDE_EINVAL: it is damaged, or resume does not find its zone;
 * the codes of a put. */
BIDE_API int bide_schedule_pause(bide *queue, const char *name);
BIDE_API int bide_schedule_resume(bide *queue, const char *name);

/* Puts a job now, as if this were a moment, also if the schedule is paused or has ended, and
 * whatever its overlap policy. The next moment stays, and has a job of its own, also if it is due
 * in this millisecond. id may be NULL. BIDE_NOT_FOUND; BIDE_EXISTS with the id of the holder: a job
 * holds the key of the schedule; the codes of a put. */
BIDE_API int bide_schedule_run(bide *queue, const char *name, uint64_t *id);

/* The next moments after after_ms, without a queue: when, zone, start and end are used. Fewer than
 * max (1 to BIDE_SCHEDULE_MOMENTS_MAX) if there are no more. zone (may be NULL) has room for 64
 * bytes: the name of the zone. */
BIDE_API int bide_schedule_next(const bide_schedule *schedule, int64_t after_ms, int64_t *moments,
                                size_t max, size_t *count, char *zone);

/* ---- the scheduler ---- */

typedef struct bide_scheduler bide_scheduler;

/* Begin with BIDE_SCHEDULER_OPTIONS_INIT, in which 0 and NULL mean the default. */
typedef struct bide_scheduler_options {
    size_t size; /* sizeof(bide_scheduler_options), set by the INIT macro */
    /* The holder of a schedule while it has its turn, also in the history of its failures; copied,
     * at most BIDE_HOLDER_MAX bytes. NULL: the host and the pid. */
    const char *name;
    int64_t stop_timeout_ms; /* how long a stop may take: 30 s; BIDE_FOREVER */
} bide_scheduler_options;

#define BIDE_SCHEDULER_OPTIONS_INIT             \
    {                                           \
        sizeof(bide_scheduler_options), NULL, 0 \
    }

/*
 * Starts a thread that puts the jobs of all schedules of the queue; options may be NULL. It sleeps
 * while nothing is due. When the queue is unavailable it tries again, after 50 ms to 5 s.
 * bide_close() fails with BIDE_EBUSY while the queue has schedulers; bide_shutdown() ends the
 * thread. BIDE_ENOTSUP; BIDE_ESYSTEM.
 */
BIDE_API int bide_scheduler_start(bide *queue, const bide_scheduler_options *options,
                                  bide_scheduler **out);

/*
 * Ends the thread and frees the scheduler. What it has begun it completes. NULL is allowed.
 * BIDE_TIMED_OUT: the thread waits for a queue that does not answer, and stop_timeout_ms has
 * passed. It begins nothing more, but the scheduler is not freed: stop it again before
 * bide_close().
 */
BIDE_API int bide_scheduler_stop(bide_scheduler *scheduler);

#ifdef __cplusplus
}
#endif
#endif
