/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "backend/beanstalk_tagged.h"

#include "backend/beanstalk_kind.h"
#include "util/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define IN_ROOM   ((size_t)64 << 10)
#define IN_KEEP   ((size_t)1 << 20) /* what stays of a buffer that has grown */
#define LINE_MAX_ 128               /* "ANSWER <tag> <code> <bytes>" has fewer */
/* A job with the largest body and result that there are, and their page, has fewer. */
#define ANSWER_MAX (((size_t)2 << 30) + ((size_t)64 << 20))

/* ---- the buffer ---- */

/* Makes room at the end. It grows with what has come, not with what was announced. */
static bool make_room(struct tagged *tagged)
{
    if (tagged->in_used > 0) {
        tagged->in_size -= tagged->in_used;
        memmove(tagged->in, tagged->in + tagged->in_used, tagged->in_size);
        tagged->in_used = 0;
    }
    if (tagged->in_size == 0 && tagged->in_room > IN_KEEP) {
        free(tagged->in);
        tagged->in = NULL;
        tagged->in_room = 0;
    }
    if (tagged->in_size < tagged->in_room)
        return true;
    size_t room = tagged->in_room == 0 ? IN_ROOM : tagged->in_room * 2;
    unsigned char *in = realloc(tagged->in, room);
    if (in == NULL)
        return false;
    tagged->in = in;
    tagged->in_room = room;
    return true;
}

/* ---- one answer ---- */

struct answer {
    uint64_t tag;
    int code;
    size_t size;               /* of the data */
    const unsigned char *data; /* NULL: not all of it is there */
    size_t all;                /* with its line and its end */
};

/* Reads an unsigned number that ends with the byte end. */
static const char *read_number(const char *at, char end, uint64_t *number)
{
    const char *from = at;
    *number = 0;
    for (; *at >= '0' && *at <= '9' && at - from < 16; at++)
        *number = *number * 10 + (uint64_t)(*at - '0');
    return at > from && *at == end ? at + 1 : NULL;
}

/* The line, which ends with a NUL here. */
static bool parse_line(const char *line, struct answer *answer)
{
    uint64_t code, size;
    if (strncmp(line, "ANSWER ", 7) != 0)
        return false;
    const char *at = read_number(line + 7, ' ', &answer->tag);
    bool negative = at != NULL && *at == '-';
    at = at == NULL ? NULL : read_number(at + negative, ' ', &code);
    at = at == NULL ? NULL : read_number(at, 0, &size);
    if (at == NULL || code > 1000 || size > ANSWER_MAX)
        return false;
    answer->code = negative ? -(int)code : (int)code;
    answer->size = (size_t)size;
    return true;
}

/* False: what stands there is no answer. */
static bool next_answer(const struct tagged *tagged, struct answer *answer)
{
    const unsigned char *from = tagged->in + tagged->in_used;
    size_t there = tagged->in_size - tagged->in_used;
    char line[LINE_MAX_];
    answer->data = NULL;
    const unsigned char *end = there == 0 ? NULL : memmem(from, there, "\r\n", 2);
    size_t size = end == NULL ? 0 : (size_t)(end - from);
    if (end == NULL)
        return there < sizeof(line);
    if (size >= sizeof(line))
        return false;
    memcpy(line, from, size);
    line[size] = 0;
    if (!parse_line(line, answer))
        return false;
    answer->all = size + 2 + answer->size + 2;
    if (there < answer->all)
        return true;
    if (memcmp(from + answer->all - 2, "\r\n", 2) != 0)
        return false;
    answer->data = end + 2;
    return true;
}

/* ---- from answers to ops ---- */

/* An answer that tells that an op was given up: by whom? */
static void tell_why(const struct request *request, bide_op *op)
{
    int code = op->private_.status;
    if (code == BIDE_CANCELLED && !request->cancelled && request->timed_out)
        bi_kind_say(op, BIDE_TIMED_OUT);
    else if (request->shut && !request->cancelled &&
             (code == BIDE_CANCELLED || code == BIDE_TIMED_OUT))
        bi_kind_say(op, BIDE_CLOSED);
}

/* The finish of a finish_and_reserve that takes no more jobs. */
static void read_inner(const struct tagged *tagged, const struct request *request)
{
    bide_op *op = request->op;
    int code = bi_call_decode_result(request->inner, request->code, request->answer,
                                     request->answer_size, NULL);
    if (code != BIDE_OK) {
        bi_kind_garbled(op, &tagged->address);
        return;
    }
    bi_text_copy(op->error, request->inner->error);
    if (request->code != BIDE_OK)
        bi_kind_fail(op, request->code, request->inner->error);
    else
        bi_kind_say(op, BIDE_CLOSED);
}

static void read_answer(const struct tagged *tagged, struct request *request)
{
    bide_op *op = request->op;
    if (request->inner != NULL) {
        read_inner(tagged, request);
        return;
    }
    op->private_.status = BIDE_OK;
    int code = bi_call_decode_result(op, request->code, request->answer, request->answer_size,
                                     &request->number);
    if (code != BIDE_OK)
        bi_kind_garbled(op, &tagged->address);
    else if (op->private_.status != BIDE_OK && op->error[0] == 0)
        bi_kind_say(op, op->private_.status);
    tell_why(request, op);
}

/* Whoever has an answer that was not asked for does not speak our language. A call can be answered
 * before its writer has come back to say that it has left. */
static struct request *asked_for(struct tagged *tagged, const struct answer *answer)
{
    struct request *request = bi_client_request_find(tagged, answer->tag);
    if (request != NULL && request->call.queued)
        bi_send_quiet(tagged);
    return request != NULL && request->sent ? request : NULL;
}

/* Takes out all requests that have their answers; a list linked by next. */
static struct request *take_answered(struct tagged *tagged, char *reason)
{
    struct request *head = NULL;
    struct request **tail = &head;
    struct answer answer;
    for (;;) {
        struct request *request = NULL;
        bool sane = next_answer(tagged, &answer);
        if (sane && answer.data == NULL)
            break;
        if (sane)
            request = asked_for(tagged, &answer);
        if (request == NULL) {
            snprintf(reason, BIDE_ERROR_SIZE, "the server at %.100s says what makes no sense",
                     tagged->address.name);
            break;
        }
        request->code = answer.code;
        request->answer = answer.data;
        request->answer_size = answer.size;
        tagged->in_used += answer.all;
        bi_client_request_remove(tagged, request);
        request->next = NULL;
        *tail = request;
        tail = &request->next;
    }
    return head;
}

static void complete(struct tagged *tagged, struct request *answered)
{
    struct op_list completed = {NULL, NULL};
    for (struct request *each = answered; each != NULL; each = each->next) {
        read_answer(tagged, each);
        if (!each->internal)
            list_add(&completed, each->op);
    }
    pthread_mutex_lock(&tagged->lock);
    tagged->attempts = 0;
    while (answered != NULL) {
        struct request *next = answered->next;
        if (answered->feed != NULL)
            bi_client_feed_answered(tagged, answered, &completed);
        bi_client_reference_answered(tagged, answered);
        bi_client_feed_leave(answered);
        bi_client_request_release(answered);
        answered = next;
    }
    bi_send_flush(tagged);
    pthread_mutex_unlock(&tagged->lock);
    if (completed.head != NULL)
        tagged->context.complete(completed.head);
}

/* ---- reading ---- */

/* How much came; 0 nothing for now, -1 the end. */
static ssize_t read_some(struct tagged *tagged, char *reason)
{
    if (!make_room(tagged)) {
        bi_text_copy(reason, bide_code_text(BIDE_ENOMEM));
        return -1;
    }
    ssize_t size =
        recv(tagged->fd, tagged->in + tagged->in_size, tagged->in_room - tagged->in_size, 0);
    if (size > 0) {
        tagged->in_size += (size_t)size;
        return size;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    snprintf(reason, BIDE_ERROR_SIZE, "the connection to %.100s was %s", tagged->address.name,
             size == 0 ? "closed by the server" : "lost");
    return -1;
}

bool bi_receive(struct tagged *tagged, char *reason)
{
    reason[0] = 0;
    if (read_some(tagged, reason) < 0)
        return false;
    pthread_mutex_lock(&tagged->lock);
    struct request *answered = take_answered(tagged, reason);
    pthread_mutex_unlock(&tagged->lock);
    if (answered != NULL)
        complete(tagged, answered);
    return reason[0] == 0;
}
