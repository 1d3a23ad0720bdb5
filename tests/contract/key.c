/* SPDX-License-Identifier: MIT */
/* key.c - the name under which only one live job may exist in a topic. */
#include "contract.h"

#include <string.h>

static const bide_state live_states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_RESERVED,
                                         BIDE_STATE_BURIED};

static bide_put_options keyed(const char *key, bide_conflict conflict)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice(key);
    options.conflict = conflict;
    return options;
}

/* The key is held by this job: a put of it answers the holder, and find shows it. */
static void held_by(bide *queue, const char *topic, const char *key, uint64_t holder)
{
    bide_put_options options = keyed(key, BIDE_REJECT);
    uint64_t id = 0;
    CODE(bide_put(queue, topic, "x", 1, &options, &id), BIDE_EXISTS);
    EQ(id, holder);
    bide_job job = {0};
    OK(bide_find(queue, topic, key, strlen(key), &job));
    EQ(job.id, holder);
    bide_job_clear(&job);
}

/* The key is free: find does not find it, and it can be put. Leaves the topic as it was. */
static void free_again(bide *queue, const char *topic, const char *key)
{
    bide_job job = {0};
    CODE(bide_find(queue, topic, key, strlen(key), &job), BIDE_NOT_FOUND);
    EQ(job.id, 0);
    OK(bide_delete(queue, put_key(queue, topic, key), 0));
}

static void a_key_that_is_held_is_rejected_with_its_holder(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "k");
    held_by(queue, a, "k", id);
    EQ(topic_of(queue, a).jobs.ready, 1);
    EQ(topic_of(queue, a).total.puts, 1);
    bide_put_options options = keyed("k", BIDE_REJECT);
    CODE(bide_put(queue, a, "x", 1, &options, NULL), BIDE_EXISTS);
}

static void a_key_belongs_to_its_topic(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t in_a = put_key(queue, a, "k"), in_b = put_key(queue, b, "k");
    CHECK(in_a != in_b);
    held_by(queue, a, "k", in_a);
    held_by(queue, b, "k", in_b);
}

static void different_keys_do_not_conflict(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put_key(queue, a, "k");
    put_key(queue, a, "K");
    put_key(queue, a, "k ");
    put(queue, a, "without");
    put(queue, a, "without");
    EQ(topic_of(queue, a).jobs.ready, 5);
}

static void a_key_may_have_1_to_200_bytes_of_any_kind(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    unsigned char key[BIDE_KEY_MAX];
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (unsigned char)(i * 37);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    static const size_t sizes[] = {BIDE_KEY_MAX, BIDE_KEY_MAX - 1, 1};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        options.key = (bide_slice){key, sizes[i]};
        uint64_t id = put_as(queue, a, "body", &options), holder = 0;
        const bide_job *job = stat_job(queue, id);
        EQ(job->key_size, sizes[i]);
        CHECK(memcmp(job->key, key, sizes[i]) == 0);
        CODE(bide_put(queue, a, "x", 1, &options, &holder), BIDE_EXISTS);
        EQ(holder, id);
    }
}

static void a_key_is_held_in_every_live_state(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const char *const keys[] = {"1", "2", "3", "4"};
    for (size_t i = 0; i < COUNT(live_states); i++) {
        bide_put_options options = keyed(keys[i], BIDE_REJECT);
        uint64_t id = put_in_as(queue, a, live_states[i], &options);
        held_by(queue, a, keys[i], id);
    }
}

static void a_key_stays_with_its_job_through_release_fail_bury_and_kick(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "k");
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
    held_by(queue, a, "k", id);
    OK(bide_give_back(queue, id, take(queue, a)->token));
    held_by(queue, a, "k", id);
    OK(bide_fail(queue, id, take(queue, a)->token, NULL, 3600000, NULL, NULL));
    held_by(queue, a, "k", id);
    OK(bide_kick_job(queue, id));
    OK(bide_bury(queue, id, take(queue, a)->token, BIDE_KEEP, NULL));
    held_by(queue, a, "k", id);
    OK(bide_kick(queue, a, 1, NULL));
    held_by(queue, a, "k", id);
    const bide_job *job = take(queue, a);
    TEXT(job->key, job->key_size, "k");
}

static void a_delete_frees_the_key_in_every_state(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = keyed("k", BIDE_REJECT);
    for (size_t i = 0; i < COUNT(live_states); i++) {
        uint64_t token = 0;
        uint64_t id = 0;
        if (live_states[i] == BIDE_STATE_RESERVED) {
            id = put_as(queue, a, "body", &options);
            token = take_job(queue, id)->token;
        } else {
            id = put_in_as(queue, a, live_states[i], &options);
        }
        held_by(queue, a, "k", id);
        OK(bide_delete(queue, id, token));
        free_again(queue, a, "k");
    }
}

static void a_cancel_frees_the_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    OK(bide_cancel(queue, put_key(queue, a, "k")));
    free_again(queue, a, "k");

    uint64_t id = put_key(queue, a, "k");
    uint64_t token = take(queue, a)->token;
    OK(bide_cancel(queue, id));
    held_by(queue, a, "k", id);
    OK(bide_release(queue, id, token, BIDE_KEEP, 0));
    free_again(queue, a, "k");
}

static void done_frees_the_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "k");
    OK(bide_done(queue, id, take(queue, a)->token, NULL, 0, 0));
    EQ(state_of(queue, id), BIDE_STATE_GONE);
    free_again(queue, a, "k");

    id = put_key(queue, a, "k");
    OK(bide_done(queue, id, take(queue, a)->token, "r", 1, 3600000));
    EQ(state_of(queue, id), BIDE_STATE_DONE);
    free_again(queue, a, "k");
    EQ(state_of(queue, id), BIDE_STATE_DONE);
}

static void a_purge_frees_the_keys(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED};
    bide_put_options options = keyed("k", BIDE_REJECT);
    for (size_t i = 0; i < COUNT(states); i++) {
        put_in_as(queue, a, states[i], &options);
        OK(bide_purge(queue, a, states[i], NULL));
        free_again(queue, a, "k");
    }
}

static void an_expiry_frees_the_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = keyed("k", BIDE_REJECT);
    options.expires_at_ms = wall_ms() + 30;
    uint64_t id = put_as(queue, a, "body", &options);
    UNTIL(state_of(queue, id) == BIDE_STATE_GONE);
    free_again(queue, a, "k");
}

static void a_key_may_be_held_through_retention(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = keyed("k", BIDE_REJECT);
    options.key_hold_retained = true;
    options.retain_ms = 3600000;
    uint64_t id = put_as(queue, a, "body", &options);
    OK(bide_done(queue, id, take(queue, a)->token, "r", 1, BIDE_KEEP));
    EQ(state_of(queue, id), BIDE_STATE_DONE);
    held_by(queue, a, "k", id);
    OK(bide_delete(queue, id, 0));
    free_again(queue, a, "k");
}

static void the_end_of_retention_frees_a_key_that_was_held_through_it(void)
{
    bide *queue = open_queue("max_done_per_topic=1");
    const char *a = fresh_topic("a");
    bide_put_options options = keyed("k", BIDE_REJECT);
    options.key_hold_retained = true;
    uint64_t id = put_as(queue, a, "body", &options);
    OK(bide_done(queue, id, take(queue, a)->token, "r", 1, 40));
    UNTIL(state_of(queue, id) == BIDE_STATE_GONE);
    free_again(queue, a, "k");

    id = put_as(queue, a, "body", &options);
    OK(bide_done(queue, id, take(queue, a)->token, "r", 1, 3600000));
    put_in(queue, a, BIDE_STATE_DONE);
    EQ(state_of(queue, id), BIDE_STATE_GONE);
    free_again(queue, a, "k");
}

static void replace_replaces_the_holder_of_the_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED};
    bide_put_options options = keyed("k", BIDE_REJECT), replace = keyed("k", BIDE_REPLACE);
    OK(bide_topic_ref(queue, a, 1));
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t old = put_in_as(queue, a, states[i], &options);
        uint64_t made = put_as(queue, a, "new", &replace);
        CHECK(made > old);
        EQ(state_of(queue, old), BIDE_STATE_GONE);
        EQ(state_of(queue, made), BIDE_STATE_READY);
        held_by(queue, a, "k", made);
        bide_topic_stats stats = topic_of(queue, a);
        EQ(stats.jobs.ready, 1);
        EQ(stats.jobs.delayed + stats.jobs.buried, 0);
        EQ(stats.total.deletes, 2 * i + 1);
        OK(bide_delete(queue, made, 0));
    }
    OK(bide_topic_ref(queue, a, -1));
}

static void replace_rejects_a_reserved_holder(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options replace = keyed("k", BIDE_REPLACE);
    uint64_t id = put_key(queue, a, "k"), holder = 0;
    uint64_t token = take(queue, a)->token;
    CODE(bide_put(queue, a, "new", 3, &replace, &holder), BIDE_EXISTS);
    EQ(holder, id);
    EQ(state_of(queue, id), BIDE_STATE_RESERVED);
    OK(bide_delete(queue, id, token));
    put_as(queue, a, "new", &replace);
}

static void replace_removes_a_done_job_that_holds_the_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = keyed("k", BIDE_REJECT), replace = keyed("k", BIDE_REPLACE);
    options.key_hold_retained = true;
    uint64_t old = put_in_as(queue, a, BIDE_STATE_DONE, &options);
    uint64_t made = put_as(queue, a, "new", &replace);
    EQ(state_of(queue, old), BIDE_STATE_GONE);
    held_by(queue, a, "k", made);
}

static void replace_of_a_free_key_is_a_put(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options replace = keyed("k", BIDE_REPLACE);
    uint64_t id = put_as(queue, a, "new", &replace);
    EQ(topic_of(queue, a).total.deletes, 0);
    EQ(take(queue, a)->id, id);
}

static void wait_for_a_replaced_job_ends_with_gone(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options replace = keyed("k", BIDE_REPLACE);
    struct waiter *waiter = begin_wait(queue, new_cq(), put_key(queue, a, "k"));
    put_as(queue, a, "new", &replace);
    completes(waiter, BIDE_OK);
    EQ(waiter->op.wait.state, BIDE_STATE_GONE);
}

static const struct test tests[] = {
    TEST(a_key_that_is_held_is_rejected_with_its_holder),
    TEST(a_key_belongs_to_its_topic),
    TEST(different_keys_do_not_conflict),
    TEST(a_key_may_have_1_to_200_bytes_of_any_kind),
    TEST(a_key_is_held_in_every_live_state),
    TEST(a_key_stays_with_its_job_through_release_fail_bury_and_kick),
    TEST(a_delete_frees_the_key_in_every_state),
    TEST(a_cancel_frees_the_key),
    TEST(done_frees_the_key),
    TEST(a_purge_frees_the_keys),
    TEST(an_expiry_frees_the_key),
    TEST(a_key_may_be_held_through_retention),
    TEST(the_end_of_retention_frees_a_key_that_was_held_through_it),
    TEST(replace_replaces_the_holder_of_the_key),
    TEST(replace_rejects_a_reserved_holder),
    TEST(replace_removes_a_done_job_that_holds_the_key),
    TEST(replace_of_a_free_key_is_a_put),
    TEST(wait_for_a_replaced_job_ends_with_gone),
};

const struct theme key_theme = {"key", tests, COUNT(tests)};
