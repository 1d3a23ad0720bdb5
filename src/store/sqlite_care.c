/* SPDX-License-Identifier: MIT */
/*
 * sqlite_care - keeping the files in shape, and copies of them.
 */
#define _GNU_SOURCE /* mkostemp */
#include "store/sqlite.h"

#include "util/clock.h"
#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Free pages are given back when there are more of them than this, and than a quarter of all. */
#define FREE_PAGES 1024
/* On a full disk nearly all are given back. */
#define FREE_PAGES_FULL 16
/* How many at a time, as far as the log has room, and after how many commits they are counted; on a
 * full disk after every one. */
#define VACUUM_PAGES 256
#define VACUUM_EVERY 32
/* Pause between two rounds of giving back, for others that use the disk. */
#define VACUUM_REST 1000
/* The log of a queue that is idle is brought in after this time. */
#define IDLE_REST 1000000
/* So long after its end, by the wall clock, a pause is taken for ended. */
#define PAUSE_MARGIN 10000
/* How often we look whether there is room again. */
#define ROOM_REST 200000
/* After so many commits a queue counts as busy, and the log gets its length, a piece at a time. */
#define LOG_COMMITS 64
#define LOG_PIECE   (256 << 10)

/* A long log that has been brought in takes room until somebody writes; unless somebody reads it, it
 * can be cut now. True if it was. */
static bool cut_log(struct sqlite *sqlite)
{
    sqlite3_busy_timeout(sqlite->writer.db, 0);
    int code =
        sqlite3_wal_checkpoint_v2(sqlite->writer.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(sqlite->writer.db, BUSY_MS);
    return code == SQLITE_OK;
}

/* Brings in as much of the log as readers let it. If the file cannot grow for it the disk is full, and
 * the filler, which is larger than the log, gives way. */
static int bring_in(struct sqlite *sqlite, int *frames, int *brought_in)
{
    char error[BIDE_ERROR_SIZE];
    int code = SQLITE_OK;
    sqlite->log_lacks_room = false;
    for (int i = 0; i < 2; i++) {
        code = sqlite3_wal_checkpoint_v2(sqlite->writer.db, NULL, SQLITE_CHECKPOINT_PASSIVE, frames,
                                         brought_in);
        if (code == SQLITE_OK)
            bi_log_ends(&sqlite->failing);
        if (code == SQLITE_OK || code == SQLITE_BUSY) {
            sqlite->log_lacks_room = false;
            return code;
        }
        sqlite->log_lacks_room =
            bi_sqlite_error(sqlite, &sqlite->writer, "checkpoint", error) == BIDE_EFULL;
        if (!sqlite->log_lacks_room || !bi_sqlite_give_room(sqlite))
            break;
    }
    if (bi_log_repeats(&sqlite->failing, bi_clock_boot()) > 0)
        bi_log(&sqlite->options.log, BIDE_LOG_WARN, "the log could not be brought in: %s", error);
    return code;
}

/* Brings the log into the file, which is then cut at its end if pages were given back. */
void bi_sqlite_checkpoint(struct sqlite *sqlite)
{
    int frames = 0;
    int brought_in = 0;
    int code = bring_in(sqlite, &frames, &brought_in);
    if (code == SQLITE_IOERR_FSYNC)
        sqlite->base.reopened = true; /* with sync=normal earlier commits relied on this sync */
    if (code != SQLITE_OK) {
        frames = sqlite->wal_frames;
        brought_in = 0;
    }
    if (frames == brought_in && (frames > 2 * sqlite->log_pages || sqlite->base.full) &&
        cut_log(sqlite))
        frames = brought_in = 0;
    sqlite->wal_frames = frames - brought_in;
    /* Somebody reads an old state: the log grows on, and will have to be brought in some day. */
    sqlite->log_bytes =
        frames > brought_in || frames > 2 * sqlite->log_pages ? (int64_t)frames * 4120 : 0;
    bi_sqlite_watch_room(sqlite);
}

static bool has_many_free(struct sqlite *sqlite)
{
    int64_t free_pages = bi_sqlite_number(&sqlite->writer, "PRAGMA freelist_count", 0);
    if (sqlite->base.full)
        return free_pages > FREE_PAGES_FULL;
    return free_pages > FREE_PAGES &&
           free_pages > bi_sqlite_number(&sqlite->writer, "PRAGMA page_count", 0) / 4;
}

/* True if there is more to give back. */
static bool vacuum(struct sqlite *sqlite)
{
    /* It goes into the log, which must not grow while it cannot be brought in. */
    if (sqlite->log_bytes > 0 || !has_many_free(sqlite))
        return false;
    char sql[48];
    int pages = sqlite->log_pages / 2 < VACUUM_PAGES ? sqlite->log_pages / 2 : VACUUM_PAGES;
    snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%d)", pages < 1 ? 1 : pages);
    return bi_sqlite_exec(&sqlite->writer, sql) == SQLITE_OK;
}

/* ---- pauses that have ended ---- */

/* Pauses run on the boot-time clock and are stored by the wall clock, which may be set meanwhile. With
 * the least offset between the two no pause is taken for ended that may still last; after a step
 * of the clock a row may stay until the next start. */
void bi_sqlite_note_pause(struct sqlite *sqlite, int64_t until)
{
    int64_t offset = bi_clock_wall() - bi_clock_boot() - PAUSE_MARGIN;
    if (until == 0 || until == BI_NEVER)
        return;
    if (sqlite->pause_end == BI_NEVER || offset < sqlite->pause_offset)
        sqlite->pause_offset = offset;
    if (until - sqlite->pause_offset < sqlite->pause_end)
        sqlite->pause_end = until - sqlite->pause_offset;
}

int bi_sqlite_remove_pauses(struct sqlite *sqlite, int64_t before)
{
    char sql[64];
    snprintf(sql, sizeof(sql), "DELETE FROM pause WHERE until<=%lld", (long long)before);
    return bi_sqlite_exec(&sqlite->writer, sql);
}

/* At most once in a while, several at a time: what a pause leaves behind does no harm. */
static void end_pauses(struct sqlite *sqlite)
{
    int64_t now = bi_clock_boot();
    if (now < sqlite->pause_end)
        return;
    bi_sqlite_remove_pauses(sqlite, now + sqlite->pause_offset);
    int64_t next = bi_sqlite_number(&sqlite->writer, "SELECT min(until) FROM pause", BI_NEVER);
    sqlite->pause_end = BI_NEVER;
    if (next == 0 || next == BI_NEVER) /* 0: there is none */
        return;
    next -= sqlite->pause_offset;
    sqlite->pause_end = next > now + IDLE_REST ? next : now + IDLE_REST;
}

/* ---- the length of the log ---- */

/* Writes zeros behind the end of the log, which SQLite takes for the end, too. Answers the length that
 * it has then; -1: it cannot be made longer. */
static int64_t lengthen_log(const struct sqlite *sqlite, int64_t wanted)
{
    static const char zeros[LOG_PIECE];
    char name[PATH_MAX];
    struct stat file;
    struct statvfs disk;
    snprintf(name, sizeof(name), "%s-wal", sqlite->path);
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int64_t length = -1;
    if (fstat(fd, &file) == 0 && fstatvfs(fd, &disk) == 0 &&
        (int64_t)disk.f_bavail * (int64_t)disk.f_frsize > 4 * wanted) {
        int64_t left = wanted - (int64_t)file.st_size;
        size_t piece = left <= 0 ? 0 : left < LOG_PIECE ? (size_t)left : LOG_PIECE;
        ssize_t written = piece == 0 ? 0 : pwrite(fd, zeros, piece, file.st_size);
        if (written == (ssize_t)piece && fdatasync(fd) == 0)
            length = (int64_t)file.st_size + written;
    }
    close(fd);
    return length;
}

/*
 * While the log grows each sync writes its new length, too, and takes about twice as long as one that
 * overwrites. SQLite overwrites a log that it has brought in, so this is done once. A queue that does
 * little is spared the writes.
 */
static void prepare_log(struct sqlite *sqlite)
{
    int64_t wanted = (int64_t)(sqlite->log_pages + sqlite->log_pages / 8) * 4120;
    if (sqlite->options.sync != BIDE_SYNC_FULL || sqlite->base.full ||
        sqlite->file_limit != INT64_MAX || sqlite->log_prepared >= wanted ||
        ++sqlite->log_commits < LOG_COMMITS)
        return;
    int64_t length = lengthen_log(sqlite, wanted);
    sqlite->log_prepared = length < 0 ? wanted : length;
}

/* ---- all together ---- */

static int64_t tidy(struct sqlite *sqlite, bool idle)
{
    prepare_log(sqlite);
    end_pauses(sqlite);
    bool more = false;
    if (idle || sqlite->base.full || ++sqlite->tidied % VACUUM_EVERY == 0)
        more = vacuum(sqlite);
    if (sqlite->wal_frames >= sqlite->log_pages ||
        (idle && !more && (sqlite->wal_frames > 0 || sqlite->log_bytes > 0)))
        bi_sqlite_checkpoint(sqlite);
    bi_sqlite_fill(sqlite, false);
    if (more)
        return VACUUM_REST;
    if (sqlite->base.full)
        return ROOM_REST;
    if (sqlite->wal_frames > 0)
        return IDLE_REST;
    if (sqlite->pause_end == BI_NEVER)
        return BI_NEVER;
    int64_t left = sqlite->pause_end - bi_clock_boot();
    return left < 0 ? 0 : left;
}

int64_t bi_sqlite_tidy(struct store *store, bool idle)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct signal_guard guard;
    bi_sqlite_guard(sqlite, &guard);
    pthread_mutex_lock(&sqlite->writer.use);
    int64_t again = ROOM_REST;
    if (sqlite->writer.db != NULL && !sqlite->doubtful)
        again = tidy(sqlite, idle);
    pthread_mutex_unlock(&sqlite->writer.use);
    bi_sqlite_unguard(&guard);
    return again;
}

/* ---- rows that make no sense ---- */

static int move_aside(struct connection *writer, uint64_t id, const char *reason)
{
    sqlite3_stmt *to = bi_sqlite_get(writer, ST_SET_ASIDE);
    sqlite3_stmt *remove = bi_sqlite_get(writer, ST_REMOVE);
    sqlite3_stmt *remove_body = bi_sqlite_get(writer, ST_REMOVE_BODY);
    if (to == NULL || remove == NULL || remove_body == NULL)
        return SQLITE_ERROR;
    sqlite3_bind_int64(to, 1, bi_clock_wall());
    sqlite3_bind_text(to, 2, reason, -1, SQLITE_STATIC);
    sqlite3_bind_int64(to, 3, (int64_t)id);
    sqlite3_bind_int64(remove, 1, (int64_t)id);
    sqlite3_bind_int64(remove_body, 1, (int64_t)id);
    sqlite3_stmt *const steps[] = {bi_sqlite_get(writer, ST_BEGIN), to, remove, remove_body,
                                   bi_sqlite_get(writer, ST_COMMIT)};
    int code = SQLITE_DONE;
    for (size_t i = 0; code == SQLITE_DONE && i < sizeof(steps) / sizeof(steps[0]); i++)
        code = bi_sqlite_run(steps[i]);
    return code;
}

int bi_sqlite_set_aside(struct store *store, uint64_t id, const char *reason, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *writer = &sqlite->writer;
    struct signal_guard guard;
    bi_sqlite_guard(sqlite, &guard);
    pthread_mutex_lock(&writer->use);
    int answer = BIDE_OK;
    if (move_aside(writer, id, reason) != SQLITE_DONE) {
        answer = bi_sqlite_error(sqlite, writer, "set aside", error);
        if (writer->db != NULL && sqlite3_get_autocommit(writer->db) == 0)
            bi_sqlite_exec(writer, "ROLLBACK");
    }
    pthread_mutex_unlock(&writer->use);
    bi_sqlite_unguard(&guard);
    return answer;
}

/* ---- a copy ---- */

/* Pages that are copied before we look whether the queue is being closed. */
#define COPY_PAGES 64

/* Copies all pages, from one state of the file: a read transaction keeps it between the steps.
 * SQLITE_DONE; SQLITE_INTERRUPT if the queue is being closed, or a commit wants the file alone. */
static int copy_steps(struct sqlite *sqlite, sqlite3 *from, sqlite3 *to)
{
    int code = sqlite3_exec(from, "BEGIN; SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    sqlite3_backup *backup =
        code == SQLITE_OK ? sqlite3_backup_init(to, "main", from, "main") : NULL;
    if (backup == NULL)
        return code == SQLITE_OK ? sqlite3_errcode(to) : code;
    while ((code = sqlite3_backup_step(backup, COPY_PAGES)) == SQLITE_OK)
        if (sqlite->base.stopping || sqlite->hurry) {
            code = SQLITE_INTERRUPT;
            break;
        }
    int finished = sqlite3_backup_finish(backup);
    return code == SQLITE_DONE && finished != SQLITE_OK ? finished : code;
}

/* A connection of its own, so that others can go on while all pages are copied. */
static int copy_pages(struct sqlite *sqlite, const char *part, char *error)
{
    sqlite3 *from = NULL;
    sqlite3 *to = NULL;
    int code =
        sqlite3_open_v2(sqlite->path, &from, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_open_v2(
            part, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = copy_steps(sqlite, from, to);
    int answer = BIDE_OK;
    if (code == SQLITE_INTERRUPT) {
        answer = sqlite->base.stopping ? BIDE_CLOSED : BIDE_EIO;
        snprintf(error, BIDE_ERROR_SIZE, "backup: %s",
                 sqlite->base.stopping ? bide_code_text(BIDE_CLOSED) : "writes fail; try it later");
    } else if (code != SQLITE_DONE) {
        int system = to == NULL ? 0 : sqlite3_system_errno(to);
        answer = bi_sqlite_code(code, system);
        snprintf(error, BIDE_ERROR_SIZE, "backup: %.120s: %s", part,
                 code == SQLITE_CANTOPEN && system != 0 ? strerror(system) : sqlite3_errstr(code));
    }
    sqlite3_close(to);
    sqlite3_close(from);
    return answer;
}

static int sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0;
    if (fd >= 0)
        close(fd);
    return failed;
}

/* The copy comes under its name when it is complete, and never in the place of another file. */
static int finish_copy(const char *part, const char *path, char *error)
{
    char directory[4096];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof(directory), "%.*s", slash == NULL ? 1 : (int)(slash - path + 1),
             slash == NULL ? "." : path);
    if (sync_file(part) == 0 && link(part, path) == 0 && sync_file(directory) == 0)
        return BIDE_OK;
    snprintf(error, BIDE_ERROR_SIZE, "backup: %.120s: %s", path, strerror(errno));
    return bi_sqlite_lacks_room(errno) ? BIDE_EFULL : errno == EEXIST ? BIDE_EINVAL : BIDE_EIO;
}

static int refuse_target(const char *path, const char *why, char *error)
{
    snprintf(error, BIDE_ERROR_SIZE, "backup: %.110s %s; choose a new name", path, why);
    return BIDE_EINVAL;
}

/* Neither something that exists, nor what SQLite would take for a part of some database. */
static int check_target(const struct sqlite *sqlite, const char *path, char *error)
{
    static const char *const parts[] = {"-wal", "-shm", "-journal", "-filler"};
    char name[4096 + 16];
    if (strlen(path) > 4000) {
        bi_text_copy(error, "backup: the path is too long");
        return BIDE_EINVAL;
    }
    if (access(path, F_OK) == 0)
        return refuse_target(path, "exists", error);
    const char *own_name = strrchr(sqlite->path, '/') + 1;
    const char *slash = strrchr(path, '/');
    const char *target = slash == NULL ? path : slash + 1;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", own_name, parts[i]);
        if (strcmp(name, target) == 0)
            return refuse_target(path, "is the name of a part of the queue", error);
        snprintf(name, sizeof(name), "%s%s", path, parts[i]);
        if (access(name, F_OK) == 0)
            return refuse_target(name, "exists and would be taken for a part of the copy", error);
    }
    return BIDE_OK;
}

/* A new file beside the target, of a name that nobody has. */
static int make_part(const struct sqlite *sqlite, const char *path, char *part, size_t size,
                     char *error)
{
    snprintf(part, size, "%s.part-XXXXXX", path);
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0) {
        char room[SQLITE_WAY_OUT_SIZE];
        snprintf(error, BIDE_ERROR_SIZE, "backup: %.100s: %s%s", path, strerror(errno),
                 errno == EROFS ? "; allow it by ReadWritePaths= of its unit"
                                : bi_sqlite_way_out(errno, room));
        return bi_sqlite_lacks_room(errno) ? BIDE_EFULL : BIDE_EIO;
    }
    struct stat own; /* whoever may not read the queue may not read the copy */
    bool made = fstat(sqlite->lock_fd, &own) == 0 && fchmod(fd, own.st_mode & 0777) == 0;
    close(fd);
    if (made)
        return BIDE_OK;
    snprintf(error, BIDE_ERROR_SIZE, "backup: %.120s: %s", part, strerror(errno));
    unlink(part);
    return BIDE_EIO;
}

int bi_sqlite_backup(struct store *store, const char *path, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    char part[4096 + 16];
    int code = check_target(sqlite, path, error);
    if (code == BIDE_OK)
        code = make_part(sqlite, path, part, sizeof(part), error);
    if (code != BIDE_OK)
        return code;
    /* A copy that failed is begun again: reads may fail for a moment, and a commit in between. */
    for (int i = 0; i == 0 || (i < READ_TRIES && code == BIDE_EIO && !store->stopping); i++) {
        if (i > 0)
            usleep(READ_MS * 1000);
        pthread_mutex_lock(&sqlite->slow.use);
        code = copy_pages(sqlite, part, error);
        pthread_mutex_unlock(&sqlite->slow.use);
    }
    if (code == BIDE_OK)
        code = finish_copy(part, path, error);
    unlink(part);
    strncat(part, "-journal", sizeof(part) - strlen(part) - 1);
    unlink(part);
    return code;
}
