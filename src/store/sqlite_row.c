/* SPDX-License-Identifier: MIT */
/*
 * sqlite_row - writes a job as a row of the table job, reads it back, and compares the two.
 *
 * The base columns are those that every job has. The ext columns are NULL, and cost a byte each,
 * in a job that only waits. Zero is stored as NULL, except in max_retries, where 0 is a limit.
 *
 * Failure    A row that cannot be interpreted is damage, not an error: the visitor gets its id and
 *            the reason. Lack of memory and I/O errors are never reported as damage.
 */
#include "store/sqlite.h"

#include "op/job_fields.h"
#include "op/topic_policy.h"
#include "util/alloc.h"
#include "util/hash.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The columns: after the id and the topic those that every job has, then those of its body; after
 * the key those of an ext. Fields of job_fields.h have the name of their field. */
#define BASE_COLUMNS(X)  \
    X(INTEGER, state)    \
    X(INTEGER, flags)    \
    X(INTEGER, priority) \
    X(INTEGER, ttr)      \
    X(INTEGER, due)      \
    X(INTEGER, created)  \
    X(INTEGER, since)

#define BODY_COLUMNS(X)   \
    X(INTEGER, body_size) \
    X(INTEGER, body_sum)  \
    X(BLOB, body)

#define EXT_COLUMNS(X)     \
    BI_JOB_EXT(X)          \
    BI_JOB_COUNTERS(X)     \
    BI_JOB_TIMES(X)        \
    X(INTEGER, bury_order) \
    X(INTEGER, token)      \
    X(INTEGER, lease)      \
    X(TEXT, last_error)    \
    X(BLOB, result)        \
    X(BLOB, history)

/* Their index in a row that is read; plus one, their parameter number in a statement. */
enum column {
    AT_id,
    AT_topic,
#define AT(type, name) AT_##name,
    BASE_COLUMNS(AT) BODY_COLUMNS(AT) AT_key,
    EXT_COLUMNS(AT)
#undef AT
        COLUMN_COUNT
};

static_assert(AT_id + 1 == 1 && AT_topic + 1 == 2 && AT_key + 1 == 13,
              "the columns have moved: change the numbers in ST_UPDATE as well");

#define TEXT_OF(number)         TEXT_OF_(number)
#define TEXT_OF_(number)        #number
#define NAMED(type, name)       "," #name
#define PLACEHOLDER(type, name) ",?"
#define SET(type, name)         "," #name "=?"
#define NAMES_BASE              "id,topic" BASE_COLUMNS(NAMED) BODY_COLUMNS(NAMED)
#define NAMES                   NAMES_BASE ",key" EXT_COLUMNS(NAMED)
#define PLACEHOLDERS_BASE       "?,?" BASE_COLUMNS(PLACEHOLDER) BODY_COLUMNS(PLACEHOLDER)
#define PLACEHOLDERS            PLACEHOLDERS_BASE ",?" EXT_COLUMNS(PLACEHOLDER)

#define POLICY_NAME(name, least, most)        "," #name
#define POLICY_PLACEHOLDER(name, least, most) ",?"

/* In the column flags. */
enum {
    ROW_STARTED = 1,
    ROW_CANCEL_WANTED = 2,
    ROW_DUE_WALL = 4,
    ROW_KEY_RETAINED = 8,
    ROW_EXT = 16, /* the ext columns are in use */
};

/* An update uses the parameter numbers of an insert, so that both bind in the same way: in SQLite
 * "?" has the number after the largest so far. It leaves the body alone, which never changes. */
const char *const bi_sqlite_sql[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_INSERT_PLAIN] = "INSERT INTO job(" NAMES_BASE ") VALUES(" PLACEHOLDERS_BASE ")",
    [ST_INSERT] = "INSERT INTO job(" NAMES ") VALUES(" PLACEHOLDERS ")",
    [ST_INSERT_BODY] = "INSERT INTO body(id,data) VALUES(?,?)",
    [ST_UPDATE] =
        "UPDATE job SET topic=?2" BASE_COLUMNS(SET) ",key=?13" EXT_COLUMNS(SET) " WHERE id=?1",
    [ST_REMOVE] = "DELETE FROM job WHERE id=?",
    [ST_REMOVE_BODY] = "DELETE FROM body WHERE id=?",
    [ST_PAUSE] = "INSERT OR REPLACE INTO pause(topic,until) VALUES(?,?)",
    [ST_RESUME] = "DELETE FROM pause WHERE topic=?",
    [ST_PAUSE_GET] = "SELECT until FROM pause WHERE topic=?",
    [ST_PAUSES] = "SELECT topic,until FROM pause",
    [ST_POLICY] = "INSERT OR REPLACE INTO policy(topic" BI_TOPIC_POLICY(
        POLICY_NAME) ") VALUES(?" BI_TOPIC_POLICY(POLICY_PLACEHOLDER) ")",
    [ST_POLICY_CLEAR] = "DELETE FROM policy WHERE topic=?",
    [ST_POLICY_GET] = "SELECT topic" BI_TOPIC_POLICY(POLICY_NAME) " FROM policy WHERE topic=?",
    [ST_POLICIES] = "SELECT topic" BI_TOPIC_POLICY(POLICY_NAME) " FROM policy",
    [ST_META_SET] = "INSERT OR REPLACE INTO meta(name,value) VALUES(?,?)",
    [ST_META_GET] = "SELECT value FROM meta WHERE name=?",
    [ST_MAX_ID] =
        "SELECT ifnull(max(id),0) FROM job WHERE id BETWEEN 1 AND " TEXT_OF(ASSIGNED_ID_MAX),
    [ST_INVALID_ID] = "SELECT id FROM job WHERE id<1 OR id>" TEXT_OF(ASSIGNED_ID_MAX) " LIMIT 1",
    [ST_COUNT_BELOW] = "SELECT count(*) FROM job WHERE id<?",
    [ST_LAST_BELOW] = "SELECT id FROM job WHERE id<? ORDER BY id DESC LIMIT 1",
    [ST_SCAN] = "SELECT " NAMES " FROM job WHERE id>=? AND id<? ORDER BY id LIMIT ?",
    [ST_FETCH] = "SELECT " NAMES " FROM job WHERE id=?",
    [ST_BODY] = "SELECT body_sum,body,(SELECT data FROM body WHERE body.id=job.id) FROM job "
                "WHERE id=?",
    [ST_QUARANTINE] =
        "INSERT OR REPLACE INTO damaged(found,reason," NAMES ",data) SELECT ?2,?3," NAMES
        ",(SELECT data FROM body WHERE body.id=job.id) FROM job WHERE id=?1",
    [ST_QUARANTINE_COUNT] = "SELECT count(*) FROM damaged",
    [ST_ORPHANS] = "SELECT count(*) FROM body WHERE id NOT IN (SELECT id FROM job)",
};

/* ---- writing ---- */

/* Stores `none` as NULL, which takes a byte. */
static inline void bind_number(sqlite3_stmt *stmt, enum column column, int64_t value, int64_t none)
{
    if (value == none)
        sqlite3_bind_null(stmt, (int)column + 1);
    else
        sqlite3_bind_int64(stmt, (int)column + 1, value);
}

/* False if SQLite rejects the bytes (too long, or out of memory). The caller must not run the
 * statement then: it would store NULL. */
static bool bind_buf(sqlite3_stmt *stmt, enum column column, const bide_buf *buf, bool text)
{
    int at = (int)column + 1;
    int size = (int)bide_buf_size(buf);
    const void *data = bide_buf_data(buf);
    assert(size >= 0); /* SQLite takes a negative size for "up to the NUL" */

    int code = buf == NULL ? sqlite3_bind_null(stmt, at)
               : text      ? sqlite3_bind_text(stmt, at, data, size, SQLITE_STATIC)
                           : sqlite3_bind_blob(stmt, at, data, size, SQLITE_STATIC);
    return code == SQLITE_OK;
}

static int flags_of(const struct bi_image *image)
{
    return (image->started ? ROW_STARTED : 0) | (image->cancel_wanted ? ROW_CANCEL_WANTED : 0) |
           (image->due_wall ? ROW_DUE_WALL : 0) |
           (image->key_hold_retained ? ROW_KEY_RETAINED : 0) | (image->plain ? 0 : ROW_EXT);
}

static void bind_base(sqlite3_stmt *stmt, const struct bi_image *image)
{
    assert(image->id > 0 && image->id <= BIDE_ID_MAX && image->topic[0] != 0);
    assert(image->state >= BIDE_STATE_DELAYED && image->state <= BIDE_STATE_DONE &&
           image->state != BIDE_STATE_RESERVED); /* which is stored as ready */

    sqlite3_bind_int64(stmt, AT_id + 1, (int64_t)image->id);
    sqlite3_bind_text(stmt, AT_topic + 1, image->topic, -1, SQLITE_STATIC);
    sqlite3_bind_int(stmt, AT_state + 1, (int)image->state);
    bind_number(stmt, AT_flags, flags_of(image), 0);
    sqlite3_bind_int64(stmt, AT_priority + 1, image->priority);
    sqlite3_bind_int64(stmt, AT_ttr + 1, image->ttr);
    bind_number(stmt, AT_due, image->due, 0);
    sqlite3_bind_int64(stmt, AT_created + 1, image->created);
    /* Equal in most jobs: NULL saves eight bytes a row. */
    bind_number(stmt, AT_since, image->since == image->created ? 0 : image->since, 0);
}

static void bind_body(sqlite3_stmt *stmt, const struct bi_image *image)
{
    uint32_t size = image->body_size;
    assert(size == bide_buf_size(image->body));
    bind_number(stmt, AT_body_size, size, 0);
    bind_number(stmt, AT_body_sum, bi_hash_checksum(image->id, bide_buf_data(image->body), size),
                0);

    /* A larger body is a row of the table body; see INLINE_MAX. */
    bind_buf(stmt, AT_body, size > 0 && size <= INLINE_MAX ? image->body : NULL, false);
}

#define BIND(kind, name) bind_number(stmt, AT_##name, (int64_t)image->name, BI_JOB_NONE_##kind);

static bool bind_ext(sqlite3_stmt *stmt, const struct bi_image *image)
{
    BI_JOB_EXT(BIND)
    BI_JOB_COUNTERS(BIND)
    BI_JOB_TIMES(BIND)
    bind_number(stmt, AT_bury_order, (int64_t)image->bury_order, 0);
    bind_number(stmt, AT_token, (int64_t)image->token, 0);
    bind_number(stmt, AT_lease, image->lease, 0);

    return bind_buf(stmt, AT_key, image->key, false) &&
           bind_buf(stmt, AT_last_error, image->last_error, true) &&
           bind_buf(stmt, AT_result, image->result, false) &&
           bind_buf(stmt, AT_history, image->history, false);
}

/* Inserts a job, or updates all of it but the body. */
static int write_job(struct connection *writer, const struct bi_image *image, bool insert)
{
    bool plain = insert && image->plain;
    sqlite3_stmt *stmt = bi_sqlite_statement(writer, plain    ? ST_INSERT_PLAIN
                                                     : insert ? ST_INSERT
                                                              : ST_UPDATE);
    if (stmt == NULL)
        return SQLITE_ERROR;

    bind_base(stmt, image);
    if (insert)
        bind_body(stmt, image);
    if (!plain && !bind_ext(stmt, image))
        return SQLITE_TOOBIG;

    int code = bi_sqlite_run(stmt);
    if (code != SQLITE_DONE || !insert || image->body_size <= INLINE_MAX)
        return code;

    stmt = bi_sqlite_statement(writer, ST_INSERT_BODY);
    if (stmt == NULL)
        return SQLITE_ERROR;

    sqlite3_bind_int64(stmt, 1, (int64_t)image->id);
    code = sqlite3_bind_blob(stmt, 2, bide_buf_data(image->body), (int)image->body_size,
                             SQLITE_STATIC);
    return code == SQLITE_OK ? bi_sqlite_run(stmt) : code;
}

/* A statement that could not be prepared is NULL: binding does nothing, and running fails. */
static int run_with_id(struct connection *writer, enum statement which, uint64_t id)
{
    sqlite3_stmt *stmt = bi_sqlite_statement(writer, which);
    sqlite3_bind_int64(stmt, 1, (int64_t)id);
    return bi_sqlite_run(stmt);
}

static int write_pause(struct connection *writer, const struct bi_image *image)
{
    sqlite3_stmt *stmt = bi_sqlite_statement(writer, image->due == 0 ? ST_RESUME : ST_PAUSE);
    sqlite3_bind_text(stmt, 1, image->topic, -1, SQLITE_STATIC);
    if (image->due != 0)
        sqlite3_bind_int64(stmt, 2, image->due);
    return bi_sqlite_run(stmt);
}

static int write_policy(struct connection *writer, const struct bi_image *image)
{
    const bide_topic_policy *policy = bide_buf_data(image->body);
    sqlite3_stmt *stmt = bi_sqlite_statement(writer, policy == NULL ? ST_POLICY_CLEAR : ST_POLICY);
    sqlite3_bind_text(stmt, 1, image->topic, -1, SQLITE_STATIC);
    for (int i = 0; policy != NULL && i < BI_TOPIC_POLICY_FIELDS; i++) {
        const struct policy_field *field = &bi_topic_policy_fields[i];
        int64_t value = bi_topic_policy_get(policy, field);
        bind_number(stmt, (enum column)(i + 1), value, field->none);
    }
    return bi_sqlite_run(stmt);
}

int bi_sqlite_write_record(struct connection *writer, const struct bi_record *record)
{
    const struct bi_image *image = &record->image;

    if (record->kind == BI_TOPIC) {
        assert(image->topic[0] != 0);
        int written = write_pause(writer, image);
        return written == SQLITE_DONE ? write_policy(writer, image) : written;
    }

    if (record->kind != BI_REMOVE)
        return write_job(writer, image, record->kind == BI_INSERT);

    int code = run_with_id(writer, ST_REMOVE, image->id);
    /* A body in the row needs no second delete: the image of a remove carries the size. */
    if (code == SQLITE_DONE && image->body_size > INLINE_MAX)
        code = run_with_id(writer, ST_REMOVE_BODY, image->id);
    return code;
}

/* ---- reading ---- */

static int64_t column_int64(sqlite3_stmt *row, enum column column)
{
    return sqlite3_column_int64(row, (int)column);
}

static uint32_t column_u32(sqlite3_stmt *row, enum column column)
{
    int64_t value = column_int64(row, column);
    /* Clamp a damaged value instead of letting it wrap to a plausible one. */
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* Copies the bytes of a column; *out is NULL if the column is. False when out of memory. */
static bool column_buf(sqlite3_stmt *row, enum column column, bide_buf **out)
{
    *out = NULL;
    if (sqlite3_column_type(row, (int)column) == SQLITE_NULL)
        return true;

    const void *data = sqlite3_column_blob(row, (int)column);
    *out = bide_buf_new(data, (size_t)sqlite3_column_bytes(row, (int)column));
    return *out != NULL;
}

#define SET_NONE(kind, name) image->name = BI_JOB_NONE_##kind;

const char *bi_sqlite_read_topic(sqlite3_stmt *row, int column, struct bi_image *image)
{
    const char *topic = (const char *)sqlite3_column_text(row, column);
    size_t size = (size_t)sqlite3_column_bytes(row, column);
    if (topic == NULL || size == 0 || size > BIDE_TOPIC_MAX || strlen(topic) != size)
        return "the topic is no name";
    memcpy(image->topic, topic, size + 1);
    return NULL;
}

/* Returns NULL or the damage. The id is set in any case: the row is reported under it. */
static const char *read_base(sqlite3_stmt *row, struct bi_image *image)
{
    image->id = (uint64_t)column_int64(row, AT_id);
    const char *damage = bi_sqlite_read_topic(row, AT_topic, image);
    if (damage != NULL)
        return damage;

    /* A reserved job is stored as ready. */
    int64_t state = column_int64(row, AT_state);
    if (state < BIDE_STATE_DELAYED || state > BIDE_STATE_DONE || state == BIDE_STATE_RESERVED)
        return "the state is none";
    image->state = (bide_state)state;

    int64_t flags = column_int64(row, AT_flags);
    image->started = (flags & ROW_STARTED) != 0;
    image->cancel_wanted = (flags & ROW_CANCEL_WANTED) != 0;
    image->due_wall = (flags & ROW_DUE_WALL) != 0;
    image->key_hold_retained = (flags & ROW_KEY_RETAINED) != 0;
    image->plain = (flags & ROW_EXT) == 0;

    image->priority = column_u32(row, AT_priority);
    image->ttr = column_int64(row, AT_ttr);
    image->due = column_int64(row, AT_due);
    image->created = column_int64(row, AT_created);
    image->since = column_int64(row, AT_since);
    if (image->since == 0)
        image->since = image->created;
    BI_JOB_EXT(SET_NONE) /* unless read_ext() finds another value */

    int64_t body_size = column_int64(row, AT_body_size);
    if (body_size < 0 || body_size > UINT32_MAX - 1)
        return "the size of the body is none";
    image->body_size = (uint32_t)body_size;
    return NULL;
}

#define READ(kind, name)     READ_##kind(name)
#define READ_COUNT(name)     image->name = column_u32(row, AT_##name);
#define READ_HISTORY(name)   image->name = column_u32(row, AT_##name);
#define READ_DURATION(name)  image->name = column_int64(row, AT_##name);
#define READ_TIMESTAMP(name) image->name = column_int64(row, AT_##name);
#define READ_RETRIES(name)   /* NULL: no limit */             \
    if (sqlite3_column_type(row, AT_##name) != SQLITE_NULL) { \
        int64_t value = column_int64(row, AT_##name);         \
        if (value < 0 || value > INT32_MAX)                   \
            return #name " is out of range";                  \
        image->name = (int32_t)value;                         \
    }

/* Returns NULL or the damage. */
static const char *read_ext(sqlite3_stmt *row, struct bi_image *image)
{
    BI_JOB_EXT(READ)
    BI_JOB_COUNTERS(READ)
    BI_JOB_TIMES(READ)
    image->bury_order = (uint64_t)column_int64(row, AT_bury_order);
    image->token = (uint64_t)column_int64(row, AT_token);
    image->lease = column_int64(row, AT_lease);

    if (sqlite3_column_bytes(row, AT_key) > BIDE_KEY_MAX)
        return "the key is too long";
    /* NULL also without memory, which read_row() finds. */
    const void *history = sqlite3_column_blob(row, AT_history);
    size_t size = history == NULL ? 0 : (size_t)sqlite3_column_bytes(row, AT_history);
    if (!bi_job_history_is_valid(history, size))
        return "the history is malformed";
    return NULL;
}

/* Reads the body if it is in the row. A body that does not match its checksum is left out: the
 * damage is found when the body is read. */
static int read_inline_body(sqlite3_stmt *row, struct bi_image *image)
{
    if (image->body_size > INLINE_MAX)
        return BIDE_OK;

    const void *data = sqlite3_column_blob(row, AT_body);
    size_t size = (size_t)sqlite3_column_bytes(row, AT_body);
    if (size != image->body_size ||
        bi_hash_checksum(image->id, data, size) != (uint32_t)column_int64(row, AT_body_sum))
        return BIDE_OK;

    image->body = bide_buf_new(size == 0 ? "" : data, size);
    return image->body == NULL ? BIDE_ENOMEM : BIDE_OK;
}

/* A column that SQLite could not allocate looks empty. That must not be taken for damage. */
static bool is_out_of_memory(sqlite3_stmt *row)
{
    return (sqlite3_errcode(sqlite3_db_handle(row)) & 0xff) == SQLITE_NOMEM;
}

/* Reads a row. *damage is NULL, or what is wrong with the row. The caller releases the buffers. */
static int read_row(sqlite3_stmt *row, struct bi_image *image, const char **damage)
{
    assert(sqlite3_data_count(row) == COLUMN_COUNT);
    memset(image, 0, sizeof(*image));

    *damage = read_base(row, image);
    if (*damage == NULL && !image->plain)
        *damage = read_ext(row, image);

    int code = BIDE_OK;
    if (*damage == NULL && !image->plain &&
        !(column_buf(row, AT_key, &image->key) &&
          column_buf(row, AT_last_error, &image->last_error) &&
          column_buf(row, AT_result, &image->result) &&
          column_buf(row, AT_history, &image->history)))
        code = BIDE_ENOMEM;
    if (code == BIDE_OK && *damage == NULL)
        code = read_inline_body(row, image);

    /* Checked after all columns were read, and before damage is reported. */
    return is_out_of_memory(row) ? BIDE_ENOMEM : code;
}

int bi_sqlite_visit_row(sqlite3_stmt *row, store_visit visit, void *ctx)
{
    struct bi_record record;
    const char *damage;

    record.kind = BI_INSERT;
    int code = read_row(row, &record.image, &damage);
    if (code == BIDE_OK)
        code = visit(ctx, &record, damage);
    bi_image_unref(&record.image);
    return code;
}

static void set_reason(struct store_body_request *request, const char *reason)
{
    snprintf(request->reason, sizeof(request->reason), "%s", reason);
}

static void check_body(sqlite3_stmt *row, struct store_body_request *request)
{
    int column = request->size <= INLINE_MAX ? 1 : 2;
    const void *data = sqlite3_column_blob(row, column);
    size_t size = (size_t)sqlite3_column_bytes(row, column);

    if (is_out_of_memory(row))
        request->out_of_memory = true;
    else if (size != request->size)
        set_reason(request, "the stored body has another size");
    else if (bi_hash_checksum(request->id, data, size) != (uint32_t)sqlite3_column_int64(row, 0))
        set_reason(request, "the stored body does not match its checksum");
    else if ((request->body = bide_buf_new(size == 0 ? "" : data, size)) == NULL)
        request->out_of_memory = true;

    request->retry = request->out_of_memory;
}

void bi_sqlite_read_body(struct connection *reader, struct store_body_request *request)
{
    sqlite3_stmt *row = bi_sqlite_statement(reader, ST_BODY);

    request->body = NULL;
    request->reason[0] = 0;
    /* A statement that cannot be prepared says nothing about the body. */
    request->retry = row == NULL;
    request->out_of_memory = false;
    if (row == NULL)
        return;

    sqlite3_bind_int64(row, 1, (int64_t)request->id);
    int code = sqlite3_step(row);
    int kind = code & 0xff;
    if (code == SQLITE_ROW) {
        check_body(row, request);
    } else {
        /* A missing row or a damaged file is permanent; any other error may be temporary. */
        request->retry = (kind != SQLITE_DONE && kind != SQLITE_CORRUPT && kind != SQLITE_NOTADB) ||
                         bi_sqlite_is_read_failure(reader, code);
        request->out_of_memory = kind == SQLITE_NOMEM;
        set_reason(request,
                   code == SQLITE_DONE ? "the job is not in the file" : sqlite3_errmsg(reader->db));
    }
    sqlite3_reset(row);
    /* Either the body, or a reason, or another try. */
    assert((request->body != NULL) + (request->reason[0] != 0 || request->retry) == 1);
}

/* ---- comparing ---- */

#define EQUAL(kind, name)                  &&a->name == b->name
#define EQUAL_BUF(kind, name, least, most) &&bi_buf_equal(a->name, b->name)

/* The body is not compared: it never changes after the insert. */
static bool equal_images(const struct bi_image *a, const struct bi_image *b)
{
    bool equal =
        flags_of(a) == flags_of(b) BI_JOB_EXT(EQUAL) BI_JOB_COUNTERS(EQUAL) BI_JOB_TIMES(EQUAL);
    return equal && a->state == b->state && a->priority == b->priority && a->ttr == b->ttr &&
           a->due == b->due && a->created == b->created && a->since == b->since &&
           a->bury_order == b->bury_order && a->token == b->token && a->lease == b->lease &&
           strcmp(a->topic, b->topic) == 0 BI_JOB_IMAGE_BUFS(EQUAL_BUF);
}

/* Returns 1, 0, or -1 if the file cannot be read. */
static int job_is_stored(struct connection *writer, const struct bi_record *record)
{
    assert(record->kind != BI_TOPIC);
    sqlite3_stmt *row = bi_sqlite_statement(writer, ST_FETCH);
    if (row == NULL)
        return -1;

    sqlite3_bind_int64(row, 1, (int64_t)record->image.id);
    int code = sqlite3_step(row);
    int is_stored = code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : -1;

    /* An id is assigned once, so for an insert it is enough that the row exists. A remove is
     * stored if it does not. */
    if (is_stored == 1 && record->kind == BI_UPDATE) {
        struct bi_image image;
        const char *damage;
        bool read = read_row(row, &image, &damage) == BIDE_OK;
        is_stored = !read ? -1 : damage == NULL && equal_images(&record->image, &image);
        bi_image_unref(&image);
    }

    sqlite3_reset(row);
    return is_stored >= 0 && record->kind == BI_REMOVE ? !is_stored : is_stored;
}

static int pause_is_stored(struct connection *writer, const struct bi_image *image)
{
    sqlite3_stmt *row = bi_sqlite_statement(writer, ST_PAUSE_GET);
    if (row == NULL)
        return -1;

    sqlite3_bind_text(row, 1, image->topic, -1, SQLITE_STATIC);
    int code = sqlite3_step(row);
    int64_t until = code == SQLITE_ROW ? sqlite3_column_int64(row, 0) : 0;
    sqlite3_reset(row);

    /* A topic that is not paused has no row; its record says 0. */
    return code == SQLITE_ROW || code == SQLITE_DONE ? until == image->due : -1;
}

void bi_sqlite_read_policy(sqlite3_stmt *row, bide_topic_policy *policy)
{
    bi_topic_policy_clear(policy);
    for (int i = 0; i < BI_TOPIC_POLICY_FIELDS; i++)
        if (sqlite3_column_type(row, i + 1) != SQLITE_NULL)
            bi_topic_policy_put(policy, &bi_topic_policy_fields[i],
                                sqlite3_column_int64(row, i + 1));
}

static int policy_is_stored(struct connection *writer, const struct bi_image *image)
{
    const bide_topic_policy *policy = bide_buf_data(image->body);
    bide_topic_policy stored;
    sqlite3_stmt *row = bi_sqlite_statement(writer, ST_POLICY_GET);
    if (row == NULL)
        return -1;

    sqlite3_bind_text(row, 1, image->topic, -1, SQLITE_STATIC);
    int code = sqlite3_step(row);
    if (code == SQLITE_ROW)
        bi_sqlite_read_policy(row, &stored);
    sqlite3_reset(row);

    if (code == SQLITE_DONE)
        return policy == NULL;
    return code != SQLITE_ROW ? -1 : policy != NULL && bi_topic_policy_equal(policy, &stored);
}

static int topic_is_stored(struct connection *writer, const struct bi_image *image)
{
    int is_stored = pause_is_stored(writer, image);
    return is_stored == 1 ? policy_is_stored(writer, image) : is_stored;
}

int bi_sqlite_record_is_stored(struct connection *writer, const struct bi_record *record)
{
    return record->kind == BI_TOPIC ? topic_is_stored(writer, &record->image)
                                    : job_is_stored(writer, record);
}
