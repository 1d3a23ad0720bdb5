/* SPDX-License-Identifier: MIT */
/*
 * sqlite_schema - the tables, and the version they are in.
 *
 * The file names its owner (application_id) and its version (user_version). A change of the tables
 * adds an element to versions[]: the SQL that makes of the version before it the next one. It runs
 * in one transaction when the file is opened.
 */
#include "store/sqlite.h"

#include "util/text.h"

#include <stdio.h>

#define APPLICATION_ID 0x62696465 /* "bide" */

static const char version_1[] =
    /* A job. Times are microseconds since the epoch. state: 1 delayed, 2 ready, 4 buried, 5 done.
     * A body of more than 512 bytes lies in the table body. */
    "CREATE TABLE job("
    "id INTEGER PRIMARY KEY,"
    "topic TEXT NOT NULL,"
    "state INTEGER NOT NULL,"
    /* 1 started, 2 cancel wanted, 4 due follows the wall clock, 8 key retained, 16: the columns from
     * key on say something */
    "flags INTEGER,"
    "priority INTEGER,"
    "ttr INTEGER,"
    "due INTEGER,"
    "created INTEGER,"
    "since INTEGER," /* in this state; NULL: created */
    "body_size INTEGER,"
    "body_sum INTEGER,"
    "body BLOB,"
    "key BLOB,"
    "max_retries INTEGER,"
    "failures INTEGER,"
    "backoff_base INTEGER,"
    "backoff_max INTEGER,"
    "expires_at INTEGER,"
    "retain INTEGER,"
    "bury_order INTEGER,"
    "reserves INTEGER,"
    "timeouts INTEGER,"
    "releases INTEGER,"
    "fails INTEGER,"
    "buries INTEGER,"
    "kicks INTEGER,"
    "touches INTEGER,"
    "ready INTEGER,"
    "reserved INTEGER,"
    "touched INTEGER,"
    "buried INTEGER,"
    "done INTEGER,"
    "last_error TEXT,"
    "result BLOB);"
    "CREATE TABLE body(id INTEGER PRIMARY KEY, data BLOB);"
    "CREATE TABLE pause(topic TEXT PRIMARY KEY, until INTEGER) WITHOUT ROWID;"
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;"
    /* Rows that made no sense, as they were, with their body. */
    "CREATE TABLE damaged("
    "id INTEGER PRIMARY KEY, found INTEGER, reason TEXT, topic, state, flags, priority, ttr, due,"
    "created, since, body_size, body_sum, body, key, max_retries, failures, backoff_base,"
    "backoff_max, expires_at, retain, bury_order, reserves, timeouts, releases, fails, buries,"
    "kicks, touches, ready, reserved, touched, buried, done, last_error, result, data);";

/* A lease that outlives the process: its token, and the microseconds that were left of it at the
 * close. It is good if the number lease_from of the table meta is not 0, and not above the token. */
static const char version_2[] = "ALTER TABLE job ADD COLUMN token INTEGER;"
                                "ALTER TABLE job ADD COLUMN lease INTEGER;"
                                "ALTER TABLE damaged ADD COLUMN token;"
                                "ALTER TABLE damaged ADD COLUMN lease;";

/* versions[n] makes version n + 1 out of version n; 0 is an empty file. */
static const char *const versions[] = {version_1, version_2};

#define VERSION ((int)(sizeof(versions) / sizeof(versions[0])))

/* Both numbers in the header of the file have 32 bits. */
#define UNKNOWN INT64_MIN

static int not_ours(const struct sqlite *sqlite, const char *why, char *error)
{
    snprintf(error, BIDE_ERROR_SIZE, "open: %.80s is not a file of bide: %s; choose another name",
             sqlite->path, why);
    return BIDE_EINVAL;
}

int bi_sqlite_is_ours(struct sqlite *sqlite, char *error)
{
    struct connection *writer = &sqlite->writer;
    int64_t objects = bi_sqlite_number(writer, "SELECT count(*) FROM sqlite_schema", -1);
    if (objects < 0 && (sqlite3_errcode(writer->db) & 0xff) == SQLITE_NOTADB)
        return not_ours(sqlite, "it is no SQLite database", error);
    if (objects < 0)
        return bi_sqlite_error(sqlite, writer, "open", error);
    int64_t application = bi_sqlite_number(writer, "PRAGMA application_id", UNKNOWN);
    int64_t version = bi_sqlite_number(writer, "PRAGMA user_version", UNKNOWN);
    if (application == UNKNOWN || version == UNKNOWN)
        return bi_sqlite_error(sqlite, writer, "open", error);
    if (application != APPLICATION_ID && (objects > 0 || application != 0 || version != 0))
        return not_ours(sqlite, "it is the SQLite database of another program", error);
    if (version <= VERSION)
        return BIDE_OK;
    snprintf(error, BIDE_ERROR_SIZE,
             "open: %.60s was written by a newer bide (schema %lld, this one knows %d); "
             "use that version",
             sqlite->path, (long long)version, VERSION);
    return BIDE_EINVAL;
}

/* From one version to the last, in one transaction. */
static int run_versions(struct sqlite *sqlite, int from, char *error)
{
    struct connection *writer = &sqlite->writer;
    char sql[80];
    int code = bi_sqlite_exec(writer, "BEGIN IMMEDIATE");
    for (int version = from; code == SQLITE_OK && version < VERSION; version++)
        code = bi_sqlite_exec(writer, versions[version]);
    snprintf(sql, sizeof(sql), "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION_ID,
             VERSION);
    if (code == SQLITE_OK)
        code = bi_sqlite_exec(writer, sql);
    if (code == SQLITE_OK)
        code = bi_sqlite_exec(writer, "COMMIT");
    if (code == SQLITE_OK)
        return BIDE_OK;
    int answer = bi_sqlite_error(sqlite, writer, from == 0 ? "make" : "bring up", error);
    bi_sqlite_exec(writer, "ROLLBACK");
    return answer;
}

int bi_sqlite_migrate(struct sqlite *sqlite, char *error)
{
    int code = bi_sqlite_is_ours(sqlite, error);
    if (code != BIDE_OK)
        return code;
    int64_t version = bi_sqlite_number(&sqlite->writer, "PRAGMA user_version", UNKNOWN);
    if (version == UNKNOWN)
        return bi_sqlite_error(sqlite, &sqlite->writer, "open", error);
    return version < VERSION ? run_versions(sqlite, (int)version, error) : BIDE_OK;
}
