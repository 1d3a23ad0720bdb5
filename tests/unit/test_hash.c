/* SPDX-License-Identifier: MIT */
#include "util/hash.h"

#include "unit.h"

static void the_same_number_has_the_same_hash_and_others_have_others(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(bi_hash_u64(i), bi_hash_u64(i));
        for (uint64_t j = 0; j < i; j++)
            assert_int_not_equal(bi_hash_u64(i), bi_hash_u64(j));
    }
}

static void the_hash_of_a_number_is_the_same_on_every_machine(void **state)
{
    (void)state;
    assert_int_equal(bi_hash_u64(0), 0);
    assert_int_equal(bi_hash_u64(1), UINT64_C(0x5692161d100b05e5));
}

static void every_bit_of_a_number_reaches_about_half_of_the_hash(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        unsigned flipped = 0;
        for (uint64_t i = 1; i <= 100; i++) {
            uint64_t x = i * UINT64_C(0x123456789abcdef1);
            flipped += (unsigned)__builtin_popcountll(bi_hash_u64(x) ^
                                                      bi_hash_u64(x ^ UINT64_C(1) << bit));
        }
        assert_in_range(flipped, 2800, 3600);
    }
}

static void the_hash_of_bytes_does_not_depend_on_where_they_lie(void **state)
{
    (void)state;
    const char text[] = "xthe topic of this test";
    char moved[32];
    for (size_t offset = 0; offset < 8; offset++)
        for (size_t size = 0; size <= 22; size++) {
            memset(moved, '#', sizeof(moved));
            memcpy(moved + offset, text + 1, size);
            assert_int_equal(bi_hash_bytes(9, moved + offset, size),
                             bi_hash_bytes(9, text + 1, size));
        }
}

static void the_hash_of_bytes_depends_on_seed_size_and_every_byte(void **state)
{
    (void)state;
    unsigned char bytes[40] = {0};
    for (size_t size = 0; size < sizeof(bytes); size++) {
        uint64_t hash = bi_hash_bytes(1, bytes, size);
        assert_int_not_equal(hash, bi_hash_bytes(2, bytes, size));
        assert_int_not_equal(hash, bi_hash_bytes(1, bytes, size + 1));
        for (size_t i = 0; i < size; i++) {
            bytes[i] = 1;
            assert_int_not_equal(hash, bi_hash_bytes(1, bytes, size));
            bytes[i] = 0;
        }
    }
}

static void nothing_has_a_hash_and_needs_no_bytes(void **state)
{
    (void)state;
    assert_int_equal(bi_hash_bytes(5, NULL, 0), bi_hash_bytes(5, "", 0));
}

static void a_generator_repeats_itself_from_its_seed(void **state)
{
    (void)state;
    struct bi_random one = {42};
    struct bi_random other = {42};
    struct bi_random third = {43};
    unsigned differs = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t next = bi_random_next(&one);
        assert_int_equal(next, bi_random_next(&other));
        differs += next != bi_random_next(&third);
    }
    assert_int_equal(differs, 1000);
}

static void a_random_number_is_below_its_limit(void **state)
{
    (void)state;
    struct bi_random random = {7};
    static const uint64_t limits[] = {1, 2, 3, 10, 1000, UINT64_C(1) << 40, UINT64_MAX};
    for (size_t l = 0; l < COUNT_OF(limits); l++)
        for (int i = 0; i < 1000; i++)
            assert_true(bi_random_below(&random, limits[l]) < limits[l]);
}

static void random_numbers_are_spread_evenly(void **state)
{
    (void)state;
    struct bi_random random = {8};
    unsigned counts[7] = {0};
    for (int i = 0; i < 70000; i++)
        counts[bi_random_below(&random, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 9500, 10500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_number_has_the_same_hash_and_others_have_others),
        cmocka_unit_test(the_hash_of_a_number_is_the_same_on_every_machine),
        cmocka_unit_test(every_bit_of_a_number_reaches_about_half_of_the_hash),
        cmocka_unit_test(the_hash_of_bytes_does_not_depend_on_where_they_lie),
        cmocka_unit_test(the_hash_of_bytes_depends_on_seed_size_and_every_byte),
        cmocka_unit_test(nothing_has_a_hash_and_needs_no_bytes),
        cmocka_unit_test(a_generator_repeats_itself_from_its_seed),
        cmocka_unit_test(a_random_number_is_below_its_limit),
        cmocka_unit_test(random_numbers_are_spread_evenly),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
