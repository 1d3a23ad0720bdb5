/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include <string.h>

static void completed(bide_op *op)
{
    struct ask *ask = op->user;
    ask->pending = false;
    ask->top->pending--;
    ask->heard(ask);
}

static void fail(struct ask *ask, int code)
{
    ask->op.status = code;
    snprintf(ask->op.error, sizeof(ask->op.error), "%s", bide_code_text(code));
    ask->heard(ask);
}

void bi_ask_send(struct ask *ask, struct top *top, void (*heard)(struct ask *ask))
{
    bide_op *list[] = {&ask->op};
    ask->top = top;
    ask->heard = heard;
    ask->op.cq = top->cq;
    ask->op.done = completed;
    ask->op.user = ask;
    /* What the user has asked for is done, also if it takes a second call (a kick). */
    if (top->queue == NULL || (top->over && ask != &top->action.ask)) {
        fail(ask, BIDE_CLOSED);
        return;
    }
    int pending = bide_submit(top->queue, list, 1);
    if (pending < 0) {
        fail(ask, pending);
    } else if (pending == 0) {
        heard(ask);
    } else {
        ask->pending = true;
        top->pending++;
    }
}

/* Sentences of calls begin with the name of the call, "kick: ", which says nothing here. */
const char *bi_ask_sentence(const struct ask *ask)
{
    const char *name = bide_op_name(ask->op.kind), *text = ask->op.error;
    size_t size = strlen(name);
    if (text[0] == 0)
        return bide_code_text(ask->op.status);
    return strncmp(text, name, size) == 0 && strncmp(text + size, ": ", 2) == 0 ? text + size + 2
                                                                                : text;
}

void bi_ask_cancel(struct ask *ask)
{
    if (ask->pending)
        bide_cancel_op(ask->top->queue, &ask->op);
}
