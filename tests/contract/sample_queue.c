/* SPDX-License-Identifier: MIT */
#include "sample_queue.h"

#include <stdio.h>
#include <string.h>

/* -1 is BIDE_KEEP or BIDE_FOREVER in some places, and is tried apart. */
const int64_t bad_times[5] = {-2, BIDE_TIME_MAX_MS + 1, INT64_MAX, INT64_MIN, INT64_MIN + 1};
const int64_t bad_moments[5] = {-2, BIDE_TIMESTAMP_MAX_MS + 1, INT64_MAX, INT64_MIN,
                                INT64_MAX / 1000 + 1};
const int64_t bad_priorities[4] = {-2, INT64_C(1) << 32, INT64_MAX, INT64_MIN};

void spoil(void *object, size_t size)
{
    memset(object, 0x5a, size);
}

void spoiled(struct where at, const void *object, size_t size, const char *name)
{
    const unsigned char *bytes = object;
    char text[96];
    snprintf(text, sizeof text, "%.60s as it was before the call", name);
    for (size_t i = 0; i < size; i++)
        check_true(at, bytes[i] == 0x5a, text);
}

static void fill(struct sample_queue *sample)
{
    bide *queue = sample->queue;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 3600000;
    options.key = slice("held");
    sample->ready = put_as(queue, sample->topic, "body", &options);
    options.key = slice("other");
    options.max_retries = 3;
    sample->reserved = put_as(queue, sample->topic, "body", &options);
    sample->old_token = take_job(queue, sample->reserved)->token;
    OK(bide_give_back(queue, sample->reserved, sample->old_token));
    sample->token = take_job(queue, sample->reserved)->token;
    options.key = (bide_slice){NULL, 0};
    sample->other = put_as(queue, sample->topic, "body", &options);
    sample->other_token = take_job(queue, sample->other)->token;
    sample->delayed = put_in(queue, sample->topic, BIDE_STATE_DELAYED);
    sample->buried = put_in(queue, sample->topic, BIDE_STATE_BURIED);
    sample->done = put_in(queue, sample->topic, BIDE_STATE_DONE);
}

static const uint64_t *job_ids(const struct sample_queue *sample, uint64_t *room)
{
    uint64_t ids[SAMPLE_JOBS] = {sample->delayed, sample->ready, sample->reserved,
                                 sample->buried,  sample->done,  sample->other};
    return memcpy(room, ids, sizeof ids);
}

void sample_queue_remember(struct sample_queue *sample)
{
    sample->stats = stats_of(sample->queue);
}

struct sample_queue *new_sample_queue(const char *parameters)
{
    static struct sample_queue sample;
    uint64_t ids[SAMPLE_JOBS];
    memset(&sample, 0, sizeof sample);
    sample.queue = open_queue(parameters);
    sample.topic = fresh_topic("world");
    fill(&sample);
    sample_queue_remember(&sample);
    sample.topic_stats = topic_of(sample.queue, sample.topic);
    job_ids(&sample, ids);
    for (size_t i = 0; i < SAMPLE_JOBS; i++)
        sample.jobs[i] = *peek_job(sample.queue, ids[i]);
    return &sample;
}

static void same_bytes(struct where at, const void *a, size_t a_size, const void *b, size_t b_size,
                       const char *name)
{
    check_equal(at, (int64_t)a_size, (int64_t)b_size, name);
    check_true(at, (a == NULL) == (b == NULL), name);
    check_true(at, a_size == 0 || (a && b && memcmp(a, b, a_size) == 0), name);
}

#define SAME(field) check_equal(at, (int64_t)now->field, (int64_t)then->field, "job." #field)

/* A moment may be kept on the boot-time clock; told on the wall clock it is rounded. */
static void same_moment(struct where at, int64_t now_ms, int64_t then_ms, const char *name)
{
    check_true(at, (now_ms == 0) == (then_ms == 0), name);
    check_between(at, now_ms, then_ms - 1, then_ms + 1, name);
}
#define SAME_MOMENT(field) same_moment(at, now->field, then->field, "job." #field)

void same_job(struct where at, const bide_job *now, const bide_job *then, int64_t slack_ms)
{
    SAME(id);
    SAME(state);
    SAME(priority);
    SAME(ttr_ms);
    SAME_MOMENT(run_at_ms);
    SAME(run_at_wall);
    SAME(key_hold_retained);
    SAME(cancel_wanted);
    SAME(max_retries);
    SAME(failures);
    SAME(backoff_base_ms);
    SAME(backoff_max_ms);
    SAME(expires_at_ms);
    SAME(retain_ms);
    SAME(reserves);
    SAME(timeouts);
    SAME(releases);
    SAME(fails);
    SAME(buries);
    SAME(kicks);
    SAME(touches);
    SAME_MOMENT(created_ms);
    SAME_MOMENT(ready_ms);
    SAME_MOMENT(reserved_ms);
    SAME_MOMENT(touched_ms);
    SAME_MOMENT(buried_ms);
    SAME_MOMENT(done_ms);
    check_true(at, now->left_ms <= then->left_ms + slack_ms, "a deadline that has not moved away");
    check_true(at, now->left_ms > then->left_ms - PATIENCE_MS - 1, "a deadline that stands");
    check_text(at, now->topic, strlen(now->topic), then->topic, "job.topic");
    same_bytes(at, now->body, now->body_size, then->body, then->body_size, "job.body");
    same_bytes(at, now->key, now->key_size, then->key, then->key_size, "job.key");
    same_bytes(at, now->result, now->result_size, then->result, then->result_size, "job.result");
    same_bytes(at, now->last_error, now->last_error_size, then->last_error, then->last_error_size,
               "job.last_error");
    same_bytes(at, now->history, now->history_size, then->history, then->history_size,
               "job.history");
    same_bytes(at, now->progress, now->progress_size, then->progress, then->progress_size,
               "job.progress");
}

static void same_stats(struct where at, const bide_stats *now, const bide_stats *then)
{
    check_true(at, memcmp(&now->jobs, &then->jobs, sizeof now->jobs) == 0,
               "the queue's jobs by state as before");
    check_true(at, memcmp(&now->total, &then->total, sizeof now->total) == 0,
               "the queue's counters as before");
    check_equal(at, (int64_t)now->topics, (int64_t)then->topics, "stats.topics");
    check_equal(at, (int64_t)now->waiting, (int64_t)then->waiting, "stats.waiting");
    check_equal(at, (int64_t)now->watching, (int64_t)then->watching, "stats.watching");
    check_equal(at, (int64_t)now->last_id, (int64_t)then->last_id, "stats.last_id");
    check_equal(at, now->draining, then->draining, "stats.draining");
    check_equal(at, (int64_t)now->memory_bytes, (int64_t)then->memory_bytes, "stats.memory_bytes");
}

void sample_queue_unchanged(struct where at, const struct sample_queue *sample)
{
    bide_job page[SAMPLE_JOBS + 1] = {0};
    char cursor[BIDE_CURSOR_SIZE] = "";
    uint64_t ids[SAMPLE_JOBS];
    size_t count = 0, listed = 0;
    bide_stats stats = stats_at(at, sample->queue);
    bide_topic_stats topic = topic_at(at, sample->queue, sample->topic);
    same_stats(at, &stats, &sample->stats);
    check_true(at, memcmp(&topic.jobs, &sample->topic_stats.jobs, sizeof topic.jobs) == 0,
               "the topic's jobs by state as before");
    check_true(at, memcmp(&topic.total, &sample->topic_stats.total, sizeof topic.total) == 0,
               "the topic's counters as before");
    check_equal(at, topic.paused, sample->topic_stats.paused, "topic.paused");
    check_equal(at, (int64_t)topic.references, 0, "topic.references");
    job_ids(sample, ids);
    for (size_t i = 0; i < SAMPLE_JOBS; i++) {
        bide_job now = {0};
        check_code(at, bide_peek(sample->queue, ids[i], &now), BIDE_OK, "bide_peek()");
        same_job(at, &now, &sample->jobs[i], 0);
        bide_job_clear(&now);
    }
    do {
        int code = bide_list(sample->queue, sample->topic, BIDE_STATE_GONE, NULL, cursor, page,
                             COUNT(page), &count);
        check_code(at, code, BIDE_OK, "bide_list()");
        clear_jobs(page, count);
        listed += count;
    } while (cursor[0] != '\0');
    check_equal(at, (int64_t)listed, SAMPLE_JOBS, "how many jobs are listed");
}
