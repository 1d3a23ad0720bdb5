/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "fake_server.h"

struct fake_server server;

void listen_here(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", server.path);
    unlink(server.path);
    server.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server.listening >= 0);
    assert_int_equal(bind(server.listening, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server.listening, 16), 0);
}

void stop_listening(void)
{
    close(server.listening);
    server.listening = -1;
    unlink(server.path);
}

bool readable(int fd, int timeout_ms)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

void accept_one(void)
{
    assert_true(readable(server.listening, PATIENCE_MS));
    server.fd = accept(server.listening, NULL, NULL);
    assert_true(server.fd >= 0);
    server.size = 0;
}

void close_connection(void)
{
    close(server.fd);
    server.fd = -1;
}

void send_bytes(const void *data, size_t size)
{
    assert_int_equal(send(server.fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

void send_text(const char *text)
{
    send_bytes(text, strlen(text));
}

void read_until(size_t size)
{
    assert_true(size <= IN_SIZE);
    while (server.size < size) {
        assert_true(readable(server.fd, PATIENCE_MS));
        ssize_t got = recv(server.fd, server.in + server.size, IN_SIZE - server.size, 0);
        assert_true(got > 0);
        server.size += (size_t)got;
    }
}

void drop(size_t size)
{
    server.size -= size;
    memmove(server.in, server.in + size, server.size);
}

void read_line(char *line, size_t room)
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

void expect(const char *text)
{
    char line[300];
    read_line(line, sizeof(line));
    assert_string_equal(line, text);
}

void expect_end(void)
{
    char byte[4096];
    ssize_t size = 1;
    while (size > 0) {
        assert_true(readable(server.fd, PATIENCE_MS));
        size = recv(server.fd, byte, sizeof(byte), 0);
    }
    close_connection();
}

bool stays_silent(int for_ms)
{
    return server.size == 0 && !readable(server.fd, for_ms);
}

void handshake_with(const char *reply)
{
    accept_one();
    expect("call 1 ping 0");
    expect("");
    send_text(reply);
}

const char beanstalkd_reply[] = "UNKNOWN_COMMAND\r\nUNKNOWN_COMMAND\r\n";
static const char bided_reply[] = "ANSWER 1 0 1\r\n\0\r\n";

void handshake_bided(void)
{
    handshake_with("");
    send_bytes(bided_reply, sizeof(bided_reply) - 1);
}

void handshake_beanstalkd(void)
{
    handshake_with(beanstalkd_reply);
}

void handshake_early(const char *reply, size_t size)
{
    accept_one();
    send(server.fd, reply, size, MSG_NOSIGNAL);
}

void receive_call(struct received_call *received_call, bide_op_kind kind)
{
    char line[300], name[40];
    char error[BIDE_ERROR_SIZE];
    unsigned long long tag;
    size_t size;
    read_line(line, sizeof(line));
    assert_int_equal(sscanf(line, "call %llu %39s %zu", &tag, name, &size), 3);
    assert_string_equal(name, bide_op_name(kind));
    assert_true(size <= sizeof(received_call->data));
    read_until(size + 2);
    memcpy(received_call->data, server.in, size);
    assert_memory_equal(server.in + size, "\r\n", 2);
    drop(size + 2);
    received_call->tag = tag;
    assert_int_equal(
        bi_op_codec_decode(&received_call->call, kind, received_call->data, size, error), BIDE_OK);
}

struct op_bytes encode_reply(struct received_call *received_call, int code)
{
    struct op_bytes result = {NULL, 0, 0};
    struct op_bytes all = {NULL, 0, 0};
    received_call->call.op.status = code;
    assert_int_equal(bi_op_codec_encode_result(&received_call->call, &result), BIDE_OK);
    all.data = malloc(result.size + 100);
    assert_non_null(all.data);
    all.size = (size_t)sprintf((char *)all.data, "ANSWER %llu %d %zu\r\n",
                               (unsigned long long)received_call->tag, code, result.size);
    memcpy(all.data + all.size, result.data, result.size);
    memcpy(all.data + all.size + result.size, "\r\n", 2);
    all.size += result.size + 2;
    bi_op_codec_wire_free_bytes(&result);
    bi_op_codec_free_op(&received_call->call);
    return all;
}

void reply(struct received_call *received_call, int code)
{
    struct op_bytes all = encode_reply(received_call, code);
    send_bytes(all.data, all.size);
    bi_op_codec_wire_free_bytes(&all);
}

static void *run_open(void *unused)
{
    (void)unused;
    server.code = bide_open(server.url, NULL, &server.queue);
    snprintf(server.error, sizeof(server.error), "%s", bide_last_error());
    return NULL;
}

int open_client(const char *parameters, void (*handshake)(void))
{
    pthread_t thread;
    snprintf(server.url, sizeof(server.url), "beanstalk://%s?%s", server.path, parameters);
    assert_int_equal(pthread_create(&thread, NULL, run_open, NULL), 0);
    if (handshake != NULL)
        handshake();
    assert_int_equal(pthread_join(thread, NULL), 0);
    return server.code;
}

void open_until_ok(const char *parameters, const char *reply, size_t size)
{
    pthread_t thread;
    int64_t limit = bi_clock_boot() + PATIENCE_MS * INT64_C(1000);
    snprintf(server.url, sizeof(server.url), "beanstalk://%s?%s", server.path, parameters);
    for (;;) {
        assert_int_equal(pthread_create(&thread, NULL, run_open, NULL), 0);
        handshake_early(reply, size);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (server.code == BIDE_OK)
            break;
        assert_int_equal(server.code, BIDE_EIO);
        assert_true(bi_clock_boot() < limit);
        close_connection();
    }
    expect("call 1 ping 0");
    expect("");
}

void submit(bide_op *op)
{
    bide_op *ops[] = {op};
    op->cq = server.cq;
    assert_int_equal(bide_submit(server.queue, ops, 1), 1);
}

void drain_until_completed(bide_op *op)
{
    for (int i = 0; i < PATIENCE_MS / 10 && op->status == BIDE_PENDING; i++)
        assert_true(bide_cq_wait(server.cq, 10) >= 0);
}

void completes(bide_op *op, int code)
{
    drain_until_completed(op);
    if (op->status != code)
        fail_msg("expected %s, got %s: %s", bide_code_name(code), bide_code_name(op->status),
                 op->error);
    assert_true((op->error[0] == 0) == (code == BIDE_OK));
}

bide_op put_of(const char *body)
{
    return (bide_op){.kind = BIDE_OP_PUT, .put = {.topic = {"t", 1}, .body = {body, strlen(body)}}};
}

const bide_slice topic_t = {"t", 1};

bide_op reserve_of(bide_job *job, int64_t timeout_ms)
{
    return (bide_op){.kind = BIDE_OP_RESERVE,
                     .reserve = {.topics = &topic_t,
                                 .topic_count = 1,
                                 .timeout_ms = timeout_ms,
                                 .jobs = job,
                                 .job_max = 1}};
}

int begin_script(void **state)
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

int end_script(void **state)
{
    (void)state;
    if (server.fd >= 0)
        close_connection();
    if (server.listening >= 0)
        stop_listening();
    bide_close(server.queue);
    bide_cq_drain(server.cq, 0);
    assert_int_equal(bide_cq_free(server.cq), BIDE_OK);
    rmdir(server.folder);
    return 0;
}

void open_bided(const char *parameters)
{
    assert_int_equal(open_client(parameters, handshake_bided), BIDE_OK);
}

void open_bided_until_ok(const char *parameters)
{
    open_until_ok(parameters, bided_reply, sizeof(bided_reply) - 1);
}
