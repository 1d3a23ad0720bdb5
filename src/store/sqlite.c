/* SPDX-License-Identifier: MIT */
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
#include <unistd.h>

/* How many ids are stored ahead: so many are left out after a crash, none after a close. */
#define ID_BLOCK 10000
/* How long another program may keep the file locked before we say so. */
#define BUSY_MS 2000
/* What a failed write may cost before its callers are told that nobody knows. */
#define SETTLE_TRIES 50
#define SETTLE_MS    100
/* How long a page that cannot be read is looked at again before it is believed to be damaged. */
#define SCAN_TRIES 10
#define SCAN_MS    100

/* ---- errors ---- */

int bi_sqlite_code(int sqlite_code, int system_errno)
{
    switch (sqlite_code & 0xff) {
    case SQLITE_NOMEM:
        return BIDE_ENOMEM;
    case SQLITE_FULL:
        return BIDE_EFULL;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EFBIG
                   ? BIDE_EFULL
                   : BIDE_EIO;
    default:
        return BIDE_EIO;
    }
}

int bi_sqlite_error(const struct sqlite *sqlite, const struct connection *connection,
                    const char *doing, char *error)
{
    static const struct {
        int code;
        const char *text;
    } advice[] = {
        {SQLITE_FULL, "the disk is full; make room"},
        {SQLITE_READONLY, "the file or its directory is read-only"},
        {SQLITE_BUSY, "another program keeps the file locked"},
        {SQLITE_LOCKED, "another program keeps the file locked"},
        {SQLITE_CORRUPT, "the file is damaged; open a backup of it"},
        {SQLITE_NOTADB, "the file is no SQLite database"},
    };
    int code = connection->db == NULL ? SQLITE_CANTOPEN : sqlite3_extended_errcode(connection->db);
    int system = connection->db == NULL ? 0 : sqlite3_system_errno(connection->db);
    const char *text =
        connection->db == NULL ? "it cannot be opened" : sqlite3_errmsg(connection->db);
    for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++)
        if (advice[i].code == (code & 0xff))
            text = advice[i].text;
    bool io = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
    snprintf(error, BIDE_ERROR_SIZE, "%s: %.80s: %.60s%s%s", doing, sqlite->path, text,
             io && system != 0 ? ": " : "", io && system != 0 ? strerror(system) : "");
    return bi_sqlite_code(code, system);
}

/* ---- connections ---- */

sqlite3_stmt *bi_sqlite_get(struct connection *connection, enum statement which)
{
    if (connection->statements[which] == NULL && connection->db != NULL)
        sqlite3_prepare_v3(connection->db, bi_sqlite_sql[which], -1, SQLITE_PREPARE_PERSISTENT,
                           &connection->statements[which], NULL);
    return connection->statements[which];
}

int bi_sqlite_run(sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    int reset = sqlite3_reset(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_DONE : reset;
}

int bi_sqlite_exec(struct connection *connection, const char *sql)
{
    return connection->db == NULL ? SQLITE_CANTOPEN
                                  : sqlite3_exec(connection->db, sql, NULL, NULL, NULL);
}

int64_t bi_sqlite_number(struct connection *connection, const char *sql, int64_t fallback)
{
    sqlite3_stmt *statement = NULL;
    int64_t value = fallback;
    if (connection->db != NULL &&
        sqlite3_prepare_v2(connection->db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static const char *sync_pragma(bide_sync sync)
{
    static const char *const pragmas[] = {
        [BIDE_SYNC_FULL] = "PRAGMA synchronous=FULL",
        [BIDE_SYNC_NORMAL] = "PRAGMA synchronous=NORMAL",
        [BIDE_SYNC_OFF] = "PRAGMA synchronous=OFF",
    };
    return pragmas[sync];
}

/* The pages of a new file are tracked, so that free ones can be given back without copying all. */
static int set_up(struct sqlite *sqlite, struct connection *connection)
{
    static const char pragmas[] = "PRAGMA journal_mode=WAL;"
                                  "PRAGMA wal_autocheckpoint=0;"
                                  "PRAGMA journal_size_limit=33554432;"
                                  "PRAGMA cache_size=-16384;"
                                  "PRAGMA cell_size_check=ON;"
                                  "PRAGMA trusted_schema=OFF";
    int code = SQLITE_OK;
    if (bi_sqlite_number(connection, "PRAGMA page_count", 1) == 0)
        code = bi_sqlite_exec(connection, "PRAGMA auto_vacuum=INCREMENTAL");
    if (code == SQLITE_OK)
        code = bi_sqlite_exec(connection, pragmas);
    if (code == SQLITE_OK)
        code = bi_sqlite_exec(connection, sync_pragma(sqlite->options.sync));
    return code;
}

static int count_frames(void *ctx, sqlite3 *db, const char *name, int frames)
{
    (void)db;
    (void)name;
    *(int *)ctx = frames;
    return SQLITE_OK;
}

static int open_failed(struct sqlite *sqlite, struct connection *connection, char *error)
{
    int answer = bi_sqlite_error(sqlite, connection, "open", error);
    bi_sqlite_disconnect(connection);
    return answer;
}

static int open_database(struct sqlite *sqlite, struct connection *connection, int flags,
                         char *error)
{
    if (sqlite3_open_v2(sqlite->path, &connection->db, flags | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return open_failed(sqlite, connection, error);
    sqlite3_busy_timeout(connection->db, BUSY_MS);
    sqlite3_extended_result_codes(connection->db, 1);
    return BIDE_OK;
}

int bi_sqlite_connect(struct sqlite *sqlite, struct connection *connection, char *error)
{
    int code = open_database(sqlite, connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);
    if (code != BIDE_OK)
        return code;
    if (set_up(sqlite, connection) != SQLITE_OK)
        return open_failed(sqlite, connection, error);
    if (connection == &sqlite->writer)
        sqlite3_wal_hook(connection->db, count_frames, &sqlite->wal_frames);
    return BIDE_OK;
}

void bi_sqlite_disconnect(struct connection *connection)
{
    for (int i = 0; i < ST_COUNT; i++) {
        sqlite3_finalize(connection->statements[i]);
        connection->statements[i] = NULL;
    }
    sqlite3_close(connection->db);
    connection->db = NULL;
}

static void disconnect_all(struct sqlite *sqlite)
{
    bi_sqlite_disconnect(&sqlite->reader);
    bi_sqlite_disconnect(&sqlite->slow);
    bi_sqlite_disconnect(&sqlite->writer);
}

static void take_all(struct sqlite *sqlite)
{
    pthread_mutex_lock(&sqlite->slow.use);
    pthread_mutex_lock(&sqlite->reader.use);
}

static void give_all(struct sqlite *sqlite)
{
    pthread_mutex_unlock(&sqlite->reader.use);
    pthread_mutex_unlock(&sqlite->slow.use);
}

/* ---- opening ---- */

/* A number of the table meta; 0 if it is not there. False if it cannot be read. */
static bool read_meta(struct connection *connection, const char *name, int64_t *value)
{
    sqlite3_stmt *statement = bi_sqlite_get(connection, ST_META_GET);
    if (statement == NULL)
        return false;
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    *value = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE;
}

/* A limit that makes no sense is replaced by one that is above whatever may have been given. */
static uint64_t sound_limit(const struct sqlite *sqlite, const char *name, int64_t value,
                            int64_t instead)
{
    if (value >= 0 && value <= (int64_t)BIDE_ID_MAX)
        return (uint64_t)value;
    bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s: %s is %lld in the table meta; %lld is used",
           sqlite->path, name, (long long)value, (long long)instead);
    return (uint64_t)instead;
}

/* Rows whose ids cannot have been given would stand in the way of those that will be. */
static uint64_t set_strays_aside(struct sqlite *sqlite)
{
    char error[BIDE_ERROR_SIZE];
    uint64_t count = 0;
    for (;;) {
        int64_t id = bi_sqlite_number(&sqlite->writer, bi_sqlite_sql[ST_STRAY], 0);
        if (id == 0 && bi_sqlite_number(&sqlite->writer, "SELECT 1 FROM job WHERE id=0", 0) == 0)
            return count;
        bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s: job %lld: the id was never given",
               sqlite->path, (long long)id);
        if (bi_sqlite_set_aside(&sqlite->base, (uint64_t)id, "the id was never given", error) !=
            BIDE_OK) {
            bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s", error);
            return count;
        }
        count++;
    }
}

static int sqlite_start(struct store *store, struct store_start *start, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *writer = &sqlite->writer;
    int64_t next_id, next_token;
    if (!read_meta(writer, "next_id", &next_id) || !read_meta(writer, "next_token", &next_token))
        return bi_sqlite_error(sqlite, writer, "open", error);
    /* The limit is stored ahead, and so above all of them; but who can read the highest id does. */
    int64_t highest = bi_sqlite_number(writer, bi_sqlite_sql[ST_HIGHEST], -1);
    bool limited = next_id > 0 && next_id <= (int64_t)BIDE_ID_MAX;
    if (highest < 0 && !limited)
        return bi_sqlite_error(sqlite, writer, "open", error);
    start->next_id = sound_limit(sqlite, "next_id", next_id, highest + ID_BLOCK);
    if (start->next_id <= (uint64_t)(highest < 0 ? 0 : highest))
        start->next_id = (uint64_t)highest + 1;
    if (start->next_id == 0)
        start->next_id = 1;
    /* Tokens are given out more slowly than microseconds pass. */
    start->next_token = sound_limit(sqlite, "next_token", next_token, bi_clock_wall());
    if (start->next_token == 0)
        start->next_token = 1;
    start->damaged = set_strays_aside(sqlite);
    sqlite->next_id = start->next_id;
    sqlite->id_limit = 0; /* the first batch stores one */
    sqlite->token_limit = 0;
    return BIDE_OK;
}

static int sqlite_pauses(struct store *store, store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    sqlite3_stmt *from = bi_sqlite_get(&sqlite->writer, ST_PAUSES);
    int code = from == NULL ? SQLITE_ERROR : SQLITE_ROW;
    int answer = BIDE_OK;
    while (answer == BIDE_OK && code == SQLITE_ROW && (code = sqlite3_step(from)) == SQLITE_ROW) {
        struct bi_record record = {.kind = BI_PAUSE};
        const char *topic = (const char *)sqlite3_column_text(from, 0);
        snprintf(record.image.topic, sizeof(record.image.topic), "%s", topic == NULL ? "" : topic);
        record.image.due = sqlite3_column_int64(from, 1);
        answer = visit(ctx, &record, NULL);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        answer = bi_sqlite_error(sqlite, &sqlite->writer, "open", error);
    sqlite3_reset(from);
    return answer;
}

/* ---- committing ---- */

static int write_meta(struct connection *writer, const char *name, uint64_t value)
{
    sqlite3_stmt *to = bi_sqlite_get(writer, ST_META_SET);
    if (to == NULL)
        return SQLITE_ERROR;
    sqlite3_bind_text(to, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(to, 2, (int64_t)value);
    return bi_sqlite_run(to);
}

/* The limits that a restart begins with, if they have to move. */
static int write_limits(struct sqlite *sqlite, const struct bi_batch *batch, uint64_t id_limit)
{
    int code = SQLITE_DONE;
    if (id_limit != sqlite->id_limit)
        code = write_meta(&sqlite->writer, "next_id", id_limit);
    if (code == SQLITE_DONE && batch->next_token != sqlite->token_limit)
        code = write_meta(&sqlite->writer, "next_token", batch->next_token);
    return code;
}

/* Everything but the COMMIT. */
static int write_batch(struct sqlite *sqlite, const struct bi_batch *batch, uint64_t id_limit)
{
    struct connection *writer = &sqlite->writer;
    int code = bi_sqlite_run(bi_sqlite_get(writer, ST_BEGIN));
    for (size_t i = 0; code == SQLITE_DONE && i < batch->count; i++)
        code = bi_sqlite_write(writer, &batch->records[i]);
    if (code == SQLITE_DONE)
        code = write_limits(sqlite, batch, id_limit);
    return code;
}

static void roll_back(struct connection *writer)
{
    if (writer->db != NULL && sqlite3_get_autocommit(writer->db) == 0)
        bi_sqlite_exec(writer, "ROLLBACK");
}

/*
 * One attempt. *begun says whether the COMMIT itself failed: then the batch may be in the file,
 * although SQLite says that it is not.
 */
static int try_commit(struct sqlite *sqlite, const struct bi_batch *batch, bool *begun, char *error)
{
    struct connection *writer = &sqlite->writer;
    uint64_t id_limit =
        batch->next_id > sqlite->id_limit ? batch->next_id + ID_BLOCK : sqlite->id_limit;
    *begun = false;
    int code = write_batch(sqlite, batch, id_limit);
    if (code == SQLITE_DONE) {
        *begun = true;
        code = bi_sqlite_run(bi_sqlite_get(writer, ST_COMMIT));
    }
    if (code == SQLITE_DONE) {
        sqlite->next_id = batch->next_id;
        sqlite->id_limit = id_limit;
        sqlite->token_limit = batch->next_token;
        return BIDE_OK;
    }
    /* Locked out, or without room for a frame: the log has no end of a transaction that counts. */
    if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_FULL)
        *begun = false;
    int answer = bi_sqlite_error(sqlite, writer, "commit", error);
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
    int64_t next_token = 0;
    if (batch->count == 0)
        return read_meta(&sqlite->writer, "next_token", &next_token)
                   ? next_token == (int64_t)batch->next_token
                   : -1;
    return 1;
}

/* Closes every connection, so that the log is read from the file again, and opens them. */
static int reopen(struct sqlite *sqlite, char *error)
{
    take_all(sqlite);
    disconnect_all(sqlite);
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
        return write_meta(&sqlite->writer, "opened_again", (uint64_t)bi_clock_wall()) ==
                   SQLITE_DONE &&
               sync_log(sqlite);
    return failed == BIDE_EFULL && sync_log(sqlite);
}

/*
 * The commit failed at its end. Looks in the file, opened anew, whether the batch is there; if it
 * is, it is made to last. BIDE_OK: it is stored; failed: it is not; BIDE_EUNKNOWN: still open.
 */
static int settle(struct sqlite *sqlite, const struct bi_batch *batch, int failed, char *error)
{
    char text[BIDE_ERROR_SIZE];
    for (int i = 0; i < SETTLE_TRIES; i++) {
        if (i > 0)
            usleep(SETTLE_MS * 1000);
        if (reopen(sqlite, text) != BIDE_OK)
            continue;
        int stored = is_stored(sqlite, batch);
        if (stored < 0 || (stored == 1 && !make_solid(sqlite, failed)))
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

/* Does the batch bring little enough to be tried once more in the place of the filler? */
static bool is_small(const struct bi_batch *batch)
{
    size_t bytes = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->records[i].kind == BI_INSERT)
            bytes += 256 + batch->records[i].image.body_size;
    return bytes <= (64 << 10);
}

static int commit_once(struct sqlite *sqlite, const struct bi_batch *batch, char *error)
{
    bool begun;
    int code = try_commit(sqlite, batch, &begun, error);
    if (code == BIDE_OK)
        return code;
    if (code == BIDE_EFULL) {
        /* The filler gives its room back, and so does the log. */
        bi_sqlite_give_room(sqlite);
        bring_in_log(sqlite);
    }
    return begun ? settle(sqlite, batch, code, error) : code;
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

/* A reader keeps the log from being brought in, and the disk is nearly full of it. */
static int check_choked(struct sqlite *sqlite, char *error)
{
    if (sqlite->choked && sqlite->writer.db != NULL)
        bi_sqlite_checkpoint(sqlite);
    if (!sqlite->choked)
        return BIDE_OK;
    snprintf(error, BIDE_ERROR_SIZE,
             "commit: %.80s: the disk is nearly full of the log, which a reader of the file keeps "
             "from being brought in; end that reader",
             sqlite->path);
    return BIDE_EFULL;
}

static int sqlite_commit(struct store *store, const struct bi_batch *batch, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    pthread_mutex_lock(&sqlite->writer.use);
    int code = BIDE_OK;
    if (sqlite->doubtful) {
        /* This batch was tried before, and nobody could say how it went. */
        bi_text_copy(error, "the file cannot be written");
        code = settle(sqlite, batch, BIDE_EIO, error);
        if (code == BIDE_EIO)
            code = commit_once(sqlite, batch, error);
    } else {
        code = check_removed(sqlite, error);
        if (code == BIDE_OK)
            code = check_choked(sqlite, error);
        if (code == BIDE_OK && sqlite->writer.db == NULL)
            code = reopen(sqlite, error);
        if (code == BIDE_OK) {
            code = commit_once(sqlite, batch, error);
            if (code == BIDE_EFULL && is_small(batch))
                code = commit_once(sqlite, batch, error);
        }
    }
    pthread_mutex_unlock(&sqlite->writer.use);
    return code;
}

/* ---- reading ---- */

static void sqlite_read(struct store *store, struct store_want *wants, size_t n)
{
    struct sqlite *sqlite = sqlite_of(store);
    pthread_mutex_lock(&sqlite->reader.use);
    /* One transaction for all: they are read from one state of the file. */
    bi_sqlite_exec(&sqlite->reader, "BEGIN");
    for (size_t i = 0; i < n; i++)
        bi_sqlite_read_body(&sqlite->reader, &wants[i]);
    bi_sqlite_exec(&sqlite->reader, "COMMIT");
    pthread_mutex_unlock(&sqlite->reader.use);
}

static int sqlite_fetch(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *reader = &sqlite->reader;
    pthread_mutex_lock(&reader->use);
    sqlite3_stmt *from = bi_sqlite_get(reader, ST_FETCH);
    int code = SQLITE_ERROR;
    if (from != NULL) {
        sqlite3_bind_int64(from, 1, (int64_t)id);
        code = sqlite3_step(from);
    }
    int answer;
    if (code == SQLITE_ROW)
        answer = bi_sqlite_visit(from, visit, ctx);
    else if (code == SQLITE_DONE)
        answer = BIDE_NOT_FOUND;
    else
        answer = bi_sqlite_error(sqlite, reader, "read", error);
    sqlite3_reset(from);
    pthread_mutex_unlock(&reader->use);
    return answer;
}

static int sqlite_count(struct store *store, uint64_t below, uint64_t *count, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *slow = &sqlite->slow;
    pthread_mutex_lock(&slow->use);
    sqlite3_stmt *from = bi_sqlite_get(slow, ST_COUNT_BELOW);
    int answer = BIDE_EIO;
    if (from != NULL) {
        sqlite3_bind_int64(from, 1, (int64_t)below);
        if (sqlite3_step(from) == SQLITE_ROW) {
            *count = (uint64_t)sqlite3_column_int64(from, 0);
            answer = BIDE_OK;
        }
    }
    if (answer != BIDE_OK)
        answer = bi_sqlite_error(sqlite, slow, "count", error);
    sqlite3_reset(from);
    pthread_mutex_unlock(&slow->use);
    return answer;
}

/* ---- scanning ---- */

/* Can the first row behind an id be read? SQLITE_ROW, SQLITE_DONE (there is none) or an error. */
static int try_behind(struct sqlite *sqlite, uint64_t id, uint64_t below)
{
    sqlite3_stmt *scan = bi_sqlite_get(&sqlite->slow, ST_SCAN);
    if (scan == NULL)
        return SQLITE_ERROR;
    sqlite3_bind_int64(scan, 1, (int64_t)id + 1);
    sqlite3_bind_int64(scan, 2, (int64_t)below);
    sqlite3_bind_int64(scan, 3, 1);
    int code = sqlite3_step(scan);
    sqlite3_reset(scan);
    return code;
}

/* A page that cannot be read now can be in a moment, if it is the disk that fails. Opens the
 * connection anew, and looks again for a second. */
static bool comes_back(struct sqlite *sqlite, uint64_t after, uint64_t below)
{
    char error[BIDE_ERROR_SIZE];
    for (int i = 0; i < SCAN_TRIES && !sqlite->base.stopping; i++) {
        usleep(SCAN_MS * 1000);
        bi_sqlite_disconnect(&sqlite->slow);
        if (bi_sqlite_connect(sqlite, &sqlite->slow, error) != BIDE_OK)
            continue;
        int code = try_behind(sqlite, after, below);
        if (code == SQLITE_ROW || code == SQLITE_DONE)
            return true;
    }
    return false;
}

/*
 * A page of the file cannot be read, and with it some rows behind *after. Looks farther and farther
 * away until a row can be read again, and then, halving, for the first such place. What lies
 * between is told as one damage.
 */
static int skip_damage(struct sqlite *sqlite, uint64_t *after, uint64_t below, store_visit visit,
                       void *ctx)
{
    struct bi_record record = {.kind = BI_INSERT};
    record.image.id = *after + 1;
    int answer = visit(ctx, &record, bi_store_unreadable);
    if (answer != BIDE_OK)
        return answer;
    uint64_t bad = *after;
    uint64_t good = below - 1; /* where the scan ends */
    for (uint64_t step = 1; step < below - *after; step *= 2) {
        int code = try_behind(sqlite, *after + step, below);
        if (code == SQLITE_ROW || code == SQLITE_DONE) {
            good = *after + step;
            break;
        }
        bad = *after + step;
    }
    while (good - bad > 1) {
        uint64_t middle = bad + (good - bad) / 2;
        int code = try_behind(sqlite, middle, below);
        if (code == SQLITE_ROW || code == SQLITE_DONE)
            good = middle;
        else
            bad = middle;
    }
    *after = good;
    return good >= below - 1 ? BIDE_NOT_FOUND : BIDE_OK;
}

int bi_sqlite_scan(struct sqlite *sqlite, uint64_t *after, uint64_t below, size_t max,
                   store_visit visit, void *ctx, char *error)
{
    struct connection *slow = &sqlite->slow;
    sqlite3_stmt *from = bi_sqlite_get(slow, ST_SCAN);
    if (from == NULL)
        return bi_sqlite_error(sqlite, slow, "scan", error);
    sqlite3_bind_int64(from, 1, (int64_t)*after + 1);
    sqlite3_bind_int64(from, 2, (int64_t)below);
    sqlite3_bind_int64(from, 3, (int64_t)max);
    int answer = BIDE_OK;
    int code = SQLITE_DONE;
    size_t count = 0;
    while (answer == BIDE_OK && (code = sqlite3_step(from)) == SQLITE_ROW) {
        answer = bi_sqlite_visit(from, visit, ctx);
        *after = (uint64_t)sqlite3_column_int64(from, 0);
        count++;
    }
    sqlite3_reset(from);
    if (answer != BIDE_OK)
        return answer;
    if (code == SQLITE_DONE)
        return count < max ? BIDE_NOT_FOUND : BIDE_OK;
    int64_t token;
    int failed = bi_sqlite_error(sqlite, slow, "scan", error);
    if ((code & 0xff) != SQLITE_CORRUPT)
        return failed;
    if (comes_back(sqlite, *after, below))
        return BIDE_OK;
    /* If nothing else can be read either, it is not the page. */
    return read_meta(slow, "next_token", &token) ? skip_damage(sqlite, after, below, visit, ctx)
                                                 : failed;
}

static int sqlite_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                       store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    pthread_mutex_lock(&sqlite->slow.use);
    int code = bi_sqlite_scan(sqlite, after, below, max, visit, ctx, error);
    pthread_mutex_unlock(&sqlite->slow.use);
    return code;
}

/* ---- life ---- */

static void free_sqlite(struct sqlite *sqlite)
{
    disconnect_all(sqlite);
    bi_sqlite_disown(sqlite);
    pthread_mutex_destroy(&sqlite->writer.use);
    pthread_mutex_destroy(&sqlite->reader.use);
    pthread_mutex_destroy(&sqlite->slow.use);
    free(sqlite->path);
    free(sqlite);
}

/* The exact next id is stored, so that a restart leaves none out. */
static void sqlite_close(struct store *store)
{
    struct sqlite *sqlite = sqlite_of(store);
    if (sqlite->id_limit != 0 && !sqlite->doubtful && sqlite->writer.db != NULL)
        write_meta(&sqlite->writer, "next_id", sqlite->next_id);
    free_sqlite(sqlite);
}

static const struct store_ops sqlite_ops = {
    .name = "sqlite",
    .keeps = true,
    .start = sqlite_start,
    .pauses = sqlite_pauses,
    .commit = sqlite_commit,
    .tidy = bi_sqlite_tidy,
    .set_aside = bi_sqlite_set_aside,
    .read = sqlite_read,
    .fetch = sqlite_fetch,
    .count = sqlite_count,
    .scan = sqlite_scan,
    .backup = bi_sqlite_backup,
    .check = bi_sqlite_check,
    .close = sqlite_close,
};

/* What is to be opened: the path as it was given, from the root. */
static int absolute(const char *path, char **out, char *error)
{
    char *here = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
    size_t size = here == NULL ? 0 : strlen(here) + strlen(path) + 2;
    char *whole = here == NULL ? NULL : malloc(size);
    if (whole == NULL) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.120s: %s", path, strerror(errno));
        free(here);
        return errno == ENOMEM ? BIDE_ENOMEM : BIDE_EIO;
    }
    snprintf(whole, size, "%s%s%s", here, path[0] == '/' ? "" : "/", path);
    free(here);
    *out = whole;
    return BIDE_OK;
}

/* The file exists now: its path without symbolic links, which SQLite would not follow in the names
 * of the files beside it. */
static int resolve(struct sqlite *sqlite, char *error)
{
    char *real = realpath(sqlite->path, NULL);
    if (real == NULL) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.120s: %s", sqlite->path, strerror(errno));
        return errno == ENOMEM ? BIDE_ENOMEM : BIDE_EIO;
    }
    free(sqlite->path);
    sqlite->path = real;
    return BIDE_OK;
}

static int check_directory(const char *path, char *error)
{
    char directory[PATH_MAX];
    struct stat file;
    const char *name = strrchr(path, '/') + 1;
    snprintf(directory, sizeof(directory), "%.*s", (int)(name - path), path);
    if (stat(directory, &file) == 0 && name[0] != 0)
        return BIDE_OK;
    if (name[0] == 0)
        snprintf(error, BIDE_ERROR_SIZE, "open: %.120s ends in a slash; a file is needed", path);
    else
        snprintf(error, BIDE_ERROR_SIZE, "open: the directory %.90s of %.30s: %s; make it first",
                 directory, name, strerror(errno));
    return name[0] == 0 ? BIDE_EINVAL : BIDE_EIO;
}

/* Is there something that is no file, or may not be written, or no directory for it? */
static int check_file(const char *path, char *error)
{
    struct stat file;
    if (strlen(path) > PATH_MAX - 16) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.60s... is too long for a path", path);
        return BIDE_EINVAL;
    }
    if (stat(path, &file) != 0)
        return check_directory(path, error);
    if (!S_ISREG(file.st_mode)) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.120s is %s, not a file", path,
                 S_ISDIR(file.st_mode) ? "a directory" : "a device, pipe or socket");
        return BIDE_EINVAL;
    }
    if (access(path, R_OK | W_OK) != 0) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.100s cannot be written: %s", path,
                 strerror(errno));
        return BIDE_EIO;
    }
    return BIDE_OK;
}

/* Before anything is written: whose file is it? */
static int check_owner(struct sqlite *sqlite, char *error)
{
    int code = open_database(sqlite, &sqlite->writer, SQLITE_OPEN_READWRITE, error);
    if (code == BIDE_OK)
        code = bi_sqlite_is_ours(sqlite, error);
    bi_sqlite_disconnect(&sqlite->writer);
    return code;
}

static int connect_all(struct sqlite *sqlite, char *error)
{
    int code = bi_sqlite_connect(sqlite, &sqlite->writer, error);
    if (code == BIDE_OK)
        code = bi_sqlite_migrate(sqlite, error);
    if (code == BIDE_OK)
        code = bi_sqlite_connect(sqlite, &sqlite->reader, error);
    if (code == BIDE_OK)
        code = bi_sqlite_connect(sqlite, &sqlite->slow, error);
    return code;
}

int bi_store_sqlite_new(const char *path, const struct bi_sqlite_options *options,
                        struct store **out, char *error)
{
    struct sqlite *sqlite = calloc(1, sizeof(*sqlite));
    if (sqlite == NULL) {
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }
    sqlite->base.ops = &sqlite_ops;
    sqlite->options = *options;
    sqlite->lock_fd = -1;
    pthread_mutex_init(&sqlite->writer.use, NULL);
    pthread_mutex_init(&sqlite->reader.use, NULL);
    pthread_mutex_init(&sqlite->slow.use, NULL);
    int code = absolute(path, &sqlite->path, error);
    if (code == BIDE_OK)
        code = check_file(sqlite->path, error);
    if (code == BIDE_OK)
        code = bi_sqlite_own(sqlite, error);
    if (code == BIDE_OK)
        code = resolve(sqlite, error);
    if (code == BIDE_OK)
        code = check_owner(sqlite, error);
    if (code == BIDE_EFULL && sqlite->lock_fd >= 0) /* the index of the log needs room; see below */
        code = BIDE_OK;
    if (code == BIDE_OK)
        code = connect_all(sqlite, error);
    if (code == BIDE_EFULL && bi_sqlite_give_room(sqlite)) {
        disconnect_all(sqlite);
        code = connect_all(sqlite, error);
    }
    if (code != BIDE_OK) {
        free_sqlite(sqlite);
        return code;
    }
    bi_sqlite_fill(sqlite, true);
    if (!sqlite->has_filler)
        bi_log(&options->log, BIDE_LOG_WARN,
               "%s: no room for the filler: when the disk is full jobs may not even be finished",
               sqlite->path);
    sqlite->base.place = sqlite->path;
    *out = &sqlite->base;
    return BIDE_OK;
}
