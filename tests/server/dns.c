/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* RTLD_NEXT */
/*
 * dns.c - a client whose name servers do not answer: timeouts are kept, close returns, threads are
 * bounded. Nothing is measured: the name servers are silent until the test lets them answer.
 */
#include "bided_suite.h"

#include "remote/remote_socket.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- name servers ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool silent;
static int asking;
static _Atomic int asked_most;

/* A numeric lookup, which is done with the lock of the library, takes a moment. */
static atomic_bool slow;
static atomic_bool entered; /* there is such a lookup */

typedef int (*resolver)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static resolver real;
static pthread_once_t real_once = PTHREAD_ONCE_INIT;

static void find_real(void)
{
    union {
        void *object;
        resolver function;
    } found = {.object = dlsym(RTLD_NEXT, "getaddrinfo")};
    real = found.function;
}

/* In the place of the system's: names that end with ".test" are this machine. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    pthread_once(&real_once, find_real);
    if (atomic_exchange(&slow, false)) {
        atomic_store(&entered, true);
        usleep(200000);
    }
    const char *end = host == NULL ? NULL : strrchr(host, '.');
    if (end == NULL || strcmp(end, ".test") != 0 || (hints->ai_flags & AI_NUMERICHOST) != 0)
        return real(host, service, hints, found);
    pthread_mutex_lock(&lock);
    if (++asking > asked_most)
        asked_most = asking;
    while (silent)
        pthread_cond_wait(&changed, &lock);
    asking--;
    pthread_mutex_unlock(&lock);
    return real("127.0.0.1", service, hints, found);
}

static void be_silent(bool now)
{
    pthread_mutex_lock(&lock);
    silent = now;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int asking_now(void)
{
    pthread_mutex_lock(&lock);
    int now = asking;
    pthread_mutex_unlock(&lock);
    return now;
}

static const char *client_url(const char *host, int port)
{
    static char url[200];
    snprintf(url, sizeof url,
             "beanstalk://%s:%d?connect_timeout=200ms&reconnect_min=1ms&reconnect_max=10ms", host,
             port);
    return url;
}

/* ---- opening ---- */

static void open_times_out_and_the_next_one_uses_the_late_answer(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int port = port_of(bided, "127.0.0.1");
    bide *queue = NULL;
    be_silent(true);
    CODE(bide_open(client_url("first.test", port), NULL, &queue), BIDE_EIO);
    CHECK(strstr(bide_last_error(), "name server") != NULL);
    CODE(bide_open(client_url("first.test", port), NULL, &queue), BIDE_EIO);
    EQ(asking_now(), 1);
    be_silent(false);
    UNTIL(asking_now() == 0);
    OK(bide_open(client_url("first.test", port), NULL, &queue));
    OK(bide_ping(queue));
    OK(bide_close(queue));
    stop(bided);
}

static void lookups_are_bounded(void)
{
    bide *queue = NULL;
    char host[40];
    be_silent(true);
    for (int i = 0; i < 2 * RESOLVE_MAX; i++) {
        snprintf(host, sizeof host, "many%d.test", i);
        CODE(bide_open(client_url(host, 1), NULL, &queue), BIDE_EIO);
    }
    CHECK(strstr(bide_last_error(), "other names") != NULL);
    EQ(asked_most, RESOLVE_MAX);
    be_silent(false);
    UNTIL(asking_now() == 0);
}

/* ---- a connection that is lost ---- */

static void *reserve_shortly(void *arg)
{
    bide_job job;
    CODE(bide_reserve(arg, "a", 50, &job), BIDE_TIMED_OUT);
    return NULL;
}

/* Calls and close, while a lookup is in progress that will not end. */
static void times_are_kept(bide *queue)
{
    bide_job job;
    pthread_t thread;
    /* The connection is missed, and a first attempt begins: others come while it waits. */
    CODE(bide_reserve(queue, "a", 50, &job), BIDE_TIMED_OUT);
    UNTIL(asking_now() == 1 || bide_reserve(queue, "a", 1, &job) != BIDE_TIMED_OUT);
    CHECK(pthread_create(&thread, NULL, reserve_shortly, queue) == 0);
    CODE(bide_reserve(queue, "a", 100, &job), BIDE_TIMED_OUT);
    CHECK(pthread_join(thread, NULL) == 0);
    CODE(bide_put(queue, "a", "x", 1, NULL, NULL), BIDE_EIO);
    OK(bide_close(queue));
    EQ(asking_now(), 1);
    be_silent(false);
    UNTIL(asking_now() == 0);
}

static void bided_client_keeps_its_timeouts_during_lookup(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    bide *queue = NULL;
    OK(bide_open(client_url("second.test", port_of(bided, "127.0.0.1")), NULL, &queue));
    be_silent(true);
    stop(bided);
    times_are_kept(queue);
}

/* ---- a plain beanstalkd ---- */

static int listen_somewhere(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 5) == 0 &&
          getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* Says what a beanstalkd says to the first question, and closes when the name servers are
 * silent. */
static void *be_plain(void *arg)
{
    static const char unknown[] = "UNKNOWN_COMMAND\r\nUNKNOWN_COMMAND\r\n";
    char bytes[100];
    int listener = *(int *)arg;
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && recv(fd, bytes, sizeof bytes, 0) > 0);
    CHECK(send(fd, unknown, sizeof unknown - 1, MSG_NOSIGNAL) == sizeof unknown - 1);
    pthread_mutex_lock(&lock);
    while (!silent)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    close(listener);
    close(fd);
    return NULL;
}

static void beanstalkd_client_keeps_its_timeouts_during_lookup(void)
{
    int port, listener = listen_somewhere(&port);
    bide *queue = NULL;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, be_plain, &listener) == 0);
    OK(bide_open(client_url("third.test", port), NULL, &queue));
    be_silent(true);
    CHECK(pthread_join(thread, NULL) == 0);
    times_are_kept(queue);
}

/* ---- children ---- */

/* Opens and uses a queue of its own in a child that is forked now. The child has no other
 * threads. */
static void use_in_child(const char *host, int port)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        bide *queue = NULL;
        char url[200];
        snprintf(url, sizeof url, "beanstalk://%s:%d?connect_timeout=10s", host, port);
        silent = false;
        alarm(20); /* it hangs */
        bool good = bide_open(url, NULL, &queue) == BIDE_OK && bide_ping(queue) == BIDE_OK &&
                    bide_close(queue) == BIDE_OK;
        _exit(good ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    EQ(WEXITSTATUS(status), 0);
}

static void child_resolves_names_while_its_parent_waits(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int port = port_of(bided, "127.0.0.1");
    bide *queue = NULL;
    be_silent(true);
    CODE(bide_open(client_url("fourth.test", port), NULL, &queue), BIDE_EIO);
    EQ(asking_now(), 1);
    use_in_child("fourth.test", port);
    use_in_child("fifth.test", port);
    be_silent(false);
    UNTIL(asking_now() == 0);
    OK(bide_open(client_url("fourth.test", port), NULL, &queue));
    OK(bide_ping(queue)); /* the thread of the queue has begun */
    use_in_child("fourth.test", port);
    OK(bide_ping(queue));
    OK(bide_close(queue));
    stop(bided);
}

/*
 * The allocator of older address sanitizers (LLVM 14) takes no locks in fork(): a child hangs in its
 * first allocation if a thread of its parent was inside the allocator. The threads of these tests
 * are there only with the lock of the library, which fork() takes, and while they begin or end. So
 * no child is forked until they have begun, and none ends while children are forked.
 */

static atomic_bool over;
static atomic_uint looking;

static void *look_up(void *arg)
{
    char reason[BIDE_ERROR_SIZE];
    (void)arg;
    atomic_fetch_add(&looking, 1);
    while (!atomic_load(&over)) {
        struct lookup *lookup = bi_resolve_begin("127.0.0.1", "1", reason);
        CHECK(lookup != NULL);
        bi_resolve_end(lookup);
    }
    return NULL;
}

static void a_child_may_be_forked_at_any_moment_of_a_lookup(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int port = port_of(bided, "127.0.0.1");
    pthread_t threads[2];
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, look_up, NULL) == 0);
    UNTIL(atomic_load(&looking) == COUNT(threads));
    for (int i = 0; i < 100; i++)
        use_in_child("127.0.0.1", port);
    atomic_store(&over, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    stop(bided);
}

/* ---- a fork that begins before the first lookup ---- */

static void *look_up_once(void *arg)
{
    char reason[BIDE_ERROR_SIZE];
    struct lookup *lookup = bi_resolve_begin("127.0.0.1", "1", reason);
    CHECK(lookup != NULL);
    bi_resolve_end(lookup);
    while (pause() != 0)
        continue;
    return arg;
}

/* Runs in fork(), after it has begun: the first lookup of this process begins. */
static void look_up_during_fork(void)
{
    static bool started;
    pthread_t thread;
    if (started)
        return;
    started = true;
    atomic_store(&slow, true);
    CHECK(pthread_create(&thread, NULL, look_up_once, NULL) == 0);
    CHECK(pthread_detach(thread) == 0);
    UNTIL(atomic_load(&entered));
}

static void a_child_may_be_forked_before_the_first_lookup(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int port = port_of(bided, "127.0.0.1");
    CHECK(pthread_atfork(look_up_during_fork, NULL, NULL) == 0);
    use_in_child("127.0.0.1", port);
    stop(bided);
}

static const struct test tests[] = {
    TEST(a_child_may_be_forked_before_the_first_lookup),
    TEST(open_times_out_and_the_next_one_uses_the_late_answer),
    TEST(lookups_are_bounded),
    TEST(bided_client_keeps_its_timeouts_during_lookup),
    TEST(beanstalkd_client_keeps_its_timeouts_during_lookup),
    TEST(child_resolves_names_while_its_parent_waits),
    TEST(a_child_may_be_forked_at_any_moment_of_a_lookup),
};

const struct theme dns_theme = {"dns", tests, COUNT(tests)};
