/* SPDX-License-Identifier: MIT */
#include "cli/connect.h"
#include "cli/top/top.h"
#include "cli/verb.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_MIN_MS   100
#define INTERVAL_MAX_MS   3600000
#define DRAIN_TIMEOUT_US  INT64_C(200000)
#define ACTION_TIMEOUT_US INT64_C(5000000)
#define WAKE_INTERVAL_MS  1000 /* the time without an answer is shown in seconds */

static int64_t interval_ms = 1000;
static const char *sort, *filter;

static const struct flag flags[] = {
    BI_FLAG_DURATION('i', "interval", &interval_ms, "time between refreshes (default: 1s)"),
    BI_FLAG_STRING('s', "sort", "COLUMN", &sort, "sort by ready (default), buried, out, age, ..."),
    BI_FLAG_STRING('f', "filter", "TEXT", &filter, "only topics whose name contains TEXT"),
    BI_FLAGS_END,
};

#ifndef BIDE_WITH_NCURSES

static int check(struct cli *cli)
{
    return bi_cli_error(cli, BI_EXIT_FAILED,
                        "built without ncurses, which \"bide top\" needs; \"bide topics\" and "
                        "\"bide stats\" print the same figures once");
}

static int run(struct cli *cli)
{
    return check(cli);
}

#else

/* ---- before the terminal is opened ---- */

static enum top_column sort_column(void)
{
    return sort == NULL ? TOP_READY : bi_top_column_find(sort);
}

static int check(struct cli *cli)
{
    if (interval_ms < INTERVAL_MIN_MS || interval_ms > INTERVAL_MAX_MS)
        return bi_cli_usage_error(cli, "--interval must be from 100ms to 1h");
    if (sort_column() >= BI_TOP_SORTABLE)
        return bi_cli_usage_error(
            cli,
            "--sort: unknown column \"%.60s\" (name, ready, reserved, delayed, "
            "buried, done, in, out, age or waiting)",
            sort);
    if (filter != NULL && strlen(filter) >= sizeof((struct top_order){0}.filter))
        return bi_cli_usage_error(cli, "--filter: the text is too long");
    if (cli->json || !cli->out_terminal || isatty(STDIN_FILENO) != 1)
        return bi_cli_usage_error(cli, "this is a view for a terminal; scripts use \"bide topics "
                                       "--json\" and \"bide stats --json\"");
    return BI_EXIT_OK;
}

static void init_top(struct top *top, const struct cli *cli)
{
    uint32_t capabilities = bide_capabilities(cli->queue);

    top->cli = cli;
    top->queue = cli->queue;
    top->view = &bi_top_topics;
    top->needs_redraw = true;
    top->interval_ms = interval_ms;
    top->order.by = sort_column();
    if (filter != NULL)
        memcpy(top->order.filter, filter, strlen(filter) + 1);
    top->plain = (capabilities & BIDE_CAN_ALL_OPS) == 0;
    if ((capabilities & BIDE_CAN_SHARE) == 0)
        bi_top_window_note(top, STYLE_WARN,
                           "This process has the queue open: no other process can use it.");
}

/* ---- requests ---- */

static void on_complete(bide_op *op)
{
    struct top_request *request = op->user;

    assert(request->pending && request->top->pending > 0);
    request->pending = false;
    request->top->pending--;
    request->on_done(request);
}

void bi_top_request_send(struct top_request *request, struct top *top,
                         void (*on_done)(struct top_request *request))
{
    bide_op *list[] = {&request->op};
    /* While quitting only the action continues: a kick takes a second request. */
    bool closed = top->queue == NULL || (top->quit && request != &top->action.request);

    assert(!request->pending);
    request->top = top;
    request->on_done = on_done;
    request->op.cq = top->cq;
    request->op.done = on_complete;
    request->op.user = request;
    int pending = closed ? BIDE_CLOSED : bide_submit(top->queue, list, 1);
    if (closed || pending < 0) {
        request->op.status = pending;
        snprintf(request->op.error, sizeof(request->op.error), "%s", bide_code_text(pending));
    } else if (pending > 0) {
        request->pending = true;
        top->pending++;
        return;
    }
    on_done(request);
}

const char *bi_top_request_error(const struct top_request *request)
{
    const char *name = bide_op_name(request->op.kind), *text = request->op.error;
    size_t size = strlen(name);

    if (text[0] == 0)
        return bide_code_text(request->op.status);
    /* The prefix with the name of the call ("kick: ") is noise here. */
    return strncmp(text, name, size) == 0 && strncmp(text + size, ": ", 2) == 0 ? text + size + 2
                                                                                : text;
}

/* ---- the loop ---- */

static int poll_timeout_ms(const struct top *top)
{
    int64_t now_us = bi_clock_boot(), due_us = bi_top_sampler_next_deadline(top);

    if (top->needs_redraw)
        return 0;
    /* The reply timeout of a silent server is in the past: it must not turn into a busy loop. */
    if (due_us <= now_us && bi_top_sampler_waiting_since(&top->sampler) != 0)
        due_us = INT64_MAX;
    if (top->note[0] != 0 && top->note_expires_us < due_us)
        due_us = top->note_expires_us;
    int64_t left_us = due_us - now_us;
    if (left_us > WAKE_INTERVAL_MS * INT64_C(1000))
        return WAKE_INTERVAL_MS;
    return left_us <= 0 ? 0 : (int)(left_us / 1000) + 1;
}

static void expire_note(struct top *top, int64_t now_us)
{
    if (top->note[0] == 0 || now_us < top->note_expires_us)
        return;
    if (top->action.request.pending) {
        top->note_expires_us = now_us + BI_TOP_NOTE_US; /* it says what is waited for */
        return;
    }
    top->note[0] = 0;
    top->needs_redraw = true;
}

static int loop(struct top *top)
{
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = bide_cq_fd(top->cq), .events = POLLIN},
        {.fd = bi_interrupt_fd(), .events = POLLIN},
    };

    while (!top->quit) {
        bi_top_sampler_tick(top, bi_clock_boot());
        expire_note(top, bi_clock_boot());
        /* While a reply is outstanding the time without an answer is counted on the screen. */
        if (top->needs_redraw || bi_top_sampler_waiting_since(&top->sampler) != 0 ||
            top->sampler.failing_since_us != 0)
            bi_top_window_draw(top);

        if (poll(fds, 3, poll_timeout_ms(top)) < 0 && errno != EINTR)
            return bi_cli_error(top->cli, BI_EXIT_FAILED, "poll: %s", strerror(errno));
        if (bi_interrupted())
            return bi_interrupt_exit();
        /* The terminal is gone, and there was no SIGHUP. */
        if ((fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
            return 128 + SIGHUP;

        /* All keys before the replies: a key must not act on a list that has just changed. */
        for (int key; !top->quit && (key = bi_top_screen_read_key(&top->screen)) != TOP_KEY_NONE;)
            bi_top_window_handle_key(top, key);
        bide_cq_drain(top->cq, 0);
    }
    return BI_EXIT_OK;
}

/* ---- shutdown ---- */

/* Replies that arrive soon are waited for, and that of an action longer, because its second request
 * needs the queue. False: replies of a silent server are still outstanding. */
static bool drain_requests(struct top *top)
{
    int64_t started_us = bi_clock_boot();

    assert(top->quit); /* no request but the action's is sent any more */
    /* on_complete() counts `pending` down from within bide_cq_wait(). */
    while (top->pending > 0 && !bi_interrupted() &&
           bi_clock_boot() - started_us <
               (top->action.request.pending ? ACTION_TIMEOUT_US : DRAIN_TIMEOUT_US))
        bide_cq_wait(top->cq, DRAIN_TIMEOUT_US / 1000);
    return top->pending == 0 || top->action.request.pending ||
           (bide_capabilities(top->queue) & BIDE_CAN_SHARE) == 0;
}

static void free_top(struct top *top)
{
    free(top->sampler.topics);
    bi_top_job_free(&top->detail);
    bi_worker_list_clear(&top->workers.list);
    bi_worker_list_clear(&top->workers.incoming);
    bi_top_model_free(&top->model);
    free(top->order.list);
    free(top);
}

static struct top *volatile abandoned_top; /* reachable, so no leak is reported */

/* Closes the queue and frees everything. A silent server is left to the end of the process, and the
 * memory that its replies would be written to with it. */
static int shut_down(struct top *top, struct cli *cli)
{
    bool action_pending = top->action.request.pending;
    int exit = BI_EXIT_OK;

    top->quit = true;
    if (action_pending)
        bi_cli_note(cli, "waiting for the reply about %s", top->action.subject);
    bool drained = drain_requests(top);

    bi_interrupt_stop();
    if (drained) {
        exit = bi_connect_close(cli, cli->queue, cli->shown, BI_EXIT_OK);
        /* Closing completes the remaining requests; their handlers must not send again. */
        top->queue = NULL;
        bide_cq_drain(top->cq, 0);
        bide_cq_free(top->cq);
    } else {
        abandoned_top = top;
    }
    cli->queue = NULL;

    if (action_pending)
        bi_cli_note(cli, "%s", top->note);
    if (drained)
        free_top(top);
    return exit;
}

static int run(struct cli *cli)
{
    struct top *top = calloc(1, sizeof(*top));

    if (top == NULL || bide_cq_new(&top->cq) != BIDE_OK) {
        free(top);
        return bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    }
    init_top(top, cli);
    int exit = bi_top_screen_open(&top->screen, cli);
    if (exit == BI_EXIT_OK)
        exit = loop(top);
    bi_top_screen_close();
    int close_exit = shut_down(top, cli);
    return exit == BI_EXIT_OK ? close_exit : exit;
}

#endif

const struct verb bi_verb_top = {
    .name = "top",
    .usage = "",
    .summary = "live view of the queue: topics, rates, jobs, workers",
    .flags = flags,
    .traits = BI_VERB_INTERRUPT,
    .check = check,
    .run = run,
};
