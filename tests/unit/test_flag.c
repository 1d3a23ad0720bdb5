/* SPDX-License-Identifier: MIT */
#include "cli/flag.h"

#include "unit.h"

#include <string.h>

#define MOST 16

/* What the flags write. */
static bool all, lines;
static const char *name, *file, *url;
static struct words tags;
static uint64_t count;
static int64_t delay_ms;

static const struct flag own[] = {
    BI_FLAG_BOOL('a', "all", &all, "all of them"),
    BI_FLAG_BOOL('l', "lines", &lines, "one for each line"),
    BI_FLAG_STRING('n', "name", "NAME", &name, "its name"),
    BI_FLAG_STRING(0, "file", "FILE", &file, "where it is"),
    BI_FLAG_LIST('t', "tag", "TAG", &tags, "one more tag"),
    BI_FLAG_COUNT('c', "count", &count, "how many"),
    BI_FLAG_DURATION(0, "retry-delay", &delay_ms, "how much later"),
    BI_FLAGS_END,
};

static const struct flag common[] = {
    BI_FLAG_STRING('u', "url", "URL", &url, "the queue"),
    BI_FLAG_STRING('n', "nothing", "TEXT", &url, "never found by its letter"),
    BI_FLAGS_END,
};

/* ---- reading ---- */

static const char *argv[MOST], *words[MOST + 1];
static struct flag_parser reading;
static char error[BI_ERRMSG_SIZE];

static void prepare(const char *line)
{
    static char text[400];
    size_t size = 0;
    all = lines = false;
    name = file = url = NULL;
    tags.count = count = 0;
    delay_ms = -1;
    error[0] = 0;
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(size < MOST - 1);
        argv[size++] = strcmp(word, "''") == 0 ? "" : word;
    }
    argv[size] = NULL;
    reading = (struct flag_parser){.tables = {own, common}, .argv = argv, .words = words};
}

static void reads(const char *line)
{
    prepare(line);
    if (!bi_flag_parse_args(&reading, error))
        fail_msg("\"%s\": %s", line, error);
}

/* Refused with this sentence. */
static void refuses(const char *line, const char *sentence)
{
    prepare(line);
    if (bi_flag_parse_args(&reading, error))
        fail_msg("\"%s\" was read", line);
    assert_string_equal(error, sentence);
}

/* The words, joined by commas. */
static void words_are(const char *expected)
{
    char joined[400] = "";
    for (size_t i = 0; i < reading.word_count; i++) {
        size_t size = strlen(joined);
        snprintf(joined + size, sizeof(joined) - size, "%s%s", i == 0 ? "" : ",", words[i]);
    }
    assert_string_equal(joined, expected);
    assert_null(words[reading.word_count]);
}

static void empty_command_line_is_accepted(void **state)
{
    (void)state;
    reads("");
    assert_int_equal(reading.word_count, 0);
    assert_null(words[0]);
    assert_false(all);
    assert_null(name);
    assert_null(reading.program);
}

static void a_value_follows_its_flag_in_four_forms(void **state)
{
    (void)state;
    static const char *const forms[] = {"--name abc", "--name=abc", "-n abc", "-nabc"};
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        reads(forms[i]);
        assert_string_equal(name, "abc");
        assert_int_equal(reading.word_count, 0);
    }
}

static void a_value_may_be_empty_or_have_any_sign(void **state)
{
    (void)state;
    reads("--name= --file ''");
    assert_string_equal(name, "");
    assert_string_equal(file, "");
    reads("--name=a=b -n =c");
    assert_string_equal(name, "=c");
    reads("--name=a=b");
    assert_string_equal(name, "a=b");
    reads("-n=b");
    assert_string_equal(name, "=b");
    reads("--name --all");
    assert_string_equal(name, "--all");
    assert_false(all);
    reads("--name -- x");
    assert_string_equal(name, "--");
    words_are("x");
}

static void letters_without_a_value_may_be_joined(void **state)
{
    (void)state;
    reads("-al");
    assert_true(all && lines);
    reads("-alnabc");
    assert_true(all && lines);
    assert_string_equal(name, "abc");
    reads("-aln abc x");
    assert_string_equal(name, "abc");
    words_are("x");
}

static void flags_and_words_may_be_mixed(void **state)
{
    (void)state;
    reads("one --all two -n abc three");
    assert_true(all);
    assert_string_equal(name, "abc");
    words_are("one,two,three");
}

static void a_dash_alone_and_an_empty_text_are_words(void **state)
{
    (void)state;
    reads("- '' x");
    assert_int_equal(reading.word_count, 3);
    words_are("-,,x");
}

static void words_after_two_dashes_are_arguments(void **state)
{
    (void)state;
    reads("one -- --all -n -- two");
    assert_false(all);
    assert_null(name);
    words_are("one,--all,-n,--,two");
    reads("one --");
    words_are("one");
}

static void words_after_two_dashes_may_be_a_program(void **state)
{
    (void)state;
    prepare("topic -a -- program --all -- x");
    reading.has_program = true;
    assert_true(bi_flag_parse_args(&reading, error));
    words_are("topic");
    assert_true(all);
    assert_string_equal(reading.program[0], "program");
    assert_string_equal(reading.program[1], "--all");
    assert_string_equal(reading.program[2], "--");
    assert_string_equal(reading.program[3], "x");
    assert_null(reading.program[4]);
}

static void missing_and_empty_program_differ(void **state)
{
    (void)state;
    prepare("topic");
    reading.has_program = true;
    assert_true(bi_flag_parse_args(&reading, error));
    assert_null(reading.program);
    prepare("topic --");
    reading.has_program = true;
    assert_true(bi_flag_parse_args(&reading, error));
    assert_non_null(reading.program);
    assert_null(reading.program[0]);
}

static void parsing_may_stop_at_the_first_word(void **state)
{
    (void)state;
    prepare("--all -u x put --lines y");
    reading.stop_at_word = true;
    assert_true(bi_flag_parse_args(&reading, error));
    assert_true(all);
    assert_false(lines);
    assert_int_equal(reading.word_count, 0);
    assert_string_equal(reading.argv[0], "put");
    assert_string_equal(reading.argv[1], "--lines");
}

static void last_value_of_a_flag_wins_and_lists_accumulate(void **state)
{
    (void)state;
    reads("-n one --name two -t a --tag=b -tc");
    assert_string_equal(name, "two");
    assert_int_equal(tags.count, 3);
    assert_string_equal(tags.list[0], "a");
    assert_string_equal(tags.list[1], "b");
    assert_string_equal(tags.list[2], "c");
}

static void the_first_table_comes_before_the_second(void **state)
{
    (void)state;
    reads("-n abc -u there --nothing=else");
    assert_string_equal(name, "abc");
    assert_string_equal(url, "else");
    prepare("--url there");
    reading.tables[0] = NULL;
    assert_true(bi_flag_parse_args(&reading, error));
    assert_string_equal(url, "there");
}

/* ---- refusing ---- */

static void unknown_flag_is_rejected_with_a_suggestion(void **state)
{
    (void)state;
    refuses("--al", "unknown flag --al; did you mean --all?");
    refuses("--lnies", "unknown flag --lnies; did you mean --lines?");
    refuses("--retry_delay=1s", "unknown flag --retry_delay; did you mean --retry-delay?");
    refuses("--URL=x", "unknown flag --URL");
    refuses("--something-else", "unknown flag --something-else");
    refuses("-x", "unknown flag -x");
    refuses("-ax", "unknown flag -x");
    refuses("-5", "unknown flag -5");
}

static void prefix_of_a_flag_is_unknown(void **state)
{
    (void)state;
    refuses("--retry 1s", "unknown flag --retry");
    refuses("--=x", "unknown flag --");
    refuses("--names=x", "unknown flag --names; did you mean --name?");
}

static void long_flag_name_is_cut_in_the_message(void **state)
{
    (void)state;
    char line[300] = "--", sentence[BI_ERRMSG_SIZE];
    memset(line + 2, 'x', 200);
    snprintf(sentence, sizeof(sentence), "unknown flag --%.60s", line + 2);
    refuses(line, sentence);
}

static void missing_value_is_rejected(void **state)
{
    (void)state;
    refuses("--name", "--name wants a value: --name NAME");
    refuses("x -n", "--name wants a value: --name NAME");
    refuses("-aln", "--name wants a value: --name NAME");
    refuses("--count", "--count wants a value: --count N");
}

static void unexpected_value_is_rejected(void **state)
{
    (void)state;
    refuses("--all=yes", "--all takes no value");
    refuses("--all=", "--all takes no value");
}

static void invalid_value_is_rejected_with_its_flag_and_the_reason(void **state)
{
    (void)state;
    refuses("--count=many", "--count: \"many\" is not a number");
    refuses("-c -1", "--count: \"-1\" is not a number");
    refuses("-c ''", "--count: \"\" is not a number");
    refuses("--retry-delay 5x",
            "--retry-delay: \"5x\" is not a valid duration: write 250ms, 90s, 1h30m or 2d");
}

static void list_flag_accepts_a_thousand_values(void **state)
{
    (void)state;
    static const char *many[BI_WORDS_MAX + 2];
    for (size_t i = 0; i < BI_WORDS_MAX + 1; i++)
        many[i] = "-tx";
    prepare("");
    reading.argv = many + 1;
    assert_true(bi_flag_parse_args(&reading, error));
    assert_int_equal(tags.count, BI_WORDS_MAX);
    prepare("");
    reading.argv = many;
    assert_false(bi_flag_parse_args(&reading, error));
    assert_string_equal(error, "--tag: \"x\" is too many: at most 1000 are allowed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_command_line_is_accepted),
        cmocka_unit_test(a_value_follows_its_flag_in_four_forms),
        cmocka_unit_test(a_value_may_be_empty_or_have_any_sign),
        cmocka_unit_test(letters_without_a_value_may_be_joined),
        cmocka_unit_test(flags_and_words_may_be_mixed),
        cmocka_unit_test(a_dash_alone_and_an_empty_text_are_words),
        cmocka_unit_test(words_after_two_dashes_are_arguments),
        cmocka_unit_test(words_after_two_dashes_may_be_a_program),
        cmocka_unit_test(missing_and_empty_program_differ),
        cmocka_unit_test(parsing_may_stop_at_the_first_word),
        cmocka_unit_test(last_value_of_a_flag_wins_and_lists_accumulate),
        cmocka_unit_test(the_first_table_comes_before_the_second),
        cmocka_unit_test(unknown_flag_is_rejected_with_a_suggestion),
        cmocka_unit_test(prefix_of_a_flag_is_unknown),
        cmocka_unit_test(long_flag_name_is_cut_in_the_message),
        cmocka_unit_test(missing_value_is_rejected),
        cmocka_unit_test(unexpected_value_is_rejected),
        cmocka_unit_test(invalid_value_is_rejected_with_its_flag_and_the_reason),
        cmocka_unit_test(list_flag_accepts_a_thousand_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
