/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/move.h"
#include "cli/print.h"
#include "cli/reach.h"
#include "cli/record.h"
#include "cli/source_probe.h"
#include "cli/verb.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOVE_MARK        "bide-move"
#define PAGE             100
#define PATIENCE         50 /* steps, until somebody else is believed to be there */
#define PATIENCE_STEP_US 100000

static bool remove_copied;
static bool skip_reserved;
static bool lossy;

static const struct flag flags[] = {
    BI_FLAG_ON(0, "remove", &remove_copied, "delete from FROM what was found in TO afterwards"),
    BI_FLAG_ON(0, "skip-reserved", &skip_reserved, "leave out jobs that somebody works on"),
    BI_FLAG_ON(0, "lossy", &lossy, "to a beanstalkd: leave out what it has no word for"),
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
        return bi_cli_misused(cli, "both queues are said behind it: bide move FROM TO, no --url");
    for (size_t i = 0; i < 2; i++)
        if (has_scheme(cli->words[i], "memory:"))
            return bi_cli_misused(cli, "a queue in memory begins and ends with this command; let "
                                       "bided keep it, and say beanstalk://HOST:PORT");
    if (strcmp(cli->words[0], cli->words[1]) == 0)
        return bi_cli_misused(cli, "FROM and TO are the same");
    return BI_EXIT_OK;
}

static int open_one(struct cli *cli, const char *url, struct source *source, char *shown)
{
    bide *queue = NULL;
    bi_url_show(shown, url);
    int exit = bi_reach_url(cli, url, &queue);
    if (exit != BI_EXIT_OK)
        return exit;
    exit = bi_source_open(source, cli, queue);
    return exit;
}

static int check_same(struct mover *mover)
{
    bool same = false;
    uint32_t both = bide_capabilities(mover->from.queue) & bide_capabilities(mover->to.queue);
    if ((both & BIDE_CAN_SHARE) == 0)
        return BI_EXIT_OK;
    int exit = bi_source_same(mover->cli, mover->to.queue, mover->from.queue, &same);
    if (exit != BI_EXIT_OK || !same)
        return exit;
    return bi_cli_misused(mover->cli, "%.200s and %.200s are the same queue", mover->from_shown,
                          mover->to_shown);
}

/* ---- before ---- */

/* Does somebody else wait for a topic such as ours? */
static int look_for_others(const struct mover *mover, bool *others)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_topic_stats *page = calloc(PAGE, sizeof(*page));
    int code = page == NULL ? BIDE_ENOMEM : BIDE_OK;
    *others = false;
    do {
        size_t count = 0;
        if (code == BIDE_OK)
            code = bide_waiting(mover->to.queue, cursor, page, PAGE, &count);
        for (size_t i = 0; code == BIDE_OK && i < count; i++)
            *others = *others || (strncmp(page[i].name, MOVE_MARK, strlen(MOVE_MARK)) == 0 &&
                                  strcmp(page[i].name, mover->mark_name) != 0);
    } while (code == BIDE_OK && cursor[0] != 0);
    free(page);
    return code;
}

/* Of one that was just killed the server may not have heard yet. */
static int await_others(const struct mover *mover, bool *others)
{
    int code = look_for_others(mover, others);
    for (int i = 0; code == BIDE_OK && *others && i < PATIENCE && !bi_interrupted(); i++) {
        usleep(PATIENCE_STEP_US);
        code = look_for_others(mover, others);
    }
    return code;
}

/* Two at a time would not see what the other copies. Each can see its own mark before it looks for
 * others, so of two that begin at the same time one at least sees both. A file has one owner
 * anyway. */
static int check_alone(struct mover *mover)
{
    bool others = false;
    if ((bide_capabilities(mover->to.queue) & BIDE_CAN_SHARE) == 0)
        return BI_EXIT_OK;
    if (!bi_mark_name(mover->mark_name, MOVE_MARK "-"))
        return bi_cli_failed(mover->cli, BI_EXIT_FAILED, "there are no random numbers");
    int code = bi_mark_leave(&mover->mark, mover->to.queue, mover->mark_name);
    if (code == BIDE_OK)
        code = await_others(mover, &others);
    if (code != BIDE_OK)
        return bi_cli_answered(mover->cli, code);
    if (!others)
        return BI_EXIT_OK;
    return bi_cli_failed(mover->cli, BI_EXIT_REFUSED,
                         "somebody else moves to %.200s just now (or waits for a topic " MOVE_MARK
                         "... there); run this again when that has ended",
                         mover->to_shown);
}

static int warn(const struct mover *mover)
{
    bide_stats stats;
    char reserved[32];
    int code = bide_queue_stats(mover->from.queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_answered(mover->cli, code);
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
        bi_cli_note(mover->cli, "%s is a beanstalkd: counters and ages begin anew there",
                    mover->to_shown);
    return BI_EXIT_OK;
}

/* ---- after ---- */

static const struct {
    size_t place;
    const char *name; /* in JSON */
    const char *text; /* NULL: said elsewhere */
} tallies[] = {
    {offsetof(struct mover, copied), "copied", "copied"},
    {offsetof(struct mover, there), "there", "there already"},
    {offsetof(struct mover, pauses), "pauses", NULL},
    {offsetof(struct mover, refused), "refused", "refused"},
    {offsetof(struct mover, reserved), "reserved", "left out, being reserved"},
    {offsetof(struct mover, over), "over", "left out, being expired, cancelled or no longer kept"},
    {offsetof(struct mover, verified), "verified", "verified"},
    {offsetof(struct mover, missing), "missing", "missing"},
    {offsetof(struct mover, removed), "removed", "removed"},
    {offsetof(struct mover, kept), "kept", "taken or gone meanwhile, and not removed"},
};

static uint64_t tally_of(const struct mover *mover, size_t index)
{
    return *(const uint64_t *)((const char *)mover + tallies[index].place);
}

static int say_json(const struct mover *mover)
{
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof(tallies) / sizeof(tallies[0]); i++)
        json_object_set_new(object, tallies[i].name, json_integer((json_int_t)tally_of(mover, i)));
    return bi_record_print(mover->cli, object);
}

static void say_tallies(const struct mover *mover)
{
    char line[600] = "", number[32];
    size_t used = 0;
    for (size_t i = 0; i < sizeof(tallies) / sizeof(tallies[0]); i++) {
        if (tallies[i].text == NULL || (i > 0 && tally_of(mover, i) == 0))
            continue;
        bi_print_number(number, tally_of(mover, i));
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %s", used == 0 ? "" : ", ",
                                 number, tallies[i].text);
    }
    bi_cli_note(mover->cli, "jobs: %s", line);
}

static int say_end(const struct mover *mover, int exit)
{
    char alike[32];
    say_tallies(mover);
    bi_print_number(alike, mover->alike);
    if (mover->alike > 0)
        bi_cli_note(mover->cli,
                    "%s of the copied jobs %s like one that was there, but made at another time; "
                    "if a clock was set since an earlier move, they are there twice",
                    alike, mover->alike == 1 ? "is" : "are");
    if (exit != BI_EXIT_OK && exit != BI_EXIT_PARTLY)
        bi_cli_note(mover->cli, "not all is done; run the same command again to go on");
    else if (!remove_copied && mover->verified > 0)
        bi_cli_note(mover->cli, "%s still has %s; --remove deletes %s", mover->from_shown,
                    mover->verified == 1 ? "this job" : "these jobs",
                    mover->verified == 1 ? "it" : "them");
    int printed = mover->cli->json ? say_json(mover) : BI_EXIT_OK;
    if (exit == BI_EXIT_OK && (mover->refused > 0 || mover->from.unreadable > 0 ||
                               bi_reach_damage(mover->from.queue) > 0))
        exit = BI_EXIT_PARTLY;
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
    if (remove_copied && (exit == BI_EXIT_OK || exit == BI_EXIT_PARTLY)) {
        int removed = bi_move_remove(mover);
        if (exit == BI_EXIT_OK || removed != BI_EXIT_PARTLY)
            exit = removed == BI_EXIT_OK ? exit : removed;
    }
    return say_end(mover, exit);
}

/* What was opened; the first that goes wrong is said. */
static int close_both(struct mover *mover, int exit)
{
    bi_mark_wipe(&mover->mark);
    bi_source_close(&mover->to);
    exit = bi_reach_close(mover->cli, mover->to.queue, mover->to_shown, exit);
    bi_source_close(&mover->from);
    exit = bi_reach_close(mover->cli, mover->from.queue, mover->from_shown, exit);
    free(mover->moved);
    free(mover);
    return exit;
}

static int run(struct cli *cli)
{
    struct mover *mover = calloc(1, sizeof(*mover));
    if (mover == NULL || !bi_fingerprint_draw(&mover->key)) {
        free(mover);
        return bi_cli_failed(cli, BI_EXIT_FAILED, "there is not enough memory");
    }
    mover->cli = cli;
    mover->skip_reserved = skip_reserved;
    int exit = bi_interrupt_watch(cli, NULL);
    if (exit == BI_EXIT_OK)
        exit = bi_reach_exists(cli, cli->words[0]);
    if (exit == BI_EXIT_OK)
        exit = open_one(cli, cli->words[0], &mover->from, mover->from_shown);
    if (exit == BI_EXIT_OK)
        exit = open_one(cli, cli->words[1], &mover->to, mover->to_shown);
    if (exit == BI_EXIT_OK)
        exit = check_same(mover);
    mover->deliver = (struct deliver){.plain = mover->to.plain, .lossy = lossy};
    if (exit == BI_EXIT_OK)
        exit = check_alone(mover);
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
               "Let nobody take jobs meanwhile. A beanstalkd can be moved, too.\n"
               "\n"
               "  bide move beanstalk://old:11300 beanstalk://new:11300\n"
               "  bide move sqlite:jobs.db beanstalk://127.0.0.1:11300\n"
               "  bide move --remove beanstalk://127.0.0.1:11300 sqlite:jobs.db\n",
    .flags = flags,
    .least = 2,
    .most = 2,
    .traits = BI_ALONE,
    .check = check,
    .run = run,
};
