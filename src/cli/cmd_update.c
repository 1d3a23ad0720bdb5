/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/query.h"
#include "cli/verb.h"
#include "util/duration.h"

#include <string.h>

static struct {
    int64_t priority, delay, at, ttr;
    const char *topic;
} changes = {BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, NULL};

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    (void)token;
    op->kind = BIDE_OP_UPDATE;
    op->update = (bide_update_args)BIDE_UPDATE_INIT;
    op->update.id = id;
    op->update.priority = changes.priority;
    op->update.delay_ms = changes.delay;
    op->update.run_at_ms = changes.at;
    op->update.ttr_ms = changes.ttr;
    if (changes.topic != NULL)
        op->update.topic = (bide_slice){changes.topic, strlen(changes.topic)};
}

static const struct id_verb id_verb = {.past_tense = "changed", .build_op = build_op};

static const struct flag flags[] = {
    BI_FLAG_PRIORITY('p', "priority", &changes.priority, "its new priority"),
    BI_FLAG_DURATION('d', "delay", &changes.delay, "ready that much from now; 0: at once"),
    BI_FLAG_TIME('a', "at", &changes.at, "ready at that time"),
    BI_FLAG_DURATION('t', "ttr", &changes.ttr, "how long a worker may take; 0: as the queue says"),
    BI_FLAG_STRING(0, "topic", "TOPIC", &changes.topic, "move it there, with its key"),
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
    if (changes.priority == BIDE_KEEP && changes.delay == BIDE_KEEP && changes.at == BIDE_KEEP &&
        changes.ttr == BIDE_KEEP && changes.topic == NULL)
        return bi_cli_usage_error(cli,
                                  "what is to change? --priority, --delay, --at, --ttr, --topic");
    if (changes.delay != BIDE_KEEP && changes.at != BIDE_KEEP)
        return bi_cli_usage_error(cli, "--delay and --at are both given; choose one");
    if (changes.topic != NULL && !bi_query_check_topic(cli, changes.topic))
        return BI_EXIT_USAGE;
    return bi_by_id_check(cli, &id_verb);
}

static int run(struct cli *cli)
{
    if (changes.at != BIDE_KEEP)
        bi_query_print_ready_time(cli, changes.at);
    return bi_by_id_run(cli, &id_verb);
}

const struct verb bi_verb_update = {
    .name = "update",
    .group = BI_GROUP_JOBS,
    .usage = "ID...|-",
    .summary = "change priority, time, ttr or topic of jobs",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
