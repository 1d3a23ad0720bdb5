/* SPDX-License-Identifier: MIT */
/* open.c - opening a queue: URLs, parameters, options, and what is wrong with them. */
#include "location.h"
#include "sample_queue.h"

#include <stdio.h>
#include <string.h>

/* The URL under test with a parameter that must be refused. */
#define BAD_PARAMETER(text) bad_parameter(HERE, text)
static void bad_parameter(struct where at, const char *text)
{
    char url[1024];
    bide *queue;
    spoil(&queue, sizeof queue);
    check_code(at, bide_open(trial_url(url, sizeof url, text), NULL, &queue), BIDE_EINVAL, text);
    spoiled(at, &queue, sizeof queue, "the queue");
}

static void url_without_a_known_scheme_is_rejected(void)
{
    static const char *const urls[] = {"",         ":",        "memory",  "nonsense:",
                                       "mem:",     "memoryx:", "://",     "memory?x=1",
                                       " memory:", "1:",       "?seed=1", "nonsense://host/0"};
    bide *queue;
    spoil(&queue, sizeof queue);
    for (size_t i = 0; i < COUNT(urls); i++)
        check_code(HERE, bide_open(urls[i], NULL, &queue), BIDE_EINVAL, urls[i]);
    CODE(bide_open(NULL, NULL, &queue), BIDE_EINVAL);
    SPOILED(queue);
}

static void very_long_url_is_rejected(void)
{
    static char url[100000];
    bide *queue;
    spoil(&queue, sizeof queue);
    memset(url, 'x', sizeof url - 1);
    CODE(bide_open(url, NULL, &queue), BIDE_EINVAL);
    SPOILED(queue);
}

static void open_rejects_a_null_result(void)
{
    char url[1024];
    CODE(bide_open(trial_url(url, sizeof url, ""), NULL, NULL), BIDE_EINVAL);
}

static void error_message_names_the_cause(void)
{
    char url[1024];
    bide *queue = NULL;
    CODE(bide_open("nonsense:", NULL, &queue), BIDE_EINVAL);
    CHECK(strstr(bide_last_error(), "nonsense") != NULL);
    trial_url(url, sizeof url, "no_such_parameter=1");
    CODE(bide_open(url, NULL, &queue), BIDE_EINVAL);
    CHECK(strstr(bide_last_error(), "no_such_parameter") != NULL);
}

static void error_of_a_url_does_not_show_its_secret(void)
{
    static const char *const urls[] = {"beanstalk://hush@127.0.0.1:1?seed",
                                       "Beanstalk://hush@127.0.0.1:1", "beanstalk::hush@127.0.0.1",
                                       "beanstalk:hush@127.0.0.1",
                                       "beanstalk://127.0.0.1?secret=hush&seed"};
    for (size_t i = 0; i < COUNT(urls); i++) {
        bide *queue = NULL;
        check_code(HERE, bide_open(urls[i], NULL, &queue), BIDE_EINVAL, urls[i]);
        CHECK(strstr(bide_last_error(), "hush") == NULL);
    }
}

static void unknown_parameters_are_rejected(void)
{
    BAD_PARAMETER("no_such_parameter=1");
    BAD_PARAMETER("Max_topics=1");
    BAD_PARAMETER("max_topic=1");
    BAD_PARAMETER("default_ttr_ms=1000");
    BAD_PARAMETER("=1");
    BAD_PARAMETER("seed=1&no_such_parameter=1");
}

static void invalid_numbers_are_rejected(void)
{
    static const char *const names[] = {"max_topics",  "max_waiters", "max_jobs_per_topic",
                                        "max_touches", "seed",        "max_pending_ops"};
    static const char *const values[] = {
        "", "abc", "-1", "1.5", "1x", "0x10", " 1", "1 ", "99999999999999999999999"};
    for (size_t i = 0; i < COUNT(names); i++)
        for (size_t j = 0; j < COUNT(values); j++) {
            char text[128];
            snprintf(text, sizeof text, "%s=%s", names[i], values[j]);
            BAD_PARAMETER(text);
        }
    BAD_PARAMETER("max_topics");
    BAD_PARAMETER("max_topics=4294967296");
    BAD_PARAMETER("max_waiters=4294967296");
    BAD_PARAMETER("wheel_slots=1000001");
}

static void invalid_durations_are_rejected(void)
{
    static const char *const names[] = {"default_ttr", "max_touch_total", "min_touch_interval",
                                        "wheel_tick",  "ticker_min",      "ticker_max"};
    static const char *const values[] = {"",    "s",   "-1",   "-5s",      "10x",
                                         "1s2", "1 s", "5sec", "9999999d", "99999999999999999999"};
    for (size_t i = 0; i < COUNT(names); i++)
        for (size_t j = 0; j < COUNT(values); j++) {
            char text[128];
            snprintf(text, sizeof text, "%s=%s", names[i], values[j]);
            BAD_PARAMETER(text);
        }
}

static void invalid_sizes_are_rejected(void)
{
    BAD_PARAMETER("max_job_size=");
    BAD_PARAMETER("max_job_size=KiB");
    BAD_PARAMETER("max_job_size=-1");
    BAD_PARAMETER("max_job_size=5kb");
    BAD_PARAMETER("max_job_size=1s");
    BAD_PARAMETER("max_job_size=2GiB");
    BAD_PARAMETER("max_job_size=1073741825");
    BAD_PARAMETER("max_result_size=2GiB");
    BAD_PARAMETER("max_error_size=2MiB");
    BAD_PARAMETER("max_memory=99999999999999GiB");
}

static void invalid_enum_values_are_rejected(void)
{
    BAD_PARAMETER("ticker=clock");
    BAD_PARAMETER("ticker=");
    BAD_PARAMETER("ticker=1");
    BAD_PARAMETER("topic_cleanup=perhaps");
    BAD_PARAMETER("topic_cleanup=");
}

/* Opens with this field of the options changed, which must be refused. The URL under test may
 * set the parameter of that name, which wins over the field: then there is nothing to see. */
#define BAD_OPTION(field, name, value)                          \
    do {                                                        \
        bide_options options_ = BIDE_OPTIONS_INIT;              \
        bide *queue_;                                           \
        char url_[1024];                                        \
        spoil(&queue_, sizeof queue_);                          \
        options_.field = (value);                               \
        if (strstr(trial_url(url_, sizeof url_, ""), name "=")) \
            break;                                              \
        CODE(bide_open(url_, &options_, &queue_), BIDE_EINVAL); \
        SPOILED(queue_);                                        \
    } while (0)

static void invalid_options_are_rejected(void)
{
    BAD_OPTION(size, "size", 0);
    BAD_OPTION(size, "size", 1);
    BAD_OPTION(size, "size", sizeof(bide_options) + 1);
    BAD_OPTION(default_ttr_ms, "default_ttr", -1);
    BAD_OPTION(default_ttr_ms, "default_ttr", BIDE_TIME_MAX_MS + 1);
    BAD_OPTION(default_ttr_ms, "default_ttr", INT64_MIN);
    BAD_OPTION(max_job_size, "max_job_size", ((size_t)1 << 30) + 1);
    BAD_OPTION(max_result_size, "max_result_size", SIZE_MAX);
    BAD_OPTION(max_error_size, "max_error_size", ((size_t)1 << 20) + 1);
    BAD_OPTION(max_touch_total_ms, "max_touch_total", -1);
    BAD_OPTION(min_touch_interval_ms, "min_touch_interval", INT64_MAX);
    BAD_OPTION(topic_cleanup, "topic_cleanup", 7);
    BAD_OPTION(topic_cleanup, "topic_cleanup", -2);
    BAD_OPTION(ticker, "ticker", (bide_ticker)2);
    BAD_OPTION(ticker, "ticker", (bide_ticker)99);
    BAD_OPTION(ticker_min_ms, "ticker_min", -1);
    BAD_OPTION(ticker_max_ms, "ticker_max", INT64_MAX);
    BAD_OPTION(wheel_tick_ms, "wheel_tick", -1);
    BAD_OPTION(wheel_slots, "wheel_slots", 1000001);
}

static bide *open_with(const char *parameters, const bide_options *options)
{
    char url[1024];
    bide *queue = NULL;
    OK(bide_open(trial_url(url, sizeof url, parameters), options, &queue));
    return queue;
}

/* The ttr that a queue gives to a job that does not ask for one. */
static int64_t default_ttr(const char *parameters, const bide_options *options)
{
    bide *queue = open_with(parameters, options);
    uint64_t id = put(queue, fresh_topic("a"), "body");
    int64_t ttr_ms = stat_job(queue, id)->ttr_ms;
    OK(bide_delete(queue, id, 0));
    OK(bide_close(queue));
    return ttr_ms;
}

static void durations_take_every_unit(void)
{
    EQ(default_ttr("default_ttr=1500", NULL), 1500);
    EQ(default_ttr("default_ttr=1500ms", NULL), 1500);
    EQ(default_ttr("default_ttr=7s", NULL), 7000);
    EQ(default_ttr("default_ttr=7m", NULL), 420000);
    EQ(default_ttr("default_ttr=7h", NULL), 25200000);
    EQ(default_ttr("default_ttr=7d", NULL), 604800000);
}

static void sizes_take_every_unit(void)
{
    static const struct {
        const char *parameters;
        size_t size;
    } cases[] = {{"max_job_size=100", 100},
                 {"max_job_size=100B", 100},
                 {"max_job_size=2KiB", 2048},
                 {"max_job_size=1MiB", 1 << 20}};
    static const char body[(1 << 20) + 1];
    for (size_t i = 0; i < COUNT(cases); i++) {
        bide *queue = open_with(cases[i].parameters, NULL);
        const char *a = fresh_topic("a");
        uint64_t id = 0;
        CODE(bide_put(queue, a, body, cases[i].size + 1, NULL, NULL), BIDE_TOO_BIG);
        OK(bide_put(queue, a, body, cases[i].size, NULL, &id));
        EQ(stat_job(queue, id)->body_size, cases[i].size);
        OK(bide_delete(queue, id, 0));
        OK(bide_close(queue));
    }
}

static void url_parameters_override_options(void)
{
    bide_options options = BIDE_OPTIONS_INIT;
    EQ(default_ttr("", &options), 60000);
    options.default_ttr_ms = 33000;
    EQ(default_ttr("", &options), 33000);
    EQ(default_ttr("default_ttr=44s", &options), 44000);

    options.max_jobs_per_topic = 1;
    bide *queue = NULL;
    if (!is_in_process()) {
        char url[1024];
        CODE(bide_open(trial_url(url, sizeof url, ""), &options, &queue), BIDE_EINVAL);
        CHECK(strstr(bide_last_error(), "max_jobs_per_topic") != NULL);
        return;
    }
    queue = open_with("", &options);
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    CODE(bide_put(queue, a, "x", 1, NULL, NULL), BIDE_TOPIC_FULL);
    OK(bide_delete(queue, id, 0));
    OK(bide_close(queue));
}

static void both_tickers_and_their_settings_work(void)
{
    static const char *const parameters[] = {
        "ticker=dynamic", "ticker=dynamic&ticker_min=2ms&ticker_max=1s", "ticker=wheel",
        "ticker=wheel&wheel_tick=5ms&wheel_slots=8", "ticker=wheel&wheel_tick=1ms&wheel_slots=1"};
    for (size_t i = 0; i < COUNT(parameters); i++) {
        bide *queue = open_with(parameters[i], NULL);
        const char *a = fresh_topic("a");
        int64_t start_us = clock_us();
        uint64_t id = put_later(queue, a, 45);
        const bide_job *job = await(queue, a);
        NOT_BEFORE(start_us, 45);
        EQ(job->id, id);
        OK(bide_delete(queue, id, job->token));
        OK(bide_close(queue));
    }
}

/* Tickers that wake seldom: deadlines of jobs come late, those of waiting calls do not. */
static const char *const slow_tickers[] = {"ticker=wheel&wheel_tick=1m",
                                           "ticker=dynamic&ticker_min=1m"};

static void a_waiting_call_times_out_in_time_with_every_ticker(void)
{
    for (size_t i = 0; i < COUNT(slow_tickers); i++) {
        bide *queue = open_with(slow_tickers[i], NULL);
        const char *a = fresh_topic("a");
        uint64_t id = put_later(queue, a, 30000); /* so that the ticker has something to do */
        for (int round = 0; round < 3; round++) {
            bide_job job;
            int64_t start_us = clock_us();
            CODE(bide_reserve(queue, a, 50, &job), BIDE_TIMED_OUT);
            NOT_BEFORE(start_us, 50);
            CODE(bide_wait(queue, id, 50, NULL, NULL), BIDE_TIMED_OUT);
            NOT_BEFORE(start_us, 100);
            CHECK(clock_us() - start_us < 20000 * INT64_C(1000));
        }
        OK(bide_delete(queue, id, 0));
        OK(bide_close(queue));
    }
}

/* Jobs on both clocks, due one after another within a second and a half, become ready together: at
 * the ticks. Nothing is asked of the queue meanwhile, for a call looks for what is due, too. */
static size_t count_wakeups(const char *parameters)
{
    enum { JOBS = 40, STEP_MS = 25 };
    bide *queue = open_with(parameters, NULL);
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    int64_t start_ms = wall_ms() + 500;
    for (int i = 0; i < JOBS; i++) {
        options.run_at_ms = i % 2 == 0 ? start_ms + (int64_t)STEP_MS * i : 0;
        options.delay_ms = i % 2 == 0 ? 0 : 500 + (int64_t)STEP_MS * i;
        put_as(queue, a, "body", &options);
    }
    nap_ms(500 + JOBS * STEP_MS + 1000);
    EQ(topic_of(queue, a).jobs.ready, JOBS);
    int64_t moments[JOBS];
    size_t count = 0;
    for (int i = 0; i < JOBS; i++) {
        const bide_job *job = take(queue, a);
        size_t at = 0;
        while (at < count && moments[at] != job->ready_ms)
            at++;
        moments[at] = job->ready_ms;
        count += at == count;
        OK(bide_delete(queue, job->id, job->token));
    }
    OK(bide_close(queue));
    return count;
}

static void ticker_respects_its_minimum_interval(void)
{
    /* Four ticks begin in the time in which they come due, with a margin for where they lie. */
    BETWEEN((int64_t)count_wakeups("ticker=wheel&wheel_tick=500ms"), 1, 5);
    BETWEEN((int64_t)count_wakeups("ticker=dynamic&ticker_min=500ms"), 1, 5);
}

/* ---- shutdown ---- */

static void shutdown_ends_waiting_calls_and_accepts_acks(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice waited = slice(b);
    put(queue, a, "one");
    uint64_t second = put(queue, a, "two");
    bide_job held = *take(queue, a);
    struct waiter *waiter = begin_reserve(queue, cq, &waited, 1);
    OK(bide_shutdown(queue));
    completes(waiter, BIDE_CLOSED);

    bide_job job = {0};
    CODE(bide_reserve(queue, a, 0, &job), BIDE_CLOSED);
    CODE(bide_reserve(queue, b, BIDE_FOREVER, &job), BIDE_CLOSED);
    CODE(bide_reserve_job(queue, second, &job), BIDE_CLOSED);
    CODE(bide_wait(queue, held.id, BIDE_FOREVER, NULL, NULL), BIDE_CLOSED);
    OK(bide_touch(queue, held.id, held.token, 0, NULL));
    OK(bide_delete(queue, held.id, held.token));
    put(queue, a, "three");
    EQ(topic_of(queue, a).jobs.ready, 2);
    OK(bide_shutdown(queue));
}

static void finish_and_reserve_after_shutdown_only_finishes(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    put(queue, a, "one");
    put(queue, a, "two");
    bide_job held = *take(queue, a), next = {0};
    OK(bide_shutdown(queue));
    bide_finish_item finish = {.id = held.id, .token = held.token};
    bide_reserve_args args = reserve_args(&topic, 1, 0, &next, 1);
    CODE(bide_finish_and_reserve(queue, &finish, &args), BIDE_CLOSED);
    EQ(finish.status, BIDE_OK);
    EQ(topic_of(queue, a).jobs.ready, 1);
    EQ(topic_of(queue, a).jobs.reserved, 0);
    CODE(bide_shutdown(NULL), BIDE_EINVAL);
}

/* What a queue says of itself is what it does. */
static void leases_can_be_passed_on_if_the_capability_is_set(void)
{
    char location[LOCATION_SIZE];
    bide *first = open_location(new_location(location, sizeof location), "");
    const char *a = fresh_topic("a");
    uint32_t can = bide_capabilities(first);
    put(first, a, "body");
    CHECK((can & BIDE_CAN_ALL_OPS) != 0);
    EQ((can & BIDE_CAN_SHARE) != 0, !is_in_process());
    EQ((can & BIDE_CAN_PASS_LEASES) != 0, !is_in_process());
    EQ(bide_capabilities(NULL), 0);
    if ((can & BIDE_CAN_SHARE) == 0)
        return;
    char url[LOCATION_SIZE];
    bide *second;
    bide_job job;
    OK(bide_open(second_url(url, sizeof url, location), NULL, &second));
    OK(bide_reserve(second, a, 0, &job));
    uint64_t id = job.id, token = job.token;
    bide_job_clear(&job);
    OK(bide_close(second));
    OK(bide_touch(first, id, token, 0, NULL));
    OK(bide_delete(first, id, token));
}

static const struct test tests[] = {
    TEST(leases_can_be_passed_on_if_the_capability_is_set),
    TEST(shutdown_ends_waiting_calls_and_accepts_acks),
    TEST(finish_and_reserve_after_shutdown_only_finishes),
    TEST(url_without_a_known_scheme_is_rejected),
    TEST(very_long_url_is_rejected),
    TEST(open_rejects_a_null_result),
    TEST(error_message_names_the_cause),
    TEST(error_of_a_url_does_not_show_its_secret),
    TEST(unknown_parameters_are_rejected),
    TEST(invalid_numbers_are_rejected),
    TEST(invalid_durations_are_rejected),
    TEST(invalid_sizes_are_rejected),
    TEST(invalid_enum_values_are_rejected),
    TEST(invalid_options_are_rejected),
    TEST(durations_take_every_unit),
    TEST(sizes_take_every_unit),
    TEST(url_parameters_override_options),
    TEST(both_tickers_and_their_settings_work),
    TEST(a_waiting_call_times_out_in_time_with_every_ticker),
    TEST(ticker_respects_its_minimum_interval),
};

const struct theme open_theme = {"open", tests, COUNT(tests)};
