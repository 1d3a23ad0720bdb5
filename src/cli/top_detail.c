/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include "cli/when.h"

#include <string.h>

#define FETCHED_MOST ((size_t)16 << 20) /* larger bodies are not for a terminal */

static void begin(struct top *top);

/* ---- lines ---- */

#define PROPERTY "%-16s "

static void say_duration(struct page *page, const char *name, int64_t ms)
{
    char text[BI_WHEN_SIZE];
    bi_duration_say(text, ms);
    bi_page_line(page, PROPERTY "%s", name, text);
}

static void say_moment(struct page *page, const char *name, int64_t at_ms)
{
    char text[BI_WHEN_SIZE];
    if (at_ms == 0)
        return;
    bi_moment_say(text, at_ms);
    bi_page_line(page, PROPERTY "%s", name, text);
}

static void say_number(struct page *page, const char *name, uint64_t number)
{
    bi_page_line(page, PROPERTY "%llu", name, (unsigned long long)number);
}

static const char *meaning_of_left(bide_state state)
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
    const char *left = meaning_of_left(job->state);
    bi_page_line(page, PROPERTY "%s", "topic", job->topic);
    bi_page_line(page, PROPERTY "%s%s", "state", bide_state_name(job->state),
                 job->cancel_wanted ? ", and to stop" : "");
    if (left != NULL)
        say_duration(page, left, job->left_ms);
    say_number(page, "priority", job->priority);
    say_duration(page, "ttr", job->ttr_ms);
    say_duration(page, "age", job->age_ms);
    if (job->state == BIDE_STATE_DELAYED)
        say_moment(page, "runs at", job->run_at_ms);
    say_moment(page, "expires at", job->expires_at_ms);
    if (job->retain_ms > 0)
        say_duration(page, "keeps its result", job->retain_ms);
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
        say_number(page, counters[i].name, counters[i].number);
    if (job->max_retries >= 0)
        bi_page_line(page, PROPERTY "%u of %d, backoff %lld to %lld ms", "failures", job->failures,
                     job->max_retries, (long long)job->backoff_base_ms,
                     (long long)job->backoff_max_ms);
    else
        say_number(page, "failures", job->failures);
}

static void add_moments(struct page *page, const bide_job *job)
{
    say_moment(page, "created", job->created_ms);
    say_moment(page, "ready", job->ready_ms);
    say_moment(page, "reserved", job->reserved_ms);
    say_moment(page, "touched", job->touched_ms);
    say_moment(page, "buried", job->buried_ms);
    say_moment(page, "done", job->done_ms);
}

static void add_body(struct page *page, const struct detail *detail)
{
    if (detail->has_body)
        bi_page_bytes(page, "body", bide_buf_data(detail->body), bide_buf_size(detail->body));
    else if (detail->job.body_size > FETCHED_MOST)
        bi_page_line(page,
                     "body: %zu bytes, too many to be shown here; \"bide peek %llu\" has them",
                     detail->job.body_size, (unsigned long long)detail->id);
    else
        bi_page_line(page, "body: %zu bytes, on their way", detail->job.body_size);
}

void bi_detail_lines(struct top *top)
{
    struct detail *detail = &top->detail;
    const bide_job *job = &detail->job;
    struct page *page = &detail->page;
    bi_page_begin(page, top->screen.columns);
    if (!detail->loaded)
        return;
    add_schedule(page, job);
    if (job->key != NULL)
        bi_page_bytes(page, "key", job->key, job->key_size);
    if (job->last_error != NULL)
        bi_page_bytes(page, "last error", job->last_error, job->last_error_size);
    if (job->progress != NULL)
        bi_page_bytes(page, "progress", job->progress, job->progress_size);
    bi_page_line(page, "%s", "");
    add_moments(page, job);
    add_counters(page, job);
    if (job->result != NULL)
        bi_page_bytes(page, "result", job->result, job->result_size);
    add_body(page, detail);
    if (page->no_memory)
        snprintf(detail->problem, sizeof(detail->problem), "%s", bide_code_text(BIDE_ENOMEM));
}

/* ---- asking ---- */

static void end(struct top *top)
{
    struct detail *detail = &top->detail;
    detail->busy = false;
    top->changed = true;
    if (detail->stale)
        begin(top);
    else
        bi_detail_lines(top);
}

static void complain(struct detail *detail, const struct ask *ask)
{
    if (!detail->stale)
        snprintf(detail->problem, sizeof(detail->problem), "%s", bi_ask_sentence(ask));
}

static void heard_body(struct ask *ask)
{
    struct detail *detail = &ask->top->detail;
    if (ask->op.status != BIDE_OK) {
        complain(detail, ask);
    } else if (detail->stale) {
        bide_buf_unref(ask->op.fetch.buf);
    } else {
        bide_buf_unref(detail->body);
        detail->body = ask->op.fetch.buf;
        detail->has_body = true;
    }
    end(ask->top);
}

static void heard_job(struct ask *ask)
{
    struct detail *detail = &ask->top->detail;
    detail->gone = !detail->stale && ask->op.status == BIDE_NOT_FOUND;
    if (ask->op.status != BIDE_OK) {
        complain(detail, ask);
        end(ask->top);
        return;
    }
    bide_job_clear(&detail->job);
    detail->job = detail->coming;
    memset(&detail->coming, 0, sizeof(detail->coming));
    if (detail->stale) {
        end(ask->top);
        return;
    }
    detail->loaded = true;
    detail->problem[0] = 0;
    if (detail->has_body || detail->job.body_size > FETCHED_MOST) {
        end(ask->top);
        return;
    }
    detail->body_ask.op = (bide_op){.kind = BIDE_OP_BODY, .fetch = {.id = detail->id}};
    bi_ask_send(&detail->body_ask, ask->top, heard_body);
}

static void begin(struct top *top)
{
    struct detail *detail = &top->detail;
    detail->busy = true;
    detail->stale = false;
    detail->job_ask.op = (bide_op){
        .kind = BIDE_OP_JOB_STATS,
        .look = {.id = detail->id, .job = &detail->coming},
    };
    bi_ask_send(&detail->job_ask, top, heard_job);
}

void bi_detail_refresh(struct top *top)
{
    if (!top->detail.busy && !top->over && !top->detail.gone)
        begin(top);
}

void bi_detail_show(struct top *top, uint64_t id)
{
    struct detail *detail = &top->detail;
    bide_buf_unref(detail->body);
    detail->body = NULL;
    detail->has_body = false;
    detail->loaded = false;
    detail->gone = false;
    detail->first = 0;
    detail->problem[0] = 0;
    detail->id = id;
    detail->stale = detail->busy;
    bi_page_begin(&detail->page, top->screen.columns);
    bi_detail_refresh(top);
}

void bi_detail_free(struct detail *detail)
{
    bide_job_clear(&detail->job);
    bide_buf_unref(detail->body);
    bi_page_free(&detail->page);
}
