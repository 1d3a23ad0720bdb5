/* SPDX-License-Identifier: MIT */
/*
 * rpc_internal - one call of the verb `call`, which the files of the verb share.
 */
#ifndef BI_RPC_INTERNAL_H
#define BI_RPC_INTERNAL_H

#include "op/op_codec.h"
#include "server/beanstalk/beanstalk.h"

struct rpc {
    struct server_op base; /* first: completion casts it. bytes: of the encoded arguments */
    struct beanstalk *beanstalk;
    struct beanstalk_conn *conn; /* NULL: closed */
    LIST_ENTRY(rpc) in_flight;   /* in conn->rpcs */
    STAILQ_ENTRY(rpc) completed; /* in conn->unreplied, then in conn->unsent */
    struct tag_link by_tag;      /* in conn->tags until the call is cancelled or completes */
    uint64_t tag;
    size_t memory;             /* counted in server->client_bytes and conn->rpc_bytes */
    bide_buf *body;            /* holds the encoded arguments; may be NULL */
    bide_buf *holder;          /* to whose bytes the name of the holder points; may be NULL */
    struct subscription *link; /* unsubscribe: unlinked from the connection until completion */
    struct tube *topic_ref;    /* topic_ref: the topic that is referenced or released */
    bool ref_missing;          /* topic_ref: the connection has no reference to release */
    size_t reply_estimate;     /* upper bound of the reply in bytes, roughly */
    size_t unreplied;          /* counted in conn->base.load.unreplied_bytes */
    uint64_t end;              /* end offset of the reply in the output stream */
    int64_t wait_deadline;     /* end of the client's timeout, also across resubmits */
    bool cancel_quietly;       /* write no reply if it ends as cancelled */
    bool waits;                /* pending for an event, not for a commit */
    bool batched;              /* reply_estimate is counted in conn->base.load.expected_bytes */
    bool resubmittable;        /* a reserve that owns copies of its topic names */
    bool parked;               /* jobs were given back; resubmit when the client has read */
    bool may_wait;             /* has a timeout; counted in waiter_count */
    bool wait_rejected;        /* the timeout was set to 0: too many waiting calls */
    bool cancelled;            /* by call-cancel */
    struct decoded_op coded;   /* last: rpc_new() zeroes what precedes it */
};

/* ---- rpc.c ---- */

/* Links a call to its connection before it is submitted. Fails only when out of memory; nothing is
 * changed then. */
bool bi_rpc_link(struct rpc *rpc);
void bi_rpc_submit(struct rpc *rpc);
void bi_rpc_free(struct rpc *rpc);

/* Applies a completed subscribe or unsubscribe to the connection. False: out of memory. */
bool bi_rpc_update_subscriptions(struct rpc *rpc);
/* Ends a subscription without an owner. If memory is out, it lasts until the queue is closed. */
void bi_rpc_submit_unsubscribe(struct beanstalk *beanstalk, bide_subscription *feed);

/* ---- rpc_reply.c ---- */

/* Queues the reply of a completed call behind those that wait for room in the output. Takes the
 * call. */
void bi_rpc_reply_write(struct rpc *rpc);
/* Undoes what a completed op acquired but the client will never learn of. */
void bi_rpc_reply_revoke(struct rpc *rpc);
/* Has a parked call reply BIDE_CANCELLED. */
void bi_rpc_reply_cancel_parked(struct rpc *rpc);
/* Frees one completed call of a closed connection. False if there is none left. */
bool bi_rpc_reply_drop_one(struct beanstalk_conn *conn);

#endif
