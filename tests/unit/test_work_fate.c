/* SPDX-License-Identifier: MIT */
#include "cli/work_fate.h"

#include "unit.h"

#include <signal.h>
#include <string.h>

static struct fate_rules rules;

static void add(const char *text)
{
    char error[BI_SENTENCE_SIZE] = "";
    if (!bi_fate_rules_add(&rules, text, error))
        fail_msg("%s %s", text, error);
}

static void refuses(bool http, const char *text, const char *because)
{
    char error[BI_SENTENCE_SIZE] = "";
    bi_fate_rules_init(&rules, http);
    size_t count = rules.count;
    if (bi_fate_rules_add(&rules, text, error))
        fail_msg("%s was taken", text);
    assert_non_null(strstr(error, because));
    assert_int_equal(rules.count, count);
}

static enum fate_action of(enum fate_kind kind, int status)
{
    struct fate fate = {.kind = kind, .status = status, .after_ms = -1};
    return bi_fate_action(&rules, &fate);
}

static enum fate_action of_asked(int status)
{
    struct fate fate = {.kind = FATE_STATUS, .status = status, .after_ms = 1000};
    return bi_fate_action(&rules, &fate);
}

/* ---- what is built in ---- */

static void a_program_that_exits_with_0_is_done_with_75_put_off_and_else_failed(void **state)
{
    (void)state;
    bi_fate_rules_init(&rules, false);
    for (int status = 0; status < 256; status++)
        assert_int_equal(of(FATE_STATUS, status), status == 0    ? FATE_DONE
                                                  : status == 75 ? FATE_RETRY
                                                                 : FATE_FAIL);
    assert_int_equal(of(FATE_SIGNAL, SIGKILL), FATE_FAIL);
    assert_int_equal(of(FATE_TIMEOUT, 0), FATE_FAIL);
    assert_int_equal(of(FATE_ERROR, 0), FATE_FAIL);
}

static void a_web_hook_is_done_with_2xx_and_put_off_with_429(void **state)
{
    (void)state;
    bi_fate_rules_init(&rules, true);
    for (int status = 100; status < 600; status++)
        assert_int_equal(of(FATE_STATUS, status), status / 100 == 2 ? FATE_DONE
                                                  : status == 429   ? FATE_RETRY
                                                                    : FATE_FAIL);
    assert_int_equal(of(FATE_ERROR, 0), FATE_FAIL);
    assert_int_equal(of(FATE_TIMEOUT, 0), FATE_FAIL);
}

static void a_503_is_put_off_only_if_it_says_until_when(void **state)
{
    (void)state;
    bi_fate_rules_init(&rules, true);
    assert_int_equal(of(FATE_STATUS, 503), FATE_FAIL);
    assert_int_equal(of_asked(503), FATE_RETRY);
    assert_int_equal(of_asked(500), FATE_FAIL);
}

/* ---- what is said ---- */

static void a_rule_changes_what_a_status_means(void **state)
{
    (void)state;
    bi_fate_rules_init(&rules, false);
    add("65=bury");
    add("99=done");
    add("0=fail");
    assert_int_equal(of(FATE_STATUS, 65), FATE_BURY);
    assert_int_equal(of(FATE_STATUS, 66), FATE_FAIL);
    assert_int_equal(of(FATE_STATUS, 99), FATE_DONE);
    assert_int_equal(of(FATE_STATUS, 0), FATE_FAIL);
    assert_int_equal(of(FATE_STATUS, 75), FATE_RETRY);
}

static void a_rule_may_be_for_a_range(void **state)
{
    (void)state;
    bi_fate_rules_init(&rules, false);
    add("1-10=retry");
    assert_int_equal(of(FATE_STATUS, 0), FATE_DONE);
    assert_int_equal(of(FATE_STATUS, 1), FATE_RETRY);
    assert_int_equal(of(FATE_STATUS, 10), FATE_RETRY);
    assert_int_equal(of(FATE_STATUS, 11), FATE_FAIL);
}

static void the_last_rule_that_fits_counts(void **state)
{
    (void)state;
    bi_fate_rules_init(&rules, false);
    add("1-255=bury");
    add("75=fail");
    add("7=retry");
    assert_int_equal(of(FATE_STATUS, 75), FATE_FAIL);
    assert_int_equal(of(FATE_STATUS, 7), FATE_RETRY);
    assert_int_equal(of(FATE_STATUS, 8), FATE_BURY);
}

static void signals_and_timeouts_have_rules_of_their_own(void **state)
{
    (void)state;
    bi_fate_rules_init(&rules, false);
    add("signal=retry");
    add("SIGSEGV=bury");
    add("timeout=done");
    assert_int_equal(of(FATE_SIGNAL, SIGSEGV), FATE_BURY);
    assert_int_equal(of(FATE_SIGNAL, SIGKILL), FATE_RETRY);
    assert_int_equal(of(FATE_TIMEOUT, 0), FATE_DONE);
    assert_int_equal(of(FATE_STATUS, SIGSEGV), FATE_FAIL);
}

static void a_web_hook_has_classes_of_statuses_and_errors(void **state)
{
    (void)state;
    bi_fate_rules_init(&rules, true);
    add("5xx=retry");
    add("404=bury");
    add("error=bury");
    assert_int_equal(of(FATE_STATUS, 500), FATE_RETRY);
    assert_int_equal(of(FATE_STATUS, 599), FATE_RETRY);
    assert_int_equal(of(FATE_STATUS, 404), FATE_BURY);
    assert_int_equal(of(FATE_STATUS, 400), FATE_FAIL);
    assert_int_equal(of(FATE_ERROR, 0), FATE_BURY);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    refuses(false, "", "STATUS=ACTION");
    refuses(false, "65", "STATUS=ACTION");
    refuses(false, "65=", "=done");
    refuses(false, "65=buried", "=done");
    refuses(false, "=bury", "exit status");
    refuses(false, "256=bury", "exit status");
    refuses(false, "-1=bury", "exit status");
    refuses(false, "10-1=bury", "exit status");
    refuses(false, "1-=bury", "exit status");
    refuses(false, "1-2-3=bury", "exit status");
    refuses(false, "1x=bury", "exit status");
    refuses(false, "5xx=bury", "exit status");
    refuses(false, "error=bury", "exit status");
    refuses(false, "SIGNOTHING=bury", "exit status");
    refuses(false, "99999999999999999999999999999999999999999999=bury", "exit status");
    refuses(true, "99=bury", "status of HTTP");
    refuses(true, "600=bury", "status of HTTP");
    refuses(true, "0xx=bury", "status of HTTP");
    refuses(true, "6xx=bury", "status of HTTP");
    refuses(true, "signal=bury", "status of HTTP");
    refuses(true, "SIGKILL=bury", "status of HTTP");
}

static void there_are_only_so_many_rules(void **state)
{
    char error[BI_SENTENCE_SIZE];
    (void)state;
    bi_fate_rules_init(&rules, false);
    while (rules.count < BI_FATE_RULES)
        add("1=bury");
    assert_false(bi_fate_rules_add(&rules, "1=bury", error));
    assert_string_equal(error, "is one too many");
}

/* ---- how it is said ---- */

static void says(const struct fate *fate, bool http, const char *wanted)
{
    char said[BI_FATE_SIZE];
    bi_fate_say(said, fate, http);
    assert_string_equal(said, wanted);
}

static void how_it_ended_is_said_in_a_few_words(void **state)
{
    (void)state;
    says(&(struct fate){.kind = FATE_STATUS, .status = 3}, false, "exit status 3");
    says(&(struct fate){.kind = FATE_STATUS, .status = 500}, true, "HTTP 500");
    says(&(struct fate){.kind = FATE_SIGNAL, .status = SIGSEGV}, false, "killed by SIGSEGV");
    says(&(struct fate){.kind = FATE_SIGNAL, .status = 60}, false, "killed by signal 60");
    says(&(struct fate){.kind = FATE_TIMEOUT, .after_ms = 60000, .limit = "ttr"}, false,
         "killed after 1m (ttr)");
    says(&(struct fate){.kind = FATE_TIMEOUT, .after_ms = 5000, .limit = "--timeout"}, true,
         "no answer after 5s (--timeout)");
    says(&(struct fate){.kind = FATE_ERROR, .text = "no route to host"}, true, "no route to host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_that_exits_with_0_is_done_with_75_put_off_and_else_failed),
        cmocka_unit_test(a_web_hook_is_done_with_2xx_and_put_off_with_429),
        cmocka_unit_test(a_503_is_put_off_only_if_it_says_until_when),
        cmocka_unit_test(a_rule_changes_what_a_status_means),
        cmocka_unit_test(a_rule_may_be_for_a_range),
        cmocka_unit_test(the_last_rule_that_fits_counts),
        cmocka_unit_test(signals_and_timeouts_have_rules_of_their_own),
        cmocka_unit_test(a_web_hook_has_classes_of_statuses_and_errors),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(there_are_only_so_many_rules),
        cmocka_unit_test(how_it_ended_is_said_in_a_few_words),
    };
    return cmocka_run_group_tests_name("work_fate", tests, NULL, NULL);
}
