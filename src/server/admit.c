/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* struct ucred */
#include "server/admit.h"

#include "backend/beanstalk_kind.h"
#include "server/inside.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUCKETS        16384
#define PEERS_IDLE_MAX 4096
#define PEER_FORGET_US INT64_C(600000000) /* after the last failure */
#define PAUSE_US       INT64_C(100000)    /* after the first failure */
#define PAUSE_MAX_US   INT64_C(4000000)   /* less than clients wait for a connection */
#define PAUSE_LOCAL_US \
    INT64_C(1000000)     /* the same for this machine, which has one address for all */
#define WRONG_MAX     5  /* wrong secrets of a connection */
#define DEMANDS_MAX   20 /* commands that were refused for want of the secret */
#define PENDING_SHARE 8  /* of max_connections, for those that have not said it */
#define PENDING_PER   64 /* of these, for one address */
#define LOCAL_SHARE   20 /* of max_connections, for this machine only */
#define AUDIT_MAX     20 /* lines a second */
#define NETWORK_SIZE  8  /* bytes of an IPv6 address that tell its network */

enum origin { ORIGIN_LOCAL, ORIGIN_TRUSTED, ORIGIN_REMOTE };

/* What is known of an address, or of an IPv6 network. */
struct peer {
    struct peer *next;                  /* in the bucket */
    struct peer *idle_prev, *idle_next; /* if it has no connections */
    unsigned char key[BI_ADDRESS_SIZE];
    bool is_network; /* key is the network of 64 bits, and 0 */
    enum origin origin;
    uint32_t connections, pending;
    uint32_t failures;
    int64_t failed_at, pause_end;
    bool known; /* it has said the right secret */
};

/* ---- peers ---- */

bool bi_admit_init(struct admission *admission)
{
    bi_secret_draw(&admission->secret);
    admission->buckets = calloc(BUCKETS, sizeof(struct peer *));
    return admission->buckets != NULL;
}

void bi_admit_done(struct admission *admission)
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
    return &admission->buckets[bi_secret_hash(&admission->secret, key, BI_ADDRESS_SIZE) % BUCKETS];
}

static void unlink_idle(struct admission *admission, struct peer *peer)
{
    assert(admission->idle_count > 0);
    *(peer->idle_prev != NULL ? &peer->idle_prev->idle_next : &admission->idle_first) =
        peer->idle_next;
    *(peer->idle_next != NULL ? &peer->idle_next->idle_prev : &admission->idle_last) =
        peer->idle_prev;
    admission->idle_count--;
}

static void link_idle(struct admission *admission, struct peer *peer)
{
    peer->idle_prev = admission->idle_last;
    peer->idle_next = NULL;
    *(admission->idle_last != NULL ? &admission->idle_last->idle_next : &admission->idle_first) =
        peer;
    admission->idle_last = peer;
    admission->idle_count++;
}

static void forget_first_idle(struct admission *admission)
{
    struct peer *peer = admission->idle_first;
    struct peer **at = bucket_of(admission, peer->key);
    unlink_idle(admission, peer);
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    free(peer);
}

/* The peer of a key, made if it is not known; NULL without memory. It has one connection more. */
static struct peer *enter(struct server *server, const unsigned char *key, bool is_network,
                          enum origin origin)
{
    struct admission *admission = &server->admission;
    struct peer **bucket = bucket_of(admission, key);
    struct peer *peer = *bucket;
    while (peer != NULL &&
           (peer->is_network != is_network || memcmp(peer->key, key, BI_ADDRESS_SIZE) != 0))
        peer = peer->next;
    if (peer == NULL) {
        peer = calloc(1, sizeof(*peer));
        if (peer == NULL)
            return NULL;
        memcpy(peer->key, key, BI_ADDRESS_SIZE);
        peer->is_network = is_network;
        peer->next = *bucket;
        *bucket = peer;
    } else if (peer->connections == 0) {
        unlink_idle(admission, peer);
    }
    if (server->now - peer->failed_at > PEER_FORGET_US)
        peer->failures = 0;
    peer->origin = origin;
    peer->connections++;
    return peer;
}

/* It has one connection less. One that has done nothing wrong is kept, too: it is known. */
static void leave(struct admission *admission, struct peer *peer)
{
    assert(peer->connections > 0);
    if (--peer->connections > 0)
        return;
    link_idle(admission, peer);
    if (admission->idle_count > PEERS_IDLE_MAX)
        forget_first_idle(admission);
}

/* The network of an IPv6 client of another machine; NULL: there is none, or no memory. A host can have
 * any address of its network, so that guesses count for all of them. But the hosts of a local network
 * share one: what one of them may have does not. */
static struct peer *enter_network(struct server *server, const unsigned char *key,
                                  enum origin origin)
{
    unsigned char network[BI_ADDRESS_SIZE] = {0};
    if (origin == ORIGIN_LOCAL || bi_network_is_ipv4(key))
        return NULL;
    memcpy(network, key, NETWORK_SIZE);
    return enter(server, network, true, origin);
}

/* Whose failures count for a connection. */
static struct peer *guesser_of(const struct conn *conn)
{
    return conn->network != NULL ? conn->network : conn->peer;
}

static void leave_both(struct admission *admission, struct peer *peer, struct peer *network)
{
    leave(admission, peer);
    if (network != NULL)
        leave(admission, network);
}

/* One more failure; how long the next attempt from there has to wait. */
static int64_t fail(const struct conn *conn)
{
    struct peer *peer = guesser_of(conn);
    int64_t most = peer != NULL && peer->origin == ORIGIN_LOCAL ? PAUSE_LOCAL_US : PAUSE_MAX_US;
    int64_t pause = PAUSE_US;
    if (peer == NULL)
        return most;
    for (uint32_t i = 0; i < peer->failures && pause < most; i++)
        pause *= 2;
    pause = pause < most ? pause : most;
    peer->failures += peer->failures < UINT32_MAX;
    peer->failed_at = bi_clock_boot(); /* the server's own is that of the last turn */
    peer->pause_end = peer->failed_at + pause;
    return pause;
}

/* ---- pauses ---- */

/* What has been sent and will not be looked at would make a reset of the close. */
static void discard_input(const struct conn *conn)
{
    char unread[4096];
    for (int i = 0; i < 16 && recv(conn->fd, unread, sizeof(unread), MSG_DONTWAIT) > 0; i++)
        continue;
}

static void end_pause(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    const char *text = conn->pause_text;
    (void)fd;
    (void)what;
    conn->paused = false;
    conn->pause_text = NULL;
    conn->grace_end = bi_clock_boot() + BI_GRACE_US;
    bi_server_mark(conn);
    if (conn->quit || conn->dead)
        return;
    if (text != NULL)
        bi_conn_say(conn, text);
    if (conn->pause_quits) {
        conn->quit = true;
        discard_input(conn);
    }
    if (conn->input_size > 0)
        bi_server_wake(conn);
}

/* Nothing is read or executed for so long; then the text is said, and the connection goes on or ends. */
static void begin_pause(struct conn *conn, int64_t pause_us, const char *text, bool quits)
{
    struct timeval after = {.tv_sec = pause_us / 1000000, .tv_usec = pause_us % 1000000};
    assert(!conn->paused);
    if (conn->pause == NULL)
        conn->pause = evtimer_new(conn->server->base, end_pause, conn);
    if (conn->pause == NULL || evtimer_add(conn->pause, &after) != 0) {
        conn->dead = true;
    } else {
        conn->paused = true;
        conn->pause_text = text;
        conn->pause_quits = quits;
    }
    bi_server_mark(conn);
}

/* ---- connections that have not said the secret ---- */

static void link_pending(struct conn *conn)
{
    struct admission *admission = &conn->server->admission;
    conn->pending = true;
    conn->pending_prev = admission->pending_last;
    conn->pending_next = NULL;
    *(admission->pending_last != NULL ? &admission->pending_last->pending_next
                                      : &admission->pending_first) = conn;
    admission->pending_last = conn;
    admission->pending_count++;
    conn->peer->pending++;
    if (conn->network != NULL)
        conn->network->pending++;
}

static void unlink_pending(struct conn *conn)
{
    struct admission *admission = &conn->server->admission;
    if (!conn->pending)
        return;
    assert(admission->pending_count > 0 && conn->peer->pending > 0);
    conn->pending = false;
    *(conn->pending_prev != NULL ? &conn->pending_prev->pending_next : &admission->pending_first) =
        conn->pending_next;
    *(conn->pending_next != NULL ? &conn->pending_next->pending_prev : &admission->pending_last) =
        conn->pending_prev;
    admission->pending_count--;
    conn->peer->pending--;
    if (conn->network != NULL)
        conn->network->pending--;
}

/* Closes the oldest of them, at the end of the turn. */
static void evict(struct server *server)
{
    struct conn *conn = server->admission.pending_first;
    unlink_pending(conn);
    conn->dead = true;
    bi_server_mark(conn);
}

bool bi_admit_is_late(const struct conn *conn)
{
    return !conn->authorised && !conn->paused && conn->server->now > conn->grace_end;
}

void bi_admit_leave(struct conn *conn)
{
    struct admission *admission = &conn->server->admission;
    if (conn->pause != NULL)
        event_free(conn->pause);
    conn->pause = NULL;
    if (conn->peer == NULL)
        return;
    if (conn->remote)
        admission->remote_count--;
    unlink_pending(conn);
    leave_both(admission, conn->peer, conn->network);
    conn->peer = conn->network = NULL;
}

/* ---- coming in ---- */

/* Does the client connect from the address that it connects to? Then it is on this machine. */
static bool is_own_address(int fd, const unsigned char *bytes)
{
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own);
    unsigned char own_bytes[BI_ADDRESS_SIZE];
    return getsockname(fd, (struct sockaddr *)&own, &size) == 0 &&
           bi_network_address((const struct sockaddr *)&own, own_bytes) &&
           memcmp(own_bytes, bytes, BI_ADDRESS_SIZE) == 0;
}

static bool is_trusted(const struct server_limits *limits, const unsigned char *bytes)
{
    for (size_t i = 0; i < limits->trust_count; i++)
        if (bi_network_has(&limits->trust[i], bytes))
            return true;
    return false;
}

/* Where it comes from, and the key of its peer. */
static enum origin identify(const struct server *server, int fd,
                            const struct sockaddr_storage *address, unsigned char *key)
{
    if (!bi_network_address((const struct sockaddr *)address, key)) {
        struct ucred user = {.uid = (uid_t)-1};
        socklen_t size = sizeof(user);
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size);
        key[0] = 0xff; /* as no address of a client begins */
        memcpy(key + 8, &user.uid, sizeof(user.uid));
        return ORIGIN_LOCAL;
    }
    if (bi_network_is_loopback(key) || is_own_address(fd, key))
        return ORIGIN_LOCAL;
    return is_trusted(&server->limits, key) ? ORIGIN_TRUSTED : ORIGIN_REMOTE;
}

/* There is no slot for it: it hears so, and is closed at once. */
static void turn_away(struct server *server, int fd, const char *text)
{
    server->refused_connections++;
    if (send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        bi_log(&server->log, BIDE_LOG_DEBUG, "a connection was refused, and has gone already");
    shutdown(fd, SHUT_WR); /* a client that has sent something would be told of a reset */
    close(fd);
}

/* How many connections that have not said the secret there may be. */
static uint32_t pending_max(const struct server *server)
{
    uint32_t max = server->limits.max_connections / PENDING_SHARE;
    return max > 0 ? max : 1;
}

/* Has the address of a client as many of these as it may, or its network, if it is to be one of them? */
static bool is_crowded(const struct server *server, const struct peer *peer,
                       const struct peer *network, bool must_auth)
{
    if (peer->origin == ORIGIN_LOCAL)
        return false;
    return peer->pending >= PENDING_PER ||
           (must_auth && network != NULL && network->pending >= PENDING_PER &&
            network->pending >= pending_max(server) / 2);
}

/* Is there a slot for one more? Pending connections make room. */
static bool has_slot(struct server *server, enum origin origin, bool must_auth)
{
    const struct admission *admission = &server->admission;
    uint32_t max = server->limits.max_connections;
    if (origin != ORIGIN_LOCAL && admission->remote_count >= max - max / LOCAL_SHARE)
        return false;
    if (admission->pending_count > 0 &&
        (server->connections >= max ||
         (must_auth && admission->pending_count >= pending_max(server)))) {
        evict(server);
        return true;
    }
    return server->connections < max;
}

static void tell_full(struct server *server)
{
    uint64_t count = bi_log_repeats(&server->admission.full, bi_clock_boot());
    if (count > 0)
        bi_log(&server->log, BIDE_LOG_WARN,
               "a connection was refused: there are %u, as many as max_connections allows; %llu "
               "were so far",
               server->connections, (unsigned long long)count);
}

static void tell_crowd(struct server *server)
{
    uint64_t count = bi_log_repeats(&server->admission.crowd, bi_clock_boot());
    if (count > 0)
        bi_log(
            &server->log, BIDE_LOG_WARN,
            "a connection was refused: its address has %d that have not said the secret, or were "
            "refused, or its IPv6 network half of all such; %llu were so far",
            PENDING_PER, (unsigned long long)count);
}

static void tell_refused(const struct conn *conn, struct bi_log_repeat *repeat, const char *reason)
{
    char room[PEER_SIZE];
    uint64_t count = bi_log_repeats(repeat, bi_clock_boot());
    if (count > 0)
        bi_log(&conn->server->log, BIDE_LOG_WARN,
               "a connection from %s was refused: %s; %llu were so far", bi_conn_peer(conn, room),
               reason, (unsigned long long)count);
}

/* It hears why, and is closed after a pause, which takes a slot of those that have not said the
 * secret. */
static void refuse(struct conn *conn, const char *text)
{
    conn->server->refused_connections++;
    conn->authorised = false;
    if (!conn->pending)
        link_pending(conn);
    bi_conn_say(conn, text);
    begin_pause(conn, fail(conn), NULL, true);
}

/* It need not say the secret, or has said it. False: its address has too many already, and it was
 * refused. Those that are refused, or have not said the secret, do not count. One that is served
 * already goes on. */
static bool serve(struct conn *conn)
{
    struct admission *admission = &conn->server->admission;
    uint32_t max = conn->server->limits.max_connections_per_address;
    const struct peer *peer = conn->peer;
    assert(!conn->pending);
    if (peer == NULL || peer->origin == ORIGIN_LOCAL || conn->remote)
        return true;
    if (max > 0 && peer->connections - peer->pending > max) {
        tell_refused(conn, &admission->crowd,
                     "its address has as many as max_connections_per_address allows");
        refuse(conn, "OUT_OF_MEMORY\r\n");
        return false;
    }
    admission->remote_count++;
    conn->remote = true;
    return true;
}

static void judge(struct conn *conn, bool must_auth)
{
    struct server *server = conn->server;
    if (!must_auth) {
        serve(conn);
        return;
    }
    link_pending(conn);
    if (server->limits.auth_secret[0] != 0)
        return;
    tell_refused(conn, &server->admission.stranger,
                 "there is no auth_secret, and its address is in no network of trust");
    refuse(conn, "AUTH_REQUIRED\r\n");
}

void bi_admit(struct server *server, int fd, const struct sockaddr_storage *address)
{
    unsigned char key[BI_ADDRESS_SIZE];
    enum origin origin = identify(server, fd, address, key);
    bool must_auth = origin == ORIGIN_REMOTE || server->limits.auth_always;
    struct peer *peer = enter(server, key, false, origin);
    if (peer == NULL) {
        close(fd);
        return;
    }
    struct peer *network = enter_network(server, key, origin);
    /* Before a slot is looked for: an address that has enough must not have others evicted. */
    if (is_crowded(server, peer, network, must_auth)) {
        leave_both(&server->admission, peer, network);
        tell_crowd(server);
        turn_away(server, fd, "OUT_OF_MEMORY\r\n"); /* a secret would not help */
        return;
    }
    if (!has_slot(server, origin, must_auth)) {
        leave_both(&server->admission, peer, network);
        tell_full(server);
        turn_away(server, fd, "OUT_OF_MEMORY\r\n");
        return;
    }
    struct conn *conn = bi_conn_open(server, fd, !must_auth, address->ss_family != AF_UNIX);
    if (conn == NULL) {
        leave_both(&server->admission, peer, network);
        return;
    }
    conn->peer = peer;
    conn->network = network;
    judge(conn, must_auth);
}

/* ---- the secret ---- */

/* Takes as long whatever is wrong. */
static bool is_secret(const char *secret, bide_slice said)
{
    const unsigned char *bytes = said.data;
    size_t size = strlen(secret);
    unsigned differs = size == 0 || size != said.size;
    for (size_t i = 0; i < said.size; i++)
        differs |= (unsigned)(bytes[i] ^ (unsigned char)secret[size == 0 ? 0 : i % size]);
    return differs == 0;
}

/* Each command waits once at most: a client that knows the secret is not kept out by others at the same
 * address that do not. */
bool bi_admit_may_try(struct conn *conn)
{
    const struct peer *peer = guesser_of(conn);
    int64_t left = peer == NULL ? 0 : peer->pause_end - bi_clock_boot();
    if (left <= 0 || conn->pause_served)
        return true;
    conn->pause_served = true;
    begin_pause(conn, left, NULL, false);
    return false;
}

static void tell_authenticated(struct conn *conn)
{
    char room[PEER_SIZE];
    bool first = conn->peer == NULL || !conn->peer->known;
    if (conn->peer != NULL)
        conn->peer->known = true;
    bi_log(&conn->server->log, first ? BIDE_LOG_INFO : BIDE_LOG_DEBUG,
           "a client has said the secret: %s", bi_conn_peer(conn, room));
}

static void tell_wrong(const struct conn *conn)
{
    struct server *server = conn->server;
    char room[PEER_SIZE];
    server->guesses++;
    if (bi_log_repeats(&server->admission.wrong, bi_clock_boot()) > 0)
        bi_log(&server->log, BIDE_LOG_WARN, "a wrong secret came from %s; %llu so far",
               bi_conn_peer(conn, room), (unsigned long long)server->guesses);
}

void bi_beanstalk_auth(struct conn *conn, const struct command *command)
{
    conn->pause_served = false;
    /* One that is served anyway by a server without a secret: its secret is for other servers. */
    if (conn->authorised && conn->server->limits.auth_secret[0] == 0) {
        bi_conn_say(conn, "AUTHENTICATED\r\n");
        return;
    }
    if (!is_secret(conn->server->limits.auth_secret, command->name)) {
        tell_wrong(conn);
        conn->wrong_count++;
        begin_pause(conn, fail(conn), "NOT_AUTHENTICATED\r\n", conn->wrong_count >= WRONG_MAX);
        return;
    }
    tell_authenticated(conn);
    unlink_pending(conn);
    if (!serve(conn))
        return;
    conn->authorised = true;
    bi_conn_say(conn, "AUTHENTICATED\r\n");
}

void bi_admit_demanded(struct conn *conn)
{
    if (++conn->demand_count >= DEMANDS_MAX && !conn->paused)
        begin_pause(conn, fail(conn), NULL, true);
}

/* ---- administrative actions ---- */

/* A flood of them must not fill the disk with the log; how many were left out is told. */
static bool may_audit(struct server *server)
{
    struct admission *admission = &server->admission;
    if (server->now >= admission->audit_until) {
        if (admission->audit_lost > 0)
            bi_log(&server->log, BIDE_LOG_WARN, "%u more administrative actions were not logged",
                   admission->audit_lost);
        admission->audit_until = server->now + 1000000;
        admission->audit_count = admission->audit_lost = 0;
    }
    if (admission->audit_count < AUDIT_MAX) {
        admission->audit_count++;
        return true;
    }
    admission->audit_lost++;
    return false;
}

void bi_admit_audit(const struct conn *conn, const struct bide_op *op)
{
    char room[PEER_SIZE];
    const bide_slice *topic;
    if (!bi_kind_administers(op, &topic) || !may_audit(conn->server))
        return;
    const char *off = op->kind == BIDE_OP_DRAIN && !op->drain.on ? " off" : "";
    /* The queue has not looked at the name yet. */
    bool named = topic != NULL && topic->size > 0 && topic->size <= BIDE_TOPIC_MAX;
    /* "bide purge" sends one for each state. */
    char jobs[40] = "";
    if (op->kind == BIDE_OP_PURGE)
        snprintf(jobs, sizeof(jobs), " of %s jobs", bide_state_name(op->purge.state));
    bi_log(&conn->server->log, BIDE_LOG_INFO, "%s%s%s%s%.*s, asked for by %s",
           bide_op_name(op->kind), off, jobs, named ? " of topic " : "",
           named ? (int)topic->size : 0, named ? (const char *)topic->data : "",
           bi_conn_peer(conn, room));
}
