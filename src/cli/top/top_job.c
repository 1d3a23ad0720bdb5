/* SPDX-License-Identifier: MIT */
/*
 * top_job - the third view: one job with all its fields and its body.
 */
#include "cli/top/top.h"

#include "cli/print.h"
#include "op/job_fields.h"

#include <assert.h>
#include <string.h>

#define FETCH_MAX ((size_t)16 << 20) /* larger bodies are not read */

/* ---- the page ---- */

enum field_kind { FIELD_NUMBER, FIELD_DURATION, FIELD_TIME, FIELD_BLANK };

#define AT(member)          offsetof(bide_job, member)
#define TIME(kind, name)    {#name, FIELD_TIME, AT(name##_ms)},
#define COUNTER(kind, name) {#name, FIELD_NUMBER, AT(name)},

/* Between the state and the retries, in the order of the screen. Times of 0 are left out. */
static const struct {
    const char *name;
    enum field_kind kind;
    size_t offset; /* a number is uint32_t, the others are int64_t */
} fields[] = {
    /* clang-format off */
    {"priority", FIELD_NUMBER, AT(priority)},
    {"ttr", FIELD_DURATION, AT(ttr_ms)},
    {"age", FIELD_DURATION, AT(age_ms)},
    {"expires at", FIELD_TIME, AT(expires_at_ms)},
    {"", FIELD_BLANK, 0},
    BI_JOB_CREATED(TIME)
    BI_JOB_TIMES(TIME)
    {"", FIELD_BLANK, 0},
    BI_JOB_COUNTERS(COUNTER)
    /* clang-format on */
};

static void add_field(struct page *page, const char *name, enum field_kind kind, const void *value)
{
    struct text text = {""};

    if (kind == FIELD_NUMBER)
        snprintf(text.s, sizeof(text.s), "%u", *(const uint32_t *)value);
    else if (kind == FIELD_DURATION)
        text = bi_text_duration(*(const int64_t *)value);
    else if (kind == FIELD_TIME && *(const int64_t *)value == 0)
        return;
    else if (kind == FIELD_TIME)
        text = bi_text_moment(*(const int64_t *)value);
    bi_top_page_add_line(page, "%-16s %s", name, text.s);
}

static void add_state(struct page *page, const bide_job *job)
{
    bi_top_page_add_line(page, "%-16s %s", "topic", job->topic);
    bi_top_page_add_line(page, "%-16s %s%s", "state", bide_state_name(job->state),
                         job->cancel_wanted ? ", cancel requested" : "");
    for (size_t i = 0; i < BI_TOP_STATES; i++)
        if (bi_top_column_states[i].state == job->state &&
            bi_top_column_states[i].left_label != NULL)
            add_field(page, bi_top_column_states[i].left_label, FIELD_DURATION, &job->left_ms);
    if (job->state == BIDE_STATE_DELAYED)
        add_field(page, "runs at", FIELD_TIME, &job->run_at_ms);
    if (job->retain_ms > 0)
        add_field(page, "retain result", FIELD_DURATION, &job->retain_ms);
}

static void add_retries(struct page *page, const bide_job *job)
{
    if (job->max_retries < 0) {
        add_field(page, "failures", FIELD_NUMBER, &job->failures);
        return;
    }
    if (job->backoff_base_ms > 0)
        bi_top_page_add_line(page, "%-16s %u of %d, backoff %s to %s", "failures", job->failures,
                             job->max_retries, bi_text_duration(job->backoff_base_ms).s,
                             bi_text_duration(job->backoff_max_ms).s);
    else
        bi_top_page_add_line(page, "%-16s %u of %d, default backoff", "failures", job->failures,
                             job->max_retries);
}

static void add_history(struct page *page, const bide_job *job)
{
    bide_failure failures[BIDE_HISTORY_MAX];
    size_t count = bide_job_history(job, failures, BIDE_HISTORY_MAX);

    for (size_t i = 0; i < count; i++) {
        bide_failure heading = failures[i];
        char line[BI_FAILURE_LINE_SIZE];
        heading.error.size = 0;
        bi_text_failure_line(&heading, line);
        bi_top_page_add_bytes(page, line, failures[i].error.data, failures[i].error.size);
    }
}

static void add_texts(struct page *page, const struct job_detail *detail)
{
    const bide_job *job = &detail->job;
    const struct {
        const char *heading;
        const void *data;
        size_t size;
    } texts[] = {
        {"holder", job->holder, job->holder_size},
        {"key", job->key, job->key_size},
        {"last error", job->last_error, job->last_error_size},
        {"progress", job->progress, job->progress_size},
        {"result", job->result, job->result_size},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].data != NULL)
            bi_top_page_add_bytes(page, texts[i].heading, texts[i].data, texts[i].size);
    add_history(page, job);

    if (detail->has_body)
        bi_top_page_add_bytes(page, "body", bide_buf_data(detail->body),
                              bide_buf_size(detail->body));
    else if (job->body_size > FETCH_MAX)
        bi_top_page_add_line(page,
                             "body: %zu bytes, too large for this view (see \"bide peek %llu\")",
                             job->body_size, (unsigned long long)detail->id);
    else
        bi_top_page_add_line(page, "body: %zu bytes, loading", job->body_size);
}

/* Also after the window changed its width. */
static void format_page(struct top *top)
{
    struct job_detail *detail = &top->detail;
    struct page *page = &detail->page;

    bi_top_page_reset(page, top->screen.columns);
    if (!detail->loaded)
        return;
    add_state(page, &detail->job);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        add_field(page, fields[i].name, fields[i].kind,
                  (const char *)&detail->job + fields[i].offset);
    add_retries(page, &detail->job);
    add_texts(page, detail);
    if (page->out_of_memory)
        snprintf(detail->error, sizeof(detail->error), "%s", bide_code_text(BIDE_ENOMEM));
}

/* ---- loading ---- */

static void start_load(struct top *top);

/* failed: the request that failed; NULL: none did. */
static void finish_load(struct top *top, const struct top_request *failed)
{
    struct job_detail *detail = &top->detail;

    assert(detail->busy);
    detail->busy = false;
    top->needs_redraw = true;
    if (detail->stale) {
        start_load(top);
        return;
    }
    if (failed != NULL)
        snprintf(detail->error, sizeof(detail->error), "%s", bi_top_request_error(failed));
    format_page(top);
}

static void on_body(struct top_request *request)
{
    struct job_detail *detail = &request->top->detail;
    bool good = request->op.status == BIDE_OK;

    /* The reference is ours even if the view shows another job by now. */
    if (good && detail->stale) {
        bide_buf_unref(request->op.fetch.buf);
    } else if (good) {
        bide_buf_unref(detail->body);
        detail->body = request->op.fetch.buf;
        detail->has_body = true;
    }
    finish_load(request->top, good ? NULL : request);
}

static void on_job(struct top_request *request)
{
    struct job_detail *detail = &request->top->detail;
    int status = request->op.status;

    detail->gone = !detail->stale && status == BIDE_NOT_FOUND;
    if (status == BIDE_OK) {
        bide_job_clear(&detail->job);
        detail->job = detail->incoming;
        memset(&detail->incoming, 0, sizeof(detail->incoming));
    }
    if (status == BIDE_OK && !detail->stale) {
        detail->loaded = true;
        detail->error[0] = 0;
        /* Bodies never change: one read per visit. */
        if (!detail->has_body && detail->job.body_size <= FETCH_MAX) {
            detail->body_request.op = (bide_op){.kind = BIDE_OP_BODY, .fetch = {.id = detail->id}};
            bi_top_request_send(&detail->body_request, request->top, on_body);
            return;
        }
    }
    finish_load(request->top, status == BIDE_OK ? NULL : request);
}

static void start_load(struct top *top)
{
    struct job_detail *detail = &top->detail;

    assert(!detail->busy && detail->id != 0);
    detail->busy = true;
    detail->stale = false;
    detail->job_request.op = (bide_op){
        .kind = BIDE_OP_JOB_STATS,
        .query = {.id = detail->id, .job = &detail->incoming},
    };
    bi_top_request_send(&detail->job_request, top, on_job);
}

static void refresh(struct top *top)
{
    if (!top->detail.busy && !top->quit && !top->detail.gone)
        start_load(top);
}

void bi_top_job_show(struct top *top, uint64_t id)
{
    struct job_detail *detail = &top->detail;

    bide_buf_unref(detail->body);
    detail->body = NULL;
    detail->has_body = detail->loaded = detail->gone = false;
    detail->first = 0;
    detail->error[0] = 0;
    detail->id = id;
    detail->back = top->view;
    detail->stale = detail->busy;
    bi_top_page_reset(&detail->page, top->screen.columns);
    bi_top_window_set_view(top, &bi_top_job);
    refresh(top);
}

void bi_top_job_free(struct job_detail *detail)
{
    bide_job_clear(&detail->job);
    bide_buf_unref(detail->body);
    bi_top_page_free(&detail->page);
}

/* ---- drawing and keys ---- */

static void draw(struct top *top)
{
    struct job_detail *detail = &top->detail;
    size_t window = bi_top_window_rows(top, 2), count;
    const char *status = detail->gone       ? "is gone"
                         : detail->error[0] ? detail->error
                         : detail->loaded   ? ""
                                            : "loading";
    char text[BI_ERRMSG_SIZE];

    if (detail->page.width != top->screen.columns)
        format_page(top);
    count = detail->page.count;
    detail->first = bi_top_window_draw_lines(top, (const char *const *)detail->page.lines, count,
                                             detail->first);

    snprintf(text, sizeof(text), "job %llu %s", (unsigned long long)detail->id, status);
    bi_top_screen_draw(0, 0, BI_TOP_REST, STYLE_CURSOR, text);
    if (count <= window)
        return;
    int width = snprintf(text, sizeof(text), " lines %zu-%zu of %zu", detail->first + 1,
                         detail->first + window, count);
    bi_top_screen_draw(0, top->screen.columns - width, width, STYLE_CURSOR, text);
}

static void key(struct top *top, int pressed)
{
    struct job_detail *detail = &top->detail;

    if (bi_top_window_scroll_lines(top, pressed, detail->page.count, &detail->first))
        return;
    if (pressed != 'q' && pressed != TOP_KEY_ESCAPE) {
        bi_top_action_job_key(top, pressed, detail->id);
        return;
    }
    bi_top_window_set_view(top, detail->back);
    detail->back->refresh(top);
}

const struct top_view bi_top_job = {
    .key_hint = "Up/Down PgUp/PgDn scroll  n ready now  b bury  d delete  ? help  q back",
    .draw = draw,
    .key = key,
    .refresh = refresh,
};
