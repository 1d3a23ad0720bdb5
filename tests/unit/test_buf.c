/* SPDX-License-Identifier: MIT */
#include <bide/job.h>

#include "unit.h"

#include <pthread.h>
#include <string.h>

static void a_buffer_has_its_own_copy_of_the_bytes(void **state)
{
    (void)state;
    char bytes[] = "hello";
    bide_buf *buf = bide_buf_new(bytes, 5);
    memset(bytes, 'x', 5);
    assert_int_equal(bide_buf_size(buf), 5);
    assert_memory_equal(bide_buf_data(buf), "hello", 5);
    bide_buf_unref(buf);
}

static void data_is_followed_by_an_uncounted_nul(void **state)
{
    (void)state;
    for (size_t size = 0; size < 40; size++) {
        char bytes[40];
        memset(bytes, 'a', sizeof(bytes));
        bide_buf *buf = bide_buf_new(bytes, size);
        assert_int_equal(strlen(bide_buf_data(buf)), size);
        bide_buf_unref(buf);
    }
}

static void any_byte_can_be_in_a_buffer(void **state)
{
    (void)state;
    unsigned char bytes[256];
    for (unsigned i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    bide_buf *buf = bide_buf_new(bytes, sizeof(bytes));
    assert_int_equal(bide_buf_size(buf), 256);
    assert_memory_equal(bide_buf_data(buf), bytes, sizeof(bytes));
    bide_buf_unref(buf);
}

static void a_buffer_may_be_empty(void **state)
{
    (void)state;
    bide_buf *buf = bide_buf_new(NULL, 0);
    assert_non_null(buf);
    assert_int_equal(bide_buf_size(buf), 0);
    assert_string_equal(bide_buf_data(buf), "");
    bide_buf_unref(buf);
}

static void null_data_with_a_size_is_rejected(void **state)
{
    (void)state;
    assert_null(bide_buf_new(NULL, 1));
}

static void oversized_buffer_is_rejected(void **state)
{
    (void)state;
    assert_null(bide_buf_new("x", UINT32_MAX));
    assert_null(bide_buf_new("x", (size_t)UINT32_MAX + 1));
    assert_null(bide_buf_new("x", SIZE_MAX));
}

static void null_buffer_is_accepted(void **state)
{
    (void)state;
    assert_null(bide_buf_ref(NULL));
    assert_null(bide_buf_data(NULL));
    assert_int_equal(bide_buf_size(NULL), 0);
    bide_buf_unref(NULL);
}

static void buffer_is_freed_with_its_last_reference(void **state)
{
    (void)state;
    bide_buf *buf = bide_buf_new("lives", 5);
    for (int i = 0; i < 10; i++)
        assert_ptr_equal(bide_buf_ref(buf), buf);
    for (int i = 0; i < 10; i++)
        bide_buf_unref(buf);
    assert_memory_equal(bide_buf_data(buf), "lives", 5);
    bide_buf_unref(buf);
}

static void data_is_aligned(void **state)
{
    (void)state;
    bide_buf *buf = bide_buf_new("12345678", 8);
    assert_int_equal((uintptr_t)bide_buf_data(buf) % 8, 0);
    bide_buf_unref(buf);
}

static void *ref_and_unref(void *arg)
{
    for (int i = 0; i < 10000; i++)
        bide_buf_unref(bide_buf_ref(arg));
    bide_buf_unref(arg);
    return NULL;
}

/* Who gives back last frees; a sanitizer sees it if that happens twice, or not at all. */
static void reference_count_is_atomic(void **state)
{
    (void)state;
    pthread_t threads[4];
    bide_buf *buf = bide_buf_new("shared", 6);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ref_and_unref, bide_buf_ref(buf)), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_memory_equal(bide_buf_data(buf), "shared", 6);
    bide_buf_unref(buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_has_its_own_copy_of_the_bytes),
        cmocka_unit_test(data_is_followed_by_an_uncounted_nul),
        cmocka_unit_test(any_byte_can_be_in_a_buffer),
        cmocka_unit_test(a_buffer_may_be_empty),
        cmocka_unit_test(null_data_with_a_size_is_rejected),
        cmocka_unit_test(oversized_buffer_is_rejected),
        cmocka_unit_test(null_buffer_is_accepted),
        cmocka_unit_test(buffer_is_freed_with_its_last_reference),
        cmocka_unit_test(data_is_aligned),
        cmocka_unit_test(reference_count_is_atomic),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
