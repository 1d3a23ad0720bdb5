/* SPDX-License-Identifier: MIT */
/*
 * bench - measures a queue from the outside.
 *
 * It says how long things take, and asserts nothing about it: whether a figure is good depends on
 * the machine. Its exit code is 0 when everything could be measured. Only "abuse" has limits, and
 * fails if an attack exceeds them.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "bench.h"
#include "child.h"
#include "folder.h"
#include "wire.h"

static const struct bench benches[] = {
    {"threads", false, bench_threads,
     "put+reserve+delete of 100-byte jobs on 1, 2, 4, 8 threads, beside 1,000 ready jobs"},
    {"resident", false, bench_resident,
     "the same on one thread, beside 1 k to 10 M jobs: ready with random priorities, or delayed"},
    {"wakeup", false, bench_wakeup,
     "from a put until the reserve that waits in another thread returns"},
    {"lateness", false, bench_lateness,
     "from the due time of a delayed job until a consumer has it"},
    {"memory", false, bench_memory,
     "growth of the resident set with each 100-byte job, less its body"},
    {"rate", true, bench_rate,
     "how exactly a topic with a rate of 1,000 per second keeps it, over 30 seconds"},
    {"worker", true, bench_worker,
     "a worker with an empty handler, beside put+reserve+delete by calls, in memory and on a file"},
    {"worker-latency", true, bench_worker_latency,
     "from a put until the handler of an idle worker begins, beside a reserve that waits"},
    {"load", true, bench_load, "the load generator alone, on a server that runs: --connect"},
    {"server-cycle", true, bench_server_cycle,
     "put+reserve+delete through bided in memory, beside beanstalkd, by 10x64, 50x1 and 1x1"},
    {"server-backlog", true, bench_server_backlog,
     "1 M jobs with random priorities put and drained, and their memory"},
    {"server-crowd", true, bench_server_idle_load,
     "cycles beside 10,000 watched tubes, 1,000 blocked workers, or 1 M delayed jobs"},
    {"server-lateness", true, bench_server_lateness,
     "from the due time of a delayed job until a worker has it, beside 1,000 ops/s"},
    {"abuse", true, bench_abuse,
     "what a client of bided notices of attacks: p99 20 ms and max 250 ms at most, no refusal"},
#ifdef BIDE_WITH_SQLITE
    {"durable", true, bench_durable,
     "put+reserve+delete on a file by 1 to 1,000 callers and by submit, beside raw SQLite"},
    {"server-durable", true, bench_server_durable,
     "cycles, puts and a drain with everything on disk, beside beanstalkd -f 0 and raw SQLite"},
    {"latency", true, bench_latency, "one put on a file until it is stored, beside raw SQLite"},
    {"recovery", true, bench_recovery, "opening a file with 1 M jobs, beside a bare scan of it"},
    {"growth", true, bench_growth, "the sizes of the files over many cycles and a large backlog"},
#endif
};

#define BENCH_COUNT (sizeof(benches) / sizeof(benches[0]))

static const char explanation[] =
    "\n"
    "By calls, a cycle is bide_put, bide_reserve with timeout 0, bide_delete. By submit, 64\n"
    "cycles are three lists: 64 puts, then 64 reserves with timeout 0, then 64 deletes; on a\n"
    "file, 4,000 jobs are on their way at once, each step after the answer of the one before.\n"
    "wall is the time that passed, cpu the processor time of the threads at work. A figure is\n"
    "the median of its runs, and the best of them. Without a name the first five are run; the\n"
    "others are of files, which they make themselves, whatever the URL, of servers, which they\n"
    "start themselves, and of workers, in memory and on files. \"server\" and \"worker\" name all\n"
    "whose names begin so.\n"
    "\n";

static void print_usage(FILE *file)
{
    arguments_print(file);
    fputs(explanation, file);
    for (size_t i = 0; i < BENCH_COUNT; i++)
        fprintf(file, "  %-17s%s\n", benches[i].name, benches[i].help);
}

void fail(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "bench: %s\n", text);
    folder_remove();
    /* Other threads may still be at work on what exit() would tear down. */
    _exit(EXIT_FAILURE);
}

void fail_call(const char *call, int code, const char *text)
{
    fail("%s answered %s: %s", call, bide_code_name(code),
         text[0] != '\0' ? text : bide_code_text(code));
}

/* By its name, or by the part before the dash, which names all that begin so. */
static bool is_named(const char *name, const struct bench *bench)
{
    size_t size = strlen(name);

    return size > 0 && strncmp(name, bench->name, size) == 0 &&
           (bench->name[size] == '\0' || bench->name[size] == '-');
}

static bool is_wanted(const struct arguments *arguments, const struct bench *bench)
{
    for (size_t i = 0; i < arguments->name_count; i++) {
        if (is_named(arguments->names[i], bench))
            return true;
    }
    return arguments->name_count == 0 && !bench->in_folder;
}

static void check_names(const struct arguments *arguments)
{
    for (size_t i = 0; i < arguments->name_count; i++) {
        size_t at = 0;
        while (at < BENCH_COUNT && !is_named(arguments->names[i], &benches[at]))
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

/* With a folder for its files, and the URL of a queue in it. */
static void run_in_folder(const struct bench *bench, struct settings settings)
{
    struct folder folder;

    folder_make(&folder, settings.dir, settings.sync);
    settings.folder = &folder;
    settings.url = folder.url;
    settings.report->url = folder.url;
    bench->run(&settings);
    folder_remove();
}

static void run(const struct bench *bench, const struct settings *settings)
{
    report_title(settings->report, bench->name, bench->help);
    settings->report->url = settings->url;
    if (bench->in_folder)
        run_in_folder(bench, *settings);
    else
        bench->run(settings);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct report report;
    int status = EXIT_SUCCESS;

    if (child_main(argc, argv, &status))
        return status;
    arguments_parse(&arguments, argc, argv);
    if (arguments.help) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    check_names(&arguments);
    wire_allow_files();
    FILE *json = open_json(arguments.json);
    report_init(&report, json == stdout ? stderr : stdout, json, arguments.settings.url);
    arguments.settings.report = &report;
    for (size_t i = 0; i < BENCH_COUNT; i++) {
        if (is_wanted(&arguments, &benches[i]))
            run(&benches[i], &arguments.settings);
    }
    if (fflush(stdout) != 0 || (json != NULL && fclose(json) != 0))
        fail("the figures could not be written: %s", strerror(errno));
    return EXIT_SUCCESS;
}
