/* SPDX-License-Identifier: MIT */
/*
 * optionsize.c - options of programs that were compiled with an older or a newer version of the
 * library: members that an older one does not know have their defaults, members that this version
 * does not know must be zero.
 */
#include "contract.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OTHER_MAX 1024

/* The bytes behind these are not readable. Never unmapped: the test has a process of its own. */
static void *at_end_of_page(const void *bytes, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    /* A struct begins at a multiple of its alignment. */
    return memcpy(pages + page - (size + 7) / 8 * 8, bytes, size);
}

/* The options, cut or with zeros behind them, that say they have this size; value is the last byte
 * of longer ones. */
static void *resized(const void *options, size_t own, size_t size, char value)
{
    char bytes[OTHER_MAX] = {0};
    CHECK(size <= sizeof bytes);
    memcpy(bytes, options, own < size ? own : size);
    if (size > own)
        bytes[size - 1] = value;
    memcpy(bytes, &size, sizeof size);
    return at_end_of_page(bytes, size);
}

/* Options with a value in every member that a job shows; their size and the last byte as given. */
static const bide_put_options *put_options(size_t size, char value)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 7;
    options.ttr_ms = 77000;
    options.max_retries = 3;
    options.retain_ms = 5000;
    return resized(&options, sizeof options, size, value);
}

/* What a job has that was put with them. */
static void is_put_with(const bide_job *job, size_t size)
{
    EQ(job->priority, size > offsetof(bide_put_options, priority) ? 7 : BIDE_DEFAULT_PRIORITY);
    EQ(job->ttr_ms, size > offsetof(bide_put_options, ttr_ms) ? 77000 : 60000);
    EQ(job->max_retries, size > offsetof(bide_put_options, max_retries) ? 3 : BIDE_NO_RETRY_LIMIT);
    EQ(job->retain_ms, size > offsetof(bide_put_options, retain_ms) ? 5000 : 0);
}

static void missing_members_of_older_put_options_have_defaults(void)
{
    bide *queue = open_queue("default_ttr=60s");
    const char *a = fresh_topic("a");
    for (size_t size = sizeof size; size <= sizeof(bide_put_options); size += sizeof size)
        is_put_with(stat_job(queue, put_as(queue, a, "body", put_options(size, 0))), size);
}

static void newer_put_options_are_accepted_if_unknown_members_are_zero(void)
{
    bide *queue = open_queue("default_ttr=60s");
    const char *a = fresh_topic("a");
    for (size_t more = 8; more <= 256; more *= 2) {
        size_t size = sizeof(bide_put_options) + more;
        is_put_with(stat_job(queue, put_as(queue, a, "body", put_options(size, 0))), size);
        CODE(bide_put(queue, a, "body", 4, put_options(size, 1), NULL), BIDE_EINVAL);
        CHECK(strstr(bide_last_error(), "does not know") != NULL);
    }
    EQ(topic_of(queue, a).jobs.ready, 6);
}

static void invalid_options_size_is_rejected(void)
{
    static const size_t sizes[] = {0, 1, 7, sizeof(bide_put_options) - 1, 4104, SIZE_MAX - 7};
    bide *queue = open_queue("");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const void *options = at_end_of_page(&sizes[i], sizeof sizes[i]);
        bide *other = NULL;
        char url[1024];
        CODE(bide_put(queue, fresh_topic("a"), "body", 4, options, NULL), BIDE_EINVAL);
        CODE(bide_open(trial_url(url, sizeof url, ""), options, &other), BIDE_EINVAL);
        CHECK(strstr(bide_last_error(), "BIDE_OPTIONS_INIT") != NULL);
        CHECK(other == NULL);
    }
}

static void items_of_a_list_may_have_options_of_any_size(void)
{
    bide *queue = open_queue("default_ttr=60s");
    bide_slice topic = slice(fresh_topic("a"));
    static const size_t sizes[] = {16, sizeof(bide_put_options), sizeof(bide_put_options) + 8, 8};
    bide_put_item items[COUNT(sizes) + 3];
    const bide_put_options *given[COUNT(items)] = {NULL};
    size_t accepted = 0;
    for (size_t i = 0; i < COUNT(sizes); i++)
        given[i] = put_options(sizes[i], 0);
    given[COUNT(sizes)] = put_options(sizeof(bide_put_options) + 8, 1);
    given[COUNT(sizes) + 1] = put_options(12, 0);
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = topic, .body = slice("body"), .options = given[i]};
    OK(bide_put_many(queue, items, COUNT(items), &accepted));
    EQ(accepted, COUNT(sizes) + 1);
    for (size_t i = 0; i < COUNT(items); i++) {
        bool bad = i == COUNT(sizes) || i == COUNT(sizes) + 1;
        EQ(items[i].status, bad ? BIDE_EINVAL : BIDE_OK);
        CHECK(items[i].options == given[i]);
        if (!bad)
            is_put_with(stat_job(queue, items[i].id), i < COUNT(sizes) ? sizes[i] : 0);
    }
}

/* The key is the caller's memory, too, and may be overwritten when submit has returned. */
static void completed_op_has_the_options_pointer_of_its_caller(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    struct waiter *waiter = new_op(BIDE_OP_PUT, new_cq());
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    char key[] = "key 0";
    options.key = slice(key);
    const bide_put_options *shorter =
        resized(&options, sizeof options, offsetof(bide_put_options, backoff_base_ms), 0);
    waiter->op.put = (bide_put_item){.topic = slice(a), .body = slice("body"), .options = shorter};
    for (int i = 0; i < 3; i++) {
        bide_op *list[] = {&waiter->op};
        key[4] = (char)('1' + i);
        CHECK(bide_submit(queue, list, 1) >= 0);
        key[4] = '0';
        UNTIL(waiter->op.status != BIDE_PENDING || bide_cq_drain(waiter->op.cq, 0) < 0);
        OK(waiter->op.status);
        CHECK(waiter->op.put.options == shorter);
        const bide_job *job = stat_job(queue, waiter->op.put.id);
        EQ(job->key_size, 5);
        EQ(((const char *)job->key)[4], '1' + i);
    }
}

static int64_t ttr_of_a_queue_with(const void *options)
{
    bide *queue = NULL;
    char url[1024];
    uint64_t id = 0;
    OK(bide_open(trial_url(url, sizeof url, ""), options, &queue));
    OK(bide_put(queue, fresh_topic("a"), "body", 4, NULL, &id));
    int64_t ttr_ms = stat_job(queue, id)->ttr_ms;
    OK(bide_close(queue));
    return ttr_ms;
}

static void options_of_a_queue_may_have_any_size(void)
{
    bide_options options = BIDE_OPTIONS_INIT;
    size_t own = sizeof options;
    bide *queue = NULL;
    char url[1024];
    options.default_ttr_ms = 33000;
    EQ(ttr_of_a_queue_with(resized(&options, own, sizeof(size_t), 0)), 60000);
    EQ(ttr_of_a_queue_with(resized(&options, own, 16, 0)), 33000);
    EQ(ttr_of_a_queue_with(resized(&options, own, own - 8, 0)), 33000);
    EQ(ttr_of_a_queue_with(resized(&options, own, own + 8, 0)), 33000);
    CODE(bide_open(trial_url(url, sizeof url, ""), resized(&options, own, own + 64, 1), &queue),
         BIDE_EINVAL);
    CHECK(strstr(bide_last_error(), "does not know") != NULL);
    CHECK(queue == NULL);
}

/* A call must not ignore what a program of a newer version asks for. */
static void members_of_newer_arguments_are_rejected(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_slice topic = slice(a);
    bide_job job = {0};
    uint64_t id = put(queue, a, "body");

    bide_update_args update = BIDE_UPDATE_INIT;
    update.id = id;
    update.priority = 5;
    update.room_[3] = 1;
    CODE(bide_update(queue, &update), BIDE_EINVAL);
    EQ(stat_job(queue, id)->priority, BIDE_DEFAULT_PRIORITY);

    bide_filter filter = {.room_ = {1}};
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    CODE(bide_list(queue, a, BIDE_STATE_ANY, &filter, cursor, &job, 1, &count), BIDE_EINVAL);
    bide_list_args list = {
        .topic = topic, .cursor = cursor, .jobs = &job, .job_max = 1, .room_ = {0, 1}};
    CODE(bide_list_page(queue, &list), BIDE_EINVAL);

    bide_reserve_args reserve = reserve_args(&topic, 1, 0, &job, 1);
    reserve.room_[0] = 1;
    CODE(bide_reserve_many(queue, &reserve), BIDE_EINVAL);
    reserve.room_[0] = 0;
    OK(bide_reserve_many(queue, &reserve));

    bide_put_item item = {.topic = topic};
    bide_finish_and_put_args step = {.finish = {.id = job.id, .token = job.token},
                                     .priority = BIDE_KEEP,
                                     .items = &item,
                                     .count = 1,
                                     .room_ = {0, 0, 0, 1}};
    CODE(bide_finish_and_put(queue, &step), BIDE_EINVAL);
    EQ(item.status, BIDE_EINVAL);
    EQ(stat_job(queue, id)->state, BIDE_STATE_RESERVED);
    bide_job_clear(&job);
}

static const struct test tests[] = {
    TEST(missing_members_of_older_put_options_have_defaults),
    TEST(newer_put_options_are_accepted_if_unknown_members_are_zero),
    TEST(invalid_options_size_is_rejected),
    TEST(items_of_a_list_may_have_options_of_any_size),
    TEST(completed_op_has_the_options_pointer_of_its_caller),
    TEST(options_of_a_queue_may_have_any_size),
    TEST(members_of_newer_arguments_are_rejected),
};

const struct theme optionsize_theme = {"optionsize", tests, COUNT(tests)};
