/* SPDX-License-Identifier: MIT */
/*
 * runner.c - runs a suite of themes: main() of build/contract, and of others that promise something
 * on every URL.
 *
 * Runs every test of every theme against every URL, each in a process of its own, and says which
 * failed. The trace is shared memory in which the test leaves the place of its last check, so
 * that a test which hung or crashed can be told where.
 */
#include "isolated.h"
#include "location.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t theme_count(void)
{
    return this_program.count + this_program.kept_count;
}

static const struct theme *theme_at(size_t i)
{
    return i < this_program.count ? this_program.themes[i]
                                  : this_program.kept[i - this_program.count];
}

struct settings {
    const char *filter;
    bool list;
    bool verbose;
    int timeout_s;
    struct shard shard;
};

struct tally {
    unsigned passed;
    unsigned failed;
};

static const char usage[] =
    "usage: %s [--filter TEXT] [--list] [--timeout SECONDS] [--part K/N] [-v] URL...\n"
    "\n"
    "Checks that %s at each URL keeps every promise of %s.\n"
    "  --filter TEXT      only tests whose theme/name contains TEXT\n"
    "  --list             print the names of the tests and run none\n"
    "  --timeout SECONDS  a test that takes longer has hung (120)\n"
    "  --part K/N         only the K-th of N parts, for several runs at a time\n"
    "  -v                 name the tests that pass, too\n";

/* Is the next test one of those to run? */
static bool selected(struct settings *settings, const char *theme, const char *name)
{
    char full[256];
    if (!shard_has_next(&settings->shard))
        return false;
    snprintf(full, sizeof full, "%s/%s", theme, name);
    return !settings->filter || strstr(full, settings->filter);
}

/* What the test's own process does. */
static void run_here(const struct isolated_test *isolated, struct trace *trace)
{
    trial_begin(isolated->url, isolated->theme, isolated->test, trace);
    isolated->body();
    if (this_program.end)
        this_program.end();
    trial_end();
    fflush(stdout);
}

static void run_test(const char *url, const struct theme *theme, const struct test *test,
                     struct settings *settings, struct trace *trace, struct tally *tally)
{
    int64_t start_us = clock_us();
    struct isolated_test isolated = {url, theme->name, test->name, run_here, test->run};
    bool passed = run_isolated(&isolated, trace, settings->timeout_s);
    if (passed)
        tally->passed++;
    else
        tally->failed++;
    if (passed && settings->verbose)
        printf("ok   %s %s/%s (%" PRId64 " ms)\n", url, theme->name, test->name,
               (clock_us() - start_us) / 1000);
}

/* A URL that does not open is told once, not once per test. */
static bool url_opens(const char *url)
{
    char location[LOCATION_SIZE], room[LOCATION_SIZE];
    bide *queue = NULL;
    new_location(location, sizeof location);
    int code = bide_open(location_url(room, sizeof room, location, ""), NULL, &queue);
    if (code != BIDE_OK) {
        printf("FAIL %s cannot be opened: %s: %s\n", url, bide_code_name(code), bide_last_error());
        return false;
    }
    code = bide_close(queue);
    remove_location(location);
    return code == BIDE_OK;
}

static void run_theme(const char *url, const struct theme *theme, bool opens,
                      struct settings *settings, struct trace *trace, struct tally *tally)
{
    for (size_t i = 0; i < theme->count; i++) {
        if (!selected(settings, theme->name, theme->tests[i].name))
            continue;
        if (opens)
            run_test(url, theme, &theme->tests[i], settings, trace, tally);
        else
            tally->failed++;
        locations_sweep();
    }
}

static void run_url(const char *url, struct settings *settings, struct trace *trace,
                    struct tally *tally)
{
    checks_begin(url, "runner", "opens", trace);
    bool opens = locations_begin(url) && url_opens(url);
    size_t count = is_persistent() ? theme_count() : this_program.count;
    for (size_t i = 0; i < count; i++)
        if (!this_program.applies || this_program.applies(theme_at(i)))
            run_theme(url, theme_at(i), opens, settings, trace, tally);
    locations_end();
}

static int list_tests(struct settings *settings)
{
    for (size_t i = 0; i < theme_count(); i++)
        for (size_t j = 0; j < theme_at(i)->count; j++)
            if (selected(settings, theme_at(i)->name, theme_at(i)->tests[j].name))
                printf("%s/%s\n", theme_at(i)->name, theme_at(i)->tests[j].name);
    return 0;
}

/* Answers the index of the first URL, or -1 when the arguments make no sense. */
static int parse(int argc, char **argv, struct settings *settings)
{
    int i = 1;
    bool good = true;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--list") == 0)
            settings->list = true;
        else if (strcmp(argv[i], "-v") == 0)
            settings->verbose = true;
        else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
            settings->filter = argv[++i];
        else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc)
            settings->timeout_s = atoi(argv[++i]);
        else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc)
            good = shard_parse(&settings->shard, argv[++i]);
        else
            return -1;
    }
    if (!good || settings->timeout_s < 1 || (i == argc && !settings->list))
        return -1;
    return i;
}

int main(int argc, char **argv)
{
    struct settings settings = {NULL, false, false, 120, SHARD_ALL};
    struct tally tally = {0, 0};
    int first = parse(argc, argv, &settings);
    if (first < 0) {
        fprintf(stderr, usage, this_program.name, this_program.subject, this_program.promises);
        return 2;
    }
    if (settings.list)
        return list_tests(&settings);

    struct trace *trace =
        mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trace == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    for (int i = first; i < argc; i++)
        run_url(argv[i], &settings, trace, &tally);
    munmap(trace, sizeof *trace);

    if (tally.passed + tally.failed == 0)
        printf("no test has \"%s\" in its name\n", settings.filter);
    printf("%u passed, %u failed\n", tally.passed, tally.failed);
    return tally.passed > 0 && tally.failed == 0 ? 0 : 1;
}
