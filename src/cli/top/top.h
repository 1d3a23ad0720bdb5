/* SPDX-License-Identifier: MIT */
/*
 * top - the parts of `bide top`, the live view of a queue.
 *
 *     cmd_top.c      flags, the event loop, requests to the queue, shutdown
 *     top_sampler.c  reads all figures at an interval into the model
 *     top_model.c    the last sample, the rates, and the history
 *     top_window.c   header, bottom line (note, question, key hints), help, global keys
 *     top_topics.c   view: the table of topics
 *     top_jobs.c     view: the jobs of one topic in one state
 *     top_job.c      view: one job with all its fields and its body
 *     top_workers.c  view: the workers and the jobs that they hold
 *     top_action.c   kick, pause, purge, bury, delete
 *     top_column.c   columns, figures, job states and order of the table of topics
 *     top_page.c     text that is scrolled through, cursor movement
 *     top_screen.c   the terminal (top_screen.h)
 *
 * Threads    One. Operations that do not complete synchronously return through a completion
 *            queue, so an unreachable server never delays a key.
 */
#ifndef BI_TOP_H
#define BI_TOP_H

#include "cli/top/top_screen.h"
#include "cli/worker_list.h"

struct top;

/* ---- requests ---- */

struct top_request {
    bide_op op; /* first: the completion queue returns it */
    struct top *top;
    void (*on_done)(struct top_request *request); /* called once per send; may send again */
    bool pending;
};

/* Submits request->op, whose kind and arguments are set. May call on_done before it returns. */
void bi_top_request_send(struct top_request *request, struct top *top,
                         void (*on_done)(struct top_request *request));
/* The error message of a request that did not succeed. */
const char *bi_top_request_error(const struct top_request *request);

/* ---- the model ---- */

/*
 * A sample holds the figures of all topics at about one time. A rate is the difference of a counter
 * between two samples divided by the time between them; after the first sample it is unknown
 * (negative). A counter that decreased belongs to a topic that was created again, and counts from
 * 0. After a restart of the queue (the uptime decreased) all rates are unknown.
 *
 * Cost       A sample is sorted and merged: O(n log n), and about 2 KiB per topic.
 * Failure    Only lack of memory; the sample is dropped and the model is unchanged.
 */
#define BI_TOP_HISTORY 200 /* samples per topic: the trend of a wide window */

struct top_topic {
    bide_topic_stats now;
    double in, out;                                            /* puts and finishes per second */
    float ready[BI_TOP_HISTORY], finish_rates[BI_TOP_HISTORY]; /* rings, of the count and of out */
    size_t samples;                                            /* that contained the topic */
    size_t last_sample;                                        /* number of the last of them */
};

enum top_rate { TOP_RATE_PUTS, TOP_RATE_RESERVES, TOP_RATE_FINISHED, TOP_RATE_FAILS, TOP_RATES };

struct top_model {
    bide_stats stats;
    double rates[TOP_RATES];
    struct top_topic **topics; /* by name */
    size_t count;
    int64_t at_us; /* of the last sample */
    size_t samples;
};

/* Adds a sample; sorts topics in place. False: out of memory. */
bool bi_top_model_add_sample(struct top_model *model, const bide_stats *stats,
                             bide_topic_stats *topics, size_t count, int64_t at_us);
void bi_top_model_free(struct top_model *model);

/* NULL if the last sample does not contain it. */
const struct top_topic *bi_top_model_find(const struct top_model *model, const char *name);

/* Copies the last values of a ring, oldest first, at most max; returns their number. */
size_t bi_top_model_history(const struct top_topic *topic, const float *ring, float *values,
                            size_t max);

/* ---- samples ---- */

/* Topics beyond this number are not read. */
#define BI_TOP_TOPICS_MAX  20000
#define BI_TOP_TOPICS_TEXT "20,000"

/* An idle server is pinged after this interval, and reported as silent when it does not reply in
 * time: less than three seconds after it died, however long the sample interval is. */
#define BI_TOP_PING_INTERVAL_US INT64_C(1000000)
#define BI_TOP_REPLY_TIMEOUT_US INT64_C(1500000)

struct sampler {
    struct top_request stats_request, topics_request, ping_request;
    int64_t ping_sent_us;
    int64_t last_reply_us;
    bide_stats stats;
    bide_topic_stats *topics;
    size_t count, capacity;
    char cursor[BIDE_CURSOR_SIZE];
    bool busy;      /* a sample is being read */
    bool truncated; /* there are more than BI_TOP_TOPICS_MAX topics */
    int64_t started_us, finished_us;
    int64_t duration_us;         /* of the last successful sample */
    int64_t failing_since_us;    /* 0: the last sample succeeded */
    char error[BIDE_ERROR_SIZE]; /* of the last sample; "" if it succeeded */
};

/* Starts a sample or a ping if one is due. */
void bi_top_sampler_tick(struct top *top, int64_t now_us);
/* When the next sample, ping or reply timeout is due. */
int64_t bi_top_sampler_next_deadline(const struct top *top);
/* When the outstanding request was sent; 0 if there is none. */
int64_t bi_top_sampler_waiting_since(const struct sampler *sampler);
/* Starts a sample now, unless one is running or the view is frozen. */
void bi_top_sampler_sample_now(struct top *top);

/* ---- figures in a few columns ---- */

#define BI_TOP_FORMAT_SIZE 24

/* At most 5 columns: "99999", "123k", "1.2M". */
void bi_top_column_format_count(char *to, uint64_t number);
/* Per second, at most 5 columns: "0", "0.3", "12.5", "1234", "12.3k"; "-" if negative (unknown). */
void bi_top_column_format_rate(char *to, double rate);
/* At most 6 columns: "12s", "3m20s", "23h59m", "6d12h", "120d". */
void bi_top_column_format_age(char *to, int64_t ms);
/* One bar per value, scaled to the maximum; only a value of 0 is drawn as a blank. utf8: eight
 * block characters, else seven ASCII characters. to: 3 bytes per value and 1. */
void bi_top_column_format_sparkline(char *to, const float *values, size_t count, bool utf8);

/* ---- the table of topics ---- */

/* One row per job state, in the order of the screen. */
struct top_state {
    bide_state state;
    size_t offset;            /* of its number in bide_counts */
    enum style style;         /* of a number that is not 0 */
    const char *left_heading; /* heading of left_ms in the list of jobs; NULL: left_ms is unused */
    const char *left_label;   /* the same in the job view */
};

#define BI_TOP_STATES 5
extern const struct top_state bi_top_column_states[BI_TOP_STATES];
uint64_t bi_top_column_state_count(const struct top_state *state, const bide_counts *counts);

/* In the order of the screen. */
enum top_column {
    TOP_NAME,
    TOP_READY,
    TOP_RESERVED,
    TOP_DELAYED,
    TOP_BURIED,
    TOP_DONE,
    TOP_IN,
    TOP_OUT,
    TOP_OLDEST,
    TOP_WAITING,
    TOP_TREND,
    TOP_COLUMNS
};

#define BI_TOP_SORTABLE TOP_TREND /* the columns before it */

const char *bi_top_column_heading(enum top_column column);
/* By heading or alias, in any case; TOP_COLUMNS if there is none. */
enum top_column bi_top_column_find(const char *name);
/* The text and the style of a cell; not of the name and the trend. plain: the server is a
 * beanstalkd, which does not report every figure. to: BI_TOP_FORMAT_SIZE. */
enum style bi_top_column_format(char *to, enum top_column column, const struct top_topic *topic,
                                bool plain);

/*
 * The width of each column in a window of this width, with one blank before each but the first;
 * 0: the column does not fit. Numbers have fixed widths; the rest goes to the name as far as it is
 * needed, then to the trend. The least important columns are dropped first.
 */
void bi_top_column_layout(int width, int longest_name, int widths[TOP_COLUMNS]);

/* Which topics are shown and in which order: figures descending, names ascending, or reversed; ties
 * by name. */
struct top_order {
    enum top_column by;
    bool reverse;
    char filter[64]; /* substring of the name, case-insensitive; "": all */
    struct top_topic **list;
    size_t count, capacity;
    int longest_name;
};

/* Rebuilds the list. False: out of memory, and the list is empty. */
bool bi_top_column_sort(struct top_order *order, const struct top_model *model);

/* ---- pages ---- */

#define BI_TOP_PAGE_BYTES_MAX ((size_t)256 << 10) /* longer values are cut */

/* Lines that are scrolled through: the fields of a job, its texts and its bytes. */
struct page {
    char **lines;
    size_t count, capacity;
    int width;
    bool out_of_memory; /* some lines are missing */
};

/* Removes all lines and sets the width of the window. */
void bi_top_page_reset(struct page *page, int width);
void bi_top_page_free(struct page *page);
void bi_top_page_add_line(struct page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A heading with the size, then UTF-8 text with long lines folded and control characters as \xNN;
 * anything else as a hexdump. */
void bi_top_page_add_bytes(struct page *page, const char *heading, const void *data, size_t size);

/* Moves a cursor over count lines of which window are visible; false: the key is no such key. */
bool bi_top_page_move_cursor(int key, size_t count, size_t window, size_t *selected);
/* The first visible line, so that the selected line is visible. */
size_t bi_top_page_scroll(size_t first, size_t selected, size_t count, size_t window);

/* ---- the list of jobs ---- */

#define BI_TOP_JOBS_PAGE 200
#define BI_TOP_JOBS_MAX  2000

struct job_row {
    uint64_t id;
    uint32_t priority;
    uint32_t fails;
    int64_t age_ms, left_ms;
    size_t body_size;
};

/* The first bytes of bodies. Bodies never change, so each is fetched once while it is visible; a
 * slot may be overwritten by another id. */
#define BI_TOP_EXCERPTS        1024
#define BI_TOP_EXCERPT_BYTES   240
#define BI_TOP_EXCERPT_FETCHES 16

struct excerpt {
    uint64_t id; /* 0: none */
    uint16_t size;
    char bytes[BI_TOP_EXCERPT_BYTES];
};

struct jobs_list {
    char topic[BIDE_TOPIC_MAX + 1];
    size_t state; /* index into bi_top_column_states */
    struct top_request request;
    bide_job jobs[BI_TOP_JOBS_PAGE]; /* the page being read */
    char cursor[BIDE_CURSOR_SIZE];
    size_t pages;
    struct job_row rows[BI_TOP_JOBS_MAX], incoming[BI_TOP_JOBS_MAX];
    size_t count, incoming_count;
    size_t wanted; /* rows to load */
    bool busy;
    bool stale;    /* the request in flight is for another topic or state */
    bool loaded;   /* rows belong to this topic and state */
    bool has_more; /* there are more jobs than rows */
    size_t selected, first;
    char error[BIDE_ERROR_SIZE];
    struct excerpt excerpts[BI_TOP_EXCERPTS]; /* indexed by id modulo size */
    struct top_request excerpt_requests[BI_TOP_EXCERPT_FETCHES];
};

/* Opens the view for a topic and one of bi_top_column_states, and starts loading. */
void bi_top_jobs_show(struct top *top, const char *topic, size_t state);
void bi_top_jobs_refresh(struct top *top);

/* ---- one job ---- */

struct job_detail {
    uint64_t id; /* 0: none */
    struct top_request job_request, body_request;
    bide_job job; /* without its body */
    bide_job incoming;
    bide_buf *body;
    bool busy, stale;
    bool loaded, has_body, gone;
    const struct top_view *back; /* the view from which it was opened */
    size_t first;                /* visible line */
    struct page page;
    char error[BIDE_ERROR_SIZE];
};

void bi_top_job_show(struct top *top, uint64_t id);
void bi_top_job_free(struct job_detail *detail);

/* ---- the workers ---- */

#define BI_TOP_WORKERS_PAGE  200
#define BI_TOP_WORKERS_MAX   2000 /* of workers, and of jobs */
#define BI_TOP_WORKERS_PAGES 100  /* of jobs; pages may be empty */

struct workers_view {
    struct top_request request;
    struct worker_list list, incoming;
    char cursor[BIDE_CURSOR_SIZE];
    size_t pages;
    bool busy, loaded;
    bool truncated; /* there are more workers or jobs */
    size_t selected, first;
    char error[BIDE_ERROR_SIZE];
};

void bi_top_workers_show(struct top *top);

/* ---- actions ---- */

struct action {
    struct top_request request;
    bide_op staged_op;              /* the operation to confirm, or in flight */
    char topic[BIDE_TOPIC_MAX + 1]; /* its topic */
    char subject[BIDE_TOPIC_MAX + 40];
    bide_state kick_state;  /* a kick: the state of the jobs */
    uint64_t available;     /* and their number */
    bide_topic_stats stats; /* of the topic, read before the kick */
};

/* Each asks for confirmation. */
void bi_top_action_kick(struct top *top, const char *topic);
void bi_top_action_pause(struct top *top, const char *topic);
void bi_top_action_purge(struct top *top, const char *topic, bide_state state);
/* The action on one job that belongs to a key; other keys are ignored. */
void bi_top_action_job_key(struct top *top, int key, uint64_t id);

/* ---- the window ---- */

enum prompt_kind { PROMPT_NONE, PROMPT_CONFIRM, PROMPT_NUMBER, PROMPT_TEXT };

struct prompt {
    enum prompt_kind kind;
    char question[BI_ERRMSG_SIZE];
    char input[64];
    size_t size;
    void (*on_change)(struct top *top);           /* after each edit; may be NULL */
    void (*on_answer)(struct top *top, bool yes); /* yes: y, or Enter */
};

/* Opens a question in the bottom line. A text prompt may then set input, size and on_change. */
void bi_top_window_ask(struct top *top, enum prompt_kind kind,
                       void (*on_answer)(struct top *top, bool yes), const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Shows a message in the bottom line until the next key, at most BI_TOP_NOTE_US, or longer while an
 * action waits for its reply. */
#define BI_TOP_NOTE_US INT64_C(8000000)
void bi_top_window_note(struct top *top, enum style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct top_view {
    const char *key_hint; /* in the bottom line */
    void (*draw)(struct top *top);
    void (*key)(struct top *top, int key);
    void (*refresh)(struct top *top); /* after each sample; may be NULL */
};

extern const struct top_view bi_top_topics, bi_top_jobs, bi_top_job, bi_top_workers;

#define BI_TOP_MIN_ROWS    10
#define BI_TOP_MIN_COLUMNS 40

struct top {
    const struct cli *cli;
    bide *queue;
    bide_cq *cq;
    size_t pending; /* requests in flight */
    bool plain;     /* the server is a beanstalkd, not a bided */
    struct screen screen;
    struct top_model model;
    struct top_order order;
    size_t selected, first; /* topics */
    char selected_name[BIDE_TOPIC_MAX + 1];
    bool trend_of_finished; /* the trend shows finished jobs instead of ready ones */
    struct sampler sampler;
    struct jobs_list jobs;
    struct job_detail detail;
    struct workers_view workers;
    struct prompt prompt;
    struct action action;
    const struct top_view *view;
    bool help; /* the help covers the view */
    size_t help_first;
    char note[BI_ERRMSG_SIZE];
    enum style note_style;
    int64_t note_expires_us;
    int64_t interval_ms;
    bool frozen;
    bool needs_redraw;
    bool full_redraw; /* redraw also what should be on the screen already */
    bool quit;
};

/* Items of a line, two blanks apart; items that do not fit are left out. */
struct top_line {
    int row, column, columns;
};

void bi_top_window_draw_item(struct top_line *line, enum style style, const char *name,
                             const char *value);
/* The lines above the topics, and their number in this window. */
void bi_top_window_draw_header(struct top *top);
int bi_top_window_header_rows(const struct top *top);
/* The number of rows without the ones that are used otherwise, at least 1. */
size_t bi_top_window_rows(const struct top *top, int used);
/* Scrolls through count lines below a title; false: the key is no cursor key. */
bool bi_top_window_scroll_lines(const struct top *top, int key, size_t count, size_t *first);
/* Draws the lines from `first` on below the title, and returns the first visible line: less if the
 * window is large enough for more. In the help, lines that are not indented are headings. */
size_t bi_top_window_draw_lines(const struct top *top, const char *const *lines, size_t count,
                                size_t first);
void bi_top_window_draw(struct top *top);
void bi_top_window_handle_key(struct top *top, int key);
void bi_top_window_set_view(struct top *top, const struct top_view *view);
/* Sorts the topics again; the cursor stays on its topic. */
void bi_top_topics_sort(struct top *top);

#endif
