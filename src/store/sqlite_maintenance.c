/* SPDX-License-Identifier: MIT */
/*
 * sqlite_maintenance - checkpoints, vacuum, ended pauses, quarantine of damaged rows, and backup.
 *
 * The commit thread calls maintain() between two commits and while it is idle. Each call does a
 * bounded amount of work, because commits wait for it.
 *
 * A backup runs on the maintenance thread and copies one state of the file. It holds the scanner
 * mutex, and stops when a commit must reopen the connections.
 */
#define _GNU_SOURCE /* mkostemp, renameat2 */
#include "store/sqlite.h"

#include "util/clock.h"
#include "util/message.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Vacuum runs when there are more free pages than this, and than a quarter of all pages. */
#define FREE_PAGES 1024
/* On a full disk vacuum returns nearly all of them. */
#define FREE_PAGES_FULL 16
/* Pages of one vacuum step, if the log has room for them, and commits between two counts of
 * the free pages. On a full disk they are counted after every commit. */
#define VACUUM_PAGES 256
#define VACUUM_EVERY 32
/* Between two vacuum steps, to leave the disk to other programs. */
#define VACUUM_INTERVAL_US 1000
/* An idle queue checkpoints its log after this time. */
#define IDLE_INTERVAL_US 1000000
/* A pause counts as ended this long after its end by the wall clock. */
#define PAUSE_MARGIN_US 10000
/* Between two checks whether a full disk has space again. */
#define SPACE_INTERVAL_US 200000
/* After this many commits a queue counts as busy, and its log is preallocated in chunks. */
#define PREALLOC_COMMITS 64
#define PREALLOC_CHUNK   (256 << 10)

/* Truncates a log that was checkpointed completely: SQLite would keep its length until the
 * next write. Returns false if a reader still uses the log. */
static bool truncate_wal(struct sqlite *sqlite)
{
    /* Do not wait for readers: commits wait for this thread. */
    sqlite3_busy_timeout(sqlite->writer.db, 0);
    int code =
        sqlite3_wal_checkpoint_v2(sqlite->writer.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(sqlite->writer.db, BUSY_MS);
    return code == SQLITE_OK;
}

/* Checkpoints as much of the log as readers permit. If the database cannot grow, the disk is
 * full: the ballast, which is larger than the log, is released for a second try. */
static int checkpoint_passive(struct sqlite *sqlite, int *frames, int *checkpointed)
{
    char error[BIDE_ERROR_SIZE];
    int code = SQLITE_OK;

    sqlite->wal_out_of_space = false;
    for (int i = 0; i < 2; i++) {
        code = sqlite3_wal_checkpoint_v2(sqlite->writer.db, NULL, SQLITE_CHECKPOINT_PASSIVE, frames,
                                         checkpointed);
        if (code == SQLITE_OK)
            bi_log_limit_reset(&sqlite->checkpoint_failures);
        if (code == SQLITE_OK || code == SQLITE_BUSY) {
            sqlite->wal_out_of_space = false;
            return code;
        }

        sqlite->wal_out_of_space =
            bi_sqlite_set_error(sqlite, &sqlite->writer, "checkpoint", error) == BIDE_EFULL;
        if (!sqlite->wal_out_of_space || !bi_sqlite_ballast_release(sqlite))
            break;
    }

    if (bi_log_limit_hit(&sqlite->checkpoint_failures, bi_clock_boot()) > 0)
        bi_log(&sqlite->options.log, BIDE_LOG_WARN, "cannot checkpoint the log: %s", error);
    return code;
}

/* Checkpoints the log. If vacuum freed pages, SQLite then truncates the database. */
void bi_sqlite_checkpoint(struct sqlite *sqlite)
{
    /* Closed by a failed reopen or rollback; the next commit opens it. */
    if (sqlite->writer.db == NULL)
        return;

    /* A checkpoint would apply or drop the frames that tell whether the batch is stored. */
    assert(!sqlite->outcome_unknown);
    int frames = 0;
    int checkpointed = 0;
    int code = checkpoint_passive(sqlite, &frames, &checkpointed);

    /* With sync=normal the durability of earlier commits depends on this sync. */
    if (code == SQLITE_IOERR_FSYNC)
        sqlite->base.reopened = true;

    /* The counts of a failed checkpoint are not valid: assume that the whole log remains. */
    if (code != SQLITE_OK) {
        frames = sqlite->wal_frames;
        checkpointed = 0;
    }

    /* A log that is much longer than its limit, or any on a full disk, is worth a truncate. */
    if (frames == checkpointed && (frames > 2 * sqlite->wal_max_pages || sqlite->base.full) &&
        truncate_wal(sqlite))
        frames = checkpointed = 0;

    assert(frames >= checkpointed);
    sqlite->wal_frames = frames - checkpointed;
    /* The log is pinned: a reader uses an old state, or the disk is full. The log keeps growing,
     * and the space for its checkpoint must stay free. */
    sqlite->wal_pinned_bytes = frames > checkpointed || frames > 2 * sqlite->wal_max_pages
                                   ? frames * sqlite_frame_size(sqlite)
                                   : 0;
    bi_sqlite_check_space(sqlite);
}

/* Returns one step of free pages to the file system. True if there may be more. */
static bool vacuum(struct sqlite *sqlite)
{
    /* Vacuum writes to the log, which must not grow while a checkpoint cannot empty it. */
    assert(sqlite->wal_max_pages >= 0);
    if (sqlite->wal_pinned_bytes > 0)
        return false;

    /* On a full disk nearly all free pages are returned, otherwise only if they are many. */
    struct connection *writer = &sqlite->writer;
    int64_t free_pages = bi_sqlite_query_int64(writer, "PRAGMA freelist_count", 0);
    if (free_pages <= (sqlite->base.full ? FREE_PAGES_FULL : FREE_PAGES))
        return false;
    if (!sqlite->base.full &&
        free_pages <= bi_sqlite_query_int64(writer, "PRAGMA page_count", 0) / 4)
        return false;

    char sql[48];
    int pages = sqlite->wal_max_pages / 2 < VACUUM_PAGES ? sqlite->wal_max_pages / 2 : VACUUM_PAGES;
    snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%d)", pages < 1 ? 1 : pages);
    return bi_sqlite_exec(&sqlite->writer, sql) == SQLITE_OK;
}

/* ---- ended pauses ---- */

/* Pauses run on the boot-time clock and are stored by the wall clock, which may be set in
 * between. The smallest offset between the two is used, so that no pause is removed that may
 * still last. After a clock step a row may stay until the next start; it is harmless. */
void bi_sqlite_track_pause(struct sqlite *sqlite, int64_t until)
{
    int64_t offset = bi_clock_wall() - bi_clock_boot() - PAUSE_MARGIN_US;

    if (until <= 0 || until == BI_NEVER)
        return;

    if (sqlite->pause_end_us == BI_NEVER || offset < sqlite->pause_clock_offset)
        sqlite->pause_clock_offset = offset;
    if (until - sqlite->pause_clock_offset < sqlite->pause_end_us)
        sqlite->pause_end_us = until - sqlite->pause_clock_offset;
}

/* Removes the rows of ended pauses, at most once per interval and all together: each delete is
 * a commit of its own, and a row that stays does no harm. */
static void remove_ended_pauses(struct sqlite *sqlite)
{
    int64_t now = bi_clock_boot();
    long long end = now + sqlite->pause_clock_offset;
    char sql[64];
    if (now < sqlite->pause_end_us)
        return;

    snprintf(sql, sizeof(sql), "DELETE FROM pause WHERE until<=%lld", end);
    bi_sqlite_exec(&sqlite->writer, sql);
    int64_t next = bi_sqlite_query_int64(&sqlite->writer, "SELECT min(until) FROM pause", BI_NEVER);
    sqlite->pause_end_us = BI_NEVER;
    if (next == 0 || next == BI_NEVER) /* 0: the table is empty */
        return;

    next -= sqlite->pause_clock_offset;
    sqlite->pause_end_us = next > now + IDLE_INTERVAL_US ? next : now + IDLE_INTERVAL_US;
}

/* ---- preallocation of the log ---- */

/* Appends a chunk of zeros to the log and returns its new length, or -1 if it cannot be
 * extended. To SQLite a frame of zeros is invalid and marks the end of the log. */
static int64_t extend_wal(const struct sqlite *sqlite, int64_t wanted)
{
    static const char zeros[PREALLOC_CHUNK];
    char name[PATH_MAX];
    struct stat file;
    struct statvfs disk;

    int length_of_name = snprintf(name, sizeof(name), "%s-wal", sqlite->path);
    assert((size_t)length_of_name < sizeof(name)); /* zeros must not go to another file */
    (void)length_of_name;
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;

    int64_t length = -1;
    /* Only with plenty of space: preallocation must not be what fills the disk. */
    if (fstat(fd, &file) == 0 && fstatvfs(fd, &disk) == 0 &&
        (int64_t)disk.f_bavail * (int64_t)disk.f_frsize > 4 * wanted) {
        int64_t left = wanted - (int64_t)file.st_size;
        size_t chunk = left <= 0 ? 0 : left < PREALLOC_CHUNK ? (size_t)left : PREALLOC_CHUNK;
        assert(chunk <= sizeof(zeros));
        ssize_t written = chunk == 0 ? 0 : pwrite(fd, zeros, chunk, file.st_size);
        if (written == (ssize_t)chunk && fdatasync(fd) == 0)
            length = (int64_t)file.st_size + written;
    }

    close(fd);
    return length;
}

/* Extends the log of a busy queue to its full length, one chunk per call. While the log grows,
 * each sync writes the new length as well and takes about twice as long as a sync of
 * overwritten blocks. SQLite overwrites a log after a checkpoint, so this is done once. */
static void preallocate_wal(struct sqlite *sqlite)
{
    int64_t wanted =
        (sqlite->wal_max_pages + sqlite->wal_max_pages / 8) * sqlite_frame_size(sqlite);

    if (sqlite->options.sync != BIDE_SYNC_FULL || sqlite->base.full ||
        sqlite->file_limit != INT64_MAX || sqlite->wal_prealloc_bytes >= wanted ||
        ++sqlite->wal_prealloc_commits < PREALLOC_COMMITS)
        return;

    /* Another program that writes to the file appends to the log as well: without the write lock
     * the zeros could overwrite its frames. Do not wait for it: commits wait for this thread. */
    sqlite3_busy_timeout(sqlite->writer.db, 0);
    int code = bi_sqlite_exec(&sqlite->writer, "BEGIN IMMEDIATE");
    sqlite3_busy_timeout(sqlite->writer.db, BUSY_MS);
    if (code != SQLITE_OK)
        return;

    int64_t length = extend_wal(sqlite, wanted);
    bi_sqlite_roll_back(&sqlite->writer);
    /* After a failure, do not try again. */
    sqlite->wal_prealloc_bytes = length < 0 ? wanted : length;
}

/* Runs one step and returns the delay until the next one. The checkpoint comes after
 * everything that writes to the log; the ballast comes last, because a checkpoint may take or
 * return space. */
static int64_t maintain(struct sqlite *sqlite, bool idle)
{
    preallocate_wal(sqlite);
    remove_ended_pauses(sqlite);

    bool more_pages = false;
    if (idle || sqlite->base.full || ++sqlite->vacuum_commits % VACUUM_EVERY == 0)
        more_pages = vacuum(sqlite);

    /* An idle queue finishes the vacuum first, so that one checkpoint serves all its steps. */
    if (sqlite->wal_frames >= sqlite->wal_max_pages ||
        (idle && !more_pages && (sqlite->wal_frames > 0 || sqlite->wal_pinned_bytes > 0)))
        bi_sqlite_checkpoint(sqlite);
    bi_sqlite_ballast_restore(sqlite, false);

    if (more_pages)
        return VACUUM_INTERVAL_US;
    if (sqlite->base.full)
        return SPACE_INTERVAL_US;
    if (sqlite->wal_frames > 0)
        return IDLE_INTERVAL_US;
    if (sqlite->pause_end_us == BI_NEVER)
        return BI_NEVER;
    int64_t left = sqlite->pause_end_us - bi_clock_boot();
    return left < 0 ? 0 : left;
}

int64_t bi_sqlite_maintain(struct store *store, bool idle)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct sigxfsz_guard guard;

    bi_sqlite_block_sigxfsz(sqlite, &guard);
    pthread_mutex_lock(&sqlite->writer.lock);

    int64_t next_us = SPACE_INTERVAL_US;
    /* While the outcome of a commit is unknown nothing may be written: a checkpoint would
     * apply, and a write would overwrite, the frames that resolve_outcome() reads. */
    if (sqlite->writer.db != NULL && !sqlite->outcome_unknown)
        next_us = maintain(sqlite, idle);

    assert(next_us >= 0);
    pthread_mutex_unlock(&sqlite->writer.lock);
    bi_sqlite_unblock_sigxfsz(&guard);
    return next_us;
}

/* ---- quarantine ---- */

/* Moves a row and its body to the table of damaged jobs, in one transaction. */
static int move_to_quarantine(struct connection *writer, uint64_t id, const char *reason)
{
    static const enum statement steps[] = {ST_BEGIN, ST_QUARANTINE, ST_REMOVE, ST_REMOVE_BODY,
                                           ST_COMMIT};
    int code = SQLITE_DONE;

    for (size_t i = 0; code == SQLITE_DONE && i < sizeof(steps) / sizeof(steps[0]); i++) {
        sqlite3_stmt *stmt = bi_sqlite_statement(writer, steps[i]);
        if (steps[i] == ST_QUARANTINE) {
            sqlite3_bind_int64(stmt, 2, bi_clock_wall());
            sqlite3_bind_text(stmt, 3, reason, -1, SQLITE_STATIC);
        }
        if (steps[i] != ST_BEGIN && steps[i] != ST_COMMIT)
            sqlite3_bind_int64(stmt, 1, (int64_t)id);
        code = bi_sqlite_run(stmt);
    }
    return code;
}

int bi_sqlite_quarantine(struct store *store, uint64_t id, const char *reason, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *writer = &sqlite->writer;
    struct sigxfsz_guard guard;
    assert(reason != NULL && reason[0] != 0);

    bi_sqlite_block_sigxfsz(sqlite, &guard);
    pthread_mutex_lock(&writer->lock);

    int status = BIDE_OK;
    if (move_to_quarantine(writer, id, reason) != SQLITE_DONE) {
        status = bi_sqlite_set_error(sqlite, writer, "set aside", error);
        bi_sqlite_roll_back(writer);
    }

    pthread_mutex_unlock(&writer->lock);
    bi_sqlite_unblock_sigxfsz(&guard);
    return status;
}

/* ---- backup ---- */

/* Pages copied between two checks whether the queue is closing. */
#define COPY_PAGES 64

/* Copies all pages of one state of the file. Returns SQLITE_DONE, or SQLITE_INTERRUPT if the
 * queue is closing, the backup is cancelled, or a commit must reopen the connections. */
static int copy_in_steps(struct sqlite *sqlite, sqlite3 *from, sqlite3 *to)
{
    /* A deferred BEGIN takes no snapshot; the SELECT does. Without it a write between two
     * steps would restart the copy. */
    int code = sqlite3_exec(from, "BEGIN; SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    sqlite3_backup *backup =
        code == SQLITE_OK ? sqlite3_backup_init(to, "main", from, "main") : NULL;
    if (backup == NULL)
        return code == SQLITE_OK ? sqlite3_errcode(to) : code;

    while ((code = sqlite3_backup_step(backup, COPY_PAGES)) == SQLITE_OK)
        if (bi_store_check_stopped(&sqlite->base) || sqlite->reopening) {
            code = SQLITE_INTERRUPT;
            break;
        }

    int finished = sqlite3_backup_finish(backup);
    return code == SQLITE_DONE && finished != SQLITE_OK ? finished : code;
}

/* Copies over a connection of its own: the reader and the writer continue meanwhile. */
static int copy_pages(struct sqlite *sqlite, const char *temp_path, char *error)
{
    sqlite3 *from = NULL;
    sqlite3 *to = NULL;

    int code =
        sqlite3_open_v2(sqlite->path, &from, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_open_v2(
            temp_path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    /* publish_copy() syncs the copy. Here the scanner mutex is held: if the disk of the copy hangs,
     * a commit that must reopen the connections would wait for it. */
    if (code == SQLITE_OK)
        code = sqlite3_exec(to, "PRAGMA synchronous=OFF", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = copy_in_steps(sqlite, from, to);

    int status = BIDE_OK;
    if (code == SQLITE_INTERRUPT) {
        status = sqlite->base.stopping          ? BIDE_CLOSED
                 : sqlite->base.check_cancelled ? BIDE_CANCELLED
                                                : BIDE_EIO;
        snprintf(error, BIDE_ERROR_SIZE, "backup: %s",
                 status == BIDE_EIO ? "writes fail; try it later" : bide_code_text(status));
    } else if (code != SQLITE_DONE) {
        int system = to == NULL ? 0 : sqlite3_system_errno(to);
        status = bi_sqlite_map_error(code, system);
        snprintf(error, BIDE_ERROR_SIZE, "backup: %.120s: %s", temp_path,
                 code == SQLITE_CANTOPEN && system != 0 ? strerror(system) : sqlite3_errstr(code));
    }

    sqlite3_close(to);
    sqlite3_close(from);
    return status;
}

int bi_sqlite_sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return failed;
}

static bool is_unsupported(int number)
{
    return number == EPERM || number == EOPNOTSUPP || number == ENOSYS || number == EMLINK ||
           number == EINVAL;
}

/* Gives the file a new name, and fails with EEXIST if that exists: rename() would replace the file.
 * Not every file system has hard links or the flag of renameat2(). Then an empty file reserves the
 * name. Returns 0 or an errno. */
static int rename_new(const char *temp_path, const char *path)
{
    if (link(temp_path, path) == 0)
        return 0;
    if (is_unsupported(errno) &&
        renameat2(AT_FDCWD, temp_path, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    if (!is_unsupported(errno))
        return errno;

    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    if (rename(temp_path, path) == 0)
        return 0;

    int failed = errno;
    unlink(path);
    return failed;
}

/* Syncs the complete copy and gives it its name, unless the backup was stopped meanwhile: the sync
 * may take long. */
static int publish_copy(const struct store *store, const char *temp_path, const char *path,
                        char *error)
{
    char directory[4096];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof(directory), "%.*s", slash == NULL ? 1 : (int)(slash - path + 1),
             slash == NULL ? "." : path);

    int failed = bi_sqlite_sync_file(temp_path);
    if (failed == 0 && bi_store_check_stopped(store))
        return store->stopping ? BIDE_CLOSED : BIDE_CANCELLED;
    if (failed == 0)
        failed = rename_new(temp_path, path);
    if (failed == 0) {
        failed = bi_sqlite_sync_file(directory);
        if (failed != 0)
            unlink(path); /* a backup that fails leaves no file */
    }

    if (failed == 0)
        return BIDE_OK;
    return bi_error_set(error,
                        bi_sqlite_is_out_of_space(failed) ? BIDE_EFULL
                        : failed == EEXIST                ? BIDE_EINVAL
                                                          : BIDE_EIO,
                        "backup: %.120s: %s", path, strerror(failed));
}

static int reject_target(const char *path, const char *why, char *error)
{
    return bi_error_set(error, BIDE_EINVAL, "backup: %.110s %s; choose a new name", path, why);
}

/* Rejects a target that exists, and a name that SQLite would take for a part of a database:
 * ours or the copy. */
static int check_target(const struct sqlite *sqlite, const char *path, char *error)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal", "-filler"};
    char name[4096 + 16];

    if (strlen(path) > 4000)
        return bi_error_set(error, BIDE_EINVAL, "backup: the path is too long");
    if (access(path, F_OK) == 0)
        return reject_target(path, "exists", error);

    const char *db_name = strrchr(sqlite->path, '/') + 1;
    const char *slash = strrchr(path, '/');
    const char *target = slash == NULL ? path : slash + 1;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", db_name, suffixes[i]);
        if (strcmp(name, target) == 0)
            return reject_target(path, "is the name of a part of the queue", error);

        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        if (access(name, F_OK) == 0)
            return reject_target(name, "exists and would be taken for a part of the copy", error);
    }
    return BIDE_OK;
}

/* Creates a new file with a unique name beside the target. */
static int create_temp(const struct sqlite *sqlite, const char *path, char *temp_path, size_t size,
                       char *error)
{
    snprintf(temp_path, size, "%s.part-XXXXXX", path);
    int fd = mkostemp(temp_path, O_CLOEXEC);
    if (fd < 0) {
        int number = errno;
        char hint[BI_SQLITE_HINT_SIZE];
        return bi_error_set(error, bi_sqlite_is_out_of_space(number) ? BIDE_EFULL : BIDE_EIO,
                            "backup: %.100s: %s%s", path, strerror(number),
                            number == EROFS ? "; allow it by ReadWritePaths= of its unit"
                                            : bi_sqlite_error_hint(number, hint));
    }

    /* The copy holds the same jobs, so it gets the permissions of the queue. */
    struct stat own;
    int failed =
        fstat(sqlite->lock_fd, &own) != 0 || fchmod(fd, own.st_mode & 0777) != 0 ? errno : 0;
    close(fd);

    if (failed == 0)
        return BIDE_OK;
    unlink(temp_path);
    return bi_error_set(error, BIDE_EIO, "backup: %.120s: %s", temp_path, strerror(failed));
}

int bi_sqlite_backup(struct store *store, const char *path, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    char temp_path[4096 + 16];

    int code = check_target(sqlite, path, error);
    if (code == BIDE_OK)
        code = create_temp(sqlite, path, temp_path, sizeof(temp_path), error);
    if (code != BIDE_OK)
        return code;

    /* A failed copy starts again: a read may fail temporarily, or a commit reopen the files. The
     * mutex is released in between so that such a commit can proceed. */
    for (int i = 0; i == 0 || (i < READ_TRIES && code == BIDE_EIO && !store->stopping); i++) {
        if (i > 0)
            usleep(READ_MS * 1000);
        pthread_mutex_lock(&sqlite->scanner.lock);
        code = copy_pages(sqlite, temp_path, error);
        pthread_mutex_unlock(&sqlite->scanner.lock);
    }

    if (code == BIDE_OK)
        code = publish_copy(store, temp_path, path, error);

    /* The copy has its second name by now, or has moved to it. A failed one may leave the rollback
     * journal of its target. */
    unlink(temp_path);
    strncat(temp_path, "-journal", sizeof(temp_path) - strlen(temp_path) - 1);
    unlink(temp_path);
    return code;
}
