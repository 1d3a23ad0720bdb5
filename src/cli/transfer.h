/* SPDX-License-Identifier: MIT */
/*
 * transfer - what export, import and move share: the op that copies a job to another queue, pauses,
 * and policies.
 *
 * The op is a restore. A plain beanstalkd has none, so it gets a put with topic, priority, delay
 * and ttr; counters and ages start again. A job with other attributes (key, retries, expiry ...) is
 * rejected unless they may be lost; buried and done jobs are always rejected.
 */
#ifndef BI_TRANSFER_H
#define BI_TRANSFER_H

#include "cli/ordered_pipeline.h"

#include <jansson.h>

struct restore_target {
    bool plain; /* a plain beanstalkd */
    bool lossy; /* attributes that it lacks may be lost */
};

/* Returns why a job need not be copied now ("its retention is over"); NULL: it must be. Reduces the
 * remaining retention by the time since the job was read. */
const char *bi_transfer_skip_reason(bide_job *job, int64_t now_ms);

/* Fills in the op for the job of a slot. False with an error text if the target cannot hold the
 * job. */
bool bi_transfer_build_op(const struct restore_target *restore_target, struct op_slot *slot,
                          char *error);

/* ---- pauses ---- */

/*
 * A pause of a topic, in an export:
 *
 *     {"kind":"pause","topic":"email","until_ms":1798153200000}
 *
 * Without until_ms the topic is paused until it is resumed.
 */
struct pause {
    char topic[BIDE_TOPIC_MAX + 1];
    int64_t until_ms; /* 0: until it is resumed */
};

/* Returns true if the topic is paused until it is resumed. */
bool bi_transfer_is_endless_pause(const bide_topic_stats *topic);

/* Returns true, with the pause, if the topic is paused. */
bool bi_transfer_get_pause(const bide_topic_stats *topic, struct pause *pause);

/* Sets a pause; *expired: its end has passed. */
int bi_transfer_set_pause(const struct cli *cli, bide *queue, const struct pause *pause,
                          bool *expired);

json_t *bi_transfer_pause_to_json(const struct pause *pause);
/* False with an error text if it is invalid. */
bool bi_transfer_pause_from_json(const json_t *object, struct pause *pause, char *error);

/* ---- policies ---- */

/*
 * The policy of a topic, in an export:
 *
 *     {"kind":"policy","topic":"email","policy":{"concurrency":10}}
 */
struct policy_line {
    char topic[BIDE_TOPIC_MAX + 1];
    bide_topic_policy policy;
};

/* Reads the policy of a topic; *found: it has one. */
int bi_transfer_get_policy(const struct cli *cli, bide *queue, const bide_topic_stats *topic,
                           struct policy_line *line, bool *found);

/* Replaces the policy of the topic. */
int bi_transfer_set_policy(const struct cli *cli, bide *queue, const struct policy_line *line);

json_t *bi_transfer_policy_to_json(const struct policy_line *line);
/* False with an error text if it is invalid. */
bool bi_transfer_policy_from_json(const json_t *object, struct policy_line *line, char *error);

#endif
