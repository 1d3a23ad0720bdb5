/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include <string.h>

static void completed(bide_op *op)
{
    struct top_request *request = op->user;
    request->pending = false;
    request->top->pending--;
    request->on_done(request);
}

static void fail(struct top_request *request, int code)
{
    request->op.status = code;
    snprintf(request->op.error, sizeof(request->op.error), "%s", bide_code_text(code));
    request->on_done(request);
}

void bi_top_request_send(struct top_request *request, struct top *top,
                         void (*on_done)(struct top_request *request))
{
    bide_op *list[] = {&request->op};
    request->top = top;
    request->on_done = on_done;
    request->op.cq = top->cq;
    request->op.done = completed;
    request->op.user = request;
    /* What the user has asked for is done, also if it takes a second call (a kick). */
    if (top->queue == NULL || (top->quit && request != &top->action.request)) {
        fail(request, BIDE_CLOSED);
        return;
    }
    int pending = bide_submit(top->queue, list, 1);
    if (pending < 0) {
        fail(request, pending);
    } else if (pending == 0) {
        on_done(request);
    } else {
        request->pending = true;
        top->pending++;
    }
}

/* Sentences of calls begin with the name of the call, "kick: ", which says nothing here. */
const char *bi_top_request_error(const struct top_request *request)
{
    const char *name = bide_op_name(request->op.kind), *text = request->op.error;
    size_t size = strlen(name);
    if (text[0] == 0)
        return bide_code_text(request->op.status);
    return strncmp(text, name, size) == 0 && strncmp(text + size, ": ", 2) == 0 ? text + size + 2
                                                                                : text;
}

void bi_top_request_cancel(struct top_request *request)
{
    if (request->pending)
        bide_cancel_op(request->top->queue, &request->op);
}
