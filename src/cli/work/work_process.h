/* SPDX-License-Identifier: MIT */
/*
 * work_process - a program that was started: in a process group of its own, with pipes to it.
 *
 * It is started by posix_spawn(), which does not copy our memory. None of our descriptors gets
 * into it but the three that it is to have.
 */
#ifndef BI_WORK_PROCESS_H
#define BI_WORK_PROCESS_H

#include <bide/job.h>

#include <signal.h>
#include <sys/types.h>

struct process {
    pid_t pid; /* and its group */
    int fd;    /* of the process: readable when it has ended */
    int in;    /* what it reads; -1: closed */
    int out;   /* what it writes, if that is wanted; -1: closed */
    int err;
    bide_slice unwritten; /* of its input, that is still to be written */
};

struct process_plan {
    const char *path;
    const char *const *arguments;
    const char *const *environment;
    bide_slice input;
    bool keeps_output;    /* else its standard output is ours */
    bool output_to_error; /* or our standard error */
    sigset_t mask;        /* signals that it is to have blocked */
};

/* 0, or an errno, and nothing is left behind. */
int bi_work_process_start(struct process *process, const struct process_plan *plan);

/* Writes of the input what can be written now; closes when all is written, or nobody reads. */
void bi_work_process_write_input(struct process *process);

/* To the whole group; only until it is reaped. */
void bi_work_process_signal(const struct process *process, int number);

/* After it has ended: its status as of waitpid(). */
int bi_work_process_reap(const struct process *process);

/* Closes everything. */
void bi_work_process_close(struct process *process);

#endif
