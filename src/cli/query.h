/* SPDX-License-Identifier: MIT */
/*
 * query - what the verbs that look at a queue have in common.
 */
#ifndef BI_QUERY_H
#define BI_QUERY_H

#include "cli/print.h"
#include "cli/verb.h"

/* A word that must be a topic's name. Else says so, and answers false. */
bool bi_query_check_topic(const struct cli *cli, const char *word);

/* Fails with BI_EXIT_NOT_FOUND and an error message if the queue has no such topic. */
int bi_query_require_topic(const struct cli *cli, const char *topic);

/* As bi_cli_report_last(), but a call that ended because of a signal is no failure: silently the exit
 * code of the signal. */
int bi_query_report(const struct cli *cli, int code);

/* The same for a call that named a job: one that is not there is named. */
int bi_query_report_id(const struct cli *cli, int code, uint64_t id);

/* What is to be done after each piece of output: BI_EXIT_OK, or the exit code with which to end,
 * because of a signal, or because nobody reads any more. */
int bi_query_flush(const struct cli *cli);

/* A duration that a table shows: whole seconds, if there are any; "-" for one below zero, which is
 * none. BI_DATETIME_SIZE bytes. */
void bi_query_format_duration(char *to, int64_t ms);
/* How long a topic is still paused: "-", "3m20s" or "forever". */
void bi_query_format_pause(char *to, const bide_topic_stats *topic);

/* Says back when a job will be ready, so that a slip is seen; of a time that is past, that it is ready
 * now. */
void bi_query_print_ready_time(const struct cli *cli, int64_t at_ms);

/* States as "ready,buried", or one flag for each: a bit (1 << state) each, or-ed. False, and says
 * what is wrong. */
bool bi_query_parse_states(const struct cli *cli, const struct words *words, unsigned *states);

#endif
