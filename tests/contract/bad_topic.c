/* SPDX-License-Identifier: MIT */
/* bad_topic.c - a name that is no topic is refused by every call that takes one. */
#include "sample_queue.h"

#include <string.h>

struct topic_call {
    const char *name;
    int (*run)(const struct sample_queue *sample, bide_slice topic);
    bool may_be_empty; /* an empty name has a meaning of its own */
};

/* The blocking calls take names that end with a NUL; these are made of slices without one. */
static const char *terminated(bide_slice topic)
{
    static char room[512];
    if (!topic.data)
        return NULL;
    CHECK(topic.size < sizeof room);
    memcpy(room, topic.data, topic.size);
    room[topic.size] = '\0';
    return room;
}

static int call_put(const struct sample_queue *sample, bide_slice topic)
{
    uint64_t id;
    spoil(&id, sizeof id);
    int code = bide_put(sample->queue, terminated(topic), "x", 1, NULL, &id);
    SPOILED(id);
    return code;
}

static int call_reserve(const struct sample_queue *sample, bide_slice topic)
{
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_reserve(sample->queue, terminated(topic), 0, &job);
    SPOILED(job);
    return code;
}

static int call_reserve_many(const struct sample_queue *sample, bide_slice topic)
{
    bide_job job;
    bide_slice topics[] = {slice(sample->topic), topic};
    spoil(&job, sizeof job);
    bide_reserve_args args = reserve_args(topics, 2, 0, &job, 1);
    args.count = 42;
    int code = bide_reserve_many(sample->queue, &args);
    SPOILED(job);
    EQ(args.count, 42);
    return code;
}

static int call_finish_and_reserve(const struct sample_queue *sample, bide_slice topic)
{
    bide_job job;
    spoil(&job, sizeof job);
    bide_reserve_args args = reserve_args(&topic, 1, 0, &job, 1);
    bide_finish_item finish = {.id = sample->reserved, .token = sample->token, .status = 42};
    int code = bide_finish_and_reserve(sample->queue, &finish, &args);
    EQ(finish.status, code); /* refused as a whole: nothing was finished */
    SPOILED(job);
    return code;
}

static int call_kick(const struct sample_queue *sample, bide_slice topic)
{
    uint64_t count;
    spoil(&count, sizeof count);
    int code = bide_kick(sample->queue, terminated(topic), 1, &count);
    SPOILED(count);
    return code;
}

static int call_update(const struct sample_queue *sample, bide_slice topic)
{
    bide_update_args changes = {sample->ready, 1, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, topic, {0}};
    return bide_update(sample->queue, &changes);
}

static int call_purge(const struct sample_queue *sample, bide_slice topic)
{
    return bide_purge(sample->queue, terminated(topic), BIDE_STATE_READY, NULL);
}

static int call_pause(const struct sample_queue *sample, bide_slice topic)
{
    return bide_pause(sample->queue, terminated(topic), 1000);
}

static int call_resume(const struct sample_queue *sample, bide_slice topic)
{
    return bide_resume(sample->queue, terminated(topic));
}

static int call_topic_ref(const struct sample_queue *sample, bide_slice topic)
{
    return bide_topic_ref(sample->queue, terminated(topic), 1);
}

static int call_peek_first(const struct sample_queue *sample, bide_slice topic)
{
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_peek_first(sample->queue, terminated(topic), BIDE_STATE_READY, &job);
    SPOILED(job);
    return code;
}

static int call_find(const struct sample_queue *sample, bide_slice topic)
{
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_find(sample->queue, terminated(topic), "held", 4, &job);
    SPOILED(job);
    return code;
}

static int call_list(const struct sample_queue *sample, bide_slice topic)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job job;
    size_t count;
    spoil(&job, sizeof job);
    spoil(&count, sizeof count);
    int code = bide_list(sample->queue, terminated(topic), BIDE_STATE_READY, NULL, cursor, &job, 1,
                         &count);
    SPOILED(job);
    SPOILED(count);
    EQ(cursor[0], 0);
    return code;
}

static int call_topic_stats(const struct sample_queue *sample, bide_slice topic)
{
    bide_topic_stats stats;
    spoil(&stats, sizeof stats);
    int code = bide_topic_get_stats(sample->queue, terminated(topic), &stats);
    SPOILED(stats);
    return code;
}

static int call_subscribe(const struct sample_queue *sample, bide_slice topic)
{
    bide_subscription *feed;
    spoil(&feed, sizeof feed);
    int code = bide_subscribe(sample->queue, terminated(topic), 0, 0, &feed);
    SPOILED(feed);
    return code;
}

static const struct topic_call calls[] = {
    {"put", call_put, false},
    {"reserve", call_reserve, false},
    {"reserve_many", call_reserve_many, false},
    {"finish_and_reserve", call_finish_and_reserve, false},
    {"kick", call_kick, false},
    {"update", call_update, true},
    {"purge", call_purge, false},
    {"pause", call_pause, false},
    {"resume", call_resume, false},
    {"topic_ref", call_topic_ref, false},
    {"peek_first", call_peek_first, false},
    {"find", call_find, false},
    {"list", call_list, true},
    {"topic_stats", call_topic_stats, false},
    {"subscribe", call_subscribe, true},
};

static void refused_by_every_call(struct where at, const struct sample_queue *sample,
                                  bide_slice topic)
{
    for (size_t i = 0; i < COUNT(calls); i++) {
        if (topic.size == 0 && calls[i].may_be_empty)
            continue;
        check_code(at, calls[i].run(sample, topic), BIDE_EINVAL, calls[i].name);
    }
    sample_queue_unchanged(at, sample);
}

static void null_topic_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    refused_by_every_call(HERE, sample, (bide_slice){NULL, 0});
}

static void empty_topic_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    refused_by_every_call(HERE, sample, (bide_slice){"", 0});
}

static void topic_of_201_bytes_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    char name[400];
    memset(name, 'a', sizeof name);
    refused_by_every_call(HERE, sample, (bide_slice){name, BIDE_TOPIC_MAX + 1});
    refused_by_every_call(HERE, sample, (bide_slice){name, sizeof name});
}

static void topic_with_a_leading_dash_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    refused_by_every_call(HERE, sample, slice("-"));
    refused_by_every_call(HERE, sample, slice("-name"));
}

static void topic_with_a_character_of_each_illegal_class_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    static const char *const names[] = {
        "with space",  "with\ttab",      "with\nnewline", "with\rreturn", "with\001control",
        "with\177del", "comma,",         "colon:",        "star*",        "quote\"",
        "apostrophe'", "back\\slash",    "hash#",         "percent%",     "and&",
        "at@",         "bang!",          "question?",     "equals=",      "[bracket",
        "brace{",      "less<",          "bar|",          "tilde~",       "caret^",
        "`back",       "\303\244umlaut", "high\377",      " leading",     "trailing ",
    };
    for (size_t i = 0; i < COUNT(names); i++)
        refused_by_every_call(HERE, sample, slice(names[i]));
}

static void topic_with_any_illegal_character_is_rejected(void)
{
    static const char legal[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()";
    struct sample_queue *sample = new_sample_queue("");
    for (int c = 1; c < 256; c++) {
        if (strchr(legal, c))
            continue;
        char first[] = {(char)c, 'a', '\0'}, last[] = {'a', (char)c, '\0'};
        CODE(bide_put(sample->queue, first, "x", 1, NULL, NULL), BIDE_EINVAL);
        CODE(bide_put(sample->queue, last, "x", 1, NULL, NULL), BIDE_EINVAL);
    }
    UNCHANGED(sample);
}

static void topic_with_a_nul_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_slice topic = {"a\0b", 3};
    CODE(call_reserve_many(sample, topic), BIDE_EINVAL);
    CODE(call_update(sample, topic), BIDE_EINVAL);
    CODE(call_finish_and_reserve(sample, topic), BIDE_EINVAL);
    UNCHANGED(sample);
}

static const struct test tests[] = {
    TEST(null_topic_is_rejected),
    TEST(empty_topic_is_rejected),
    TEST(topic_of_201_bytes_is_rejected),
    TEST(topic_with_a_leading_dash_is_rejected),
    TEST(topic_with_a_character_of_each_illegal_class_is_rejected),
    TEST(topic_with_any_illegal_character_is_rejected),
    TEST(topic_with_a_nul_is_rejected),
};

const struct theme bad_topic_theme = {"bad_topic", tests, COUNT(tests)};
