/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_more - the verbs that bide adds: lists of jobs put and reserved in one command, results,
 * changes from outside.
 */
#define _GNU_SOURCE /* memmem */
#include "server/inside.h"

#include <stdlib.h>
#include <string.h>

/* A request of a verb that old clients do not have. */
static struct request *ask(struct conn *conn, bide_op_kind kind,
                           bool (*answer)(struct request *request))
{
    struct request *request = bi_beanstalk_ask(conn, kind, answer);
    if (request != NULL)
        request->modern = true;
    return request;
}

/* ---- put-many ---- */

struct many {
    size_t said;  /* items in the command */
    size_t count; /* of these, good ones */
    struct many_item {
        bide_put_options options;
        enum { GOOD, BAD, TOO_BIG } fault;
        char key[BIDE_KEY_MAX];
    } * items;
    bide_put_item puts[];
};

/* One item: its line and its body. False: the data make no sense from here on. */
static bool read_item(const struct server *server, struct many *many, size_t i, bide_slice *left)
{
    struct command command;
    const char *data = left->data;
    const char *end =
        memmem(data, left->size < LINE_MAX_MORE ? left->size : LINE_MAX_MORE, "\r\n", 2);
    if (end == NULL)
        return false;
    enum parse parse = bi_beanstalk_parse_item(&command, data, (size_t)(end - data));
    size_t line = (size_t)(end - data) + 2;
    size_t size = command.body_size;
    if (parse == PARSE_BAD_FORMAT || left->size - line < size + 2 ||
        memcmp(data + line + size, "\r\n", 2) != 0)
        return false;
    struct many_item *item = &many->items[i];
    item->options = command.put;
    item->fault = parse != PARSE_OK ? BAD : size > server->max_job_size ? TOO_BIG : GOOD;
    if (command.put.key.size > 0) {
        memcpy(item->key, command.put.key.data, command.put.key.size);
        item->options.key.data = item->key;
    }
    bi_beanstalk_set_expiry(&item->options, command.expires_ms);
    many->puts[i].body = (bide_slice){data + line, size};
    *left = (bide_slice){data + line + size + 2, left->size - line - size - 2};
    return true;
}

static bool read_items(struct conn *conn, struct many *many, size_t count, bide_slice data)
{
    for (size_t i = 0; i < count; i++)
        if (!read_item(conn->server, many, i, &data))
            return false;
    return data.size == 0;
}

/* Only the good ones are put; they move to the front, and know where they were. */
static void gather_good(struct many *many, size_t count, bide_slice topic)
{
    many->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (many->items[i].fault != GOOD)
            continue;
        bide_put_item *put = &many->puts[many->count++];
        *put = (bide_put_item){
            .topic = topic, .body = many->puts[i].body, .options = &many->items[i].options};
    }
}

static void say_item(struct output *text, struct request *request, const bide_put_item *put)
{
    if (put->status == BIDE_OK || put->status == BIDE_EXISTS) {
        bi_output_format(text, "- %s %llu\n", put->status == BIDE_OK ? "INSERTED" : "EXISTS",
                         (unsigned long long)put->id);
        return;
    }
    int status = request->op.status;
    request->op.status = put->status;
    const char *word = bi_beanstalk_refusal(request);
    request->op.status = status;
    bi_output_format(text, "- %.*s\n", (int)strlen(word) - 2, word);
}

static bool answer_put_many(struct request *request)
{
    struct many *many = request->extra;
    struct output text;
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_init(&text);
    bi_output_text(&text, "---\n");
    size_t good = 0;
    for (size_t i = 0; i < many->said; i++) {
        if (many->items[i].fault == GOOD)
            say_item(&text, request, &many->puts[good++]);
        else
            bi_output_text(&text,
                           many->items[i].fault == BAD ? "- BAD_FORMAT\n" : "- JOB_TOO_BIG\n");
    }
    bi_beanstalk_say_document(request->conn, &text);
    bi_output_done(&text);
    return true;
}

void bi_beanstalk_put_many(struct conn *conn, const struct command *command)
{
    size_t count = (size_t)command->count;
    size_t size = sizeof(struct many) + count * (sizeof(bide_put_item) + sizeof(struct many_item));
    struct many *many = calloc(1, size);
    struct request *request = many == NULL ? NULL : ask(conn, BIDE_OP_PUT_MANY, answer_put_many);
    if (request == NULL) {
        if (many == NULL)
            bi_conn_say(conn, "OUT_OF_MEMORY\r\n");
        free(many);
        return;
    }
    many->items = (struct many_item *)(void *)&many->puts[count];
    request->extra = many;
    if (!read_items(conn, many, count, command->body)) {
        bi_request_free(request);
        bi_conn_say(conn, "BAD_FORMAT\r\n");
        return;
    }
    gather_good(many, count, bi_tube_name(conn->session.used));
    many->said = count;
    request->bytes = command->body.size + size; /* small jobs take more than their bodies */
    request->op.put_many = (bide_put_many_args){.items = many->puts, .count = many->count};
    if (many->count == 0)
        request->op.kind = BIDE_OP_PING;
    bi_request_ask(request);
    bi_server_flush(conn->server);
}

/* ---- reserve-many ---- */

static bool answer_reserve_many(struct request *request)
{
    struct output *output = &request->conn->output;
    bide_job *jobs = request->extra;
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_format(output, "RESERVED_MANY %zu\r\n", request->op.reserve.count);
    for (size_t i = 0; i < request->op.reserve.count; i++) {
        bi_output_format(output, "%llu %llu %zu\r\n", (unsigned long long)jobs[i].id,
                         (unsigned long long)jobs[i].token, jobs[i].body_size);
        bi_output_body(output, jobs[i].bufs_[0], jobs[i].body, jobs[i].body_size);
        bi_output_add(output, "\r\n", 2);
        bide_job_clear(&jobs[i]);
    }
    return true;
}

/* No more jobs than their bodies may take together; the queue bounds topics times jobs. */
static size_t bounded_count(const struct conn *conn, uint64_t count)
{
    size_t bytes = EXPECTED_HIGH / (conn->server->max_job_size + 1);
    size_t work = BIDE_RESERVE_WORK / conn->session.watched_count;
    size_t max = bytes < work ? bytes : work;
    return count < max ? (size_t)count : max == 0 ? 1 : max;
}

void bi_beanstalk_reserve_many(struct conn *conn, const struct command *command)
{
    size_t count = bounded_count(conn, command->count);
    bide_job *jobs = calloc(count, sizeof(*jobs));
    struct request *request = jobs == NULL ? NULL : ask(conn, BIDE_OP_RESERVE, answer_reserve_many);
    if (request == NULL) {
        if (jobs == NULL)
            bi_conn_say(conn, "OUT_OF_MEMORY\r\n");
        free(jobs);
        return;
    }
    bi_beanstalk_works(conn);
    request->extra = jobs;
    request->blocking = true;
    request->expected = count * conn->server->max_job_size;
    request->op.reserve =
        (bide_reserve_args){.topics = conn->session.names,
                            .topic_count = conn->session.watched_count,
                            .timeout_ms = conn->half_closed ? 0 : command->timeout_ms,
                            .jobs = jobs,
                            .job_max = count};
    bi_request_ask(request);
}

/* ---- results ---- */

static void say_result(struct request *request, uint64_t id, bide_buf *buf)
{
    struct output *output = &request->conn->output;
    bi_output_format(output, "RESULT %llu %zu\r\n", (unsigned long long)id, bide_buf_size(buf));
    bi_output_body(output, buf, bide_buf_data(buf), bide_buf_size(buf));
    bi_output_add(output, "\r\n", 2);
    bide_buf_unref(buf);
}

static bool answer_result(struct request *request)
{
    if (request->op.status == BIDE_WRONG_STATE) {
        bi_output_text(&request->conn->output, "NOT_DONE\r\n");
        return true;
    }
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    say_result(request, request->op.fetch.id, request->op.fetch.buf);
    return true;
}

static bool answer_wait(struct request *request)
{
    bide_wait_args *wait = &request->op.wait;
    struct output *output = &request->conn->output;
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    if (wait->state == BIDE_STATE_DONE) {
        say_result(request, wait->id, wait->result);
        return true;
    }
    bide_buf_unref(wait->result);
    bi_output_text(output, wait->state == BIDE_STATE_BURIED ? "BURIED\r\n" : "NOT_FOUND\r\n");
    return true;
}

void bi_beanstalk_result(struct conn *conn, const struct command *command)
{
    if (!bi_beanstalk_is_id(command->id)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return;
    }
    bool waits = command->has_timeout;
    struct request *request =
        ask(conn, waits ? BIDE_OP_WAIT : BIDE_OP_RESULT, waits ? answer_wait : answer_result);
    if (request == NULL)
        return;
    request->expected = conn->server->max_result_size;
    request->blocking = waits;
    if (waits)
        request->op.wait = (bide_wait_args){
            .id = command->id, .timeout_ms = conn->half_closed ? 0 : command->timeout_ms};
    else
        request->op.fetch = (bide_fetch_args){.id = command->id};
    bi_request_ask(request);
}

/* ---- changes from outside ---- */

static bool answer_update(struct request *request)
{
    /* A holder is not disturbed: to whom that is said the job is there all the same. */
    if (request->op.status == BIDE_RESERVED)
        request->op.status = BIDE_WRONG_STATE;
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_text(&request->conn->output, "UPDATED\r\n");
    return true;
}

void bi_beanstalk_update(struct conn *conn, const struct command *command)
{
    if (!bi_beanstalk_is_id(command->id)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return;
    }
    struct request *request = ask(conn, BIDE_OP_UPDATE, answer_update);
    if (request == NULL)
        return;
    request->op.update = command->update;
    bi_request_ask(request);
    bi_server_flush(conn->server); /* the tube's name lies in the command */
}

static bool answer_cancel(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_text(&request->conn->output, "CANCELLED\r\n");
    return true;
}

void bi_beanstalk_cancel(struct conn *conn, const struct command *command)
{
    if (!bi_beanstalk_is_id(command->id)) {
        bi_conn_say(conn, "NOT_FOUND\r\n");
        return;
    }
    struct request *request = ask(conn, BIDE_OP_CANCEL, answer_cancel);
    if (request == NULL)
        return;
    request->op.lease = (bide_lease_args){command->id, 0};
    bi_request_ask(request);
}

static bool answer_purge(struct request *request)
{
    if (request->op.status != BIDE_OK)
        return bi_beanstalk_refuse(request);
    bi_output_format(&request->conn->output, "PURGED %llu\r\n",
                     (unsigned long long)request->op.purge.count);
    return true;
}

void bi_beanstalk_purge(struct conn *conn, const struct command *command)
{
    struct request *request = ask(conn, BIDE_OP_PURGE, answer_purge);
    if (request == NULL)
        return;
    request->blocking = true;
    request->op.purge = (bide_purge_args){.topic = command->name, .state = command->state};
    bi_admit_audit(conn, &request->op);
    bi_request_ask(request);
    bi_server_flush(conn->server);
}
