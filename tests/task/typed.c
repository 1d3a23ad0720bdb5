/* SPDX-License-Identifier: MIT */
/* typed.c - what is published here arrives there, field by field. */
#include "task_topics.h"

#include <stdio.h>
#include <string.h>

enum color { RED, GREEN = 7, BLUE = -3 };

struct line {
    const char *article;
    uint32_t count;
};
BIDE_TYPE(line, struct line, BIDE_FIELD(article), BIDE_FIELD(count));

struct order {
    int64_t number;
    uint64_t large;
    int8_t small;
    uint16_t middle;
    bool paid;
    enum color color;
    float rate;
    double price;
    char currency[4];
    const char *customer;
    const char *note;
    bide_slice picture;
    const int64_t *numbers;
    size_t number_count;
    const char *const *tags;
    size_t tag_count;
    const double *weights;
    size_t weight_count;
    struct line first;
    struct line *last;
    struct line *lines;
    size_t line_count;
    int32_t discount;
    bool has_discount;
};
BIDE_TYPE(order, struct order, BIDE_FIELD(number), BIDE_FIELD(large), BIDE_FIELD(small),
          BIDE_FIELD(middle), BIDE_FIELD(paid), BIDE_FIELD(color), BIDE_FIELD(rate),
          BIDE_FIELD(price), BIDE_FIELD(currency), BIDE_FIELD_AS("soldTo", customer),
          BIDE_OPTIONAL(note), BIDE_FIELD(picture), BIDE_ARRAY(numbers, number_count),
          BIDE_ARRAY(tags, tag_count), BIDE_ARRAY(weights, weight_count), BIDE_STRUCT(first, line),
          BIDE_POINTER(last, line), BIDE_STRUCTS(lines, line_count, line),
          BIDE_OPTIONAL_IF(discount, has_discount));

BIDE_TASK(ship, order, .topic = TASK_TOPIC_A);
BIDE_TASK(raw, bytes, .topic = TASK_TOPIC_B);

/* ---- everything that a struct may hold ---- */

static const int64_t numbers[] = {0, -1, INT64_MIN, INT64_MAX};
static const char *const tags[] = {"", "Grüße, 世界", "a \"quoted\" \\ \n line"};
static const double weights[] = {0.1, -1e300, 5e-324};
static struct line last = {"the last", UINT32_MAX};
static struct line lines[] = {{"tea", 2}, {"", 0}, {"a\tb", 7}};

static struct order full_order(void)
{
    return (struct order){
        .number = INT64_MIN,
        .large = UINT64_MAX,
        .small = -128,
        .middle = 65535,
        .paid = true,
        .color = BLUE,
        .rate = 0.25F,
        .price = 0.1,
        .currency = "EUR",
        .customer = "Ada",
        .note = "ring twice",
        .picture = {"\0\xff\x80 bytes", 9},
        .numbers = numbers,
        .number_count = COUNT(numbers),
        .tags = tags,
        .tag_count = COUNT(tags),
        .weights = weights,
        .weight_count = COUNT(weights),
        .first = {"the first", 1},
        .last = &last,
        .lines = lines,
        .line_count = COUNT(lines),
        .discount = -5,
        .has_discount = true,
    };
}

static void same_text(const char *got, const char *want)
{
    CHECK(got != NULL);
    TEXT(got, strlen(got), want);
}

static void same_line(const struct line *got, const struct line *want)
{
    same_text(got->article, want->article);
    EQ(got->count, want->count);
}

static void same_scalars(const struct order *got, const struct order *want)
{
    EQ(got->number, want->number);
    CHECK(got->large == want->large);
    EQ(got->small, want->small);
    EQ(got->middle, want->middle);
    EQ(got->paid, want->paid);
    EQ(got->color, want->color);
    CHECK(got->rate == want->rate);
    CHECK(got->price == want->price);
    same_text(got->currency, want->currency);
    same_text(got->customer, want->customer);
    EQ(got->picture.size, want->picture.size);
    if (want->picture.size > 0)
        CHECK(memcmp(got->picture.data, want->picture.data, want->picture.size) == 0);
    same_line(&got->first, &want->first);
}

static void same_arrays(const struct order *got, const struct order *want)
{
    EQ(got->number_count, want->number_count);
    for (size_t i = 0; i < want->number_count; i++)
        EQ(got->numbers[i], want->numbers[i]);
    EQ(got->tag_count, want->tag_count);
    for (size_t i = 0; i < want->tag_count; i++)
        same_text(got->tags[i], want->tags[i]);
    EQ(got->weight_count, want->weight_count);
    for (size_t i = 0; i < want->weight_count; i++)
        CHECK(got->weights[i] == want->weights[i]);
    EQ(got->line_count, want->line_count);
    for (size_t i = 0; i < want->line_count; i++)
        same_line(&got->lines[i], &want->lines[i]);
}

static int check_full_order(bide_context *context, const struct order *order, void *arg)
{
    struct order want = full_order();
    (void)context;
    same_scalars(order, &want);
    same_arrays(order, &want);
    same_text(order->note, want.note);
    CHECK(order->last != NULL);
    same_line(order->last, want.last);
    EQ(order->has_discount, true);
    EQ(order->discount, -5);
    enter(arg);
    return BIDE_DONE;
}

static void every_kind_of_field_round_trips(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, ship, check_full_order, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, ship, full_order(), NULL, NULL));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 1);
}

/* ---- what may be missing ---- */

static struct order small_order(void)
{
    return (struct order){.currency = "", .customer = "", .first = {.article = ""}};
}

static int check_small_order(bide_context *context, const struct order *order, void *arg)
{
    struct order want = small_order();
    (void)context;
    same_scalars(order, &want);
    same_arrays(order, &want);
    CHECK(order->note == NULL);
    CHECK(order->last == NULL);
    EQ(order->has_discount, false);
    EQ(order->discount, 0);
    enter(arg);
    return BIDE_DONE;
}

static void what_is_optional_may_be_missing(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, ship, check_small_order, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, ship, small_order(), NULL, NULL));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 1);
}

static int check_number(bide_context *context, const struct order *order, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)context;
    fixture->number += order->number;
    enter(fixture);
    return BIDE_DONE;
}

static void unknown_fields_are_skipped(void)
{
    static const char body[] =
        "{\"later\":[1,{\"a\":null}],\"number\":5,\"large\":\"18446744073709551615\",\"small\":1,"
        "\"middle\":2,\"paid\":false,\"color\":7,\"rate\":1,\"price\":2.5,\"currency\":\"\","
        "\"soldTo\":\"x\",\"picture\":\"\",\"first\":{\"article\":\"\",\"count\":1,\"more\":2},"
        "\"note\":null,\"lines\":null}";
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, ship, check_number, fixture));
    OK(bide_worker_start(fixture->worker));
    put(fixture->queue, TASK_TOPIC_A, body);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->number, 5);
}

static void concurrent_jobs_have_their_own_data(void)
{
    bide_worker_options options = threads(8);
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), &options);
    struct order order = full_order();
    int64_t sum = 0;
    OK(bide_handle(fixture->worker, ship, check_number, fixture));
    OK(bide_worker_start(fixture->worker));
    for (order.number = 1; order.number <= 100; order.number++) {
        OK(bide_publish(fixture->queue, ship, order, NULL, NULL));
        sum += order.number;
    }
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 100);
    EQ(fixture->number, sum);
}

/* ---- results ---- */

static int answer_a_line(bide_context *context, const struct order *order, void *arg)
{
    (void)arg;
    CODE(bide_context_result_as(context, line, ((struct line){NULL, 1})), BIDE_EINVAL);
    return bide_context_result_as(context, line, ((struct line){order->customer, 7}));
}

static void a_result_may_be_a_struct_too(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    bide_put_options options = bide_defaults(ship);
    bide_state state = BIDE_STATE_GONE;
    bide_buf *result = NULL;
    struct line *line = NULL;
    uint64_t id = 0;
    options.retain_ms = 3600000;
    OK(bide_handle(fixture->worker, ship, answer_a_line, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, ship, full_order(), &options, &id));
    OK(bide_wait(fixture->queue, id, PATIENCE_MS, &state, &result));
    EQ(state, BIDE_STATE_DONE);
    OK(bide_decode(line, bide_buf_data(result), bide_buf_size(result), &line));
    same_line(line, &(struct line){"Ada", 7});
    bide_decoded_free(line);
    bide_buf_unref(result);
}

/* ---- bytes ---- */

static const char some_bytes[] = {'\0', '{', '\xff', '\n', '\0'};

static int check_bytes(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)context;
    EQ(body->size, fixture->number);
    CHECK(body->size == 0 || memcmp(body->data, some_bytes, body->size) == 0);
    enter(fixture);
    return BIDE_DONE;
}

static void a_task_of_bytes_has_the_body_as_it_is(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    uint64_t id = 0;
    fixture->number = sizeof some_bytes;
    OK(bide_handle(fixture->worker, raw, check_bytes, fixture));
    OK(bide_publish(fixture->queue, raw, (bide_slice){some_bytes, sizeof some_bytes}, NULL, &id));
    const bide_job *job = peek_job(fixture->queue, id);
    EQ(job->body_size, sizeof some_bytes);
    CHECK(memcmp(job->body, some_bytes, sizeof some_bytes) == 0);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void task_of_bytes_may_be_empty(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, raw, check_bytes, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, raw, (bide_slice){NULL, 0}, NULL, NULL));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void the_body_of_a_typed_task_is_its_JSON(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    bide_buf *json = NULL;
    uint64_t id = 0;
    OK(bide_encode(order, full_order(), &json));
    OK(bide_publish(fixture->queue, ship, full_order(), NULL, &id));
    const bide_job *job = peek_job(fixture->queue, id);
    TEXT(job->body, job->body_size, (const char *)bide_buf_data(json));
    bide_buf_unref(json);
}

static const struct test tests[] = {
    TEST(every_kind_of_field_round_trips), TEST(what_is_optional_may_be_missing),
    TEST(unknown_fields_are_skipped),      TEST(concurrent_jobs_have_their_own_data),
    TEST(a_result_may_be_a_struct_too),    TEST(a_task_of_bytes_has_the_body_as_it_is),
    TEST(task_of_bytes_may_be_empty),      TEST(the_body_of_a_typed_task_is_its_JSON),
};

const struct theme typed_theme = {"typed", tests, COUNT(tests)};
