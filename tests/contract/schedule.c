/* SPDX-License-Identifier: MIT */
/*
 * schedule.c - schedules: definitions, moments, policies, and any number of schedulers.
 *
 * A test that needs a moment which is due stores a definition whose next moment is past, in the form
 * that docs/SEMANTICS.md gives. A bided puts the jobs of schedules itself, so that a test must not
 * depend on a scheduler being absent: it pauses the topic of the schedules instead.
 */
#include "location.h"

#include <bide/schedule.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000)

/* ---- helpers ---- */

static bide *open_schedules(void)
{
    bide *queue = open_queue("");
    sweep_topic(queue, known_topic(BIDE_SCHEDULE_TOPIC));
    return queue;
}

static bide_schedule daily(const char *name, const char *topic)
{
    bide_schedule schedule = BIDE_SCHEDULE_INIT;
    schedule.name = name;
    schedule.when = "0 6 * * *";
    schedule.zone = "UTC";
    schedule.topic = topic;
    schedule.body = slice("body");
    return schedule;
}

static void set(bide *queue, const bide_schedule *schedule)
{
    OK(bide_schedule_set(queue, schedule, NULL));
}

/* Copies of what get returns; the texts are not. */
static bide_schedule got(bide *queue, const char *name)
{
    bide_schedule *schedule = NULL;
    OK(bide_schedule_get(queue, name, &schedule));
    bide_schedule copy = *schedule;
    bide_schedule_free(schedule);
    return copy;
}

static bool has_schedule(bide *queue, const char *name)
{
    bide_schedule *schedule = NULL;
    int code = bide_schedule_get(queue, name, &schedule);
    bide_schedule_free(schedule);
    return code == BIDE_OK;
}

/* Starts a scheduler, which the test stops. */
static bide_scheduler *start(bide *queue)
{
    bide_scheduler *scheduler = NULL;
    OK(bide_scheduler_start(queue, NULL, &scheduler));
    return scheduler;
}

static void stop(bide_scheduler *scheduler)
{
    OK(bide_scheduler_stop(scheduler));
}

/* Runs a scheduler until a schedule has ended. */
static void run_to_its_end(bide *queue, const char *name)
{
    bide_scheduler *scheduler = start(queue);
    UNTIL(got(queue, name).state == BIDE_SCHEDULE_ENDED);
    stop(scheduler);
}

/* The current second, or another one from it. */
static int64_t second_from_now(int64_t seconds)
{
    return (wall_ms() / SECOND + seconds) * SECOND;
}

/* Stores a schedule as a scheduler leaves it: its next moment is the given one. */
static uint64_t put_due(bide *queue, const char *name, const char *topic, int64_t next_ms,
                        const char *more)
{
    char body[1000];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice(name);
    options.ttr_ms = 5000;
    snprintf(body, sizeof body,
             "{\"name\":\"%s\",\"when\":\"every 1s\",\"topic\":\"%s\",\"body\":\"b\","
             "\"next_at_ms\":%lld%s%s}",
             name, topic, (long long)next_ms, more[0] == 0 ? "" : ",", more);
    return put_as(queue, BIDE_SCHEDULE_TOPIC, body, &options);
}

/* The moment in the key of a job: "name@2026-11-20T06:00:00Z". */
static int64_t moment_of(const bide_job *job, const char *name)
{
    char key[BIDE_KEY_MAX + 1];
    struct tm tm = {0};
    size_t length = strlen(name);
    snprintf(key, sizeof key, "%.*s", (int)job->key_size, (const char *)job->key);
    CHECK(strncmp(key, name, length) == 0 && key[length] == '@');
    int fields = sscanf(key + length + 1, "%d-%d-%dT%d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                        &tm.tm_hour, &tm.tm_min, &tm.tm_sec);
    EQ(fields, 6);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (int64_t)timegm(&tm) * SECOND;
}

/* ---- definitions ---- */

static void set_returns_what_get_and_list_return(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_schedule wanted = daily("report", a), *out[3] = {NULL};
    options.priority = 7;
    options.max_retries = 3;
    wanted.options = &options;
    wanted.zone = "Europe/Berlin";
    wanted.jitter_ms = 5;
    wanted.overlap = BIDE_OVERLAP_SKIP;
    wanted.misfire = BIDE_MISFIRE_ALL;
    wanted.misfire_max = 9;
    OK(bide_schedule_set(queue, &wanted, &out[0]));
    OK(bide_schedule_get(queue, "report", &out[1]));
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    OK(bide_schedule_list(queue, cursor, &out[2], 1, &count));
    EQ(count, 1);
    for (int i = 0; i < 3; i++) {
        const bide_schedule *schedule = out[i];
        TEXT(schedule->name, strlen(schedule->name), "report");
        TEXT(schedule->when, strlen(schedule->when), "0 6 * * *");
        TEXT(schedule->zone, strlen(schedule->zone), "Europe/Berlin");
        TEXT(schedule->topic, strlen(schedule->topic), a);
        TEXT(schedule->body.data, schedule->body.size, "body");
        EQ(schedule->options->priority, 7);
        EQ(schedule->options->max_retries, 3);
        EQ(schedule->jitter_ms, 5);
        EQ(schedule->overlap, BIDE_OVERLAP_SKIP);
        EQ(schedule->misfire, BIDE_MISFIRE_ALL);
        EQ(schedule->misfire_max, 9);
        EQ(schedule->state, BIDE_SCHEDULE_ACTIVE);
        EQ(schedule->id, out[0]->id);
        EQ(schedule->last_at_ms, 0);
        EQ(schedule->made, 0);
        CHECK(schedule->problem == NULL);
        BETWEEN(schedule->next_at_ms, wall_ms() - SECOND, wall_ms() + 25 * 3600 * SECOND);
    }
    EQ(stat_job(queue, out[0]->id)->run_at_ms, out[0]->next_at_ms);
    for (int i = 0; i < 3; i++)
        bide_schedule_free(out[i]);
}

static void set_without_a_zone_says_which_it_is(void)
{
    bide *queue = open_schedules();
    bide_schedule wanted = daily("report", fresh_topic("a")), *out = NULL;
    wanted.zone = NULL;
    OK(bide_schedule_set(queue, &wanted, &out));
    CHECK(out->zone != NULL && out->zone[0] != 0);
    bide_schedule_free(out);
}

static void set_of_the_same_definition_changes_nothing(void)
{
    bide *queue = open_schedules();
    bide_schedule wanted = daily("report", fresh_topic("a"));
    set(queue, &wanted);
    bide_schedule before = got(queue, "report");
    set(queue, &wanted);
    EQ(got(queue, "report").id, before.id);
}

static void set_of_another_body_keeps_the_next_moment(void)
{
    bide *queue = open_schedules();
    bide_schedule wanted = daily("report", fresh_topic("a"));
    set(queue, &wanted);
    bide_schedule before = got(queue, "report");
    wanted.body = slice("another");
    set(queue, &wanted);
    bide_schedule after = got(queue, "report");
    EQ(after.next_at_ms, before.next_at_ms);
    CHECK(after.id != before.id);
    wanted.when = "1 6 * * *";
    set(queue, &wanted);
    EQ(got(queue, "report").next_at_ms % (24 * 3600 * SECOND), (6 * 3600 + 60) * SECOND);
    EQ(topic_of(queue, BIDE_SCHEDULE_TOPIC).jobs.delayed, 1);
}

static void removed_schedule_is_gone(void)
{
    bide *queue = open_schedules();
    bide_schedule wanted = daily("report", fresh_topic("a")), *out = NULL;
    CODE(bide_schedule_remove(queue, "report"), BIDE_NOT_FOUND);
    set(queue, &wanted);
    OK(bide_schedule_remove(queue, "report"));
    CODE(bide_schedule_get(queue, "report", &out), BIDE_NOT_FOUND);
    CODE(bide_schedule_pause(queue, "report"), BIDE_NOT_FOUND);
    CODE(bide_schedule_resume(queue, "report"), BIDE_NOT_FOUND);
    CODE(bide_schedule_run(queue, "report", NULL), BIDE_NOT_FOUND);
    CHECK(out == NULL);
}

static void list_has_each_schedule_once(void)
{
    enum { SCHEDULES = 25 };
    bide *queue = open_schedules();
    char name[20], cursor[BIDE_CURSOR_SIZE] = "";
    bide_schedule wanted = daily(name, fresh_topic("a"));
    int seen[SCHEDULES] = {0};
    for (int i = 0; i < SCHEDULES; i++) {
        snprintf(name, sizeof name, "s%d", i);
        set(queue, &wanted);
    }
    do {
        bide_schedule *page[7];
        size_t count = 0;
        OK(bide_schedule_list(queue, cursor, page, 7, &count));
        for (size_t i = 0; i < count; i++) {
            seen[atoi(page[i]->name + 1)]++;
            bide_schedule_free(page[i]);
        }
    } while (cursor[0] != 0);
    for (int i = 0; i < SCHEDULES; i++)
        EQ(seen[i], 1);
}

#define REJECTED(changes, words) rejected(HERE, queue, &(changes), (words))
static void rejected(struct where at, bide *queue, const bide_schedule *schedule, const char *words)
{
    check_code(at, bide_schedule_set(queue, schedule, NULL), BIDE_EINVAL, "bide_schedule_set");
    if (strstr(bide_last_error(), words) == NULL)
        fail_test(at, "\"%s\" does not say \"%s\"", bide_last_error(), words);
}

static void invalid_schedules_are_rejected(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_schedule good = daily("report", a), bad = good;
    bide_schedule *out = NULL;
    bad.name = "two words";
    REJECTED(bad, "the name must be");
    bad.name = NULL;
    REJECTED(bad, "the name must be");
    bad = good;
    bad.when = "61 * * * *";
    REJECTED(bad, "61");
    bad.when = "0 0 30 2 *";
    REJECTED(bad, "never occurs");
    bad.when = NULL;
    REJECTED(bad, "when");
    bad = good;
    bad.zone = "Mars/Olympus";
    REJECTED(bad, "Mars/Olympus");
    bad = good;
    bad.topic = BIDE_SCHEDULE_TOPIC;
    REJECTED(bad, "themselves");
    bad = good;
    bad.topic = "\xff";
    REJECTED(bad, "UTF-8");
    bad = good;
    bad.end_at_ms = bad.start_at_ms = 5000;
    REJECTED(bad, "before it starts");
    bad = good;
    bad.jitter_ms = -1;
    REJECTED(bad, "jitter_ms");
    bad = good;
    bad.misfire_max = BIDE_SCHEDULE_MISSED_MAX + 1;
    REJECTED(bad, "misfire_max");
    bad = good;
    bad.size = 1;
    REJECTED(bad, "BIDE_SCHEDULE_INIT");
    bad = good;
    bad.options = &options;
    options.run_at_ms = 5000;
    REJECTED(bad, "run_at_ms");
    options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    options.key = slice("k");
    REJECTED(bad, "overlap");
    CODE(bide_schedule_set(queue, NULL, NULL), BIDE_EINVAL);
    CODE(bide_schedule_get(queue, "two words", &out), BIDE_EINVAL);
    CODE(bide_schedule_get(queue, "report", NULL), BIDE_EINVAL);
    CODE(bide_schedule_remove(queue, NULL), BIDE_EINVAL);
    CHECK(!topic_exists(queue, BIDE_SCHEDULE_TOPIC) ||
          topic_of(queue, BIDE_SCHEDULE_TOPIC).jobs.delayed == 0);
}

static void next_needs_no_queue(void)
{
    bide_schedule schedule = BIDE_SCHEDULE_INIT;
    int64_t moments[5], friday = INT64_C(1795132800000); /* 2026-11-20 */
    char zone[64];
    size_t count = 0;
    schedule.when = "30 6 * * mon-fri";
    schedule.zone = "Europe/Berlin";
    OK(bide_schedule_next(&schedule, friday, moments, 3, &count, zone));
    EQ(count, 3);
    TEXT(zone, strlen(zone), "Europe/Berlin");
    EQ(moments[0], friday + (5 * 3600 + 1800) * SECOND);
    EQ(moments[1], moments[0] + 3 * 86400 * SECOND);
    EQ(moments[2], moments[1] + 86400 * SECOND);
    schedule.end_at_ms = moments[1];
    OK(bide_schedule_next(&schedule, friday, moments, 5, &count, NULL));
    EQ(count, 1);
    schedule.when = "never";
    CODE(bide_schedule_next(&schedule, friday, moments, 5, &count, NULL), BIDE_EINVAL);
}

/* ---- jobs ---- */

static void due_moment_makes_one_job_with_its_options(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    int64_t moment = second_from_now(0);
    put_due(queue, "tick", a, moment,
            "\"priority\":7,\"ttr_ms\":9000,\"max_retries\":4,\"retain_ms\":5000,"
            "\"end_at_ms\":7258118400000");
    bide_scheduler *scheduler = start(queue);
    const bide_job *job = await(queue, a);
    TEXT(job->body, job->body_size, "b");
    CHECK(moment_of(job, "tick") >= moment);
    EQ(job->priority, 7);
    EQ(job->ttr_ms, 9000);
    EQ(job->max_retries, 4);
    EQ(job->retain_ms, 5000);
    stop(scheduler);
    bide_schedule schedule = got(queue, "tick");
    CHECK(schedule.made >= 1);
    CHECK(schedule.last_at_ms >= moment);
    EQ(schedule.next_at_ms > schedule.last_at_ms, 1);
}

/* Consecutive moments, each once, although schedulers compete and the definition is replaced all
 * the time. */
struct changer {
    bide *queue;
    const char *topic;
    _Atomic bool over;
};

static void *change_definition(void *arg)
{
    struct changer *changer = arg;
    bide_schedule schedule = daily("tick", changer->topic);
    schedule.when = "every 1s";
    schedule.zone = NULL;
    schedule.misfire = BIDE_MISFIRE_ALL;
    for (uint32_t i = 1; !changer->over; i++) {
        char body[20];
        snprintf(body, sizeof body, "%u", i);
        schedule.body = slice(body);
        set(changer->queue, &schedule);
        nap_ms(1);
    }
    return NULL;
}

static void each_moment_has_one_job_whatever_competes(void)
{
    enum { JOBS = 3, SCHEDULERS = 3 };
    bide *queue = open_schedules();
    struct changer changer = {.queue = queue, .topic = fresh_topic("a")};
    bide_schedule schedule = daily("tick", changer.topic);
    bide_scheduler *schedulers[SCHEDULERS];
    schedule.when = "every 1s";
    schedule.zone = NULL;
    schedule.misfire = BIDE_MISFIRE_ALL;
    set(queue, &schedule);
    int64_t expected = got(queue, "tick").next_at_ms;
    for (int i = 0; i < SCHEDULERS; i++)
        schedulers[i] = start(queue);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = start_thread(change_definition, &changer);
    for (int i = 0; i < JOBS; i++, expected += SECOND) {
        const bide_job *job = await(queue, changer.topic);
        EQ(moment_of(job, "tick"), expected);
        CHECK(wall_ms() >= expected);
        OK(bide_delete(queue, job->id, job->token));
    }
    changer.over = true;
    for (int i = 0; i < 2; i++)
        join_thread(threads[i]);
    for (int i = 0; i < SCHEDULERS; i++)
        stop(schedulers[i]);
}

static void once_makes_one_job_of_many_missed_moments(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    int64_t now = second_from_now(0);
    put_due(queue, "tick", a, now - 1000 * SECOND, "\"misfire\":\"once\"");
    bide_scheduler *scheduler = start(queue);
    CHECK(moment_of(await(queue, a), "tick") >= now);
    stop(scheduler);
}

static void all_makes_a_job_of_each_missed_moment_up_to_the_limit(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    OK(bide_pause(queue, BIDE_SCHEDULE_TOPIC, BIDE_FOREVER));
    int64_t now = second_from_now(0);
    put_due(queue, "tick", a, now - 1000 * SECOND, "\"misfire\":\"all\",\"misfire_max\":150");
    bide_scheduler *scheduler = start(queue);
    OK(bide_resume(queue, BIDE_SCHEDULE_TOPIC));
    int64_t last = 0;
    for (int i = 0; i < 150; i++) {
        int64_t moment = moment_of(await(queue, a), "tick");
        CHECK(moment > now - 150 * SECOND);
        CHECK(last == 0 || moment == last + SECOND);
        last = moment;
    }
    CHECK(last >= now);
    stop(scheduler);
}

static void skip_makes_no_job_of_an_old_moment(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("hourly");
    char body[300];
    int64_t old = second_from_now(-30), end = second_from_now(3600);
    snprintf(body, sizeof body,
             "{\"name\":\"hourly\",\"when\":\"every 2h\",\"start_at_ms\":%lld,\"end_at_ms\":%lld,"
             "\"topic\":\"%s\",\"misfire\":\"skip\",\"grace_ms\":10000,\"next_at_ms\":%lld}",
             (long long)old, (long long)end, a, (long long)old);
    put_as(queue, BIDE_SCHEDULE_TOPIC, body, &options);
    run_to_its_end(queue, "hourly");
    EQ(got(queue, "hourly").made, 0);
    CHECK(!topic_exists(queue, a));
}

/* The job of an earlier moment, and a schedule that is due now and then has ended. */
static uint64_t put_last(bide *queue, const char *topic, const char *policy)
{
    int64_t moment = second_from_now(0), last = moment - 5 * SECOND;
    char key[100], iso[40], more[200];
    time_t seconds = (time_t)(last / SECOND);
    struct tm tm;
    strftime(iso, sizeof iso, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    snprintf(key, sizeof key, "tick@%s", iso);
    uint64_t id = put_key(queue, topic, key);
    snprintf(more, sizeof more, "\"overlap\":\"%s\",\"last_at_ms\":%lld,\"end_at_ms\":%lld", policy,
             (long long)last, (long long)moment + 1);
    put_due(queue, "tick", topic, moment, more);
    return id;
}

static void skip_waits_for_the_end_of_the_last_job(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    uint64_t id = put_last(queue, a, "skip");
    run_to_its_end(queue, "tick");
    EQ(got(queue, "tick").made, 0);
    EQ(take(queue, a)->id, id);
    nothing_ready(queue, a);
}

static void replace_cancels_the_last_job(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    uint64_t id = put_last(queue, a, "replace");
    run_to_its_end(queue, "tick");
    EQ(state_of(queue, id), BIDE_STATE_GONE);
    CHECK(take(queue, a)->id != id);
    nothing_ready(queue, a);
}

static void replace_marks_a_last_job_that_is_reserved(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    OK(bide_pause(queue, BIDE_SCHEDULE_TOPIC, BIDE_FOREVER));
    uint64_t id = put_last(queue, a, "replace");
    EQ(take(queue, a)->id, id);
    OK(bide_resume(queue, BIDE_SCHEDULE_TOPIC));
    bide_scheduler *scheduler = start(queue);
    const bide_job *job = await(queue, a);
    CHECK(job->id != id);
    CHECK(stat_job(queue, id)->cancel_wanted);
    stop(scheduler);
}

static void key_of_its_own_is_held_by_one_job(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    char more[200];
    uint64_t id = put_key(queue, a, "mine");
    int64_t moment = second_from_now(0);
    snprintf(more, sizeof more, "\"key\":\"mine\",\"overlap\":\"skip\",\"end_at_ms\":%lld",
             (long long)moment + 1);
    put_due(queue, "tick", a, moment, more);
    run_to_its_end(queue, "tick");
    EQ(take(queue, a)->id, id);
    nothing_ready(queue, a);
}

static void delay_and_expiry_count_from_the_moment(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    int64_t moment = second_from_now(0);
    char more[200];
    snprintf(more, sizeof more, "\"delay_ms\":3600000,\"expires_in_ms\":60000,\"end_at_ms\":%lld",
             (long long)moment + 1);
    put_due(queue, "tick", a, moment, more);
    run_to_its_end(queue, "tick");
    bide_job job;
    OK(bide_peek_first(queue, a, BIDE_STATE_DELAYED, &job));
    EQ(job.run_at_ms, moment + 3600000);
    EQ(job.expires_at_ms, moment + 3660000);
    bide_job_clear(&job);
}

static bide_job job_of_run(bide *queue, const bide_schedule *schedule)
{
    uint64_t id = 0;
    set(queue, schedule);
    OK(bide_schedule_run(queue, schedule->name, &id));
    return *stat_job(queue, id);
}

static void jobs_have_the_defaults_of_their_topic(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_schedule wanted = daily("report", a), bare = daily("bare", b);
    policy.ttr_ms = 7000;
    policy.max_retries = 3;
    policy.retain_ms = 5000;
    policy.expires_in_ms = 3600 * SECOND;
    OK(bide_topic_set(queue, a, &policy));
    bide_job job = job_of_run(queue, &wanted);
    EQ(job.ttr_ms, 7000);
    EQ(job.max_retries, 3);
    EQ(job.retain_ms, 5000);
    EQ(job.expires_at_ms - job.created_ms, 3600 * SECOND);

    wanted.options = bare.options = &options;
    options.max_retries = 25;
    options.fallbacks = BIDE_FALLBACK_RETRIES;
    EQ(job_of_run(queue, &wanted).max_retries, 3);
    EQ(job_of_run(queue, &bare).max_retries, 25);

    options.fallbacks = 0;
    options.ttr_ms = options.retain_ms = BIDE_NO_DEFAULT;
    options.max_retries = BIDE_NO_DEFAULT;
    wanted.expires_in_ms = BIDE_NO_DEFAULT;
    int64_t default_ttr_ms = stat_job(queue, put(queue, b, "x"))->ttr_ms;
    job = job_of_run(queue, &wanted);
    EQ(job.ttr_ms, default_ttr_ms);
    EQ(job.max_retries, BIDE_NO_RETRY_LIMIT);
    EQ(job.retain_ms, 0);
    EQ(job.expires_at_ms, 0);
}

static void key_held_by_a_reserved_job_gets_no_other(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    char more[200];
    uint64_t id = put_key(queue, a, "mine");
    EQ(take(queue, a)->id, id);
    int64_t moment = second_from_now(0);
    snprintf(more, sizeof more, "\"key\":\"mine\",\"overlap\":\"replace\",\"end_at_ms\":%lld",
             (long long)moment + 1);
    put_due(queue, "tick", a, moment, more);
    run_to_its_end(queue, "tick");
    CHECK(stat_job(queue, id)->cancel_wanted);
    EQ(got(queue, "tick").made, 0);
    EQ(topic_of(queue, a).jobs.ready, 0);
}

static void key_held_by_a_result_gets_no_other(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    static const char *const policies[] = {"skip", "replace"};
    for (size_t i = 0; i < COUNT(policies); i++) {
        char more[200];
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.key = slice("mine");
        options.key_hold_retained = true;
        uint64_t id = put_as(queue, a, "first", &options);
        OK(bide_done(queue, id, take(queue, a)->token, "result", 6, 3600 * SECOND));
        int64_t moment = second_from_now(0);
        snprintf(more, sizeof more, "\"key\":\"mine\",\"overlap\":\"%s\",\"end_at_ms\":%lld",
                 policies[i], (long long)moment + 1);
        put_due(queue, "tick", a, moment, more);
        run_to_its_end(queue, "tick");
        EQ(got(queue, "tick").made, i);
        EQ(topic_of(queue, a).jobs.done, 1 - i);
        EQ(topic_of(queue, a).jobs.ready, i);
        OK(bide_schedule_remove(queue, "tick"));
        OK(bide_cancel(queue, i == 0 ? id : take(queue, a)->id));
    }
}

/* The stored form has the next moment and a count, which become longer. */
static void accepted_definition_stays_small_enough(void)
{
    bide *queue = open_queue("max_job_size=1000");
    const char *a = fresh_topic("a");
    static char body[1000];
    bide_schedule wanted = daily("tick", a);
    size_t accepted = 0, rejected_size = sizeof body;
    memset(body, 'x', sizeof body);
    while (rejected_size - accepted > 1) {
        size_t size = (accepted + rejected_size) / 2;
        wanted.body = (bide_slice){body, size};
        int code = bide_schedule_set(queue, &wanted, NULL);
        CHECK(code == BIDE_OK || code == BIDE_TOO_BIG);
        *(code == BIDE_OK ? &accepted : &rejected_size) = size;
    }
    CHECK(accepted > 0);
    wanted.body.size = accepted;
    set(queue, &wanted);
    for (int i = 0; i < 20; i++) {
        OK(bide_schedule_run(queue, "tick", NULL));
        OK(bide_schedule_pause(queue, "tick"));
        OK(bide_schedule_resume(queue, "tick"));
    }
    EQ(got(queue, "tick").made, 20);
}

/* ---- pause, resume, run ---- */

static void paused_schedule_makes_no_jobs(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_scheduler *scheduler = start(queue);
    bide_schedule wanted = daily("tick", a);
    wanted.when = "every 1s";
    wanted.state = BIDE_SCHEDULE_PAUSED;
    set(queue, &wanted);
    EQ(got(queue, "tick").state, BIDE_SCHEDULE_PAUSED);
    EQ(got(queue, "tick").next_at_ms, 0);
    nap_ms(1100);
    CHECK(!topic_exists(queue, a));
    int64_t resumed = wall_ms();
    OK(bide_schedule_resume(queue, "tick"));
    OK(bide_schedule_resume(queue, "tick"));
    CHECK(moment_of(await(queue, a), "tick") >= resumed / SECOND * SECOND);
    OK(bide_schedule_pause(queue, "tick"));
    OK(bide_schedule_pause(queue, "tick"));
    wanted.state = BIDE_SCHEDULE_ACTIVE;
    wanted.body = slice("new");
    set(queue, &wanted);
    EQ(got(queue, "tick").state, BIDE_SCHEDULE_PAUSED);
    stop(scheduler);
}

static void run_puts_a_job_now_and_keeps_the_next_moment(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_schedule wanted = daily("report", a);
    set(queue, &wanted);
    int64_t next = got(queue, "report").next_at_ms;
    uint64_t id = 0;
    OK(bide_schedule_run(queue, "report", &id));
    const bide_job *job = take(queue, a);
    EQ(job->id, id);
    TEXT(job->body, job->body_size, "body");
    BETWEEN(moment_of(job, "report"), wall_ms() - 60 * SECOND, wall_ms());
    bide_schedule schedule = got(queue, "report");
    EQ(schedule.next_at_ms, next);
    EQ(schedule.made, 1);
    OK(bide_schedule_pause(queue, "report"));
    OK(bide_schedule_run(queue, "report", NULL));
    EQ(got(queue, "report").state, BIDE_SCHEDULE_PAUSED);
}

/* The last job has had the millisecond before the next moment, so that a run gets the moment itself
 * although its time has not come. */
static void run_in_the_millisecond_of_a_moment_adds_a_job(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    int64_t moment = second_from_now(2);
    char more[200], key[BIDE_KEY_MAX + 1];
    uint64_t id = 0;
    snprintf(more, sizeof more, "\"last_at_ms\":%lld,\"end_at_ms\":%lld", (long long)moment - 1,
             (long long)moment + 1);
    put_due(queue, "tick", a, moment, more);
    OK(bide_schedule_run(queue, "tick", &id));
    const bide_job *job = stat_job(queue, id);
    snprintf(key, sizeof key, "%.*s", (int)job->key_size, (const char *)job->key);
    CHECK(strstr(key, ".001Z") != NULL || wall_ms() > moment);
    run_to_its_end(queue, "tick");
    EQ(got(queue, "tick").made, 2);
    EQ(topic_of(queue, a).jobs.ready, 2);
}

static void run_is_refused_while_the_key_is_held(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_schedule wanted = daily("report", a);
    options.key = slice("k");
    wanted.options = &options;
    wanted.overlap = BIDE_OVERLAP_SKIP;
    set(queue, &wanted);
    uint64_t first = 0, second = 0;
    OK(bide_schedule_run(queue, "report", &first));
    CODE(bide_schedule_run(queue, "report", &second), BIDE_EXISTS);
    EQ(second, first);
    EQ(got(queue, "report").made, 1);
}

/* ---- when something is wrong ---- */

static void damaged_definition_is_buried_and_stops_no_other(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_schedule *out = NULL;
    options.key = slice("broken");
    uint64_t id = put_as(queue, BIDE_SCHEDULE_TOPIC, "{\"name\":\"broken\",\"wen\":1}", &options);
    put_due(queue, "tick", a, second_from_now(0), "");
    bide_scheduler *scheduler = start(queue);
    await(queue, a);
    UNTIL(state_of(queue, id) == BIDE_STATE_BURIED);
    const bide_job *job = stat_job(queue, id);
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)job->last_error_size, job->last_error);
    CHECK(strstr(text, "unknown name \"wen\"") != NULL);
    OK(bide_schedule_get(queue, "broken", &out));
    EQ(out->state, BIDE_SCHEDULE_DAMAGED);
    CHECK(strstr(out->problem, "wen") != NULL);
    bide_schedule_free(out);
    CODE(bide_schedule_pause(queue, "broken"), BIDE_EINVAL);
    bide_schedule repaired = daily("broken", a);
    set(queue, &repaired);
    EQ(got(queue, "broken").state, BIDE_SCHEDULE_ACTIVE);
    EQ(state_of(queue, id), BIDE_STATE_GONE);
    stop(scheduler);
}

/* Its reply is JSON, which must be UTF-8. */
static void problem_of_a_damaged_schedule_is_text(void)
{
    bide *queue = open_schedules();
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_schedule *out = NULL;
    char definition[200] = "{\"name\":\"h\",\"a";
    options.key = slice("h");
    for (int i = 0; i < 50; i++)
        strcat(definition, "\u00e9");
    strcat(definition, "\":1}");
    put_as(queue, BIDE_SCHEDULE_TOPIC, definition, &options);
    OK(bide_schedule_get(queue, "h", &out));
    EQ(out->state, BIDE_SCHEDULE_DAMAGED);
    const unsigned char *problem = (const unsigned char *)out->problem;
    CHECK(strstr(out->problem, "unknown name") != NULL);
    /* Each of these characters has two bytes. */
    for (; *problem != 0; problem += *problem < 0x80 ? 1 : 2)
        CHECK(*problem < 0x80 || (*problem == 0xc3 && problem[1] == 0xa9));
    bide_schedule_free(out);
}

static void missing_zone_is_a_problem_until_the_schedule_is_set(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_schedule *out = NULL;
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    options.key = slice("report");
    uint64_t id = put_as(queue, BIDE_SCHEDULE_TOPIC,
                         "{\"name\":\"report\",\"when\":\"@daily\",\"zone\":\"Mars/Olympus\","
                         "\"topic\":\"t\",\"next_at_ms\":1000}",
                         &options);
    bide_scheduler *scheduler = start(queue);
    UNTIL(stat_job(queue, id)->failures > 0);
    OK(bide_schedule_list(queue, cursor, &out, 1, &count));
    EQ(count, 1);
    EQ(out->state, BIDE_SCHEDULE_ACTIVE);
    CHECK(out->problem != NULL && strstr(out->problem, "Mars/Olympus") != NULL);
    bide_schedule_free(out);
    OK(bide_schedule_pause(queue, "report"));
    CODE(bide_schedule_resume(queue, "report"), BIDE_EINVAL);
    CHECK(strstr(bide_last_error(), "Mars/Olympus") != NULL);
    bide_schedule repaired = daily("report", a);
    set(queue, &repaired);
    OK(bide_schedule_resume(queue, "report"));
    OK(bide_schedule_get(queue, "report", &out));
    CHECK(out->problem == NULL);
    bide_schedule_free(out);
    stop(scheduler);
}

/* A schedule that is due, and fails as long as the queue is draining. */
static uint64_t put_while_draining(bide *queue)
{
    OK(bide_pause(queue, BIDE_SCHEDULE_TOPIC, BIDE_FOREVER));
    uint64_t id = put_due(queue, "tick", fresh_topic("a"), second_from_now(0), "");
    OK(bide_drain(queue, true));
    OK(bide_resume(queue, BIDE_SCHEDULE_TOPIC));
    return id;
}

static void set_of_the_same_definition_clears_a_problem(void)
{
    bide *queue = open_schedules();
    bide_schedule *out = NULL;
    uint64_t id = put_while_draining(queue);
    bide_scheduler *scheduler = start(queue);
    UNTIL(stat_job(queue, id)->failures > 0);
    OK(bide_pause(queue, BIDE_SCHEDULE_TOPIC, BIDE_FOREVER));
    OK(bide_drain(queue, false));
    OK(bide_schedule_get(queue, "tick", &out));
    CHECK(out->problem != NULL);
    set(queue, out);
    bide_schedule_free(out);
    OK(bide_schedule_get(queue, "tick", &out));
    CHECK(out->problem == NULL && out->id != id);
    EQ(stat_job(queue, out->id)->state, BIDE_STATE_READY);
    bide_schedule_free(out);
    OK(bide_resume(queue, BIDE_SCHEDULE_TOPIC));
    stop(scheduler);
}

static void policy_of_the_topic_is_not_for_schedules(void)
{
    bide *queue = open_schedules();
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.expires_in_ms = 1;
    policy.max_retries = 0;
    OK(bide_topic_set(queue, BIDE_SCHEDULE_TOPIC, &policy));
    bide_schedule wanted = daily("report", fresh_topic("a"));
    set(queue, &wanted);
    const bide_job *job = stat_job(queue, got(queue, "report").id);
    EQ(job->expires_at_ms, 0);
    EQ(job->max_retries, BIDE_NO_RETRY_LIMIT);
}

static void kicked_schedule_waits_for_its_moment(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    bide_schedule wanted = daily("report", a);
    set(queue, &wanted);
    bide_schedule before = got(queue, "report");
    bide_scheduler *scheduler = start(queue);
    OK(bide_kick_job(queue, before.id));
    UNTIL(got(queue, "report").id != before.id);
    bide_schedule after = got(queue, "report");
    EQ(after.next_at_ms, before.next_at_ms);
    EQ(stat_job(queue, after.id)->run_at_ms, before.next_at_ms);
    CHECK(!topic_exists(queue, a));
    stop(scheduler);
}

static void *give_back_later(void *arg)
{
    struct changer *changer = arg;
    bide_schedule schedule = got(changer->queue, "report");
    const bide_job *job = take_job(changer->queue, schedule.id);
    changer->over = true;
    nap_ms(50);
    OK(bide_give_back(changer->queue, job->id, job->token));
    return NULL;
}

static void set_waits_while_a_scheduler_holds_the_schedule(void)
{
    bide *queue = open_schedules();
    struct changer changer = {.queue = queue};
    bide_schedule wanted = daily("report", fresh_topic("a"));
    OK(bide_pause(queue, BIDE_SCHEDULE_TOPIC, BIDE_FOREVER));
    set(queue, &wanted);
    pthread_t thread = start_thread(give_back_later, &changer);
    UNTIL(changer.over);
    wanted.body = slice("new");
    set(queue, &wanted);
    join_thread(thread);
    EQ(topic_of(queue, BIDE_SCHEDULE_TOPIC).jobs.reserved, 0);
    OK(bide_resume(queue, BIDE_SCHEDULE_TOPIC));
}

static void moments_wait_while_the_queue_is_draining(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    put_due(queue, "tick", a, second_from_now(0), "\"misfire\":\"all\"");
    OK(bide_drain(queue, true));
    bide_scheduler *scheduler = start(queue);
    UNTIL(got(queue, "tick").problem != NULL || topic_exists(queue, a));
    OK(bide_drain(queue, false));
    await(queue, a);
    stop(scheduler);
}

static void queue_with_a_scheduler_is_not_closed(void)
{
    bide *queue = open_schedules();
    bide_scheduler *scheduler = start(queue), *none = NULL;
    CODE(bide_close(queue), BIDE_EBUSY);
    stop(scheduler);
    OK(bide_scheduler_stop(NULL));
    CODE(bide_scheduler_start(NULL, NULL, &none), BIDE_EINVAL);
    CODE(bide_scheduler_start(queue, NULL, NULL), BIDE_EINVAL);
}

static void name_of_a_scheduler_is_in_the_history_of_a_failure(void)
{
    bide *queue = open_schedules();
    bide_scheduler_options options = BIDE_SCHEDULER_OPTIONS_INIT;
    bide_scheduler *scheduler = NULL;
    bide_failure failure;
    options.name = "runner 7";
    uint64_t id = put_while_draining(queue);
    OK(bide_scheduler_start(queue, &options, &scheduler));
    UNTIL(stat_job(queue, id)->failures > 0);
    EQ(bide_job_history(stat_job(queue, id), &failure, 1), 1);
    if (is_in_process()) /* a bided may have been faster */
        TEXT(failure.holder.data, failure.holder.size, "runner 7");
    OK(bide_drain(queue, false));
    stop(scheduler);
}

static void invalid_options_of_a_scheduler_are_rejected(void)
{
    bide *queue = open_schedules();
    char longest[BIDE_HOLDER_MAX + 2];
    bide_scheduler_options options = BIDE_SCHEDULER_OPTIONS_INIT;
    bide_scheduler *scheduler = NULL;
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = 0;
    options.stop_timeout_ms = -2;
    CODE(bide_scheduler_start(queue, &options, &scheduler), BIDE_EINVAL);
    options.stop_timeout_ms = BIDE_FOREVER;
    options.name = "";
    CODE(bide_scheduler_start(queue, &options, &scheduler), BIDE_EINVAL);
    options.name = longest;
    CODE(bide_scheduler_start(queue, &options, &scheduler), BIDE_EINVAL);
    options.size = 4;
    CODE(bide_scheduler_start(queue, &options, &scheduler), BIDE_EINVAL);
    CHECK(strstr(bide_last_error(), "BIDE_SCHEDULER_OPTIONS_INIT") != NULL);
    CHECK(scheduler == NULL);
    options = (bide_scheduler_options)BIDE_SCHEDULER_OPTIONS_INIT;
    longest[BIDE_HOLDER_MAX] = 0;
    options.name = longest;
    OK(bide_scheduler_start(queue, &options, &scheduler));
    stop(scheduler);
}

/* A zone is read from a file, where a thread can be cancelled. */
static void *make_all_calls(void *arg)
{
    struct changer *changer = arg;
    bide_schedule wanted = daily("report", changer->topic), *out = NULL;
    char cursor[BIDE_CURSOR_SIZE] = "";
    int64_t moment;
    size_t count;
    wanted.zone = "Europe/Berlin";
    CHECK(pthread_cancel(pthread_self()) == 0);
    OK(bide_schedule_next(&wanted, 0, &moment, 1, &count, NULL));
    OK(bide_schedule_set(changer->queue, &wanted, &out));
    bide_schedule_free(out);
    OK(bide_schedule_get(changer->queue, "report", &out));
    bide_schedule_free(out);
    OK(bide_schedule_list(changer->queue, cursor, &out, 1, &count));
    bide_schedule_free(out);
    OK(bide_schedule_pause(changer->queue, "report"));
    OK(bide_schedule_resume(changer->queue, "report"));
    OK(bide_schedule_run(changer->queue, "report", NULL));
    stop(start(changer->queue));
    OK(bide_schedule_remove(changer->queue, "report"));
    changer->over = true;
    pthread_testcancel();
    return NULL;
}

static void no_call_is_a_cancellation_point(void)
{
    struct changer changer = {.queue = open_schedules(), .topic = fresh_topic("a")};
    void *result = NULL;
    pthread_t thread = start_thread(make_all_calls, &changer);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK(changer.over);
}

static void shutdown_ends_a_scheduler(void)
{
    bide *queue = open_schedules();
    bide_scheduler *scheduler = start(queue);
    OK(bide_shutdown(queue));
    stop(scheduler);
}

static const struct test tests[] = {
    TEST(set_returns_what_get_and_list_return),
    TEST(set_without_a_zone_says_which_it_is),
    TEST(set_of_the_same_definition_changes_nothing),
    TEST(set_of_another_body_keeps_the_next_moment),
    TEST(removed_schedule_is_gone),
    TEST(list_has_each_schedule_once),
    TEST(invalid_schedules_are_rejected),
    TEST(next_needs_no_queue),
    TEST(due_moment_makes_one_job_with_its_options),
    TEST(each_moment_has_one_job_whatever_competes),
    TEST(once_makes_one_job_of_many_missed_moments),
    TEST(all_makes_a_job_of_each_missed_moment_up_to_the_limit),
    TEST(skip_makes_no_job_of_an_old_moment),
    TEST(skip_waits_for_the_end_of_the_last_job),
    TEST(replace_cancels_the_last_job),
    TEST(replace_marks_a_last_job_that_is_reserved),
    TEST(key_of_its_own_is_held_by_one_job),
    TEST(delay_and_expiry_count_from_the_moment),
    TEST(jobs_have_the_defaults_of_their_topic),
    TEST(key_held_by_a_reserved_job_gets_no_other),
    TEST(key_held_by_a_result_gets_no_other),
    TEST(accepted_definition_stays_small_enough),
    TEST(paused_schedule_makes_no_jobs),
    TEST(run_puts_a_job_now_and_keeps_the_next_moment),
    TEST(run_in_the_millisecond_of_a_moment_adds_a_job),
    TEST(run_is_refused_while_the_key_is_held),
    TEST(damaged_definition_is_buried_and_stops_no_other),
    TEST(problem_of_a_damaged_schedule_is_text),
    TEST(missing_zone_is_a_problem_until_the_schedule_is_set),
    TEST(set_of_the_same_definition_clears_a_problem),
    TEST(policy_of_the_topic_is_not_for_schedules),
    TEST(kicked_schedule_waits_for_its_moment),
    TEST(set_waits_while_a_scheduler_holds_the_schedule),
    TEST(moments_wait_while_the_queue_is_draining),
    TEST(queue_with_a_scheduler_is_not_closed),
    TEST(name_of_a_scheduler_is_in_the_history_of_a_failure),
    TEST(invalid_options_of_a_scheduler_are_rejected),
    TEST(no_call_is_a_cancellation_point),
    TEST(shutdown_ends_a_scheduler),
};

const struct theme schedule_theme = {"schedule", tests, COUNT(tests)};

/* ---- across a restart ---- */

static void schedules_survive_a_restart(void)
{
    bide *queue = open_schedules();
    bide_schedule wanted = daily("report", fresh_topic("a"));
    set(queue, &wanted);
    bide_schedule before = got(queue, "report");
    queue = reopen(queue, "");
    bide_schedule after = got(queue, "report");
    EQ(after.id, before.id);
    EQ(after.next_at_ms, before.next_at_ms);
    CHECK(!has_schedule(queue, "another"));
}

static void moments_that_pass_while_it_is_closed_are_missed_ones(void)
{
    bide *queue = open_schedules();
    const char *a = fresh_topic("a");
    OK(bide_pause(queue, BIDE_SCHEDULE_TOPIC, BIDE_FOREVER));
    int64_t moment = second_from_now(-5);
    put_due(queue, "tick", a, moment, "\"misfire\":\"all\"");
    queue = reopen(queue, "");
    bide_scheduler *scheduler = start(queue);
    OK(bide_resume(queue, BIDE_SCHEDULE_TOPIC));
    for (int i = 0; i < 5; i++, moment += SECOND)
        EQ(moment_of(await(queue, a), "tick"), moment);
    stop(scheduler);
}

static const struct test restart_tests[] = {
    TEST(schedules_survive_a_restart),
    TEST(moments_that_pass_while_it_is_closed_are_missed_ones),
};

const struct theme restart_schedule_theme = {"restart_schedule", restart_tests,
                                             COUNT(restart_tests)};
