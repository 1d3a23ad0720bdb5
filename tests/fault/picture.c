/* SPDX-License-Identifier: MIT */
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 100
/* How far two readings of one due time may lie apart: the wall clock may be corrected a little. */
#define DUE_SLACK_MS 60000

const char *const picture_topics[3] = {"work", "limited", "other"};

/* ---- taking ---- */

static uint64_t hash_of(const void *data, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + size;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return data == NULL && size == 0 ? 0 : hash | 1;
}

static struct seen_job see(const bide_job *job)
{
    struct seen_job seen = {
        .id = job->id,
        .state = job->state,
        .priority = job->priority,
        .body_size = job->body_size,
        .body = job->body_size == 0 ? 0 : hash_of(job->body, job->body_size),
        .key = hash_of(job->key, job->key_size),
        .result = hash_of(job->result, job->result_size),
        .last_error = hash_of(job->last_error, job->last_error_size),
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
    memcpy(seen.topic, job->topic, sizeof(seen.topic));
    return seen;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct seen_job *)a)->id;
    uint64_t y = ((const struct seen_job *)b)->id;
    return x < y ? -1 : x > y;
}

static void add_page(struct picture *picture, bide_job *jobs, size_t count)
{
    picture->jobs = realloc(picture->jobs, (picture->count + count + 1) * sizeof(picture->jobs[0]));
    CHECK(picture->jobs != NULL);
    for (size_t i = 0; i < count; i++) {
        picture->jobs[picture->count++] = see(&jobs[i]);
        bide_job_clear(&jobs[i]);
    }
}

struct picture *picture_take(bide *queue)
{
    struct picture *picture = calloc(1, sizeof(*picture));
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[PAGE];
    CHECK(picture != NULL);
    do {
        size_t count = 0;
        OK(bide_list(queue, NULL, BIDE_STATE_ANY, NULL, cursor, jobs, PAGE, &count));
        add_page(picture, jobs, count);
    } while (cursor[0] != 0);
    qsort(picture->jobs, picture->count, sizeof(picture->jobs[0]), by_id);
    for (size_t i = 0; i < COUNT(picture_topics); i++) {
        bide_topic_stats stats;
        picture->paused[i] =
            bide_topic_get_stats(queue, picture_topics[i], &stats) == BIDE_OK && stats.paused;
    }
    return picture;
}

void picture_free(struct picture *picture)
{
    if (picture != NULL)
        free(picture->jobs);
    free(picture);
}

const struct seen_job *picture_find(const struct picture *picture, uint64_t id)
{
    struct seen_job wanted = {.id = id};
    return picture->count == 0
               ? NULL
               : bsearch(&wanted, picture->jobs, picture->count, sizeof(picture->jobs[0]), by_id);
}

/* ---- comparing ---- */

/* What a restart makes of a job that was reserved. */
static void settle(struct seen_job *job, const struct seen_job *after)
{
    if (job->state != BIDE_STATE_RESERVED)
        return;
    job->state = BIDE_STATE_READY;
    if (job->max_retries < 0)
        return;
    job->failures++;
    job->last_error = after->last_error;
    job->run_at_ms = after->run_at_ms;
    job->state = BIDE_STATE_DELAYED;
    if (job->failures > (uint32_t)job->max_retries) {
        job->state = BIDE_STATE_BURIED;
        job->buries++;
    }
}

static const char *difference(const struct seen_job *a, const struct seen_job *b)
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

static bool compare(const struct picture *before, const struct picture *after, bool restarted,
                    char *text)
{
    for (size_t i = 0; i < before->count || i < after->count; i++) {
        const struct seen_job *a = i < before->count ? &before->jobs[i] : NULL;
        const struct seen_job *b = i < after->count ? &after->jobs[i] : NULL;
        if (a == NULL || b == NULL || a->id != b->id) {
            bool lost = b == NULL || (a != NULL && a->id < b->id);
            snprintf(text, DIFFERENCE_SIZE, "job %llu (%s) %s",
                     (unsigned long long)(lost ? a->id : b->id),
                     bide_state_name(lost ? a->state : b->state),
                     lost ? "is missing" : "should not be there");
            return false;
        }
        struct seen_job wanted = *a;
        if (restarted)
            settle(&wanted, b);
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

bool picture_survived(const struct picture *before, const struct picture *after, char *text)
{
    return compare(before, after, true, text);
}

bool picture_same(const struct picture *before, const struct picture *after, char *text)
{
    return compare(before, after, false, text);
}

void picture_check_reopened(const char *url, bide *queue)
{
    char text[DIFFERENCE_SIZE];
    struct picture *before = picture_take(queue);
    OK(bide_close(queue));
    queue = open_url(url);
    struct picture *after = picture_take(queue);
    if (!picture_survived(before, after, text))
        FAIL("after a restart: %s", text);
    picture_free(before);
    picture_free(after);
    OK(bide_close(queue));
}
