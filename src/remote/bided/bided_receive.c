/* SPDX-License-Identifier: MIT */
/*
 * bided_receive - parses replies and completes their ops.
 *
 * Threads    Only the I/O thread reads the socket and the input buffer. Replies are matched to
 *            requests with the lock held, decoded without it, and completed without it.
 */
#include "remote/bided/bided_client.h"

#include "op/op_table.h"
#include "util/message.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define IN_ROOM    ((size_t)64 << 10)
#define HEADER_MAX 128 /* of "ANSWER <tag> <code> <bytes>" */
/* More than a page with one job of the largest body and the largest result. */
#define RESPONSE_MAX (((size_t)2 << 30) + ((size_t)64 << 20))

/* ---- one reply ---- */

struct response {
    uint64_t tag;
    int code;
    size_t size;               /* of data */
    const unsigned char *data; /* NULL: incomplete */
    size_t total_size;         /* with header line and final CRLF; 0: not known yet */
};

/* Parses up to 16 digits, which cannot overflow, followed by the byte end. */
static const char *read_number(const char *at, char end, uint64_t *number)
{
    const char *from = at;
    *number = 0;
    for (; *at >= '0' && *at <= '9' && at - from < 16; at++)
        *number = *number * 10 + (uint64_t)(*at - '0');
    return at > from && *at == end ? at + 1 : NULL;
}

/* Parses a header line, terminated by NUL instead of CRLF. */
static bool parse_header(const char *line, struct response *response)
{
    uint64_t code, size;

    if (strncmp(line, "ANSWER ", 7) != 0)
        return false;

    const char *at = read_number(line + 7, ' ', &response->tag);
    bool negative = at != NULL && *at == '-';
    at = at == NULL ? NULL : read_number(at + negative, ' ', &code);
    at = at == NULL ? NULL : read_number(at, 0, &size);
    if (at == NULL || code > 1000 || size > RESPONSE_MAX)
        return false;

    response->code = negative ? -(int)code : (int)code;
    response->size = (size_t)size;
    return true;
}

/* Parses the first reply of the buffer. False: it is malformed. data stays NULL while it is
 * incomplete. */
static bool parse_response(const struct bided *bided, struct response *response)
{
    char line[HEADER_MAX];
    size_t size;
    int found = bi_remote_socket_line(&bided->in, line, sizeof(line), &size);

    *response = (struct response){.data = NULL};
    if (found <= 0)
        return found == 0;
    if (!parse_header(line, response))
        return false;
    response->total_size = size + 2 + response->size + 2;
    return bi_remote_socket_data(&bided->in, size + 2, response->size, &response->data);
}

/* ---- completion ---- */

/* The server knows one kind of cancel. The client knows why it sent it: user, timeout or
 * shutdown. */
static void map_cancel_code(const struct remote_op *request, bide_op *op)
{
    int code = op->private_.status;
    /* A cancel by the user wins over a timeout, and both win over shutdown. */
    if (code == BIDE_CANCELLED && !request->cancelled && request->timed_out)
        bi_remote_op_set_code(op, BIDE_TIMED_OUT);
    else if (request->shut && !request->cancelled &&
             (code == BIDE_CANCELLED || code == BIDE_TIMED_OUT))
        bi_remote_op_set_code(op, BIDE_CLOSED);
}

/* The reply cannot be decoded: it is malformed, or (code is BIDE_ENOMEM) there is no memory for
 * it. */
static void fail_decode(const struct bided *bided, bide_op *op, int code)
{
    char text[BIDE_ERROR_SIZE];
    bool no_memory = code == BIDE_ENOMEM;

    snprintf(text, sizeof(text),
             no_memory ? "%s: out of memory for the reply of the server at %.100s"
                       : "%s: the server at %.100s sent a malformed result",
             bide_op_name(op->kind), bided->remote.address.name);

    /* A reply to a change that cannot be read does not prove whether it was executed. */
    bi_remote_op_set_failed(op,
                            !bi_op_is(op, OP_REPEATABLE) ? BIDE_EUNKNOWN
                            : no_memory                  ? BIDE_ENOMEM
                                                         : BIDE_EIO,
                            text);
}

/* Completes a finish_and_reserve that was sent as a finish only, because of shutdown: the finish
 * has its own result, the reserve part is BIDE_CLOSED. */
static void decode_substitute(const struct bided *bided, const struct request *request)
{
    bide_op *op = request->base.op;
    int code = bi_op_codec_decode_result(request->substitute, request->code, request->response,
                                         request->response_size, NULL);

    if (code != BIDE_OK) {
        fail_decode(bided, op, code);
        return;
    }

    op->finish_and_reserve.finish.status = request->substitute->finish_many.items[0].status;
    bi_text_copy(op->error, request->substitute->error);
    if (request->code != BIDE_OK)
        bi_remote_op_set_failed(op, request->code, request->substitute->error);
    else
        bi_remote_op_set_code(op, BIDE_CLOSED);
}

static void decode_response(const struct bided *bided, struct request *request)
{
    bide_op *op = request->base.op;

    if (request->response == NULL) {
        fail_decode(bided, op, BIDE_ENOMEM);
        return;
    }
    if (request->substitute != NULL) {
        decode_substitute(bided, request);
        return;
    }

    op->private_.status = BIDE_OK;
    int code = bi_op_codec_decode_result(op, request->code, request->response,
                                         request->response_size, &request->number);

    if (code != BIDE_OK)
        fail_decode(bided, op, code);
    else if (op->private_.status != BIDE_OK && op->error[0] == 0)
        bi_remote_op_set_code(op, op->private_.status);

    map_cancel_code(&request->base, op);
}

/* Returns the request of a reply, or NULL: a reply to a request that was not sent is a protocol
 * error. The reply may arrive before the writing thread has reacquired the lock and marked the
 * call as sent; then wait for that thread. */
static struct request *find_request(struct bided *bided, const struct response *response)
{
    struct request *request = bi_bided_request_find(bided, response->tag);
    if (request != NULL && request->call.queued)
        bi_bided_send_wait_idle(bided);
    return request != NULL && request->sent ? request : NULL;
}

/* Removes a request whose reply is to be decoded. */
static void take_request(struct bided *bided, struct request *request,
                         const struct response *response)
{
    assert(request->sent && request->tag != 0);
    request->code = response->code;
    request->response = response->data;
    request->response_size = response->size;
    request->next_answered = NULL;
    bi_bided_request_release_tag(bided, request);
    bi_remote_op_remove(&bided->remote, &request->base);
}

/* Removes all requests that have replies. Returns them as a list linked by next_answered. Their
 * responses point into the input buffer, which is not changed before they are decoded. */
static struct request *take_responses(struct bided *bided, char *reason)
{
    struct request *head = NULL;
    struct request **tail = &head;
    struct response response;

    for (;;) {
        struct request *request = NULL;
        bool well_formed = parse_response(bided, &response);
        /* Incomplete: the rest arrives with a later read. */
        if (well_formed && response.data == NULL)
            break;
        if (well_formed)
            request = find_request(bided, &response);
        if (request == NULL) {
            snprintf(reason, BIDE_ERROR_SIZE, "the server at %.100s sent a malformed reply",
                     bided->remote.address.name);
            break;
        }

        bided->in.used += response.total_size;
        take_request(bided, request, &response);
        *tail = request;
        tail = &request->next_answered;
    }
    return head;
}

static void complete_requests(struct bided *bided, struct request *answered)
{
    struct remote *remote = &bided->remote;
    struct op_fifo completed = {NULL, NULL};

    /* The requests are not listed any more, so no other thread reaches their ops. */
    for (struct request *each = answered; each != NULL; each = each->next_answered) {
        decode_response(bided, each);
        if (!each->base.internal)
            bi_op_fifo_push(&completed, each->base.op);
    }

    pthread_mutex_lock(&remote->lock);
    /* Only a reply resets the backoff. A server that accepts and closes must not. */
    remote->attempts = 0;
    while (answered != NULL) {
        struct request *next = answered->next_answered;
        if (answered->stream != NULL)
            bi_bided_event_stream_complete(bided, answered);
        bi_bided_topic_ref_complete(bided, answered);
        bi_bided_request_release(bided, answered);
        answered = next;
    }

    /* Each reply lowers in_flight: calls above the limit can now be written. */
    bi_bided_send_flush(bided);
    /* After the flush, which releases the lock: this thread completes them, in the order of the
     * replies. */
    bi_op_fifo_append(&remote->completed, &completed);
    bi_remote_unlock(remote);
}

/* ---- reading ---- */

/* The buffer is full and cannot grow: skips the reply that it begins with. Returns its request, or
 * NULL if that is unknown. */
static struct request *skip_response(struct bided *bided)
{
    struct response response;
    struct request *request = NULL;

    if (parse_response(bided, &response) && response.total_size > 0)
        request = find_request(bided, &response);
    if (request == NULL)
        return NULL;

    assert(response.data == NULL);
    bi_remote_socket_skip(&bided->in, response.total_size);
    take_request(bided, request, &response);
    return request;
}

bool bi_bided_receive(struct bided *bided, char *reason)
{
    char lost[BIDE_ERROR_SIZE];
    struct request *answered = NULL;
    ssize_t size = bi_remote_socket_read(bided->fd, &bided->in, IN_ROOM, lost);

    reason[0] = 0;
    pthread_mutex_lock(&bided->remote.lock);
    if (size >= 0)
        answered = take_responses(bided, reason);
    else if (size == REMOTE_NO_MEMORY)
        answered = skip_response(bided);
    pthread_mutex_unlock(&bided->remote.lock);

    if (size < 0 && answered == NULL)
        snprintf(reason, BIDE_ERROR_SIZE, "the connection to %.100s was %.60s",
                 bided->remote.address.name, lost);

    /* On a protocol error, replies before it are good and complete first. */
    if (answered != NULL)
        complete_requests(bided, answered);
    return reason[0] == 0;
}
