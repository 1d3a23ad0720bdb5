/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_parse - one line of the beanstalkd protocol, understood.
 *
 * Pure: bytes in, a struct out; no I/O, no memory of its own, no state. docs/PROTOCOL.md is the
 * grammar. What old clients send is understood exactly as beanstalkd 1.13 does, oddities included
 * (a verb is found by its beginning, `kick -1` is a number); what bide adds was an error there.
 *
 * Ownership  Slices in a command point into the line.
 */
#ifndef BI_BEANSTALK_PARSE_H
#define BI_BEANSTALK_PARSE_H

#include <bide/bide.h>

#define LINE_MAX_OLD  224  /* with its CRLF */
#define LINE_MAX_MORE 1024 /* of a line with options, or a verb that beanstalkd does not have */

/* Every verb: X(NAME, word). Those that are used most come first, because they are looked for in
 * this order. */
#define BEANSTALK_VERBS(X)                          \
    X(PUT, "put")                                   \
    X(RESERVE, "reserve")                           \
    X(DELETE, "delete")                             \
    X(RESERVE_WITH_TIMEOUT, "reserve-with-timeout") \
    X(RELEASE, "release")                           \
    X(BURY, "bury")                                 \
    X(TOUCH, "touch")                               \
    X(CALL, "call")                                 \
    X(RESERVE_MANY, "reserve-many")                 \
    X(PUT_MANY, "put-many")                         \
    X(LEASE, "lease")                               \
    X(DONE, "done")                                 \
    X(FAIL, "fail")                                 \
    X(USE, "use")                                   \
    X(WATCH, "watch")                               \
    X(IGNORE, "ignore")                             \
    X(KICK, "kick")                                 \
    X(KICK_JOB, "kick-job")                         \
    X(PEEK, "peek")                                 \
    X(PEEK_READY, "peek-ready")                     \
    X(PEEK_DELAYED, "peek-delayed")                 \
    X(PEEK_BURIED, "peek-buried")                   \
    X(RESERVE_JOB, "reserve-job")                   \
    X(STATS, "stats")                               \
    X(STATS_JOB, "stats-job")                       \
    X(STATS_TUBE, "stats-tube")                     \
    X(LIST_TUBES, "list-tubes")                     \
    X(LIST_TUBE_USED, "list-tube-used")             \
    X(LIST_TUBES_WATCHED, "list-tubes-watched")     \
    X(PAUSE_TUBE, "pause-tube")                     \
    X(QUIT, "quit")                                 \
    X(RESULT, "result")                             \
    X(UPDATE, "update")                             \
    X(CANCEL, "cancel")                             \
    X(LIST_JOBS, "list-jobs")                       \
    X(PURGE_TUBE, "purge-tube")                     \
    X(CALL_CANCEL, "call-cancel")                   \
    X(AUTH, "auth")

enum verb {
#define BEANSTALK_VERB_ENUM(NAME, word) VERB_##NAME,
    BEANSTALK_VERBS(BEANSTALK_VERB_ENUM)
#undef BEANSTALK_VERB_ENUM
        VERB_COUNT,
    VERB_NONE = VERB_COUNT,
};

/* How a line was understood. */
enum parse {
    PARSE_OK,
    PARSE_UNKNOWN,    /* no such verb */
    PARSE_BAD_FORMAT, /* and the next byte begins the next line */
    PARSE_BAD_OPTION, /* and body_size bytes and a CRLF are to be skipped */
};

struct command {
    enum verb verb;
    bool counted;     /* it counts as a command of its verb, understood or not */
    bool wants_body;  /* body_size bytes and a CRLF follow the line */
    bool leased;      /* under `lease`: as the holder of token */
    bool has_timeout; /* result */
    uint32_t body_size;
    bide_slice body; /* set by who has read it */
    bide_buf *buf;   /* holds it; may be NULL */
    uint64_t id;
    uint64_t token;
    uint64_t tag;       /* call */
    uint64_t count;     /* kick, put-many, reserve-many, list-jobs */
    uint32_t priority;  /* release, bury */
    int64_t delay_ms;   /* release, pause-tube; fail: BIDE_KEEP if not said */
    int64_t timeout_ms; /* reserve, result */
    int64_t retain_ms;  /* done: BIDE_KEEP if not said */
    bide_state state;   /* list-jobs, purge-tube */
    bide_slice name;    /* a tube ("" for *), an op, a secret */
    bide_put_options put;
    int64_t expires_ms; /* put: from now; 0: never */
    bide_update_args update;
    bide_filter filter; /* list-jobs */
    char cursor[BIDE_CURSOR_SIZE];
    size_t text_size;
    char text[LINE_MAX_MORE]; /* what key and filter point into, decoded */
};

/* What is set of the command depends on the verb; the verb, the flags, body_size and token always
 * are. The line is without its CRLF. */
enum parse bi_beanstalk_parse(struct command *command, const char *line, size_t size);

/* One job of put-many: "<pri> <delay> <ttr> <bytes>[ options]". PARSE_OK, or it is not valid; then
 * body_size is set if it could be read (else UINT32_MAX). */
enum parse bi_beanstalk_parse_item(struct command *command, const char *line, size_t size);

/* The longest that a line which begins like this may be, with its CRLF. */
size_t bi_beanstalk_line_max(const char *line, size_t size);

/* May this be the name of a tube? */
bool bi_beanstalk_is_name(const char *name, size_t size);

const char *bi_beanstalk_word(enum verb verb);

#endif
