/* SPDX-License-Identifier: MIT */
/* By what a job is known in another queue. */
#include "cli/move/move_fingerprint.h"
#include "unit.h"

#include <string.h>

static const struct fingerprint_key key = {
    {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};

/* The bytes 0, 1, 2 ... of these lengths, as the authors of the hash tell them. */
static void the_hash_is_siphash(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint64_t hash[2];
    } vectors[] = {
        {0, {UINT64_C(0xe6a825ba047f81a3), UINT64_C(0x930255c71472f66d)}},
        {1, {UINT64_C(0x44af996bd8c187da), UINT64_C(0x45fc229b11597634)}},
        {2, {UINT64_C(0xc75da4a48d227781), UINT64_C(0xe4ff0af6de8ba3fc)}},
        {3, {UINT64_C(0x4ea967520cb6709c), UINT64_C(0x51ed8529b0b6335f)}},
        {4, {UINT64_C(0xaf8f9c2dc16481f8), UINT64_C(0x7955cd7b7c6e0f7d)}},
        {5, {UINT64_C(0x886f778059876813), UINT64_C(0x27960e69077a5254)}},
        {6, {UINT64_C(0x1386208b33caee14), UINT64_C(0x5ea1d78f30a05e48)}},
        {7, {UINT64_C(0x53c1dbd8beebf1a1), UINT64_C(0x3982f01fa64ab8c0)}},
        {8, {UINT64_C(0x61f55862baa9623b), UINT64_C(0xb49714f364e2830f)}},
    };
    unsigned char bytes[64];
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        uint64_t hash[2];
        bi_move_fingerprint_hash(&key, bytes, vectors[i].size, hash);
        assert_int_equal(hash[0], vectors[i].hash[0]);
        assert_int_equal(hash[1], vectors[i].hash[1]);
    }
}

static bide_job some_job(void)
{
    return (bide_job){.id = 1,
                      .state = BIDE_STATE_READY,
                      .priority = 5,
                      .body = "body",
                      .body_size = 4,
                      .ttr_ms = 1000,
                      .max_retries = BIDE_NO_RETRY_LIMIT,
                      .created_ms = 1000,
                      .topic = "topic"};
}

static bool is_same(bool plain, const bide_job *one, const bide_job *other)
{
    struct fingerprint a = bi_move_fingerprint_of(&key, plain, one);
    struct fingerprint b = bi_move_fingerprint_of(&key, plain, other);
    return a.hash[0] == b.hash[0] && a.hash[1] == b.hash[1];
}

#define CHANGED(member, value)                       \
    do {                                             \
        bide_job other_ = some_job();                \
        other_.member = (value);                     \
        assert_false(is_same(false, &job, &other_)); \
    } while (0)

static void fingerprint_covers_every_stable_field(void **state)
{
    (void)state;
    bide_job job = some_job();
    CHANGED(state, BIDE_STATE_BURIED);
    CHANGED(state, BIDE_STATE_DONE);
    CHANGED(priority, 6);
    CHANGED(body, "bodY");
    CHANGED(body_size, 3);
    CHANGED(ttr_ms, 1001);
    CHANGED(key_hold_retained, true);
    CHANGED(max_retries, 0);
    CHANGED(failures, 1);
    CHANGED(backoff_base_ms, 1);
    CHANGED(backoff_max_ms, 1);
    CHANGED(expires_at_ms, 1);
    CHANGED(retain_ms, 1);
    CHANGED(reserves, 1);
    CHANGED(timeouts, 1);
    CHANGED(releases, 1);
    CHANGED(fails, 1);
    CHANGED(buries, 1);
    CHANGED(kicks, 1);
    CHANGED(touches, 1);
    bide_job other = some_job();
    other.topic[4] = 'x';
    assert_false(is_same(false, &job, &other));
}

static void absent_and_empty_texts_differ(void **state)
{
    (void)state;
    bide_job none = some_job(), key_only = some_job(), result = some_job(), empty = some_job();
    key_only.key = "x";
    key_only.key_size = 1;
    result.result = "x";
    result.result_size = 1;
    empty.result = "";
    assert_false(is_same(false, &none, &key_only));
    assert_false(is_same(false, &none, &result));
    assert_false(is_same(false, &key_only, &result));
    assert_false(is_same(false, &none, &empty));
}

/* "ab" and "c" are not "a" and "bc". */
static void field_boundaries_are_hashed(void **state)
{
    (void)state;
    bide_job one = some_job(), other = some_job();
    strcpy(one.topic, "ab");
    one.body = "c";
    one.body_size = 1;
    strcpy(other.topic, "a");
    other.body = "bc";
    other.body_size = 2;
    assert_false(is_same(false, &one, &other));
    assert_false(is_same(true, &one, &other));
}

static void fingerprint_ignores_fields_that_time_changes(void **state)
{
    (void)state;
    bide_job job = some_job(), other = some_job();
    other.id = 2;
    other.state = BIDE_STATE_DELAYED;
    other.run_at_ms = other.left_ms = other.age_ms = other.delay_ms = 77;
    other.created_ms = other.ready_ms = 78;
    other.run_at_wall = true;
    assert_true(is_same(false, &job, &other));
    other.state = BIDE_STATE_RESERVED;
    other.token = 3;
    assert_true(is_same(false, &job, &other));
    struct fingerprint print = bi_move_fingerprint_of(&key, false, &other);
    assert_int_equal(print.created_ms, 78);
    assert_int_equal(print.due_ms, 0);
}

static void empty_bodies_are_equal(void **state)
{
    (void)state;
    bide_job job = some_job(), other = some_job();
    job.body = NULL;
    job.body_size = other.body_size = 0;
    assert_true(is_same(false, &job, &other));
}

static void plain_fingerprint_covers_beanstalkd_fields_only(void **state)
{
    (void)state;
    bide_job job = some_job(), other = some_job();
    other.reserves = 3;
    other.key = "k";
    other.key_size = 1;
    other.ttr_ms = 999; /* is a second there */
    assert_true(is_same(true, &job, &other));
    other.priority = 6;
    assert_false(is_same(true, &job, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_siphash),
        cmocka_unit_test(fingerprint_covers_every_stable_field),
        cmocka_unit_test(absent_and_empty_texts_differ),
        cmocka_unit_test(field_boundaries_are_hashed),
        cmocka_unit_test(fingerprint_ignores_fields_that_time_changes),
        cmocka_unit_test(empty_bodies_are_equal),
        cmocka_unit_test(plain_fingerprint_covers_beanstalkd_fields_only),
    };
    return cmocka_run_group_tests_name("move_fingerprint", tests, NULL, NULL);
}
