/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "cli/print.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- what became of it ---- */

/* What is said when it is done; a count stands before it where there is one. */
static const struct {
    bide_op_kind kind;
    bool counts;
    const char *done;
} messages[] = {
    {BIDE_OP_KICK, true, "made ready"},    {BIDE_OP_PURGE, true, "removed"},
    {BIDE_OP_PAUSE, false, "is paused"},   {BIDE_OP_RESUME, false, "goes on"},
    {BIDE_OP_KICK_JOB, false, "is ready"}, {BIDE_OP_BURY, false, "is buried"},
    {BIDE_OP_DELETE, false, "is deleted"},
};

static uint64_t count_of(const bide_op *op)
{
    return op->kind == BIDE_OP_KICK ? op->kick.count : op->purge.count;
}

static void report_done(struct top *top, const bide_op *op)
{
    const size_t count = sizeof(messages) / sizeof(messages[0]);
    size_t i = 0;
    while (i < count && messages[i].kind != op->kind)
        i++;
    assert(i < count);
    if (!messages[i].counts) {
        bi_top_prompt_note(top, STYLE_GOOD, "%s %s", top->action.subject, messages[i].done);
        return;
    }
    char number[32];
    bi_print_number(number, count_of(op));
    bi_top_prompt_note(top, STYLE_GOOD, "%s: %s job%s %s", top->action.subject, number,
                       count_of(op) == 1 ? "" : "s", messages[i].done);
}

/* Most sentences name the job or topic themselves. */
static void report_refused(struct top *top, const struct top_request *request)
{
    const char *sentence = bi_top_request_error(request), *subject = top->action.subject;
    const char *prefix = request->op.status > 0 ? "Refused" : "Failed";
    if (strstr(sentence, subject) != NULL)
        bi_top_prompt_note(top, STYLE_BAD, "%s: %s", prefix, sentence);
    else
        bi_top_prompt_note(top, STYLE_BAD, "%s: %s: %s", prefix, subject, sentence);
}

static void on_done(struct top_request *request)
{
    struct top *top = request->top;
    if (request->op.status == BIDE_OK)
        report_done(top, &request->op);
    else
        report_refused(top, request);
    top->detail.gone = false;
    bi_top_sampler_sample_now(top);
    if (top->frozen && top->view->refresh != NULL)
        top->view->refresh(top);
}

/* ---- asking whether it is meant ---- */

/* A kick takes the delayed jobs of a topic that has no buried ones, and other clients change that while the
 * question is on the screen: so it is looked at again. */
static void recheck_kick(struct top_request *request)
{
    struct top *top = request->top;
    struct action *action = &top->action;
    uint64_t buried = action->stats.jobs.buried;
    uint64_t available = action->kick_state == BIDE_STATE_BURIED ? buried
                         : buried == 0                           ? action->stats.jobs.delayed
                                                                 : 0;
    if (request->op.status != BIDE_OK && request->op.status != BIDE_NOT_FOUND) {
        on_done(request);
        return;
    }
    if (available == 0 || request->op.status == BIDE_NOT_FOUND) {
        bi_top_prompt_note(top, STYLE_WARN,
                           "%s has changed since you were asked; nothing was done.",
                           action->subject);
        bi_top_sampler_sample_now(top);
        return;
    }
    request->op = action->staged_op;
    if (request->op.kick.max > available)
        request->op.kick.max = available;
    request->op.kick.buried_only = action->kick_state == BIDE_STATE_BURIED && !top->plain;
    bi_top_request_send(request, top, on_done);
}

static void on_confirm(struct top *top, bool yes)
{
    struct action *action = &top->action;
    if (!yes) {
        bi_top_prompt_note(top, STYLE_PLAIN, "Nothing was done.");
        return;
    }
    bi_top_prompt_note(top, STYLE_PLAIN, "%s: asked; there is no answer yet", action->subject);
    action->request.op = action->staged_op;
    if (action->staged_op.kind != BIDE_OP_KICK) {
        bi_top_request_send(&action->request, top, on_done);
        return;
    }
    action->request.op = (bide_op){.kind = BIDE_OP_TOPIC_STATS};
    action->request.op.topic_stats =
        (bide_topic_stats_args){.topic = action->staged_op.kick.topic, .stats = &action->stats};
    bi_top_request_send(&action->request, top, recheck_kick);
}

/* One at a time: NULL, and says so, while an answer is awaited. */
static bide_op *stage_op(struct top *top, bide_op_kind kind, const char *topic)
{
    struct action *action = &top->action;
    if (action->request.pending) {
        bi_top_prompt_note(top, STYLE_WARN, "%s: still waiting for the answer", action->subject);
        return NULL;
    }
    action->staged_op = (bide_op){.kind = kind};
    if (topic != NULL) {
        memmove(action->topic, topic, strlen(topic) + 1);
        snprintf(action->subject, sizeof(action->subject), "%s", topic);
    }
    return &action->staged_op;
}

/* How many, and of which kind, before anything is asked of the queue. */
static void confirm_kick(struct top *top, uint64_t count)
{
    const struct action *action = &top->action;
    char number[32], available[32];

    bi_print_number(number, count);
    bi_print_number(available, action->available);
    if (action->kick_state == BIDE_STATE_BURIED)
        bi_top_prompt_confirm(top, on_confirm, "Make %s of the %s buried job%s of %s ready?",
                              number, available, action->available == 1 ? "" : "s", action->topic);
    else
        bi_top_prompt_confirm(top, on_confirm,
                              "None of %s is buried. Make %s of its %s delayed job%s ready now?",
                              action->topic, number, available, action->available == 1 ? "" : "s");
}

static void on_number(struct top *top, bool yes)
{
    struct action *action = &top->action;
    const char *input = top->prompt.input;
    uint64_t count = input[0] == 0 ? action->available : strtoull(input, NULL, 10);

    /* No more than were there when it was asked: the op goes on with delayed jobs when no buried ones
     * are left. */
    if (count > action->available)
        count = action->available;
    action->staged_op.kick.max = count;
    if (!yes || count == 0)
        on_confirm(top, false);
    else
        confirm_kick(top, count);
}

void bi_top_action_kick(struct top *top, const char *topic)
{
    const struct top_topic *entry = bi_top_model_find(&top->model, topic);
    uint64_t buried = entry == NULL ? 0 : entry->now.jobs.buried;
    uint64_t delayed = entry == NULL ? 0 : entry->now.jobs.delayed;
    char available[32];

    if (buried == 0 && delayed == 0) {
        bi_top_prompt_note(top, STYLE_PLAIN, "%s has no buried and no delayed jobs.", topic);
        return;
    }
    bide_op *op = stage_op(top, BIDE_OP_KICK, topic);
    if (op == NULL)
        return;
    op->kick.topic = (bide_slice){top->action.topic, strlen(topic)};
    top->action.kick_state = buried > 0 ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
    top->action.available = buried > 0 ? buried : delayed;
    bi_print_number(available, top->action.available);
    bi_top_prompt_number(top, on_number,
                         "Kick how many of %s %s jobs of %s? (Enter: all, Esc: none)", available,
                         bide_state_name(top->action.kick_state), topic);
}

void bi_top_action_pause(struct top *top, const char *topic)
{
    const struct top_topic *entry = bi_top_model_find(&top->model, topic);
    bool paused = entry != NULL && entry->now.paused;
    bide_op *op = stage_op(top, paused ? BIDE_OP_RESUME : BIDE_OP_PAUSE, topic);
    if (op == NULL)
        return;
    op->topic.topic = (bide_slice){top->action.topic, strlen(topic)};
    op->topic.for_ms = BIDE_FOREVER;
    bi_top_prompt_confirm(top, on_confirm, paused ? "Resume %s?" : "Pause %s until it is resumed?",
                          topic);
}

void bi_top_action_purge(struct top *top, const char *topic, bide_state state)
{
    if (state == BIDE_STATE_RESERVED) {
        bi_top_prompt_note(top, STYLE_WARN, "Reserved jobs belong to whoever works on them.");
        return;
    }
    bide_op *op = stage_op(top, BIDE_OP_PURGE, topic);
    if (op == NULL)
        return;
    op->purge.topic = (bide_slice){top->action.topic, strlen(topic)};
    op->purge.state = state;
    bi_top_prompt_confirm(top, on_confirm, "Remove all %s jobs of %s for good?",
                          bide_state_name(state), topic);
}

void bi_top_action_job(struct top *top, bide_op_kind kind, uint64_t id)
{
    bide_op *op = stage_op(top, kind, NULL);
    if (op == NULL)
        return;
    if (kind == BIDE_OP_BURY)
        op->bury = (bide_bury_args){.id = id, .priority = BIDE_KEEP};
    else
        op->lease.id = id;
    snprintf(top->action.subject, sizeof(top->action.subject), "job %llu", (unsigned long long)id);
    bi_top_prompt_confirm(top, on_confirm,
                          kind == BIDE_OP_BURY     ? "Bury %s?"
                          : kind == BIDE_OP_DELETE ? "Delete %s for good?"
                                                   : "Make %s ready now?",
                          top->action.subject);
}
