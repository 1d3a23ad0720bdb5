/* SPDX-License-Identifier: MIT */
/*
 * The limits of a topic: exact rates over any steps of the clock, and a concurrency that no failed
 * commit and no restart can exceed.
 */
#include "core_fixture.h"

#include "util/hash.h"

static int set_up_wheel(void **state)
{
    (void)state;
    core_fixture_init(&w);
    w.options.wheel = true;
    core_fixture_start(&w);
    return 0;
}

static void set_policy(const char *topic, const bide_topic_policy *policy)
{
    bide_op op = {.kind = BIDE_OP_TOPIC_SET, .topic_set = {text(topic), *policy}};
    assert_int_equal(run(&w, &op), BIDE_OK);
}

static void set_concurrency(const char *topic, int64_t concurrency)
{
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.concurrency = concurrency;
    set_policy(topic, &policy);
}

static void set_rate(const char *topic, int64_t rate, int64_t period_ms, int64_t burst)
{
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.rate = rate;
    policy.rate_period_ms = period_ms;
    policy.rate_burst = burst;
    set_policy(topic, &policy);
}

static bide_topic_stats topic_of(const char *topic)
{
    bide_topic_stats stats;
    bide_op op = {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {text(topic), &stats}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    return stats;
}

/* A call that waits for one job of a topic. */
struct waiting {
    bide_slice topic;
    bide_job job;
    bide_op op;
};

static void begin_reserve(struct waiting *waiting, const char *topic)
{
    *waiting = (struct waiting){.topic = text(topic), .op = {.kind = BIDE_OP_RESERVE}};
    waiting->op.reserve = (bide_reserve_args){.topics = &waiting->topic,
                                              .topic_count = 1,
                                              .timeout_ms = BIDE_FOREVER,
                                              .jobs = &waiting->job,
                                              .job_max = 1};
    assert_int_equal(run(&w, &waiting->op), BIDE_PENDING);
}

/* Reserves all that may be now, and gives it back; returns how many. */
static int64_t drain_bucket(const char *topic)
{
    bide_slice name = text(topic);
    bide_job jobs[100] = {0};
    bide_op op = {.kind = BIDE_OP_RESERVE,
                  .reserve = {.topics = &name, .topic_count = 1, .jobs = jobs, .job_max = 100}};
    int64_t total = 0;
    while (run(&w, &op) == BIDE_OK) {
        total += (int64_t)op.reserve.count;
        for (size_t i = 0; i < op.reserve.count; i++) {
            assert_int_equal(run_lease_op(&w, BIDE_OP_GIVE_BACK, jobs[i].id, jobs[i].token),
                             BIDE_OK);
            bide_job_clear(&jobs[i]);
        }
    }
    return total;
}

/* ---- the rate ---- */

struct rate {
    int64_t rate, period_ms, burst;
};

static const struct rate rates[] = {
    {1000, 1000, 1000}, {1000, 1000, 100}, {3, 1000, 2},   {7, 100, 3},
    {999, 1000, 50},    {1, 1, 100},       {60, 60000, 2}, {999983, 600000, 500},
};

/* Whatever the steps, as many as are due by now have been reserved: no rounding accumulates. */
static void a_rate_is_exact_over_any_steps_of_the_clock(void **state)
{
    (void)state;
    struct bi_random random = {7};
    for (int i = 0; i < 100; i++)
        put(&w, "a");

    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        const struct rate *rate = &rates[i];
        set_rate("a", rate->rate, rate->period_ms, rate->burst);
        int64_t begin = w.now.mono, total = drain_bucket("a");
        assert_int_equal(total, 1);
        /* No step lets the bucket become full. */
        int64_t most = rate->period_ms * MS * (rate->burst - 1) / rate->rate;
        most = most > 20000 ? 20000 : most;
        while (w.now.mono < begin + 30 * SECOND) {
            advance_clocks(&w, 1 + (int64_t)bi_random_below(&random, (uint64_t)most));
            total += drain_bucket("a");
            int64_t due = (w.now.mono - begin) * rate->rate / (rate->period_ms * MS);
            assert_int_equal(total, 1 + due);
        }
    }
}

static void a_rate_on_the_wheel_is_late_by_a_tick_at_most(void **state)
{
    (void)state;
    put(&w, "a");
    put(&w, "a");
    set_rate("a", 1000, 1000, 1000);
    int64_t begin = w.now.mono, total = drain_bucket("a");
    while (w.now.mono < begin + 30 * SECOND) {
        advance_clocks(&w, 777);
        total += drain_bucket("a");
        int64_t due = (w.now.mono - begin) / 1000;
        int64_t late = w.options.wheel_tick / 1000 + 1;
        assert_true(total <= 1 + due && total >= 1 + due - late);
    }
}

static void a_lull_fills_the_bucket_up_to_the_burst(void **state)
{
    (void)state;
    put(&w, "a");
    set_rate("a", 10, 1000, 4);
    assert_int_equal(drain_bucket("a"), 1);
    advance_clocks(&w, 365 * 24 * 3600 * SECOND);
    assert_int_equal(drain_bucket("a"), 4);
    advance_clocks(&w, 250 * MS);
    assert_int_equal(drain_bucket("a"), 2);
    advance_clocks(&w, 50 * MS);
    assert_int_equal(drain_bucket("a"), 1);
}

/* A timer that fires late costs no tokens, unless the bucket was full meanwhile. */
static void waiting_calls_get_all_tokens_of_a_late_timer(void **state)
{
    (void)state;
    enum { CALLS = 12, BURST = 5 };
    static struct waiting calls[CALLS];
    for (int i = 0; i < 20; i++)
        put(&w, "a");
    set_rate("a", 1000, 1000, BURST);
    assert_int_equal(drain_bucket("a"), 1);
    for (size_t i = 0; i < CALLS; i++)
        begin_reserve(&calls[i], "a");
    advance_clocks(&w, 3 * MS);
    assert_int_equal(w.completed_count, 3);
    advance_clocks(&w, BURST * MS);
    assert_int_equal(w.completed_count, 3 + BURST);
    advance_clocks(&w, 1000 * SECOND);
    assert_int_equal(w.completed_count, 3 + 2 * BURST - 1); /* no more calls */
    for (size_t i = 0; i < CALLS; i++)
        bide_job_clear(&calls[i].job);
}

/* The wall clock has no effect; a step of the boot-time clock, after a suspend, is a lull. */
static void clock_steps_neither_starve_nor_flood_a_topic(void **state)
{
    (void)state;
    static const int64_t steps[] = {3600 * SECOND, -7200 * SECOND, 10 * 365 * 86400 * SECOND,
                                    -20 * 365 * 86400 * SECOND};
    struct waiting waiting;
    put(&w, "a");
    set_rate("a", 100, 1000, 5);
    assert_int_equal(drain_bucket("a"), 1);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        step_wall_clock(&w, steps[i]);
        assert_int_equal(drain_bucket("a"), 0);
        assert_int_equal(topic_of("a").limit_left_ms, 10);
        advance_clocks(&w, 10 * MS);
        assert_int_equal(drain_bucket("a"), 1);

        w.now.mono += 3600 * SECOND;
        step_wall_clock(&w, 0);
        assert_int_equal(drain_bucket("a"), 5);
        begin_reserve(&waiting, "a");
        size_t before = w.completed_count;
        step_wall_clock(&w, -steps[i]);
        assert_int_equal(w.completed_count, before);
        advance_clocks(&w, 10 * MS);
        assert_int_equal(w.completed_count, before + 1);
        assert_int_equal(run_lease_op(&w, BIDE_OP_GIVE_BACK, waiting.job.id, waiting.job.token),
                         BIDE_OK);
        bide_job_clear(&waiting.job);
    }
}

static void the_core_sleeps_until_the_next_token(void **state)
{
    (void)state;
    uint64_t id = put(&w, "a");
    set_rate("a", 3, 1000, 1);
    assert_int_equal(bi_core_next_deadline(w.core).mono, BI_NEVER);
    uint64_t token = reserve_expected(&w, "a", id);
    assert_int_equal(run_lease_op(&w, BIDE_OP_GIVE_BACK, id, token), BIDE_OK);
    assert_int_equal(bi_core_next_deadline(w.core).mono, w.now.mono + 333334);
    assert_int_equal(topic_of("a").limited, BIDE_LIMIT_RATE);
    assert_int_equal(topic_of("a").limit_left_ms, 334);

    struct waiting waiting;
    begin_reserve(&waiting, "a");
    advance_clocks(&w, 333333);
    assert_int_equal(w.completed_count, 0);
    advance_clocks(&w, 1);
    assert_int_equal(w.completed_count, 1);
    assert_int_equal(waiting.job.id, id);
    bide_job_clear(&waiting.job);
}

static void the_rate_that_a_failed_commit_restores_begins_anew(void **state)
{
    (void)state;
    put(&w, "a");
    set_rate("a", 1, 1000, 1);
    commit(&w);
    set_rate("a", 1000, 1000, 1000);
    fail_commit(&w);
    assert_int_equal(topic_of("a").rate, 1);
    assert_int_equal(topic_of("a").limited, BIDE_LIMIT_NONE);
    core_fixture_check(&w);
}

/* ---- concurrency ---- */

static uint64_t hold_of_reserve(uint64_t wanted)
{
    bide_slice name = text("a");
    bide_job job = {0};
    bide_op op = {.kind = BIDE_OP_RESERVE,
                  .reserve = {.topics = &name, .topic_count = 1, .jobs = &job, .job_max = 1}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_int_equal(job.id, wanted);
    bide_job_clear(&job);
    return op.private_.hold;
}

/* The place of the deleted job is used before the delete is stored. If it fails, the first lease is
 * valid again: so the reply of the second must not have been sent. */
static void reply_waits_for_the_end_that_has_freed_its_place(void **state)
{
    (void)state;
    uint64_t first = put(&w, "a"), second = put(&w, "a");
    set_concurrency("a", 1);
    commit(&w);
    uint64_t token = reserve_expected(&w, "a", first);
    assert_nothing_ready(&w, "a");
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, first, token), BIDE_OK);
    uint64_t open = bi_journal_open_batch(w.core);
    assert_int_equal(hold_of_reserve(second), open);
    fail_commit(&w);
    assert_int_equal(state_of(&w, first), BIDE_STATE_RESERVED);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, first, token), BIDE_OK);
}

static void reply_waits_for_the_limit_that_has_changed(void **state)
{
    (void)state;
    uint64_t first = put(&w, "a"), second = put(&w, "a"), third = put(&w, "a");
    set_concurrency("a", 1);
    commit(&w);
    reserve_expected(&w, "a", first);
    set_concurrency("a", 2);
    assert_int_equal(hold_of_reserve(second), bi_journal_open_batch(w.core));
    set_concurrency("a", BIDE_NO_DEFAULT);
    assert_int_equal(hold_of_reserve(third), bi_journal_open_batch(w.core));
    fail_commit(&w);
    assert_int_equal(topic_of("a").concurrency, 1);
    assert_int_equal(topic_of("a").limited, BIDE_LIMIT_CONCURRENCY);
}

static void reply_of_a_topic_without_a_policy_does_not_wait(void **state)
{
    (void)state;
    uint64_t first = put(&w, "a"), second = put(&w, "a");
    commit(&w);
    uint64_t token = reserve_expected(&w, "a", first);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, first, token), BIDE_OK);
    assert_true(hold_of_reserve(second) <= bi_journal_committed_batch(w.core));
}

static void failed_commit_restores_a_cleared_policy(void **state)
{
    (void)state;
    set_concurrency("a", 3);
    commit(&w);
    set_concurrency("a", BIDE_NO_DEFAULT);
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.records[0].kind, BI_TOPIC);
    assert_null(batch.records[0].image.body);
    set_concurrency("a", 5);
    roll_back_sealed(&w, &batch);
    assert_int_equal(topic_of("a").concurrency, 3);
    assert_int_equal(stats_of(&w).topics, 1);
}

static struct bi_image policy_image(const char *topic, int64_t concurrency)
{
    bide_topic_policy policy = {.max_retries = BIDE_NO_DEFAULT, .concurrency = concurrency};
    struct bi_image image = {.body = bide_buf_new(&policy, sizeof(policy))};
    memcpy(image.topic, topic, strlen(topic) + 1);
    return image;
}

/* A reserved job with a kept lease is loaded after the policy: until then the number of reserved
 * jobs is unknown, and no other job may be reserved. */
static void topic_is_closed_until_kept_leases_are_loaded(void **state)
{
    (void)state;
    core_fixture_init(&w);
    w.options.journal = w.options.recovering = true;
    w.options.next_id = 10;
    w.options.next_token = TOKEN;
    w.options.lease_from = 1;
    core_fixture_start(&w);

    struct bi_image policy = policy_image("a", 1);
    assert_int_equal(bi_load_topic(w.core, &policy, w.now), BIDE_OK);
    bi_image_unref(&policy);
    uint64_t id = put(&w, "a");
    assert_nothing_ready(&w, "a");

    struct waiting waiting;
    begin_reserve(&waiting, "a");
    struct bi_image leased = {.id = 1,
                              .state = BIDE_STATE_READY,
                              .priority = 1,
                              .ttr = SECOND,
                              .token = 5,
                              .lease = SECOND,
                              .max_retries = BIDE_NO_RETRY_LIMIT,
                              .created = EPOCH,
                              .since = EPOCH,
                              .topic = "a"};
    assert_int_equal(bi_load_job(w.core, &leased, w.now), BIDE_OK);
    bi_core_serve(w.core, w.now);
    assert_int_equal(w.completed_count, 0);
    assert_false(bi_core_retire_excess(w.core, w.now, 100));
    bi_core_end_recovery(w.core, w.now);
    assert_int_equal(w.completed_count, 0);
    assert_int_equal(topic_of("a").jobs.reserved, 1);
    assert_int_equal(topic_of("a").limited, BIDE_LIMIT_CONCURRENCY);

    advance_clocks(&w, SECOND + 1); /* that lease ends; the smaller id is reserved first */
    assert_int_equal(w.completed_count, 1);
    assert_int_equal(waiting.job.id, 1);
    assert_int_equal(state_of(&w, id), BIDE_STATE_READY);
    bide_job_clear(&waiting.job);
}

static void without_kept_leases_a_topic_is_open_at_once(void **state)
{
    (void)state;
    core_fixture_init(&w);
    w.options.journal = w.options.recovering = true;
    core_fixture_start(&w);
    struct bi_image policy = policy_image("a", 1);
    assert_int_equal(bi_load_topic(w.core, &policy, w.now), BIDE_OK);
    bi_image_unref(&policy);
    reserve_expected(&w, "a", put(&w, "a"));
    assert_nothing_ready(&w, "a");
}

/* ---- cost ---- */

#define MANY 3000

static char names[MANY][12];
static bide_slice topics[MANY];

static uint64_t work_of_reserve(bide_strategy strategy)
{
    bide_job job = {0};
    bide_op op = {.kind = BIDE_OP_RESERVE,
                  .reserve = {.topics = topics,
                              .topic_count = MANY,
                              .strategy = strategy,
                              .jobs = &job,
                              .job_max = 1}};
    uint64_t before = bi_core_work(w.core);
    assert_int_equal(run(&w, &op), BIDE_TIMED_OUT);
    return bi_core_work(w.core) - before;
}

/* Topics at their limit cost a reserve as much as empty ones, and one that opens is served without
 * a visit of the others. */
static void topics_at_their_limit_cost_no_more_than_empty_ones(void **state)
{
    (void)state;
    uint64_t tokens[2] = {0}, id = 0;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "t%zu", i);
        topics[i] = text(names[i]);
        set_concurrency(names[i], 1);
    }
    uint64_t empty[BIDE_FAIR + 1];
    for (int strategy = 0; strategy <= BIDE_FAIR; strategy++)
        empty[strategy] = work_of_reserve((bide_strategy)strategy);
    for (size_t i = 0; i < MANY; i++) {
        put(&w, names[i]);
        put(&w, names[i]);
        assert_int_equal(try_reserve(&w, names[i], &id, &tokens[0]), BIDE_OK);
    }
    for (int strategy = 0; strategy <= BIDE_FAIR; strategy++)
        assert_true(work_of_reserve((bide_strategy)strategy) <= empty[strategy]);

    bide_job job = {0};
    bide_op op = {.kind = BIDE_OP_RESERVE,
                  .reserve = {.topics = topics,
                              .topic_count = MANY,
                              .timeout_ms = BIDE_FOREVER,
                              .jobs = &job,
                              .job_max = 1}};
    assert_int_equal(run(&w, &op), BIDE_PENDING);
    assert_int_equal(run_lease_op(&w, BIDE_OP_DELETE, id, tokens[0]), BIDE_OK);
    assert_int_equal(w.completed_count, 1);
    assert_string_equal(job.topic, names[MANY - 1]);
    bide_job_clear(&job);
}

#define CORE(test)    cmocka_unit_test_setup_teardown(test, set_up_core, tear_down_core)
#define WHEEL(test)   cmocka_unit_test_setup_teardown(test, set_up_wheel, tear_down_core)
#define JOURNAL(test) cmocka_unit_test_setup_teardown(test, set_up_journal, tear_down_core)
#define OWN(test)     cmocka_unit_test_setup_teardown(test, NULL, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CORE(a_rate_is_exact_over_any_steps_of_the_clock),
        WHEEL(a_rate_on_the_wheel_is_late_by_a_tick_at_most),
        CORE(a_lull_fills_the_bucket_up_to_the_burst),
        CORE(waiting_calls_get_all_tokens_of_a_late_timer),
        CORE(clock_steps_neither_starve_nor_flood_a_topic),
        CORE(the_core_sleeps_until_the_next_token),
        JOURNAL(the_rate_that_a_failed_commit_restores_begins_anew),
        JOURNAL(reply_waits_for_the_end_that_has_freed_its_place),
        JOURNAL(reply_waits_for_the_limit_that_has_changed),
        JOURNAL(reply_of_a_topic_without_a_policy_does_not_wait),
        JOURNAL(failed_commit_restores_a_cleared_policy),
        OWN(topic_is_closed_until_kept_leases_are_loaded),
        OWN(without_kept_leases_a_topic_is_open_at_once),
        CORE(topics_at_their_limit_cost_no_more_than_empty_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
