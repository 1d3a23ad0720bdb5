/* SPDX-License-Identifier: MIT */
/* Jobs as JSON, and back. */
#include "op/job_fields.h"
#include "op/job_json.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a job that has everything ---- */

static bide_job full_job(void)
{
    static unsigned char history[BI_JOB_HISTORY_SIZE];
    static const bide_failure failures[] = {
        {.kind = BIDE_FAILURE_TIMED_OUT, .attempt = UINT32_MAX, .at_ms = BIDE_TIMESTAMP_MAX_MS},
        {.attempt = 2, .at_ms = 3, .error = {"it \"broke\"", 10}, .holder = {"ada\0", 4}},
        {.kind = BIDE_FAILURE_RESTARTED, .error = {"\xff", 1}, .holder = {"\x80", 1}},
    };
    size_t history_size = 0;
    for (size_t i = 0; i < COUNT_OF(failures); i++)
        history_size += bi_job_history_encode(&failures[i], history + history_size);

    bide_job job = {
        .history = history,
        .history_size = history_size,
        .id = BIDE_ID_MAX,
        .token = BIDE_ID_MAX - 1,
        .state = BIDE_STATE_DELAYED,
        .priority = UINT32_MAX,
        .body = "the body",
        .body_size = 8,
        .key = "the key",
        .key_size = 7,
        .last_error = "it broke",
        .last_error_size = 8,
        .result = "the result",
        .result_size = 10,
        .progress = "half",
        .progress_size = 4,
        .holder = "web1:4711:0a",
        .holder_size = 12,
        .ttr_ms = BIDE_TIME_MAX_MS,
        .delay_ms = BIDE_TIME_MAX_MS - 1,
        .left_ms = BIDE_TIME_MAX_MS - 2,
        .age_ms = BIDE_TIMESTAMP_MAX_MS,
        .run_at_ms = BIDE_TIMESTAMP_MAX_MS - 1,
        .run_at_wall = true,
        .key_hold_retained = true,
        .cancel_wanted = true,
        .max_retries = INT32_MAX,
        .failures = UINT32_MAX - 1,
        .backoff_base_ms = 3,
        .backoff_max_ms = 4,
        .expires_at_ms = 5,
        .retain_ms = 6,
        .reserves = UINT32_MAX - 2,
        .timeouts = 7,
        .releases = 8,
        .fails = 9,
        .buries = 10,
        .kicks = 11,
        .touches = 12,
        .created_ms = 13,
        .ready_ms = 14,
        .reserved_ms = 15,
        .touched_ms = 16,
        .buried_ms = 17,
        .done_ms = 18,
        .topic = "a/topic-with;all+of.them$_(9)",
    };
    return job;
}

static bool same_bytes(const bide_job *a, const bide_job *b, const struct job_field *field)
{
    const void *one = *(const void *const *)((const char *)a + field->offset);
    const void *other = *(const void *const *)((const char *)b + field->offset);
    size_t size = *(const size_t *)((const char *)a + field->size_offset);
    return size == *(const size_t *)((const char *)b + field->size_offset) &&
           (one == NULL) == (other == NULL) && (size == 0 || memcmp(one, other, size) == 0);
}

static void check_same(const bide_job *a, const bide_job *b)
{
    for (size_t i = 0; i < bi_job_field_count; i++) {
        const struct job_field *field = &bi_job_fields[i];
        bool bytes = field->type == JOB_FIELD_BYTES || field->type == JOB_FIELD_LOG;
        bool same = bytes ? same_bytes(a, b, field)
                    : field->type == JOB_FIELD_TOPIC
                        ? strcmp(a->topic, b->topic) == 0
                        : bi_job_field_get(a, field) == bi_job_field_get(b, field);
        if (!same)
            fail_msg("%s is not the same", field->name);
    }
}

/* ---- there and back ---- */

static char *text_of(const bide_job *job)
{
    json_t *object = bi_job_json_encode(job);
    assert_non_null(object);
    char *text = json_dumps(object, JSON_COMPACT);
    assert_non_null(text);
    json_decref(object);
    return text;
}

/* Through the text, as a file would have it. */
static void check_back(const bide_job *job)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct job_json_buffers buffers;
    bide_job back;
    char *text = text_of(job);
    json_t *object = bi_job_json_parse(text, strlen(text), error);
    if (object == NULL || !bi_job_json_decode(object, &back, &buffers, error))
        fail_msg("%s: %s", text, error);
    check_same(job, &back);
    bi_job_json_buffers_free(&buffers);
    json_decref(object);
    free(text);
}

static void every_field_round_trips(void **state)
{
    (void)state;
    bide_job job = full_job();
    check_back(&job);
}

/* A field that the table does not have would be lost. */
static void field_table_covers_every_byte_of_a_job(void **state)
{
    (void)state;
    char bytes[offsetof(bide_job, bufs_)] = {0};
    for (size_t i = 0; i < bi_job_field_count; i++) {
        const struct job_field *field = &bi_job_fields[i];
        static const size_t sizes[] = {
            [JOB_FIELD_U64] = 8,   [JOB_FIELD_I64] = 8,   [JOB_FIELD_U32] = 4,
            [JOB_FIELD_I32] = 4,   [JOB_FIELD_BOOL] = 1,  [JOB_FIELD_SIZE] = 8,
            [JOB_FIELD_BYTES] = 8, [JOB_FIELD_STATE] = 4, [JOB_FIELD_TOPIC] = BIDE_TOPIC_MAX + 1,
            [JOB_FIELD_LOG] = 8,
        };
        memset(bytes + field->offset, 1, sizes[field->type]);
        if (field->type == JOB_FIELD_BYTES || field->type == JOB_FIELD_LOG)
            memset(bytes + field->size_offset, 1, sizeof(size_t));
    }
    memset(bytes + offsetof(bide_job, history_buf_), 1, sizeof(bide_buf *));
    memset(bytes + offsetof(bide_job, holder_buf_), 1, sizeof(bide_buf *));
    memset(bytes + offsetof(bide_job, room_), 1, sizeof(((bide_job *)0)->room_));
    size_t bare = 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bare += bytes[i] == 0;
    /* Nothing but what the compiler puts between them. */
    assert_int_equal(bare, 1 + 4 + 4 + 7);
}

static void each_state_round_trips(void **state)
{
    (void)state;
    bide_job job = full_job();
    for (int i = BIDE_STATE_DELAYED; i <= BIDE_STATE_DONE; i++) {
        job.state = (bide_state)i;
        check_back(&job);
    }
}

static void bytes_of_any_kind_round_trip(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t size;
    } runs[] = {
        {"", 0},
        {"\0", 1},
        {"a\0b", 3},
        {"\xff", 1},
        {"\xc0\x80", 2},
        {"\xed\xa0\x80", 3},
        {"gr\xc3\xbc\xc3\x9f", 6},
        {"\xc3", 1},
        {"\"\\\n\t\x7f", 5},
        {"\xf0\x9f\x98\x80", 4},
        {"\0\xff\0", 3},
        {"\xef\xbb\xbf", 3},
    };
    for (size_t i = 0; i < COUNT_OF(runs); i++) {
        bide_job job = full_job();
        job.body = job.result = runs[i].data;
        job.last_error = job.progress = runs[i].data;
        job.body_size = job.result_size = runs[i].size;
        job.last_error_size = job.progress_size = runs[i].size;
        if (runs[i].size > 0) {
            job.key = runs[i].data;
            job.key_size = runs[i].size;
        }
        check_back(&job);
    }
}

static void every_pair_of_bytes_round_trips(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 65536; i += 7) {
        unsigned char pair[] = {(unsigned char)(i >> 8), (unsigned char)i};
        bide_job job = full_job();
        job.body = pair;
        job.body_size = sizeof(pair);
        check_back(&job);
    }
}

/* ---- what is written ---- */

static void check_text(const bide_job *job, const char *expected)
{
    char *text = text_of(job);
    assert_string_equal(text, expected);
    free(text);
}

static void absent_fields_are_omitted(void **state)
{
    (void)state;
    bide_job job = {.id = 12,
                    .state = BIDE_STATE_READY,
                    .priority = 1024,
                    .body = "hello",
                    .body_size = 5,
                    .ttr_ms = 60000,
                    .max_retries = BIDE_NO_RETRY_LIMIT,
                    .topic = "email"};
    check_text(&job, "{\"id\":12,\"topic\":\"email\",\"state\":\"ready\",\"priority\":1024,"
                     "\"body_size\":5,\"body\":\"hello\",\"ttr_ms\":60000,\"age_ms\":0,"
                     "\"failures\":0,\"reserves\":0,\"timeouts\":0,\"releases\":0,\"fails\":0,"
                     "\"buries\":0,\"kicks\":0,\"touches\":0}");
    check_back(&job);
}

static bool has(const bide_job *job, const char *part)
{
    char *text = text_of(job);
    bool there = strstr(text, part) != NULL;
    free(text);
    return there;
}

static void unrequested_body_has_only_its_size(void **state)
{
    (void)state;
    bide_job job = full_job();
    job.body = NULL;
    assert_true(has(&job, "\"body_size\":8"));
    assert_false(has(&job, "\"body\""));
    job.body_size = 0;
    assert_true(has(&job, "\"body\":\"\""));
}

static void what_is_not_utf8_is_base64(void **state)
{
    (void)state;
    bide_job job = full_job();
    job.body = "\xff\xfe";
    job.body_size = 2;
    assert_true(has(&job, "\"body_base64\":\"//4=\""));
    assert_false(has(&job, "\"body\":"));
}

static void no_retries_and_no_limit_are_different(void **state)
{
    (void)state;
    bide_job job = full_job();
    job.max_retries = 0;
    assert_true(has(&job, "\"max_retries\":0"));
    check_back(&job);
    job.max_retries = BIDE_NO_RETRY_LIMIT;
    assert_false(has(&job, "max_retries"));
    check_back(&job);
}

/* ---- what is read ---- */

static bool reads(const char *text, bide_job *job, char *error)
{
    struct job_json_buffers buffers = {.blocks = {NULL}};
    json_t *object = bi_job_json_parse(text, strlen(text), error);
    bool good = object != NULL && bi_job_json_decode(object, job, &buffers, error);
    bi_job_json_buffers_free(&buffers);
    json_decref(object);
    return good;
}

static bool fails_malloc;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return fails_malloc ? NULL : __real_malloc(size);
}

static void base64_without_memory_is_not_reported_as_invalid(void **state)
{
    (void)state;
    char error[BI_ERRMSG_SIZE];
    struct job_json_buffers buffers = {.blocks = {NULL}};
    static const char text[] = "{\"body_base64\":\"eA==\",\"topic\":\"a\"}";
    bide_job job;
    json_t *object = bi_job_json_parse(text, strlen(text), error);
    assert_non_null(object);
    fails_malloc = true;
    bool good = bi_job_json_decode(object, &job, &buffers, error);
    fails_malloc = false;
    assert_false(good);
    assert_non_null(strstr(error, "memory"));
    assert_null(strstr(error, "base64\" is not base64"));
    bi_job_json_buffers_free(&buffers);
    json_decref(object);
}

static void a_topic_and_a_body_are_enough(void **state)
{
    (void)state;
    char error[BI_ERRMSG_SIZE];
    bide_job job;
    assert_true(reads("{\"body\":\"x\",\"topic\":\"a\"}", &job, error));
    assert_string_equal(job.topic, "a");
    assert_int_equal(job.state, BIDE_STATE_READY);
    assert_int_equal(job.priority, BIDE_DEFAULT_PRIORITY);
    assert_int_equal(job.max_retries, BIDE_NO_RETRY_LIMIT);
    assert_int_equal(job.body_size, 1);
    assert_int_equal(job.created_ms, 0);
    assert_null(job.key);
}

static void refused_with(const char *text, const char *part)
{
    char error[BI_ERRMSG_SIZE] = "";
    bide_job job;
    if (reads(text, &job, error))
        fail_msg("%s was read", text);
    if (strstr(error, part) == NULL)
        fail_msg("%s is refused with \"%s\", which does not say \"%s\"", text, error, part);
}

static void check_value(const char *name, const char *value, const char *part)
{
    char text[2000];
    snprintf(text, sizeof(text), "{\"topic\":\"a\",\"body\":\"x\",\"%s\":%s}", name, value);
    refused_with(text, part);
}

static void invalid_jobs_are_rejected(void **state)
{
    (void)state;
    refused_with("", "not JSON");
    refused_with("{", "not JSON");
    refused_with("[]", "not a JSON object");
    refused_with("7", "not JSON");
    refused_with("{\"topic\":\"a\",\"body\":\"x\"", "not JSON");
    refused_with("{\"topic\":\"a\",\"body\":\"x\"} x", "not JSON");
    refused_with("{\"topic\":\"a\",\"body\":\"\xff\"}", "not JSON");
    refused_with("{\"topic\":\"a\",\"topic\":\"a\",\"body\":\"x\"}", "duplicate");
    refused_with("{\"body\":\"x\"}", "\"topic\" is missing");
    refused_with("{\"topic\":\"a\"}", "\"body\" is missing");
    refused_with("{\"topic\":\"a\",\"body_size\":0}", "\"body\" is missing");
    refused_with("{\"topic\":\"a\",\"body\":\"x\",\"state\":\"delayed\"}", "run_at_ms");
}

static void unknown_names_are_rejected(void **state)
{
    (void)state;
    check_value("colour", "1", "unknown name \"colour\"");
    check_value("", "1", "unknown name \"\"");
    check_value("_base64", "\"\"", "unknown name \"_base64\"");
    check_value("Id", "1", "unknown name \"Id\"");
    check_value("bod", "\"\"", "unknown name \"bod\"");
    check_value("id_base64", "\"\"", "unknown name \"id_base64\"");
    check_value("topic_base64", "\"YQ==\"", "unknown name \"topic_base64\"");
    check_value("keys", "\"\"", "unknown name \"keys\"");
}

static void values_of_another_type_are_rejected(void **state)
{
    (void)state;
    check_value("id", "\"1\"", "whole number");
    check_value("id", "1.0", "whole number");
    check_value("priority", "null", "whole number");
    check_value("max_retries", "true", "whole number");
    check_value("run_at_wall", "1", "true or false");
    check_value("key", "1", "string");
    check_value("key_base64", "[]", "string");
    check_value("state", "1", "\"state\"");
    check_value("state", "\"gone\"", "\"state\"");
    check_value("state", "\"ready\\u0000\"", "\"state\"");
    refused_with("{\"topic\":1,\"body\":\"x\"}", "\"topic\"");
    refused_with("{\"topic\":\"\",\"body\":\"x\"}", "\"topic\"");
    refused_with("{\"topic\":\"a b\",\"body\":\"x\"}", "\"topic\"");
    refused_with("{\"topic\":\"a\\u0000\",\"body\":\"x\"}", "\"topic\"");
}

static void out_of_range_values_are_rejected(void **state)
{
    (void)state;
    check_value("id", "-1", "\"id\" is -1");
    check_value("id", "9007199254740992", "\"id\"");
    check_value("priority", "4294967296", "\"priority\"");
    check_value("max_retries", "-2", "\"max_retries\"");
    check_value("max_retries", "2147483648", "\"max_retries\"");
    check_value("ttr_ms", "4294967295001", "\"ttr_ms\"");
    check_value("created_ms", "7258118400001", "\"created_ms\"");
    check_value("reserves", "-1", "\"reserves\"");
    check_value("reserves", "99999999999999999999", "not JSON");
    check_value("key", "\"\"", "\"key\" has 0 bytes");
}

static void duplicate_or_invalid_bytes_are_rejected(void **state)
{
    (void)state;
    check_value("body_base64", "\"eA==\"", "twice");
    refused_with("{\"topic\":\"a\",\"body_base64\":\"eA==\",\"body\":\"x\"}", "twice");
    refused_with("{\"topic\":\"a\",\"body_base64\":\"eA=\"}", "not base64");
    refused_with("{\"topic\":\"a\",\"body_base64\":\"eB==\"}", "not base64");
    check_value("body_size", "2", "body_size");
    refused_with("{\"topic\":\"a\",\"body_size\":2,\"body\":\"x\"}", "body_size");
}

static void keys_and_progress_have_their_limits(void **state)
{
    (void)state;
    char value[BIDE_KEY_MAX + 10];
    memset(value, 'k', sizeof(value));
    value[0] = value[BIDE_KEY_MAX + 2] = '"';
    value[BIDE_KEY_MAX + 3] = 0;
    check_value("key", value, "\"key\" has 201 bytes");
    check_value("progress", value, "\"progress\" has 201 bytes");
}

/* ---- the history ---- */

static void history_is_an_array_of_failures(void **state)
{
    (void)state;
    bide_job job = full_job();
    assert_true(has(&job, "\"history\":["
                          "{\"attempt\":4294967295,\"at_ms\":7258118400000,\"kind\":\"timed_out\"},"
                          "{\"attempt\":2,\"at_ms\":3,\"kind\":\"failed\","
                          "\"holder\":\"ada\\u0000\",\"error\":\"it \\\"broke\\\"\"},"
                          "{\"attempt\":0,\"at_ms\":0,\"kind\":\"restarted\","
                          "\"holder_base64\":\"gA==\",\"error_base64\":\"/w==\"}],"
                          "\"holder\":\"web1:4711:0a\"}"));
}

static void largest_history_round_trips(void **state)
{
    (void)state;
    static unsigned char history[BI_JOB_HISTORY_SIZE];
    static char text[BIDE_FAILURE_TEXT_MAX];
    bide_job job = full_job();
    job.history = history;
    for (unsigned fill = 'x'; fill <= 0xff; fill += 0xff - 'x') { /* as a string, and as base64 */
        memset(text, (int)fill, sizeof(text));
        job.history_size = 0;
        for (int i = 0; i < BIDE_HISTORY_MAX; i++) {
            const bide_failure failure = {.error = {text, sizeof(text)}};
            job.history_size += bi_job_history_encode(&failure, history + job.history_size);
        }
        assert_int_equal(job.history_size, sizeof(history));
        check_back(&job);
    }
}

static void empty_history_is_none(void **state)
{
    (void)state;
    char error[BI_ERRMSG_SIZE];
    bide_job job;
    assert_true(reads("{\"body\":\"x\",\"topic\":\"a\",\"history\":[]}", &job, error));
    assert_null(job.history);
    assert_int_equal(job.history_size, 0);
}

static void invalid_histories_are_rejected(void **state)
{
    (void)state;
    char value[4 * BIDE_FAILURE_TEXT_MAX], text[BIDE_FAILURE_TEXT_MAX + 2] = {0};
    check_value("history", "{}", "\"history\" must be an array");
    check_value("history", "[{},{},{},{},{},{},{},{},{},{},{}]", "up to 10 failures");
    check_value("history", "[1]", "must be a JSON object");
    check_value("history", "[{\"colour\":1}]", "unknown name \"colour\"");
    check_value("history", "[{\"attempt\":-1}]", "\"attempt\" of a failure");
    check_value("history", "[{\"attempt\":4294967296}]", "\"attempt\" of a failure");
    check_value("history", "[{\"at_ms\":7258118400001}]", "\"at_ms\" of a failure");
    check_value("history", "[{\"at_ms\":\"1\"}]", "\"at_ms\" of a failure");
    check_value("history", "[{\"kind\":\"odd\"}]", "\"kind\" of a failure");
    check_value("history", "[{\"kind\":\"failed\\u0000\"}]", "\"kind\" of a failure");
    check_value("history", "[{\"kind\":1}]", "\"kind\" of a failure");
    check_value("history", "[{\"error\":1}]", "\"error\" of a failure");
    check_value("history", "[{\"error_base64\":\"eA=\"}]", "base64");
    check_value("history", "[{\"error_base64\":\"eB==\"}]", "base64");
    check_value("history", "[{\"error\":\"x\",\"error_base64\":\"eA==\"}]", "repeats a text");

    memset(text, 'x', sizeof(text) - 1);
    snprintf(value, sizeof(value), "[{\"error\":\"%s\"}]", text);
    check_value("history", value, "has 385 bytes");
    snprintf(value, sizeof(value), "[{\"error\":\"%s\",\"holder\":\"yy\"}]", text + 2);
    check_value("history", value, "have 385 bytes");
}

/* ---- figures ---- */

static void topics_and_figures_have_all_their_numbers(void **state)
{
    (void)state;
    bide_topic_stats topic = {.name = "email",
                              .jobs = {1, 2, 3, 4, 5, 6, {0}},
                              .total = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, {0}},
                              .waiting = 7,
                              .references = 8,
                              .oldest_ready_age_ms = 9,
                              .paused = true,
                              .pause_ms = 10,
                              .pause_left_ms = 11};
    json_t *object = bi_job_json_encode_topic(&topic);
    char *text = json_dumps(object, JSON_COMPACT);
    assert_string_equal(
        text, "{\"name\":\"email\",\"jobs\":{\"delayed\":1,\"ready\":2,\"reserved\":3,\"buried\":4,"
              "\"done\":5,\"urgent\":6},\"total\":{\"puts\":1,\"reserves\":2,\"deletes\":3,"
              "\"dones\":4,\"releases\":5,\"fails\":6,\"timeouts\":7,\"buries\":8,\"kicks\":9,"
              "\"touches\":10,\"expired\":11,\"retired\":12,\"purged\":13,\"pauses\":14},"
              "\"waiting\":7,\"references\":8,\"oldest_ready_age_ms\":9,\"paused\":true,"
              "\"pause_ms\":10,\"pause_left_ms\":11}");
    free(text);
    json_decref(object);
    bide_stats stats = {.topics = 1, .last_id = BIDE_ID_MAX, .draining = true};
    object = bi_job_json_encode_stats(&stats);
    assert_int_equal(json_integer_value(json_object_get(object, "last_id")), BIDE_ID_MAX);
    assert_int_equal(json_integer_value(json_object_get(object, "topics")), 1);
    assert_true(json_is_true(json_object_get(object, "draining")));
    assert_int_equal(json_object_size(object), 11);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_round_trips),
        cmocka_unit_test(field_table_covers_every_byte_of_a_job),
        cmocka_unit_test(each_state_round_trips),
        cmocka_unit_test(bytes_of_any_kind_round_trip),
        cmocka_unit_test(every_pair_of_bytes_round_trips),
        cmocka_unit_test(absent_fields_are_omitted),
        cmocka_unit_test(unrequested_body_has_only_its_size),
        cmocka_unit_test(what_is_not_utf8_is_base64),
        cmocka_unit_test(no_retries_and_no_limit_are_different),
        cmocka_unit_test(base64_without_memory_is_not_reported_as_invalid),
        cmocka_unit_test(a_topic_and_a_body_are_enough),
        cmocka_unit_test(invalid_jobs_are_rejected),
        cmocka_unit_test(unknown_names_are_rejected),
        cmocka_unit_test(values_of_another_type_are_rejected),
        cmocka_unit_test(out_of_range_values_are_rejected),
        cmocka_unit_test(duplicate_or_invalid_bytes_are_rejected),
        cmocka_unit_test(keys_and_progress_have_their_limits),
        cmocka_unit_test(history_is_an_array_of_failures),
        cmocka_unit_test(largest_history_round_trips),
        cmocka_unit_test(empty_history_is_none),
        cmocka_unit_test(invalid_histories_are_rejected),
        cmocka_unit_test(topics_and_figures_have_all_their_numbers),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
