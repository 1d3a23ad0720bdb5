/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"

#include "unit.h"

#include <string.h>

/* The table of the flags of every verb is the program's; none is needed here. */
const struct flag *bi_verb_common_flags(struct cli *cli)
{
    static const struct flag none[] = {BI_FLAGS_END};
    (void)cli;
    return none;
}

/* The slots of a usage, joined by commas, with a + behind one that goes on. */
static void has_slots(const char *text, const char *expected)
{
    struct usage usage;
    char joined[BI_USAGE_WORDS_MAX * BI_USAGE_WORD_SIZE + BI_USAGE_WORDS_MAX] = "";
    bi_verb_parse_usage(&usage, text);
    for (size_t i = 0; i < usage.count; i++) {
        if (i > 0)
            strcat(joined, ",");
        strcat(joined, usage.name[i]);
    }
    if (usage.repeats)
        strcat(joined, "+");
    assert_string_equal(joined, expected);
}

static void the_words_of_a_usage_are_in_order(void **state)
{
    (void)state;
    has_slots("", "");
    has_slots("TOPIC", "TOPIC");
    has_slots("TOPIC [BODY]", "TOPIC,BODY");
    has_slots("[FILE]", "FILE");
    has_slots("on|off", "on|off");
    has_slots("TOPIC[:WEIGHT]... -- PROGRAM", "TOPIC+");
    has_slots("FROM [TO[:PORT]]", "FROM,TO");
}

static void requires(const char *text, size_t expected)
{
    struct usage usage;
    bi_verb_parse_usage(&usage, text);
    assert_int_equal(usage.required, expected);
}

static void argument_in_brackets_is_optional(void **state)
{
    (void)state;
    requires("", 0);
    requires("[TOPIC...]", 0);
    requires("TOPIC [BODY]", 1);
    requires("TOPIC[:WEIGHT]... -- PROGRAM", 1);
    requires("FROM TO", 2);
    requires("ID --token TOKEN | -", 1);
}

static void last_argument_may_repeat(void **state)
{
    (void)state;
    has_slots("ID...", "ID+");
    has_slots("[TOPIC...]", "TOPIC+");
    has_slots("TOPIC [BODY...]", "TOPIC,BODY+");
    has_slots("ID...|-", "ID|-+");
}

static void flags_programs_and_alternatives_are_omitted(void **state)
{
    (void)state;
    has_slots("TOPIC... -- PROGRAM [ARGUMENT...]", "TOPIC+");
    has_slots("TOPIC... | --id ID...", "TOPIC+");
    has_slots("TOPIC [N] | --id ID...|-", "TOPIC,N");
    has_slots("ID --token TOKEN | -", "ID");
}

static void a_long_usage_is_cut(void **state)
{
    (void)state;
    char usage[400], expected[BI_USAGE_WORD_SIZE];
    memset(usage, 'A', sizeof(usage));
    usage[sizeof(usage) - 1] = 0;
    memset(expected, 'A', sizeof(expected));
    expected[sizeof(expected) - 1] = 0;
    has_slots(usage, expected);
    has_slots("A B C D E F G H I J", "A,B,C,D,E,F,G,H");
}

static void a_kind_has_parts(void **state)
{
    (void)state;
    const char *at = "name|ready|age", *part;
    size_t size;
    part = bi_flag_next_choice(&at, &size);
    assert_int_equal(size, 4);
    assert_memory_equal(part, "name", 4);
    part = bi_flag_next_choice(&at, &size);
    assert_int_equal(size, 5);
    assert_memory_equal(part, "ready", 5);
    part = bi_flag_next_choice(&at, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(part, "age", 3);
    assert_null(bi_flag_next_choice(&at, &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_words_of_a_usage_are_in_order),
        cmocka_unit_test(argument_in_brackets_is_optional),
        cmocka_unit_test(last_argument_may_repeat),
        cmocka_unit_test(flags_programs_and_alternatives_are_omitted),
        cmocka_unit_test(a_long_usage_is_cut),
        cmocka_unit_test(a_kind_has_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
