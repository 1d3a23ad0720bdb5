/* SPDX-License-Identifier: MIT */
/*
 * child - measuring in a process of its own, which is this program again.
 *
 * Memory that an earlier benchmark gave back to the allocator would be used again and hide the
 * growth; caches of a library would be warm. So the program is started anew with the name of a
 * task and its arguments, and prints what it measured as numbers, one a line.
 */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#define CHILD_ARGUMENTS 4

/* Starts the program anew and reads count numbers. arguments ends with NULL. */
void child_measure(const char *task, const char *const *arguments, double *numbers, size_t count);

/* In the child: says one number. */
void child_report(double number);

/* One row of the table of tasks, in child.c. */
struct child_task {
    const char *name;
    int argument_count;
    void (*run)(char **arguments);
};

/* Answers false if the arguments of the program name no task; else it was done, and *status is
 * the exit code. */
bool child_main(int argc, char **argv, int *status);

#endif
