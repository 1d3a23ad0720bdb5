/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "server/beanstalk/session.h"
#include "server/beanstalk/tubes.h"
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
    assert_true(bi_session_add_lease(session, id, id + 1000, deadline, false));
}

static void lease_is_found_until_it_is_removed(void **state)
{
    struct session *session = *state;
    assert_null(bi_session_find_lease(session, 7));
    bi_session_remove_lease(session, 7);
    bi_session_end_touch(session, 7, 5);
    assert_true(bi_session_add_lease(session, 7, 70, 500, true));
    const struct lease *lease = bi_session_find_lease(session, 7);
    assert_non_null(lease);
    assert_int_equal(lease->id, 7);
    assert_int_equal(lease->token, 70);
    assert_true(lease->has_retry_limit);
    assert_int_equal(bi_session_lease_end(session, lease), 500);
    assert_null(bi_session_find_lease(session, 8));
    assert_int_equal(session->lease_count, 1);
    bi_session_remove_lease(session, 7);
    assert_null(bi_session_find_lease(session, 7));
    assert_int_equal(session->lease_count, 0);
    bi_session_remove_lease(session, 7);
    assert_int_equal(session->lease_count, 0);
}

static void new_lease_replaces_the_old_one(void **state)
{
    struct session *session = *state;
    assert_true(bi_session_add_lease(session, 7, 70, 500, true));
    assert_true(bi_session_add_lease(session, 7, 71, 900, false));
    const struct lease *lease = bi_session_find_lease(session, 7);
    assert_int_equal(session->lease_count, 1);
    assert_int_equal(lease->token, 71);
    assert_false(lease->has_retry_limit);
    assert_int_equal(bi_session_lease_end(session, lease), 900);
    assert_int_equal(bi_session_next_deadline(session, 0), 900);
}

static void earliest_deadline_is_returned(void **state)
{
    struct session *session = *state;
    assert_int_equal(bi_session_next_deadline(session, 0), INT64_MAX);
    hold(session, 1, 300);
    hold(session, 2, 100);
    hold(session, 3, 200);
    assert_int_equal(bi_session_next_deadline(session, 0), 100);
    bi_session_end_touch(session, 2, 400);
    assert_int_equal(bi_session_next_deadline(session, 0), 200);
    bi_session_remove_lease(session, 3);
    assert_int_equal(bi_session_next_deadline(session, 0), 300);
    bi_session_end_touch(session, 2, 50);
    assert_int_equal(bi_session_next_deadline(session, 0), 50);
}

static void expired_leases_are_removed(void **state)
{
    struct session *session = *state;
    hold(session, 1, 100);
    hold(session, 2, 200);
    hold(session, 3, 300);
    assert_int_equal(bi_session_next_deadline(session, 100),
                     100); /* it ends now, and is not over */
    assert_int_equal(bi_session_next_deadline(session, 101), 200);
    assert_null(bi_session_find_lease(session, 1));
    assert_int_equal(session->lease_count, 2);
    assert_int_equal(bi_session_next_deadline(session, 1000), INT64_MAX);
    assert_int_equal(session->lease_count, 0);
}

static void session_handles_a_hundred_thousand_leases(void **state)
{
    enum { COUNT = 100000 };
    struct session *session = *state;
    for (uint64_t id = 1; id <= COUNT; id++)
        hold(session, id, (int64_t)(COUNT - id));
    assert_int_equal(session->lease_count, COUNT);
    for (uint64_t id = 1; id <= COUNT; id++)
        assert_int_equal(bi_session_find_lease(session, id)->token, id + 1000);
    assert_int_equal(bi_session_next_deadline(session, 0), 0);
    for (uint64_t id = COUNT; id >= 1; id--)
        bi_session_remove_lease(session, id * 7919 % (COUNT + 1)); /* every id once, in no order */
    assert_int_equal(session->lease_count, 0);
    assert_null(session->lease); /* and the room for them is given back */
    assert_null(session->buckets);
    assert_int_equal(session->deadlines.room, 0);
    hold(session, 5, 50);
    assert_int_equal(bi_session_next_deadline(session, 0), 50);
}

static void small_session_keeps_its_memory(void **state)
{
    struct session *session = *state;
    for (uint64_t id = 1; id <= 100; id++)
        hold(session, id, 1);
    uint32_t room = session->lease_room;
    for (uint64_t id = 1; id <= 100; id++)
        bi_session_remove_lease(session, id);
    assert_int_equal(session->lease_room, room);
    for (uint64_t id = 1; id <= 100; id++)
        hold(session, id, 1);
    assert_int_equal(session->lease_room, room);
}

static void leases_are_taken_in_order_of_reservation(void **state)
{
    struct session *session = *state;
    assert_null(bi_session_take_oldest_lease(session));
    /* Neither ids nor tokens tell the order. */
    for (uint64_t i = 1; i <= 1000; i++)
        assert_true(
            bi_session_add_lease(session, i * 577 % 1009 + 1, i * 31 % 1013, 5, i % 2 == 0));
    for (uint64_t i = 1; i <= 1000; i += 3)
        bi_session_remove_lease(session, i * 577 % 1009 + 1);
    /* One that is reserved again comes behind the others. */
    assert_true(bi_session_add_lease(session, 5 * 577 % 1009 + 1, 5 * 31 % 1013, 5, false));

    for (uint64_t i = 1; i <= 1000; i++) {
        if (i % 3 == 1 || i == 5)
            continue;
        const struct lease *lease = bi_session_take_oldest_lease(session);
        assert_non_null(lease);
        assert_int_equal(lease->id, i * 577 % 1009 + 1);
        assert_int_equal(lease->token, i * 31 % 1013);
        assert_int_equal(lease->has_retry_limit, i % 2 == 0);
    }
    assert_int_equal(bi_session_take_oldest_lease(session)->id, 5 * 577 % 1009 + 1);
    assert_null(bi_session_take_oldest_lease(session));
    assert_int_equal(session->lease_count, 0);
}

/* ---- against a naive model ---- */

#define IDS 3000

struct model {
    bool lease;
    uint64_t token;
    int64_t deadline;
};

static int64_t first_deadline(struct model *model, int64_t now, uint32_t *count)
{
    int64_t first = INT64_MAX;
    *count = 0;
    for (size_t i = 1; i < IDS; i++) {
        model[i].lease &= model[i].deadline >= now;
        *count += model[i].lease;
        if (model[i].lease && model[i].deadline < first)
            first = model[i].deadline;
    }
    return first;
}

static void compare(const struct session *session, const struct model *model)
{
    for (size_t i = 1; i < IDS; i++) {
        const struct lease *lease = bi_session_find_lease(session, i);
        assert_int_equal(lease != NULL, model[i].lease);
        if (lease == NULL)
            continue;
        assert_int_equal(lease->token, model[i].token);
        assert_int_equal(bi_session_lease_end(session, lease), model[i].deadline);
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
        assert_true(bi_session_add_lease(session, id, turn, deadline, false));
        model[id] = (struct model){true, turn, deadline};
    } else if (what == 9) {
        bi_session_end_touch(session, id, deadline);
        if (model[id].lease)
            model[id].deadline = deadline;
    } else {
        bi_session_remove_lease(session, id);
        model[id].lease = false;
    }
}

static void session_matches_a_naive_model(void **state)
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
            assert_int_equal(bi_session_next_deadline(session, (int64_t)turn), first);
            assert_int_equal(session->lease_count, count);
            if (turn % 1000 == 0)
                compare(session, model);
        }
        bi_session_done(session);
    }
}

/* ---- tubes ---- */

static void removed_watched_tube_is_replaced_by_the_last(void **state)
{
    struct session *session = *state;
    struct tubes tubes;
    struct tube *tube[20];
    bi_tubes_init(&tubes, &(struct bi_hash_secret){{1, 2}});
    for (uint32_t i = 0; i < COUNT_OF(tube); i++) {
        char name[8];
        int size = snprintf(name, sizeof(name), "t%u", i);
        tube[i] = bi_tubes_acquire(&tubes, (bide_slice){name, (size_t)size});
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
    bi_tubes_init(&tubes, &(struct bi_hash_secret){{1, 2}});
    struct tube *tube = bi_tubes_acquire(&tubes, (bide_slice){"t", 1});
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
static void lease_being_touched_is_not_removed(void **state)
{
    struct session *session = *state;
    hold(session, 1, 100);
    hold(session, 2, 100);
    bi_session_begin_touch(session, 1);
    assert_true(bi_session_next_deadline(session, 200) > 200);
    assert_non_null(bi_session_find_lease(session, 1));
    assert_null(bi_session_find_lease(session, 2));
    bi_session_end_touch(session, 1, 900);
    assert_int_equal(bi_session_next_deadline(session, 300), 900);
    bi_session_begin_touch(session, 1);
    bi_session_end_touch(session, 1, 0);
    assert_int_equal(bi_session_next_deadline(session, 300), 900);
    assert_int_equal(bi_session_next_deadline(session, 901), INT64_MAX);
    assert_null(bi_session_find_lease(session, 1));
}

/* ---- tubes ---- */

static int set_up_tubes(void **state)
{
    static struct tubes tubes;
    bi_tubes_init(&tubes, &(struct bi_hash_secret){{42, 43}});
    *state = &tubes;
    return 0;
}

static int tear_down_tubes(void **state)
{
    bi_tubes_done(*state);
    return 0;
}

static bide_slice tube_name(uint64_t number)
{
    static char name[32];
    int size = snprintf(name, sizeof(name), "tube-%llu", (unsigned long long)number);
    return (bide_slice){name, (size_t)size};
}

static void tube_exists_while_it_is_referenced(void **state)
{
    struct tubes *tubes = *state;
    bide_slice name = tube_name(1);
    assert_null(bi_tubes_find(tubes, name));
    struct tube *tube = bi_tubes_acquire(tubes, name);
    assert_non_null(tube);
    assert_int_equal(tube->ref_count, 1);
    assert_false(tube->referenced);
    assert_string_equal(tube->name, "tube-1");
    assert_int_equal(bi_tube_name(tube).size, 6);
    assert_ptr_equal(bi_tubes_acquire(tubes, name), tube);
    assert_ptr_equal(bi_tubes_find(tubes, name), tube);
    assert_int_equal(tubes->count, 1);
    assert_false(bi_tubes_release(tubes, tube));
    assert_ptr_equal(bi_tubes_find(tubes, name), tube);
    assert_true(bi_tubes_release(tubes, tube));
    assert_null(bi_tubes_find(tubes, name));
    assert_int_equal(tubes->count, 0);
    free(tube);
}

static void tube_has_a_copy_of_its_name(void **state)
{
    struct tubes *tubes = *state;
    char name[] = "abc";
    struct tube *tube = bi_tubes_acquire(tubes, (bide_slice){name, 3});
    name[0] = 'x';
    assert_string_equal(tube->name, "abc");
    assert_null(bi_tubes_find(tubes, (bide_slice){"xbc", 3}));
    assert_ptr_equal(bi_tubes_find(tubes, (bide_slice){"abcd", 3}), tube);
    assert_null(bi_tubes_find(tubes, (bide_slice){"abcd", 4}));
    assert_null(bi_tubes_find(tubes, (bide_slice){"ab", 2}));
}

static void names_of_every_length_are_distinct(void **state)
{
    struct tubes *tubes = *state;
    struct tube *made[BIDE_TOPIC_MAX + 1];
    char name[BIDE_TOPIC_MAX];
    memset(name, 'n', sizeof(name));
    for (size_t size = 1; size <= BIDE_TOPIC_MAX; size++) {
        made[size] = bi_tubes_acquire(tubes, (bide_slice){name, size});
        assert_int_equal(strlen(made[size]->name), size);
    }
    assert_int_equal(tubes->count, BIDE_TOPIC_MAX);
    for (size_t size = 1; size <= BIDE_TOPIC_MAX; size++)
        assert_ptr_equal(bi_tubes_find(tubes, (bide_slice){name, size}), made[size]);
}

/* Random holds and releases of many tubes; the model is the number of holders of each. */
static void tubes_match_a_naive_model(void **state)
{
    enum { TUBES = 20000 };
    struct tubes *tubes = *state;
    static uint32_t ref_count[TUBES];
    struct bi_random random = {7};
    size_t count = 0;
    memset(ref_count, 0, sizeof(ref_count));
    for (uint64_t turn = 0; turn < 400000; turn++) {
        uint64_t number = bi_random_below(&random, TUBES);
        bide_slice name = tube_name(number);
        struct tube *tube = bi_tubes_find(tubes, name);
        assert_int_equal(tube == NULL ? 0 : tube->ref_count, ref_count[number]);
        if (bi_random_below(&random, 100) < (turn < 200000 ? 70u : 30u)) {
            struct tube *again = bi_tubes_acquire(tubes, name);
            assert_true(tube == NULL || again == tube);
            count += ref_count[number]++ == 0;
        } else if (tube != NULL) {
            bool last = --ref_count[number] == 0;
            assert_int_equal(bi_tubes_release(tubes, tube), last);
            count -= last;
            if (last)
                free(tube);
        }
        assert_int_equal(tubes->count, count);
    }
    assert_true(count > 0);
}

#define TEST(name)      cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TUBE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_tubes, tear_down_tubes)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lease_being_touched_is_not_removed),
        TEST(lease_is_found_until_it_is_removed),
        TEST(new_lease_replaces_the_old_one),
        TEST(earliest_deadline_is_returned),
        TEST(expired_leases_are_removed),
        TEST(session_handles_a_hundred_thousand_leases),
        TEST(small_session_keeps_its_memory),
        TEST(leases_are_taken_in_order_of_reservation),
        TEST(session_matches_a_naive_model),
        TEST(removed_watched_tube_is_replaced_by_the_last),
        TEST(no_more_tubes_are_watched_than_a_reserve_takes),
        TUBE_TEST(tube_exists_while_it_is_referenced),
        TUBE_TEST(tube_has_a_copy_of_its_name),
        TUBE_TEST(names_of_every_length_are_distinct),
        TUBE_TEST(tubes_match_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
