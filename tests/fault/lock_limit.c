/* SPDX-License-Identifier: MIT */
#include "lock_limit.h"

#ifdef BIDE_LOCK_STATS

#include "local/lock_stats.h"

#include <assert.h>
#include <stdio.h>
#include <sys/stat.h>

#define HOLD_MAX INT64_C(5000000) /* ns of processor time */
#define RUNS     5
#define FIGURES  16   /* of one test */
#define PARTS    4000 /* of one figure */

/* The figures of the test, in the order in which it asks for them. */
static struct figure {
    const char *what;
    struct where at;
    int64_t parts[PARTS]; /* the smallest of all runs so far, each */
    size_t known;
    int64_t least; /* the largest of them */
} figures[FIGURES];
static size_t asked;                /* in this run */
static bool measuring;              /* lock_limit_begin() was called in this run */
static size_t parts;                /* of the figure that is under way */
static struct bi_lock_hold longest; /* in it, in this run */
static int runs;                    /* that are over */

static void empty_folder(void)
{
    remove_folder(test_dir());
    CHECK(mkdir(test_dir(), 0700) == 0);
}

/* The first figure that is above the limit; the number of figures if none is. */
static size_t first_above(void)
{
    size_t i = 0;
    while (i < asked && figures[i].least <= HOLD_MAX)
        i++;
    return i;
}

void lock_limit_measure(void (*test)(void))
{
    for (runs = 0; runs < RUNS; runs++) {
        if (runs > 0)
            empty_folder();
        asked = 0;
        measuring = false;
        test();
        if (first_above() == asked)
            return;
    }
    size_t i = first_above();
    fail_test(figures[i].at, "%s: the lock was held for %.3f ms or more in each of %d runs",
              figures[i].what, (double)figures[i].least / 1e6, runs);
}

static void begin_figure(void)
{
    bi_lock_stats_reset();
    longest = (struct bi_lock_hold){.from = "", .to = ""};
    parts = 0;
}

void lock_limit_begin(void)
{
    assert(!measuring || parts == 0); /* else parts of a figure would be lost */
    measuring = true;
    begin_figure();
}

static void end_part(void)
{
    struct bi_lock_hold hold = bi_lock_stats_longest();
    assert(asked < FIGURES && parts < PARTS);
    struct figure *figure = &figures[asked];
    if (parts == figure->known)
        figure->parts[figure->known++] = hold.cpu_ns;
    else if (hold.cpu_ns < figure->parts[parts])
        figure->parts[parts] = hold.cpu_ns;
    parts++;
    if (hold.cpu_ns >= longest.cpu_ns)
        longest = hold;
    bi_lock_stats_reset();
}

void lock_limit_part(void)
{
    if (measuring && parts < PARTS - 1) /* the last one takes all others */
        end_part();
}

void lock_limit_end(struct where at, const char *what)
{
    assert(measuring);
    end_part();
    printf("%8.3f ms cpu %8.3f ms wall  %s: %s .. %s %s\n", (double)longest.cpu_ns / 1e6,
           (double)longest.wall_ns / 1e6, what, longest.from, longest.to,
           longest.op == NULL ? "" : longest.op);
    fflush(stdout);

    struct figure *figure = &figures[asked++];
    figure->what = what;
    figure->at = at;
    figure->least = 0;
    for (size_t i = 0; i < figure->known; i++)
        if (figure->parts[i] > figure->least)
            figure->least = figure->parts[i];
    begin_figure();
}

#else

void lock_limit_measure(void (*test)(void))
{
    test();
}

void lock_limit_begin(void)
{
}

void lock_limit_part(void)
{
}

void lock_limit_end(struct where at, const char *what)
{
    (void)at;
    (void)what;
}

#endif
