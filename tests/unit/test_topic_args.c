/* SPDX-License-Identifier: MIT */
#include "cli/query.h"

#include "unit.h"

#include <string.h>

static struct topic_args topic_args;
static char error[BI_ERRMSG_SIZE];

static bool reads(bide_strategy strategy, const char *first, const char *second)
{
    const char *const words[] = {first, second};
    topic_args.strategy = strategy;
    return bi_query_parse_topics(&topic_args, words, second == NULL ? 1 : 2, error);
}

static void topic_is(size_t index, const char *name, uint32_t weight)
{
    assert_int_equal(topic_args.topics[index].size, strlen(name));
    assert_memory_equal(topic_args.topics[index].data, name, strlen(name));
    assert_int_equal(topic_args.weights[index], weight);
}

static void arguments_are_topics(void **state)
{
    (void)state;
    assert_true(reads(BIDE_FAIR, "email", "letters"));
    assert_int_equal(topic_args.count, 2);
    assert_int_equal(topic_args.strategy, BIDE_FAIR);
    topic_is(0, "email", 1);
    topic_is(1, "letters", 1);
}

static void weight_follows_a_colon_and_selects_weighted(void **state)
{
    (void)state;
    assert_true(reads(BIDE_BY_PRIORITY, "email:5", "letters"));
    assert_int_equal(topic_args.strategy, BIDE_WEIGHTED);
    topic_is(0, "email", 5);
    topic_is(1, "letters", 1);
    assert_true(reads(BIDE_WEIGHTED, "email:4294967295", NULL));
    topic_is(0, "email", UINT32_MAX);
}

static void unused_weight_is_rejected(void **state)
{
    (void)state;
    assert_false(reads(BIDE_STRICT, "email:5", NULL));
    assert_string_equal(error, "\"email:5\" has a weight, which needs --strategy weighted");
    assert_false(reads(BIDE_FAIR, "email", "letters:1"));
}

static void invalid_weight_is_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"t:", "t:0", "t:-1", "t:x", "t:1:2", "t:4294967296", "t: 1"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (reads(BIDE_WEIGHTED, bad[i], NULL))
            fail_msg("%s was taken", bad[i]);
    assert_string_equal(error, "\"t: 1\": a weight must be at least 1");
}

static void invalid_topic_is_rejected(void **state)
{
    (void)state;
    assert_false(reads(BIDE_BY_PRIORITY, "e mail", NULL));
    assert_string_equal(error, "\"e mail\" is not a valid topic name: 1 to 200 letters, digits and "
                               "-+/;.$_(), no - in front");
    assert_false(reads(BIDE_BY_PRIORITY, "", NULL));
    assert_false(reads(BIDE_WEIGHTED, ":5", NULL));
    assert_false(reads(BIDE_BY_PRIORITY, "email", "-x"));
}

static void strategies_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"priority", "strict", "weighted", "fair"};
    bide_strategy strategy = BIDE_FAIR;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_true(bi_query_parse_strategy(names[i], &strategy, error));
        assert_int_equal(strategy, i);
    }
    assert_false(bi_query_parse_strategy("random", &strategy, error));
    assert_string_equal(error, "is not a strategy: priority, strict, weighted or fair");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_topics),
        cmocka_unit_test(weight_follows_a_colon_and_selects_weighted),
        cmocka_unit_test(unused_weight_is_rejected),
        cmocka_unit_test(invalid_weight_is_rejected),
        cmocka_unit_test(invalid_topic_is_rejected),
        cmocka_unit_test(strategies_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
