/* SPDX-License-Identifier: MIT */
/*
 * top_action - the operations that change something. Each is staged, confirmed by the user, sent,
 * and reported in the bottom line; one at a time.
 */
#include "cli/top/top.h"

#include "cli/print.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One row per action: the question is "VERB SUBJECT SUFFIX?", the report "SUBJECT DONE", or
 * "SUBJECT: N jobs DONE" where the operation counts jobs. */
static const struct action_row {
    bide_op_kind kind;
    int key; /* of actions on one job */
    const char *verb, *suffix;
    const char *done;
    bool counts;
} rows[] = {
    {BIDE_OP_KICK, 0, "Kick", "", "made ready", true},
    {BIDE_OP_PURGE, 0, "Remove all", " for good", "removed", true},
    {BIDE_OP_PAUSE, 0, "Pause", " until it is resumed", "is paused", false},
    {BIDE_OP_RESUME, 0, "Resume", "", "is resumed", false},
    {BIDE_OP_KICK_JOB, 'n', "Make", " ready now", "is ready", false},
    {BIDE_OP_BURY, 'b', "Bury", "", "is buried", false},
    {BIDE_OP_DELETE, 'd', "Delete", " for good", "is deleted", false},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct action_row *row_of(bide_op_kind kind)
{
    size_t i = 0;

    while (i < ROWS && rows[i].kind != kind)
        i++;
    assert(i < ROWS);
    return &rows[i];
}

/* ---- the result ---- */

static void report_success(struct top *top, const bide_op *op)
{
    const struct action_row *row = row_of(op->kind);
    uint64_t count = op->kind == BIDE_OP_KICK ? op->kick.count : op->purge.count;

    if (row->counts)
        bi_top_window_note(top, STYLE_GOOD, "%s: %s %s", top->action.subject, bi_text_jobs(count).s,
                           row->done);
    else
        bi_top_window_note(top, STYLE_GOOD, "%s %s", top->action.subject, row->done);
}

static void on_done(struct top_request *request)
{
    struct top *top = request->top;
    const char *subject = top->action.subject;

    if (request->op.status == BIDE_OK) {
        report_success(top, &request->op);
    } else {
        /* Most messages name the job or topic themselves. */
        const char *error = bi_top_request_error(request);
        bool named = strstr(error, subject) != NULL;
        bi_top_window_note(top, STYLE_BAD, "%s: %s%s%s",
                           request->op.status > 0 ? "Refused" : "Failed", named ? "" : subject,
                           named ? "" : ": ", error);
    }

    top->detail.gone = false; /* read the job again */
    bi_top_sampler_sample_now(top);
    if (top->frozen && top->view->refresh != NULL)
        top->view->refresh(top);
}

/* A kick of a topic without buried jobs makes delayed ones ready. Other clients may have changed
 * the topic since the question was asked, so its figures are read again and the kick is limited to
 * what the user has seen. */
static void on_kick_stats(struct top_request *request)
{
    struct top *top = request->top;
    struct action *action = &top->action;
    const bide_counts *jobs = &action->stats.jobs;
    bool buried_only = action->kick_state == BIDE_STATE_BURIED;
    int status = request->op.status;

    if (status != BIDE_OK && status != BIDE_NOT_FOUND) {
        on_done(request);
        return;
    }
    uint64_t available = status == BIDE_NOT_FOUND ? 0
                         : buried_only            ? jobs->buried
                         : jobs->buried == 0      ? jobs->delayed
                                                  : 0;
    if (available == 0) {
        bi_top_window_note(top, STYLE_WARN,
                           "%s has changed since you were asked; nothing was done.",
                           action->subject);
        bi_top_sampler_sample_now(top);
        return;
    }

    request->op = action->staged_op;
    if (request->op.kick.max > available)
        request->op.kick.max = available;
    request->op.kick.buried_only = buried_only && !top->plain;
    bi_top_request_send(request, top, on_done);
}

/* ---- confirmation ---- */

static void on_confirm(struct top *top, bool yes)
{
    struct action *action = &top->action;

    assert(!action->request.pending); /* stage_op() rejects a second action */
    if (!yes) {
        bi_top_window_note(top, STYLE_PLAIN, "Nothing was done.");
        return;
    }
    bi_top_window_note(top, STYLE_PLAIN, "%s: sent, waiting for the reply", action->subject);
    if (action->staged_op.kind != BIDE_OP_KICK) {
        action->request.op = action->staged_op;
        bi_top_request_send(&action->request, top, on_done);
        return;
    }
    action->request.op = (bide_op){
        .kind = BIDE_OP_TOPIC_STATS,
        .topic_stats = {.topic = action->staged_op.kick.topic, .stats = &action->stats},
    };
    bi_top_request_send(&action->request, top, on_kick_stats);
}

/* The op to fill in; NULL, with a note, while another action waits for its reply. */
static bide_op *stage_op(struct top *top, bide_op_kind kind, const char *topic)
{
    struct action *action = &top->action;

    if (action->request.pending) {
        bi_top_window_note(top, STYLE_WARN, "%s: still waiting for the reply", action->subject);
        return NULL;
    }
    action->staged_op = (bide_op){.kind = kind};
    if (topic != NULL) {
        snprintf(action->topic, sizeof(action->topic), "%s", topic);
        snprintf(action->subject, sizeof(action->subject), "%s", topic);
    }
    return &action->staged_op;
}

static void ask(struct top *top, const char *object)
{
    const struct action_row *row = row_of(top->action.staged_op.kind);
    bi_top_window_ask(top, PROMPT_CONFIRM, on_confirm, "%s %s%s?", row->verb, object, row->suffix);
}

/* ---- the actions ---- */

static void on_kick_number(struct top *top, bool yes)
{
    struct action *action = &top->action;
    const char *input = top->prompt.input, *plural = action->available == 1 ? "" : "s";
    uint64_t count = input[0] == 0 ? action->available : strtoull(input, NULL, 10);

    /* A kick goes on with delayed jobs when no buried ones are left: never more than were shown. */
    if (count > action->available)
        count = action->available;
    action->staged_op.kick.max = count;
    if (!yes || count == 0) {
        on_confirm(top, false);
        return;
    }

    struct text number = bi_text_number(count), available = bi_text_number(action->available);
    if (action->kick_state == BIDE_STATE_BURIED)
        bi_top_window_ask(top, PROMPT_CONFIRM, on_confirm,
                          "Make %s of the %s buried job%s of %s ready?", number.s, available.s,
                          plural, action->topic);
    else
        bi_top_window_ask(top, PROMPT_CONFIRM, on_confirm,
                          "None of %s is buried. Make %s of its %s delayed job%s ready now?",
                          action->topic, number.s, available.s, plural);
}

void bi_top_action_kick(struct top *top, const char *topic)
{
    const struct top_topic *entry = bi_top_model_find(&top->model, topic);
    uint64_t buried = entry == NULL ? 0 : entry->now.jobs.buried;
    uint64_t delayed = entry == NULL ? 0 : entry->now.jobs.delayed;

    if (buried == 0 && delayed == 0) {
        bi_top_window_note(top, STYLE_PLAIN, "%s has no buried and no delayed jobs.", topic);
        return;
    }
    bide_op *op = stage_op(top, BIDE_OP_KICK, topic);
    if (op == NULL)
        return;
    op->kick.topic = (bide_slice){top->action.topic, strlen(topic)};
    top->action.kick_state = buried > 0 ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
    top->action.available = buried > 0 ? buried : delayed;
    bi_top_window_ask(top, PROMPT_NUMBER, on_kick_number,
                      "Kick how many of %s %s jobs of %s? (Enter: all, Esc: none)",
                      bi_text_number(top->action.available).s,
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
    ask(top, topic);
}

void bi_top_action_purge(struct top *top, const char *topic, bide_state state)
{
    char object[BIDE_TOPIC_MAX + 40];

    if (state == BIDE_STATE_RESERVED) {
        bi_top_window_note(top, STYLE_WARN,
                           "Reserved jobs cannot be purged: their workers hold a lease.");
        return;
    }
    bide_op *op = stage_op(top, BIDE_OP_PURGE, topic);
    if (op == NULL)
        return;
    op->purge.topic = (bide_slice){top->action.topic, strlen(topic)};
    op->purge.state = state;
    snprintf(object, sizeof(object), "%s jobs of %s", bide_state_name(state), topic);
    ask(top, object);
}

void bi_top_action_job_key(struct top *top, int key, uint64_t id)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].key == 0 || rows[i].key != key)
            continue;
        bide_op *op = stage_op(top, rows[i].kind, NULL);
        if (op == NULL)
            return;
        if (op->kind == BIDE_OP_BURY)
            op->bury = (bide_bury_args){.id = id, .priority = BIDE_KEEP};
        else
            op->lease.id = id;
        snprintf(top->action.subject, sizeof(top->action.subject), "job %llu",
                 (unsigned long long)id);
        ask(top, top->action.subject);
        return;
    }
}
