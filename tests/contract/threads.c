/* SPDX-License-Identifier: MIT */
/* threads.c - many threads on one queue: nothing lost, nothing twice, nothing hangs. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>

#define PRODUCERS     4
#define CONSUMERS     4
#define JOBS_EACH     1500
#define JOBS          (PRODUCERS * JOBS_EACH)
#define TOPICS        3
#define THREADS_AT_IT 12

/* What the threads of one test share. The counts are touched atomically. */
struct crowd {
    bide *queue;
    const char *topics[TOPICS];
    bide_slice slices[TOPICS];
    unsigned char finished[JOBS];
    int finished_count;
    bide_strategy strategy;
    size_t batch;
    bool rough; /* consumers also give jobs back, fail, and let others through */
};

struct member {
    struct crowd *crowd;
    int number;
};

static void crowd_init(struct crowd *crowd)
{
    static const char *const tags[TOPICS] = {"a", "b", "c"};
    crowd->queue = open_queue("");
    for (size_t i = 0; i < TOPICS; i++) {
        crowd->topics[i] = fresh_topic(tags[i]);
        crowd->slices[i] = slice(crowd->topics[i]);
    }
}

static void *produce(void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    for (int i = 0; i < JOBS_EACH; i++) {
        char body[16];
        int size = snprintf(body, sizeof body, "%d", member->number * JOBS_EACH + i);
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.priority = (uint32_t)(i % 7);
        options.delay_ms = i % 50 == 0 ? i % 5 : 0;
        OK(bide_put(crowd->queue, crowd->topics[i % TOPICS], body, (size_t)size, &options, NULL));
    }
    return NULL;
}

/* Finishes one job, or in a rough crowd gives it back in some way. */
static void work(struct crowd *crowd, const bide_job *job)
{
    CHECK(job->body_size > 0 && job->body_size < 16);
    int number = atoi(job->body);
    BETWEEN(number, 0, JOBS - 1);
    if (crowd->rough && job->reserves == 1 && number % 3 == 0) {
        if (number % 2 == 0)
            OK(bide_release(crowd->queue, job->id, job->token, BIDE_KEEP, number % 5));
        else
            OK(bide_fail(crowd->queue, job->id, job->token, "again", 1, NULL, NULL));
        return;
    }
    OK(bide_delete(crowd->queue, job->id, job->token));
    EQ(__atomic_fetch_add(&crowd->finished[number], 1, __ATOMIC_RELAXED), 0);
    __atomic_fetch_add(&crowd->finished_count, 1, __ATOMIC_RELAXED);
}

static void *consume(void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    bide_job jobs[16] = {0};
    while (__atomic_load_n(&crowd->finished_count, __ATOMIC_RELAXED) < JOBS) {
        bide_reserve_args args = reserve_args(crowd->slices, TOPICS, 20, jobs, crowd->batch);
        args.strategy = crowd->strategy;
        int code = bide_reserve_many(crowd->queue, &args);
        if (code == BIDE_TIMED_OUT)
            continue;
        OK(code);
        for (size_t i = 0; i < args.count; i++)
            work(crowd, &jobs[i]);
        clear_jobs(jobs, args.count);
    }
    return NULL;
}

static void run_crowd(struct crowd *crowd)
{
    struct member members[PRODUCERS + CONSUMERS];
    pthread_t threads[COUNT(members)];
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++) {
        members[i] = (struct member){crowd, i};
        threads[i] = start_thread(i < PRODUCERS ? produce : consume, &members[i]);
    }
    for (size_t i = 0; i < COUNT(threads); i++)
        join_thread(threads[i]);
    EQ(crowd->finished_count, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        EQ(crowd->finished[i], 1);
    for (size_t i = 0; i < TOPICS; i++)
        CHECK(!topic_exists(crowd->queue, crowd->topics[i]));
}

static void every_job_is_delivered_once_to_concurrent_consumers(void)
{
    static struct crowd crowd = {.batch = 1};
    crowd_init(&crowd);
    run_crowd(&crowd);
}

static void every_job_is_delivered_once_with_releases_and_all_strategies(void)
{
    static struct crowd crowd = {.batch = 16, .rough = true, .strategy = BIDE_FAIR};
    crowd_init(&crowd);
    run_crowd(&crowd);
}

/* Threads that all do the same once everything is there, to one thing. */
struct race {
    bide *queue;
    const char *topic;
    uint64_t id;
    uint64_t token;
    pthread_barrier_t start;
    int codes[THREADS_AT_IT];
    uint64_t ids[THREADS_AT_IT];
    int (*run)(struct race *race, int number);
};

struct racer {
    struct race *race;
    int number;
};

static void *run_racer(void *arg)
{
    struct racer *racer = arg;
    pthread_barrier_wait(&racer->race->start);
    racer->race->codes[racer->number] = racer->race->run(racer->race, racer->number);
    return NULL;
}

/* Answers how many threads won; all others must have got the code. */
static int run_race(struct race *race, int others)
{
    struct racer racers[THREADS_AT_IT];
    pthread_t threads[THREADS_AT_IT];
    CHECK(pthread_barrier_init(&race->start, NULL, THREADS_AT_IT) == 0);
    for (int i = 0; i < THREADS_AT_IT; i++) {
        racers[i] = (struct racer){race, i};
        threads[i] = start_thread(run_racer, &racers[i]);
    }
    int won = 0;
    for (int i = 0; i < THREADS_AT_IT; i++) {
        join_thread(threads[i]);
        if (race->codes[i] == BIDE_OK)
            won++;
        else
            EQ(race->codes[i], others);
    }
    pthread_barrier_destroy(&race->start);
    return won;
}

static int race_delete(struct race *race, int number)
{
    (void)number;
    return bide_delete(race->queue, race->id, race->token);
}

static void of_many_deletes_with_one_token_one_succeeds(void)
{
    struct race race = {.queue = open_queue(""), .topic = fresh_topic("a"), .run = race_delete};
    for (int i = 0; i < 20; i++) {
        race.id = put(race.queue, race.topic, "body");
        race.token = take(race.queue, race.topic)->token;
        EQ(run_race(&race, BIDE_NOT_FOUND), 1);
    }
    CHECK(!topic_exists(race.queue, race.topic));
}

static int race_put_key(struct race *race, int number)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("the one");
    return bide_put(race->queue, race->topic, "x", 1, &options, &race->ids[number]);
}

static void of_many_puts_with_one_key_one_succeeds(void)
{
    struct race race = {.queue = open_queue(""), .topic = fresh_topic("a"), .run = race_put_key};
    for (int i = 0; i < 20; i++) {
        EQ(run_race(&race, BIDE_EXISTS), 1);
        for (int j = 0; j < THREADS_AT_IT; j++)
            EQ(race.ids[j], race.ids[0]);
        OK(bide_delete(race.queue, race.ids[0], 0));
    }
}

static int race_reserve_job(struct race *race, int number)
{
    bide_job job = {0};
    int code = bide_reserve_job(race->queue, race->id, &job);
    race->ids[number] = job.token;
    bide_job_clear(&job);
    return code;
}

static void of_many_reserves_of_one_job_one_succeeds(void)
{
    struct race race = {.queue = open_queue(""), .topic = fresh_topic("a")};
    race.run = race_reserve_job;
    race.id = put(race.queue, race.topic, "body");
    for (int i = 0; i < 20; i++) {
        EQ(run_race(&race, BIDE_RESERVED), 1);
        for (int j = 0; j < THREADS_AT_IT; j++)
            if (race.codes[j] == BIDE_OK)
                OK(bide_give_back(race.queue, race.id, race.ids[j]));
    }
    EQ(stat_job(race.queue, race.id)->reserves, 20);
}

static int race_reserve(struct race *race, int number)
{
    bide_job job = {0};
    int code = bide_reserve(race->queue, race->topic, BIDE_FOREVER, &job);
    race->ids[number] = job.id;
    bide_job_clear(&job);
    return code;
}

static void *put_one_each(void *arg)
{
    struct race *race = arg;
    for (int i = 0; i < THREADS_AT_IT; i++)
        put(race->queue, race->topic, "body");
    return NULL;
}

static void every_waiting_thread_gets_its_own_job(void)
{
    struct race race = {.queue = open_queue(""), .topic = fresh_topic("a"), .run = race_reserve};
    for (int round = 0; round < 10; round++) {
        pthread_t putter = start_thread(put_one_each, &race);
        EQ(run_race(&race, BIDE_OK), THREADS_AT_IT);
        join_thread(putter);
        for (int i = 0; i < THREADS_AT_IT; i++)
            for (int j = 0; j < i; j++)
                CHECK(race.ids[i] != race.ids[j]);
        nothing_ready(race.queue, race.topic);
    }
}

static int race_fail_and_look(struct race *race, int number)
{
    /* The sentence of this thread stays while the others make calls that answer otherwise. */
    for (int i = 0; i < 100; i++) {
        if (number % 2) {
            CODE(bide_delete(race->queue, BIDE_ID_MAX - (uint64_t)number, 0), BIDE_NOT_FOUND);
        } else {
            CODE(bide_put(race->queue, "not a topic", "x", 1, NULL, NULL), BIDE_EINVAL);
            OK(bide_ping(race->queue));
        }
    }
    return BIDE_OK;
}

static void each_thread_has_its_own_last_error(void)
{
    struct race race = {.queue = open_queue(""), .topic = fresh_topic("a")};
    race.run = race_fail_and_look;
    EQ(run_race(&race, BIDE_OK), THREADS_AT_IT);
    CHECK(bide_last_error() != NULL);
}

/* The calls that wait, each in a thread; a close must end all of them. */
static int race_wait(struct race *race, int number)
{
    bide_job job = {0};
    bide_event event = {0};
    bide_slice topic = slice(race->topic);
    bide_reserve_args args = reserve_args(&topic, 1, 3600000, &job, 1);
    bide_finish_item finish = {.id = BIDE_ID_MAX};
    bide_subscription *feed = NULL;
    size_t count = 0;
    switch (number % 5) {
    case 0:
        return bide_reserve(race->queue, race->topic, BIDE_FOREVER, &job);
    case 1:
        return bide_reserve_many(race->queue, &args);
    case 2:
        return bide_wait(race->queue, race->id, BIDE_FOREVER, NULL, NULL);
    case 3:
        OK(bide_subscribe(race->queue, NULL, 1U << BIDE_EVENT_EXPIRED, 0, &feed));
        return bide_events(race->queue, feed, BIDE_FOREVER, &event, 1, &count, NULL);
    default:
        return bide_finish_and_reserve(race->queue, &finish, &args);
    }
}

static void *close_when_all_wait(void *arg)
{
    struct race *race = arg;
    UNTIL(stats_of(race->queue).waiting + stats_of(race->queue).watching == THREADS_AT_IT);
    close_queue(race->queue);
    return NULL;
}

static void a_close_ends_every_call_that_waits(void)
{
    for (int round = 0; round < 5; round++) {
        struct race race = {.queue = open_queue(""), .topic = fresh_topic("a")};
        race.run = race_wait;
        race.id = put_later(race.queue, race.topic, 3600000);
        pthread_t closer = start_thread(close_when_all_wait, &race);
        EQ(run_race(&race, BIDE_CLOSED), 0);
        join_thread(closer);
    }
}

static void *cycle_until_told(void *arg)
{
    struct race *race = arg;
    while (__atomic_load_n(&race->id, __ATOMIC_RELAXED) == 0) {
        bide_job job = {0};
        OK(bide_put(race->queue, race->topic, "x", 1, NULL, NULL));
        OK(bide_reserve(race->queue, race->topic, PATIENCE_MS, &job));
        OK(bide_delete(race->queue, job.id, job.token));
        bide_job_clear(&job);
    }
    return NULL;
}

static void calls_complete_beside_many_busy_threads(void)
{
    struct race race = {.queue = open_queue(""), .topic = fresh_topic("a")};
    const char *other = fresh_topic("b");
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT(threads); i++)
        threads[i] = start_thread(cycle_until_told, &race);
    for (int i = 0; i < 100; i++) {
        uint64_t id = put_later(race.queue, other, i % 2);
        EQ(await(race.queue, other)->id, id);
        nap_ms(i % 3);
    }
    __atomic_store_n(&race.id, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < COUNT(threads); i++)
        join_thread(threads[i]);
    EQ(topic_of(race.queue, other).jobs.reserved, 100);
    CHECK(!topic_exists(race.queue, race.topic));
}

static void a_queue_can_be_opened_and_closed_many_times(void)
{
    const char *a = fresh_topic("a");
    for (int i = 0; i < 100; i++) {
        char url[1024];
        bide *queue = NULL;
        OK(bide_open(trial_url(url, sizeof url, ""), NULL, &queue));
        uint64_t id = put(queue, a, "body");
        OK(bide_delete(queue, id, take(queue, a)->token));
        OK(bide_close(queue));
    }
}

static const struct test tests[] = {
    TEST(every_job_is_delivered_once_to_concurrent_consumers),
    TEST(every_job_is_delivered_once_with_releases_and_all_strategies),
    TEST(of_many_deletes_with_one_token_one_succeeds),
    TEST(of_many_puts_with_one_key_one_succeeds),
    TEST(of_many_reserves_of_one_job_one_succeeds),
    TEST(every_waiting_thread_gets_its_own_job),
    TEST(each_thread_has_its_own_last_error),
    TEST(a_close_ends_every_call_that_waits),
    TEST(calls_complete_beside_many_busy_threads),
    TEST(a_queue_can_be_opened_and_closed_many_times),
};

const struct theme threads_theme = {"threads", tests, COUNT(tests)};
