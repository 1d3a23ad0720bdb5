/* SPDX-License-Identifier: MIT */
/* References to topics whose calls are under way when their connection ends. */
#include "puppet.h"

#include "backend/call.h"
#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ROUNDS     50
#define PATIENCE_S 30

struct scene {
    bool owns;     /* the connection has a reference before */
    int deltas[2]; /* of the calls under way, 0: none */
    int codes[2];  /* with which they complete when the connection has gone */
    size_t
        given; /* references that the queue is asked to give back, the client's own calls included */
};

static struct puppet *puppet;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static const struct scene *scene;
static size_t given;

/* ---- clients ---- */

static int open_client(void)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        abort();
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

static void say(int fd, const void *data, size_t size)
{
    if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
}

/* The server has done what it had to do before these. */
static void ask_often(int fd)
{
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 0;
        say(fd, "list-tube-used\r\n", 16);
        while (byte != '\n')
            if (recv(fd, &byte, 1, 0) != 1)
                abort();
    }
}

static void refer(int fd, int delta)
{
    bide_op op = {.kind = BIDE_OP_TOPIC_REF, .topic = {.topic = {"t", 1}, .delta = delta}};
    struct call_bytes bytes = {0};
    char line[64];
    if (bi_call_encode(&op, 0, &bytes) != BIDE_OK)
        abort();
    snprintf(line, sizeof(line), "call 1 topic_ref %zu\r\n", bytes.size);
    say(fd, line, strlen(line));
    say(fd, bytes.data, bytes.size);
    say(fd, "\r\n", 2);
    bi_call_bytes_free(&bytes);
}

/* How many ops about the topic have come that give back, or all of them. */
static size_t count_refs(bool back)
{
    size_t count = 0;
    pthread_mutex_lock(&puppet->lock);
    for (size_t i = 0; i < puppet->note_count; i++) {
        const struct puppet_note *note = &puppet->notes[i];
        count += note->kind == BIDE_OP_TOPIC_REF && strcmp(note->text, "t") == 0 &&
                 (!back || note->delta < 0);
    }
    pthread_mutex_unlock(&puppet->lock);
    return count;
}

static void *run_clients(void *arg)
{
    (void)arg;
    int holder = open_client();
    int other = open_client();
    size_t calls = scene->owns;
    if (scene->owns)
        refer(holder, 1);
    ask_often(holder);
    puppet_rule(puppet, BIDE_OP_TOPIC_REF, HELD, BIDE_OK);
    for (int i = 0; i < 2; i++)
        if (scene->deltas[i] != 0) {
            refer(holder, scene->deltas[i]);
            calls++;
        }
    say(holder, "list-tube-used\r\n",
        16); /* whose answer is not read: then the connection is reset */
    while (count_refs(false) < calls)
        ask_often(other);
    ask_often(other);
    puppet_rule(puppet, BIDE_OP_TOPIC_REF, AT_ONCE, BIDE_OK);
    close(holder);
    ask_often(other);
    for (int i = 0; i < 2; i++)
        if (scene->deltas[i] != 0)
            puppet_let_go(puppet, BIDE_OP_TOPIC_REF, scene->codes[i]);
    ask_often(other);
    given = count_refs(true);
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

/* ---- the server ---- */

static void play(const struct scene *what)
{
    char error[BIDE_ERROR_SIZE];
    struct server *server;
    pthread_t thread;
    scene = what;
    puppet = puppet_new();
    struct server_settings settings = {
        .queue = &puppet->queue,
        .options = BIDE_OPTIONS_INIT,
        .limits = {.max_connections = 10,
                   .max_tubes_per_connection = 10,
                   .stop_timeout_ms = 10000,
                   .max_client_bytes = 1 << 20},
    };
    assert_int_equal(bi_server_new(&settings, &server, error), BIDE_OK);
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/bide-reference-%d", (int)getpid());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 10), 0);
    assert_int_equal(bi_server_listen(server, fd), BIDE_OK);
    assert_int_equal(pthread_create(&thread, NULL, run_clients, NULL), 0);
    bi_server_run(server);
    pthread_join(thread, NULL);
    unlink(address.sun_path);
    bi_server_free(server);
    puppet_free(puppet);
    assert_int_equal(given, what->given);
}

/* ---- tests ---- */

static void one_that_is_made_too_late_goes_back(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1}, .codes = {BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {1, 1}, .codes = {BIDE_OK, BIDE_OK}, .given = 3});
}

static void one_that_is_not_made_is_not_given_back(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1}, .codes = {BIDE_CANCELLED}, .given = 0});
    play(&(struct scene){
        .owns = true, .deltas = {1, 1}, .codes = {BIDE_OK, BIDE_ENOMEM}, .given = 2});
}

static void one_that_its_client_gives_back_goes_back_once(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1, -1}, .codes = {BIDE_OK, BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {-1}, .codes = {BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {-1, 1}, .codes = {BIDE_OK, BIDE_OK}, .given = 2});
}

static void one_that_could_not_be_given_back_is_given_back_again(void **state)
{
    (void)state;
    play(&(struct scene){.owns = true, .deltas = {-1}, .codes = {BIDE_CANCELLED}, .given = 2});
    play(&(struct scene){.deltas = {1, -1}, .codes = {BIDE_OK, BIDE_CANCELLED}, .given = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_made_too_late_goes_back),
        cmocka_unit_test(one_that_is_not_made_is_not_given_back),
        cmocka_unit_test(one_that_its_client_gives_back_goes_back_once),
        cmocka_unit_test(one_that_could_not_be_given_back_is_given_back_again),
    };
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
