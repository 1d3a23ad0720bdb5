/* SPDX-License-Identifier: MIT */
/*
 * apart - a test in a process of its own: a test that crashes or hangs fails alone, and is told by
 * the place of its last check.
 */
#ifndef APART_H
#define APART_H

#include "contract.h"

/* What is run: the names are those under which a failure is told. */
struct apart {
    const char *url, *theme, *test;
    void (*run)(const struct apart *apart, struct trace *trace); /* in the new process */
    void (*body)(void);                                          /* the test itself */
};

/* True if it ended well within the time. trace is shared memory. */
bool run_apart(const struct apart *apart, struct trace *trace, int timeout_s);

/* One of several parts of a suite, for several runs at a time: every parts-th test. */
struct share {
    unsigned part, parts;
    unsigned next; /* the number of the next test */
};
#define WHOLE ((struct share){1, 1, 0})

/* Takes "2/3"; false if it is no such thing. */
bool share_parse(struct share *share, const char *text);
/* Is the next test in the part? */
bool share_has_next(struct share *share);

#endif
