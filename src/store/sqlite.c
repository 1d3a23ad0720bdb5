/* SPDX-License-Identifier: MIT */
/*
 * sqlite - opens and closes the SQLite store, and loads what a start needs.
 *
 * Ordering   An open locks the file before it reads it, verifies that it is ours before it writes
 *            to it, and only then connects. A file of another program is left unchanged.
 * Failure    A full disk does not fail the open if the ballast can make room.
 */
#include "store/sqlite.h"

#include "util/clock.h"
#include "util/message.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ---- */

/* Replaces a limit that cannot be right by one above every number that may have been assigned. */
static uint64_t validate_limit(const struct sqlite *sqlite, const char *name, int64_t value,
                               int64_t replacement)
{
    assert(replacement >= 0);
    if (value >= 0 && value <= (int64_t)BIDE_ID_MAX)
        return (uint64_t)value;

    bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s: %s is %lld in the table meta; %lld is used",
           sqlite->path, name, (long long)value, (long long)replacement);
    return (uint64_t)replacement;
}

/* Moves rows whose ids cannot have been assigned to the table of damaged jobs: they would
 * collide with ids to come. Returns how many there were. */
static uint64_t quarantine_invalid_ids(struct sqlite *sqlite)
{
    char error[BIDE_ERROR_SIZE];
    uint64_t count = 0;

    for (int64_t last = 1;;) {
        int64_t id = bi_sqlite_query_int64(&sqlite->writer, bi_sqlite_sql[ST_INVALID_ID], 1);
        /* 1: there is no such row. In a damaged table the search may also end at a row with a valid
         * id, or at one that no lookup finds and that cannot be moved: the scan reports these. */
        if ((id > 0 && id <= ASSIGNED_ID_MAX) || id == last)
            return count;
        last = id;

        bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s: job %lld: the id was never given",
               sqlite->path, (long long)id);
        if (bi_sqlite_quarantine(&sqlite->base, (uint64_t)id, "the id was never given", error) !=
            BIDE_OK) {
            bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s", error);
            return count;
        }
        count++;
    }
}

/* Loads the secret of the file, or generates one for a file without. False if the file cannot
 * be read. */
static bool load_secret(struct sqlite *sqlite)
{
    int64_t key[2], token_from;

    if (!bi_sqlite_meta_get(&sqlite->writer, "secret_1", &key[0]) ||
        !bi_sqlite_meta_get(&sqlite->writer, "secret_2", &key[1]) ||
        !bi_sqlite_meta_get(&sqlite->writer, "token_from", &token_from))
        return false;

    sqlite->secret = (struct bi_hash_secret){{(uint64_t)key[0], (uint64_t)key[1]}};
    sqlite->secret_stored = key[0] != 0 || key[1] != 0;
    sqlite->token_from = validate_limit(sqlite, "token_from", token_from, 1);

    /* The first batch stores it. */
    if (!sqlite->secret_stored)
        bi_keyed_hash_generate_secret(&sqlite->secret);
    /* Zero stands for a file without a secret. */
    assert(sqlite->secret.key[0] != 0 || sqlite->secret.key[1] != 0);
    return true;
}

static int sqlite_start(struct store *store, struct store_start *start, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *writer = &sqlite->writer;
    int64_t next_id, next_token, lease_from;

    if (!bi_sqlite_meta_get(writer, "next_id", &next_id) ||
        !bi_sqlite_meta_get(writer, "next_token", &next_token) ||
        !bi_sqlite_meta_get(writer, "lease_from", &lease_from) || !load_secret(sqlite))
        return bi_sqlite_set_error(sqlite, writer, "open", error);

    /* The stored limit is above every id. The highest id is read as well, in case the limit is
     * damaged; one of the two is enough. */
    int64_t max_id = bi_sqlite_query_int64(writer, bi_sqlite_sql[ST_MAX_ID], -1);
    bool limit_is_valid = next_id > 0 && next_id <= (int64_t)BIDE_ID_MAX;
    if (max_id < 0 && !limit_is_valid)
        return bi_sqlite_set_error(sqlite, writer, "open", error);

    start->next_id = validate_limit(sqlite, "next_id", next_id, max_id + ID_BLOCK);
    if (start->next_id <= (uint64_t)(max_id < 0 ? 0 : max_id))
        start->next_id = (uint64_t)max_id + 1;
    if (start->next_id == 0)
        start->next_id = 1;
    assert(max_id < 0 || start->next_id > (uint64_t)max_id);

    /* Token numbers start at the current time in microseconds or above, and are assigned more
     * slowly than microseconds pass. So the tokens of another file, or of a file that a backup has
     * replaced, are not valid here. */
    uint64_t now = (uint64_t)bi_clock_wall();
    start->next_token = validate_limit(sqlite, "next_token", next_token, (int64_t)now);
    if (start->next_token < now)
        start->next_token = now;
    start->lease_from = validate_limit(sqlite, "lease_from", lease_from, 0);

    /* A file of a version without a secret: the tokens that it assigned are plain numbers. */
    if (!sqlite->secret_stored)
        sqlite->token_from = next_token == 0 ? 1 : start->next_token;
    start->token_from = sqlite->token_from == 0 ? 1 : sqlite->token_from;
    assert(start->next_token > 0); /* token 0 means: not as a holder */
    start->secret = sqlite->secret;

    start->damaged = quarantine_invalid_ids(sqlite);
    sqlite->next_id = start->next_id;
    /* 0 differs from every real limit, so the first batch writes both. */
    sqlite->id_limit = 0;
    sqlite->token_limit = 0;
    sqlite->lease_from = (uint64_t)lease_from;
    return BIDE_OK;
}

/* Visits a record whose topic was read. A column that SQLite could not allocate looks empty: that is
 * no damage. Returns SQLITE_ROW, or an error of SQLite. */
static int visit_topic(const struct sqlite *sqlite, const struct bi_record *record,
                       const char *damage, store_visit visit, void *ctx, int *status)
{
    if (damage != NULL && (sqlite3_errcode(sqlite->writer.db) & 0xff) == SQLITE_NOMEM)
        return SQLITE_NOMEM;
    *status = visit(ctx, record, damage);
    return SQLITE_ROW;
}

/* Reads the settings into a buffer of the record. False when out of memory. */
static bool read_policy(sqlite3_stmt *stmt, struct bi_image *image)
{
    bide_topic_policy policy;
    bi_sqlite_read_policy(stmt, &policy);
    image->body = bide_buf_new(&policy, sizeof(policy));
    return image->body != NULL;
}

/* Visits all pauses or all policies. */
static int scan_table(struct sqlite *sqlite, bool policies, store_visit visit, void *ctx,
                      char *error)
{
    sqlite3_stmt *stmt = bi_sqlite_statement(&sqlite->writer, policies ? ST_POLICIES : ST_PAUSES);
    int code = stmt == NULL ? SQLITE_ERROR : SQLITE_ROW;
    int status = BIDE_OK;

    while (status == BIDE_OK && code == SQLITE_ROW && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct bi_record record = {.kind = BI_TOPIC};
        const char *damage = bi_sqlite_read_topic(stmt, 0, &record.image);

        if (!policies) {
            record.image.due = sqlite3_column_int64(stmt, 1);
            bi_sqlite_track_pause(sqlite, record.image.due);
        }
        if (!policies || read_policy(stmt, &record.image))
            code = visit_topic(sqlite, &record, damage, visit, ctx, &status);
        else
            status = bi_error_set_code(error, BIDE_ENOMEM);
        bi_image_unref(&record.image);
    }

    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = bi_sqlite_set_error(sqlite, &sqlite->writer, "open", error);
    sqlite3_reset(stmt);
    return status;
}

static int sqlite_scan_topics(struct store *store, store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    int status = scan_table(sqlite, false, visit, ctx, error);
    return status == BIDE_OK ? scan_table(sqlite, true, visit, ctx, error) : status;
}

/* ---- close ---- */

static void free_sqlite(struct sqlite *sqlite)
{
    /* A forked child must not close the connections that it inherited from its parent. */
    if (!sqlite->inherited)
        bi_sqlite_disconnect_all(sqlite);
    /* After the connections: another process must not open the file while they are in use. */
    bi_sqlite_lock_release(sqlite);
    assert(sqlite->lock_fd < 0);

    pthread_mutex_destroy(&sqlite->writer.lock);
    pthread_mutex_destroy(&sqlite->reader.lock);
    pthread_mutex_destroy(&sqlite->scanner.lock);
    free(sqlite->path);
    free(sqlite);
}

/* Stores the exact next id, so that a restart skips none. Past the write deadline it writes
 * nothing: the next start skips some ids and recovers the log. */
static void sqlite_close(struct store *store)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct sigxfsz_guard guard;

    /* The stored limit covers every id that a batch has used. */
    assert(sqlite->id_limit == 0 || sqlite->next_id <= sqlite->id_limit);
    bi_sqlite_block_sigxfsz(sqlite, &guard);

    bool past_deadline = bi_store_past_deadline(store);
    if (past_deadline && !sqlite->inherited && sqlite->writer.db != NULL)
        sqlite3_db_config(sqlite->writer.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);

    /* id_limit is 0 until the first batch: then next_id is as the start found it. While the
     * outcome of a batch is unknown, next_id is that of the batch before. */
    if (!past_deadline && !sqlite->inherited && sqlite->id_limit != 0 && !sqlite->outcome_unknown &&
        sqlite->writer.db != NULL)
        bi_sqlite_meta_set(&sqlite->writer, "next_id", sqlite->next_id);

    free_sqlite(sqlite);
    bi_sqlite_unblock_sigxfsz(&guard);
}

static const struct store_ops sqlite_ops = {
    .name = "sqlite",
    .persistent = true,
    .start = sqlite_start,
    .scan_topics = sqlite_scan_topics,
    .commit = bi_sqlite_commit,
    .maintain = bi_sqlite_maintain,
    .quarantine = bi_sqlite_quarantine,
    .read = bi_sqlite_read_bodies,
    .fetch = bi_sqlite_fetch,
    .count = bi_sqlite_count,
    .scan = bi_sqlite_scan,
    .backup = bi_sqlite_backup,
    .check = bi_sqlite_check,
    .close = sqlite_close,
};

static int path_error(const char *path, char *error)
{
    int number = errno;
    return bi_error_set(error, number == ENOMEM ? BIDE_ENOMEM : BIDE_EIO, "open: %.120s: %s", path,
                        strerror(number));
}

/* Makes the path absolute: the process may change its directory while the queue is open. */
static int make_absolute(const char *path, char **out, char *error)
{
    char *cwd = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
    size_t size = cwd == NULL ? 0 : strlen(cwd) + strlen(path) + 2;
    char *joined = cwd == NULL ? NULL : malloc(size);

    if (joined == NULL) {
        int code = path_error(path, error);
        free(cwd);
        return code;
    }

    snprintf(joined, size, "%s%s%s", cwd, path[0] == '/' ? "" : "/", path);
    free(cwd);
    *out = joined;
    return BIDE_OK;
}

/* Resolves symbolic links, now that the file exists: SQLite derives the names of the log and
 * its index from the path, and two names of a file must not get two logs. */
static int resolve_symlinks(struct sqlite *sqlite, char *error)
{
    assert(sqlite->lock_fd >= 0); /* the lock has created the file */
    char *real = realpath(sqlite->path, NULL);
    if (real == NULL)
        return path_error(sqlite->path, error);

    free(sqlite->path);
    sqlite->path = real;
    return BIDE_OK;
}

static int check_directory(const char *path, char *error)
{
    char directory[PATH_MAX];
    struct stat file;
    const char *slash = strrchr(path, '/');
    assert(slash != NULL); /* made absolute */

    const char *name = slash + 1;
    snprintf(directory, sizeof(directory), "%.*s", (int)(name - path), path);

    if (stat(directory, &file) == 0 && name[0] != 0)
        return BIDE_OK;

    if (name[0] == 0)
        return bi_error_set(error, BIDE_EINVAL, "open: %.120s ends in a slash; a file is needed",
                            path);
    return bi_error_set(error, BIDE_EIO, "open: the directory %.80s of %.25s: %s%s", directory,
                        name, strerror(errno), errno == ENOENT ? "; make it first" : "");
}

/* Rejects what cannot be opened as a queue, with a message that names the cause. SQLite
 * reports most of these cases as "unable to open database file". */
static int check_file(const char *path, char *error)
{
    struct stat file;

    /* Leaves room for the suffixes of the files beside it. */
    if (strlen(path) > PATH_MAX - 16)
        return bi_error_set(error, BIDE_EINVAL, "open: %.60s... is too long for a path", path);
    if (stat(path, &file) != 0)
        return check_directory(path, error);

    if (!S_ISREG(file.st_mode))
        return bi_error_set(error, BIDE_EINVAL, "open: %.120s is %s, not a file", path,
                            S_ISDIR(file.st_mode) ? "a directory" : "a device, pipe or socket");

    if (access(path, R_OK | W_OK) != 0) {
        char hint[BI_SQLITE_HINT_SIZE];
        return bi_error_set(error, BIDE_EIO, "open: %.100s cannot be written: %s%s", path,
                            strerror(errno), bi_sqlite_error_hint(errno, hint));
    }
    return BIDE_OK;
}

/* Verifies that the file is ours before anything is written: connecting changes it to WAL
 * mode. */
static int check_schema_before_write(struct sqlite *sqlite, char *error)
{
    assert(sqlite->lock_fd >= 0); /* no other process changes it after the check */
    int code = bi_sqlite_open(sqlite, &sqlite->writer, SQLITE_OPEN_READWRITE, error);
    if (code == BIDE_OK)
        code = bi_sqlite_check_schema(sqlite, error);
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
        code = bi_sqlite_connect(sqlite, &sqlite->scanner, error);
    return code;
}

/* Opens a file on a full disk: the space of the ballast goes to the log and its index. Without
 * a ballast the open fails, because not even a delete could be stored, and finished jobs would
 * run again after a restart. */
static int open_when_full(struct sqlite *sqlite, char *error)
{
    assert(sqlite->lock_fd >= 0); /* the ballast of another owner must not be removed */
    int code = BIDE_EFULL;
    if (bi_sqlite_ballast_remove(sqlite)) {
        bi_sqlite_disconnect_all(sqlite);
        code = connect_all(sqlite, error);
    }

    if (code == BIDE_OK)
        bi_sqlite_ballast_release(sqlite);
    else if (code == BIDE_EFULL)
        bi_error_set(error, code,
                     "open: %.100s: the disk is full, without room for the log of the file; make "
                     "room, and open it again",
                     sqlite->path);
    return code;
}

/* Runs every step of an open that may fail. */
static int open_files(struct sqlite *sqlite, const char *path, char *error)
{
    int code = make_absolute(path, &sqlite->path, error);
    if (code == BIDE_OK)
        code = check_file(sqlite->path, error);
    if (code == BIDE_OK)
        code = bi_sqlite_lock_acquire(sqlite, error);
    if (code == BIDE_OK)
        code = resolve_symlinks(sqlite, error);
    if (code == BIDE_OK)
        code = check_schema_before_write(sqlite, error);

    /* Even reading needs space, for the index of the log. open_when_full() handles it below; the
     * schema is verified again by bi_sqlite_migrate(). */
    if (code == BIDE_EFULL && sqlite->lock_fd >= 0)
        code = BIDE_OK;
    if (code == BIDE_OK)
        code = connect_all(sqlite, error);
    return code == BIDE_EFULL && sqlite->lock_fd >= 0 ? open_when_full(sqlite, error) : code;
}

int bi_sqlite_store_new(const char *path, const struct bi_sqlite_options *options,
                        struct store **out, char *error)
{
    struct sigxfsz_guard guard;
    struct sqlite *sqlite = calloc(1, sizeof(*sqlite));
    if (sqlite == NULL)
        return bi_error_set_code(error, BIDE_ENOMEM);

    sqlite->base.ops = &sqlite_ops;
    sqlite->options = *options;
    sqlite->lock_fd = -1;
    sqlite->pause_end_us = BI_NEVER;

    pthread_mutex_init(&sqlite->writer.lock, NULL);
    pthread_mutex_init(&sqlite->reader.lock, NULL);
    pthread_mutex_init(&sqlite->scanner.lock, NULL);

    bi_sqlite_read_file_limit(sqlite);
    bi_sqlite_block_sigxfsz(sqlite, &guard);
    int code = open_files(sqlite, path, error);
    if (code == BIDE_OK)
        bi_sqlite_ballast_restore(sqlite, true);
    else
        free_sqlite(sqlite);
    bi_sqlite_unblock_sigxfsz(&guard);
    if (code != BIDE_OK)
        return code;

    assert(sqlite->lock_fd >= 0 && sqlite->writer.db != NULL && sqlite->reader.db != NULL &&
           sqlite->scanner.db != NULL);
    if (!sqlite->has_ballast)
        bi_log(&options->log, BIDE_LOG_WARN,
               "%s: no room for the filler: when the disk is full jobs may not even be finished",
               sqlite->path);

    sqlite->base.path = sqlite->path;
    *out = &sqlite->base;
    return BIDE_OK;
}
