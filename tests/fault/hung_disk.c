/* SPDX-License-Identifier: MIT */
/*
 * hung_disk.c - a disk that does not answer, or a store that stays away, beside callers and clients
 * that do not depend on it or must not wait for ever.
 */
#include "fault.h"
#include "local_server.h"
#include "vfs.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TOPIC "hung"

/* ---- callers that wait for room ---- */

struct caller {
    bide *queue;
    pthread_t thread;
    atomic_bool returned;
    int code;
};

static void *put_one(void *arg)
{
    struct caller *caller = arg;
    caller->code = bide_put(caller->queue, TOPIC, "x", 1, NULL, NULL);
    atomic_store(&caller->returned, true);
    return NULL;
}

/* A caller waits for room below max_pending_ops when the store goes away: it is rejected as those
 * that come later are, and does not wait until the store is back. */
static void caller_waiting_at_the_pending_limit_is_rejected_when_the_store_is_lost(void)
{
    struct caller callers[4];
    vfs_install();
    bide *queue = open_jobs("max_pending_ops=1");
    vfs_hold_syncs(true);
    for (size_t i = 0; i < COUNT(callers); i++) {
        callers[i] = (struct caller){.queue = queue};
        CHECK(pthread_create(&callers[i].thread, NULL, put_one, &callers[i]) == 0);
    }
    UNTIL(vfs_held_syncs() > 0);
    nap_ms(50);
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, 0, SQLITE_IOERR_FSYNC, EIO});
    vfs_fail(&(struct vfs_fault){VFS_OPEN, "", 1, 0, SQLITE_CANTOPEN, EIO});
    vfs_hold_syncs(false);
    for (size_t i = 0; i < COUNT(callers); i++) {
        int64_t limit = clock_us() + 2 * PATIENCE_MS * 1000;
        while (!atomic_load(&callers[i].returned)) {
            CHECK(clock_us() < limit);
            nap_ms(5);
        }
        CHECK(callers[i].code == BIDE_EUNKNOWN || callers[i].code == BIDE_EIO);
        CHECK(pthread_join(callers[i].thread, NULL) == 0);
    }
    vfs_clear_faults();
    UNTIL(bide_put(queue, TOPIC, "x", 1, NULL, NULL) == BIDE_OK);
    OK(bide_close(queue));
}

/* ---- backups ---- */

/* While SQLite copies, a commit that must open the files again waits. So SQLite does not sync the
 * copy, which may be on a disk that hangs; the store does so afterwards, by a call that is not held
 * here. */
static void a_backup_does_not_sync_while_it_copies(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    OK(bide_put(queue, TOPIC, "x", 1, NULL, NULL));
    vfs_hold_syncs(true);
    OK(bide_backup(queue, test_path("copy.db")));
    vfs_hold_syncs(false);
    OK(bide_close(queue));
}

/* A server that stops cancels its calls. A backup that goes on would take the time in which the
 * leases are stored. */
static void a_backup_can_be_cancelled(void)
{
    enum { MANY = 400 };
    static const char body[20000];
    bide_op op = {.kind = BIDE_OP_BACKUP}, next = {.kind = BIDE_OP_BACKUP};
    bide_op *const ops[] = {&op, &next};
    vfs_install();
    bide *queue = open_jobs("sync=off");
    for (int i = 0; i < MANY; i++)
        OK(bide_put(queue, TOPIC, body, sizeof body, NULL, NULL));
    OK(bide_cq_new(&op.cq));
    next.cq = op.cq;
    op.backup.path = test_path("copy.db");
    next.backup.path = test_path("other.db");
    vfs_slow_reads(2000);
    unsigned begun = vfs_count(VFS_READ);
    EQ(bide_submit(queue, ops, 2), 2);
    UNTIL(vfs_count(VFS_READ) > begun + 100);
    OK(bide_cancel_op(queue, &next));
    OK(bide_cancel_op(queue, &op));
    size_t done = 0;
    UNTIL((done += (size_t)bide_cq_wait(op.cq, 100)) == COUNT(ops));
    vfs_slow_reads(0);
    EQ(op.status, BIDE_CANCELLED);
    EQ(next.status, BIDE_CANCELLED);
    CHECK(access(test_path("copy.db"), F_OK) != 0);
    OK(bide_backup(queue, test_path("third.db")));
    OK(bide_cq_free(op.cq));
    OK(bide_close(queue));
}

/* The disk of the copy hangs where no poll can end it. The op must complete nevertheless, and the
 * copy must not appear afterwards. */
static void a_backup_whose_disk_hangs_can_be_cancelled(void)
{
    bide_op op = {.kind = BIDE_OP_BACKUP}, next = {.kind = BIDE_OP_BACKUP};
    bide_op *const ops[] = {&op, &next};
    vfs_install();
    bide *queue = open_jobs("");
    OK(bide_put(queue, TOPIC, "x", 1, NULL, NULL));
    OK(bide_cq_new(&op.cq));
    next.cq = op.cq;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", test_path("copy.db"));
    op.backup.path = path;
    next.backup.path = path;
    vfs_hold_links(true);
    EQ(bide_submit(queue, ops, 2), 2);
    UNTIL(vfs_held_links() > 0);
    OK(bide_cancel_op(queue, &next));
    OK(bide_cancel_op(queue, &op));
    size_t done = 0;
    UNTIL((done += (size_t)bide_cq_wait(op.cq, 100)) == COUNT(ops));
    EQ(op.status, BIDE_CANCELLED);
    EQ(next.status, BIDE_CANCELLED);
    memset(path, 0, sizeof path);
    vfs_hold_links(false);
    OK(bide_backup(queue, test_path("other.db")));
    CHECK(access(test_path("copy.db"), F_OK) != 0);
    OK(bide_cq_free(op.cq));
    OK(bide_close(queue));
}

#ifdef FAULT_SERVER
/* ---- clients of a server ---- */

static void limit_wait(int fd)
{
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
}

/* The client sends one put at a time, until the disk hangs. It waits for the last reply then. */
static void put_until_hung(int fd)
{
    for (int i = 0; i < 50; i++) {
        serve_send(fd, "put 0 0 100 1\r\nx\r\n");
        serve_expect(fd, "INSERTED");
    }
    vfs_hold_syncs(true);
    serve_send(fd, "put 0 0 100 1\r\nx\r\n");
    UNTIL(vfs_held_syncs() > 0);
}

/* The commit of one client hangs, and the server must answer another client. */
static void hanging_commit_does_not_stop_the_server(void)
{
    struct local_server local_server;
    vfs_install();
    vfs_skip_syncs(true);
    serve_begin(&local_server, "sync=full");
    int one = serve_connect(&local_server);
    int other = serve_connect(&local_server);
    limit_wait(other);
    put_until_hung(one);
    serve_send(other, "list-tube-used\r\n");
    serve_expect(other, "USING");
    serve_send(other, "watch empty\r\nignore default\r\nreserve-with-timeout 1\r\n");
    serve_expect(other, "TIMED_OUT");
    vfs_hold_syncs(false);
    serve_expect(one, "INSERTED");
    close(one);
    close(other);
    serve_end(&local_server);
}

/* The same by a client that is alone, so that the loop commits by itself. Returns its
 * connection. */
static int hang_in_loop(const struct local_server *local_server)
{
    int one = serve_connect(local_server);
    limit_wait(one);
    put_until_hung(one);
    return one;
}

/* The server must accept a second client then, and answer it. More than once: the thread that hung
 * is the one that stands by the next time. */
static void hanging_commit_does_not_keep_new_clients_out(void)
{
    struct local_server local_server;
    vfs_install();
    vfs_skip_syncs(true);
    serve_begin(&local_server, "sync=full");
    for (int i = 0; i < 5; i++) {
        int one = hang_in_loop(&local_server);
        int other = serve_connect(&local_server);
        limit_wait(other);
        serve_send(other, "list-tube-used\r\n");
        serve_expect(other, "USING");
        serve_send(other, "watch empty\r\nignore default\r\nreserve-with-timeout 0\r\n");
        serve_expect(other, "TIMED_OUT");
        vfs_hold_syncs(false);
        serve_expect(one, "INSERTED");
        serve_send(other, "watch default\r\nreserve-with-timeout 1\r\n");
        serve_expect(other, "RESERVED");
        close(one);
        close(other);
    }
    serve_end(&local_server);
}

/* A stop closes idle connections at once, waits for the commit, and sends its reply. */
static void a_stop_begins_while_a_commit_hangs(void)
{
    struct local_server local_server;
    vfs_install();
    vfs_skip_syncs(true);
    serve_begin(&local_server, "sync=full");
    int one = hang_in_loop(&local_server);
    int other = serve_connect(&local_server);
    limit_wait(other);
    serve_send(other, "list-tube-used\r\n");
    serve_expect(other, "USING");
    CHECK(kill(getpid(), SIGTERM) == 0);
    char byte;
    CHECK(recv(other, &byte, 1, 0) == 0);
    vfs_hold_syncs(false);
    serve_expect(one, "INSERTED");
    close(one);
    close(other);
    serve_end(&local_server);
}

/* The commit hangs in the loop, fails when the disk is back, and its client may have gone
 * meanwhile. The thread that hung completes it, while the other one runs the loop. */
static void a_commit_that_hangs_and_fails_is_answered(void)
{
    struct local_server local_server;
    vfs_install();
    vfs_skip_syncs(true);
    serve_begin(&local_server, "sync=full");
    for (int i = 0; i < 6; i++) {
        int one = hang_in_loop(&local_server);
        int other = serve_connect(&local_server);
        limit_wait(other);
        serve_send(other, "list-tube-used\r\n");
        serve_expect(other, "USING");
        if (i % 2 == 1)
            close(one);
        serve_send(other, "use t\r\nput 0 0 100 1\r\ny\r\n");
        serve_expect(other, "USING");
        vfs_fail(&(struct vfs_fault){.call = VFS_SYNC,
                                     .nth = 1,
                                     .times = 1 + (unsigned)i / 2,
                                     .code = SQLITE_IOERR_FSYNC,
                                     .system = EIO});
        vfs_hold_syncs(false);
        serve_expect(other, "\r\n");
        if (i % 2 == 0) {
            serve_expect(one, "\r\n");
            close(one);
        }
        UNTIL(vfs_failed() > 0);
        vfs_clear_faults();
        serve_send(other, "put 0 0 100 1\r\nz\r\n");
        serve_expect(other, "INSERTED");
        close(other);
    }
    serve_end(&local_server);
}

struct backup {
    bide *queue;
    pthread_t thread;
};

static void *back_up(void *arg)
{
    bide_backup(((struct backup *)arg)->queue, test_path("copy.db"));
    return NULL;
}

static void *release_links(void *arg)
{
    (void)arg;
    nap_ms(2000);
    vfs_hold_links(false);
    return NULL;
}

/* A server is stopped while the disk of a backup hangs, for longer than stop_timeout. The leases
 * that are held by token are stored as by any other stop. */
static void a_stop_stores_leases_while_a_backup_hangs(void)
{
    struct local_server local_server;
    struct backup backup;
    pthread_t releaser;
    char command[100];
    unsigned long long id, token;
    vfs_install();
    serve_set_stop_timeout(100);
    serve_begin(&local_server, "");
    int one = serve_connect(&local_server);
    limit_wait(one);
    serve_send(one, "put 0 0 100 1\r\nx\r\n");
    serve_expect(one, "INSERTED");
    serve_send(one, "reserve-many 1 0\r\n");
    char reply[100] = "";
    size_t size = 0;
    while (strstr(reply, "\r\nx\r\n") == NULL) {
        ssize_t got = recv(one, reply + size, sizeof reply - 1 - size, 0);
        CHECK(got > 0);
        size += (size_t)got;
    }
    CHECK(sscanf(reply, "RESERVED_MANY 1 %llu %llu", &id, &token) == 2);

    backup.queue = serve_open(&local_server);
    vfs_hold_links(true);
    CHECK(pthread_create(&backup.thread, NULL, back_up, &backup) == 0);
    UNTIL(vfs_held_links() > 0);
    CHECK(pthread_create(&releaser, NULL, release_links, NULL) == 0);
    serve_end(&local_server);
    CHECK(pthread_join(releaser, NULL) == 0);
    CHECK(access(test_path("copy.db"), F_OK) != 0);
    close(one);

    serve_begin(&local_server, "");
    CHECK(pthread_join(backup.thread, NULL) == 0);
    OK(bide_close(backup.queue));
    one = serve_connect(&local_server);
    limit_wait(one);
    snprintf(command, sizeof command, "lease %llu touch %llu\r\n", token, id);
    serve_send(one, command);
    serve_expect(one, "TOUCHED");
    close(one);
    serve_end(&local_server);
}

#define WATCHDOG_MS 2000

static atomic_uint alive_calls;

static void count_alive(void *user)
{
    (void)user;
    atomic_fetch_add(&alive_calls, 1);
}

/* The watchdog is notified while a commit hangs, until that has taken the time of the watchdog, and
 * again when the disk is back. */
static void the_watchdog_is_notified_until_a_commit_hangs_for_its_time(void)
{
    struct local_server local_server;
    vfs_install();
    vfs_skip_syncs(true);
    serve_set_watchdog(WATCHDOG_MS, count_alive);
    serve_begin(&local_server, "sync=full");
    int one = hang_in_loop(&local_server);
    unsigned calls = atomic_load(&alive_calls);
    UNTIL(atomic_load(&alive_calls) > calls);
    nap_ms(WATCHDOG_MS);
    calls = atomic_load(&alive_calls);
    nap_ms(WATCHDOG_MS);
    EQ(atomic_load(&alive_calls), calls);
    vfs_hold_syncs(false);
    serve_expect(one, "INSERTED");
    UNTIL(atomic_load(&alive_calls) > calls);
    close(one);
    serve_end(&local_server);
}
#endif

static const struct test tests[] = {
    TEST(caller_waiting_at_the_pending_limit_is_rejected_when_the_store_is_lost),
    TEST(a_backup_does_not_sync_while_it_copies),
    TEST(a_backup_can_be_cancelled),
    TEST(a_backup_whose_disk_hangs_can_be_cancelled),
#ifdef FAULT_SERVER
    TEST(hanging_commit_does_not_stop_the_server),
    TEST(hanging_commit_does_not_keep_new_clients_out),
    TEST(a_commit_that_hangs_and_fails_is_answered),
    TEST(a_stop_begins_while_a_commit_hangs),
    TEST(a_stop_stores_leases_while_a_backup_hangs),
    TEST(the_watchdog_is_notified_until_a_commit_hangs_for_its_time),
#endif
};
const struct theme hung_disk_theme = {"hung_disk", tests, COUNT(tests)};
