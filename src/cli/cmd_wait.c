/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/job_wait.h"
#include "cli/verb.h"

static int64_t timeout_ms = BIDE_FOREVER;

static const struct flag flags[] = {
    BI_FLAG_TIMEOUT('t', "timeout", &timeout_ms, "give up after that time (default: forever)"),
    BI_FLAGS_END,
};

static const char details[] =
    "Waits until each job is done, buried or gone, and prints the result that was kept (put\n"
    "--retain, done --result), as it is. Of several jobs the results come in the order of the\n"
    "ids, each with a newline at its end; --json tells them apart. On a terminal it says what\n"
    "it waits for.\n"
    "\n"
    "Exit: 0 done, also if nothing of it is kept; 2 the server does not accept the secret, also\n"
    "when it comes back with another one; 3 there is no such job: it was cancelled, deleted or\n"
    "purged, it expired, it never was, or it was done before and kept no result; 4 the time is\n"
    "over; 5 buried, and why; 7 of several, some are not 0.\n"
    "\n"
    "  bide wait 12\n"
    "  bide wait 12 13 14 --timeout 5m --json\n"
    "  id=$(bide put thumbnails --retain 1h < cat.jpg) && bide wait $id > small.jpg\n";

static uint64_t ids[BI_WORDS_MAX];

static int check(struct cli *cli)
{
    for (size_t i = 0; i < cli->word_count; i++)
        if (!bi_cli_parse_id(cli, cli->words[i], &ids[i]))
            return BI_EXIT_USAGE;
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    bool alone = (bide_capabilities(cli->queue) & BIDE_CAN_SHARE) == 0;
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    /* Alone with the queue it can only tell how things are. */
    exit = bi_job_wait_run(cli, ids, cli->word_count, alone ? 0 : timeout_ms, false);
    return alone && exit == BI_EXIT_TIMED_OUT ? bi_job_wait_check(cli) : exit;
}

const struct verb bi_verb_wait = {
    .name = "wait",
    .group = BI_GROUP_WORK,
    .usage = "ID...",
    .summary = "wait until jobs are done, and print their results",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
