/* SPDX-License-Identifier: MIT */
#include "cli/each.h"
#include "cli/look.h"
#include "cli/verb.h"
#include "cli/when.h"

#include <string.h>

static struct {
    int64_t priority, delay, at, ttr;
    const char *topic;
} said = {BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, NULL};

static void aim(const struct each *each, bide_op *op, uint64_t id, uint64_t token)
{
    (void)each;
    (void)token;
    op->kind = BIDE_OP_UPDATE;
    op->update = (bide_update_args)BIDE_UPDATE_INIT;
    op->update.id = id;
    op->update.priority = said.priority;
    op->update.delay_ms = said.delay;
    op->update.run_at_ms = said.at;
    op->update.ttr_ms = said.ttr;
    if (said.topic != NULL)
        op->update.topic = (bide_slice){said.topic, strlen(said.topic)};
}

static const struct each each = {.did = "changed", .aim = aim};

static const struct flag flags[] = {
    BI_FLAG_PRIORITY('p', "priority", &said.priority, "its new priority"),
    BI_FLAG_DURATION('d', "delay", &said.delay, "ready that much from now; 0: at once"),
    BI_FLAG_MOMENT('a', "at", &said.at, "ready at that time"),
    BI_FLAG_DURATION('t', "ttr", &said.ttr, "how long a worker may take; 0: as the queue says"),
    BI_FLAG_TEXT(0, "topic", "TOPIC", &said.topic, "move it there, with its key"),
    BI_FLAGS_END,
};

static const char details[] =
    "Changes jobs that nobody works on; one that is reserved is refused. A new time is for jobs\n"
    "that are ready or delayed; buried and done ones can have a new priority, ttr and topic.\n"
    "\n"
    "With - the ids are lines of standard input.\n"
    "\n"
    "  bide update 12 --priority 0\n"
    "  bide update 12 13 --at 'monday 9:00'\n"
    "  bide list spam --json | jq .id | bide update - --topic quarantine\n";

static int check(struct cli *cli)
{
    if (said.priority == BIDE_KEEP && said.delay == BIDE_KEEP && said.at == BIDE_KEEP &&
        said.ttr == BIDE_KEEP && said.topic == NULL)
        return bi_cli_misused(cli, "what is to change? --priority, --delay, --at, --ttr, --topic");
    if (said.delay != BIDE_KEEP && said.at != BIDE_KEEP)
        return bi_cli_misused(cli, "--delay and --at are both given; choose one");
    if (said.topic != NULL && !bi_look_topic(cli, said.topic))
        return BI_EXIT_USAGE;
    return bi_each_check(cli, &each);
}

static int run(struct cli *cli)
{
    if (said.at != BIDE_KEEP)
        bi_look_confirm_ready(cli, said.at);
    return bi_each_run(cli, &each);
}

const struct verb bi_verb_update = {
    .name = "update",
    .group = BI_GROUP_JOBS,
    .usage = "ID...|-",
    .summary = "change priority, time, ttr or topic of jobs",
    .details = details,
    .flags = flags,
    .least = 1,
    .most = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
