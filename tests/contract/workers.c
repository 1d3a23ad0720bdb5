/* SPDX-License-Identifier: MIT */
/* workers.c - announcements: what is listed, how they are replaced, removed and expire, limits. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

/* A worker as it was announced, decoded. */
struct seen {
    bide_announced announced;
    bide_worker_info info;
    bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    bide_running_job jobs[BIDE_ANNOUNCED_JOBS_MAX];
};

/* The listed workers whose names begin with the prefix of this test; a server has others. */
static struct seen seen[64];
static size_t seen_count;

static const char *unique_name(const char *tag)
{
    static char names[512][BIDE_HOLDER_MAX + 1]; /* more than a test uses at a time */
    static size_t next;
    static int64_t number;
    if (number == 0)
        number = wall_us();
    char *name = names[next++ % COUNT(names)];
    snprintf(name, sizeof names[0], "contract:%lld:%s", (long long)number, tag);
    return name;
}

static bool is_ours(const bide_worker_info *info)
{
    static const char *prefix;
    if (prefix == NULL)
        prefix = strdup(unique_name(""));
    CHECK(prefix != NULL);
    return info->name.size >= strlen(prefix) &&
           memcmp(info->name.data, prefix, strlen(prefix)) == 0;
}

static bool decode(const bide_announced *announced, struct seen *to)
{
    return bide_worker_decode(announced->data, announced->data_size, &to->info, to->topics,
                              COUNT(to->topics), to->jobs, COUNT(to->jobs));
}

static void forget(void)
{
    for (size_t i = 0; i < seen_count; i++)
        bide_announced_clear(&seen[i].announced);
    seen_count = 0;
}

/* Lists all workers in pages of this size. */
#define LIST(queue, max) list_at(HERE, (queue), (max))
static size_t list_at(struct where at, bide *queue, size_t max)
{
    static bide_announced page[64];
    char cursor[BIDE_CURSOR_SIZE] = "";
    forget();
    do {
        size_t count = 0;
        check_code(at, bide_workers(queue, cursor, page, max, &count), BIDE_OK, "bide_workers()");
        check_between(at, (int64_t)count, 0, (int64_t)max, "workers in a page");
        for (size_t i = 0; i < count; i++) {
            struct seen *one = &seen[seen_count];
            check_true(at, seen_count < COUNT(seen), "there are few workers");
            check_true(at, decode(&page[i], one), "the announcement is valid");
            if (is_ours(&one->info)) {
                one->announced = page[i];
                seen_count++;
            } else {
                bide_announced_clear(&page[i]);
            }
        }
    } while (cursor[0] != 0);
    return seen_count;
}

static bide_worker_info named(const char *tag)
{
    return (bide_worker_info){.name = slice(unique_name(tag))};
}

static void announce(bide *queue, const char *tag, int64_t ttl_ms)
{
    const bide_worker_info info = named(tag);
    OK(bide_announce(queue, &info, ttl_ms));
}

/* ---- what is listed ---- */

static void announced_worker_is_listed_with_all_it_has_said(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    const bide_slice topics[] = {slice(a), slice(b)};
    const bide_running_job jobs[] = {
        {.id = 7, .since_ms = 1767225600000, .topic = slice(a), .progress = slice("half")},
        {.id = BIDE_ID_MAX, .since_ms = 0, .topic = slice(b)}};
    bide_worker_info info = named("full");
    info.host = slice("web1");
    info.version = slice("app 1.2");
    info.pid = 4711;
    info.threads = 8;
    info.running = 9;
    info.done = BIDE_ID_MAX;
    info.failed = 2;
    info.lost = 1;
    info.started_ms = 1767225599000;
    info.topics = topics;
    info.topic_count = COUNT(topics);
    info.jobs = jobs;
    info.job_count = COUNT(jobs);
    int64_t before_ms = wall_ms();
    OK(bide_announce(queue, &info, 60000));

    EQ(LIST(queue, 10), 1);
    const bide_worker_info *got = &seen[0].info;
    TEXT(got->name.data, got->name.size, unique_name("full"));
    TEXT(got->host.data, got->host.size, "web1");
    TEXT(got->version.data, got->version.size, "app 1.2");
    EQ(got->pid, 4711);
    EQ(got->threads, 8);
    EQ(got->running, 9);
    CHECK(got->done == BIDE_ID_MAX);
    EQ(got->failed, 2);
    EQ(got->lost, 1);
    EQ(got->started_ms, 1767225599000);
    EQ(got->topic_count, 2);
    TEXT(got->topics[0].data, got->topics[0].size, a);
    TEXT(got->topics[1].data, got->topics[1].size, b);
    EQ(got->job_count, 2);
    EQ(got->jobs[0].id, 7);
    EQ(got->jobs[0].since_ms, 1767225600000);
    TEXT(got->jobs[0].topic.data, got->jobs[0].topic.size, a);
    TEXT(got->jobs[0].progress.data, got->jobs[0].progress.size, "half");
    EQ(got->jobs[1].id, BIDE_ID_MAX);
    EQ(got->jobs[1].progress.size, 0);
    BETWEEN(seen[0].announced.announced_ms, before_ms - 1, wall_ms() + 1);
    BETWEEN(seen[0].announced.left_ms, 60000 - PATIENCE_MS, 60000);
    /* The topics need not exist, and do not by that. */
    CHECK(!topic_exists(queue, a));
    OK(bide_announce(queue, &info, 0));
    forget();
}

static void workers_are_listed_once_in_the_order_of_their_first_announcement(void)
{
    bide *queue = open_queue("");
    char tag[8];
    for (int i = 0; i < 20; i++) {
        snprintf(tag, sizeof tag, "%02d", i);
        announce(queue, tag, 60000);
    }
    announce(queue, "05", 60000);
    for (size_t max = 1; max <= 21; max += 4) {
        EQ(LIST(queue, max), 20);
        for (size_t i = 0; i < 20; i++) {
            snprintf(tag, sizeof tag, "%02zu", i);
            TEXT(seen[i].info.name.data, seen[i].info.name.size, unique_name(tag));
        }
    }
    for (int i = 0; i < 20; i++) {
        snprintf(tag, sizeof tag, "%02d", i);
        announce(queue, tag, 0);
    }
    EQ(LIST(queue, 10), 0);
}

static void workers_that_stay_are_listed_although_others_come_and_go(void)
{
    bide *queue = open_queue("");
    char cursor[BIDE_CURSOR_SIZE] = "", tag[8];
    static bide_announced page[64];
    size_t count = 0, ours = 0;
    for (int i = 0; i < 40; i++) {
        snprintf(tag, sizeof tag, "%02d", i);
        announce(queue, tag, 60000);
    }
    for (int i = 1; i < 40; i += 2) {
        snprintf(tag, sizeof tag, "%02d", i);
        announce(queue, tag, 0);
        OK(bide_workers(queue, cursor, page, 1, &count));
        EQ(count, 1);
        CHECK(decode(&page[0], &seen[0]));
        ours += is_ours(&seen[0].info);
        bide_announced_clear(&page[0]);
    }
    /* Those with even numbers have been there all the time; a server may have had others first. */
    for (int left = 100; cursor[0] != 0 && left > 0; left--) {
        OK(bide_workers(queue, cursor, page, COUNT(page), &count));
        for (size_t i = 0; i < count; i++) {
            CHECK(decode(&page[i], &seen[0]));
            ours += is_ours(&seen[0].info);
            bide_announced_clear(&page[i]);
        }
    }
    EQ(ours, 20);
    for (int i = 0; i < 40; i += 2) {
        snprintf(tag, sizeof tag, "%02d", i);
        announce(queue, tag, 0);
    }
}

/* ---- how long ---- */

static void announcement_with_the_same_name_replaces_the_last_one(void)
{
    bide *queue = open_queue("");
    bide_worker_info info = named("one");
    info.host = slice("first");
    OK(bide_announce(queue, &info, 60000));
    info.host = slice("a longer second one");
    info.done = 5;
    OK(bide_announce(queue, &info, 120000));
    EQ(LIST(queue, 10), 1);
    TEXT(seen[0].info.host.data, seen[0].info.host.size, "a longer second one");
    EQ(seen[0].info.done, 5);
    CHECK(seen[0].announced.left_ms > 60000);
    announce(queue, "one", 0);
}

/* A server announces its connections: they may have the same name. */
static void connections_of_one_name_are_different_workers(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    const bide_slice topics[] = {slice(a), slice(b)};
    bide_worker_info first = named("same"), second = named("same");
    first.connection = 7;
    first.topics = &topics[0];
    second.connection = BIDE_ID_MAX;
    second.topics = &topics[1];
    first.topic_count = second.topic_count = 1;
    OK(bide_announce(queue, &first, 60000));
    OK(bide_announce(queue, &second, 60000));
    OK(bide_announce(queue, &second, 60000));
    announce(queue, "same", 60000);
    EQ(LIST(queue, 10), 3);
    EQ(seen[0].info.connection, 7);
    CHECK(seen[1].info.connection == BIDE_ID_MAX);
    EQ(seen[2].info.connection, 0);
    announce(queue, "same", 0);
    OK(bide_announce(queue, &first, 0));
    EQ(LIST(queue, 10), 1);
    TEXT(seen[0].info.topics[0].data, seen[0].info.topics[0].size, b);
    OK(bide_announce(queue, &second, 0));
    EQ(LIST(queue, 10), 0);
}

static void announcement_expires_unless_it_is_renewed(void)
{
    bide *queue = open_queue("");
    announce(queue, "short", 5);
    announce(queue, "long", 3600000);
    UNTIL(LIST(queue, 10) == 1);
    TEXT(seen[0].info.name.data, seen[0].info.name.size, unique_name("long"));
    announce(queue, "short", 3600000);
    nap_ms(20);
    EQ(LIST(queue, 10), 2);
    announce(queue, "short", 0);
    announce(queue, "long", 0);
}

static void announcement_does_not_expire_early(void)
{
    bide *queue = open_queue("");
    int64_t start_us = clock_us();
    announce(queue, "w", 30);
    UNTIL(LIST(queue, 10) == 0);
    NOT_BEFORE(start_us, 30);
}

static void final_announcement_removes_the_worker(void)
{
    bide *queue = open_queue("");
    announce(queue, "w", 60000);
    EQ(LIST(queue, 10), 1);
    announce(queue, "w", 0);
    EQ(LIST(queue, 10), 0);
    announce(queue, "w", 0);
    EQ(LIST(queue, 10), 0);
}

static void listed_worker_outlives_its_announcement(void)
{
    bide *queue = open_queue("");
    announce(queue, "w", 60000);
    EQ(LIST(queue, 10), 1);
    announce(queue, "w", 0);
    CHECK(decode(&seen[0].announced, &seen[0]));
    TEXT(seen[0].info.name.data, seen[0].info.name.size, unique_name("w"));
    forget();
    bide_announced_clear(NULL);
}

static void reserved_jobs_name_the_worker_that_holds_them(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_slice topics[] = {slice(a)};
    bide_job job = {0};
    uint64_t id = put(queue, a, "body");
    announce(queue, "w", 60000);
    bide_reserve_args args = reserve_args(topics, 1, 0, &job, 1);
    args.holder = slice(unique_name("w"));
    OK(bide_reserve_many(queue, &args));
    EQ(LIST(queue, 10), 1);
    const bide_job *got = stat_job(queue, id);
    EQ(got->holder_size, seen[0].info.name.size);
    EQ(memcmp(got->holder, seen[0].info.name.data, got->holder_size), 0);
    bide_job_clear(&job);
    announce(queue, "w", 0);
}

/* ---- limits ---- */

static void announcement_that_is_too_large_loses_its_last_jobs(void)
{
    static bide_running_job jobs[BIDE_ANNOUNCED_JOBS_MAX];
    static char progress[BIDE_PROGRESS_MAX + 1];
    bide *queue = open_queue("");
    bide_worker_info info = named("large");
    memset(progress, 'p', sizeof progress - 1);
    for (size_t i = 0; i < COUNT(jobs); i++)
        jobs[i] = (bide_running_job){
            .id = i + 1, .topic = slice(fresh_topic("a")), .progress = slice(progress)};
    info.running = COUNT(jobs);
    info.jobs = jobs;
    info.job_count = COUNT(jobs);
    OK(bide_announce(queue, &info, 60000));
    EQ(LIST(queue, 10), 1);
    EQ(seen[0].info.running, COUNT(jobs));
    CHECK(seen[0].announced.data_size <= BIDE_ANNOUNCED_SIZE_MAX);
    BETWEEN(seen[0].info.job_count, 50, COUNT(jobs) - 1);
    for (size_t i = 0; i < seen[0].info.job_count; i++)
        EQ(seen[0].info.jobs[i].id, i + 1);
    announce(queue, "large", 0);
}

static void invalid_announcement_is_rejected(void)
{
    static char longer[300];
    static bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX + 1];
    static bide_running_job jobs[BIDE_ANNOUNCED_JOBS_MAX + 1];
    bide *queue = open_queue("");
    memset(longer, 'x', sizeof longer - 1);
    static char names[COUNT(topics)][8];
    for (size_t i = 0; i < COUNT(topics); i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        topics[i] = slice(names[i]);
    }
    for (size_t i = 0; i < COUNT(jobs); i++)
        jobs[i] = (bide_running_job){.id = 1, .topic = slice("a")};
    CODE(bide_announce(queue, NULL, 1000), BIDE_EINVAL);
    bide_worker_info info = {.name = {NULL, 0}};
    CODE(bide_announce(queue, &info, 1000), BIDE_EINVAL);
#define REJECTED(member, value)                               \
    do {                                                      \
        info = named("bad");                                  \
        info.topics = topics;                                 \
        info.jobs = jobs;                                     \
        info.member = (value);                                \
        CODE(bide_announce(queue, &info, 1000), BIDE_EINVAL); \
    } while (0)
    REJECTED(name, ((bide_slice){longer, BIDE_HOLDER_MAX + 1}));
    REJECTED(host, ((bide_slice){longer, 256}));
    REJECTED(version, ((bide_slice){NULL, 1}));
    REJECTED(started_ms, -1);
    REJECTED(connection, BIDE_ID_MAX + 1);
    REJECTED(pid, BIDE_ID_MAX + 1);
    REJECTED(threads, UINT64_MAX);
    REJECTED(running, BIDE_ID_MAX + 1);
    REJECTED(done, BIDE_ID_MAX + 1);
    REJECTED(failed, BIDE_ID_MAX + 1);
    REJECTED(lost, BIDE_ID_MAX + 1);
    CHECK(strstr(bide_last_error(), "a number of a worker is larger than 2^53-1") != NULL);
    REJECTED(topic_count, BIDE_ANNOUNCED_TOPICS_MAX + 1);
    REJECTED(job_count, BIDE_ANNOUNCED_JOBS_MAX + 1);
    topics[0] = slice("not good");
    REJECTED(topic_count, 1);
    topics[0] = slice(names[9]);
    REJECTED(topic_count, 10);
    CHECK(strstr(bide_last_error(), "a topic of a worker is named twice") != NULL);
    topics[0] = slice("a");
    jobs[0].progress = (bide_slice){longer, BIDE_PROGRESS_MAX + 1};
    REJECTED(job_count, 1);
    jobs[0] = (bide_running_job){.id = 0, .topic = slice("a")};
    REJECTED(job_count, 1);
#undef REJECTED
    info = named("bad");
    CODE(bide_announce(queue, &info, -1), BIDE_EINVAL);
    CODE(bide_announce(queue, &info, BIDE_TIME_MAX_MS + 1), BIDE_EINVAL);
    EQ(LIST(queue, 10), 0);
}

static void decoded_worker_does_not_exceed_the_room_of_the_caller(void)
{
    const bide_slice topics[] = {slice("a"), slice("b"), slice("c")};
    const bide_running_job jobs[] = {{.id = 1, .topic = slice("a")},
                                     {.id = 2, .topic = slice("b")}};
    const bide_worker_info info = {.name = slice("w"),
                                   .topics = topics,
                                   .topic_count = COUNT(topics),
                                   .jobs = jobs,
                                   .job_count = COUNT(jobs)};
    bide_slice few_topics[3] = {slice("x"), slice("x"), slice("x")};
    bide_running_job few_jobs[2] = {{.id = 9}, {.id = 9}};
    bide_worker_info got;
    bide_buf *bytes = bide_worker_encode(&info);
    CHECK(bide_worker_decode(bide_buf_data(bytes), bide_buf_size(bytes), &got, few_topics, 2,
                             few_jobs, 1));
    EQ(got.topic_count, 2);
    EQ(got.job_count, 1);
    TEXT(got.topics[1].data, got.topics[1].size, "b");
    TEXT(few_topics[2].data, few_topics[2].size, "x");
    EQ(got.jobs[0].id, 1);
    EQ(few_jobs[1].id, 9);
    CHECK(bide_worker_decode(bide_buf_data(bytes), bide_buf_size(bytes), &got, NULL, 0, NULL, 0));
    EQ(got.topic_count, 0);
    EQ(got.job_count, 0);
    bide_buf_unref(bytes);
}

/* Whatever bytes a client sends, they are checked where the queue is. */
static void malformed_bytes_are_rejected(void)
{
    bide *queue = open_queue("");
    bide_worker_info info = named("w");
    const bide_slice topics[] = {slice("a")};
    info.topics = topics;
    info.topic_count = 1;
    bide_buf *good = bide_worker_encode(&info);
    CHECK(good != NULL);
    unsigned char bytes[300];
    size_t size = bide_buf_size(good);
    CHECK(size < sizeof bytes);
    memcpy(bytes, bide_buf_data(good), size);
    for (size_t cut = 0; cut < size; cut++) {
        struct waiter *op = new_op(BIDE_OP_ANNOUNCE, new_cq());
        op->op.announce = (bide_announce_args){.worker = {bytes, cut}, .ttl_ms = 1000};
        if (cut < 20) /* completion queues are few */
            submit_code(queue, op, BIDE_EINVAL);
        else
            break;
    }
    /* The queue takes the copy of a valid one: a leak check finds it otherwise. */
    struct waiter *announced = new_op(BIDE_OP_ANNOUNCE, new_cq());
    announced->op.announce = (bide_announce_args){.worker = {bytes, size}, .ttl_ms = 60000};
    submit_code(queue, announced, BIDE_OK);
    CHECK(announced->op.announce.made_ == NULL);
    struct waiter *removed = new_op(BIDE_OP_ANNOUNCE, new_cq());
    removed->op.announce = (bide_announce_args){.worker = {bytes, size}};
    submit_code(queue, removed, BIDE_OK);
    CHECK(removed->op.announce.made_ == NULL);
    for (size_t cut = 0; cut < size; cut++)
        CHECK(!decode(&(bide_announced){.data = bytes, .data_size = cut}, &seen[0]));
    CHECK(!decode(&(bide_announced){.data = NULL}, &seen[0]));
    /* Members of later versions follow. */
    bytes[size] = 7;
    CHECK(decode(&(bide_announced){.data = bytes, .data_size = size + 1}, &seen[0]));
    bide_buf_unref(good);
    EQ(LIST(queue, 10), 0);
}

static void announcements_count_as_memory(void)
{
    bide *queue = open_queue("");
    uint64_t before = stats_of(queue).memory_bytes;
    bide_worker_info info = named("w");
    const bide_slice topics[] = {slice("a"), slice("b")};
    info.topics = topics;
    info.topic_count = COUNT(topics);
    OK(bide_announce(queue, &info, 60000));
    CHECK(stats_of(queue).memory_bytes > before);
    info.topic_count = 1;
    OK(bide_announce(queue, &info, 60000));
    OK(bide_announce(queue, &info, 0));
    EQ(stats_of(queue).memory_bytes, before);
}

static void full_queue_rejects_new_workers_and_renews_known_ones(void)
{
    static char text[1001];
    const bide_slice topics[] = {slice("a"), slice("b"), slice("c"), slice("d")};
    bide *queue = open_queue("max_memory=1MiB");
    const char *a = fresh_topic("a");
    uint64_t id = 0;
    memset(text, 'x', sizeof text - 1);
    announce(queue, "known", 60000);
    while (bide_put(queue, a, text, 1000, NULL, &id) == BIDE_OK)
        continue;
    while (bide_put(queue, a, "", 0, NULL, &id) == BIDE_OK)
        continue;
    bide_worker_info info = named("new");
    info.host = info.version = (bide_slice){text, 255};
    info.topics = topics;
    info.topic_count = COUNT(topics);
    CODE(bide_announce(queue, &info, 60000), BIDE_EFULL);
    announce(queue, "known", 60000);
    EQ(LIST(queue, 10), 1);
    announce(queue, "known", 0);
}

static void page_of_workers_needs_a_good_cursor_and_room(void)
{
    bide *queue = open_queue("");
    bide_announced worker = {0};
    size_t count = 42;
    char cursor[BIDE_CURSOR_SIZE] = "no cursor";
    CODE(bide_workers(queue, cursor, &worker, 1, &count), BIDE_EINVAL);
    CHECK(strcmp(cursor, "no cursor") == 0);
    cursor[0] = 0;
    CODE(bide_workers(queue, NULL, &worker, 1, &count), BIDE_EINVAL);
    CODE(bide_workers(queue, cursor, NULL, 1, &count), BIDE_EINVAL);
    CODE(bide_workers(queue, cursor, &worker, 0, &count), BIDE_EINVAL);
    CODE(bide_workers(queue, cursor, &worker, BIDE_BATCH_JOBS + 1, &count), BIDE_EINVAL);
    CODE(bide_workers(queue, cursor, &worker, 1, NULL), BIDE_EINVAL);
    EQ(count, 42);
}

/* Workers announce themselves again. */
static void announcements_end_with_the_queue(void)
{
    bide *queue = open_queue("");
    announce(queue, "w", 60000);
    if (!is_in_process()) {
        announce(queue, "w", 0);
        return;
    }
    close_queue(queue);
    queue = open_queue("");
    EQ(LIST(queue, 10), 0);
}

static const struct test tests[] = {
    TEST(announced_worker_is_listed_with_all_it_has_said),
    TEST(workers_are_listed_once_in_the_order_of_their_first_announcement),
    TEST(workers_that_stay_are_listed_although_others_come_and_go),
    TEST(announcement_with_the_same_name_replaces_the_last_one),
    TEST(connections_of_one_name_are_different_workers),
    TEST(announcement_expires_unless_it_is_renewed),
    TEST(announcement_does_not_expire_early),
    TEST(final_announcement_removes_the_worker),
    TEST(listed_worker_outlives_its_announcement),
    TEST(reserved_jobs_name_the_worker_that_holds_them),
    TEST(announcement_that_is_too_large_loses_its_last_jobs),
    TEST(invalid_announcement_is_rejected),
    TEST(decoded_worker_does_not_exceed_the_room_of_the_caller),
    TEST(malformed_bytes_are_rejected),
    TEST(announcements_count_as_memory),
    TEST(full_queue_rejects_new_workers_and_renews_known_ones),
    TEST(page_of_workers_needs_a_good_cursor_and_room),
    TEST(announcements_end_with_the_queue),
};

const struct theme workers_theme = {"workers", tests, COUNT(tests)};
