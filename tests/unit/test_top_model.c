/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000)

static bide_topic_stats topic(const char *name, uint64_t ready, uint64_t puts, uint64_t deletes)
{
    bide_topic_stats stats = {.jobs = {.ready = ready},
                              .total = {.puts = puts, .deletes = deletes}};
    snprintf(stats.name, sizeof(stats.name), "%s", name);
    return stats;
}

static bide_stats queue(uint64_t puts, uint64_t fails, int64_t uptime_ms)
{
    return (bide_stats){.total = {.puts = puts, .fails = fails}, .uptime_ms = uptime_ms};
}

/* One sample of at most three topics. */
static void add_sample(struct top_model *model, int64_t at_us, bide_stats stats,
                       const bide_topic_stats *topics, size_t count)
{
    bide_topic_stats copy[3];
    for (size_t i = 0; i < count; i++)
        copy[i] = topics[i];
    assert_true(bi_top_model_add_sample(model, &stats, copy, count, at_us));
}

static void rates_are_unknown_after_the_first_sample(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    bide_topic_stats a = topic("a", 3, 100, 50);
    add_sample(&model, SECOND, queue(100, 0, 5000), &a, 1);
    assert_int_equal(model.count, 1);
    assert_true(model.topics[0]->in < 0);
    assert_true(model.topics[0]->out < 0);
    for (int i = 0; i < TOP_RATES; i++)
        assert_true(model.rates[i] < 0);
    bi_top_model_free(&model);
}

static void rate_is_count_over_elapsed_time(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    bide_topic_stats before = topic("a", 3, 100, 50), after = topic("a", 3, 120, 55);
    after.total.dones = 3;
    add_sample(&model, SECOND, queue(100, 7, 5000), &before, 1);
    add_sample(&model, 3 * SECOND, queue(120, 8, 7000), &after, 1);
    assert_true(model.topics[0]->in == 10);
    assert_true(model.topics[0]->out == 4);
    assert_true(model.rates[TOP_RATE_PUTS] == 10);
    assert_true(model.rates[TOP_RATE_FAILS] == 0.5);
    assert_true(model.rates[TOP_RATE_RESERVES] == 0);
    bi_top_model_free(&model);
}

static void timeouts_are_failures_and_deletes_and_dones_are_finished(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    bide_stats before = {.uptime_ms = 1}, after = {.uptime_ms = 2};
    after.total =
        (bide_counters){.deletes = 2, .dones = 3, .fails = 4, .timeouts = 5, .reserves = 6};
    add_sample(&model, SECOND, before, NULL, 0);
    add_sample(&model, 2 * SECOND, after, NULL, 0);
    assert_true(model.rates[TOP_RATE_FINISHED] == 5);
    assert_true(model.rates[TOP_RATE_FAILS] == 9);
    assert_true(model.rates[TOP_RATE_RESERVES] == 6);
    bi_top_model_free(&model);
}

static void recreated_topic_counts_from_zero(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    bide_topic_stats before = topic("a", 0, 100, 100), after = topic("a", 4, 4, 0);
    add_sample(&model, SECOND, queue(100, 0, 5000), &before, 1);
    add_sample(&model, 2 * SECOND, queue(104, 0, 6000), &after, 1);
    assert_true(model.topics[0]->in == 4);
    assert_true(model.topics[0]->out == 0);
    bi_top_model_free(&model);
}

static void rates_are_unknown_after_a_queue_restart(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    bide_topic_stats before = topic("a", 0, 100, 100), after = topic("a", 0, 200, 200);
    add_sample(&model, SECOND, queue(100, 0, 5000), &before, 1);
    add_sample(&model, 2 * SECOND, queue(200, 0, 100), &after, 1);
    assert_true(model.topics[0]->in < 0);
    assert_true(model.rates[TOP_RATE_PUTS] < 0);
    add_sample(&model, 3 * SECOND, queue(201, 0, 1100), &after, 1);
    assert_true(model.topics[0]->in == 0);
    assert_true(model.rates[TOP_RATE_PUTS] == 1);
    bi_top_model_free(&model);
}

static void remaining_topics_keep_their_history(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    const bide_topic_stats first[] = {topic("c", 1, 0, 0), topic("a", 2, 0, 0),
                                      topic("b", 3, 0, 0)};
    const bide_topic_stats second[] = {topic("d", 5, 9, 0), topic("b", 4, 0, 0)};
    float past[BI_TOP_HISTORY];
    add_sample(&model, SECOND, queue(0, 0, 1), first, 3);
    add_sample(&model, 2 * SECOND, queue(9, 0, 2), second, 2);
    assert_int_equal(model.count, 2);
    assert_null(bi_top_model_find(&model, "a"));
    assert_null(bi_top_model_find(&model, "c"));
    const struct top_topic *b = bi_top_model_find(&model, "b");
    const struct top_topic *d = bi_top_model_find(&model, "d");
    assert_non_null(b);
    assert_non_null(d);
    assert_int_equal(bi_top_model_history(b, b->ready, past, BI_TOP_HISTORY), 2);
    assert_true(past[0] == 3 && past[1] == 4);
    assert_int_equal(bi_top_model_history(d, d->ready, past, BI_TOP_HISTORY), 1);
    assert_true(past[0] == 5);
    assert_true(d->in == 9); /* it was made since */
    bi_top_model_free(&model);
}

static void duplicate_topic_names_are_merged(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    const bide_topic_stats twice[] = {topic("b", 1, 0, 0), topic("a", 1, 0, 0),
                                      topic("b", 1, 0, 0)};
    add_sample(&model, SECOND, queue(0, 0, 1), twice, 3);
    assert_int_equal(model.count, 2);
    bi_top_model_free(&model);
}

static void history_is_returned_oldest_first(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    float past[BI_TOP_HISTORY];
    for (uint64_t i = 1; i <= 3 * BI_TOP_HISTORY + 5; i++) {
        bide_topic_stats a = topic("a", i, 0, 2 * i);
        add_sample(&model, (int64_t)i * SECOND, queue(0, 0, (int64_t)i), &a, 1);
    }
    const struct top_topic *a = model.topics[0];
    assert_int_equal(bi_top_model_history(a, a->ready, past, BI_TOP_HISTORY), BI_TOP_HISTORY);
    for (int i = 0; i < BI_TOP_HISTORY; i++)
        assert_true(past[i] == (float)(2 * BI_TOP_HISTORY + 6 + i));
    assert_int_equal(bi_top_model_history(a, a->finish_rates, past, 3), 3);
    assert_true(past[0] == 2 && past[2] == 2);
    assert_int_equal(bi_top_model_history(a, a->ready, past, 2), 2);
    assert_true(past[1] == (float)(3 * BI_TOP_HISTORY + 5));
    bi_top_model_free(&model);
}

/* Random samples: the model has exactly the topics of the last one, in order. */
static void many_samples_of_changing_topics_are_all_added(void **state)
{
    (void)state;
    struct top_model model = {.count = 0};
    unsigned seed = 1;
    for (int round = 1; round <= 200; round++) {
        bide_topic_stats list[50];
        size_t count = 0;
        for (int i = 49; i >= 0; i--) {
            char name[16];
            snprintf(name, sizeof(name), "t%02d", i);
            if (rand_r(&seed) % 2 == 0)
                list[count++] = topic(name, (uint64_t)i, 0, 0);
        }
        bide_stats stats = queue(0, 0, round);
        assert_true(bi_top_model_add_sample(&model, &stats, list, count, round * SECOND));
        assert_int_equal(model.count, count);
        for (size_t i = 0; i < count; i++) {
            assert_string_equal(model.topics[i]->now.name, list[i].name);
            assert_ptr_equal(bi_top_model_find(&model, list[i].name), model.topics[i]);
        }
    }
    bi_top_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_unknown_after_the_first_sample),
        cmocka_unit_test(rate_is_count_over_elapsed_time),
        cmocka_unit_test(timeouts_are_failures_and_deletes_and_dones_are_finished),
        cmocka_unit_test(recreated_topic_counts_from_zero),
        cmocka_unit_test(rates_are_unknown_after_a_queue_restart),
        cmocka_unit_test(remaining_topics_keep_their_history),
        cmocka_unit_test(duplicate_topic_names_are_merged),
        cmocka_unit_test(history_is_returned_oldest_first),
        cmocka_unit_test(many_samples_of_changing_topics_are_all_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
