/* SPDX-License-Identifier: MIT */
/*
 * memory - how much the process grows with each job, beyond the body itself.
 *
 * Memory that an earlier benchmark gave back to the allocator would be used again and hide the
 * growth, so each run is a process of its own: this program, started anew with the arguments
 * "--memory-child URL STATE COUNT", which prints the growth of its resident set in bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "fixture.h"
#include "measure.h"

static uint64_t growth(const char *url, enum resident resident, uint64_t count)
{
    bide *queue = fixture_open(url);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct random random = {count};
    char body[BENCH_BODY_SIZE];

    memset(body, 'x', sizeof(body));
    uint64_t before = measure_rss_bytes();
    for (uint64_t i = 0; i < count; i++) {
        fixture_options(resident, random_next(&random), &options);
        must("bide_put", bide_put(queue, BENCH_TOPIC, body, sizeof(body), &options, NULL));
    }
    uint64_t after = measure_rss_bytes();
    fixture_close(queue);
    if (before == 0 || after < before)
        fail("the size of the resident set could not be read");
    return after - before;
}

bool bench_memory_child(int argc, char **argv, int *status)
{
    if (argc != 5 || strcmp(argv[1], BENCH_MEMORY_CHILD) != 0)
        return false;
    enum resident resident = RESIDENT_READY;
    if (strcmp(argv[3], fixture_name(resident)) != 0)
        resident = RESIDENT_DELAYED;
    printf("%" PRIu64 "\n", growth(argv[2], resident, strtoull(argv[4], NULL, 10)));
    *status = fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    return true;
}

/* In the child: becomes this program again, with its output in the pipe. */
static _Noreturn void become_child(int output, const char *url, enum resident resident,
                                   uint64_t count)
{
    char number[32];

    snprintf(number, sizeof(number), "%" PRIu64, count);
    if (dup2(output, STDOUT_FILENO) >= 0)
        execl("/proc/self/exe", "bench", BENCH_MEMORY_CHILD, url, fixture_name(resident), number,
              (char *)NULL);
    fail("the program could not be started anew: %s", strerror(errno));
}

static uint64_t read_number(int input)
{
    char text[32] = "";
    FILE *file = fdopen(input, "r");

    if (file == NULL || fgets(text, sizeof(text), file) == NULL)
        fail("the process that measures memory said nothing");
    fclose(file);
    return strtoull(text, NULL, 10);
}

static uint64_t growth_of_process(const char *url, enum resident resident, uint64_t count)
{
    int ends[2];
    int status = 0;

    if (pipe(ends) != 0)
        fail("no pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0)
        fail("no process: %s", strerror(errno));
    if (child == 0) {
        close(ends[0]);
        become_child(ends[1], url, resident, count);
    }
    close(ends[1]);
    uint64_t bytes = read_number(ends[0]);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("the process that measures memory failed");
    return bytes;
}

void bench_memory(const struct settings *settings)
{
    uint64_t count = settings->quick ? 100000 : 1000000;
    double runs[BENCH_MAX_REPEAT];

    for (enum resident state = RESIDENT_READY; state <= RESIDENT_DELAYED; state++) {
        const struct param params[] = {
            {"state", fixture_name(state), 0},
            {"jobs", NULL, count},
            {"body", NULL, BENCH_BODY_SIZE},
        };
        for (size_t i = 0; i < settings->repeat; i++) {
            uint64_t bytes = growth_of_process(settings->url, state, count);
            runs[i] = (double)bytes / (double)count - BENCH_BODY_SIZE;
        }
        report_figure(settings->report, "memory", params, 3, "bytes per job beyond the body", runs,
                      settings->repeat);
    }
}
