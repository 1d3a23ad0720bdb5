/* SPDX-License-Identifier: MIT */
/*
 * suite - runs tests that have a folder of their own, and says which failed.
 *
 * Every test runs in a process and an empty folder of its own; the folders are removed, whatever
 * became of the test. The trace is shared memory in which the test leaves the place of its last
 * check, so that a test which hung or crashed can be told where.
 */
#ifndef FAULT_SUITE_H
#define FAULT_SUITE_H

#include "fault.h"

struct suite {
    const char *name;           /* of the program */
    const char *const *subject; /* what is tested, for the words about a failure */
    const char *usage;
    const struct theme *const *themes;
    size_t theme_count;
    int timeout_s;      /* unless --timeout says otherwise */
    const char *folder; /* where the folders are made; NULL: in the usual place */
    /* Takes an argument that is not the suite's, with its value; may be NULL. */
    bool (*argument)(const char *name, const char *value);
    /* In the process of each test, before it; may be NULL. */
    void (*begin)(void);
};

/* All of main(), but for what the program has to say before: --filter, --list, --timeout, -v and what
 * argument takes; the last line is "N passed, M failed". */
int suite_main(const struct suite *suite, int argc, char **argv);

#endif
