/* SPDX-License-Identifier: MIT */
/*
 * sqlite_scan - reads bodies, single jobs, and all jobs in the order of their ids.
 *
 * A scan continues behind pages that cannot be read. SQLite does not notice every damaged page: a
 * row may show an id that is not its own. A row that is out of order, or that is not found under
 * its id, proves damage. An id that is too large looks like the end of the table, so the end is
 * verified from the other side.
 *
 * Failure    A page error may be temporary. The connection is opened again and the read retried
 *            for a second before rows count as unreadable.
 * Threads    Bodies and single jobs use the reader connection; count and scan use the scanner.
 */
#include "store/sqlite.h"

#include "util/message.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

/* ---- reading ---- */

/* Locks a connection. A failed reopen leaves connections closed; the next user opens them. */
static void lock_open(struct sqlite *sqlite, struct connection *connection)
{
    char error[BIDE_ERROR_SIZE];
    pthread_mutex_lock(&connection->lock);
    if (connection->db == NULL)
        bi_sqlite_connect(sqlite, connection, error);
}

void bi_sqlite_read_bodies(struct store *store, struct store_body_request *requests, size_t n)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *reader = &sqlite->reader;

    lock_open(sqlite, reader);

    /* One transaction: all bodies are read from one state of the file. */
    bool begun = bi_sqlite_exec(reader, "BEGIN") == SQLITE_OK;
    bool failed = false;
    for (size_t i = 0; i < n; i++) {
        /* Past the deadline the queue is closed, and no caller waits for the body. */
        if (begun && !bi_store_past_deadline(store)) {
            bi_sqlite_read_body(reader, &requests[i]);
            failed |= requests[i].retry && !requests[i].out_of_memory;
            continue;
        }
        requests[i].body = NULL;
        requests[i].retry = true;
        snprintf(requests[i].reason, sizeof(requests[i].reason), "the file cannot be read now");
    }

    /* A transaction that stays open would show the next reads this state of the file, in which
     * jobs of later commits are missing: they would count as lost. */
    if (begun && bi_sqlite_exec(reader, "COMMIT") != SQLITE_OK)
        failed = true;

    /* A new connection has no errno of an earlier read, see bi_sqlite_is_read_failure(). */
    if (failed)
        bi_sqlite_disconnect(reader);
    pthread_mutex_unlock(&reader->lock);
}

int bi_sqlite_fetch(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *reader = &sqlite->reader;

    lock_open(sqlite, reader);

    sqlite3_stmt *stmt = bi_sqlite_statement(reader, ST_FETCH);
    sqlite3_bind_int64(stmt, 1, (int64_t)id);
    int code = sqlite3_step(stmt);

    int status;
    if (code == SQLITE_ROW)
        status = bi_sqlite_visit_row(stmt, visit, ctx);
    else if (code == SQLITE_DONE)
        status = BIDE_NOT_FOUND;
    else
        status = bi_sqlite_set_error(sqlite, reader, "read", error);

    sqlite3_reset(stmt);
    pthread_mutex_unlock(&reader->lock);
    return status;
}

/* Virtual machine steps of SQLite between two calls of must_stop(). */
#define COUNT_STEPS 10000
/* How often a count restarts because a commit must reopen the connections. */
#define COUNT_TRIES 100

static int must_stop(void *arg)
{
    struct sqlite *sqlite = arg;
    return sqlite->base.stopping || sqlite->reopening;
}

/* Returns SQLITE_ROW, SQLITE_INTERRUPT if must_stop() ended the count, or another error;
 * *status is the matching code of error.h. */
static int count_once(struct sqlite *sqlite, uint64_t below, uint64_t *count, int *status,
                      char *error)
{
    struct connection *scanner = &sqlite->scanner;

    lock_open(sqlite, scanner);

    sqlite3_stmt *stmt = bi_sqlite_statement(scanner, ST_COUNT_BELOW);
    int code = SQLITE_ERROR;
    if (stmt != NULL) {
        sqlite3_progress_handler(scanner->db, COUNT_STEPS, must_stop, sqlite);
        sqlite3_bind_int64(stmt, 1, (int64_t)below);
        code = sqlite3_step(stmt);
        if (code == SQLITE_ROW)
            *count = (uint64_t)sqlite3_column_int64(stmt, 0);
        /* The handler must not interrupt the scans that use this connection later. */
        sqlite3_progress_handler(scanner->db, 0, NULL, NULL);
    }

    *status = code == SQLITE_ROW ? BIDE_OK : bi_sqlite_set_error(sqlite, scanner, "count", error);
    sqlite3_reset(stmt);
    pthread_mutex_unlock(&scanner->lock);
    return code;
}

int bi_sqlite_count(struct store *store, uint64_t below, uint64_t *count, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    int code = SQLITE_INTERRUPT;
    int status = BIDE_EIO;

    for (int i = 0; i < COUNT_TRIES && code == SQLITE_INTERRUPT && !store->stopping; i++) {
        if (i > 0)
            sqlite3_sleep(1); /* lets the commit acquire the mutex */
        code = count_once(sqlite, below, count, &status, error);
    }

    if (status == BIDE_OK || !store->stopping)
        return status;
    return bi_error_set_code(error, BIDE_CLOSED);
}

/* ---- scanning ---- */

/* Runs a lookup by a number. Returns SQLITE_ROW and the first column in *value, SQLITE_DONE, or an
 * error. */
static int look_up(struct connection *connection, enum statement which, uint64_t number,
                   uint64_t *value)
{
    sqlite3_stmt *stmt = bi_sqlite_statement(connection, which);
    sqlite3_bind_int64(stmt, 1, (int64_t)number);
    int code = sqlite3_step(stmt);
    *value = code == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_reset(stmt);
    return code;
}

/* Whether a lookup by this id finds a row. */
static bool is_found(struct sqlite *sqlite, uint64_t id)
{
    uint64_t found;
    return look_up(&sqlite->scanner, ST_FETCH, id, &found) == SQLITE_ROW;
}

/* Whether there is a row with after < id < below, seen from the end of the range. */
static bool has_between(struct sqlite *sqlite, uint64_t after, uint64_t below)
{
    uint64_t last;
    return look_up(&sqlite->scanner, ST_LAST_BELOW, below, &last) == SQLITE_ROW && last > after;
}

/* Reads the first row behind an id. Returns SQLITE_ROW, SQLITE_DONE if there is none, or an
 * error. */
static int probe_after(struct sqlite *sqlite, uint64_t id, uint64_t below)
{
    assert(id < below);
    sqlite3_stmt *scan = bi_sqlite_statement(&sqlite->scanner, ST_SCAN);
    if (scan == NULL)
        return SQLITE_ERROR;

    sqlite3_bind_int64(scan, 1, (int64_t)id + 1);
    sqlite3_bind_int64(scan, 2, (int64_t)below);
    sqlite3_bind_int64(scan, 3, 1);
    int code = sqlite3_step(scan);
    uint64_t found = code == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(scan, 0) : 0;
    sqlite3_reset(scan);

    /* Damage that SQLite did not notice; see the top of this file. */
    bool misplaced = (code == SQLITE_ROW && (found <= id || !is_found(sqlite, found))) ||
                     (code == SQLITE_DONE && has_between(sqlite, id, below));
    return misplaced ? SQLITE_CORRUPT : code;
}

/* Retries a failed read for about a second, on a new connection: the error may be one of the
 * disk, and SQLite would serve a bad page from its cache. Returns whether the row behind
 * `after` can be read now. */
static bool retry_read(struct sqlite *sqlite, uint64_t after, uint64_t below)
{
    char error[BIDE_ERROR_SIZE];

    for (int i = 0; i < READ_TRIES && !sqlite->base.stopping; i++) {
        usleep(READ_MS * 1000);
        bi_sqlite_disconnect(&sqlite->scanner);
        if (bi_sqlite_connect(sqlite, &sqlite->scanner, error) != BIDE_OK)
            continue;

        int code = probe_after(sqlite, after, below);
        if (code == SQLITE_ROW || code == SQLITE_DONE)
            return true;
    }
    return false;
}

/* Returns 1 if the first row behind an id lies on a damaged page, 0 if it can be read or there
 * is none, -1 if the read failed for a reason that says nothing about the row. A page that the disk
 * fails to read for about a second counts as damaged. */
static int is_damaged(struct sqlite *sqlite, uint64_t id, uint64_t below)
{
    int code = probe_after(sqlite, id, below);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return 0;
    if (bi_sqlite_is_read_failure(&sqlite->scanner, code) && retry_read(sqlite, id, below))
        return 0;
    return (code & 0xff) == SQLITE_CORRUPT ? 1 : -1;
}

/* Skips the unreadable rows behind *after and reports them to the visitor as one damage. The
 * distance doubles until a row can be read again; a bisection then finds the first such place.
 * Each probe reads one row, so the cost is logarithmic in the width of the gap. */
static int skip_damage(struct sqlite *sqlite, uint64_t *after, uint64_t below, store_visit visit,
                       void *ctx, char *error)
{
    uint64_t bad = *after;
    uint64_t good = below - 1; /* the end of the scan: there is no row behind it */
    assert(bad <= good);

    /* The disk may have recovered since the last try. */
    int damaged = is_damaged(sqlite, *after, below);
    if (damaged == 0)
        return BIDE_OK;

    /* Throughout, the row behind `bad` is damaged and the row behind `good` is not. */
    for (uint64_t step = 1; damaged == 1 && step < below - *after; step *= 2) {
        damaged = is_damaged(sqlite, *after + step, below);
        *(damaged == 1 ? &bad : &good) = *after + step;
    }

    while (damaged >= 0 && good - bad > 1) {
        uint64_t middle = bad + (good - bad) / 2;
        damaged = is_damaged(sqlite, middle, below);
        *(damaged == 1 ? &bad : &good) = middle;
    }

    if (damaged < 0)
        return bi_sqlite_set_error(sqlite, &sqlite->scanner, "scan", error);
    assert(bad <= good && good - bad <= 1); /* the first place that can be read, or the end */

    /* The ids in the gap are unknown: the record carries the first one that may be among them. */
    struct bi_record record = {.kind = BI_INSERT};
    record.image.id = *after + 1;
    int status = visit(ctx, &record, bi_store_unreadable);
    if (status != BIDE_OK)
        return status;

    *after = good;
    return good >= below - 1 ? BIDE_NOT_FOUND : BIDE_OK;
}

struct order_check {
    struct sqlite *sqlite;
    store_visit visit;
    void *ctx;
    uint64_t after;
    bool misplaced; /* the current row shows an id that is not its own */
};

/* Visits a row unless its id proves to be wrong. A lookup by id costs as much as the scan of
 * the row, so it is made only for rows that look damaged. */
static int visit_in_order(void *ctx, const struct bi_record *record, const char *damage)
{
    struct order_check *order_check = ctx;
    uint64_t id = record->image.id;
    order_check->misplaced =
        id <= order_check->after || (damage != NULL && !is_found(order_check->sqlite, id));

    if (order_check->misplaced)
        return BIDE_OK;
    order_check->after = id;
    return order_check->visit(order_check->ctx, record, damage);
}

/* The mutex of the scanner is held. */
static int scan(struct sqlite *sqlite, uint64_t *after, uint64_t below, size_t max,
                store_visit visit, void *ctx, char *error)
{
    struct connection *scanner = &sqlite->scanner;
    assert(*after < below && below <= BIDE_ID_MAX + 1 && max > 0);

    sqlite3_stmt *stmt = bi_sqlite_statement(scanner, ST_SCAN);
    if (stmt == NULL)
        return bi_sqlite_set_error(sqlite, scanner, "scan", error);

    sqlite3_bind_int64(stmt, 1, (int64_t)*after + 1);
    sqlite3_bind_int64(stmt, 2, (int64_t)below);
    sqlite3_bind_int64(stmt, 3, (int64_t)max);

    struct order_check order_check = {
        .sqlite = sqlite, .visit = visit, .ctx = ctx, .after = *after};
    int status = BIDE_OK;
    int code = SQLITE_DONE;
    size_t count = 0;

    while (status == BIDE_OK && !order_check.misplaced &&
           (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        status = bi_sqlite_visit_row(stmt, visit_in_order, &order_check);
        assert(order_check.after >= *after);
        if (status == BIDE_OK)
            *after = order_check.after;
        count++;
    }

    sqlite3_reset(stmt);

    /* The end of the table counts only if no row follows from the other side. */
    bool at_end = code == SQLITE_DONE && count < max;
    if (order_check.misplaced || (at_end && has_between(sqlite, *after, below)))
        code = SQLITE_CORRUPT;

    /* The visitor stopped the scan. *after stays before the row that it rejected. */
    if (status != BIDE_OK)
        return bi_error_set(error, status, "scan: %.80s: %s", sqlite->path, bide_code_text(status));
    if (code == SQLITE_DONE)
        return count < max ? BIDE_NOT_FOUND : BIDE_OK;

    int64_t token;
    int failed = bi_sqlite_set_error(sqlite, scanner, "scan", error);
    if ((code & 0xff) != SQLITE_CORRUPT)
        return failed;
    if (retry_read(sqlite, *after, below))
        return BIDE_OK;

    /* If the table meta cannot be read either, the disk or the file fails, not one page. */
    return bi_sqlite_meta_get(scanner, "next_token", &token)
               ? skip_damage(sqlite, after, below, visit, ctx, error)
               : failed;
}

int bi_sqlite_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                   store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    lock_open(sqlite, &sqlite->scanner);
    int code = scan(sqlite, after, below, max, visit, ctx, error);
    pthread_mutex_unlock(&sqlite->scanner.lock);
    return code;
}
