/* SPDX-License-Identifier: MIT */
/* Lists that wait, as all do while a queue is being loaded: how many a server has memory for. */
#include "stub_server.h"

#define CLIENTS   40
#define MEMORY    (8 << 20)
#define FEW       20 /* pages of jobs that MEMORY has room for, at most */
#define LIST_JOBS "list-jobs default ready 1000\r\n"

static bide_op_kind kind;
static const char *command;
static size_t held, left, refused;

static size_t count_held(void)
{
    pthread_mutex_lock(&stub->lock);
    size_t count = stub->held_count;
    pthread_mutex_unlock(&stub->lock);
    return count;
}

static bool is_refused(int fd)
{
    char text[100] = "";
    ssize_t got = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_PEEK);
    return got > 0 && strstr(text, "OUT_OF_MEMORY\r\n") != NULL;
}

static void *run_clients(void *arg)
{
    (void)arg;
    int fds[CLIENTS], other = open_client();
    stub_rule(stub, kind, HELD, BIDE_OK);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = open_client();
        send_bytes(fds[i], "list-tube-used\r\n",
                   16); /* not read: the connection is reset when it is closed */
        send_bytes(fds[i], command, strlen(command));
    }
    ping_server(other);
    held = count_held();
    refused = 0;
    for (int i = 0; i < CLIENTS; i++)
        refused += is_refused(fds[i]);

    /* What they wait for is not wanted any more when they go. */
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    for (int i = 0; i < PATIENCE_S * 100 && count_held() > 0; i++) {
        ping_server(other);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    left = count_held();
    while (stub_release(stub, kind, BIDE_ENOMEM))
        continue;
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

static void waiting_job_pages_count_as_client_memory(void **state)
{
    (void)state;
    kind = BIDE_OP_LIST;
    command = LIST_JOBS;
    serve_stub(run_clients, MEMORY);
    assert_in_range(held, 1, FEW);
    assert_int_equal(held + refused, CLIENTS);
    assert_int_equal(left, 0);
}

static void waiting_tube_lists_count_as_client_memory(void **state)
{
    (void)state;
    kind = BIDE_OP_TOPICS;
    command = "list-tubes\r\n";
    serve_stub(run_clients, MEMORY / 8);
    assert_in_range(held, 1, FEW);
    assert_int_equal(held + refused, CLIENTS);
    assert_int_equal(left, 0);
}

/* ---- a stop ---- */

static char heard[100];

static void *stop_while_it_waits(void *arg)
{
    (void)arg;
    int waiting = open_client(), other = open_client();
    stub_rule(stub, kind, HELD, BIDE_OK);
    send_bytes(waiting, command, strlen(command));
    ping_server(other);
    kill(getpid(), SIGTERM);
    ssize_t got = recv(waiting, heard, sizeof(heard) - 1, 0);
    heard[got > 0 ? got : 0] = 0;
    close(waiting);
    close(other);
    return NULL;
}

/* No reply says that the server stops: TIMED_OUT is none to a list, or a reserve-job. */
static void waiting_list_gets_no_reply_at_shutdown(void **state)
{
    (void)state;
    static const struct {
        bide_op_kind kind;
        const char *command;
    } cases[] = {
        {BIDE_OP_TOPICS, "list-tubes\r\n"},
        {BIDE_OP_LIST, LIST_JOBS},
        {BIDE_OP_RESERVE_JOB, "reserve-job 1\r\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kind = cases[i].kind;
        command = cases[i].command;
        serve_stub(stop_while_it_waits, MEMORY);
        assert_string_equal(heard, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_job_pages_count_as_client_memory),
        cmocka_unit_test(waiting_tube_lists_count_as_client_memory),
        cmocka_unit_test(waiting_list_gets_no_reply_at_shutdown),
    };
    return cmocka_run_group_tests_name("listing", tests, NULL, NULL);
}
