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
    /* In the process of each test, before it and after it; may be NULL. */
    void (*begin)(void);
    void (*end)(void);
    /* When tests are run in several places, one after the other: how many there are, and the choice
     * of one, which is also said in *subject. False: the theme is not for that place. 0 and NULL:
     * every test is run once. */
    size_t place_count;
    bool (*choose)(size_t place, const struct theme *theme);
    /* In the process of the suite, after each test, whatever became of it; may be NULL. */
    void (*sweep)(void);
};

/* All of main(), but for what the program has to say before: --filter, --list, --timeout, -v and
 * what argument takes; the last line is "N passed, M failed". */
int suite_main(const struct suite *suite, int argc, char **argv);

#endif
