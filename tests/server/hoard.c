/* SPDX-License-Identifier: MIT */
/*
 * hoard.c - clients that keep memory which all share: long lists of tubes, calls that wait with room for
 * many jobs, bodies that drip, answers that are not read. Others are served.
 */
#define _GNU_SOURCE /* prlimit */
#include "hostile.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- memory of clients ---- */

/* What needs memory of the clients: a call, and a body that comes in pieces. */
static void others_have_memory(const struct bided *bided)
{
    struct talk talk;
    bide *queue = open_at(bided);
    OK(bide_put(queue, "others", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    open_talk(&talk, bided);
    CHECK(put_in_pieces(&talk, 60000));
    talk_close(&talk);
}

/* ---- calls ---- */

static void send_reference(struct talk *talk, uint64_t tag, const char *topic, int delta)
{
    bide_op op = {.kind = BIDE_OP_TOPIC_REF};
    op.topic = (bide_topic_args){.topic = {topic, strlen(topic)}, .delta = delta};
    send_call(talk, tag, &op);
}

/* ---- references to topics ---- */

static uint64_t references_of(bide *queue, const char *topic)
{
    bide_topic_stats stats = {0};
    return bide_topic_get_stats(queue, topic, &stats) == BIDE_OK ? stats.references : 0;
}

/* Made and given back in one batch, whether the first can be made or not. */
static void references_are_given_back_while_they_are_made(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-topics=2");
    bide *queue = open_at(bided);
    struct talk talk;
    open_talk(&talk, bided);
    pause_server(bided);
    for (uint64_t i = 0; i < 100; i++) {
        send_reference(&talk, i, "-none", 1);
        send_reference(&talk, i, "-none", -1);
        send_reference(&talk, i, "-none", -1);
        send_reference(&talk, i, "one", 1);
        send_reference(&talk, i, "one", -1);
        send_reference(&talk, i, "one", 1);
        send_reference(&talk, i, "too-many", 1);
        send_reference(&talk, i, "too-many", -1);
    }
    CHECK(kill(bided->pid, SIGCONT) == 0);
    for (int i = 0; i < 100; i++) {
        EQ(hear_answer(&talk, NULL), BIDE_EINVAL);
        EQ(hear_answer(&talk, NULL), BIDE_EINVAL);
        EQ(hear_answer(&talk, NULL), BIDE_EINVAL);
        EQ(hear_answer(&talk, NULL), BIDE_OK);
        EQ(hear_answer(&talk, NULL), BIDE_OK);
        EQ(hear_answer(&talk, NULL), BIDE_OK);
        EQ(hear_answer(&talk, NULL), BIDE_TOO_MANY_TOPICS);
        EQ(hear_answer(&talk, NULL), BIDE_NOT_FOUND);
    }
    EQ(references_of(queue, "one"), 100);
    talk_close(&talk);
    bide_stats stats;
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.topics == 1);
    EQ(references_of(queue, "default"), 1);
    OK(bide_close(queue));
    stop(bided);
}

/* ---- memory ---- */

static void lists_of_watched_tubes_leave_memory_to_others(void)
{
    enum { GREEDY = 10, TUBES = 8000 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-client-bytes=4MiB");
    struct talk greedy[GREEDY];
    int refused = 0;
    for (int i = 0; i < GREEDY; i++) {
        open_talk(&greedy[i], bided);
        for (int j = 0; j < TUBES; j++)
            say(&greedy[i], "watch tube-%d\r\n", j);
        for (int j = 0; j < TUBES; j++)
            refused += strcmp(hear(&greedy[i]), "OUT_OF_MEMORY") == 0;
    }
    CHECK(refused > 0);
    others_have_memory(bided);
    close_all(greedy, GREEDY);
    stop(bided);
}

/* A call that waits has room for all the jobs that it may bring: large ones take most of the memory, small
 * ones what is left. */
static void calls_that_wait_leave_memory_to_others(void)
{
    enum { LARGE = 100, MIDDLE = 200, CALLS = 3000 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-client-bytes=16MiB");
    struct talk talk;
    bide_slice topic = {"nothing", 7};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    op.reserve =
        (bide_reserve_args){.topics = &topic, .topic_count = 1, .timeout_ms = BIDE_FOREVER};
    open_talk(&talk, bided);
    for (uint64_t i = 0; i < CALLS; i++) {
        op.reserve.job_max = i < LARGE ? BIDE_BATCH_JOBS : i < MIDDLE ? BIDE_BATCH_JOBS / 20 : 1;
        send_call(&talk, i, &op);
    }
    say(&talk, "list-tube-used\r\n");
    const char *line;
    int refused = 0;
    while (strcmp(line = hear(&talk), "USING default") != 0) {
        size_t size = 0;
        int code = 0;
        CHECK(sscanf(line, "ANSWER %*u %d %zu", &code, &size) == 2);
        CHECK(hear_body(&talk, size) != NULL);
        EQ(code, BIDE_EBUSY);
        refused++;
    }
    BETWEEN(refused, 1, CALLS - 1);
    others_have_memory(bided);
    talk_close(&talk);
    stop(bided);
}

/* Lists of tubes that wait for their turn count. */
static void lists_of_tubes_leave_memory_to_others(void)
{
    enum { LISTS = 100, TUBES = 2000 };
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-client-bytes=2MiB");
    struct talk lists[LISTS], talk;
    int refused = 0;
    open_talk(&talk, bided);
    for (int i = 0; i < TUBES; i++)
        say(&talk, "use tube-%d\r\nput 0 0 100 1\r\nx\r\n", i);
    for (int i = 0; i < TUBES; i++) {
        HEAR_NUMBER(&talk, "USING");
        HEAR_NUMBER(&talk, "INSERTED");
    }
    for (int i = 0; i < LISTS; i++) {
        open_talk(&lists[i], bided);
        say(&lists[i], "list-tube-used\r\n");
        HEAR(&lists[i], "USING default");
    }
    pause_server(bided);
    for (int i = 0; i < LISTS; i++)
        say(&lists[i], "list-tubes\r\n");
    CHECK(kill(bided->pid, SIGCONT) == 0);
    for (int i = 0; i < LISTS; i++) {
        const char *line = hear(&lists[i]);
        size_t size = 0;
        if (sscanf(line, "OK %zu", &size) == 1)
            CHECK(hear_body(&lists[i], size) != NULL);
        else
            TEXT(line, strlen(line), "OUT_OF_MEMORY");
        refused += size == 0;
    }
    BETWEEN(refused, 1, LISTS - 1);
    others_have_memory(bided);
    /* All of it was given back. */
    say(&talk, "list-tubes\r\n");
    CHECK(hear_body(&talk, HEAR_NUMBER(&talk, "OK")) != NULL);
    close_all(lists, LISTS);
    talk_close(&talk);
    stop(bided);
}

/* ---- slow clients ---- */

/* A byte now and then keeps no room for which others are refused. */
static void bodies_that_drip_leave_memory_to_others(void)
{
    enum { GREEDY = 20, BODY = 60000 };
    static char body[BODY];
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-client-bytes=1MiB");
    struct talk greedy[GREEDY], other;
    for (int i = 0; i < GREEDY; i++) {
        open_talk(&greedy[i], bided);
        greedy[i].may_end = true;
        say(&greedy[i], "put 0 0 100 %d\r\n", BODY);
        talk_send(&greedy[i], body, BODY - 100);
    }
    open_talk(&other, bided);
    bool taken = false;
    for (int second = 0; second < 40 && !taken; second++) {
        for (int i = 0; i < GREEDY; i++)
            talk_send(&greedy[i], "x", 1);
        taken = put_in_pieces(&other, BODY);
        nap_ms(taken ? 0 : 1000);
    }
    CHECK(taken);
    await_log(bided, "it has sent a part of a command, and little more");
    talk_close(&other);
    close_all(greedy, GREEDY);
    stop(bided);
}

/* Many connections that each leave a little unread have all of the memory, too. */
static void answers_that_are_not_read_leave_memory_to_others(void)
{
    enum { GREEDY = 40, PEEKS = 20, BODY = 60000 };
    char flag[300], text[PEEKS * 10];
    snprintf(flag, sizeof flag, "--listen=unix:%s", place_of("a.sock"));
    struct bided *bided =
        serve("--url=memory:", "--listen=127.0.0.1:0", flag, "--max-client-bytes=2MiB");
    struct talk other;
    int fds[GREEDY];
    size_t size = 0;
    open_talk(&other, bided);
    CHECK(put_in_pieces(&other, BODY));
    for (int i = 0; i < PEEKS; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "peek 1\r\n");
    for (int i = 0; i < GREEDY; i++) {
        fds[i] = connect_at(HERE, try_unix(place_of("a.sock")));
        CHECK(send(fds[i], text, size, MSG_NOSIGNAL) == (ssize_t)size);
    }
    nap_ms(200);
    bool taken = false;
    for (int second = 0; second < 20 && !taken; second++) {
        taken = put_in_pieces(&other, BODY);
        nap_ms(taken ? 0 : 1000);
    }
    CHECK(taken);
    for (int i = 0; i < GREEDY; i++)
        close(fds[i]);
    talk_close(&other);
    stop(bided);
}

/* ---- a store that fails ---- */

static void set_file_size(const struct bided *bided, rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK(prlimit(bided->pid, RLIMIT_FSIZE, &limit, NULL) == 0);
}

static void open_worker(struct talk *talk, const struct bided *bided)
{
    open_talk(talk, bided);
    say(talk, "put 0 0 100 1 retries=3\r\nx\r\nreserve\r\n");
    HEAR_NUMBER(talk, "INSERTED");
    HEAR_NUMBER(talk, "RESERVED");
    HEAR(talk, "x");
}

/* What a lost connection owes to a store that cannot be written does not keep later ones from ending. */
static void connections_end_while_the_store_fails(void)
{
    enum { VISITS = 100 }; /* several times as many as there may be */
    char url[300];
    snprintf(url, sizeof url, "--url=sqlite:%s", place_of("jobs.db"));
    struct bided *bided = serve(url, "--listen=0", "--max-connections=20");
    struct talk workers[2], other, visitor;
    open_worker(&workers[0], bided);
    open_worker(&workers[1], bided);
    open_talk(&other, bided);

    /* That the jobs have failed cannot be stored: the server owes it. */
    set_file_size(bided, 1);
    talk_close(&workers[0]);
    talk_close(&workers[1]);
    UNTIL(talk_stat(&other, "stats", "current-connections") == 1);
    say(&other, "put 0 0 100 1\r\ny\r\n");
    HEAR(&other, "OUT_OF_MEMORY");
    for (int i = 0; i < VISITS; i++) {
        open_talk(&visitor, bided);
        say(&visitor, "list-tube-used\r\n");
        HEAR(&visitor, "USING default");
        talk_close(&visitor);
    }
    UNTIL(talk_stat(&other, "stats", "current-connections") == 1);
    set_file_size(bided, RLIM_INFINITY);
    UNTIL(talk_stat(&other, "stats", "current-jobs-reserved") == 0);
    talk_close(&other);
    stop(bided);
}

static const struct test tests[] = {
    TEST(references_are_given_back_while_they_are_made),
    TEST(lists_of_watched_tubes_leave_memory_to_others),
    TEST(calls_that_wait_leave_memory_to_others),
    TEST(lists_of_tubes_leave_memory_to_others),
    TEST(bodies_that_drip_leave_memory_to_others),
    TEST(answers_that_are_not_read_leave_memory_to_others),
    TEST(connections_end_while_the_store_fails),
};

const struct theme hoard_theme = {"hoard", tests, COUNT(tests)};
