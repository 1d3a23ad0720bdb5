/* SPDX-License-Identifier: MIT */
/*
 * sqlite_ballast - reserves disk space, so that a full disk can be emptied again.
 *
 * A delete needs space, too: the log takes the changed pages before the database returns any. So
 * the store keeps a ballast file beside the database (jobs.db-filler). When the disk is full the
 * store removes the ballast and rejects new jobs; deletes use the space that it released. The
 * store creates the ballast again when the disk has room for twice its size. The ballast is
 * larger than the log, so that a checkpoint can always grow the database.
 *
 * Where the process has a file size limit (RLIMIT_FSIZE), the last pages of the database below
 * that limit are reserved in the same way.
 *
 * Threads    The commit thread, with the writer mutex held; the opening thread before that.
 */
#define _GNU_SOURCE
#include "store/sqlite.h"

#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* The ballast takes a sixteenth of the disk, within these bounds. */
#define BALLAST_MIN (INT64_C(256) << 10)
#define BALLAST_MAX (INT64_C(16) << 20)
/* Pages in the log before a checkpoint; never more than fit into the ballast. */
#define WAL_PAGES_MAX 1500
/* Between two tries to create the ballast: each one calls statvfs() and allocates. */
#define RETRY_INTERVAL_US 200000

/* ---- file size limit ---- */

void bi_sqlite_read_file_limit(struct sqlite *sqlite)
{
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                   limit.rlim_cur <= INT64_MAX;

    sqlite->file_limit = limited ? (int64_t)limit.rlim_cur : INT64_MAX;
}

void bi_sqlite_block_sigxfsz(const struct sqlite *sqlite, struct sigxfsz_guard *guard)
{
    sigset_t set;
    guard->on = sqlite->file_limit != INT64_MAX;
    if (!guard->on)
        return;

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &guard->before);

    /* A signal that is pending already belongs to the application: unblock must not consume
     * it. */
    sigpending(&set);
    guard->was_pending = sigismember(&set, SIGXFSZ) == 1;
}

void bi_sqlite_unblock_sigxfsz(const struct sigxfsz_guard *guard)
{
    sigset_t set;
    if (!guard->on)
        return;

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);

    /* Consume the signal that a write of ours raised, before the old mask delivers it. */
    if (!guard->was_pending)
        sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = 0});
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* The last pages are to a file with a size limit what the ballast is to a disk. They become
 * available for deletes while the store is full. */
void bi_sqlite_set_max_pages(struct sqlite *sqlite)
{
    char sql[64];
    if (sqlite->file_limit == INT64_MAX)
        return;

    /* At most a quarter of the limit: see ballast_size(). */
    assert(sqlite->page_size > 0 && sqlite->ballast_size <= sqlite->file_limit / 4);
    int64_t bytes = sqlite->file_limit - (sqlite->base.full ? 0 : sqlite->ballast_size);
    snprintf(sql, sizeof(sql), "PRAGMA max_page_count=%lld",
             (long long)(bytes / sqlite->page_size));
    bi_sqlite_exec(&sqlite->writer, sql);
}

/* Whether the database has room for more bytes below the file size limit. Free pages inside
 * the file count: SQLite uses them first. */
static bool file_may_grow(struct sqlite *sqlite, int64_t bytes)
{
    if (sqlite->file_limit == INT64_MAX)
        return true;

    int64_t pages = bi_sqlite_query_int64(&sqlite->writer, "PRAGMA page_count", 0) -
                    bi_sqlite_query_int64(&sqlite->writer, "PRAGMA freelist_count", 0);
    return sqlite->file_limit - pages * sqlite->page_size >= bytes;
}

/* ---- ballast ---- */

static void make_ballast_path(const struct sqlite *sqlite, char *path, size_t size)
{
    int length = snprintf(path, size, "%s-filler", sqlite->path);
    assert(length > 0 && (size_t)length < size); /* a cut name may be that of the database */
    (void)length;
}

/* Returns the size that the ballast should have. *has_space: the disk has room for the ballast
 * (unless it exists), for the same amount again, and for a pinned log. */
static int64_t ballast_size(struct sqlite *sqlite, bool *has_space)
{
    struct statvfs disk;
    bool known = statvfs(sqlite->path, &disk) == 0;
    int64_t size = known ? (int64_t)disk.f_blocks * (int64_t)disk.f_frsize / 16 : 0;

    size = size < BALLAST_MIN ? BALLAST_MIN : size > BALLAST_MAX ? BALLAST_MAX : size;
    /* file_may_grow() below asks for twice the size, which must stay well below the limit. */
    if (size > sqlite->file_limit / 4)
        size = sqlite->file_limit / 4;

    *has_space = false;
    if (!known)
        return size;

    /* The margin keeps the store from leaving the full state only to enter it with the next
     * batch. */
    int64_t wanted = (sqlite->has_ballast ? size : 2 * size) + sqlite->wal_pinned_bytes;
    *has_space = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize >= wanted &&
                 file_may_grow(sqlite, 2 * size);
    return size;
}

/* Whether the disk will soon have no room left for a checkpoint. page_count includes the pages
 * that are still in the log, so the difference to the file size is what the checkpoint must
 * add; two full logs are the margin. */
static bool would_block_checkpoint(struct sqlite *sqlite)
{
    struct statvfs disk;
    struct stat file;
    int64_t pages = bi_sqlite_query_int64(&sqlite->writer, "PRAGMA page_count", 0);

    if (statvfs(sqlite->path, &disk) != 0 || fstat(sqlite->lock_fd, &file) != 0)
        return false;

    int64_t growth = pages * sqlite->page_size - (int64_t)file.st_size;
    int64_t margin = INT64_C(2) * sqlite->wal_max_pages * sqlite_frame_size(sqlite);
    return growth > 0 && (int64_t)disk.f_bavail * (int64_t)disk.f_frsize < growth + margin;
}

/* A pinned log grows with every commit. It must not take the space that its own checkpoint
 * needs. */
void bi_sqlite_check_space(struct sqlite *sqlite)
{
    bool has_space;
    assert(sqlite->wal_pinned_bytes >= 0);
    sqlite->checkpoint_blocked = sqlite->wal_pinned_bytes > 0 && would_block_checkpoint(sqlite);
    if (sqlite->wal_pinned_bytes == 0 || sqlite->base.full)
        return;

    ballast_size(sqlite, &has_space);
    if (has_space)
        return;

    sqlite->base.full = true;
    bi_log(
        &sqlite->options.log, BIDE_LOG_ERROR,
        "%s: the log of %lld MB has not been checkpointed, perhaps because of a reader, and there is "
        "little room left; puts are refused",
        sqlite->path, (long long)(sqlite->wal_pinned_bytes >> 20));
}

bool bi_sqlite_has_space(const struct sqlite *sqlite, int64_t bytes)
{
    struct statvfs disk;
    int64_t frames = sqlite->wal_frames * sqlite_frame_size(sqlite);
    int64_t log = frames > sqlite->wal_pinned_bytes ? frames : sqlite->wal_pinned_bytes;
    assert(bytes >= 0 && log >= 0);

    /* Twice, because the log and the database may both grow by it. If statvfs() fails the
     * batch is tried: the commit reports a full disk as well. */
    return log + bytes <= sqlite->ballast_size || statvfs(sqlite->path, &disk) != 0 ||
           (int64_t)disk.f_bavail * (int64_t)disk.f_frsize >= 2 * (log + bytes);
}

/* Whether there is a ballast, perhaps of an earlier run of the process. Allocated blocks
 * count, not the length: a sparse file reserves nothing. A smaller ballast of an earlier run
 * is good enough. */
static bool ballast_exists(const char *path, int64_t size)
{
    struct stat file;
    int64_t min_size = size < BALLAST_MIN ? size : BALLAST_MIN;
    return stat(path, &file) == 0 && file.st_blocks * INT64_C(512) >= min_size;
}

/* Returns 0 or an errno. A failed create leaves no file: half a ballast would only take space. */
static int create_ballast(const char *path, int64_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;

    int failed = posix_fallocate(fd, 0, size);
    close(fd);
    if (failed != 0)
        unlink(path);
    return failed;
}

/* Derives the limits of the log and of one batch from the size of the ballast, so that both
 * fit into it. Removing a job may change a page of each table and the pages that track them. */
static void set_wal_limits(struct sqlite *sqlite, int64_t size)
{
    assert(size >= 0 && size <= BALLAST_MAX);
    int64_t pages = size / sqlite->page_size;
    bool small = size < BALLAST_MAX;

    sqlite->ballast_size = size;
    sqlite->wal_max_pages = (int)(pages * 3 / 4 < WAL_PAGES_MAX ? pages * 3 / 4 : WAL_PAGES_MAX);
    sqlite->base.batch_jobs = small ? (uint32_t)(pages / 4 + 1) : 0;
    sqlite->base.batch_bytes = small ? (uint64_t)(size / 2 + 1) : 0;
    assert(sqlite->wal_max_pages * sqlite->page_size <= size); /* a checkpoint fits into it */
}

void bi_sqlite_ballast_restore(struct sqlite *sqlite, bool now)
{
    int64_t time = bi_clock_boot();
    if ((sqlite->has_ballast && !sqlite->base.full) ||
        (!now && time - sqlite->ballast_tried_at < RETRY_INTERVAL_US))
        return;
    sqlite->ballast_tried_at = time;

    char path[4096 + 8];
    make_ballast_path(sqlite, path, sizeof(path));

    /* The limits come first: the page limit is computed from the ballast size. It still
     * reserves nothing here if the store is full. */
    bool has_space;
    int64_t size = ballast_size(sqlite, &has_space);
    set_wal_limits(sqlite, size);
    bi_sqlite_set_max_pages(sqlite);

    int failed = !has_space || ballast_exists(path, size) ? 0 : create_ballast(path, size);
    sqlite->has_ballast = ballast_exists(path, size);

    /* The free space that statvfs() reports may not be available to us; only a ballast that could
     * be allocated proves it. If the create fails for another reason than lack of space, there is
     * no such proof, and the store leaves the full state without it. */
    if (!sqlite->base.full || !has_space || bi_sqlite_is_out_of_space(failed))
        return;

    bi_log(&sqlite->options.log, BIDE_LOG_WARN, "%s: there is room again, and puts go on",
           sqlite->path);
    sqlite->base.full = false;
    sqlite->ballast_used = 0;
    /* Again, now that the store is not full: this reserves the last pages of the file. */
    bi_sqlite_set_max_pages(sqlite);
}

bool bi_sqlite_ballast_remove(struct sqlite *sqlite)
{
    char path[4096 + 8];
    make_ballast_path(sqlite, path, sizeof(path));

    sqlite->has_ballast = false;
    return unlink(path) == 0;
}

bool bi_sqlite_ballast_release(struct sqlite *sqlite)
{
    if (!sqlite->base.full)
        bi_log(&sqlite->options.log, BIDE_LOG_ERROR,
               "%s: the disk is full; puts are refused until there is room", sqlite->path);

    sqlite->base.full = true;
    sqlite->ballast_tried_at = bi_clock_boot();

    /* `full` must be set by now: it opens the last pages of a file with a size limit. */
    bool released = bi_sqlite_ballast_remove(sqlite);
    bi_sqlite_set_max_pages(sqlite);
    return released;
}
