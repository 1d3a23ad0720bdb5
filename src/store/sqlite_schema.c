/* SPDX-License-Identifier: MIT */
/*
 * sqlite_schema - the tables, and the migration of older files.
 *
 * The header of the file names its owner (application_id) and its version (user_version). A change
 * of the tables appends an element to migrations[]: the SQL that turns the previous version into
 * the next one. All missing migrations run in one transaction when the file is opened.
 */
#include "store/sqlite.h"

#include "util/message.h"

#include <assert.h>
#include <stdio.h>

#define APPLICATION_ID 0x62696465 /* "bide" */

static const char migration_1[] =
    /* A job. Times are microseconds since the epoch. state: 1 delayed, 2 ready, 4 buried, 5 done.
     * A body of more than 512 bytes is a row of the table body. */
    "CREATE TABLE job("
    "id INTEGER PRIMARY KEY,"
    "topic TEXT NOT NULL,"
    "state INTEGER NOT NULL,"
    /* 1 started, 2 cancel wanted, 4 due follows the wall clock, 8 key retained, 16: the columns
     * from key on are in use */
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
    /* Damaged rows, unchanged, with their body. */
    "CREATE TABLE damaged("
    "id INTEGER PRIMARY KEY, found INTEGER, reason TEXT, topic, state, flags, priority, ttr, due,"
    "created, since, body_size, body_sum, body, key, max_retries, failures, backoff_base,"
    "backoff_max, expires_at, retain, bury_order, reserves, timeouts, releases, fails, buries,"
    "kicks, touches, ready, reserved, touched, buried, done, last_error, result, data);";

/* A lease that survives a restart: its token, and the microseconds that were left at the
 * close. It is valid if lease_from of the table meta is not 0 and not above the token. */
static const char migration_2[] = "ALTER TABLE job ADD COLUMN token INTEGER;"
                                  "ALTER TABLE job ADD COLUMN lease INTEGER;"
                                  "ALTER TABLE damaged ADD COLUMN token;"
                                  "ALTER TABLE damaged ADD COLUMN lease;";

/* The last failures of a job, encoded by op/job_history.h. */
static const char migration_3[] = "ALTER TABLE job ADD COLUMN history BLOB;"
                                  "ALTER TABLE damaged ADD COLUMN history;";

/* The policy of a topic: the members of bide_topic_policy. NULL: not set. */
static const char migration_4[] =
    "CREATE TABLE policy("
    "topic TEXT PRIMARY KEY, ttr_ms INTEGER, max_retries INTEGER, backoff_base_ms INTEGER,"
    "backoff_max_ms INTEGER, retain_ms INTEGER, expires_in_ms INTEGER, max_jobs INTEGER,"
    "concurrency INTEGER, rate INTEGER, rate_period_ms INTEGER, rate_burst INTEGER)"
    " WITHOUT ROWID;";

/* migrations[n] turns version n into version n + 1; 0 is an empty file. */
static const char *const migrations[] = {migration_1, migration_2, migration_3, migration_4};

#define VERSION ((int)(sizeof(migrations) / sizeof(migrations[0])))

/* No value of a 32-bit number in the header of the file. */
#define UNKNOWN INT64_MIN

static int not_bide_file(const struct sqlite *sqlite, const char *why, char *error)
{
    return bi_error_set(error, BIDE_EINVAL,
                        "open: %.80s is not a file of bide: %s; choose another name", sqlite->path,
                        why);
}

int bi_sqlite_check_schema(struct sqlite *sqlite, char *error)
{
    struct connection *writer = &sqlite->writer;
    int64_t objects = bi_sqlite_query_int64(writer, "SELECT count(*) FROM sqlite_schema", -1);
    if (objects < 0 && (sqlite3_errcode(writer->db) & 0xff) == SQLITE_NOTADB)
        return not_bide_file(sqlite, "it is no SQLite database", error);
    if (objects < 0)
        return bi_sqlite_set_error(sqlite, writer, "open", error);

    int64_t application = bi_sqlite_query_int64(writer, "PRAGMA application_id", UNKNOWN);
    int64_t version = bi_sqlite_query_int64(writer, "PRAGMA user_version", UNKNOWN);
    if (application == UNKNOWN || version == UNKNOWN)
        return bi_sqlite_set_error(sqlite, writer, "open", error);

    /* An empty database without an owner is accepted: the migration creates the tables. */
    if (application != APPLICATION_ID && (objects > 0 || application != 0 || version != 0))
        return not_bide_file(sqlite, "it is the SQLite database of another program", error);
    if (version >= 0 && version <= VERSION)
        return BIDE_OK;

    /* The header of a damaged file may have any version. */
    if (version < 0)
        return bi_error_set(
            error, BIDE_EINVAL,
            "open: %.60s is damaged: its schema version is %lld; open a backup of it", sqlite->path,
            (long long)version);
    return bi_error_set(error, BIDE_EINVAL,
                        "open: %.60s was written by a newer bide (schema %lld, this one knows %d); "
                        "use that version",
                        sqlite->path, (long long)version, VERSION);
}

/* Runs the migrations from a version to the last one. A failure leaves the file unchanged. */
static int run_migrations(struct sqlite *sqlite, int from, char *error)
{
    struct connection *writer = &sqlite->writer;
    char sql[80];
    assert(from >= 0 && from < VERSION);

    int code = bi_sqlite_exec(writer, "BEGIN IMMEDIATE");
    for (int version = from; code == SQLITE_OK && version < VERSION; version++)
        code = bi_sqlite_exec(writer, migrations[version]);

    snprintf(sql, sizeof(sql), "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION_ID,
             VERSION);
    /* Both numbers are part of the transaction: tables and version cannot disagree. */
    if (code == SQLITE_OK)
        code = bi_sqlite_exec(writer, sql);
    if (code == SQLITE_OK)
        code = bi_sqlite_exec(writer, "COMMIT");
    if (code == SQLITE_OK)
        return BIDE_OK;

    int status = bi_sqlite_set_error(sqlite, writer, from == 0 ? "make" : "bring up", error);
    bi_sqlite_roll_back(writer);
    return status;
}

int bi_sqlite_migrate(struct sqlite *sqlite, char *error)
{
    int code = bi_sqlite_check_schema(sqlite, error);
    if (code != BIDE_OK)
        return code;

    int64_t version = bi_sqlite_query_int64(&sqlite->writer, "PRAGMA user_version", UNKNOWN);
    if (version == UNKNOWN)
        return bi_sqlite_set_error(sqlite, &sqlite->writer, "open", error);
    assert(version >= 0 && version <= VERSION); /* bi_sqlite_check_schema() */
    return version < VERSION ? run_migrations(sqlite, (int)version, error) : BIDE_OK;
}
