/* SPDX-License-Identifier: MIT */
/*
 * bided_topic_ref - topic references, restored after each reconnect.
 *
 * The server drops the references of a connection when it ends. The client retains those that the
 * caller holds and takes them again on each new connection. A reference that the server rejects is
 * missing there until the next reconnect; the caller is not notified.
 */
#include "remote/bided/bided_client.h"

#include <stdlib.h>
#include <string.h>

struct topic_ref {
    struct topic_ref *next;
    size_t size;
    char topic[];
};

int bi_bided_topic_ref_prepare(struct request *request)
{
    const bide_op *op = request->base.op;

    if (op->kind != BIDE_OP_TOPIC_REF)
        return BIDE_PENDING;
    bide_slice topic = op->topic.topic; /* valid only until submit returns */
    request->topic_ref = malloc(sizeof(*request->topic_ref) + topic.size);
    if (request->topic_ref == NULL)
        return bi_op_reject(request->base.op, BIDE_ENOMEM, "out of memory");
    request->topic_ref->size = topic.size;
    memcpy(request->topic_ref->topic, topic.data, topic.size);
    return BIDE_PENDING;
}

void bi_bided_topic_ref_complete(struct bided *bided, struct request *request)
{
    struct topic_ref *ref = request->topic_ref;

    if (ref == NULL || request->base.op->private_.status != BIDE_OK)
        return;

    /* The server has changed the count; only now does the client's list follow. */
    if (request->base.op->topic.delta > 0) {
        ref->next = bided->topic_refs;
        bided->topic_refs = ref;
        request->topic_ref = NULL;
        return;
    }

    /* References to one topic are interchangeable: remove any of them. */
    struct topic_ref **slot = &bided->topic_refs;
    while (*slot != NULL &&
           ((*slot)->size != ref->size || memcmp((*slot)->topic, ref->topic, ref->size) != 0))
        slot = &(*slot)->next;

    struct topic_ref *removed = *slot;
    if (removed != NULL)
        *slot = removed->next;
    free(removed);
}

void bi_bided_topic_ref_restore(struct bided *bided)
{
    for (const struct topic_ref *each = bided->topic_refs; each != NULL; each = each->next) {
        const bide_op op = {.kind = BIDE_OP_TOPIC_REF,
                            .topic = {.topic = {each->topic, each->size}, .delta = 1}};
        struct request *request = bi_bided_request_new_internal(bided, &op);

        if (request != NULL)
            bi_bided_send_call(bided, request);
        else
            bided->remote.broken = true; /* out of memory: reconnect and try again */
    }
}

void bi_bided_topic_ref_free_all(struct bided *bided)
{
    while (bided->topic_refs != NULL) {
        struct topic_ref *next = bided->topic_refs->next;
        free(bided->topic_refs);
        bided->topic_refs = next;
    }
}
