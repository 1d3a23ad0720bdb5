/* SPDX-License-Identifier: MIT */
/*
 * disk_full.c - the disk is full, and has room again.
 *
 * Once on a disk that the VFS makes small, and once on a real one of a few megabytes, where the
 * system lets us have it.
 */
#define _GNU_SOURCE /* unshare */
#include "snapshot.h"
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FEW      40    /* jobs that are there before the disk is full */
#define PUTS_MAX 20000 /* more than any of these disks can take */
#define BODY     3000

static int put_body(bide *queue)
{
    static const char body[BODY] = "takes room";
    return bide_put(queue, "work", body, sizeof(body), NULL, NULL);
}

static void put_few(bide *queue)
{
    for (int i = 0; i < FEW; i++)
        OK(put_body(queue));
}

/* Puts until there is no more room; answers how many were taken. */
static int put_until_full(bide *queue)
{
    for (int i = 0; i < PUTS_MAX; i++) {
        int code = put_body(queue);
        if (code == BIDE_OK)
            continue;
        if (code != BIDE_EFULL)
            FAIL("put %d: expected BIDE_EFULL, got %s: %s", i, bide_code_name(code),
                 bide_last_error());
        if (strstr(bide_last_error(), "jobs.db") == NULL)
            FAIL("expected the name of the file in \"%s\"", bide_last_error());
        return i;
    }
    FAIL("%d puts, and the disk is not full", PUTS_MAX);
}

/* Every job can be taken and finished, half of them with a result. */
static void work_off(bide *queue, int count)
{
    for (int i = 0; i < count; i++) {
        bide_job job;
        OK(bide_reserve(queue, "work", PATIENCE_MS, &job));
        EQ(job.body_size, BODY);
        if (i % 2 == 0)
            OK(bide_delete(queue, job.id, job.token));
        else
            OK(bide_done(queue, job.id, job.token, "result", 6, HOUR_MS));
        bide_job_clear(&job);
    }
}

static void check_count(bide *queue, int count)
{
    struct snapshot *snapshot = snapshot_take(queue);
    EQ(snapshot->count, count);
    snapshot_free(snapshot);
}

/* ---- a small disk by the VFS ---- */

static void full_disk_rejects_puts_until_there_is_space(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    put_few(queue);
    vfs_limit(vfs_bytes_used() + 100000);
    int taken = FEW + put_until_full(queue);
    check_count(queue, taken);
    work_off(queue, FEW / 2);
    vfs_limit(0);
    UNTIL(put_body(queue) == BIDE_OK);
    snapshot_check_reopened(url_of("jobs.db", ""), queue);
}

/* Something lies where the filler would be: there is none, and all else is as it should be. */
static void without_ballast_puts_resume_when_there_is_space(void)
{
    vfs_install();
    CHECK(mkdir(test_path("jobs.db-filler"), 0777) == 0);
    bide *queue = open_jobs("");
    put_few(queue);
    vfs_limit(vfs_bytes_used() + 100000);
    int taken = FEW + put_until_full(queue);
    check_count(queue, taken);
    vfs_limit(0);
    UNTIL(put_body(queue) == BIDE_OK);
    snapshot_check_reopened(url_of("jobs.db", ""), queue);
}

/* A quota, or the largest file: what is refused is not a full disk to the system, but one to us.
 * Whatever lacked room was not stored, and that is known without a look at the files. */
static void refuse_for(int system)
{
    fresh_folder("file");
    bide *queue = open_url(url_of("file/jobs.db", ""));
    put_few(queue);
    vfs_limit_as(vfs_bytes_used() + 100000, system);
    unsigned opened = vfs_count(VFS_OPEN);
    int taken = FEW + put_until_full(queue);
    for (int i = 0; i < 5; i++)
        EQ(put_body(queue), BIDE_EFULL);
    check_count(queue, taken);
    work_off(queue, taken);
    EQ(vfs_count(VFS_OPEN), opened);
    vfs_limit(0);
    UNTIL(put_body(queue) == BIDE_OK);
    snapshot_check_reopened(url_of("file/jobs.db", ""), queue);
}

static void a_quota_or_a_file_limit_is_a_full_disk(void)
{
    vfs_install();
    refuse_for(EDQUOT);
    refuse_for(EFBIG);
    refuse_for(ENOSPC);
}

/* The free space of the file system is not available to a user whose quota is used up. */
static void puts_are_rejected_while_ballast_cannot_be_created(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    put_few(queue);
    vfs_limit_as(vfs_bytes_used() + 100000, EDQUOT);
    put_until_full(queue);
    vfs_limit_as(vfs_bytes_used() + (1 << 20), EDQUOT); /* room for jobs, and none for the filler */
    for (int i = 0; i < 10; i++) {
        usleep(50000);
        EQ(put_body(queue), BIDE_EFULL);
    }
    CHECK(!file_exists(test_path("jobs.db-filler")));
    vfs_limit(0);
    UNTIL(put_body(queue) == BIDE_OK);
    CHECK(file_exists(test_path("jobs.db-filler")));
    snapshot_check_reopened(url_of("jobs.db", ""), queue);
}

/* ---- a small disk ---- */

/* Mounts a disk of so many kilobytes, seen by this process only; false if we may not. */
static bool mount_disk(int size_kb)
{
    char options[32];
    snprintf(options, sizeof options, "size=%dk", size_kb);
    const char *folder = fresh_folder("disk");
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("bide-fault", folder, "tmpfs", 0, options) == 0;
}

/* Ends the mount, so that the folder can be removed. */
static void unmount_disk(void)
{
    CHECK(umount2(test_path("disk"), MNT_DETACH) == 0);
}

/* A file of another program that takes so much space; 0: all that is left. */
static void take_room(int64_t bytes)
{
    static const char zeros[4096];
    int fd = open(test_path("disk/ballast"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    CHECK(fd >= 0);
    for (int64_t i = 0; bytes == 0 || i < bytes; i += (int64_t)sizeof(zeros))
        if (write(fd, zeros, sizeof(zeros)) != (ssize_t)sizeof(zeros))
            break;
    close(fd);
}

static void give_room(void)
{
    CHECK(unlink(test_path("disk/ballast")) == 0);
}

static void real_full_disk_rejects_puts_until_there_is_space(void)
{
    if (!mount_disk(8192))
        return;
    take_room(3 << 20);
    bide *queue = open_url(url_of("disk/jobs.db", ""));
    CHECK(file_exists(test_path("disk/jobs.db-filler")));
    put_few(queue);
    int taken = FEW + put_until_full(queue);
    EQ(put_body(queue), BIDE_EFULL);
    check_count(queue, taken);
    work_off(queue, taken / 2);
    give_room();
    UNTIL(put_body(queue) == BIDE_OK);
    UNTIL(file_exists(test_path("disk/jobs.db-filler")));
    snapshot_check_reopened(url_of("disk/jobs.db", ""), queue);
    unmount_disk();
}

/* Only finished jobs free space. */
static void consumed_real_full_disk_accepts_puts_again(void)
{
    if (!mount_disk(8192))
        return;
    bide *queue = open_url(url_of("disk/jobs.db", ""));
    int taken = put_until_full(queue);
    CHECK(taken > 100);
    for (int i = 0; i < taken; i++) {
        bide_job job;
        OK(bide_reserve(queue, "work", PATIENCE_MS, &job));
        OK(bide_delete(queue, job.id, job.token));
        bide_job_clear(&job);
    }
    UNTIL(put_body(queue) == BIDE_OK);
    snapshot_check_reopened(url_of("disk/jobs.db", ""), queue);
    unmount_disk();
}

/* Small puts are accepted again soon, without any other write. */
static void puts_resume_when_a_real_disk_has_space(void)
{
    for (int deleted = 96; deleted < 106; deleted += 2) {
        static const char body[60000] = "takes room";
        int taken = 0;
        if (!mount_disk(12288))
            return;
        bide *queue = open_url(url_of("disk/jobs.db", ""));
        while (taken < PUTS_MAX &&
               bide_put(queue, "work", body, sizeof(body), NULL, NULL) == BIDE_OK)
            taken++;
        CHECK(taken > deleted && taken < PUTS_MAX);
        for (int i = 0; i < deleted; i++) {
            bide_job job;
            OK(bide_reserve(queue, "work", PATIENCE_MS, &job));
            OK(bide_delete(queue, job.id, job.token));
            bide_job_clear(&job);
        }
        UNTIL(bide_put(queue, "small", "hello", 5, NULL, NULL) == BIDE_OK);
        OK(bide_close(queue));
        unmount_disk();
    }
}

/* ---- emptying a full disk ---- */

#define LARGE 500000

enum emptying { BY_PURGE, BY_MANY, BY_SCATTERED, ONE_BY_ONE };

static int put_of(bide *queue, size_t size)
{
    static const char body[LARGE] = "takes room";
    return bide_put(queue, "work", body, size, NULL, NULL);
}

/* So many in one call, each at some distance from the next. What one call deletes must have room in
 * the filler: a page for each of those that lie scattered. */
static void delete_many(bide *queue, int count, size_t at_once, int stride)
{
    static bide_finish_item items[BIDE_BATCH_JOBS];
    for (int first = 0; first < stride; first++)
        for (int id = 1 + first; id <= count;) {
            size_t n = 0;
            for (; n < at_once && id <= count; id += stride)
                items[n++] = (bide_finish_item){.id = (uint64_t)id};
            OK(bide_finish_many(queue, items, n));
            for (size_t i = 0; i < n; i++)
                EQ(items[i].status, BIDE_OK);
        }
}

static void empty(bide *queue, int count, enum emptying how)
{
    uint64_t purged = 0;
    if (how == BY_PURGE) {
        OK(bide_purge(queue, "work", BIDE_STATE_READY, &purged));
        EQ(purged, count);
    } else if (how == BY_MANY) {
        delete_many(queue, count, BIDE_BATCH_JOBS, 1);
    } else if (how == BY_SCATTERED) {
        delete_many(queue, count, 20, 7);
    } else {
        for (int id = 1; id <= count; id++)
            OK(bide_delete(queue, (uint64_t)id, 0));
    }
}

/* Fills a disk with jobs of a size, gets rid of all, and fills it again. */
static void fill_and_empty(int disk_kb, size_t size, enum emptying how)
{
    const char *url = url_of("disk/jobs.db", "max_job_size=1000000");
    bide *queue = open_url(url);
    int taken = 0;
    while (taken < PUTS_MAX && put_of(queue, size) == BIDE_OK)
        taken++;
    CHECK(taken > 0 && taken < PUTS_MAX);
    EQ(put_of(queue, size), BIDE_EFULL);
    empty(queue, taken, how);
    UNTIL(put_of(queue, size) == BIDE_OK);
    int again = 1;
    while (again < PUTS_MAX && put_of(queue, size) == BIDE_OK)
        again++;
    if (again < taken * 3 / 4)
        FAIL("%d kB, bodies of %zu: %d jobs at first, and then %d", disk_kb, size, taken, again);
    snapshot_check_reopened(url, queue);
}

static void try_emptying(size_t size, enum emptying how)
{
    static const int disks[] = {6000, 24000};
    for (size_t i = 0; i < COUNT(disks); i++) {
        if (!mount_disk(disks[i]))
            return;
        fill_and_empty(disks[i], size, how);
        unmount_disk();
    }
}

static void a_purge_empties_a_real_full_disk(void)
{
    try_emptying(LARGE, BY_PURGE);
    try_emptying(20000, BY_PURGE);
    try_emptying(3000, BY_PURGE);
}

static void bulk_deletes_empty_a_real_full_disk(void)
{
    try_emptying(LARGE, BY_MANY);
    try_emptying(20000, BY_MANY);
    try_emptying(3000, BY_MANY);
}

static void scattered_deletes_empty_a_real_full_disk(void)
{
    try_emptying(LARGE, BY_SCATTERED);
    try_emptying(20000, BY_SCATTERED);
    try_emptying(3000, BY_SCATTERED);
}

static void single_deletes_empty_a_real_full_disk(void)
{
    try_emptying(LARGE, ONE_BY_ONE);
    try_emptying(20000, ONE_BY_ONE);
    try_emptying(3000, ONE_BY_ONE);
}

static void open_on_a_real_full_disk_reports_it(void)
{
    if (!mount_disk(4096))
        return;
    take_room(0);
    REFUSED(url_of("disk/jobs.db", ""), BIDE_EFULL, "jobs.db");
    give_room();
    OK(bide_close(open_url(url_of("disk/jobs.db", ""))));
    unmount_disk();
}

/* The filler is there from before, and gives the room that opening and deleting need. */
static void queue_on_a_real_full_disk_opens_and_is_consumed(void)
{
    if (!mount_disk(8192))
        return;
    bide *queue = open_url(url_of("disk/jobs.db", ""));
    put_few(queue);
    OK(bide_close(queue));
    CHECK(file_exists(test_path("disk/jobs.db-filler")));
    take_room(0);
    queue = open_url(url_of("disk/jobs.db", ""));
    work_off(queue, FEW);
    give_room();
    UNTIL(put_body(queue) == BIDE_OK);
    snapshot_check_reopened(url_of("disk/jobs.db", ""), queue);
    unmount_disk();
}

/* ---- puts that are on their way when the disk becomes full ---- */

#define FLYING 40000

/* Hands many puts over at once; answers how many were taken. */
static int put_at_once(bide *queue, size_t size)
{
    static char body[20000];
    static bide_op ops[FLYING];
    bide_op *list[1000];
    bide_cq *cq;
    size_t count = (size_t)40000000 / size < FLYING ? (size_t)40000000 / size : FLYING;
    int taken = 0;
    OK(bide_cq_new(&cq));
    memset(ops, 0, sizeof(ops));
    for (size_t at = 0; at < count;) {
        size_t n = 0;
        for (; n < COUNT(list) && at < count; n++, at++) {
            ops[at] = (bide_op){.kind = BIDE_OP_PUT, .cq = cq};
            ops[at].put = (bide_put_item){.topic = {"work", 4}, .body = {body, size}};
            list[n] = &ops[at];
        }
        CHECK(bide_submit(queue, list, n) >= 0);
    }
    for (size_t i = 0; i < count; i++) {
        while (ops[i].status == BIDE_PENDING) {
            CHECK(bide_cq_wait(cq, PATIENCE_MS) >= 0);
            bide_cq_drain(cq, 1000);
        }
        if (ops[i].status != BIDE_OK && ops[i].status != BIDE_EFULL && ops[i].status != BIDE_EBUSY)
            FAIL("put %zu: %s: %s", i, bide_code_name(ops[i].status), ops[i].error);
        taken += ops[i].status == BIDE_OK;
    }
    OK(bide_cq_free(cq));
    return taken;
}

/* They take no room that the deletes need, neither before nor after a start. */
static void fill_at_once_and_empty(size_t size, bool opens_again)
{
    if (!mount_disk(24000))
        return;
    const char *url = url_of("disk/jobs.db", "max_pending_bytes=60000000");
    bide *queue = open_url(url);
    int taken = put_at_once(queue, size);
    CHECK(taken > 100 && taken < 24000000 / (int)size);
    taken += put_at_once(queue, size);
    if (opens_again) {
        OK(bide_close(queue));
        queue = open_url(url);
        OK(bide_wait_recovered(queue, PATIENCE_MS, NULL));
    }
    for (int i = 0; i < taken; i++) {
        bide_job job;
        OK(bide_reserve(queue, "work", PATIENCE_MS, &job));
        OK(bide_delete(queue, job.id, job.token));
        bide_job_clear(&job);
    }
    check_count(queue, 0);
    UNTIL(put_of(queue, size) == BIDE_OK);
    snapshot_check_reopened(url, queue);
    unmount_disk();
}

static void real_disk_filled_by_concurrent_puts_is_consumed(void)
{
    fill_at_once_and_empty(1000, false);
    fill_at_once_and_empty(20000, false);
}

static void filled_disk_is_consumed_after_a_restart(void)
{
    fill_at_once_and_empty(1000, true);
    fill_at_once_and_empty(20000, true);
}

static char logged[4096];

static void on_log(void *user, bide_log_level level, const char *text)
{
    size_t used = strlen(logged);
    (void)user;
    (void)level;
    snprintf(logged + used, sizeof(logged) - used, "%s\n", text);
}

/* Neither a filler nor a log is left, and no room for one: nothing is promised that cannot be
 * kept. */
static void real_full_disk_without_ballast_is_rejected_until_there_is_space(void)
{
    bide_options options = BIDE_OPTIONS_INIT;
    bide *queue;
    if (!mount_disk(8192))
        return;
    queue = open_url(url_of("disk/jobs.db", ""));
    put_few(queue);
    OK(bide_close(queue));
    CHECK(unlink(test_path("disk/jobs.db-filler")) == 0);
    take_room(0);
    options.log = on_log;
    CODE(bide_open(url_of("disk/jobs.db", ""), &options, &queue), BIDE_EFULL);
    CHECK(strstr(bide_last_error(), "make room, and open it again") != NULL);
    CHECK(strstr(logged, "puts are refused") == NULL);
    give_room();
    queue = open_url(url_of("disk/jobs.db", ""));
    work_off(queue, FEW);
    OK(put_body(queue));
    OK(bide_close(queue));
    unmount_disk();
}

/* A process that ends without a close leaves its log. */
static void crash_with_jobs(void)
{
    int status = -1;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        put_few(open_url(url_of("disk/jobs.db", "")));
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Changes a job, for which there may still be a piece of the log. True: it is refused because the
 * file cannot grow. */
static bool lacks_growth(bide *queue)
{
    static int64_t priority;
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = 1;
    changes.priority = priority++;
    int code = bide_update(queue, &changes);
    if (code == BIDE_OK)
        return false;
    EQ(code, BIDE_EFULL);
    CHECK(strstr(bide_last_error(), "reader") == NULL);
    return strstr(bide_last_error(), "the file cannot grow") != NULL;
}

/* The log is there from a crash, and the file cannot grow for it: no reader is blamed for that. */
static void real_full_disk_with_a_log_reports_missing_space(void)
{
    if (!mount_disk(8192))
        return;
    crash_with_jobs();
    CHECK(unlink(test_path("disk/jobs.db-filler")) == 0);
    take_room(0);
    bide *queue = open_url(url_of("disk/jobs.db", ""));
    check_count(queue, FEW);
    UNTIL(lacks_growth(queue));
    EQ(put_body(queue), BIDE_EFULL);
    give_room();
    UNTIL(bide_delete(queue, 1, 0) == BIDE_OK);
    UNTIL(put_body(queue) == BIDE_OK);
    snapshot_check_reopened(url_of("disk/jobs.db", ""), queue);
    unmount_disk();
}

/* ---- the largest file ---- */

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* The signal mask, and what waits behind it, is as it was. */
static void check_signals(void)
{
    sigset_t blocked, pending;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && sigpending(&pending) == 0);
    CHECK(!sigismember(&blocked, SIGXFSZ) && !sigismember(&pending, SIGXFSZ));
}

/* Without a handler the signal that comes with EFBIG would end this process. */
static void fill_and_empty_below(rlim_t bytes, enum emptying how)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    fresh_folder("disk");
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    fill_and_empty((int)(bytes >> 10), 3000, how);
    check_signals();
    limit.rlim_cur = RLIM_INFINITY;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void the_largest_file_of_the_process_is_a_full_disk(void)
{
    static const rlim_t limits[] = {600 << 10, 2 << 20};
    vfs_install();
    vfs_skip_syncs(true);
    for (size_t i = 0; i < COUNT(limits); i++)
        for (int how = BY_PURGE; how <= ONE_BY_ONE; how++)
            fill_and_empty_below(limits[i], (enum emptying)how);
}

/* A queue takes no signal that is for its program, neither while it is full nor later. */
static void a_program_gets_its_own_signals_of_a_large_file(void)
{
    static const char zeros[1 << 16];
    struct sigaction action = {.sa_handler = count_signal};
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    CHECK(sigaction(SIGXFSZ, &action, NULL) == 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    bide *queue = open_jobs("");
    put_until_full(queue);
    EQ(signals, 0);
    int fd = open(test_path("own"), O_WRONLY | O_CREAT, 0666);
    CHECK(fd >= 0 && lseek(fd, 1 << 20, SEEK_SET) == 1 << 20);
    CHECK(write(fd, zeros, sizeof(zeros)) == -1 && errno == EFBIG);
    EQ(signals, 1);
    close(fd);
    OK(bide_purge(queue, "work", BIDE_STATE_READY, NULL));
    OK(bide_close(queue));
    EQ(signals, 1);
    CHECK(sigaction(SIGXFSZ, NULL, &action) == 0 && action.sa_handler == count_signal);
}

static const struct test tests[] = {
    TEST(full_disk_rejects_puts_until_there_is_space),
    TEST(without_ballast_puts_resume_when_there_is_space),
    TEST(a_quota_or_a_file_limit_is_a_full_disk),
    TEST(puts_are_rejected_while_ballast_cannot_be_created),
    TEST(real_full_disk_rejects_puts_until_there_is_space),
    TEST(consumed_real_full_disk_accepts_puts_again),
    TEST(puts_resume_when_a_real_disk_has_space),
    TEST(a_purge_empties_a_real_full_disk),
    TEST(bulk_deletes_empty_a_real_full_disk),
    TEST(scattered_deletes_empty_a_real_full_disk),
    TEST(single_deletes_empty_a_real_full_disk),
    TEST(the_largest_file_of_the_process_is_a_full_disk),
    TEST(a_program_gets_its_own_signals_of_a_large_file),
    TEST(open_on_a_real_full_disk_reports_it),
    TEST(queue_on_a_real_full_disk_opens_and_is_consumed),
    TEST(real_disk_filled_by_concurrent_puts_is_consumed),
    TEST(filled_disk_is_consumed_after_a_restart),
    TEST(real_full_disk_without_ballast_is_rejected_until_there_is_space),
    TEST(real_full_disk_with_a_log_reports_missing_space),
};
const struct theme full_theme = {"disk_full", tests, COUNT(tests)};
