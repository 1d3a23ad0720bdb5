/* SPDX-License-Identifier: MIT */
/* rpc.c - the calls of one connection: large answers, answers that are not read, many at a time. */
#include "bided_suite.h"

#include "op/op_codec.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LARGE = 4 << 20, LARGE_COUNT = 48, PAGE = BIDE_BATCH_BYTES / LARGE };

#define GROWTH_MAX (INT64_C(100) << 20)

static struct bided *serve_large(void)
{
    return serve("--url=memory:?max_job_size=4MiB", "--listen=0");
}

static void put_large(bide *queue, int count)
{
    char *body = calloc(1, LARGE);
    CHECK(body != NULL);
    for (int i = 0; i < count; i++)
        OK(bide_put(queue, "large", body, LARGE, NULL, NULL));
    free(body);
}

static bide_counts counts_of(bide *queue)
{
    bide_topic_stats stats = {0};
    OK(bide_topic_get_stats(queue, "large", &stats));
    return stats.jobs;
}

/* Bytes of memory: what the process has, or the most that it has had. */
static int64_t memory_of(const struct bided *bided, const char *which)
{
    char path[64], line[200];
    long long kib = -1;
    size_t size = strlen(which);
    snprintf(path, sizeof path, "/proc/%d/status", (int)bided->pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, which, size) == 0)
            kib = strtoll(line + size, NULL, 10);
    fclose(file);
    CHECK(kib > 0);
    return (int64_t)kib * 1024;
}

/* ---- large answers ---- */

struct bystander {
    bide *queue;
    _Atomic bool over;
    int calls;
};

/* Calls that have nothing to do with the large jobs, over the same connection. */
static void *stand_by(void *arg)
{
    struct bystander *bystander = arg;
    do {
        uint64_t id = 0;
        OK(bide_put(bystander->queue, "small", "x", 1, NULL, &id));
        OK(bide_delete(bystander->queue, id, 0));
        bystander->calls++;
    } while (!atomic_load(&bystander->over));
    return NULL;
}

static void list_all(bide *queue)
{
    bide_job jobs[LARGE_COUNT];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t seen = 0, count = 0;
    do {
        OK(bide_list(queue, "large", BIDE_STATE_READY, NULL, cursor, jobs, COUNT(jobs), &count));
        CHECK(count <= PAGE);
        seen += count;
        for (size_t i = 0; i < count; i++)
            bide_job_clear(&jobs[i]);
    } while (cursor[0] != 0);
    EQ(seen, LARGE_COUNT);
}

static void take_all(bide *queue)
{
    bide_slice topic = {"large", 5};
    bide_job jobs[LARGE_COUNT];
    for (size_t taken = 0; taken < LARGE_COUNT;) {
        bide_reserve_args args = {
            .topics = &topic, .topic_count = 1, .jobs = jobs, .job_max = COUNT(jobs)};
        OK(bide_reserve_many(queue, &args));
        EQ(args.count, PAGE);
        taken += args.count;
        EQ(counts_of(queue).reserved, PAGE);
        EQ(counts_of(queue).ready, LARGE_COUNT - taken);
        for (size_t i = 0; i < args.count; i++) {
            OK(bide_delete(queue, jobs[i].id, jobs[i].token));
            bide_job_clear(&jobs[i]);
        }
    }
}

static void large_replies_are_bounded_and_do_not_delay_other_calls(void)
{
    struct bided *bided = serve_large();
    bide *queue = open_at(bided);
    put_large(queue, LARGE_COUNT);
    int64_t before = memory_of(bided, "VmRSS:");
    struct bystander bystander = {.queue = queue};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stand_by, &bystander) == 0);
    list_all(queue);
    take_all(queue);
    atomic_store(&bystander.over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(bystander.calls > 0);
    BETWEEN(memory_of(bided, "VmHWM:") - before, INT64_MIN, GROWTH_MAX);
    OK(bide_close(queue));
    stop(bided);
}

/* ---- answers that are not read ---- */

/* Sends a call that reserves up to job_max jobs. */
static void send_reserve(int fd, unsigned tag, int64_t timeout_ms, size_t job_max)
{
    bide_slice topic = {"large", 5};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    struct op_bytes bytes = {0};
    char line[64];
    op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = timeout_ms, .job_max = job_max};
    EQ(bi_op_codec_encode(&op, 0, &bytes), BIDE_OK);
    int size = snprintf(line, sizeof line, "call %u reserve %zu\r\n", tag, bytes.size);
    CHECK(send(fd, line, (size_t)size, MSG_NOSIGNAL | MSG_MORE) == size);
    CHECK(send(fd, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_MORE) == (ssize_t)bytes.size);
    CHECK(send(fd, "\r\n", 2, MSG_NOSIGNAL) == 2);
    bi_op_codec_wire_free_bytes(&bytes);
}

/* With a small buffer, so that no whole answer fits what lies between the two. */
static int connect_narrowly(const struct bided *bided)
{
    int size = 4096;
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) == 0);
    return fd;
}

/* No lease is left behind by answers that the client cannot have had. */
static void jobs_of_an_unsent_reply_are_released(void)
{
    struct bided *bided = serve_large();
    bide *queue = open_at(bided);
    put_large(queue, LARGE_COUNT);
    int fd = connect_narrowly(bided);
    for (unsigned i = 1; i <= LARGE_COUNT; i++)
        send_reserve(fd, i, 0, LARGE_COUNT);
    UNTIL(counts_of(queue).reserved > 0);
    close(fd);
    UNTIL(counts_of(queue).reserved == 0);
    EQ(counts_of(queue).ready, LARGE_COUNT);
    OK(bide_close(queue));
    stop(bided);
}

/* Reads answers until there are so many; each has one large job. */
static void read_answers(int fd, int count)
{
    static char bytes[1 << 16];
    const int64_t total = (int64_t)count * LARGE;
    int64_t seen = 0;
    while (seen < total) {
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        CHECK(got > 0);
        seen += got;
    }
}

/* Jobs that a client which does not read could have had go to others; its own calls go on
 * waiting. */
static void client_that_does_not_read_holds_few_jobs(void)
{
    enum { MOST = (64 << 20) / LARGE + 8 }; /* some are in the buffers of the sockets */
    struct bided *bided = serve_large();
    bide *queue = open_at(bided);
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    for (unsigned i = 1; i <= LARGE_COUNT; i++)
        send_reserve(fd, i, BIDE_FOREVER, 1);
    bide_stats stats;
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.waiting == LARGE_COUNT);
    put_large(queue, LARGE_COUNT);
    UNTIL(counts_of(queue).ready >= LARGE_COUNT - MOST);
    read_answers(fd, LARGE_COUNT);
    UNTIL(counts_of(queue).reserved == LARGE_COUNT);
    close(fd);
    OK(bide_close(queue));
    stop(bided);
}

static const struct test tests[] = {
    TEST(large_replies_are_bounded_and_do_not_delay_other_calls),
    TEST(jobs_of_an_unsent_reply_are_released),
    TEST(client_that_does_not_read_holds_few_jobs),
};

const struct theme rpc_theme = {"rpc", tests, COUNT(tests)};
