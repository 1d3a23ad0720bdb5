/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_client - the client of a plain beanstalkd, with the commands of its text protocol.
 *
 * Ops and options that beanstalkd lacks (keys, retries, results, lists, ...) fail with BIDE_ENOTSUP
 * and an error text. Times are whole seconds there: delays and ttrs are rounded up, never down.
 *
 * In beanstalkd a reserved job belongs to the connection that reserved it, and a connection whose
 * reserve waits executes nothing else. So the main connection carries everything that completes at
 * once, and each reserve that must wait gets a spare connection. A lease is found by its token,
 * which the client makes up; each command on it goes to the lease's connection. When a connection
 * is lost, beanstalkd releases its jobs, and their leases end.
 *
 *     beanstalkd_client.c     the functions of the client (remote.h); the table of supported ops
 *     beanstalkd_exchange.c   exchanges: an op and the commands that carry it out
 *     beanstalkd_conn.c       a connection: commands out, replies in
 *     beanstalkd_conn_pool.c  spare connections
 *     beanstalkd_keepalive.c  detects a silent server
 *     beanstalkd_lease.c      leases by token
 *     beanstalkd_put.c        put, put_many
 *     beanstalkd_reserve.c    reserve, reserve_job
 *     beanstalkd_finish.c     delete, release, bury, touch, and their bulk forms
 *     beanstalkd_query.c      peek, stats of a job, body, ping
 *     beanstalkd_topic.c      kick, pause, stats, pages of topics
 *     beanstalkd_yaml.c       parser of stats
 *
 * Ordering   Commands on one connection are executed in order, and their replies arrive in order.
 * Threads    The lock is that of struct remote. Connections, leases and running exchanges are the
 *            I/O thread's; handlers run there, with the lock.
 */
#ifndef BI_BEANSTALKD_CLIENT_H
#define BI_BEANSTALKD_CLIENT_H

#include "remote/remote.h"
#include "util/hash.h"

#include <stdarg.h>
#include <string.h>

#define LEASE_BUCKETS 1024

struct beanstalkd;
struct exchange;
struct conn;

/* The reply to one command. Valid only during the handler's reply(). */
struct reply {
    const char *word;
    uint64_t numbers[2]; /* after the word; 0 if missing */
    const unsigned char *data;
    size_t size;
};

/*
 * How a kind of op is carried out, as an exchange of commands and replies.
 *
 * send() queues the first commands and returns BIDE_PENDING, or returns the result of the op.
 * Without send() there is one command: the word `command`, and the id of the job if the op has one.
 * reply() handles one reply; index is that of its command. It returns the code of the reply; the
 * last one that is not BIDE_OK becomes exchange->code. When no reply is outstanding, end() returns
 * the result of the op, or BIDE_PENDING after it has queued further commands or has restarted the
 * exchange. Without end() the result is exchange->code.
 *
 * Without reply() the reply of success is the word `done`.
 *
 * A bulk op calls send() and reply() for each item, and what they return becomes its status.
 */
struct op_handler {
    int (*send)(struct exchange *exchange, size_t index);
    int (*reply)(struct exchange *exchange, size_t index, const struct reply *reply);
    int (*end)(struct exchange *exchange);
    bool bulk;
    const char *command, *done;
};

/*
 * One pending op, and the state of its commands. It is idle (not started), running (replies are
 * outstanding) or blocked (its reserve waits at the server). Only idle and blocked ones time out: a
 * running one ends with its replies, or with a connection that is silent for answer_timeout.
 */
struct exchange {
    struct remote_op base;
    struct beanstalkd *client;
    const struct op_handler *handler;
    unsigned outstanding; /* commands without reply */
    int stage;            /* the handler's */
    int code;             /* result of the op, so far */
    bool lost, lost_sent; /* a reply is lost; its command had been sent */
    bool ended;
    bool again;        /* begun before: this is a restart */
    bool told;         /* bulk: at least one item has a result from the server */
    bool settled;      /* its change has its result: the rest is repeatable */
    int64_t grace;     /* added to the deadline because the server ends the wait */
    struct conn *conn; /* of its reserve */
    bide_job *jobs;    /* results until they are handed over; owned */
    size_t job_count;
    size_t round_end; /* reserve: job_count if all of this round arrive */
    int finish_code;  /* finish_and_reserve: result of the finish, if settled */
    bool more;        /* topics: there is another page, after last_hash */
    uint64_t last_hash;
    struct exchange *next_ended;
};

/* An expected reply and its exchange (NULL: the reply is ignored). */
struct expected {
    struct exchange *exchange;
    size_t index;
    uint64_t end; /* position after the command, in all bytes ever queued */
};

struct conn {
    struct conn *next;
    int fd;
    bool broken;     /* to be closed; nothing more is written */
    bool eof;        /* and nothing more can be read */
    bool silent;     /* broken because the server does not reply */
    bool blocked;    /* a reserve waits on it */
    bool abort;      /* and is cancelled, which only the end of the connection does */
    bool want_write; /* the socket is full */
    bool strays;     /* holds a job without lease; closing releases it */
    size_t leases;
    int64_t active; /* when the server last sent or read, or a reply became due */
    char used[BIDE_TOPIC_MAX + 1];
    bide_slice *watched; /* one allocation with the names */
    size_t watched_count;
    struct remote_buffer in, out;
    uint64_t appended, written;    /* bytes since the connection was opened */
    struct remote_buffer expected; /* of struct expected, in the order of the commands */
};

struct lease {
    struct lease *next;
    uint64_t id, token;
    uint32_t priority;
    int64_t ttr;      /* microseconds */
    int64_t deadline; /* expires then, by the client's clock */
    struct conn *conn;
};

struct beanstalkd {
    struct remote remote;
    struct conn *main;  /* NULL: disconnected */
    struct conn *spare; /* for reserves that wait */
    size_t spare_count;
    uint64_t max_job_size; /* of the server; 0: unknown */
    struct lease *leases[LEASE_BUCKETS];
    uint64_t last_token;
    struct exchange *ended;       /* completed, freed at the end of the turn */
    struct bi_hash_secret secret; /* orders the pages of topics */
};

static inline struct beanstalkd *bi_beanstalkd_of(struct remote *remote)
{
    return (struct beanstalkd *)(void *)remote;
}

static inline struct exchange *bi_exchange_of(struct remote_op *op)
{
    return (struct exchange *)(void *)op;
}

/* ---- exchanges ---- */

extern const struct op_handler bi_beanstalkd_put, bi_beanstalkd_put_many, bi_beanstalkd_reserve,
    bi_beanstalkd_reserve_job, bi_beanstalkd_finish_delete, bi_beanstalkd_finish_release_or_bury,
    bi_beanstalkd_finish_touch, bi_beanstalkd_finish_many, bi_beanstalkd_finish_touch_many,
    bi_beanstalkd_finish_and_reserve, bi_beanstalkd_query_peek, bi_beanstalkd_query_peek_first,
    bi_beanstalkd_query_body, bi_beanstalkd_topic_kick, bi_beanstalkd_topic_kick_job,
    bi_beanstalkd_topic_pause, bi_beanstalkd_topic_server_stats, bi_beanstalkd_topic_stats,
    bi_beanstalkd_topic_page, bi_beanstalkd_query_ping, bi_beanstalkd_query_recovered;

/* The handler of reserve, for ops that reserve after something else. */
int bi_beanstalkd_reserve_send(struct exchange *exchange, size_t index);
int bi_beanstalkd_reserve_reply(struct exchange *exchange, size_t index, const struct reply *reply);
int bi_beanstalkd_reserve_end(struct exchange *exchange);

/* Starts an exchange on the main connection. */
void bi_beanstalkd_exchange_begin(struct exchange *exchange);
/* Queues a command on the main connection, and returns BIDE_PENDING. */
int bi_beanstalkd_exchange_command(struct exchange *exchange, size_t index, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Completes an exchange that failed. A bulk op with at least one replied item succeeds, and only
 * the other items fail. text: NULL means that of the code. */
void bi_beanstalkd_exchange_fail(struct exchange *exchange, int code, const char *text);
/* Restarts the exchange when there is a connection. Jobs that it has found are dropped. */
void bi_beanstalkd_exchange_restart(struct exchange *exchange);
/* Returns BIDE_OK if the reply is this word. Otherwise maps it to a code, with an error text. */
int bi_beanstalkd_exchange_check(const struct exchange *exchange, const struct reply *reply,
                                 const char *word);
/* The error of a reply that cannot be parsed. */
int bi_beanstalkd_exchange_reject_malformed(const struct exchange *exchange);
/* Queues stats-job with index 1 as the second and last stage. The op has made its change, if it
 * makes one: from here on it is settled. */
int bi_beanstalkd_exchange_query_job(struct exchange *exchange, uint64_t id);
/* The end() of ops on one job, for which NOT_FOUND is ambiguous: queries whether the job exists. */
int bi_beanstalkd_exchange_end_by_id(struct exchange *exchange);
/* Allocates exchange->jobs, once. False: out of memory. */
bool bi_beanstalkd_exchange_alloc_jobs(struct exchange *exchange, size_t count);
/* Handles a reply, or (NULL) its loss. sent: the command had been written completely. */
void bi_beanstalkd_exchange_handle_reply(const struct expected *expected, const struct reply *reply,
                                         bool sent);
/* Frees those that have completed. */
void bi_beanstalkd_exchange_free_ended(struct beanstalkd *beanstalkd);
/* Sets the error text of an op or item and returns BIDE_ENOTSUP. */
int bi_beanstalkd_client_reject_unsupported(bide_op *op, const char *what);

/* The word of a reply for which this client has no memory. */
#define REPLY_NO_MEMORY "NO_MEMORY"

static inline bool bi_reply_is(const struct reply *reply, const char *word)
{
    return strcmp(reply->word, word) == 0;
}

/* ---- connections (on the I/O thread) ---- */

struct conn *bi_beanstalkd_conn_new(int fd);
/* True if a reply is outstanding. */
static inline bool bi_beanstalkd_conn_expects(const struct conn *conn)
{
    return conn->expected.used < conn->expected.size;
}
void bi_beanstalkd_conn_free(struct conn *conn);
/* Queues a command, whose reply goes to the exchange. A body may follow. */
void bi_beanstalkd_conn_command(struct conn *conn, struct exchange *exchange, size_t index,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));
void bi_beanstalkd_conn_vcommand(struct conn *conn, struct exchange *exchange, size_t index,
                                 const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
void bi_beanstalkd_conn_append_body(struct conn *conn, bide_slice body);
/* Selects the tube of put, kick and peek; and the tubes of a reserve. */
void bi_beanstalkd_conn_use(struct conn *conn, bide_slice topic);
void bi_beanstalkd_conn_watch(struct conn *conn, const bide_slice *topics, size_t count);
void bi_beanstalkd_conn_write(struct conn *conn);
/* Reads once and passes complete replies to their exchanges. */
void bi_beanstalkd_conn_read(struct conn *conn);
/* Reads replies that arrived before a write failed. Their commands have been executed, and must
 * not be reported as BIDE_EUNKNOWN. */
void bi_beanstalkd_conn_read_pending(struct conn *conn);
/* The connection is lost: fails the expected replies. */
void bi_beanstalkd_conn_fail_expected(struct conn *conn);

/* ---- spare connections ---- */

/* Returns a spare connection without leases. NULL: too many, or connecting failed. Releases the
 * lock while it connects. */
struct conn *bi_beanstalkd_conn_pool_acquire(struct beanstalkd *beanstalkd);
/* Closes a connection, also the main one. Its leases end, its expected replies fail. */
void bi_beanstalkd_conn_pool_close(struct beanstalkd *beanstalkd, struct conn *conn);
/* Closes spare connections that are broken, and idle ones that are not retained for reuse. */
void bi_beanstalkd_conn_pool_close_unused(struct beanstalkd *beanstalkd);

/* ---- silent servers ---- */

/* Marks connections as broken whose server is silent, or probes it. */
void bi_beanstalkd_keepalive_check(struct beanstalkd *beanstalkd, int64_t now);
/* Returns when the next connection counts as lost, or when the server must be probed. */
int64_t bi_beanstalkd_keepalive_next_at(const struct beanstalkd *beanstalkd);

/* ---- leases ---- */

struct lease *bi_beanstalkd_lease_new(struct beanstalkd *beanstalkd, uint64_t id,
                                      struct conn *conn);
struct lease *bi_beanstalkd_lease_find(const struct beanstalkd *beanstalkd, uint64_t id,
                                       uint64_t token);
/* Returns whether this client holds a lease of the job that has not expired. O(number of
 * leases). */
bool bi_beanstalkd_lease_is_held(const struct beanstalkd *beanstalkd, uint64_t id);
void bi_beanstalkd_lease_free(struct beanstalkd *beanstalkd, struct lease *lease);
void bi_beanstalkd_lease_free_conn(struct beanstalkd *beanstalkd, const struct conn *conn);

/* ---- jobs and stats ---- */

/* Returns the value of a key, without quotes; empty if it is missing. */
bide_slice bi_beanstalkd_yaml_get(const struct reply *reply, const char *key);
uint64_t bi_beanstalkd_yaml_number(const struct reply *reply, const char *key);
/* Returns a number of seconds in milliseconds, at most BIDE_TIME_MAX_MS. */
int64_t bi_beanstalkd_yaml_ms(const struct reply *reply, const char *key);
/* Fills a job, except its body, from the reply of stats-job. False: the reply is malformed. */
bool bi_beanstalkd_yaml_job(const struct reply *reply, bide_job *job);
/* Sets the body, replacing an earlier one. False: out of memory. */
bool bi_beanstalkd_yaml_set_body(const struct reply *reply, bide_job *job);

/* Creates the backend on a connection that completed the handshake. Takes fd, on failure too. */
int bi_beanstalkd_client_open(const struct backend_context *context, const struct address *address,
                              int fd, struct backend **out, char *error);

#endif
