/* SPDX-License-Identifier: MIT */
/*
 * Publishing: the body, the key and the options that a job gets.
 */
#include <bide/task.h>

#include "unit.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

struct bill {
    const char *customer;
    int32_t month;
    const char *note;
    bool paid;
    double sum;
    uint64_t big;
    char place[4];
    int32_t floor;
    bool has_floor;
    bide_slice bytes;
    int32_t *items;
    size_t item_count;
};
BIDE_TYPE(bill, struct bill, BIDE_FIELD(customer), BIDE_FIELD(month), BIDE_OPTIONAL(note),
          BIDE_FIELD(paid), BIDE_FIELD(sum), BIDE_FIELD(big), BIDE_FIELD_AS("where", place),
          BIDE_OPTIONAL_IF(floor, has_floor), BIDE_OPTIONAL(bytes), BIDE_ARRAY(items, item_count));

BIDE_TASK(plain, bill);
BIDE_TASK(full, bill, .topic = "full-topic", .priority = 7, .max_retries = 3, .ttr_ms = 9000,
          .delay_ms = 60000, .backoff_base_ms = 100, .backoff_max_ms = 1000, .retain_ms = 5000,
          .key = "customer", .key_hold_retained = true, .conflict = BIDE_REPLACE);
BIDE_TASK(expiring, bill, .expires_in_ms = 60000);
BIDE_TASK(by_customer, bill, .key = "customer");

static const struct bill bill = {.customer = "ada", .month = 7, .sum = 0.5, .place = "EU"};
#define BILL_JSON                                                                              \
    "{\"customer\":\"ada\",\"month\":7,\"paid\":false,\"sum\":0.5,\"big\":0,\"where\":\"EU\"," \
    "\"items\":[]}"

/* ---- helpers ---- */

static int open_queue(void **state)
{
    bide *queue;
    if (bide_open("memory:", NULL, &queue) != BIDE_OK)
        return -1;
    *state = queue;
    return 0;
}

static int close_queue(void **state)
{
    return bide_close(*state);
}

/* A task of bills with this key. */
static bide_task keyed(const char *key)
{
    bide_task task = bide_task_of_plain;
    task.key = key;
    return task;
}

/* Publishes a bill by a key of fields, and sees what the key has become; NULL: none. */
static void assert_key(bide *queue, const char *fields, const struct bill *value, const char *key)
{
    bide_task task = keyed(fields);
    bide_job job;
    uint64_t id = 0;
    if (bide_task_publish(queue, &task, value, NULL, &id) != BIDE_OK)
        fail_msg("%s: %s", fields, bide_last_error());
    assert_int_equal(bide_peek(queue, id, &job), BIDE_OK);
    if (key == NULL) {
        assert_null(job.key);
    } else {
        assert_int_equal(job.key_size, strlen(key));
        assert_memory_equal(job.key, key, strlen(key));
    }
    bide_job_clear(&job);
    assert_int_equal(bide_delete(queue, id, 0), BIDE_OK);
}

static void assert_no_key(bide *queue, const char *fields, const struct bill *value,
                          const char *sentence)
{
    bide_task task = keyed(fields);
    bide_stats stats;
    uint64_t id = 77;
    assert_int_equal(bide_task_publish(queue, &task, value, NULL, &id), BIDE_EINVAL);
    assert_string_equal(bide_last_error(), sentence);
    assert_int_equal(id, 77);
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.total.puts, 0);
}

/* ---- the body ---- */

static void a_struct_becomes_the_body_of_a_job(void **state)
{
    bide_job job;
    uint64_t id;
    assert_int_equal(bide_publish(*state, plain, bill, NULL, &id), BIDE_OK);
    assert_string_equal(bide_last_error(), "");
    assert_int_equal(bide_peek(*state, id, &job), BIDE_OK);
    assert_string_equal(job.topic, "plain");
    assert_int_equal(job.body_size, strlen(BILL_JSON));
    assert_memory_equal(job.body, BILL_JSON, job.body_size);
    bide_job_clear(&job);
}

static void a_body_that_is_published_can_be_read_again(void **state)
{
    bide_job job;
    struct bill *back;
    assert_int_equal(bide_publish(*state, plain, bill, NULL, NULL), BIDE_OK);
    assert_int_equal(bide_reserve(*state, "plain", 0, &job), BIDE_OK);
    assert_int_equal(bide_decode(bill, job.body, job.body_size, &back), BIDE_OK);
    bide_job_clear(&job);
    assert_string_equal(back->customer, "ada");
    assert_int_equal(back->month, 7);
    bide_decoded_free(back);
}

static void data_that_cannot_be_written_is_not_published(void **state)
{
    bide_stats stats;
    uint64_t id = 77;
    assert_int_equal(bide_publish(*state, plain, (struct bill){.customer = "\xff"}, NULL, &id),
                     BIDE_EINVAL);
    assert_string_equal(bide_last_error(), "bill.customer: the text is not UTF-8");
    assert_int_equal(id, 77);
    assert_int_equal(bide_queue_stats(*state, &stats), BIDE_OK);
    assert_int_equal(stats.total.puts, 0);
}

static void a_body_that_is_too_big_is_told_as_put_does(void **state)
{
    const size_t size = 70000;
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    text[size] = 0;
    assert_int_equal(bide_publish(*state, plain, (struct bill){.customer = text}, NULL, NULL),
                     BIDE_TOO_BIG);
    free(text);
}

static void arguments_that_are_null_are_refused(void **state)
{
    bide_task untyped = {.name = "untyped"}, nameless = {.type = bide_type_of_bill};
    assert_int_equal(bide_task_publish(NULL, &bide_task_of_plain, &bill, NULL, NULL), BIDE_EINVAL);
    assert_int_equal(bide_task_publish(*state, NULL, &bill, NULL, NULL), BIDE_EINVAL);
    assert_int_equal(bide_task_publish(*state, &bide_task_of_plain, NULL, NULL, NULL), BIDE_EINVAL);
    assert_string_equal(bide_last_error(), "publish: queue, task or data is NULL");
    assert_int_equal(bide_task_publish(*state, &untyped, &bill, NULL, NULL), BIDE_EINVAL);
    assert_int_equal(bide_task_publish(*state, &nameless, &bill, NULL, NULL), BIDE_EINVAL);
    assert_string_equal(bide_last_error(),
                        "publish: the task has no type, or neither topic nor name");
}

static void a_task_without_a_topic_has_its_name(void **state)
{
    bide_task task = {.name = "named", .type = bide_type_of_bill};
    bide_topic_stats stats;
    assert_int_equal(bide_task_publish(*state, &task, &bill, NULL, NULL), BIDE_OK);
    assert_int_equal(bide_topic_get_stats(*state, "named", &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, 1);
}

static void a_topic_that_is_none_is_refused_as_put_does(void **state)
{
    bide_task task = {.topic = "no topic", .type = bide_type_of_bill};
    assert_int_equal(bide_task_publish(*state, &task, &bill, NULL, NULL), BIDE_EINVAL);
    assert_non_null(strstr(bide_last_error(), "no topic"));
}

/* ---- the options ---- */

static void a_task_that_says_nothing_has_defaults(void **state)
{
    bide_job job;
    uint64_t id;
    assert_int_equal(bide_publish(*state, plain, bill, NULL, &id), BIDE_OK);
    assert_int_equal(bide_peek(*state, id, &job), BIDE_OK);
    assert_int_equal(job.state, BIDE_STATE_READY);
    assert_int_equal(job.priority, BIDE_DEFAULT_PRIORITY);
    assert_int_equal(job.max_retries, BIDE_TASK_RETRIES);
    assert_int_equal(job.expires_at_ms, 0);
    assert_null(job.key);
    bide_job_clear(&job);
}

static void a_job_has_what_its_task_says(void **state)
{
    bide_job job;
    uint64_t id;
    assert_int_equal(bide_publish(*state, full, bill, NULL, &id), BIDE_OK);
    assert_int_equal(bide_peek(*state, id, &job), BIDE_OK);
    assert_string_equal(job.topic, "full-topic");
    assert_int_equal(job.state, BIDE_STATE_DELAYED);
    assert_int_equal(job.priority, 7);
    assert_int_equal(job.max_retries, 3);
    assert_int_equal(job.ttr_ms, 9000);
    assert_int_equal(job.backoff_base_ms, 100);
    assert_int_equal(job.backoff_max_ms, 1000);
    assert_int_equal(job.retain_ms, 5000);
    assert_true(job.key_hold_retained);
    assert_int_equal(job.key_size, 3);
    assert_memory_equal(job.key, "ada", 3);
    bide_job_clear(&job);
}

static void options_stand_in_place_of_what_the_task_says(void **state)
{
    bide_put_options options = bide_defaults(full);
    bide_job job;
    uint64_t id;
    assert_int_equal(options.priority, 7);
    options.delay_ms = 0;
    options.priority = 1;
    assert_int_equal(bide_publish(*state, full, bill, &options, &id), BIDE_OK);
    assert_int_equal(bide_peek(*state, id, &job), BIDE_OK);
    assert_int_equal(job.state, BIDE_STATE_READY);
    assert_int_equal(job.priority, 1);
    assert_int_equal(job.max_retries, 3);
    assert_int_equal(job.key_size, 3);
    bide_job_clear(&job);
}

static void options_of_an_older_version_are_taken_without_the_last_member(void **state)
{
    bide_put_options options = bide_defaults(plain);
    bide_job job;
    uint64_t id;
    options.priority = 9;
    options.retain_ms = 5000;
    options.size = offsetof(bide_put_options, retain_ms);
    assert_int_equal(bide_publish(*state, plain, bill, &options, &id), BIDE_OK);
    assert_int_equal(bide_peek(*state, id, &job), BIDE_OK);
    assert_int_equal(job.priority, 9);
    assert_int_equal(job.retain_ms, 0);
    bide_job_clear(&job);
}

static void options_of_a_size_that_no_version_has_are_refused(void **state)
{
    bide_put_options options = bide_defaults(plain);
    options.size = 0;
    assert_int_equal(bide_publish(*state, plain, bill, &options, NULL), BIDE_EINVAL);
    assert_string_equal(bide_last_error(),
                        "publish: the options were not begun with BIDE_PUT_OPTIONS_INIT");
}

static void an_expiry_counts_from_the_publish(void **state)
{
    bide_job job;
    uint64_t id;
    int64_t before = bi_clock_wall() / 1000;
    assert_int_equal(bide_publish(*state, expiring, bill, NULL, &id), BIDE_OK);
    int64_t after = bi_clock_wall() / 1000 + 1;
    assert_int_equal(bide_peek(*state, id, &job), BIDE_OK);
    assert_in_range(job.expires_at_ms, before + 60000, after + 60000);
    bide_job_clear(&job);
}

static void an_expiry_of_the_options_wins(void **state)
{
    bide_put_options options = bide_defaults(expiring);
    bide_job job;
    uint64_t id;
    options.expires_at_ms = BIDE_TIMESTAMP_MAX_MS;
    assert_int_equal(bide_publish(*state, expiring, bill, &options, &id), BIDE_OK);
    assert_int_equal(bide_peek(*state, id, &job), BIDE_OK);
    assert_int_equal(job.expires_at_ms, BIDE_TIMESTAMP_MAX_MS);
    bide_job_clear(&job);
}

static void an_expiry_that_makes_no_sense_is_refused(void **state)
{
    bide_task task = bide_task_of_plain;
    task.expires_in_ms = -1;
    assert_int_equal(bide_task_publish(*state, &task, &bill, NULL, NULL), BIDE_EINVAL);
    assert_string_equal(bide_last_error(),
                        "publish: expires_in_ms is -1; 0 to 4294967295000 is allowed");
    task.expires_in_ms = INT64_MAX;
    assert_int_equal(bide_task_publish(*state, &task, &bill, NULL, NULL), BIDE_EINVAL);
}

/* ---- the key ---- */

static void a_key_of_one_field_is_its_value(void **state)
{
    struct bill value = bill;
    value.note = "n\"ote";
    value.big = UINT64_MAX;
    value.floor = -3;
    value.has_floor = true;
    assert_key(*state, "customer", &value, "ada");
    assert_key(*state, " customer  ", &value, "ada");
    assert_key(*state, "month", &value, "7");
    assert_key(*state, "note", &value, "n\"ote");
    assert_key(*state, "paid", &value, "false");
    assert_key(*state, "sum", &value, "0.5");
    assert_key(*state, "big", &value, "18446744073709551615");
    assert_key(*state, "where", &value, "EU");
    assert_key(*state, "floor", &value, "-3");
}

static void a_key_of_several_fields_is_a_list(void **state)
{
    assert_key(*state, "customer,month", &bill, "[\"ada\",7]");
    assert_key(*state, " month ,  customer", &bill, "[7,\"ada\"]");
    assert_key(*state, "customer,where,paid,sum", &bill, "[\"ada\",\"EU\",false,0.5]");
}

/* So that "a", "b,c" and "a,b", "c" are two keys. */
static void keys_of_several_fields_do_not_run_together(void **state)
{
    struct bill one = bill, other = bill;
    one.customer = "a,b";
    one.note = "c";
    other.customer = "a";
    other.note = "b,c";
    assert_key(*state, "customer,note", &one, "[\"a,b\",\"c\"]");
    assert_key(*state, "customer,note", &other, "[\"a\",\"b,c\"]");
}

static void a_missing_field_is_no_key_alone_and_null_among_others(void **state)
{
    assert_key(*state, "note", &bill, NULL);
    assert_key(*state, "floor", &bill, NULL);
    assert_key(*state, "customer, note", &bill, "[\"ada\",null]");
    assert_key(*state, "floor, note", &bill, "[null,null]");
}

static void a_key_of_an_empty_field_is_refused_alone(void **state)
{
    struct bill value = bill;
    value.customer = "";
    assert_no_key(*state, "customer", &value, "bill: the field that its key is made of is empty");
    assert_key(*state, "customer,month", &value, "[\"\",7]");
}

static void a_key_of_what_is_no_field_is_refused(void **state)
{
    assert_no_key(*state, "nobody", &bill, "bill: there is no field \"nobody\" to make a key of");
    assert_no_key(*state, "", &bill, "bill: there is no field \"\" to make a key of");
    assert_no_key(*state, "customer,", &bill, "bill: there is no field \"\" to make a key of");
    assert_no_key(*state, "customer month", &bill,
                  "bill: there is no field \"customer month\" to make a key of");
    assert_no_key(*state, "place", &bill, "bill: there is no field \"place\" to make a key of");
}

static void a_key_is_made_of_plain_fields_only(void **state)
{
    assert_no_key(*state, "bytes", &bill,
                  "bill: no key can be made of \"bytes\": only of numbers, texts, true and false");
    assert_no_key(*state, "month, items", &bill,
                  "bill: no key can be made of \"items\": only of numbers, texts, true and false");
}

static void a_key_that_is_too_long_is_refused(void **state)
{
    char text[BIDE_KEY_MAX + 2];
    struct bill value = bill;
    memset(text, 'k', sizeof(text));
    text[BIDE_KEY_MAX + 1] = 0;
    value.customer = text;
    assert_no_key(*state, "customer", &value, "put: the key has 201 bytes; 200 are allowed");
    text[BIDE_KEY_MAX] = 0;
    assert_key(*state, "customer", &value, text);
}

static void a_key_of_the_options_wins(void **state)
{
    bide_put_options options = bide_defaults(by_customer);
    bide_job job;
    uint64_t id;
    options.key = (bide_slice){"mine", 4};
    assert_int_equal(bide_publish(*state, by_customer, bill, &options, &id), BIDE_OK);
    assert_int_equal(bide_find(*state, "by_customer", "mine", 4, &job), BIDE_OK);
    assert_int_equal(job.id, id);
    bide_job_clear(&job);
}

static void who_holds_the_key_is_told(void **state)
{
    uint64_t first, second = 0;
    assert_int_equal(bide_publish(*state, by_customer, bill, NULL, &first), BIDE_OK);
    assert_int_equal(bide_publish(*state, by_customer, bill, NULL, &second), BIDE_EXISTS);
    assert_int_equal(second, first);
    struct bill other = bill;
    other.customer = "bob";
    assert_int_equal(bide_publish(*state, by_customer, other, NULL, &second), BIDE_OK);
    assert_int_not_equal(second, first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_queue, close_queue)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_struct_becomes_the_body_of_a_job),
        TEST(a_body_that_is_published_can_be_read_again),
        TEST(data_that_cannot_be_written_is_not_published),
        TEST(a_body_that_is_too_big_is_told_as_put_does),
        TEST(arguments_that_are_null_are_refused),
        TEST(a_task_without_a_topic_has_its_name),
        TEST(a_topic_that_is_none_is_refused_as_put_does),
        TEST(a_task_that_says_nothing_has_defaults),
        TEST(a_job_has_what_its_task_says),
        TEST(options_stand_in_place_of_what_the_task_says),
        TEST(options_of_an_older_version_are_taken_without_the_last_member),
        TEST(options_of_a_size_that_no_version_has_are_refused),
        TEST(an_expiry_counts_from_the_publish),
        TEST(an_expiry_of_the_options_wins),
        TEST(an_expiry_that_makes_no_sense_is_refused),
        TEST(a_key_of_one_field_is_its_value),
        TEST(a_key_of_several_fields_is_a_list),
        TEST(keys_of_several_fields_do_not_run_together),
        TEST(a_missing_field_is_no_key_alone_and_null_among_others),
        TEST(a_key_of_an_empty_field_is_refused_alone),
        TEST(a_key_of_what_is_no_field_is_refused),
        TEST(a_key_is_made_of_plain_fields_only),
        TEST(a_key_that_is_too_long_is_refused),
        TEST(a_key_of_the_options_wins),
        TEST(who_holds_the_key_is_told),
    };
    return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
