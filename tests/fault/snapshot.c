/* SPDX-License-Identifier: MIT */
#include "snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 100
/* How far two readings of one due time may lie apart: the wall clock may be corrected a little. */
#define DUE_SLACK_MS 60000

const char *const snapshot_topics[3] = {"work", "limited", "other"};

/* ---- taking ---- */

static uint64_t hash_of(const void *data, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + size;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return data == NULL && size == 0 ? 0 : hash | 1;
}

static struct job_snapshot snapshot_job(const bide_job *job)
{
    struct job_snapshot copy = {
        .id = job->id,
        .state = job->state,
        .priority = job->priority,
        .body_size = job->body_size,
        .body = job->body_size == 0 ? 0 : hash_of(job->body, job->body_size),
        .key = hash_of(job->key, job->key_size),
        .result = hash_of(job->result, job->result_size),
        .last_error = hash_of(job->last_error, job->last_error_size),
        .history = hash_of(job->history, job->history_size),
        .ttr_ms = job->ttr_ms,
        .run_at_ms = job->state == BIDE_STATE_DELAYED ? job->run_at_ms : 0,
        .retain_ms = job->retain_ms,
        .max_retries = job->max_retries,
        .failures = job->failures,
        .fails = job->fails,
        .releases = job->releases,
        .buries = job->buries,
        .kicks = job->kicks,
    };
    memcpy(copy.topic, job->topic, sizeof(copy.topic));
    return copy;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct job_snapshot *)a)->id;
    uint64_t y = ((const struct job_snapshot *)b)->id;
    return x < y ? -1 : x > y;
}

static void add_page(struct snapshot *snapshot, bide_job *jobs, size_t count)
{
    snapshot->jobs =
        realloc(snapshot->jobs, (snapshot->count + count + 1) * sizeof(snapshot->jobs[0]));
    CHECK(snapshot->jobs != NULL);
    for (size_t i = 0; i < count; i++) {
        snapshot->jobs[snapshot->count++] = snapshot_job(&jobs[i]);
        bide_job_clear(&jobs[i]);
    }
}

struct snapshot *snapshot_take(bide *queue)
{
    struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[PAGE];
    CHECK(snapshot != NULL);
    do {
        size_t count = 0;
        OK(bide_list(queue, NULL, BIDE_STATE_ANY, NULL, cursor, jobs, PAGE, &count));
        add_page(snapshot, jobs, count);
    } while (cursor[0] != 0);
    qsort(snapshot->jobs, snapshot->count, sizeof(snapshot->jobs[0]), by_id);
    for (size_t i = 0; i < COUNT(snapshot_topics); i++) {
        bide_topic_stats stats;
        snapshot->paused[i] =
            bide_topic_get_stats(queue, snapshot_topics[i], &stats) == BIDE_OK && stats.paused;
    }
    return snapshot;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (snapshot != NULL)
        free(snapshot->jobs);
    free(snapshot);
}

const struct job_snapshot *snapshot_find(const struct snapshot *snapshot, uint64_t id)
{
    struct job_snapshot wanted = {.id = id};
    return snapshot->count == 0 ? NULL
                                : bsearch(&wanted, snapshot->jobs, snapshot->count,
                                          sizeof(snapshot->jobs[0]), by_id);
}

/* ---- comparing ---- */

/* What a restart makes of a job that was reserved. */
static void expect_restart(struct job_snapshot *job, const struct job_snapshot *after)
{
    if (job->state != BIDE_STATE_RESERVED)
        return;
    job->state = BIDE_STATE_READY;
    if (job->max_retries < 0)
        return;
    job->failures++;
    job->last_error = after->last_error;
    job->history = after->history;
    job->run_at_ms = after->run_at_ms;
    job->state = BIDE_STATE_DELAYED;
    if (job->failures > (uint32_t)job->max_retries) {
        job->state = BIDE_STATE_BURIED;
        job->buries++;
    }
}

static const char *difference(const struct job_snapshot *a, const struct job_snapshot *b)
{
    int64_t apart = a->run_at_ms - b->run_at_ms;
    const struct {
        bool same;
        const char *name;
    } parts[] = {
        {a->state == b->state, "state"},
        {strcmp(a->topic, b->topic) == 0, "topic"},
        {a->priority == b->priority, "priority"},
        {a->body_size == b->body_size && a->body == b->body, "body"},
        {a->key == b->key, "key"},
        {a->result == b->result, "result"},
        {a->last_error == b->last_error, "last_error"},
        {a->history == b->history, "history"},
        {a->ttr_ms == b->ttr_ms, "ttr"},
        {apart <= DUE_SLACK_MS && apart >= -DUE_SLACK_MS, "run_at"},
        {a->retain_ms == b->retain_ms, "retain"},
        {a->max_retries == b->max_retries, "max_retries"},
        {a->failures == b->failures, "failures"},
        {a->fails == b->fails && a->releases == b->releases && a->buries == b->buries &&
             a->kicks == b->kicks,
         "counters"},
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        if (!parts[i].same)
            return parts[i].name;
    return NULL;
}

static bool compare(const struct snapshot *before, const struct snapshot *after, bool restarted,
                    char *text)
{
    for (size_t i = 0; i < before->count || i < after->count; i++) {
        const struct job_snapshot *a = i < before->count ? &before->jobs[i] : NULL;
        const struct job_snapshot *b = i < after->count ? &after->jobs[i] : NULL;
        if (a == NULL || b == NULL || a->id != b->id) {
            bool lost = b == NULL || (a != NULL && a->id < b->id);
            snprintf(text, DIFFERENCE_SIZE, "job %llu (%s) %s",
                     (unsigned long long)(lost ? a->id : b->id),
                     bide_state_name(lost ? a->state : b->state),
                     lost ? "is missing" : "should not be there");
            return false;
        }
        struct job_snapshot wanted = *a;
        if (restarted)
            expect_restart(&wanted, b);
        const char *name = difference(&wanted, b);
        if (name != NULL) {
            snprintf(text, DIFFERENCE_SIZE, "job %llu (%s, now %s) has another %s",
                     (unsigned long long)a->id, bide_state_name(a->state),
                     bide_state_name(b->state), name);
            return false;
        }
    }
    snprintf(text, DIFFERENCE_SIZE, "the pauses differ");
    return memcmp(before->paused, after->paused, sizeof(before->paused)) == 0;
}

bool snapshot_survived(const struct snapshot *before, const struct snapshot *after, char *text)
{
    return compare(before, after, true, text);
}

bool snapshot_same(const struct snapshot *before, const struct snapshot *after, char *text)
{
    return compare(before, after, false, text);
}

void snapshot_check_reopened(const char *url, bide *queue)
{
    char text[DIFFERENCE_SIZE];
    struct snapshot *before = snapshot_take(queue);
    OK(bide_close(queue));
    queue = open_url(url);
    struct snapshot *after = snapshot_take(queue);
    if (!snapshot_survived(before, after, text))
        FAIL("after a restart: %s", text);
    snapshot_free(before);
    snapshot_free(after);
    OK(bide_close(queue));
}
