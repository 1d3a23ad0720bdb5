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

#endif
