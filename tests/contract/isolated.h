/* SPDX-License-Identifier: MIT */
/*
 * isolated - a test in a process of its own: a test that crashes or hangs fails alone, and is told
 * by the place of its last check.
 */
#ifndef ISOLATED_H
#define ISOLATED_H

#include "contract.h"

/* What is run: the names are those under which a failure is told. */
struct isolated_test {
    const char *url, *theme, *test;
    void (*run)(const struct isolated_test *isolated, struct trace *trace); /* in the new process */
    void (*body)(void);                                                     /* the test itself */
};

/* True if it ended well within the time. trace is shared memory. */
bool run_isolated(const struct isolated_test *isolated, struct trace *trace, int timeout_s);

/* One of several parts of a suite, for several runs at a time: every parts-th test. */
struct shard {
    unsigned part, parts;
    unsigned next; /* the number of the next test */
};
#define SHARD_ALL ((struct shard){1, 1, 0})

/* Takes "2/3"; false if it is no such thing. */
bool shard_parse(struct shard *shard, const char *text);
/* Is the next test in the part? */
bool shard_has_next(struct shard *shard);

#endif
