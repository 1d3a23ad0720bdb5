/* SPDX-License-Identifier: MIT */
/*
 * sqlite_commit - writes batches, and determines the outcome of a COMMIT that failed.
 *
 * A batch is one transaction. SQLite reports a failed COMMIT as rolled back, but its frames may
 * lie in the write-ahead log and be recovered after a crash. The store must not report a failure
 * for a batch that reappears later, so such a failure is resolved by reading the file again:
 *
 *     batch found in the file      make it durable, report BIDE_OK
 *     not found                    overwrite its frames, report the failure
 *     that fails, as the write did recover the log; if still not found, report the failure
 *     none of these in time        report BIDE_EUNKNOWN; the next commit resolves it first
 *
 * Ordering   A commit holds the writer mutex, and acquires those of the scanner and the
 *            reader when it must reopen the connections.
 * Failure    After BIDE_EUNKNOWN the caller must pass the same batch to the next commit.
 */
#include "store/sqlite.h"

#include "util/clock.h"
#include "util/message.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* An outcome is looked for this long, with pauses between the tries. Then the commit reports
 * BIDE_EUNKNOWN. A try may wait for the locks of other programs. */
#define RESOLVE_US       5000000
#define RESOLVE_PAUSE_US 100000

/* The id limit that the batch must store; a restart after a crash begins there. The result is
 * the same for every attempt of a batch, because only note_stored() moves sqlite->id_limit. */
static uint64_t id_limit_of(const struct sqlite *sqlite, const struct bi_batch *batch)
{
    return batch->next_id > sqlite->id_limit ? batch->next_id + ID_BLOCK : sqlite->id_limit;
}

/* Records that the file holds the batch and its limits. Every path that finds a batch stored
 * must call this: the close writes next_id, and the ids of the batch must not be assigned
 * again. */
static void note_stored(struct sqlite *sqlite, const struct bi_batch *batch)
{
    uint64_t id_limit = id_limit_of(sqlite, batch);
    assert(id_limit >= batch->next_id && id_limit >= sqlite->id_limit); /* it never goes back */

    sqlite->id_limit = id_limit;
    sqlite->next_id = batch->next_id;
    sqlite->token_limit = batch->next_token;
    sqlite->lease_from = batch->lease_from;
    sqlite->secret_stored = true;
}

/* Writes the limits for a restart that changed, in the transaction of the batch: they must
 * become durable together with the records that depend on them. */
static int write_meta(struct sqlite *sqlite, const struct bi_batch *batch)
{
    uint64_t id_limit = id_limit_of(sqlite, batch);
    bool first = !sqlite->secret_stored; /* the first batch of a new file stores its secret */
    const struct {
        const char *name;
        uint64_t value;
        bool changed;
    } rows[] = {
        {"next_id", id_limit, id_limit != sqlite->id_limit},
        {"next_token", batch->next_token, batch->next_token != sqlite->token_limit},
        {"lease_from", batch->lease_from, batch->lease_from != sqlite->lease_from},
        {"secret_1", sqlite->secret.key[0], first},
        {"secret_2", sqlite->secret.key[1], first},
        {"token_from", sqlite->token_from, first},
    };

    int code = SQLITE_DONE;
    for (size_t i = 0; code == SQLITE_DONE && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].changed)
            code = bi_sqlite_meta_set(&sqlite->writer, rows[i].name, rows[i].value);
    return code;
}

/* Begins the transaction and writes the whole batch, without the COMMIT. Returns
 * SQLITE_INTERRUPT, with the transaction open, when the write deadline has passed. */
static int write_batch(struct sqlite *sqlite, const struct bi_batch *batch)
{
    struct connection *writer = &sqlite->writer;
    int code = bi_sqlite_run(bi_sqlite_statement(writer, ST_BEGIN));

    for (size_t i = 0; code == SQLITE_DONE && i < batch->count; i++) {
        /* Deleting large bodies from a slow disk may take long. Giving up here is safe:
         * nothing of a batch is stored before its COMMIT. */
        if (bi_store_past_deadline(&sqlite->base))
            return SQLITE_INTERRUPT;

        code = bi_sqlite_write_record(writer, &batch->records[i]);
        if (batch->records[i].kind == BI_TOPIC && batch->records[i].image.due != 0)
            bi_sqlite_track_pause(sqlite, batch->records[i].image.due);
    }

    if (code == SQLITE_DONE)
        code = write_meta(sqlite, batch);
    return code;
}

/* What a failed COMMIT may leave in the write-ahead log, although SQLite rolled it back. */
enum residue {
    RESIDUE_NONE,     /* nothing that recovery would replay */
    RESIDUE_PARTIAL,  /* a write failed: the file must be read to know */
    RESIDUE_COMPLETE, /* perhaps every frame: recovery after a crash would replay them */
};

/* Classifies a failed COMMIT by its SQLite code and the status that was mapped from it. */
static enum residue classify_failure(int code, int status)
{
    assert(code != SQLITE_DONE && status < 0);

    /* SQLITE_BUSY: the lock was not acquired, so nothing was written. */
    if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_FULL)
        return RESIDUE_NONE;

    /* A write that ran out of space left its last frame incomplete, so recovery finds no end
     * of a transaction there. Another write error says less about what reached the file. */
    if (code == SQLITE_IOERR_WRITE)
        return status == BIDE_EFULL ? RESIDUE_NONE : RESIDUE_PARTIAL;

    /* A sync fails after every frame was written. Of other errors the worst is assumed. */
    return RESIDUE_COMPLETE;
}

/* Makes one attempt. On failure the transaction is rolled back and *residue says what the log
 * may hold of it. */
static int try_commit(struct sqlite *sqlite, const struct bi_batch *batch, enum residue *residue,
                      char *error)
{
    struct connection *writer = &sqlite->writer;
    assert(!sqlite->outcome_unknown);
    assert(writer->db == NULL || sqlite3_get_autocommit(writer->db) != 0);

    int code = write_batch(sqlite, batch);
    bool written = code == SQLITE_DONE;
    if (written)
        code = bi_sqlite_run(bi_sqlite_statement(writer, ST_COMMIT));

    if (code == SQLITE_DONE) {
        assert(sqlite3_get_autocommit(writer->db) != 0);
        note_stored(sqlite, batch);
        return BIDE_OK;
    }

    *residue = RESIDUE_NONE;
    if (!written && code == SQLITE_INTERRUPT) {
        bi_sqlite_roll_back(writer);
        return bi_error_set(error, BIDE_CLOSED,
                            "the queue is closed, and the time for that is over");
    }

    /* The error text comes first: the rollback would replace the error of the connection. */
    int status = bi_sqlite_set_error(sqlite, writer, "commit", error);
    *residue = written ? classify_failure(code, status) : RESIDUE_NONE;
    bi_sqlite_roll_back(writer);
    return status;
}

/* Returns 1 if the file holds the limits of the batch, 0 if not, -1 if they cannot be read. */
static int are_limits_stored(struct sqlite *sqlite, const struct bi_batch *batch)
{
    int64_t id_limit, next_token, lease_from;

    if (!bi_sqlite_meta_get(&sqlite->writer, "next_id", &id_limit) ||
        !bi_sqlite_meta_get(&sqlite->writer, "next_token", &next_token) ||
        !bi_sqlite_meta_get(&sqlite->writer, "lease_from", &lease_from))
        return -1;

    return id_limit == (int64_t)id_limit_of(sqlite, batch) &&
           next_token == (int64_t)batch->next_token && lease_from == (int64_t)batch->lease_from;
}

/*
 * Returns 1 if the batch is in the file, 0 if not, -1 if it cannot be read in time. A transaction
 * is stored completely or not at all, so the first missing record decides. The records alone do not
 * prove that it is stored: a batch may be empty, and a record that changes nothing matches the file
 * without it.
 */
static int is_batch_stored(struct sqlite *sqlite, const struct bi_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        /* Reading large bodies from a slow disk may take long. */
        if (bi_store_past_deadline(&sqlite->base))
            return -1;

        int is_stored = bi_sqlite_record_is_stored(&sqlite->writer, &batch->records[i]);
        if (is_stored != 1)
            return is_stored;
    }
    return are_limits_stored(sqlite, batch);
}

/* Closes every connection and opens them again. The writer mutex is held already. SQLite drops its
 * index of the log with the last connection, and recovers the log from the file. */
static int reopen(struct sqlite *sqlite, char *error)
{
    /* A backup or count holds the scanner mutex for long; the flag makes it stop. The flag is
     * reset as soon as the mutex is held, or the next scan would stop as well. The reader
     * holds its mutex only briefly and does not check the flag. */
    assert(!sqlite->reopening); /* only the thread that commits reopens */
    sqlite->reopening = true;
    pthread_mutex_lock(&sqlite->scanner.lock);
    sqlite->reopening = false;
    pthread_mutex_lock(&sqlite->reader.lock);

    bi_sqlite_disconnect_all(sqlite);
    assert(sqlite->writer.db == NULL && sqlite->reader.db == NULL && sqlite->scanner.db == NULL);

    int code = bi_sqlite_connect(sqlite, &sqlite->writer, error);
    if (code == BIDE_OK)
        code = bi_sqlite_connect(sqlite, &sqlite->reader, error);
    if (code == BIDE_OK)
        code = bi_sqlite_connect(sqlite, &sqlite->scanner, error);

    pthread_mutex_unlock(&sqlite->reader.lock);
    pthread_mutex_unlock(&sqlite->scanner.lock);
    return code;
}

/* The first region of the index of the log begins with two copies of its header. "WAL-mode File
 * Format" in the documentation of SQLite describes them. */
#define INDEX_REGION_SIZE 32768
#define INDEX_VERSION     3007000
#define INDEX_HEADER_SIZE 48
#define INDEX_IS_INIT     12

/*
 * Makes SQLite recover the log from the file before its next use, as after a crash. reopen() alone
 * does not while another process, or other code of this process, has the file open and keeps the
 * index.
 *
 * SQLite finds such a header when a writer was killed in the middle of a commit: the next
 * connection of any process rebuilds the index, and readers keep their snapshots. Each of them
 * would recover the same log, so it does not matter which processes open or close the file
 * meanwhile. The mapping comes from SQLite: to open the file of the index here, and to close it,
 * would release the POSIX locks of other connections in this process.
 */
static bool discard_wal_index(struct sqlite *sqlite)
{
    struct connection *writer = &sqlite->writer;
    sqlite3_file *file = NULL;
    void volatile *region = NULL;

    /* Under the write lock no other connection changes the header. */
    if (bi_sqlite_exec(writer, "BEGIN IMMEDIATE") != SQLITE_OK)
        return false;

    sqlite3_file_control(writer->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (file != NULL && file->pMethods != NULL && file->pMethods->iVersion >= 2 &&
        file->pMethods->xShmMap(file, 0, INDEX_REGION_SIZE, 0, &region) != SQLITE_OK)
        region = NULL;

    bool discarded = region != NULL && *(const volatile uint32_t *)region == INDEX_VERSION;
    if (discarded) {
        volatile unsigned char *header = region;
        header[INDEX_HEADER_SIZE + INDEX_IS_INIT] = 0;
        header[INDEX_IS_INIT] = 0;
        file->pMethods->xShmBarrier(file);
    }

    bi_sqlite_roll_back(writer);
    return discarded;
}

static int checkpoint_truncate(struct sqlite *sqlite)
{
    return sqlite3_wal_checkpoint_v2(sqlite->writer.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                     NULL);
}

/* Syncs the log through a descriptor of our own. SQLite syncs it only as a part of a commit. */
static bool sync_wal(const struct sqlite *sqlite)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s-wal", sqlite->path);
    return bi_sqlite_sync_file(name) == 0;
}

/*
 * Commits a small row behind the last valid frame, over the frames of the failed commit. While a
 * connection of another process or of a backup keeps the index of the log, reopening does not
 * recover the log; those frames stay behind its end and would be replayed after a crash.
 * Overwriting the first makes the rest invalid: the checksum of each frame continues that of the
 * previous one.
 */
static bool overwrite_wal_tail(struct sqlite *sqlite)
{
    return bi_sqlite_meta_set(&sqlite->writer, "opened_again", (uint64_t)bi_clock_wall()) ==
           SQLITE_DONE;
}

/*
 * Makes a batch that the file holds durable, whatever the failed write or sync left in the page
 * cache: a failed fsync may drop dirty pages, and the next fsync then reports success.
 *
 * The checkpoint writes the pages into the database again and syncs them. The truncated log gets
 * a new first frame and is synced as well; otherwise its old beginning could reappear after a
 * power loss and be replayed over the newer database. While the checkpoint fails, as on a full
 * disk, the outcome stays open: syncing the log alone would prove nothing, whatever the error was.
 */
static bool make_durable(struct sqlite *sqlite)
{
    return sqlite->options.sync == BIDE_SYNC_OFF ||
           (checkpoint_truncate(sqlite) == SQLITE_OK && overwrite_wal_tail(sqlite) &&
            sync_wal(sqlite));
}

/* Determines whether a batch is stored whose COMMIT failed with the status `failed`; the table
 * at the top of this file lists the cases. Returns BIDE_OK if the batch is stored, `failed` if
 * it is not and cannot reappear, BIDE_EUNKNOWN if neither could be established in time. */
static int resolve_outcome(struct sqlite *sqlite, const struct bi_batch *batch,
                           enum residue residue, int failed, char *error)
{
    char text[BIDE_ERROR_SIZE];
    assert(residue != RESIDUE_NONE && failed < 0); /* else the outcome is known */

    /* Past the write deadline nothing more is written, so no outcome could be made final. */
    int64_t until = bi_clock_boot() + RESOLVE_US;
    for (int i = 0; (i == 0 || bi_clock_boot() < until) && !bi_store_past_deadline(&sqlite->base);
         i++) {
        if (i > 0)
            usleep(RESOLVE_PAUSE_US);
        if (reopen(sqlite, text) != BIDE_OK)
            continue;

        /* An outcome counts only after it is final: until then a crash could reverse it. */
        int stored = is_batch_stored(sqlite, batch);
        bool final = stored == 1 ? make_durable(sqlite) : stored == 0 && overwrite_wal_tail(sqlite);

        /* The disk may accept no writes for long. After a failed write, unlike after a failed sync,
         * the page cache shows what is in the log: the outcome is what recovery finds there. */
        if (!final && stored == 0 && residue == RESIDUE_PARTIAL && discard_wal_index(sqlite))
            final = is_batch_stored(sqlite, batch) == 0;
        if (!final)
            continue;

        /* The core may differ from the file: the caller must compare the batch before it
         * acknowledges more. */
        sqlite->outcome_unknown = false;
        sqlite->base.reopened = true;
        if (stored == 1)
            note_stored(sqlite, batch);
        return stored ? BIDE_OK : failed;
    }

    sqlite->outcome_unknown = true;
    char reason[BIDE_ERROR_SIZE];
    bi_text_copy(reason, error);
    return bi_error_set(error, BIDE_EUNKNOWN, "%.150s; it may or may not be stored", reason);
}

/* Estimates the bytes that the batch adds to the log and the database. A large body may leave
 * most of its last page empty; a small one shares its page with the row. */
static int64_t batch_size(const struct sqlite *sqlite, const struct bi_batch *batch)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < batch->count; i++) {
        const struct bi_image *image = &batch->records[i].image;
        if (batch->records[i].kind == BI_INSERT)
            bytes += image->body_size + (image->body_size > INLINE_MAX ? sqlite->page_size : 256);
        if (image->result != NULL)
            bytes += (int64_t)bide_buf_size(image->result);
    }

    assert(bytes >= 0);
    return bytes;
}

/* Rejects a batch that would make the log larger than the ballast, unless the disk has room
 * for it twice. Such a log could fill the disk and leave no room for its own checkpoint; then
 * no job could ever be deleted. */
static int check_batch_space(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    int64_t bytes = batch_size(sqlite, batch);
    if (bi_sqlite_has_space(sqlite, bytes))
        return BIDE_OK;

    bi_sqlite_checkpoint(sqlite);
    if (bi_sqlite_has_space(sqlite, bytes))
        return BIDE_OK;

    return bi_error_set(
        error, BIDE_EFULL,
        "commit: %.80s: the disk has no room for %lld MB at once; make room, or put less at a "
        "time",
        sqlite->path, (long long)(bytes >> 20) + 1);
}

/* Makes one attempt and resolves its outcome. */
static int commit_once(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    enum residue residue = RESIDUE_NONE;
    int code = try_commit(sqlite, batch, &residue, error);
    if (code == BIDE_OK)
        return code;

    if (code == BIDE_EFULL) {
        /* Free the ballast first: the checkpoint may need its space to grow the database. */
        bi_sqlite_ballast_release(sqlite);
        if (sqlite->writer.db != NULL)
            checkpoint_truncate(sqlite);
    }

    return residue == RESIDUE_NONE ? code : resolve_outcome(sqlite, batch, residue, code, error);
}

/* Rejects the batch if the database file was unlinked: commits would succeed, and every job
 * would be lost with the last descriptor. */
static int check_removed(const struct sqlite *sqlite, char *error)
{
    struct stat file;

    if (fstat(sqlite->lock_fd, &file) != 0 || file.st_nlink > 0)
        return BIDE_OK;

    return bi_error_set(
        error, BIDE_EIO,
        "commit: %.80s was removed while the queue is open; nothing can be kept any more",
        sqlite->path);
}

/* Rejects the batch while a checkpoint is blocked and the disk is nearly full: a longer log
 * would take the space that the checkpoint needs. */
static int check_checkpoint_blocked(struct sqlite *sqlite, char *error)
{
    /* The reader may have ended, or space been freed, since the last try. */
    if (sqlite->checkpoint_blocked)
        bi_sqlite_checkpoint(sqlite);
    if (!sqlite->checkpoint_blocked)
        return BIDE_OK;

    return bi_error_set(
        error, BIDE_EFULL,
        sqlite->wal_out_of_space
            ? "commit: %.80s: the disk is full, and the file cannot grow for the changes in its "
              "log; make room"
            : "commit: %.80s: the disk is nearly full of the log, which a reader of the file "
              "keeps from being checkpointed; end that reader",
        sqlite->path);
}

/*
 * Rejects inserts on a full disk: the space that the ballast released is for deletes, and
 * without it the log could no longer be checkpointed. Puts that were in flight when the disk
 * filled up share a batch with deletes; such a batch is accepted until its jobs have used a
 * fourth of the space, because most clients do not retry a delete.
 */
static int check_disk_full(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    size_t inserts = 0;
    for (size_t i = 0; i < batch->count && sqlite->base.full; i++)
        inserts += batch->records[i].kind == BI_INSERT;
    if (inserts == 0)
        return BIDE_OK;

    assert(inserts <= batch->count && sqlite->ballast_used >= 0);
    int64_t used = sqlite->ballast_used + batch_size(sqlite, batch);
    if (inserts < batch->count && used <= sqlite->ballast_size / 4) {
        sqlite->ballast_used = used;
        return BIDE_OK;
    }

    return bi_error_set(error, BIDE_EFULL,
                        "commit: %.80s: the disk is full; make room, or delete jobs", sqlite->path);
}

static int commit_new(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    int code = check_removed(sqlite, error);
    if (code == BIDE_OK)
        code = check_checkpoint_blocked(sqlite, error);
    /* An earlier reopen may have failed half way. */
    if (code == BIDE_OK && sqlite->writer.db == NULL)
        code = reopen(sqlite, error);
    if (code == BIDE_OK)
        code = check_batch_space(sqlite, batch, error);
    if (code == BIDE_OK)
        code = check_disk_full(sqlite, batch, error);

    if (code != BIDE_OK)
        return code;

    code = commit_once(sqlite, batch, error);
    /* The failed attempt released the ballast and truncated the log, so a batch that is small
     * compared with the smallest ballast, 256 kB, may fit now. */
    if (code == BIDE_EFULL && batch_size(sqlite, batch) <= (64 << 10))
        code = commit_once(sqlite, batch, error);
    return code;
}

int bi_sqlite_commit(struct store *store, const struct bi_batch *batch, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct sigxfsz_guard guard;

    bi_sqlite_block_sigxfsz(sqlite, &guard);
    pthread_mutex_lock(&sqlite->writer.lock);

    int code;
    if (sqlite->outcome_unknown) {
        /* The last attempt of this batch is resolved first: an insert that is stored already would
         * fail. BIDE_EIO, the status passed in, means: not stored, and it cannot reappear. */
        bi_text_copy(error, "the file cannot be written");
        code = resolve_outcome(sqlite, batch, RESIDUE_COMPLETE, BIDE_EIO, error);
        if (code == BIDE_EIO)
            code = commit_once(sqlite, batch, error);
    } else {
        code = commit_new(sqlite, batch, error);
    }
    /* After BIDE_EUNKNOWN, and only then, the next call resolves this batch. */
    assert(sqlite->outcome_unknown == (code == BIDE_EUNKNOWN));

    pthread_mutex_unlock(&sqlite->writer.lock);
    bi_sqlite_unblock_sigxfsz(&guard);
    return code;
}
