/* SPDX-License-Identifier: MIT */
/*
 * sqlite_commit - storing batches, and finding out what became of one whose COMMIT failed.
 */
#include "store/sqlite.h"

#include "util/clock.h"
#include "util/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a failed write may cost before its callers are told that nobody knows. */
#define SETTLE_TRIES 50
#define SETTLE_MS    100

/* The limits that a restart begins with, if they have to move. */
static int write_limits(struct sqlite *sqlite, const struct bi_batch *batch, uint64_t id_limit)
{
    int code = SQLITE_DONE;
    if (id_limit != sqlite->id_limit)
        code = bi_sqlite_meta_set(&sqlite->writer, "next_id", id_limit);
    if (code == SQLITE_DONE && batch->next_token != sqlite->token_limit)
        code = bi_sqlite_meta_set(&sqlite->writer, "next_token", batch->next_token);
    if (code == SQLITE_DONE && batch->lease_from != sqlite->lease_from)
        code = bi_sqlite_meta_set(&sqlite->writer, "lease_from", batch->lease_from);
    if (code == SQLITE_DONE && !sqlite->secret_stored)
        code = bi_sqlite_meta_set(&sqlite->writer, "secret_1", sqlite->secret.key[0]);
    if (code == SQLITE_DONE && !sqlite->secret_stored)
        code = bi_sqlite_meta_set(&sqlite->writer, "secret_2", sqlite->secret.key[1]);
    if (code == SQLITE_DONE && !sqlite->secret_stored)
        code = bi_sqlite_meta_set(&sqlite->writer, "token_from", sqlite->token_from);
    return code;
}

/* Everything but the COMMIT. SQLITE_INTERRUPT: the time to stop is over. Deletes of large bodies from a
 * slow disk may take long, and nothing of a batch counts before its COMMIT. */
static int write_batch(struct sqlite *sqlite, const struct bi_batch *batch, uint64_t id_limit)
{
    struct connection *writer = &sqlite->writer;
    int code = bi_sqlite_run(bi_sqlite_get(writer, ST_BEGIN));
    for (size_t i = 0; code == SQLITE_DONE && i < batch->count; i++) {
        if (bi_store_is_late(&sqlite->base))
            return SQLITE_INTERRUPT;
        code = bi_sqlite_write(writer, &batch->records[i]);
        if (batch->records[i].kind == BI_PAUSE)
            bi_sqlite_note_pause(sqlite, batch->records[i].image.due);
    }
    if (code == SQLITE_DONE)
        code = write_limits(sqlite, batch, id_limit);
    return code;
}

static void roll_back(struct connection *writer)
{
    if (writer->db != NULL && sqlite3_get_autocommit(writer->db) == 0)
        bi_sqlite_exec(writer, "ROLLBACK");
}

/* What a failed commit has left in the log, although SQLite says that nothing is stored. */
enum remains {
    REMAINS_NONE, /* nothing that will ever count */
    REMAINS_PART, /* a write failed: the file has to be looked at */
    REMAINS_ALL,  /* all of it, perhaps, and it would be found after a crash */
};

/* SQLITE_BUSY: it was locked out. A write that lacked room has left a frame without its end, and
 * then no transaction ends there; a sync that lacked room comes after all frames were written. */
static enum remains remains_of(int code, int answer)
{
    if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_FULL)
        return REMAINS_NONE;
    if (code == SQLITE_IOERR_WRITE)
        return answer == BIDE_EFULL ? REMAINS_NONE : REMAINS_PART;
    return REMAINS_ALL;
}

/* One attempt. */
static int try_commit(struct sqlite *sqlite, const struct bi_batch *batch, enum remains *remains,
                      char *error)
{
    struct connection *writer = &sqlite->writer;
    uint64_t id_limit =
        batch->next_id > sqlite->id_limit ? batch->next_id + ID_BLOCK : sqlite->id_limit;
    int code = write_batch(sqlite, batch, id_limit);
    bool written = code == SQLITE_DONE;
    if (written)
        code = bi_sqlite_run(bi_sqlite_get(writer, ST_COMMIT));
    if (code == SQLITE_DONE) {
        sqlite->next_id = batch->next_id;
        sqlite->id_limit = id_limit;
        sqlite->token_limit = batch->next_token;
        sqlite->lease_from = batch->lease_from;
        sqlite->secret_stored = true;
        return BIDE_OK;
    }
    *remains = REMAINS_NONE;
    if (!written && code == SQLITE_INTERRUPT) {
        roll_back(writer);
        bi_text_copy(error, "the queue is closed, and the time for that is over");
        return BIDE_CLOSED;
    }
    int answer = bi_sqlite_error(sqlite, writer, "commit", error);
    *remains = written ? remains_of(code, answer) : REMAINS_NONE;
    roll_back(writer);
    return answer;
}

/* Is the batch in the file? It is there as a whole or not at all. 1, 0, or -1: cannot be read. */
static int is_stored(struct sqlite *sqlite, const struct bi_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        int holds = bi_sqlite_holds(&sqlite->writer, &batch->records[i]);
        if (holds != 1)
            return holds;
    }
    int64_t next_token = 0, lease_from = 0;
    if (batch->count == 0)
        return bi_sqlite_meta_get(&sqlite->writer, "next_token", &next_token) &&
                       bi_sqlite_meta_get(&sqlite->writer, "lease_from", &lease_from)
                   ? next_token == (int64_t)batch->next_token &&
                         lease_from == (int64_t)batch->lease_from
                   : -1;
    return 1;
}

static void take_all(struct sqlite *sqlite)
{
    sqlite->hurry = true;
    pthread_mutex_lock(&sqlite->slow.use);
    sqlite->hurry = false;
    pthread_mutex_lock(&sqlite->reader.use);
}

static void give_all(struct sqlite *sqlite)
{
    pthread_mutex_unlock(&sqlite->reader.use);
    pthread_mutex_unlock(&sqlite->slow.use);
}

/* Closes every connection, so that the log is read from the file again, and opens them. */
static int reopen(struct sqlite *sqlite, char *error)
{
    take_all(sqlite);
    bi_sqlite_disconnect_all(sqlite);
    int code = bi_sqlite_connect(sqlite, &sqlite->writer, error);
    if (code == BIDE_OK)
        code = bi_sqlite_connect(sqlite, &sqlite->reader, error);
    if (code == BIDE_OK)
        code = bi_sqlite_connect(sqlite, &sqlite->slow, error);
    give_all(sqlite);
    return code;
}

static int bring_in_log(struct sqlite *sqlite)
{
    return sqlite3_wal_checkpoint_v2(sqlite->writer.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                     NULL);
}

/* Syncs the log as it is. */
static bool sync_log(const struct sqlite *sqlite)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s-wal", sqlite->path);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return synced;
}

/*
 * Writes something behind what is stored. While a connection of another process, or of a backup, keeps
 * the index of the log, opening the file anew does not read the log again, and the frames of a commit
 * that failed may lie behind its end, to be found after a crash. What is written in their place makes
 * them worthless: the checksum of each frame goes on from that of the one before.
 */
static bool write_over(struct sqlite *sqlite)
{
    return bi_sqlite_meta_set(&sqlite->writer, "opened_again", (uint64_t)bi_clock_wall()) ==
           SQLITE_DONE;
}

/*
 * Brings what the log has into the file, written anew and synced: a sync that failed once may have
 * dropped what it could not write, and would not say so again. The log, cut to nothing, is begun
 * anew and synced, too: its old beginning must not come back after a loss of power and be played
 * over the newer file. Without room for the file to grow the log itself is good enough, if it was
 * not a sync that failed.
 */
static bool make_solid(struct sqlite *sqlite, int failed)
{
    if (sqlite->options.sync == BIDE_SYNC_OFF)
        return true;
    if (bring_in_log(sqlite) == SQLITE_OK)
        return write_over(sqlite) && sync_log(sqlite);
    return failed == BIDE_EFULL && sync_log(sqlite);
}

/*
 * The commit failed at its end. Looks in the file, opened anew, whether the batch is there; if it
 * is, it is made to last, and if not, never to appear. BIDE_OK: it is stored; failed: it is not;
 * BIDE_EUNKNOWN: still open.
 */
static int settle(struct sqlite *sqlite, const struct bi_batch *batch, enum remains remains,
                  int failed, char *error)
{
    char text[BIDE_ERROR_SIZE];
    for (int i = 0; i < SETTLE_TRIES; i++) {
        if (i > 0)
            usleep(SETTLE_MS * 1000);
        if (reopen(sqlite, text) != BIDE_OK)
            continue;
        int stored = is_stored(sqlite, batch);
        if (stored < 0 || (stored == 1 && !make_solid(sqlite, failed)) ||
            (stored == 0 && remains == REMAINS_ALL && !write_over(sqlite)))
            continue;
        sqlite->doubtful = false;
        sqlite->base.reopened = true;
        return stored ? BIDE_OK : failed;
    }
    sqlite->doubtful = true;
    char reason[BIDE_ERROR_SIZE];
    bi_text_copy(reason, error);
    snprintf(error, BIDE_ERROR_SIZE, "%.150s; it may or may not be stored", reason);
    return BIDE_EUNKNOWN;
}

/* What the batch brings, as the log and the file will have it: a large body may leave a page half
 * empty. */
static int64_t size_of(const struct bi_batch *batch)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct bi_image *image = &batch->records[i].image;
        if (batch->records[i].kind == BI_INSERT)
            bytes += image->body_size + (image->body_size > INLINE_MAX ? 4096 : 256);
        if (image->result != NULL)
            bytes += (int64_t)bide_buf_size(image->result);
    }
    return bytes;
}

/* Does the batch bring little enough to be tried once more in the place of the filler? */
static bool is_small(const struct bi_batch *batch)
{
    return size_of(batch) <= (64 << 10);
}

/*
 * A log that is larger than the filler could fill the disk, and then there would be no room to bring
 * it in: nothing could ever be deleted. So what would make it that large is refused, unless there
 * is room for it twice.
 */
static int check_large(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    int64_t bytes = size_of(batch);
    if (bi_sqlite_has_room(sqlite, bytes))
        return BIDE_OK;
    bi_sqlite_checkpoint(sqlite);
    if (bi_sqlite_has_room(sqlite, bytes))
        return BIDE_OK;
    snprintf(error, BIDE_ERROR_SIZE,
             "commit: %.80s: the disk has no room for %lld MB at once; make room, or put less at a "
             "time",
             sqlite->path, (long long)(bytes >> 20) + 1);
    return BIDE_EFULL;
}

static int commit_once(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    enum remains remains = REMAINS_NONE;
    int code = try_commit(sqlite, batch, &remains, error);
    if (code == BIDE_OK)
        return code;
    if (code == BIDE_EFULL) {
        /* The filler gives its room back, and so does the log. */
        bi_sqlite_give_room(sqlite);
        bring_in_log(sqlite);
    }
    return remains == REMAINS_NONE ? code : settle(sqlite, batch, remains, code, error);
}

/* A file that somebody has removed would take everything, and give nothing back. */
static int check_removed(const struct sqlite *sqlite, char *error)
{
    struct stat file;
    if (fstat(sqlite->lock_fd, &file) != 0 || file.st_nlink > 0)
        return BIDE_OK;
    snprintf(error, BIDE_ERROR_SIZE,
             "commit: %.80s was removed while the queue is open; nothing can be kept any more",
             sqlite->path);
    return BIDE_EIO;
}

/* The log cannot be brought in, and the disk is nearly full of it. */
static int check_choked(struct sqlite *sqlite, char *error)
{
    if (sqlite->choked && sqlite->writer.db != NULL)
        bi_sqlite_checkpoint(sqlite);
    if (!sqlite->choked)
        return BIDE_OK;
    snprintf(
        error, BIDE_ERROR_SIZE,
        sqlite->log_lacks_room
            ? "commit: %.80s: the disk is full, and the file cannot grow for the changes in its "
              "log; make room"
            : "commit: %.80s: the disk is nearly full of the log, which a reader of the file "
              "keeps from being brought in; end that reader",
        sqlite->path);
    return BIDE_EFULL;
}

/*
 * The room that the filler freed is for deletes. Puts that were in flight when the disk became full
 * would use it up, and then the log could not be checkpointed any more. A batch with other changes is
 * accepted until its jobs have used a fourth of the room, because most clients do not retry a delete.
 */
static int check_full(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    size_t inserts = 0;
    for (size_t i = 0; i < batch->count && sqlite->base.full; i++)
        inserts += batch->records[i].kind == BI_INSERT;
    if (inserts == 0)
        return BIDE_OK;
    int64_t used = sqlite->filler_used + size_of(batch);
    if (inserts < batch->count && used <= sqlite->filler_size / 4) {
        sqlite->filler_used = used;
        return BIDE_OK;
    }
    snprintf(error, BIDE_ERROR_SIZE, "commit: %.80s: the disk is full; make room, or delete jobs",
             sqlite->path);
    return BIDE_EFULL;
}

/* This batch was tried before, and it is not known how that went. */
static int commit_doubtful(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    bi_text_copy(error, "the file cannot be written");
    int code = settle(sqlite, batch, REMAINS_ALL, BIDE_EIO, error);
    return code == BIDE_EIO ? commit_once(sqlite, batch, error) : code;
}

static int commit_new(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    int code = check_removed(sqlite, error);
    if (code == BIDE_OK)
        code = check_choked(sqlite, error);
    if (code == BIDE_OK && sqlite->writer.db == NULL)
        code = reopen(sqlite, error);
    if (code == BIDE_OK)
        code = check_large(sqlite, batch, error);
    if (code == BIDE_OK)
        code = check_full(sqlite, batch, error);
    if (code != BIDE_OK)
        return code;
    code = commit_once(sqlite, batch, error);
    if (code == BIDE_EFULL && is_small(batch))
        code = commit_once(sqlite, batch, error);
    return code;
}

int bi_sqlite_commit(struct store *store, const struct bi_batch *batch, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct signal_guard guard;
    bi_sqlite_guard(sqlite, &guard);
    pthread_mutex_lock(&sqlite->writer.use);
    int code =
        sqlite->doubtful ? commit_doubtful(sqlite, batch, error) : commit_new(sqlite, batch, error);
    pthread_mutex_unlock(&sqlite->writer.use);
    bi_sqlite_unguard(&guard);
    return code;
}
