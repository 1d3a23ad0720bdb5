/* SPDX-License-Identifier: MIT */
#include "suite.h"

#include "../contract/isolated.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

static const struct suite *running;
static char base[PATH_MAX];

/* What the test's own process does. */
static void run_here(const struct isolated_test *isolated, struct trace *trace)
{
    static char folder[PATH_MAX + 8];
    snprintf(folder, sizeof folder, "%s/test", base);
    checks_begin(isolated->url, isolated->theme, isolated->test, trace);
    CHECK(mkdir(folder, 0777) == 0);
    test_dir_begin(folder);
    if (running->begin != NULL)
        running->begin();
    isolated->body();
    if (running->end != NULL)
        running->end();
    fflush(stdout);
}

static void run_test(const char *theme, const struct test *test, const struct settings *settings,
                     struct trace *trace, struct tally *tally)
{
    int64_t start_us = clock_us();
    char folder[PATH_MAX + 8];
    struct isolated_test isolated = {*running->subject, theme, test->name, run_here, test->run};
    bool passed = run_isolated(&isolated, trace, settings->timeout_s);
    if (running->sweep != NULL)
        running->sweep();
    snprintf(folder, sizeof folder, "%s/test", base);
    remove_folder(folder);
    if (passed)
        tally->passed++;
    else
        tally->failed++;
    if (passed && settings->verbose)
        printf("ok   %s %s/%s (%" PRId64 " ms)\n", *running->subject, theme, test->name,
               (clock_us() - start_us) / 1000);
}

/* Is the next test one of those to run? */
static bool selected(struct settings *settings, const char *theme, const char *name)
{
    char full[256];
    if (!shard_has_next(&settings->shard))
        return false;
    snprintf(full, sizeof full, "%s/%s", theme, name);
    return !settings->filter || strstr(full, settings->filter);
}

static void run_theme(const struct theme *theme, struct settings *settings, struct trace *trace,
                      struct tally *tally)
{
    for (size_t i = 0; i < theme->count; i++) {
        const struct test *test = &theme->tests[i];
        if (!selected(settings, theme->name, test->name))
            continue;
        if (!settings->list)
            run_test(theme->name, test, settings, trace, tally);
        else if (running->place_count > 0)
            printf("%s %s/%s\n", *running->subject, theme->name, test->name);
        else
            printf("%s/%s\n", theme->name, test->name);
    }
}

static void run_all(struct settings *settings, struct trace *trace, struct tally *tally)
{
    size_t places = running->place_count > 0 ? running->place_count : 1;
    for (size_t place = 0; place < places; place++)
        for (size_t i = 0; i < running->theme_count; i++)
            if (running->place_count == 0 || running->choose(place, running->themes[i]))
                run_theme(running->themes[i], settings, trace, tally);
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0)
            settings->list = true;
        else if (strcmp(argv[i], "-v") == 0)
            settings->verbose = true;
        else if (i + 1 == argc)
            return false;
        else if (strcmp(argv[i], "--filter") == 0)
            settings->filter = argv[++i];
        else if (strcmp(argv[i], "--timeout") == 0)
            settings->timeout_s = atoi(argv[++i]);
        else if (strcmp(argv[i], "--part") == 0 && shard_parse(&settings->shard, argv[i + 1]))
            i++;
        else if (running->argument != NULL && running->argument(argv[i], argv[i + 1]))
            i++;
        else
            return false;
    }
    return settings->timeout_s > 0;
}

/* The folder in which those of the tests are made. A test that is done with its privileges must
 * still find the way to its own. */
static bool make_base(void)
{
    const char *tmp = getenv("TMPDIR");
    const char *parent = running->folder != NULL ? running->folder : tmp != NULL ? tmp : "/tmp";
    snprintf(base, sizeof base, "%s/bide-%s-XXXXXX", parent, running->name);
    return mkdtemp(base) != NULL && chmod(base, 0755) == 0;
}

int suite_main(const struct suite *suite, int argc, char **argv)
{
    struct settings settings = {NULL, false, false, suite->timeout_s, SHARD_ALL};
    struct tally tally = {0, 0};
    running = suite;
    if (!parse(argc, argv, &settings)) {
        fputs(suite->usage, stderr);
        return 2;
    }
    struct trace *trace =
        mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trace == MAP_FAILED || !make_base()) {
        perror(suite->name);
        return 2;
    }
    run_all(&settings, trace, &tally);
    remove_folder(base);
    munmap(trace, sizeof *trace);
    if (settings.list)
        return 0;
    if (tally.passed + tally.failed == 0)
        printf("no test has \"%s\" in its name\n", settings.filter);
    printf("%u passed, %u failed\n", tally.passed, tally.failed);
    return tally.passed > 0 && tally.failed == 0 ? 0 : 1;
}
