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

/* ---- the options ---- */

static void options_of_an_older_version_are_accepted(void **state)
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

static void options_of_an_invalid_size_are_rejected(void **state)
{
    bide_put_options options = bide_defaults(plain);
    options.size = 0;
    assert_int_equal(bide_publish(*state, plain, bill, &options, NULL), BIDE_EINVAL);
    assert_string_equal(bide_last_error(),
                        "publish: the options were not begun with BIDE_PUT_OPTIONS_INIT");
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
static void keys_of_several_fields_are_unambiguous(void **state)
{
    struct bill one = bill, other = bill;
    one.customer = "a,b";
    one.note = "c";
    other.customer = "a";
    other.note = "b,c";
    assert_key(*state, "customer,note", &one, "[\"a,b\",\"c\"]");
    assert_key(*state, "customer,note", &other, "[\"a\",\"b,c\"]");
}

static void missing_field_gives_no_key_alone_and_null_among_others(void **state)
{
    assert_key(*state, "note", &bill, NULL);
    assert_key(*state, "floor", &bill, NULL);
    assert_key(*state, "customer, note", &bill, "[\"ada\",null]");
    assert_key(*state, "floor, note", &bill, "[null,null]");
}

static void key_of_one_empty_field_is_rejected(void **state)
{
    struct bill value = bill;
    value.customer = "";
    assert_no_key(*state, "customer", &value, "bill: the field that its key is made of is empty");
    assert_key(*state, "customer,month", &value, "[\"\",7]");
}

static void key_of_an_unknown_field_is_rejected(void **state)
{
    assert_no_key(*state, "nobody", &bill, "bill: there is no field \"nobody\" to make a key of");
    assert_no_key(*state, "", &bill, "bill: there is no field \"\" to make a key of");
    assert_no_key(*state, "customer,", &bill, "bill: there is no field \"\" to make a key of");
    assert_no_key(*state, "customer month", &bill,
                  "bill: there is no field \"customer month\" to make a key of");
    assert_no_key(*state, "place", &bill, "bill: there is no field \"place\" to make a key of");
}

static void key_accepts_scalar_fields_only(void **state)
{
    assert_no_key(*state, "bytes", &bill,
                  "bill: no key can be made of \"bytes\": only of numbers, texts, true and false");
    assert_no_key(*state, "month, items", &bill,
                  "bill: no key can be made of \"items\": only of numbers, texts, true and false");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_queue, close_queue)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(options_of_an_older_version_are_accepted),
        TEST(options_of_an_invalid_size_are_rejected),
        TEST(a_key_of_one_field_is_its_value),
        TEST(a_key_of_several_fields_is_a_list),
        TEST(keys_of_several_fields_are_unambiguous),
        TEST(missing_field_gives_no_key_alone_and_null_among_others),
        TEST(key_of_one_empty_field_is_rejected),
        TEST(key_of_an_unknown_field_is_rejected),
        TEST(key_accepts_scalar_fields_only),
    };
    return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
