/* SPDX-License-Identifier: MIT */
/*
 * sqlite_connect - connections, prepared statements, the table meta, and error messages.
 *
 * A connection prepares a statement at its first use and retains it until the connection closes.
 *
 * Threads    The caller holds the mutex of the connection, unless no other thread can use it.
 */
#include "store/sqlite.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- errors ---- */

bool bi_sqlite_is_out_of_space(int system_errno)
{
    return system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EFBIG;
}

/* Names the user: that of a server often differs from the user who reads the message. */
const char *bi_sqlite_error_hint(int system_errno, char hint[BI_SQLITE_HINT_SIZE])
{
    hint[0] = 0;
    if (system_errno == EACCES)
        snprintf(hint, BI_SQLITE_HINT_SIZE, "; user %u must be able to write there",
                 (unsigned)geteuid());
    return hint;
}

int bi_sqlite_map_error(int sqlite_code, int system_errno)
{
    switch (sqlite_code & 0xff) {
    case SQLITE_NOMEM:
        return BIDE_ENOMEM;
    case SQLITE_FULL:
        return BIDE_EFULL;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return bi_sqlite_is_out_of_space(system_errno) ? BIDE_EFULL : BIDE_EIO;
    default:
        return BIDE_EIO;
    }
}

/* Returns the errno of the last failed call on the write-ahead log; 0 if there was none. */
static int wal_errno(const struct connection *connection)
{
    sqlite3_file *log = NULL;
    int os_errno = 0;

    sqlite3_file_control(connection->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log != NULL && log->pMethods != NULL)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &os_errno);
    return os_errno;
}

bool bi_sqlite_is_read_failure(const struct connection *connection, int code)
{
    if ((code & 0xff) != SQLITE_CORRUPT)
        return false;

    int os_errno[2] = {0, wal_errno(connection)};
    sqlite3_file_control(connection->db, "main", SQLITE_FCNTL_LAST_ERRNO, &os_errno[0]);
    for (int i = 0; i < 2; i++)
        if (os_errno[i] == EIO || os_errno[i] == ENXIO || os_errno[i] == ERANGE)
            return true;
    return false;
}

/* Returns the errno behind the last error. sqlite3_system_errno() does not report the errno of
 * a failed COMMIT but an older one, so the log file is asked first: a transaction writes to no
 * other file. */
static int system_errno(const struct connection *connection, int code)
{
    bool commit = code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC;
    int os_errno = commit ? wal_errno(connection) : 0;
    return os_errno != 0 ? os_errno : sqlite3_system_errno(connection->db);
}

int bi_sqlite_set_error(const struct sqlite *sqlite, const struct connection *connection,
                        const char *operation, char *error)
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
        {SQLITE_IOERR_SHMOPEN, "its log needs shared memory of a local file system"},
        {SQLITE_IOERR_SHMSIZE, "its log needs shared memory of a local file system"},
        {SQLITE_IOERR_SHMLOCK, "its log needs shared memory of a local file system"},
        {SQLITE_IOERR_SHMMAP, "its log needs shared memory of a local file system"},
    };

    /* No database: the reopen after a failed write has failed itself. */
    int code = connection->db == NULL ? SQLITE_CANTOPEN : sqlite3_extended_errcode(connection->db);
    int os_errno = connection->db == NULL ? 0 : system_errno(connection, code);
    const char *text =
        connection->db == NULL ? "it cannot be opened" : sqlite3_errmsg(connection->db);

    /* The message must not recommend a backup: the file may be intact. */
    if (connection->db != NULL && bi_sqlite_is_read_failure(connection, code)) {
        code = SQLITE_IOERR_READ;
        os_errno = EIO;
        text = sqlite3_errstr(SQLITE_IOERR);
    }

    for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++)
        if (advice[i].code == (code & 0xff) || advice[i].code == code)
            text = advice[i].text;

    /* Only these errors come from a system call; for others errno is stale. */
    bool io = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
    return bi_error_set(error, bi_sqlite_map_error(code, os_errno), "%s: %.80s: %.60s%s%s",
                        operation, sqlite->path, text, io && os_errno != 0 ? ": " : "",
                        io && os_errno != 0 ? strerror(os_errno) : "");
}

/* ---- connections ---- */

sqlite3_stmt *bi_sqlite_statement(struct connection *connection, enum statement which)
{
    assert(which < ST_COUNT && bi_sqlite_sql[which] != NULL);
    assert(connection->db != NULL || connection->statements[which] == NULL);
    if (connection->statements[which] == NULL && connection->db != NULL)
        sqlite3_prepare_v3(connection->db, bi_sqlite_sql[which], -1, SQLITE_PREPARE_PERSISTENT,
                           &connection->statements[which], NULL);
    return connection->statements[which];
}

int bi_sqlite_run(sqlite3_stmt *statement)
{
    if (statement == NULL) /* it could not be prepared */
        return SQLITE_ERROR;

    int code = sqlite3_step(statement);
    int reset = sqlite3_reset(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_DONE : reset;
}

int bi_sqlite_exec(struct connection *connection, const char *sql)
{
    return connection->db == NULL ? SQLITE_CANTOPEN
                                  : sqlite3_exec(connection->db, sql, NULL, NULL, NULL);
}

void bi_sqlite_roll_back(struct connection *connection)
{
    if (connection->db == NULL || sqlite3_get_autocommit(connection->db) != 0)
        return;

    /* The statement may fail for lack of memory. Closing the connection rolls back as well; the
     * next user opens it again. A transaction that stays open would fail every later one. */
    if (bi_sqlite_exec(connection, "ROLLBACK") != SQLITE_OK)
        bi_sqlite_disconnect(connection);
    assert(connection->db == NULL || sqlite3_get_autocommit(connection->db) != 0);
}

int64_t bi_sqlite_query_int64(struct connection *connection, const char *sql, int64_t fallback)
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

static int is_wal(void *ctx, int columns, char **values, char **names)
{
    (void)names;
    *(bool *)ctx = columns == 1 && values[0] != NULL && strcmp(values[0], "wal") == 0;
    return SQLITE_OK;
}

/*
 * Sets the pragmas of a connection. *wal tells whether the file has a write-ahead log: SQLite does
 * not report it as an error if the file keeps its old journal. wal_autocheckpoint is off because
 * maintenance runs the checkpoints, between commits. secure_delete, which Debian enables, would
 * write every page of a deleted body to the log as zeros, and a full disk could not be emptied;
 * FAST overwrites deleted data only where that costs no extra write.
 */
static int configure(struct sqlite *sqlite, struct connection *connection, bool *wal)
{
    static const char pragmas[] = "PRAGMA wal_autocheckpoint=0;"
                                  "PRAGMA journal_size_limit=33554432;"
                                  "PRAGMA cache_size=-16384;"
                                  "PRAGMA cell_size_check=ON;"
                                  "PRAGMA secure_delete=FAST;"
                                  "PRAGMA trusted_schema=OFF";
    static const char *const sync_pragmas[] = {
        [BIDE_SYNC_FULL] = "PRAGMA synchronous=FULL",
        [BIDE_SYNC_NORMAL] = "PRAGMA synchronous=NORMAL",
        [BIDE_SYNC_OFF] = "PRAGMA synchronous=OFF",
    };
    assert((size_t)sqlite->options.sync < sizeof(sync_pragmas) / sizeof(sync_pragmas[0]));

    int code = SQLITE_OK;
    /* Both must be set before the first page is written. Incremental vacuum returns free pages
     * without a copy of the whole file. */
    if (bi_sqlite_query_int64(connection, "PRAGMA page_count", 1) == 0)
        code = bi_sqlite_exec(connection, "PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL");

    *wal = false;
    if (code == SQLITE_OK)
        code = sqlite3_exec(connection->db, "PRAGMA journal_mode=WAL", is_wal, wal, NULL);
    if (code == SQLITE_OK)
        code = bi_sqlite_exec(connection, pragmas);
    if (code == SQLITE_OK)
        code = bi_sqlite_exec(connection, sync_pragmas[sqlite->options.sync]);
    return code;
}

static int count_frames(void *ctx, sqlite3 *db, const char *name, int frames)
{
    (void)db;
    (void)name;
    assert(frames >= 0);
    *(int *)ctx = frames;
    return SQLITE_OK;
}

static int open_failed(struct sqlite *sqlite, struct connection *connection, char *error)
{
    int status = bi_sqlite_set_error(sqlite, connection, "open", error);
    bi_sqlite_disconnect(connection);
    return status;
}

int bi_sqlite_open(struct sqlite *sqlite, struct connection *connection, int flags, char *error)
{
    assert(connection->db == NULL); /* an open connection would leak */
    if (sqlite3_open_v2(sqlite->path, &connection->db, flags | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return open_failed(sqlite, connection, error);

    sqlite3_busy_timeout(connection->db, BUSY_MS);
    sqlite3_extended_result_codes(connection->db, 1);
    return BIDE_OK;
}

int bi_sqlite_connect(struct sqlite *sqlite, struct connection *connection, char *error)
{
    int code =
        bi_sqlite_open(sqlite, connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);
    if (code != BIDE_OK)
        return code;
    bool wal;
    if (configure(sqlite, connection, &wal) != SQLITE_OK)
        return open_failed(sqlite, connection, error);

    /* Commits rely on the log; see sqlite_commit.c. */
    if (!wal) {
        bi_sqlite_disconnect(connection);
        return bi_error_set(error, BIDE_EIO,
                            "open: %.80s: no write-ahead log: the file system or this SQLite has "
                            "no shared memory; choose a local file system",
                            sqlite->path);
    }

    if (connection == &sqlite->writer) {
        /* An older file may have another page size: the default of the SQLite that created it. */
        sqlite->page_size = bi_sqlite_query_int64(connection, "PRAGMA page_size", 4096);
        assert(sqlite->page_size >= 512 && sqlite->page_size <= 65536);
        /* The hook reports the frames in the log after each commit. */
        sqlite3_wal_hook(connection->db, count_frames, &sqlite->wal_frames);
        bi_sqlite_set_max_pages(sqlite);
    }
    return BIDE_OK;
}

void bi_sqlite_disconnect(struct connection *connection)
{
    /* sqlite3_close() fails while a statement is left. */
    for (int i = 0; i < ST_COUNT; i++) {
        sqlite3_finalize(connection->statements[i]);
        connection->statements[i] = NULL;
    }

    int code = sqlite3_close(connection->db);
    assert(code == SQLITE_OK); /* else it stays open, with its locks */
    (void)code;
    connection->db = NULL;
}

void bi_sqlite_disconnect_all(struct sqlite *sqlite)
{
    /* The writer last: the last connection checkpoints the log unless it is configured not to, and
     * sqlite_close() configures the writer. */
    bi_sqlite_disconnect(&sqlite->reader);
    bi_sqlite_disconnect(&sqlite->scanner);
    bi_sqlite_disconnect(&sqlite->writer);
}

/* ---- the table meta ---- */

bool bi_sqlite_meta_get(struct connection *connection, const char *name, int64_t *value)
{
    sqlite3_stmt *statement = bi_sqlite_statement(connection, ST_META_GET);
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    *value = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE;
}

int bi_sqlite_meta_set(struct connection *writer, const char *name, uint64_t value)
{
    sqlite3_stmt *stmt = bi_sqlite_statement(writer, ST_META_SET);
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, (int64_t)value);
    return bi_sqlite_run(stmt);
}
