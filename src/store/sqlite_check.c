/* SPDX-License-Identifier: MIT */
/*
 * sqlite_check - looks at everything that is stored: SQLite's own pages, every row, every body.
 */
#include "store/sqlite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct checking {
    struct store_report *report;
    struct connection *rows; /* that reads rows, and so their bodies in the same state */
    char problem[120];       /* the first; "" for none */
};

/* One line. */
static void note(struct checking *checking, const char *problem)
{
    if (checking->problem[0] != 0)
        return;
    snprintf(checking->problem, sizeof(checking->problem), "%s", problem);
    for (char *at = checking->problem; *at != 0; at++)
        if (*at == '\n')
            *at = ' ';
}

static void damaged(struct checking *checking, uint64_t id, const char *damage)
{
    char problem[120];
    snprintf(problem, sizeof(problem), "job %llu: %s", (unsigned long long)id, damage);
    checking->report->damaged++;
    note(checking, problem);
}

static int check_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct checking *checking = ctx;
    struct store_want want = {.id = record->image.id, .size = record->image.body_size};
    if (damage == NULL)
        bi_sqlite_read_body(checking->rows, &want);
    if (want.again)
        return BIDE_EIO; /* from this row on it is tried again */
    if (damage == NULL) {
        damage = want.body == NULL ? want.reason : NULL;
        bide_buf_unref(want.body);
    }
    if (damage == NULL)
        checking->report->jobs++;
    else
        damaged(checking, record->image.id, damage);
    return BIDE_OK;
}

/* What SQLite itself finds: its first complaint. False if a page could not be read: that may have
 * been for a moment only. */
static bool look_at_pages(struct connection *own, struct checking *checking)
{
    sqlite3_stmt *statement = NULL;
    const char *text = NULL;
    if (sqlite3_prepare_v2(own->db, "PRAGMA integrity_check(1)", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(statement, 0);
    bool read = text != NULL && strstr(text, "error code=") == NULL;
    if (text == NULL)
        text = sqlite3_errmsg(own->db);
    checking->problem[0] = 0;
    if (strcmp(text, "ok") != 0)
        note(checking, text);
    sqlite3_finalize(statement);
    return read;
}

static void check_pages(struct sqlite *sqlite, struct connection *own, struct checking *checking)
{
    for (int i = 0;
         i < READ_TRIES && !look_at_pages(own, checking) && !bi_store_ends_check(&sqlite->base);
         i++)
        usleep(READ_MS * 1000);
}

/* Every row makes sense, and every body adds up. Rows on a page that cannot be read count as one. */
static void check_rows(struct sqlite *sqlite, struct checking *checking)
{
    char error[BIDE_ERROR_SIZE] = "";
    uint64_t after = 0;
    int code = BIDE_OK;
    for (int tries = 0; tries < READ_TRIES && !bi_store_ends_check(&sqlite->base);) {
        code =
            bi_sqlite_scan(&sqlite->base, &after, BIDE_ID_MAX + 1, 256, check_row, checking, error);
        if (code == BIDE_NOT_FOUND)
            return;
        tries = code == BIDE_OK ? 0 : tries + 1;
        if (tries > 0)
            usleep(READ_MS * 1000);
    }
    note(checking, code == BIDE_OK ? "the check was ended" : error);
}

static void check_others(struct connection *own, struct checking *checking)
{
    int64_t orphans = bi_sqlite_number(own, bi_sqlite_sql[ST_ORPHANS], 0);
    char problem[120];
    snprintf(problem, sizeof(problem), "%lld bodies belong to no job", (long long)orphans);
    if (orphans > 0)
        note(checking, problem);
    checking->report->damaged += (uint64_t)bi_sqlite_number(own, bi_sqlite_sql[ST_ASIDE_COUNT], 0);
}

static int is_stopping(void *sqlite)
{
    return bi_store_ends_check(&((struct sqlite *)sqlite)->base);
}

/* With a connection of its own for what takes long: a commit may have to close the others. */
int bi_sqlite_check(struct store *store, struct store_report *report, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection own = {.db = NULL};
    struct checking checking = {.report = report, .rows = &sqlite->slow};
    int code = bi_sqlite_connect(sqlite, &own, error);
    if (code == BIDE_OK) {
        sqlite3_progress_handler(own.db, 100000, is_stopping, sqlite);
        check_pages(sqlite, &own, &checking);
        check_rows(sqlite, &checking);
        check_others(&own, &checking);
        bi_sqlite_disconnect(&own);
    }
    if (code == BIDE_OK && checking.problem[0] != 0) {
        snprintf(error, BIDE_ERROR_SIZE, "check: %.60s: %s", sqlite->path, checking.problem);
        code = BIDE_EIO;
    }
    return code;
}
