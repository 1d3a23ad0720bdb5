/* SPDX-License-Identifier: MIT */
/*
 * script - a workload in steps, each of which is one call that writes.
 *
 * The same steps run while the power goes, a sync fails, or the disk is full. A step chooses the
 * job that it works on by what the queue holds, so that it makes sense whatever became of the steps
 * before it.
 */
#ifndef FAULT_SCRIPT_H
#define FAULT_SCRIPT_H

#include "fault.h"

struct script {
    bide *queue;
    uint64_t serial;             /* of the last body */
    bide_job job;                /* reserved, if its id is not 0 */
    char note[48];               /* what a failure message begins with */
    char error[BIDE_ERROR_SIZE]; /* the sentence of the last call that failed */
};

void script_begin(struct script *script, bide *queue);
void script_done(struct script *script);

/* How many steps there are; then they begin again. */
size_t script_length(void);
const char *script_name(size_t step);

/* Runs one step. BIDE_OK: acknowledged, or there was nothing to do; else the failure. */
int script_run(struct script *script, size_t step);

/* A step on a disk that may fail. One that failed must say so, name the file, and have changed
 * nothing, unless it returns BIDE_EUNKNOWN. arm() and heal() (may be NULL) are called around the
 * step itself. */
int script_try(struct script *script, size_t step, void (*arm)(void), void (*heal)(void));

#endif
