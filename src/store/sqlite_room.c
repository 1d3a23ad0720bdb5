/* SPDX-License-Identifier: MIT */
/*
 * sqlite_room - a file that only takes room.
 *
 * Deleting needs room, too: the log takes the changed pages before the file gives any back. When
 * the disk is full the filler is given up, and deletes go on in its place, while new jobs are
 * refused. It is made again as soon as there is room for it and as much again. It is larger than
 * the log ever is, so that the log can be brought into a file that has to grow for it.
 *
 * Where the process may not write files of any size (RLIMIT_FSIZE), the end of the database is kept
 * free in the same way.
 */
#define _GNU_SOURCE
#include "store/sqlite.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* The filler takes a sixteenth of the disk, within these. */
#define FILLER_MIN (INT64_C(256) << 10)
#define FILLER_MAX (INT64_C(16) << 20)
/* Pages in the log before it is brought into the file: never more than have room in the filler. */
#define LOG_MAX    1500
#define LOOK_EVERY 200000 /* us */

/* ---- the largest file ---- */

void bi_sqlite_look_at_limit(struct sqlite *sqlite)
{
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                   limit.rlim_cur <= INT64_MAX;
    sqlite->file_limit = limited ? (int64_t)limit.rlim_cur : INT64_MAX;
}

void bi_sqlite_guard(const struct sqlite *sqlite, struct signal_guard *guard)
{
    sigset_t set;
    guard->on = sqlite->file_limit != INT64_MAX;
    if (!guard->on)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &guard->before);
    sigpending(&set);
    guard->was_pending = sigismember(&set, SIGXFSZ) == 1;
}

void bi_sqlite_unguard(const struct signal_guard *guard)
{
    sigset_t set;
    if (!guard->on)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    if (!guard->was_pending)
        sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = 0});
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* What the filler is to a disk, the last pages are to the file: they are for deletes. */
void bi_sqlite_limit_pages(struct sqlite *sqlite)
{
    char sql[64];
    if (sqlite->file_limit == INT64_MAX)
        return;
    int64_t bytes = sqlite->file_limit - (sqlite->base.full ? 0 : sqlite->filler_size);
    snprintf(sql, sizeof(sql), "PRAGMA max_page_count=%lld", (long long)(bytes / 4096));
    bi_sqlite_exec(&sqlite->writer, sql);
}

/* Could the file grow by so much? */
static bool may_grow(struct sqlite *sqlite, int64_t bytes)
{
    if (sqlite->file_limit == INT64_MAX)
        return true;
    int64_t pages = bi_sqlite_number(&sqlite->writer, "PRAGMA page_count", 0) -
                    bi_sqlite_number(&sqlite->writer, "PRAGMA freelist_count", 0);
    return sqlite->file_limit - pages * 4096 >= bytes;
}

/* ---- the filler ---- */

static void name_filler(const struct sqlite *sqlite, char *name, size_t size)
{
    snprintf(name, size, "%s-filler", sqlite->path);
}

/* How large the filler is to be, and whether there is room for it (or it is there already), as much
 * again, and the log. */
static int64_t filler_size(struct sqlite *sqlite, bool *has_room)
{
    struct statvfs disk;
    *has_room = false;
    if (statvfs(sqlite->path, &disk) != 0)
        return FILLER_MIN;
    int64_t size = (int64_t)disk.f_blocks * (int64_t)disk.f_frsize / 16;
    size = size < FILLER_MIN ? FILLER_MIN : size > FILLER_MAX ? FILLER_MAX : size;
    if (size > sqlite->file_limit / 4)
        size = sqlite->file_limit / 4;
    int64_t wanted = (sqlite->has_filler ? size : 2 * size) + sqlite->log_bytes;
    *has_room =
        (int64_t)disk.f_bavail * (int64_t)disk.f_frsize >= wanted && may_grow(sqlite, 2 * size);
    return size;
}

/* Would the file, as large as it is to be, soon have no room to be brought to that? */
static bool would_choke(struct sqlite *sqlite)
{
    struct statvfs disk;
    struct stat file;
    int64_t pages = bi_sqlite_number(&sqlite->writer, "PRAGMA page_count", 0);
    if (statvfs(sqlite->path, &disk) != 0 || fstat(sqlite->lock_fd, &file) != 0)
        return false;
    int64_t growth = pages * 4096 - (int64_t)file.st_size;
    int64_t margin = 2 * (int64_t)sqlite->log_pages * 4120;
    return growth > 0 && (int64_t)disk.f_bavail * (int64_t)disk.f_frsize < growth + margin;
}

/* A log that cannot be brought in must not take the room that will be needed for that. */
void bi_sqlite_watch_room(struct sqlite *sqlite)
{
    bool has_room;
    sqlite->choked = sqlite->log_bytes > 0 && would_choke(sqlite);
    if (sqlite->log_bytes == 0 || sqlite->base.full)
        return;
    filler_size(sqlite, &has_room);
    if (has_room)
        return;
    sqlite->base.full = true;
    bi_log(
        &sqlite->options.log, BIDE_LOG_ERROR,
        "%s: the log of %lld MB has not been brought in, perhaps because of a reader, and there is "
        "little room left; puts are refused",
        sqlite->path, (long long)(sqlite->log_bytes >> 20));
}

bool bi_sqlite_has_room(const struct sqlite *sqlite, int64_t bytes)
{
    struct statvfs disk;
    int64_t frames = (int64_t)sqlite->wal_frames * 4120;
    int64_t log = frames > sqlite->log_bytes ? frames : sqlite->log_bytes;
    return log + bytes <= sqlite->filler_size || statvfs(sqlite->path, &disk) != 0 ||
           (int64_t)disk.f_bavail * (int64_t)disk.f_frsize >= 2 * (log + bytes);
}

/* Is it there, from an earlier life? */
static bool is_there(const char *name, int64_t size)
{
    struct stat file;
    int64_t least = size < FILLER_MIN ? size : FILLER_MIN;
    return stat(name, &file) == 0 && file.st_blocks * INT64_C(512) >= least;
}

/* 0, or why it could not be made: an errno. */
static int make_filler(const char *name, int64_t size)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int failed = posix_fallocate(fd, 0, size);
    close(fd);
    if (failed != 0)
        unlink(name);
    return failed;
}

/* What the log may take before it is brought in, and what one batch may add, so that the filler has
 * room for it: to remove a job may change a page of each table, and the pages that track them. */
static void limit_log(struct sqlite *sqlite, int64_t size)
{
    int64_t pages = size / 4096;
    bool small = size < FILLER_MAX;
    sqlite->filler_size = size;
    sqlite->log_pages = (int)(pages * 3 / 4 < LOG_MAX ? pages * 3 / 4 : LOG_MAX);
    sqlite->base.batch_jobs = small ? (uint32_t)(pages / 4 + 1) : 0;
    sqlite->base.batch_bytes = small ? (uint64_t)(size / 2 + 1) : 0;
}

void bi_sqlite_fill(struct sqlite *sqlite, bool now)
{
    int64_t time = bi_clock_boot();
    if ((sqlite->has_filler && !sqlite->base.full) ||
        (!now && time - sqlite->filler_tried < LOOK_EVERY))
        return;
    sqlite->filler_tried = time;
    char name[4096 + 8];
    name_filler(sqlite, name, sizeof(name));
    bool has_room;
    int64_t size = filler_size(sqlite, &has_room);
    limit_log(sqlite, size);
    bi_sqlite_limit_pages(sqlite);
    int failed = !has_room || is_there(name, size) ? 0 : make_filler(name, size);
    sqlite->has_filler = is_there(name, size);
    /* What the file system says to be free may not be for us: only a filler that could be made
     * proves it. Where one cannot be made for another reason there is no such proof. */
    if (!sqlite->base.full || !has_room || bi_sqlite_lacks_room(failed))
        return;
    bi_log(&sqlite->options.log, BIDE_LOG_WARN, "%s: there is room again, and puts go on",
           sqlite->path);
    sqlite->base.full = false;
    sqlite->filler_used = 0;
    bi_sqlite_limit_pages(sqlite);
}

bool bi_sqlite_drop_filler(struct sqlite *sqlite)
{
    char name[4096 + 8];
    name_filler(sqlite, name, sizeof(name));
    sqlite->has_filler = false;
    return unlink(name) == 0;
}

bool bi_sqlite_give_room(struct sqlite *sqlite)
{
    if (!sqlite->base.full)
        bi_log(&sqlite->options.log, BIDE_LOG_ERROR,
               "%s: the disk is full; puts are refused until there is room", sqlite->path);
    sqlite->base.full = true;
    sqlite->filler_tried = bi_clock_boot();
    bool given = bi_sqlite_drop_filler(sqlite);
    bi_sqlite_limit_pages(sqlite);
    return given;
}
