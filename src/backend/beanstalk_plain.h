/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_plain - the client of a beanstalkd, by the classic commands.
 *
 * What beanstalkd has no word for (keys, retries, results, lists, ...) answers BIDE_ENOTSUP, with a
 * sentence. Times are whole seconds there: delays and ttrs are rounded up, never down.
 *
 * A reserved job belongs to the connection that reserved it, and a connection whose reserve waits
 * answers nothing else. So one connection does everything that is answered at once, and each
 * reserve that has to wait gets one of its own. A lease is found by its token, which is made up
 * here; whatever is done with it goes to its connection. A connection that is lost takes its leases
 * along: beanstalkd gives the jobs back.
 *
 *     beanstalk_plain.c          the functions of the backend
 *     beanstalk_plain_thread.c   the thread: connections, time, talks that begin and end
 *     beanstalk_plain_wire.c     a connection: commands out, replies in
 *     beanstalk_plain_lease.c    who holds what, where
 *     beanstalk_plain_put.c      put, put_many
 *     beanstalk_plain_reserve.c  reserve, reserve_job
 *     beanstalk_plain_finish.c   delete, release, bury, touch and their lists
 *     beanstalk_plain_look.c     jobs as they are
 *     beanstalk_plain_topic.c    kick, pause, figures
 *     beanstalk_plain_yaml.c     what figures are written in
 *
 * Threads    Who submits makes a talk and hands it to the thread of the queue, which does all the
 *            rest. The lock guards what both look at: the list of new talks, and flags.
 */
#ifndef BI_BEANSTALK_PLAIN_H
#define BI_BEANSTALK_PLAIN_H

#include "backend/backend.h"
#include "backend/beanstalk_address.h"
#include "backend/oplist.h"
#include "util/secret.h"

#include <pthread.h>
#include <stdatomic.h>

#define PLAIN_NEVER  INT64_MAX
#define PLAIN_LEASES 1024 /* buckets */

struct plain;
struct talk;
struct wire;

/* What the server said to one command. */
struct reply {
    const char *word;
    uint64_t numbers[2]; /* what stands behind the word, 0 if nothing does */
    const unsigned char *data;
    size_t size;
};

/* How a kind of op is talked about. A talk has ended, for now, when all its commands have their
 * replies; end() says how it goes on. */
struct plain_kind {
    void (*begin)(struct plain *plain, struct talk *talk);
    void (*reply)(struct plain *plain, struct talk *talk, size_t index, const struct reply *reply);
    void (*end)(struct plain *plain, struct talk *talk); /* NULL: with talk->code */
    int *(*item)(struct talk *talk, size_t index); /* NULL: not a list. The status of an item */
};

/* One op that is being talked about. */
struct talk {
    struct talk *prev, *next;
    bide_op *op;
    const struct plain_kind *kind;
    unsigned outstanding; /* commands without reply */
    int stage;            /* the kind's own */
    int code;             /* what the op will answer */
    int given_up;         /* why its connection was closed */
    bool lost, lost_sent; /* a reply will not come; its command had left */
    bool begun, ended;
    bool waits; /* its own time is what deadline says; else, for a connection */
    _Atomic bool cancelled;
    int64_t deadline;
    uint64_t bytes;
    struct wire *wire; /* where its reserve is */
    bide_job *jobs;    /* what was found, until it is good */
    size_t job_count;
    size_t round_end; /* reserve: how many there will be if all that were asked for come */
};

/* A reply that will come, and whose it is (NULL: nobody's). */
struct expected {
    struct talk *talk;
    size_t index;
    uint64_t end; /* the command's last byte, in all that was ever written */
};

struct wire {
    struct wire *next;
    int fd;
    bool broken;     /* to be closed */
    bool ended;      /* and nothing more can be read */
    bool blocked;    /* a reserve waits on it */
    bool wants_room; /* the socket takes no more for now */
    size_t leases;   /* how many it holds */
    char used[BIDE_TOPIC_MAX + 1];
    char *watched; /* names, each with its NUL */
    size_t watched_size, watched_count;
    unsigned char *in, *out;
    size_t in_size, in_used, in_room;
    size_t out_size, out_used, out_room;
    uint64_t appended, written; /* bytes since the beginning */
    struct expected *expected;
    size_t expected_head, expected_size, expected_room;
};

struct lease {
    struct lease *next;
    uint64_t id, token;
    uint32_t priority;
    int64_t ttr;      /* microseconds */
    int64_t deadline; /* it has run out by then */
    struct wire *wire;
};

struct plain {
    struct backend base;
    struct backend_context context;
    struct address address;
    pthread_t thread;
    int wake_fd, stop_fd;

    pthread_mutex_t lock;
    pthread_cond_t room;
    struct talk *first, *last; /* all */
    uint64_t pending_ops, pending_bytes, waiting;
    bool news; /* a new talk, a wish to cancel, a shutdown */
    _Atomic bool shut;
    _Atomic bool closing;
    int64_t close_by;

    /* Only the thread's. */
    struct wire *main;  /* NULL: no connection */
    struct wire *spare; /* all others */
    size_t spare_count;
    uint64_t max_job_size; /* of the server; 0: it has not been asked */
    struct lease *leases[PLAIN_LEASES];
    uint64_t last_token;
    struct op_list completed;
    struct talk *ended; /* to be freed */
    unsigned attempts;
    int64_t try_at;
    int64_t lost_at; /* when there was a connection last, if there is none */
    struct bi_random random;
    struct bi_secret secret; /* orders the pages of topics */
    char reason[BIDE_ERROR_SIZE];
};

/* ---- talks ---- */

/* The kind of an op; NULL: beanstalkd has no word for it. */
const struct plain_kind *bi_plain_kind(bide_op_kind kind);
extern const struct plain_kind bi_plain_put, bi_plain_put_many, bi_plain_reserve,
    bi_plain_reserve_job, bi_plain_delete, bi_plain_release, bi_plain_bury, bi_plain_touch,
    bi_plain_finish_many, bi_plain_touch_many, bi_plain_finish_and_reserve, bi_plain_peek,
    bi_plain_peek_first, bi_plain_body, bi_plain_kick, bi_plain_kick_job, bi_plain_pause,
    bi_plain_stats, bi_plain_topic_stats, bi_plain_topics, bi_plain_ping, bi_plain_recovered;

/* The parts of a reserve, for what reserves after something else. */
void bi_plain_begin_reserve(struct plain *plain, struct talk *talk);
void bi_plain_hear_reserve(struct plain *plain, struct talk *talk, size_t index,
                           const struct reply *reply);
void bi_plain_end_reserve(struct plain *plain, struct talk *talk);

/* The op has its answer; nothing of the talk may be outstanding. The sentence is the code's own, or
 * the one that is in the op already. */
void bi_plain_end(struct plain *plain, struct talk *talk, int code);
/* Refuses an op, or an item: writes the sentence, answers the code. */
int bi_plain_cannot(bide_op *op, const char *what);
/* What a reply means that no command wants. */
int bi_plain_error(const struct plain *plain, bide_op *op, const struct reply *reply);
bool bi_reply_is(const struct reply *reply, const char *word);
void *bi_plain_run(void *argument);

/* ---- wires ---- */

struct wire *bi_wire_new(int fd);
void bi_wire_free(struct wire *wire);
/* One command, with a body or without; its reply goes to the talk. */
void bi_wire_ask(struct wire *wire, struct talk *talk, size_t index, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void bi_wire_body(struct wire *wire, bide_slice body);
/* The tube that puts, kicks and peeks are about; the tubes that a reserve is. */
void bi_wire_use(struct wire *wire, bide_slice topic);
void bi_wire_watch(struct wire *wire, const bide_slice *topics, size_t count);
void bi_wire_write(struct wire *wire);
/* Reads what is there; the replies go to their talks. */
void bi_wire_read(struct plain *plain, struct wire *wire);
/* Tells the talks that wait for replies that none will come. */
void bi_wire_lose(struct plain *plain, struct wire *wire);
/* A wire on which a reserve can wait; NULL with a reason if there is none. */
struct wire *bi_plain_spare(struct plain *plain);
/* Closes a wire, with its leases. */
void bi_plain_drop(struct plain *plain, struct wire *wire);
/* A reply has come, or (NULL) will not; sent: its command had left. */
void bi_plain_heard(struct plain *plain, const struct expected *expected, const struct reply *reply,
                    bool sent);

/* ---- leases ---- */

struct lease *bi_lease_new(struct plain *plain, uint64_t id, struct wire *wire);
struct lease *bi_lease_find(const struct plain *plain, uint64_t id, uint64_t token);
/* Is the job held by this client? */
bool bi_lease_holds(const struct plain *plain, uint64_t id);
void bi_lease_free(struct plain *plain, struct lease *lease);
void bi_lease_drop(struct plain *plain, const struct wire *wire);

/* ---- jobs and figures ---- */

/* The value of a key, quotes taken off; empty if there is none. */
bide_slice bi_yaml_get(const struct reply *reply, const char *key);
uint64_t bi_yaml_number(const struct reply *reply, const char *key);
/* Fills a job from the reply of stats-job; the body stays. False: it makes no sense. */
bool bi_yaml_job(const struct reply *reply, bide_job *job);
/* Fills the body; false: out of memory. */
bool bi_reply_body(const struct reply *reply, bide_job *job);

/* Takes over a connection to a beanstalkd. */
int bi_plain_open(const struct backend_context *context, const struct address *address, int fd,
                  struct backend **out, char *error);

#endif
