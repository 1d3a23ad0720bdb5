/* SPDX-License-Identifier: MIT */
/*
 * call - the verb `call`: any op, as bytes, answered whenever it has completed.
 *
 * Calls do not stand in the line of their connection: answers carry the tag of their call and come
 * in any order, so a reserve that waits holds up nobody. Jobs that a call reserves do not belong to
 * the connection; their tokens are good on any other. What does belong to it are the calls
 * themselves, the feeds of events that they subscribed and the references to topics that they made:
 * when it goes, what waits is cancelled, what arrives for it is given back, feeds and references end.
 *
 * Answers    An answer is encoded when the output has room for it; until then the call keeps its
 *            result. A call that was answered with leases is kept until the socket has taken its
 *            whole answer: if the connection goes before that, its jobs are given back.
 * Limits     A connection with BI_CALLS_MAX calls that do not wait, or with answers that do not fit
 *            the output, is not read. Calls that wait are bounded by max_waiters of the queue and by
 *            max_waiters_per_connection, feeds by max_feeds_per_connection. A
 *            reserve that brings jobs while ANSWERS_MAX bytes are unread gives them back, and is
 *            made again when the client has read. Calls for which the memory of all clients has no
 *            room answer BIDE_EBUSY. A client that leaves ANSWERS_MAX bytes unread is closed.
 */
#include "backend/call.h"
#include "backend/beanstalk_kind.h"
#include "server/inside.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_KEEP ((size_t)1 << 20) /* of the memory in which answers are made */

#define STOP_US         1000 /* of cancelling calls of a connection, or making them again */
#define GIVE_WORK       4    /* units of work: to give a job back, */
#define CANCEL_WORK     2    /* to cancel a call, */
#define TOPICS_PER_WORK 8    /* and as many of its topics */

struct call {
    struct call_op coded; /* first: its op is the call */
    struct server *server;
    struct conn *conn; /* NULL: it has gone */
    struct call *prev, *next;
    struct tag_link by_tag; /* in the table of its connection until it is cancelled or ends */
    uint64_t tag;
    size_t size;            /* of its arguments */
    size_t memory;          /* counted in the server's client_bytes */
    bide_buf *body;         /* what the arguments lie in; may be NULL */
    struct feed_link *link; /* unsubscribe: the feed that ends */
    struct tube *reference; /* topic_ref: what it is about */
    bool unreferenced;      /* topic_ref: the connection has no reference to give back */
    size_t promised;        /* bytes that its answer may have, about */
    size_t unsaid;          /* counted in the connection's unsaid_bytes */
    uint64_t end;           /* of its answer, among all bytes of the output */
    int64_t until;          /* a call that waits: its time is over then */
    bool stopped;           /* nobody wants to know that it was cancelled */
    bool held;              /* among the server's held ones, */
    bool bulk;              /* and those of connections that send much */
    bool waits;             /* pending until something happens */
    bool batched;           /* its promise is among the expected bytes of the connection */
    bool again;             /* a reserve that can be submitted again */
    bool parked;            /* its jobs were given back: it is to be submitted again */
    bool may_wait;          /* its timeout is not 0 */
    bool crowded;           /* it is now, because its connection has too many that wait */
    bool cancelled;         /* its client has asked for that */
};

struct feed_link {
    struct feed_link *next;
    uint64_t number;
    bide_feed *feed;
};

/* ---- answers ---- */

static void say_answer(struct conn *conn, uint64_t tag, int code, const struct call_bytes *result)
{
    struct output *output = &conn->output;
    bi_output_format(output, "ANSWER %llu %d %zu\r\n", (unsigned long long)tag, code, result->size);
    bi_output_add(output, result->data, result->size);
    bi_output_add(output, "\r\n", 2);
    bi_server_mark(conn);
}

/* The memory in which answers are made, empty. */
static struct call_bytes *fresh_answer(struct server *server)
{
    if (server->answer.room > ANSWER_KEEP)
        bi_call_bytes_free(&server->answer);
    server->answer.size = 0;
    return &server->answer;
}

void bi_call_refuse(struct conn *conn, uint64_t tag, int code, const char *sentence)
{
    struct call_bytes *result = fresh_answer(conn->server);
    if (bi_call_encode_refusal(sentence, result) == BIDE_OK)
        say_answer(conn, tag, code, result);
    else
        conn->dead = true;
    bi_server_mark(conn);
}

/* ---- feeds ---- */

static bool add_feed(struct conn *conn, bide_feed *feed, uint64_t *number)
{
    struct feed_link *link = malloc(sizeof(*link));
    if (link == NULL)
        return false;
    *number = ++conn->feed_count;
    *link = (struct feed_link){conn->feeds, *number, feed};
    conn->feeds = link;
    conn->feed_links++;
    return true;
}

static struct feed_link **find_feed(struct conn *conn, uint64_t number)
{
    struct feed_link **link = &conn->feeds;
    while (*link != NULL && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

/* Puts the feed into an op that names one. One that is about to end cannot be named again. */
static bool name_feed(struct call *call)
{
    bide_op *op = &call->coded.op;
    if (op->kind != BIDE_OP_EVENTS && op->kind != BIDE_OP_UNSUBSCRIBE)
        return true;
    struct feed_link **found = find_feed(call->conn, call->coded.feed);
    struct feed_link *link = *found;
    if (link == NULL)
        return false;
    op->feed.feed = link->feed;
    if (op->kind == BIDE_OP_UNSUBSCRIBE) {
        *found = link->next;
        call->link = link;
    }
    return true;
}

/* ---- the life of a call ---- */

static void call_done(bide_op *op);

static struct call *new_call(struct server *server, struct conn *conn, uint64_t tag)
{
    struct call *call = malloc(sizeof(*call));
    if (call == NULL)
        return NULL;
    call->server = server;
    call->conn = conn;
    call->prev = call->next = NULL;
    call->by_tag.from = NULL;
    call->tag = tag;
    call->size = call->memory = call->promised = call->unsaid = 0;
    call->body = NULL;
    call->link = NULL;
    call->reference = NULL;
    call->unreferenced = false;
    call->stopped = call->held = call->waits = call->batched = call->parked = false;
    call->bulk = call->again = call->may_wait = call->crowded = call->cancelled = false;
    call->until = INT64_MAX;
    return call;
}

static void free_call(struct call *call)
{
    bi_call_done(&call->coded);
    bide_buf_unref(call->body);
    free(call->link);
    call->server->client_bytes -= call->memory;
    if (call->conn != NULL)
        call->conn->call_bytes -= call->memory;
    free(call);
}

/* It takes so much more of memory. */
static void count_memory(struct call *call, size_t bytes)
{
    call->memory += bytes;
    call->server->client_bytes += bytes;
    if (call->conn != NULL)
        call->conn->call_bytes += bytes;
}

/* One more, or one less, of what a connection may have only so many of. */
static void count_limited(const struct call *call, int delta)
{
    struct conn *conn = call->conn;
    if (call->may_wait) {
        conn->may_wait += (uint32_t)delta;
        call->server->may_wait += (uint64_t)(int64_t)delta;
    }
    if (call->coded.op.kind == BIDE_OP_SUBSCRIBE)
        conn->feed_asked += (uint32_t)delta;
}

/* False: out of memory. */
static bool link_call(struct call *call)
{
    struct conn *conn = call->conn;
    if (!bi_tag_table_add(&conn->tags, &call->by_tag, call->tag))
        return false;
    call->prev = NULL;
    call->next = conn->calls;
    if (call->next != NULL)
        call->next->prev = call;
    conn->calls = call;
    conn->call_count++;
    count_limited(call, 1);
    conn->unstopped = true;
    conn->expected += call->promised;
    call->batched = true;
    return true;
}

/* The promise of a call that is answered, or has left the batch. */
static void drop_promise(struct call *call)
{
    struct conn *conn = call->conn;
    size_t *counted = call->batched ? &conn->expected : &conn->call_promised;
    assert(call->waits || *counted >= call->promised);
    *counted -= call->waits ? 0 : call->promised;
    call->batched = false;
}

static void unlink_call(struct call *call)
{
    struct conn *conn = call->conn;
    if (call->prev != NULL)
        call->prev->next = call->next;
    else
        conn->calls = call->next;
    if (call->next != NULL)
        call->next->prev = call->prev;
    conn->call_count--;
    count_limited(call, -1);
    bi_tag_table_remove(&conn->tags, &call->by_tag);
    drop_promise(call);
    conn->call_waiting -= call->waits;
    call->waits = false;
}

/* The bytes that its topics point to are there until the batch has been submitted. */
static void keep_topics(struct call *call)
{
    size_t before = call->coded.bytes;
    if (call->again || call->coded.op.kind != BIDE_OP_RESERVE)
        return;
    call->again = bi_call_keep_topics(&call->coded) == BIDE_OK;
    count_memory(call, call->coded.bytes - before + call->coded.op.reserve.topic_count * LINK_SIZE);
}

/* What was carried out, or does not wait for something to happen, is held until it is stored. */
void bi_call_pending(bide_op *op)
{
    struct call *call = (struct call *)(void *)op;
    keep_topics(call);
    call->held =
        op->applied ||
        (op->kind != BIDE_OP_RESERVE && op->kind != BIDE_OP_FINISH_AND_RESERVE &&
         op->kind != BIDE_OP_WAIT && op->kind != BIDE_OP_EVENTS && op->kind != BIDE_OP_RECOVERED);
    if (call->held)
        call->bulk = bi_server_hold(call->server, call->conn, call->size);
    if (call->conn == NULL || !call->batched)
        return;
    drop_promise(call);
    const int64_t *timeout = bi_kind_timeout(op);
    call->waits = timeout != NULL && *timeout != 0 && !op->applied;
    call->conn->call_waiting += call->waits;
    call->conn->call_promised += call->waits ? 0 : call->promised;
}

static void let_go(struct call *call)
{
    if (call->held)
        bi_server_let_go(call->server, call->bulk, call->size);
    call->held = false; /* it may be submitted again, and finish within that */
}

static void submit(struct call *call)
{
    bide_op *op = &call->coded.op;
    op->cq = call->server->cq;
    op->done = call_done;
    op->user = call; /* it is not a request */
    op->private_.order = call->conn == NULL ? 0 : call->conn->order;
    call->server->under_way++;
    bi_server_submit(call->server, op);
}

/* Ends a feed that nobody reads. Without memory it lives until the queue is closed. */
static void end_feed(struct server *server, bide_feed *feed)
{
    char error[BIDE_ERROR_SIZE];
    struct call *call = new_call(server, NULL, 0);
    if (call == NULL)
        return;
    if (bi_call_decode(&call->coded, BIDE_OP_UNSUBSCRIBE, NULL, 0, error) != BIDE_OK) {
        free(call);
        return;
    }
    call->coded.op.feed.feed = feed;
    submit(call);
}

/* ---- what has completed ---- */

/* The jobs that a completed call has reserved; answers how many. */
static size_t leases_of(const bide_op *op, const bide_job **jobs)
{
    if (op->status != BIDE_OK || !bi_kind_takes(op->kind))
        return 0;
    if (op->kind == BIDE_OP_RESERVE_JOB) {
        *jobs = op->reserve_job.job;
        return 1;
    }
    const bide_reserve_args *args =
        op->kind == BIDE_OP_RESERVE ? &op->reserve : &op->finish_and_reserve.reserve;
    *jobs = args->jobs;
    return args->count;
}

/* What it brought will not be told to anybody. */
static void take_back(struct call *call)
{
    const bide_op *op = &call->coded.op;
    const bide_job *jobs = NULL;
    size_t count = leases_of(op, &jobs);
    for (size_t i = 0; i < count; i++)
        bi_request_give_back(call->server, jobs[i].id, jobs[i].token, false);
    bi_server_count_work(call->server, count * GIVE_WORK);
    if (op->kind == BIDE_OP_SUBSCRIBE && op->status == BIDE_OK && call->coded.feed == 0)
        end_feed(call->server, op->feed.feed); /* the connection does not know it */
}

/* The connection's feeds are as the queue's are. False: there is no memory for that. */
static bool follow_feeds(struct call *call)
{
    bide_op *op = &call->coded.op;
    struct conn *conn = call->conn;
    if (op->kind == BIDE_OP_SUBSCRIBE && op->status == BIDE_OK)
        return add_feed(conn, op->feed.feed, &call->coded.feed);
    if (call->link != NULL && op->status != BIDE_OK) {
        call->link->next = conn->feeds;
        conn->feeds = call->link;
        call->link = NULL;
    } else if (call->link != NULL) {
        conn->feed_links--;
    }
    return true;
}

/* ---- references to topics ---- */

/* Asks only whether there is such a topic: its references belong to others. */
static int look_for_topic(struct call *call, const struct command *command, char *error)
{
    bi_call_done(&call->coded);
    call->unreferenced = true;
    return bi_call_decode(&call->coded, BIDE_OP_TOPIC_STATS, command->body.data, command->body.size,
                          error);
}

static int begin_reference(struct call *call, const struct command *command, char *error)
{
    int code = bi_call_reference_begin(call->conn, &call->coded.op, &call->reference, error);
    return code == BIDE_NOT_FOUND ? look_for_topic(call, command, error) : code;
}

static void end_reference(struct call *call)
{
    bide_op *op = &call->coded.op;
    if (call->reference != NULL)
        bi_call_reference_end(call->conn, call->reference, op->topic.delta, op->status == BIDE_OK);
    call->reference = NULL;
    if (!call->unreferenced || op->status != BIDE_OK)
        return;
    op->status = BIDE_EINVAL;
    snprintf(op->error, sizeof(op->error),
             "topic_ref: this connection has no reference to the topic left");
}

/* ---- what is still to be read ---- */

/* Somebody who asks and does not read: for long, or although all together have too much. */
static bool is_flooded(struct conn *conn)
{
    const struct server *server = conn->server;
    if (bi_call_unread(conn) > OUTPUT_HIGH) {
        bi_conn_write(conn);
        bi_conn_count_memory(conn);
    }
    return conn->dead || bi_call_is_stuck(conn) ||
           (bi_call_unread(conn) > ANSWERS_SHARE &&
            server->client_bytes / 2 > server->limits.max_client_bytes);
}

static void cut_off(struct conn *conn)
{
    if (!conn->dead)
        bi_log(&conn->server->log, BIDE_LOG_WARN,
               "a connection is closed: it does not read the answers to its calls");
    conn->dead = true;
    bi_server_mark(conn);
}

static void append(struct call **head, struct call **tail, struct call *call)
{
    call->next = NULL;
    *(*head != NULL ? &(*tail)->next : head) = call;
    *tail = call;
}

/* How many bytes of jobs and results it has. */
static size_t result_size(const bide_op *op)
{
    const bide_job *jobs = NULL;
    size_t count = leases_of(op, &jobs);
    size_t size = 0;
    if (op->status != BIDE_OK)
        return 0;
    if (op->kind == BIDE_OP_LIST) {
        jobs = op->list.jobs;
        count = op->list.count;
    } else if (op->kind == BIDE_OP_PEEK || op->kind == BIDE_OP_PEEK_FIRST ||
               op->kind == BIDE_OP_FIND) {
        jobs = op->look.job;
        count = 1;
    } else if (op->kind == BIDE_OP_BODY || op->kind == BIDE_OP_RESULT) {
        size = bide_buf_size(op->fetch.buf);
    } else if (op->kind == BIDE_OP_WAIT) {
        size = bide_buf_size(op->wait.result);
    }
    for (size_t i = 0; i < count; i++)
        size += (jobs[i].body == NULL ? 0 : jobs[i].body_size) + jobs[i].result_size +
                jobs[i].last_error_size;
    return size;
}

/* Encodes the answer. The call is done, or kept until its answer has been sent. */
static void say_result(struct call *call)
{
    struct conn *conn = call->conn;
    struct call_bytes *result = fresh_answer(call->server);
    const bide_job *jobs = NULL;
    if (conn->dead || bi_call_encode_result(&call->coded, result) != BIDE_OK) {
        take_back(call);
        if (!conn->dead)
            bi_call_refuse(conn, call->tag, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
        free_call(call);
        return;
    }
    say_answer(conn, call->tag, call->coded.op.status, result);
    if (leases_of(&call->coded.op, &jobs) == 0) {
        free_call(call);
        return;
    }
    call->end = conn->output.gone + bi_output_left(&conn->output);
    append(&conn->unsent_head, &conn->unsent_tail, call);
}

static void say_cancelled(bide_op *op)
{
    snprintf(op->error, sizeof(op->error), "%s", bide_code_text(BIDE_CANCELLED));
}

/* Too much is unread for the jobs of a reserve: they go back, and it waits for its turn. */
static void park(struct call *call)
{
    bide_op *op = &call->coded.op;
    if (!call->again || op->status != BIDE_OK || bi_call_unread(call->conn) <= ANSWERS_MAX)
        return;
    /* Without memory for its tag it is answered, like any other. */
    if (!call->cancelled && !bi_tag_table_add(&call->conn->tags, &call->by_tag, call->tag))
        return;
    take_back(call);
    for (size_t i = 0; i < op->reserve.count; i++)
        bide_job_clear(&op->reserve.jobs[i]);
    op->reserve.count = 0;
    op->status = BIDE_CANCELLED; /* as before its submit: there is nothing to be given back */
    call->parked = !call->cancelled;
    if (call->cancelled)
        say_cancelled(op);
}

/* Makes a parked call again, with what is left of its time. */
static void make_again(struct call *call)
{
    struct server *server = call->server;
    int64_t *timeout = &call->coded.op.reserve.timeout_ms;
    int64_t left = (call->until - server->now) / 1000;
    call->parked = false;
    if (*timeout > 0)
        *timeout = left > 0 ? left : 0;
    if (link_call(call)) {
        server->remaking = true;
        submit(call);
        server->remaking = false;
        return;
    }
    bi_call_refuse(call->conn, call->tag, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
    free_call(call);
}

/* No call is made again within the submit of another, on whose stack it may be answered, nor for long. */
void bi_call_sent(struct conn *conn)
{
    const struct server *server = conn->server;
    const int64_t end = server->now + STOP_US;
    struct call *call;
    while ((call = conn->unsent_head) != NULL && call->end <= conn->output.gone) {
        conn->unsent_head = call->next;
        free_call(call);
    }
    while ((call = conn->unsaid_head) != NULL && bi_output_left(&conn->output) <= OUTPUT_HIGH) {
        if (call->parked && !call->stopped && (server->remaking || server->now >= end)) {
            bi_server_mark(conn);
            return;
        }
        conn->unsaid_head = call->next;
        conn->unsaid_bytes -= call->unsaid;
        bi_tag_table_remove(&conn->tags, &call->by_tag);
        if (!call->parked)
            say_result(call);
        else if (call->stopped)
            free_call(call);
        else
            make_again(call);
    }
}

/* A completed call of a connection: its answer goes to the output, or waits for room there. */
static void answer(struct call *call)
{
    struct conn *conn = call->conn;
    if (conn->gone) {
        take_back(call);
        free_call(call);
        return;
    }
    bi_server_mark(conn);
    if (call->crowded && call->coded.op.status == BIDE_TIMED_OUT)
        bi_call_refuse_wait(conn, &call->coded.op);
    if (conn->dead || !follow_feeds(call)) {
        take_back(call);
        if (!conn->dead)
            bi_call_refuse(conn, call->tag, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
        free_call(call);
    } else if (call->stopped && call->coded.op.status == BIDE_CANCELLED) {
        free_call(call);
    } else {
        park(call);
        call->unsaid = result_size(&call->coded.op);
        conn->unsaid_bytes += call->unsaid;
        append(&conn->unsaid_head, &conn->unsaid_tail, call);
        conn->unstopped = true;
        bi_call_sent(conn);
    }
    if (is_flooded(conn))
        cut_off(conn);
}

static void call_done(bide_op *op)
{
    struct call *call = (struct call *)(void *)op;
    call->server->under_way--;
    let_go(call);
    if (call->conn == NULL) {
        if (call->reference != NULL)
            bi_call_reference_settle(call->server, call->reference, op->topic.delta,
                                     op->status == BIDE_OK);
        take_back(call);
        free_call(call);
    } else {
        unlink_call(call);
        end_reference(call);
        answer(call);
    }
}

/* ---- the verbs ---- */

/* Makes a call of the command, which is linked and may be submitted. Answers the code, with a
 * sentence. */
static int begin(struct conn *conn, const struct command *command, struct call **out, char *error)
{
    struct server *server = conn->server;
    bide_op_kind kind = bi_call_kind(command->name.data, command->name.size);
    if (kind == BIDE_OP_NONE) {
        snprintf(error, BIDE_ERROR_SIZE, "call: there is no op of this name");
        return BIDE_ENOTSUP;
    }
    struct call *call = new_call(server, conn, command->tag);
    int code = call == NULL ? BIDE_ENOMEM
                            : bi_call_decode(&call->coded, kind, command->body.data,
                                             command->body.size, error);
    if (code != BIDE_OK) {
        free(call);
        return code;
    }
    call->size = command->body.size;
    size_t memory = sizeof(*call) + call->coded.bytes + bide_buf_size(command->buf);
    if (!bi_call_has_room(conn, memory)) {
        snprintf(error, BIDE_ERROR_SIZE, "%s: the server has no memory for this call now",
                 bide_op_name(kind));
        code = BIDE_EBUSY;
    } else if (kind == BIDE_OP_BACKUP) {
        code = bi_call_check_backup(conn, call->coded.op.backup.path, error);
    } else if (kind == BIDE_OP_SUBSCRIBE) {
        code = bi_call_check_feeds(conn, error);
    } else if (kind == BIDE_OP_TOPIC_REF) {
        code = begin_reference(call, command, error);
    } else if (!name_feed(call)) {
        snprintf(error, BIDE_ERROR_SIZE, "%s: this connection has no feed of this number",
                 bide_op_name(kind));
        code = BIDE_EINVAL;
    }
    count_memory(call, memory);
    call->body = bide_buf_ref(command->buf);
    if (code != BIDE_OK)
        free_call(call);
    else
        *out = call;
    return code;
}

/* How long it may wait; not at all, if its connection has enough calls that do. */
static void set_timeout(struct call *call)
{
    int64_t *timeout = bi_kind_timeout(&call->coded.op);
    if (timeout == NULL || *timeout == 0 || *timeout < BIDE_FOREVER || *timeout > BIDE_TIME_MAX_MS)
        return; /* it does not wait, or is refused */
    call->may_wait = bi_call_may_wait(call->conn);
    call->crowded = !call->may_wait;
    if (call->crowded)
        *timeout = 0;
    if (*timeout > 0)
        call->until = call->server->now + *timeout * 1000;
}

void bi_beanstalk_call(struct conn *conn, const struct command *command)
{
    char error[BIDE_ERROR_SIZE] = "out of memory";
    struct call *call = NULL;
    int code = begin(conn, command, &call, error);
    if (code != BIDE_OK) {
        bi_call_refuse(conn, command->tag, code, error);
        return;
    }
    set_timeout(call);
    call->promised = bi_call_promise(conn->server, &call->coded.op);
    bi_admit_audit(conn, &call->coded.op);
    if (link_call(call)) {
        submit(call);
        return;
    }
    call->coded.op.status = BIDE_ENOMEM;
    follow_feeds(call);
    end_reference(call);
    bi_call_refuse(conn, command->tag, BIDE_ENOMEM, "out of memory");
    free_call(call);
}

/* The latest call of this tag that is under way or parked; NULL: there is none. */
static struct call *find_call(const struct conn *conn, uint64_t tag)
{
    struct tag_link *link = bi_tag_table_find(&conn->tags, tag);
    return link == NULL ? NULL
                        : (struct call *)(void *)((char *)link - offsetof(struct call, by_tag));
}

static void cancel(struct call *call)
{
    if (call->coded.op.status == BIDE_PENDING)
        bide_cancel_op(call->server->queue, &call->coded.op);
}

/* Cancels a call; that takes as long as it waits for topics. */
static void end_wait(struct call *call)
{
    const bide_op *op = &call->coded.op;
    size_t topics = op->kind == BIDE_OP_RESERVE ? op->reserve.topic_count : 0;
    cancel(call);
    bi_server_count_work(call->server, CANCEL_WORK + topics / TOPICS_PER_WORK);
}

/* A call that is to be made again is answered in its turn: that it was cancelled. */
static void cancel_parked(struct call *call)
{
    call->parked = false;
    say_cancelled(&call->coded.op);
}

void bi_beanstalk_call_cancel(struct conn *conn, const struct command *command)
{
    struct call *call = find_call(conn, command->tag);
    if (call != NULL && call->batched) {
        bi_server_flush(conn->server); /* it may be answered then */
        call = find_call(conn, command->tag);
    }
    if (call == NULL)
        return;
    /* Its end may not be known before the next command, which may name an older call of this tag. */
    bi_tag_table_remove(&conn->tags, &call->by_tag);
    call->cancelled = true;
    if (call->parked)
        cancel_parked(call);
    else
        end_wait(call);
}

/* ---- the end of a connection ---- */

void bi_call_stop(struct conn *conn)
{
    struct server *server = conn->server;
    int64_t end = server->now + STOP_US;
    if (!conn->unstopped)
        return;
    for (struct call *call = conn->unsaid_head; call != NULL; call = call->next)
        call->stopped = true;
    if (conn->calls != NULL)
        bi_server_flush(server);

    struct call *call = conn->calls;
    for (; call != NULL && server->now < end; call = call->next) {
        if (call->stopped)
            continue;
        call->stopped = true;
        end_wait(call);
    }
    conn->unstopped = call != NULL;
    if (conn->unstopped)
        bi_server_mark(conn);
}

static struct call *pop(struct call **head)
{
    struct call *call = *head;
    if (call != NULL)
        *head = call->next;
    return call;
}

bool bi_call_drop(struct conn *conn)
{
    struct call *call = conn->calls;
    assert(conn->gone);
    if (call != NULL) {
        unlink_call(call);
        if (call->reference != NULL)
            call->reference =
                bi_call_reference_leave(conn, call->reference, call->coded.op.topic.delta);
        conn->call_bytes -= call->memory;
        call->conn = NULL;
        end_wait(call);
        return true;
    }
    /* What calls brought that the client has not been told. */
    call = pop(conn->unsaid_head != NULL ? &conn->unsaid_head : &conn->unsent_head);
    if (call != NULL) {
        bi_tag_table_remove(&conn->tags, &call->by_tag);
        take_back(call);
        free_call(call);
        return true;
    }
    struct feed_link *link = conn->feeds;
    if (link != NULL) {
        conn->feeds = link->next;
        end_feed(conn->server, link->feed);
        free(link);
        return true;
    }
    bi_tag_table_done(&conn->tags);
    return bi_call_reference_drop(conn);
}
