/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include <string.h>

#define FETCHED_MOST ((size_t)64 << 10) /* of larger bodies only the size is shown */

static void heard(struct ask *ask)
{
    uint64_t id = ask->op.fetch.id;
    struct excerpt *excerpt = &ask->top->excerpts.kept[id % BI_EXCERPTS];
    bide_buf *body = ask->op.status == BIDE_OK ? ask->op.fetch.buf : NULL;
    if (ask->op.status != BIDE_OK && ask->op.status != BIDE_NOT_FOUND)
        return; /* it is asked for again when it is drawn again */
    size_t size = bide_buf_size(body);
    excerpt->id = id;
    excerpt->size = (uint16_t)(size < BI_EXCERPT_BYTES ? size : BI_EXCERPT_BYTES);
    if (excerpt->size > 0)
        memcpy(excerpt->bytes, bide_buf_data(body), excerpt->size);
    bide_buf_unref(body);
    ask->top->changed = true;
}

static struct ask *idle(struct excerpts *excerpts, uint64_t id)
{
    struct ask *found = NULL;
    for (size_t i = 0; i < BI_EXCERPT_FETCHES; i++) {
        if (!excerpts->asks[i].pending)
            found = &excerpts->asks[i];
        else if (excerpts->asks[i].op.fetch.id == id)
            return NULL;
    }
    return found;
}

const struct excerpt *bi_excerpt_get(struct top *top, uint64_t id, size_t body_size)
{
    const struct excerpt *excerpt = &top->excerpts.kept[id % BI_EXCERPTS];
    if (excerpt->id == id)
        return excerpt;
    struct ask *ask = body_size > FETCHED_MOST ? NULL : idle(&top->excerpts, id);
    if (ask != NULL) {
        ask->op = (bide_op){.kind = BIDE_OP_BODY, .fetch = {.id = id}};
        bi_ask_send(ask, top, heard);
    }
    return NULL;
}
