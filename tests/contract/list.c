/* SPDX-License-Identifier: MIT */
/* list.c - pages of jobs and topics. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A whole listing: how often each id from first on was seen, and the sum. */
struct seen {
    uint64_t first;
    size_t size;
    unsigned char *times;
    size_t total;
};

static struct seen new_seen(uint64_t first, size_t size)
{
    struct seen seen = {first, size, calloc(size, 1), 0};
    CHECK(seen.times != NULL);
    return seen;
}

static void see(struct seen *seen, uint64_t id)
{
    seen->total++;
    if (id >= seen->first && id - seen->first < seen->size)
        seen->times[id - seen->first]++;
}

static int times_seen(const struct seen *seen, uint64_t id)
{
    CHECK(id >= seen->first && id - seen->first < seen->size);
    return seen->times[id - seen->first];
}

/* One page into seen; false after the last one. */
static bool next_page(bide *queue, const char *topic, bide_state state, const bide_filter *filter,
                      char *cursor, size_t max, struct seen *seen)
{
    static bide_job jobs[BIDE_BATCH_JOBS];
    size_t count = 0;
    OK(bide_list(queue, topic, state, filter, cursor, jobs, max, &count));
    CHECK(count <= max);
    for (size_t i = 0; i < count; i++) {
        see(seen, jobs[i].id);
        CHECK(state == BIDE_STATE_GONE || jobs[i].state == state);
        CHECK(!topic || strcmp(jobs[i].topic, topic) == 0);
        EQ(jobs[i].token, 0);
    }
    clear_jobs(jobs, count);
    return cursor[0] != '\0';
}

static void list_all(bide *queue, const char *topic, bide_state state, const bide_filter *filter,
                     size_t max, struct seen *seen)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    int pages = 0;
    while (next_page(queue, topic, state, filter, cursor, max, seen))
        CHECK(++pages < 100000);
}

/* How many jobs a whole listing shows. */
static size_t listed(bide *queue, const char *topic, bide_state state, const bide_filter *filter)
{
    struct seen seen = new_seen(1, 1);
    list_all(queue, topic, state, filter, 7, &seen);
    free(seen.times);
    return seen.total;
}

/* Puts many small jobs; answers the id of the first. The ids may have gaps. */
static uint64_t put_thousands(bide *queue, const char *topic, size_t thousands,
                              const bide_put_options *options, uint64_t *ids)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    for (size_t i = 0; i < thousands; i++) {
        for (size_t j = 0; j < COUNT(items); j++)
            items[j] = (bide_put_item){
                .topic = slice(topic), .body = slice("some text"), .options = options};
        OK(bide_put_many(queue, items, COUNT(items), NULL));
        for (size_t j = 0; j < COUNT(items); j++)
            ids[i * COUNT(items) + j] = items[j].id;
    }
    return ids[0];
}

static void a_listing_shows_every_job_once(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t ids[23];
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put(queue, a, "body");
    static const size_t sizes[] = {1, 2, 5, 22, 23, 24, 1000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct seen seen = new_seen(ids[0], ids[22] - ids[0] + 1);
        list_all(queue, a, BIDE_STATE_READY, NULL, sizes[i], &seen);
        EQ(seen.total, COUNT(ids));
        for (size_t j = 0; j < COUNT(ids); j++)
            EQ(times_seen(&seen, ids[j]), 1);
        free(seen.times);
    }
}

static void a_listing_shows_one_state_or_all(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_RESERVED,
                                        BIDE_STATE_BURIED, BIDE_STATE_DONE};
    for (size_t i = 0; i < COUNT(states); i++)
        for (size_t j = 0; j <= i; j++)
            put_in(queue, a, states[i]);
    for (size_t i = 0; i < COUNT(states); i++)
        EQ(listed(queue, a, states[i], NULL), i + 1);
    EQ(listed(queue, a, BIDE_STATE_GONE, NULL), 15);
}

static void a_listing_shows_one_topic_or_all(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t before = listed(queue, NULL, BIDE_STATE_GONE, NULL);
    put(queue, a, "body");
    put(queue, a, "body");
    put_in(queue, b, BIDE_STATE_BURIED);
    EQ(listed(queue, a, BIDE_STATE_GONE, NULL), 2);
    EQ(listed(queue, b, BIDE_STATE_GONE, NULL), 1);
    EQ(listed(queue, NULL, BIDE_STATE_GONE, NULL), before + 3);
    EQ(listed(queue, fresh_topic("c"), BIDE_STATE_GONE, NULL), 0);
    EQ(listed(queue, a, BIDE_STATE_BURIED, NULL), 0);
}

static void a_listed_job_is_a_full_snapshot(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "k");
    OK(bide_fail(queue, id, take(queue, a)->token, "broken", 3600000, NULL, NULL));
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job job = {0};
    size_t count = 0;
    OK(bide_list(queue, a, BIDE_STATE_GONE, NULL, cursor, &job, 1, &count));
    EQ(count, 1);
    EQ(job.id, id);
    EQ(job.state, BIDE_STATE_DELAYED);
    EQ(job.fails, 1);
    EQ(job.body_size, 4);
    TEXT(job.key, job.key_size, "k");
    TEXT(job.last_error, job.last_error_size, "broken");
    BETWEEN(job.left_ms, 3600000 - PATIENCE_MS, 3600000);
    bide_job_clear(&job);
}

static void a_listing_may_bring_the_bodies(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put(queue, a, "the body");
    char cursor[BIDE_CURSOR_SIZE] = "";
    struct waiter *list = new_op(BIDE_OP_LIST, new_cq());
    list->op.list.topic = slice(a);
    list->op.list.state = BIDE_STATE_READY;
    list->op.list.with_body = true;
    list->op.list.cursor = cursor;
    list->op.list.jobs = &list->job;
    list->op.list.job_max = 1;
    submit_code(queue, list, BIDE_OK);
    EQ(list->op.list.count, 1);
    TEXT(list->job.body, list->job.body_size, "the body");
}

static void a_filter_by_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    put_key(queue, a, "one");
    put_key(queue, b, "one");
    put_key(queue, a, "two");
    put(queue, a, "one");
    bide_filter filter = {.key = slice("one")};
    EQ(listed(queue, a, BIDE_STATE_GONE, &filter), 1);
    filter.key = slice("on");
    EQ(listed(queue, a, BIDE_STATE_GONE, &filter), 0);
    filter.key = slice("two");
    EQ(listed(queue, a, BIDE_STATE_GONE, &filter), 1);
    EQ(listed(queue, a, BIDE_STATE_BURIED, &filter), 0);
}

static void a_filter_by_text_in_the_body(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put(queue, a, "a needle in a haystack");
    put(queue, a, "needle");
    put(queue, a, "at the end a needle");
    put(queue, a, "needl");
    put(queue, a, "");
    OK(bide_put(queue, a, "nul\0needle", 10, NULL, NULL));
    bide_filter filter = {.text = slice("needle")};
    EQ(listed(queue, a, BIDE_STATE_READY, &filter), 4);
    filter.text = slice("Needle");
    EQ(listed(queue, a, BIDE_STATE_READY, &filter), 0);
    filter.text = (bide_slice){"l\0n", 3};
    EQ(listed(queue, a, BIDE_STATE_READY, &filter), 1);
}

static void a_filter_by_several_states(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options later = BIDE_PUT_OPTIONS_INIT;
    later.delay_ms = 3600000;
    put(queue, a, "ready");
    OK(bide_put(queue, a, "delayed", 7, &later, NULL));
    OK(bide_bury(queue, put(queue, a, "buried"), 0, BIDE_KEEP, NULL));
    bide_filter filter = {.states = 1u << BIDE_STATE_READY | 1u << BIDE_STATE_BURIED};
    EQ(listed(queue, a, BIDE_STATE_ANY, &filter), 2);
    EQ(listed(queue, NULL, BIDE_STATE_ANY, &filter), 2);
    filter.states |= 1u << BIDE_STATE_DELAYED;
    EQ(listed(queue, a, BIDE_STATE_ANY, &filter), 3);
    filter.states = 1u << BIDE_STATE_DONE;
    EQ(listed(queue, a, BIDE_STATE_ANY, &filter), 0);
    /* A state that is named counts alone. */
    EQ(listed(queue, a, BIDE_STATE_DELAYED, &filter), 1);
    bide_job job;
    size_t count = 0;
    char cursor[BIDE_CURSOR_SIZE] = "";
    filter.states = 1u << 6;
    CODE(bide_list(queue, a, BIDE_STATE_ANY, &filter, cursor, &job, 1, &count), BIDE_EINVAL);
    filter.states = 1;
    CODE(bide_list(queue, a, BIDE_STATE_ANY, &filter, cursor, &job, 1, &count), BIDE_EINVAL);
}

static void a_filter_by_age(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put(queue, a, "old");
    nap_ms(120);
    int64_t start_us = clock_us();
    put(queue, a, "young");
    bide_filter filter = {.min_age_ms = 100};
    size_t old = listed(queue, a, BIDE_STATE_READY, &filter);
    filter = (bide_filter){.max_age_ms = 100};
    size_t young = listed(queue, a, BIDE_STATE_READY, &filter);
    if (clock_us() - start_us < 90 * 1000) {
        EQ(old, 1);
        EQ(young, 1);
    }
    filter = (bide_filter){.min_age_ms = 3600000};
    EQ(listed(queue, a, BIDE_STATE_READY, &filter), 0);
    filter = (bide_filter){.max_age_ms = 3600000};
    EQ(listed(queue, a, BIDE_STATE_READY, &filter), 2);
    filter = (bide_filter){.text = slice("young"), .max_age_ms = 3600000};
    EQ(listed(queue, a, BIDE_STATE_READY, &filter), 1);
}

static void a_filter_by_id(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t ids[10];
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put(queue, a, "body");
    for (size_t i = 0; i < COUNT(ids); i++) {
        bide_filter filter = {.after_id = ids[i]};
        EQ(listed(queue, a, BIDE_STATE_READY, &filter), COUNT(ids) - 1 - i);
        filter.text = slice("od");
        EQ(listed(queue, a, BIDE_STATE_READY, &filter), COUNT(ids) - 1 - i);
    }
    bide_filter filter = {.after_id = UINT64_MAX};
    EQ(listed(queue, NULL, BIDE_STATE_ANY, &filter), 0);
}

/* Lists a topic, and counts its jobs; answers whether all pages say that they are ordered. */
static bool is_ordered(bide *queue, const char *topic, bide_filter filter, size_t page,
                       size_t *total)
{
    static bide_job jobs[BIDE_BATCH_JOBS];
    char cursor[BIDE_CURSOR_SIZE] = "";
    uint64_t largest = 0;
    bool ordered = true;
    int pages = 0;
    bide_list_args args = {.topic = slice(topic), .filter = filter, .cursor = cursor, .jobs = jobs};
    *total = 0;
    do {
        args.job_max = page;
        args.ordered = pages % 2 == 0; /* what it was before the call does not matter */
        OK(bide_list_page(queue, &args));
        ordered = ordered && args.ordered;
        for (size_t i = 0; i < args.count; i++) {
            CHECK(jobs[i].id > filter.after_id);
            CHECK(!args.ordered || jobs[i].id > largest);
            largest = jobs[i].id > largest ? jobs[i].id : largest;
        }
        clear_jobs(jobs, args.count);
        *total += args.count;
        CHECK(++pages < 100000);
    } while (cursor[0] != '\0');
    return ordered;
}

static void page_reports_whether_it_is_in_id_order(void)
{
    static uint64_t ids[12000];
    const bide_filter all = {.after_id = 0};
    size_t total;
    bide *queue = open_queue("");
    const char *few = fresh_topic("few"), *many = fresh_topic("many");
    for (int i = 0; i < 25; i++)
        put(queue, few, "some text");
    CHECK(is_ordered(queue, few, all, 7, &total));
    EQ(total, 25);
    CHECK(is_ordered(queue, fresh_topic("none"), all, 7, &total));
    EQ(total, 0);
    /* Whether these are ordered is up to the backend; what it says must hold. */
    is_ordered(queue, few, (bide_filter){.text = slice("text")}, 7, &total);
    EQ(total, 25);
    put_thousands(queue, many, COUNT(ids) / 1000, NULL, ids);
    is_ordered(queue, many, all, BIDE_BATCH_JOBS, &total);
    EQ(total, COUNT(ids));
    is_ordered(queue, many, (bide_filter){.after_id = ids[5999]}, BIDE_BATCH_JOBS, &total);
    EQ(total, COUNT(ids) - 6000);
}

static void a_page_may_be_empty_before_the_end(void)
{
    static uint64_t ids[25000];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put_thousands(queue, a, COUNT(ids) / 1000, NULL, ids);
    uint64_t rare = put(queue, a, "a needle");
    bide_filter filter = {.text = slice("needle")};
    char cursor[BIDE_CURSOR_SIZE] = "";
    struct seen seen = new_seen(rare, 1);
    int pages = 1;
    while (next_page(queue, a, BIDE_STATE_READY, &filter, cursor, 10, &seen))
        CHECK(++pages <= 25001);
    EQ(seen.total, 1);
    EQ(times_seen(&seen, rare), 1);
    /* One call looks at no more than BIDE_EXAMINE_MAX jobs. */
    CHECK(pages >= 25001 / BIDE_EXAMINE_MAX);
    free(seen.times);
}

/* Changes the queue in the middle of a listing: every job with an index of 4n is left alone. */
static void stir(bide *queue, const char *topic, const uint64_t *ids, size_t count, int page)
{
    for (size_t i = (size_t)page * 4; i < count; i += 1200) {
        bide_delete(queue, ids[i + 1], 0);
        if (i % 8 == 0)
            bide_bury(queue, ids[i + 2], 0, BIDE_KEEP, NULL);
        bide_job job = {0};
        if (bide_reserve_job(queue, ids[i + 3], &job) == BIDE_OK) {
            OK(bide_release(queue, job.id, job.token, BIDE_KEEP, 0));
            bide_job_clear(&job);
        }
    }
    put_first(queue, topic, 0);
    put_first(queue, topic, UINT32_MAX);
}

static void listing_is_complete_while_the_queue_changes(void)
{
    static uint64_t ids[25000];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (size_t i = 0; i < 25; i++) {
        options.priority = (uint32_t)(i * 7919 % 25);
        put_thousands(queue, a, 1, &options, ids + i * 1000);
    }
    char cursor[BIDE_CURSOR_SIZE] = "";
    struct seen seen = new_seen(ids[0], ids[24999] - ids[0] + 1);
    int pages = 0;
    while (next_page(queue, a, BIDE_STATE_READY, NULL, cursor, 100, &seen)) {
        CHECK(++pages < 10000);
        stir(queue, a, ids, COUNT(ids), pages % 300);
    }
    CHECK(pages >= 100);
    for (size_t i = 0; i < COUNT(ids); i += 4)
        EQ(times_seen(&seen, ids[i]), 1);
    for (size_t i = 1; i < COUNT(ids); i += 4) {
        BETWEEN(times_seen(&seen, ids[i]), 0, 1);
        BETWEEN(times_seen(&seen, ids[i + 1]), 0, 1);
    }
    free(seen.times);
}

static void listing_of_delayed_jobs_is_complete_while_the_queue_changes(void)
{
    static uint64_t ids[3000];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (size_t i = 0; i < 3; i++) {
        options.delay_ms = 3600000 - (int64_t)i * 1000;
        put_thousands(queue, a, 1, &options, ids + i * 1000);
    }
    char cursor[BIDE_CURSOR_SIZE] = "";
    struct seen seen = new_seen(ids[0], ids[2999] - ids[0] + 1);
    size_t stirred = 1;
    while (next_page(queue, a, BIDE_STATE_DELAYED, NULL, cursor, 50, &seen)) {
        CHECK(stirred < COUNT(ids));
        for (int i = 0; i < 10 && stirred + 1 < COUNT(ids); i++, stirred += 4) {
            OK(bide_kick_job(queue, ids[stirred]));
            bide_delete(queue, ids[stirred + 1], 0);
        }
    }
    for (size_t i = 0; i < COUNT(ids); i += 4)
        EQ(times_seen(&seen, ids[i]), 1);
    free(seen.times);
}

static void the_topics_are_listed_once_each(void)
{
    static bide_topic_stats page[7];
    bide *queue = open_queue("");
    char tag[16], cursor[BIDE_CURSOR_SIZE] = "";
    int found[40] = {0}, pages = 0;
    for (int i = 0; i < 40; i++) {
        snprintf(tag, sizeof tag, "topic%d", i);
        for (int j = 0; j <= i % 3; j++)
            put(queue, fresh_topic(tag), "body");
    }
    do {
        size_t count = 0;
        OK(bide_topics(queue, cursor, page, COUNT(page), &count));
        CHECK(count <= COUNT(page) && ++pages < 100000);
        for (size_t i = 0; i < count; i++)
            for (int j = 0; j < 40; j++) {
                snprintf(tag, sizeof tag, "topic%d", j);
                if (strcmp(page[i].name, fresh_topic(tag)) == 0) {
                    found[j]++;
                    EQ(page[i].jobs.ready, j % 3 + 1);
                    EQ(page[i].total.puts, j % 3 + 1);
                }
            }
    } while (cursor[0] != '\0');
    CHECK(pages >= 40 / 7);
    for (int i = 0; i < 40; i++)
        EQ(found[i], 1);
}

static void topics_with_waiting_calls_are_listed(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a"), *b = fresh_topic("b"), *c = fresh_topic("c");
    bide_slice both[] = {slice(a), slice(b)};
    put_later(queue, c, 3600000);
    struct waiter *first = begin_reserve(queue, cq, both, 2);
    struct waiter *second = begin_reserve(queue, cq, &both[1], 1);
    EQ(stats_of(queue).waiting, 2);
    char cursor[BIDE_CURSOR_SIZE] = "";
    uint64_t waiting[2] = {0};
    for (int pages = 0; pages == 0 || cursor[0] != '\0'; pages++) {
        bide_topic_stats topic;
        size_t count = 0;
        CHECK(pages < 100);
        OK(bide_waiting(queue, cursor, &topic, 1, &count));
        if (count == 0)
            continue;
        CHECK(strcmp(topic.name, c) != 0 && topic.waiting > 0);
        if (strcmp(topic.name, a) == 0)
            waiting[0] += topic.waiting;
        if (strcmp(topic.name, b) == 0)
            waiting[1] += topic.waiting;
    }
    EQ(waiting[0], 1);
    EQ(waiting[1], 2);
    still_pending(first);
    still_pending(second);
}

static const struct test tests[] = {
    TEST(a_listing_shows_every_job_once),
    TEST(a_listing_shows_one_state_or_all),
    TEST(a_listing_shows_one_topic_or_all),
    TEST(a_listed_job_is_a_full_snapshot),
    TEST(a_listing_may_bring_the_bodies),
    TEST(a_filter_by_key),
    TEST(a_filter_by_text_in_the_body),
    TEST(a_filter_by_several_states),
    TEST(a_filter_by_age),
    TEST(a_filter_by_id),
    TEST(page_reports_whether_it_is_in_id_order),
    TEST(a_page_may_be_empty_before_the_end),
    TEST(listing_is_complete_while_the_queue_changes),
    TEST(listing_of_delayed_jobs_is_complete_while_the_queue_changes),
    TEST(the_topics_are_listed_once_each),
    TEST(topics_with_waiting_calls_are_listed),
};

const struct theme list_theme = {"list", tests, COUNT(tests)};
