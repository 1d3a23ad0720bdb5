/* SPDX-License-Identifier: MIT */
#include <bide/bide.h>

#include "unit.h"

#include <string.h>

static const int codes[] = {
#define VALUE(name, value, sentence) value,
    BIDE_CODES(VALUE)
#undef VALUE
};

static bool is_code(int number)
{
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (codes[i] == number)
            return true;
    return false;
}

static void code_names_match_the_header(void **state)
{
    (void)state;
#define CHECK(name, value, sentence) \
    assert_int_equal(name, value);   \
    assert_string_equal(bide_code_name(name), #name);
    BIDE_CODES(CHECK)
#undef CHECK
    assert_string_equal(bide_code_name(0), "BIDE_OK");
    assert_string_equal(bide_code_name(-1), "BIDE_EINVAL");
}

static void every_code_has_its_own_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        const char *text = bide_code_text(codes[i]);
        assert_in_range(strlen(text), 1, BIDE_ERROR_SIZE - 1);
        assert_null(strchr(text, '\n'));
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(codes[i], codes[j]);
            assert_string_not_equal(text, bide_code_text(codes[j]));
        }
    }
}

static void failures_are_negative_and_outcomes_positive(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        bool failure =
            strncmp(bide_code_name(codes[i]), "BIDE_E", 6) == 0 && codes[i] != BIDE_EXISTS;
        assert_int_equal(codes[i] < 0, failure);
    }
}

static void unknown_code_has_an_unknown_name(void **state)
{
    (void)state;
    static const int numbers[] = {INT32_MIN, -1000, -10, 18, 1000, INT32_MAX};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        assert_false(is_code(numbers[i]));
        assert_string_equal(bide_code_name(numbers[i]), "BIDE_?");
        assert_true(strlen(bide_code_text(numbers[i])) > 0);
    }
    for (int number = -100; number <= 100; number++)
        assert_int_equal(is_code(number), strcmp(bide_code_name(number), "BIDE_?") != 0);
}

static void every_state_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(bide_state_name(BIDE_STATE_GONE), "gone");
    assert_string_equal(bide_state_name(BIDE_STATE_DELAYED), "delayed");
    assert_string_equal(bide_state_name(BIDE_STATE_READY), "ready");
    assert_string_equal(bide_state_name(BIDE_STATE_RESERVED), "reserved");
    assert_string_equal(bide_state_name(BIDE_STATE_BURIED), "buried");
    assert_string_equal(bide_state_name(BIDE_STATE_DONE), "done");
    assert_string_equal(bide_state_name((bide_state)6), "?");
    assert_string_equal(bide_state_name((bide_state)-1), "?");
    assert_string_equal(bide_state_name((bide_state)INT32_MIN), "?");
}

static void every_event_has_a_name_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(bide_event_name(BIDE_EVENT_PUT), "put");
    assert_string_equal(bide_event_name(BIDE_EVENT_TIMED_OUT), "timed_out");
    assert_string_equal(bide_event_name(BIDE_EVENT_CANCEL_WANTED), "cancel_wanted");
    assert_string_equal(bide_event_name(BIDE_EVENT_RETIRED), "retired");
    for (int i = 0; i < BIDE_EVENT_KINDS; i++) {
        const char *name = bide_event_name((bide_event_kind)i);
        assert_string_not_equal(name, "?");
        for (int j = 0; j < i; j++)
            assert_string_not_equal(name, bide_event_name((bide_event_kind)j));
    }
    assert_string_equal(bide_event_name((bide_event_kind)BIDE_EVENT_KINDS), "?");
    assert_string_equal(bide_event_name((bide_event_kind)-1), "?");
}

static void every_failure_has_a_name_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(bide_failure_name(BIDE_FAILURE_FAILED), "failed");
    assert_string_equal(bide_failure_name(BIDE_FAILURE_BURIED), "buried");
    assert_string_equal(bide_failure_name(BIDE_FAILURE_TIMED_OUT), "timed_out");
    assert_string_equal(bide_failure_name(BIDE_FAILURE_DISCONNECTED), "disconnected");
    assert_string_equal(bide_failure_name(BIDE_FAILURE_RESTARTED), "restarted");
    assert_string_equal(bide_failure_name((bide_failure_kind)BIDE_FAILURE_KINDS), "?");
    assert_string_equal(bide_failure_name((bide_failure_kind)-1), "?");
}

static void every_reason_has_a_name_of_its_own(void **state)
{
    (void)state;
    assert_string_equal(bide_why_name(BIDE_WHY_NONE), "none");
    assert_string_equal(bide_why_name(BIDE_WHY_DELAYED), "delayed");
    assert_string_equal(bide_why_name(BIDE_WHY_NO_WORKER), "no_worker");
    assert_string_equal(bide_why_name(BIDE_WHY_CLOSING), "closing");
    for (int i = 0; i < BIDE_WHY_REASONS; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(bide_why_name((bide_why_reason)i),
                                    bide_why_name((bide_why_reason)j));
    assert_string_equal(bide_why_name((bide_why_reason)BIDE_WHY_REASONS), "?");
    assert_string_equal(bide_why_name((bide_why_reason)-1), "?");
}

static void op_names_match_the_header(void **state)
{
    (void)state;
#define CHECK(NAME, number, name, member) assert_string_equal(bide_op_name(BIDE_OP_##NAME), #name);
    BIDE_OPS(CHECK)
#undef CHECK
    assert_string_equal(bide_op_name(BIDE_OP_NONE), "?");
    assert_string_equal(bide_op_name(BIDE_OP_COUNT), "?");
    assert_string_equal(bide_op_name((bide_op_kind)-1), "?");
    assert_string_equal(bide_op_name((bide_op_kind)INT32_MAX), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_names_match_the_header),
        cmocka_unit_test(every_code_has_its_own_text),
        cmocka_unit_test(failures_are_negative_and_outcomes_positive),
        cmocka_unit_test(unknown_code_has_an_unknown_name),
        cmocka_unit_test(every_state_has_its_name),
        cmocka_unit_test(every_event_has_a_name_of_its_own),
        cmocka_unit_test(every_failure_has_a_name_of_its_own),
        cmocka_unit_test(every_reason_has_a_name_of_its_own),
        cmocka_unit_test(op_names_match_the_header),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
