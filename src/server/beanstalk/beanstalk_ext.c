/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_ext - verbs that bide adds: put-many, finish-and-put, reserve-many, result, update,
 * purge-tube, topic-set and topic-get.
 *
 * Ownership  The jobs of reserve-many do not belong to the session; the reply names their tokens,
 *            which are valid on any connection. Until the socket has accepted the whole reply the
 *            connection retains the tokens, and gives the jobs back if it closes.
 */
#define _GNU_SOURCE /* memmem */
#include "server/beanstalk/beanstalk.h"

#include "op/topic_policy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define GIVE_WORK 4 /* work units: give back one job */

/* ---- items ---- */

/* The items of put-many and finish-and-put. One allocation: puts[item_count], then
 * items[item_count]. */
struct put_batch {
    size_t item_count; /* items in the command */
    size_t count;      /* of these, valid ones: the first entries of puts */
    struct put_batch_item {
        bide_put_options options;
        enum { ITEM_OK, ITEM_BAD_FORMAT, ITEM_TOO_BIG } fault;
        char key[BIDE_KEY_MAX];
    } * items;
    bide_put_item puts[];
};

/* Parses one item, a line and its body. False: the end of the item is unknown, so the rest of the
 * data cannot be parsed either. */
static bool parse_item(const struct server *server, struct put_batch *put_batch, size_t i,
                       bide_slice *left)
{
    struct command command;
    const char *data = left->data;
    const char *end =
        memmem(data, left->size < LINE_MAX_EXTENDED ? left->size : LINE_MAX_EXTENDED, "\r\n", 2);
    if (end == NULL)
        return false;

    enum parse parse = bi_beanstalk_parse_item(&command, data, (size_t)(end - data));
    size_t line = (size_t)(end - data) + 2;
    size_t size = command.body_size;
    /* An item with an invalid option is skipped by its size; only that item fails. */
    if (parse == PARSE_BAD_FORMAT || left->size - line < size + 2 ||
        memcmp(data + line + size, "\r\n", 2) != 0)
        return false;

    struct put_batch_item *item = &put_batch->items[i];
    item->options = command.put;
    item->fault = parse != PARSE_OK                      ? ITEM_BAD_FORMAT
                  : size > server->options->max_job_size ? ITEM_TOO_BIG
                                                         : ITEM_OK;

    /* The key lies in the local command; the put needs it until the batch is submitted. */
    if (command.put.key.size > 0) {
        memcpy(item->key, command.put.key.data, command.put.key.size);
        item->options.key.data = item->key;
    }

    bi_beanstalk_jobs_set_expiry(&item->options, command.expires_ms);
    put_batch->puts[i].topic = command.name;
    put_batch->puts[i].body = (bide_slice){data + line, size};
    *left = (bide_slice){data + line + size + 2, left->size - line - size - 2};
    return true;
}

/* Moves the valid items to the front of puts. Their options stay where they are. topic: of an item
 * that names no tube. */
static void compact_valid(struct put_batch *put_batch, bide_slice topic)
{
    put_batch->count = 0;
    for (size_t i = 0; i < put_batch->item_count; i++) {
        if (put_batch->items[i].fault != ITEM_OK)
            continue;

        /* Never ahead of i, so an entry is read before it is overwritten. */
        bide_put_item *put = &put_batch->puts[put_batch->count++];
        *put = (bide_put_item){.topic = put_batch->puts[i].topic.size > 0 ? put_batch->puts[i].topic
                                                                          : topic,
                               .body = put_batch->puts[i].body,
                               .options = &put_batch->items[i].options};
    }
}

static void write_item(struct output *text, struct request *request, const bide_put_item *put)
{
    if (put->status == BIDE_OK || put->status == BIDE_EXISTS) {
        bi_output_format(text, "- %s %llu\n", put->status == BIDE_OK ? "INSERTED" : "EXISTS",
                         (unsigned long long)put->id);
        return;
    }

    /* The table of replies reads the status of the op; each item has its own. */
    int status = request->op.status;
    request->op.status = put->status;
    const char *word = bi_beanstalk_verb_error_reply(request);
    request->op.status = status;
    bi_output_format(text, "- %.*s\n", (int)strlen(word) - 2, word);
}

static void write_put_many(struct request *request)
{
    struct put_batch *put_batch = request->extra;
    struct output text;

    bi_beanstalk_stats_begin_document(&text);
    size_t next_put = 0;
    for (size_t i = 0; i < put_batch->item_count; i++) {
        if (put_batch->items[i].fault == ITEM_OK)
            write_item(&text, request, &put_batch->puts[next_put++]);
        else
            bi_output_text(&text, put_batch->items[i].fault == ITEM_BAD_FORMAT ? "- BAD_FORMAT\n"
                                                                               : "- JOB_TOO_BIG\n");
    }
    assert(next_put == put_batch->count);
    bi_beanstalk_stats_end_document(request->conn, &text);
}

/* Parses the items into request->extra. Returns NULL, or the reply of an invalid command. */
static const char *parse_items(struct request *request, uint64_t item_count, bide_slice data)
{
    size_t count = (size_t)item_count;
    size_t size =
        sizeof(struct put_batch) + count * (sizeof(bide_put_item) + sizeof(struct put_batch_item));
    struct put_batch *put_batch = calloc(1, size);

    if (put_batch == NULL)
        return "OUT_OF_MEMORY\r\n";
    put_batch->items = (struct put_batch_item *)(void *)&put_batch->puts[count];
    put_batch->item_count = count;
    request->extra = put_batch;
    request->write = write_put_many;
    request->base.bytes += size; /* small jobs take more than their bodies */

    for (size_t i = 0; i < count; i++)
        if (!parse_item(request->base.server, put_batch, i, &data))
            return "BAD_FORMAT\r\n";
    return data.size == 0 ? NULL : "BAD_FORMAT\r\n";
}

/* ---- put-many ---- */

const char *bi_beanstalk_ext_put_many(struct request *request, const struct command *command)
{
    const char *rejected = parse_items(request, command->count, command->body);
    if (rejected != NULL)
        return rejected;

    struct put_batch *put_batch = request->extra;
    compact_valid(put_batch, bi_tube_name(request->conn->session.used));
    request->op.put_many =
        (bide_put_many_args){.items = put_batch->puts, .count = put_batch->count};
    /* The queue rejects an empty list. A ping replies in order and reports the faulty items. */
    if (put_batch->count == 0)
        request->op.kind = BIDE_OP_PING;
    return NULL;
}

/* ---- finish-and-put ---- */

/* A put that was rejected is named with the reply that it would have had alone. */
static bool reply_step(struct request *request)
{
    struct output *output = &request->conn->base.output;
    uint32_t item = request->op.status == BIDE_OK ? 0 : request->op.error_item;

    bi_beanstalk_finish_keep_lease(request);
    if (item == 0)
        return bi_beanstalk_verb_reply(request);

    bi_output_format(output, "NOT_PUT %u ", item);
    if (request->op.status != BIDE_EXISTS)
        return bi_beanstalk_verb_reject(request);
    bi_output_format(output, "EXISTS %llu\r\n",
                     (unsigned long long)request->op.finish_and_put.items[item - 1].id);
    return true;
}

/* Takes the result from the front of the data. */
static bool take_result(const struct command *command, bide_slice *data, bide_slice *result)
{
    const char *bytes = data->data;
    size_t size = command->result_size;

    if (data->size < size + 2 || memcmp(bytes + size, "\r\n", 2) != 0)
        return false;
    *result = (bide_slice){bytes, size};
    *data = (bide_slice){bytes + size + 2, data->size - size - 2};
    return true;
}

const char *bi_beanstalk_ext_finish_and_put(struct request *request, const struct command *command)
{
    bide_finish_and_put_args step = command->step;
    bide_slice data = command->body;

    if (command->result_size > 0 && !take_result(command, &data, &step.finish.result))
        return "BAD_FORMAT\r\n";
    const char *rejected = parse_items(request, command->count, data);
    if (rejected != NULL)
        return rejected;

    /* The queue checks sizes: it says which item is too big. */
    struct put_batch *put_batch = request->extra;
    for (size_t i = 0; i < put_batch->item_count; i++) {
        if (put_batch->items[i].fault == ITEM_BAD_FORMAT)
            return "BAD_FORMAT\r\n";
        put_batch->items[i].fault = ITEM_OK;
    }
    compact_valid(put_batch, bi_tube_name(request->conn->session.used));

    /* Last: a command that is rejected here leaves the lease in the session. */
    step.finish.id = command->id;
    step.finish.token = bi_beanstalk_finish_take_lease(request, command);
    step.items = put_batch->puts;
    step.count = put_batch->count;
    request->reply = reply_step;
    request->op.finish_and_put = step;
    /* As release: only a holder may. */
    bool may_end = step.finish.token != 0 || step.ending != BIDE_ENDING_RELEASE;
    return may_end ? NULL : "NOT_FOUND\r\n";
}

/* ---- reserve-many ---- */

/* The leases of a reply that the socket has not accepted yet. If the connection closes before that,
 * the client does not know their tokens: without this record the jobs would be lost until ttr. */
struct unsent_many {
    STAILQ_ENTRY(unsent_many) next;
    uint64_t end; /* end offset of the reply in the output stream */
    size_t count;
    struct {
        uint64_t id;
        uint64_t token;
    } leases[];
};

static size_t unsent_size(size_t count)
{
    const struct unsent_many *unsent = NULL;
    return sizeof(*unsent) + count * sizeof(unsent->leases[0]);
}

static void forget_unsent(struct beanstalk_conn *conn)
{
    struct unsent_many *unsent = STAILQ_FIRST(&conn->unsent_many);
    assert(unsent != NULL && conn->many_bytes >= unsent_size(unsent->count));
    STAILQ_REMOVE_HEAD(&conn->unsent_many, next);
    conn->many_bytes -= unsent_size(unsent->count);
    free(unsent);
}

void bi_beanstalk_sent(struct beanstalk_conn *conn)
{
    const struct unsent_many *first;
    while ((first = STAILQ_FIRST(&conn->unsent_many)) != NULL &&
           first->end <= conn->base.output.sent_total)
        forget_unsent(conn);
}

bool bi_beanstalk_drop_unsent(struct beanstalk_conn *conn)
{
    const struct unsent_many *unsent = STAILQ_FIRST(&conn->unsent_many);
    if (unsent == NULL)
        return false;

    for (size_t i = 0; i < unsent->count; i++)
        bi_release_lease(conn->base.server, unsent->leases[i].id, unsent->leases[i].token, false);
    bi_fair_queue_count_work(conn->base.server, unsent->count * GIVE_WORK);
    forget_unsent(conn);
    return true;
}

/* Gives the jobs from `kept` on back, before the client learns of them. */
static void give_back(struct request *request, size_t kept)
{
    struct server *server = request->base.server;
    bide_job *jobs = request->extra;
    size_t count = request->op.reserve.count;

    assert(kept <= count);
    for (size_t i = kept; i < count; i++) {
        bi_release_lease(server, jobs[i].id, jobs[i].token, false);
        bide_job_clear(&jobs[i]);
    }
    bi_fair_queue_count_work(server, (count - kept) * GIVE_WORK);
    request->op.reserve.count = kept;
}

/* Returns how many jobs fit in the memory of clients, but at least one: many clients that do not
 * read would otherwise exceed max_client_bytes by all bodies that they have asked for. */
static size_t count_fitting(const struct request *request)
{
    struct conn *conn = &request->conn->base;
    const bide_job *jobs = request->extra;
    size_t fitting = 0, bytes = 0;

    while (fitting < request->op.reserve.count &&
           (fitting == 0 ||
            bi_server_has_memory(conn->server, conn, bytes, bytes + jobs[fitting].body_size)))
        bytes += jobs[fitting++].body_size;
    return fitting;
}

static void write_reserve_many(struct request *request)
{
    struct output *output = &request->conn->base.output;
    bide_job *jobs = request->extra;
    size_t count = count_fitting(request);

    /* Allocate first: with the reply in the output the leases can no longer be withdrawn. */
    struct unsent_many *unsent = malloc(unsent_size(count));
    give_back(request, unsent == NULL ? 0 : count);
    if (unsent == NULL) {
        bi_output_text(output, "OUT_OF_MEMORY\r\n");
        return;
    }

    unsent->count = count;
    bi_output_format(output, "RESERVED_MANY %zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        bi_output_format(output, "%llu %llu %zu\r\n", (unsigned long long)jobs[i].id,
                         (unsigned long long)jobs[i].token, jobs[i].body_size);
        bi_output_body(output, jobs[i].bufs_[0], jobs[i].body, jobs[i].body_size);
        bi_output_add(output, "\r\n", 2);
        unsent->leases[i].id = jobs[i].id;
        unsent->leases[i].token = jobs[i].token;
        bide_job_clear(&jobs[i]);
    }

    /* The whole reply is in the output. */
    unsent->end = output->sent_total + bi_output_left(output);
    STAILQ_INSERT_TAIL(&request->conn->unsent_many, unsent, next);
    request->conn->many_bytes += unsent_size(count);
    /* Now: more replies may follow before the connection is written. */
    bi_conn_update_memory(&request->conn->base);
}

/* Limits the jobs to what their bodies may take together. BIDE_RESERVE_WORK is the queue's limit of
 * topics times jobs. The client gets fewer jobs than it asked for, but one at least. */
static size_t bounded_count(const struct beanstalk_conn *conn, uint64_t count)
{
    size_t bytes = EXPECTED_BYTES_HIGH / (conn->base.server->options->max_job_size + 1);
    size_t work = BIDE_RESERVE_WORK / conn->session.watched_count;
    size_t max = bytes < work ? bytes : work;
    return count < max ? (size_t)count : max == 0 ? 1 : max;
}

const char *bi_beanstalk_ext_reserve_many(struct request *request, const struct command *command)
{
    struct beanstalk_conn *conn = request->conn;
    size_t count = bounded_count(conn, command->count);

    request->extra = calloc(count, sizeof(bide_job));
    if (request->extra == NULL)
        return "OUT_OF_MEMORY\r\n";

    bi_beanstalk_verb_set_worker(conn);
    request->write = write_reserve_many;
    request->expected_bytes = count * conn->base.server->options->max_job_size;
    request->op.reserve =
        (bide_reserve_args){.topics = conn->session.names,
                            .topic_count = conn->session.watched_count,
                            /* a half-closed connection is not read: it must not wait */
                            .timeout_ms = conn->base.half_closed ? 0 : command->timeout_ms,
                            .jobs = request->extra,
                            .job_max = count,
                            .holder = bi_beanstalk_worker_holder(conn)};
    return NULL;
}

/* ---- result ---- */

/* Replies to both forms: `result` of a job that must be done, and the wait for the end of a job. */
static bool reply_result(struct request *request)
{
    struct output *output = &request->conn->base.output;
    const bide_op *op = &request->op;
    bool waits = op->kind == BIDE_OP_WAIT;

    if (op->status != BIDE_OK && (waits || op->status != BIDE_WRONG_STATE))
        return bi_beanstalk_verb_reject(request);

    if (op->status != BIDE_OK) {
        bi_output_text(output, "NOT_DONE\r\n");
        return true;
    }

    bide_buf *buf = waits ? op->wait.result : op->fetch.buf;
    if (waits && op->wait.state != BIDE_STATE_DONE) {
        /* Any other end of the job: buried, deleted or expired. */
        bi_output_text(output,
                       op->wait.state == BIDE_STATE_BURIED ? "BURIED\r\n" : "NOT_FOUND\r\n");
        bide_buf_unref(buf);
        return true;
    }

    bi_output_format(output, "RESULT %llu %zu\r\n",
                     (unsigned long long)(waits ? op->wait.id : op->fetch.id), bide_buf_size(buf));
    bi_output_body(output, buf, bide_buf_data(buf), bide_buf_size(buf));
    bi_output_add(output, "\r\n", 2);
    bide_buf_unref(buf);
    return true;
}

const char *bi_beanstalk_ext_result(struct request *request, const struct command *command)
{
    struct conn *conn = &request->conn->base;

    request->reply = reply_result;
    /* Results may be large: reserve their size in expected_bytes before they arrive. */
    request->expected_bytes = conn->server->options->max_result_size;
    request->op.fetch = (bide_fetch_args){.id = command->id};

    if (command->has_timeout) {
        request->blocking = true;
        request->op.kind = BIDE_OP_WAIT;
        request->op.wait = (bide_wait_args){
            .id = command->id, .timeout_ms = conn->half_closed ? 0 : command->timeout_ms};
    }
    return NULL;
}

/* ---- update, purge-tube ---- */

static bool reply_update(struct request *request)
{
    /* A reserved job is not changed. NOT_FOUND, its usual reply, would deny that it exists. */
    if (request->op.status == BIDE_RESERVED)
        request->op.status = BIDE_WRONG_STATE;
    return bi_beanstalk_verb_reply(request);
}

const char *bi_beanstalk_ext_update(struct request *request, const struct command *command)
{
    request->reply = reply_update;
    request->op.update = command->update;
    return NULL;
}

static void write_purged(struct request *request)
{
    bi_output_format(&request->conn->base.output, "PURGED %llu\r\n",
                     (unsigned long long)request->op.purge.count);
}

/* Blocking: a purge runs in slices, and the commands behind it must see its whole effect. */
const char *bi_beanstalk_ext_purge(struct request *request, const struct command *command)
{
    request->write = write_purged;
    request->op.purge = (bide_purge_args){.topic = command->name, .state = command->state};
    bi_admission_audit(&request->conn->base, &request->op);
    return NULL;
}

/* ---- topic-set, topic-get ---- */

/* Blocking: a put or reserve behind it must see the policy. */
const char *bi_beanstalk_ext_topic_set(struct request *request, const struct command *command)
{
    request->op.topic_set =
        (bide_topic_set_args){.topic = command->name, .policy = command->policy};
    bi_admission_audit(&request->conn->base, &request->op);
    return NULL;
}

/* Writes the settings, in milliseconds; what is not set is left out. */
static void write_policy(struct output *text, const char *prefix, const bide_topic_policy *policy)
{
    for (size_t i = 0; i < BI_TOPIC_POLICY_FIELDS; i++) {
        const struct policy_field *field = &bi_topic_policy_fields[i];
        int64_t value = bi_topic_policy_get(policy, field);
        if (value == field->none)
            continue;

        bi_output_text(text, prefix);
        for (const char *c = field->name; *c != 0; c++)
            bi_output_add(text, *c == '_' ? "-" : c, 1);
        bi_output_format(text, ": %lld\n", value < 0 ? -1LL : (long long)value);
    }
}

static void write_topic_policy(struct request *request)
{
    struct output text;
    bi_beanstalk_stats_begin_document(&text);
    write_policy(&text, "", &request->policies[0]);
    write_policy(&text, "in-force-", &request->policies[1]);
    bi_beanstalk_stats_end_document(request->conn, &text);
}

const char *bi_beanstalk_ext_topic_get(struct request *request, const struct command *command)
{
    request->write = write_topic_policy;
    request->op.topic_get = (bide_topic_get_args){
        .topic = command->name, .policy = &request->policies[0], .in_force = &request->policies[1]};
    return NULL;
}
