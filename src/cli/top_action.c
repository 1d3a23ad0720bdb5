/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include "cli/print.h"

#include <stdlib.h>
#include <string.h>

/* ---- what became of it ---- */

/* What is said when it is done; a count stands before it where there is one. */
static const struct {
    bide_op_kind kind;
    bool counts;
    const char *done;
} sayings[] = {
    {BIDE_OP_KICK, true, "made ready"},    {BIDE_OP_PURGE, true, "removed"},
    {BIDE_OP_PAUSE, false, "is paused"},   {BIDE_OP_RESUME, false, "goes on"},
    {BIDE_OP_KICK_JOB, false, "is ready"}, {BIDE_OP_BURY, false, "is buried"},
    {BIDE_OP_DELETE, false, "is deleted"},
};

static uint64_t count_of(const bide_op *op)
{
    return op->kind == BIDE_OP_KICK ? op->kick.count : op->purge.count;
}

static void say_done(struct top *top, const bide_op *op)
{
    size_t i = 0;
    while (sayings[i].kind != op->kind)
        i++;
    if (!sayings[i].counts) {
        bi_top_note(top, LOOK_GOOD, "%s %s", top->action.subject, sayings[i].done);
        return;
    }
    char number[32];
    bi_print_number(number, count_of(op));
    bi_top_note(top, LOOK_GOOD, "%s: %s job%s %s", top->action.subject, number,
                count_of(op) == 1 ? "" : "s", sayings[i].done);
}

/* Most sentences name the job or topic themselves. */
static void say_refused(struct top *top, const struct ask *ask)
{
    const char *sentence = bi_ask_sentence(ask), *subject = top->action.subject;
    const char *how = ask->op.status > 0 ? "Refused" : "Failed";
    if (strstr(sentence, subject) != NULL)
        bi_top_note(top, LOOK_BAD, "%s: %s", how, sentence);
    else
        bi_top_note(top, LOOK_BAD, "%s: %s: %s", how, subject, sentence);
}

static void heard(struct ask *ask)
{
    struct top *top = ask->top;
    if (ask->op.status == BIDE_OK)
        say_done(top, &ask->op);
    else
        say_refused(top, ask);
    top->detail.gone = false;
    bi_sampler_hurry(top);
    if (top->frozen && top->view->refresh != NULL)
        top->view->refresh(top);
}

/* ---- asking whether it is meant ---- */

/* A kick takes the delayed jobs of a topic that has no buried ones, and other clients change that while the
 * question is on the screen: so it is looked at again. */
static void looked_again(struct ask *ask)
{
    struct top *top = ask->top;
    struct action *action = &top->action;
    uint64_t buried = action->stats.jobs.buried;
    uint64_t there = action->kicked == BIDE_STATE_BURIED ? buried
                     : buried == 0                       ? action->stats.jobs.delayed
                                                         : 0;
    if (ask->op.status != BIDE_OK && ask->op.status != BIDE_NOT_FOUND) {
        heard(ask);
        return;
    }
    if (there == 0 || ask->op.status == BIDE_NOT_FOUND) {
        bi_top_note(top, LOOK_WARN, "%s has changed since you were asked; nothing was done.",
                    action->subject);
        bi_sampler_hurry(top);
        return;
    }
    ask->op = action->wish;
    if (ask->op.kick.max > there)
        ask->op.kick.max = there;
    bi_ask_send(ask, top, heard);
}

static void confirmed(struct top *top, bool yes)
{
    struct action *action = &top->action;
    if (!yes) {
        bi_top_note(top, LOOK_PLAIN, "Nothing was done.");
        return;
    }
    bi_top_note(top, LOOK_PLAIN, "%s: asked; there is no answer yet", action->subject);
    action->ask.op = action->wish;
    if (action->wish.kind != BIDE_OP_KICK) {
        bi_ask_send(&action->ask, top, heard);
        return;
    }
    action->ask.op = (bide_op){.kind = BIDE_OP_TOPIC_STATS};
    action->ask.op.topic_stats =
        (bide_topic_stats_args){.topic = action->wish.kick.topic, .stats = &action->stats};
    bi_ask_send(&action->ask, top, looked_again);
}

/* One at a time: NULL, and says so, while an answer is awaited. */
static bide_op *wish(struct top *top, bide_op_kind kind, const char *topic)
{
    struct action *action = &top->action;
    if (action->ask.pending) {
        bi_top_note(top, LOOK_WARN, "%s: still waiting for the answer", action->subject);
        return NULL;
    }
    action->wish = (bide_op){.kind = kind};
    if (topic != NULL) {
        memmove(action->topic, topic, strlen(topic) + 1);
        snprintf(action->subject, sizeof(action->subject), "%s", topic);
    }
    return &action->wish;
}

/* How many, and of which kind, before anything is asked of the queue. */
static void confirm_kick(struct top *top, uint64_t count)
{
    const struct action *action = &top->action;
    char number[32], there[32];

    bi_print_number(number, count);
    bi_print_number(there, action->there);
    if (action->kicked == BIDE_STATE_BURIED)
        bi_prompt_confirm(top, confirmed, "Make %s of the %s buried job%s of %s ready?", number,
                          there, action->there == 1 ? "" : "s", action->topic);
    else
        bi_prompt_confirm(top, confirmed,
                          "None of %s is buried. Make %s of its %s delayed job%s ready now?",
                          action->topic, number, there, action->there == 1 ? "" : "s");
}

static void numbered(struct top *top, bool yes)
{
    struct action *action = &top->action;
    const char *input = top->prompt.input;
    uint64_t count = input[0] == 0 ? action->there : strtoull(input, NULL, 10);

    /* No more than were there when it was asked: the op goes on with delayed jobs when no buried ones
     * are left. */
    if (count > action->there)
        count = action->there;
    action->wish.kick.max = count;
    if (!yes || count == 0)
        confirmed(top, false);
    else
        confirm_kick(top, count);
}

void bi_action_kick(struct top *top, const char *topic)
{
    const struct top_topic *known = bi_top_model_find(&top->model, topic);
    uint64_t buried = known == NULL ? 0 : known->now.jobs.buried;
    uint64_t delayed = known == NULL ? 0 : known->now.jobs.delayed;
    char there[32];

    if (buried == 0 && delayed == 0) {
        bi_top_note(top, LOOK_PLAIN, "%s has no buried and no delayed jobs.", topic);
        return;
    }
    bide_op *op = wish(top, BIDE_OP_KICK, topic);
    if (op == NULL)
        return;
    op->kick.topic = (bide_slice){top->action.topic, strlen(topic)};
    top->action.kicked = buried > 0 ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
    top->action.there = buried > 0 ? buried : delayed;
    bi_print_number(there, top->action.there);
    bi_prompt_number(top, numbered, "Kick how many of %s %s jobs of %s? (Enter: all, Esc: none)",
                     there, bide_state_name(top->action.kicked), topic);
}

void bi_action_pause(struct top *top, const char *topic)
{
    const struct top_topic *known = bi_top_model_find(&top->model, topic);
    bool paused = known != NULL && known->now.paused;
    bide_op *op = wish(top, paused ? BIDE_OP_RESUME : BIDE_OP_PAUSE, topic);
    if (op == NULL)
        return;
    op->topic.topic = (bide_slice){top->action.topic, strlen(topic)};
    op->topic.for_ms = BIDE_FOREVER;
    bi_prompt_confirm(top, confirmed, paused ? "Resume %s?" : "Pause %s until it is resumed?",
                      topic);
}

void bi_action_purge(struct top *top, const char *topic, bide_state state)
{
    if (state == BIDE_STATE_RESERVED) {
        bi_top_note(top, LOOK_WARN, "Reserved jobs belong to whoever works on them.");
        return;
    }
    bide_op *op = wish(top, BIDE_OP_PURGE, topic);
    if (op == NULL)
        return;
    op->purge.topic = (bide_slice){top->action.topic, strlen(topic)};
    op->purge.state = state;
    bi_prompt_confirm(top, confirmed, "Remove all %s jobs of %s for good?", bide_state_name(state),
                      topic);
}

void bi_action_job(struct top *top, bide_op_kind kind, uint64_t id)
{
    bide_op *op = wish(top, kind, NULL);
    if (op == NULL)
        return;
    if (kind == BIDE_OP_BURY)
        op->bury = (bide_bury_args){.id = id, .priority = BIDE_KEEP};
    else
        op->lease.id = id;
    snprintf(top->action.subject, sizeof(top->action.subject), "job %llu", (unsigned long long)id);
    bi_prompt_confirm(top, confirmed,
                      kind == BIDE_OP_BURY     ? "Bury %s?"
                      : kind == BIDE_OP_DELETE ? "Delete %s for good?"
                                               : "Make %s ready now?",
                      top->action.subject);
}
