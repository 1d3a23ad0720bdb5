/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "server/beanstalk/tubes.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    static struct tubes tubes;
    bi_tubes_init(&tubes, &(struct bi_hash_secret){{42, 43}});
    *state = &tubes;
    return 0;
}

static int tear_down(void **state)
{
    bi_tubes_done(*state);
    return 0;
}

static bide_slice name_of(uint64_t number)
{
    static char name[32];
    int size = snprintf(name, sizeof(name), "tube-%llu", (unsigned long long)number);
    return (bide_slice){name, (size_t)size};
}

static void tube_exists_while_it_is_referenced(void **state)
{
    struct tubes *tubes = *state;
    bide_slice name = name_of(1);
    assert_null(bi_tubes_find(tubes, name));
    struct tube *tube = bi_tubes_acquire(tubes, name);
    assert_non_null(tube);
    assert_int_equal(tube->ref_count, 1);
    assert_false(tube->referenced);
    assert_string_equal(tube->name, "tube-1");
    assert_int_equal(bi_tube_name(tube).size, 6);
    assert_ptr_equal(bi_tubes_acquire(tubes, name), tube);
    assert_ptr_equal(bi_tubes_find(tubes, name), tube);
    assert_int_equal(tubes->count, 1);
    assert_false(bi_tubes_release(tubes, tube));
    assert_ptr_equal(bi_tubes_find(tubes, name), tube);
    assert_true(bi_tubes_release(tubes, tube));
    assert_null(bi_tubes_find(tubes, name));
    assert_int_equal(tubes->count, 0);
    free(tube);
}

static void the_name_of_a_tube_is_its_own(void **state)
{
    struct tubes *tubes = *state;
    char name[] = "abc";
    struct tube *tube = bi_tubes_acquire(tubes, (bide_slice){name, 3});
    name[0] = 'x';
    assert_string_equal(tube->name, "abc");
    assert_null(bi_tubes_find(tubes, (bide_slice){"xbc", 3}));
    assert_ptr_equal(bi_tubes_find(tubes, (bide_slice){"abcd", 3}), tube);
    assert_null(bi_tubes_find(tubes, (bide_slice){"abcd", 4}));
    assert_null(bi_tubes_find(tubes, (bide_slice){"ab", 2}));
}

static void names_of_every_length_are_told_apart(void **state)
{
    struct tubes *tubes = *state;
    struct tube *made[BIDE_TOPIC_MAX + 1];
    char name[BIDE_TOPIC_MAX];
    memset(name, 'n', sizeof(name));
    for (size_t size = 1; size <= BIDE_TOPIC_MAX; size++) {
        made[size] = bi_tubes_acquire(tubes, (bide_slice){name, size});
        assert_int_equal(strlen(made[size]->name), size);
    }
    assert_int_equal(tubes->count, BIDE_TOPIC_MAX);
    for (size_t size = 1; size <= BIDE_TOPIC_MAX; size++)
        assert_ptr_equal(bi_tubes_find(tubes, (bide_slice){name, size}), made[size]);
}

/* Random holds and releases of many tubes; the model is the number of holders of each. */
static void tubes_match_a_naive_model(void **state)
{
    enum { TUBES = 20000 };
    struct tubes *tubes = *state;
    static uint32_t ref_count[TUBES];
    struct bi_random random = {7};
    size_t count = 0;
    memset(ref_count, 0, sizeof(ref_count));
    for (uint64_t turn = 0; turn < 400000; turn++) {
        uint64_t number = bi_random_below(&random, TUBES);
        bide_slice name = name_of(number);
        struct tube *tube = bi_tubes_find(tubes, name);
        assert_int_equal(tube == NULL ? 0 : tube->ref_count, ref_count[number]);
        if (bi_random_below(&random, 100) < (turn < 200000 ? 70u : 30u)) {
            struct tube *again = bi_tubes_acquire(tubes, name);
            assert_true(tube == NULL || again == tube);
            count += ref_count[number]++ == 0;
        } else if (tube != NULL) {
            bool last = --ref_count[number] == 0;
            assert_int_equal(bi_tubes_release(tubes, tube), last);
            count -= last;
            if (last)
                free(tube);
        }
        assert_int_equal(tubes->count, count);
    }
    assert_true(count > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tube_exists_while_it_is_referenced),
        TEST(the_name_of_a_tube_is_its_own),
        TEST(names_of_every_length_are_told_apart),
        TEST(tubes_match_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
