/* SPDX-License-Identifier: MIT */
/*
 * work_exit_rule - how the run of a program, or the call of a web hook, ended; and what that means for
 * its job.
 *
 * Rules are looked at from the last to the first, so that those of the command line, which stand
 * behind the built-in ones, win, and among them the last.
 */
#ifndef BI_WORK_EXIT_RULE_H
#define BI_WORK_EXIT_RULE_H

#include "util/errmsg.h"

#include <stddef.h>
#include <stdint.h>

enum run_outcome_kind {
    RUN_STATUS,  /* the program exited, the web hook answered: status */
    RUN_SIGNAL,  /* it was killed, not by us: status is the signal */
    RUN_TIMEOUT, /* its time was over: after_ms */
    RUN_ERROR,   /* the web hook did not answer: text */
    /* There are no rules for these. */
    RUN_STOPPED,     /* we stop, and did not wait for it */
    RUN_REVOKED,     /* the job was cancelled, or is somebody else's now: text */
    RUN_NOT_STARTED, /* it cannot be started at all: text */
};

struct run_outcome {
    enum run_outcome_kind kind;
    int status;
    int64_t after_ms;          /* TIMEOUT: the limit; STATUS of a web hook: Retry-After, or -1 */
    const char *limit;         /* TIMEOUT: whose limit it was, "ttr" or "--timeout" */
    char text[BI_ERRMSG_SIZE]; /* what cannot be told from the rest */
};

enum exit_action { ACTION_DONE, ACTION_FAIL, ACTION_RETRY, ACTION_BURY };

struct exit_rule {
    enum run_outcome_kind kind;
    int from, to;          /* statuses or signals, both included */
    bool with_retry_after; /* only if the answer says when to come again */
    enum exit_action action;
};

#define BI_WORK_EXIT_RULES_MAX 200

struct exit_rules {
    bool http; /* statuses of HTTP, not of programs */
    size_t count;
    struct exit_rule list[BI_WORK_EXIT_RULES_MAX];
};

/* The built-in ones, of programs or of web hooks. */
void bi_work_exit_rule_init(struct exit_rules *rules, bool http);

/* One more: "65=bury", "1-10=retry", "signal=bury", "SIGSEGV=bury", "timeout=fail"; of web hooks
 * "404=bury", "5xx=retry", "error=retry". False, with a reason that goes on a sentence. */
bool bi_work_exit_rule_add(struct exit_rules *rules, const char *text, char *error);

/* Of a kind that there are rules for. */
enum exit_action bi_work_exit_rule_match(const struct exit_rules *rules,
                                         const struct run_outcome *outcome);

/* "exit status 3", "killed by SIGSEGV", "killed after 1m (ttr)", "HTTP 500", or the text. */
#define BI_WORK_OUTCOME_SIZE 600
void bi_work_exit_rule_describe(char *to, const struct run_outcome *outcome, bool http);

#endif
