/* SPDX-License-Identifier: MIT */
/*
 * power_loss - what a disk holds after the power went.
 *
 * While a record is kept, the VFS reports each step: a file made, bytes written, a cut, a sync, a
 * removal. Afterwards loss_at() makes a directory with what the disk could hold had the power gone
 * after any number of those steps. What was synced is there; what was not may be there, or not, or
 * in part.
 *
 * A sync that failed leaves behind what the kernel would: the bytes written before it count as
 * clean and are never written, so no later sync makes them last.
 *
 * Threads    Steps are reported under the lock of the VFS. The record is looked at when nobody
 *            writes any more.
 */
#ifndef FAULT_POWER_LOSS_H
#define FAULT_POWER_LOSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What became of that which was not synced. */
enum loss_kind {
    LOSS_ALL,  /* it is gone */
    LOSS_NONE, /* it is there: the end of the process, not of the power */
    LOSS_TORN, /* each sector of 512 bytes is there or not, as the seed says */
    LOSS_KINDS
};

/* Begins a record, of files in the directory; what they hold now counts as synced. */
void loss_begin(const char *directory);
/* Ends it; it can still be looked at until loss_forget(). */
void loss_end(void);
void loss_forget(void);

/* How many steps there were. */
size_t loss_steps(void);
/* Was that step, counted from 0, a sync? */
bool loss_is_sync(size_t step);
/* The first step at or after this one that writes to a file; loss_steps() if there is none. */
size_t loss_next_write(size_t step, const char *name);

/* Writes to a directory what is left when the power goes after so many steps. */
void loss_at(size_t steps, enum loss_kind kind, uint64_t seed, const char *directory);

/* ---- for the VFS: each does nothing while no record is kept, or the file is not of it ---- */

void loss_made(const char *path);
void loss_written(const char *path, int64_t offset, const void *data, size_t size);
void loss_cut(const char *path, int64_t size);
void loss_synced(const char *path, bool failed);
void loss_removed(const char *path, bool lasting);

#endif
