/* SPDX-License-Identifier: MIT */
/*
 * top - a queue that is watched: what `bide top` is made of.
 *
 *     cmd_top.c        the loop: keys, answers of the queue, the time of the next sample
 *     top_request.c        one op on its way
 *     top_sampler.c    all figures, again and again, into the model (top_model.h)
 *     top_listing.c    the jobs of one topic in one state; top_excerpt.c: how their bodies begin
 *     top_detail.c     one job with everything
 *     top_action.c     kick, pause, purge, bury, delete
 *     top_prompt.c     the question in the bottom line
 *     top_view_*.c     what is drawn, and what the keys do there
 *
 * Threads    One. Ops that cannot be answered at once come back through a completion queue, so a
 *            server that is away never keeps a key waiting.
 */
#ifndef BI_TOP_H
#define BI_TOP_H

#include "cli/cli.h"
#include "cli/top/top_column.h"
#include "cli/top/top_model.h"
#include "cli/top/top_page.h"
#include "cli/top/top_screen.h"

struct top;

/* ---- an op on its way ---- */

struct top_request {
    bide_op op; /* first: the completion queue gives it back */
    struct top *top;
    void (*on_done)(struct top_request *request); /* called once for each sending; may send again */
    bool pending;
};

/* Sends ask->op, whose kind and arguments are set. heard may be called before this returns. */
void bi_top_request_send(struct top_request *request, struct top *top,
                         void (*on_done)(struct top_request *request));
/* The sentence of an op that was refused, or failed. */
const char *bi_top_request_error(const struct top_request *request);
/* Asks for it to be given up, if it is pending: heard is still called. */
void bi_top_request_cancel(struct top_request *request);

/* ---- samples ---- */

/* Of more topics than that, only so many are looked at. */
#define BI_TOP_TOPICS_MAX  20000
#define BI_TOP_TOPICS_TEXT "20,000"

/* A server that does not answer is asked after a second at the latest, and said to be silent that
 * long after it was asked: within three seconds of its end, however long the time between samples. */
#define BI_TOP_PING_INTERVAL_US INT64_C(1000000)
#define BI_TOP_REPLY_TIMEOUT_US INT64_C(1500000)

struct sampler {
    struct top_request stats_request, topics_request;
    struct top_request ping_request; /* a ping, where no sample would be due soon */
    int64_t ping_sent_us;            /* when it was sent */
    int64_t last_reply_us;           /* the last answer */
    bide_stats stats;
    bide_topic_stats *topics;
    size_t count, capacity;
    char cursor[BIDE_CURSOR_SIZE];
    bool busy;
    bool truncated; /* there are more topics than are looked at */
    int64_t started_us, finished_us;
    int64_t duration_us;         /* of the last one that succeeded */
    int64_t failing_since_us;    /* since when; 0: all is well */
    char error[BIDE_ERROR_SIZE]; /* of the last one; "" if it succeeded */
};

/* Begins one if it is time. */
void bi_top_sampler_tick(struct top *top, int64_t now_us);
/* When the next one, a ping or a word about a silent server is due. */
int64_t bi_top_sampler_next_deadline(const struct top *top);
/* Since when an answer is awaited; 0: none is. */
int64_t bi_top_sampler_waiting_since(const struct sampler *sampler);
/* Wants one at once. */
void bi_top_sampler_sample_now(struct top *top);
void bi_top_sampler_free(struct sampler *sampler);

/* ---- a list of jobs ---- */

#define BI_TOP_LISTING_PAGE 200
#define BI_TOP_LISTING_MAX  2000

struct job_row {
    uint64_t id;
    uint32_t priority;
    uint32_t reserves, fails;
    int64_t age_ms, left_ms;
    size_t body_size;
};

struct listing {
    char topic[BIDE_TOPIC_MAX + 1];
    bide_state state;
    struct top_request request;
    bide_job jobs[BI_TOP_LISTING_PAGE]; /* of the page that is on its way */
    char cursor[BIDE_CURSOR_SIZE];
    size_t pages;
    struct job_row *rows, *incoming; /* BI_TOP_LISTING_MAX each */
    size_t count, incoming_count;
    size_t wanted; /* how many rows to load */
    bool busy;
    bool stale;    /* what is on its way is of another topic or state */
    bool loaded;   /* rows are of this topic and state */
    bool has_more; /* there are more jobs than rows */
    size_t selected, first;
    char error[BIDE_ERROR_SIZE];
};

bool bi_top_listing_init(struct listing *listing);
void bi_top_listing_free(struct listing *listing);
/* Another topic or state: empties the list, and loads it. */
void bi_top_listing_show(struct top *top, const char *topic, bide_state state);
/* Loads it again, if it is not on its way. */
void bi_top_listing_refresh(struct top *top);
/* The job under the cursor; NULL if there is none. */
const struct job_row *bi_top_listing_selected(const struct listing *listing);

/* How the bodies of listed jobs begin. Bodies never change, so each is fetched once while it is
 * looked at; the memory of it is bounded, and may forget. */
#define BI_TOP_EXCERPTS        1024
#define BI_TOP_EXCERPT_BYTES   240
#define BI_TOP_EXCERPT_FETCHES 16

struct excerpt {
    uint64_t id; /* 0: none */
    uint16_t size;
    char bytes[BI_TOP_EXCERPT_BYTES];
};

struct excerpts {
    struct excerpt entries[BI_TOP_EXCERPTS]; /* by id, modulo */
    struct top_request requests[BI_TOP_EXCERPT_FETCHES];
};

/* NULL if it is not there (yet): then it is fetched. */
const struct excerpt *bi_top_excerpt_get(struct top *top, uint64_t id, size_t body_size);

/* ---- one job ---- */

struct detail {
    uint64_t id; /* 0: none */
    struct top_request job_request, body_request;
    bide_job job; /* without its body */
    bide_job incoming;
    bide_buf *body;
    bool busy, stale;
    bool loaded, has_body, gone;
    size_t first; /* line at the top of the window */
    struct page page;
    char error[BIDE_ERROR_SIZE];
};

void bi_top_detail_show(struct top *top, uint64_t id);
void bi_top_detail_refresh(struct top *top);
/* Makes the lines anew; also after the window has changed its width. */
void bi_top_detail_format(struct top *top);
void bi_top_detail_free(struct detail *detail);

/* ---- the bottom line ---- */

enum prompt_kind { PROMPT_NONE, PROMPT_CONFIRM, PROMPT_NUMBER, PROMPT_TEXT };

struct prompt {
    enum prompt_kind kind;
    char question[BI_ERRMSG_SIZE];
    char input[64];
    size_t size;
    void (*on_change)(struct top *top);           /* text: after every key; may be NULL */
    void (*on_answer)(struct top *top, bool yes); /* yes: y, or Enter */
};

void bi_top_prompt_confirm(struct top *top, void (*on_answer)(struct top *top, bool yes),
                           const char *format, ...) __attribute__((format(printf, 3, 4)));
void bi_top_prompt_number(struct top *top, void (*on_answer)(struct top *top, bool yes),
                          const char *format, ...) __attribute__((format(printf, 3, 4)));
void bi_top_prompt_text(struct top *top, const char *question, const char *input,
                        void (*on_change)(struct top *top),
                        void (*on_answer)(struct top *top, bool yes));
void bi_top_prompt_handle_key(struct top *top, int key);
void bi_top_prompt_draw(struct top *top);

/* Says something in the bottom line, until the next key, but not for longer than BI_TOP_NOTE_US, unless
 * it is about an answer that is awaited. */
#define BI_TOP_NOTE_US INT64_C(8000000)
void bi_top_prompt_note(struct top *top, enum style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- changing something ---- */

struct action {
    struct top_request request;
    bide_op staged_op;              /* what is asked about, or on its way */
    char topic[BIDE_TOPIC_MAX + 1]; /* that it names */
    char subject[BIDE_TOPIC_MAX + 40];
    bide_state kick_state;  /* which jobs a kick is for, */
    uint64_t available;     /* and how many there are */
    bide_topic_stats stats; /* of the topic, just before the kick */
};

/* Each asks whether it is meant. */
void bi_top_action_kick(struct top *top, const char *topic);
void bi_top_action_pause(struct top *top, const char *topic);
void bi_top_action_purge(struct top *top, const char *topic, bide_state state);
void bi_top_action_job(struct top *top, bide_op_kind kind, uint64_t id);

/* ---- views ---- */

struct top_view {
    const char *key_hint; /* the hint in the bottom line */
    void (*draw)(struct top *top);
    void (*key)(struct top *top, int key);
    void (*refresh)(struct top *top); /* with each sample; may be NULL */
};

extern const struct top_view bi_top_view_topics, bi_top_view_jobs, bi_top_view_job,
    bi_top_view_help;

#define BI_TOP_MIN_ROWS    10
#define BI_TOP_MIN_COLUMNS 40

struct top {
    const struct cli *cli;
    bide *queue;
    bide_cq *cq;
    size_t pending; /* ops on their way */
    bool plain;     /* a beanstalkd that is no bided */
    struct screen screen;
    struct top_model model;
    struct top_order order;
    size_t selected, first; /* topics */
    char selected_name[BIDE_TOPIC_MAX + 1];
    bool trend_of_finished; /* the trend is of what was finished, not of what is ready */
    struct sampler sampler;
    struct listing listing;
    struct excerpts excerpts;
    struct detail detail;
    struct prompt prompt;
    struct action action;
    const struct top_view *view;
    const struct top_view *view_before_help;
    char note[BI_ERRMSG_SIZE];
    enum style note_style;
    int64_t note_expires_us;
    int64_t interval_ms;
    bool frozen;
    bool needs_redraw; /* draw again */
    bool full_redraw;  /* and everything */
    bool quit;
};

/* What is wrong with the queue, which fails or is silent; false if all is well. */
bool bi_top_header_queue_error(const struct top *top, char *text, size_t size);

/* The lines above the topics, and how many there are in this window. */
void bi_top_header_draw(struct top *top);
int bi_top_header_rows(const struct top *top);
void bi_top_window_draw(struct top *top);
void bi_top_window_handle_key(struct top *top, int key);
void bi_top_window_set_view(struct top *top, const struct top_view *view);
/* The topics again in their order, with the cursor on the one where it was. */
void bi_top_window_sort_topics(struct top *top);

/* Keys that move a cursor over so many lines, of which a window shows some; false: another key. */
bool bi_top_window_move_cursor(int key, size_t count, size_t window, size_t *selected);
/* The first line that a window shows, so that the selected one is in it. */
size_t bi_top_window_scroll(size_t first, size_t selected, size_t count, size_t window);

#endif
