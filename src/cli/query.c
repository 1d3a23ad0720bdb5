/* SPDX-License-Identifier: MIT */
#include "cli/query.h"

#include "cli/transfer.h"
#include "op/op_table.h"
#include "util/clock.h"

#include <assert.h>
#include <string.h>

#define PAGE 500 /* topics of a call */

/* ---- topics ---- */

/* word: the argument that begins with the name. */
static bool check_name(const char *word, size_t size, char *error)
{
    return bi_topic_name_valid((bide_slice){word, size}) ||
           bi_errmsg_set(error,
                         "\"%.60s\" is not a valid topic name: 1 to %d letters, digits and "
                         "-+/;.$_(), no - in front",
                         word, BIDE_TOPIC_MAX);
}

bool bi_query_check_topic(const struct cli *cli, const char *word)
{
    char error[BI_ERRMSG_SIZE];
    if (check_name(word, strlen(word), error))
        return true;
    bi_cli_usage_error(cli, "%s", error);
    return false;
}

int bi_query_check_topics(struct cli *cli)
{
    for (size_t i = 0; i < cli->word_count; i++)
        if (!bi_query_check_topic(cli, cli->words[i]))
            return BI_EXIT_USAGE;
    return BI_EXIT_OK;
}

bool bi_query_parse_strategy(const char *text, void *to, char *error)
{
    static const char *const names[] = {
        [BIDE_BY_PRIORITY] = "priority",
        [BIDE_STRICT] = "strict",
        [BIDE_WEIGHTED] = "weighted",
        [BIDE_FAIR] = "fair",
    };

    for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++) {
        if (strcmp(text, names[i]) == 0) {
            *(bide_strategy *)to = (bide_strategy)i;
            return true;
        }
    }
    return bi_errmsg_set(error, "is not a strategy: priority, strict, weighted or fair");
}

/* Parses the weight of the topic that is parsed. */
static bool parse_weight(struct topic_args *topic_args, const char *word, const char *text,
                         char *error)
{
    char reason[BI_ERRMSG_SIZE];
    uint64_t weight;

    if (topic_args->strategy != BIDE_BY_PRIORITY && topic_args->strategy != BIDE_WEIGHTED)
        return bi_errmsg_set(error, "\"%.60s\" has a weight, which needs --strategy weighted",
                             word);
    if (!bi_flag_parse_count(text, &weight, reason) || weight == 0 || weight > UINT32_MAX)
        return bi_errmsg_set(error, "\"%.60s\": a weight must be at least 1", word);
    topic_args->strategy = BIDE_WEIGHTED;
    topic_args->weights[topic_args->count] = (uint32_t)weight;
    return true;
}

bool bi_query_parse_topics(struct topic_args *topic_args, const char *const *words, size_t count,
                           char *error)
{
    assert(count <= BI_WORDS_MAX);
    for (topic_args->count = 0; topic_args->count < count; topic_args->count++) {
        const char *word = words[topic_args->count];
        size_t size = strcspn(word, ":");

        topic_args->topics[topic_args->count] = (bide_slice){word, size};
        topic_args->weights[topic_args->count] = 1;
        if (!check_name(word, size, error))
            return false;
        if (word[size] == ':' && !parse_weight(topic_args, word, word + size + 1, error))
            return false;
    }
    return true;
}

/* ---- results ---- */

int bi_query_each_topic(const struct cli *cli, bide *queue, bool waiting_only,
                        bi_query_visit_topic *visit, void *user)
{
    static bide_topic_stats page[PAGE];
    char cursor[BIDE_CURSOR_SIZE] = "";
    int exit;

    do {
        size_t count = 0;
        exit = bi_cli_report_last(
            cli, (waiting_only ? bide_waiting : bide_topics)(queue, cursor, page, PAGE, &count));
        for (size_t i = 0; exit == BI_EXIT_OK && i < count; i++)
            exit = visit(user, &page[i]);
    } while (exit == BI_EXIT_OK && cursor[0] != 0);
    return exit;
}

int bi_query_topic_stats(const struct cli *cli, const char *topic, bide_topic_stats *stats)
{
    char message[BIDE_TOPIC_MAX + 40];

    int code = bide_topic_get_stats(cli->queue, topic, stats);
    if (code != BIDE_NOT_FOUND)
        return bi_cli_report_last(cli, code);

    /* A plain beanstalkd does not name the topic. */
    snprintf(message, sizeof(message), "there is no topic %s", topic);
    return bi_cli_report(cli, NULL, code, message);
}

int bi_query_topic_stats_or_zero(const struct cli *cli, const char *topic, bide_topic_stats *stats)
{
    int code = bide_topic_get_stats(cli->queue, topic, stats);
    if (code != BIDE_NOT_FOUND)
        return bi_cli_report_last(cli, code);

    memset(stats, 0, sizeof(*stats));
    bi_cli_note(cli, "there is no topic %s", topic);
    return BI_EXIT_OK;
}

/* A plain beanstalkd does not name the job. */
int bi_query_report_id(const struct cli *cli, int code, uint64_t id)
{
    char message[64];
    if (code != BIDE_NOT_FOUND)
        return bi_cli_report_last(cli, code);
    snprintf(message, sizeof(message), "there is no job %llu", (unsigned long long)id);
    return bi_cli_report(cli, NULL, code, message);
}

int bi_query_flush(const struct cli *cli)
{
    if (bi_interrupted())
        return bi_interrupt_exit();
    return bi_cli_flush(cli);
}

struct text bi_query_format_pause(const bide_topic_stats *topic)
{
    if (bi_transfer_is_endless_pause(topic))
        return (struct text){"forever"};
    return bi_text_age(topic->paused ? topic->pause_left_ms : -1);
}

struct text bi_query_format_limit(const bide_topic_stats *topic)
{
    struct text text = {"-"};
    if (topic->limited == BIDE_LIMIT_RATE)
        snprintf(text.s, sizeof(text.s), "rate for %.40s",
                 bi_text_duration(topic->limit_left_ms).s);
    else if (topic->limited != BIDE_LIMIT_NONE)
        snprintf(text.s, sizeof(text.s), "%s", bide_limit_name(topic->limited));
    return text;
}

bool bi_query_explain_closed(const bide_topic_stats *topic, char *text)
{
    int64_t left_ms = topic->paused ? topic->pause_left_ms : topic->limit_left_ms;
    const char *name = topic->name;
    char until[2 * sizeof(struct text)];

    if (topic->jobs.ready == 0 || (!topic->paused && topic->limited == BIDE_LIMIT_NONE))
        return false;
    snprintf(until, sizeof(until), "for another %.40s (until %.60s)", bi_text_duration(left_ms).s,
             bi_text_moment(bi_clock_wall() / 1000 + left_ms).s);
    if (bi_transfer_is_endless_pause(topic))
        snprintf(text, BI_ERRMSG_SIZE, "topic %s is paused until it is resumed", name);
    else if (topic->paused)
        snprintf(text, BI_ERRMSG_SIZE, "topic %s is paused %s", name, until);
    else if (topic->limited == BIDE_LIMIT_RATE)
        snprintf(text, BI_ERRMSG_SIZE, "topic %s is at its rate limit %s", name, until);
    else if (topic->limited == BIDE_LIMIT_CONCURRENCY)
        snprintf(text, BI_ERRMSG_SIZE,
                 "topic %s is at its concurrency limit: %llu of at most %llu jobs are reserved",
                 name, (unsigned long long)topic->jobs.reserved,
                 (unsigned long long)topic->concurrency);
    else
        snprintf(text, BI_ERRMSG_SIZE, "topic %s waits until its stored jobs are loaded", name);
    return true;
}

/* A time in the past is more often a mistake than intended. */
void bi_query_print_ready_time(const struct cli *cli, int64_t at_ms)
{
    int64_t now_ms = bi_clock_wall() / 1000;

    bi_cli_note(cli, "ready %s", bi_text_moment_from(at_ms, now_ms).s);
    if (at_ms <= now_ms - 1000)
        bi_cli_note(cli, "that time is past: ready now");
}

/* ---- states ---- */

static bool parse_state(const struct cli *cli, const char *name, size_t size, unsigned *states)
{
    char copy[16] = "", reason[BI_ERRMSG_SIZE] = "";
    bide_state state = BIDE_STATE_GONE;

    if (size < sizeof(copy))
        memcpy(copy, name, size);
    if (!bi_flag_parse_state(copy, &state, reason)) {
        bi_cli_usage_error(cli, "--state: \"%.*s\" %.200s", size < 60 ? (int)size : 60, name,
                           reason);
        return false;
    }
    *states |= 1u << state;
    return true;
}

bool bi_query_parse_states(const struct cli *cli, const struct words *words, unsigned *states)
{
    *states = 0;
    for (size_t i = 0; i < words->count; i++) {
        for (const char *at = words->list[i];; at++) {
            size_t size = strcspn(at, ",");
            if (!parse_state(cli, at, size, states))
                return false;
            at += size;
            if (*at == 0)
                break;
        }
    }
    return true;
}
