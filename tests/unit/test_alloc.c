/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "util/alloc.h"

#include <string.h>

/* Large blocks have pages of their own: a block that grows or shrinks past that size is copied, and what
 * it leaves must not be given back to the system under the lock. */
static void a_block_that_moves_leaves_its_old_place_to_the_list(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_moves_leaves_its_old_place_to_the_list),
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
