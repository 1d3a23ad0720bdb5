/* SPDX-License-Identifier: MIT */
/*
 * io_errors.c - one write, sync or opening fails, at every place where there is one.
 *
 * The script of calls runs with the nth act of a kind failing. Whatever the place, a call that
 * fails says so, names the file and has changed nothing; the calls after it go on; and what was
 * acknowledged is there when the file is opened again.
 */
#include "history.h"
#include "queue/queue.h"
#include "script.h"
#include "vfs.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Places that one test tries. */
#define PLACES_MAX 60

/* Runs the script; answers how many calls failed. A disk that was full takes a moment to be seen to
 * have room again. */
static unsigned run_script(struct script *script)
{
    unsigned failures = 0;
    for (size_t step = 0; step < script_length(); step++) {
        int code = script_try(script, step, NULL, NULL);
        if (code != BIDE_OK)
            failures++;
        if (code == BIDE_EFULL)
            UNTIL(script_run(script, step) == BIDE_OK);
    }
    return failures;
}

/* The fault may hit the opening, which then says so, and in the end it goes well. */
static bide *open_despite(const char *url, unsigned times)
{
    bide *queue = NULL;
    for (unsigned i = 0; i < times; i++) {
        int code = bide_open(url, NULL, &queue);
        if (code == BIDE_OK) {
            OK(bide_wait_recovered(queue, 60000, NULL));
            return queue;
        }
        CHECK(code == BIDE_EIO || code == BIDE_EFULL || code == BIDE_ENOMEM);
        if (strstr(bide_last_error(), "jobs.db") == NULL)
            FAIL("expected the name of the file in \"%s\"", bide_last_error());
    }
    return open_url(url);
}

static void check_reopened(const char *url, const struct snapshot *last)
{
    char text[DIFFERENCE_SIZE];
    bide *queue = open_url(url);
    struct snapshot *now = snapshot_take(queue);
    if (!snapshot_survived(last, now, text))
        FAIL("after a failure and a restart: %s", text);
    snapshot_free(now);
    OK(bide_close(queue));
}

static void try_fault(struct vfs_fault fault)
{
    struct script script;
    fresh_folder("file");
    const char *url = url_of("file/jobs.db", "");
    vfs_fail(&fault);
    bide *queue = open_despite(url, fault.times);
    script_begin(&script, queue);
    snprintf(script.note, sizeof script.note, "act %d, place %u: ", (int)fault.call, fault.nth);
    unsigned failures = run_script(&script);
    if (failures > fault.times)
        FAIL("%s%u calls failed, the last with: %s", script.note, failures, script.error);
    struct snapshot *last = snapshot_take(queue);
    script_done(&script);
    OK(bide_close(queue));
    vfs_clear_faults();
    check_reopened(url, last);
    snapshot_free(last);
}

/* How many acts of a kind there are from the opening to the end. */
static unsigned count_places(enum vfs_call call)
{
    struct script script;
    fresh_folder("file");
    unsigned before = vfs_count(call);
    bide *queue = open_url(url_of("file/jobs.db", ""));
    script_begin(&script, queue);
    EQ(run_script(&script), 0);
    script_done(&script);
    OK(bide_close(queue));
    return vfs_count(call) - before;
}

static void try_every_place(struct vfs_fault fault)
{
    vfs_install();
    vfs_skip_syncs(true);
    unsigned places = count_places(fault.call);
    CHECK(places > 0);
    unsigned stride = 1 + places / PLACES_MAX;
    for (fault.nth = 1; fault.nth <= places; fault.nth += stride)
        try_fault(fault);
}

static void failed_sync_is_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_SYNC, "", 1, 1, SQLITE_IOERR_FSYNC, EIO});
}

static void three_failed_syncs_are_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_SYNC, "", 1, 3, SQLITE_IOERR_FSYNC, EIO});
}

static void failed_write_is_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_WRITE, "", 1, 1, SQLITE_IOERR_WRITE, EIO});
}

static void write_on_a_full_disk_is_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_WRITE, "", 1, 1, SQLITE_FULL, ENOSPC});
}

static void write_beyond_a_quota_is_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_WRITE, "", 1, 1, SQLITE_IOERR_WRITE, EDQUOT});
    try_every_place((struct vfs_fault){VFS_WRITE, "", 1, 1, SQLITE_IOERR_WRITE, EFBIG});
}

/* Room is looked for when pages are written out: on such file systems it is the sync that fails. */
static void sync_on_a_full_disk_is_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_SYNC, "", 1, 1, SQLITE_IOERR_FSYNC, ENOSPC});
    try_every_place((struct vfs_fault){VFS_SYNC, "", 1, 1, SQLITE_IOERR_FSYNC, EDQUOT});
}

static void failed_truncate_is_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_TRUNCATE, "", 1, 1, SQLITE_IOERR_TRUNCATE, EIO});
}

static void failed_open_is_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_OPEN, "", 1, 1, SQLITE_CANTOPEN, EMFILE});
}

static void failed_shared_memory_is_reported_and_recovered(void)
{
    try_every_place((struct vfs_fault){VFS_SHM, "", 1, 1, SQLITE_IOERR_SHMMAP, ENOMEM});
}

/* ---- the power goes after a failed sync ---- */

/* The kernel forgets what it could not write, and a later sync says nothing of it. So what is
 * acknowledged after a failure must have been written anew. */
static void try_power_after(unsigned nth, unsigned times, bool watched)
{
    struct script script;
    sqlite3 *watcher = NULL;
    history_forget();
    loss_begin(fresh_folder("before"));
    bide *queue = open_url(url_of("before/jobs.db", "sync=full"));
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "-wal", nth, times, SQLITE_IOERR_FSYNC, EIO});
    if (watched)
        CHECK(sqlite3_open(test_path("before/jobs.db"), &watcher) == SQLITE_OK &&
              sqlite3_exec(watcher, "SELECT * FROM meta", NULL, NULL, NULL) == SQLITE_OK);
    script_begin(&script, queue);
    for (size_t step = 0; step < script_length(); step++)
        if (script_run(&script, step) == BIDE_OK)
            history_add(queue);
    script_done(&script);
    loss_end();
    vfs_clear_faults();
    sqlite3_close(watcher);
    for (size_t call = 0; call < history_count(); call += 3)
        history_check(history_steps(call), LOSS_ALL, false);
    OK(bide_close(queue));
}

static void acknowledged_after_a_failed_sync_survives_power_loss(void)
{
    vfs_install();
    vfs_skip_syncs(true);
    for (unsigned nth = 1; nth <= 25; nth += 2)
        try_power_after(nth, 1, false);
}

/* The log cannot be brought into the file at once, and is found again with what was not synced. */
static void acknowledged_after_several_failed_syncs_survives_power_loss(void)
{
    vfs_install();
    vfs_skip_syncs(true);
    for (unsigned nth = 1; nth <= 25; nth += 4)
        for (unsigned times = 2; times <= 4; times++)
            try_power_after(nth, times, false);
}

/* While another process has the file open, closing it does not checkpoint the log. */
static void acknowledged_survives_power_loss_while_another_program_reads(void)
{
    vfs_install();
    vfs_skip_syncs(true);
    for (unsigned nth = 1; nth <= 25; nth += 2)
        try_power_after(nth, 1, true);
}

/* The full disk has no room for the checkpoint either: nothing can be written anew. */
static void acknowledged_after_a_sync_without_room_survives_power_loss(void)
{
    vfs_install();
    vfs_skip_syncs(true);
    loss_begin(fresh_folder("before"));
    bide *queue = open_url(url_of("before/jobs.db", "sync=full"));
    uint64_t id = 0;
    OK(bide_put(queue, "work", "a", 1, NULL, &id));

    vfs_fail(&(struct vfs_fault){VFS_SYNC, "-wal", 1, 1, SQLITE_IOERR_FSYNC, ENOSPC});
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "jobs.db", 1, 0, SQLITE_FULL, ENOSPC});
    CODE(bide_put(queue, "work", "b", 1, NULL, &id), BIDE_EUNKNOWN);
    vfs_clear_faults();

    /* With room the outcome is found, and the job counts. */
    UNTIL(bide_put(queue, "work", "c", 1, NULL, &id) == BIDE_OK);
    loss_end();
    struct snapshot *expected = snapshot_take(queue);
    loss_at(loss_steps(), LOSS_ALL, 1, fresh_folder("after"));
    check_reopened(url_of("after/jobs.db", ""), expected);
    snapshot_free(expected);
    OK(bide_close(queue));
}

/* ---- killed after a failed write or sync, while another program has the file open ---- */

/* Tells the process at the other end of a socket a code, or waits for one. */
static void send_code(int end, int code)
{
    CHECK(write(end, &code, sizeof code) == (ssize_t)sizeof code);
}

static int receive_code(int end)
{
    int code = 0;
    CHECK(read(end, &code, sizeof code) == (ssize_t)sizeof code);
    return code;
}

static pid_t fork_child(void (*run)(int end), int *end)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        close(ends[0]);
        run(ends[1]);
        raise(SIGKILL);
    }
    close(ends[1]);
    *end = ends[0];
    return child;
}

static bool watcher_reads; /* it stays in a transaction */

/* What the watcher found in the log's index is what stays in it, as long as it lives. */
static void watch(int end)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open(test_path("file/jobs.db"), &db);
    if (code == SQLITE_OK && watcher_reads)
        code = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "SELECT count(*) FROM job", NULL, NULL, NULL);
    send_code(end, code);
    receive_code(end);
}

static struct vfs_fault put_fault;
static bool watched_inside; /* by another connection of the program that puts */

/* Says how a put went that the fault hits, and is killed. */
static void put_and_die(int end)
{
    sqlite3 *db = NULL;
    bide *queue = open_url(url_of("file/jobs.db", ""));
    OK(put_serial(queue, "work", 1, NULL, NULL));
    if (watched_inside)
        CHECK(sqlite3_open(test_path("file/jobs.db"), &db) == SQLITE_OK &&
              sqlite3_exec(db, "SELECT count(*) FROM job", NULL, NULL, NULL) == SQLITE_OK);
    send_code(end, BIDE_OK);
    receive_code(end);
    vfs_fail(&put_fault);
    send_code(end, put_serial(queue, "work", 2, NULL, NULL));
}

/* Answers what the put answered. */
static int try_kill_after(struct vfs_fault fault)
{
    int owner_end, watcher_end = -1;
    put_fault = fault;
    fresh_folder("file");
    pid_t owner = fork_child(put_and_die, &owner_end);
    EQ(receive_code(owner_end), BIDE_OK);
    pid_t watcher = watched_inside ? 0 : fork_child(watch, &watcher_end);
    if (watcher != 0)
        EQ(receive_code(watcher_end), SQLITE_OK);
    send_code(owner_end, 0);
    int code = receive_code(owner_end);
    CHECK(waitpid(owner, NULL, 0) == owner);
    if (watcher != 0)
        CHECK(kill(watcher, SIGKILL) == 0 && waitpid(watcher, NULL, 0) == watcher);
    close(owner_end);
    if (watcher != 0)
        close(watcher_end);
    bide *queue = open_url(url_of("file/jobs.db", ""));
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    if (code != BIDE_EUNKNOWN && stats.jobs.ready != (code == BIDE_OK ? 2 : 1))
        FAIL("act %d, place %u, %u failures: the put answered %s, and there are %llu jobs",
             (int)fault.call, fault.nth, fault.times, bide_code_name(code),
             (unsigned long long)stats.jobs.ready);
    OK(bide_close(queue));
    return code;
}

static void a_failed_put_does_not_appear_after_a_crash_while_another_program_watches(void)
{
    vfs_install();
    for (unsigned times = 1; times <= 3; times++)
        try_kill_after((struct vfs_fault){VFS_SYNC, "-wal", 1, times, SQLITE_IOERR_FSYNC, EIO});
}

/* The bytes of the write are in the log although it failed: with the last one the log holds all of
 * the commit, behind the end that the watcher knows. */
static void a_put_of_a_failed_write_does_not_appear_after_a_crash_while_watched(void)
{
    vfs_install();
    struct vfs_fault fault = {VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO};
    vfs_write_despite_faults(1);
    while (try_kill_after(fault) != BIDE_OK)
        fault.nth++;
    CHECK(fault.nth > 2);
}

/* As above, and from then on the disk accepts no write that could undo the commit or make it last.
 * Only with its last write the outcome is unknown. */
static void try_disk_that_fails_after_the_write(void)
{
    struct vfs_fault fault = {VFS_WRITE, "", 1, 0, SQLITE_IOERR_WRITE, EIO};
    int code, last = BIDE_OK;
    vfs_install();
    vfs_write_despite_faults(1);
    for (; (code = try_kill_after(fault)) != BIDE_OK; fault.nth++, last = code)
        EQ(last, fault.nth == 1 ? BIDE_OK : BIDE_EIO);
    EQ(last, BIDE_EUNKNOWN);
    CHECK(fault.nth > 2);
}

static void put_is_in_doubt_if_its_failed_write_cannot_be_undone_while_watched(void)
{
    try_disk_that_fails_after_the_write();
}

static void put_is_in_doubt_while_the_watcher_reads(void)
{
    watcher_reads = true;
    try_disk_that_fails_after_the_write();
}

static void put_is_in_doubt_beside_a_connection_of_the_same_program(void)
{
    watched_inside = true;
    try_disk_that_fails_after_the_write();
}

/* ---- the time to close is over ---- */

/* The file cannot be opened again after a failed sync. That is tried for some seconds, but not past
 * the deadline of a close. */
static void outcome_is_not_determined_past_the_deadline_of_a_close(void)
{
    bide_cq *cq = NULL;
    vfs_install();
    bide *queue = open_jobs("");
    OK(bide_cq_new(&cq));
    bide_op put = {.kind = BIDE_OP_PUT, .cq = cq, .put = {.topic = slice_of("work")}};
    bide_op *const ops[] = {&put};
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, 0, SQLITE_IOERR_FSYNC, EIO});
    vfs_fail(&(struct vfs_fault){VFS_OPEN, "", 1, 0, SQLITE_CANTOPEN, EIO});
    unsigned opened = vfs_count(VFS_OPEN);
    EQ(bide_submit(queue, ops, 1), 1);
    UNTIL(vfs_count(VFS_OPEN) > opened);
    bi_queue_set_close_deadline(queue, clock_us());

    opened = vfs_count(VFS_OPEN);
    UNTIL((bide_cq_drain(cq, 0), put.status != BIDE_PENDING));
    EQ(put.status, BIDE_EUNKNOWN);
    unsigned tries = vfs_count(VFS_OPEN) - opened;
    if (tries > 3)
        FAIL("the file was opened %u times past the deadline", tries);
    vfs_clear_faults();
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

/* ---- a backup on a file system that lacks something ---- */

static void try_backup(bide *queue, int link_errno, int rename_errno)
{
    vfs_fail_links(link_errno, rename_errno);
    OK(bide_backup(queue, test_path("copy.db")));
    EQ(NUMBER(test_path("copy.db"), "SELECT count(*) FROM job"), 1);
    CHECK(unlink(test_path("copy.db")) == 0);

    /* A link to nothing is a name in use that the first look at the target does not see. */
    char target[16];
    CHECK(symlink("nothing", test_path("copy.db")) == 0);
    CODE(bide_backup(queue, test_path("copy.db")), BIDE_EINVAL);
    EQ(readlink(test_path("copy.db"), target, sizeof target), 7);
    CHECK(unlink(test_path("copy.db")) == 0);
}

static void a_backup_needs_no_hard_links_and_replaces_nothing(void)
{
    static const int missing[] = {EPERM, EOPNOTSUPP, ENOSYS, EMLINK};
    vfs_install();
    bide *queue = open_jobs("");
    OK(put_serial(queue, "work", 1, NULL, NULL));
    try_backup(queue, 0, 0);
    for (size_t i = 0; i < COUNT(missing); i++) {
        try_backup(queue, missing[i], 0);
        try_backup(queue, missing[i], EINVAL);
    }
    OK(bide_close(queue));
}

static void backup_that_cannot_be_renamed_leaves_no_file(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    vfs_fail_links(EIO, 0);
    CODE(bide_backup(queue, test_path("copy.db")), BIDE_EIO);
    vfs_fail_links(EPERM, EIO);
    CODE(bide_backup(queue, test_path("copy.db")), BIDE_EIO);
    CHECK(!file_exists(test_path("copy.db")));
    OK(bide_close(queue));
}

/* ---- a disk that stays broken ---- */

static void permanently_failing_disk_is_reported_and_may_recover(void)
{
    struct script script;
    vfs_install();
    bide *queue = open_jobs("");
    script_begin(&script, queue);
    EQ(script_run(&script, 0), BIDE_OK);
    struct snapshot *before = snapshot_take(queue);
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "", 1, 0, SQLITE_IOERR_WRITE, EIO});
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, 0, SQLITE_IOERR_FSYNC, EIO});
    int code = script_run(&script, 0);
    CHECK(code != BIDE_OK);
    vfs_clear_faults();
    UNTIL(script_run(&script, 0) == BIDE_OK);
    struct snapshot *last = snapshot_take(queue);
    CHECK(last->count > before->count);
    OK(bide_close(queue));
    check_reopened(url_of("jobs.db", ""), last);
    snapshot_free(before);
    snapshot_free(last);
}

static const struct test tests[] = {
    TEST(failed_sync_is_reported_and_recovered),
    TEST(three_failed_syncs_are_reported_and_recovered),
    TEST(failed_write_is_reported_and_recovered),
    TEST(write_on_a_full_disk_is_reported_and_recovered),
    TEST(write_beyond_a_quota_is_reported_and_recovered),
    TEST(sync_on_a_full_disk_is_reported_and_recovered),
    TEST(failed_truncate_is_reported_and_recovered),
    TEST(failed_open_is_reported_and_recovered),
    TEST(failed_shared_memory_is_reported_and_recovered),
    TEST(acknowledged_after_a_failed_sync_survives_power_loss),
    TEST(acknowledged_after_several_failed_syncs_survives_power_loss),
    TEST(acknowledged_survives_power_loss_while_another_program_reads),
    TEST(acknowledged_after_a_sync_without_room_survives_power_loss),
    TEST(a_failed_put_does_not_appear_after_a_crash_while_another_program_watches),
    TEST(a_put_of_a_failed_write_does_not_appear_after_a_crash_while_watched),
    TEST(put_is_in_doubt_if_its_failed_write_cannot_be_undone_while_watched),
    TEST(put_is_in_doubt_while_the_watcher_reads),
    TEST(put_is_in_doubt_beside_a_connection_of_the_same_program),
    TEST(outcome_is_not_determined_past_the_deadline_of_a_close),
    TEST(a_backup_needs_no_hard_links_and_replaces_nothing),
    TEST(backup_that_cannot_be_renamed_leaves_no_file),
    TEST(permanently_failing_disk_is_reported_and_may_recover),
};
const struct theme sync_theme = {"io_errors", tests, COUNT(tests)};
