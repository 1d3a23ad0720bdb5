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

static void every_input_bit_changes_about_half_of_the_hash(void **state)
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

static void empty_input_has_a_hash(void **state)
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

/* ---- keyed hashes ---- */

#define BITS 53

/* ---- bytes ---- */

static void the_hash_of_bytes_is_siphash_1_3(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint64_t hash;
    } vectors[] = {
        {1, UINT64_C(0x68a914128e01e473)},  {3, UINT64_C(0x4d4c9a4a8ef6e0ad)},
        {7, UINT64_C(0x2f098ab0c751325a)},  {8, UINT64_C(0xead411e67ebe2eea)},
        {9, UINT64_C(0x75927f9d95124362)},  {15, UINT64_C(0xf30eb725bb91c9ea)},
        {16, UINT64_C(0x8972188433a5c5b7)}, {20, UINT64_C(0x639e355ae68c0100)},
        {63, UINT64_C(0x385d3e39e5f37359)},
    };
    const struct bi_hash_secret none = {{0, 0}};
    unsigned char bytes[63];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < COUNT_OF(vectors); i++)
        assert_int_equal(bi_keyed_hash_bytes(&none, bytes, vectors[i].size), vectors[i].hash);
}

static void every_byte_and_every_bit_of_the_secret_counts(void **state)
{
    (void)state;
    struct bi_hash_secret secret = {{1, 2}};
    unsigned char bytes[24] = {0};
    for (size_t size = 1; size <= sizeof(bytes); size++) {
        uint64_t hash = bi_keyed_hash_bytes(&secret, bytes, size);
        assert_int_not_equal(hash, bi_keyed_hash_bytes(&secret, bytes, size - 1));
        for (size_t i = 0; i < size; i++) {
            bytes[i] = 1;
            assert_int_not_equal(hash, bi_keyed_hash_bytes(&secret, bytes, size));
            bytes[i] = 0;
        }
        for (unsigned bit = 0; bit < 128; bit++) {
            secret.key[bit / 64] ^= UINT64_C(1) << (bit % 64);
            assert_int_not_equal(hash, bi_keyed_hash_bytes(&secret, bytes, size));
            secret.key[bit / 64] ^= UINT64_C(1) << (bit % 64);
        }
    }
}

static void secrets_that_are_drawn_or_derived_differ(void **state)
{
    (void)state;
    struct bi_hash_secret one, other;
    bi_keyed_hash_generate_secret(&one);
    bi_keyed_hash_generate_secret(&other);
    assert_memory_not_equal(&one, &other, sizeof(one));
    other = bi_keyed_hash_derive_secret(&one, 1);
    assert_memory_not_equal(&one, &other, sizeof(one));
    one = bi_keyed_hash_derive_secret(&one, 2);
    assert_memory_not_equal(&one, &other, sizeof(one));
}

/* ---- integers ---- */

static void ids_are_spread_by_the_secret(void **state)
{
    (void)state;
    const struct bi_hash_secret one = {{1, 2}};
    const struct bi_hash_secret other = {{3, 2}};
    unsigned same = 0;
    for (uint64_t id = 1; id <= 10000; id++)
        same += (bi_keyed_hash_u64(&one, id) & 255) == (bi_keyed_hash_u64(&other, id) & 255);
    assert_in_range(same, 10, 100);
}

/* ---- permutations ---- */

static void a_permutation_of_few_bits_has_every_number_once(void **state)
{
    (void)state;
    const struct bi_hash_secret secret = {{5, 6}};
    for (unsigned bits = 2; bits <= 15; bits++) {
        static bool seen[1 << 15];
        struct bi_permutation permutation;
        memset(seen, 0, sizeof(seen));
        bi_permutation_init(&permutation, &secret);
        for (uint64_t i = 0; i >> bits == 0; i++) {
            uint64_t out = bi_permutation_apply(&permutation, bits, i);
            assert_true(out >> bits == 0);
            assert_false(seen[out]);
            seen[out] = true;
            assert_int_equal(bi_permutation_invert(&permutation, bits, out), i);
        }
    }
}

static void a_permutation_can_be_undone_at_every_size(void **state)
{
    (void)state;
    const struct bi_hash_secret secret = {{7, 8}};
    struct bi_random random = {9};
    for (unsigned bits = 2; bits <= 64; bits++) {
        struct bi_permutation permutation;
        bi_permutation_init(&permutation, &secret);
        for (int i = 0; i < 1000; i++) {
            uint64_t x = bi_random_next(&random) >> (64 - bits);
            uint64_t out = bi_permutation_apply(&permutation, bits, x);
            assert_true(bits == 64 || out >> bits == 0);
            assert_int_equal(bi_permutation_invert(&permutation, bits, out), x);
        }
    }
}

/* One number more changes half of the bits, and the distance of neighbours tells nothing. */
static void adjacent_inputs_are_spread(void **state)
{
    (void)state;
    const struct bi_hash_secret secret = {{10, 11}};
    struct bi_permutation permutation;
    unsigned changed[BITS] = {0};
    bi_permutation_init(&permutation, &secret);
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t one = bi_permutation_apply(&permutation, BITS, UINT64_C(1760000000000000) + i);
        uint64_t next =
            bi_permutation_apply(&permutation, BITS, UINT64_C(1760000000000000) + i + 1);
        for (unsigned bit = 0; bit < BITS; bit++)
            changed[bit] += ((one ^ next) >> bit & 1) != 0;
    }
    for (unsigned bit = 0; bit < BITS; bit++)
        assert_in_range(changed[bit], 4600, 5400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_number_has_the_same_hash_and_others_have_others),
        cmocka_unit_test(the_hash_of_a_number_is_the_same_on_every_machine),
        cmocka_unit_test(every_input_bit_changes_about_half_of_the_hash),
        cmocka_unit_test(the_hash_of_bytes_does_not_depend_on_where_they_lie),
        cmocka_unit_test(the_hash_of_bytes_depends_on_seed_size_and_every_byte),
        cmocka_unit_test(empty_input_has_a_hash),
        cmocka_unit_test(a_generator_repeats_itself_from_its_seed),
        cmocka_unit_test(a_random_number_is_below_its_limit),
        cmocka_unit_test(random_numbers_are_spread_evenly),
        cmocka_unit_test(the_hash_of_bytes_is_siphash_1_3),
        cmocka_unit_test(every_byte_and_every_bit_of_the_secret_counts),
        cmocka_unit_test(secrets_that_are_drawn_or_derived_differ),
        cmocka_unit_test(ids_are_spread_by_the_secret),
        cmocka_unit_test(a_permutation_of_few_bits_has_every_number_once),
        cmocka_unit_test(a_permutation_can_be_undone_at_every_size),
        cmocka_unit_test(adjacent_inputs_are_spread),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
