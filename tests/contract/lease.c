/* SPDX-License-Identifier: MIT */
/* lease.c - what a lease and its token allow: delete, done, release, give_back, fail, bury. */
#include "contract.h"

#include <string.h>

/* Every call that takes a token, with what it answers to a token of 0 and a reserved job. */
struct lease_call {
    const char *name;
    int (*run)(bide *queue, uint64_t id, uint64_t token);
    int without_token;
};

static int call_delete(bide *queue, uint64_t id, uint64_t token)
{
    return bide_delete(queue, id, token);
}

static int call_done(bide *queue, uint64_t id, uint64_t token)
{
    return bide_done(queue, id, token, "result", 6, 3600000);
}

static int call_release(bide *queue, uint64_t id, uint64_t token)
{
    return bide_release(queue, id, token, 7, 3600000);
}

static int call_give_back(bide *queue, uint64_t id, uint64_t token)
{
    return bide_give_back(queue, id, token);
}

static int call_fail(bide *queue, uint64_t id, uint64_t token)
{
    bide_state state = BIDE_STATE_RESERVED;
    int64_t delay_ms = 42;
    int code = bide_fail(queue, id, token, "text", 3600000, &state, &delay_ms);
    if (code != BIDE_OK)
        CHECK(state == BIDE_STATE_RESERVED && delay_ms == 42);
    return code;
}

static int call_bury(bide *queue, uint64_t id, uint64_t token)
{
    return bide_bury(queue, id, token, 7, "reason");
}

static int call_touch(bide *queue, uint64_t id, uint64_t token)
{
    return bide_touch(queue, id, token, 0, "progress");
}

static const struct lease_call calls[] = {
    {"delete", call_delete, BIDE_RESERVED},     {"done", call_done, BIDE_RESERVED},
    {"release", call_release, BIDE_LEASE_LOST}, {"give_back", call_give_back, BIDE_LEASE_LOST},
    {"fail", call_fail, BIDE_RESERVED},         {"bury", call_bury, BIDE_RESERVED},
    {"touch", call_touch, BIDE_LEASE_LOST},
};

static void answers(const struct lease_call *call, bide *queue, uint64_t id, uint64_t token,
                    int want)
{
    check_code(HERE, call->run(queue, id, token), want, call->name);
}

/* The job is reserved, and only its holder has changed it. */
static void is_untouched(bide *queue, uint64_t id)
{
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_RESERVED);
    EQ(job->priority, BIDE_DEFAULT_PRIORITY);
    EQ(job->releases + job->fails + job->buries + job->touches + job->failures, 0);
    CHECK(job->last_error == NULL && job->progress == NULL && job->result == NULL);
}

static void token_of_another_job_is_rejected_by_every_call(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "1"), other = put(queue, a, "2");
    uint64_t token = take_job(queue, id)->token, foreign = take_job(queue, other)->token;
    for (size_t i = 0; i < COUNT(calls); i++) {
        answers(&calls[i], queue, id, foreign, BIDE_LEASE_LOST);
        answers(&calls[i], queue, id, token + 1000000, BIDE_LEASE_LOST);
        answers(&calls[i], queue, id, UINT64_MAX, BIDE_LEASE_LOST);
        is_untouched(queue, id);
    }
    is_untouched(queue, other);
    OK(bide_delete(queue, id, token));
    OK(bide_delete(queue, other, foreign));
}

static void token_of_an_earlier_lease_is_rejected_by_every_call(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t old = take(queue, a)->token;
    OK(bide_give_back(queue, id, old));
    uint64_t token = take(queue, a)->token;
    for (size_t i = 0; i < COUNT(calls); i++) {
        answers(&calls[i], queue, id, old, BIDE_LEASE_LOST);
        is_untouched(queue, id);
    }
    OK(bide_delete(queue, id, token));
}

static void token_is_rejected_when_the_job_is_not_reserved(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    uint64_t old = take_job(queue, put(queue, a, "other"))->token;
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        for (size_t j = 0; j < COUNT(calls); j++) {
            answers(&calls[j], queue, id, old, BIDE_LEASE_LOST);
            EQ(state_of(queue, id), states[i]);
        }
    }
}

static void reserved_job_is_rejected_without_a_token_by_every_call(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    for (size_t i = 0; i < COUNT(calls); i++) {
        answers(&calls[i], queue, id, 0, calls[i].without_token);
        is_untouched(queue, id);
    }
    OK(bide_delete(queue, id, token));
}

static void an_unknown_job_is_not_found_by_every_call(void)
{
    bide *queue = open_queue("");
    uint64_t gone = put(queue, fresh_topic("a"), "body");
    OK(bide_delete(queue, gone, 0));
    for (size_t i = 0; i < COUNT(calls); i++) {
        answers(&calls[i], queue, gone, 0, BIDE_NOT_FOUND);
        answers(&calls[i], queue, gone, 12345, BIDE_NOT_FOUND);
        answers(&calls[i], queue, BIDE_ID_MAX, 12345, BIDE_NOT_FOUND);
    }
}

static void expired_lease_is_rejected_by_every_call(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 20;
    uint64_t id = put_as(queue, a, "body", &options);
    uint64_t token = take(queue, a)->token;
    UNTIL(state_of(queue, id) == BIDE_STATE_READY);
    for (size_t i = 0; i < COUNT(calls); i++) {
        answers(&calls[i], queue, id, token, BIDE_LEASE_LOST);
        EQ(state_of(queue, id), BIDE_STATE_READY);
    }
}

static void expired_lease_cannot_delete_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 20;
    uint64_t id = put_as(queue, a, "body", &options);
    uint64_t token = take(queue, a)->token;
    nap_ms(150);
    CODE(bide_delete(queue, id, token), BIDE_LEASE_LOST);
    EQ(state_of(queue, id), BIDE_STATE_READY);
}

/* The first lease is made short by a touch: a short ttr would also end the second one. */
static void previous_holder_cannot_affect_the_current_lease(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 3600000;
    uint64_t id = put_as(queue, a, "body", &options);
    uint64_t old = take(queue, a)->token;
    OK(bide_touch(queue, id, old, 20, NULL));
    const bide_job *job = await(queue, a);
    EQ(job->id, id);
    EQ(job->timeouts, 1);
    CHECK(job->token != old);
    for (size_t i = 0; i < COUNT(calls); i++)
        answers(&calls[i], queue, id, old, BIDE_LEASE_LOST);
    EQ(state_of(queue, id), BIDE_STATE_RESERVED);
    OK(bide_delete(queue, id, job->token));
}

static void each_call_ends_the_lease(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state after[] = {BIDE_STATE_GONE,  BIDE_STATE_DONE,    BIDE_STATE_DELAYED,
                                       BIDE_STATE_READY, BIDE_STATE_DELAYED, BIDE_STATE_BURIED};
    for (size_t i = 0; i < COUNT(after); i++) {
        uint64_t id = put(queue, a, "body");
        uint64_t token = take_job(queue, id)->token;
        answers(&calls[i], queue, id, token, BIDE_OK);
        EQ(state_of(queue, id), after[i]);
        int want = after[i] == BIDE_STATE_GONE ? BIDE_NOT_FOUND : BIDE_LEASE_LOST;
        for (size_t j = 0; j < COUNT(calls); j++)
            answers(&calls[j], queue, id, token, want);
        EQ(state_of(queue, id), after[i]);
    }
}

static void unreserved_job_is_deleted_in_every_state(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        OK(bide_delete(queue, id, 0));
        EQ(state_of(queue, id), BIDE_STATE_GONE);
        CODE(bide_delete(queue, id, 0), BIDE_NOT_FOUND);
    }
    CHECK(!topic_exists(queue, a));
}

static void done_fail_and_bury_apply_to_unreserved_jobs_without_a_token(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_READY, BIDE_STATE_DELAYED};
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t done = put_in(queue, a, states[i]);
        OK(bide_done(queue, done, 0, "result", 6, 3600000));
        EQ(state_of(queue, done), BIDE_STATE_DONE);

        uint64_t failed = put_in(queue, a, states[i]);
        OK(bide_fail(queue, failed, 0, "text", 7200000, NULL, NULL));
        EQ(stat_job(queue, failed)->state, BIDE_STATE_DELAYED);
        EQ(stat_job(queue, failed)->fails, 1);

        uint64_t buried = put_in(queue, a, states[i]);
        OK(bide_bury(queue, buried, 0, BIDE_KEEP, NULL));
        EQ(state_of(queue, buried), BIDE_STATE_BURIED);
    }
    uint64_t buried = put_in(queue, a, BIDE_STATE_BURIED);
    OK(bide_done(queue, buried, 0, NULL, 0, 3600000));
    EQ(state_of(queue, buried), BIDE_STATE_DONE);
}

static void buried_or_done_job_cannot_fail_or_be_buried(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_BURIED, BIDE_STATE_DONE};
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        bide_state state = BIDE_STATE_RESERVED;
        CODE(bide_fail(queue, id, 0, "text", BIDE_KEEP, &state, NULL), BIDE_WRONG_STATE);
        EQ(state, BIDE_STATE_RESERVED);
        CODE(bide_bury(queue, id, 0, 5, "reason"), BIDE_WRONG_STATE);
        const bide_job *job = stat_job(queue, id);
        EQ(job->state, states[i]);
        EQ(job->priority, BIDE_DEFAULT_PRIORITY);
        EQ(job->fails, 0);
        CHECK(job->last_error == NULL);
    }
}

static void a_released_job_is_ready_with_its_new_priority(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_first(queue, a, 1), other = put_first(queue, a, 2);
    OK(bide_release(queue, id, take(queue, a)->token, 3, 0));
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->priority, 3);
    EQ(job->releases, 1);
    EQ(job->failures, 0);
    EQ(take(queue, a)->id, other);
    EQ(take(queue, a)->id, id);
    EQ(topic_of(queue, a).total.releases, 1);
}

static void a_release_may_keep_the_priority(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_first(queue, a, 77);
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
    EQ(stat_job(queue, id)->priority, 77);
    OK(bide_release(queue, id, take(queue, a)->token, UINT32_MAX, 0));
    EQ(stat_job(queue, id)->priority, UINT32_MAX);
}

static void a_release_with_a_delay_is_delayed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 3600000));
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_DELAYED);
    BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600000);
    nothing_ready(queue, a);
}

static void give_back_counts_nothing(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_first(queue, a, 5);
    OK(bide_give_back(queue, id, take(queue, a)->token));
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->priority, 5);
    EQ(job->releases + job->fails + job->timeouts + job->failures, 0);
    EQ(topic_of(queue, a).total.releases, 0);
    EQ(take(queue, a)->id, id);
}

static void a_buried_job_waits_for_a_kick(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    int64_t before_ms = wall_ms();
    OK(bide_bury(queue, id, take(queue, a)->token, 9, "look at this"));
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_BURIED);
    EQ(job->priority, 9);
    EQ(job->buries, 1);
    EQ(job->failures, 0);
    EQ(job->left_ms, 0);
    BETWEEN(job->buried_ms, before_ms - 1, wall_ms() + 1);
    TEXT(job->last_error, job->last_error_size, "look at this");
    nothing_ready(queue, a);
    OK(bide_kick_job(queue, id));
    EQ(take(queue, a)->id, id);
}

static void a_burial_without_a_reason_keeps_the_last_error_and_the_priority(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_first(queue, a, 44);
    OK(bide_fail(queue, id, take(queue, a)->token, "the reason", 0, NULL, NULL));
    OK(bide_bury(queue, id, take(queue, a)->token, BIDE_KEEP, NULL));
    const bide_job *job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "the reason");
    EQ(job->priority, 44);
    OK(bide_kick_job(queue, id));
    OK(bide_bury(queue, id, 0, BIDE_KEEP, ""));
    job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "the reason");
    EQ(job->buries, 2);
}

static const struct test tests[] = {
    TEST(token_of_another_job_is_rejected_by_every_call),
    TEST(token_of_an_earlier_lease_is_rejected_by_every_call),
    TEST(token_is_rejected_when_the_job_is_not_reserved),
    TEST(reserved_job_is_rejected_without_a_token_by_every_call),
    TEST(an_unknown_job_is_not_found_by_every_call),
    TEST(expired_lease_is_rejected_by_every_call),
    TEST(expired_lease_cannot_delete_job),
    TEST(previous_holder_cannot_affect_the_current_lease),
    TEST(each_call_ends_the_lease),
    TEST(unreserved_job_is_deleted_in_every_state),
    TEST(done_fail_and_bury_apply_to_unreserved_jobs_without_a_token),
    TEST(buried_or_done_job_cannot_fail_or_be_buried),
    TEST(a_released_job_is_ready_with_its_new_priority),
    TEST(a_release_may_keep_the_priority),
    TEST(a_release_with_a_delay_is_delayed),
    TEST(give_back_counts_nothing),
    TEST(a_buried_job_waits_for_a_kick),
    TEST(a_burial_without_a_reason_keeps_the_last_error_and_the_priority),
};

const struct theme lease_theme = {"lease", tests, COUNT(tests)};
