/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_parse - parses one line of the beanstalkd protocol into a struct command.
 *
 * Pure: no I/O, no allocation, no state, so it can be fuzzed alone. docs/PROTOCOL.md has the
 * grammar. Lines of beanstalkd clients are parsed exactly as beanstalkd 1.13 does, with its
 * oddities (a verb is found by its prefix, `kick -1` is a number). Every extension is an error
 * there.
 *
 * Ownership  Slices in a command point into the line, decoded values into the command itself.
 */
#ifndef BI_BEANSTALK_PARSE_H
#define BI_BEANSTALK_PARSE_H

#include <bide/bide.h>

#define LINE_MAX_CLASSIC  224  /* with CRLF, as in beanstalkd */
#define LINE_MAX_EXTENDED 1024 /* with CRLF: a put with options, or a verb that bide adds */

/*
 * Every verb: X(NAME, word, flags, fields ...). beanstalk_parse.c has the flags,
 * beanstalk_field.h the kinds of fields. The most frequent verbs come first: find_verb() searches in this order.
 */
#define BEANSTALK_VERBS(X)                                                                         \
    X(PUT, "put", SPACE | BODY | OPTIONS, FIELD(U32, put.priority), FIELD(DURATION, put.delay_ms), \
      FIELD(TTR, put.ttr_ms))                                                                      \
    X(RESERVE, "reserve", 0, NO_FIELD)                                                             \
    X(DELETE, "delete", SPACE | LEASABLE, FIELD(U64, id))                                          \
    X(RESERVE_WITH_TIMEOUT, "reserve-with-timeout", SPACE | REST, FIELD(SECONDS, timeout_ms))      \
    X(RELEASE, "release", SPACE | LEASABLE, FIELD(U64, id), FIELD(U32, priority),                  \
      FIELD(DURATION, delay_ms))                                                                   \
    X(BURY, "bury", SPACE | LEASABLE, FIELD(U64, id), FIELD(U32, priority))                        \
    X(TOUCH, "touch", SPACE | LEASABLE, FIELD(U64, id))                                            \
    X(CALL, "call", EXTENSION | SPACE | BODY, FIELD(U64, tag), FIELD(WORD, name))                  \
    X(RESERVE_MANY, "reserve-many", EXTENSION | SPACE, FIELD(BATCH, count),                        \
      FIELD(DURATION, timeout_ms))                                                                 \
    X(PUT_MANY, "put-many", EXTENSION | SPACE | BODY, FIELD(U64, count))                           \
    X(FINISH_AND_PUT, "finish-and-put", EXTENSION | SPACE | LEASABLE | BODY | OPTIONS,             \
      FIELD(U64, id), FIELD(U64, count))                                                           \
    X(LEASE, "lease", EXTENSION | SPACE, NO_FIELD)                                                 \
    X(DONE, "done", EXTENSION | SPACE | LEASABLE | BODY | OPTIONS, FIELD(U64, id))                 \
    X(FAIL, "fail", EXTENSION | SPACE | LEASABLE | BODY | OPTIONS, FIELD(U64, id))                 \
    X(USE, "use", SPACE, FIELD(NAME, name))                                                        \
    X(WATCH, "watch", SPACE, FIELD(NAME, name))                                                    \
    X(IGNORE, "ignore", SPACE, FIELD(NAME, name))                                                  \
    X(KICK, "kick", SPACE | REST, FIELD(KICK_COUNT, count))                                        \
    X(KICK_JOB, "kick-job", SPACE, FIELD(U64, id))                                                 \
    X(PEEK, "peek", SPACE, FIELD(U64, id))                                                         \
    X(PEEK_READY, "peek-ready", 0, NO_FIELD)                                                       \
    X(PEEK_DELAYED, "peek-delayed", 0, NO_FIELD)                                                   \
    X(PEEK_BURIED, "peek-buried", 0, NO_FIELD)                                                     \
    X(RESERVE_JOB, "reserve-job", SPACE, FIELD(U64, id))                                           \
    X(STATS, "stats", 0, NO_FIELD)                                                                 \
    X(STATS_JOB, "stats-job", SPACE, FIELD(U64, id))                                               \
    X(STATS_TUBE, "stats-tube", SPACE, FIELD(NAME, name))                                          \
    X(LIST_TUBES, "list-tubes", 0, NO_FIELD)                                                       \
    X(LIST_TUBE_USED, "list-tube-used", 0, NO_FIELD)                                               \
    X(LIST_TUBES_WATCHED, "list-tubes-watched", 0, NO_FIELD)                                       \
    X(PAUSE_TUBE, "pause-tube", 0, FIELD(NAME_CHARS, name), FIELD(DURATION, delay_ms))             \
    X(QUIT, "quit", REST, NO_FIELD)                                                                \
    X(RESULT, "result", EXTENSION | SPACE, FIELD(U64, id), FIELD(MAY_TIMEOUT, timeout_ms))         \
    X(UPDATE, "update", EXTENSION | SPACE | OPTIONS, FIELD(U64, id))                               \
    X(CANCEL, "cancel", EXTENSION | SPACE, FIELD(U64, id))                                         \
    X(LIST_JOBS, "list-jobs", EXTENSION | SPACE | OPTIONS, FIELD(TUBE_OR_ALL, name),               \
      FIELD(STATE_OR_ANY, state), FIELD(BATCH, count))                                             \
    X(PURGE_TUBE, "purge-tube", EXTENSION | SPACE, FIELD(TUBE, name), FIELD(STATE, state))         \
    X(CLIENT_NAME, "client-name", EXTENSION | SPACE, FIELD(WORD, name))                            \
    X(TOPIC_SET, "topic-set", EXTENSION | SPACE | OPTIONS, FIELD(TUBE, name))                      \
    X(TOPIC_GET, "topic-get", EXTENSION | SPACE, FIELD(TUBE, name))                                \
    X(ANNOUNCE, "announce", EXTENSION | SPACE | OPTIONS, FIELD(WORD, name),                        \
      FIELD(DURATION, delay_ms))                                                                   \
    X(WORKERS, "workers", EXTENSION | SPACE | OPTIONS, FIELD(BATCH, count))                        \
    X(WHY, "why", EXTENSION | SPACE, FIELD(U64, id))                                               \
    X(WHY_KEY, "why-key", EXTENSION | SPACE, FIELD(TUBE, name), FIELD(KEY, filter.key))            \
    X(CALL_CANCEL, "call-cancel", EXTENSION | SPACE, FIELD(U64, tag))                              \
    X(AUTH, "auth", EXTENSION | SPACE, FIELD(LINE, name))                                          \
    X(SCHEDULE_SET, "schedule-set", EXTENSION | SPACE | BODY, NO_FIELD)                            \
    X(SCHEDULE_GET, "schedule-get", EXTENSION | SPACE, FIELD(WORD, name))                          \
    X(SCHEDULE_LIST, "schedule-list", EXTENSION | SPACE | OPTIONS, FIELD(BATCH, count))            \
    X(SCHEDULE_REMOVE, "schedule-remove", EXTENSION | SPACE, FIELD(WORD, name))                    \
    X(SCHEDULE_PAUSE, "schedule-pause", EXTENSION | SPACE, FIELD(WORD, name))                      \
    X(SCHEDULE_RESUME, "schedule-resume", EXTENSION | SPACE, FIELD(WORD, name))                    \
    X(SCHEDULE_RUN, "schedule-run", EXTENSION | SPACE, FIELD(WORD, name))                          \
    X(SCHEDULE_NEXT, "schedule-next", EXTENSION | SPACE, FIELD(WORD, name), FIELD(BATCH, count))

enum verb {
#define BEANSTALK_VERB_ENUM(NAME, ...) VERB_##NAME,
    BEANSTALK_VERBS(BEANSTALK_VERB_ENUM)
#undef BEANSTALK_VERB_ENUM
        VERB_COUNT,
    VERB_NONE = VERB_COUNT,
};

enum parse {
    PARSE_OK,
    PARSE_UNKNOWN,    /* no such verb */
    PARSE_BAD_FORMAT, /* no body follows: the next byte starts a new line */
    PARSE_BAD_OPTION, /* skip body_size bytes and a CRLF */
};

/* The options of announce. */
struct announcement {
    bide_slice host, version, topics; /* topics: separated by commas */
    uint64_t pid, threads, running, done, failed, lost;
    int64_t started_ms;
};

struct command {
    enum verb verb;
    bool counted;     /* counts in the statistics of its verb, also if it is invalid */
    bool wants_body;  /* body_size bytes and a CRLF follow the line */
    bool leased;      /* under `lease`: the client names the token */
    bool has_timeout; /* result: wait for the end of the job */
    bool item;        /* the line of one job in put-many or finish-and-put */
    uint32_t body_size;
    bide_slice body; /* set by the reader of the body */
    bide_buf *buf;   /* holds a large body; NULL for a small one */
    uint64_t id;
    uint64_t token;
    uint64_t tag;       /* call */
    uint64_t count;     /* kick, put-many, finish-and-put, reserve-many, list-jobs */
    uint32_t priority;  /* release, bury */
    int64_t delay_ms;   /* release, pause-tube; fail: BIDE_KEEP without an option */
    int64_t timeout_ms; /* reserve, result */
    int64_t retain_ms;  /* done: BIDE_KEEP without an option */
    bide_state state;   /* list-jobs, purge-tube */
    bide_slice name;    /* a tube ("" for *; of an item, "" for the used one), an op, a secret */
    bide_put_options put;
    int64_t expires_ms; /* put: relative to now; 0: never; or BIDE_NO_DEFAULT */
    bide_update_args update;
    bide_finish_and_put_args step; /* without the job and the items */
    uint32_t result_size;          /* of that job: the body begins with its result */
    bide_topic_policy policy;      /* topic-set */
    bide_filter filter;            /* list-jobs */
    struct announcement announcement;
    char cursor[BIDE_CURSOR_SIZE];
    size_t text_size;
    char text[LINE_MAX_EXTENDED]; /* decoded values, to which key, filter and reason point */
};

/* Parses a line without its CRLF. verb, the flags, body_size and token are always set; other
 * members only if the verb has them and the line is valid. */
enum parse bi_beanstalk_parse(struct command *command, const char *line, size_t size);

/* Parses the line of one item: "<pri> <delay> <ttr> <bytes>[ options]", among them tube. On failure
 * body_size is set if it was parsed, else UINT32_MAX. */
enum parse bi_beanstalk_parse_item(struct command *command, const char *line, size_t size);

/* Returns the longest line, with its CRLF, that may begin with these bytes. */
size_t bi_beanstalk_parse_line_max(const char *line, size_t size);

/* True for a valid name of a tube. */
bool bi_beanstalk_field_is_name(const char *name, size_t size);

const char *bi_beanstalk_parse_verb_name(enum verb verb);

#endif
