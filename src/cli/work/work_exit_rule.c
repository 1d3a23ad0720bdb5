/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* sigabbrev_np */
#include "cli/work/work.h"

#include "cli/print.h"

#include <assert.h>
#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <sysexits.h>

#define ANY 0, 999 /* every status, every signal */

void bi_work_exit_rule_init(struct exit_rules *rules, bool http)
{
    static const struct exit_rule program[] = {
        {RUN_STATUS, ANY, false, ACTION_FAIL},
        {RUN_STATUS, 0, 0, false, ACTION_DONE},
        {RUN_STATUS, EX_TEMPFAIL, EX_TEMPFAIL, false, ACTION_RETRY},
    };
    static const struct exit_rule hook[] = {
        {RUN_STATUS, ANY, false, ACTION_FAIL},
        {RUN_STATUS, 200, 299, false, ACTION_DONE},
        {RUN_STATUS, 429, 429, false, ACTION_RETRY},
        {RUN_STATUS, 503, 503, true, ACTION_RETRY},
    };

    _Static_assert(sizeof(hook) <= sizeof(rules->list), "there is room for the built-in rules");
    rules->http = http;
    rules->count = http ? sizeof(hook) / sizeof(hook[0]) : sizeof(program) / sizeof(program[0]);
    memcpy(rules->list, http ? hook : program, rules->count * sizeof(rules->list[0]));
}

/* ---- parsing ---- */

static bool parse_action(const char *text, enum exit_action *action)
{
    static const char *const names[] = {"done", "fail", "retry", "bury"};

    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            *action = (enum exit_action)i;
            return true;
        }
    }
    return false;
}

/* "timeout", "error" of web hooks, "signal" or "SIGSEGV" of programs. */
static bool parse_name(const char *name, bool http, struct exit_rule *rule)
{
    *rule = (struct exit_rule){RUN_TIMEOUT, ANY, false, ACTION_FAIL};
    if (strcmp(name, "timeout") == 0)
        return true;

    rule->kind = http ? RUN_ERROR : RUN_SIGNAL;
    if (strcmp(name, http ? "error" : "signal") == 0)
        return true;
    for (int number = 1; !http && strncmp(name, "SIG", 3) == 0 && number < NSIG; number++) {
        const char *abbreviation = sigabbrev_np(number);
        if (abbreviation != NULL && strcmp(abbreviation, name + 3) == 0) {
            rule->from = rule->to = number;
            return true;
        }
    }
    return false;
}

/* Up to three digits; returns where they end, NULL if there are none. */
static const char *parse_digits(const char *at, int *number)
{
    int size = 0;

    for (*number = 0; size < 3 && isdigit((unsigned char)at[size]); size++)
        *number = *number * 10 + at[size] - '0';
    return size == 0 ? NULL : at + size;
}

/* "5xx", "65" or "1-10". */
static bool parse_statuses(const char *text, bool http, struct exit_rule *rule)
{
    *rule = (struct exit_rule){.kind = RUN_STATUS};
    if (http && isdigit((unsigned char)text[0]) && strcmp(text + 1, "xx") == 0) {
        rule->from = (text[0] - '0') * 100;
        rule->to = rule->from + 99;
    } else {
        const char *end = parse_digits(text, &rule->from);
        rule->to = rule->from;
        if (end != NULL && end[0] == '-')
            end = parse_digits(end + 1, &rule->to);
        if (end == NULL || end[0] != 0)
            return false;
    }
    return rule->from <= rule->to && rule->from >= (http ? 100 : 0) &&
           rule->to <= (http ? 599 : 255);
}

bool bi_work_exit_rule_add(struct exit_rules *rules, const char *text, char *error)
{
    assert(rules->count > 0 && rules->count <= BI_WORK_EXIT_RULES_MAX);
    struct exit_rule rule;
    char condition[32] = "";
    const char *equals = strchr(text, '=');

    if (equals == NULL)
        return bi_errmsg_set(error, "is not of the form STATUS=ACTION");
    if ((size_t)(equals - text) < sizeof(condition))
        memcpy(condition, text, (size_t)(equals - text));

    if (!parse_name(condition, rules->http, &rule) &&
        !parse_statuses(condition, rules->http, &rule))
        return bi_errmsg_set(error, "does not begin with %s",
                             rules->http ? "an HTTP status (404, 500-599, 5xx), error or timeout"
                                         : "an exit status (3, 10-20), signal, SIGNAME or timeout");
    if (!parse_action(equals + 1, &rule.action))
        return bi_errmsg_set(error, "does not end with =done, =fail, =retry or =bury");
    if (rules->count == BI_WORK_EXIT_RULES_MAX)
        return bi_errmsg_set(error, "is too many: at most %d rules", BI_WORK_EXIT_RULES_MAX);
    rules->list[rules->count++] = rule;
    return true;
}

/* ---- outcomes ---- */

enum exit_action bi_work_exit_rule_match(const struct exit_rules *rules,
                                         const struct run_outcome *outcome)
{
    assert(outcome->kind <= RUN_ERROR);
    for (size_t i = rules->count; i-- > 0;) {
        const struct exit_rule *rule = &rules->list[i];
        if (rule->kind == outcome->kind && rule->from <= outcome->status &&
            outcome->status <= rule->to && (!rule->with_retry_after || outcome->after_ms >= 0))
            return rule->action;
    }
    return ACTION_FAIL;
}

void bi_work_exit_rule_describe(char *to, const struct run_outcome *outcome, bool http)
{
    const char *abbreviation;

    switch (outcome->kind) {
    case RUN_STATUS:
        snprintf(to, BI_WORK_OUTCOME_SIZE, "%s %d", http ? "HTTP" : "exit status", outcome->status);
        break;
    case RUN_SIGNAL:
        abbreviation = sigabbrev_np(outcome->status);
        if (abbreviation != NULL)
            snprintf(to, BI_WORK_OUTCOME_SIZE, "killed by SIG%s", abbreviation);
        else
            snprintf(to, BI_WORK_OUTCOME_SIZE, "killed by signal %d", outcome->status);
        break;
    case RUN_TIMEOUT:
        snprintf(to, BI_WORK_OUTCOME_SIZE, "%s after %s (%s)", http ? "no answer" : "killed",
                 bi_text_duration(outcome->after_ms).s, outcome->limit);
        break;
    default:
        snprintf(to, BI_WORK_OUTCOME_SIZE, "%s", outcome->text);
        break;
    }
}
