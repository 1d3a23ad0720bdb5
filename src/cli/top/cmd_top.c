/* SPDX-License-Identifier: MIT */
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/top/top.h"
#include "cli/verb.h"
#include "util/clock.h"

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
#define WAKE_INTERVAL_MS  1000 /* the time that nobody answers is counted in seconds */

static int64_t interval_ms = 1000;
static const char *sort, *filter;

static const struct flag flags[] = {
    BI_FLAG_DURATION('i', "interval", &interval_ms, "refresh so often (1s)"),
    BI_FLAG_STRING('s', "sort", "COLUMN", &sort, "sort by ready, buried, out, age ..."),
    BI_FLAG_STRING('f', "filter", "TEXT", &filter, "only topics with this in their names"),
    BI_FLAGS_END,
};

/* ---- before the terminal is taken ---- */

static enum top_column sort_column(void)
{
    return sort == NULL ? TOP_READY : bi_top_column_find(sort);
}

static int check(struct cli *cli)
{
    if (interval_ms < INTERVAL_MIN_MS || interval_ms > INTERVAL_MAX_MS)
        return bi_cli_usage_error(cli, "--interval is from 100ms to 1h");
    if (sort_column() >= BI_TOP_SORTABLE)
        return bi_cli_usage_error(
            cli,
            "--sort: \"%.60s\" is no column; there are name, ready, reserved, "
            "delayed, buried, done, in, out, age and waiting",
            sort);
    if (filter != NULL && strlen(filter) >= sizeof((struct top_order){0}.filter))
        return bi_cli_usage_error(cli, "--filter: the text is too long");
    if (cli->json || !cli->out_terminal || isatty(STDIN_FILENO) != 1)
        return bi_cli_usage_error(cli,
                                  "this is a view for a terminal; for programs there are \"bide "
                                  "topics --json\" and \"bide stats --json\"");
    return bi_top_screen_check(cli);
}

static void check_capabilities(struct top *top)
{
    uint32_t capabilities = bide_capabilities(top->queue);
    top->plain = (capabilities & BIDE_CAN_ALL_OPS) == 0;
    if ((capabilities & BIDE_CAN_SHARE) == 0)
        bi_top_prompt_note(top, STYLE_WARN,
                           "Meanwhile nobody else can use this queue: it belongs to this process.");
}

static void init_top(struct top *top, const struct cli *cli)
{
    top->cli = cli;
    top->queue = cli->queue;
    top->view = &bi_top_view_topics;
    top->needs_redraw = true;
    top->interval_ms = interval_ms;
    top->order.by = sort_column();
    if (filter != NULL)
        memcpy(top->order.filter, filter, strlen(filter) + 1);
    check_capabilities(top);
}

/* ---- the loop ---- */

static int poll_timeout_ms(const struct top *top, int64_t now_us)
{
    int64_t due_us = bi_top_sampler_next_deadline(top);

    /* A moment that is past, such as that of a server that has been silent for long, wakes no timer. */
    if (due_us <= now_us && bi_top_sampler_waiting_since(&top->sampler) != 0)
        due_us = INT64_MAX;
    if (top->note[0] != 0 && top->note_expires_us < due_us)
        due_us = top->note_expires_us;
    int64_t left_us = due_us - now_us;
    if (left_us > WAKE_INTERVAL_MS * INT64_C(1000))
        return WAKE_INTERVAL_MS;
    return left_us <= 0 ? 0 : (int)(left_us / 1000) + 1;
}

/* A note has been read, or will not be. */
static void expire_note(struct top *top, int64_t now_us)
{
    if (top->note[0] == 0 || now_us < top->note_expires_us)
        return;
    if (top->action.request.pending) {
        top->note_expires_us = now_us + BI_TOP_NOTE_US; /* until there is an answer */
        return;
    }
    top->note[0] = 0;
    top->needs_redraw = true;
}

static void read_keys(struct top *top)
{
    for (int key; !top->quit && (key = bi_top_screen_read_key(&top->screen)) != TOP_KEY_NONE;)
        bi_top_window_handle_key(top, key);
}

/* The terminal has gone, and no signal said so. */
static bool is_hung_up(const struct pollfd *keyboard)
{
    return (keyboard->revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
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
        if (top->needs_redraw || bi_top_sampler_waiting_since(&top->sampler) != 0 ||
            top->sampler.failing_since_us != 0)
            bi_top_window_draw(top);
        if (poll(fds, 3, top->needs_redraw ? 0 : poll_timeout_ms(top, bi_clock_boot())) < 0 &&
            errno != EINTR)
            return BI_EXIT_FAILED;
        if (bi_interrupted())
            return bi_interrupt_exit();
        if (is_hung_up(&fds[0]))
            return 128 + SIGHUP;
        read_keys(top);
        bide_cq_drain(top->cq, 0);
    }
    return BI_EXIT_OK;
}

/* ---- the end ---- */

static void cancel_queries(struct top *top)
{
    struct top_request *const queries[] = {
        &top->sampler.stats_request, &top->sampler.topics_request, &top->sampler.ping_request,
        &top->listing.request,       &top->detail.job_request,     &top->detail.body_request};
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
        bi_top_request_cancel(queries[i]);
    for (size_t i = 0; i < BI_TOP_EXCERPT_FETCHES; i++)
        bi_top_request_cancel(&top->excerpts.requests[i]);
}

/* Has the queue said all that it was asked? A server that is silent is not waited for, but for some
 * seconds if it was asked to change something: that may take another call, which needs the queue. */
static bool drain_requests(struct top *top)
{
    int64_t began = bi_clock_boot();
    bool shared = (bide_capabilities(top->queue) & BIDE_CAN_SHARE) != 0;
    cancel_queries(top);
    while (top->pending > 0 && !bi_interrupted() &&
           bi_clock_boot() - began <
               (top->action.request.pending ? ACTION_TIMEOUT_US : DRAIN_TIMEOUT_US))
        bide_cq_wait(top->cq, DRAIN_TIMEOUT_US / 1000);
    return top->pending == 0 || top->action.request.pending || !shared;
}

static int close_queue(struct top *top, struct cli *cli)
{
    bi_interrupt_stop();
    int exit = bi_connect_close(cli, cli->queue, cli->shown, BI_EXIT_OK);
    cli->queue = top->queue = NULL;
    bide_cq_drain(top->cq, 0);
    bide_cq_free(top->cq);
    return exit;
}

/* Still in use when the process ends, and so no leak. */
static struct top *volatile abandoned_top;

/* Leaves a silent server to the end of the process, and with it the room for its answers. */
static int abandon(struct top *top, struct cli *cli)
{
    abandoned_top = top;
    bi_interrupt_stop();
    cli->queue = NULL;
    return BI_EXIT_OK;
}

static void free_top(struct top *top)
{
    bi_top_sampler_free(&top->sampler);
    bi_top_listing_free(&top->listing);
    bi_top_detail_free(&top->detail);
    bi_top_model_free(&top->model);
    free(top->order.list);
    free(top);
}

/* Closes the queue, and frees what there is. */
static int shut_down(struct top *top, struct cli *cli)
{
    bool action_pending = top->action.request.pending;
    top->quit = true;
    if (action_pending)
        bi_cli_note(cli, "waiting for the answer about %s", top->action.subject);
    bool drained = drain_requests(top);
    int exit = drained ? close_queue(top, cli) : abandon(top, cli);
    if (action_pending)
        bi_cli_note(cli, "%s", top->note);
    if (drained)
        free_top(top);
    return exit;
}

static int run(struct cli *cli)
{
    struct top *top = calloc(1, sizeof(*top));
    if (top == NULL || !bi_top_listing_init(&top->listing) || bide_cq_new(&top->cq) != BIDE_OK) {
        if (top != NULL)
            free_top(top);
        return bi_cli_error(cli, BI_EXIT_FAILED, "there is not enough memory");
    }
    init_top(top, cli);
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit == BI_EXIT_OK)
        exit = bi_top_screen_open(&top->screen, cli);
    if (exit == BI_EXIT_OK)
        exit = loop(top);
    bi_top_screen_close();
    int close_exit = shut_down(top, cli);
    return exit == BI_EXIT_OK ? close_exit : exit;
}

const struct verb bi_verb_top = {
    .name = "top",
    .group = BI_GROUP_QUERY,
    .usage = "",
    .summary = "watch the queue: topics, rates, jobs, live",
    .details = "A view of the whole terminal that refreshes itself. Enter looks into a topic,\n"
               "and then at a job; ? says what the other keys do: sort, filter, kick, pause,\n"
               "purge, bury, delete, each of which asks first; q goes back, and quits. Jobs\n"
               "are in the order of \"bide list\", which is not that in which they are taken.\n"
               "\n"
               "  bide top\n"
               "  bide top --interval 5s --sort buried\n"
               "  bide top --url beanstalk://queue.example.org:11300 --filter mail\n",
    .flags = flags,
    .check = check,
    .run = run,
};
