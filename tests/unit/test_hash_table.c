/* SPDX-License-Identifier: MIT */
#include "core/hash_table.h"

#include "alloc_fixture.h"
#include "unit.h"

#include "util/hash.h"

#include <string.h>

/* Items are numbers: item i has hash hash_of(i) and its link in links[i]; item 0 is unused. */
#define ITEMS 100001u

struct fixture {
    struct test_alloc alloc;
    struct hash_table table;
    uint64_t salt;
    bool few; /* only a few hashes, so that chains collide */
    uint32_t links[ITEMS];
    bool in[ITEMS];
    uint32_t count;
};

static uint64_t hash_of(const void *ctx, uint32_t ref)
{
    const struct fixture *f = ctx;
    uint64_t hash = bi_hash_u64(ref + f->salt);
    return f->few ? hash % 7 : hash;
}

static uint32_t *link_of(const void *ctx, uint32_t ref)
{
    return &((struct fixture *)(uintptr_t)ctx)->links[ref];
}

static const struct hash_table_ops items = {hash_of, link_of, 0};

static int set_up(void **state)
{
    static struct fixture fixture;
    memset(&fixture, 0, sizeof(fixture));
    *state = &fixture;
    return bi_hash_table_init(&fixture.table, test_alloc_of(&fixture.alloc)) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    bi_hash_table_done(&f->table);
    return f->alloc.blocks == 0 ? 0 : -1;
}

static void insert(struct fixture *f, uint32_t ref)
{
    bi_hash_table_insert(&f->table, &items, f, ref);
    f->in[ref] = true;
    f->count++;
}

static void take_out(struct fixture *f, uint32_t ref)
{
    bi_hash_table_remove(&f->table, &items, f, ref);
    f->in[ref] = false;
    f->count--;
}

static bool find(const struct fixture *f, uint32_t wanted)
{
    uint32_t ref = bi_hash_table_first(&f->table, hash_of(f, wanted));
    while (ref != 0 && ref != wanted)
        ref = f->links[ref];
    return ref != 0;
}

static void check(const struct fixture *f, uint32_t last)
{
    assert_int_equal(f->table.count, f->count);
    for (uint32_t ref = 1; ref <= last; ref++)
        assert_int_equal(find(f, ref), f->in[ref]);
}

static void items_are_found_while_the_table_grows_and_shrinks(void **state)
{
    struct fixture *f = *state;
    size_t empty = f->alloc.bytes;
    for (uint32_t ref = 1; ref < ITEMS; ref++) {
        insert(f, ref);
        if (ref < 300 || ref % 20000 == 0)
            check(f, ref);
    }
    check(f, ITEMS - 1);
    assert_true(f->table.buckets >= ITEMS - 1);
    for (uint32_t ref = 1; ref < ITEMS; ref++) {
        take_out(f, ref);
        if (ref % 20000 == 0 || ref > ITEMS - 100)
            check(f, ITEMS - 1);
    }
    assert_true(f->table.buckets <= 128);
    assert_true(f->alloc.bytes <= 4 * empty);
}

static void random_inserts_and_removes_agree_with_an_array(void **state)
{
    struct fixture *f = *state;
    struct bi_random random = {11};
    for (int step = 0; step < 400000; step++) {
        uint32_t ref = 1 + (uint32_t)bi_random_below(&random, 3000);
        assert_int_equal(find(f, ref), f->in[ref]);
        /* The number of items swings, so that buckets are split and merged all the time. */
        bool grow = bi_random_below(&random, 8) < ((step / 20000) % 2 == 0 ? 7u : 1u);
        if (grow && !f->in[ref])
            insert(f, ref);
        else if (!grow && f->in[ref])
            take_out(f, ref);
        if (step % 10000 == 0)
            check(f, 3000);
    }
    check(f, 3000);
}

static void items_with_equal_hashes_share_a_chain(void **state)
{
    struct fixture *f = *state;
    f->few = true;
    for (uint32_t ref = 1; ref <= 700; ref++)
        insert(f, ref);
    for (uint32_t ref = 1; ref <= 700; ref += 3)
        take_out(f, ref);
    check(f, 700);
    for (uint32_t ref = 1; ref <= 700; ref++)
        if (f->in[ref])
            take_out(f, ref);
    check(f, 700);
}

static void table_works_with_longer_chains_without_memory(void **state)
{
    struct fixture *f = *state;
    f->alloc.failing = true;
    uint32_t buckets = f->table.buckets;
    for (uint32_t ref = 1; ref <= 5000; ref++)
        insert(f, ref);
    assert_int_equal(f->table.buckets, buckets);
    check(f, 5000);
    f->alloc.failing = false;
    for (uint32_t ref = 5001; ref <= 20000; ref++)
        insert(f, ref);
    assert_true(f->table.buckets > 20000);
    check(f, 20000);
}

static void init_without_memory_fails_and_leaves_nothing(void **state)
{
    (void)state;
    struct test_alloc alloc = {.failing = true};
    struct hash_table table;
    assert_false(bi_hash_table_init(&table, test_alloc_of(&alloc)));
    bi_hash_table_done(&table);
    assert_int_equal(alloc.blocks, 0);
}

static void a_count_at_the_border_of_a_segment_does_not_allocate_again_and_again(void **state)
{
    struct fixture *f = *state;
    for (uint32_t ref = 1; ref <= 40000; ref++)
        insert(f, ref);
    for (uint32_t ref = 40000; ref > 8000; ref--)
        take_out(f, ref);
    uint64_t calls = f->alloc.calls;
    for (int i = 0; i < 20; i++) {
        for (uint32_t ref = 8001; ref <= 8300; ref++)
            insert(f, ref);
        for (uint32_t ref = 8001; ref <= 8300; ref++)
            take_out(f, ref);
    }
    assert_true(f->alloc.calls - calls <= 2);
}

/* ---- walking ---- */

static void position_is_the_bit_reversed_hash(void **state)
{
    (void)state;
    assert_int_equal(bi_hash_table_position(1), UINT64_C(1) << 63);
    assert_int_equal(bi_hash_table_position(UINT64_C(1) << 63), 1);
    assert_int_equal(bi_hash_table_position(6), UINT64_C(3) << 61);
    struct bi_random random = {5};
    for (int i = 0; i < 1000; i++) {
        uint64_t hash = bi_random_next(&random);
        assert_int_equal(bi_hash_table_position(bi_hash_table_position(hash)), hash);
    }
}

/* One step of a walk: counts a visit of every item of the chain from the place on. */
static uint64_t walk_step(const struct fixture *f, uint64_t place, bool *end, uint8_t *visits)
{
    uint64_t from = place;
    uint32_t ref = bi_hash_table_walk(&f->table, &place, end);
    for (; ref != 0; ref = f->links[ref])
        if (bi_hash_table_position(hash_of(f, ref)) >= from)
            visits[ref]++;
    return place;
}

static void a_walk_visits_every_item_exactly_once(void **state)
{
    struct fixture *f = *state;
    static uint8_t visits[ITEMS];
    for (uint32_t count = 1; count <= 30000; count = count * 3 + 1) {
        while (f->count < count)
            insert(f, f->count + 1);
        memset(visits, 0, sizeof(visits));
        bool end = false;
        uint64_t place = 0;
        while (!end)
            place = walk_step(f, place, &end, visits);
        for (uint32_t ref = 1; ref <= count; ref++)
            assert_int_equal(visits[ref], 1);
    }
}

static void a_walk_over_an_empty_table_ends(void **state)
{
    struct fixture *f = *state;
    bool end = false;
    uint64_t place = 0;
    int steps = 0;
    while (!end) {
        assert_int_equal(bi_hash_table_walk(&f->table, &place, &end), 0);
        assert_true(++steps <= 64);
    }
    assert_int_equal(steps, 64);
}

#define STABLE 4000u

/* Items 1 to STABLE stay in the whole time; the others come and go between the steps, in turn so
 * many that the table grows and so few that it shrinks. */
static void churn(struct fixture *f, struct bi_random *random, uint64_t step, uint8_t *visits)
{
    bool grow = (step / 400) % 2 == 0;
    for (int i = 0; i < 60; i++) {
        uint32_t ref = STABLE + 1 + (uint32_t)bi_random_below(random, 40000);
        if (grow == f->in[ref])
            continue;
        if (grow)
            insert(f, ref);
        else
            take_out(f, ref);
        visits[ref] = 0;
    }
}

static void walk_visits_remaining_items_once_while_others_change(void **state)
{
    struct fixture *f = *state;
    static uint8_t visits[ITEMS];
    struct bi_random random = {13};
    for (uint64_t round = 0; round < 5; round++) {
        f->salt = round * UINT64_C(1000003);
        bi_hash_table_done(&f->table);
        assert_true(bi_hash_table_init(&f->table, test_alloc_of(&f->alloc)));
        memset(f->in, 0, sizeof(f->in));
        memset(visits, 0, sizeof(visits));
        f->count = 0;
        for (uint32_t ref = 1; ref <= STABLE; ref++)
            insert(f, ref);
        bool end = false;
        uint64_t place = 0;
        for (uint64_t step = round * 100; !end; step++) {
            place = walk_step(f, place, &end, visits);
            churn(f, &random, step, visits);
        }
        for (uint32_t ref = 1; ref <= STABLE; ref++)
            assert_int_equal(visits[ref], 1);
        for (uint32_t ref = STABLE + 1; ref < ITEMS; ref++)
            assert_in_range(visits[ref], 0, 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(items_are_found_while_the_table_grows_and_shrinks),
        TEST(random_inserts_and_removes_agree_with_an_array),
        TEST(items_with_equal_hashes_share_a_chain),
        TEST(table_works_with_longer_chains_without_memory),
        TEST(init_without_memory_fails_and_leaves_nothing),
        TEST(a_count_at_the_border_of_a_segment_does_not_allocate_again_and_again),
        TEST(position_is_the_bit_reversed_hash),
        TEST(a_walk_visits_every_item_exactly_once),
        TEST(a_walk_over_an_empty_table_ends),
        TEST(walk_visits_remaining_items_once_while_others_change),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
