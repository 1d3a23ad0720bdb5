/* SPDX-License-Identifier: MIT */
/* test_schedule.c - definitions and plans of schedules; the test owns the clock. */
#include "queue/queue.h"
#include "schedule/schedule.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
/* 2026-11-20 00:00:00 UTC */
#define NIGHT INT64_C(1795132800000)

/* A schedule with a definition in JSON, without the braces; name, topic and zone may be left out. */
static struct schedule *schedule_of(const char *members)
{
    char text[1000], error[BI_ERRMSG_SIZE] = "";
    struct schedule *schedule = NULL;
    snprintf(text, sizeof(text), "{%s%s%s%s}", members,
             strstr(members, "\"name\"") == NULL ? ",\"name\":\"s\"" : "",
             strstr(members, "\"topic\"") == NULL ? ",\"topic\":\"t\"" : "",
             strstr(members, "\"zone\"") == NULL ? ",\"zone\":\"UTC\"" : "");
    if (bi_schedule_decode(text, strlen(text), 0, &schedule, error) != BIDE_OK ||
        bi_schedule_open_zone(schedule, error) != BIDE_OK)
        fail_msg("%s: %s", text, error);
    return schedule;
}

static struct schedule *due_at(const char *members, int64_t next_ms)
{
    struct schedule *schedule = schedule_of(members);
    schedule->def.next_at_ms = next_ms;
    return schedule;
}

/* Plans, checks the number of jobs and the next moment, and frees. */
static void plans(struct schedule *schedule, int64_t now, size_t count, int64_t first, int64_t next)
{
    struct schedule_plan plan;
    bi_schedule_plan(schedule, now, &plan);
    assert_int_equal(plan.count, count);
    if (count > 0)
        assert_int_equal(plan.moments[0], first);
    assert_int_equal(plan.next_ms, next);
    bi_schedule_free(schedule);
}

static void rejects(const char *text, const char *words)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct schedule *schedule = NULL;
    int code = bi_schedule_decode(text, strlen(text), 1, &schedule, error);
    if (code == BIDE_OK) {
        code = bi_schedule_open_zone(schedule, error);
        bi_schedule_free(schedule);
    }
    assert_int_equal(code, BIDE_EINVAL);
    if (strstr(error, words) == NULL)
        fail_msg("%s: %s", text, error);
}

/* ---- plans ---- */

static void new_schedule_gets_its_first_moment_and_no_job(void **state)
{
    (void)state;
    plans(schedule_of("\"when\":\"0 6 * * *\""), NIGHT, 0, 0, NIGHT + 6 * HOUR);
    plans(schedule_of("\"when\":\"0 0 * * *\""), NIGHT, 0, 0, NIGHT + 24 * HOUR);
    plans(schedule_of("\"when\":\"0 0 * * *\""), NIGHT - 1, 0, 0, NIGHT);
}

static void moment_is_due_when_it_is_reached(void **state)
{
    (void)state;
    const char *hourly = "\"when\":\"0 * * * *\"";
    plans(due_at(hourly, NIGHT), NIGHT - 1, 0, 0, NIGHT);
    plans(due_at(hourly, NIGHT), NIGHT, 1, NIGHT, NIGHT + HOUR);
    plans(due_at(hourly, NIGHT), NIGHT + HOUR - 1, 1, NIGHT, NIGHT + HOUR);
}

static void once_puts_the_last_missed_moment_only(void **state)
{
    (void)state;
    plans(due_at("\"when\":\"0 * * * *\"", NIGHT), NIGHT + 5 * HOUR + 1, 1, NIGHT + 5 * HOUR,
          NIGHT + 6 * HOUR);
    plans(due_at("\"when\":\"* * * * * *\"", NIGHT - 366 * 24 * HOUR), NIGHT + 10, 1, NIGHT,
          NIGHT + SECOND);
}

static void skip_puts_nothing_that_is_older_than_its_grace(void **state)
{
    (void)state;
    const char *skip = "\"when\":\"0 * * * *\",\"misfire\":\"skip\"";
    plans(due_at(skip, NIGHT), NIGHT + MINUTE, 1, NIGHT, NIGHT + HOUR);
    plans(due_at(skip, NIGHT), NIGHT + MINUTE + 1, 0, 0, NIGHT + HOUR);
    plans(due_at(skip, NIGHT), NIGHT + 3 * HOUR, 1, NIGHT + 3 * HOUR, NIGHT + 4 * HOUR);
    plans(due_at("\"when\":\"0 * * * *\",\"misfire\":\"skip\",\"grace_ms\":1800000", NIGHT),
          NIGHT + 30 * MINUTE, 1, NIGHT, NIGHT + HOUR);
}

static void all_puts_the_last_missed_moments_up_to_the_limit(void **state)
{
    (void)state;
    const char *all = "\"when\":\"0 * * * *\",\"misfire\":\"all\",\"misfire_max\":3";
    plans(due_at(all, NIGHT), NIGHT + HOUR, 2, NIGHT, NIGHT + 2 * HOUR);
    plans(due_at(all, NIGHT), NIGHT + 2 * HOUR, 3, NIGHT, NIGHT + 3 * HOUR);
    plans(due_at(all, NIGHT), NIGHT + 9 * HOUR + 7, 3, NIGHT + 7 * HOUR, NIGHT + 10 * HOUR);
}

static void last_moments_of_years_are_found_among_irregular_ones(void **state)
{
    (void)state;
    /* Every second of January: the last 1000 before November are those of its last minutes. */
    struct schedule *schedule =
        due_at("\"when\":\"* * * * 1 *\",\"misfire\":\"all\",\"misfire_max\":1000",
               NIGHT - 10 * 366 * 24 * HOUR);
    struct schedule_plan plan;
    bi_schedule_plan(schedule, NIGHT, &plan);
    int64_t february = INT64_C(1769904000000); /* 2026-02-01 */
    assert_int_equal(plan.count, BI_SCHEDULE_STEP_MAX);
    assert_int_equal(plan.moments[0], february - 1000 * SECOND);
    assert_int_equal(plan.next_ms, february - (1000 - BI_SCHEDULE_STEP_MAX) * SECOND);
    bi_schedule_free(schedule);
}

static void many_jobs_are_put_in_several_steps(void **state)
{
    (void)state;
    struct schedule *schedule =
        due_at("\"when\":\"every 1s\",\"misfire\":\"all\",\"misfire_max\":250", NIGHT);
    int64_t now = NIGHT + 249 * SECOND, expected = NIGHT;
    for (int left = 250; left > 0;) {
        struct schedule_plan plan;
        bi_schedule_plan(schedule, now, &plan);
        assert_int_equal(plan.count, left < BI_SCHEDULE_STEP_MAX ? left : BI_SCHEDULE_STEP_MAX);
        for (size_t i = 0; i < plan.count; i++, expected += SECOND)
            assert_int_equal(plan.moments[i], expected);
        bi_schedule_advance(schedule, &plan);
        assert_int_equal(schedule->def.next_at_ms, expected);
        left -= (int)plan.count;
    }
    assert_int_equal(schedule->def.made, 250);
    assert_int_equal(schedule->def.last_at_ms, NIGHT + 249 * SECOND);
    bi_schedule_free(schedule);
}

static void overlap_policy_allows_one_job_at_a_time(void **state)
{
    (void)state;
    plans(due_at("\"when\":\"every 1s\",\"misfire\":\"all\",\"overlap\":\"skip\"", NIGHT),
          NIGHT + 10 * SECOND, 1, NIGHT + 10 * SECOND, NIGHT + 11 * SECOND);
}

static void moments_lie_between_start_and_end(void **state)
{
    (void)state;
    char members[200];
    snprintf(members, sizeof(members),
             "\"when\":\"0 * * * *\",\"start_at_ms\":%lld,\"end_at_ms\":%lld",
             (long long)(NIGHT + 2 * HOUR), (long long)(NIGHT + 4 * HOUR));
    plans(schedule_of(members), NIGHT, 0, 0, NIGHT + 2 * HOUR);
    plans(due_at(members, NIGHT + 2 * HOUR), NIGHT + 2 * HOUR, 1, NIGHT + 2 * HOUR,
          NIGHT + 3 * HOUR);
    plans(due_at(members, NIGHT + 3 * HOUR), NIGHT + 3 * HOUR, 1, NIGHT + 3 * HOUR, BI_CRON_NEVER);
    plans(schedule_of(members), NIGHT + 4 * HOUR, 0, 0, BI_CRON_NEVER);
}

static void every_counts_from_the_start(void **state)
{
    (void)state;
    char members[200];
    snprintf(members, sizeof(members), "\"when\":\"every 7m\",\"start_at_ms\":%lld",
             (long long)(NIGHT + 1));
    plans(schedule_of(members), NIGHT - HOUR, 0, 0, NIGHT + 1);
    plans(schedule_of(members), NIGHT + 1, 0, 0, NIGHT + 1 + 7 * MINUTE);
}

static void paused_and_ended_schedules_have_no_moments(void **state)
{
    (void)state;
    plans(schedule_of("\"when\":\"every 1s\",\"state\":\"paused\""), NIGHT, 0, 0, BI_CRON_NEVER);
    plans(schedule_of("\"when\":\"every 1s\",\"state\":\"ended\""), NIGHT, 0, 0, BI_CRON_NEVER);
}

static void advance_after_the_last_moment_ends_the_schedule(void **state)
{
    (void)state;
    struct schedule *schedule = due_at("\"when\":\"every 1s\"", NIGHT);
    struct schedule_plan plan = {.moments = {NIGHT}, .count = 1, .next_ms = BI_CRON_NEVER};
    bi_schedule_advance(schedule, &plan);
    assert_int_equal(schedule->def.state, BIDE_SCHEDULE_ENDED);
    assert_int_equal(schedule->def.next_at_ms, 0);
    assert_int_equal(schedule->def.last_at_ms, NIGHT);
    bi_schedule_free(schedule);
}

/* ---- a definition that replaces another one ---- */

static void inherits(const char *old, int64_t old_next, const char *new, int64_t now, int64_t next)
{
    struct schedule *before = due_at(old, old_next), *after = schedule_of(new);
    before->def.made = 7;
    before->def.last_at_ms = NIGHT - HOUR;
    bi_schedule_inherit(after, before, now);
    assert_int_equal(after->def.next_at_ms, next);
    assert_int_equal(after->def.made, 7);
    assert_int_equal(after->def.last_at_ms, NIGHT - HOUR);
    bi_schedule_free(before);
    bi_schedule_free(after);
}

static void same_moments_keep_the_next_one(void **state)
{
    (void)state;
    inherits("\"when\":\"0 * * * *\"", NIGHT + HOUR,
             "\"when\":\"0 * * * *\",\"body\":\"new\",\"priority\":7", NIGHT, NIGHT + HOUR);
    /* also if it is due */
    inherits("\"when\":\"0 * * * *\"", NIGHT, "\"when\":\"0 * * * *\",\"topic\":\"u\"",
             NIGHT + MINUTE, NIGHT);
}

static void other_moments_begin_now(void **state)
{
    (void)state;
    inherits("\"when\":\"0 * * * *\"", NIGHT + HOUR, "\"when\":\"30 * * * *\"", NIGHT,
             NIGHT + 30 * MINUTE);
    inherits("\"when\":\"0 * * * *\"", NIGHT + HOUR, "\"when\":\"0 * * * *\",\"zone\":\"+00:30\"",
             NIGHT, NIGHT + 30 * MINUTE);
}

static void due_moment_is_decided_by_the_new_definition(void **state)
{
    (void)state;
    /* 0:00 is due and has had no turn; it is a moment of the new one, too. */
    inherits("\"when\":\"0 * * * *\"", NIGHT, "\"when\":\"*/10 * * * *\"", NIGHT + 2, NIGHT);
    inherits("\"when\":\"0 * * * *\"", NIGHT, "\"when\":\"5 * * * *\"", NIGHT + 2,
             NIGHT + 5 * MINUTE);
}

static void paused_schedule_stays_paused(void **state)
{
    (void)state;
    struct schedule *before = schedule_of("\"when\":\"0 * * * *\",\"state\":\"paused\"");
    struct schedule *after = schedule_of("\"when\":\"1 * * * *\"");
    bi_schedule_inherit(after, before, NIGHT);
    assert_int_equal(after->def.state, BIDE_SCHEDULE_PAUSED);
    assert_int_equal(after->def.next_at_ms, 0);
    bi_schedule_free(before);
    bi_schedule_free(after);
}

/* ---- run ---- */

static void run_is_between_the_moments(void **state)
{
    (void)state;
    struct schedule *cron = schedule_of("\"when\":\"0 6 * * *\"");
    assert_int_equal(bi_schedule_between(cron, NIGHT), NIGHT + 1);
    assert_int_equal(bi_schedule_between(cron, NIGHT + 1), NIGHT + 1);
    assert_int_equal(bi_schedule_between(cron, NIGHT - 1), NIGHT - 1);
    struct schedule *every = schedule_of("\"when\":\"every 7m\",\"start_at_ms\":1795132800001");
    assert_int_equal(bi_schedule_between(every, NIGHT), NIGHT);
    assert_int_equal(bi_schedule_between(every, NIGHT + 1), NIGHT + 2);
    assert_int_equal(bi_schedule_between(every, NIGHT + 1 + 7 * MINUTE), NIGHT + 2 + 7 * MINUTE);
    assert_int_equal(bi_schedule_between(every, NIGHT + 1 - 7 * MINUTE), NIGHT + 2 - 7 * MINUTE);
    bi_schedule_free(cron);
    bi_schedule_free(every);
}

/* ---- calls ---- */

/* A set that has found a paused schedule, and steps after it was resumed. */
static void set_does_not_undo_a_resume_meanwhile(void **state)
{
    (void)state;
    bide *queue = NULL;
    bide_schedule def = BIDE_SCHEDULE_INIT;
    struct schedule_call call;
    bide_op op;
    def.name = "s";
    def.when = "0 0 1 1 *";
    def.zone = "UTC";
    def.topic = "t";
    def.state = BIDE_SCHEDULE_PAUSED;
    assert_int_equal(bide_open("memory:", NULL, &queue), BIDE_OK);
    assert_int_equal(bide_schedule_set(queue, &def, NULL), BIDE_OK);

    memset(&op, 0, sizeof(op));
    bi_schedule_call_begin(&call, BI_SCHEDULE_SET, NULL,
                           schedule_of("\"when\":\"0 0 1 1 *\",\"body\":\"new\""), &op);
    assert_int_equal(bi_blocking_call_run(queue, &op), BIDE_OK);
    assert_true(bi_schedule_call_next(&call, &op));
    assert_int_equal(op.kind, BIDE_OP_FINISH_AND_PUT);
    assert_int_equal(bide_schedule_resume(queue, "s"), BIDE_OK);
    do
        bi_blocking_call_run(queue, &op);
    while (bi_schedule_call_next(&call, &op));

    assert_int_equal(call.code, BIDE_OK);
    assert_int_equal(call.result->def.state, BIDE_SCHEDULE_ACTIVE);
    assert_true(call.result->def.next_at_ms > 0);
    assert_int_equal(call.result->def.body.size, 3);
    bi_schedule_call_done(&call);
    assert_int_equal(bide_close(queue), BIDE_OK);
}

/* ---- jobs ---- */

static void job_has_the_options_and_the_key_of_its_moment(void **state)
{
    (void)state;
    struct schedule *schedule =
        schedule_of("\"when\":\"every 1s\",\"name\":\"report\",\"body\":\"b\",\"priority\":5,"
                    "\"delay_ms\":2000,\"ttr_ms\":3000,\"max_retries\":4,\"backoff_base_ms\":50,"
                    "\"backoff_max_ms\":60,\"expires_in_ms\":7000,\"retain_ms\":8000");
    struct schedule_put put;
    bide_put_item item;
    bi_schedule_describe(schedule, NIGHT, NIGHT + 1, &put, &item);
    assert_memory_equal(put.options.key.data, "report@2026-11-20T00:00:00Z", 27);
    assert_int_equal(put.options.key.size, 27);
    assert_int_equal(put.options.conflict, BIDE_SKIP);
    assert_int_equal(put.options.run_at_ms, NIGHT + 2000);
    assert_int_equal(put.options.delay_ms, 0);
    assert_int_equal(put.options.expires_at_ms, NIGHT + 9000);
    assert_int_equal(put.options.priority, 5);
    assert_int_equal(put.options.ttr_ms, 3000);
    assert_int_equal(put.options.max_retries, 4);
    assert_int_equal(put.options.backoff_base_ms, 50);
    assert_int_equal(put.options.backoff_max_ms, 60);
    assert_int_equal(put.options.retain_ms, 8000);

    bi_schedule_describe(schedule, NIGHT + 1, NIGHT + 2001, &put, &item);
    assert_int_equal(put.options.run_at_ms, 0); /* it is late: ready at once */
    assert_memory_equal(put.options.key.data, "report@2026-11-20T00:00:00.001Z", 31);
    bi_schedule_free(schedule);
}

static void jitter_depends_on_name_and_moment_only(void **state)
{
    (void)state;
    struct schedule *a = schedule_of("\"when\":\"every 1s\",\"name\":\"a\",\"jitter_ms\":1000");
    struct schedule *b = schedule_of("\"when\":\"every 1s\",\"name\":\"b\",\"jitter_ms\":1000");
    int different = 0, high = 0;
    for (int64_t at = NIGHT; at < NIGHT + 1000 * SECOND; at += SECOND) {
        int64_t jitter = bi_schedule_jitter(a, at);
        assert_true(jitter >= 0 && jitter <= 1000);
        assert_int_equal(jitter, bi_schedule_jitter(a, at));
        different += jitter != bi_schedule_jitter(b, at);
        high += jitter > 500;
    }
    assert_true(different > 900 && high > 400 && high < 600);
    bi_schedule_free(a);
    bi_schedule_free(b);
}

static void own_job_is_due_at_the_next_moment(void **state)
{
    (void)state;
    struct schedule *schedule = due_at("\"when\":\"every 1s\"", NIGHT);
    struct schedule_put put = {.text = NULL};
    bide_put_item item;
    assert_true(bi_schedule_describe_self(schedule, &put, &item));
    assert_int_equal(put.options.run_at_ms, NIGHT);
    schedule->def.next_at_ms = 0;
    assert_true(bi_schedule_describe_self(schedule, &put, &item));
    assert_int_equal(put.options.run_at_ms, 0); /* to be planned at once */
    schedule->def.state = BIDE_SCHEDULE_PAUSED;
    assert_true(bi_schedule_describe_self(schedule, &put, &item));
    assert_int_equal(put.options.run_at_ms, BIDE_TIMESTAMP_MAX_MS);
    free(put.text);
    bi_schedule_free(schedule);
}

/* ---- JSON ---- */

static void stored_form_is_decoded_as_it_was_encoded(void **state)
{
    (void)state;
    static const char text[] =
        "{\"name\":\"n\",\"when\":\"0 6 * * *\",\"zone\":\"UTC\",\"topic\":\"t\",\"body_base64\":"
        "\"AP8=\",\"priority\":1,\"delay_ms\":2,\"ttr_ms\":3,\"key\":\"k\",\"key_hold_retained\":"
        "true,\"max_retries\":0,\"backoff_base_ms\":5,\"backoff_max_ms\":6,\"retain_ms\":8,"
        "\"expires_in_ms\":7,\"jitter_ms\":9,\"start_at_ms\":10,\"end_at_ms\":11,\"misfire\":"
        "\"all\",\"misfire_max\":12,\"grace_ms\":13,\"overlap\":\"replace\",\"state\":\"paused\","
        "\"next_at_ms\":14,\"last_at_ms\":15,\"made\":16}";
    char error[BI_ERRMSG_SIZE] = "";
    struct schedule *schedule = NULL;
    if (bi_schedule_decode(text, strlen(text), 0, &schedule, error) != BIDE_OK)
        fail_msg("%s", error);
    json_t *object = bi_schedule_encode(&schedule->def, BI_SCHEDULE_STORED);
    char *again = json_dumps(object, JSON_COMPACT);
    json_t *expected = json_loads(text, 0, NULL);
    assert_true(json_equal(object, expected));
    assert_non_null(again);
    free(again);
    json_decref(object);
    json_decref(expected);
    bi_schedule_free(schedule);
}

/* Otherwise a schedule that a queue has accepted could become too large for it. */
static void stored_form_has_the_same_size_at_all_times(void **state)
{
    (void)state;
    struct schedule *schedule = schedule_of("\"when\":\"every 1s\",\"body\":\"b\"");
    char *text = bi_schedule_format_stored(&schedule->def);
    size_t size = strlen(text);
    free(text);
    for (int state_number = BIDE_SCHEDULE_ACTIVE; state_number <= BIDE_SCHEDULE_ENDED;
         state_number++) {
        schedule->def.state = (bide_schedule_state)state_number;
        schedule->def.next_at_ms = state_number == 0 ? 0 : BIDE_TIMESTAMP_MAX_MS;
        schedule->def.last_at_ms = BIDE_TIMESTAMP_MAX_MS;
        schedule->def.made = state_number == 0 ? 1 : INT64_MAX;
        text = bi_schedule_format_stored(&schedule->def);
        assert_int_equal(strlen(text), size);
        free(text);
    }
    bi_schedule_free(schedule);
}

static int fails_at; /* counts down; the allocation that reaches 0 fails */

static void *fail_once(size_t size)
{
    return --fails_at == 0 ? NULL : malloc(size);
}

static void lack_of_memory_does_not_damage_a_definition(void **state)
{
    (void)state;
    static const char text[] = "{\"name\":\"s\",\"when\":\"@daily\",\"zone\":\"UTC\",\"topic\":"
                               "\"t\",\"body_base64\":\"AP8=\",\"made\":3}";
    bide_job job = {.key = "s", .key_size = 1, .body = text, .body_size = strlen(text)};
    char error[BI_ERRMSG_SIZE];
    int code = BIDE_ENOMEM;
    json_set_alloc_funcs(fail_once, free);
    for (int i = 1; fails_at <= 0 || i == 1; i++) {
        struct schedule *schedule = NULL;
        fails_at = i;
        code = bi_schedule_of_job(&job, &schedule, error);
        if (code == BIDE_OK)
            assert_int_equal(schedule->def.state, BIDE_SCHEDULE_ACTIVE);
        else
            assert_int_equal(code, BIDE_ENOMEM);
        bi_schedule_free(schedule);
    }
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(code, BIDE_OK);
}

/* Each option is stored, or set fails: none is dropped silently. */
static void every_option_of_a_put_is_carried_or_rejected(void **state)
{
    (void)state;
    static const bide_put_options defaults = BIDE_PUT_OPTIONS_INIT;
    size_t carried = 0;
    for (size_t at = offsetof(bide_put_options, priority); at < sizeof(defaults); at++) {
        bide_schedule given = BIDE_SCHEDULE_INIT;
        bide_put_options options = defaults;
        struct schedule *schedule = NULL;
        char error[BI_ERRMSG_SIZE];
        bool is_key = at >= offsetof(bide_put_options, key) &&
                      at < offsetof(bide_put_options, key) + sizeof(defaults.key);
        bool is_padding = at > offsetof(bide_put_options, key_hold_retained) &&
                          at < offsetof(bide_put_options, max_retries);
        if (is_key || is_padding)
            continue;
        given.name = given.topic = "s";
        given.when = "every 1h";
        given.overlap = BIDE_OVERLAP_SKIP;
        given.options = &options;
        options.key = (bide_slice){"k", 1};
        ((char *)&options)[at] ^= 1;
        if (bi_schedule_copy(&given, &schedule, error) != BIDE_OK)
            continue;
        carried++;
        assert_int_equal(schedule->options.key.size, 1);
        schedule->options.key = options.key;
        assert_memory_equal(&schedule->options, &options, sizeof(options));
        bi_schedule_free(schedule);
    }
    assert_true(carried > 20);
}

static void absence_of_a_default_is_carried(void **state)
{
    (void)state;
    static const char text[] = "{\"name\":\"s\",\"when\":\"every 1h\",\"topic\":\"t\",\"ttr_ms\":0,"
                               "\"max_retries\":-1,\"backoff_base_ms\":0,\"backoff_max_ms\":0,"
                               "\"retain_ms\":0,\"fallbacks\":1,\"expires_in_ms\":0}";
    char error[BI_ERRMSG_SIZE] = "";
    struct schedule *schedule = NULL;
    if (bi_schedule_decode(text, strlen(text), 0, &schedule, error) != BIDE_OK)
        fail_msg("%s", error);
    json_t *object = bi_schedule_encode(&schedule->def, BI_SCHEDULE_DEFINITION);
    json_t *expected = json_loads(text, 0, NULL);
    assert_true(json_equal(object, expected));
    json_decref(object);
    json_decref(expected);

    struct schedule_put put;
    bide_put_item item;
    bi_schedule_describe(schedule, NIGHT, NIGHT, &put, &item);
    assert_int_equal(put.options.ttr_ms, BIDE_NO_DEFAULT);
    assert_int_equal(put.options.max_retries, BIDE_NO_DEFAULT);
    assert_int_equal(put.options.backoff_base_ms, BIDE_NO_DEFAULT);
    assert_int_equal(put.options.backoff_max_ms, BIDE_NO_DEFAULT);
    assert_int_equal(put.options.retain_ms, BIDE_NO_DEFAULT);
    assert_int_equal(put.options.expires_at_ms, BIDE_NO_DEFAULT);
    assert_int_equal(put.options.fallbacks, BIDE_FALLBACK_RETRIES);
    bi_schedule_free(schedule);
}

#define VALID "\"name\":\"n\",\"when\":\"every 1m\",\"topic\":\"t\""

static void times_may_be_texts(void **state)
{
    (void)state;
    static const char text[] = "{\"name\":\"n\",\"when\":\"every 1m\",\"topic\":\"t\",\"ttr\":"
                               "\"5m\",\"jitter\":\"2s\",\"start_at\":\"2026-11-20T00:00Z\"}";
    char error[BI_ERRMSG_SIZE] = "";
    struct schedule *schedule = NULL;
    if (bi_schedule_decode(text, strlen(text), NIGHT, &schedule, error) != BIDE_OK)
        fail_msg("%s", error);
    assert_int_equal(schedule->options.ttr_ms, 5 * MINUTE);
    assert_int_equal(schedule->def.jitter_ms, 2 * SECOND);
    assert_int_equal(schedule->def.start_at_ms, NIGHT);
    bi_schedule_free(schedule);
}

static void times_are_in_the_zone_of_the_definition(void **state)
{
    (void)state;
    static const char text[] =
        "{\"start_at\":\"2026-11-20 09:00\",\"name\":\"n\",\"when\":\"@daily\","
        "\"topic\":\"t\",\"end_at\":\"2026-11-21\",\"zone\":\"Asia/Tokyo\"}";
    char error[BI_ERRMSG_SIZE] = "";
    struct schedule *schedule = NULL;
    if (bi_schedule_decode(text, strlen(text), NIGHT, &schedule, error) != BIDE_OK)
        fail_msg("%s", error);
    assert_int_equal(schedule->def.start_at_ms, NIGHT);
    assert_int_equal(schedule->def.end_at_ms, NIGHT + 15 * HOUR);
    bi_schedule_free(schedule);
    rejects("{" VALID ",\"start_at\":\"today\",\"zone\":\"Mars/Olympus\"}",
            "there is no time zone \"Mars/Olympus\"");
}

static void invalid_definitions_are_rejected_with_the_reason(void **state)
{
    (void)state;
    rejects("", "not JSON");
    rejects("[]", "not a JSON object");
    rejects("{}", "the name must be");
    rejects("{\"name\":\"a b\",\"when\":\"every 1m\",\"topic\":\"t\"}", "the name must be");
    rejects("{\"name\":\"n\",\"topic\":\"t\"}", "\"when\" is missing");
    rejects("{\"name\":\"n\",\"when\":\"every 1m\"}", "the topic must be");
    rejects("{\"name\":\"n\",\"when\":\"every 1m\",\"topic\":\"$schedules\"}", "themselves");
    rejects("{\"name\":\"n\",\"when\":\"1 2 3\",\"topic\":\"t\"}", "");
    rejects("{" VALID ",\"zone\":\"Mars/Olympus\"}", "Mars/Olympus");
    rejects("{" VALID ",\"zone\":7}", "must be a string");
    rejects("{" VALID ",\"ttr\":5}",
            "\"ttr\" must be a string; \"ttr_ms\" is a number of milliseconds");
    rejects("{" VALID ",\"zone\":\"\"}", "1 to 63 bytes");
    rejects("{" VALID ",\"zone\":\"../passwd\"}", "cannot have this name");
    rejects("{" VALID ",\"fallbacks\":2}", "from 0 to 1");
    rejects("{" VALID ",\"run_at_ms\":5}", "unknown name \"run_at_ms\"");
    rejects("{" VALID ",\"prioritty\":7}", "did you mean \"priority\"");
    rejects("{" VALID ",\"priority\":-1}", "from 0 to 4294967295");
    rejects("{" VALID ",\"ttr_ms\":\"1m\"}", "whole number");
    rejects("{" VALID ",\"ttr\":\"soon\"}", "soon");
    rejects("{" VALID ",\"misfire\":\"maybe\"}", "once, skip or all");
    rejects("{" VALID ",\"misfire_max\":1001}", "from 0 to 1000");
    rejects("{" VALID ",\"overlap\":1}", "allow, skip or replace");
    rejects("{" VALID ",\"key\":\"k\"}", "set overlap");
    rejects("{" VALID ",\"key_hold_retained\":true}", "needs a key");
    rejects("{" VALID ",\"key_hold_retained\":1}", "true or false");
    rejects("{" VALID ",\"expires_at_ms\":5}", "expires_in_ms");
    rejects("{" VALID ",\"start_at_ms\":5,\"end_at_ms\":5}", "before it starts");
    rejects("{" VALID ",\"body\":\"a\",\"body_base64\":\"YQ==\"}", "twice");
    rejects("{" VALID ",\"body_base64\":\"!\"}", "base64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_schedule_gets_its_first_moment_and_no_job),
        cmocka_unit_test(moment_is_due_when_it_is_reached),
        cmocka_unit_test(once_puts_the_last_missed_moment_only),
        cmocka_unit_test(skip_puts_nothing_that_is_older_than_its_grace),
        cmocka_unit_test(all_puts_the_last_missed_moments_up_to_the_limit),
        cmocka_unit_test(last_moments_of_years_are_found_among_irregular_ones),
        cmocka_unit_test(many_jobs_are_put_in_several_steps),
        cmocka_unit_test(overlap_policy_allows_one_job_at_a_time),
        cmocka_unit_test(moments_lie_between_start_and_end),
        cmocka_unit_test(every_counts_from_the_start),
        cmocka_unit_test(paused_and_ended_schedules_have_no_moments),
        cmocka_unit_test(advance_after_the_last_moment_ends_the_schedule),
        cmocka_unit_test(same_moments_keep_the_next_one),
        cmocka_unit_test(other_moments_begin_now),
        cmocka_unit_test(due_moment_is_decided_by_the_new_definition),
        cmocka_unit_test(paused_schedule_stays_paused),
        cmocka_unit_test(run_is_between_the_moments),
        cmocka_unit_test(set_does_not_undo_a_resume_meanwhile),
        cmocka_unit_test(job_has_the_options_and_the_key_of_its_moment),
        cmocka_unit_test(jitter_depends_on_name_and_moment_only),
        cmocka_unit_test(own_job_is_due_at_the_next_moment),
        cmocka_unit_test(stored_form_is_decoded_as_it_was_encoded),
        cmocka_unit_test(stored_form_has_the_same_size_at_all_times),
        cmocka_unit_test(lack_of_memory_does_not_damage_a_definition),
        cmocka_unit_test(every_option_of_a_put_is_carried_or_rejected),
        cmocka_unit_test(absence_of_a_default_is_carried),
        cmocka_unit_test(times_may_be_texts),
        cmocka_unit_test(times_are_in_the_zone_of_the_definition),
        cmocka_unit_test(invalid_definitions_are_rejected_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
