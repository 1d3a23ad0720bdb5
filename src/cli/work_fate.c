/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* sigabbrev_np */
#include "cli/work_fate.h"

#include "cli/when.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define ANY 0, 999 /* every status, every signal */

void bi_fate_rules_init(struct fate_rules *rules, bool http)
{
    static const struct fate_rule program[] = {
        {FATE_STATUS, ANY, false, FATE_FAIL},
        {FATE_STATUS, 0, 0, false, FATE_DONE},
        {FATE_STATUS, EX_TEMPFAIL, EX_TEMPFAIL, false, FATE_RETRY},
    };
    static const struct fate_rule hook[] = {
        {FATE_STATUS, ANY, false, FATE_FAIL},
        {FATE_STATUS, 200, 299, false, FATE_DONE},
        {FATE_STATUS, 429, 429, false, FATE_RETRY},
        {FATE_STATUS, 503, 503, true, FATE_RETRY},
    };
    rules->http = http;
    rules->count = http ? sizeof(hook) / sizeof(hook[0]) : sizeof(program) / sizeof(program[0]);
    memcpy(rules->list, http ? hook : program, rules->count * sizeof(rules->list[0]));
}

/* ---- reading ---- */

static bool read_action(const char *text, enum fate_action *action)
{
    static const char *const names[] = {"done", "fail", "retry", "bury"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            *action = (enum fate_action)i;
            return true;
        }
    }
    return false;
}

static bool read_signal(const char *name, struct fate_rule *rule)
{
    if (strncmp(name, "SIG", 3) != 0)
        return false;
    for (int number = 1; number < NSIG; number++) {
        const char *abbreviation = sigabbrev_np(number);
        if (abbreviation != NULL && strcmp(abbreviation, name + 3) == 0) {
            rule->kind = FATE_SIGNAL;
            rule->from = rule->to = number;
            return true;
        }
    }
    return false;
}

/* What has a name, and on which side. */
static bool read_name(const char *name, bool http, struct fate_rule *rule)
{
    static const struct {
        const char *name;
        enum fate_kind kind;
        bool of_programs, of_hooks;
    } table[] = {
        {"signal", FATE_SIGNAL, true, false},
        {"timeout", FATE_TIMEOUT, true, true},
        {"error", FATE_ERROR, false, true},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0 && (http ? table[i].of_hooks : table[i].of_programs)) {
            *rule = (struct fate_rule){.kind = table[i].kind, .from = 0, .to = 999};
            return true;
        }
    }
    return !http && read_signal(name, rule);
}

/* Up to three digits. */
static const char *read_digits(const char *at, int *number)
{
    int size = 0;
    for (*number = 0; size < 3 && isdigit((unsigned char)at[size]); size++)
        *number = *number * 10 + at[size] - '0';
    return size == 0 ? NULL : at + size;
}

/* "5xx", "65" or "1-10". */
static bool read_statuses(const char *text, bool http, struct fate_rule *rule)
{
    *rule = (struct fate_rule){.kind = FATE_STATUS};
    if (http && isdigit((unsigned char)text[0]) && strcmp(text + 1, "xx") == 0) {
        rule->from = (text[0] - '0') * 100;
        rule->to = rule->from + 99;
    } else {
        const char *end = read_digits(text, &rule->from);
        rule->to = rule->from;
        if (end != NULL && end[0] == '-')
            end = read_digits(end + 1, &rule->to);
        if (end == NULL || end[0] != 0)
            return false;
    }
    return rule->from <= rule->to && rule->from >= (http ? 100 : 0) &&
           rule->to <= (http ? 599 : 255);
}

bool bi_fate_rules_add(struct fate_rules *rules, const char *text, char *error)
{
    struct fate_rule rule = {.from = 0};
    char what[32] = "";
    const char *equals = strchr(text, '=');
    if (equals == NULL)
        return bi_refuse(error, "is not of the form STATUS=ACTION");
    if ((size_t)(equals - text) < sizeof(what))
        memcpy(what, text, (size_t)(equals - text));
    if (!read_name(what, rules->http, &rule) && !read_statuses(what, rules->http, &rule))
        return bi_refuse(error, "does not begin with %s",
                         rules->http ? "a status of HTTP (404, 500-599, 5xx), error or timeout"
                                     : "an exit status (3, 10-20), signal, a signal (SIGSEGV) or "
                                       "timeout");
    if (!read_action(equals + 1, &rule.action))
        return bi_refuse(error, "does not end with =done, =fail, =retry or =bury");
    if (rules->count == BI_FATE_RULES)
        return bi_refuse(error, "is one too many");
    rules->list[rules->count++] = rule;
    return true;
}

/* ---- judging ---- */

enum fate_action bi_fate_action(const struct fate_rules *rules, const struct fate *fate)
{
    for (size_t i = rules->count; i-- > 0;) {
        const struct fate_rule *rule = &rules->list[i];
        if (rule->kind == fate->kind && rule->from <= fate->status && fate->status <= rule->to &&
            (!rule->asked || fate->after_ms >= 0))
            return rule->action;
    }
    return FATE_FAIL;
}

/* ---- saying ---- */

static void say_signal(char *to, int number)
{
    const char *abbreviation = sigabbrev_np(number);
    if (abbreviation != NULL)
        snprintf(to, BI_FATE_SIZE, "killed by SIG%s", abbreviation);
    else
        snprintf(to, BI_FATE_SIZE, "killed by signal %d", number);
}

void bi_fate_say(char *to, const struct fate *fate, bool http)
{
    char duration[BI_WHEN_SIZE];
    switch (fate->kind) {
    case FATE_STATUS:
        snprintf(to, BI_FATE_SIZE, "%s %d", http ? "HTTP" : "exit status", fate->status);
        break;
    case FATE_SIGNAL:
        say_signal(to, fate->status);
        break;
    case FATE_TIMEOUT:
        bi_duration_say(duration, fate->after_ms);
        snprintf(to, BI_FATE_SIZE, "%s after %s (%s)", http ? "no answer" : "killed", duration,
                 fate->limit);
        break;
    default:
        snprintf(to, BI_FATE_SIZE, "%s", fate->text);
        break;
    }
}
