/* SPDX-License-Identifier: MIT */
#include "raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "store/sqlite.h"
#include "util/hash.h"

/* As many pages as the store lets the log have. */
#define LOG_PAGES 1500
/* Rows in one transaction of raw_fill(). */
#define FILL_BATCH 10000

struct raw {
    struct sqlite store; /* only its writer is used, and what connecting it needs */
    uint64_t next_id;
    char *body;
    size_t body_size;
    int id_at, priority_at, sum_at; /* their places among the parameters of the insert */
    sqlite3_stmt *insert;
    struct random random;
};

static void check(struct raw *raw, const char *doing, bool right)
{
    if (!right)
        fail("%s: %s: %s", doing, raw->store.path, sqlite3_errmsg(raw->store.writer.db));
}

static sqlite3_stmt *get(struct raw *raw, enum statement which)
{
    sqlite3_stmt *statement = bi_sqlite_statement(&raw->store.writer, which);

    check(raw, bi_sqlite_sql[which], statement != NULL);
    return statement;
}

static void step(struct raw *raw, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);

    sqlite3_reset(statement);
    check(raw, sqlite3_sql(statement), code == SQLITE_DONE);
}

static void execute(struct raw *raw, const char *sql)
{
    check(raw, sql, bi_sqlite_exec(&raw->store.writer, sql) == SQLITE_OK);
}

/* ---- opening ---- */

/* Makes the file, with one job that the queue itself has stored. */
static void store_model(const char *path, size_t body_size)
{
    char url[600];
    bide *queue = NULL;
    char *body = malloc(body_size);

    if (body == NULL)
        fail("out of memory");
    memset(body, 'x', body_size);
    snprintf(url, sizeof(url), "sqlite:%s", path);
    must("bide_open", bide_open(url, NULL, &queue));
    must("bide_put", bide_put(queue, BENCH_TOPIC, body, body_size, NULL, NULL));
    must("bide_close", bide_close(queue));
    free(body);
}

static struct raw *connect(const char *path, bide_sync sync)
{
    struct raw *raw = calloc(1, sizeof(*raw));
    char error[BIDE_ERROR_SIZE] = "";

    if (raw == NULL || (raw->store.path = strdup(path)) == NULL)
        fail("out of memory");
    raw->store.options.sync = sync;
    int code = bi_sqlite_connect(&raw->store, &raw->store.writer, error);
    if (code != BIDE_OK)
        fail_call("opening the raw file", code, error);
    return raw;
}

/* Makes the statement stand on the first row of the file. */
static void step_to_first(struct raw *raw, sqlite3_stmt *from)
{
    sqlite3_bind_int64(from, 1, 0);
    sqlite3_bind_int64(from, 2, INT64_MAX);
    sqlite3_bind_int64(from, 3, 1);
    check(raw, "reading the model", sqlite3_step(from) == SQLITE_ROW);
}

/* Binds what all rows have in common: the columns of the first. Answers its id. */
static uint64_t copy_model(struct raw *raw)
{
    sqlite3_stmt *from = get(raw, ST_SCAN);

    raw->insert = get(raw, ST_INSERT_PLAIN);
    step_to_first(raw, from);
    for (int i = 0; i < sqlite3_bind_parameter_count(raw->insert); i++) {
        const char *name = sqlite3_column_name(from, i);
        sqlite3_bind_value(raw->insert, i + 1, sqlite3_column_value(from, i));
        if (strcmp(name, "id") == 0)
            raw->id_at = i + 1;
        if (strcmp(name, "priority") == 0)
            raw->priority_at = i + 1;
        if (strcmp(name, "body_sum") == 0)
            raw->sum_at = i + 1;
    }
    if (raw->id_at != 1 || raw->priority_at == 0 || raw->sum_at == 0)
        fail("the store has other columns than the benchmark knows");
    uint64_t id = (uint64_t)sqlite3_column_int64(from, 0);
    sqlite3_reset(from);
    return id;
}

static void remove_row(struct raw *raw, uint64_t id)
{
    sqlite3_stmt *job = get(raw, ST_REMOVE);

    sqlite3_bind_int64(job, 1, (int64_t)id);
    step(raw, job);
    if (raw->body_size <= INLINE_MAX)
        return;
    sqlite3_stmt *body = get(raw, ST_REMOVE_BODY);
    sqlite3_bind_int64(body, 1, (int64_t)id);
    step(raw, body);
}

struct raw *raw_open(const char *path, bide_sync sync, size_t body_size)
{
    bool is_new = access(path, F_OK) != 0;

    if (is_new)
        store_model(path, body_size);
    struct raw *raw = connect(path, sync);
    raw->body_size = body_size;
    raw->body = malloc(body_size);
    if (raw->body == NULL)
        fail("out of memory");
    memset(raw->body, 'x', body_size);
    if (body_size > INLINE_MAX)
        sqlite3_bind_blob(get(raw, ST_INSERT_BODY), 2, raw->body, (int)body_size, SQLITE_STATIC);
    uint64_t model = copy_model(raw);
    raw->next_id =
        1 + (uint64_t)bi_sqlite_query_int64(&raw->store.writer, bi_sqlite_sql[ST_MAX_ID], 0);
    raw->random.state = raw->next_id;
    if (is_new)
        remove_row(raw, model);
    return raw;
}

void raw_close(struct raw *raw)
{
    bi_sqlite_disconnect(&raw->store.writer);
    free(raw->store.path);
    free(raw->body);
    free(raw);
}

/* ---- writing ---- */

static void insert_row(struct raw *raw, uint64_t id)
{
    uint32_t sum = bi_hash_checksum(id, raw->body, raw->body_size);

    sqlite3_bind_int64(raw->insert, raw->id_at, (int64_t)id);
    sqlite3_bind_int64(raw->insert, raw->sum_at, sum);
    step(raw, raw->insert);
    if (raw->body_size <= INLINE_MAX)
        return;
    sqlite3_stmt *body = get(raw, ST_INSERT_BODY);
    sqlite3_bind_int64(body, 1, (int64_t)id);
    step(raw, body);
}

/* The log is brought into the file as often as the store does it. */
static void commit(struct raw *raw)
{
    step(raw, get(raw, ST_COMMIT));
    if (raw->store.wal_frames < LOG_PAGES)
        return;
    raw->store.wal_frames = 0;
    check(raw, "checkpoint",
          sqlite3_wal_checkpoint_v2(raw->store.writer.db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
                                    NULL) == SQLITE_OK);
}

double raw_cycles(struct raw *raw, size_t count, int64_t duration_ns)
{
    int64_t began = measure_now_ns();
    int64_t ended = began;
    uint64_t cycles = 0;

    while (ended - began < duration_ns) {
        step(raw, get(raw, ST_BEGIN));
        for (size_t i = 0; i < count; i++)
            insert_row(raw, raw->next_id + i);
        commit(raw);
        step(raw, get(raw, ST_BEGIN));
        for (size_t i = 0; i < count; i++)
            remove_row(raw, raw->next_id + i);
        commit(raw);
        raw->next_id += count;
        cycles += count;
        ended = measure_now_ns();
    }
    return (double)cycles * 1e9 / (double)(ended - began);
}

/* Does it to the rows from that id on, batch of them in a transaction: rows a second. */
static double do_rows(struct raw *raw, uint64_t first, uint64_t count, size_t batch,
                      void (*row)(struct raw *raw, uint64_t id))
{
    int64_t began = measure_now_ns();

    for (uint64_t done = 0; done < count;) {
        step(raw, get(raw, ST_BEGIN));
        for (size_t i = 0; i < batch && done < count; i++)
            row(raw, first + done++);
        commit(raw);
    }
    return (double)count * 1e9 / (double)(measure_now_ns() - began);
}

double raw_put(struct raw *raw, uint64_t count, size_t batch)
{
    uint64_t first = raw->next_id;

    raw->next_id += count;
    return do_rows(raw, first, count, batch, insert_row);
}

double raw_drain(struct raw *raw, uint64_t count, size_t batch)
{
    return do_rows(raw, raw->next_id - count, count, batch, remove_row);
}

void raw_insert(struct raw *raw)
{
    step(raw, get(raw, ST_BEGIN));
    insert_row(raw, raw->next_id++);
    commit(raw);
}

static void fill_batch(struct raw *raw, uint64_t count)
{
    step(raw, get(raw, ST_BEGIN));
    for (uint64_t i = 0; i < count; i++) {
        sqlite3_bind_int64(raw->insert, raw->priority_at, (uint32_t)random_next(&raw->random));
        insert_row(raw, raw->next_id++);
    }
    step(raw, get(raw, ST_COMMIT));
}

/* Without a log, which would be as large as the file. */
void raw_fill(struct raw *raw, uint64_t count)
{
    execute(raw, "PRAGMA journal_mode=OFF");
    execute(raw, "PRAGMA synchronous=OFF");
    for (; count > FILL_BATCH; count -= FILL_BATCH)
        fill_batch(raw, FILL_BATCH);
    fill_batch(raw, count);
    execute(raw, "PRAGMA journal_mode=WAL");
}

/* ---- reading ---- */

static uint64_t look_at(sqlite3_stmt *scan)
{
    uint64_t sum = 0;

    for (int i = 0; i < sqlite3_column_count(scan); i++) {
        int type = sqlite3_column_type(scan, i);
        if (type == SQLITE_INTEGER)
            sum += (uint64_t)sqlite3_column_int64(scan, i);
        else if (type == SQLITE_TEXT)
            sum += sqlite3_column_text(scan, i)[0];
        else if (type == SQLITE_BLOB)
            sum += *(const unsigned char *)sqlite3_column_blob(scan, i);
    }
    return sum;
}

uint64_t raw_scan(const char *path, int64_t *ended_ns)
{
    struct raw *raw = connect(path, BIDE_SYNC_FULL);
    sqlite3_stmt *scan = get(raw, ST_SCAN);
    uint64_t sum = 0;
    uint64_t count = 0;
    int code;

    sqlite3_bind_int64(scan, 1, 0);
    sqlite3_bind_int64(scan, 2, INT64_MAX);
    sqlite3_bind_int64(scan, 3, INT64_MAX);
    while ((code = sqlite3_step(scan)) == SQLITE_ROW) {
        sum += look_at(scan);
        count++;
    }
    *ended_ns = measure_now_ns();
    check(raw, "scan", code == SQLITE_DONE);
    /* Also lets no compiler leave the looking out. */
    if (count > 0 && sum == 0)
        fail("the rows say nothing");
    raw_close(raw);
    return count;
}
