/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_topic - kick, pause, resume, stats, and pages of topics.
 *
 * beanstalkd calls a topic a tube. A tube exists there while it has jobs, or while a connection
 * uses or watches it.
 */
#define _GNU_SOURCE /* memmem */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/op_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kick ---- */

static int send_kick(struct exchange *exchange, size_t index)
{
    const bide_kick_args *args = &exchange->base.op->kick;

    if (args->buried_only)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op,
                                                       "a kick of buried jobs only");

    uint64_t max = args->max < UINT32_MAX ? args->max : UINT32_MAX;
    /* kick takes no name: it works on the used tube. */
    bi_beanstalkd_conn_use(exchange->client->main, args->topic);
    return bi_beanstalkd_exchange_command(exchange, index, "kick %llu", (unsigned long long)max);
}

static int reply_kick(struct exchange *exchange, size_t index, const struct reply *reply)
{
    int code = bi_beanstalkd_exchange_check(exchange, reply, "KICKED");

    (void)index;
    if (code == BIDE_OK)
        exchange->base.op->kick.count = reply->numbers[0];
    return code;
}

const struct op_handler bi_beanstalkd_topic_kick = {.send = send_kick, .reply = reply_kick};

/* NOT_FOUND is ambiguous: the query shows whether the job is missing, reserved or already ready. */
static int reply_kick_job(struct exchange *exchange, size_t index, const struct reply *reply)
{
    bide_job job = {.id = 0};

    if (index == 0)
        return bi_beanstalkd_exchange_check(exchange, reply, "KICKED");
    if (!bi_reply_is(reply, "OK") || !bi_beanstalkd_yaml_job(reply, &job))
        return BIDE_NOT_FOUND;
    return job.state == BIDE_STATE_RESERVED ? BIDE_RESERVED : BIDE_WRONG_STATE;
}

const struct op_handler bi_beanstalkd_topic_kick_job = {
    .command = "kick-job", .reply = reply_kick_job, .end = bi_beanstalkd_exchange_end_by_id};

/* ---- pause, resume ---- */

/* pause-tube fails for a tube that does not exist. Using it creates it, until the next `use`. */
static int send_pause(struct exchange *exchange, size_t index)
{
    const bide_topic_args *args = &exchange->base.op->topic;
    bool resume = exchange->base.op->kind == BIDE_OP_RESUME;
    /* beanstalkd has no pause without end: the longest possible one stands for it. */
    int64_t seconds = resume ? 0 : args->for_ms < 0 ? UINT32_MAX : (args->for_ms + 999) / 1000;

    if (!resume)
        bi_beanstalkd_conn_use(exchange->client->main, args->topic);
    return bi_beanstalkd_exchange_command(exchange, index, "pause-tube %.*s %lld",
                                          (int)args->topic.size, (const char *)args->topic.data,
                                          (long long)seconds);
}

const struct op_handler bi_beanstalkd_topic_pause = {.send = send_pause, .done = "PAUSED"};

/* ---- stats ---- */

static bide_counts counts_of(const struct reply *reply)
{
    return (bide_counts){
        .delayed = bi_beanstalkd_yaml_number(reply, "current-jobs-delayed"),
        .ready = bi_beanstalkd_yaml_number(reply, "current-jobs-ready"),
        .reserved = bi_beanstalkd_yaml_number(reply, "current-jobs-reserved"),
        .buried = bi_beanstalkd_yaml_number(reply, "current-jobs-buried"),
        .urgent = bi_beanstalkd_yaml_number(reply, "current-jobs-urgent"),
    };
}

static int reply_stats(struct exchange *exchange, size_t index, const struct reply *reply)
{
    int code = bi_beanstalkd_exchange_check(exchange, reply, "OK");

    (void)index;
    if (code != BIDE_OK)
        return code;

    bide_slice draining = bi_beanstalkd_yaml_get(reply, "draining");
    *exchange->base.op->stats.stats = (bide_stats){
        .jobs = counts_of(reply),
        .total = {.puts = bi_beanstalkd_yaml_number(reply, "total-jobs"),
                  .reserves = bi_beanstalkd_yaml_number(reply, "cmd-reserve") +
                              bi_beanstalkd_yaml_number(reply, "cmd-reserve-with-timeout"),
                  .deletes = bi_beanstalkd_yaml_number(reply, "cmd-delete"),
                  .releases = bi_beanstalkd_yaml_number(reply, "cmd-release"),
                  .timeouts = bi_beanstalkd_yaml_number(reply, "job-timeouts"),
                  .buries = bi_beanstalkd_yaml_number(reply, "cmd-bury"),
                  .kicks = bi_beanstalkd_yaml_number(reply, "cmd-kick"),
                  .touches = bi_beanstalkd_yaml_number(reply, "cmd-touch"),
                  .pauses = bi_beanstalkd_yaml_number(reply, "cmd-pause-tube")},
        .topics = bi_beanstalkd_yaml_number(reply, "current-tubes"),
        .waiting = bi_beanstalkd_yaml_number(reply, "current-waiting"),
        .uptime_ms = bi_beanstalkd_yaml_ms(reply, "uptime"),
        .draining = draining.size == 4, /* "true" */
    };
    return BIDE_OK;
}

const struct op_handler bi_beanstalkd_topic_server_stats = {.command = "stats",
                                                            .reply = reply_stats};

/* Returns false if the reply is malformed. */
static bool parse_topic(const struct reply *reply, bide_topic_stats *stats)
{
    bide_slice name = bi_beanstalkd_yaml_get(reply, "name");
    if (!bi_topic_name_valid(name))
        return false;

    *stats = (bide_topic_stats){
        .jobs = counts_of(reply),
        .total = {.puts = bi_beanstalkd_yaml_number(reply, "total-jobs"),
                  .deletes = bi_beanstalkd_yaml_number(reply, "cmd-delete"),
                  .pauses = bi_beanstalkd_yaml_number(reply, "cmd-pause-tube")},
        .waiting = bi_beanstalkd_yaml_number(reply, "current-waiting"),
        .paused = bi_beanstalkd_yaml_number(reply, "pause") > 0,
        .pause_left_ms = bi_beanstalkd_yaml_ms(reply, "pause-time-left"),
    };

    /* The assignment above zeroed the name, so it ends with a NUL. */
    memcpy(stats->name, name.data, name.size);
    return true;
}

static int send_topic_stats(struct exchange *exchange, size_t index)
{
    bide_slice topic = exchange->base.op->topic_stats.topic;
    return bi_beanstalkd_exchange_command(exchange, index, "stats-tube %.*s", (int)topic.size,
                                          (const char *)topic.data);
}

static int reply_topic_stats(struct exchange *exchange, size_t index, const struct reply *reply)
{
    int code = bi_beanstalkd_exchange_check(exchange, reply, "OK");

    (void)index;
    if (code == BIDE_OK && !parse_topic(reply, exchange->base.op->topic_stats.stats))
        return bi_beanstalkd_exchange_reject_malformed(exchange);
    return code;
}

const struct op_handler bi_beanstalkd_topic_stats = {.send = send_topic_stats,
                                                     .reply = reply_topic_stats};

/* ---- pages of topics: all names, then the stats of those on the page ---- */

/* A cursor has no room for a name, so pages are ordered by a keyed hash of the names, and the
 * cursor is the hash of the last one. It is valid only in this client. */
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

/* Parses `- name` or `- "name"`. False: the line has no valid topic name. */
static bool read_name(const char *line, size_t size, bide_slice *name)
{
    if (size < 3 || memcmp(line, "- ", 2) != 0)
        return false;

    bool quoted = size > 4 && line[2] == '"' && line[size - 1] == '"';
    *name = quoted ? (bide_slice){line + 3, size - 4} : (bide_slice){line + 2, size - 2};
    return bi_topic_name_valid(*name);
}

/* Collects the names with hashes above the cursor, and sorts them by hash. */
static size_t parse_names(const struct bi_hash_secret *secret, const struct reply *reply,
                          uint64_t after, bool first_page, struct name *names, size_t room)
{
    const char *at = (const char *)reply->data;
    const char *end = at + reply->size;
    size_t count = 0;

    while (at < end && count < room) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((line_end == NULL ? end : line_end) - at);
        bide_slice name;
        if (read_name(at, size, &name)) {
            uint64_t hash = bi_keyed_hash_bytes(secret, name.data, name.size);
            if (first_page || hash > after)
                names[count++] = (struct name){hash, name.data, name.size};
        }

        at += size + 1;
    }

    qsort(names, count, sizeof(*names), compare);
    return count;
}

static int send_page(struct exchange *exchange, const struct reply *reply)
{
    bide_topics_args *args = &exchange->base.op->topics;
    size_t room = reply->size / 4 + 1; /* a line has at least 4 bytes: "- x" and its end */
    struct name *names = malloc(room * sizeof(*names));

    if (names == NULL)
        return BIDE_ENOMEM;

    bool first_page = args->cursor[0] == 0;
    uint64_t after = first_page ? 0 : strtoull(args->cursor, NULL, 16);
    size_t count = parse_names(&exchange->client->secret, reply, after, first_page, names, room);

    size_t page = count < args->topic_max ? count : args->topic_max;
    /* The names point into the reply. The commands copy them, so they may be freed below. */
    for (size_t i = 0; i < page; i++)
        bi_beanstalkd_exchange_command(exchange, i + 1, "stats-tube %.*s", (int)names[i].size,
                                       names[i].text);

    args->count = 0;
    exchange->more = page < count;
    exchange->last_hash = exchange->more ? names[page - 1].hash : 0;
    free(names);
    return BIDE_OK;
}

/* Reply 0 is the list of names; reply i + 1 has the stats of topic i of the page. A topic that was
 * removed since list-tubes is left out: the page has fewer topics then. */
static int reply_topics(struct exchange *exchange, size_t index, const struct reply *reply)
{
    bide_topics_args *args = &exchange->base.op->topics;

    if (index == 0) {
        int code = bi_beanstalkd_exchange_check(exchange, reply, "OK");
        return code == BIDE_OK ? send_page(exchange, reply) : code;
    }

    assert(args->count < args->topic_max);
    if (bi_reply_is(reply, "OK") && parse_topic(reply, &args->topics[args->count]) &&
        (exchange->base.op->kind == BIDE_OP_TOPICS || args->topics[args->count].waiting > 0))
        args->count++;
    return BIDE_OK;
}

/* The cursor changes only at the end: a restarted exchange must read the same page. */
static int end_topics(struct exchange *exchange)
{
    char *cursor = exchange->base.op->topics.cursor;

    if (exchange->code == BIDE_OK)
        cursor[0] = 0;
    if (exchange->code == BIDE_OK && exchange->more)
        snprintf(cursor, BIDE_CURSOR_SIZE, "%016llx", (unsigned long long)exchange->last_hash);
    return exchange->code;
}

const struct op_handler bi_beanstalkd_topic_page = {
    .command = "list-tubes", .reply = reply_topics, .end = end_topics};
