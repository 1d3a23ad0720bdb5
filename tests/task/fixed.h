/* SPDX-License-Identifier: MIT */
/*
 * fixed - topics whose names are known to the compiler, as those of tasks have to be.
 *
 * Where queues share a database an earlier run may have left something in them; so they are emptied
 * when the queue is opened, and the trial sweeps them at its end.
 */
#ifndef FIXED_H
#define FIXED_H

#include "crew.h"

#define FIXED_A "contract/task-a"
#define FIXED_B "contract/task-b"

/* A queue with nothing in these topics. */
#define open_fixed(parameters) open_fixed_at(HERE, (parameters))
bide *open_fixed_at(struct where at, const char *parameters);

#endif
