/* SPDX-License-Identifier: MIT */
/*
 * Thousands of topics that come and go: pages show those that stay, once, in the order in which
 * they were made.
 */
#include "core_fixture.h"

#include "../sim/rng.h"

#include <stdio.h>
#include <stdlib.h>

#define MANY 3000

static bool there[MANY];

static int set_up(void **state)
{
    (void)state;
    core_fixture_open(&w, false);
    memset(there, 0, sizeof(there));
    return 0;
}

/* Makes a topic, or lets it go. */
static void turn_over(int number)
{
    char name[16];
    snprintf(name, sizeof(name), "t%d", number);
    assert_int_equal(run_topic_op(&w, BIDE_OP_TOPIC_REF, name, there[number] ? -1 : 0), BIDE_OK);
    there[number] = !there[number];
}

static void make_all(void)
{
    for (int i = 0; i < MANY; i++)
        turn_over(i);
}

/* All pages show exactly the topics that are there, in order. */
static void check_pages(size_t page)
{
    static bide_topic_stats topics[1000];
    char cursor[BIDE_CURSOR_SIZE] = "";
    int next = 0;
    do {
        bide_op op = {.kind = BIDE_OP_TOPICS,
                      .topics = {.cursor = cursor, .topics = topics, .topic_max = page}};
        assert_int_equal(run(&w, &op), BIDE_OK);
        for (size_t i = 0; i < op.topics.count; i++, next++) {
            while (next < MANY && !there[next])
                next++;
            assert_true(next < MANY);
            assert_int_equal(atoi(topics[i].name + 1), next);
        }
    } while (cursor[0] != 0);
    while (next < MANY)
        assert_false(there[next++]);
    core_fixture_check(&w);
}

static void topics_removed_in_any_order_keep_the_order(void **state)
{
    (void)state;
    struct rng rng = {1};
    make_all();
    check_pages(1000);
    for (int gone = 0; gone < MANY; gone++) {
        int number = (int)rng_below(&rng, MANY);
        while (!there[number])
            number = (number + 1) % MANY;
        turn_over(number);
        if (gone % 100 == 0)
            check_pages(1 + rng_below(&rng, 999));
    }
    check_pages(7);
}

static void topics_removed_from_one_end_keep_the_order(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        make_all();
        for (int i = 0; i < MANY; i++) {
            turn_over(last ? MANY - 1 - i : i);
            if (i % 100 == 99)
                check_pages(64);
        }
        assert_int_equal(stats_of(&w).topics, 0);
    }
}

static void page_continues_after_removed_topics(void **state)
{
    (void)state;
    static bide_topic_stats topics[10];
    char cursor[BIDE_CURSOR_SIZE] = "";
    make_all();
    for (int first = 0; first < MANY; first += 1000) {
        bide_op op = {.kind = BIDE_OP_TOPICS,
                      .topics = {.cursor = cursor, .topics = topics, .topic_max = 10}};
        assert_int_equal(run(&w, &op), BIDE_OK);
        assert_int_equal(op.topics.count, 10);
        assert_int_equal(atoi(topics[0].name + 1), first);
        for (int i = first; i < first + 1000; i++)
            turn_over(i);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down_core)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(topics_removed_in_any_order_keep_the_order),
        TEST(topics_removed_from_one_end_keep_the_order),
        TEST(page_continues_after_removed_topics),
    };
    return cmocka_run_group_tests_name("topics", tests, NULL, NULL);
}
