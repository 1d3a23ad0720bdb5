/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/reach.h"
#include "cli/top.h"
#include "cli/verb.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_LEAST_MS 100
#define INTERVAL_MOST_MS  3600000
#define SETTLE_US         INT64_C(200000)
#define ACTION_US         INT64_C(5000000)
#define WAKE_MS           1000 /* the time that nobody answers is counted in seconds */

static int64_t interval_ms = 1000;
static const char *sort, *filter;

static const struct flag flags[] = {
    BI_FLAG_DURATION('i', "interval", &interval_ms, "refresh so often (1s)"),
    BI_FLAG_TEXT('s', "sort", "COLUMN", &sort, "sort by ready, buried, out, age ..."),
    BI_FLAG_TEXT('f', "filter", "TEXT", &filter, "only topics with this in their names"),
    BI_FLAGS_END,
};

/* ---- before the terminal is taken ---- */

static enum top_column sort_column(void)
{
    return sort == NULL ? TOP_READY : bi_top_column_find(sort);
}

static int check(struct cli *cli)
{
    if (interval_ms < INTERVAL_LEAST_MS || interval_ms > INTERVAL_MOST_MS)
        return bi_cli_misused(cli, "--interval is from 100ms to 1h");
    if (sort_column() >= BI_TOP_SORTABLE)
        return bi_cli_misused(cli,
                              "--sort: \"%.60s\" is no column; there are name, ready, reserved, "
                              "delayed, buried, done, in, out, age and waiting",
                              sort);
    if (filter != NULL && strlen(filter) >= sizeof((struct top_order){0}.filter))
        return bi_cli_misused(cli, "--filter: the text is too long");
    if (cli->json || !cli->out_terminal || isatty(STDIN_FILENO) != 1)
        return bi_cli_misused(cli, "this is a view for a terminal; for programs there are \"bide "
                                   "topics --json\" and \"bide stats --json\"");
    return bi_screen_check(cli);
}

static void greet(struct top *top)
{
    uint32_t able = bide_capabilities(top->queue);
    top->plain = (able & BIDE_CAN_ALL_OPS) == 0;
    if ((able & BIDE_CAN_SHARE) == 0)
        bi_top_note(top, LOOK_WARN,
                    "Meanwhile nobody else can use this queue: it belongs to this process.");
}

static void set_up(struct top *top, const struct cli *cli)
{
    top->cli = cli;
    top->queue = cli->queue;
    top->view = &bi_view_topics;
    top->changed = true;
    top->interval_ms = interval_ms;
    top->order.by = sort_column();
    if (filter != NULL)
        memcpy(top->order.filter, filter, strlen(filter) + 1);
    greet(top);
}

/* ---- the loop ---- */

static int wait_ms(const struct top *top, int64_t now_us)
{
    int64_t due_us = bi_sampler_due(top);

    /* A moment that is past, such as that of a server that has been silent for long, wakes no timer. */
    if (due_us <= now_us && bi_sampler_asked(&top->sampler) != 0)
        due_us = INT64_MAX;
    if (top->note[0] != 0 && top->note_until_us < due_us)
        due_us = top->note_until_us;
    int64_t left_us = due_us - now_us;
    if (left_us > WAKE_MS * INT64_C(1000))
        return WAKE_MS;
    return left_us <= 0 ? 0 : (int)(left_us / 1000) + 1;
}

/* A note has been read, or will not be. */
static void end_note(struct top *top, int64_t now_us)
{
    if (top->note[0] == 0 || now_us < top->note_until_us)
        return;
    if (top->action.ask.pending) {
        top->note_until_us = now_us + BI_TOP_NOTE_US; /* until there is an answer */
        return;
    }
    top->note[0] = 0;
    top->changed = true;
}

static void take_keys(struct top *top)
{
    for (int key; !top->over && (key = bi_screen_key(&top->screen)) != TOP_KEY_NONE;)
        bi_top_key(top, key);
}

/* The terminal has gone, and no signal said so. */
static bool hung_up(const struct pollfd *keyboard)
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
    while (!top->over) {
        bi_sampler_tick(top, bi_clock_boot());
        end_note(top, bi_clock_boot());
        if (top->changed || bi_sampler_asked(&top->sampler) != 0 || top->sampler.failing_us != 0)
            bi_top_draw(top);
        if (poll(fds, 3, top->changed ? 0 : wait_ms(top, bi_clock_boot())) < 0 && errno != EINTR)
            return BI_EXIT_FAILED;
        if (bi_interrupted())
            return bi_interrupt_exit();
        if (hung_up(&fds[0]))
            return 128 + SIGHUP;
        take_keys(top);
        bide_cq_drain(top->cq, 0);
    }
    return BI_EXIT_OK;
}

/* ---- the end ---- */

static void cancel_looks(struct top *top)
{
    struct ask *const looks[] = {&top->sampler.stats_ask, &top->sampler.topics_ask,
                                 &top->sampler.pulse_ask, &top->listing.ask,
                                 &top->detail.job_ask,    &top->detail.body_ask};
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        bi_ask_cancel(looks[i]);
    for (size_t i = 0; i < BI_EXCERPT_FETCHES; i++)
        bi_ask_cancel(&top->excerpts.asks[i]);
}

/* Has the queue said all that it was asked? A server that is silent is not waited for, but for some
 * seconds if it was asked to change something: that may take another call, which needs the queue. */
static bool settled(struct top *top)
{
    int64_t began = bi_clock_boot();
    bool shared = (bide_capabilities(top->queue) & BIDE_CAN_SHARE) != 0;
    cancel_looks(top);
    while (top->pending > 0 && !bi_interrupted() &&
           bi_clock_boot() - began < (top->action.ask.pending ? ACTION_US : SETTLE_US))
        bide_cq_wait(top->cq, SETTLE_US / 1000);
    return top->pending == 0 || top->action.ask.pending || !shared;
}

static int close_queue(struct top *top, struct cli *cli)
{
    bi_interrupt_forget();
    int exit = bi_reach_close(cli, cli->queue, cli->shown, BI_EXIT_OK);
    cli->queue = top->queue = NULL;
    bide_cq_drain(top->cq, 0);
    bide_cq_free(top->cq);
    return exit;
}

/* Still in use when the process ends, and so no leak. */
static struct top *volatile left_behind;

/* Leaves a silent server to the end of the process, and with it the room for its answers. */
static int abandon(struct top *top, struct cli *cli)
{
    left_behind = top;
    bi_interrupt_forget();
    cli->queue = NULL;
    return BI_EXIT_OK;
}

static void free_top(struct top *top)
{
    bi_sampler_free(&top->sampler);
    bi_listing_free(&top->listing);
    bi_detail_free(&top->detail);
    bi_top_model_free(&top->model);
    free(top->order.list);
    free(top);
}

/* Closes the queue, and frees what there is. */
static int leave(struct top *top, struct cli *cli)
{
    bool awaited = top->action.ask.pending;
    top->over = true;
    if (awaited)
        bi_cli_note(cli, "waiting for the answer about %s", top->action.subject);
    bool all = settled(top);
    int exit = all ? close_queue(top, cli) : abandon(top, cli);
    if (awaited)
        bi_cli_note(cli, "%s", top->note);
    if (all)
        free_top(top);
    return exit;
}

static int run(struct cli *cli)
{
    struct top *top = calloc(1, sizeof(*top));
    if (top == NULL || !bi_listing_init(&top->listing) || bide_cq_new(&top->cq) != BIDE_OK) {
        if (top != NULL)
            free_top(top);
        return bi_cli_failed(cli, BI_EXIT_FAILED, "there is not enough memory");
    }
    set_up(top, cli);
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit == BI_EXIT_OK)
        exit = bi_screen_begin(&top->screen, cli);
    if (exit == BI_EXIT_OK)
        exit = loop(top);
    bi_screen_end();
    int left = leave(top, cli);
    return exit == BI_EXIT_OK ? left : exit;
}

const struct verb bi_verb_top = {
    .name = "top",
    .group = BI_GROUP_LOOK,
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
