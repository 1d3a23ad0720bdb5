/* SPDX-License-Identifier: MIT */
#include "limit.h"

#ifdef BIDE_LOCK_STATS

#include "backend/holds.h"

#include <assert.h>
#include <stdio.h>
#include <sys/stat.h>

#define HOLD_MAX INT64_C(5000000) /* ns of processor time */
#define RUNS     5
#define FIGURES  16 /* of one test */

/* The figures of the test, in the order in which it asks for them. */
static struct {
    const char *what;
    struct where at;
    int64_t least; /* of all runs so far */
} figures[FIGURES];
static size_t asked; /* in this run */
static int runs;     /* that are over */

static void empty_folder(void)
{
    remove_folder(place());
    CHECK(mkdir(place(), 0700) == 0);
}

/* The first figure that is above the limit; the number of figures if none is. */
static size_t first_above(void)
{
    size_t i = 0;
    while (i < asked && figures[i].least <= HOLD_MAX)
        i++;
    return i;
}

void measure(void (*test)(void))
{
    for (runs = 0; runs < RUNS; runs++) {
        if (runs > 0)
            empty_folder();
        asked = 0;
        test();
        if (first_above() == asked)
            return;
    }
    size_t i = first_above();
    fail_test(figures[i].at, "%s: the lock was held for %.3f ms or more in each of %d runs",
              figures[i].what, (double)figures[i].least / 1e6, runs);
}

void holds_begin(void)
{
    bi_holds_reset();
}

void holds_end(struct where at, const char *what)
{
    struct bi_hold hold = bi_holds_longest();
    printf("%8.3f ms cpu %8.3f ms wall  %s: %s .. %s %s\n", (double)hold.cpu_ns / 1e6,
           (double)hold.wall_ns / 1e6, what, hold.from, hold.to, hold.op == NULL ? "" : hold.op);
    fflush(stdout);

    assert(asked < FIGURES);
    if (runs == 0 || hold.cpu_ns < figures[asked].least)
        figures[asked].least = hold.cpu_ns;
    figures[asked].what = what;
    figures[asked++].at = at;
    bi_holds_reset();
}

#else

void measure(void (*test)(void))
{
    test();
}

void holds_begin(void)
{
}

void holds_end(struct where at, const char *what)
{
    (void)at;
    (void)what;
}

#endif
