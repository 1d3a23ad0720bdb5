/* SPDX-License-Identifier: MIT */
/*
 * beanstalk - the beanstalkd protocol with the extensions of bide, as a protocol of the server.
 *
 * Complete commands become requests, whose ops are submitted in the batch of the server. A request
 * stands in the pipeline of its connection until its reply is written. The verb `call` carries any
 * op as bytes; calls are not part of the pipeline.
 *
 * Ordering   Replies have the order of the commands. A request that does not complete synchronously
 *            (a reserve that waits, a change that is not committed) stays in the pipeline, and the
 *            replies of later commands wait behind it. A command behind a blocking request is not
 *            parsed; it stays in the input.
 * Ownership  The ops of a batch borrow names from tubes and from the session: a tube must not be
 *            freed, and the session not change, before bi_batch_flush().
 */
#ifndef BI_BEANSTALK_H
#define BI_BEANSTALK_H

#include "op/op_codec.h"
#include "server/beanstalk/beanstalk_parse.h"
#include "server/beanstalk/session.h"
#include "server/server_internal.h"

#include <sys/queue.h>

#define DEADLINE_SOON_US INT64_C(1000000) /* before the end of a lease: reply DEADLINE_SOON */

extern const struct protocol bi_beanstalk_protocol;

STAILQ_HEAD(request_queue, request);
STAILQ_HEAD(unsent_queue, unsent_many);
STAILQ_HEAD(rpc_queue, rpc);
LIST_HEAD(rpc_list, rpc);
LIST_HEAD(subscription_list, subscription);

/*
 * The pending and parked calls of a connection, by the tags that its client chose.
 *
 * A client may use a tag for several calls. The latest call of a tag is found first; when it is
 * removed, the one before it. Each table has its own random hash secret, so a client cannot choose
 * tags that share a bucket.
 *
 * Ownership  Links are embedded in the calls. An empty table may have no memory.
 * Failure    Only add can fail (out of memory); the links are then unchanged.
 * Cost       Add, find and remove O(1), however many calls share a tag: only the latest is in the
 *            bucket, the others are a list behind it.
 */
struct tag_link {
    uint64_t tag;
    struct tag_link *next;  /* in the bucket, if this is the latest of its tag; else NULL */
    struct tag_link *older; /* the previous call with the same tag */
    struct tag_link **from; /* the pointer to this link; NULL: not in a table */
};

struct tag_table {
    struct tag_link **buckets;
    size_t room; /* buckets, a power of two, or 0 */
    size_t count;
    struct bi_hash_secret secret;
};

/* The protocol in one server. */
struct beanstalk {
    struct server *server;
    struct tubes tubes;
    struct tube *default_tube;
    size_t topic_refs;        /* of all connections together */
    struct tubes orphans;     /* topics of calls in flight whose connections are closed */
    uint64_t lease_hash_seed; /* of the lease tables of sessions */

    struct request_queue spare; /* free requests */
    size_t spare_count;
    struct op_bytes rpc_reply; /* buffer to encode replies to calls */
    bool resubmitting;         /* a parked call is being resubmitted */

    uint64_t waiter_count; /* calls of all connections that may wait */
    uint32_t producers, workers;
    uint64_t commands[VERB_COUNT + 1];

    int64_t limit_log_at;            /* next log line about a rejection */
    struct bi_log_limit http_log;    /* connections closed for sending HTTP, */
    struct bi_log_limit crowded_log; /* and calls rejected because too many wait */
};

enum stage {
    STAGE_LINE,
    STAGE_BODY,    /* incoming collects the body */
    STAGE_SKIP,    /* skip bytes, then reply skip_reply or reject a call */
    STAGE_DISCARD, /* the rest of a line that is too long */
};

/* A command with an incomplete body, which base.body collects. */
struct incoming {
    struct command command;
    char end[2];     /* the CRLF behind the body, */
    size_t end_size; /* and how much of it has arrived */
    char name[64];
};

struct beanstalk_conn {
    struct conn base; /* first: the server casts it */
    struct beanstalk *beanstalk;

    enum stage stage;
    const char *skip_reply; /* NULL: reject the call skip_tag with skip_code */
    uint64_t skip, skip_tag;
    int skip_code;
    struct incoming *incoming;

    struct session session;
    bool producer, worker;
    bide_buf *name;   /* by which it reserves: see beanstalk_worker.c; NULL: not made yet */
    bide_buf *holder; /* the one that its last call named; NULL: none */
    bool announced, announces_topics, topics_changed; /* as a worker, */
    bool announces_itself;                            /* unless its client does that */
    struct request_queue pipeline;
    uint32_t applied;                /* reserves whose jobs are not in the session yet */
    size_t listing_bytes;            /* of a listing that is being collected */
    struct unsent_queue unsent_many; /* replies to reserve-many that are not sent, */
    size_t many_bytes;               /* and their memory */

    struct rpc_list rpcs;       /* in flight */
    struct tag_table tags;      /* of rpcs, and of parked ones */
    bool has_uncancelled;       /* some rpcs are not cancelled yet after the end */
    size_t rpc_bytes;           /* memory of calls until their reply */
    uint32_t waiter_count;      /* calls in flight that may wait */
    struct rpc_queue unreplied; /* completed; replies wait for room in output */
    struct rpc_queue unsent;    /* replies with leases that are not sent completely */
    struct tubes topic_refs;    /* references to topics, made by calls */
    struct subscription_list subscriptions;
    uint32_t subscription_count, subscriptions_pending; /* feeds, and subscribe calls in flight */
    uint64_t last_subscription;                         /* the last number assigned to a feed */
};

static inline struct beanstalk_conn *bi_beanstalk_conn(struct conn *conn)
{
    return (struct beanstalk_conn *)(void *)conn;
}

/* Makes a session use or watch a tube, and writes the reply. */
typedef void (*tube_fn)(struct beanstalk_conn *conn, struct tube *tube, struct output *reply);

struct request {
    struct server_op base; /* first: completion casts it */
    bide_op op;
    struct beanstalk *beanstalk;
    struct beanstalk_conn *conn; /* NULL: closed, or a request without a client */
    STAILQ_ENTRY(request) next;  /* in a pipeline, or spare */
    /* Writes the reply. False: the request is submitted again and stays at the head. */
    bool (*reply)(struct request *request);
    /* Writes the reply of an op that has succeeded, for bi_beanstalk_verb_reply(); NULL: text. */
    void (*write)(struct request *request);
    bool finished;    /* completed; the reply is not written yet */
    bool early;       /* completed before it reached the head of the pipeline */
    bool blocking;    /* no command behind it executes */
    bool has_steps;   /* its reply may submit another op */
    bool speculative; /* a reserve without a wait, still in the batch */
    bool extended;    /* error replies use the words of the extensions */
    bool leased;      /* the client named the token of the lease */
    bool waited;      /* a reserve that waits, or has waited */
    bool applied;     /* a reserve that has its jobs; the reply waits for a commit */
    enum cancel_reason cancel_reason;
    bool has_retry_limit;  /* of the job whose lease is removed from the session */
    int64_t lease_end;     /* of that lease; 0: none was removed */
    int64_t completed_at;  /* server->now at the completion */
    int64_t timeout_ms;    /* of a reserve, from the client */
    size_t expected_bytes; /* upper bound of the reply body */
    struct tube *tube;     /* use, watch: held until the topic is referenced */
    tube_fn apply_tube;
    void *extra; /* owned; freed with the request */
    void (*free_extra)(void *extra);
    const char *text; /* the reply if the op succeeds; NULL: the request writes its own */
    size_t copy_size; /* of a reply without an op */
    union {
        bide_job job;
        struct {
            bide_put_options options;
            char key[BIDE_KEY_MAX];
        } put;
        bide_topic_stats topic;
        bide_topic_policy policies[2]; /* topic-get: what is set, and what is in force */
        bide_stats stats;
        char copy[OUTPUT_SMALL]; /* of such a reply */
    };
};

/* ---- beanstalk_input.c ---- */

/* Functions of the protocol; see protocol.h. */
size_t bi_beanstalk_input_consume(struct conn *conn, const char *data, size_t size);
void bi_beanstalk_input_reject_body(struct conn *base);
/* Frees an incomplete command. */
void bi_beanstalk_input_free(struct beanstalk_conn *conn);

/* ---- request.c ---- */

/* A new request; conn may be NULL. Returns NULL when out of memory. */
struct request *bi_request_new(struct beanstalk *beanstalk, struct beanstalk_conn *conn,
                               bide_op_kind kind, bool (*reply)(struct request *request));
/* Adds the op to the batch, for the first time or again. */
void bi_request_submit(struct request *request);
/* Submits the next step of a long request after the other connections had their turn. */
void bi_request_yield(struct request *request);
/* Appends the request to the pipeline of its connection and submits it. */
void bi_request_enqueue(struct request *request);
/* Appends a request that needs no op. It replies now, or when it reaches the head. */
void bi_request_enqueue_completed(struct request *request);
void bi_request_free(struct request *request);
/* True if a pending op may wait for an event, not only for a commit. */
bool bi_request_waits(const struct request *request);
/* True if the op was to end a lease of the session and has failed: the lease is still held. */
bool bi_request_keeps_lease(const struct request *request);
/* Cancels a request that waits. It still completes once. */
void bi_request_cancel(struct request *request, enum cancel_reason cancel_reason);
/* Detaches the requests of a closed connection. They complete without a reply. */
void bi_request_abandon_all(struct beanstalk_conn *conn);
void bi_request_free_spare(struct beanstalk *beanstalk);
/* Replies in the order of the commands. The text has at most OUTPUT_SMALL bytes, and is copied. */
void bi_request_reply(struct beanstalk_conn *conn, const char *text);
void bi_request_reply_bytes(struct beanstalk_conn *conn, const char *text, size_t size);
/* Writes the replies of completed requests at the head of the pipeline. */
void bi_request_drain_pipeline(struct beanstalk_conn *conn);
/* Cancels the requests that wait. Only submitted ops can be cancelled: flush first. */
void bi_request_cancel_waiting(struct conn *conn, enum cancel_reason cancel_reason);

/* ---- beanstalk_verb.c, beanstalk_ext.c, beanstalk_stats.c ---- */

/* The largest body that a verb accepts. */
size_t bi_beanstalk_verb_body_max(const struct server *server, enum verb verb);
/* True if the command may execute now. May flush the batch; sets conn->base.deferred or
 * conn->base.blocked as the reason for false. If the line was not understood, only the verb is
 * used: the parser may not have set the rest. */
bool bi_beanstalk_verb_may_execute(struct beanstalk_conn *conn, const struct command *command,
                                   bool understood);
/* Executes a complete command. Its body is valid until the batch is submitted; the caller releases
 * its reference to buf at once. */
void bi_beanstalk_verb_execute(struct beanstalk_conn *conn, const struct command *command);
/* A new request. Without memory it replies OUT_OF_MEMORY and returns NULL. */
struct request *bi_beanstalk_verb_new_request(struct beanstalk_conn *conn, bide_op_kind kind,
                                              bool (*reply)(struct request *request));
/* Count the connection as a producer, as a worker. */
void bi_beanstalk_verb_set_producer(struct beanstalk_conn *conn);
void bi_beanstalk_verb_set_worker(struct beanstalk_conn *conn);
/* Sets the time at which a new job expires, relative to now; 0: never. */
void bi_beanstalk_jobs_set_expiry(bide_put_options *options, int64_t expires_ms);
/* The reply of the protocol to an outcome or failure. */
const char *bi_beanstalk_verb_error_reply(const struct request *request);
/* Logs, at a limited rate, that a client received this reply because of a limit. */
void bi_beanstalk_verb_log_limit(struct beanstalk *beanstalk, const char *reply,
                                 const char *detail);
/* Writes the error reply. */
bool bi_beanstalk_verb_reject(struct request *request);
/* The reply function of most verbs: if the op has succeeded, request->write() or request->text,
 * otherwise the error reply. */
bool bi_beanstalk_verb_reply(struct request *request);
/* Removes the lease of the command from the session, for an op that ends it, and returns its token,
 * or the token that the client named. 0: the connection does not hold the job. */
uint64_t bi_beanstalk_finish_take_lease(struct request *request, const struct command *command);
/* Returns the lease to the session if the op has failed and did not end it. */
void bi_beanstalk_finish_keep_lease(struct request *request);
/* Updates the session when a touch completes, which may be long before its reply. */
void bi_beanstalk_finish_on_touched(struct request *request);
/* Submits a delete whose lease was lost again, without the token, and returns true: the job may be
 * ready, and any client may delete a ready job. False for every other request. */
bool bi_beanstalk_finish_retry_delete(struct request *request);
/* Arms the timer for DEADLINE_SOON, for a waiting reserve of a connection that holds jobs. */
void bi_beanstalk_jobs_arm_deadline(struct beanstalk_conn *conn);
/* True if a lease of the connection ends within DEADLINE_SOON_US. */
bool bi_beanstalk_jobs_is_deadline_soon(struct beanstalk_conn *conn);

/* Releases one reference to the topic of a tube. last: the tube has left its table, and is freed
 * when no op in the batch borrows its name. */
void bi_beanstalk_tube_submit_unref(struct beanstalk *beanstalk, struct tube *tube, bool last);
/* Records that the queue holds a reference to the topic of the tube. */
void bi_beanstalk_tube_set_referenced(struct beanstalk *beanstalk, struct tube *tube);
/* Releases a connection's reference to a tube. */
void bi_beanstalk_tube_release(struct beanstalk *beanstalk, struct tube *tube);

/* ---- beanstalk_worker.c ---- */

/* The name by which the connection reserves from the tubes that it watches: that of client-name, else
 * its address. It is valid until the next client-name, which no reserve of the connection outlasts. */
bide_slice bi_beanstalk_worker_holder(struct beanstalk_conn *conn);
/* Returns a reference to the name by which a call reserves: the given one, else that of the
 * connection. NULL when out of memory: the call then reserves without a name. */
bide_buf *bi_beanstalk_worker_call_holder(struct beanstalk_conn *conn, bide_slice given);
/* The connection is closed: it is no worker any more. */
void bi_beanstalk_worker_closed(struct beanstalk_conn *conn);

/* Brackets a YAML document: end() replies "OK <bytes>" and the text, and frees the text. */
void bi_beanstalk_stats_begin_document(struct output *text);
void bi_beanstalk_stats_end_document(struct beanstalk_conn *conn, struct output *text);
/* Writes a key with a value in double quotes, as YAML escapes it. */
void bi_beanstalk_stats_write_value(struct output *text, const char *name, const void *data,
                                    size_t size);

/* Called after a write: drops the leases of reserve-many replies that are sent completely. */
void bi_beanstalk_sent(struct beanstalk_conn *conn);
/* Gives back the leases of one reply that was not sent. False if there is none. */
bool bi_beanstalk_drop_unsent(struct beanstalk_conn *conn);

/*
 * Most verbs make one request. The table of verbs creates it; these functions fill in its op, and
 * what differs from the defaults: reply or write. They return NULL, or the reply of a command that
 * is rejected; the request is freed then.
 */
typedef const char *verb_fill(struct request *request, const struct command *command);
verb_fill bi_beanstalk_jobs_put, bi_beanstalk_jobs_reserve, bi_beanstalk_jobs_reserve_job,
    bi_beanstalk_jobs_peek, bi_beanstalk_jobs_kick, bi_beanstalk_jobs_by_id;
verb_fill bi_beanstalk_finish_delete, bi_beanstalk_finish_release, bi_beanstalk_finish_bury,
    bi_beanstalk_finish_touch, bi_beanstalk_finish_done, bi_beanstalk_finish_fail;
verb_fill bi_beanstalk_tube_pause, bi_beanstalk_stats_server, bi_beanstalk_stats_job,
    bi_beanstalk_stats_tube, bi_beanstalk_stats_list_tubes, bi_beanstalk_stats_list_jobs;
verb_fill bi_beanstalk_ext_put_many, bi_beanstalk_ext_finish_and_put, bi_beanstalk_ext_reserve_many,
    bi_beanstalk_ext_result, bi_beanstalk_ext_update, bi_beanstalk_ext_purge,
    bi_beanstalk_ext_topic_set, bi_beanstalk_ext_topic_get;
verb_fill bi_beanstalk_schedule_set, bi_beanstalk_schedule_call, bi_beanstalk_schedule_list;
verb_fill bi_beanstalk_worker_announce, bi_beanstalk_worker_list, bi_beanstalk_worker_why;

/* These verbs make no request, or only sometimes. */
typedef void verb_handle(struct beanstalk_conn *conn, const struct command *command);
verb_handle bi_beanstalk_tube_use, bi_beanstalk_tube_watch, bi_beanstalk_tube_ignore,
    bi_beanstalk_tube_list_used, bi_beanstalk_stats_list_watched, bi_rpc_call, bi_rpc_cancel,
    bi_beanstalk_worker_set_name;

/* ---- rpc_limit.c ---- */

/* Approximate upper bound of the reply. */
size_t bi_rpc_limit_reply_estimate(const struct server *server, const bide_op *op);
/* May the connection make a call of `bytes` bytes? While connections use half of the clients'
 * memory, a connection whose calls use much of it may not. */
bool bi_rpc_limit_has_memory(const struct beanstalk_conn *conn, size_t bytes);

/* The share that a connection gets however much others use: `most`, or less if that many for each
 * connection would exceed `all`. */
uint64_t bi_rpc_limit_guaranteed_share(const struct server *server, uint64_t most, uint64_t all);
bool bi_rpc_limit_may_wait(const struct beanstalk_conn *conn);
/* Replaces the time-out of a call that was not allowed to wait by the reason. */
void bi_rpc_limit_reject_wait(const struct beanstalk_conn *conn, bide_op *op);
/* May the connection have one more feed? Returns BIDE_OK, or a code with a message. */
int bi_rpc_limit_check_subscriptions(const struct beanstalk_conn *conn, char *error);
/* May the client make the server write this file? Returns the same. */
int bi_rpc_limit_check_backup(const struct beanstalk_conn *conn, const char *path, char *error);

/* ---- rpc_topic_ref.c ---- */

/* May the connection watch or reference one more topic? */
bool bi_rpc_topic_ref_may_add(const struct beanstalk_conn *conn);
/* The error message (BIDE_ERROR_SIZE bytes) for a connection that may not. */
void bi_rpc_topic_ref_limit_error(const struct beanstalk_conn *conn, const char *verb, char *error);

/* Begins a call of topic_ref. *out is the reference until the call ends, or NULL. Returns
 * BIDE_NOT_FOUND if the call would release more than the connection has acquired. */
int bi_rpc_topic_ref_begin(struct beanstalk_conn *conn, const bide_op *op, struct tube **out,
                           char *error);
/* Ends the call: done if it has succeeded. */
void bi_rpc_topic_ref_end(struct beanstalk_conn *conn, struct tube *tube, int delta, bool done);
/* Detaches a call in flight from its closed connection. Returns the entry to settle when the call
 * completes; NULL when out of memory: the reference that the call makes is then not released. */
struct tube *bi_rpc_topic_ref_orphan(struct beanstalk_conn *conn, struct tube *tube, int delta);
/* Completes such a call: releases the reference that it has made, or has failed to release. */
void bi_rpc_topic_ref_settle(struct beanstalk *beanstalk, struct tube *orphan, int delta,
                             bool done);
/* Releases one reference of a closed connection. False if there is none left. */
bool bi_rpc_topic_ref_drop_one(struct beanstalk_conn *conn);

/* ---- tag_table.c ---- */

bool bi_tag_table_add(struct tag_table *table, struct tag_link *link, uint64_t tag);
/* Does nothing for a link that is not in a table. */
void bi_tag_table_remove(struct tag_table *table, struct tag_link *link);
/* Returns the latest link of the tag, or NULL. */
struct tag_link *bi_tag_table_find(const struct tag_table *table, uint64_t tag);
/* Frees the buckets. Requires an empty table. */
void bi_tag_table_done(struct tag_table *table);

/* ---- rpc.c ---- */

/* Cancels the calls that wait, a slice at a time. */
void bi_rpc_cancel_waiting(struct conn *base);
/* Ends one call, unsent reply or feed of a closed connection. False if there is none left. */
bool bi_rpc_drop_one(struct beanstalk_conn *conn);

/* ---- rpc_reply.c ---- */

/* Replies to a call that is not submitted. */
void bi_rpc_reply_reject(struct beanstalk_conn *conn, uint64_t tag, int code, const char *sentence);
/* Called after a write: frees what was sent completely, and writes replies that have room now. */
void bi_rpc_reply_flush(struct beanstalk_conn *conn);

#endif
