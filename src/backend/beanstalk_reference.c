/* SPDX-License-Identifier: MIT */
/*
 * References to topics end with their connection at the server. Those that the caller has are kept here,
 * and made again with each connection. One that cannot be made again is lost.
 */
#include "backend/beanstalk_kind.h"
#include "backend/beanstalk_tagged.h"

#include <stdlib.h>
#include <string.h>

struct reference {
    struct reference *next;
    size_t size;
    char topic[];
};

int bi_client_reference_begin(struct request *request)
{
    const bide_op *op = request->op;
    if (op->kind != BIDE_OP_TOPIC_REF)
        return BIDE_PENDING;
    bide_slice topic = op->topic.topic; /* the caller's, until the submit returns */
    request->reference = malloc(sizeof(*request->reference) + topic.size);
    if (request->reference == NULL)
        return bi_kind_refuse(request->op, BIDE_ENOMEM, "out of memory");
    request->reference->size = topic.size;
    memcpy(request->reference->topic, topic.data, topic.size);
    return BIDE_PENDING;
}

void bi_client_reference_answered(struct tagged *tagged, struct request *request)
{
    struct reference *own = request->reference;
    if (own == NULL || request->op->private_.status != BIDE_OK)
        return;
    if (request->op->topic.delta > 0) {
        own->next = tagged->references;
        tagged->references = own;
        request->reference = NULL;
        return;
    }
    struct reference **from = &tagged->references;
    while (*from != NULL &&
           ((*from)->size != own->size || memcmp((*from)->topic, own->topic, own->size) != 0))
        from = &(*from)->next;
    struct reference *ended = *from;
    if (ended != NULL)
        *from = ended->next;
    free(ended);
}

static bool make_again(struct tagged *tagged, const struct reference *reference)
{
    bide_op *op = calloc(1, sizeof(*op));
    if (op == NULL)
        return false;
    op->kind = BIDE_OP_TOPIC_REF;
    op->topic.topic = (bide_slice){reference->topic, reference->size};
    op->topic.delta = 1;
    struct request *request = bi_client_request_new(tagged, op, false);
    if (request == NULL) {
        free(op);
        return false;
    }
    request->internal = true;
    request->own_op = op;
    if (!bi_client_request_add(tagged, request)) {
        bi_client_request_free(request);
        return false;
    }
    bi_send_call(tagged, request);
    return true;
}

void bi_client_reference_found(struct tagged *tagged)
{
    for (struct reference *each = tagged->references; each != NULL; each = each->next)
        if (!make_again(tagged, each))
            tagged->broken = true; /* try again with another connection, later */
}

void bi_client_reference_free_all(struct tagged *tagged)
{
    while (tagged->references != NULL) {
        struct reference *next = tagged->references->next;
        free(tagged->references);
        tagged->references = next;
    }
}
