/* SPDX-License-Identifier: MIT */
/*
 * sqlite_check - looks at everything that is stored: SQLite's own pages, every row, every body.
 */
#include "store/sqlite.h"

#include <stdio.h>
#include <string.h>

struct checking {
    struct store_report *report;
    uint64_t size;     /* of the body of the row that was visited */
    char problem[120]; /* the first; "" for none */
};

static void damaged(struct checking *checking, uint64_t id, const char *damage)
{
    checking->report->damaged++;
    if (checking->problem[0] == 0)
        snprintf(checking->problem, sizeof(checking->problem), "job %llu: %s",
                 (unsigned long long)id, damage);
}

static int check_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct checking *checking = ctx;
    checking->size = record->image.body_size;
    if (damage == NULL)
        return BIDE_OK;
    damaged(checking, record->image.id, damage);
    return BIDE_EINVAL;
}

/* What SQLite itself finds: its first complaint. */
static void check_pages(struct connection *own, struct checking *checking)
{
    sqlite3_stmt *statement = NULL;
    const char *text = NULL;
    if (sqlite3_prepare_v2(own->db, "PRAGMA integrity_check(1)", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(statement, 0);
    if (text == NULL)
        text = sqlite3_errmsg(own->db);
    if (strcmp(text, "ok") != 0)
        snprintf(checking->problem, sizeof(checking->problem), "%s", text);
    sqlite3_finalize(statement);
}

/* Every row makes sense, and every body adds up. */
static void check_rows(struct connection *own, struct checking *checking)
{
    sqlite3_stmt *all = bi_sqlite_get(own, ST_ALL);
    int code = SQLITE_ERROR;
    while (all != NULL && (code = sqlite3_step(all)) == SQLITE_ROW) {
        struct store_want want = {.id = (uint64_t)sqlite3_column_int64(all, 0)};
        if (bi_sqlite_visit(all, check_row, checking) != BIDE_OK)
            continue;
        want.size = (uint32_t)checking->size;
        bi_sqlite_read_body(own, &want);
        if (want.body != NULL)
            checking->report->jobs++;
        else
            damaged(checking, want.id, want.reason);
        bide_buf_unref(want.body);
    }
    if (code != SQLITE_DONE && checking->problem[0] == 0)
        snprintf(checking->problem, sizeof(checking->problem), "%s", sqlite3_errmsg(own->db));
}

static void check_others(struct connection *own, struct checking *checking)
{
    int64_t orphans = bi_sqlite_number(own, bi_sqlite_sql[ST_ORPHANS], 0);
    if (orphans > 0 && checking->problem[0] == 0)
        snprintf(checking->problem, sizeof(checking->problem), "%lld bodies belong to no job",
                 (long long)orphans);
    checking->report->damaged += (uint64_t)bi_sqlite_number(own, bi_sqlite_sql[ST_ASIDE_COUNT], 0);
}

/* A connection of its own, and one state of the file from beginning to end. */
int bi_sqlite_check(struct store *store, struct store_report *report, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection own = {.db = NULL};
    struct checking checking = {.report = report};
    pthread_mutex_lock(&sqlite->slow.use);
    int code = bi_sqlite_connect(sqlite, &own, error);
    if (code == BIDE_OK) {
        bi_sqlite_exec(&own, "BEGIN");
        check_pages(&own, &checking);
        check_rows(&own, &checking);
        check_others(&own, &checking);
        bi_sqlite_exec(&own, "COMMIT");
        bi_sqlite_disconnect(&own);
    }
    pthread_mutex_unlock(&sqlite->slow.use);
    if (code == BIDE_OK && checking.problem[0] != 0) {
        snprintf(error, BIDE_ERROR_SIZE, "check: %.60s: %s", sqlite->path, checking.problem);
        code = BIDE_EIO;
    }
    return code;
}
