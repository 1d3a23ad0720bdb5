/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "server/session.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    static struct session session;
    session = (struct session){0};
    *state = &session;
    return 0;
}

static int tear_down(void **state)
{
    bi_session_done(*state);
    return 0;
}

/* ---- jobs ---- */

static void hold(struct session *session, uint64_t id, int64_t deadline)
{
    assert_true(bi_session_hold(session, id, id + 1000, deadline, false));
}

static void a_job_is_found_until_it_is_forgotten(void **state)
{
    struct session *session = *state;
    assert_null(bi_session_find(session, 7));
    bi_session_forget(session, 7);
    bi_session_touch(session, 7, 5);
    assert_true(bi_session_hold(session, 7, 70, 500, true));
    const struct held *held = bi_session_find(session, 7);
    assert_non_null(held);
    assert_int_equal(held->id, 7);
    assert_int_equal(held->token, 70);
    assert_true(held->has_retries);
    assert_int_equal(bi_session_end(session, held), 500);
    assert_null(bi_session_find(session, 8));
    assert_int_equal(session->held_count, 1);
    bi_session_forget(session, 7);
    assert_null(bi_session_find(session, 7));
    assert_int_equal(session->held_count, 0);
    bi_session_forget(session, 7);
    assert_int_equal(session->held_count, 0);
}

static void a_new_lease_takes_the_place_of_the_old_one(void **state)
{
    struct session *session = *state;
    assert_true(bi_session_hold(session, 7, 70, 500, true));
    assert_true(bi_session_hold(session, 7, 71, 900, false));
    const struct held *held = bi_session_find(session, 7);
    assert_int_equal(session->held_count, 1);
    assert_int_equal(held->token, 71);
    assert_false(held->has_retries);
    assert_int_equal(bi_session_end(session, held), 900);
    assert_int_equal(bi_session_deadline(session, 0), 900);
}

static void the_first_deadline_is_told(void **state)
{
    struct session *session = *state;
    assert_int_equal(bi_session_deadline(session, 0), INT64_MAX);
    hold(session, 1, 300);
    hold(session, 2, 100);
    hold(session, 3, 200);
    assert_int_equal(bi_session_deadline(session, 0), 100);
    bi_session_touch(session, 2, 400);
    assert_int_equal(bi_session_deadline(session, 0), 200);
    bi_session_forget(session, 3);
    assert_int_equal(bi_session_deadline(session, 0), 300);
    bi_session_touch(session, 2, 50);
    assert_int_equal(bi_session_deadline(session, 0), 50);
}

static void leases_that_have_ended_are_forgotten(void **state)
{
    struct session *session = *state;
    hold(session, 1, 100);
    hold(session, 2, 200);
    hold(session, 3, 300);
    assert_int_equal(bi_session_deadline(session, 100), 100); /* it ends now, and is not over */
    assert_int_equal(bi_session_deadline(session, 101), 200);
    assert_null(bi_session_find(session, 1));
    assert_int_equal(session->held_count, 2);
    assert_int_equal(bi_session_deadline(session, 1000), INT64_MAX);
    assert_int_equal(session->held_count, 0);
}

static void a_hundred_thousand_jobs_come_and_go(void **state)
{
    enum { COUNT = 100000 };
    struct session *session = *state;
    for (uint64_t id = 1; id <= COUNT; id++)
        hold(session, id, (int64_t)(COUNT - id));
    assert_int_equal(session->held_count, COUNT);
    for (uint64_t id = 1; id <= COUNT; id++)
        assert_int_equal(bi_session_find(session, id)->token, id + 1000);
    assert_int_equal(bi_session_deadline(session, 0), 0);
    for (uint64_t id = COUNT; id >= 1; id--)
        bi_session_forget(session, id * 7919 % (COUNT + 1)); /* every id once, in no order */
    assert_int_equal(session->held_count, 0);
    assert_null(session->held); /* and the room for them is given back */
    assert_null(session->buckets);
    assert_int_equal(session->deadlines.room, 0);
    hold(session, 5, 50);
    assert_int_equal(bi_session_deadline(session, 0), 50);
}

static void a_small_session_keeps_its_room(void **state)
{
    struct session *session = *state;
    for (uint64_t id = 1; id <= 100; id++)
        hold(session, id, 1);
    uint32_t room = session->held_room;
    for (uint64_t id = 1; id <= 100; id++)
        bi_session_forget(session, id);
    assert_int_equal(session->held_room, room);
    for (uint64_t id = 1; id <= 100; id++)
        hold(session, id, 1);
    assert_int_equal(session->held_room, room);
}

static void at_the_end_jobs_are_told_in_the_order_of_their_reservation(void **state)
{
    struct session *session = *state;
    assert_null(bi_session_take_oldest(session));
    /* Neither ids nor tokens tell the order. */
    for (uint64_t i = 1; i <= 1000; i++)
        assert_true(bi_session_hold(session, i * 577 % 1009 + 1, i * 31 % 1013, 5, i % 2 == 0));
    for (uint64_t i = 1; i <= 1000; i += 3)
        bi_session_forget(session, i * 577 % 1009 + 1);
    /* One that is reserved again comes behind the others. */
    assert_true(bi_session_hold(session, 5 * 577 % 1009 + 1, 5 * 31 % 1013, 5, false));

    for (uint64_t i = 1; i <= 1000; i++) {
        if (i % 3 == 1 || i == 5)
            continue;
        const struct held *held = bi_session_take_oldest(session);
        assert_non_null(held);
        assert_int_equal(held->id, i * 577 % 1009 + 1);
        assert_int_equal(held->token, i * 31 % 1013);
        assert_int_equal(held->has_retries, i % 2 == 0);
    }
    assert_int_equal(bi_session_take_oldest(session)->id, 5 * 577 % 1009 + 1);
    assert_null(bi_session_take_oldest(session));
    assert_int_equal(session->held_count, 0);
}

/* ---- against a naive model ---- */

#define IDS 3000

struct model {
    bool held;
    uint64_t token;
    int64_t deadline;
};

static int64_t first_deadline(struct model *model, int64_t now, uint32_t *count)
{
    int64_t first = INT64_MAX;
    *count = 0;
    for (size_t i = 1; i < IDS; i++) {
        model[i].held &= model[i].deadline >= now;
        *count += model[i].held;
        if (model[i].held && model[i].deadline < first)
            first = model[i].deadline;
    }
    return first;
}

static void compare(const struct session *session, const struct model *model)
{
    for (size_t i = 1; i < IDS; i++) {
        const struct held *held = bi_session_find(session, i);
        assert_int_equal(held != NULL, model[i].held);
        if (held == NULL)
            continue;
        assert_int_equal(held->token, model[i].token);
        assert_int_equal(bi_session_end(session, held), model[i].deadline);
    }
}

/* Mostly holds for a while, then mostly the others, so that it grows and shrinks. */
static void step(struct session *session, struct model *model, struct bi_random *random,
                 uint64_t turn, int64_t now)
{
    uint64_t id = 1 + bi_random_below(random, IDS - 1);
    uint64_t what = bi_random_below(random, 10);
    int64_t deadline = now + (int64_t)bi_random_below(random, 20000);
    uint64_t holds = turn / 10000 % 2 == 0 ? 8 : 2;
    if (what < holds) {
        assert_true(bi_session_hold(session, id, turn, deadline, false));
        model[id] = (struct model){true, turn, deadline};
    } else if (what == 9) {
        bi_session_touch(session, id, deadline);
        if (model[id].held)
            model[id].deadline = deadline;
    } else {
        bi_session_forget(session, id);
        model[id].held = false;
    }
}

static void a_session_is_what_a_naive_model_is(void **state)
{
    struct session *session = *state;
    static struct model model[IDS];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct bi_random random = {seed};
        memset(model, 0, sizeof(model));
        for (uint64_t turn = 1; turn <= 60000; turn++) {
            step(session, model, &random, turn, (int64_t)turn);
            if (turn % 100 != 0)
                continue;
            uint32_t count;
            int64_t first = first_deadline(model, (int64_t)turn, &count);
            assert_int_equal(bi_session_deadline(session, (int64_t)turn), first);
            assert_int_equal(session->held_count, count);
            if (turn % 1000 == 0)
                compare(session, model);
        }
        bi_session_done(session);
    }
}

/* ---- tubes ---- */

static void watched_tubes_are_a_list_in_which_the_last_takes_a_free_place(void **state)
{
    struct session *session = *state;
    struct tubes tubes;
    struct tube *tube[20];
    bi_tubes_init(&tubes, &(struct bi_secret){{1, 2}});
    for (uint32_t i = 0; i < COUNT_OF(tube); i++) {
        char name[8];
        int size = snprintf(name, sizeof(name), "t%u", i);
        tube[i] = bi_tubes_hold(&tubes, (bide_slice){name, (size_t)size});
        assert_int_equal(bi_session_find_tube(session, tube[i]), session->watched_count);
        assert_true(bi_session_reserve_tube(session));
        bi_session_add_tube(session, tube[i]);
        assert_int_equal(bi_session_find_tube(session, tube[i]), i);
        assert_int_equal(session->names[i].size, size);
        assert_memory_equal(session->names[i].data, name, size);
    }
    bi_session_remove_tube(session, 3);
    assert_int_equal(session->watched_count, 19);
    assert_ptr_equal(session->watched[3], tube[19]);
    assert_ptr_equal(session->names[3].data, tube[19]->name);
    assert_int_equal(bi_session_find_tube(session, tube[3]), 19);
    bi_session_remove_tube(session, 18);
    assert_int_equal(session->watched_count, 18);
    assert_int_equal(bi_session_find_tube(session, tube[18]), 18);
    bi_tubes_done(&tubes);
}

static void no_more_tubes_are_watched_than_a_reserve_takes(void **state)
{
    struct session *session = *state;
    struct tubes tubes;
    bi_tubes_init(&tubes, &(struct bi_secret){{1, 2}});
    struct tube *tube = bi_tubes_hold(&tubes, (bide_slice){"t", 1});
    for (uint32_t i = 0; i < BIDE_RESERVE_TOPICS; i++) {
        assert_true(bi_session_reserve_tube(session));
        bi_session_add_tube(session, tube);
    }
    assert_false(bi_session_reserve_tube(session));
    bi_session_remove_tube(session, 0);
    assert_true(bi_session_reserve_tube(session));
    bi_tubes_done(&tubes);
}

/* Its new end is not known before the touch has been answered. */
static void a_job_that_is_being_touched_is_not_forgotten(void **state)
{
    struct session *session = *state;
    hold(session, 1, 100);
    hold(session, 2, 100);
    bi_session_touch_begins(session, 1);
    assert_true(bi_session_deadline(session, 200) > 200);
    assert_non_null(bi_session_find(session, 1));
    assert_null(bi_session_find(session, 2));
    bi_session_touch(session, 1, 900);
    assert_int_equal(bi_session_deadline(session, 300), 900);
    bi_session_touch_begins(session, 1);
    bi_session_touch(session, 1, 0);
    assert_int_equal(bi_session_deadline(session, 300), 900);
    assert_int_equal(bi_session_deadline(session, 901), INT64_MAX);
    assert_null(bi_session_find(session, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_that_is_being_touched_is_not_forgotten),
        TEST(a_job_is_found_until_it_is_forgotten),
        TEST(a_new_lease_takes_the_place_of_the_old_one),
        TEST(the_first_deadline_is_told),
        TEST(leases_that_have_ended_are_forgotten),
        TEST(a_hundred_thousand_jobs_come_and_go),
        TEST(a_small_session_keeps_its_room),
        TEST(at_the_end_jobs_are_told_in_the_order_of_their_reservation),
        TEST(a_session_is_what_a_naive_model_is),
        TEST(watched_tubes_are_a_list_in_which_the_last_takes_a_free_place),
        TEST(no_more_tubes_are_watched_than_a_reserve_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
