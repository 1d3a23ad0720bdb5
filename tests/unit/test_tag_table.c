/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "server/beanstalk/beanstalk.h"
#include "util/hash.h"

#include <stdlib.h>
#include <string.h>

static struct tag_table table;

static int set_up(void **state)
{
    (void)state;
    table = (struct tag_table){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bi_tag_table_done(&table);
    return 0;
}

static void empty_table_finds_nothing(void **state)
{
    (void)state;
    struct tag_link link = {0};
    assert_null(bi_tag_table_find(&table, 0));
    bi_tag_table_remove(&table, &link);
    assert_true(bi_tag_table_add(&table, &link, 7));
    assert_ptr_equal(bi_tag_table_find(&table, 7), &link);
    assert_null(bi_tag_table_find(&table, 8));
    bi_tag_table_remove(&table, &link);
    bi_tag_table_remove(&table, &link);
    assert_null(bi_tag_table_find(&table, 7));
}

static void the_latest_of_a_tag_is_found(void **state)
{
    (void)state;
    enum { ALIKE = 5 };
    struct tag_link links[ALIKE] = {{0}};
    for (int i = 0; i < ALIKE; i++) {
        assert_true(bi_tag_table_add(&table, &links[i], 7));
        assert_ptr_equal(bi_tag_table_find(&table, 7), &links[i]);
    }
    /* The one in the middle, the first and the last go. */
    bi_tag_table_remove(&table, &links[2]);
    bi_tag_table_remove(&table, &links[0]);
    assert_ptr_equal(bi_tag_table_find(&table, 7), &links[4]);
    bi_tag_table_remove(&table, &links[4]);
    assert_ptr_equal(bi_tag_table_find(&table, 7), &links[3]);
    bi_tag_table_remove(&table, &links[3]);
    assert_ptr_equal(bi_tag_table_find(&table, 7), &links[1]);
    bi_tag_table_remove(&table, &links[1]);
    assert_null(bi_tag_table_find(&table, 7));
}

/* A search that visited an older link would return it: the test gives these links the tag that is
 * searched. Of so many tags, some share the bucket. */
static void a_search_does_not_visit_older_links_of_another_tag(void **state)
{
    (void)state;
    enum { ALIKE = 5, OTHERS = 1000 };
    struct tag_link links[ALIKE] = {{0}};
    for (int i = 0; i < ALIKE; i++)
        assert_true(bi_tag_table_add(&table, &links[i], 7));

    for (uint64_t other = 8; other < 8 + OTHERS; other++) {
        for (int i = 0; i < ALIKE - 1; i++)
            links[i].tag = other;
        assert_null(bi_tag_table_find(&table, other));
    }

    for (int i = 0; i < ALIKE; i++) {
        links[i].tag = 7;
        bi_tag_table_remove(&table, &links[i]);
    }
}

/* So many links that the table grows and shrinks, of few tags. */
static void tag_table_matches_a_naive_model(void **state)
{
    (void)state;
    enum { LINKS = 1000, TAGS = 300, STEPS = 40000 };
    static struct tag_link links[LINKS];
    static int since[LINKS]; /* when it was added; 0: it is not there */
    struct bi_random random = {1};
    memset(links, 0, sizeof links);
    memset(since, 0, sizeof since);
    for (int step = 1; step <= STEPS; step++) {
        size_t at = bi_random_below(&random, step / 10000 % 2 == 0 ? LINKS : 10);
        uint64_t tag = bi_random_below(&random, TAGS);
        if (since[at] != 0) {
            bi_tag_table_remove(&table, &links[at]);
            since[at] = 0;
        } else {
            assert_true(bi_tag_table_add(&table, &links[at], tag));
            since[at] = step;
        }
        uint64_t wanted = bi_random_below(&random, TAGS);
        struct tag_link *latest = NULL;
        for (size_t i = 0; i < LINKS; i++)
            if (since[i] != 0 && links[i].tag == wanted &&
                (latest == NULL || since[i] > since[latest - links]))
                latest = &links[i];
        assert_ptr_equal(bi_tag_table_find(&table, wanted), latest);
    }
    for (size_t i = 0; i < LINKS; i++)
        bi_tag_table_remove(&table, &links[i]);
    assert_int_equal(table.count, 0);
}

/* Two tables do not share a secret: what collides in one does not in the other. */
static void every_table_has_a_secret_of_its_own(void **state)
{
    (void)state;
    struct tag_table other = {0};
    struct tag_link one = {0}, two = {0};
    assert_true(bi_tag_table_add(&table, &one, 1));
    assert_true(bi_tag_table_add(&other, &two, 1));
    assert_memory_not_equal(&table.secret, &other.secret, sizeof table.secret);
    bi_tag_table_remove(&table, &one);
    bi_tag_table_remove(&other, &two);
    bi_tag_table_done(&other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(empty_table_finds_nothing),
        TEST(the_latest_of_a_tag_is_found),
        TEST(a_search_does_not_visit_older_links_of_another_tag),
        TEST(tag_table_matches_a_naive_model),
        TEST(every_table_has_a_secret_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
