/* SPDX-License-Identifier: MIT */
/*
 * sim - seeded random ops against the core and a naive model of it.
 *
 *     sim [--seeds A-B] [--steps N] [--verbose] [--journal 0|1] [--wheel 0|1] [--alloc 0|1]
 *
 * Each seed runs twice and must come to the same end. --journal, --wheel and --alloc (failing
 * allocations) fix what the seed would choose. The last line is "N passed, M failed".
 */
#define _POSIX_C_SOURCE 200809L
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_switch(const char *name, int value)
{
    if (value >= 0)
        printf(" --%s %d", name, value);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list args;
    printf("seed %llu, step %llu, %s: ", (unsigned long long)sim->seed,
           (unsigned long long)sim->step, sim->what);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    const struct bi_limits *limits = &sim->options.limits;
    printf("\n  (journal %d, wheel %d, failing allocations %d; now %lld, %lld)\n",
           sim->options.journal, sim->options.wheel, sim->alloc_fails, (long long)sim->now.mono,
           (long long)sim->now.wall);
    if (sim->options.journal)
        printf("  (batch_jobs %u, batch_bytes %llu, cache_bytes %llu%s)\n", limits->batch_jobs,
               (unsigned long long)limits->batch_bytes, (unsigned long long)limits->cache_bytes,
               sim->loading.phase == LOADED ? "" : ", loading");
    printf("  replay: sim --seeds %llu-%llu --steps %llu", (unsigned long long)sim->seed,
           (unsigned long long)sim->seed, (unsigned long long)sim->config->steps);
    print_switch("journal", sim->config->journal);
    print_switch("wheel", sim->config->wheel);
    print_switch("alloc", sim->config->alloc);
    printf("\n");
    longjmp(sim->failed, 1);
}

void sim_trace(struct sim *sim, const struct sim_op *sop, int code)
{
    if (!sim->config->verbose)
        return;
    printf("%llu %s %s", (unsigned long long)sim->step, sim->what, bide_code_name(code));
    if (sop == NULL) {
        printf("\n");
        return;
    }
    const bide_op *op = &sop->op;
    switch (op->kind) {
    case BIDE_OP_PUT:
        printf(" id %llu topic %.*s", (unsigned long long)op->put.id, (int)op->put.topic.size,
               (const char *)op->put.topic.data);
        break;
    case BIDE_OP_RESERVE:
        printf(" first of %zu: id %llu", op->reserve.count,
               (unsigned long long)op->reserve.jobs[0].id);
        break;
    case BIDE_OP_PAUSE:
    case BIDE_OP_RESUME:
    case BIDE_OP_TOPIC_REF:
    case BIDE_OP_KICK:
    case BIDE_OP_PURGE:
        printf(" topic %.*s", (int)op->kick.topic.size, (const char *)op->kick.topic.data);
        break;
    case BIDE_OP_FINISH_AND_PUT:
        printf(" id %llu ending %d, %zu puts, item %u",
               (unsigned long long)op->finish_and_put.finish.id, (int)op->finish_and_put.ending,
               op->finish_and_put.count, op->error_item);
        break;
    case BIDE_OP_PUT_MANY:
    case BIDE_OP_FINISH_MANY:
    case BIDE_OP_TOUCH_MANY:
        break;
    default:
        printf(" id %llu", (unsigned long long)op->lease.id);
        break;
    }
    printf(" hold %llu\n", (unsigned long long)op->private_.hold);
}

static bool run_seed(const struct sim_config *config, uint64_t seed)
{
    uint64_t first = 0;
    uint64_t second = 0;
    if (!sim_run(config, seed, &first) || !sim_run(config, seed, &second))
        return false;
    if (first != second) {
        printf("seed %llu: two runs differ: %016llx and %016llx\n", (unsigned long long)seed,
               (unsigned long long)first, (unsigned long long)second);
        return false;
    }
    if (config->verbose)
        printf("seed %llu: %016llx\n", (unsigned long long)seed, (unsigned long long)first);
    return true;
}

static bool parse_number(const char *text, uint64_t *value, const char **rest)
{
    char *end;
    *value = strtoull(text, &end, 10);
    *rest = end;
    return end != text;
}

static bool parse_seeds(const char *text, struct sim_config *config)
{
    const char *rest;
    if (!parse_number(text, &config->first_seed, &rest))
        return false;
    config->last_seed = config->first_seed;
    if (*rest == '-' && !parse_number(rest + 1, &config->last_seed, &rest))
        return false;
    return *rest == '\0' && config->first_seed <= config->last_seed;
}

static bool parse_steps(const char *text, struct sim_config *config)
{
    const char *rest;
    return parse_number(text, &config->steps, &rest) && *rest == '\0';
}

static bool parse_switch(const char *text, int *value)
{
    *value = text[0] - '0';
    return (*value == 0 || *value == 1) && text[1] == '\0';
}

static bool parse_one(const char *name, const char *value, struct sim_config *config)
{
    if (strcmp(name, "--seeds") == 0)
        return parse_seeds(value, config);
    if (strcmp(name, "--steps") == 0)
        return parse_steps(value, config);
    if (strcmp(name, "--journal") == 0)
        return parse_switch(value, &config->journal);
    if (strcmp(name, "--wheel") == 0)
        return parse_switch(value, &config->wheel);
    if (strcmp(name, "--alloc") == 0)
        return parse_switch(value, &config->alloc);
    return false;
}

static bool parse(int argc, char **argv, struct sim_config *config)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            config->verbose = true;
            continue;
        }
        if (i + 1 == argc || !parse_one(argv[i], argv[i + 1], config))
            return false;
        i++;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct sim_config config = {
        .first_seed = 1,
        .last_seed = 40,
        .steps = 30000,
        .journal = -1,
        .wheel = -1,
        .alloc = -1,
    };
    uint64_t passed = 0;
    uint64_t failed = 0;
    if (!parse(argc, argv, &config)) {
        fprintf(stderr, "usage: sim [--seeds A-B] [--steps N] [--verbose] [--journal 0|1]"
                        " [--wheel 0|1] [--alloc 0|1]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (uint64_t seed = config.first_seed; seed <= config.last_seed; seed++) {
        if (run_seed(&config, seed))
            passed++;
        else
            failed++;
    }
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed == 0 ? 0 : 1;
}
