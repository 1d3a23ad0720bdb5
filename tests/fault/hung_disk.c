/* SPDX-License-Identifier: MIT */
/*
 * hung_disk.c - a disk that does not answer, or a store that stays away, beside callers and clients that
 * do not depend on it or must not wait for ever.
 */
#include "fault.h"
#include "local_server.h"
#include "vfs.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
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

/* A caller waits for room below max_pending_ops when the store goes away: it is rejected as those that
 * come later are, and does not wait until the store is back. */
static void a_caller_that_waited_for_room_is_rejected_when_the_store_is_lost(void)
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

#ifdef FAULT_SERVER
/* ---- clients of a server ---- */

static void limit_wait(int fd)
{
    struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
}

/* One client sends one put at a time, the disk hangs, and the server must answer another client. */
static void a_commit_that_hangs_does_not_stop_the_server(void)
{
    struct local_server local_server;
    vfs_install();
    vfs_skip_syncs(true);
    serve_begin(&local_server, "sync=full");
    int one = serve_connect(&local_server);
    int other = serve_connect(&local_server);
    limit_wait(other);
    for (int i = 0; i < 50; i++) {
        serve_send(one, "put 0 0 100 1\r\nx\r\n");
        serve_expect(one, "INSERTED");
    }
    vfs_hold_syncs(true);
    serve_send(one, "put 0 0 100 1\r\nx\r\n");
    UNTIL(vfs_held_syncs() > 0);
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
#endif

static const struct test tests[] = {
    TEST(a_caller_that_waited_for_room_is_rejected_when_the_store_is_lost),
#ifdef FAULT_SERVER
    TEST(a_commit_that_hangs_does_not_stop_the_server),
#endif
};
const struct theme hung_disk_theme = {"hung_disk", tests, COUNT(tests)};
