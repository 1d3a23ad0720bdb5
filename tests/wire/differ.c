/* SPDX-License-Identifier: MIT */
/*
 * differ.c - the differential run: random clients talk to beanstalkd and to bided at the same time,
 * and every reply must be the same.
 *
 * A seed is one story (scenario.h). When the servers differ, the story is shortened: turns are left
 * out as long as a difference remains. What is printed is what is left, and the command that plays
 * the whole story again.
 */
#include "lockstep.h"
#include "print.h"
#include "server.h"

#include "../contract/contract.h"

#define SHORTEN_ROUNDS      300
#define SHORTEN_PATIENCE_MS 1500 /* nothing is claimed any more: a difference has been found */
#define SHORTEN_US          (INT64_C(60) * 1000000)

struct settings {
    struct lockstep_settings lockstep;
    uint64_t first, last;
    size_t turns;
    bool verbose, self_test;
};

static const char usage[] =
    "usage: differ [--left COMMAND] [--right COMMAND] [--seeds A-B] [--steps N] [-v]\n"
    "       differ --self-test [--left COMMAND]\n"
    "\n"
    "Plays random command streams to two servers and compares their replies.\n"
    "  --left COMMAND   the reference (beanstalkd); in durable mode \"beanstalkd -b @ -f 0\"\n"
    "  --right COMMAND  the other (bided --url memory:); \"bided --url sqlite:@/jobs.db?sync=full\"\n"
    "                   @ stands for a folder that is made anew each time\n"
    "  --seeds A-B      which streams (1-10)\n"
    "  --steps N        how many turns each has (1000)\n"
    "  --alter OLD=NEW  changes replies of the second server, to see that it is noticed\n"
    "  --self-test      compares the reference with itself, and with itself altered\n"
    "  -v               names the streams that are the same, too\n";

/* ---- shortening ---- */

struct shortening {
    struct scenario *scenario;
    struct lockstep_settings lockstep;
    struct verdict *verdict;
    size_t rounds;
    int64_t limit_us;
};

/* Leaves out what is in the range and not out yet; keeps it so if a difference remains. */
static bool try_without(struct shortening *shortening, size_t from, size_t to)
{
    struct scenario *scenario = shortening->scenario;
    struct verdict verdict;
    bool *was = calloc(scenario->count, sizeof *was);
    size_t taken = 0;
    if (!was)
        exit(2);
    for (size_t i = from; i < to; i++) {
        was[i] = scenario->turns[i].left_out;
        /* Without it the puts behind it would succeed, and later ids would be others. */
        if (scenario->turns[i].end != TURN_DRAIN && !was[i]) {
            scenario->turns[i].left_out = true;
            taken++;
        }
    }
    bool shorter = false;
    if (taken > 0 && shortening->rounds < SHORTEN_ROUNDS && clock_us() < shortening->limit_us) {
        shortening->rounds++;
        run_lockstep(scenario, &shortening->lockstep, &verdict);
        shorter = !verdict.same;
    }
    for (size_t i = from; i < to && !shorter; i++)
        scenario->turns[i].left_out = was[i];
    if (shorter) {
        *shortening->verdict = verdict;
        for (size_t i = verdict.turn + 1; i < scenario->count; i++)
            scenario->turns[i].left_out = true;
    }
    free(was);
    return shorter;
}

static void shorten(struct scenario *scenario, const struct settings *settings,
                    struct verdict *verdict)
{
    struct shortening shortening = {scenario, settings->lockstep, verdict, 0,
                                    clock_us() + SHORTEN_US};
    shortening.lockstep.patience_ms = SHORTEN_PATIENCE_MS;
    for (size_t i = verdict->turn + 1; i < scenario->count; i++)
        scenario->turns[i].left_out = true;
    for (size_t piece = (verdict->turn + 1) / 2; piece > 0; piece /= 2)
        for (size_t from = 0; from <= verdict->turn; from += piece) {
            size_t to = from + piece <= verdict->turn ? from + piece : verdict->turn;
            try_without(&shortening, from, to);
        }
}

/* ---- streams ---- */

static bool in_file(const struct settings *settings)
{
    return strstr(settings->lockstep.commands[1], "sqlite:") != NULL;
}

static bool run_seed(const struct settings *settings, uint64_t seed)
{
    struct scenario scenario;
    struct verdict verdict;
    int64_t start_us = clock_us();
    scenario_make(&scenario, seed, settings->turns, in_file(settings));
    run_lockstep(&scenario, &settings->lockstep, &verdict);
    bool same = verdict.same;
    if (same && settings->verbose)
        printf("ok   seed %llu: %zu replies in %lld ms\n", (unsigned long long)seed,
               verdict.replies, (long long)(clock_us() - start_us) / 1000);
    if (!same) {
        printf("FAIL seed %llu, turn %zu: %s\n", (unsigned long long)seed, verdict.turn,
               verdict.text);
        fflush(stdout);
        shorten(&scenario, settings, &verdict);
        printf("     shortened:\n");
        print_scenario(&scenario, verdict.turn);
        printf("     %s\n", verdict.text);
        printf("     again: differ --left '%s' --right '%s' --seeds %llu-%llu --steps %zu\n",
               settings->lockstep.commands[0], settings->lockstep.commands[1],
               (unsigned long long)seed, (unsigned long long)seed, settings->turns);
    }
    fflush(stdout);
    scenario_done(&scenario);
    return same;
}

/* ---- the test of the tester ---- */

/* Each is a fault of a server that must be noticed within a few streams. */
static const char *const faults[][2] = {
    {"RELEASED\r\n", "BURIED\r\n"},     {"KICKED 1\r\n", "KICKED 0\r\n"},
    {"kicks: 1\n", "kicks: 0\n"},       {"WATCHING 3", "WATCHING 2"},
    {"TIMED_OUT\r\n", "NOT_FOUND\r\n"}, {"cmd-use: 1", "cmd-use: 2"},
    {"FOUND job1", "FOUND job2"},       {"- a\n", ""},
};

static bool notices(const struct settings *settings, const char *from, const char *to)
{
    struct lockstep_settings altered = settings->lockstep;
    struct verdict verdict = {.same = true};
    altered.alter_from = from;
    altered.alter_to = to;
    for (uint64_t seed = 1; seed <= 5 && verdict.same; seed++) {
        struct scenario scenario;
        scenario_make(&scenario, seed, settings->turns, in_file(settings));
        run_lockstep(&scenario, &altered, &verdict);
        scenario_done(&scenario);
    }
    if (verdict.same)
        printf("FAIL it is not noticed when the second says %s for %s\n", to, from);
    return !verdict.same;
}

static unsigned self_test(struct settings *settings, unsigned *passed)
{
    unsigned failed = 0;
    settings->lockstep.commands[1] = settings->lockstep.commands[0];
    for (uint64_t seed = 1; seed <= 3; seed++)
        run_seed(settings, seed) ? ++*passed : ++failed;
    for (size_t i = 0; i < COUNT(faults); i++)
        notices(settings, faults[i][0], faults[i][1]) ? ++*passed : ++failed;
    return failed;
}

/* ---- main ---- */

static bool parse_seeds(const char *text, struct settings *settings)
{
    unsigned long long first = 0;
    unsigned long long last = 0;
    int count = sscanf(text, "%llu-%llu", &first, &last);
    settings->first = first;
    settings->last = count == 2 ? last : first;
    return count >= 1 && settings->first <= settings->last;
}

static bool parse_alter(const char *text, struct settings *settings)
{
    char *from = strdup(text);
    char *split = from ? strchr(from, '=') : NULL;
    if (!split)
        return false;
    *split = 0;
    settings->lockstep.alter_from = from;
    settings->lockstep.alter_to = split + 1;
    return *from != 0;
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    bool good = true;
    for (int i = 1; i < argc && good; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "-v") == 0) {
            settings->verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--self-test") == 0) {
            settings->self_test = true;
            continue;
        }
        i++;
        if (!value)
            good = false;
        else if (strcmp(argv[i - 1], "--left") == 0)
            settings->lockstep.commands[0] = value;
        else if (strcmp(argv[i - 1], "--right") == 0)
            settings->lockstep.commands[1] = value;
        else if (strcmp(argv[i - 1], "--seeds") == 0)
            good = parse_seeds(value, settings);
        else if (strcmp(argv[i - 1], "--steps") == 0)
            settings->turns = strtoul(value, NULL, 10);
        else if (strcmp(argv[i - 1], "--alter") == 0)
            good = parse_alter(value, settings);
        else
            good = false;
    }
    return good && settings->turns > 0 && settings->turns < 8000;
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .lockstep = {PATIENCE_MS, {"beanstalkd", "bided --url memory:"}, NULL, NULL},
        .first = 1,
        .last = 10,
        .turns = 1000,
    };
    unsigned passed = 0;
    unsigned failed = 0;
    if (!parse(argc, argv, &settings)) {
        fputs(usage, stderr);
        return 2;
    }
    if (settings.self_test)
        settings.lockstep.commands[1] = settings.lockstep.commands[0];
    if (!folders_begin())
        return 2;
    if (!lockstep_prepare(&settings.lockstep)) {
        folders_end();
        return 2;
    }
    if (settings.self_test)
        failed = self_test(&settings, &passed);
    for (uint64_t seed = settings.first; seed <= settings.last && !settings.self_test; seed++)
        run_seed(&settings, seed) ? passed++ : failed++;
    folders_end();
    printf("%u passed, %u failed\n", passed, failed);
    return passed > 0 && failed == 0 ? 0 : 1;
}
