/* SPDX-License-Identifier: MIT */
/*
 * kill.c - rounds of working, killing and comparing; see kill.h.
 */
#include "kill.h"

#include "../sim/rng.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared *shared;
const char *const kill_topics[TOPICS] = {"first", "second", "third", "fourth", "all"};

struct settings {
    unsigned rounds;
    uint64_t seed;
    const char *sync;
};

static const char usage[] =
    "usage: kill [--rounds N] [--seed N] [--sync full|normal|off]\n"
    "\n"
    "Kills a process that works on a sqlite: queue, again and again, and looks whether everything\n"
    "that was acknowledged is there.\n";

/* How long the process lives after its first acknowledged call, and at most without one. */
#define LIFE_MS    150
#define OPENING_MS 20000

/* ---- one round ---- */

static void clear_log(void)
{
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < ENTRIES_MAX && shared->entries[i][j].stage != NOT_BEGUN; j++)
            shared->entries[i][j].stage = NOT_BEGUN;
    atomic_store(&shared->acknowledged, 0);
}

/* Waits for the first answer, and then for a while; one time in eight the process is killed
 * while it opens. */
static void let_live(struct rng *rng)
{
    if (rng_one_in(rng, 8)) {
        usleep((useconds_t)rng_below(rng, 20000));
        return;
    }
    for (int i = 0; i < OPENING_MS && !atomic_load(&shared->acknowledged); i++)
        usleep(1000);
    usleep((useconds_t)rng_below(rng, LIFE_MS * 1000));
}

static bool work_and_die(const char *url, struct rng *rng)
{
    uint64_t seed = rng_next(rng);
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        kill_work(url, seed);
    if (child < 0)
        return false;
    let_live(rng);
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child)
        return false;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        printf("     the process ended before it was killed (%d)\n", status);
        return false;
    }
    return true;
}

/* In a process of its own, which half the time ends without closing the file. */
static bool compare(const char *url, struct rng *rng)
{
    uint64_t seed = rng_next(rng);
    bool tidily = rng_one_in(rng, 2);
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(kill_check(url, seed, tidily) ? 0 : 1);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (WIFSIGNALED(status))
        printf("     the comparing process was ended by signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- all of them ---- */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* No token was given twice, in whatever round. */
static bool tokens_are_unique(void)
{
    qsort(shared->tokens, shared->token_count, sizeof(shared->tokens[0]), by_number);
    for (uint64_t i = 1; i < shared->token_count; i++) {
        if (shared->tokens[i] == shared->tokens[i - 1]) {
            printf("FAIL the token %llu was given twice\n", (unsigned long long)shared->tokens[i]);
            return false;
        }
    }
    return true;
}

/* After a failure the next round begins with a new file, or it would fail for the same reason. */
static void begin_anew(const char *folder)
{
    remove_folder(folder);
    mkdir(folder, 0777);
    uint64_t serials = shared->serial;
    memset(shared->jobs, 0, (serials < JOBS_MAX ? serials + 1 : JOBS_MAX) * sizeof(struct known));
    shared->highest_id = 0;
    shared->token_count = 0;
}

static unsigned run_rounds(const struct settings *settings, const char *folder)
{
    struct rng rng = {settings->seed};
    char url[PATH_MAX + 64];
    unsigned failed = 0;
    snprintf(url, sizeof url, "sqlite:%s/jobs.db?sync=%s", folder, settings->sync);
    begin_anew(folder);
    for (unsigned round = 1; round <= settings->rounds; round++) {
        clear_log();
        if (work_and_die(url, &rng) && compare(url, &rng))
            continue;
        failed++;
        printf("FAIL round %u of --seed %llu --sync %s\n", round,
               (unsigned long long)settings->seed, settings->sync);
        begin_anew(folder);
    }
    if (!tokens_are_unique())
        failed = failed == 0 ? 1 : failed;
    return failed;
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0)
            settings->rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            settings->seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--sync") == 0)
            settings->sync = argv[i + 1];
        else
            return false;
    }
    return argc % 2 == 1 && settings->rounds > 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {25, 1, "full"};
    char base[PATH_MAX];
    char folder[PATH_MAX + 8];
    if (!parse(argc, argv, &settings)) {
        fputs(usage, stderr);
        return 2;
    }
    const char *tmp = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/bide-kill-XXXXXX", tmp ? tmp : "/tmp");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED || mkdtemp(base) == NULL) {
        perror("kill");
        return 2;
    }
    snprintf(folder, sizeof folder, "%s/file", base);
    unsigned failed = run_rounds(&settings, folder);
    remove_folder(base);
    printf("%u passed, %u failed\n", settings.rounds - failed, failed);
    return failed == 0 ? 0 : 1;
}
