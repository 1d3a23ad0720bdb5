/* SPDX-License-Identifier: MIT */
#include "cli/account.h"

#include "unit.h"

#include <string.h>

static struct account account;

static int set_up(void **state)
{
    (void)state;
    memset(&account, 0, sizeof(account));
    return 0;
}

static void tell(uint64_t first, uint64_t last, enum bi_settled outcome)
{
    for (uint64_t line = first; line <= last; line++)
        bi_account_tell(&account, line, outcome);
}

static void says(const char *sentence)
{
    char text[1000];
    bi_account_say(&account, "line", text, sizeof(text));
    assert_string_equal(text, sentence);
}

static void while_all_is_settled_nothing_is_to_be_said(void **state)
{
    (void)state;
    tell(1, 5000, BI_SETTLED);
    assert_int_equal(account.sure, 5000);
    says("");
}

static void lines_that_are_left_out_do_not_matter(void **state)
{
    (void)state;
    tell(3, 3, BI_SETTLED);
    tell(10, 10, BI_SETTLED);
    assert_int_equal(account.sure, 10);
}

static void sure_ends_before_the_first_that_is_not_settled(void **state)
{
    (void)state;
    tell(1, 3000, BI_SETTLED);
    tell(3001, 4000, BI_UNSURE);
    tell(4001, 4001, BI_LEFT);
    assert_int_equal(account.sure, 3000);
    says("lines 3,001 to 4,000 are unsure (the answer was lost: in, or not); line 4,001 is not in");
}

static void what_is_in_behind_a_loss_is_told(void **state)
{
    (void)state;
    tell(1, 2, BI_LEFT);
    tell(3, 4, BI_SETTLED);
    assert_int_equal(account.sure, 0);
    says("lines 1 to 2 are not in; lines 3 to 4 are in");
}

static void one_can_go_on_behind_the_sure_ones_if_no_other_may_be_in(void **state)
{
    (void)state;
    assert_true(bi_account_is_clear(&account));
    tell(1, 10, BI_SETTLED);
    tell(11, 20, BI_LEFT);
    assert_true(bi_account_is_clear(&account));
    tell(21, 21, BI_SETTLED);
    assert_false(bi_account_is_clear(&account));
    set_up(state);
    tell(1, 1, BI_UNSURE);
    assert_false(bi_account_is_clear(&account));
}

static void too_many_changes_end_in_what_is_not_known(void **state)
{
    (void)state;
    for (uint64_t line = 1; line <= 100; line++)
        bi_account_tell(&account, line, line % 2 == 0 ? BI_SETTLED : BI_LEFT);
    assert_int_equal(account.sure, 0);
    assert_int_equal(account.range_count, BI_ACCOUNT_RANGES);
    const struct account_range *last = &account.ranges[BI_ACCOUNT_RANGES - 1];
    assert_int_equal(last->outcome, BI_UNSURE);
    assert_int_equal(last->first, BI_ACCOUNT_RANGES);
    assert_int_equal(last->last, 100);
}

static void a_sentence_is_cut_where_there_is_no_room(void **state)
{
    (void)state;
    char text[20];
    for (uint64_t line = 1; line <= 20; line++)
        bi_account_tell(&account, line, line % 2 == 0 ? BI_SETTLED : BI_LEFT);
    for (size_t size = 1; size <= sizeof(text); size++) {
        memset(text, '!', sizeof(text));
        bi_account_say(&account, "line", text, size);
        assert_int_equal(strlen(text), size - 1);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(while_all_is_settled_nothing_is_to_be_said),
        TEST(lines_that_are_left_out_do_not_matter),
        TEST(sure_ends_before_the_first_that_is_not_settled),
        TEST(what_is_in_behind_a_loss_is_told),
        TEST(one_can_go_on_behind_the_sure_ones_if_no_other_may_be_in),
        TEST(too_many_changes_end_in_what_is_not_known),
        TEST(a_sentence_is_cut_where_there_is_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
