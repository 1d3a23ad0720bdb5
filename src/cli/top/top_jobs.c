/* SPDX-License-Identifier: MIT */
/*
 * top_jobs - the second view: the jobs of one topic in one state, read page by page, with the first
 * bytes of the bodies that are visible.
 */
#include "cli/top/top.h"

#include "cli/print.h"
#include "cli/query.h"

#include <assert.h>
#include <string.h>

/* A list call scans a bounded number of jobs, so pages may be empty: stop at some point. */
#define PAGES_MAX         100
#define EXCERPT_FETCH_MAX ((size_t)64 << 10) /* of larger bodies only the size is shown */

static const struct top_state *current_state(const struct top *top)
{
    return &bi_top_column_states[top->jobs.state];
}

static const struct job_row *selected_job(const struct jobs_list *list)
{
    return list->selected < list->count ? &list->rows[list->selected] : NULL;
}

/* ---- loading ---- */

static void start_load(struct top *top);
static void request_page(struct top *top);

static void finish_load(struct top *top, const char *error)
{
    struct jobs_list *list = &top->jobs;

    assert(list->busy);
    list->busy = false;
    top->needs_redraw = true;
    if (list->stale)
        start_load(top);
    else
        snprintf(list->error, sizeof(list->error), "%s", error);
}

/* Shows the rows that were read. The cursor stays on its job. */
static void publish_rows(struct jobs_list *list)
{
    const struct job_row *selected = selected_job(list);
    uint64_t id = selected == NULL ? 0 : selected->id;

    assert(!list->stale && list->incoming_count <= BI_TOP_JOBS_MAX);
    memcpy(list->rows, list->incoming, list->incoming_count * sizeof(list->rows[0]));
    list->count = list->incoming_count;
    list->loaded = true;
    for (size_t i = 0; i < list->count; i++) {
        if (list->rows[i].id == id) {
            list->selected = i;
            return;
        }
    }
    if (list->selected >= list->count)
        list->selected = list->count == 0 ? 0 : list->count - 1;
}

static void add_row(struct jobs_list *list, bide_job *job)
{
    if (list->incoming_count < BI_TOP_JOBS_MAX)
        list->incoming[list->incoming_count++] = (struct job_row){
            .id = job->id,
            .priority = job->priority,
            .fails = job->fails,
            .age_ms = job->age_ms,
            .left_ms = job->left_ms,
            .body_size = job->body_size,
        };
    bide_job_clear(job);
}

static void on_page(struct top_request *request)
{
    struct top *top = request->top;
    struct jobs_list *list = &top->jobs;
    bool is_first = request->op.kind == BIDE_OP_PEEK_FIRST;
    int status = request->op.status;

    if (status != BIDE_OK && !(is_first && status == BIDE_NOT_FOUND)) {
        finish_load(top, bi_top_request_error(request));
        return;
    }
    size_t count = is_first ? status == BIDE_OK : request->op.list.count;
    for (size_t i = 0; i < count; i++)
        add_row(list, &list->jobs[i]);

    bool ended = is_first || list->cursor[0] == 0;
    if (!ended && !list->stale && list->incoming_count < list->wanted &&
        ++list->pages < PAGES_MAX) {
        request_page(top);
        return;
    }
    /* Rows of a topic or state that is no longer shown are dropped. */
    if (!list->stale) {
        list->has_more = !ended;
        publish_rows(list);
    }
    finish_load(top, "");
}

static void request_page(struct top *top)
{
    struct jobs_list *list = &top->jobs;
    bide_slice topic = {list->topic, strlen(list->topic)};
    bide_state state = current_state(top)->state;

    /* A beanstalkd has no lists, but returns the first job of most states. */
    if (top->plain)
        list->request.op = (bide_op){
            .kind = BIDE_OP_PEEK_FIRST,
            .query = {.topic = topic, .state = state, .job = &list->jobs[0]},
        };
    else
        list->request.op = (bide_op){
            .kind = BIDE_OP_LIST,
            .list = {.topic = topic,
                     .state = state,
                     .cursor = list->cursor,
                     .jobs = list->jobs,
                     .job_max = BI_TOP_JOBS_PAGE},
        };
    bi_top_request_send(&list->request, top, on_page);
}

static void start_load(struct top *top)
{
    struct jobs_list *list = &top->jobs;

    assert(!list->busy && !top->jobs.request.pending);
    list->busy = true;
    list->stale = false;
    list->cursor[0] = 0;
    list->incoming_count = 0;
    list->pages = 0;
    request_page(top);
}

void bi_top_jobs_refresh(struct top *top)
{
    if (!top->jobs.busy && !top->quit)
        start_load(top);
}

void bi_top_jobs_show(struct top *top, const char *topic, size_t state)
{
    struct jobs_list *list = &top->jobs;

    assert(state < BI_TOP_STATES);
    memmove(list->topic, topic, strlen(topic) + 1);
    list->state = state;
    list->count = list->selected = list->first = 0;
    list->loaded = list->has_more = false;
    list->error[0] = 0;
    list->wanted = BI_TOP_JOBS_PAGE;
    list->stale = list->busy; /* the reply in flight is discarded, then the load starts */
    bi_top_window_set_view(top, &bi_top_jobs);
    bi_top_jobs_refresh(top);
}

/* ---- excerpts of bodies ---- */

static void on_excerpt(struct top_request *request)
{
    uint64_t id = request->op.fetch.id;
    struct excerpt *excerpt = &request->top->jobs.excerpts[id % BI_TOP_EXCERPTS];
    bide_buf *body = request->op.status == BIDE_OK ? request->op.fetch.buf : NULL;
    size_t size = bide_buf_size(body);

    if (request->op.status != BIDE_OK && request->op.status != BIDE_NOT_FOUND)
        return; /* the next drawing requests it again */
    /* A body that no longer exists is kept as an empty excerpt, so that it is not fetched again. */
    excerpt->id = id;
    excerpt->size = (uint16_t)(size < BI_TOP_EXCERPT_BYTES ? size : BI_TOP_EXCERPT_BYTES);
    if (excerpt->size > 0)
        memcpy(excerpt->bytes, bide_buf_data(body), excerpt->size);
    bide_buf_unref(body);
    request->top->needs_redraw = true;
}

/* NULL, after requesting it, if it has not been read yet. */
static const struct excerpt *get_excerpt(struct top *top, const struct job_row *job)
{
    struct jobs_list *list = &top->jobs;
    const struct excerpt *excerpt = &list->excerpts[job->id % BI_TOP_EXCERPTS];
    struct top_request *idle = NULL;

    if (excerpt->id == job->id)
        return excerpt;
    for (size_t i = 0; i < BI_TOP_EXCERPT_FETCHES; i++) {
        struct top_request *request = &list->excerpt_requests[i];
        if (!request->pending)
            idle = request;
        else if (request->op.fetch.id == job->id)
            return NULL;
    }
    if (idle != NULL && job->body_size <= EXCERPT_FETCH_MAX) {
        idle->op = (bide_op){.kind = BIDE_OP_BODY, .fetch = {.id = job->id}};
        bi_top_request_send(idle, top, on_excerpt);
    }
    return NULL;
}

/* ---- drawing ---- */

/* The columns before the body, all aligned to the right. */
enum { ID, PRIORITY, AGE, LEFT, FAILS, FIELDS };
static const struct {
    int at, width;
    const char *heading;
} fields[FIELDS] = {
    [ID] = {1, 12, "ID"},     [PRIORITY] = {14, 7, "PRI"}, [AGE] = {22, 6, "AGE"},
    [LEFT] = {29, 6, "left"}, [FAILS] = {36, 5, "FAILS"},
};
#define AT_BODY 43

/* The limits of the policy of the topic, and how many calls wait. */
static void draw_limits(const struct top *top, const bide_topic_stats *topic, int column)
{
    struct top_line line = {0, column, top->screen.columns};
    char text[100];

    if (topic->concurrency != 0) {
        snprintf(text, sizeof(text), "%.40s of %.40s", bi_text_number(topic->jobs.reserved).s,
                 bi_text_number(topic->concurrency).s);
        bi_top_window_draw_item(&line, STYLE_PLAIN, "concurrency", text);
    }
    if (topic->rate != 0) {
        snprintf(text, sizeof(text), "%.40s per %.40s", bi_text_number(topic->rate).s,
                 bi_text_duration(topic->rate_period_ms).s);
        bi_top_window_draw_item(&line, STYLE_PLAIN, "rate", text);
    }
    if (topic->limited != BIDE_LIMIT_NONE)
        bi_top_window_draw_item(&line, STYLE_WARN, "limited", bi_query_format_limit(topic).s);
    if (topic->waiting != 0 || topic->concurrency != 0 || topic->rate != 0)
        bi_top_window_draw_item(&line, STYLE_PLAIN, "waiting", bi_text_number(topic->waiting).s);
}

/* The name of the topic with its limits, and below it one tab per state. */
static void draw_tabs(const struct top *top)
{
    const struct top_topic *topic = bi_top_model_find(&top->model, top->jobs.topic);
    char text[BIDE_TOPIC_MAX + 20];
    int column = 0;

    int size = snprintf(text, sizeof(text), "topic %s%s", top->jobs.topic,
                        topic != NULL && topic->now.paused ? " (paused)" : "");
    bi_top_screen_draw(0, 0, BI_TOP_REST, STYLE_HEADING, text);
    if (topic != NULL)
        draw_limits(top, &topic->now, size + 2);

    for (size_t i = 0; i < BI_TOP_STATES; i++) {
        const struct top_state *state = &bi_top_column_states[i];
        char number[BI_TOP_FORMAT_SIZE] = "0";
        if (top->plain && state->state == BIDE_STATE_DONE)
            snprintf(number, sizeof(number), "-");
        else if (topic != NULL)
            bi_top_column_format_count(number, bi_top_column_state_count(state, &topic->now.jobs));
        int width = snprintf(text, sizeof(text), " %s %s ", bide_state_name(state->state), number);
        bi_top_screen_draw(1, column, width, i == top->jobs.state ? STYLE_CURSOR : STYLE_PLAIN,
                           text);
        column += width;
    }
}

static void draw_headings(const struct top *top, int row)
{
    const char *left = current_state(top)->left_heading;

    bi_top_screen_draw(row, 0, BI_TOP_REST, STYLE_COLUMN_HEADING, "");
    for (int i = 0; i < FIELDS; i++)
        bi_top_screen_draw_right(row, fields[i].at, fields[i].width, STYLE_COLUMN_HEADING,
                                 i != LEFT      ? fields[i].heading
                                 : left == NULL ? ""
                                                : left);
    bi_top_screen_draw(row, AT_BODY, BI_TOP_REST, STYLE_COLUMN_HEADING, "BODY");
}

static void draw_body(struct top *top, int row, enum style style, const struct job_row *job)
{
    int width = top->screen.columns - AT_BODY;
    char text[4 * BI_TOP_EXCERPT_BYTES + 8];

    if (width <= 0)
        return;
    const struct excerpt *excerpt = get_excerpt(top, job);
    if (excerpt != NULL) {
        size_t max = (size_t)width < BI_TOP_EXCERPT_BYTES ? (size_t)width : BI_TOP_EXCERPT_BYTES;
        bi_print_excerpt(text, max, excerpt->bytes, excerpt->size);
    } else {
        snprintf(text, sizeof(text), "(%s)", bi_text_size(job->body_size).s);
    }
    bi_top_screen_draw(row, AT_BODY, width, style, text);
}

static void draw_job(struct top *top, int row, const struct job_row *job, bool selected)
{
    enum style style = selected ? STYLE_CURSOR : STYLE_PLAIN;
    char cells[FIELDS][BI_TOP_FORMAT_SIZE] = {""};

    snprintf(cells[ID], sizeof(cells[ID]), "%llu", (unsigned long long)job->id);
    if (job->priority < 10000000)
        snprintf(cells[PRIORITY], sizeof(cells[PRIORITY]), "%u", job->priority);
    else
        bi_top_column_format_count(cells[PRIORITY], job->priority);
    bi_top_column_format_age(cells[AGE], job->age_ms);
    if (current_state(top)->left_heading != NULL)
        bi_top_column_format_age(cells[LEFT], job->left_ms);
    if (top->plain)
        snprintf(cells[FAILS], sizeof(cells[FAILS]), "-");
    else
        bi_top_column_format_count(cells[FAILS], job->fails);

    bi_top_screen_draw(row, 0, BI_TOP_REST, style, "");
    for (int i = 0; i < FIELDS; i++)
        bi_top_screen_draw_right(row, fields[i].at, fields[i].width,
                                 i == FAILS && job->fails > 0 && !selected ? STYLE_BAD : style,
                                 cells[i]);
    draw_body(top, row, style, job);
}

/* The line below the jobs: why there are none, or not all. */
static void draw_status(const struct top *top, int row)
{
    const struct jobs_list *list = &top->jobs;
    char text[BI_ERRMSG_SIZE] = "";

    if (list->error[0] != 0)
        snprintf(text, sizeof(text), "%s", list->error);
    else if (!list->loaded)
        snprintf(text, sizeof(text), "loading");
    else if (list->count == 0)
        snprintf(text, sizeof(text), "none%s", list->has_more ? " yet, still searching" : "");
    else if (top->plain)
        snprintf(text, sizeof(text), "a beanstalkd shows only the first job");
    else if (list->has_more)
        snprintf(text, sizeof(text), "the first %zu", list->count);
    bi_top_screen_draw(row, 1, BI_TOP_REST, list->error[0] != 0 ? STYLE_BAD : STYLE_DIM, text);
}

/* Without the title, the tabs, the headings, the status and the bottom line. */
#define USED_ROWS 5

static void draw(struct top *top)
{
    struct jobs_list *list = &top->jobs;
    size_t window = bi_top_window_rows(top, USED_ROWS);

    draw_tabs(top);
    draw_headings(top, 2);
    list->first = bi_top_page_scroll(list->first, list->selected, list->count, window);
    for (size_t i = 0; i < window && list->first + i < list->count; i++)
        draw_job(top, 3 + (int)i, &list->rows[list->first + i], list->first + i == list->selected);
    draw_status(top, top->screen.rows - 2);
}

/* ---- keys ---- */

/* Reads more of the list when the cursor comes near its end. */
static void load_more(struct top *top)
{
    struct jobs_list *list = &top->jobs;

    if (!list->has_more || list->wanted >= BI_TOP_JOBS_MAX ||
        list->selected + 2 * bi_top_window_rows(top, USED_ROWS) < list->count)
        return;
    list->wanted += BI_TOP_JOBS_PAGE;
    bi_top_jobs_refresh(top);
}

static void switch_state(struct top *top, size_t step)
{
    bi_top_jobs_show(top, top->jobs.topic, (top->jobs.state + step) % BI_TOP_STATES);
}

static void key(struct top *top, int pressed)
{
    struct jobs_list *list = &top->jobs;
    const struct job_row *job = selected_job(list);

    /* Cursor keys first: j and k are letters as the actions are. */
    if (bi_top_page_move_cursor(pressed, list->count, bi_top_window_rows(top, USED_ROWS),
                                &list->selected)) {
        load_more(top);
        return;
    }

    switch (pressed) {
    case 'q':
    case TOP_KEY_ESCAPE:
        bi_top_window_set_view(top, &bi_top_topics);
        break;
    case TOP_KEY_TAB:
    case TOP_KEY_RIGHT:
        switch_state(top, 1);
        break;
    case TOP_KEY_BACK_TAB:
    case TOP_KEY_LEFT:
        switch_state(top, BI_TOP_STATES - 1);
        break;
    case 'K':
        bi_top_action_kick(top, list->topic);
        break;
    case 'P':
        bi_top_action_pause(top, list->topic);
        break;
    case 'X':
        bi_top_action_purge(top, list->topic, current_state(top)->state);
        break;
    default:
        if (job != NULL && pressed == TOP_KEY_ENTER)
            bi_top_job_show(top, job->id);
        else if (job != NULL)
            bi_top_action_job_key(top, pressed, job->id);
    }
}

const struct top_view bi_top_jobs = {
    .key_hint = "Enter open  Tab state  n ready  b bury  d delete  K P X topic  ? help  q back",
    .draw = draw,
    .key = key,
    .refresh = bi_top_jobs_refresh,
};
