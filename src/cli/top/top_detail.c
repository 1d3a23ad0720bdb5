/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "util/duration.h"

#include <string.h>

#define FETCH_MAX ((size_t)16 << 20) /* larger bodies are not for a terminal */

static void start_load(struct top *top);

/* ---- lines ---- */

#define PROPERTY "%-16s "

static void add_duration(struct page *page, const char *name, int64_t ms)
{
    char text[BI_DATETIME_SIZE];
    bi_duration_format(text, ms);
    bi_top_page_add_line(page, PROPERTY "%s", name, text);
}

static void add_datetime(struct page *page, const char *name, int64_t at_ms)
{
    char text[BI_DATETIME_SIZE];
    if (at_ms == 0)
        return;
    bi_datetime_format(text, at_ms);
    bi_top_page_add_line(page, PROPERTY "%s", name, text);
}

static void add_number(struct page *page, const char *name, uint64_t number)
{
    bi_top_page_add_line(page, PROPERTY "%llu", name, (unsigned long long)number);
}

static const char *left_label(bide_state state)
{
    static const char *const names[] = {[BIDE_STATE_DELAYED] = "due in",
                                        [BIDE_STATE_RESERVED] = "lease ends in",
                                        [BIDE_STATE_DONE] = "kept for"};
    return state == BIDE_STATE_DELAYED || state == BIDE_STATE_RESERVED || state == BIDE_STATE_DONE
               ? names[state]
               : NULL;
}

static void add_schedule(struct page *page, const bide_job *job)
{
    const char *left = left_label(job->state);
    bi_top_page_add_line(page, PROPERTY "%s", "topic", job->topic);
    bi_top_page_add_line(page, PROPERTY "%s%s", "state", bide_state_name(job->state),
                         job->cancel_wanted ? ", and to stop" : "");
    if (left != NULL)
        add_duration(page, left, job->left_ms);
    add_number(page, "priority", job->priority);
    add_duration(page, "ttr", job->ttr_ms);
    add_duration(page, "age", job->age_ms);
    if (job->state == BIDE_STATE_DELAYED)
        add_datetime(page, "runs at", job->run_at_ms);
    add_datetime(page, "expires at", job->expires_at_ms);
    if (job->retain_ms > 0)
        add_duration(page, "keeps its result", job->retain_ms);
}

static void add_counters(struct page *page, const bide_job *job)
{
    const struct {
        const char *name;
        uint32_t number;
    } counters[] = {
        {"reserves", job->reserves}, {"timeouts", job->timeouts}, {"releases", job->releases},
        {"fails", job->fails},       {"buries", job->buries},     {"kicks", job->kicks},
        {"touches", job->touches},
    };
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        add_number(page, counters[i].name, counters[i].number);
    if (job->max_retries >= 0)
        bi_top_page_add_line(page, PROPERTY "%u of %d, backoff %lld to %lld ms", "failures",
                             job->failures, job->max_retries, (long long)job->backoff_base_ms,
                             (long long)job->backoff_max_ms);
    else
        add_number(page, "failures", job->failures);
}

static void add_times(struct page *page, const bide_job *job)
{
    add_datetime(page, "created", job->created_ms);
    add_datetime(page, "ready", job->ready_ms);
    add_datetime(page, "reserved", job->reserved_ms);
    add_datetime(page, "touched", job->touched_ms);
    add_datetime(page, "buried", job->buried_ms);
    add_datetime(page, "done", job->done_ms);
}

static void add_body(struct page *page, const struct detail *detail)
{
    if (detail->has_body)
        bi_top_page_add_bytes(page, "body", bide_buf_data(detail->body),
                              bide_buf_size(detail->body));
    else if (detail->job.body_size > FETCH_MAX)
        bi_top_page_add_line(
            page, "body: %zu bytes, too many to be shown here; \"bide peek %llu\" has them",
            detail->job.body_size, (unsigned long long)detail->id);
    else
        bi_top_page_add_line(page, "body: %zu bytes, on their way", detail->job.body_size);
}

void bi_top_detail_format(struct top *top)
{
    struct detail *detail = &top->detail;
    const bide_job *job = &detail->job;
    struct page *page = &detail->page;
    bi_top_page_reset(page, top->screen.columns);
    if (!detail->loaded)
        return;
    add_schedule(page, job);
    if (job->key != NULL)
        bi_top_page_add_bytes(page, "key", job->key, job->key_size);
    if (job->last_error != NULL)
        bi_top_page_add_bytes(page, "last error", job->last_error, job->last_error_size);
    if (job->progress != NULL)
        bi_top_page_add_bytes(page, "progress", job->progress, job->progress_size);
    bi_top_page_add_line(page, "%s", "");
    add_times(page, job);
    add_counters(page, job);
    if (job->result != NULL)
        bi_top_page_add_bytes(page, "result", job->result, job->result_size);
    add_body(page, detail);
    if (page->out_of_memory)
        snprintf(detail->error, sizeof(detail->error), "%s", bide_code_text(BIDE_ENOMEM));
}

/* ---- asking ---- */

static void finish_load(struct top *top)
{
    struct detail *detail = &top->detail;
    detail->busy = false;
    top->needs_redraw = true;
    if (detail->stale)
        start_load(top);
    else
        bi_top_detail_format(top);
}

static void set_error(struct detail *detail, const struct top_request *request)
{
    if (!detail->stale)
        snprintf(detail->error, sizeof(detail->error), "%s", bi_top_request_error(request));
}

static void on_body(struct top_request *request)
{
    struct detail *detail = &request->top->detail;
    if (request->op.status != BIDE_OK) {
        set_error(detail, request);
    } else if (detail->stale) {
        bide_buf_unref(request->op.fetch.buf);
    } else {
        bide_buf_unref(detail->body);
        detail->body = request->op.fetch.buf;
        detail->has_body = true;
    }
    finish_load(request->top);
}

static void on_job(struct top_request *request)
{
    struct detail *detail = &request->top->detail;
    detail->gone = !detail->stale && request->op.status == BIDE_NOT_FOUND;
    if (request->op.status != BIDE_OK) {
        set_error(detail, request);
        finish_load(request->top);
        return;
    }
    bide_job_clear(&detail->job);
    detail->job = detail->incoming;
    memset(&detail->incoming, 0, sizeof(detail->incoming));
    if (detail->stale) {
        finish_load(request->top);
        return;
    }
    detail->loaded = true;
    detail->error[0] = 0;
    if (detail->has_body || detail->job.body_size > FETCH_MAX) {
        finish_load(request->top);
        return;
    }
    detail->body_request.op = (bide_op){.kind = BIDE_OP_BODY, .fetch = {.id = detail->id}};
    bi_top_request_send(&detail->body_request, request->top, on_body);
}

static void start_load(struct top *top)
{
    struct detail *detail = &top->detail;
    detail->busy = true;
    detail->stale = false;
    detail->job_request.op = (bide_op){
        .kind = BIDE_OP_JOB_STATS,
        .query = {.id = detail->id, .job = &detail->incoming},
    };
    bi_top_request_send(&detail->job_request, top, on_job);
}

void bi_top_detail_refresh(struct top *top)
{
    if (!top->detail.busy && !top->quit && !top->detail.gone)
        start_load(top);
}

void bi_top_detail_show(struct top *top, uint64_t id)
{
    struct detail *detail = &top->detail;
    bide_buf_unref(detail->body);
    detail->body = NULL;
    detail->has_body = false;
    detail->loaded = false;
    detail->gone = false;
    detail->first = 0;
    detail->error[0] = 0;
    detail->id = id;
    detail->stale = detail->busy;
    bi_top_page_reset(&detail->page, top->screen.columns);
    bi_top_detail_refresh(top);
}

void bi_top_detail_free(struct detail *detail)
{
    bide_job_clear(&detail->job);
    bide_buf_unref(detail->body);
    bi_top_page_free(&detail->page);
}
