/* SPDX-License-Identifier: MIT */
/*
 * core_state - checks every invariant of a core, and hashes its state. Both visit everything.
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "core/core.h"

/* NULL, or a description of the fault. */
const char *core_check_all(struct core *core);

/* Equal for cores in the same state. */
uint64_t core_state_hash(struct core *core);

#endif
