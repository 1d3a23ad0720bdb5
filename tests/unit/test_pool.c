/* SPDX-License-Identifier: MIT */
#include "util/alloc.h"

#include "alloc_fixture.h"
#include "unit.h"

#include "util/hash.h"

#include <string.h>

#define SHIFT 4u
#define SLAB  (1u << SHIFT)
#define ITEM  24u

struct fixture {
    struct test_alloc alloc;
    struct pool pool;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    memset(&fixture, 0, sizeof(fixture));
    bi_pool_init(&fixture.pool, test_alloc_of(&fixture.alloc), ITEM, SHIFT);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    bi_pool_done(&f->pool);
    return f->alloc.blocks == 0 ? 0 : -1;
}

/* How many slabs there are: the blocks but for the one with their list. */
static size_t slabs(const struct fixture *f)
{
    return f->alloc.blocks - 1;
}

static void a_reference_is_never_0(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 10 * SLAB; i++)
        assert_int_not_equal(bi_pool_alloc(&f->pool), 0);
    assert_int_equal(f->pool.used, 10 * SLAB);
}

static void two_items_share_neither_reference_nor_bytes(void **state)
{
    struct fixture *f = *state;
    uint32_t refs[5 * SLAB];
    for (uint32_t i = 0; i < COUNT_OF(refs); i++) {
        refs[i] = bi_pool_alloc(&f->pool);
        memset(bi_pool_at(&f->pool, refs[i]), (int)(i % 251), ITEM);
    }
    for (uint32_t i = 0; i < COUNT_OF(refs); i++) {
        unsigned char want[ITEM];
        memset(want, (int)(i % 251), ITEM);
        assert_memory_equal(bi_pool_at(&f->pool, refs[i]), want, ITEM);
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(refs[i], refs[j]);
    }
}

/* Whatever items are free, and also after slabs were freed. */
static void reserved_items_need_no_memory(void **state)
{
    struct fixture *f = *state;
    uint32_t refs[20 * SLAB];
    uint32_t count = 0;
    struct bi_random random = {1};

    for (int round = 0; round < 200; round++) {
        uint32_t room = (uint32_t)COUNT_OF(refs) - count;
        uint32_t wanted = (uint32_t)bi_random_below(&random, room + 1);
        assert_true(bi_pool_reserve(&f->pool, wanted));
        f->alloc.failing = true;
        assert_true(bi_pool_reserve(&f->pool, wanted));
        for (uint32_t i = 0; i < wanted; i++) {
            refs[count] = bi_pool_alloc(&f->pool);
            assert_int_not_equal(refs[count++], 0);
        }
        f->alloc.failing = false;

        uint32_t freed = (uint32_t)bi_random_below(&random, count + 1);
        for (uint32_t i = 0; i < freed; i++) {
            uint32_t at = (uint32_t)bi_random_below(&random, count);
            bi_pool_free(&f->pool, refs[at]);
            refs[at] = refs[--count];
        }
        assert_int_equal(f->pool.used, count);
    }

    f->alloc.failing = true;
    assert_false(bi_pool_reserve(&f->pool, 100 * SLAB));
    assert_int_equal(f->pool.used, count);
}

static void freed_item_is_reused_before_a_new_slab(void **state)
{
    struct fixture *f = *state;
    uint32_t refs[3 * SLAB - 1];
    for (uint32_t i = 0; i < COUNT_OF(refs); i++)
        refs[i] = bi_pool_alloc(&f->pool);
    uint64_t calls = f->alloc.calls;
    /* One of each slab, so that none becomes empty. */
    for (uint32_t i = 0; i < COUNT_OF(refs); i += SLAB)
        bi_pool_free(&f->pool, refs[i]);
    for (uint32_t i = 0; i < COUNT_OF(refs); i += SLAB)
        assert_int_not_equal(bi_pool_alloc(&f->pool), 0);
    assert_int_equal(f->alloc.calls, calls);
}

static void empty_slab_is_freed(void **state)
{
    struct fixture *f = *state;
    uint32_t refs[20 * SLAB];
    for (uint32_t i = 0; i < COUNT_OF(refs); i++)
        refs[i] = bi_pool_alloc(&f->pool);
    assert_true(slabs(f) >= 20);
    for (uint32_t i = 0; i < COUNT_OF(refs); i++)
        bi_pool_free(&f->pool, refs[i]);
    assert_int_equal(f->pool.used, 0);
    assert_int_equal(slabs(f), 1);
}

static void one_empty_slab_is_kept_so_that_the_border_does_not_allocate(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < SLAB - 1; i++) /* reference 0 is not used */
        bi_pool_alloc(&f->pool);
    uint32_t over = bi_pool_alloc(&f->pool);
    uint64_t calls = f->alloc.calls;
    for (int i = 0; i < 100; i++) {
        bi_pool_free(&f->pool, over);
        over = bi_pool_alloc(&f->pool);
    }
    assert_int_equal(f->alloc.calls, calls);
}

static void freed_slab_number_is_reused(void **state)
{
    struct fixture *f = *state;
    uint32_t refs[8 * SLAB];
    for (uint32_t i = 0; i < COUNT_OF(refs); i++)
        refs[i] = bi_pool_alloc(&f->pool);
    uint32_t highest = refs[COUNT_OF(refs) - 1];
    for (uint32_t i = 0; i < 4 * SLAB; i++)
        bi_pool_free(&f->pool, refs[i]);
    for (uint32_t i = 0; i < 4 * SLAB; i++)
        refs[i] = bi_pool_alloc(&f->pool);
    for (uint32_t i = 0; i < COUNT_OF(refs); i++)
        assert_in_range(refs[i], 1, highest | (SLAB - 1));
}

static void take_without_memory_returns_0_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    uint32_t refs[4 * SLAB];
    f->alloc.failing = true;
    assert_int_equal(bi_pool_alloc(&f->pool), 0);
    assert_int_equal(f->alloc.bytes, 0);
    f->alloc.failing = false;
    for (uint32_t i = 0; i < 3 * SLAB - 1; i++) {
        refs[i] = bi_pool_alloc(&f->pool);
        memset(bi_pool_at(&f->pool, refs[i]), (int)i, ITEM);
    }
    size_t bytes = f->alloc.bytes;
    f->alloc.failing = true;
    assert_int_equal(bi_pool_alloc(&f->pool), 0);
    assert_int_equal(f->alloc.bytes, bytes);
    assert_int_equal(f->pool.used, 3 * SLAB - 1);
    for (uint32_t i = 0; i < 3 * SLAB - 1; i++)
        assert_int_equal(*(unsigned char *)bi_pool_at(&f->pool, refs[i]), i);
    f->alloc.failing = false;
    assert_int_not_equal(bi_pool_alloc(&f->pool), 0);
}

static void each_allocation_of_growth_may_fail_by_itself(void **state)
{
    struct fixture *f = *state;
    for (uint32_t taken = 0; taken < 40 * SLAB;) {
        f->alloc.countdown = 1 + taken % 2;
        taken += bi_pool_alloc(&f->pool) != 0;
        f->alloc.countdown = 0;
        assert_int_equal(f->pool.used, taken);
        taken += bi_pool_alloc(&f->pool) != 0;
    }
    assert_true(f->alloc.failed > 0);
}

/* Every reference that is out has its own number in its item, through any order of calls. */
static void random_takes_and_gives_keep_every_item(void **state)
{
    struct fixture *f = *state;
    static uint32_t refs[2000];
    uint32_t count = 0;
    struct bi_random random = {7};
    for (int step = 0; step < 200000; step++) {
        /* The number of items swings between nothing and all. */
        bool grow = (step / 5000) % 2 == 0 ? bi_random_below(&random, 4) != 0
                                           : bi_random_below(&random, 4) == 0;
        if (grow && count < COUNT_OF(refs)) {
            uint32_t ref = bi_pool_alloc(&f->pool);
            assert_int_not_equal(ref, 0);
            *(uint32_t *)bi_pool_at(&f->pool, ref) = ref;
            refs[count++] = ref;
        } else if (!grow && count > 0) {
            uint32_t at = (uint32_t)bi_random_below(&random, count);
            assert_int_equal(*(uint32_t *)bi_pool_at(&f->pool, refs[at]), refs[at]);
            bi_pool_free(&f->pool, refs[at]);
            refs[at] = refs[--count];
        }
    }
    assert_int_equal(f->pool.used, count);
    while (count > 0) {
        assert_int_equal(*(uint32_t *)bi_pool_at(&f->pool, refs[count - 1]), refs[count - 1]);
        bi_pool_free(&f->pool, refs[--count]);
    }
    assert_int_equal(slabs(f), 1);
}

/* ---- blocks with pages of their own ---- */

/* Large blocks have pages of their own: a block that grows or shrinks past that size is copied, and
 * what it leaves must not be given back to the system under the lock. */
static void moved_block_is_added_to_the_deferred_list(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{4 << 20, 64 << 10}, {512 << 10, 4 << 20}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct bi_alloc_deferred freed = {NULL};
        struct bi_alloc alloc = bi_alloc_paged(&freed);
        size_t common = sizes[i][0] < sizes[i][1] ? sizes[i][0] : sizes[i][1];
        char *block = bi_alloc_malloc(&alloc, sizes[i][0]);
        assert_non_null(block);
        memset(block, 'x', common);
        assert_null(freed.first);
        block = bi_alloc_resize(&alloc, block, sizes[i][1]);
        assert_non_null(block);
        assert_true(block[0] == 'x' && block[common - 1] == 'x');
        assert_non_null(freed.first);
        bi_alloc_deferred_free(bi_alloc_deferred_take(&freed));
        bi_alloc_free(&alloc, block);
        bi_alloc_deferred_free(bi_alloc_deferred_take(&freed));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reference_is_never_0),
        TEST(two_items_share_neither_reference_nor_bytes),
        TEST(reserved_items_need_no_memory),
        TEST(freed_item_is_reused_before_a_new_slab),
        TEST(empty_slab_is_freed),
        TEST(one_empty_slab_is_kept_so_that_the_border_does_not_allocate),
        TEST(freed_slab_number_is_reused),
        TEST(take_without_memory_returns_0_and_changes_nothing),
        TEST(each_allocation_of_growth_may_fail_by_itself),
        TEST(random_takes_and_gives_keep_every_item),
        cmocka_unit_test(moved_block_is_added_to_the_deferred_list),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
