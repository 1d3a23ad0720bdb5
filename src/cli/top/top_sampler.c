/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_US INT64_C(1000000)

_Static_assert(BI_TOP_PING_INTERVAL_US + BI_TOP_REPLY_TIMEOUT_US < INT64_C(3000000),
               "a dead server is told within three seconds");

static void request_page(struct top *top);

int64_t bi_top_sampler_waiting_since(const struct sampler *sampler)
{
    if (sampler->busy)
        return sampler->started_us;
    return sampler->ping_request.pending ? sampler->ping_sent_us : 0;
}

static void finish_sample(struct top *top, const char *error)
{
    struct sampler *sampler = &top->sampler;
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

/* Everything is there. */
static void apply_sample(struct top *top)
{
    struct sampler *sampler = &top->sampler;
    top->order.count = 0; /* its topics may go */
    bool good = bi_top_model_add_sample(&top->model, &sampler->stats, sampler->topics,
                                        sampler->count, bi_clock_boot());
    bi_top_window_sort_topics(top);
    finish_sample(top, good ? "" : bide_code_text(BIDE_ENOMEM));
    if (good && top->view->refresh != NULL)
        top->view->refresh(top);
}

static void on_page(struct top_request *request)
{
    struct sampler *sampler = &request->top->sampler;
    if (request->op.status != BIDE_OK) {
        finish_sample(request->top, bi_top_request_error(request));
        return;
    }
    sampler->count += request->op.topics.count;
    sampler->truncated = sampler->cursor[0] != 0 && sampler->count >= BI_TOP_TOPICS_MAX;
    if (sampler->cursor[0] != 0 && !sampler->truncated)
        request_page(request->top);
    else
        apply_sample(request->top);
}

static void request_page(struct top *top)
{
    struct sampler *sampler = &top->sampler;
    if (sampler->capacity < sampler->count + BIDE_BATCH_JOBS) {
        size_t capacity = sampler->count + BIDE_BATCH_JOBS;
        bide_topic_stats *topics = realloc(sampler->topics, capacity * sizeof(*topics));
        if (topics == NULL) {
            finish_sample(top, bide_code_text(BIDE_ENOMEM));
            return;
        }
        sampler->topics = topics;
        sampler->capacity = capacity;
    }
    sampler->topics_request.op = (bide_op){
        .kind = BIDE_OP_TOPICS,
        .topics = {.cursor = sampler->cursor,
                   .topics = sampler->topics + sampler->count,
                   .topic_max = BIDE_BATCH_JOBS},
    };
    bi_top_request_send(&sampler->topics_request, top, on_page);
}

static void on_stats(struct top_request *request)
{
    if (request->op.status == BIDE_OK)
        request_page(request->top);
    else
        finish_sample(request->top, bi_top_request_error(request));
}

static void start_sample(struct top *top, int64_t now_us)
{
    struct sampler *sampler = &top->sampler;
    sampler->busy = true;
    sampler->started_us = now_us;
    sampler->count = 0;
    sampler->cursor[0] = 0;
    sampler->stats_request.op =
        (bide_op){.kind = BIDE_OP_STATS, .stats = {.stats = &sampler->stats}};
    bi_top_request_send(&sampler->stats_request, top, on_stats);
}

/* ---- a ping between samples ---- */

static void on_ping(struct top_request *request)
{
    struct sampler *sampler = &request->top->sampler;
    bool good = request->op.status == BIDE_OK;

    sampler->last_reply_us = bi_clock_boot();
    /* What a sample found wrong, only a sample finds right; while frozen there is none. */
    if (good && request->top->frozen) {
        sampler->failing_since_us = 0;
        sampler->error[0] = 0;
    } else if (!good && sampler->failing_since_us == 0) {
        sampler->failing_since_us = sampler->ping_sent_us;
        snprintf(sampler->error, sizeof(sampler->error), "%s", bi_top_request_error(request));
    }
    request->top->needs_redraw = true;
}

/* A queue of this process answers always. */
static bool can_ping(const struct top *top)
{
    return (bide_capabilities(top->queue) & BIDE_CAN_SHARE) != 0 && !top->sampler.busy &&
           !top->sampler.ping_request.pending;
}

static void send_ping(struct top *top, int64_t now_us)
{
    struct sampler *sampler = &top->sampler;

    sampler->ping_sent_us = now_us;
    sampler->ping_request.op = (bide_op){.kind = BIDE_OP_PING};
    bi_top_request_send(&sampler->ping_request, top, on_ping);
}

/* ---- when ---- */

/* At most half of the time goes into samples, however long one takes; but what failed after a long
 * wait is tried again soon. */
static int64_t sample_due(const struct top *top)
{
    const struct sampler *sampler = &top->sampler;
    int64_t interval_us = top->interval_ms * 1000;
    int64_t duration_us = sampler->finished_us - sampler->started_us;
    if (sampler->started_us == 0)
        return 0;
    if (sampler->error[0] != 0)
        return sampler->finished_us + (interval_us < RETRY_US ? interval_us : RETRY_US);
    return sampler->started_us + (interval_us > 2 * duration_us ? interval_us : 2 * duration_us);
}

int64_t bi_top_sampler_next_deadline(const struct top *top)
{
    const struct sampler *sampler = &top->sampler;
    int64_t due = INT64_MAX, waiting_since_us = bi_top_sampler_waiting_since(sampler);

    if (waiting_since_us != 0)
        due = waiting_since_us + BI_TOP_REPLY_TIMEOUT_US;
    if (!sampler->busy && !top->frozen && sample_due(top) < due)
        due = sample_due(top);
    if (can_ping(top) && sampler->last_reply_us + BI_TOP_PING_INTERVAL_US < due)
        due = sampler->last_reply_us + BI_TOP_PING_INTERVAL_US;
    return due;
}

void bi_top_sampler_tick(struct top *top, int64_t now_us)
{
    if (!top->sampler.busy && !top->frozen && now_us >= sample_due(top))
        start_sample(top, now_us);
    if (can_ping(top) && now_us >= top->sampler.last_reply_us + BI_TOP_PING_INTERVAL_US)
        send_ping(top, now_us);
}

void bi_top_sampler_sample_now(struct top *top)
{
    if (!top->sampler.busy && !top->frozen)
        start_sample(top, bi_clock_boot());
}

void bi_top_sampler_free(struct sampler *sampler)
{
    free(sampler->topics);
}
