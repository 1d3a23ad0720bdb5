/* SPDX-License-Identifier: MIT */
/*
 * hung_disk.c - a disk that does not answer, or a store that stays away, beside callers that do not
 * depend on it or must not wait for ever.
 */
#include "fault.h"
#include "vfs.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

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

static const struct test tests[] = {
    TEST(a_caller_that_waited_for_room_is_rejected_when_the_store_is_lost),
};
const struct theme hung_disk_theme = {"hung_disk", tests, COUNT(tests)};
