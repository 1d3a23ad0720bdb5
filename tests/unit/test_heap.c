/* SPDX-License-Identifier: MIT */
#include "alloc_fixture.h"
#include "unit.h"

#include "util/hash.h"

#include <string.h>

/* A heap of numbers. The low half of a number is its owner, whose slot is told to slots[owner]. */
#define OWNERS  5000u
#define NOWHERE UINT32_MAX

#define BI_HEAP_NAME              number
#define BI_HEAP_ENTRY             uint64_t
#define BI_HEAP_LESS(a, b)        (*(a) < *(b))
#define BI_HEAP_MOVED(ctx, e, at) (((uint32_t *)(ctx))[(uint32_t) * (e)] = (at))
#include "core/heap.h"

struct fixture {
    struct test_alloc counted;
    struct bi_alloc alloc;
    struct number_heap heap;
    uint32_t slots[OWNERS];
};

static int set_up(void **state)
{
    static struct fixture fixture;
    memset(&fixture, 0, sizeof(fixture));
    memset(fixture.slots, 0xff, sizeof(fixture.slots));
    fixture.alloc = test_alloc_of(&fixture.counted);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    number_heap_free(&f->heap, &f->alloc);
    return f->counted.blocks == 0 ? 0 : -1;
}

static uint64_t entry_of(uint32_t key, uint32_t owner)
{
    return (uint64_t)key << 32 | owner;
}

static void push(struct fixture *f, uint64_t entry)
{
    assert_true(number_heap_reserve(&f->heap, &f->alloc, f->heap.count + 1));
    number_heap_push(&f->heap, f->slots, entry);
}

static uint64_t pop(struct fixture *f)
{
    uint64_t least = f->heap.entries[0];
    number_heap_remove(&f->heap, f->slots, 0);
    f->slots[(uint32_t)least] = NOWHERE;
    return least;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Every entry knows its slot, and none lies above its parent. */
static void check(const struct fixture *f)
{
    for (uint32_t i = 0; i < f->heap.count; i++) {
        assert_int_equal(f->slots[(uint32_t)f->heap.entries[i]], i);
        if (i > 0)
            assert_true(f->heap.entries[(i - 1) / 4] < f->heap.entries[i]);
    }
}

static void numbers_are_popped_in_order(void **state)
{
    struct fixture *f = *state;
    static uint64_t sorted[OWNERS];
    struct bi_random random = {1};
    for (uint32_t i = 0; i < OWNERS; i++) {
        sorted[i] = entry_of((uint32_t)bi_random_below(&random, 1000), i);
        push(f, sorted[i]);
    }
    check(f);
    qsort(sorted, OWNERS, sizeof(sorted[0]), compare);
    for (uint32_t i = 0; i < OWNERS; i++)
        assert_int_equal(pop(f), sorted[i]);
    assert_int_equal(f->heap.count, 0);
}

static void every_small_size_is_popped_in_order(void **state)
{
    struct fixture *f = *state;
    struct bi_random random = {2};
    for (uint32_t size = 1; size < 100; size++) {
        for (uint32_t i = 0; i < size; i++)
            push(f, entry_of((uint32_t)bi_random_below(&random, 50), i));
        uint64_t last = 0;
        for (uint32_t i = 0; i < size; i++) {
            uint64_t least = pop(f);
            assert_true(i == 0 || least > last);
            last = least;
        }
    }
}

/* What the heap should hold: the key of each owner that is in. */
struct model {
    bool in[OWNERS];
    uint32_t keys[OWNERS];
    uint32_t count;
};

static uint64_t least_of(const struct model *model)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < OWNERS; i++)
        if (model->in[i] && entry_of(model->keys[i], i) < least)
            least = entry_of(model->keys[i], i);
    return least;
}

static void step(struct fixture *f, struct model *model, struct bi_random *random)
{
    uint32_t owner = (uint32_t)bi_random_below(random, OWNERS);
    uint32_t key = (uint32_t)bi_random_below(random, 3000);
    if (!model->in[owner]) {
        push(f, entry_of(key, owner));
        model->in[owner] = true;
        model->keys[owner] = key;
        model->count++;
    } else if (bi_random_below(random, 2) == 0) {
        number_heap_replace(&f->heap, f->slots, f->slots[owner], entry_of(key, owner));
        model->keys[owner] = key;
    } else {
        number_heap_remove(&f->heap, f->slots, f->slots[owner]);
        f->slots[owner] = NOWHERE;
        model->in[owner] = false;
        model->count--;
    }
}

static void pushes_removes_and_replaces_in_the_middle_keep_order_and_slots(void **state)
{
    struct fixture *f = *state;
    static struct model model;
    memset(&model, 0, sizeof(model));
    struct bi_random random = {3};
    for (int i = 0; i < 40000; i++) {
        step(f, &model, &random);
        assert_int_equal(f->heap.count, model.count);
        if (i % 500 != 0 || model.count == 0)
            continue;
        check(f);
        assert_int_equal(f->heap.entries[0], least_of(&model));
    }
    while (f->heap.count > 0) {
        uint64_t least = pop(f);
        assert_true(model.in[(uint32_t)least]);
        assert_int_equal(least >> 32, model.keys[(uint32_t)least]);
        model.in[(uint32_t)least] = false;
        check(f);
        if (f->heap.count % 97 == 0)
            assert_int_equal(f->heap.count == 0 ? UINT64_MAX : f->heap.entries[0],
                             least_of(&model));
    }
}

static void reserved_room_lets_push_succeed_without_memory(void **state)
{
    struct fixture *f = *state;
    assert_true(number_heap_reserve(&f->heap, &f->alloc, 1000));
    f->counted.failing = true;
    for (uint32_t i = 0; i < 1000; i++)
        number_heap_push(&f->heap, f->slots, entry_of(1000 - i, i));
    check(f);
    assert_int_equal(f->heap.entries[0] >> 32, 1);
}

static void reserve_without_memory_fails_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    f->counted.failing = true;
    assert_false(number_heap_reserve(&f->heap, &f->alloc, 1));
    f->counted.failing = false;
    for (uint32_t i = 0; i < 100; i++)
        push(f, entry_of(100 - i, i));
    uint32_t room = f->heap.room;
    f->counted.failing = true;
    assert_false(number_heap_reserve(&f->heap, &f->alloc, room + 1));
    assert_int_equal(f->heap.room, room);
    assert_int_equal(f->heap.count, 100);
    check(f);
    for (uint32_t i = 1; i <= 100; i++)
        assert_int_equal(pop(f) >> 32, i);
}

/* A heap with far more room than entries moves only its entries when it grows. */
static void growth_of_a_sparse_heap_keeps_its_content(void **state)
{
    struct fixture *f = *state;
    assert_true(number_heap_reserve(&f->heap, &f->alloc, 4000));
    for (uint32_t i = 0; i < 10; i++)
        number_heap_push(&f->heap, f->slots, entry_of(10 - i, i));
    for (uint32_t room = 5000; room < 50000; room += 5000) {
        assert_true(number_heap_reserve(&f->heap, &f->alloc, room));
        assert_true(f->heap.room >= room);
        check(f);
    }
    f->counted.failing = true;
    assert_false(number_heap_reserve(&f->heap, &f->alloc, f->heap.room + 1));
    check(f);
    for (uint32_t i = 1; i <= 10; i++)
        assert_int_equal(pop(f) >> 32, i);
    assert_int_equal(f->counted.blocks, 1);
}

static void growth_of_an_empty_heap_with_room_loses_nothing_and_leaks_nothing(void **state)
{
    struct fixture *f = *state;
    assert_true(number_heap_reserve(&f->heap, &f->alloc, 100));
    assert_true(number_heap_reserve(&f->heap, &f->alloc, 1000));
    assert_int_equal(f->heap.count, 0);
    assert_int_equal(f->counted.blocks, 1);
}

static void trim_frees_memory_and_keeps_the_content(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 4000; i++)
        push(f, entry_of(i, i));
    size_t full = f->counted.bytes;
    for (uint32_t i = 0; i < 3990; i++) {
        assert_int_equal(pop(f), entry_of(i, i));
        number_heap_trim(&f->heap, &f->alloc, f->heap.count);
    }
    assert_true(f->counted.bytes < full / 20);
    assert_true(f->heap.room >= 10);
    check(f);
    for (uint32_t i = 3990; i < 4000; i++)
        assert_int_equal(pop(f), entry_of(i, i));
}

static void trim_keeps_reserved_room(void **state)
{
    struct fixture *f = *state;
    assert_true(number_heap_reserve(&f->heap, &f->alloc, 4096));
    for (uint32_t owners = 4096; owners > 0; owners--) {
        number_heap_trim(&f->heap, &f->alloc, owners);
        assert_true(f->heap.room >= owners);
    }
}

static void trim_without_memory_changes_nothing(void **state)
{
    struct fixture *f = *state;
    assert_true(number_heap_reserve(&f->heap, &f->alloc, 1000));
    number_heap_push(&f->heap, f->slots, entry_of(5, 6));
    f->counted.failing = true;
    number_heap_trim(&f->heap, &f->alloc, 1);
    assert_int_equal(f->heap.room, 1000);
    assert_int_equal(f->heap.entries[0], entry_of(5, 6));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_are_popped_in_order),
        TEST(every_small_size_is_popped_in_order),
        TEST(pushes_removes_and_replaces_in_the_middle_keep_order_and_slots),
        TEST(reserved_room_lets_push_succeed_without_memory),
        TEST(reserve_without_memory_fails_and_changes_nothing),
        TEST(growth_of_a_sparse_heap_keeps_its_content),
        TEST(growth_of_an_empty_heap_with_room_loses_nothing_and_leaks_nothing),
        TEST(trim_frees_memory_and_keeps_the_content),
        TEST(trim_keeps_reserved_room),
        TEST(trim_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
