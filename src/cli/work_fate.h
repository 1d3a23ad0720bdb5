/* SPDX-License-Identifier: MIT */
/*
 * work_fate - how the run of a program, or the call of a web hook, ended; and what that means for
 * its job.
 *
 * Rules are looked at from the last to the first, so that those of the command line, which stand
 * behind the built-in ones, win, and among them the last.
 */
#ifndef BI_WORK_FATE_H
#define BI_WORK_FATE_H

#include "util/sentence.h"

#include <stddef.h>
#include <stdint.h>

enum fate_kind {
    FATE_STATUS,  /* the program exited, the web hook answered: status */
    FATE_SIGNAL,  /* it was killed, not by us: status is the signal */
    FATE_TIMEOUT, /* its time was over: after_ms */
    FATE_ERROR,   /* the web hook did not answer: text */
    /* There are no rules for these. */
    FATE_STOPPED,   /* we stop, and did not wait for it */
    FATE_UNWANTED,  /* the job was cancelled, or is somebody else's now: text */
    FATE_UNSTARTED, /* it cannot be started at all: text */
};

struct fate {
    enum fate_kind kind;
    int status;
    int64_t after_ms;            /* TIMEOUT: the limit; STATUS of a web hook: Retry-After, or -1 */
    const char *limit;           /* TIMEOUT: whose limit it was, "ttr" or "--timeout" */
    char text[BI_SENTENCE_SIZE]; /* what cannot be told from the rest */
};

enum fate_action { FATE_DONE, FATE_FAIL, FATE_RETRY, FATE_BURY };

struct fate_rule {
    enum fate_kind kind;
    int from, to; /* statuses or signals, both included */
    bool asked;   /* only if the answer says when to come again */
    enum fate_action action;
};

#define BI_FATE_RULES 200

struct fate_rules {
    bool http; /* statuses of HTTP, not of programs */
    size_t count;
    struct fate_rule list[BI_FATE_RULES];
};

/* The built-in ones, of programs or of web hooks. */
void bi_fate_rules_init(struct fate_rules *rules, bool http);

/* One more: "65=bury", "1-10=retry", "signal=bury", "SIGSEGV=bury", "timeout=fail"; of web hooks
 * "404=bury", "5xx=retry", "error=retry". False, with a reason that goes on a sentence. */
bool bi_fate_rules_add(struct fate_rules *rules, const char *text, char *error);

/* Of a kind that there are rules for. */
enum fate_action bi_fate_action(const struct fate_rules *rules, const struct fate *fate);

/* "exit status 3", "killed by SIGSEGV", "killed after 1m (ttr)", "HTTP 500", or the text. */
#define BI_FATE_SIZE 600
void bi_fate_say(char *to, const struct fate *fate, bool http);

#endif
