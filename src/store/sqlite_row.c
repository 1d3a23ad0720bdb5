/* SPDX-License-Identifier: MIT */
/*
 * sqlite_row - a job as a row of the table job, and back.
 *
 * The first columns are what every job has. The others are NULL, and cost a byte each, in a job to
 * which nothing has happened. Zero is stored as NULL everywhere but in max_retries.
 */
#include "store/sqlite.h"

#include "util/buf.h"
#include "util/hash.h"

#include <stdio.h>
#include <string.h>

/* The columns, in order, after the id. */
#define FIRST_COLUMNS(X) \
    X(topic)             \
    X(state)             \
    X(flags)             \
    X(priority)          \
    X(ttr)               \
    X(due)               \
    X(created)           \
    X(since)             \
    X(body_size)         \
    X(body_sum)          \
    X(body)

#define MORE_COLUMNS(X) \
    X(key)              \
    X(max_retries)      \
    X(failures)         \
    X(backoff_base)     \
    X(backoff_max)      \
    X(expires_at)       \
    X(retain)           \
    X(bury_order)       \
    X(reserves)         \
    X(timeouts)         \
    X(releases)         \
    X(fails)            \
    X(buries)           \
    X(kicks)            \
    X(touches)          \
    X(ready)            \
    X(reserved)         \
    X(touched)          \
    X(buried)           \
    X(done)             \
    X(last_error)       \
    X(result)           \
    X(token)            \
    X(lease)

/* Their places in a row that is read, and, plus one, among the parameters of a statement. */
enum column {
    AT_id,
#define AT(name) AT_##name,
    FIRST_COLUMNS(AT) MORE_COLUMNS(AT)
#undef AT
        COLUMN_COUNT
};

#define NAMED(name) "," #name
#define MARK(name)  ",?"
#define SET(name)   "," #name "=?"
#define NAMES_FIRST "id" FIRST_COLUMNS(NAMED)
#define NAMES_MORE  MORE_COLUMNS(NAMED)
#define MARKS_FIRST "?" FIRST_COLUMNS(MARK)
#define MARKS_MORE  MORE_COLUMNS(MARK)
#define NAMES       NAMES_FIRST NAMES_MORE

/* In the column flags. */
enum {
    ROW_STARTED = 1,
    ROW_CANCEL_WANTED = 2,
    ROW_DUE_WALL = 4,
    ROW_KEY_RETAINED = 8,
    ROW_MORE = 16, /* the other columns say something, and need to be read */
};

/* An update names its columns by the numbers that they have in an insert; body_size, body_sum and
 * body stay. */
const char *const bi_sqlite_sql[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_INSERT_PLAIN] = "INSERT INTO job(" NAMES_FIRST ") VALUES(" MARKS_FIRST ")",
    [ST_INSERT] = "INSERT INTO job(" NAMES ") VALUES(" MARKS_FIRST MARKS_MORE ")",
    [ST_INSERT_BODY] = "INSERT INTO body(id,data) VALUES(?,?)",
    [ST_UPDATE] = "UPDATE job SET topic=?2,state=?3,flags=?4,priority=?5,ttr=?6,due=?7,created=?8,"
                  "since=?9,key=?13,max_retries=?14,failures=?15,backoff_base=?16,backoff_max=?17,"
                  "expires_at=?18,retain=?19,bury_order=?20,reserves=?21,timeouts=?22,releases=?23,"
                  "fails=?24,buries=?25,kicks=?26,touches=?27,ready=?28,reserved=?29,touched=?30,"
                  "buried=?31,done=?32,last_error=?33,result=?34,token=?35,lease=?36 WHERE id=?1",
    [ST_REMOVE] = "DELETE FROM job WHERE id=?",
    [ST_REMOVE_BODY] = "DELETE FROM body WHERE id=?",
    [ST_PAUSE] = "INSERT OR REPLACE INTO pause(topic,until) VALUES(?,?)",
    [ST_RESUME] = "DELETE FROM pause WHERE topic=?",
    [ST_PAUSE_GET] = "SELECT until FROM pause WHERE topic=?",
    [ST_PAUSES] = "SELECT topic,until FROM pause",
    [ST_META_SET] = "INSERT OR REPLACE INTO meta(name,value) VALUES(?,?)",
    [ST_META_GET] = "SELECT value FROM meta WHERE name=?",
    /* So many ids nobody has ever given: 10^12 before the last. Beyond are damaged ones. */
    [ST_HIGHEST] = "SELECT ifnull(max(id),0) FROM job WHERE id BETWEEN 1 AND 9006199254740991",
    [ST_STRAY] = "SELECT id FROM job WHERE id<1 OR id>9006199254740991 LIMIT 1",
    [ST_COUNT_BELOW] = "SELECT count(*) FROM job WHERE id<?",
    [ST_LAST_BELOW] = "SELECT id FROM job WHERE id<? ORDER BY id DESC LIMIT 1",
    [ST_SCAN] = "SELECT " NAMES " FROM job WHERE id>=? AND id<? ORDER BY id LIMIT ?",
    [ST_FETCH] = "SELECT " NAMES " FROM job WHERE id=?",
    [ST_BODY] = "SELECT body_sum,body,(SELECT data FROM body WHERE body.id=job.id) FROM job "
                "WHERE id=?",
    [ST_SET_ASIDE] = "INSERT OR REPLACE INTO damaged(found,reason," NAMES ",data) SELECT ?,?," NAMES
                     ",(SELECT data FROM body WHERE body.id=job.id) FROM job WHERE id=?",
    [ST_ASIDE_COUNT] = "SELECT count(*) FROM damaged",
    [ST_ORPHANS] = "SELECT count(*) FROM body WHERE id NOT IN (SELECT id FROM job)",
};

/* ---- writing ---- */

static void bind_number(sqlite3_stmt *to, enum column column, int64_t value)
{
    if (value == 0)
        sqlite3_bind_null(to, (int)column + 1);
    else
        sqlite3_bind_int64(to, (int)column + 1, value);
}

/* Bytes that SQLite does not take must not become nothing: false. */
static bool bind_bytes(sqlite3_stmt *to, enum column column, const bide_buf *buf)
{
    int at = (int)column + 1;
    int size = (int)bide_buf_size(buf);
    return (buf == NULL
                ? sqlite3_bind_null(to, at)
                : sqlite3_bind_blob(to, at, bide_buf_data(buf), size, SQLITE_STATIC)) == SQLITE_OK;
}

static bool bind_text(sqlite3_stmt *to, enum column column, const bide_buf *buf)
{
    int at = (int)column + 1;
    int size = (int)bide_buf_size(buf);
    return (buf == NULL
                ? sqlite3_bind_null(to, at)
                : sqlite3_bind_text(to, at, bide_buf_data(buf), size, SQLITE_STATIC)) == SQLITE_OK;
}

static int flags_of(const struct bi_image *image)
{
    return (image->started ? ROW_STARTED : 0) | (image->cancel_wanted ? ROW_CANCEL_WANTED : 0) |
           (image->due_wall ? ROW_DUE_WALL : 0) |
           (image->key_hold_retained ? ROW_KEY_RETAINED : 0) | (image->plain ? 0 : ROW_MORE);
}

static void bind_first(sqlite3_stmt *to, const struct bi_image *image)
{
    sqlite3_bind_int64(to, AT_id + 1, (int64_t)image->id);
    sqlite3_bind_text(to, AT_topic + 1, image->topic, -1, SQLITE_STATIC);
    sqlite3_bind_int(to, AT_state + 1, (int)image->state);
    bind_number(to, AT_flags, flags_of(image));
    sqlite3_bind_int64(to, AT_priority + 1, image->priority);
    sqlite3_bind_int64(to, AT_ttr + 1, image->ttr);
    bind_number(to, AT_due, image->due);
    sqlite3_bind_int64(to, AT_created + 1, image->created);
    bind_number(to, AT_since, image->since == image->created ? 0 : image->since);
}

static void bind_body(sqlite3_stmt *to, const struct bi_image *image)
{
    uint32_t size = image->body_size;
    bind_number(to, AT_body_size, size);
    bind_number(to, AT_body_sum, bi_sum_bytes(image->id, bide_buf_data(image->body), size));
    if (size > 0 && size <= INLINE_MAX)
        bind_bytes(to, AT_body, image->body);
    else
        sqlite3_bind_null(to, AT_body + 1);
}

static bool bind_more(sqlite3_stmt *to, const struct bi_image *image)
{
    if (image->max_retries == BIDE_NO_RETRY_LIMIT)
        sqlite3_bind_null(to, AT_max_retries + 1);
    else
        sqlite3_bind_int(to, AT_max_retries + 1, image->max_retries);
    bind_number(to, AT_failures, image->failures);
    bind_number(to, AT_backoff_base, image->backoff_base);
    bind_number(to, AT_backoff_max, image->backoff_max);
    bind_number(to, AT_expires_at, image->expires_at);
    bind_number(to, AT_retain, image->retain);
    bind_number(to, AT_bury_order, (int64_t)image->bury_order);
    bind_number(to, AT_reserves, image->reserves);
    bind_number(to, AT_timeouts, image->timeouts);
    bind_number(to, AT_releases, image->releases);
    bind_number(to, AT_fails, image->fails);
    bind_number(to, AT_buries, image->buries);
    bind_number(to, AT_kicks, image->kicks);
    bind_number(to, AT_touches, image->touches);
    bind_number(to, AT_ready, image->ready);
    bind_number(to, AT_reserved, image->reserved);
    bind_number(to, AT_touched, image->touched);
    bind_number(to, AT_buried, image->buried);
    bind_number(to, AT_done, image->done);
    bind_number(to, AT_token, (int64_t)image->token);
    bind_number(to, AT_lease, image->lease);
    return bind_bytes(to, AT_key, image->key) && bind_text(to, AT_last_error, image->last_error) &&
           bind_bytes(to, AT_result, image->result);
}

static int write_body(struct connection *writer, const struct bi_image *image)
{
    sqlite3_stmt *to = bi_sqlite_get(writer, ST_INSERT_BODY);
    if (to == NULL)
        return SQLITE_ERROR;
    sqlite3_bind_int64(to, 1, (int64_t)image->id);
    int code =
        sqlite3_bind_blob(to, 2, bide_buf_data(image->body), (int)image->body_size, SQLITE_STATIC);
    return code == SQLITE_OK ? bi_sqlite_run(to) : code;
}

static int write_insert(struct connection *writer, const struct bi_image *image)
{
    sqlite3_stmt *to = bi_sqlite_get(writer, image->plain ? ST_INSERT_PLAIN : ST_INSERT);
    if (to == NULL)
        return SQLITE_ERROR;
    bind_first(to, image);
    bind_body(to, image);
    if (!image->plain && !bind_more(to, image))
        return SQLITE_TOOBIG;
    int code = bi_sqlite_run(to);
    if (code == SQLITE_DONE && image->body_size > INLINE_MAX)
        code = write_body(writer, image);
    return code;
}

static int write_update(struct connection *writer, const struct bi_image *image)
{
    sqlite3_stmt *to = bi_sqlite_get(writer, ST_UPDATE);
    if (to == NULL)
        return SQLITE_ERROR;
    bind_first(to, image);
    return bind_more(to, image) ? bi_sqlite_run(to) : SQLITE_TOOBIG;
}

static int run_with_id(struct connection *writer, enum statement which, uint64_t id)
{
    sqlite3_stmt *to = bi_sqlite_get(writer, which);
    if (to == NULL)
        return SQLITE_ERROR;
    sqlite3_bind_int64(to, 1, (int64_t)id);
    return bi_sqlite_run(to);
}

static int write_remove(struct connection *writer, const struct bi_image *image)
{
    int code = run_with_id(writer, ST_REMOVE, image->id);
    if (code == SQLITE_DONE && image->body_size > INLINE_MAX)
        code = run_with_id(writer, ST_REMOVE_BODY, image->id);
    return code;
}

static int write_pause(struct connection *writer, const struct bi_image *image)
{
    sqlite3_stmt *to = bi_sqlite_get(writer, image->due == 0 ? ST_RESUME : ST_PAUSE);
    if (to == NULL)
        return SQLITE_ERROR;
    sqlite3_bind_text(to, 1, image->topic, -1, SQLITE_STATIC);
    if (image->due != 0)
        sqlite3_bind_int64(to, 2, image->due);
    return bi_sqlite_run(to);
}

int bi_sqlite_write(struct connection *writer, const struct bi_record *record)
{
    static int (*const writes[])(struct connection *, const struct bi_image *) = {
        [BI_INSERT] = write_insert,
        [BI_UPDATE] = write_update,
        [BI_REMOVE] = write_remove,
        [BI_PAUSE] = write_pause,
    };
    return writes[record->kind](writer, &record->image);
}

/* ---- reading ---- */

static int64_t number_at(sqlite3_stmt *from, enum column column)
{
    return sqlite3_column_int64(from, (int)column);
}

static uint32_t count_at(sqlite3_stmt *from, enum column column)
{
    int64_t value = number_at(from, column);
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* A copy of the bytes in a column; NULL if there are none. False when out of memory. */
static bool bytes_at(sqlite3_stmt *from, enum column column, bide_buf **out)
{
    *out = NULL;
    if (sqlite3_column_type(from, (int)column) == SQLITE_NULL)
        return true;
    const void *data = sqlite3_column_blob(from, (int)column);
    *out = bide_buf_new(data, (size_t)sqlite3_column_bytes(from, (int)column));
    return *out != NULL;
}

static const char *read_first(sqlite3_stmt *from, struct bi_image *image)
{
    image->id = (uint64_t)number_at(from, AT_id);
    const char *topic = (const char *)sqlite3_column_text(from, AT_topic);
    size_t size = (size_t)sqlite3_column_bytes(from, AT_topic);
    if (topic == NULL || size == 0 || size > BIDE_TOPIC_MAX || strlen(topic) != size)
        return "the topic is no name";
    memcpy(image->topic, topic, size + 1);
    int64_t state = number_at(from, AT_state);
    if (state < BIDE_STATE_DELAYED || state > BIDE_STATE_DONE || state == BIDE_STATE_RESERVED)
        return "the state is none";
    image->state = (bide_state)state;
    int64_t flags = number_at(from, AT_flags);
    image->started = (flags & ROW_STARTED) != 0;
    image->cancel_wanted = (flags & ROW_CANCEL_WANTED) != 0;
    image->due_wall = (flags & ROW_DUE_WALL) != 0;
    image->key_hold_retained = (flags & ROW_KEY_RETAINED) != 0;
    image->plain = (flags & ROW_MORE) == 0;
    image->priority = count_at(from, AT_priority);
    image->ttr = number_at(from, AT_ttr);
    image->due = number_at(from, AT_due);
    image->created = number_at(from, AT_created);
    image->since = number_at(from, AT_since);
    if (image->since == 0)
        image->since = image->created;
    image->max_retries = BIDE_NO_RETRY_LIMIT;
    int64_t body_size = number_at(from, AT_body_size);
    if (body_size < 0 || body_size > UINT32_MAX - 1)
        return "the size of the body is none";
    image->body_size = (uint32_t)body_size;
    return NULL;
}

static const char *read_more(sqlite3_stmt *from, struct bi_image *image)
{
    if (sqlite3_column_type(from, AT_max_retries) != SQLITE_NULL) {
        int64_t limit = number_at(from, AT_max_retries);
        if (limit < 0 || limit > INT32_MAX)
            return "max_retries is out of range";
        image->max_retries = (int32_t)limit;
    }
    image->failures = count_at(from, AT_failures);
    image->backoff_base = number_at(from, AT_backoff_base);
    image->backoff_max = number_at(from, AT_backoff_max);
    image->expires_at = number_at(from, AT_expires_at);
    image->retain = number_at(from, AT_retain);
    image->bury_order = (uint64_t)number_at(from, AT_bury_order);
    image->reserves = count_at(from, AT_reserves);
    image->timeouts = count_at(from, AT_timeouts);
    image->releases = count_at(from, AT_releases);
    image->fails = count_at(from, AT_fails);
    image->buries = count_at(from, AT_buries);
    image->kicks = count_at(from, AT_kicks);
    image->touches = count_at(from, AT_touches);
    image->ready = number_at(from, AT_ready);
    image->reserved = number_at(from, AT_reserved);
    image->touched = number_at(from, AT_touched);
    image->buried = number_at(from, AT_buried);
    image->done = number_at(from, AT_done);
    image->token = (uint64_t)number_at(from, AT_token);
    image->lease = number_at(from, AT_lease);
    if (sqlite3_column_bytes(from, AT_key) > BIDE_KEY_MAX)
        return "the key is too long";
    return NULL;
}

static void drop_bufs(struct bi_image *image)
{
    bide_buf_unref(image->body);
    bide_buf_unref(image->key);
    bide_buf_unref(image->last_error);
    bide_buf_unref(image->result);
}

static int read_texts(sqlite3_stmt *from, struct bi_image *image)
{
    if (bytes_at(from, AT_key, &image->key) && bytes_at(from, AT_last_error, &image->last_error) &&
        bytes_at(from, AT_result, &image->result))
        return BIDE_OK;
    return BIDE_ENOMEM;
}

/* The body if it lies in the row; one that does not add up is left out, to be found when read. */
static int read_inline(sqlite3_stmt *from, struct bi_image *image)
{
    if (image->body_size > INLINE_MAX)
        return BIDE_OK;
    const void *data = sqlite3_column_blob(from, AT_body);
    size_t size = (size_t)sqlite3_column_bytes(from, AT_body);
    if (size != image->body_size ||
        bi_sum_bytes(image->id, data, size) != (uint32_t)number_at(from, AT_body_sum))
        return BIDE_OK;
    image->body = bide_buf_new(size == 0 ? "" : data, size);
    return image->body == NULL ? BIDE_ENOMEM : BIDE_OK;
}

/* A column that SQLite had no memory to hand out looks empty: that is no damage. */
static bool lacked_memory(sqlite3_stmt *from)
{
    return (sqlite3_errcode(sqlite3_db_handle(from)) & 0xff) == SQLITE_NOMEM;
}

int bi_sqlite_visit(sqlite3_stmt *from, store_visit visit, void *ctx)
{
    struct bi_record record;
    record.kind = BI_INSERT;
    struct bi_image *image = &record.image;
    memset(image, 0, sizeof(*image));
    const char *damage = read_first(from, image);
    if (damage == NULL && !image->plain)
        damage = read_more(from, image);
    int code = damage == NULL && !image->plain ? read_texts(from, image) : BIDE_OK;
    if (code == BIDE_OK && damage == NULL)
        code = read_inline(from, image);
    if (lacked_memory(from))
        code = BIDE_ENOMEM;
    if (code == BIDE_OK)
        code = visit(ctx, &record, damage);
    drop_bufs(image);
    return code;
}

static void say_unreadable(struct store_want *want, const char *reason)
{
    snprintf(want->reason, sizeof(want->reason), "%s", reason);
}

static void check_body(sqlite3_stmt *from, struct store_want *want)
{
    int column = want->size <= INLINE_MAX ? 1 : 2;
    const void *data = sqlite3_column_blob(from, column);
    size_t size = (size_t)sqlite3_column_bytes(from, column);
    if (lacked_memory(from))
        want->again = true;
    else if (size != want->size)
        say_unreadable(want, "the stored body has another size");
    else if (bi_sum_bytes(want->id, data, size) != (uint32_t)sqlite3_column_int64(from, 0))
        say_unreadable(want, "the stored body does not match its checksum");
    else if ((want->body = bide_buf_new(size == 0 ? "" : data, size)) == NULL)
        want->again = true;
}

void bi_sqlite_read_body(struct connection *reader, struct store_want *want)
{
    sqlite3_stmt *from = bi_sqlite_get(reader, ST_BODY);
    want->body = NULL;
    want->reason[0] = 0;
    want->again = from == NULL;
    if (from == NULL)
        return;
    sqlite3_bind_int64(from, 1, (int64_t)want->id);
    int code = sqlite3_step(from);
    int kind = code & 0xff;
    if (code == SQLITE_ROW) {
        check_body(from, want);
    } else {
        /* Only a row that is missing or makes no sense will be so for ever. */
        want->again = kind != SQLITE_DONE && kind != SQLITE_CORRUPT && kind != SQLITE_NOTADB;
        say_unreadable(want, code == SQLITE_DONE ? "the job is not in the file"
                                                 : sqlite3_errmsg(reader->db));
    }
    sqlite3_reset(from);
}

/* ---- comparing ---- */

static bool same_times(const struct bi_image *a, const struct bi_image *b)
{
    return a->due == b->due && a->created == b->created && a->since == b->since &&
           a->ready == b->ready && a->reserved == b->reserved && a->touched == b->touched &&
           a->buried == b->buried && a->done == b->done && a->expires_at == b->expires_at;
}

static bool same_counters(const struct bi_image *a, const struct bi_image *b)
{
    return a->reserves == b->reserves && a->timeouts == b->timeouts && a->releases == b->releases &&
           a->fails == b->fails && a->buries == b->buries && a->kicks == b->kicks &&
           a->touches == b->touches && a->failures == b->failures && a->bury_order == b->bury_order;
}

static bool same_image(const struct bi_image *a, const struct bi_image *b)
{
    return a->state == b->state && flags_of(a) == flags_of(b) && a->priority == b->priority &&
           a->ttr == b->ttr && a->max_retries == b->max_retries &&
           a->backoff_base == b->backoff_base && a->backoff_max == b->backoff_max &&
           a->retain == b->retain && a->token == b->token && a->lease == b->lease &&
           strcmp(a->topic, b->topic) == 0 && same_times(a, b) && same_counters(a, b) &&
           bi_buf_same(a->key, b->key) && bi_buf_same(a->last_error, b->last_error) &&
           bi_buf_same(a->result, b->result);
}

struct compared {
    const struct bi_image *wanted;
    bool same;
};

static int compare(void *ctx, const struct bi_record *record, const char *damage)
{
    struct compared *compared = ctx;
    compared->same = damage == NULL && same_image(compared->wanted, &record->image);
    return BIDE_OK;
}

static int job_holds(struct connection *writer, const struct bi_record *record)
{
    sqlite3_stmt *from = bi_sqlite_get(writer, ST_FETCH);
    if (from == NULL)
        return -1;
    sqlite3_bind_int64(from, 1, (int64_t)record->image.id);
    int code = sqlite3_step(from);
    int holds = code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : -1;
    struct compared compared = {&record->image, false};
    if (holds == 1 && record->kind == BI_UPDATE)
        holds = bi_sqlite_visit(from, compare, &compared) == BIDE_OK ? compared.same : -1;
    sqlite3_reset(from);
    return holds >= 0 && record->kind == BI_REMOVE ? !holds : holds;
}

static int pause_holds(struct connection *writer, const struct bi_image *image)
{
    sqlite3_stmt *from = bi_sqlite_get(writer, ST_PAUSE_GET);
    if (from == NULL)
        return -1;
    sqlite3_bind_text(from, 1, image->topic, -1, SQLITE_STATIC);
    int code = sqlite3_step(from);
    int64_t until = code == SQLITE_ROW ? sqlite3_column_int64(from, 0) : 0;
    sqlite3_reset(from);
    return code == SQLITE_ROW || code == SQLITE_DONE ? until == image->due : -1;
}

int bi_sqlite_holds(struct connection *writer, const struct bi_record *record)
{
    return record->kind == BI_PAUSE ? pause_holds(writer, &record->image)
                                    : job_holds(writer, record);
}
