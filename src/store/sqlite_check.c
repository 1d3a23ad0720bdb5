/* SPDX-License-Identifier: MIT */
/*
 * sqlite_check - verifies the whole file: the pages of SQLite, every row, and every body.
 *
 * Rows are read through the scanner connection, in the same batches as a recovery. What takes
 * long uses a connection of its own, because a commit may have to close the others.
 */
#include "store/sqlite.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct check {
    struct store_report *report;
    struct connection *rows; /* of the scan, so that a body is read in the state of its row */
    char problem[120];       /* the first one; empty: none */
};

/* Stores the first problem, as one line. */
static void note_problem(struct check *check, const char *problem)
{
    assert(problem[0] != 0); /* empty means: none */
    if (check->problem[0] != 0)
        return;
    snprintf(check->problem, sizeof(check->problem), "%s", problem);

    /* The text of SQLite may have several lines; an error message is one. */
    for (char *at = check->problem; *at != 0; at++)
        if (*at == '\n')
            *at = ' ';
}

static void damaged(struct check *check, uint64_t id, const char *damage)
{
    char problem[120];
    assert(damage != NULL && damage[0] != 0);
    snprintf(problem, sizeof(problem), "job %llu: %s", (unsigned long long)id, damage);
    check->report->damaged++;
    note_problem(check, problem);
}

static int check_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct check *check = ctx;
    struct store_body_request request = {.id = record->image.id, .size = record->image.body_size};

    if (damage == NULL)
        bi_sqlite_read_body(check->rows, &request);
    if (request.retry)
        return BIDE_EIO; /* check_rows() retries from this row on */

    if (damage == NULL) {
        assert(request.body != NULL || request.reason[0] != 0);
        damage = request.body == NULL ? request.reason : NULL;
        bide_buf_unref(request.body);
    }
    if (damage == NULL)
        check->report->jobs++;
    else
        damaged(check, record->image.id, damage);
    return BIDE_OK;
}

/* Runs the check of SQLite and stores its first complaint. False if a page could not be read,
 * which may be temporary. */
static bool run_integrity_check(struct connection *connection, struct check *check)
{
    sqlite3_stmt *statement = NULL;
    const char *text = NULL;

    if (sqlite3_prepare_v2(connection->db, "PRAGMA integrity_check(1)", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(statement, 0);

    /* SQLite reports a read error as text among the results, not as a code. */
    bool read = text != NULL && strstr(text, "error code=") == NULL;
    if (text == NULL)
        text = sqlite3_errmsg(connection->db);

    /* An earlier try may have stored a temporary error. */
    check->problem[0] = 0;
    if (strcmp(text, "ok") != 0)
        note_problem(check, text);

    sqlite3_finalize(statement);
    return read;
}

/* Verifies that every row can be interpreted and every body matches its checksum. Rows on a
 * page that cannot be read count as one. */
static void check_rows(struct sqlite *sqlite, struct check *check)
{
    char error[BIDE_ERROR_SIZE] = "";
    uint64_t after = 0;
    int code = BIDE_OK;

    for (int tries = 0; tries < READ_TRIES && !bi_store_check_stopped(&sqlite->base);) {
        code = bi_sqlite_scan(&sqlite->base, &after, BIDE_ID_MAX + 1, 256, check_row, check, error);
        if (code == BIDE_NOT_FOUND)
            return;

        /* Any progress resets the count: only a place that keeps failing ends the check. */
        tries = code == BIDE_OK ? 0 : tries + 1;
        if (tries > 0)
            usleep(READ_MS * 1000);
    }

    note_problem(check, code == BIDE_OK ? "the check was ended" : error);
}

/* Runs a count. A count that fails is a problem of its own, and 0. */
static uint64_t count_rows(struct connection *connection, enum statement which, struct check *check)
{
    int64_t count = bi_sqlite_query_int64(connection, bi_sqlite_sql[which], -1);
    if (count < 0)
        note_problem(check, sqlite3_errmsg(connection->db));
    return count < 0 ? 0 : (uint64_t)count;
}

static void check_orphans(struct connection *connection, struct check *check)
{
    char problem[120];
    uint64_t orphans = count_rows(connection, ST_ORPHANS, check);
    snprintf(problem, sizeof(problem), "%llu bodies belong to no job", (unsigned long long)orphans);
    if (orphans > 0)
        note_problem(check, problem);

    check->report->damaged += count_rows(connection, ST_QUARANTINE_COUNT, check);
}

static int is_stopping(void *sqlite)
{
    return bi_store_check_stopped(&((struct sqlite *)sqlite)->base);
}

int bi_sqlite_check(struct store *store, struct store_report *report, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection connection = {.db = NULL};
    struct check check = {.report = report, .rows = &sqlite->scanner};

    int code = bi_sqlite_connect(sqlite, &connection, error);
    if (code == BIDE_OK) {
        /* Pages and orphans are single statements that may run for minutes; this interrupts
         * them. */
        sqlite3_progress_handler(connection.db, 100000, is_stopping, sqlite);
        for (int i = 0; i < READ_TRIES && !run_integrity_check(&connection, &check) &&
                        !bi_store_check_stopped(store);
             i++)
            usleep(READ_MS * 1000);
        check_rows(sqlite, &check);
        check_orphans(&connection, &check);
        bi_sqlite_disconnect(&connection);
    }

    if (code == BIDE_OK && check.problem[0] != 0)
        code = bi_error_set(error, BIDE_EIO, "check: %.60s: %s", sqlite->path, check.problem);
    return code;
}
