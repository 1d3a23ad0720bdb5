/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_US INT64_C(1000000)

_Static_assert(BI_TOP_PULSE_US + BI_TOP_SILENT_US < INT64_C(3000000),
               "a dead server is told within three seconds");

static void ask_page(struct top *top);

int64_t bi_sampler_asked(const struct sampler *sampler)
{
    if (sampler->busy)
        return sampler->begun_us;
    return sampler->pulse_ask.pending ? sampler->pulse_us : 0;
}

static void end(struct top *top, const char *problem)
{
    struct sampler *sampler = &top->sampler;
    sampler->busy = false;
    sampler->ended_us = bi_clock_boot();
    snprintf(sampler->problem, sizeof(sampler->problem), "%s", problem);
    if (problem[0] == 0) {
        sampler->failing_us = 0;
        sampler->heard_us = sampler->ended_us;
        sampler->took_us = sampler->ended_us - sampler->begun_us;
    } else if (sampler->failing_us == 0) {
        sampler->failing_us = sampler->begun_us;
    }
    top->changed = true;
}

/* Everything is there. */
static void take(struct top *top)
{
    struct sampler *sampler = &top->sampler;
    top->order.count = 0; /* its topics may go */
    bool good = bi_top_model_take(&top->model, &sampler->stats, sampler->topics, sampler->count,
                                  bi_clock_boot());
    bi_top_reorder(top);
    end(top, good ? "" : bide_code_text(BIDE_ENOMEM));
    if (good && top->view->refresh != NULL)
        top->view->refresh(top);
}

static void heard_page(struct ask *ask)
{
    struct sampler *sampler = &ask->top->sampler;
    if (ask->op.status != BIDE_OK) {
        end(ask->top, bi_ask_sentence(ask));
        return;
    }
    sampler->count += ask->op.topics.count;
    sampler->cut = sampler->cursor[0] != 0 && sampler->count >= BI_TOP_TOPICS;
    if (sampler->cursor[0] != 0 && !sampler->cut)
        ask_page(ask->top);
    else
        take(ask->top);
}

static void ask_page(struct top *top)
{
    struct sampler *sampler = &top->sampler;
    if (sampler->room < sampler->count + BIDE_BATCH_JOBS) {
        size_t room = sampler->count + BIDE_BATCH_JOBS;
        bide_topic_stats *topics = realloc(sampler->topics, room * sizeof(*topics));
        if (topics == NULL) {
            end(top, bide_code_text(BIDE_ENOMEM));
            return;
        }
        sampler->topics = topics;
        sampler->room = room;
    }
    sampler->topics_ask.op = (bide_op){
        .kind = BIDE_OP_TOPICS,
        .topics = {.cursor = sampler->cursor,
                   .topics = sampler->topics + sampler->count,
                   .topic_max = BIDE_BATCH_JOBS},
    };
    bi_ask_send(&sampler->topics_ask, top, heard_page);
}

static void heard_stats(struct ask *ask)
{
    if (ask->op.status == BIDE_OK)
        ask_page(ask->top);
    else
        end(ask->top, bi_ask_sentence(ask));
}

static void begin(struct top *top, int64_t now_us)
{
    struct sampler *sampler = &top->sampler;
    sampler->busy = true;
    sampler->begun_us = now_us;
    sampler->count = 0;
    sampler->cursor[0] = 0;
    sampler->stats_ask.op = (bide_op){.kind = BIDE_OP_STATS, .stats = {.stats = &sampler->stats}};
    bi_ask_send(&sampler->stats_ask, top, heard_stats);
}

/* ---- a ping between samples ---- */

static void heard_pulse(struct ask *ask)
{
    struct sampler *sampler = &ask->top->sampler;
    bool good = ask->op.status == BIDE_OK;

    sampler->heard_us = bi_clock_boot();
    /* What a sample found wrong, only a sample finds right; while frozen there is none. */
    if (good && ask->top->frozen) {
        sampler->failing_us = 0;
        sampler->problem[0] = 0;
    } else if (!good && sampler->failing_us == 0) {
        sampler->failing_us = sampler->pulse_us;
        snprintf(sampler->problem, sizeof(sampler->problem), "%s", bi_ask_sentence(ask));
    }
    ask->top->changed = true;
}

/* A queue of this process answers always. */
static bool has_pulse(const struct top *top)
{
    return (bide_capabilities(top->queue) & BIDE_CAN_SHARE) != 0 && !top->sampler.busy &&
           !top->sampler.pulse_ask.pending;
}

static void send_pulse(struct top *top, int64_t now_us)
{
    struct sampler *sampler = &top->sampler;

    sampler->pulse_us = now_us;
    sampler->pulse_ask.op = (bide_op){.kind = BIDE_OP_PING};
    bi_ask_send(&sampler->pulse_ask, top, heard_pulse);
}

/* ---- when ---- */

/* At most half of the time goes into samples, however long one takes; but what failed after a long
 * wait is tried again soon. */
static int64_t sample_due(const struct top *top)
{
    const struct sampler *sampler = &top->sampler;
    int64_t interval_us = top->interval_ms * 1000;
    int64_t took_us = sampler->ended_us - sampler->begun_us;
    if (sampler->begun_us == 0)
        return 0;
    if (sampler->problem[0] != 0)
        return sampler->ended_us + (interval_us < AGAIN_US ? interval_us : AGAIN_US);
    return sampler->begun_us + (interval_us > 2 * took_us ? interval_us : 2 * took_us);
}

int64_t bi_sampler_due(const struct top *top)
{
    const struct sampler *sampler = &top->sampler;
    int64_t due = INT64_MAX, asked_us = bi_sampler_asked(sampler);

    if (asked_us != 0)
        due = asked_us + BI_TOP_SILENT_US;
    if (!sampler->busy && !top->frozen && sample_due(top) < due)
        due = sample_due(top);
    if (has_pulse(top) && sampler->heard_us + BI_TOP_PULSE_US < due)
        due = sampler->heard_us + BI_TOP_PULSE_US;
    return due;
}

void bi_sampler_tick(struct top *top, int64_t now_us)
{
    if (!top->sampler.busy && !top->frozen && now_us >= sample_due(top))
        begin(top, now_us);
    if (has_pulse(top) && now_us >= top->sampler.heard_us + BI_TOP_PULSE_US)
        send_pulse(top, now_us);
}

void bi_sampler_hurry(struct top *top)
{
    if (!top->sampler.busy && !top->frozen)
        begin(top, bi_clock_boot());
}

void bi_sampler_free(struct sampler *sampler)
{
    free(sampler->topics);
}
