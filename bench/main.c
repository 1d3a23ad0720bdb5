/* SPDX-License-Identifier: MIT */
/*
 * bench - measures a queue from the outside, through the public calls only.
 *
 * It says how long things take, and asserts nothing about it: whether a figure is good depends on
 * the machine. Its exit code is 0 when everything could be measured.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static const struct bench benches[] = {
    {"threads", bench_threads,
     "put+reserve+delete of 100-byte jobs on 1, 2, 4, 8 threads, beside 1,000 ready jobs"},
    {"resident", bench_resident,
     "the same on one thread, beside 1 k to 10 M jobs: ready with random priorities, or delayed"},
    {"wakeup", bench_wakeup, "from a put until the reserve that waits in another thread returns"},
    {"lateness", bench_lateness, "from the due time of a delayed job until a consumer has it"},
    {"memory", bench_memory, "growth of the resident set with each 100-byte job, less its body"},
};

#define BENCH_COUNT (sizeof(benches) / sizeof(benches[0]))

static const char usage[] =
    "usage: bench [NAME...] [OPTION...]\n"
    "\n"
    "  --url URL           the queue to measure; memory: if not said\n"
    "  --json FILE         also write one JSON object per figure and line; with - the JSON\n"
    "                      goes to stdout and the table to stderr\n"
    "  --repeat N          runs per figure: 1 to 100; 5 if not said\n"
    "  --quick             3 runs with small counts, at most 100,000 resident jobs\n"
    "  --max-resident N    leave out larger numbers of resident jobs\n"
    "  --help              show this\n"
    "\n"
    "By calls, a cycle is bide_put, bide_reserve with timeout 0, bide_delete. By submit, 64\n"
    "cycles are three lists: 64 puts, then 64 reserves with timeout 0, then 64 deletes.\n"
    "wall is the time that passed, cpu the processor time of the threads at work. A figure is\n"
    "the median of its runs, and the best of them. Without a name all are run:\n"
    "\n";

static void print_usage(FILE *file)
{
    fputs(usage, file);
    for (size_t i = 0; i < BENCH_COUNT; i++)
        fprintf(file, "  %-10s%s\n", benches[i].name, benches[i].help);
}

void fail(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "bench: %s\n", text);
    /* Other threads may still be at work on what exit() would tear down. */
    _exit(EXIT_FAILURE);
}

void fail_call(const char *call, int code, const char *text)
{
    fail("%s answered %s: %s", call, bide_code_name(code),
         text[0] != '\0' ? text : bide_code_text(code));
}

/* A number from 1 to max, or a complaint. */
static uint64_t parse_number(const char *option, const char *text, uint64_t max)
{
    char *end = NULL;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || number == 0 || number > max)
        fail("--%s takes a number from 1 to %llu, not \"%s\"", option, (unsigned long long)max,
             text);
    return number;
}

struct arguments {
    struct settings settings;
    const char *json;
    bool help;
    char **names; /* which benchmarks; none: all */
    size_t name_count;
};

static void parse(int argc, char **argv, struct arguments *out)
{
    static const struct option options[] = {
        {"url", required_argument, NULL, 'u'},
        {"json", required_argument, NULL, 'j'},
        {"repeat", required_argument, NULL, 'r'},
        {"quick", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {"max-resident", required_argument, NULL, 'm'},
        {NULL, 0, NULL, 0},
    };
    struct settings *settings = &out->settings;
    int option;

    settings->url = "memory:";
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'u':
            settings->url = optarg;
            break;
        case 'j':
            out->json = optarg;
            break;
        case 'r':
            settings->repeat = (size_t)parse_number("repeat", optarg, BENCH_MAX_REPEAT);
            break;
        case 'q':
            settings->quick = true;
            break;
        case 'm':
            settings->max_resident = parse_number("max-resident", optarg, UINT64_MAX);
            break;
        case 'h':
            out->help = true;
            break;
        default:
            fail("see bench --help");
        }
    }
    if (settings->repeat == 0)
        settings->repeat = settings->quick ? 3 : 5;
    if (settings->max_resident == 0)
        settings->max_resident = settings->quick ? 100000 : UINT64_MAX;
    out->names = argv + optind;
    out->name_count = (size_t)(argc - optind);
}

static bool is_wanted(const struct arguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->name_count; i++) {
        if (strcmp(arguments->names[i], name) == 0)
            return true;
    }
    return arguments->name_count == 0;
}

static void check_names(const struct arguments *arguments)
{
    for (size_t i = 0; i < arguments->name_count; i++) {
        size_t at = 0;
        while (at < BENCH_COUNT && strcmp(arguments->names[i], benches[at].name) != 0)
            at++;
        if (at == BENCH_COUNT)
            fail("no benchmark is called \"%s\"; see bench --help", arguments->names[i]);
    }
}

static FILE *open_json(const char *path)
{
    if (path == NULL)
        return NULL;
    if (strcmp(path, "-") == 0)
        return stdout;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        fail("%s: %s", path, strerror(errno));
    return file;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct report report;
    int status = EXIT_SUCCESS;

    if (bench_memory_child(argc, argv, &status))
        return status;
    parse(argc, argv, &arguments);
    if (arguments.help) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    check_names(&arguments);
    FILE *json = open_json(arguments.json);
    report_init(&report, json == stdout ? stderr : stdout, json, arguments.settings.url);
    arguments.settings.report = &report;
    for (size_t i = 0; i < BENCH_COUNT; i++) {
        if (!is_wanted(&arguments, benches[i].name))
            continue;
        report_title(&report, benches[i].name, benches[i].help);
        benches[i].run(&arguments.settings);
    }
    if (fflush(stdout) != 0 || (json != NULL && fclose(json) != 0))
        fail("the figures could not be written: %s", strerror(errno));
    return EXIT_SUCCESS;
}
