/* SPDX-License-Identifier: MIT */
/*
 * top_sampler - reads the figures of the queue and of all topics at an interval, page by page, and
 * detects a server that does not reply.
 */
#include "cli/top/top.h"

#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>

#define RETRY_US INT64_C(1000000)

_Static_assert(BI_TOP_PING_INTERVAL_US + BI_TOP_REPLY_TIMEOUT_US < INT64_C(3000000),
               "a dead server is reported within three seconds");

int64_t bi_top_sampler_waiting_since(const struct sampler *sampler)
{
    if (sampler->busy)
        return sampler->started_us;
    return sampler->ping_request.pending ? sampler->ping_sent_us : 0;
}

/* ---- a sample ---- */

/* error: "" if the sample succeeded. */
static void finish_sample(struct top *top, const char *error)
{
    struct sampler *sampler = &top->sampler;

    assert(sampler->busy);
    sampler->busy = false;
    sampler->finished_us = bi_clock_boot();
    snprintf(sampler->error, sizeof(sampler->error), "%s", error);
    if (error[0] == 0) {
        sampler->failing_since_us = 0;
        sampler->last_reply_us = sampler->finished_us;
        sampler->duration_us = sampler->finished_us - sampler->started_us;
    } else if (sampler->failing_since_us == 0) {
        sampler->failing_since_us = sampler->started_us;
    }
    top->needs_redraw = true;
}

static void apply_sample(struct top *top)
{
    struct sampler *sampler = &top->sampler;

    top->order.count = 0; /* the model may free topics of the list */
    bool added = bi_top_model_add_sample(&top->model, &sampler->stats, sampler->topics,
                                         sampler->count, bi_clock_boot());
    bi_top_topics_sort(top);
    finish_sample(top, added ? "" : bide_code_text(BIDE_ENOMEM));
    if (added && top->view->refresh != NULL)
        top->view->refresh(top);
}

static void on_page(struct top_request *request);

static void request_page(struct top *top)
{
    struct sampler *sampler = &top->sampler;

    assert(sampler->busy && sampler->count <= sampler->capacity);
    if (!BI_CLI_RESERVE(sampler->topics, sampler->count + BIDE_BATCH_JOBS, sampler->capacity)) {
        finish_sample(top, bide_code_text(BIDE_ENOMEM));
        return;
    }
    sampler->topics_request.op = (bide_op){
        .kind = BIDE_OP_TOPICS,
        .topics = {.cursor = sampler->cursor,
                   .topics = sampler->topics + sampler->count,
                   .topic_max = BIDE_BATCH_JOBS},
    };
    bi_top_request_send(&sampler->topics_request, top, on_page);
}

/* The figures of the queue, or a page of topics. */
static void on_page(struct top_request *request)
{
    struct sampler *sampler = &request->top->sampler;

    if (request->op.status != BIDE_OK) {
        finish_sample(request->top, bi_top_request_error(request));
        return;
    }
    if (request == &sampler->topics_request) {
        sampler->count += request->op.topics.count;
        sampler->truncated = sampler->cursor[0] != 0 && sampler->count >= BI_TOP_TOPICS_MAX;
        if (sampler->cursor[0] == 0 || sampler->truncated) {
            apply_sample(request->top);
            return;
        }
    }
    request_page(request->top);
}

static void start_sample(struct top *top, int64_t now_us)
{
    struct sampler *sampler = &top->sampler;

    assert(!sampler->busy && !top->frozen);
    sampler->busy = true;
    sampler->started_us = now_us;
    sampler->count = 0;
    sampler->cursor[0] = 0;
    sampler->stats_request.op =
        (bide_op){.kind = BIDE_OP_STATS, .stats = {.stats = &sampler->stats}};
    bi_top_request_send(&sampler->stats_request, top, on_page);
}

/* ---- a ping between samples ---- */

static void on_ping(struct top_request *request)
{
    struct sampler *sampler = &request->top->sampler;
    bool good = request->op.status == BIDE_OK;

    sampler->last_reply_us = bi_clock_boot();
    /* Only a sample clears the error of a sample; while frozen there are none. */
    if (good && request->top->frozen) {
        sampler->failing_since_us = 0;
        sampler->error[0] = 0;
    } else if (!good && sampler->failing_since_us == 0) {
        sampler->failing_since_us = sampler->ping_sent_us;
        snprintf(sampler->error, sizeof(sampler->error), "%s", bi_top_request_error(request));
    }
    request->top->needs_redraw = true;
}

/* ---- deadlines ---- */

/* INT64_MAX while one is running. */
static int64_t sample_due(const struct top *top)
{
    const struct sampler *sampler = &top->sampler;
    int64_t interval_us = top->interval_ms * 1000;
    int64_t duration_us = sampler->finished_us - sampler->started_us;

    if (sampler->busy || top->frozen)
        return INT64_MAX;
    if (sampler->started_us == 0)
        return 0;
    if (sampler->error[0] != 0)
        return sampler->finished_us + (interval_us < RETRY_US ? interval_us : RETRY_US);
    /* Samples take at most half of the time, however slow they are. */
    return sampler->started_us + (interval_us > 2 * duration_us ? interval_us : 2 * duration_us);
}

/* INT64_MAX while a reply is outstanding. A queue in this process needs no ping. */
static int64_t ping_due(const struct top *top)
{
    const struct sampler *sampler = &top->sampler;

    if ((bide_capabilities(top->queue) & BIDE_CAN_SHARE) == 0 ||
        bi_top_sampler_waiting_since(sampler) != 0)
        return INT64_MAX;
    return sampler->last_reply_us + BI_TOP_PING_INTERVAL_US;
}

int64_t bi_top_sampler_next_deadline(const struct top *top)
{
    int64_t since_us = bi_top_sampler_waiting_since(&top->sampler);
    int64_t due_us = since_us == 0 ? INT64_MAX : since_us + BI_TOP_REPLY_TIMEOUT_US;

    due_us = sample_due(top) < due_us ? sample_due(top) : due_us;
    return ping_due(top) < due_us ? ping_due(top) : due_us;
}

void bi_top_sampler_tick(struct top *top, int64_t now_us)
{
    struct sampler *sampler = &top->sampler;

    if (now_us >= sample_due(top))
        start_sample(top, now_us);
    if (now_us >= ping_due(top)) {
        sampler->ping_sent_us = now_us;
        sampler->ping_request.op = (bide_op){.kind = BIDE_OP_PING};
        bi_top_request_send(&sampler->ping_request, top, on_ping);
    }
}

void bi_top_sampler_sample_now(struct top *top)
{
    if (!top->sampler.busy && !top->frozen)
        start_sample(top, bi_clock_boot());
}
