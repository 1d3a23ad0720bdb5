/* SPDX-License-Identifier: MIT */
/* bad_lease.c - unknown ids, foreign and old tokens, and texts that are too long change nothing. */
#include "sample_queue.h"

#include <string.h>

/* Every call that takes an id; those without a token do not look at it. */
struct id_call {
    const char *name;
    int (*run)(const struct sample_queue *sample, uint64_t id, uint64_t token);
    bool takes_token;
    int without_token; /* for a reserved job and a token of 0 */
};

static int call_delete(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    return bide_delete(sample->queue, id, token);
}

static int call_done(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    return bide_done(sample->queue, id, token, "r", 1, 1000);
}

static int call_release(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    return bide_release(sample->queue, id, token, 1, 1000);
}

static int call_give_back(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    return bide_give_back(sample->queue, id, token);
}

static int call_fail(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    bide_state state;
    int64_t delay_ms;
    spoil(&state, sizeof state);
    spoil(&delay_ms, sizeof delay_ms);
    int code = bide_fail(sample->queue, id, token, "text", 1000, &state, &delay_ms);
    SPOILED(state);
    SPOILED(delay_ms);
    return code;
}

static int call_bury(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    return bide_bury(sample->queue, id, token, 1, "why");
}

static int call_touch(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    return bide_touch(sample->queue, id, token, 1000, "progress");
}

static int call_finish_many(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    bide_finish_item item = {.id = id, .token = token};
    OK(bide_finish_many(sample->queue, &item, 1));
    /* The item's code, said by a call that has a sentence of its own. */
    CHECK(item.status != BIDE_OK);
    bide_delete(sample->queue, id, token);
    return item.status;
}

static int call_touch_many(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    bide_touch_item item = {.id = id, .token = token, .left_ms = 42};
    OK(bide_touch_many(sample->queue, &item, 1));
    CHECK(item.status != BIDE_OK);
    EQ(item.left_ms, 42);
    bide_touch(sample->queue, id, token, 0, NULL);
    return item.status;
}

static int call_reserve_job(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    (void)token;
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_reserve_job(sample->queue, id, &job);
    SPOILED(job);
    return code;
}

static int call_kick_job(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    (void)token;
    return bide_kick_job(sample->queue, id);
}

static int call_update(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    (void)token;
    bide_update_args changes = {id, 1, BIDE_KEEP, BIDE_KEEP, 1000, {NULL, 0}, {0}};
    return bide_update(sample->queue, &changes);
}

static int call_cancel(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    (void)token;
    return bide_cancel(sample->queue, id);
}

static int call_peek(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    (void)token;
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_peek(sample->queue, id, &job);
    SPOILED(job);
    return code;
}

static int call_job_stats(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    (void)token;
    bide_job job;
    spoil(&job, sizeof job);
    int code = bide_job_stats(sample->queue, id, &job);
    SPOILED(job);
    return code;
}

static int call_body(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    (void)token;
    bide_buf *buf;
    spoil(&buf, sizeof buf);
    int code = bide_body(sample->queue, id, &buf);
    SPOILED(buf);
    return code;
}

static int call_result(const struct sample_queue *sample, uint64_t id, uint64_t token)
{
    (void)token;
    bide_buf *buf;
    spoil(&buf, sizeof buf);
    int code = bide_result(sample->queue, id, &buf);
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
    struct sample_queue *sample = new_sample_queue("");
    uint64_t ids[] = {0,          sample->stats.last_id + 1, BIDE_ID_MAX, BIDE_ID_MAX + 1,
                      UINT64_MAX, (uint64_t)INT64_MAX + 1};
    uint64_t tokens[] = {0, sample->token, UINT64_MAX};
    for (size_t i = 0; i < COUNT(calls); i++)
        for (size_t j = 0; j < COUNT(ids); j++)
            for (size_t k = 0; k < COUNT(tokens); k++)
                check_code(HERE, calls[i].run(sample, ids[j], tokens[k]), BIDE_NOT_FOUND,
                           calls[i].name);
    UNCHANGED(sample);
}

static void wait_for_an_unknown_id_returns_gone(void)
{
    struct sample_queue *sample = new_sample_queue("");
    static const uint64_t ids[] = {0, BIDE_ID_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < COUNT(ids); i++) {
        bide_state state = BIDE_STATE_READY;
        OK(bide_wait(sample->queue, ids[i], BIDE_FOREVER, &state, NULL));
        EQ(state, BIDE_STATE_GONE);
    }
    UNCHANGED(sample);
}

static void token_of_another_lease_changes_nothing(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t tokens[] = {sample->old_token, sample->other_token, sample->token + 1000000,
                         BIDE_ID_MAX,       BIDE_ID_MAX + 1,     UINT64_MAX};
    for (size_t i = 0; i < COUNT(calls); i++) {
        if (!calls[i].takes_token)
            continue;
        for (size_t j = 0; j < COUNT(tokens); j++)
            check_code(HERE, calls[i].run(sample, sample->reserved, tokens[j]), BIDE_LEASE_LOST,
                       calls[i].name);
        check_code(HERE, calls[i].run(sample, sample->reserved, 0), calls[i].without_token,
                   calls[i].name);
        UNCHANGED(sample);
    }
}

static void token_for_an_unreserved_job_changes_nothing(void)
{
    struct sample_queue *sample = new_sample_queue("");
    uint64_t ids[] = {sample->delayed, sample->ready, sample->buried, sample->done};
    for (size_t i = 0; i < COUNT(calls); i++) {
        if (!calls[i].takes_token)
            continue;
        for (size_t j = 0; j < COUNT(ids); j++) {
            check_code(HERE, calls[i].run(sample, ids[j], sample->token), BIDE_LEASE_LOST,
                       calls[i].name);
            check_code(HERE, calls[i].run(sample, ids[j], UINT64_MAX), BIDE_LEASE_LOST,
                       calls[i].name);
        }
    }
    UNCHANGED(sample);
}

static void call_in_the_wrong_state_changes_nothing(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    CODE(call_reserve_job(sample, sample->reserved, 0), BIDE_RESERVED);
    CODE(call_reserve_job(sample, sample->done, 0), BIDE_WRONG_STATE);
    CODE(call_kick_job(sample, sample->ready, 0), BIDE_WRONG_STATE);
    CODE(call_kick_job(sample, sample->reserved, 0), BIDE_RESERVED);
    CODE(call_kick_job(sample, sample->done, 0), BIDE_WRONG_STATE);
    CODE(call_update(sample, sample->reserved, 0), BIDE_RESERVED);
    CODE(call_fail(sample, sample->buried, 0), BIDE_WRONG_STATE);
    CODE(call_fail(sample, sample->done, 0), BIDE_WRONG_STATE);
    CODE(call_bury(sample, sample->buried, 0), BIDE_WRONG_STATE);
    CODE(call_bury(sample, sample->done, 0), BIDE_WRONG_STATE);
    CODE(call_done(sample, sample->done, 0), BIDE_WRONG_STATE);
    CODE(call_result(sample, sample->ready, 0), BIDE_WRONG_STATE);
    CODE(call_release(sample, sample->ready, 0), BIDE_LEASE_LOST);
    CODE(call_give_back(sample, sample->ready, 0), BIDE_LEASE_LOST);
    CODE(call_touch(sample, sample->ready, 0), BIDE_LEASE_LOST);
    bide_update_args changes = {sample->buried, 1, 0, BIDE_KEEP, BIDE_KEEP, {NULL, 0}, {0}};
    CODE(bide_update(queue, &changes), BIDE_WRONG_STATE);
    UNCHANGED(sample);
}

static void progress_of_more_than_200_bytes_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    char text[BIDE_PROGRESS_MAX + 2];
    memset(text, 'p', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    REFUSE(sample, bide_touch(sample->queue, sample->reserved, sample->token, 0, text),
           BIDE_TOO_BIG);
    bide_touch_item items[] = {
        {.id = sample->reserved, .token = sample->token, .progress = slice(text), .left_ms = 42},
        {.id = sample->reserved, .token = sample->token, .progress = {NULL, 1}, .left_ms = 42},
    };
    OK(bide_touch_many(sample->queue, items, COUNT(items)));
    EQ(items[0].status, BIDE_TOO_BIG);
    EQ(items[0].left_ms, 42);
    EQ(items[1].status, BIDE_EINVAL);
    EQ(items[1].left_ms, 42);
    UNCHANGED(sample);
}

static void null_or_oversized_result_changes_nothing(void)
{
    static const char result[65537];
    struct sample_queue *sample = new_sample_queue("");
    bide *queue = sample->queue;
    uint64_t id = sample->reserved, token = sample->token;
    BAD(sample, bide_done(queue, id, token, NULL, 1, 1000));
    REFUSE(sample, bide_done(queue, id, token, result, sizeof result, 1000), BIDE_TOO_BIG);
    REFUSE(sample, bide_done(queue, id, token, result, SIZE_MAX, 1000), BIDE_TOO_BIG);
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
    UNCHANGED(sample);
}

static void lists_of_leases_of_an_invalid_count_are_rejected(void)
{
    static bide_finish_item finish[BIDE_BATCH_JOBS + 1];
    static bide_touch_item touch[BIDE_BATCH_JOBS + 1];
    struct sample_queue *sample = new_sample_queue("");
    static const size_t sizes[] = {0, BIDE_BATCH_JOBS + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT(finish); i++) {
        finish[i] =
            (bide_finish_item){.id = sample->reserved, .token = sample->token, .status = 42};
        touch[i] = (bide_touch_item){.id = sample->reserved, .token = sample->token, .status = 42};
    }
    for (size_t i = 0; i < COUNT(sizes); i++) {
        BAD(sample, bide_finish_many(sample->queue, finish, sizes[i]));
        BAD(sample, bide_touch_many(sample->queue, touch, sizes[i]));
    }
    BAD(sample, bide_finish_many(sample->queue, NULL, 1));
    BAD(sample, bide_touch_many(sample->queue, NULL, 1));
    for (size_t i = 0; i < COUNT(finish); i++)
        CHECK(finish[i].status == 42 && touch[i].status == 42);
}

static const struct test tests[] = {
    TEST(an_unknown_id_is_not_found_by_any_call),
    TEST(wait_for_an_unknown_id_returns_gone),
    TEST(token_of_another_lease_changes_nothing),
    TEST(token_for_an_unreserved_job_changes_nothing),
    TEST(call_in_the_wrong_state_changes_nothing),
    TEST(progress_of_more_than_200_bytes_is_rejected),
    TEST(null_or_oversized_result_changes_nothing),
    TEST(lists_of_leases_of_an_invalid_count_are_rejected),
};

const struct theme bad_lease_theme = {"bad_lease", tests, COUNT(tests)};
