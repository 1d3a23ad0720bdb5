/* SPDX-License-Identifier: MIT */
/*
 * server_internal - the structures and functions that the files of the server share.
 *
 * A turn of the loop: libevent reports the readable sockets. Each is read once. Its complete
 * commands become requests, whose ops are collected in one batch for all connections. The batch is
 * submitted when it is full, when a command depends on an earlier one, and at the end of the turn.
 * Replies are appended to the output of their connection, and each output that has grown is written
 * once.
 *
 * Ordering   Replies have the order of the commands. A request that does not complete synchronously
 *            (a reserve that waits, a change that is not committed) stays in the pipeline of its
 *            connection, and the replies of later commands wait behind it. A command behind a
 *            blocking request is not parsed; it stays in the input.
 * Ownership  The ops of a batch borrow names and bodies: from the scratch memory, from tubes, from
 *            the session. None of these may change or be freed before bi_server_flush(). After the
 *            submit the queue has its own copies.
 * Threads    Everything runs on the thread of the loop.
 */
#ifndef BI_SERVER_INTERNAL_H
#define BI_SERVER_INTERNAL_H

#include "op/op_codec.h"
#include "server/admission.h"
#include "server/beanstalk/beanstalk_parse.h"
#include "server/beanstalk/session.h"
#include "server/beanstalk/tag_table.h"
#include "server/output.h"
#include "server/server.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#define BATCH_MAX          1024                /* ops of one batch, */
#define BATCH_TOPICS       4096                /* and topics that they name */
#define READ_MAX           ((size_t)128 << 10) /* bytes of one read, and of the unexecuted input */
#define BULK_COMMANDS      128                 /* in one read, or in flight, make a bulk sender */
#define INPUT_LIGHT        ((size_t)4 << 10)   /* unexecuted input of a light connection */
#define SCRATCH_SIZE       ((size_t)512 << 10) /* input of one batch */
#define PIPELINE_MAX       1024                /* requests of one connection, */
#define PIPELINE_MAX_TIGHT 16                  /* and while clients use half of max_client_bytes */
#define RPC_UNREAD_MAX \
    ((size_t)64 << 20) /* replies to calls that one connection may leave unread */
#define RPC_UNREAD_SHARE    ((size_t)1 << 20)   /* the same while memory is short */
#define OUTPUT_HIGH         ((size_t)256 << 10) /* with more unsent output, no command executes */
#define EXPECTED_BYTES_HIGH ((size_t)8 << 20)   /* reply bodies that requests in flight may bring */
#define TURN_US             2000                /* of a turn, before the sockets are polled again */
#define LIGHT_SLICE_US      100                 /* slice of a light connection, */
#define SLICE_US            1000                /* of a heavy one, */
#define SLICE_WORK          8192                /* and the same in units of work of about 0.1 us */
#define CLOCK_WORK          64                  /* units between two readings of the clock */
#define SLOW_OP_BYTES       ((size_t)64 << 10)  /* a slow command counts as this many bytes read */
#define BODY_SMALL \
    ((size_t)64 << 10) /* smaller bodies may use the last fourth of the clients' memory */
#define BODY_LARGE       (BODY_SMALL + 1) /* for requests that may not, and have no body size */
#define DEADLINE_SOON_US INT64_C(1000000) /* before the end of a lease: reply DEADLINE_SOON */

struct conn;
struct rpc;
struct deferred_release;
struct unsent_many;

/* Why a waiting request is cancelled. */
enum cancel_reason { CANCEL_NONE, CANCEL_DEADLINE_SOON, CANCEL_HALF_CLOSED, CANCEL_CLOSING };

/* Makes a session use or watch a tube, and writes the reply. */
typedef void (*tube_fn)(struct conn *conn, struct tube *tube, struct output *reply);

struct request {
    bide_op op; /* first: an op is cast to its request */
    struct server *server;
    struct conn *conn; /* NULL: closed, or a request of the server itself */
    struct request *next;
    struct request *next_yielded;
    /* Writes the reply. False: the request is submitted again and stays at the head. */
    bool (*reply)(struct request *request);
    bool finished;    /* completed; the reply is not written yet */
    bool early;       /* completed before it reached the head of the pipeline */
    bool blocking;    /* no command behind it executes */
    bool speculative; /* a reserve without a wait, still in the batch */
    bool counted;     /* in server->uncommitted, */
    bool bulk;        /* and in server->bulk_uncommitted */
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
    size_t bytes;          /* of the body of the command */
    struct tube *tube;     /* use, watch: held until the topic is referenced */
    tube_fn apply_tube;
    void *extra; /* owned; freed with the request */
    void (*free_extra)(void *extra);
    const char *text; /* a reply that is ready, text_size bytes */
    size_t text_size;
    union {
        bide_job job;
        struct {
            bide_put_options options;
            char key[BIDE_KEY_MAX];
        } put;
        bide_topic_stats topic;
        bide_stats stats;
        char copy[OUTPUT_SMALL]; /* of such a reply */
    };
};

enum stage {
    STAGE_LINE,
    STAGE_BODY,    /* incoming collects the body */
    STAGE_SKIP,    /* skip bytes, then reply skip_reply or reject a call */
    STAGE_DISCARD, /* the rest of a line that is too long */
};

/* A command with an incomplete body. Only the bytes received count as memory, not the whole buffer:
 * the kernel allocates pages when they are written. The buffer of a large body grows with it. */
struct incoming {
    struct command command;
    bide_buf *buf;
    char *data;  /* of buf, */
    size_t room; /* capacity of data, */
    size_t got;  /* bytes received, including the CRLF */
    int64_t body_started_at;
    char end[2];
    char name[64];
};

struct conn {
    struct server *server;
    uint32_t order;           /* of its ops: not 0, differs between connections */
    struct conn *prev, *next; /* all connections, in the order of their accept */
    int fd;
    struct event event;
    struct event timer; /* DEADLINE_SOON, and while lingering */
    bool untimed;       /* timer could not be added; on_idle() stands in for it */
    short events;       /* that event is added for */

    bool authorised;   /* has authenticated, or need not */
    bool pending;      /* in the list of connections that must authenticate */
    bool remote;       /* authorised, and from another machine */
    bool paused;       /* not read or executed until the end of the pause */
    bool pause_closes; /* then the connection is closed */
    bool pause_waited; /* the auth command has waited for a pause */
    uint8_t auth_failures;
    uint8_t auth_required_count; /* commands rejected before authentication */
    struct peer *peer;           /* NULL: unknown */
    struct peer *subnet;         /* of a remote IPv6 client; NULL: none */
    struct conn *pending_prev, *pending_next;
    struct event *pause;    /* NULL: never paused */
    const char *pause_text; /* reply at its end; may be NULL */
    int64_t auth_deadline;  /* to authenticate */

    bool producer, worker;
    bool eof;         /* end of file was read */
    bool half_closed; /* the peer has shut down its side */
    bool quit;        /* no further command executes */
    bool dead;        /* close at the end of the turn, unsent output or not */
    bool closed;      /* the socket is closed */
    bool failed;      /* has ended, but not by a stop of the server */
    bool releasing;   /* in server->releasing */
    bool dirty;       /* in one of server->dirty */
    bool bulk;        /* the last read brought many commands, slow ones, or none */
    bool throttled;   /* stopped until the queue has room */
    bool tcp;
    bool lingering;  /* closed when the peer has acknowledged the output */
    bool need_input; /* the input is an incomplete command */

    enum stage stage;
    const char *skip_reply; /* NULL: reject the call skip_tag with skip_code */
    uint64_t skip, skip_tag;
    int skip_code;
    struct incoming *incoming;
    char *input; /* received, not executed */
    size_t input_size;
    struct output output;
    size_t memory; /* its part of server->client_bytes */

    struct session session;
    struct request *pipeline_head, *pipeline_tail;
    size_t pipeline_count;
    uint32_t blocking_count; /* blocking requests in the pipeline */
    uint32_t speculative;    /* of these, reserves in the batch */
    uint32_t applied;        /* reserves whose jobs are not in the session yet */
    bool stalled;            /* the next command names a job that one of these may hold */
    bool deferred;           /* the next command waits until fewer changes are uncommitted */
    bool may_defer;          /* the next command is deferred if it writes */
    size_t expected_bytes;   /* upper bound of the replies to requests, and to calls in the batch */

    struct rpc *rpcs;      /* in flight */
    struct tag_table tags; /* of rpcs, and of parked ones */
    bool has_uncancelled;  /* some rpcs are not cancelled yet after the end */
    size_t rpc_count;
    size_t rpc_waiting;        /* of these, calls that wait for an event */
    size_t rpc_reply_estimate; /* upper bound of the replies to the others, once submitted */
    size_t rpc_bytes;          /* memory of calls until their reply */
    uint32_t waiter_count;     /* calls in flight that may wait */
    struct rpc *unreplied_head, *unreplied_tail; /* completed; replies wait for room in output */
    size_t unreplied_bytes;
    size_t listing_bytes;                  /* of a listing that is being collected */
    struct rpc *unsent_head, *unsent_tail; /* replies with leases that are not sent completely */
    struct unsent_many *many_head, *many_tail; /* the same for reserve-many, */
    size_t many_bytes;                         /* and their memory */
    struct tubes topic_refs;                   /* references to topics, made by calls */
    struct subscription *subscriptions;
    uint32_t subscription_count, subscriptions_pending; /* feeds, and subscribe calls in flight */
    uint64_t last_subscription;                         /* the last number assigned to a feed */

    struct conn *next_dirty, *next_releasing;
    struct conn_queue *run_queue; /* that holds it, or NULL */
    struct conn *prev_run, *next_run;
    struct read_queue *read_queue; /* that holds it, or NULL */
    struct conn *prev_read, *next_read;

    int64_t opened_at;
    int64_t last_active_at;   /* last input, wait or held job */
    int64_t last_drained_at;  /* last progress of the output, or no output */
    int64_t last_received_at; /* last input, or no partial command */
    int64_t linger_end;
    int32_t linger_wait; /* us until the next check */
};

/* A listening socket in the loop. */
struct acceptor {
    struct acceptor *next;
    struct server *server;
    struct event event;
    int fd;
    bool tcp;
};

struct read_queue {
    struct conn *head, *tail;
};

/* A FIFO of connections, linked by next_dirty, next_run or next_releasing. */
struct conn_queue {
    struct conn *head, *tail;
};

/* Light connections are served before heavy ones, for half of the time; see schedule.c. */
enum load { LOAD_LIGHT, LOAD_HEAVY, LOADS };

struct server {
    bide *queue;
    bide_cq *cq;
    struct bi_log log;
    struct server_limits limits;
    struct server_settings settings;
    struct event_base *base;
    struct event cq_event, term, interrupt, usr1, hup, idle_timer, stop_timer, accept_timer;
    struct event watchdog_timer;
    struct acceptor *acceptors;
    struct admission admission;

    struct conn *first, *last;                  /* connections */
    struct conn_queue dirty[LOADS];             /* to write, close or watch again */
    struct conn_queue run_queue[LOADS];         /* with input that may execute */
    struct conn_queue deferred;                 /* the same, once fewer changes are uncommitted */
    struct conn_queue releasing;                /* ended, with leases or tubes to release */
    struct read_queue heavy_reads, light_reads; /* readable, waiting for their turn */
    bool last_read_light;                       /* the last read was from light_reads */

    struct tubes tubes;
    size_t topic_refs;    /* of all connections together */
    struct tubes orphans; /* topics of calls in flight whose connections are closed */
    struct tube *default_tube;

    struct request *spare; /* free list of requests */
    size_t spare_count;
    struct request *yielded_head, *yielded_tail; /* steps of long requests */
    struct deferred_release *deferred_releases;  /* leases to give back when the queue has room */
    size_t deferred_first, deferred_count, deferred_room;
    int64_t release_retry_at; /* deferred releases wait until then */
    uint64_t releases_in_flight,
        releases_in_flight_max; /* leases being given back, and their limit */

    int64_t limit_log_at;            /* next log line about a rejection, */
    int64_t accept_log_at;           /* and about a failed accept */
    int64_t stop_end;                /* deadline of clients after a stop has begun */
    struct bi_log_limit overdue_log; /* connections closed by command_timeout, */
    struct bi_log_limit http_log;    /* and for sending HTTP */
    struct bi_log_limit crowded_log; /* calls rejected because too many wait */

    bide_op *batch[BATCH_MAX];
    size_t batch_count;
    size_t batch_topics;       /* that its ops name */
    bool batch_slow;           /* its last op is slow */
    struct op_bytes rpc_reply; /* buffer to encode replies to calls */
    char *scratch;
    size_t scratch_at;
    size_t read_bytes;            /* in this round of the loop */
    bool submitted;               /* ops were submitted since the last begin_commit() */
    unsigned single_commit_turns; /* turns in a row with a single change to commit */

    size_t in_flight;     /* ops submitted or yielded, not completed */
    uint64_t uncommitted; /* of these, changes that wait for a commit */
    uint64_t uncommitted_bytes;
    uint64_t uncommitted_max, uncommitted_bytes_max;
    uint64_t bulk_uncommitted,
        bulk_uncommitted_bytes; /* of the uncommitted ones, those of bulk senders, */
    uint64_t bulk_uncommitted_max,
        bulk_uncommitted_bytes_max; /* and the limits at which these are not read */

    size_t max_job_size, max_result_size, max_error_size;
    uint64_t max_topics, max_waiters;
    uint64_t waiter_count;      /* calls of all connections that may wait */
    uint64_t client_bytes;      /* buffers of all connections */
    int64_t memory_short_until; /* set when a command is rejected for lack of memory */

    uint32_t connections, producers, workers;
    uint64_t total_connections, refused_connections;
    uint64_t auth_failure_count; /* wrong secrets */
    uint64_t commands[VERB_COUNT + 1];

    bool throttled;       /* a connection or a release waits for room in the queue */
    bool conns_throttled; /* some connections are throttled */
    bool deaf;            /* a listener has no event, and no timer will add it: on_idle() does */
    bool stopping;        /* a stop has begun */
    bool commit_stuck;    /* a commit hangs, and this is logged */
    bool stop_forced;     /* a stop does not wait for clients any more */
    bool resubmitting;    /* a parked call is being resubmitted */

    int64_t now;   /* boot-time clock, read after the last submit and before the last drain */
    uint64_t work; /* commands executed, or work of the same cost */
    uint64_t next_clock_work; /* work at which the clock is read next */
    int64_t started;
    char id[17];              /* public */
    uint64_t lease_hash_seed; /* of the lease tables of sessions */
};

/* ---- server.c ---- */

/* Adds an op to the batch. The caller's memory that it names is borrowed until the batch is
 * submitted. Its done() is called once, on the thread of the loop. user is NULL for the op of a
 * request and set for that of a call. */
void bi_server_submit(struct server *server, bide_op *op);
/* Submits the batch, and the ops that completions add to it. The batch is empty afterwards. */
void bi_server_flush(struct server *server);
/* True while so much is uncommitted that no further command may execute. */
bool bi_server_must_throttle(const struct server *server);
/* May a connection with a command of `size` bytes use `extra` more bytes of the clients' memory?
 * Commands larger than BODY_SMALL leave a fourth to others. A connection that is the only user may
 * exceed the limit: nothing else could free memory for it. */
bool bi_server_has_memory(struct server *server, const struct conn *conn, size_t size,
                          size_t extra);
/* True while the clients' memory is exceeded, and for a while after a command was rejected for
 * it. */
bool bi_server_is_memory_short(const struct server *server);

/* ---- schedule.c ---- */

/* Has bi_conn_finish_turn() called for the connection at the end of the turn; revokes this. */
void bi_schedule_mark_dirty(struct conn *conn);
void bi_schedule_clear_dirty(struct conn *conn);
/* Enqueues a connection whose input may execute. No effect if it is queued or closed. */
void bi_schedule_enqueue_run(struct conn *conn);
void bi_schedule_dequeue_run(struct conn *conn);
/* Counts work, and reads the clock every CLOCK_WORK units: a turn must end in time also if it
 * submits nothing. */
void bi_schedule_count_work(struct server *server, uint64_t units);
/* Reads a readable connection, or enqueues it if it is heavy or the round has read much. */
void bi_schedule_on_readable(struct conn *conn);
void bi_schedule_dequeue_read(struct conn *conn);
/* Run, or finish the turn of, the connections that are in the queues now, until `end`. */
void bi_schedule_run(struct server *server, int64_t end);
void bi_schedule_write(struct server *server, int64_t end);
/* The same for light connections only. */
void bi_schedule_write_light(struct server *server, int64_t end);
/* The time that a connection may execute at once. */
int64_t bi_schedule_slice_us(const struct conn *conn);
/* False while the uncommitted changes of bulk senders fill BULK_COMMITS commits. */
bool bi_schedule_accepts_bulk(const struct server *server);
bool bi_schedule_has_runnable(const struct server *server);
bool bi_schedule_has_dirty(const struct server *server);
/* True if a queued connection may be read. */
bool bi_schedule_has_readable(const struct server *server);
/* Reads queued connections for a slice of time. */
void bi_schedule_read(struct server *server);
/* Counts a change that waits for a commit; conn is NULL for a closed connection. Returns whether it
 * counts as a change of a bulk sender, which the caller passes to
 * bi_schedule_remove_uncommitted(). */
bool bi_schedule_add_uncommitted(struct server *server, const struct conn *conn, size_t bytes);
void bi_schedule_remove_uncommitted(struct server *server, bool bulk, size_t bytes);

/* ---- request.c ---- */

/* A new request; conn may be NULL. Returns NULL when out of memory. */
struct request *bi_request_new(struct server *server, struct conn *conn, bide_op_kind kind,
                               bool (*reply)(struct request *request));
/* Adds the op to the batch, for the first time or again. */
void bi_request_submit(struct request *request);
/* Submits the next step of a long request after the other connections had their turn. */
void bi_request_yield(struct request *request);
/* Submits some of the yielded requests. */
void bi_request_submit_yielded(struct server *server);
/* Appends the request to the pipeline of its connection and submits it. */
void bi_request_enqueue(struct request *request);
/* Appends a request that needs no op. It replies now, or when it reaches the head. */
void bi_request_enqueue_completed(struct request *request);
void bi_request_free(struct request *request);
/* True if a pending op may wait for an event, not only for a commit. */
bool bi_request_waits(const struct request *request);
/* True if the op reserves jobs, which enter the session with the reply. */
bool bi_request_reserves(const struct request *request);
/* True if the op was to end a lease of the session and has failed: the lease is still held. */
bool bi_request_keeps_lease(const struct request *request);
/* Cancels a request that waits. It still completes once. */
void bi_request_cancel(struct request *request, enum cancel_reason cancel_reason);
/* Detaches a request from its closed connection. It completes without a reply. */
void bi_request_abandon(struct request *request);
/* Gives back the lease of a closed connection, or defers this while the queue is throttled. failed:
 * the job counts a failed attempt. */
void bi_request_give_back(struct server *server, uint64_t id, uint64_t token, bool failed);
/* False while the queue is throttled, or enough releases are in flight. */
bool bi_request_may_release(const struct server *server);
/* True if deferred releases can be submitted now. */
bool bi_request_has_due_releases(const struct server *server);
/* Submits a slice of the deferred releases. */
void bi_request_submit_deferred_releases(struct server *server);

/* ---- conn_input.c ---- */

/* Receives once and executes the complete commands. */
void bi_conn_input_read(struct conn *conn);
/* Executes the retained input. */
void bi_conn_input_run(struct conn *conn);
void bi_conn_input_free(struct conn *conn);
/* Memory counted for an incomplete body. Requires conn->incoming. */
size_t bi_conn_input_body_memory(const struct conn *conn);

/* ---- conn.c ---- */

/* Takes the socket, also on failure (out of memory: NULL). authorised: it need not authenticate. */
struct conn *bi_conn_open(struct server *server, int fd, bool authorised, bool tcp);
/* Watches the socket for EV_READ, EV_WRITE, EV_ET; 0: nothing. On failure the connection is
 * dead. */
void bi_conn_set_events(struct conn *conn, short events);
/* Arms the timer of the connection. Without memory for it, on_idle() calls bi_conn_look_again(),
 * which acts within a second. */
void bi_conn_set_alarm(struct conn *conn, int64_t wait_us);
void bi_conn_clear_alarm(struct conn *conn);
/* Stands in for a timer that could not be armed. */
void bi_conn_look_again(struct conn *conn);
/* Logs, at debug level, that the connection was opened or closed. */
void bi_conn_log(const struct conn *conn, const char *verb);
/* Formats the peer for the log. */
#define PEER_SIZE 64
const char *bi_conn_format_peer(const struct conn *conn, char *text_out);
/* Replies in the order of the commands. The text must be static. */
void bi_conn_reply(struct conn *conn, const char *text);
/* The same for a text of at most OUTPUT_SMALL bytes, which is copied. */
void bi_conn_reply_copy(struct conn *conn, const char *text, size_t size);
/* Writes the replies of completed requests at the head of the pipeline. */
void bi_conn_drain_pipeline(struct conn *conn);
/* True if the next command may execute. Marks the connection as throttled if the queue is. */
bool bi_conn_may_execute(struct conn *conn);
/* True if the connection is read when it becomes readable. */
bool bi_conn_accepts_input(const struct conn *conn);
/* True if the server waits for the rest of a command, and for nothing else. */
bool bi_conn_has_partial_command(const struct conn *conn);
/* Limit of the unexecuted input. */
size_t bi_conn_max_input(const struct conn *conn);
/* Updates server->client_bytes by the change of the connection's memory. */
void bi_conn_update_memory(struct conn *conn);
/* Cancels the requests that wait. Only submitted ops can be cancelled: flush first. */
void bi_conn_cancel_waiting(struct conn *conn, enum cancel_reason cancel_reason);
/* Writes as much as the socket accepts. */
void bi_conn_write(struct conn *conn);
/* Writes, then closes the connection or updates its events. The connection may be freed. */
void bi_conn_finish_turn(struct conn *conn);
/* True if no request is in flight and all output is sent. */
bool bi_conn_is_idle(const struct conn *conn);
/* Cancels what waits and ends the connection after its pending replies. */
void bi_conn_stop(struct conn *conn);

/* ---- conn_close.c ---- */

/* Closes the socket and releases everything that the connection holds, now or in later slices. The
 * connection may be freed. Requires that it is in no run queue. */
void bi_conn_close(struct conn *conn);
/* Begins to release the leases and tubes of a connection that has ended, closed or lingering. */
void bi_conn_close_release(struct conn *conn);
/* True if closed connections have more to release and the queue has room. */
bool bi_conn_close_has_more(const struct server *server);
/* Releases a slice of that. */
void bi_conn_close_continue(struct server *server);
/* Frees the closed connections without giving back their leases. */
void bi_conn_close_free_all(struct server *server);

/* ---- beanstalk_verb.c, beanstalk_ext.c, beanstalk_stats.c ---- */

/* The largest body that a verb accepts. */
size_t bi_beanstalk_verb_body_max(const struct server *server, enum verb verb);
/* True if the command may execute now. May flush the batch; sets conn->deferred or conn->stalled as
 * the reason for false. If the line was not understood, only the verb is used: the parser may not
 * have set the rest. */
bool bi_beanstalk_verb_may_execute(struct conn *conn, const struct command *command,
                                   bool understood);
/* Executes a complete command. Its body is valid until the batch is submitted; the caller releases
 * its reference to buf at once. */
void bi_beanstalk_verb_execute(struct conn *conn, const struct command *command);
/* A new request. Without memory it replies OUT_OF_MEMORY and returns NULL. */
struct request *bi_beanstalk_verb_new_request(struct conn *conn, bide_op_kind kind,
                                              bool (*reply)(struct request *request));
/* Count the connection as a producer, as a worker. */
void bi_beanstalk_verb_set_producer(struct conn *conn);
void bi_beanstalk_verb_set_worker(struct conn *conn);
/* Sets the time at which a new job expires, relative to now; 0: never. */
void bi_beanstalk_jobs_set_expiry(bide_put_options *options, int64_t expires_ms);
/* The reply of the protocol to an outcome or failure. */
const char *bi_beanstalk_verb_error_reply(const struct request *request);
/* Logs, at a limited rate, that a client received this reply because of a limit. */
void bi_beanstalk_verb_log_limit(struct server *server, const char *reply, const char *detail);
/* Writes the error reply. */
bool bi_beanstalk_verb_reject(struct request *request);
/* Writes the word if the op has succeeded, otherwise the error reply. */
bool bi_beanstalk_verb_reply_or_reject(struct request *request, const char *word);
static inline bool bi_beanstalk_verb_is_id(uint64_t id)
{
    return id >= 1 && id <= BIDE_ID_MAX;
}
/* Updates the session when a touch completes, which may be long before its reply. */
void bi_beanstalk_finish_on_touched(struct request *request);
/* Arms the timer for DEADLINE_SOON, for a waiting reserve of a connection that holds jobs. */
void bi_beanstalk_jobs_arm_deadline(struct conn *conn);
/* True if a lease of the connection ends within DEADLINE_SOON_US. */
bool bi_beanstalk_jobs_is_deadline_soon(struct conn *conn);

/* Records that the queue holds a reference to the topic of the tube. */
void bi_beanstalk_tube_set_referenced(struct server *server, struct tube *tube);
/* Releases a connection's reference to a tube. */
void bi_beanstalk_tube_release(struct server *server, struct tube *tube);

/* Replies "OK <bytes>" and the text. */
void bi_beanstalk_stats_reply_document(struct conn *conn, struct output *text);

/* Called after a write: drops the leases of reserve-many replies that are sent completely. */
void bi_beanstalk_sent(struct conn *conn);
/* Gives back the leases of one reply that was not sent. False if there is none. */
bool bi_beanstalk_drop_unsent(struct conn *conn);

/* Handlers of the verbs. */
void bi_beanstalk_jobs_put(struct conn *conn, const struct command *command);
void bi_beanstalk_jobs_reserve(struct conn *conn, const struct command *command);
void bi_beanstalk_jobs_reserve_job(struct conn *conn, const struct command *command);
void bi_beanstalk_finish_delete(struct conn *conn, const struct command *command);
void bi_beanstalk_finish_release(struct conn *conn, const struct command *command);
void bi_beanstalk_finish_bury(struct conn *conn, const struct command *command);
void bi_beanstalk_finish_touch(struct conn *conn, const struct command *command);
void bi_beanstalk_finish_done(struct conn *conn, const struct command *command);
void bi_beanstalk_finish_fail(struct conn *conn, const struct command *command);
void bi_beanstalk_jobs_peek(struct conn *conn, const struct command *command);
void bi_beanstalk_jobs_kick(struct conn *conn, const struct command *command);
void bi_beanstalk_jobs_kick_job(struct conn *conn, const struct command *command);
void bi_beanstalk_tube_use(struct conn *conn, const struct command *command);
void bi_beanstalk_tube_watch(struct conn *conn, const struct command *command);
void bi_beanstalk_tube_ignore(struct conn *conn, const struct command *command);
void bi_beanstalk_tube_list_used(struct conn *conn, const struct command *command);
void bi_beanstalk_tube_pause(struct conn *conn, const struct command *command);
void bi_beanstalk_stats_server(struct conn *conn, const struct command *command);
void bi_beanstalk_stats_job(struct conn *conn, const struct command *command);
void bi_beanstalk_stats_tube(struct conn *conn, const struct command *command);
void bi_beanstalk_stats_list_tubes(struct conn *conn, const struct command *command);
void bi_beanstalk_stats_list_watched(struct conn *conn, const struct command *command);
void bi_beanstalk_stats_list_jobs(struct conn *conn, const struct command *command);
void bi_beanstalk_ext_put_many(struct conn *conn, const struct command *command);
void bi_beanstalk_ext_reserve_many(struct conn *conn, const struct command *command);
void bi_beanstalk_ext_result(struct conn *conn, const struct command *command);
void bi_beanstalk_ext_update(struct conn *conn, const struct command *command);
void bi_beanstalk_ext_cancel(struct conn *conn, const struct command *command);
void bi_beanstalk_ext_purge(struct conn *conn, const struct command *command);
void bi_admission_authenticate(struct conn *conn, const struct command *command); /* admission.c */

/* ---- rpc_limit.c ---- */

/* Approximate upper bound of the reply. */
size_t bi_rpc_limit_reply_estimate(const struct server *server, const bide_op *op);
/* May the connection make a call of `bytes` bytes? While connections use half of the clients'
 * memory, a connection whose calls use much of it may not. */
bool bi_rpc_limit_has_memory(const struct conn *conn, size_t bytes);

/* The share that a connection gets however much others use: `most`, or less if that many for each
 * connection would exceed `all`. */
uint64_t bi_rpc_limit_guaranteed_share(const struct server *server, uint64_t most, uint64_t all);
/* Bytes of replies to calls that the client has not read. */
size_t bi_rpc_limit_unread_bytes(const struct conn *conn);
/* True if the client has not read anything of many unread bytes for long. */
bool bi_rpc_limit_is_stalled(const struct conn *conn);
bool bi_rpc_limit_may_wait(const struct conn *conn);
/* Replaces the time-out of a call that was not allowed to wait by the reason. */
void bi_rpc_limit_reject_wait(const struct conn *conn, bide_op *op);
/* May the connection have one more feed? Returns BIDE_OK, or a code with a message. */
int bi_rpc_limit_check_subscriptions(const struct conn *conn, char *error);
/* May the client make the server write this file? Returns the same. */
int bi_rpc_limit_check_backup(const struct conn *conn, const char *path, char *error);

/* ---- rpc_topic_ref.c ---- */

/* May the connection watch or reference one more topic? */
bool bi_rpc_topic_ref_may_add(const struct conn *conn);
/* The error message (BIDE_ERROR_SIZE bytes) for a connection that may not. */
void bi_rpc_topic_ref_limit_error(const struct conn *conn, const char *verb, char *error);

/* Begins a call of topic_ref. *out is the reference until the call ends, or NULL. Returns
 * BIDE_NOT_FOUND if the call would release more than the connection has acquired. */
int bi_rpc_topic_ref_begin(struct conn *conn, const bide_op *op, struct tube **out, char *error);
/* Ends the call: done if it has succeeded. */
void bi_rpc_topic_ref_end(struct conn *conn, struct tube *tube, int delta, bool done);
/* Detaches a call in flight from its closed connection. Returns the entry to settle when the call
 * completes; NULL when out of memory: the reference that the call makes is then not released. */
struct tube *bi_rpc_topic_ref_orphan(struct conn *conn, struct tube *tube, int delta);
/* Completes such a call: releases the reference that it has made, or has failed to release. */
void bi_rpc_topic_ref_settle(struct server *server, struct tube *orphan, int delta, bool done);
/* Releases one reference of a closed connection. False if there is none left. */
bool bi_rpc_topic_ref_drop_one(struct conn *conn);

/* ---- rpc.c ---- */

void bi_rpc_call(struct conn *conn, const struct command *command);
void bi_rpc_cancel(struct conn *conn, const struct command *command);
/* Accounts for an op of a call that did not complete synchronously. */
void bi_rpc_pending(bide_op *op);
/* Replies to a call that is not submitted. */
void bi_rpc_reject(struct conn *conn, uint64_t tag, int code, const char *sentence);
/* Called after a write: frees what was sent completely, and writes replies that have room now. */
void bi_rpc_flush_replies(struct conn *conn);
/* Cancels the calls that wait, a slice at a time. */
void bi_rpc_cancel_waiting(struct conn *conn);
/* Ends one call, unsent reply or feed of a closed connection. False if there is none left. */
bool bi_rpc_drop_one(struct conn *conn);

#endif
