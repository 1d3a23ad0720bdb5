/* SPDX-License-Identifier: MIT */
/*
 * scripted - a server that does what a test says, step by step, on a unix socket in a folder of its
 * own; and the queue that is its client.
 *
 * The test plays the server on its own thread, and its ops are asynchronous. Only bide_open() needs
 * a thread, because it waits for the server's hello.
 */
#ifndef BI_SCRIPTED_H
#define BI_SCRIPTED_H

#include "unit.h"

#include "backend/call.h"
#include "util/clock.h"

#include <bide/bide.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define IN_SIZE     (1 << 16)

struct scripted {
    char folder[64], path[100];
    int listening, fd;
    char in[IN_SIZE];
    size_t size;
    bide *queue;
    bide_cq *cq;
    /* What bide_open() is given, and answers. */
    char url[256];
    int code;
    char error[BIDE_ERROR_SIZE];
};

static struct scripted server;

/* ---- listening ---- */

static inline void listen_here(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", server.path);
    unlink(server.path);
    server.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server.listening >= 0);
    assert_int_equal(bind(server.listening, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server.listening, 16), 0);
}

static inline void stop_listening(void)
{
    close(server.listening);
    server.listening = -1;
    unlink(server.path);
}

static inline bool readable(int fd, int timeout_ms)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

static inline void accept_one(void)
{
    assert_true(readable(server.listening, PATIENCE_MS));
    server.fd = accept(server.listening, NULL, NULL);
    assert_true(server.fd >= 0);
    server.size = 0;
}

static inline void hang_up(void)
{
    close(server.fd);
    server.fd = -1;
}

/* ---- talking ---- */

static inline void say_bytes(const void *data, size_t size)
{
    assert_int_equal(send(server.fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

static inline void say(const char *text)
{
    say_bytes(text, strlen(text));
}

/* Until so many bytes are there. */
static inline void read_until(size_t size)
{
    assert_true(size <= IN_SIZE);
    while (server.size < size) {
        assert_true(readable(server.fd, PATIENCE_MS));
        ssize_t got = recv(server.fd, server.in + server.size, IN_SIZE - server.size, 0);
        assert_true(got > 0);
        server.size += (size_t)got;
    }
}

static inline void drop(size_t size)
{
    server.size -= size;
    memmove(server.in, server.in + size, server.size);
}

/* The next line, without its end. */
static inline void hear_line(char *line, size_t room)
{
    char *end;
    while ((end = memmem(server.in, server.size, "\r\n", 2)) == NULL)
        read_until(server.size + 1);
    size_t size = (size_t)(end - server.in);
    assert_true(size < room);
    memcpy(line, server.in, size);
    line[size] = 0;
    drop(size + 2);
}

static inline void expect(const char *text)
{
    char line[300];
    hear_line(line, sizeof(line));
    assert_string_equal(line, text);
}

/* The other side closes; what it still says is not looked at. */
static inline void expect_end(void)
{
    char byte[4096];
    ssize_t size = 1;
    while (size > 0) {
        assert_true(readable(server.fd, PATIENCE_MS));
        size = recv(server.fd, byte, sizeof(byte), 0);
    }
    hang_up();
}

static inline bool nothing_comes(int for_ms)
{
    return server.size == 0 && !readable(server.fd, for_ms);
}

/* ---- hello ---- */

static inline void hello_as(const char *answer)
{
    accept_one();
    expect("call 1 ping 0");
    expect("");
    say(answer);
}

static const char plain_answer[] = "UNKNOWN_COMMAND\r\nUNKNOWN_COMMAND\r\n";
static const char tagged_answer[] = "ANSWER 1 0 1\r\n\0\r\n";

static inline void hello_tagged(void)
{
    hello_as("");
    say_bytes(tagged_answer, sizeof(tagged_answer) - 1);
}

static inline void hello_plain(void)
{
    hello_as(plain_answer);
}

/* To a client that may hang up at any moment, because its time is over: the answer is there before
 * the question, and need not be heard. */
static inline void hello_early(const char *answer, size_t size)
{
    accept_one();
    send(server.fd, answer, size, MSG_NOSIGNAL);
}

/* ---- calls ---- */

struct heard {
    uint64_t tag;
    struct call_op call;
    unsigned char data[1024];
};

static inline void hear_call(struct heard *heard, bide_op_kind kind)
{
    char line[300], name[40];
    char error[BIDE_ERROR_SIZE];
    unsigned long long tag;
    size_t size;
    hear_line(line, sizeof(line));
    assert_int_equal(sscanf(line, "call %llu %39s %zu", &tag, name, &size), 3);
    assert_string_equal(name, bide_op_name(kind));
    assert_true(size <= sizeof(heard->data));
    read_until(size + 2);
    memcpy(heard->data, server.in, size);
    assert_memory_equal(server.in + size, "\r\n", 2);
    drop(size + 2);
    heard->tag = tag;
    assert_int_equal(bi_call_decode(&heard->call, kind, heard->data, size, error), BIDE_OK);
}

/* The bytes of an answer, which are to be freed. */
static inline struct call_bytes answer_of(struct heard *heard, int code)
{
    struct call_bytes result = {NULL, 0, 0};
    struct call_bytes all = {NULL, 0, 0};
    heard->call.op.status = code;
    assert_int_equal(bi_call_encode_result(&heard->call, &result), BIDE_OK);
    all.data = malloc(result.size + 100);
    assert_non_null(all.data);
    all.size = (size_t)sprintf((char *)all.data, "ANSWER %llu %d %zu\r\n",
                               (unsigned long long)heard->tag, code, result.size);
    memcpy(all.data + all.size, result.data, result.size);
    memcpy(all.data + all.size + result.size, "\r\n", 2);
    all.size += result.size + 2;
    bi_call_bytes_free(&result);
    bi_call_done(&heard->call);
    return all;
}

static inline void answer(struct heard *heard, int code)
{
    struct call_bytes all = answer_of(heard, code);
    say_bytes(all.data, all.size);
    bi_call_bytes_free(&all);
}

/* ---- the client ---- */

static inline void *open_there(void *unused)
{
    (void)unused;
    server.code = bide_open(server.url, NULL, &server.queue);
    snprintf(server.error, sizeof(server.error), "%s", bide_last_error());
    return NULL;
}

/* Opens, while hello() is played. Answers the code of the open. */
static inline int open_client(const char *parameters, void (*hello)(void))
{
    pthread_t thread;
    snprintf(server.url, sizeof(server.url), "beanstalk://%s?%s", server.path, parameters);
    assert_int_equal(pthread_create(&thread, NULL, open_there, NULL), 0);
    if (hello != NULL)
        hello();
    assert_int_equal(pthread_join(thread, NULL), 0);
    return server.code;
}

/* Opens with so short a connect_timeout that the hello may be too late. Then it is opened again: on
 * a busy machine the test is about something else. */
static inline void open_impatient(const char *parameters, const char *answer, size_t size)
{
    pthread_t thread;
    int64_t limit = bi_clock_boot() + PATIENCE_MS * INT64_C(1000);
    snprintf(server.url, sizeof(server.url), "beanstalk://%s?%s", server.path, parameters);
    for (;;) {
        assert_int_equal(pthread_create(&thread, NULL, open_there, NULL), 0);
        hello_early(answer, size);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (server.code == BIDE_OK)
            break;
        assert_int_equal(server.code, BIDE_EIO);
        assert_true(bi_clock_boot() < limit);
        hang_up();
    }
    expect("call 1 ping 0");
    expect("");
}

static inline void submit(bide_op *op)
{
    bide_op *ops[] = {op};
    op->cq = server.cq;
    assert_int_equal(bide_submit(server.queue, ops, 1), 1);
}

static inline void drain_until_completed(bide_op *op)
{
    for (int i = 0; i < PATIENCE_MS / 10 && op->status == BIDE_PENDING; i++)
        assert_true(bide_cq_wait(server.cq, 10) >= 0);
}

static inline void completes(bide_op *op, int code)
{
    drain_until_completed(op);
    if (op->status != code)
        fail_msg("expected %s, got %s: %s", bide_code_name(code), bide_code_name(op->status),
                 op->error);
    assert_true((op->error[0] == 0) == (code == BIDE_OK));
}

static inline bide_op put_of(const char *body)
{
    return (bide_op){.kind = BIDE_OP_PUT, .put = {.topic = {"t", 1}, .body = {body, strlen(body)}}};
}

static const bide_slice topic_t = {"t", 1};

static inline bide_op reserve_of(bide_job *job, int64_t timeout_ms)
{
    return (bide_op){.kind = BIDE_OP_RESERVE,
                     .reserve = {.topics = &topic_t,
                                 .topic_count = 1,
                                 .timeout_ms = timeout_ms,
                                 .jobs = job,
                                 .job_max = 1}};
}

/* ---- before and after each test ---- */

static inline int begin_script(void **state)
{
    (void)state;
    memset(&server, 0, sizeof(server));
    server.fd = server.listening = -1;
    snprintf(server.folder, sizeof(server.folder), "/tmp/bide-scripted-XXXXXX");
    assert_non_null(mkdtemp(server.folder));
    snprintf(server.path, sizeof(server.path), "%s/sock", server.folder);
    listen_here();
    assert_int_equal(bide_cq_new(&server.cq), BIDE_OK);
    return 0;
}

static inline int end_script(void **state)
{
    (void)state;
    if (server.fd >= 0)
        hang_up();
    if (server.listening >= 0)
        stop_listening();
    bide_close(server.queue);
    bide_cq_drain(server.cq, 0);
    assert_int_equal(bide_cq_free(server.cq), BIDE_OK);
    rmdir(server.folder);
    return 0;
}

#define SCRIPT(test) cmocka_unit_test_setup_teardown(test, begin_script, end_script)

/* ---- the client of a bided ---- */

static inline void open_tagged(const char *parameters)
{
    assert_int_equal(open_client(parameters, hello_tagged), BIDE_OK);
}

static inline void open_tagged_impatient(const char *parameters)
{
    open_impatient(parameters, tagged_answer, sizeof(tagged_answer) - 1);
}

#define QUICK "reconnect_min=1ms&reconnect_max=5ms"

#endif
