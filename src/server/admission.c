/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* struct ucred */
#include "server/admission.h"

#include "op/op_args.h"
#include "server/server_internal.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUCKETS           16384
#define PEERS_IDLE_MAX    4096
#define PEER_EXPIRE_US    INT64_C(600000000) /* after the last failure */
#define PAUSE_US          INT64_C(100000)    /* after the first failure */
#define PAUSE_MAX_US      INT64_C(4000000)   /* less than the connect timeout of clients */
#define PAUSE_LOCAL_US    INT64_C(1000000) /* the same for local clients, which share an address */
#define AUTH_FAILURES_MAX 5                /* wrong secrets of a connection */
#define AUTH_REQUIRED_MAX 20 /* commands of a connection rejected before authentication */
#define PENDING_SHARE     8  /* of max_connections, for pending connections */
#define PENDING_PER_PEER  64 /* of these, for one address */
#define LOCAL_SHARE       20 /* of max_connections, for local clients only */
#define AUDIT_MAX         20 /* lines a second */
#define SUBNET_SIZE       8  /* bytes of the network in an IPv6 address */

enum origin { ORIGIN_LOCAL, ORIGIN_TRUSTED, ORIGIN_REMOTE };

/* The record of an address, or of an IPv6 network. */
struct peer {
    struct peer *next;      /* in the bucket */
    TAILQ_ENTRY(peer) idle; /* while it has no connections */
    unsigned char key[BI_ADDRESS_SIZE];
    bool is_subnet; /* key is the /64 network, padded with 0 */
    enum origin origin;
    uint32_t connections, pending;
    uint32_t failures;
    int64_t failed_at, pause_end;
    bool authenticated_once; /* the next authentication is logged at debug level only */
};

/* ---- peers ---- */

bool bi_admission_init(struct admission *admission)
{
    TAILQ_INIT(&admission->idle);
    bi_keyed_hash_generate_secret(&admission->secret);
    admission->buckets = calloc(BUCKETS, sizeof(struct peer *));
    return admission->buckets != NULL;
}

void bi_admission_done(struct admission *admission)
{
    for (size_t i = 0; admission->buckets != NULL && i < BUCKETS; i++) {
        while (admission->buckets[i] != NULL) {
            struct peer *peer = admission->buckets[i];
            admission->buckets[i] = peer->next;
            free(peer);
        }
    }
    free(admission->buckets);
    admission->buckets = NULL;
}

static struct peer **bucket_of(const struct admission *admission, const unsigned char *key)
{
    return &admission
                ->buckets[bi_keyed_hash_bytes(&admission->secret, key, BI_ADDRESS_SIZE) % BUCKETS];
}

/* Finds or creates the peer of a key, and counts a connection. NULL without memory. */
static struct peer *acquire_peer(struct server *server, const unsigned char *key, bool is_subnet,
                                 enum origin origin)
{
    struct admission *admission = &server->admission;
    struct peer **bucket = bucket_of(admission, key);
    struct peer *peer = *bucket;

    while (peer != NULL &&
           (peer->is_subnet != is_subnet || memcmp(peer->key, key, BI_ADDRESS_SIZE) != 0))
        peer = peer->next;

    if (peer == NULL) {
        peer = calloc(1, sizeof(*peer));
        if (peer == NULL)
            return NULL;
        memcpy(peer->key, key, BI_ADDRESS_SIZE);
        peer->is_subnet = is_subnet;
        peer->next = *bucket;
        *bucket = peer;
    } else if (peer->connections == 0) {
        assert(admission->idle_count > 0);
        TAILQ_REMOVE(&admission->idle, peer, idle);
        admission->idle_count--;
    }

    /* The origin is set again: trust may have changed with a reload. */
    if (server->now - peer->failed_at > PEER_EXPIRE_US)
        peer->failures = 0;
    peer->origin = origin;
    peer->connections++;
    return peer;
}

/* Uncounts a connection. A peer without failures is retained, too, for authenticated_once. */
static void release_peer(struct admission *admission, struct peer *peer)
{
    assert(peer->connections > 0);
    if (--peer->connections > 0)
        return;

    TAILQ_INSERT_TAIL(&admission->idle, peer, idle);
    if (++admission->idle_count <= PEERS_IDLE_MAX)
        return;

    /* Evict the oldest. */
    struct peer *oldest = TAILQ_FIRST(&admission->idle);
    struct peer **at = bucket_of(admission, oldest->key);
    assert(oldest->connections == 0 && oldest->pending == 0);
    TAILQ_REMOVE(&admission->idle, oldest, idle);
    admission->idle_count--;
    while (*at != oldest)
        at = &(*at)->next;
    *at = oldest->next;
    free(oldest);
}

/* Acquires the network of an IPv6 client that is not local; NULL if there is none, or without
 * memory. */
static struct peer *acquire_subnet(struct server *server, const unsigned char *key,
                                   enum origin origin)
{
    unsigned char subnet[BI_ADDRESS_SIZE] = {0};

    if (origin == ORIGIN_LOCAL || bi_address_is_ipv4(key))
        return NULL;

    memcpy(subnet, key, SUBNET_SIZE);
    return acquire_peer(server, subnet, true, origin);
}

/* The peer that failures of the connection count for. */
static struct peer *peer_to_throttle(const struct conn *conn)
{
    return conn->admission.subnet != NULL ? conn->admission.subnet : conn->admission.peer;
}

static void release_peers(struct admission *admission, struct peer *peer, struct peer *subnet)
{
    release_peer(admission, peer);
    if (subnet != NULL)
        release_peer(admission, subnet);
}

/* Counts a failure. Returns the pause before the next attempt from the same peer. */
static int64_t count_failure(const struct conn *conn)
{
    struct peer *peer = peer_to_throttle(conn);
    if (peer == NULL)
        return PAUSE_MAX_US;

    int64_t pause = PAUSE_US;
    int64_t pause_max = peer->origin == ORIGIN_LOCAL ? PAUSE_LOCAL_US : PAUSE_MAX_US;
    for (uint32_t i = 0; i < peer->failures && pause < pause_max; i++)
        pause *= 2;
    pause = pause < pause_max ? pause : pause_max;

    /* Read the clock: server->now may be that of the last turn. */
    peer->failures += peer->failures < UINT32_MAX;
    peer->failed_at = bi_clock_boot();
    peer->pause_end = peer->failed_at + pause;
    return pause;
}

/* ---- pauses ---- */

static void end_pause(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    enum admission_reply reply = conn->admission.pause_reply;
    (void)fd;
    (void)what;

    assert(conn->paused);
    conn->paused = false;
    conn->admission.pause_reply = ADMISSION_NONE;
    conn->admission.auth_deadline = bi_clock_boot() + BI_AUTH_TIMEOUT_US;
    bi_fair_queue_mark_dirty(conn);
    if (conn->quit || conn->dead)
        return;

    if (reply != ADMISSION_NONE)
        conn->protocol->reply(conn, reply);
    if (conn->admission.pause_closes) {
        /* quit, not dead: the reply is sent before the close. Closing a socket with unread input
         * resets the connection, and the client may lose the reply, so input is read and discarded;
         * not all, because a client may send without end. */
        char unread[4096];
        conn->quit = true;
        for (int i = 0; i < 16 && recv(conn->fd, unread, sizeof(unread), MSG_DONTWAIT) > 0; i++)
            continue;
    }
    if (conn->input_size > 0)
        bi_fair_queue_enqueue_run(conn);
}

/* Neither reads nor executes for the pause. At its end the client gets the reply, if any, and the
 * connection continues or closes. */
static void begin_pause(struct conn *conn, int64_t pause_us, enum admission_reply reply,
                        bool closes)
{
    assert(!conn->paused && pause_us > 0);

    /* Without memory for the timer the connection closes: it must not skip the pause. */
    if (conn->admission.pause == NULL)
        conn->admission.pause = evtimer_new(conn->server->base, end_pause, conn);
    if (conn->admission.pause == NULL || !bi_server_add_timer(conn->admission.pause, pause_us)) {
        conn->dead = true;
    } else {
        conn->paused = true;
        conn->admission.pause_reply = reply;
        conn->admission.pause_closes = closes;
    }
    bi_fair_queue_mark_dirty(conn);
}

/* ---- pending connections ---- */

static void link_pending(struct conn *conn)
{
    struct admission *admission = &conn->server->admission;
    assert(conn->admission.peer != NULL);

    bi_conn_enqueue(conn, LIST_PENDING, &admission->pending);
    admission->pending_count++;
    conn->admission.peer->pending++;
    if (conn->admission.subnet != NULL)
        conn->admission.subnet->pending++;
}

static void unlink_pending(struct conn *conn)
{
    struct admission *admission = &conn->server->admission;
    if (!bi_conn_is_in(conn, LIST_PENDING))
        return;

    assert(conn->admission.peer != NULL);
    assert(admission->pending_count > 0 && conn->admission.peer->pending > 0);
    bi_conn_dequeue(conn, LIST_PENDING);
    admission->pending_count--;
    conn->admission.peer->pending--;
    if (conn->admission.subnet != NULL)
        conn->admission.subnet->pending--;
}

bool bi_admission_is_auth_overdue(const struct conn *conn)
{
    return !conn->admission.authorised && !conn->paused &&
           conn->server->now > conn->admission.auth_deadline;
}

void bi_admission_release(struct conn *conn)
{
    struct admission *admission = &conn->server->admission;
    if (conn->admission.pause != NULL)
        event_free(conn->admission.pause);
    conn->admission.pause = NULL;

    /* A connection without a peer holds no slot. */
    if (conn->admission.peer == NULL)
        return;
    assert(!conn->admission.remote || admission->remote_count > 0);
    if (conn->admission.remote)
        admission->remote_count--;
    unlink_pending(conn);
    release_peers(admission, conn->admission.peer, conn->admission.subnet);
    conn->admission.peer = conn->admission.subnet = NULL;
}

/* ---- accepting ---- */

/* Returns the origin of a client, and the key of its peer. */
static enum origin identify(const struct server *server, int fd,
                            const struct sockaddr_storage *address, unsigned char *key)
{
    const struct server_limits *limits = &server->limits;
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own);
    unsigned char own_key[BI_ADDRESS_SIZE];

    if (!bi_address_from_sockaddr((const struct sockaddr *)address, key)) {
        struct ucred user = {.uid = (uid_t)-1};
        size = sizeof(user);
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size);
        key[0] = 0xff; /* multicast: the address of no client */
        memcpy(key + 8, &user.uid, sizeof(user.uid));
        return ORIGIN_LOCAL;
    }

    /* A client that connects from the address it connects to is local. */
    if (bi_address_is_loopback(key) ||
        (getsockname(fd, (struct sockaddr *)&own, &size) == 0 &&
         bi_address_from_sockaddr((const struct sockaddr *)&own, own_key) &&
         memcmp(own_key, key, BI_ADDRESS_SIZE) == 0))
        return ORIGIN_LOCAL;

    for (size_t i = 0; i < limits->trust_count; i++)
        if (bi_address_is_in_cidr(key, &limits->trust[i]))
            return ORIGIN_TRUSTED;
    return ORIGIN_REMOTE;
}

/* Rejects a socket for which there is no slot, and closes it at once. */
static void reject_socket(const struct acceptor *acceptor, int fd)
{
    struct server *server = acceptor->server;
    const char *text = acceptor->protocol->admission_text[ADMISSION_TOO_MANY];

    server->refused_connections++;
    if (send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        bi_log(&server->log, BIDE_LOG_DEBUG, "cannot send the reply to a rejected connection: %s",
               strerror(errno));

    /* End the stream before the close, which resets it if the client has sent something. */
    shutdown(fd, SHUT_WR);
    close(fd);
}

/* Limit of pending connections. */
static uint32_t pending_max(const struct server *server)
{
    uint32_t max = server->limits.max_connections / PENDING_SHARE;
    return max > 0 ? max : 1;
}

/* True if the address has as many pending connections as it may. The limit of its network applies
 * to a client that would be pending, too. */
static bool exceeds_peer_limit(const struct server *server, const struct peer *peer,
                               const struct peer *subnet, bool must_auth)
{
    if (peer->origin == ORIGIN_LOCAL)
        return false;

    return peer->pending >= PENDING_PER_PEER ||
           (must_auth && subnet != NULL && subnet->pending >= PENDING_PER_PEER &&
            subnet->pending >= pending_max(server) / 2);
}

/* True if there is a slot for one more connection. Evicts a pending one if necessary. */
static bool has_slot(struct server *server, enum origin origin, bool must_auth)
{
    struct admission *admission = &server->admission;
    uint32_t max = server->limits.max_connections;

    if (origin != ORIGIN_LOCAL && admission->remote_count >= max - max / LOCAL_SHARE)
        return false;

    /* The evicted connection is counted until the end of the turn; the limit is exceeded till
     * then. */
    if (admission->pending_count > 0 &&
        (server->connections >= max ||
         (must_auth && admission->pending_count >= pending_max(server)))) {
        /* The oldest. Unlinked now, so that the next call finds another one. */
        struct conn *oldest = admission->pending.head;
        unlink_pending(oldest);
        oldest->dead = true;
        bi_fair_queue_mark_dirty(oldest);
        return true;
    }

    return server->connections < max;
}

/* conn: NULL if the connection was not opened. */
static void log_rejected(struct server *server, const struct conn *conn, struct bi_log_limit *limit,
                         const char *reason)
{
    char peer[PEER_SIZE] = "";
    uint64_t count = bi_log_limit_hit(limit, bi_clock_boot());

    if (count > 0)
        bi_log(&server->log, BIDE_LOG_WARN, "connection%s%s rejected: %s; %llu rejected so far",
               conn != NULL ? " from " : "", conn != NULL ? bi_conn_format_peer(conn, peer) : "",
               reason, (unsigned long long)count);
}

/* Sends the reply now and closes the connection after a pause, during which it uses a pending
 * slot. */
static void reject(struct conn *conn, enum admission_reply reply)
{
    conn->server->refused_connections++;
    conn->admission.authorised = false;
    if (!bi_conn_is_in(conn, LIST_PENDING))
        link_pending(conn);

    conn->protocol->reply(conn, reply);
    begin_pause(conn, count_failure(conn), ADMISSION_NONE, true);
}

/* Serves a connection that has authenticated or need not. Returns false if its address has too many
 * connections; it is then rejected. Pending and rejected connections do not count. A connection
 * that is served already is not counted again. */
static bool admit(struct conn *conn)
{
    struct admission *admission = &conn->server->admission;
    uint32_t max = conn->server->limits.max_connections_per_address;
    const struct peer *peer = conn->admission.peer;
    assert(!bi_conn_is_in(conn, LIST_PENDING));
    if (peer == NULL || peer->origin == ORIGIN_LOCAL || conn->admission.remote)
        return true;

    if (max > 0 && peer->connections - peer->pending > max) {
        log_rejected(conn->server, conn, &admission->peer_limit_log,
                     "its address has reached max_connections_per_address");
        reject(conn, ADMISSION_TOO_MANY);
        return false;
    }

    admission->remote_count++;
    conn->admission.remote = true;
    return true;
}

void bi_admission_accept(const struct acceptor *acceptor, int fd,
                         const struct sockaddr_storage *address)
{
    struct server *server = acceptor->server;
    struct admission *admission = &server->admission;
    unsigned char key[BI_ADDRESS_SIZE];
    enum origin origin = identify(server, fd, address, key);
    bool must_auth = origin == ORIGIN_REMOTE || server->limits.auth_always;
    struct peer *peer = acquire_peer(server, key, false, origin);
    if (peer == NULL) {
        close(fd); /* out of memory: no reply, and no slot is counted */
        return;
    }
    struct peer *subnet = acquire_subnet(server, key, origin);
    struct conn *conn = NULL;
    char reason[160];

    /* Before has_slot(): an address at its limit must not evict the connections of others. The
     * reply is not AUTH_REQUIRED, because a secret would not help. */
    if (exceeds_peer_limit(server, peer, subnet, must_auth)) {
        snprintf(reason, sizeof(reason),
                 "its address has %d connections that have not authenticated, or its IPv6 network "
                 "has half of all",
                 PENDING_PER_PEER);
        log_rejected(server, NULL, &admission->peer_limit_log, reason);
        reject_socket(acceptor, fd);
    } else if (!has_slot(server, origin, must_auth)) {
        snprintf(reason, sizeof(reason), "%u are open, the limit (max_connections)",
                 server->connections);
        log_rejected(server, NULL, &admission->full_log, reason);
        reject_socket(acceptor, fd);
    } else {
        conn = bi_conn_open(server, acceptor->protocol, acceptor->protocol_state, fd, !must_auth,
                            address->ss_family != AF_UNIX);
    }
    if (conn == NULL) {
        release_peers(admission, peer, subnet);
        return;
    }

    conn->admission.peer = peer;
    conn->admission.subnet = subnet;
    if (!must_auth) {
        admit(conn);
        return;
    }
    link_pending(conn);
    if (server->limits.auth_secret[0] == 0) {
        log_rejected(server, conn, &admission->stranger_log,
                     "no auth_secret is set, and its address is not in a trusted network");
        reject(conn, ADMISSION_AUTH_REQUIRED);
    }
}

/* ---- authentication ---- */

/* Takes constant time for the size given: the time must not reveal how much of a guess is right. */
static bool secret_equals(const char *secret, bide_slice given)
{
    const unsigned char *bytes = given.data;
    size_t size = strlen(secret);
    unsigned differs = size == 0 || size != given.size;

    for (size_t i = 0; i < given.size; i++)
        differs |= (unsigned)(bytes[i] ^ (unsigned char)secret[size == 0 ? 0 : i % size]);
    return differs == 0;
}

/* Each command waits for one pause at most: guesses by others must not lock out a client with the
 * right secret at the same address. */
bool bi_admission_may_authenticate(struct conn *conn)
{
    const struct peer *peer = peer_to_throttle(conn);
    int64_t left = peer == NULL ? 0 : peer->pause_end - bi_clock_boot();
    if (left <= 0 || conn->admission.pause_waited)
        return true;

    conn->admission.pause_waited = true;
    begin_pause(conn, left, ADMISSION_NONE, false);
    return false;
}

void bi_admission_authenticate(struct conn *conn, bide_slice secret)
{
    struct admission *admission = &conn->server->admission;
    const struct bi_log *log = &conn->server->log;
    struct peer *peer = conn->admission.peer;
    char text[PEER_SIZE];

    conn->admission.pause_waited = false;

    /* A trusted client may send the secret of other servers to a server without a secret. */
    if (conn->admission.authorised && conn->server->limits.auth_secret[0] == 0) {
        conn->protocol->reply(conn, ADMISSION_AUTHENTICATED);
        return;
    }

    if (!secret_equals(conn->server->limits.auth_secret, secret)) {
        admission->auth_failure_count++;
        if (bi_log_limit_hit(&admission->wrong_log, bi_clock_boot()) > 0)
            bi_log(log, BIDE_LOG_WARN,
                   "authentication failed: wrong secret from %s; failures so far: %llu",
                   bi_conn_format_peer(conn, text),
                   (unsigned long long)admission->auth_failure_count);
        conn->admission.auth_failures++;
        begin_pause(conn, count_failure(conn), ADMISSION_WRONG_SECRET,
                    conn->admission.auth_failures >= AUTH_FAILURES_MAX);
        return;
    }

    /* Further connections of the same address are not worth a line. */
    bool known = peer != NULL && peer->authenticated_once;
    bi_log(log, known ? BIDE_LOG_DEBUG : BIDE_LOG_INFO, "client authenticated: %s",
           bi_conn_format_peer(conn, text));
    if (peer != NULL)
        peer->authenticated_once = true;

    /* Before admit(), which counts the served connections of the address. */
    unlink_pending(conn);
    if (!admit(conn))
        return;

    conn->admission.authorised = true;
    conn->protocol->reply(conn, ADMISSION_AUTHENTICATED);
}

void bi_admission_auth_required(struct conn *conn)
{
    if (++conn->admission.auth_required_count >= AUTH_REQUIRED_MAX && !conn->paused)
        begin_pause(conn, count_failure(conn), ADMISSION_NONE, true);
}

/* ---- administrative actions ---- */

/* Limits the lines per second, so that a flood of actions does not fill the disk. The number of
 * dropped lines is logged with the next action. */
static bool audit_allowed(struct server *server)
{
    struct admission *admission = &server->admission;

    if (server->now >= admission->audit_until) {
        if (admission->audit_dropped > 0)
            bi_log(&server->log, BIDE_LOG_WARN,
                   "%u administrative commands were not logged (rate limit)",
                   admission->audit_dropped);
        admission->audit_until = server->now + 1000000;
        admission->audit_count = admission->audit_dropped = 0;
    }

    if (admission->audit_count < AUDIT_MAX) {
        admission->audit_count++;
        return true;
    }
    admission->audit_dropped++;
    return false;
}

void bi_admission_audit(const struct conn *conn, const struct bide_op *op)
{
    char peer_text[PEER_SIZE];
    if (!bi_op_is(op, OP_ADMIN) || !audit_allowed(conn->server))
        return;

    bide_slice topic = {NULL, 0};
    if (bi_op_args_topic_count(op) > 0)
        topic = bi_op_args_topic(op, 0);

    const char *off = op->kind == BIDE_OP_DRAIN && !op->drain.on ? " off" : "";

    /* The queue has not checked the name yet. */
    bool named = topic.size > 0 && topic.size <= BIDE_TOPIC_MAX;

    /* "bide purge" sends one op for each state. */
    char jobs[40] = "";
    if (op->kind == BIDE_OP_PURGE)
        snprintf(jobs, sizeof(jobs), " of %s jobs", bide_state_name(op->purge.state));

    bi_log(&conn->server->log, BIDE_LOG_INFO, "%s%s%s%s%.*s, requested by %s",
           bide_op_name(op->kind), off, jobs, named ? " of topic " : "",
           named ? (int)topic.size : 0, named ? (const char *)topic.data : "",
           bi_conn_format_peer(conn, peer_text));
}
