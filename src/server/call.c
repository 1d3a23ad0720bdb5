/* SPDX-License-Identifier: MIT */
/*
 * call - the verb `call`: any op, as bytes, answered whenever it has completed.
 *
 * Calls do not stand in the line of their connection: answers carry the tag of their call and come
 * in any order, so a reserve that waits holds up nobody. Jobs that a call reserves do not belong to
 * the connection; their tokens are good on any other. What does belong to it are the calls
 * themselves and the feeds of events that they subscribed: when it goes, what waits is cancelled,
 * what arrives for nobody is given back, and the feeds end.
 *
 * Answers    An answer is encoded when the output has room for it; until then the call keeps its
 *            result. A call that was answered with leases is kept until the socket has taken its
 *            whole answer: if the connection goes before that, its jobs are given back.
 * Limits     A connection with BI_CALLS_MAX calls that do not wait, or with answers that do not fit
 *            the output, is not read. Calls that wait are bounded by max_waiters of the queue. A
 *            reserve that brings jobs while ANSWERS_MAX bytes are unread gives them back, and is
 *            made again when the client has read. Calls for which the memory of all clients has no
 *            room answer BIDE_EBUSY. A client that leaves ANSWERS_MAX bytes unread is closed.
 */
#define _GNU_SOURCE /* struct ucred */
#include "backend/call.h"
#include "backend/beanstalk_kind.h"
#include "server/inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWERS_SHARE ((size_t)1 << 20) /* who has more is the first to go when memory is short */
#define SHARE_US      INT64_C(1000000)
#define HEARD_US      INT64_C(10000000) /* who has that much and takes nothing for so long is closed */
#define ANSWER_KEEP   ((size_t)1 << 20) /* of the memory in which answers are made */
#define ANSWER_SMALL  256               /* bytes of an answer that shows no jobs, about */

struct call {
    struct call_op coded; /* first: its op is the call */
    struct server *server;
    struct conn *conn; /* NULL: it has gone */
    struct call *prev, *next;
    uint64_t tag;
    size_t size;            /* of its arguments */
    size_t memory;          /* counted in the server's client_bytes */
    bide_buf *body;         /* what the arguments lie in; may be NULL */
    struct feed_link *link; /* unsubscribe: the feed that ends */
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
    call->tag = tag;
    call->size = call->memory = call->promised = call->unsaid = 0;
    call->body = NULL;
    call->link = NULL;
    call->stopped = call->held = call->waits = call->batched = call->parked = false;
    call->bulk = call->again = false;
    call->until = INT64_MAX;
    return call;
}

static void free_call(struct call *call)
{
    bi_call_done(&call->coded);
    bide_buf_unref(call->body);
    free(call->link);
    call->server->client_bytes -= call->memory;
    free(call);
}

static void link_call(struct call *call)
{
    struct conn *conn = call->conn;
    call->prev = NULL;
    call->next = conn->calls;
    if (call->next != NULL)
        call->next->prev = call;
    conn->calls = call;
    conn->call_count++;
    conn->expected += call->promised;
    call->batched = true;
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
    call->memory += call->coded.bytes - before;
    call->server->client_bytes += call->coded.bytes - before;
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
    }
    return true;
}

/* ---- what is still to be read ---- */

static size_t unread(const struct conn *conn)
{
    return bi_output_left(&conn->output) + conn->unsaid_bytes;
}

bool bi_call_is_stuck(const struct conn *conn)
{
    const struct server *server = conn->server;
    size_t left = unread(conn);
    int64_t silent = server->now - conn->heard;
    return (left > ANSWERS_MAX && silent > HEARD_US) ||
           (left > ANSWERS_SHARE && silent > SHARE_US &&
            server->client_bytes > server->limits.max_client_bytes);
}

/* Somebody who asks and does not read: for long, or although all together have too much. */
static bool is_flooded(struct conn *conn)
{
    const struct server *server = conn->server;
    if (unread(conn) > OUTPUT_HIGH) {
        bi_conn_write(conn);
        bi_conn_count_memory(conn);
    }
    return conn->dead || bi_call_is_stuck(conn) ||
           (unread(conn) > ANSWERS_SHARE &&
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

/* Too much is unread for the jobs of a reserve: they go back, and it waits for its turn. */
static void park(struct call *call)
{
    bide_op *op = &call->coded.op;
    if (!call->again || op->status != BIDE_OK || unread(call->conn) <= ANSWERS_MAX)
        return;
    take_back(call);
    for (size_t i = 0; i < op->reserve.count; i++)
        bide_job_clear(&op->reserve.jobs[i]);
    op->reserve.count = 0;
    op->status = BIDE_CANCELLED; /* as before its submit: there is nothing to be given back */
    call->parked = true;
}

/* Makes a parked call again, with what is left of its time. */
static void make_again(struct call *call)
{
    int64_t *timeout = &call->coded.op.reserve.timeout_ms;
    int64_t left = (call->until - call->server->now) / 1000;
    call->parked = false;
    if (*timeout > 0)
        *timeout = left > 0 ? left : 0;
    link_call(call);
    submit(call);
}

void bi_call_sent(struct conn *conn)
{
    struct call *call;
    while ((call = conn->unsent_head) != NULL && call->end <= conn->output.gone) {
        conn->unsent_head = call->next;
        free_call(call);
    }
    while ((call = conn->unsaid_head) != NULL && bi_output_left(&conn->output) <= OUTPUT_HIGH) {
        conn->unsaid_head = call->next;
        conn->unsaid_bytes -= call->unsaid;
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
    bi_server_mark(conn);
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
        take_back(call);
        free_call(call);
    } else {
        unlink_call(call);
        answer(call);
    }
}

/* ---- the verbs ---- */

/* May it take that much of the memory that clients have? */
static bool has_room(const struct server *server, size_t memory)
{
    return server->client_bytes == 0 ||
           server->client_bytes + memory <= server->limits.max_client_bytes;
}

/* What a backup writes, this client could write himself: he is the server's user, or root. */
static bool may_write_files(const struct conn *conn)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof(peer);
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t room = sizeof(address);
    return getsockname(conn->fd, (struct sockaddr *)&address, &room) == 0 &&
           address.ss_family == AF_UNIX &&
           getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static int check_backup(const struct conn *conn, const char *path, char *error)
{
    if (!may_write_files(conn)) {
        snprintf(error, BIDE_ERROR_SIZE,
                 "backup: the server writes files for its own user only, who is known at its unix "
                 "socket: connect there (beanstalk:///PATH), or use \"bide export\"");
        return BIDE_ENOTSUP;
    }
    if (path == NULL || path[0] != '/') {
        snprintf(error, BIDE_ERROR_SIZE,
                 "backup: the server runs in another folder; write the whole path, from / on");
        return BIDE_EINVAL;
    }
    return BIDE_OK;
}

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
    call->memory = sizeof(*call) + call->coded.bytes + bide_buf_size(command->buf);
    if (!has_room(server, call->memory)) {
        snprintf(error, BIDE_ERROR_SIZE, "%s: the server has no memory for this call now",
                 bide_op_name(kind));
        code = BIDE_EBUSY;
    } else if (kind == BIDE_OP_BACKUP) {
        code = check_backup(conn, call->coded.op.backup.path, error);
    } else if (!name_feed(call)) {
        snprintf(error, BIDE_ERROR_SIZE, "%s: this connection has no feed of this number",
                 bide_op_name(kind));
        code = BIDE_EINVAL;
    }
    server->client_bytes += call->memory;
    call->body = bide_buf_ref(command->buf);
    if (code != BIDE_OK)
        free_call(call);
    else
        *out = call;
    return code;
}

/* How many bytes it may be answered with, about. */
static size_t promise(const struct server *server, const bide_op *op)
{
    const size_t job = server->max_job_size;
    const size_t page = job > BIDE_BATCH_BYTES ? job : BIDE_BATCH_BYTES;
    size_t size = ANSWER_SMALL;
    switch (op->kind) {
    case BIDE_OP_RESERVE:
        size = op->reserve.job_max * job;
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        size = op->finish_and_reserve.reserve.job_max * job;
        break;
    case BIDE_OP_LIST:
        size = op->list.job_max * (op->list.with_body ? job : sizeof(bide_job));
        break;
    case BIDE_OP_TOPICS:
    case BIDE_OP_WAITING:
        return op->topics.topic_max * sizeof(bide_topic_stats);
    case BIDE_OP_EVENTS:
        return op->feed.event_max * sizeof(bide_event);
    case BIDE_OP_RESULT:
    case BIDE_OP_WAIT:
        return server->max_result_size;
    case BIDE_OP_RESERVE_JOB:
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
    case BIDE_OP_BODY:
        return job;
    default:
        break;
    }
    return size < page ? size : page;
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
    const int64_t *timeout = bi_kind_timeout(&call->coded.op);
    if (timeout != NULL && *timeout > 0 && *timeout <= BIDE_TIME_MAX_MS) /* else it is refused */
        call->until = conn->server->now + *timeout * 1000;
    call->promised = promise(conn->server, &call->coded.op);
    bi_admit_audit(conn, &call->coded.op);
    link_call(call);
    submit(call);
}

static struct call *find_call(struct call *calls, uint64_t tag)
{
    struct call *call = calls;
    while (call != NULL && call->tag != tag)
        call = call->next;
    return call;
}

static void cancel(struct call *call)
{
    if (call->coded.op.status == BIDE_PENDING)
        bide_cancel_op(call->server->queue, &call->coded.op);
}

/* A call that is to be made again is answered in its turn: that it was cancelled. */
static void cancel_parked(struct conn *conn, uint64_t tag)
{
    struct call *call = find_call(conn->unsaid_head, tag);
    if (call == NULL || !call->parked)
        return;
    call->parked = false;
    snprintf(call->coded.op.error, BIDE_ERROR_SIZE, "%s", bide_code_text(BIDE_CANCELLED));
}

void bi_beanstalk_call_cancel(struct conn *conn, const struct command *command)
{
    struct call *call = find_call(conn->calls, command->tag);
    if (call != NULL && call->coded.op.status != BIDE_PENDING) {
        bi_server_flush(conn->server); /* it may be in the batch, and answered afterwards */
        call = find_call(conn->calls, command->tag);
    }
    if (call != NULL)
        cancel(call);
    else
        cancel_parked(conn, command->tag);
}

/* ---- the end of a connection ---- */

void bi_call_stop(struct conn *conn)
{
    for (struct call *call = conn->unsaid_head; call != NULL; call = call->next)
        call->stopped = true;
    if (conn->calls == NULL)
        return;
    bi_server_flush(conn->server);
    for (struct call *call = conn->calls; call != NULL; call = call->next) {
        call->stopped = true;
        cancel(call);
    }
}

/* Gives back what calls brought that the client has not been told. */
static void drop_answers(struct call *calls)
{
    while (calls != NULL) {
        struct call *next = calls->next;
        take_back(calls);
        free_call(calls);
        calls = next;
    }
}

void bi_call_drop(struct conn *conn)
{
    for (struct call *call = conn->calls; call != NULL; call = call->next) {
        call->conn = NULL;
        cancel(call);
    }
    conn->calls = NULL;
    conn->call_count = conn->call_waiting = 0;
    drop_answers(conn->unsaid_head);
    drop_answers(conn->unsent_head);
    conn->unsaid_head = conn->unsent_head = NULL;
    while (conn->feeds != NULL) {
        struct feed_link *link = conn->feeds;
        conn->feeds = link->next;
        end_feed(conn->server, link->feed);
        free(link);
    }
}
