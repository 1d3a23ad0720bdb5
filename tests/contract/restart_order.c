/* SPDX-License-Identifier: MIT */
/* restart_order.c - order, ids and limits across restarts. */
#include "chaos.h"
#include "location.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 4000 };

/* ---- order ---- */

static int by_priority_and_id(const void *a, const void *b)
{
    const bide_job *one = a, *two = b;
    if (one->priority != two->priority)
        return one->priority < two->priority ? -1 : 1;
    return one->id < two->id ? -1 : one->id > two->id;
}

static void thousands_of_jobs_keep_their_order(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    static bide_job want[MANY], got[BIDE_BATCH_JOBS];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t ids[100];
    dice = 42;
    for (size_t i = 0; i < MANY; i += COUNT(ids)) {
        options.priority = (uint32_t)roll(5);
        put_lots(queue, a, COUNT(ids), &options, ids);
        for (size_t j = 0; j < COUNT(ids); j++)
            want[i + j] = (bide_job){.id = ids[j], .priority = options.priority};
    }
    queue = reopen(queue, "");
    qsort(want, MANY, sizeof want[0], by_priority_and_id);
    EQ(topic_of(queue, a).jobs.ready, MANY);
    for (size_t taken = 0; taken < MANY;) {
        bide_reserve_args args = reserve_args(&topic, 1, 0, got, COUNT(got));
        OK(bide_reserve_many(queue, &args));
        for (size_t i = 0; i < args.count; i++)
            EQ(got[i].id, want[taken + i].id);
        clear_jobs(got, args.count);
        taken += args.count;
    }
    nothing_ready(queue, a);
}

/* Jobs in the order in which they were buried. */
static struct graveyard {
    uint64_t ids[2 * MANY];
    size_t first, end;
} graves;

static void shuffle(uint64_t *ids, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = roll(i);
        uint64_t id = ids[i - 1];
        ids[i - 1] = ids[other];
        ids[other] = id;
    }
}

/* Puts more jobs and buries them in an order that is not theirs. */
static void bury_some(bide *queue, const char *topic, size_t count)
{
    uint64_t *ids = graves.ids + graves.end;
    CHECK(graves.end + count <= COUNT(graves.ids));
    put_lots(queue, topic, count, NULL, ids);
    shuffle(ids, count);
    for (size_t i = 0; i < count; i++)
        OK(bide_bury(queue, ids[i], 0, BIDE_KEEP, NULL));
    graves.end += count;
}

/* Kicks some; they must be those that were buried first. They are deleted. */
static void kick_some(bide *queue, const char *topic, size_t count)
{
    uint64_t kicked = 0;
    bide_job first = {0};
    OK(bide_peek_first(queue, topic, BIDE_STATE_BURIED, &first));
    EQ(first.id, graves.ids[graves.first]);
    bide_job_clear(&first);
    OK(bide_kick(queue, topic, count, &kicked));
    EQ(kicked, count);
    EQ(topic_of(queue, topic).jobs.ready, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t id = graves.ids[graves.first + i];
        EQ(state_of(queue, id), BIDE_STATE_READY);
        OK(bide_delete(queue, id, 0));
    }
    graves.first += count;
}

static void kick_takes_the_oldest_burial_first_across_restarts(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    dice = 7;
    bury_some(queue, a, 3000);
    for (int round = 0; round < 5; round++) {
        queue = reopen(queue, "");
        kick_some(queue, a, 100);
        bury_some(queue, a, 50);
        /* One that was buried before is buried again: it is now the youngest. */
        uint64_t again = graves.ids[graves.first++];
        OK(bide_kick_job(queue, again));
        OK(bide_bury(queue, again, 0, BIDE_KEEP, NULL));
        graves.ids[graves.end++] = again;
        queue = reopen(queue, "");
        queue = reopen(queue, "");
        kick_some(queue, a, 1);
        kick_some(queue, a, 250);
    }
    queue = reopen(queue, "");
    kick_some(queue, a, graves.end - graves.first);
    CHECK(!topic_exists(queue, a));
}

static void oldest_result_is_dropped_first_after_a_restart(void)
{
    enum { DONE = 20 };
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t ids[DONE];
    put_lots(queue, a, DONE, NULL, ids);
    dice = 3;
    shuffle(ids, DONE);
    for (size_t i = 0; i < DONE; i++) {
        OK(bide_done(queue, ids[i], 0, "x", 1, 3600000));
        nap_ms(1);
    }
    queue = reopen(queue, "max_done_per_topic=20");
    for (size_t i = 0; i < DONE; i++) {
        bide_job first = {0};
        OK(bide_peek_first(queue, a, BIDE_STATE_DONE, &first));
        EQ(first.id, ids[i]);
        bide_job_clear(&first);
        OK(bide_done(queue, put(queue, a, "body"), 0, "x", 1, 3600000));
        EQ(state_of(queue, ids[i]), BIDE_STATE_GONE);
        EQ(topic_of(queue, a).jobs.done, DONE);
    }
}

static void delayed_jobs_keep_the_order_of_their_due_times(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    int64_t base_ms = wall_ms() + 3600000;
    uint64_t ids[300], want[300], tokens[300];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (size_t i = 0; i < COUNT(ids); i++) {
        options.run_at_ms = base_ms + (int64_t)(i * 77 % COUNT(ids)) * 1000;
        ids[i] = put_as(queue, a, "body", &options);
        want[i * 77 % COUNT(ids)] = ids[i];
    }
    queue = reopen(queue, "");
    for (size_t i = 0; i < COUNT(ids); i++) {
        uint64_t count = 0;
        OK(bide_kick(queue, a, 1, &count));
        EQ(count, 1);
        const bide_job *job = take(queue, a);
        EQ(job->id, want[i]);
        tokens[i] = job->token;
        if (i == 100) {
            queue = reopen(queue, "");
            for (size_t j = 0; j <= i; j++)
                OK(bide_delete(queue, want[j], is_in_process() ? 0 : tokens[j]));
        }
    }
}

/* ---- ids and limits ---- */

static void put_and_delete(bide *queue)
{
    for (int i = 0; i < 3; i++)
        OK(bide_delete(queue, put(queue, fresh_topic("a"), "body"), 0));
}

static void id_is_never_reused(void)
{
    char location[LOCATION_SIZE];
    uint64_t last = 0;
    new_location(location, sizeof location);
    fresh_topic("a");
    for (int round = 0; round < 10; round++) {
        if (round % 3 == 1)
            crash_during(location, "", put_and_delete);
        bide *queue = loaded(open_location(location, ""));
        CHECK(stats_of(queue).last_id >= last + (round % 3 == 1 ? 3 : 0));
        last = stats_of(queue).last_id;
        for (int i = 0; i < round % 4; i++) {
            uint64_t id = put(queue, fresh_topic("a"), "body");
            CHECK(id > last);
            last = id;
            OK(bide_delete(queue, id, i % 2 == 0 ? 0 : take(queue, fresh_topic("a"))->token));
        }
        EQ(stats_of(queue).last_id, last);
        leave_queue(queue);
    }
}

static void limits_count_loaded_jobs(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_job job = {0};
    put_in(queue, a, BIDE_STATE_READY);
    put_in(queue, a, BIDE_STATE_DELAYED);
    put_in(queue, a, BIDE_STATE_BURIED);
    put_in(queue, a, BIDE_STATE_RESERVED);
    put_in(queue, a, BIDE_STATE_DONE);
    char limits[64];
    snprintf(limits, sizeof limits, "max_jobs_per_topic=4&max_topics=%zu", 1 + initial_topics());
    queue = reopen(queue, limits);
    CODE(bide_put(queue, a, "x", 1, NULL, NULL), BIDE_TOPIC_FULL);
    CODE(bide_put(queue, fresh_topic("b"), "x", 1, NULL, NULL), BIDE_TOO_MANY_TOPICS);
    OK(bide_peek_first(queue, a, BIDE_STATE_BURIED, &job));
    OK(bide_delete(queue, job.id, 0));
    bide_job_clear(&job);
    put(queue, a, "body");
    CODE(bide_put(queue, a, "x", 1, NULL, NULL), BIDE_TOPIC_FULL);
}

/* What is over a limit that is lower now can be worked off, and nothing of it is lost. */
static void more_jobs_and_topics_than_are_allowed_now_are_loaded(void)
{
    bide *queue = open_queue("");
    const char *topics[] = {fresh_topic("a"), fresh_topic("b"), fresh_topic("c")};
    for (size_t i = 0; i < COUNT(topics); i++)
        put_lots(queue, topics[i], 10, NULL, NULL);
    queue = reopen(queue, "max_jobs_per_topic=5&max_topics=2&max_memory=1");
    EQ(stats_of(queue).jobs.ready, 30);
    for (size_t i = 0; i < 30; i++) {
        const bide_job *job = take(queue, topics[i / 10]);
        OK(bide_delete(queue, job->id, job->token));
    }
    BETWEEN((int64_t)stats_of(queue).topics, 0, (int64_t)initial_topics());
}

static const struct test tests[] = {
    TEST(thousands_of_jobs_keep_their_order),
    TEST(kick_takes_the_oldest_burial_first_across_restarts),
    TEST(oldest_result_is_dropped_first_after_a_restart),
    TEST(delayed_jobs_keep_the_order_of_their_due_times),
    TEST(id_is_never_reused),
    TEST(limits_count_loaded_jobs),
    TEST(more_jobs_and_topics_than_are_allowed_now_are_loaded),
};

const struct theme restart_order_theme = {"restart_order", tests, COUNT(tests)};
