/* SPDX-License-Identifier: MIT */
/* sample_queue.c - jobs of every kind, and their comparison. */
#include "sample_queue.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Times are kept on one clock and told on another; two readings are not made at once. */
#define SLACK_MS INT64_C(1000)

size_t sample_queue_count(void)
{
    const char *text = getenv("BIDE_TEST_JOBS");
    return text == NULL ? 400 : (size_t)strtoul(text, NULL, 10);
}

/* ---- one function for each kind of job; the job is made and then treated ---- */

struct making {
    bide *queue;
    size_t number;
    bide_put_options options;
    char topic[32];
    char key[32];
    unsigned char body[3000];
    size_t body_size;
};

static uint64_t put_made(struct making *making)
{
    uint64_t id = 0;
    OK(bide_put(making->queue, making->topic, making->body, making->body_size, &making->options,
                &id));
    return id;
}

/* Takes the job, whatever the others in its topic are. */
static uint64_t token_of(const struct making *making, uint64_t id)
{
    bide_job job = {0};
    OK(bide_reserve_job(making->queue, id, &job));
    uint64_t token = job.token;
    bide_job_clear(&job);
    return token;
}

static void use_key(struct making *making)
{
    making->options.key =
        (bide_slice){making->key, (size_t)snprintf(making->key, sizeof(making->key), "key\xff-%zu",
                                                   making->number)};
}

static void make_ready(struct making *making)
{
    put_made(making);
}

static void make_twin(struct making *making)
{
    snprintf(making->topic, sizeof(making->topic), "twins");
    making->options.priority = 7;
    making->body_size = 4;
    memcpy(making->body, "twin", 4);
    put_made(making);
}

static void make_delayed(struct making *making)
{
    making->options.delay_ms = HOUR_MS + (int64_t)making->number;
    put_made(making);
}

static void make_run_at(struct making *making)
{
    making->options.run_at_ms = wall_ms() + 2 * HOUR_MS + (int64_t)making->number;
    put_made(making);
}

/* That the delay has ended is not stored: the job is ready since the file was opened. */
static void make_due(struct making *making)
{
    snprintf(making->topic, sizeof(making->topic), "due");
    making->options.delay_ms = 1;
    put_made(making);
}

static void make_buried(struct making *making)
{
    uint64_t id = put_made(making);
    OK(bide_bury(making->queue, id, token_of(making, id), making->number % 9,
                 "it is set \xe2\x80\xa6 aside"));
}

static void make_done(struct making *making)
{
    static const unsigned char result[] = {0, 255, 1, 254, '"', '\\', '\n'};
    making->options.retain_ms = 3 * HOUR_MS;
    making->options.key_hold_retained = making->number % 2 == 0;
    use_key(making);
    uint64_t id = put_made(making);
    OK(bide_done(making->queue, id, token_of(making, id), result, making->number % sizeof(result),
                 making->number % 3 == 0 ? 2 * HOUR_MS : BIDE_KEEP));
}

static void make_keyed(struct making *making)
{
    use_key(making);
    making->options.max_retries = (int32_t)(making->number % 5);
    making->options.backoff_base_ms = 11;
    making->options.backoff_max_ms = 1111;
    put_made(making);
}

static void make_failed(struct making *making)
{
    making->options.max_retries = 3;
    uint64_t id = put_made(making);
    OK(bide_fail(making->queue, id, token_of(making, id), "it \xff went wrong", HOUR_MS, NULL,
                 NULL));
}

static void make_given_up(struct making *making)
{
    making->options.max_retries = 0;
    uint64_t id = put_made(making);
    OK(bide_fail(making->queue, id, token_of(making, id), "", BIDE_KEEP, NULL, NULL));
}

static void make_expiring(struct making *making)
{
    making->options.expires_at_ms = wall_ms() + 5 * HOUR_MS;
    making->options.ttr_ms = 1234567;
    put_made(making);
}

static void make_experienced(struct making *making)
{
    uint64_t id = put_made(making);
    OK(bide_release(making->queue, id, token_of(making, id), 3, 0));
    uint64_t token = token_of(making, id);
    OK(bide_touch(making->queue, id, token, 0, "half"));
    OK(bide_fail(making->queue, id, token, "once", 0, NULL, NULL));
    OK(bide_bury(making->queue, id, 0, BIDE_KEEP, NULL));
    OK(bide_kick_job(making->queue, id));
}

static void make_empty(struct making *making)
{
    making->body_size = 0;
    making->options.priority = UINT32_MAX;
    put_made(making);
}

static void (*const kinds[])(struct making *making) = {
    make_ready, make_twin, make_delayed, make_run_at,   make_due,      make_buried,      make_done,
    make_keyed, make_twin, make_failed,  make_given_up, make_expiring, make_experienced, make_empty,
};

/* ---- filling ---- */

static void make(bide *queue, size_t number)
{
    struct making making = {.queue = queue, .number = number, .options = BIDE_PUT_OPTIONS_INIT};
    making.options.priority = (uint32_t)(number * 2654435761u) % 5000;
    snprintf(making.topic, sizeof(making.topic), "topic-%zu", number % 5);
    making.body_size = number % 50 == 0 ? sizeof(making.body) : number % 90;
    for (size_t i = 0; i < making.body_size; i++)
        making.body[i] = (unsigned char)(number % 3 == 0 ? number * 31 + i * 7 : 'a' + i % 26);
    kinds[number % COUNT(kinds)](&making);
}

void fill_sample_queue(const char *url, size_t count)
{
    /* What is in a file is there when it is closed, and need not survive a loss of power before. */
    char unsynced[PATH_MAX + 64];
    snprintf(unsynced, sizeof(unsynced), "%s%s", url,
             strncmp(url, "sqlite:", 7) == 0 ? "?sync=off" : "");
    bide *queue = open_url(unsynced);
    for (size_t i = 0; i < count; i++)
        make(queue, i);
    OK(bide_pause(queue, "topic-1", BIDE_FOREVER));
    OK(bide_pause(queue, "topic-2", HOUR_MS));
    OK(bide_pause(queue, "nothing-in-it", HOUR_MS));
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.concurrency = 3;
    policy.max_retries = BIDE_UNLIMITED;
    OK(bide_topic_set(queue, "topic-1", &policy));
    policy.max_retries = 0;
    OK(bide_topic_set(queue, "only-a-policy", &policy));
    nap_ms(2); /* what was to be ready by now is */
    OK(bide_close(queue));
}

/* ---- exporting ---- */

json_t *exported(const char *url)
{
    static int serial;
    char name[32];
    snprintf(name, sizeof(name), "export-%d.jsonl", ++serial);
    const char *path = test_path(name);
    use_url(NULL);
    run_expect(0, "export", "--url", url, "--quiet", "--output", path);
    FILE *file = fopen(path, "r");
    json_t *lines = json_array();
    CHECK(file != NULL && lines != NULL);
    json_t *line;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL)) != NULL)
        CHECK(json_array_append_new(lines, line) == 0);
    CHECK(feof(file));
    fclose(file);
    unlink(path);
    CHECK(strcmp(text_in(json_array_get(lines, json_array_size(lines) - 1), "kind"), "end") == 0);
    return lines;
}

static bool is_job(const json_t *line)
{
    return json_object_get(line, "kind") == NULL;
}

size_t jobs_in(const json_t *export)
{
    size_t count = 0, i;
    json_t *line;
    json_array_foreach(export, i, line) count += is_job(line);
    return count;
}

/* ---- comparing ---- */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static bool may_differ(const char *name)
{
    static const char *const names[] = {"id", "left_ms", "age_ms", "delay_ms", "progress", NULL};
    return is_one_of(name, names);
}

static bool is_moment(const char *name, const json_t *job)
{
    static const char *const names[] = {"created_ms", "ready_ms", "reserved_ms", "touched_ms",
                                        "buried_ms",  "done_ms",  "until_ms",    NULL};
    if (strcmp(name, "run_at_ms") == 0)
        return json_object_get(job, "run_at_wall") == NULL;
    return is_one_of(name, names);
}

static bool is_due(const json_t *job)
{
    return strcmp(text_in(job, "topic"), "due") == 0;
}

static bool same_value(const char *name, const json_t *job, const json_t *a, const json_t *b)
{
    if (may_differ(name) || (strcmp(name, "ready_ms") == 0 && is_due(job)))
        return true;
    if (a == NULL || b == NULL)
        return false;
    if (is_moment(name, job))
        return llabs(json_integer_value(a) - json_integer_value(b)) <= SLACK_MS;
    if (strcmp(name, "state") == 0 && strcmp(json_string_value(a), "reserved") == 0)
        return strcmp(json_string_value(b), "ready") == 0;
    return json_equal(a, b) != 0;
}

static void same_line(struct where at, const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, name, value)
    {
        if (!same_value(name, a, value, json_object_get(b, name)))
            fail_test(at, "%s differs: %s\nand %s", name, json_dumps(a, 0), json_dumps(b, 0));
    }
    json_object_foreach((json_t *)(uintptr_t)b, name, value)
    {
        if (!may_differ(name) && json_object_get(a, name) == NULL)
            fail_test(at, "%s is new: %s\nand %s", name, json_dumps(a, 0), json_dumps(b, 0));
    }
}

/* Pauses and policies come in the order of the backend. */
static void same_topics(struct where at, const json_t *a, const json_t *b, const char *kind)
{
    size_t i, j;
    json_t *one, *other;
    json_array_foreach(a, i, one)
    {
        if (is_job(one) || strcmp(text_in(one, "kind"), kind) != 0)
            continue;
        bool found = false;
        json_array_foreach(b, j, other)
        {
            if (is_job(other))
                break;
            if (strcmp(text_in(other, "kind"), kind) == 0 &&
                strcmp(text_in(other, "topic"), text_in(one, "topic")) == 0) {
                same_line(at, one, other);
                found = true;
            }
        }
        if (!found)
            fail_test(at, "the %s of %s is missing", kind, text_in(one, "topic"));
    }
}

static const json_t *next_job(const json_t *export, size_t *place)
{
    while (*place < json_array_size(export)) {
        const json_t *line = json_array_get(export, (*place)++);
        if (is_job(line))
            return line;
    }
    return NULL;
}

void same_at(struct where at, const json_t *a, const json_t *b)
{
    size_t i = 0, j = 0;
    if (jobs_in(a) != jobs_in(b))
        fail_test(at, "one has %zu jobs, the other %zu", jobs_in(a), jobs_in(b));
    static const char *const kinds_of_topics[] = {"pause", "policy"};
    for (size_t k = 0; k < COUNT(kinds_of_topics); k++) {
        same_topics(at, a, b, kinds_of_topics[k]);
        same_topics(at, b, a, kinds_of_topics[k]);
    }
    for (const json_t *one; (one = next_job(a, &i)) != NULL;)
        same_line(at, one, next_job(b, &j));
}
