/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_US INT64_C(1000000)

static void ask_page(struct top *top);

static void end(struct top *top, const char *problem)
{
    struct sampler *sampler = &top->sampler;
    sampler->busy = false;
    sampler->ended_us = bi_clock_boot();
    snprintf(sampler->problem, sizeof(sampler->problem), "%s", problem);
    if (problem[0] == 0) {
        sampler->failing_us = 0;
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

/* At most half of the time goes into samples, however long one takes; but what failed after a long
 * wait is tried again soon. */
int64_t bi_sampler_due(const struct top *top)
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

void bi_sampler_tick(struct top *top, int64_t now_us)
{
    if (!top->sampler.busy && !top->frozen && now_us >= bi_sampler_due(top))
        begin(top, now_us);
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
