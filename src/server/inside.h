/* SPDX-License-Identifier: MIT */
/*
 * inside - what the files of the server share: the server, its connections, their requests.
 *
 * A turn of the loop: libevent says which sockets are readable. Each is read once; its complete
 * commands become requests, whose ops gather in one batch for all connections. The batch is handed
 * to the queue when it is full, when a command needs the answer of an earlier one, and at the end
 * of the turn. Answers go into the output of their connection, in the order of the commands, and
 * every output that has grown is written once.
 *
 * A request that the queue cannot answer at once (a reserve that waits, a change that is not stored
 * yet) stays in the line of its connection; answers of later commands wait behind it. A command
 * behind a blocking request is not even looked at: it stays in the input.
 */
#ifndef BI_SERVER_INSIDE_H
#define BI_SERVER_INSIDE_H

#include "backend/call.h"
#include "server/admit.h"
#include "server/beanstalk_parse.h"
#include "server/output.h"
#include "server/server.h"
#include "server/session.h"
#include "server/tag_table.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#define BATCH_MAX     1024                /* ops in one submit, */
#define BATCH_TOPICS  4096                /* and topics that they look at */
#define READ_MAX      ((size_t)128 << 10) /* bytes of one read, and of a stopped connection's input */
#define BULK_COMMANDS 128                 /* many: in one read, or under way */
#define INPUT_LITTLE  ((size_t)4 << 10)   /* bytes of commands that wait; with more it sends much */
#define SCRATCH_SIZE  ((size_t)512 << 10) /* what is read in one turn before the batch must go */
#define LINE_DEPTH    1024                /* requests of one connection, */
#define LINE_TIGHT    16                  /* and when clients have half of max_client_bytes */
#define ANSWERS_MAX   ((size_t)64 << 20) /* answers to calls that one connection may leave unread */
#define ANSWERS_SHARE ((size_t)1 << 20)  /* with more it is the first to go when memory is short */
#define OUTPUT_HIGH   ((size_t)256 << 10) /* more than this unsent: no further commands */
#define EXPECTED_HIGH ((size_t)8 << 20)   /* bodies that requests under way may bring */
#define TURN_US       2000                /* of a turn's work, before others are looked at */
#define GLANCE_US     100                 /* of a connection that has sent little until now, */
#define SLICE_US      1000                /* of one that has sent much, */
#define SLICE_WORK    8192 /* and the same in units of work, each a tenth of a microsecond, about */
#define LOOK_WORK     64   /* units between two readings of the clock */
#define SLOW_READ     ((size_t)64 << 10) /* a command that takes long is like reading so many bytes */
#define BODY_SMALL \
    ((size_t)64 << 10)           /* a body that is refused for lack of memory only as the last */
#define LARGE   (BODY_SMALL + 1) /* what is not, and has no size of its own */
#define SOON_US INT64_C(1000000) /* DEADLINE_SOON: the lease ends within that time */

struct conn;
struct call;
struct owed;

/* Why a waiting request is being given up. */
enum why { WHY_NONE, WHY_SOON, WHY_HALF_CLOSED, WHY_GONE };

/* What a session does with a tube: uses or watches it, and says so. */
typedef void (*tube_taker)(struct conn *conn, struct tube *tube, struct output *reply);

struct request {
    bide_op op; /* first: an op of the server is its request */
    struct server *server;
    struct conn *conn; /* NULL: it has gone */
    struct request *next;
    struct request *next_later;
    /* Says what came of it; false: it has been submitted once more. */
    bool (*answer)(struct request *request);
    bool finished; /* completed, and its turn has not come */
    bool early;    /* completed before its turn had come */
    bool blocking; /* commands behind it wait */
    bool trying;   /* a reserve in the batch, which would not wait */
    bool counted;  /* among the server's held ones, */
    bool bulk;     /* and those of connections that send much */
    bool modern;   /* refusals have words of their own */
    bool leased;   /* by a token that the client named */
    bool waited;   /* a reserve that is waiting, or has waited */
    bool applied;  /* takes jobs, has taken them, and its answer is held for a commit */
    enum why why;
    bool has_retries;   /* of the job whose lease was taken out of the session */
    int64_t lease_end;  /* 0: none was */
    int64_t completed;  /* when the queue had answered */
    int64_t timeout_ms; /* of a reserve: what was asked for */
    size_t expected;    /* bytes that it may bring */
    size_t bytes;       /* of the body that it carries */
    struct tube *tube;  /* use, watch: held until the topic knows of it */
    tube_taker take_tube;
    void *extra; /* memory that goes with it */
    void (*drop)(void *extra);
    const char *text; /* said in its turn, text_size bytes */
    size_t text_size;
    union {
        bide_job job;
        struct {
            bide_put_options options;
            char key[BIDE_KEY_MAX];
        } put;
        bide_topic_stats topic;
        bide_stats stats;
        char copy[OUTPUT_SMALL]; /* said in its turn */
    };
};

enum stage {
    STAGE_LINE,
    STAGE_BODY,    /* incoming waits for the rest of its body */
    STAGE_SKIP,    /* skip bytes, then say skip_text, or refuse a call */
    STAGE_DISCARD, /* a line that is too long */
};

/* A command whose body has not come completely. What has come of it counts, and not its whole buffer, of
 * which the system gives only the pages that are written to. A large one grows as it comes. */
struct incoming {
    struct command command;
    bide_buf *buf;
    char *data;  /* of buf, */
    size_t room; /* which has so many bytes, */
    size_t got;  /* and so many have come, with the CRLF behind the body */
    int64_t began;
    char end[2];
    char name[64];
};

struct conn {
    struct server *server;
    uint32_t order;           /* of its ops: not 0, and another one for every connection */
    struct conn *prev, *next; /* all, the one that was idle for longest first */
    int fd;
    struct event event;
    struct event alarm; /* DEADLINE_SOON */
    short wanted;       /* what event is added for */
    bool authorised;    /* it need not say the secret, or has */
    bool pending;       /* in the list of those that have not said it, by pending_prev and _next */
    bool remote;        /* served, and from another machine */
    bool paused;        /* nothing is read or executed until the end of the pause */
    bool pause_quits;   /* then it ends */
    bool pause_served;  /* the command that says the secret has waited for the end of one */
    uint8_t wrong_count;
    uint8_t demand_count; /* commands that were refused for want of the secret */
    struct peer *peer;    /* NULL: not known */
    struct peer *network; /* of an IPv6 client of another machine; NULL: none */
    struct conn *pending_prev, *pending_next;
    struct event *pause;    /* NULL: there was none */
    const char *pause_text; /* said at its end; may be NULL */
    int64_t grace_end;      /* to say the secret */
    bool producer, worker;
    bool eof;         /* the peer sends no more, and all was read */
    bool half_closed; /* it sends no more */
    bool quit;        /* nothing more is executed */
    bool dead;        /* to be closed at once */
    bool gone;        /* its socket is closed */
    bool failed;      /* it has ended, and not because the server stops */
    bool leaving;     /* it has ended, and has more to give back */
    bool dirty;       /* in the server's list of those to look at */
    bool bulk;        /* the last read of it brought many commands, slow ones, or not even one */
    bool pressed;     /* stopped because the queue has too much to do */
    bool tcp;
    bool lingers; /* all is said; it is closed when the peer has it */
    bool hungry;  /* what it has of input is not a whole command */
    enum stage stage;
    const char *skip_text; /* NULL: the call skip_tag is refused with skip_code */
    uint64_t skip, skip_tag;
    int skip_code;
    struct incoming *incoming;
    char *input; /* what was read and not executed */
    size_t input_size;
    struct output output;
    size_t memory; /* counted in the server's client_bytes */
    struct session session;
    struct request *line_head, *line_tail;
    size_t line_count;
    uint32_t blocked;      /* blocking requests in the line */
    uint32_t trying;       /* of these, reserves that are still in the batch */
    uint32_t applied;      /* reserves that have their jobs, which the session does not know yet */
    bool stalled;          /* the next command names a job that one of those may have taken */
    bool deferred;         /* the next command is put off until less waits to be stored */
    bool may_defer;        /* it is to be put off if it stores something */
    size_t expected;       /* bytes that requests in the line, and calls in the batch, may bring */
    struct call *calls;    /* those that are under way */
    struct tag_table tags; /* these, and the parked ones */
    bool unstopped;        /* some of them have not been told of the end */
    size_t call_count;
    size_t call_waiting;  /* of these, calls that wait for something to happen */
    size_t call_promised; /* bytes that the others may bring, once they have left the batch */
    size_t call_bytes;    /* memory of calls, until they are answered */
    uint32_t may_wait;    /* calls under way that may wait */
    struct call *unsaid_head, *unsaid_tail; /* completed; their answers wait for output */
    size_t unsaid_bytes;
    size_t listing_bytes;                   /* of a document that is being gathered */
    struct call *unsent_head, *unsent_tail; /* answered with leases; the socket has not taken all */
    struct tubes references;                /* to topics, that its calls have made */
    struct feed_link *feeds;
    uint32_t feed_links, feed_asked; /* feeds that it has, and subscribes under way */
    uint64_t feed_count;             /* feeds ever subscribed by calls: the last number given */
    struct conn *next_dirty, *next_leaving;
    struct conn_queue *runs; /* the run queue that it is in, or NULL */
    struct conn *prev_run, *next_run;
    struct read_queue *reads; /* the read queue that it is in, or NULL */
    struct conn *prev_read, *next_read;
    int64_t opened;
    int64_t active; /* when it last sent something, waited or held a job */
    int64_t heard;  /* when it last took some of its output, or had none */
    int64_t fed;    /* when it last sent something, or had no unfinished command */
    int64_t linger_end;
    int32_t linger_wait; /* us until the next look */
};

/* A socket that listens. */
struct door {
    struct door *next;
    struct server *server;
    struct event event;
    int fd;
    bool tcp;
};

struct read_queue {
    struct conn *head, *tail;
};

/* Connections in a row, linked by next_dirty, next_run or next_leaving. */
struct conn_queue {
    struct conn *head, *tail;
};

/* Connections that send or owe little go before those that send much, for half of the time. */
enum load { LOAD_LITTLE, LOAD_MUCH, LOADS };

struct server {
    bide *queue;
    bide_cq *cq;
    struct bi_log log;
    struct server_limits limits;
    struct server_settings settings;
    struct event_base *base;
    struct event cq_event, term, interrupt, usr1, hup, idle_timer, stop_timer, accept_timer;
    struct event watch_timer;
    struct door *doors;
    struct admission admission;
    struct conn *first, *last;      /* connections */
    struct conn_queue dirty[LOADS]; /* connections to look at */
    struct conn_queue runs[LOADS];  /* connections with input that may be executed */
    struct conn_queue deferred;     /* the same, once less waits to be stored */
    struct conn_queue leaving;      /* that have ended, and have more to give back */
    struct read_queue much, little; /* readable connections that wait for their turn */
    bool read_little;               /* the last one of them that was read had sent little */
    struct tubes tubes;
    size_t references;    /* topics that calls refer to, those of each connection counted */
    struct tubes orphans; /* topics of calls under way whose connections have gone */
    struct tube *default_tube;
    struct request *spare; /* requests that nobody needs */
    size_t spare_count;
    struct request *later_head, *later_tail; /* requests that give way to others */
    struct owed *owed; /* leases to be given back when the queue has room again */
    size_t owed_first, owed_count, owed_room;
    int64_t owed_at;                 /* not before */
    uint64_t giving, giving_max;     /* leases that are being given back, and may be at a time */
    int64_t told_at;                 /* when the log may be told of a refusal again */
    int64_t rested_at;               /* and of connections that cannot be accepted */
    struct bi_log_repeat unfinished; /* connections that were closed for that, */
    struct bi_log_repeat http;       /* and for this */
    struct bi_log_repeat crowded;    /* calls that were refused because many wait */
    bide_op *batch[BATCH_MAX];
    size_t batch_count;
    size_t batch_topics;      /* that its reserves look at */
    bool batch_slow;          /* it ends with an op that takes long */
    struct call_bytes answer; /* what calls are answered with is written here */
    char *scratch;
    size_t scratch_at;
    size_t read_bytes; /* in this round of the loop */
    bool submitted;    /* ops were, since the last commit was begun */
    unsigned single;   /* turns in a row that ended with one change to be stored */
    size_t under_way;  /* ops handed over and not completed */
    uint64_t held;     /* of these, changes that are not stored yet */
    uint64_t held_bytes;
    uint64_t held_max, held_bytes_max;
    uint64_t bulk_held, bulk_bytes; /* of the held ones, those of connections that send much, */
    uint64_t bulk_held_max, bulk_bytes_max; /* and then these are not read */
    size_t max_job_size, max_result_size;
    uint64_t max_topics, max_waiters;
    uint64_t may_wait;     /* calls of all connections that may wait */
    uint64_t client_bytes; /* memory in buffers of connections */
    int64_t short_until; /* a command was refused for that: the largest are looked at until then */
    uint32_t connections, producers, workers;
    uint64_t total_connections, refused_connections;
    uint64_t guesses; /* wrong secrets */
    uint64_t commands[VERB_COUNT + 1];
    bool pressed; /* the queue has too much to do: a connection was stopped, or a lease is owed */
    bool stopped_some; /* connections were stopped by that */
    bool stopping;     /* a stop has begun */
    bool hangs;        /* a commit does, and the log was told */
    bool ended;        /* the wait for clients is over */
    bool remaking;     /* a parked call is being submitted again */
    int64_t now;       /* boot-time clock: after the last submit, before the last drain */
    uint64_t work;     /* commands executed, and what takes as long */
    uint64_t look;     /* the clock is read when so much is done */
    int64_t started;
    char id[17];          /* public */
    uint64_t held_secret; /* of the tables of held jobs */
};

/* ---- server.c ---- */

/* Adds an op to the batch. Its done() is called once, on the loop's thread. An op whose user is NULL
 * is that of a request, any other that of a call. */
void bi_server_submit(struct server *server, bide_op *op);
/* Hands the batch over, and whatever comes of it. */
void bi_server_flush(struct server *server);
/* The queue has enough to do. */
bool bi_server_pressed(const struct server *server);
/* May a connection with a command of so many bytes take that much more of the clients' memory? Commands
 * of more than BODY_SMALL leave a fourth to others; a connection that has all for itself may have more. */
bool bi_server_has_room(struct server *server, const struct conn *conn, size_t size, size_t more);
/* Is that memory short? */
bool bi_server_lacks_room(const struct server *server);

/* ---- schedule.c ---- */

/* A turn ends with a look at it; or does not. */
void bi_server_mark(struct conn *conn);
void bi_server_unmark(struct conn *conn);
/* It may go on with its input. */
void bi_server_wake(struct conn *conn);
/* Removes it from its run queue. */
void bi_server_unwake(struct conn *conn);
/* So much work is done. Reads the clock from time to time: a turn must end also if nothing is
 * submitted in it. */
void bi_server_count_work(struct server *server, uint64_t units);
/* It is readable: it is read now, or queues behind others that have sent much. */
void bi_server_readable(struct conn *conn);
void bi_server_unqueue_read(struct conn *conn);
/* Of the connections that may go on, or are to be looked at: takes those that are in the queues now, in
 * turn, until the time is over. */
void bi_schedule_run(struct server *server, int64_t end);
void bi_schedule_write(struct server *server, int64_t end);
/* The same, only of connections with little. */
void bi_schedule_write_little(struct server *server, int64_t end);
/* How long it may go on at a time. */
int64_t bi_schedule_slice_us(const struct conn *conn);
/* False while the changes of connections that send much fill BULK_COMMITS commits. */
bool bi_schedule_takes_bulk(const struct server *server);
/* Is there one that may go on? One to look at? */
bool bi_schedule_may_run(const struct server *server);
bool bi_schedule_may_write(const struct server *server);
/* Is there one that queues, and may be read? */
bool bi_schedule_may_read(const struct server *server);
/* Reads some of them. */
void bi_schedule_read(struct server *server);
/* A change waits to be stored, of a connection or of one that has gone (NULL), with so many bytes. Answers
 * whether it counts among those of connections that send much, for the call when it waits no more. */
bool bi_server_hold(struct server *server, const struct conn *conn, size_t bytes);
void bi_server_let_go(struct server *server, bool bulk, size_t bytes);

/* ---- request.c ---- */

/* A request of a connection, or of nobody; NULL when out of memory. */
struct request *bi_request_new(struct server *server, struct conn *conn, bide_op_kind kind,
                               bool (*answer)(struct request *request));
/* Submits it, for the first time or again. */
void bi_request_submit(struct request *request);
/* Submits it again when others had their turn: it is one of many steps. */
void bi_request_submit_later(struct request *request);
/* Submits some of those. */
void bi_request_submit_some(struct server *server);
/* Puts it into the line of its connection and submits it. */
void bi_request_ask(struct request *request);
/* Answers it now, or when its turn has come: the queue is not asked. */
void bi_request_in_turn(struct request *request);
void bi_request_free(struct request *request);
/* Does it wait for something to happen, and not for the store? */
bool bi_request_waits(const struct request *request);
/* Does it take jobs, which the session learns when it is answered? */
bool bi_request_reserves(const struct request *request);
/* It was to end a lease of the session, and did not. */
bool bi_request_keeps_lease(const struct request *request);
/* Asks the queue to give up a request if it waits. */
void bi_request_give_up(struct request *request, enum why why);
/* Nobody waits for an answer any more. */
void bi_request_abandon(struct request *request);
/* Gives a job back that nobody holds any more; later, if the queue has too much to do. */
void bi_request_give_back(struct server *server, uint64_t id, uint64_t token, bool failed);
/* May jobs be given back at all now? */
bool bi_request_has_room(const struct server *server);
/* May some of what was put off be given back now? */
bool bi_request_may_give_back(const struct server *server);
/* Gives back a slice of it. */
void bi_request_give_back_owed(struct server *server);

/* ---- conn_input.c ---- */

/* Reads what is there, and executes what can be. */
void bi_conn_read(struct conn *conn);
/* Executes what it has of input. */
void bi_conn_run(struct conn *conn);
void bi_conn_drop_input(struct conn *conn);
/* How many bytes of its body count, for a connection that is sending one. */
size_t bi_conn_body_memory(const struct conn *conn);

/* ---- conn.c ---- */

/* Takes the socket over; NULL without memory. authorised: it need not say the secret. */
struct conn *bi_conn_open(struct server *server, int fd, bool authorised, bool tcp);
/* What its socket is waited for with: EV_READ, EV_WRITE, EV_ET; 0: nothing. */
void bi_conn_want(struct conn *conn, short wanted);
/* Tells the log, for debugging, that it came or went. */
void bi_conn_tell(const struct conn *conn, const char *verb);
/* Where it comes from, for people. */
#define PEER_SIZE 64
const char *bi_conn_peer(const struct conn *conn, char *room);
/* Says something in its turn; the text must live for ever. */
void bi_conn_say(struct conn *conn, const char *text);
/* The same for a text of at most OUTPUT_SMALL bytes, which is copied. */
void bi_conn_say_copy(struct conn *conn, const char *text, size_t size);
/* Says what is finished at the head of the line. */
void bi_conn_settle(struct conn *conn);
/* May its next command be executed? */
bool bi_conn_may_execute(struct conn *conn);
/* Is it to be read, when it has sent something? */
bool bi_conn_takes_input(const struct conn *conn);
/* Has it sent a part of a command, of which all that came is executed or kept? */
bool bi_conn_is_unfinished(const struct conn *conn);
/* How much of input it may have that is not executed. */
size_t bi_conn_input_max(const struct conn *conn);
/* What it has in buffers counts for all connections together. */
void bi_conn_count_memory(struct conn *conn);
/* What waits would wait for nobody. */
void bi_conn_give_up_waiting(struct conn *conn, enum why why);
/* Writes what the socket takes now. */
void bi_conn_write(struct conn *conn);
/* Writes, and closes or changes what is waited for. */
void bi_conn_finish_turn(struct conn *conn);
/* Nothing is under way, and all has been said. */
bool bi_conn_is_done(const struct conn *conn);
/* Stops to read and to wait. */
void bi_conn_stop(struct conn *conn);

/* ---- conn_close.c ---- */

/* Closes it, and gives back what it holds, now or a little later. It is not to be used any more. */
void bi_conn_close(struct conn *conn);
/* Gives back the jobs and tubes of its session: nothing more comes from the client. */
void bi_conn_leave(struct conn *conn);
/* Have connections that have ended more to give back, which need not wait for the queue? */
bool bi_conn_may_leave(const struct server *server);
/* Gives back a slice of that. */
void bi_conn_leave_more(struct server *server);
/* Frees them, whatever they have. */
void bi_conn_free_leaving(struct server *server);

/* ---- beanstalk.c, beanstalk_more.c, beanstalk_stats.c ---- */

/* The largest body that a verb takes. */
size_t bi_beanstalk_body_max(const struct server *server, enum verb verb);
/* True if the command may be executed now; false: not before those ahead of it are answered. */
bool bi_beanstalk_may(struct conn *conn, const struct command *command);
/* Executes a complete command. Its body is there until the batch goes; what buf holds goes at once. */
void bi_beanstalk_execute(struct conn *conn, const struct command *command);
/* A new request of a connection; NULL: memory is out, and the connection has been told. */
struct request *bi_beanstalk_ask(struct conn *conn, bide_op_kind kind,
                                 bool (*answer)(struct request *request));
/* It puts jobs; it takes jobs. */
void bi_beanstalk_produces(struct conn *conn);
void bi_beanstalk_works(struct conn *conn);
/* The moment at which a new job expires, from now on; 0: never. */
void bi_beanstalk_set_expiry(bide_put_options *options, int64_t expires_ms);
/* What the protocol says to an outcome or failure. */
const char *bi_beanstalk_refusal(const struct request *request);
/* A client was answered so because of a limit: tells the log why, once in a while. */
void bi_beanstalk_tell_limit(struct server *server, const char *reply, const char *why);
/* Says so. */
bool bi_beanstalk_refuse(struct request *request);
/* Says the word, or why not. */
bool bi_beanstalk_say_or_refuse(struct request *request, const char *word);
/* May there be such a job? */
static inline bool bi_beanstalk_is_id(uint64_t id)
{
    return id >= 1 && id <= BIDE_ID_MAX;
}
/* A touch has completed: the session learns it at once, whenever its reply's turn comes. */
void bi_beanstalk_touched(struct request *request);
/* The waiting reserve of a connection that holds jobs: when to tell it of a deadline. */
void bi_beanstalk_alarm(struct conn *conn);
/* Does a lease of this connection end within the margin? */
bool bi_beanstalk_is_soon(struct conn *conn);

/* The topic of a tube has one reference more. */
void bi_beanstalk_referenced(struct server *server, struct tube *tube);
/* A connection lets go of a tube. */
void bi_beanstalk_let_go(struct server *server, struct tube *tube);

/* "OK <bytes>", and the text. */
void bi_beanstalk_say_document(struct conn *conn, struct output *text);

/* The handlers. */
void bi_beanstalk_put(struct conn *conn, const struct command *command);
void bi_beanstalk_reserve(struct conn *conn, const struct command *command);
void bi_beanstalk_reserve_job(struct conn *conn, const struct command *command);
void bi_beanstalk_delete(struct conn *conn, const struct command *command);
void bi_beanstalk_release(struct conn *conn, const struct command *command);
void bi_beanstalk_bury(struct conn *conn, const struct command *command);
void bi_beanstalk_touch(struct conn *conn, const struct command *command);
void bi_beanstalk_done(struct conn *conn, const struct command *command);
void bi_beanstalk_fail(struct conn *conn, const struct command *command);
void bi_beanstalk_peek(struct conn *conn, const struct command *command);
void bi_beanstalk_kick(struct conn *conn, const struct command *command);
void bi_beanstalk_kick_job(struct conn *conn, const struct command *command);
void bi_beanstalk_use(struct conn *conn, const struct command *command);
void bi_beanstalk_watch(struct conn *conn, const struct command *command);
void bi_beanstalk_ignore(struct conn *conn, const struct command *command);
void bi_beanstalk_list_used(struct conn *conn, const struct command *command);
void bi_beanstalk_pause(struct conn *conn, const struct command *command);
void bi_beanstalk_stats(struct conn *conn, const struct command *command);
void bi_beanstalk_stats_job(struct conn *conn, const struct command *command);
void bi_beanstalk_stats_tube(struct conn *conn, const struct command *command);
void bi_beanstalk_list_tubes(struct conn *conn, const struct command *command);
void bi_beanstalk_list_watched(struct conn *conn, const struct command *command);
void bi_beanstalk_list_jobs(struct conn *conn, const struct command *command);
void bi_beanstalk_put_many(struct conn *conn, const struct command *command);
void bi_beanstalk_reserve_many(struct conn *conn, const struct command *command);
void bi_beanstalk_result(struct conn *conn, const struct command *command);
void bi_beanstalk_update(struct conn *conn, const struct command *command);
void bi_beanstalk_cancel(struct conn *conn, const struct command *command);
void bi_beanstalk_purge(struct conn *conn, const struct command *command);
void bi_beanstalk_auth(struct conn *conn, const struct command *command); /* admit.c */

/* ---- call_limit.c ---- */

/* How many bytes it may be answered with, about. */
size_t bi_call_promise(const struct server *server, const bide_op *op);
/* May the connection have a call of so many bytes? While all connections have half of the clients'
 * memory, one that has much of it in calls may not have more. */
bool bi_call_has_room(const struct conn *conn, size_t bytes);

/* What a connection may have however much others have: most, or less if so many connections would have
 * more than all. */
uint64_t bi_call_free(const struct server *server, uint64_t most, uint64_t all);
/* Bytes of answers to its calls that its client has not read. */
size_t bi_call_unread(const struct conn *conn);
/* Has it much to read, and taken nothing of it for long? */
bool bi_call_is_stuck(const struct conn *conn);
/* May one more call of this connection wait? */
bool bi_call_may_wait(const struct conn *conn);
/* The op had no time to wait because it might not, and is answered with that. */
void bi_call_refuse_wait(const struct conn *conn, bide_op *op);
/* May the connection have one more feed? BIDE_OK, or a code with a sentence. */
int bi_call_check_feeds(const struct conn *conn, char *error);
/* May it have the server write this file? The same. */
int bi_call_check_backup(const struct conn *conn, const char *path, char *error);

/* ---- call_reference.c ---- */

/* May the connection watch, or refer to, one more topic? */
bool bi_call_may_name(const struct conn *conn);
/* A sentence (BIDE_ERROR_SIZE bytes) for one that may not. */
void bi_call_refuse_name(const struct conn *conn, const char *verb, char *error);

/* A call of topic_ref begins: notes the reference, which is in *out until it ends, or NULL.
 * BIDE_NOT_FOUND: it would give back what the connection has not. */
int bi_call_reference_begin(struct conn *conn, const bide_op *op, struct tube **out, char *error);
/* It has ended: done, or not. */
void bi_call_reference_end(struct conn *conn, struct tube *tube, int delta, bool done);
/* The connection of a call under way has gone. Answers what the call is about until it is settled; NULL
 * if memory lacks: what it makes then stays. */
struct tube *bi_call_reference_leave(struct conn *conn, struct tube *tube, int delta);
/* Such a call has completed: gives back the reference that it has made, or could not give back. */
void bi_call_reference_settle(struct server *server, struct tube *orphan, int delta, bool done);
/* The connection has gone: gives one of its references back. False: there are none left. */
bool bi_call_reference_drop(struct conn *conn);

/* ---- call.c ---- */

void bi_beanstalk_call(struct conn *conn, const struct command *command);
void bi_beanstalk_call_cancel(struct conn *conn, const struct command *command);
/* Not answered at once: one of the ops whose user is set. */
void bi_call_pending(bide_op *op);
/* Answers a call that cannot be made. */
void bi_call_refuse(struct conn *conn, uint64_t tag, int code, const char *sentence);
/* The socket has taken output: forgets what has been sent, says what has room now. */
void bi_call_sent(struct conn *conn);
/* Gives up what waits. */
void bi_call_stop(struct conn *conn);
/* The connection has gone: ends one of its calls or feeds. False: there is none left. */
bool bi_call_drop(struct conn *conn);

#endif
