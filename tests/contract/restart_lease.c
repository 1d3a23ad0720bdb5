/* SPDX-License-Identifier: MIT */
/* restart_lease.c - leases that a restart has ended, cleanly or not, and what their holders see.
 * Those that outlive the restart of a server are in reconnect.c. */
#include "location.h"

#include <string.h>

/* What a process leaves for the next one is told in memory that both share. */
struct note {
    uint64_t id;
    uint64_t token;
    uint64_t others[8];
};

/* ---- after a close ---- */

/* Every op of a holder, with a token that is none any more. */
#define REFUSED(queue, id, token, want) refused(HERE, (queue), (id), (token), (want))
static void refused(struct where at, bide *queue, uint64_t id, uint64_t token, int want)
{
    check_code(at, bide_touch(queue, id, token, 0, NULL), want, "bide_touch()");
    check_code(at, bide_release(queue, id, token, BIDE_KEEP, 0), want, "bide_release()");
    check_code(at, bide_give_back(queue, id, token), want, "bide_give_back()");
    check_code(at, bide_bury(queue, id, token, BIDE_KEEP, NULL), want, "bide_bury()");
    check_code(at, bide_fail(queue, id, token, NULL, 0, NULL, NULL), want, "bide_fail()");
    check_code(at, bide_done(queue, id, token, "x", 1, 3600000), want, "bide_done()");
    check_code(at, bide_delete(queue, id, token), want, "bide_delete()");
    bide_finish_item finish = {.id = id, .token = token};
    bide_touch_item touch = {.id = id, .token = token};
    check_code(at, bide_finish_many(queue, &finish, 1), BIDE_OK, "bide_finish_many()");
    check_equal(at, finish.status, want, "the status of the finish");
    check_code(at, bide_touch_many(queue, &touch, 1), BIDE_OK, "bide_touch_many()");
    check_equal(at, touch.status, want, "the status of the touch");
}

static void reserved_job_is_ready_and_its_token_is_rejected(void)
{
    if (!is_in_process())
        return; /* the server keeps leases */
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    OK(bide_touch(queue, id, token, 3600000, "half"));
    queue = reopen(queue, "");
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->left_ms, 0);
    CHECK(job->progress == NULL);
    REFUSED(queue, id, token, BIDE_LEASE_LOST);
    EQ(state_of(queue, id), BIDE_STATE_READY);
}

static void old_token_cannot_affect_a_lease_after_the_restart(void)
{
    if (!is_in_process())
        return; /* the server keeps leases */
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body"), tokens[5];
    for (size_t i = 0; i < COUNT(tokens); i++) {
        const bide_job *job = take(queue, a);
        EQ(job->id, id);
        tokens[i] = job->token;
        for (size_t j = 0; j < i; j++) {
            CHECK(tokens[j] != tokens[i]);
            REFUSED(queue, id, tokens[j], BIDE_LEASE_LOST);
        }
        OK(bide_touch(queue, id, tokens[i], 0, NULL));
        EQ(state_of(queue, id), BIDE_STATE_RESERVED);
        if (i + 1 < COUNT(tokens))
            queue = reopen(queue, "");
    }
    OK(bide_delete(queue, id, tokens[4]));
    REFUSED(queue, id, tokens[0], BIDE_NOT_FOUND);
    queue = reopen(queue, "");
    REFUSED(queue, id, tokens[4], BIDE_NOT_FOUND);
}

static void job_reserved_from_any_state_is_restored(void)
{
    if (!is_in_process())
        return; /* the server keeps leases */
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED};
    uint64_t ids[3];
    for (size_t i = 0; i < COUNT(states); i++) {
        ids[i] = put_in(queue, a, states[i]);
        take_job(queue, ids[i]);
    }
    queue = reopen(queue, "");
    for (size_t i = 0; i < COUNT(ids); i++)
        EQ(take(queue, a)->id, ids[i]);
    nothing_ready(queue, a);
}

static void a_cancelled_job_that_was_reserved_is_gone(void)
{
    if (!is_in_process())
        return; /* the server keeps leases */
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t gone = put(queue, a, "body"), kept = put(queue, a, "body");
    take_job(queue, gone);
    uint64_t token = take_job(queue, kept)->token;
    OK(bide_cancel(queue, gone));
    OK(bide_cancel(queue, kept));
    OK(bide_done(queue, kept, token, "result", 6, 3600000));
    for (int i = 0; i < 3; i++) {
        queue = reopen(queue, "");
        EQ(state_of(queue, gone), BIDE_STATE_GONE);
        EQ(state_of(queue, kept), BIDE_STATE_DONE);
        EQ(stats_of(queue).jobs.ready, 0);
    }
}

/* The reservation has ended the expiry for good: the work may be half done. */
static void job_reserved_once_does_not_expire_after_a_restart(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.expires_at_ms = wall_ms() + 1000;
    uint64_t held = put_as(queue, a, "body", &options), back = put_as(queue, a, "body", &options);
    uint64_t never = put_as(queue, b, "body", &options);
    bide_job jobs[2] = {{0}};
    bide_slice topic = slice(a);
    bide_reserve_args args = reserve_args(&topic, 1, 0, jobs, 2);
    /* A machine that is too slow to take them in time has nothing to show. */
    if (bide_reserve_many(queue, &args) != BIDE_OK || args.count < 2)
        return;
    OK(bide_give_back(queue, back, jobs[1].token));
    clear_jobs(jobs, 2);
    queue = reopen(queue, "");
    UNTIL(wall_ms() > options.expires_at_ms);
    UNTIL(state_of(queue, never) == BIDE_STATE_GONE);
    EQ(state_of(queue, held), is_in_process() ? BIDE_STATE_READY : BIDE_STATE_RESERVED);
    EQ(state_of(queue, back), BIDE_STATE_READY);
}

/* Whoever closes in order has not been killed by the job. */
static void close_does_not_count_as_failure_of_held_jobs(void)
{
    if (!is_in_process())
        return; /* the server keeps leases */
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 0;
    uint64_t id = put_as(queue, a, "body", &options), gone = put_as(queue, a, "gone", &options);
    for (int i = 0; i < 3; i++) {
        const bide_job *job = take(queue, a);
        uint64_t token = job->token;
        EQ(job->id, id);
        EQ(job->reserves, i + 1);
        EQ(job->failures, 0);
        CHECK(job->last_error == NULL);
        queue = reopen(queue, "");
        EQ(stat_job(queue, id)->state, BIDE_STATE_READY);
        CODE(bide_delete(queue, id, token), BIDE_LEASE_LOST);
    }
    take_job(queue, gone);
    OK(bide_cancel(queue, gone));
    queue = reopen(queue, "");
    EQ(state_of(queue, gone), BIDE_STATE_GONE);
    EQ(topic_of(queue, a).jobs.ready, 1);
}

/* ---- after a bad end ---- */

static struct note *note;

static void take_note(void)
{
    note = shared_memory(sizeof *note);
}

static void put_and_take(bide *queue)
{
    note->id = put(queue, fresh_topic("a"), "body");
    note->token = take(queue, fresh_topic("a"))->token;
}

static void take_again(bide *queue)
{
    const bide_job *job = await(queue, fresh_topic("a"));
    EQ(job->id, note->id);
    CHECK(job->token != note->token);
    note->token = job->token;
}

static void job_without_a_limit_survives_any_number_of_crashes(void)
{
    char location[LOCATION_SIZE];
    take_note();
    new_location(location, sizeof location);
    fresh_topic("a");
    crash_during(location, "", put_and_take);
    for (int i = 0; i < 5; i++)
        crash_during(location, "", take_again);
    bide *queue = loaded(open_location(location, ""));
    const bide_job *job = stat_job(queue, note->id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->failures, 0);
    REFUSED(queue, note->id, note->token, BIDE_LEASE_LOST);
    OK(bide_delete(queue, note->id, take(queue, fresh_topic("a"))->token));
}

static void put_limited(bide *queue, int32_t max_retries)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = max_retries;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = 1;
    note->id = put_as(queue, fresh_topic("a"), "body", &options);
}

static void put_limited_and_take(bide *queue)
{
    put_limited(queue, 2);
    note->token = take(queue, fresh_topic("a"))->token;
}

static void job_that_crashes_its_process_is_buried_at_its_limit(void)
{
    char location[LOCATION_SIZE];
    take_note();
    new_location(location, sizeof location);
    fresh_topic("a");
    crash_during(location, "", put_limited_and_take);
    for (uint32_t failures = 1; failures <= 2; failures++) {
        bide *queue = loaded(open_location(location, ""));
        const bide_job *job = stat_job(queue, note->id);
        EQ(job->failures, failures);
        EQ(job->timeouts, failures);
        EQ(job->reserves, failures);
        CHECK(job->last_error_size > 0);
        CHECK(job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_READY);
        leave_queue(queue);
        crash_during(location, "", take_again);
    }
    for (int i = 0; i < 3; i++) {
        bide *queue = loaded(open_location(location, ""));
        const bide_job *job = stat_job(queue, note->id);
        EQ(job->state, BIDE_STATE_BURIED);
        EQ(job->failures, 3);
        EQ(job->buries, 1);
        EQ(job->reserves, 3);
        CHECK(job->buried_ms > 0);
        leave_queue(queue);
    }
}

static void put_unforgiving_and_take(bide *queue)
{
    put_limited(queue, 0);
    take(queue, fresh_topic("a"));
}

static void leave_open(bide *queue)
{
    CHECK(stats_of(queue).last_id > 0);
}

static void crash_is_counted_once(void)
{
    char location[LOCATION_SIZE];
    take_note();
    new_location(location, sizeof location);
    fresh_topic("a");
    crash_during(location, "", put_unforgiving_and_take);
    crash_during(location, "", leave_open);
    crash_during(location, "", leave_open);
    bide *queue = loaded(open_location(location, ""));
    EQ(stat_job(queue, note->id)->failures, 1);
    EQ(stat_job(queue, note->id)->state, BIDE_STATE_BURIED);
    uint64_t count = 0;
    OK(bide_kick(queue, fresh_topic("a"), 10, &count));
    EQ(count, 1);
    queue = reopen(queue, "");
    EQ(stat_job(queue, note->id)->failures, 0);
    EQ(stat_job(queue, note->id)->state, BIDE_STATE_READY);
}

static void give_back_what_was_taken(bide *queue)
{
    put_limited(queue, 0);
    note->others[0] = note->id;
    OK(bide_give_back(queue, note->id, take_job(queue, note->id)->token));
    put_limited(queue, 0);
    note->others[1] = note->id;
    OK(bide_release(queue, note->id, take_job(queue, note->id)->token, BIDE_KEEP, 0));
    put_limited(queue, 0);
    note->others[2] = note->id;
    OK(bide_release(queue, note->id, take_job(queue, note->id)->token, BIDE_KEEP, 3600000));
    put_limited(queue, 0);
    note->others[3] = note->id;
    OK(bide_done(queue, note->id, take_job(queue, note->id)->token, NULL, 0, 3600000));
}

static void job_given_back_before_a_crash_has_not_failed(void)
{
    static const bide_state states[] = {BIDE_STATE_READY, BIDE_STATE_READY, BIDE_STATE_DELAYED,
                                        BIDE_STATE_DONE};
    char location[LOCATION_SIZE];
    take_note();
    new_location(location, sizeof location);
    fresh_topic("a");
    crash_during(location, "", give_back_what_was_taken);
    bide *queue = loaded(open_location(location, ""));
    for (size_t i = 0; i < COUNT(states); i++) {
        EQ(stat_job(queue, note->others[i])->state, states[i]);
        EQ(stat_job(queue, note->others[i])->failures, 0);
        EQ(stat_job(queue, note->others[i])->reserves, 1);
    }
}

/* Every kind of change, answered before the end. */
static void change_everything(bide *queue)
{
    const char *a = fresh_topic("a");
    note->others[0] = put_in(queue, a, BIDE_STATE_BURIED);
    note->others[1] = put_in(queue, a, BIDE_STATE_DONE);
    note->others[2] = put_in(queue, a, BIDE_STATE_DELAYED);
    note->others[3] = put_in(queue, a, BIDE_STATE_READY);
    note->others[4] = put_in(queue, a, BIDE_STATE_READY);
    OK(bide_delete(queue, note->others[4], take_job(queue, note->others[4])->token));
    note->others[5] = put_in(queue, a, BIDE_STATE_RESERVED);
    OK(bide_cancel(queue, note->others[5]));
    note->others[6] = put_in(queue, a, BIDE_STATE_READY);
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = note->others[6];
    changes.priority = 7;
    OK(bide_update(queue, &changes));
    note->others[7] = put_in(queue, a, BIDE_STATE_READY);
    OK(bide_fail(queue, note->others[7], take_job(queue, note->others[7])->token, "it broke",
                 3600000, NULL, NULL));
    OK(bide_pause(queue, a, BIDE_FOREVER));
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.concurrency = 9;
    OK(bide_topic_set(queue, a, &policy));
}

static void acknowledged_changes_survive_a_crash(void)
{
    static const bide_state states[] = {BIDE_STATE_BURIED, BIDE_STATE_DONE,   BIDE_STATE_DELAYED,
                                        BIDE_STATE_READY,  BIDE_STATE_GONE,   BIDE_STATE_GONE,
                                        BIDE_STATE_READY,  BIDE_STATE_DELAYED};
    char location[LOCATION_SIZE];
    take_note();
    new_location(location, sizeof location);
    fresh_topic("a");
    crash_during(location, "", change_everything);
    bide *queue = loaded(open_location(location, ""));
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT(states); i++)
            EQ(state_of(queue, note->others[i]), states[i]);
        EQ(stat_job(queue, note->others[6])->priority, 7);
        const bide_job *failed = stat_job(queue, note->others[7]);
        TEXT(failed->last_error, failed->last_error_size, "it broke");
        CHECK(topic_of(queue, fresh_topic("a")).paused);
        EQ(topic_of(queue, fresh_topic("a")).concurrency, 9);
        queue = reopen(queue, "");
    }
}

static const struct test tests[] = {
    TEST(reserved_job_is_ready_and_its_token_is_rejected),
    TEST(old_token_cannot_affect_a_lease_after_the_restart),
    TEST(job_reserved_from_any_state_is_restored),
    TEST(a_cancelled_job_that_was_reserved_is_gone),
    TEST(job_reserved_once_does_not_expire_after_a_restart),
    TEST(close_does_not_count_as_failure_of_held_jobs),
    TEST(job_without_a_limit_survives_any_number_of_crashes),
    TEST(job_that_crashes_its_process_is_buried_at_its_limit),
    TEST(crash_is_counted_once),
    TEST(job_given_back_before_a_crash_has_not_failed),
    TEST(acknowledged_changes_survive_a_crash),
};

const struct theme restart_lease_theme = {"restart_lease", tests, COUNT(tests)};
