/* SPDX-License-Identifier: MIT */
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/job_json.h"
#include "cli/move/move.h"
#include "cli/print.h"
#include "cli/queue_probe.h"
#include "cli/verb.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOVE_TOPIC_PREFIX "bide-move"
#define PAGE              100
#define RETRY_COUNT       50 /* steps, until somebody else is believed to be there */
#define RETRY_DELAY_US    100000

static bool remove_copied;
static bool skip_reserved;
static bool lossy;

static const struct flag flags[] = {
    BI_FLAG_BOOL(0, "remove", &remove_copied, "delete from FROM what was found in TO afterwards"),
    BI_FLAG_BOOL(0, "skip-reserved", &skip_reserved, "leave out jobs that somebody works on"),
    BI_FLAG_BOOL(0, "lossy", &lossy, "to a beanstalkd: leave out what it has no word for"),
    BI_FLAGS_END,
};

/* ---- opening ---- */

static bool has_scheme(const char *url, const char *scheme)
{
    return strncmp(url, scheme, strlen(scheme)) == 0;
}

static int check(struct cli *cli)
{
    if (cli->url != NULL)
        return bi_cli_usage_error(cli,
                                  "both queues are said behind it: bide move FROM TO, no --url");
    for (size_t i = 0; i < 2; i++)
        if (has_scheme(cli->words[i], "memory:"))
            return bi_cli_usage_error(cli,
                                      "a queue in memory begins and ends with this command; let "
                                      "bided keep it, and say beanstalk://HOST:PORT");
    if (strcmp(cli->words[0], cli->words[1]) == 0)
        return bi_cli_usage_error(cli, "FROM and TO are the same");
    return BI_EXIT_OK;
}

static int open_one(struct cli *cli, const char *url, struct job_scan *scan, char *shown)
{
    bide *queue = NULL;
    bi_url_redact(shown, url);
    int exit = bi_connect_open_url(cli, url, &queue);
    if (exit != BI_EXIT_OK)
        return exit;
    exit = bi_job_scan_open(scan, cli, queue);
    return exit;
}

static int check_same(struct mover *mover)
{
    bool same = false;
    uint32_t both = bide_capabilities(mover->from.queue) & bide_capabilities(mover->to.queue);
    if ((both & BIDE_CAN_SHARE) == 0)
        return BI_EXIT_OK;
    int exit = bi_queue_probe_is_same(mover->cli, mover->to.queue, mover->from.queue, &same);
    if (exit != BI_EXIT_OK || !same)
        return exit;
    return bi_cli_usage_error(mover->cli, "%.200s and %.200s are the same queue", mover->from_shown,
                              mover->to_shown);
}

/* ---- before ---- */

/* Does somebody else wait for a topic such as ours? */
static int find_other_movers(const struct mover *mover, bool *busy)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_topic_stats *page = calloc(PAGE, sizeof(*page));
    int code = page == NULL ? BIDE_ENOMEM : BIDE_OK;
    *busy = false;
    do {
        size_t count = 0;
        if (code == BIDE_OK)
            code = bide_waiting(mover->to.queue, cursor, page, PAGE, &count);
        for (size_t i = 0; code == BIDE_OK && i < count; i++)
            *busy = *busy ||
                    (strncmp(page[i].name, MOVE_TOPIC_PREFIX, strlen(MOVE_TOPIC_PREFIX)) == 0 &&
                     strcmp(page[i].name, mover->presence_topic) != 0);
    } while (code == BIDE_OK && cursor[0] != 0);
    free(page);
    return code;
}

/* Of one that was just killed the server may not have heard yet. */
static int wait_for_other_movers(const struct mover *mover, bool *busy)
{
    int code = find_other_movers(mover, busy);
    for (int i = 0; code == BIDE_OK && *busy && i < RETRY_COUNT && !bi_interrupted(); i++) {
        usleep(RETRY_DELAY_US);
        code = find_other_movers(mover, busy);
    }
    return code;
}

/* Two at a time would not see what the other copies. Each can see its own mark before it looks for
 * others, so of two that begin at the same time one at least sees both. A file has one owner
 * anyway. */
static int check_exclusive(struct mover *mover)
{
    bool busy = false;
    if ((bide_capabilities(mover->to.queue) & BIDE_CAN_SHARE) == 0)
        return BI_EXIT_OK;
    if (!bi_presence_make_topic(mover->presence_topic, MOVE_TOPIC_PREFIX "-"))
        return bi_cli_error(mover->cli, BI_EXIT_FAILED, "there are no random numbers");
    int code = bi_presence_announce(&mover->presence, mover->to.queue, mover->presence_topic);
    if (code == BIDE_OK)
        code = wait_for_other_movers(mover, &busy);
    if (code != BIDE_OK)
        return bi_cli_report_last(mover->cli, code);
    if (!busy)
        return BI_EXIT_OK;
    return bi_cli_error(
        mover->cli, BI_EXIT_REFUSED,
        "somebody else moves to %.200s just now (or waits for a topic " MOVE_TOPIC_PREFIX
        "... there); run this again when that has ended",
        mover->to_shown);
}

static int warn(const struct mover *mover)
{
    bide_stats stats;
    char reserved[32];
    int code = bide_queue_stats(mover->from.queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_report_last(mover->cli, code);
    bi_print_number(reserved, stats.jobs.reserved);
    if (stats.jobs.reserved == 1 && !mover->skip_reserved)
        bi_cli_note(mover->cli,
                    "1 job is reserved in %s: somebody works on it, and the copy will be ready, to "
                    "be done again (--skip-reserved leaves it out)",
                    mover->from_shown);
    else if (stats.jobs.reserved > 1 && !mover->skip_reserved)
        bi_cli_note(mover->cli,
                    "%s jobs are reserved in %s: somebody works on them, and the copies will be "
                    "ready, to be done again (--skip-reserved leaves them out)",
                    reserved, mover->from_shown);
    if (mover->to.plain)
        bi_cli_note(mover->cli,
                    "%s is a beanstalkd: counters and ages begin anew there, and --remove "
                    "deletes only what the same run has copied",
                    mover->to_shown);
    return BI_EXIT_OK;
}

/* ---- after ---- */

static const struct {
    size_t offset;
    const char *name; /* in JSON */
    const char *text; /* NULL: said elsewhere */
} counters[] = {
    {offsetof(struct mover, copied), "copied", "copied"},
    {offsetof(struct mover, present), "there", "there already"},
    {offsetof(struct mover, pauses), "pauses", NULL},
    {offsetof(struct mover, refused), "refused", "refused"},
    {offsetof(struct mover, reserved), "reserved", "left out, being reserved"},
    {offsetof(struct mover, expired), "over",
     "left out, being expired, cancelled or no longer kept"},
    {offsetof(struct mover, verified), "verified", "verified"},
    {offsetof(struct mover, missing), "missing", "missing"},
    {offsetof(struct mover, removed), "removed", "removed"},
    {offsetof(struct mover, kept), "kept", "taken or gone meanwhile, and not removed"},
    {offsetof(struct mover, unproven), "unproven", NULL},
};

static uint64_t counter_of(const struct mover *mover, size_t index)
{
    return *(const uint64_t *)((const char *)mover + counters[index].offset);
}

static int print_json(const struct mover *mover)
{
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        json_object_set_new(object, counters[i].name,
                            json_integer((json_int_t)counter_of(mover, i)));
    return bi_cli_print_json(mover->cli, object);
}

static void print_counters(const struct mover *mover)
{
    char line[600] = "", number[32];
    size_t used = 0;
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        if (counters[i].text == NULL || (i > 0 && counter_of(mover, i) == 0))
            continue;
        bi_print_number(number, counter_of(mover, i));
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %s", used == 0 ? "" : ", ",
                                 number, counters[i].text);
    }
    bi_cli_note(mover->cli, "jobs: %s", line);
}

static int print_summary(const struct mover *mover, int exit)
{
    char lookalikes[32];
    print_counters(mover);
    bi_print_number(lookalikes, mover->lookalikes);
    if (mover->lookalikes > 0)
        bi_cli_note(mover->cli,
                    "%s of the copied jobs %s like one that was there, but made at another time; "
                    "if a clock was set since an earlier move, they are there twice",
                    lookalikes, mover->lookalikes == 1 ? "is" : "are");
    if (exit != BI_EXIT_OK && exit != BI_EXIT_PARTIAL)
        bi_cli_note(mover->cli, "not all is done; run the same command again to go on");
    else if (!remove_copied && mover->verified > 0 && !mover->to.plain)
        bi_cli_note(mover->cli, "%s still has %s; --remove deletes %s", mover->from_shown,
                    mover->verified == 1 ? "this job" : "these jobs",
                    mover->verified == 1 ? "it" : "them");
    int printed = mover->cli->json ? print_json(mover) : BI_EXIT_OK;
    if (exit == BI_EXIT_OK && (mover->refused > 0 || mover->from.unreadable > 0 ||
                               bi_connect_damage_count(mover->from.queue) > 0))
        exit = BI_EXIT_PARTIAL;
    return exit == BI_EXIT_OK ? printed : exit;
}

/* ---- running ---- */

static int move(struct mover *mover)
{
    int exit = bi_move_compare(mover);
    if (exit == BI_EXIT_OK)
        exit = bi_move_copy(mover);
    if (exit == BI_EXIT_OK)
        exit = bi_move_verify(mover);
    if (remove_copied && (exit == BI_EXIT_OK || exit == BI_EXIT_PARTIAL)) {
        int removed = bi_move_remove(mover);
        if (exit == BI_EXIT_OK || removed != BI_EXIT_PARTIAL)
            exit = removed == BI_EXIT_OK ? exit : removed;
    }
    return print_summary(mover, exit);
}

/* What was opened; the first that goes wrong is said. */
static int close_both(struct mover *mover, int exit)
{
    bi_presence_withdraw(&mover->presence);
    bi_job_scan_close(&mover->to);
    exit = bi_connect_close(mover->cli, mover->to.queue, mover->to_shown, exit);
    bi_job_scan_close(&mover->from);
    exit = bi_connect_close(mover->cli, mover->from.queue, mover->from_shown, exit);
    free(mover->moved);
    free(mover);
    return exit;
}

static int run(struct cli *cli)
{
    struct mover *mover = calloc(1, sizeof(*mover));
    if (mover == NULL || !bi_move_fingerprint_new_key(&mover->key)) {
        free(mover);
        return bi_cli_error(cli, BI_EXIT_FAILED, "there is not enough memory");
    }
    mover->cli = cli;
    mover->skip_reserved = skip_reserved;
    int exit = bi_interrupt_watch(cli, NULL);
    if (exit == BI_EXIT_OK)
        exit = bi_connect_check_file(cli, cli->words[0]);
    if (exit == BI_EXIT_OK)
        exit = open_one(cli, cli->words[0], &mover->from, mover->from_shown);
    if (exit == BI_EXIT_OK)
        exit = open_one(cli, cli->words[1], &mover->to, mover->to_shown);
    if (exit == BI_EXIT_OK)
        exit = check_same(mover);
    mover->restore_target = (struct restore_target){.plain = mover->to.plain, .lossy = lossy};
    if (exit == BI_EXIT_OK)
        exit = check_exclusive(mover);
    if (exit == BI_EXIT_OK)
        exit = warn(mover);
    if (exit == BI_EXIT_OK)
        exit = move(mover);
    return close_both(mover, exit);
}

const struct verb bi_verb_move = {
    .name = "move",
    .group = BI_GROUP_STORE,
    .usage = "FROM TO",
    .summary = "copy all jobs from one queue to another, and verify it",
    .details = "FROM and TO are URLs. Jobs keep their state, times, counters, texts, results\n"
               "and order, and get new ids; topics stay paused. What TO has already is left\n"
               "out: interrupted, or killed, the same command goes on where it was. At the end\n"
               "every job is looked for in TO. FROM stays as it is, unless you say --remove.\n"
               "Let nobody take jobs meanwhile. A beanstalkd can be moved, too. To a beanstalkd\n"
               "--remove deletes only what the same run has copied: what was there before cannot\n"
               "be told from a copy.\n"
               "\n"
               "  bide move beanstalk://old:11300 beanstalk://new:11300\n"
               "  bide move sqlite:jobs.db beanstalk://127.0.0.1:11300\n"
               "  bide move --remove beanstalk://127.0.0.1:11300 sqlite:jobs.db\n",
    .flags = flags,
    .min = 2,
    .max = 2,
    .traits = BI_VERB_NO_QUEUE,
    .check = check,
    .run = run,
};
