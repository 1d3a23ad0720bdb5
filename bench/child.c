/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static const struct child_task tasks[] = {
    {"--memory-child", 3, bench_memory_child},
#ifdef BIDE_WITH_SQLITE
    {"--scan-child", 1, bench_scan_child},
    {"--recovery-child", 3, bench_recovery_child},
#endif
};

bool child_main(int argc, char **argv, int *status)
{
    for (size_t i = 0; argc > 1 && i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        if (strcmp(argv[1], tasks[i].name) != 0 || argc != 2 + tasks[i].argument_count)
            continue;
        tasks[i].run(argv + 2);
        *status = fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
        return true;
    }
    return false;
}

void child_report(double number)
{
    printf("%.17g\n", number);
}

/* In the child: becomes this program again, with its output in the pipe. */
static _Noreturn void exec_child(int output, const char *task, const char *const *arguments)
{
    const char *all[CHILD_ARGUMENTS + 3] = {"bench", task};
    size_t count = 2;

    while (*arguments != NULL) {
        assert(count < CHILD_ARGUMENTS + 2);
        all[count++] = *arguments++;
    }
    if (dup2(output, STDOUT_FILENO) >= 0)
        execv("/proc/self/exe", (char *const *)(uintptr_t)all);
    fail("the program could not be started anew: %s", strerror(errno));
}

static void read_numbers(int input, double *numbers, size_t count)
{
    char text[64];
    FILE *file = fdopen(input, "r");

    if (file == NULL)
        fail("out of memory");
    for (size_t i = 0; i < count; i++) {
        if (fgets(text, sizeof(text), file) == NULL)
            fail("the process that measures said too little");
        numbers[i] = strtod(text, NULL);
    }
    fclose(file);
}

void child_measure(const char *task, const char *const *arguments, double *numbers, size_t count)
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
        exec_child(ends[1], task, arguments);
    }
    close(ends[1]);
    read_numbers(ends[0], numbers, count);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("the process that measures failed");
}
