/* SPDX-License-Identifier: MIT */
/*
 * wire.c - the runner of the transcripts: each one, in each delivery, to a server of its own, in a
 * process of its own.
 */
#define _GNU_SOURCE /* asprintf */
#include "replay.h"
#include "server.h"

#include "../contract/isolated.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef WIRE_TRANSCRIPTS
#define WIRE_TRANSCRIPTS "tests/wire/transcripts"
#endif

#define FILES_MAX 256

struct settings {
    const char *server, *filter, *delivery;
    bool list, verbose;
    int timeout_s;
    char *files[FILES_MAX];
    int file_count;
};

struct tally {
    unsigned passed, failed;
};

static const char usage[] =
    "usage: wire --server COMMAND [--filter TEXT] [--deliver written|bytes|burst] [--list]\n"
    "            [--timeout SECONDS] [-v] [FILE...]\n"
    "\n"
    "Plays transcripts of the protocol to a server, and compares its replies.\n"
    "  --server COMMAND   \"beanstalkd\", \"bided --url memory:\", \"bided --url sqlite:@/jobs.db\";\n"
    "                     @ stands for a folder that is made anew each time\n"
    "  --filter TEXT      only transcripts whose file or name contains TEXT\n"
    "  --deliver HOW      only this delivery\n"
    "  --list             print the names of the transcripts and play none\n"
    "  --timeout SECONDS  a transcript that takes longer has hung (60)\n"
    "  -v                 name the transcripts that pass, too\n"
    "Without a FILE all files of " WIRE_TRANSCRIPTS " are played.\n";

/* What the child is to play: a test of isolated.h has no argument. */
static const struct transcript *current;
static int current_delivery;
static const char *current_server;

static void play_here(const struct isolated_test *isolated, struct trace *trace)
{
    checks_begin(isolated->url, isolated->theme, isolated->test, trace);
    replay(current, current_delivery, current_server);
    fflush(stdout);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void run_transcript(const struct settings *settings, const struct transcript *transcript,
                           int delivery, struct trace *trace, struct tally *tally)
{
    int64_t start_us = clock_us();
    struct isolated_test isolated = {replay_deliveries[delivery], base_name(transcript->file),
                                     transcript->title, play_here, NULL};
    current = transcript;
    current_delivery = delivery;
    current_server = settings->server;
    bool passed = run_isolated(&isolated, trace, settings->timeout_s);
    if (passed)
        tally->passed++;
    else
        tally->failed++;
    if (passed && settings->verbose)
        printf("ok   %s %s/%s (%" PRId64 " ms)\n", isolated.url, isolated.theme, isolated.test,
               (clock_us() - start_us) / 1000);
}

static bool selected(const struct settings *settings, const struct transcript *transcript,
                     unsigned kind)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", base_name(transcript->file), transcript->title);
    return (transcript->only & kind) && (!settings->filter || strstr(full, settings->filter));
}

static void run_all(const struct settings *settings, const struct script *script, unsigned kind,
                    struct trace *trace, struct tally *tally)
{
    for (size_t i = 0; i < script->count; i++) {
        const struct transcript *transcript = &script->transcripts[i];
        if (!selected(settings, transcript, kind))
            continue;
        if (settings->list) {
            printf("%s/%s\n", base_name(transcript->file), transcript->title);
            continue;
        }
        for (int j = 0; j < DELIVERIES; j++)
            if ((transcript->deliveries & 1U << j) &&
                (!settings->delivery || strcmp(settings->delivery, replay_deliveries[j]) == 0))
                run_transcript(settings, transcript, j, trace, tally);
    }
}

/* ---- files ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool find_files(struct settings *settings)
{
    DIR *folder = opendir(WIRE_TRANSCRIPTS);
    struct dirent *entry;
    if (!folder) {
        perror(WIRE_TRANSCRIPTS);
        return false;
    }
    while ((entry = readdir(folder)) != NULL && settings->file_count < FILES_MAX) {
        size_t size = strlen(entry->d_name);
        if (size > 4 && strcmp(entry->d_name + size - 4, ".txt") == 0 &&
            asprintf(&settings->files[settings->file_count], "%s/%s", WIRE_TRANSCRIPTS,
                     entry->d_name) > 0)
            settings->file_count++;
    }
    closedir(folder);
    qsort(settings->files, (size_t)settings->file_count, sizeof settings->files[0], by_name);
    return true;
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0)
            settings->list = true;
        else if (strcmp(argv[i], "-v") == 0)
            settings->verbose = true;
        else if (strcmp(argv[i], "--server") == 0 && i + 1 < argc)
            settings->server = argv[++i];
        else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
            settings->filter = argv[++i];
        else if (strcmp(argv[i], "--deliver") == 0 && i + 1 < argc)
            settings->delivery = argv[++i];
        else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc)
            settings->timeout_s = atoi(argv[++i]);
        else if (argv[i][0] != '-' && settings->file_count < FILES_MAX)
            settings->files[settings->file_count++] = strdup(argv[i]);
        else
            return false;
    }
    return settings->server && settings->timeout_s > 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {.timeout_s = 60};
    struct script script = {NULL, 0};
    struct tally tally = {0, 0};
    bool good = true;
    if (!parse(argc, argv, &settings)) {
        fputs(usage, stderr);
        return 2;
    }
    if (settings.file_count == 0 && !find_files(&settings))
        return 2;
    unsigned kind = command_is_reference(settings.server) ? FOR_REFERENCE : FOR_BIDED;
    for (int i = 0; i < settings.file_count; i++)
        good = script_read(&script, settings.files[i], kind) && good;
    struct trace *trace =
        mmap(NULL, sizeof *trace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trace == MAP_FAILED || !good)
        return 2;
    if (!folders_begin())
        return 2;
    run_all(&settings, &script, kind, trace, &tally);
    folders_end();
    script_done(&script);
    munmap(trace, sizeof *trace);
    for (int i = 0; i < settings.file_count; i++)
        free(settings.files[i]);
    if (settings.list)
        return 0;
    printf("%u passed, %u failed\n", tally.passed, tally.failed);
    return tally.passed > 0 && tally.failed == 0 ? 0 : 1;
}
