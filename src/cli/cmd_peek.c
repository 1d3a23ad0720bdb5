/* SPDX-License-Identifier: MIT */
#include "cli/query.h"
#include "op/job_json.h"

#include <stdlib.h>
#include <string.h>

static bide_state state = BIDE_STATE_ANY;
static const char *key;
static bool wants_result;

/* Digits are an id, unless a flag applies to topics only. */
static bool is_topic(const struct cli *cli)
{
    const char *word = cli->words[0];
    return state != BIDE_STATE_ANY || key != NULL || word[strspn(word, "0123456789")] != 0;
}

static int check(struct cli *cli)
{
    uint64_t id;
    if (state != BIDE_STATE_ANY && key != NULL)
        return bi_cli_usage_error(cli, "--state and --key are both given; choose one");
    if (key != NULL && (key[0] == 0 || strlen(key) > BIDE_KEY_MAX))
        return bi_cli_usage_error(cli, "--key: a key has 1 to %d bytes", BIDE_KEY_MAX);
    bool good = is_topic(cli) ? bi_query_check_topic(cli, cli->words[0])
                              : bi_cli_parse_id(cli, cli->words[0], &id);
    return good ? BI_EXIT_OK : BI_EXIT_USAGE;
}

static int fetch_job(const struct cli *cli, bide_job *job)
{
    const char *word = cli->words[0];
    uint64_t id = 0;
    if (key != NULL)
        return bide_find(cli->queue, word, key, strlen(key), job);
    if (is_topic(cli))
        return bide_peek_first(cli->queue, word, state == BIDE_STATE_ANY ? BIDE_STATE_READY : state,
                               job);
    if (!bi_cli_parse_id(cli, word, &id))
        return BIDE_EINVAL;
    return bide_peek(cli->queue, id, job);
}

/* Ends the last line on a terminal, for the prompt. */
static void print(const struct cli *cli, const void *data, size_t size)
{
    bi_print_bytes(stdout, cli->out_terminal, data, size);
    if (cli->out_terminal && size > 0 && ((const char *)data)[size - 1] != '\n')
        putchar('\n');
}

static int print_result(const struct cli *cli, const bide_job *job)
{
    bide_buf *result = NULL;
    int code = bide_result(cli->queue, job->id, &result);
    if (code == BIDE_OK)
        print(cli, bide_buf_data(result), bide_buf_size(result));
    bide_buf_unref(result);
    return bi_cli_report_last(cli, code);
}

static int run(struct cli *cli)
{
    bide_job job;
    int code = fetch_job(cli, &job);
    if (code != BIDE_OK && is_topic(cli))
        return bi_cli_report_last(cli, code);
    if (code != BIDE_OK)
        return bi_query_report_id(cli, code, strtoull(cli->words[0], NULL, 10));
    bi_cli_detail(cli, "job %llu of %s, %s, %zu bytes", (unsigned long long)job.id, job.topic,
                  bide_state_name(job.state), job.body_size);
    int exit = BI_EXIT_OK;
    if (cli->json)
        exit = bi_cli_print_json(cli, bi_job_json_encode(&job));
    else if (wants_result)
        exit = print_result(cli, &job);
    else
        print(cli, job.body, job.body_size);
    bide_job_clear(&job);
    return exit;
}

static const struct flag flags[] = {
    BI_FLAG_STATE('s', "state", &state, "first job of the topic in this state (default: ready)"),
    BI_FLAG_STRING('k', "key", "KEY", &key, "job of the topic with this key"),
    BI_FLAG_BOOL(0, "result", &wants_result, "print the result of a done job, not its body"),
    BI_FLAGS_END,
};

const struct verb bi_verb_peek = {
    .name = "peek",
    .group = BI_GROUP_QUERY,
    .usage = "ID|TOPIC",
    .summary = "print the body of a job without reserving it",
    .details =
        "The job is given by its id, or it is the first of a topic: the next ready job, or the\n"
        "delayed job that is due first, or the job that was reserved, buried or done first.\n"
        "The body is printed byte for byte; on a terminal control characters are shown as\n"
        "\\xNN. --json prints all attributes of the job. A topic whose name has only digits\n"
        "needs --state or --key.\n"
        "\n"
        "  bide peek 12 > body.bin\n"
        "  bide peek email                   the next job\n"
        "  bide peek email --state buried    the job that was buried first\n"
        "  bide peek email --key order-7 --json\n",
    .min = 1,
    .max = 1,
    .flags = flags,
    .check = check,
    .run = run,
};
