/* SPDX-License-Identifier: MIT */
/* A server that gets no memory for a timer, or to watch a socket, tries again. */
#include "unit.h"

#include "run_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define STOP_TIMEOUT_MS 1234
#define LINGER_US       10000  /* the first timer of a connection that lingers */
#define ACCEPT_RETRY_US 100000 /* when accept() had no descriptor */
#define BODY_SIZE       200000
#define MANY            50

/* What fails, once. */
static enum { NOTHING, FIRST_LISTEN, REST, LISTEN_AGAIN, LINGER, STOP, SOON } failing;
static bool failed;
static bool is_out_of_descriptors;

/* ---- what the server calls ---- */

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);
int __real_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags);

static bool listens(const struct event *event)
{
    int yes = 0;
    socklen_t size = sizeof(yes);
    int fd = event_get_fd(event);
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0;
}

static bool is_timer(const struct timeval *after, long seconds, long us)
{
    return after != NULL && after->tv_sec == seconds && after->tv_usec == us;
}

static bool must_fail(const struct event *event, const struct timeval *after)
{
    switch (failing) {
    case FIRST_LISTEN:
        return listens(event);
    case LISTEN_AGAIN:
        return listens(event) && is_out_of_descriptors;
    case REST:
        return is_timer(after, 0, ACCEPT_RETRY_US);
    case LINGER:
        return is_timer(after, 0, LINGER_US);
    case STOP:
        return is_timer(after, STOP_TIMEOUT_MS / 1000, STOP_TIMEOUT_MS % 1000 * 1000);
    case SOON: /* until one second before the end of a lease of eight seconds */
        return after != NULL && event_get_fd(event) < 0 &&
               (event_get_events(event) & EV_PERSIST) == 0 && after->tv_sec <= 7;
    case NOTHING:
        break;
    }
    return false;
}

int __wrap_event_add(struct event *event, const struct timeval *after)
{
    if (__atomic_load_n(&failed, __ATOMIC_ACQUIRE) || !must_fail(event, after))
        return __real_event_add(event, after);
    __atomic_store_n(&failed, true, __ATOMIC_RELEASE);
    errno = ENOMEM;
    return -1;
}

int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    if ((failing != REST && failing != LISTEN_AGAIN) || is_out_of_descriptors)
        return __real_accept4(fd, from, size, flags);
    is_out_of_descriptors = true;
    errno = EMFILE;
    return -1;
}

/* ---- clients ---- */

static struct sockaddr_in tcp_address;
static bool answered;
static int left_open = -1;

static int open_tcp_client(void)
{
    int small = 4096;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    if (fd < 0 || connect(fd, (struct sockaddr *)&tcp_address, sizeof(tcp_address)) != 0)
        abort();
    return fd;
}

static void say(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        if (sent <= 0)
            abort();
        text += sent;
        size -= (size_t)sent;
    }
}

/* The lines of the reply, and a NUL; false: nothing comes. */
static bool ask(int fd, const char *words, char *reply, size_t room, int lines)
{
    size_t size = 0;
    say(fd, words, strlen(words));
    while (lines > 0 && size < room - 1) {
        if (recv(fd, reply + size, 1, 0) != 1)
            return false;
        lines -= reply[size++] == '\n';
    }
    reply[size] = 0;
    return true;
}

static void stop(void)
{
    kill(getpid(), SIGTERM);
}

static void *ask_once(void *arg)
{
    char reply[100];
    (void)arg;
    int fd = open_client();
    answered = ask(fd, "list-tube-used\r\n", reply, sizeof(reply), 1);
    close(fd);
    stop();
    return NULL;
}

static void put_large(int fd)
{
    char head[100], reply[100];
    char *body = malloc(BODY_SIZE + 2);
    if (body == NULL)
        abort();
    memset(body, 'b', BODY_SIZE);
    memcpy(body + BODY_SIZE, "\r\n", 2);
    snprintf(head, sizeof(head), "put 0 0 60 %d\r\n", BODY_SIZE);
    say(fd, head, strlen(head));
    say(fd, body, BODY_SIZE + 2);
    if (!ask(fd, "", reply, sizeof(reply), 1))
        abort();
    free(body);
}

static bool counts_connections(int fd, const char *figure)
{
    char reply[8192];
    return ask(fd, "stats\r\n", reply, sizeof(reply), 1) &&
           ask(fd, "", reply, (size_t)strtoul(reply + 3, NULL, 10) + 1, 1000) &&
           strstr(reply, figure) != NULL && recv(fd, reply, 2, MSG_WAITALL) == 2;
}

/* The client reads its reply when the server has closed, or lingers. */
static void *quit_and_read_later(void *arg)
{
    size_t size = 0;
    (void)arg;
    int other = open_tcp_client();
    put_large(other);
    int fd = open_tcp_client();
    say(fd, "peek 1\r\nquit\r\n", 14);
    while (!__atomic_load_n(&failed, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (char bytes[4096];;) {
        ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    for (int i = 0; i < PATIENCE_S * 100 && !answered; i++) {
        answered = size > BODY_SIZE && counts_connections(other, "current-connections: 1\n");
        if (!answered)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    close(fd);
    close(other);
    stop();
    return NULL;
}

/* Does not read its replies, so that only the time limit ends a stop. */
static void *stop_without_reading(void *arg)
{
    (void)arg;
    left_open = open_client();
    put_large(left_open);
    for (int i = 0; i < MANY; i++)
        say(left_open, "peek 1\r\n", 8);
    char byte;
    if (recv(left_open, &byte, 1, 0) != 1)
        abort();
    stop();
    return NULL;
}

static void *hold_and_wait(void *arg)
{
    char reply[100] = "";
    (void)arg;
    int fd = open_client();
    answered = ask(fd, "put 0 0 8 1\r\nx\r\nreserve\r\n", reply, sizeof(reply), 3) &&
               ask(fd, "reserve-with-timeout 20\r\n", reply, sizeof(reply), 1) &&
               strcmp(reply, "DEADLINE_SOON\r\n") == 0;
    close(fd);
    stop();
    return NULL;
}

/* ---- the server ---- */

static struct server_settings settings_of(void)
{
    struct server_settings settings = {
        .limits = {.max_connections = 100,
                   .stop_timeout_ms = STOP_TIMEOUT_MS,
                   .max_client_bytes = 1 << 24},
    };
    bide_options options = BIDE_OPTIONS_INIT;
    options.max_job_size = BODY_SIZE;
    assert_int_equal(bide_open("memory:", &options, &settings.queue), BIDE_OK);
    return settings;
}

static void begin(int what)
{
    failing = what;
    failed = answered = is_out_of_descriptors = false;
    alarm(2 * PATIENCE_S); /* a server that does not end fails the test */
}

static void serve(int what, void *(*clients)(void *arg))
{
    struct server_settings settings = settings_of();
    begin(what);
    run_server(&settings, clients);
    assert_true(failed);
    assert_int_equal(bide_close(settings.queue), BIDE_OK);
}

static void a_socket_that_could_not_be_watched_is_watched_later(void **state)
{
    (void)state;
    serve(FIRST_LISTEN, ask_once);
    assert_true(answered);
    serve(LISTEN_AGAIN, ask_once);
    assert_true(answered);
}

static void accept_resumes_without_a_timer(void **state)
{
    (void)state;
    serve(REST, ask_once);
    assert_true(answered);
}

static void stop_ends_without_a_timer(void **state)
{
    (void)state;
    serve(STOP, stop_without_reading);
    close(left_open);
}

static void deadline_soon_is_sent_without_a_timer(void **state)
{
    (void)state;
    serve(SOON, hold_and_wait);
    assert_true(answered);
}

static void lingering_connection_ends_without_a_timer(void **state)
{
    struct server_settings settings = settings_of();
    char error[BIDE_ERROR_SIZE];
    struct server *server;
    pthread_t thread;
    socklen_t size = sizeof(tcp_address);
    (void)state;
    begin(LINGER);
    settings.limits.stop_timeout_ms = 600000;
    assert_int_equal(bi_server_new(&settings, &server, error), BIDE_OK);
    tcp_address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&tcp_address, sizeof(tcp_address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&tcp_address, &size), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(bi_server_listen(server, &bi_beanstalk_protocol, fd, error), BIDE_OK);
    assert_int_equal(pthread_create(&thread, NULL, quit_and_read_later, NULL), 0);
    bi_server_run(server);
    pthread_join(thread, NULL);
    bi_server_free(server);
    assert_true(failed && answered);
    assert_int_equal(bide_close(settings.queue), BIDE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_that_could_not_be_watched_is_watched_later),
        cmocka_unit_test(accept_resumes_without_a_timer),
        cmocka_unit_test(deadline_soon_is_sent_without_a_timer),
        cmocka_unit_test(lingering_connection_ends_without_a_timer),
        cmocka_unit_test(stop_ends_without_a_timer),
    };
    return cmocka_run_group_tests_name("server_timer", tests, NULL, NULL);
}
