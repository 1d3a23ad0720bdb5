/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "backend/beanstalk_plain.h"

#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kick ---- */

static void begin_kick(struct plain *plain, struct talk *talk)
{
    const bide_kick_args *args = &talk->op->kick;
    uint64_t max = args->max < UINT32_MAX ? args->max : UINT32_MAX;
    bi_wire_use(plain->main, args->topic);
    bi_wire_ask(plain->main, talk, 0, "kick %llu", (unsigned long long)max);
}

static void hear_kick(struct plain *plain, struct talk *talk, size_t index,
                      const struct reply *reply)
{
    (void)index;
    if (bi_reply_is(reply, "KICKED"))
        talk->op->kick.count = reply->numbers[0];
    else
        talk->code = bi_plain_error(plain, talk->op, reply);
}

const struct plain_kind bi_plain_kick = {begin_kick, hear_kick, NULL, NULL};

static void begin_kick_job(struct plain *plain, struct talk *talk)
{
    bi_wire_ask(plain->main, talk, 0, "kick-job %llu", (unsigned long long)talk->op->lease.id);
    bi_wire_ask(plain->main, talk, 1, "stats-job %llu", (unsigned long long)talk->op->lease.id);
}

/* What cannot be kicked is looked at, to tell why. */
static void hear_kick_job(struct plain *plain, struct talk *talk, size_t index,
                          const struct reply *reply)
{
    bide_job job = {.id = 0};
    if (index == 0 && bi_reply_is(reply, "NOT_FOUND"))
        talk->code = BIDE_NOT_FOUND;
    else if (index == 0 && !bi_reply_is(reply, "KICKED"))
        talk->code = bi_plain_error(plain, talk->op, reply);
    else if (index == 1 && talk->code == BIDE_NOT_FOUND && bi_reply_is(reply, "OK") &&
             bi_yaml_job(reply, &job))
        talk->code = job.state == BIDE_STATE_RESERVED ? BIDE_RESERVED : BIDE_WRONG_STATE;
}

const struct plain_kind bi_plain_kick_job = {begin_kick_job, hear_kick_job, NULL, NULL};

/* ---- pause, resume ---- */

/* A topic exists there while somebody uses it; so we do, until the next command is about another. */
static void begin_pause(struct plain *plain, struct talk *talk)
{
    const bide_topic_args *args = &talk->op->topic;
    bool resume = talk->op->kind == BIDE_OP_RESUME;
    int64_t seconds = resume ? 0 : args->for_ms < 0 ? UINT32_MAX : (args->for_ms + 999) / 1000;
    if (!resume)
        bi_wire_use(plain->main, args->topic);
    bi_wire_ask(plain->main, talk, 0, "pause-tube %.*s %lld", (int)args->topic.size,
                (const char *)args->topic.data, (long long)seconds);
}

static void hear_pause(struct plain *plain, struct talk *talk, size_t index,
                       const struct reply *reply)
{
    (void)index;
    if (bi_reply_is(reply, "NOT_FOUND"))
        talk->code = BIDE_NOT_FOUND;
    else if (!bi_reply_is(reply, "PAUSED"))
        talk->code = bi_plain_error(plain, talk->op, reply);
}

const struct plain_kind bi_plain_pause = {begin_pause, hear_pause, NULL, NULL};

/* ---- figures ---- */

static bide_counts counts_of(const struct reply *reply)
{
    return (bide_counts){
        .delayed = bi_yaml_number(reply, "current-jobs-delayed"),
        .ready = bi_yaml_number(reply, "current-jobs-ready"),
        .reserved = bi_yaml_number(reply, "current-jobs-reserved"),
        .buried = bi_yaml_number(reply, "current-jobs-buried"),
        .urgent = bi_yaml_number(reply, "current-jobs-urgent"),
    };
}

static void begin_stats(struct plain *plain, struct talk *talk)
{
    bi_wire_ask(plain->main, talk, 0, "stats");
}

static void hear_stats(struct plain *plain, struct talk *talk, size_t index,
                       const struct reply *reply)
{
    (void)index;
    if (!bi_reply_is(reply, "OK")) {
        talk->code = bi_plain_error(plain, talk->op, reply);
        return;
    }
    bide_slice draining = bi_yaml_get(reply, "draining");
    *talk->op->stats.stats = (bide_stats){
        .jobs = counts_of(reply),
        .total = {.puts = bi_yaml_number(reply, "total-jobs"),
                  .reserves = bi_yaml_number(reply, "cmd-reserve") +
                              bi_yaml_number(reply, "cmd-reserve-with-timeout"),
                  .deletes = bi_yaml_number(reply, "cmd-delete"),
                  .releases = bi_yaml_number(reply, "cmd-release"),
                  .timeouts = bi_yaml_number(reply, "job-timeouts"),
                  .buries = bi_yaml_number(reply, "cmd-bury"),
                  .kicks = bi_yaml_number(reply, "cmd-kick"),
                  .touches = bi_yaml_number(reply, "cmd-touch"),
                  .pauses = bi_yaml_number(reply, "cmd-pause-tube")},
        .topics = bi_yaml_number(reply, "current-tubes"),
        .waiting = bi_yaml_number(reply, "current-waiting"),
        .uptime_ms = (int64_t)bi_yaml_number(reply, "uptime") * 1000,
        .draining = draining.size == 4,
    };
}

const struct plain_kind bi_plain_stats = {begin_stats, hear_stats, NULL, NULL};

/* False: the reply makes no sense. */
static bool read_topic(const struct reply *reply, bide_topic_stats *stats)
{
    bide_slice name = bi_yaml_get(reply, "name");
    if (!bi_is_topic(name))
        return false;
    *stats = (bide_topic_stats){
        .jobs = counts_of(reply),
        .total = {.puts = bi_yaml_number(reply, "total-jobs"),
                  .deletes = bi_yaml_number(reply, "cmd-delete"),
                  .pauses = bi_yaml_number(reply, "cmd-pause-tube")},
        .waiting = bi_yaml_number(reply, "current-waiting"),
        .paused = bi_yaml_number(reply, "pause") > 0,
        .pause_left_ms = (int64_t)bi_yaml_number(reply, "pause-time-left") * 1000,
    };
    memcpy(stats->name, name.data, name.size);
    return true;
}

static void begin_topic_stats(struct plain *plain, struct talk *talk)
{
    bide_slice topic = talk->op->topic_stats.topic;
    bi_wire_ask(plain->main, talk, 0, "stats-tube %.*s", (int)topic.size, (const char *)topic.data);
}

static void hear_topic_stats(struct plain *plain, struct talk *talk, size_t index,
                             const struct reply *reply)
{
    (void)index;
    if (bi_reply_is(reply, "NOT_FOUND"))
        talk->code = BIDE_NOT_FOUND;
    else if (!bi_reply_is(reply, "OK") || !read_topic(reply, talk->op->topic_stats.stats))
        talk->code = bi_plain_error(plain, talk->op, reply);
}

const struct plain_kind bi_plain_topic_stats = {begin_topic_stats, hear_topic_stats, NULL, NULL};

/* ---- pages of topics: all names, then the figures of those on the page ---- */

/* Names are longer than cursors: a page goes on behind the hash of the last name. */
struct name {
    uint64_t hash;
    const char *text;
    size_t size;
};

static int compare(const void *a, const void *b)
{
    const struct name *one = a;
    const struct name *other = b;
    return one->hash < other->hash ? -1 : one->hash > other->hash;
}

/* The names behind the cursor, sorted: "- name" in each line. */
static size_t read_names(const struct bi_secret *secret, const struct reply *reply, uint64_t after,
                         bool begins, struct name *names, size_t room)
{
    const char *at = (const char *)reply->data;
    const char *end = at + reply->size;
    size_t count = 0;
    while (at < end && count < room) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((line_end == NULL ? end : line_end) - at);
        if (size > 2 && size <= BIDE_TOPIC_MAX + 4 && memcmp(at, "- ", 2) == 0) {
            bool quoted = at[2] == '"';
            const char *text = at + 2 + quoted;
            size_t length = size - 2 - (quoted ? 2 : 0);
            uint64_t hash = bi_secret_hash(secret, text, length);
            if (begins || hash > after)
                names[count++] = (struct name){hash, text, length};
        }
        at += size + 1;
    }
    qsort(names, count, sizeof(*names), compare);
    return count;
}

static void begin_topics(struct plain *plain, struct talk *talk)
{
    bi_wire_ask(plain->main, talk, 0, "list-tubes");
}

static void ask_page(struct plain *plain, struct talk *talk, const struct reply *reply)
{
    bide_topics_args *args = &talk->op->topics;
    size_t room = reply->size / 4 + 1; /* "- x" and its end */
    struct name *names = malloc(room * sizeof(*names));
    if (names == NULL) {
        talk->code = BIDE_ENOMEM;
        return;
    }
    bool begins = args->cursor[0] == 0;
    uint64_t after = begins ? 0 : strtoull(args->cursor, NULL, 16);
    size_t count = read_names(&plain->secret, reply, after, begins, names, room);
    size_t page = count < args->topic_max ? count : args->topic_max;
    for (size_t i = 0; i < page; i++)
        bi_wire_ask(plain->main, talk, i + 1, "stats-tube %.*s", (int)names[i].size, names[i].text);
    args->count = 0;
    args->cursor[0] = 0;
    if (page < count)
        snprintf(args->cursor, BIDE_CURSOR_SIZE, "%016llx",
                 (unsigned long long)names[page - 1].hash);
    free(names);
}

/* A topic that has gone meanwhile is left out. */
static void hear_topics(struct plain *plain, struct talk *talk, size_t index,
                        const struct reply *reply)
{
    bide_topics_args *args = &talk->op->topics;
    bool good = bi_reply_is(reply, "OK");
    if (index == 0 && good)
        ask_page(plain, talk, reply);
    else if (index == 0)
        talk->code = bi_plain_error(plain, talk->op, reply);
    else if (good && read_topic(reply, &args->topics[args->count]) &&
             (talk->op->kind == BIDE_OP_TOPICS || args->topics[args->count].waiting > 0))
        args->count++;
}

const struct plain_kind bi_plain_topics = {begin_topics, hear_topics, NULL, NULL};
