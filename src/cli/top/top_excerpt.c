/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include <string.h>

#define FETCH_MAX ((size_t)64 << 10) /* of larger bodies only the size is shown */

static void on_done(struct top_request *request)
{
    uint64_t id = request->op.fetch.id;
    struct excerpt *excerpt = &request->top->excerpts.entries[id % BI_TOP_EXCERPTS];
    bide_buf *body = request->op.status == BIDE_OK ? request->op.fetch.buf : NULL;
    if (request->op.status != BIDE_OK && request->op.status != BIDE_NOT_FOUND)
        return; /* it is asked for again when it is drawn again */
    size_t size = bide_buf_size(body);
    excerpt->id = id;
    excerpt->size = (uint16_t)(size < BI_TOP_EXCERPT_BYTES ? size : BI_TOP_EXCERPT_BYTES);
    if (excerpt->size > 0)
        memcpy(excerpt->bytes, bide_buf_data(body), excerpt->size);
    bide_buf_unref(body);
    request->top->needs_redraw = true;
}

static struct top_request *find_idle_request(struct excerpts *excerpts, uint64_t id)
{
    struct top_request *found = NULL;
    for (size_t i = 0; i < BI_TOP_EXCERPT_FETCHES; i++) {
        if (!excerpts->requests[i].pending)
            found = &excerpts->requests[i];
        else if (excerpts->requests[i].op.fetch.id == id)
            return NULL;
    }
    return found;
}

const struct excerpt *bi_top_excerpt_get(struct top *top, uint64_t id, size_t body_size)
{
    const struct excerpt *excerpt = &top->excerpts.entries[id % BI_TOP_EXCERPTS];
    if (excerpt->id == id)
        return excerpt;
    struct top_request *request =
        body_size > FETCH_MAX ? NULL : find_idle_request(&top->excerpts, id);
    if (request != NULL) {
        request->op = (bide_op){.kind = BIDE_OP_BODY, .fetch = {.id = id}};
        bi_top_request_send(request, top, on_done);
    }
    return NULL;
}
