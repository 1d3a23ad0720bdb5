/* SPDX-License-Identifier: MIT */
/*
 * schedule - schedules as jobs of the queue.
 *
 *     schedule_json.c   the definition as JSON: what the user writes, and the body of the job
 *     schedule_plan.c   which moments are due, and what is put for them; pure
 *     schedule_call.c   set, get, remove, ...: a few ops one after the other, without waiting
 *     schedule.c        the blocking calls of bide/schedule.h
 *     scheduler.c       the thread that puts the jobs (scheduler.h)
 *
 * A schedule is a job in BIDE_SCHEDULE_TOPIC. Whatever changes deletes the job and puts a successor
 * with the same key in one step, so that the id of the job is its version: a step that names an old
 * id fails and is repeated from the start. The next moment is in the body, because the due time of a
 * job changes when it is kicked, fails or loses its lease.
 */
#ifndef BI_SCHEDULE_H
#define BI_SCHEDULE_H

#include "util/cron.h"
#include "util/message.h"
#include "util/timezone.h"

#include <bide/schedule.h>
#include <jansson.h>

struct schedule {
    bide_schedule def; /* first: the caller of the library gets this; its texts are in json */
    bide_put_options options;
    json_t *json;
    void *body, *key; /* if they are base64 in JSON */
    char problem[BIDE_ERROR_SIZE];
    struct cron cron;
    struct timezone_rules *zone; /* NULL before bi_schedule_open_zone() */
};

/* ---- schedule_json.c ---- */

/* Functions that fail return a code and a message in error (BI_ERRMSG_SIZE bytes). */

/* Decodes and checks a definition; only whether its zone exists is left open. Members that the
 * library adds are allowed. With now_ms other than 0 times may also be texts: "ttr":"5m",
 * "start_at":"tomorrow 9:00", in the zone of the definition. BIDE_EINVAL, BIDE_ENOMEM. */
int bi_schedule_decode(const char *text, size_t size, int64_t now_ms, struct schedule **out,
                       char *error);
/* The same for a struct of the caller. */
int bi_schedule_copy(const bide_schedule *given, struct schedule **out, char *error);
void bi_schedule_free(struct schedule *schedule);

/* The definition as JSON; also with the members that the library adds: for the stored form those
 * that the job itself does not have, else all. NULL: out of memory. */
enum schedule_form { BI_SCHEDULE_DEFINITION, BI_SCHEDULE_STORED, BI_SCHEDULE_FULL };
json_t *bi_schedule_encode(const bide_schedule *schedule, enum schedule_form form);

/* Its stored form. The size depends on the definition only, so that a schedule that was accepted
 * never becomes too large for a queue when its moments and counts change. NULL: out of memory. */
char *bi_schedule_format_stored(const bide_schedule *schedule);

/* Parses a point in time in a zone; NULL: that of the process. what begins the message: "--start".
 * BIDE_EINVAL; the codes of bi_timezone_open(). */
int bi_schedule_parse_moment(const char *what, const char *text, const char *zone, int64_t now_ms,
                             int64_t *at_ms, char *error);

bool bi_schedule_name_valid(const char *name, size_t size);

/* Decodes the schedule of a job. If the definition is damaged the schedule has only a name, a state
 * and a problem, and the code is still BIDE_OK. BIDE_ENOMEM. */
int bi_schedule_of_job(const bide_job *job, struct schedule **out, char *error);

/* ---- schedule_plan.c ---- */

/* Jobs that one step puts for a schedule at most. */
#define BI_SCHEDULE_STEP_MAX 100

/* Opens the zone; without a name that of the machine, which becomes the zone of the schedule, if it
 * needs one. BIDE_EINVAL: there is no such zone; BIDE_EIO, BIDE_ENOMEM. */
int bi_schedule_open_zone(struct schedule *schedule, char *error);

/* Whether its moments depend on the zone, which must be open then for all that computes them. */
static inline bool bi_schedule_needs_zone(const struct schedule *schedule)
{
    return schedule->cron.every_ms == 0;
}

/* The first moment after a time; BI_CRON_NEVER. */
int64_t bi_schedule_first(const struct schedule *schedule, int64_t after_ms);

/* Moments in order, from one of them to the last time, at most max; returns their number. */
size_t bi_schedule_moments(const struct schedule *schedule, int64_t from, int64_t last,
                           int64_t *moments, size_t max);

/* The first time from at_ms on that cannot be a moment. */
int64_t bi_schedule_between(const struct schedule *schedule, int64_t at_ms);

struct schedule_plan {
    int64_t moments[BI_SCHEDULE_STEP_MAX]; /* those that get a job now, in order */
    size_t count;
    int64_t next_ms; /* when the schedule has its next turn; BI_CRON_NEVER */
};

/* What is to be done at this time of the queue's clock. */
void bi_schedule_plan(const struct schedule *schedule, int64_t now_ms, struct schedule_plan *plan);

/* Records that the jobs of a plan are put. */
void bi_schedule_advance(struct schedule *schedule, const struct schedule_plan *plan);

/* The first moment of a definition that replaces another one; old may be NULL or damaged. */
void bi_schedule_inherit(struct schedule *schedule, const struct schedule *old, int64_t now_ms);

/* A put of a job of a schedule, or of its successor. */
struct schedule_put {
    bide_put_options options;
    char key[BIDE_KEY_MAX];
    char *text; /* the body of a successor; owned by the caller, who frees it */
};

/* The job for a moment. It borrows from schedule and put. */
void bi_schedule_describe(const struct schedule *schedule, int64_t moment_ms, int64_t now_ms,
                          struct schedule_put *put, bide_put_item *item);
/* The job of the schedule itself. False: out of memory. */
bool bi_schedule_describe_self(const struct schedule *schedule, struct schedule_put *put,
                               bide_put_item *item);

/* The key that the last job of the schedule has; empty: none that matters. room: BIDE_KEY_MAX. */
bide_slice bi_schedule_last_key(const struct schedule *schedule, char *room);

/* The delay of the job of a moment by jitter. */
int64_t bi_schedule_jitter(const struct schedule *schedule, int64_t moment_ms);

/* ---- schedule_call.c ---- */

enum schedule_call_kind {
    BI_SCHEDULE_GET,
    BI_SCHEDULE_SET,
    BI_SCHEDULE_REMOVE,
    BI_SCHEDULE_PAUSE,
    BI_SCHEDULE_RESUME,
    BI_SCHEDULE_RUN,
};

/*
 * A call in progress: begin() fills in its first op; when that op has completed, next() fills in
 * the next one or ends the call. The caller submits the ops in whatever way it does, with any
 * completion queue. The op borrows from the call until it has completed.
 */
struct schedule_call {
    enum schedule_call_kind kind;
    char name[BIDE_SCHEDULE_NAME_MAX + 1];
    struct schedule *wanted;   /* set: owned */
    bide_schedule_state state; /* set: of the caller; each try inherits anew */
    struct schedule *found;    /* as it is stored, and then as it will be */
    bide_job job;
    int stage;
    unsigned tries;
    bool unknown; /* an earlier try has got no reply */
    bide_put_item items[2];
    struct schedule_put puts[2];
    /* The result: */
    int code;
    char error[BIDE_ERROR_SIZE];
    struct schedule *result; /* get, set */
    uint64_t id;             /* run */
};

/* name: of another kind than set. wanted: with an open zone; the call takes it over. */
void bi_schedule_call_begin(struct schedule_call *call, enum schedule_call_kind kind,
                            const char *name, struct schedule *wanted, bide_op *op);
/* True: run the op. False: the call has ended. */
bool bi_schedule_call_next(struct schedule_call *call, bide_op *op);
/* Frees all, also the result. */
void bi_schedule_call_done(struct schedule_call *call);

#endif
