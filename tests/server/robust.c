/* SPDX-License-Identifier: MIT */
/* robust.c - the runner of the tests of a server in rough hands; see robust.h. */
#include "robust.h"

#include "../contract/apart.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct theme *const themes[] = {&order_theme, &slow_theme, &waiting_theme,
                                             &storm_theme};

struct settings {
    const char *filter;
    bool verbose;
    int timeout_s;
};

static const char usage[] =
    "usage: robust [--server PROGRAM] [--parameters TEXT] [--memory-mib N] [--filter TEXT]\n"
    "              [--timeout SECONDS] [-v]\n"
    "\n"
    "Checks what a server makes of clients that pipeline, do not read, or go away at any moment.\n"
    "  --server PROGRAM   bided (build/bided), or beanstalkd\n"
    "  --parameters TEXT  of the sqlite: URL, as sync=off\n"
    "  --memory-mib N     how much a server may grow in a test (64)\n"
    "  --filter TEXT      only tests whose theme/name contains TEXT\n"
    "  --timeout SECONDS  a test that takes longer has hung (120)\n"
    "  -v                 name the tests that pass, too\n";

static char base[PATH_MAX];

/* ---- what tests share ---- */

struct rest rest_of(const struct peer *peer)
{
    struct talk talk;
    talk_open(&talk, peer);
    CHECK(say_put(&talk, 0, 0, 10, "x", 1));
    uint64_t id = HEAR_NUMBER(&talk, "INSERTED");
    say(&talk, "reserve\r\ndelete %" PRIu64 "\r\n", id);
    CHECK(HEAR_NUMBER(&talk, "RESERVED") == id);
    HEAR(&talk, "x");
    HEAR(&talk, "DELETED");
    int files = peer_files(peer);
    talk_close(&talk);
    /* One of them was this connection. */
    UNTIL(peer_files(peer) == files - 1);
    return (struct rest){files - 1, peer_memory(peer)};
}

/* The tube that is always there is the only one in the end. */
static void only_default(struct talk *talk)
{
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (talk_stat(talk, "stats", "current-tubes") != 1) {
        if (clock_us() > limit_us) {
            say(talk, "list-tubes\r\n");
            size_t size = HEAR_NUMBER(talk, "OK");
            FAIL("there are still tubes:\n%.*s", (int)size, hear_body(talk, size));
        }
        nap_ms(1);
    }
}

void at_rest_again(const struct peer *peer, const struct rest *rest)
{
    static const char *const none[] = {"current-jobs-ready",   "current-jobs-reserved",
                                       "current-jobs-delayed", "current-jobs-buried",
                                       "current-waiting",      "current-workers",
                                       "current-producers"};
    struct talk talk;
    talk_open(&talk, peer);
    UNTIL(talk_stat(&talk, "stats", "current-connections") == 1);
    for (size_t i = 0; i < COUNT(none); i++)
        if (talk_stat(&talk, "stats", none[i]) != 0)
            FAIL("%s is %" PRId64 " at the end", none[i], talk_stat(&talk, "stats", none[i]));
    only_default(&talk);
    talk_close(&talk);
    UNTIL(peer_files(peer) == rest->files);
    CHECK(peer_memory(peer) <= rest->memory + peer_settings.memory_limit);
}

void with_peer(enum peer_place where, void (*run)(const struct peer *peer))
{
    struct peer peer;
    peer_start(&peer, where);
    struct rest rest = rest_of(&peer);
    run(&peer);
    at_rest_again(&peer, &rest);
    peer_stop(&peer);
}

/* ---- the runner ---- */

static void run_here(const struct apart *apart, struct trace *trace)
{
    static char folder[PATH_MAX + 8];
    snprintf(folder, sizeof folder, "%s/test", base);
    checks_begin(apart->url, apart->theme, apart->test, trace);
    CHECK(mkdir(folder, 0777) == 0);
    place_begin(folder);
    apart->body();
    fflush(stdout);
}

static bool run_test(const char *theme, const struct test *test, const struct settings *settings,
                     struct trace *trace)
{
    int64_t start_us = clock_us();
    char folder[PATH_MAX + 8];
    struct apart apart = {peer_settings.program, theme, test->name, run_here, test->run};
    bool passed = run_apart(&apart, trace, settings->timeout_s);
    snprintf(folder, sizeof folder, "%s/test", base);
    remove_folder(folder);
    if (passed && settings->verbose)
        printf("ok   %s/%s (%" PRId64 " ms)\n", theme, test->name, (clock_us() - start_us) / 1000);
    return passed;
}

static bool selected(const struct settings *settings, const char *theme, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", theme, name);
    return !settings->filter || strstr(full, settings->filter);
}

static void run_all(const struct settings *settings, struct trace *trace, unsigned counts[2])
{
    for (size_t i = 0; i < COUNT(themes); i++) {
        for (size_t j = 0; j < themes[i]->count; j++) {
            const struct test *test = &themes[i]->tests[j];
            if (selected(settings, themes[i]->name, test->name))
                counts[run_test(themes[i]->name, test, settings, trace)]++;
        }
    }
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            settings->verbose = true;
        else if (i + 1 == argc)
            return false;
        else if (strcmp(argv[i], "--filter") == 0)
            settings->filter = argv[++i];
        else if (strcmp(argv[i], "--timeout") == 0)
            settings->timeout_s = atoi(argv[++i]);
        else if (peer_argument(argv[i], argv[i + 1]))
            i++;
        else
            return false;
    }
    return settings->timeout_s > 0 && peer_settings.memory_limit > 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {NULL, false, 120};
    unsigned counts[2] = {0, 0};
    if (!parse(argc, argv, &settings)) {
        fputs(usage, stderr);
        return 2;
    }
    struct trace *trace =
        mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *tmp = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/bide-robust-XXXXXX", tmp ? tmp : "/tmp");
    if (trace == MAP_FAILED || mkdtemp(base) == NULL) {
        perror("robust");
        return 2;
    }
    run_all(&settings, trace, counts);
    remove_folder(base);
    printf("%u passed, %u failed\n", counts[true], counts[false]);
    return counts[true] > 0 && counts[false] == 0 ? 0 : 1;
}
