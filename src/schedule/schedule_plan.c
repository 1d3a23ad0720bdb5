/* SPDX-License-Identifier: MIT */
/*
 * schedule_plan - which moments of a schedule are due, and what is put for them.
 *
 * Pure: the time is an argument. So every scheduler comes to the same result, and a step that is
 * repeated after a failure puts the same jobs with the same keys.
 */
#include "schedule/schedule.h"

#include "util/datetime.h"
#include "util/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_GRACE_MS INT64_C(60000)
#define DEFAULT_MISSED   100

/* The bodies of the jobs that one step puts. */
#define STEP_BYTES ((size_t)1 << 20)

/* A lease of the job of a schedule. A scheduler needs it for some milliseconds; when it is killed,
 * another one goes on after this time. */
#define SELF_TTR_MS         5000
#define SELF_BACKOFF_MS     1000
#define SELF_BACKOFF_MAX_MS 15000

int bi_schedule_open_zone(struct schedule *schedule, char *error)
{
    const char *zone = schedule->def.zone;
    assert(schedule->zone == NULL);
    if (zone == NULL && !bi_schedule_needs_zone(schedule))
        return BIDE_OK;

    int code = bi_timezone_open(zone, zone == NULL ? 0 : strlen(zone), &schedule->zone, error);
    if (code == BIDE_OK)
        schedule->def.zone = bi_timezone_name(schedule->zone);
    return code;
}

int64_t bi_schedule_first(const struct schedule *schedule, int64_t after_ms)
{
    int64_t start = schedule->def.start_at_ms, end = schedule->def.end_at_ms;
    if (start != 0 && after_ms < start - 1)
        after_ms = start - 1;

    int64_t moment = bi_cron_next(&schedule->cron, schedule->zone, after_ms);
    return end != 0 && moment >= end ? BI_CRON_NEVER : moment;
}

size_t bi_schedule_moments(const struct schedule *schedule, int64_t from, int64_t last,
                           int64_t *moments, size_t max)
{
    size_t count = 0;
    for (int64_t at = from; at <= last && at != BI_CRON_NEVER && count < max;
         at = bi_schedule_first(schedule, at))
        moments[count++] = at;
    return count;
}

int64_t bi_schedule_between(const struct schedule *schedule, int64_t at_ms)
{
    const struct cron *cron = &schedule->cron;
    bool may_be_moment =
        cron->every_ms > 0 ? (at_ms - cron->anchor_ms) % cron->every_ms == 0 : at_ms % 1000 == 0;
    return at_ms + may_be_moment;
}

/* ---- moments that are due ---- */

/* The last moments up to now, at most max, in order. There may be millions of them, so the range is
 * bisected for a beginning behind which there are just as many. */
static size_t list_last_moments(const struct schedule *schedule, int64_t from, int64_t now,
                                size_t max, int64_t *moments)
{
    size_t count = bi_schedule_moments(schedule, from, now, moments, max + 1);
    if (count <= max)
        return count;

    /* Moments differ by a millisecond at least: more than max from low on, at most max from high. */
    int64_t low = from, high = now + 1;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        count = bi_schedule_moments(schedule, bi_schedule_first(schedule, middle - 1), now, moments,
                                    max + 1);
        if (count == max)
            return count;
        if (count > max)
            low = middle;
        else
            high = middle;
    }
    return bi_schedule_moments(schedule, bi_schedule_first(schedule, high - 1), now, moments, max);
}

/* How many jobs one step may put. */
static size_t step_max(const struct schedule *schedule)
{
    size_t size = schedule->def.body.size;
    size_t fitting = size == 0 ? BI_SCHEDULE_STEP_MAX : STEP_BYTES / size;
    return fitting < 1 ? 1 : fitting < BI_SCHEDULE_STEP_MAX ? fitting : BI_SCHEDULE_STEP_MAX;
}

/* How many of the due moments get a job. */
static size_t missed_max(const bide_schedule *def)
{
    /* Jobs of one step would overlap. */
    if (def->misfire != BIDE_MISFIRE_ALL || def->overlap != BIDE_OVERLAP_ALLOW)
        return 1;
    return def->misfire_max == 0 ? DEFAULT_MISSED : def->misfire_max;
}

static void plan_due(const struct schedule *schedule, int64_t now, struct schedule_plan *plan)
{
    int64_t moments[BIDE_SCHEDULE_MISSED_MAX + 1];
    const bide_schedule *def = &schedule->def;
    int64_t grace = def->grace_ms == 0 ? DEFAULT_GRACE_MS : def->grace_ms;

    size_t count = list_last_moments(schedule, def->next_at_ms, now, missed_max(def), moments);
    assert(count > 0 && count <= BIDE_SCHEDULE_MISSED_MAX);
    int64_t last = moments[count - 1];

    plan->next_ms = bi_schedule_first(schedule, last);
    if (def->misfire == BIDE_MISFIRE_SKIP && last < now - grace)
        return;

    plan->count = step_max(schedule);
    if (count <= plan->count)
        plan->count = count;
    else
        plan->next_ms = moments[plan->count]; /* the rest follows at once, in further steps */
    memcpy(plan->moments, moments, plan->count * sizeof(moments[0]));
}

void bi_schedule_plan(const struct schedule *schedule, int64_t now_ms, struct schedule_plan *plan)
{
    const bide_schedule *def = &schedule->def;
    plan->count = 0;
    plan->next_ms = BI_CRON_NEVER;

    if (def->state != BIDE_SCHEDULE_ACTIVE)
        return;
    if (def->next_at_ms == 0)
        plan->next_ms = bi_schedule_first(schedule, now_ms);
    else if (def->next_at_ms > now_ms)
        plan->next_ms = def->next_at_ms; /* its job was kicked */
    else
        plan_due(schedule, now_ms, plan);
}

void bi_schedule_advance(struct schedule *schedule, const struct schedule_plan *plan)
{
    bide_schedule *def = &schedule->def;
    if (def->state == BIDE_SCHEDULE_PAUSED)
        return;

    def->made += plan->count;
    if (plan->count > 0)
        def->last_at_ms = plan->moments[plan->count - 1];
    def->next_at_ms = plan->next_ms == BI_CRON_NEVER ? 0 : plan->next_ms;
    def->state = def->next_at_ms == 0 ? BIDE_SCHEDULE_ENDED : BIDE_SCHEDULE_ACTIVE;
}

/* ---- replacing a definition ---- */

static bool equal_texts(const char *a, const char *b)
{
    return (a == NULL || b == NULL) ? a == b : strcmp(a, b) == 0;
}

static bool same_moments(const bide_schedule *a, const bide_schedule *b)
{
    return equal_texts(a->when, b->when) && equal_texts(a->zone, b->zone) &&
           a->start_at_ms == b->start_at_ms && a->end_at_ms == b->end_at_ms;
}

void bi_schedule_inherit(struct schedule *schedule, const struct schedule *old, int64_t now_ms)
{
    static const bide_schedule none = BIDE_SCHEDULE_INIT;
    const bide_schedule *before = old == NULL || old->def.when == NULL ? &none : &old->def;
    bide_schedule *def = &schedule->def;

    def->made = before->made;
    def->last_at_ms = before->last_at_ms;
    def->next_at_ms = 0;
    if (before->state == BIDE_SCHEDULE_PAUSED || def->state == BIDE_SCHEDULE_PAUSED) {
        def->state = BIDE_SCHEDULE_PAUSED;
        return;
    }

    /* A moment that is due and had no turn yet is decided by the new definition. */
    int64_t after =
        before->next_at_ms != 0 && before->next_at_ms <= now_ms ? before->next_at_ms - 1 : now_ms;
    int64_t next = before->next_at_ms != 0 && same_moments(def, before)
                       ? before->next_at_ms
                       : bi_schedule_first(schedule, after);
    def->next_at_ms = next == BI_CRON_NEVER ? 0 : next;
    def->state = def->next_at_ms == 0 ? BIDE_SCHEDULE_ENDED : BIDE_SCHEDULE_ACTIVE;
}

/* ---- what is put ---- */

int64_t bi_schedule_jitter(const struct schedule *schedule, int64_t moment_ms)
{
    const bide_schedule *def = &schedule->def;
    if (def->jitter_ms == 0)
        return 0;
    uint64_t hash = bi_hash_bytes((uint64_t)moment_ms, def->name, strlen(def->name));
    return (int64_t)(hash % ((uint64_t)def->jitter_ms + 1));
}

/* "report@2026-11-20T05:30:00Z"; milliseconds only if there are any. */
static bide_slice format_key(const struct schedule *schedule, int64_t moment_ms, char *room)
{
    char moment[BI_DATETIME_SIZE];
    bi_datetime_format_rfc3339(moment, moment_ms);
    char *fraction = strstr(moment, ".000Z");
    if (fraction != NULL)
        memcpy(fraction, "Z", 2);

    int size = snprintf(room, BIDE_KEY_MAX, "%s@%s", schedule->def.name, moment);
    assert(size > 0 && size < BIDE_KEY_MAX);
    return (bide_slice){room, (size_t)size};
}

bide_slice bi_schedule_last_key(const struct schedule *schedule, char *room)
{
    if (schedule->options.key.size > 0)
        return schedule->options.key;
    if (schedule->def.last_at_ms == 0)
        return (bide_slice){NULL, 0};
    return format_key(schedule, schedule->def.last_at_ms, room);
}

static int64_t add_time(int64_t at_ms, int64_t ms)
{
    return ms > BIDE_TIMESTAMP_MAX_MS - at_ms ? BIDE_TIMESTAMP_MAX_MS : at_ms + ms;
}

void bi_schedule_describe(const struct schedule *schedule, int64_t moment_ms, int64_t now_ms,
                          struct schedule_put *put, bide_put_item *item)
{
    const bide_schedule *def = &schedule->def;
    bide_put_options *options = &put->options;
    *options = schedule->options;

    int64_t due = add_time(moment_ms, options->delay_ms);
    due = add_time(due, bi_schedule_jitter(schedule, moment_ms));
    options->delay_ms = 0;
    options->run_at_ms = due > now_ms ? due : 0;
    options->expires_at_ms =
        def->expires_in_ms > 0 ? add_time(due, def->expires_in_ms) : def->expires_in_ms;

    /* A job that has this key is the job of this moment, or the one that the policy lets live. */
    options->conflict = BIDE_SKIP;
    if (options->key.size == 0)
        options->key = format_key(schedule, moment_ms, put->key);
    *item = (bide_put_item){
        .topic = {def->topic, strlen(def->topic)}, .body = def->body, .options = options};
}

bool bi_schedule_describe_self(const struct schedule *schedule, struct schedule_put *put,
                               bide_put_item *item)
{
    static const bide_put_options defaults = BIDE_PUT_OPTIONS_INIT;
    const bide_schedule *def = &schedule->def;
    bool unplanned = def->state == BIDE_SCHEDULE_ACTIVE && def->next_at_ms == 0;
    bide_put_options *options = &put->options;

    free(put->text);
    put->text = bi_schedule_format_stored(def);
    if (put->text == NULL)
        return false;

    *options = defaults;
    options->key = (bide_slice){def->name, strlen(def->name)};
    options->ttr_ms = SELF_TTR_MS;
    options->backoff_base_ms = SELF_BACKOFF_MS;
    options->backoff_max_ms = SELF_BACKOFF_MAX_MS;
    /* The defaults of the topic, if it has a policy, are not for these jobs. */
    options->max_retries = BIDE_NO_DEFAULT;
    options->expires_at_ms = options->retain_ms = BIDE_NO_DEFAULT;
    /* One without a next moment sleeps until the end of time; a new one is planned at once. */
    options->run_at_ms = def->next_at_ms != 0 ? def->next_at_ms
                         : unplanned          ? 0
                                              : BIDE_TIMESTAMP_MAX_MS;
    *item = (bide_put_item){.topic = {BIDE_SCHEDULE_TOPIC, strlen(BIDE_SCHEDULE_TOPIC)},
                            .body = {put->text, strlen(put->text)},
                            .options = options};
    return true;
}
