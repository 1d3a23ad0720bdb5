/* SPDX-License-Identifier: MIT */
#include "cli/connect.h"
#include "cli/move/move.h"
#include "cli/query.h"
#include "cli/verb.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOVE_TOPIC_PREFIX "bide-move"
#define RETRY_COUNT       50 /* how often to look until another move is believed to be running */
#define RETRY_DELAY_US    100000

static bool remove_copied;
static bool skip_reserved;
static bool lossy;

static const struct flag flags[] = {
    BI_FLAG_BOOL(0, "remove", &remove_copied,
                 "delete jobs from FROM once their copies are verified"),
    BI_FLAG_BOOL(0, "skip-reserved", &skip_reserved, "do not copy reserved jobs"),
    BI_FLAG_BOOL(0, "lossy", &lossy, "to a beanstalkd: drop attributes that it does not support"),
    BI_FLAGS_END,
};

/* ---- presence ---- */

/*
 * A mark at a queue that other clients can see and that ends with this process: a reserve that
 * waits for a job of a topic that never has one. As long as it waits, the topic exists and its
 * statistics show a waiting client; when the process ends, however it ends, the server drops the
 * reserve and the topic.
 */
struct presence {
    bide *queue;
    bide_cq *cq; /* NULL: not announced */
    bide_op op;
    bide_job job;
    char name[BI_JOB_SCAN_TOPIC_SIZE];
    bide_slice topic; /* name */
};

/* A beanstalkd has the topic before it counts the waiting client, so the topic alone is not
 * enough. */
static int wait_visible(struct presence *presence)
{
    for (;;) {
        bide_topic_stats stats;
        int code = bide_topic_get_stats(presence->queue, presence->name, &stats);
        bool is_visible = code == BIDE_OK && stats.waiting > 0;
        if (is_visible || (code != BIDE_OK && code != BIDE_NOT_FOUND))
            return code;
        if (presence->op.status != BIDE_PENDING)
            return presence->op.status;
        bide_cq_wait(presence->cq, 1);
    }
}

/* Announces a new topic with this prefix, and waits until other clients can see it. Returns a code
 * of the library, with bide_last_error(). The presence must not be moved; withdraw it also if this
 * fails. */
static int announce(struct presence *presence, bide *queue, const char *prefix)
{
    *presence = (struct presence){.queue = queue};
    bi_job_scan_make_topic(presence->name, prefix);
    presence->topic = (bide_slice){presence->name, strlen(presence->name)};

    int code = bide_cq_new(&presence->cq);
    if (code != BIDE_OK)
        return code;

    bide_op *list[] = {&presence->op};
    presence->op.kind = BIDE_OP_RESERVE;
    presence->op.cq = presence->cq;
    presence->op.reserve = (bide_reserve_args){
        .topics = &presence->topic,
        .topic_count = 1,
        .timeout_ms = BIDE_FOREVER,
        .jobs = &presence->job,
        .job_max = 1,
    };
    int pending = bide_submit(queue, list, 1);
    if (pending >= 0)
        return wait_visible(presence);

    /* A failed submit leaves the status as it was, and zero is BIDE_OK: withdraw would give a job
     * back. */
    presence->op.status = pending;
    return pending;
}

/* Accepts a zeroed presence. */
static void withdraw(struct presence *presence)
{
    if (presence->cq == NULL)
        return;

    if (presence->op.status == BIDE_PENDING)
        bide_cancel_op(presence->queue, &presence->op);
    while (presence->op.status == BIDE_PENDING)
        bide_cq_wait(presence->cq, BIDE_FOREVER);

    /* Another client has put a job into the topic, which is not ours to keep. */
    if (presence->op.status == BIDE_OK)
        bide_give_back(presence->queue, presence->job.id, presence->job.token);
    bide_job_clear(&presence->job);
    bide_cq_free(presence->cq);
    presence->cq = NULL;
}

/* ---- opening ---- */

static int check(struct cli *cli)
{
    const char *from = cli->words[0], *to = cli->words[1];

    if (cli->url != NULL)
        return bi_cli_usage_error(
            cli, "--url is not accepted; give both queues as arguments: bide move FROM TO");
    if (strncmp(from, "memory:", 7) == 0 || strncmp(to, "memory:", 7) == 0)
        return bi_cli_usage_error(cli, "a memory: queue exists only within this command; run bided "
                                       "--url memory: and give its address, beanstalk://HOST:PORT");
    if (strcmp(from, to) == 0)
        return bi_cli_usage_error(cli, "FROM and TO are the same");
    return BI_EXIT_OK;
}

static int open_one(struct cli *cli, const char *url, struct job_scan *scan, char *shown)
{
    bide *queue = NULL;

    bi_url_redact(shown, url);
    int exit = bi_connect_open_url(cli, url, &queue);
    return exit == BI_EXIT_OK ? bi_job_scan_open(scan, cli, queue) : exit;
}

/* Are both handles the same queue, whatever their URLs? A queue that is not shared has one process;
 * opening it twice has failed before. */
static int check_different(const struct mover *mover)
{
    struct presence presence;
    bide_topic_stats stats;
    uint32_t both = bide_capabilities(mover->from.queue) & bide_capabilities(mover->to.queue);
    if ((both & BIDE_CAN_SHARE) == 0)
        return BI_EXIT_OK;

    int code = announce(&presence, mover->to.queue, BI_JOB_SCAN_PROBE_PREFIX);
    if (code == BIDE_OK)
        code = bide_topic_get_stats(mover->from.queue, presence.name, &stats);
    int exit = code == BIDE_NOT_FOUND ? BI_EXIT_OK : bi_cli_report_last(mover->cli, code);
    withdraw(&presence);
    if (code != BIDE_OK)
        return exit;
    return bi_cli_usage_error(mover->cli, "%.200s and %.200s are the same queue", mover->from_shown,
                              mover->to_shown);
}

/* ---- one move to a queue at a time ---- */

struct move_search {
    const char *own_topic;
    bool found; /* a client waits for the topic of another move */
};

static int check_waiting_topic(void *user, const bide_topic_stats *topic)
{
    struct move_search *search = user;

    if (strncmp(topic->name, MOVE_TOPIC_PREFIX, strlen(MOVE_TOPIC_PREFIX)) == 0 &&
        strcmp(topic->name, search->own_topic) != 0)
        search->found = true;
    return BI_EXIT_OK;
}

/* Two moves at a time would not see the copies of each other. Each announces itself before it looks
 * for others, so of two that begin at the same time at least one sees the other. A queue that is
 * not shared has one process anyway. */
static int check_exclusive(const struct mover *mover, struct presence *presence)
{
    bide *queue = mover->to.queue;
    if ((bide_capabilities(queue) & BIDE_CAN_SHARE) == 0)
        return BI_EXIT_OK;

    /* The server may not have noticed yet that the process of an earlier move was killed. */
    int exit = bi_cli_report_last(mover->cli, announce(presence, queue, MOVE_TOPIC_PREFIX "-"));
    for (int i = 0; exit == BI_EXIT_OK; i++) {
        struct move_search search = {.own_topic = presence->name};
        exit = bi_query_each_topic(mover->cli, queue, true, check_waiting_topic, &search);
        if (exit != BI_EXIT_OK || !search.found)
            return exit;
        if (i == RETRY_COUNT || bi_interrupted())
            break;
        usleep(RETRY_DELAY_US);
    }
    if (exit != BI_EXIT_OK)
        return exit;
    return bi_cli_error(mover->cli, BI_EXIT_REFUSED,
                        "another move to %.200s is running (a client waits for a topic that begins "
                        "with " MOVE_TOPIC_PREFIX "); try again when it has ended",
                        mover->to_shown);
}

/* ---- output ---- */

static int print_warnings(const struct mover *mover)
{
    bide_stats stats;
    int code = bide_queue_stats(mover->from.queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_report_last(mover->cli, code);

    bool one = stats.jobs.reserved == 1;
    if (stats.jobs.reserved > 0 && !mover->skip_reserved)
        bi_cli_note(mover->cli,
                    "%s job%s reserved in %s: a consumer works on %s, and the %s ready, to be "
                    "worked on again (--skip-reserved does not copy %s)",
                    bi_text_number(stats.jobs.reserved).s, one ? " is" : "s are", mover->from_shown,
                    one ? "it" : "them", one ? "copy will be" : "copies will be",
                    one ? "it" : "them");
    if (mover->to.plain)
        bi_cli_note(mover->cli, "%s is a beanstalkd: counters and ages begin anew there",
                    mover->to_shown);
    if (bi_move_is_inexact(mover))
        bi_cli_note(mover->cli,
                    "%s is a beanstalkd: --remove deletes only what the same run has copied",
                    mover->from.plain ? mover->from_shown : mover->to_shown);
    return BI_EXIT_OK;
}

static const struct {
    size_t offset;
    const char *name; /* in JSON */
    const char *text; /* NULL: reported elsewhere */
} counters[] = {
    {offsetof(struct mover, copied), "copied", "copied"},
    {offsetof(struct mover, present), "there", "there already"},
    {offsetof(struct mover, pauses), "pauses", NULL},
    {offsetof(struct mover, rejected), "refused", "rejected"},
    {offsetof(struct mover, reserved), "reserved", "skipped (reserved)"},
    {offsetof(struct mover, expired), "over", "skipped (expired, cancelled or retention ended)"},
    {offsetof(struct mover, verified), "verified", "verified"},
    {offsetof(struct mover, missing), "missing", "missing"},
    {offsetof(struct mover, removed), "removed", "removed"},
    {offsetof(struct mover, kept), "kept", "not removed (reserved or deleted meanwhile)"},
    {offsetof(struct mover, unproven), "unproven", NULL},
};

static uint64_t counter_of(const struct mover *mover, size_t index)
{
    return *(const uint64_t *)((const char *)mover + counters[index].offset);
}

/* The first counter is always printed, the others if they are not 0. */
static void print_counters(const struct mover *mover)
{
    char line[600] = "";
    size_t used = 0;

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        if (counters[i].text == NULL || (i > 0 && counter_of(mover, i) == 0))
            continue;
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %s", used == 0 ? "" : ", ",
                                 bi_text_number(counter_of(mover, i)).s, counters[i].text);
    }
    bi_cli_note(mover->cli, "jobs: %s", line);
}

static int print_summary(const struct mover *mover, int exit)
{
    print_counters(mover);
    if (mover->lookalikes > 0)
        bi_cli_note(mover->cli,
                    "%s of the copied jobs equal%s a job that was there, except for the creation "
                    "time; if a clock was set since an earlier move, %s there twice",
                    bi_text_number(mover->lookalikes).s, mover->lookalikes == 1 ? "s" : "",
                    mover->lookalikes == 1 ? "it is" : "they are");
    if (exit != BI_EXIT_OK && exit != BI_EXIT_PARTIAL)
        bi_cli_note(mover->cli, "the move is not complete; run the same command again to resume");
    else if (!mover->remove_copied && mover->verified > 0 && !bi_move_is_inexact(mover))
        bi_cli_note(mover->cli, "%s still has %s; --remove deletes %s", mover->from_shown,
                    mover->verified == 1 ? "this job" : "these jobs",
                    mover->verified == 1 ? "it" : "them");

    int printed = BI_EXIT_OK;
    if (mover->cli->json) {
        json_t *object = json_object();
        for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
            json_object_set_new(object, counters[i].name,
                                json_integer((json_int_t)counter_of(mover, i)));
        printed = bi_cli_print_json(mover->cli, object);
    }
    if (exit == BI_EXIT_OK &&
        (mover->from.unreadable > 0 || bi_connect_damage_count(mover->from.queue) > 0))
        exit = BI_EXIT_PARTIAL;
    return exit == BI_EXIT_OK ? printed : exit;
}

/* ---- running ---- */

static int open_both(struct mover *mover, struct presence *presence)
{
    struct cli *cli = mover->cli;
    int exit = bi_interrupt_watch(cli, NULL);

    /* TO is created if it does not exist, FROM is not; so FROM comes first. */
    if (exit == BI_EXIT_OK)
        exit = bi_connect_check_file(cli, cli->words[0]);
    if (exit == BI_EXIT_OK)
        exit = open_one(cli, cli->words[0], &mover->from, mover->from_shown);
    if (exit == BI_EXIT_OK)
        exit = open_one(cli, cli->words[1], &mover->to, mover->to_shown);
    if (exit == BI_EXIT_OK)
        exit = check_different(mover);
    if (exit == BI_EXIT_OK)
        exit = check_exclusive(mover, presence);
    return exit == BI_EXIT_OK ? print_warnings(mover) : exit;
}

static int run(struct cli *cli)
{
    struct mover mover = {
        .cli = cli, .skip_reserved = skip_reserved, .remove_copied = remove_copied};
    struct presence presence = {.cq = NULL};

    int exit = open_both(&mover, &presence);
    if (exit == BI_EXIT_OK) {
        mover.restore_target = (struct restore_target){.plain = mover.to.plain, .lossy = lossy};
        exit = print_summary(&mover, bi_move_run(&mover));
    }

    withdraw(&presence);
    bi_job_scan_close(&mover.to);
    exit = bi_connect_close(cli, mover.to.queue, mover.to_shown, exit);
    bi_job_scan_close(&mover.from);
    exit = bi_connect_close(cli, mover.from.queue, mover.from_shown, exit);
    free(mover.moved);
    return exit;
}

const struct verb bi_verb_move = {
    .name = "move",
    .usage = "FROM TO",
    .summary = "copy all jobs from one queue to another, and verify the copies",
    .flags = flags,
    .traits = BI_VERB_NO_QUEUE,
    .check = check,
    .run = run,
};
