/* SPDX-License-Identifier: MIT */
/*
 * operation.c - the runner of the tests of bided as a program.
 *
 * Every test runs in a process and a folder of its own; the folders are removed, whatever became of
 * the test. A bided that a test leaves behind ends with it.
 */
#include "operation.h"

#include "../contract/apart.h"

#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct theme *const themes[] = {
    &flags_theme,  &file_theme, &where_theme, &listen_theme, &activate_theme,
    &signal_theme, &log_theme,  &limit_theme, &user_theme,   &docs_theme,
};

struct settings {
    const char *bided;
    const char *filter;
    bool list;
    bool verbose;
    int timeout_s;
};

struct tally {
    unsigned passed;
    unsigned failed;
};

static const char usage[] =
    "usage: operation [--bided FILE] [--filter TEXT] [--list] [--timeout SECONDS] [-v]\n"
    "\n"
    "Checks bided as a program: flags, file, sockets, signals, log, privileges.\n"
    "  --bided FILE       the program (bided beside this one)\n"
    "  --filter TEXT      only tests whose theme/name contains TEXT\n"
    "  --list             print the names of the tests and run none\n"
    "  --timeout SECONDS  a test that takes longer has hung (60)\n"
    "  -v                 name the tests that pass, too\n";

static char base[PATH_MAX];
static const char *bided_path;

/* What the test's own process does. */
static void run_here(const struct apart *apart, struct trace *trace)
{
    static char folder[PATH_MAX + 8];
    snprintf(folder, sizeof folder, "%s/test", base);
    checks_begin(apart->url, apart->theme, apart->test, trace);
    CHECK(mkdir(folder, 0777) == 0);
    place_begin(folder);
    bided_begin(bided_path, OPERATION_SOURCES);
    apart->body();
    fflush(stdout);
}

static void run_test(const char *theme, const struct test *test, const struct settings *settings,
                     struct trace *trace, struct tally *tally)
{
    int64_t start_us = clock_us();
    char folder[PATH_MAX + 8];
    struct apart apart = {"bided", theme, test->name, run_here, test->run};
    bool passed = run_apart(&apart, trace, settings->timeout_s);
    snprintf(folder, sizeof folder, "%s/test", base);
    remove_folder(folder);
    if (passed)
        tally->passed++;
    else
        tally->failed++;
    if (passed && settings->verbose)
        printf("ok   %s/%s (%" PRId64 " ms)\n", theme, test->name, (clock_us() - start_us) / 1000);
}

static bool selected(const struct settings *settings, const char *theme, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", theme, name);
    return !settings->filter || strstr(full, settings->filter);
}

static void run_all(const struct settings *settings, struct trace *trace, struct tally *tally)
{
    for (size_t i = 0; i < COUNT(themes); i++) {
        for (size_t j = 0; j < themes[i]->count; j++) {
            const struct test *test = &themes[i]->tests[j];
            if (!selected(settings, themes[i]->name, test->name))
                continue;
            if (settings->list)
                printf("%s/%s\n", themes[i]->name, test->name);
            else
                run_test(themes[i]->name, test, settings, trace, tally);
        }
    }
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0)
            settings->list = true;
        else if (strcmp(argv[i], "-v") == 0)
            settings->verbose = true;
        else if (strcmp(argv[i], "--bided") == 0 && i + 1 < argc)
            settings->bided = argv[++i];
        else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
            settings->filter = argv[++i];
        else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc)
            settings->timeout_s = atoi(argv[++i]);
        else
            return false;
    }
    return settings->timeout_s > 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {NULL, NULL, false, false, 60};
    struct tally tally = {0, 0};
    static char beside[PATH_MAX], own[PATH_MAX];
    if (!parse(argc, argv, &settings)) {
        fputs(usage, stderr);
        return 2;
    }
    snprintf(own, sizeof own, "%s", argv[0]);
    snprintf(beside, sizeof beside, "%.4000s/bided", dirname(own));
    bided_path = settings.bided != NULL ? settings.bided : beside;
    struct trace *trace =
        mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    /* Short, because of the paths of unix sockets; open to a user that a test becomes. */
    snprintf(base, sizeof base, "/tmp/bide-op-XXXXXX");
    if (trace == MAP_FAILED || mkdtemp(base) == NULL || chmod(base, 0755) != 0) {
        perror("operation");
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
