/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_worker - who reserves: the names of connections, their announcements, and the verbs
 * client-name, announce, workers, why and why-key.
 *
 * A connection reserves by the name of client-name, or by its address. With its first reserve it is
 * announced as a worker, until it is closed: no timer renews it, and ten thousand idle connections
 * cost nothing. Its number distinguishes it from other connections with the same name. A worker of
 * the library has a name of its own in its calls, and announces itself; so does a client that
 * announces the name of its connection.
 *
 * Ownership  A name is a buffer that ops borrow until the batch is submitted. It is replaced only by
 *            client-name, which submits the batch first.
 */
#include "server/beanstalk/beanstalk.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the announcement of a connection ---- */

static void on_announced(struct server_op *server_op)
{
    struct internal_op *internal = (struct internal_op *)(void *)server_op;
    bide_buf_unref(internal->op.announce.buf);
    free(internal);
}

/* Without memory, or in a full queue, the connection is not listed. ttl_ms 0: not any more. */
static void announce(struct beanstalk_conn *conn, int64_t ttl_ms)
{
    static const struct server_op_type type = {NULL, on_announced};
    const struct session *session = &conn->session;
    char peer[PEER_SIZE];
    size_t topics = conn->announces_topics ? session->watched_count : 0;

    bi_conn_format_peer(&conn->base, peer);
    const bide_worker_info info = {
        .name = {bide_buf_data(conn->name), bide_buf_size(conn->name)},
        .host = {peer, strlen(peer)},
        .connection = conn->base.order,
        .threads = 1,
        .started_ms = (bi_clock_wall() - (bi_clock_boot() - conn->base.opened_at)) / 1000,
        .topics = session->names,
        .topic_count = topics < BIDE_ANNOUNCED_TOPICS_MAX ? topics : BIDE_ANNOUNCED_TOPICS_MAX,
    };

    bide_buf *worker = bide_worker_encode(&info);
    struct internal_op *op = worker == NULL ? NULL : bi_batch_new_op(conn->base.server, &type);
    if (op == NULL) {
        bide_buf_unref(worker);
        return;
    }
    op->op.kind = BIDE_OP_ANNOUNCE;
    op->op.announce = (bide_announce_args){.buf = worker, .ttl_ms = ttl_ms};
    bi_batch_submit(&op->base);
}

void bi_beanstalk_worker_closed(struct beanstalk_conn *conn)
{
    if (conn->announced)
        announce(conn, 0);
    conn->announced = false;
}

/* ---- names ---- */

/* The peer of a unix socket is a process, which may have several connections. */
static bide_buf *new_default_name(const struct beanstalk_conn *conn)
{
    char peer[PEER_SIZE], name[PEER_SIZE + 32];
    bi_conn_format_peer(&conn->base, peer);
    int size = conn->base.tcp ? snprintf(name, sizeof(name), "%s", peer)
                              : snprintf(name, sizeof(name), "%s, connection %u", peer,
                                         (unsigned)conn->base.order);
    return bide_buf_new(name, size < BIDE_HOLDER_MAX ? (size_t)size : BIDE_HOLDER_MAX);
}

static const bide_buf *name_of(struct beanstalk_conn *conn, bool watches)
{
    if (conn->name == NULL)
        conn->name = new_default_name(conn);

    bool changed = watches && (!conn->announces_topics || conn->topics_changed);
    if (conn->name != NULL && !conn->announces_itself && (!conn->announced || changed)) {
        conn->announces_topics = conn->announces_topics || watches;
        conn->topics_changed = false;
        conn->announced = true;
        announce(conn, BIDE_TIME_MAX_MS);
    }
    return conn->name;
}

bide_slice bi_beanstalk_worker_holder(struct beanstalk_conn *conn)
{
    const bide_buf *name = name_of(conn, true);
    return (bide_slice){bide_buf_data(name), bide_buf_size(name)};
}

static bool is_same(const bide_buf *buf, bide_slice bytes)
{
    return bide_buf_size(buf) == bytes.size &&
           memcmp(bide_buf_data(buf), bytes.data, bytes.size) == 0;
}

bide_buf *bi_beanstalk_worker_call_holder(struct beanstalk_conn *conn, bide_slice given)
{
    if (given.size == 0) {
        name_of(conn, false);
        return bide_buf_ref(conn->name);
    }

    /* The calls of one worker give the same name again and again. */
    if (!is_same(conn->holder, given)) {
        bide_buf_unref(conn->holder);
        conn->holder = bide_buf_new(given.data, given.size);
    }
    return bide_buf_ref(conn->holder);
}

static bool is_name(bide_slice name)
{
    const char *bytes = name.data;
    bool valid = name.size >= 1 && name.size <= BIDE_HOLDER_MAX;
    for (size_t i = 0; valid && i < name.size; i++)
        valid = bytes[i] > ' ' && bytes[i] < 127;
    return valid;
}

void bi_beanstalk_worker_set_name(struct beanstalk_conn *conn, const struct command *command)
{
    if (!is_name(command->name)) {
        bi_request_reply(conn, "BAD_FORMAT\r\n");
        return;
    }

    bide_buf *name = bide_buf_new(command->name.data, command->name.size);
    if (name == NULL) {
        bi_request_reply(conn, "OUT_OF_MEMORY\r\n");
        return;
    }
    /* The next reserve announces the new name. */
    bi_beanstalk_worker_closed(conn);
    conn->announces_itself = false;
    bide_buf_unref(conn->name);
    conn->name = name;
    bi_request_reply(conn, "NAMED\r\n");
}

/* ---- announce ---- */

static void free_worker(void *worker)
{
    bide_buf_unref(worker);
}

/* Splits names at commas. False if there are too many. */
static bool split_topics(bide_slice list, bide_slice *topics, size_t *count)
{
    const char *at = list.data;
    const char *end = list.size == 0 ? at : at + list.size;
    *count = 0;
    while (at != end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        if (*count == BIDE_ANNOUNCED_TOPICS_MAX)
            return false;
        topics[(*count)++] = (bide_slice){at, (size_t)((comma == NULL ? end : comma) - at)};
        at = comma == NULL ? end : comma + 1;
    }
    return true;
}

const char *bi_beanstalk_worker_announce(struct request *request, const struct command *command)
{
    const struct announcement *given = &command->announcement;
    struct beanstalk_conn *conn = request->conn;
    bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    bide_worker_info info = {.name = command->name,
                             .host = given->host,
                             .version = given->version,
                             .pid = given->pid,
                             .threads = given->threads,
                             .running = given->running,
                             .done = given->done,
                             .failed = given->failed,
                             .lost = given->lost,
                             .started_ms = given->started_ms,
                             .topics = topics};

    if (!is_name(command->name) || !split_topics(given->topics, topics, &info.topic_count))
        return "BAD_FORMAT\r\n";
    bide_buf *worker = bide_worker_encode(&info);
    if (worker == NULL)
        return "BAD_FORMAT\r\n";

    if (conn->name != NULL && is_same(conn->name, command->name)) {
        bi_beanstalk_worker_closed(conn);
        conn->announces_itself = true;
    }
    request->extra = worker;
    request->free_extra = free_worker;
    request->op.announce = (bide_announce_args){.buf = worker, .ttl_ms = command->delay_ms};
    return NULL;
}

/* ---- workers ---- */

struct worker_listing {
    char cursor[BIDE_CURSOR_SIZE];
    size_t count;
    bide_announced workers[];
};

static void write_topics(struct output *text, const bide_worker_info *info)
{
    bi_output_text(text, "  tubes: [");
    for (size_t i = 0; i < info->topic_count; i++)
        bi_output_format(text, "%s\"%.*s\"", i == 0 ? "" : ", ", (int)info->topics[i].size,
                         (const char *)info->topics[i].data);
    bi_output_text(text, "]\n");
}

static void write_jobs(struct output *text, const bide_worker_info *info)
{
    if (info->job_count == 0)
        return;
    bi_output_text(text, "  jobs:\n");
    for (size_t i = 0; i < info->job_count; i++) {
        const bide_running_job *job = &info->jobs[i];
        bi_output_format(text, "  - id: %llu\n    tube: \"%.*s\"\n    since-ms: %lld\n",
                         (unsigned long long)job->id, (int)job->topic.size,
                         (const char *)job->topic.data, (long long)job->since_ms);
        if (job->progress.size > 0)
            bi_beanstalk_stats_write_value(text, "    progress", job->progress.data,
                                           job->progress.size);
    }
}

static void write_worker(struct output *text, const bide_announced *announced)
{
    bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    bide_running_job jobs[BIDE_ANNOUNCED_JOBS_MAX];
    bide_worker_info info;
    if (!bide_worker_decode(announced->data, announced->data_size, &info, topics,
                            BIDE_ANNOUNCED_TOPICS_MAX, jobs, BIDE_ANNOUNCED_JOBS_MAX))
        return; /* the queue has checked it */

    bi_beanstalk_stats_write_value(text, "- name", info.name.data, info.name.size);
    const struct {
        const char *name;
        int64_t value;
    } figures[] = {
        {"pid", (int64_t)info.pid},         {"threads", (int64_t)info.threads},
        {"running", (int64_t)info.running}, {"done", (int64_t)info.done},
        {"failed", (int64_t)info.failed},   {"lost", (int64_t)info.lost},
        {"started-ms", info.started_ms},    {"announced-ms", announced->announced_ms},
        {"left-ms", announced->left_ms},
    };
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        bi_output_format(text, "  %s: %lld\n", figures[i].name, (long long)figures[i].value);
    if (info.connection != 0)
        bi_output_format(text, "  connection: %llu\n", (unsigned long long)info.connection);
    if (info.host.size > 0)
        bi_beanstalk_stats_write_value(text, "  host", info.host.data, info.host.size);
    if (info.version.size > 0)
        bi_beanstalk_stats_write_value(text, "  version", info.version.data, info.version.size);
    write_topics(text, &info);
    write_jobs(text, &info);
}

static void write_workers(struct request *request)
{
    struct worker_listing *listing = request->extra;
    struct output text;

    listing->count = request->op.workers.count;
    bi_beanstalk_stats_begin_document(&text);
    bi_output_format(&text, "cursor: \"%s\"\nworkers:%s\n", listing->cursor,
                     listing->count == 0 ? " []" : "");
    for (size_t i = 0; i < listing->count; i++)
        write_worker(&text, &listing->workers[i]);
    bi_beanstalk_stats_end_document(request->conn, &text);
}

static void free_listing(void *extra)
{
    struct worker_listing *listing = extra;
    for (size_t i = 0; i < listing->count; i++)
        bide_announced_clear(&listing->workers[i]);
    free(listing);
}

const char *bi_beanstalk_worker_list(struct request *request, const struct command *command)
{
    size_t count = (size_t)command->count;
    struct worker_listing *listing =
        calloc(1, sizeof(*listing) + count * sizeof(listing->workers[0]));
    if (listing == NULL)
        return "OUT_OF_MEMORY\r\n";

    memcpy(listing->cursor, command->cursor, BIDE_CURSOR_SIZE);
    request->extra = listing;
    request->free_extra = free_listing;
    request->write = write_workers;
    request->op.workers = (bide_workers_args){
        .cursor = listing->cursor, .workers = listing->workers, .worker_max = count};
    return NULL;
}

/* ---- why ---- */

static void write_why(struct request *request)
{
    const bide_explanation *why = request->extra;
    const struct {
        const char *name;
        int64_t value;
        bool present;
    } figures[] = {
        {"id", (int64_t)why->id, why->id != 0},
        {"until-ms", why->until_ms, why->until_ms != 0},
        {"left-ms", why->left_ms, why->until_ms != 0},
        {"ahead", (int64_t)why->ahead, why->state == BIDE_STATE_READY},
        {"attempts", why->attempts, why->state != BIDE_STATE_GONE},
        {"failures", why->failures, why->state != BIDE_STATE_GONE},
        {"waiting", (int64_t)why->waiting, why->state != BIDE_STATE_GONE},
        {"workers", (int64_t)why->workers, why->state != BIDE_STATE_GONE},
        {"running", (int64_t)why->running, why->state != BIDE_STATE_GONE},
        {"limit", (int64_t)why->limit, why->limit != 0},
    };
    const struct {
        const char *name, *text;
    } texts[] = {{"tube", why->topic}, {"holder", why->holder}, {"error", why->error}};
    struct output text;

    bi_beanstalk_stats_begin_document(&text);
    bi_output_format(&text, "reason: %s\nstate: %s\n", bide_why_name(why->reason),
                     bide_state_name(why->state));
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        if (figures[i].present)
            bi_output_format(&text, "%s: %lld\n", figures[i].name, (long long)figures[i].value);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].text[0] != 0)
            bi_beanstalk_stats_write_value(&text, texts[i].name, texts[i].text,
                                           strlen(texts[i].text));
    bi_beanstalk_stats_write_value(&text, "text", why->text, strlen(why->text));
    bi_beanstalk_stats_end_document(request->conn, &text);
}

const char *bi_beanstalk_worker_why(struct request *request, const struct command *command)
{
    bide_explanation *why = calloc(1, sizeof(*why));
    if (why == NULL)
        return "OUT_OF_MEMORY\r\n";

    request->extra = why;
    request->write = write_why;
    request->op.why = (bide_why_args){.why = why};
    if (command->verb == VERB_WHY) {
        request->op.why.id = command->id;
    } else {
        request->op.why.topic = command->name;
        request->op.why.key = command->filter.key;
    }
    return command->verb == VERB_WHY && command->id == 0 ? "BAD_FORMAT\r\n" : NULL;
}
