/* SPDX-License-Identifier: MIT */
/*
 * query - what verbs share that read topics and states from the command line, or inspect a queue.
 */
#ifndef BI_QUERY_H
#define BI_QUERY_H

#include "cli/print.h"
#include "cli/verb.h"

/* Checks a topic name. False after a usage error. */
bool bi_query_check_topic(const struct cli *cli, const char *word);
/* Checks all arguments, which are topics. BI_EXIT_OK, or prints a usage error. */
int bi_query_check_topics(struct cli *cli);

/* Calls visit for each topic of a queue, or for each that clients wait for, until it returns
 * another exit code than BI_EXIT_OK. Returns that code, or reports what failed. visit must not call
 * it. */
typedef int bi_query_visit_topic(void *user, const bide_topic_stats *topic);
int bi_query_each_topic(const struct cli *cli, bide *queue, bool waiting_only,
                        bi_query_visit_topic *visit, void *user);

/* Reads the figures of a topic. Fails with BI_EXIT_NOT_FOUND and an error message if there is
 * none. */
int bi_query_topic_stats(const struct cli *cli, const char *topic, bide_topic_stats *stats);

/* The same for a verb that changes jobs. A topic is removed with its last job, so one that does not
 * exist has nothing to change: a note says so, the stats are zero, and the verb succeeds. */
int bi_query_topic_stats_or_zero(const struct cli *cli, const char *topic, bide_topic_stats *stats);

/* As bi_cli_report_last() for a call with a job id: BIDE_NOT_FOUND names the job. */
int bi_query_report_id(const struct cli *cli, int code, uint64_t id);

/* Flushes standard output. Returns BI_EXIT_OK, or the exit code with which to stop: a signal was
 * received, or the reader has gone. */
int bi_query_flush(const struct cli *cli);

/* Formats the remaining time of a pause: "-", "3m20s" or "forever". */
struct text bi_query_format_pause(const bide_topic_stats *topic);
/* "concurrency", "rate for 3s", or "-": which limit keeps its jobs from being reserved. */
struct text bi_query_format_limit(const bide_topic_stats *topic);

/* Why a topic with ready jobs gives none, as a sentence; false if it is open or has none. */
bool bi_query_explain_closed(const bide_topic_stats *topic, char *text /* BI_ERRMSG_SIZE */);

/* Prints when a job will be ready, so that a mistake is seen. */
void bi_query_print_ready_time(const struct cli *cli, int64_t at_ms);

/* Parses lists of states, "ready,buried", into bits (1 << state). False after a usage error. */
bool bi_query_parse_states(const struct cli *cli, const struct words *words, unsigned *states);

/* The topics to reserve from, and the strategy. An argument is a topic, or a topic and its weight,
 * email:5, which implies the strategy "weighted". */
struct topic_args {
    bide_slice topics[BI_WORDS_MAX];
    uint32_t weights[BI_WORDS_MAX];
    size_t count;
    bide_strategy strategy;
};

bi_flag_parse_fn bi_query_parse_strategy; /* bide_strategy */

#define BI_FLAG_STRATEGY(letter, name, to, help)                                      \
    {                                                                                 \
        letter, name, "priority|strict|weighted|fair", help, bi_query_parse_strategy, \
            BI_FLAG_TARGET_(bide_strategy, to)                                        \
    }

/* Parses the arguments; topic_args->strategy is set from its flag before. False with an error text:
 * a name or weight is invalid, or the strategy has no weights. */
bool bi_query_parse_topics(struct topic_args *topic_args, const char *const *words, size_t count,
                           char *error);

#endif
