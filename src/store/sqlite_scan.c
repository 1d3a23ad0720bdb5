/* SPDX-License-Identifier: MIT */
/*
 * sqlite_scan - reading: bodies, single jobs, and all of them, past pages that cannot be read.
 */
#include "store/sqlite.h"

#include <stdio.h>
#include <unistd.h>

/* ---- reading ---- */

/* A connection that was closed and could not be opened again is opened by its next user. Its mutex is
 * held. */
static void open_closed(struct sqlite *sqlite, struct connection *connection)
{
    char error[BIDE_ERROR_SIZE];
    if (connection->db == NULL)
        bi_sqlite_connect(sqlite, connection, error);
}

void bi_sqlite_read(struct store *store, struct store_want *wants, size_t n)
{
    struct sqlite *sqlite = sqlite_of(store);
    pthread_mutex_lock(&sqlite->reader.use);
    open_closed(sqlite, &sqlite->reader);
    /* One transaction for all: they are read from one state of the file. */
    bi_sqlite_exec(&sqlite->reader, "BEGIN");
    for (size_t i = 0; i < n; i++) {
        if (bi_store_is_late(store)) /* the queue is closed: nothing waits for it any more */
            wants[i].again = true;
        else
            bi_sqlite_read_body(&sqlite->reader, &wants[i]);
    }
    bi_sqlite_exec(&sqlite->reader, "COMMIT");
    pthread_mutex_unlock(&sqlite->reader.use);
}

int bi_sqlite_fetch(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *reader = &sqlite->reader;
    pthread_mutex_lock(&reader->use);
    open_closed(sqlite, reader);
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

/* Steps of SQLite between two looks whether a count must end. */
#define COUNT_STEPS 10000
/* How often it begins again because a failed commit wants the connection. */
#define COUNT_TRIES 100

static int must_end(void *arg)
{
    struct sqlite *sqlite = arg;
    return sqlite->base.stopping || sqlite->hurry;
}

/* SQLITE_ROW; SQLITE_INTERRUPT if the queue is being closed, or a failed commit wants the connection. */
static int count_once(struct sqlite *sqlite, uint64_t below, uint64_t *count, char *error)
{
    struct connection *slow = &sqlite->slow;
    pthread_mutex_lock(&slow->use);
    open_closed(sqlite, slow);
    sqlite3_stmt *from = bi_sqlite_get(slow, ST_COUNT_BELOW);
    int code = SQLITE_ERROR;
    if (from != NULL) {
        sqlite3_progress_handler(slow->db, COUNT_STEPS, must_end, sqlite);
        sqlite3_bind_int64(from, 1, (int64_t)below);
        code = sqlite3_step(from);
        if (code == SQLITE_ROW)
            *count = (uint64_t)sqlite3_column_int64(from, 0);
        sqlite3_progress_handler(slow->db, 0, NULL, NULL);
    }
    if (code != SQLITE_ROW)
        bi_sqlite_error(sqlite, slow, "count", error);
    sqlite3_reset(from);
    pthread_mutex_unlock(&slow->use);
    return code;
}

int bi_sqlite_count(struct store *store, uint64_t below, uint64_t *count, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    int code = SQLITE_INTERRUPT;
    for (int i = 0; i < COUNT_TRIES && code == SQLITE_INTERRUPT && !store->stopping; i++) {
        if (i > 0)
            sqlite3_sleep(1); /* the failed commit gets the connection */
        code = count_once(sqlite, below, count, error);
    }
    if (code == SQLITE_ROW)
        return BIDE_OK;
    return store->stopping ? BIDE_CLOSED : BIDE_EIO;
}

/* ---- scanning ---- */

/*
 * SQLite does not notice every damage of a page: a row may seem to have an id that is not its own. Where
 * it stands out of order, or cannot be found by that id, the page is damaged. An id that is too large
 * seems to be the end of the table, so the end is looked for from the other side.
 */

/* Is there a row that is found by this id? */
static bool is_found(struct sqlite *sqlite, uint64_t id)
{
    sqlite3_stmt *fetch = bi_sqlite_get(&sqlite->slow, ST_FETCH);
    if (fetch == NULL)
        return false;
    sqlite3_bind_int64(fetch, 1, (int64_t)id);
    bool found = sqlite3_step(fetch) == SQLITE_ROW;
    sqlite3_reset(fetch);
    return found;
}

/* Is there a row between the two ids, both excluded? */
static bool has_between(struct sqlite *sqlite, uint64_t after, uint64_t below)
{
    sqlite3_stmt *last = bi_sqlite_get(&sqlite->slow, ST_LAST_BELOW);
    if (last == NULL)
        return false;
    sqlite3_bind_int64(last, 1, (int64_t)below);
    bool has = sqlite3_step(last) == SQLITE_ROW && (uint64_t)sqlite3_column_int64(last, 0) > after;
    sqlite3_reset(last);
    return has;
}

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
    uint64_t found = code == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(scan, 0) : 0;
    sqlite3_reset(scan);

    bool misplaced = (code == SQLITE_ROW && (found <= id || !is_found(sqlite, found))) ||
                     (code == SQLITE_DONE && has_between(sqlite, id, below));
    return misplaced ? SQLITE_CORRUPT : code;
}

/* A page that cannot be read now can be in a moment, if it is the disk that fails. Opens the
 * connection anew, and looks again for a second. */
static bool comes_back(struct sqlite *sqlite, uint64_t after, uint64_t below)
{
    char error[BIDE_ERROR_SIZE];
    for (int i = 0; i < READ_TRIES && !sqlite->base.stopping; i++) {
        usleep(READ_MS * 1000);
        bi_sqlite_disconnect(&sqlite->slow);
        if (bi_sqlite_connect(sqlite, &sqlite->slow, error) != BIDE_OK)
            continue;
        int code = try_behind(sqlite, after, below);
        if (code == SQLITE_ROW || code == SQLITE_DONE)
            return true;
    }
    return false;
}

/* Does the first row behind an id lie on a damaged page? 1, 0 (it can be read, or there is none), or
 * -1: reading failed for another reason, which says nothing about the row. */
static int is_damaged(struct sqlite *sqlite, uint64_t id, uint64_t below)
{
    int code = try_behind(sqlite, id, below);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return 0;
    return (code & 0xff) == SQLITE_CORRUPT ? 1 : -1;
}

/*
 * A page of the file cannot be read, and with it some rows behind *after. Looks farther and farther
 * away until a row can be read again, and then, halving, for the first such place. What lies
 * between is told as one damage.
 */
static int skip_damage(struct sqlite *sqlite, uint64_t *after, uint64_t below, store_visit visit,
                       void *ctx, char *error)
{
    uint64_t bad = *after;
    uint64_t good = below - 1; /* where the scan ends */
    int damaged = 1;
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
        return bi_sqlite_error(sqlite, &sqlite->slow, "scan", error);
    struct bi_record record = {.kind = BI_INSERT};
    record.image.id = *after + 1;
    int answer = visit(ctx, &record, bi_store_unreadable);
    if (answer != BIDE_OK)
        return answer;
    *after = good;
    return good >= below - 1 ? BIDE_NOT_FOUND : BIDE_OK;
}

struct placed {
    struct sqlite *sqlite;
    store_visit visit;
    void *ctx;
    uint64_t after;
    bool misplaced; /* the row on which the scan stands */
};

/* Visits a row if its id can be its own. */
static int visit_placed(void *ctx, const struct bi_record *record, const char *damage)
{
    struct placed *placed = ctx;
    uint64_t id = record->image.id;
    placed->misplaced = id <= placed->after || (damage != NULL && !is_found(placed->sqlite, id));
    if (placed->misplaced)
        return BIDE_OK;
    placed->after = id;
    return placed->visit(placed->ctx, record, damage);
}

int bi_sqlite_scan_some(struct sqlite *sqlite, uint64_t *after, uint64_t below, size_t max,
                        store_visit visit, void *ctx, char *error)
{
    struct connection *slow = &sqlite->slow;
    open_closed(sqlite, slow);
    sqlite3_stmt *from = bi_sqlite_get(slow, ST_SCAN);
    if (from == NULL)
        return bi_sqlite_error(sqlite, slow, "scan", error);
    sqlite3_bind_int64(from, 1, (int64_t)*after + 1);
    sqlite3_bind_int64(from, 2, (int64_t)below);
    sqlite3_bind_int64(from, 3, (int64_t)max);
    struct placed placed = {.sqlite = sqlite, .visit = visit, .ctx = ctx, .after = *after};
    int answer = BIDE_OK;
    int code = SQLITE_DONE;
    size_t count = 0;
    while (answer == BIDE_OK && !placed.misplaced && (code = sqlite3_step(from)) == SQLITE_ROW) {
        answer = bi_sqlite_visit(from, visit_placed, &placed);
        if (answer == BIDE_OK)
            *after = placed.after;
        count++;
    }
    sqlite3_reset(from);
    bool ends = code == SQLITE_DONE && count < max;
    if (placed.misplaced || (ends && has_between(sqlite, *after, below)))
        code = SQLITE_CORRUPT;
    if (answer != BIDE_OK) {
        snprintf(error, BIDE_ERROR_SIZE, "scan: %.80s: %s", sqlite->path, bide_code_text(answer));
        return answer;
    }
    if (code == SQLITE_DONE)
        return count < max ? BIDE_NOT_FOUND : BIDE_OK;
    int64_t token;
    int failed = bi_sqlite_error(sqlite, slow, "scan", error);
    if ((code & 0xff) != SQLITE_CORRUPT)
        return failed;
    if (comes_back(sqlite, *after, below))
        return BIDE_OK;
    /* If nothing else can be read either, it is not the page. */
    return bi_sqlite_meta_get(slow, "next_token", &token)
               ? skip_damage(sqlite, after, below, visit, ctx, error)
               : failed;
}

int bi_sqlite_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                   store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    pthread_mutex_lock(&sqlite->slow.use);
    int code = bi_sqlite_scan_some(sqlite, after, below, max, visit, ctx, error);
    pthread_mutex_unlock(&sqlite->slow.use);
    return code;
}
