/* SPDX-License-Identifier: MIT */
#include "cli/work/work.h"

#include "unit.h"

#include <signal.h>
#include <string.h>

static struct exit_rules rules;

static void add(const char *text)
{
    char error[BI_ERRMSG_SIZE] = "";
    if (!bi_work_exit_rule_add(&rules, text, error))
        fail_msg("%s %s", text, error);
}

static void rejects(bool http, const char *text, const char *because)
{
    char error[BI_ERRMSG_SIZE] = "";
    bi_work_exit_rule_init(&rules, http);
    size_t count = rules.count;
    if (bi_work_exit_rule_add(&rules, text, error))
        fail_msg("%s was taken", text);
    assert_non_null(strstr(error, because));
    assert_int_equal(rules.count, count);
}

static enum exit_action action_of(enum run_outcome_kind kind, int status)
{
    struct run_outcome outcome = {.kind = kind, .status = status, .after_ms = -1};
    return bi_work_exit_rule_match(&rules, &outcome);
}

static enum exit_action action_with_retry_after(int status)
{
    struct run_outcome outcome = {.kind = RUN_STATUS, .status = status, .after_ms = 1000};
    return bi_work_exit_rule_match(&rules, &outcome);
}

/* ---- what is built in ---- */

static void exit_0_is_done_75_is_retried_others_fail(void **state)
{
    (void)state;
    bi_work_exit_rule_init(&rules, false);
    for (int status = 0; status < 256; status++)
        assert_int_equal(action_of(RUN_STATUS, status), status == 0    ? ACTION_DONE
                                                        : status == 75 ? ACTION_RETRY
                                                                       : ACTION_FAIL);
    assert_int_equal(action_of(RUN_SIGNAL, SIGKILL), ACTION_FAIL);
    assert_int_equal(action_of(RUN_TIMEOUT, 0), ACTION_FAIL);
    assert_int_equal(action_of(RUN_ERROR, 0), ACTION_FAIL);
}

static void webhook_2xx_is_done_and_429_is_retried(void **state)
{
    (void)state;
    bi_work_exit_rule_init(&rules, true);
    for (int status = 100; status < 600; status++)
        assert_int_equal(action_of(RUN_STATUS, status), status / 100 == 2 ? ACTION_DONE
                                                        : status == 429   ? ACTION_RETRY
                                                                          : ACTION_FAIL);
    assert_int_equal(action_of(RUN_ERROR, 0), ACTION_FAIL);
    assert_int_equal(action_of(RUN_TIMEOUT, 0), ACTION_FAIL);
}

static void status_503_is_retried_only_with_retry_after(void **state)
{
    (void)state;
    bi_work_exit_rule_init(&rules, true);
    assert_int_equal(action_of(RUN_STATUS, 503), ACTION_FAIL);
    assert_int_equal(action_with_retry_after(503), ACTION_RETRY);
    assert_int_equal(action_with_retry_after(500), ACTION_FAIL);
}

/* ---- what is said ---- */

static void rule_overrides_a_status(void **state)
{
    (void)state;
    bi_work_exit_rule_init(&rules, false);
    add("65=bury");
    add("99=done");
    add("0=fail");
    assert_int_equal(action_of(RUN_STATUS, 65), ACTION_BURY);
    assert_int_equal(action_of(RUN_STATUS, 66), ACTION_FAIL);
    assert_int_equal(action_of(RUN_STATUS, 99), ACTION_DONE);
    assert_int_equal(action_of(RUN_STATUS, 0), ACTION_FAIL);
    assert_int_equal(action_of(RUN_STATUS, 75), ACTION_RETRY);
}

static void rule_accepts_a_range(void **state)
{
    (void)state;
    bi_work_exit_rule_init(&rules, false);
    add("1-10=retry");
    assert_int_equal(action_of(RUN_STATUS, 0), ACTION_DONE);
    assert_int_equal(action_of(RUN_STATUS, 1), ACTION_RETRY);
    assert_int_equal(action_of(RUN_STATUS, 10), ACTION_RETRY);
    assert_int_equal(action_of(RUN_STATUS, 11), ACTION_FAIL);
}

static void last_matching_rule_wins(void **state)
{
    (void)state;
    bi_work_exit_rule_init(&rules, false);
    add("1-255=bury");
    add("75=fail");
    add("7=retry");
    assert_int_equal(action_of(RUN_STATUS, 75), ACTION_FAIL);
    assert_int_equal(action_of(RUN_STATUS, 7), ACTION_RETRY);
    assert_int_equal(action_of(RUN_STATUS, 8), ACTION_BURY);
}

static void signals_and_timeouts_have_rules(void **state)
{
    (void)state;
    bi_work_exit_rule_init(&rules, false);
    add("signal=retry");
    add("SIGSEGV=bury");
    add("timeout=done");
    assert_int_equal(action_of(RUN_SIGNAL, SIGSEGV), ACTION_BURY);
    assert_int_equal(action_of(RUN_SIGNAL, SIGKILL), ACTION_RETRY);
    assert_int_equal(action_of(RUN_TIMEOUT, 0), ACTION_DONE);
    assert_int_equal(action_of(RUN_STATUS, SIGSEGV), ACTION_FAIL);
}

static void webhook_rules_accept_classes_and_errors(void **state)
{
    (void)state;
    bi_work_exit_rule_init(&rules, true);
    add("5xx=retry");
    add("404=bury");
    add("error=bury");
    assert_int_equal(action_of(RUN_STATUS, 500), ACTION_RETRY);
    assert_int_equal(action_of(RUN_STATUS, 599), ACTION_RETRY);
    assert_int_equal(action_of(RUN_STATUS, 404), ACTION_BURY);
    assert_int_equal(action_of(RUN_STATUS, 400), ACTION_FAIL);
    assert_int_equal(action_of(RUN_ERROR, 0), ACTION_BURY);
}

static void invalid_rules_are_rejected(void **state)
{
    (void)state;
    rejects(false, "", "STATUS=ACTION");
    rejects(false, "65", "STATUS=ACTION");
    rejects(false, "65=", "=done");
    rejects(false, "65=buried", "=done");
    rejects(false, "=bury", "exit status");
    rejects(false, "256=bury", "exit status");
    rejects(false, "-1=bury", "exit status");
    rejects(false, "10-1=bury", "exit status");
    rejects(false, "1-=bury", "exit status");
    rejects(false, "1-2-3=bury", "exit status");
    rejects(false, "1x=bury", "exit status");
    rejects(false, "5xx=bury", "exit status");
    rejects(false, "error=bury", "exit status");
    rejects(false, "SIGNOTHING=bury", "exit status");
    rejects(false, "99999999999999999999999999999999999999999999=bury", "exit status");
    rejects(true, "99=bury", "HTTP status");
    rejects(true, "600=bury", "HTTP status");
    rejects(true, "0xx=bury", "HTTP status");
    rejects(true, "6xx=bury", "HTTP status");
    rejects(true, "signal=bury", "HTTP status");
    rejects(true, "SIGKILL=bury", "HTTP status");
}

static void rule_count_is_limited(void **state)
{
    char error[BI_ERRMSG_SIZE];
    (void)state;
    bi_work_exit_rule_init(&rules, false);
    while (rules.count < BI_WORK_EXIT_RULES_MAX)
        add("1=bury");
    assert_false(bi_work_exit_rule_add(&rules, "1=bury", error));
    assert_string_equal(error, "is too many: at most 200 rules");
}

/* ---- how it is said ---- */

static void describes(const struct run_outcome *outcome, bool http, const char *wanted)
{
    char description[BI_WORK_OUTCOME_SIZE];
    bi_work_exit_rule_describe(description, outcome, http);
    assert_string_equal(description, wanted);
}

static void outcome_is_described_in_a_few_words(void **state)
{
    (void)state;
    describes(&(struct run_outcome){.kind = RUN_STATUS, .status = 3}, false, "exit status 3");
    describes(&(struct run_outcome){.kind = RUN_STATUS, .status = 500}, true, "HTTP 500");
    describes(&(struct run_outcome){.kind = RUN_SIGNAL, .status = SIGSEGV}, false,
              "killed by SIGSEGV");
    describes(&(struct run_outcome){.kind = RUN_SIGNAL, .status = 60}, false,
              "killed by signal 60");
    describes(&(struct run_outcome){.kind = RUN_TIMEOUT, .after_ms = 60000, .limit = "ttr"}, false,
              "killed after 1m (ttr)");
    describes(&(struct run_outcome){.kind = RUN_TIMEOUT, .after_ms = 5000, .limit = "--timeout"},
              true, "no answer after 5s (--timeout)");
    describes(&(struct run_outcome){.kind = RUN_ERROR, .text = "no route to host"}, true,
              "no route to host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_0_is_done_75_is_retried_others_fail),
        cmocka_unit_test(webhook_2xx_is_done_and_429_is_retried),
        cmocka_unit_test(status_503_is_retried_only_with_retry_after),
        cmocka_unit_test(rule_overrides_a_status),
        cmocka_unit_test(rule_accepts_a_range),
        cmocka_unit_test(last_matching_rule_wins),
        cmocka_unit_test(signals_and_timeouts_have_rules),
        cmocka_unit_test(webhook_rules_accept_classes_and_errors),
        cmocka_unit_test(invalid_rules_are_rejected),
        cmocka_unit_test(rule_count_is_limited),
        cmocka_unit_test(outcome_is_described_in_a_few_words),
    };
    return cmocka_run_group_tests_name("work_exit_rule", tests, NULL, NULL);
}
