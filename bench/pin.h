/* SPDX-License-Identifier: MIT */
/*
 * pin - on which cores a server and the load generator run.
 *
 * On one core they share it, so that a figure has all the work of an op in it, that of the client
 * and of the kernel too; on two they can run at the same time. Both are worth knowing, and where
 * the scheduler decides, no figure can be repeated.
 */
#ifndef BENCH_PIN_H
#define BENCH_PIN_H

#include "bench.h"

#define PIN_MODES 2

struct pin {
    const char *name; /* "same" or "apart" */
    int server;
    int load;
};

/* What the settings ask for and the machine has: how many modes. */
size_t pin_modes(const struct settings *settings, struct pin modes[PIN_MODES]);

/* From now on this thread runs on that core. */
void pin_self(int core);

#endif
