/* SPDX-License-Identifier: MIT */
/* badlease.c - unknown ids, foreign and old tokens, and texts that are too long change nothing. */
#include "world.h"

#include <string.h>

/* Every call that takes an id; those without a token do not look at it. */
struct id_call {
    const char *name;
    int (*run)(const struct world *world, uint64_t id, uint64_t token);
    bool takes_token;
    int without_token; /* for a reserved job and a token of 0 */
};

static int call_delete(const struct world *world, uint64_t id, uint64_t token)
{
    return bide_delete(world->queue, id, token);
}

static int call_done(const struct world *world, uint64_t id, uint64_t token)
{
    return bide_done(world->queue, id, token, "r", 1, 1000);
}

static int call_release(const struct world *world, uint64_t id, uint64_t token)
{
    return bide_release(world->queue, id, token, 1, 1000);
}

static int call_give_back(const struct world *world, uint64_t id, uint64_t token)
{
    return bide_give_back(world->queue, id, token);
}

static int call_fail(const struct world *world, uint64_t id, uint64_t token)
{
    bide_state state;
    int64_t delay_ms;
    spoil(&state, sizeof state);
    spoil(&delay_ms, sizeof delay_ms);
    int code = bide_fail(world->queue, id, token, "text", 1000, &state, &delay_ms);
    SPOILED(state);
    SPOILED(delay_ms);
    return code;
}

static int call_bury(const struct world *world, uint64_t id, uint64_t token)
{
    return bide_bury(world->queue, id, token, 1, "why");
}

static int call_touch(const struct world *world, uint64_t id, uint64_t token)
{
    return bide_touch(world->queue, id, token, 1000, "progress");
}

static int call_finish_many(const struct world *world, uint64_t id, uint64_t token)
{
    bide_finish_item item = {.id = id, .token = token};
    OK(bide_finish_many(world->queue, &item, 1));
    /* The item's code, said by a call that has a sentence of its own. */
    CHECK(item.status != BIDE_OK);
    bide_delete(world->queue, id, token);
    return item.status;
}

static int call_touch_many(const struct world *world, uint64_t id, uint64_t token)
{
    bide_touch_item item = {.id = id, .token = token, .left_ms = 42};
    OK(bide_touch_many(world->queue, &item, 1));
    CHECK(item.status != BIDE_OK);
    EQ(item.left_ms, 42);
    bide_touch(world->queue, id, token, 0, NULL);
    return item.status;
}

static int call_reserve_job(const struct world *world, uint64_t id, uint64_t token)
{
    (void)token;
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_reserve_job(world->queue, id, &job);
    SPOILED(job);
    return code;
}

static int call_kick_job(const struct world *world, uint64_t id, uint64_t token)
{
    (void)token;
    return bide_kick_job(world->queue, id);
}

static int call_update(const struct world *world, uint64_t id, uint64_t token)
{
    (void)token;
    bide_update_args changes = {id, 1, BIDE_KEEP, BIDE_KEEP, 1000, {NULL, 0}};
    return bide_update(world->queue, &changes);
}

static int call_cancel(const struct world *world, uint64_t id, uint64_t token)
{
    (void)token;
    return bide_cancel(world->queue, id);
}

static int call_peek(const struct world *world, uint64_t id, uint64_t token)
{
    (void)token;
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_peek(world->queue, id, &job);
    SPOILED(job);
    return code;
}

static int call_job_stats(const struct world *world, uint64_t id, uint64_t token)
{
    (void)token;
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_job_stats(world->queue, id, &job);
    SPOILED(job);
    return code;
}

static int call_body(const struct world *world, uint64_t id, uint64_t token)
{
    (void)token;
    bide_buf *buf;
    spoil(&buf, sizeof buf);
    int code = bide_body(world->queue, id, &buf);
    SPOILED(buf);
    return code;
}

static int call_result(const struct world *world, uint64_t id, uint64_t token)
{
    (void)token;
    bide_buf *buf;
    spoil(&buf, sizeof buf);
    int code = bide_result(world->queue, id, &buf);
    SPOILED(buf);
    return code;
}

static const struct id_call calls[] = {
    {"delete", call_delete, true, BIDE_RESERVED},
    {"done", call_done, true, BIDE_RESERVED},
    {"release", call_release, true, BIDE_LEASE_LOST},
    {"give_back", call_give_back, true, BIDE_LEASE_LOST},
    {"fail", call_fail, true, BIDE_RESERVED},
    {"bury", call_bury, true, BIDE_RESERVED},
    {"touch", call_touch, true, BIDE_LEASE_LOST},
    {"finish_many", call_finish_many, true, BIDE_RESERVED},
    {"touch_many", call_touch_many, true, BIDE_LEASE_LOST},
    {"reserve_job", call_reserve_job, false, 0},
    {"kick_job", call_kick_job, false, 0},
    {"update", call_update, false, 0},
    {"cancel", call_cancel, false, 0},
    {"peek", call_peek, false, 0},
    {"job_stats", call_job_stats, false, 0},
    {"body", call_body, false, 0},
    {"result", call_result, false, 0},
};

static void an_unknown_id_is_not_found_by_any_call(void)
{
    struct world *world = new_world("");
    uint64_t ids[] = {0,          world->stats.last_id + 1, BIDE_ID_MAX, BIDE_ID_MAX + 1,
                      UINT64_MAX, (uint64_t)INT64_MAX + 1};
    uint64_t tokens[] = {0, world->token, UINT64_MAX};
    for (size_t i = 0; i < COUNT(calls); i++)
        for (size_t j = 0; j < COUNT(ids); j++)
            for (size_t k = 0; k < COUNT(tokens); k++)
                check_code(HERE, calls[i].run(world, ids[j], tokens[k]), BIDE_NOT_FOUND,
                           calls[i].name);
    UNCHANGED(world);
}

static void an_unknown_id_is_gone_for_who_waits(void)
{
    struct world *world = new_world("");
    static const uint64_t ids[] = {0, BIDE_ID_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < COUNT(ids); i++) {
        bide_state state = BIDE_STATE_READY;
        OK(bide_wait(world->queue, ids[i], BIDE_FOREVER, &state, NULL));
        EQ(state, BIDE_STATE_GONE);
    }
    UNCHANGED(world);
}

static void a_token_that_is_not_of_this_lease_changes_nothing(void)
{
    struct world *world = new_world("");
    uint64_t tokens[] = {world->old_token, world->other_token, world->token + 1000000,
                         BIDE_ID_MAX,      BIDE_ID_MAX + 1,    UINT64_MAX};
    for (size_t i = 0; i < COUNT(calls); i++) {
        if (!calls[i].takes_token)
            continue;
        for (size_t j = 0; j < COUNT(tokens); j++)
            check_code(HERE, calls[i].run(world, world->reserved, tokens[j]), BIDE_LEASE_LOST,
                       calls[i].name);
        check_code(HERE, calls[i].run(world, world->reserved, 0), calls[i].without_token,
                   calls[i].name);
        UNCHANGED(world);
    }
}

static void a_token_for_a_job_that_nobody_holds_changes_nothing(void)
{
    struct world *world = new_world("");
    uint64_t ids[] = {world->delayed, world->ready, world->buried, world->done};
    for (size_t i = 0; i < COUNT(calls); i++) {
        if (!calls[i].takes_token)
            continue;
        for (size_t j = 0; j < COUNT(ids); j++) {
            check_code(HERE, calls[i].run(world, ids[j], world->token), BIDE_LEASE_LOST,
                       calls[i].name);
            check_code(HERE, calls[i].run(world, ids[j], UINT64_MAX), BIDE_LEASE_LOST,
                       calls[i].name);
        }
    }
    UNCHANGED(world);
}

static void a_call_in_the_wrong_state_changes_nothing(void)
{
    struct world *world = new_world("");
    bide *queue = world->queue;
    CODE(call_reserve_job(world, world->reserved, 0), BIDE_RESERVED);
    CODE(call_reserve_job(world, world->done, 0), BIDE_WRONG_STATE);
    CODE(call_kick_job(world, world->ready, 0), BIDE_WRONG_STATE);
    CODE(call_kick_job(world, world->reserved, 0), BIDE_RESERVED);
    CODE(call_kick_job(world, world->done, 0), BIDE_WRONG_STATE);
    CODE(call_update(world, world->reserved, 0), BIDE_RESERVED);
    CODE(call_fail(world, world->buried, 0), BIDE_WRONG_STATE);
    CODE(call_fail(world, world->done, 0), BIDE_WRONG_STATE);
    CODE(call_bury(world, world->buried, 0), BIDE_WRONG_STATE);
    CODE(call_bury(world, world->done, 0), BIDE_WRONG_STATE);
    CODE(call_done(world, world->done, 0), BIDE_WRONG_STATE);
    CODE(call_result(world, world->ready, 0), BIDE_WRONG_STATE);
    CODE(call_release(world, world->ready, 0), BIDE_LEASE_LOST);
    CODE(call_give_back(world, world->ready, 0), BIDE_LEASE_LOST);
    CODE(call_touch(world, world->ready, 0), BIDE_LEASE_LOST);
    bide_update_args changes = {world->buried, 1, 0, BIDE_KEEP, BIDE_KEEP, {NULL, 0}};
    CODE(bide_update(queue, &changes), BIDE_WRONG_STATE);
    UNCHANGED(world);
}

static void progress_of_more_than_200_bytes_is_refused(void)
{
    struct world *world = new_world("");
    char text[BIDE_PROGRESS_MAX + 2];
    memset(text, 'p', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    REFUSE(world, bide_touch(world->queue, world->reserved, world->token, 0, text), BIDE_TOO_BIG);
    bide_touch_item items[] = {
        {.id = world->reserved, .token = world->token, .progress = slice(text), .left_ms = 42},
        {.id = world->reserved, .token = world->token, .progress = {NULL, 1}, .left_ms = 42},
    };
    OK(bide_touch_many(world->queue, items, COUNT(items)));
    EQ(items[0].status, BIDE_TOO_BIG);
    EQ(items[0].left_ms, 42);
    EQ(items[1].status, BIDE_EINVAL);
    EQ(items[1].left_ms, 42);
    UNCHANGED(world);
}

static void a_result_that_is_not_there_or_too_big_changes_nothing(void)
{
    static const char result[65537];
    struct world *world = new_world("");
    bide *queue = world->queue;
    uint64_t id = world->reserved, token = world->token;
    BAD(world, bide_done(queue, id, token, NULL, 1, 1000));
    REFUSE(world, bide_done(queue, id, token, result, sizeof result, 1000), BIDE_TOO_BIG);
    REFUSE(world, bide_done(queue, id, token, result, SIZE_MAX, 1000), BIDE_TOO_BIG);
    bide_finish_item items[] = {
        {.id = id, .token = token, .keep = true, .result = {NULL, 1}, .retain_ms = 1000},
        {.id = id,
         .token = token,
         .keep = true,
         .result = {result, sizeof result},
         .retain_ms = 1000},
    };
    OK(bide_finish_many(queue, items, COUNT(items)));
    EQ(items[0].status, BIDE_EINVAL);
    EQ(items[1].status, BIDE_TOO_BIG);
    UNCHANGED(world);
}

static void lists_of_leases_of_a_bad_size_are_refused(void)
{
    static bide_finish_item finish[BIDE_BATCH_JOBS + 1];
    static bide_touch_item touch[BIDE_BATCH_JOBS + 1];
    struct world *world = new_world("");
    static const size_t sizes[] = {0, BIDE_BATCH_JOBS + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT(finish); i++) {
        finish[i] = (bide_finish_item){.id = world->reserved, .token = world->token, .status = 42};
        touch[i] = (bide_touch_item){.id = world->reserved, .token = world->token, .status = 42};
    }
    for (size_t i = 0; i < COUNT(sizes); i++) {
        BAD(world, bide_finish_many(world->queue, finish, sizes[i]));
        BAD(world, bide_touch_many(world->queue, touch, sizes[i]));
    }
    BAD(world, bide_finish_many(world->queue, NULL, 1));
    BAD(world, bide_touch_many(world->queue, NULL, 1));
    for (size_t i = 0; i < COUNT(finish); i++)
        CHECK(finish[i].status == 42 && touch[i].status == 42);
}

static const struct test tests[] = {
    TEST(an_unknown_id_is_not_found_by_any_call),
    TEST(an_unknown_id_is_gone_for_who_waits),
    TEST(a_token_that_is_not_of_this_lease_changes_nothing),
    TEST(a_token_for_a_job_that_nobody_holds_changes_nothing),
    TEST(a_call_in_the_wrong_state_changes_nothing),
    TEST(progress_of_more_than_200_bytes_is_refused),
    TEST(a_result_that_is_not_there_or_too_big_changes_nothing),
    TEST(lists_of_leases_of_a_bad_size_are_refused),
};

const struct theme badlease_theme = {"badlease", tests, COUNT(tests)};
