/* SPDX-License-Identifier: MIT */
/*
 * cmd_topic_policy.c - bide topic: shows and changes the policy of a topic.
 */
#include "cli/query.h"
#include "op/job_json.h"
#include "op/topic_policy.h"

#include <stdlib.h>
#include <string.h>

static bide_topic_policy changes = BIDE_TOPIC_POLICY_INIT;

/* ---- flags ---- */

static bool is_none(const char *text, void *to)
{
    bool none = strcmp(text, "none") == 0;
    if (none)
        *(int64_t *)to = BIDE_NO_DEFAULT;
    return none;
}

static bool parse_duration(const char *text, void *to, char *error)
{
    return is_none(text, to) || bi_duration_parse(text, to, error);
}

static bool parse_retries(const char *text, void *to, char *error)
{
    if (is_none(text, to))
        return true;
    if (!bi_flag_parse_retries(text, to, error))
        return false;
    if (*(int64_t *)to == BIDE_NO_RETRY_LIMIT)
        *(int64_t *)to = BIDE_UNLIMITED;
    return true;
}

static bool parse_count(const char *text, void *to, char *error)
{
    uint64_t number;
    if (is_none(text, to))
        return true;
    if (!bi_flag_parse_count(text, &number, error))
        return false;
    if (number == 0 || number > UINT32_MAX)
        return bi_errmsg_set(error, "is not from 1 to %u, or \"none\"", UINT32_MAX);
    *(int64_t *)to = (int64_t)number;
    return true;
}

/* "100/1m", "100/m", or "100": a second. */
static bool parse_rate(const char *text, void *to, char *error)
{
    char number[24], period[24];
    const char *slash = strchr(text, '/');
    size_t size = slash == NULL ? strlen(text) : (size_t)(slash - text);
    (void)to; /* two members */

    changes.rate_period_ms = BIDE_NO_DEFAULT;
    if (is_none(text, &changes.rate))
        return true;
    snprintf(number, sizeof(number), "%.*s", (int)size, text);
    if (size >= sizeof(number) || !parse_count(number, &changes.rate, error) ||
        changes.rate == BIDE_NO_DEFAULT || changes.rate > BIDE_RATE_MAX)
        return bi_errmsg_set(error, "is not N or N/PERIOD, N from 1 to %d", BIDE_RATE_MAX);
    if (slash == NULL)
        return true;

    bool bare = slash[1] >= 'a' && slash[1] <= 'z';
    snprintf(period, sizeof(period), "%s%.20s", bare ? "1" : "", slash + 1);
    if (!bi_duration_parse(period, &changes.rate_period_ms, error))
        return false;
    return (changes.rate_period_ms > 0 && changes.rate_period_ms <= BIDE_RATE_PERIOD_MAX) ||
           bi_errmsg_set(error, "has a period that is not from 1ms to 31d");
}

#define DURATION "DURATION|none"
#define COUNT    "N|none"

static const struct flag flags[] = {
    {'t', "ttr", DURATION, "default of jobs: time to run", parse_duration, &changes.ttr_ms},
    {'r', "retries", "N|unlimited|none", "default of jobs: maximum retries", parse_retries,
     &changes.max_retries},
    {0, "backoff", DURATION, "default of jobs: delay of the first retry", parse_duration,
     &changes.backoff_base_ms},
    {0, "backoff-max", DURATION, "default of jobs: maximum delay of a retry", parse_duration,
     &changes.backoff_max_ms},
    {0, "retain", DURATION, "default of jobs: retention of the result", parse_duration,
     &changes.retain_ms},
    {0, "expires-in", DURATION, "default of jobs: removed if not reserved in time", parse_duration,
     &changes.expires_in_ms},
    {0, "max-jobs", COUNT, "jobs in the topic, instead of max_jobs_per_topic", parse_count,
     &changes.max_jobs},
    {'c', "concurrency", COUNT, "jobs reserved at a time", parse_count, &changes.concurrency},
    {0, "rate", "N/PERIOD|none", "jobs reserved per PERIOD (default: 1s)", parse_rate,
     &changes.rate},
    {0, "burst", COUNT, "jobs reserved at once after a lull (default: N of the rate)", parse_count,
     &changes.rate_burst},
    BI_FLAGS_END,
};

/* ---- check ---- */

static bool sets(void)
{
    for (size_t i = 0; i < BI_TOPIC_POLICY_FIELDS; i++)
        if (bi_topic_policy_get(&changes, &bi_topic_policy_fields[i]) != BIDE_KEEP)
            return true;
    return false;
}

static int check(struct cli *cli)
{
    bool show = strcmp(cli->words[0], "show") == 0;
    if (!show && strcmp(cli->words[0], "set") != 0)
        return bi_cli_usage_error(cli, "\"%.60s\" is not show or set", cli->words[0]);
    if (show && sets())
        return bi_cli_usage_error(cli, "to change the policy: bide topic set %.60s FLAGS",
                                  cli->words[1]);
    if (!show && !sets())
        return bi_cli_usage_error(cli, "set needs a flag, for example --concurrency 10");
    return bi_query_check_topic(cli, cli->words[1]) ? BI_EXIT_OK : BI_EXIT_USAGE;
}

/* ---- show ---- */

static const char *mark_default(int64_t set, int64_t none)
{
    return set == none ? " (default)" : "";
}

static void show_duration(const struct cli *cli, const char *name, int64_t set, int64_t applied)
{
    bi_print_property(cli, name, "%s%s", applied == 0 ? "none" : bi_text_duration(applied).s,
                      mark_default(set, 0));
}

static void show_count(const struct cli *cli, const char *name, int64_t set, int64_t applied)
{
    bi_print_property(cli, name, "%s%s",
                      applied == 0 ? "unlimited" : bi_text_number((uint64_t)applied).s,
                      mark_default(set, 0));
}

static void show_defaults(const struct cli *cli, const bide_topic_policy *set,
                          const bide_topic_policy *applied)
{
    show_duration(cli, "ttr", set->ttr_ms, applied->ttr_ms);
    if (set->max_retries == BIDE_NO_DEFAULT)
        bi_print_property(cli, "retries", "of the put (default)");
    else if (set->max_retries == BIDE_UNLIMITED)
        bi_print_property(cli, "retries", "unlimited");
    else
        bi_print_property(cli, "retries", "%lld", (long long)applied->max_retries);
    show_duration(cli, "backoff", set->backoff_base_ms, applied->backoff_base_ms);
    show_duration(cli, "backoff max", set->backoff_max_ms, applied->backoff_max_ms);
    show_duration(cli, "retain", set->retain_ms, applied->retain_ms);
    show_duration(cli, "expires in", set->expires_in_ms, applied->expires_in_ms);
}

static void show_limits(const struct cli *cli, const bide_topic_policy *set,
                        const bide_topic_policy *applied, const bide_topic_stats *stats)
{
    show_count(cli, "max jobs", set->max_jobs, applied->max_jobs);
    show_count(cli, "concurrency", set->concurrency, applied->concurrency);
    if (set->rate == 0)
        bi_print_property(cli, "rate", "unlimited (default)");
    else
        bi_print_property(cli, "rate", "%s per %s, burst %s",
                          bi_text_number((uint64_t)applied->rate).s,
                          bi_text_duration(applied->rate_period_ms).s,
                          bi_text_number((uint64_t)applied->rate_burst).s);
    bi_print_property_number(cli, "reserved", stats->jobs.reserved);
    bi_print_property_number(cli, "waiting", stats->waiting);
    bi_print_property(cli, "limited", "%s", bi_query_format_limit(stats).s);
}

static int print_json(const struct cli *cli, const bide_topic_policy *set,
                      const bide_topic_policy *applied, const bide_topic_stats *stats)
{
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:s, s:I}", "topic", cli->words[1], "policy",
        bi_job_json_encode_policy(set), "in_force", bi_job_json_encode_policy(applied), "reserved",
        (json_int_t)stats->jobs.reserved, "waiting", (json_int_t)stats->waiting, "limited",
        bide_limit_name(stats->limited), "limit_left_ms", (json_int_t)stats->limit_left_ms);
    return bi_cli_print_json(cli, object);
}

static int run(struct cli *cli)
{
    const char *topic = cli->words[1];
    bide_topic_policy set, applied;
    bide_topic_stats stats;

    int code = sets() ? bide_topic_set(cli->queue, topic, &changes) : BIDE_OK;
    if (code == BIDE_OK)
        code = bide_topic_get(cli->queue, topic, &set, &applied);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);

    /* A topic whose last setting was cleared may be gone. */
    int exit = sets() ? bi_query_topic_stats_or_zero(cli, topic, &stats)
                      : bi_query_topic_stats(cli, topic, &stats);
    if (exit != BI_EXIT_OK)
        return exit;
    if (cli->json)
        return print_json(cli, &set, &applied, &stats);
    bi_print_property(cli, "topic", "%s", topic);
    show_defaults(cli, &set, &applied);
    show_limits(cli, &set, &applied, &stats);
    return BI_EXIT_OK;
}

const struct verb bi_verb_topic = {
    .name = "topic",
    .usage = "show|set TOPIC",
    .summary = "show or change the policy of a topic: defaults and limits",
    .flags = flags,
    .check = check,
    .run = run,
};
