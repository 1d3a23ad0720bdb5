/* SPDX-License-Identifier: MIT */
/*
 * What types can do in every build: bytes, and a clear answer where JSON is missing.
 */
#include <bide/task.h>

#include "unit.h"

#include <string.h>

struct word {
    const char *text;
};
BIDE_TYPE(word, struct word, BIDE_FIELD(text));
BIDE_TASK(say, word);
BIDE_TASK(raw, bytes);
BIDE_TASK(raw_with_a_key, bytes, .key = "data");

static void bytes_are_written_as_they_are(void **state)
{
    (void)state;
    bide_slice value = {"a\0b\xff", 4};
    bide_buf *body;
    assert_int_equal(bide_type_encode(bide_type_of_bytes(), &value, &body), BIDE_OK);
    assert_int_equal(bide_buf_size(body), 4);
    assert_memory_equal(bide_buf_data(body), "a\0b\xff", 4);
    bide_buf_unref(body);
}

static void bytes_are_read_into_a_copy_that_ends_with_a_nul(void **state)
{
    (void)state;
    char data[] = "hello";
    bide_slice *value = NULL;
    assert_int_equal(bide_decode(bytes, data, 5, &value), BIDE_OK);
    memset(data, 'x', sizeof(data));
    assert_int_equal(value->size, 5);
    assert_string_equal(value->data, "hello");
    bide_decoded_free(value);
}

static void empty_bytes_round_trip(void **state)
{
    (void)state;
    bide_slice empty = {NULL, 0};
    bide_slice *value = NULL;
    bide_buf *body;
    assert_int_equal(bide_type_encode(bide_type_of_bytes(), &empty, &body), BIDE_OK);
    assert_int_equal(bide_buf_size(body), 0);
    bide_buf_unref(body);
    assert_int_equal(bide_decode(bytes, NULL, 0, &value), BIDE_OK);
    assert_int_equal(value->size, 0);
    assert_non_null(value->data);
    bide_decoded_free(value);
}

static void null_data_with_a_size_is_rejected(void **state)
{
    (void)state;
    bide_slice missing = {NULL, 3};
    bide_buf *body = NULL;
    bide_slice *value = NULL;
    assert_int_equal(bide_type_encode(bide_type_of_bytes(), &missing, &body), BIDE_EINVAL);
    assert_string_equal(bide_last_error(), "bytes: they are NULL and 3");
    assert_null(body);
    assert_int_equal(bide_decode(bytes, NULL, 3, &value), BIDE_EINVAL);
    assert_string_equal(bide_last_error(), "decode: the data is NULL and has 3 bytes");
    assert_null(value);
}

static void null_arguments_are_rejected(void **state)
{
    (void)state;
    struct word word = {"x"};
    bide_buf *body = NULL;
    void *value = NULL;
    assert_int_equal(bide_type_encode(NULL, &word, &body), BIDE_EINVAL);
    assert_int_equal(bide_type_encode(bide_type_of_word(), NULL, &body), BIDE_EINVAL);
    assert_int_equal(bide_type_encode(bide_type_of_word(), &word, NULL), BIDE_EINVAL);
    assert_string_equal(bide_last_error(), "encode: type, value or json is NULL");
    assert_int_equal(bide_type_decode(NULL, "{}", 2, &value), BIDE_EINVAL);
    assert_int_equal(bide_type_decode(bide_type_of_word(), "{}", 2, NULL), BIDE_EINVAL);
    assert_string_equal(bide_last_error(), "decode: type or value is NULL");
    assert_null(body);
    assert_null(value);
    bide_decoded_free(NULL);
}

static void bytes_are_published_as_they_are(void **state)
{
    (void)state;
    bide *queue;
    bide_job job;
    uint64_t id = 0;
    assert_int_equal(bide_open("memory:", NULL, &queue), BIDE_OK);
    assert_int_equal(bide_publish(queue, raw, (bide_slice){"a\0b", 3}, NULL, &id), BIDE_OK);
    assert_int_equal(bide_peek(queue, id, &job), BIDE_OK);
    assert_string_equal(job.topic, "raw");
    assert_int_equal(job.body_size, 3);
    assert_memory_equal(job.body, "a\0b", 3);
    assert_int_equal(job.max_retries, BIDE_TASK_RETRIES);
    assert_null(job.key);
    bide_job_clear(&job);
    bide_close(queue);
}

static void bytes_have_no_fields_for_a_key(void **state)
{
    (void)state;
    bide *queue;
    assert_int_equal(bide_open("memory:", NULL, &queue), BIDE_OK);
    assert_int_equal(bide_publish(queue, raw_with_a_key, (bide_slice){"x", 1}, NULL, NULL),
                     BIDE_EINVAL);
    assert_string_equal(bide_last_error(), "publish: bytes have no fields to make a key of");
    bide_close(queue);
}

static void build_without_json_reports_it(void **state)
{
    (void)state;
    struct word word = {"x"}, *read = NULL;
    bide_buf *json = NULL;
#ifdef BIDE_WITH_JSON
    assert_int_equal(bide_encode(word, word, &json), BIDE_OK);
    assert_string_equal(bide_buf_data(json), "{\"text\":\"x\"}");
    assert_int_equal(bide_decode(word, bide_buf_data(json), bide_buf_size(json), &read), BIDE_OK);
    assert_string_equal(read->text, "x");
#else
    assert_int_equal(bide_encode(word, word, &json), BIDE_ENOTSUP);
    assert_non_null(strstr(bide_last_error(), "libjansson-dev"));
    assert_null(json);
    assert_int_equal(bide_decode(word, "{\"text\":\"x\"}", 12, &read), BIDE_ENOTSUP);
    assert_non_null(strstr(bide_last_error(), "libjansson-dev"));
    assert_null(read);
#endif
    bide_decoded_free(read);
    bide_buf_unref(json);
}

static void publish_without_json_reports_it(void **state)
{
    (void)state;
    bide *queue;
    bide_stats stats;
    assert_int_equal(bide_open("memory:", NULL, &queue), BIDE_OK);
    int code = bide_publish(queue, say, (struct word){"x"}, NULL, NULL);
#ifdef BIDE_WITH_JSON
    assert_int_equal(code, BIDE_OK);
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, 1);
#else
    assert_int_equal(code, BIDE_ENOTSUP);
    assert_non_null(strstr(bide_last_error(), "libjansson-dev"));
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, 0);
#endif
    bide_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_written_as_they_are),
        cmocka_unit_test(bytes_are_read_into_a_copy_that_ends_with_a_nul),
        cmocka_unit_test(empty_bytes_round_trip),
        cmocka_unit_test(null_data_with_a_size_is_rejected),
        cmocka_unit_test(null_arguments_are_rejected),
        cmocka_unit_test(bytes_are_published_as_they_are),
        cmocka_unit_test(bytes_have_no_fields_for_a_key),
        cmocka_unit_test(build_without_json_reports_it),
        cmocka_unit_test(publish_without_json_reports_it),
    };
    return cmocka_run_group_tests_name("type_bytes", tests, NULL, NULL);
}
