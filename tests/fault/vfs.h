/* SPDX-License-Identifier: MIT */
/*
 * vfs - a disk that fails when it is told to.
 *
 * An SQLite VFS on top of the system's own. Once installed it is the default of the process, so
 * that every file which the queue opens through SQLite goes through it. It makes chosen acts fail,
 * has as little room as it is given, and can keep a record of all that is written (power_loss.h).
 *
 * Threads    One lock for everything: acts on files happen one after another.
 */
#ifndef FAULT_VFS_H
#define FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

enum vfs_call {
    VFS_OPEN,
    VFS_READ,
    VFS_WRITE,
    VFS_SYNC,
    VFS_TRUNCATE,
    VFS_DELETE,
    VFS_SHM, /* a mapping of the shared index of the log */
    VFS_CALLS
};

/* Makes the VFS the default of this process; more than once is fine. */
void vfs_install(void);

/* Which acts fail, and how. */
struct vfs_fault {
    enum vfs_call call;
    const char *suffix; /* only of files whose names end so; "" or NULL: of all */
    unsigned nth;       /* the nth of these from now; 1 is the next */
    unsigned times;     /* how many fail then; 0: all */
    int code;           /* what SQLite is told: SQLITE_FULL, SQLITE_IOERR_FSYNC, ... */
    int system;         /* errno */
};

/* Sets a fault; there may be a few at a time. */
void vfs_fail(const struct vfs_fault *fault);
/* Every act that changes something, and every read, fails with a chance of n in 1000. */
void vfs_fail_at_random(uint64_t seed, unsigned per_mille);
/* From now on faults of reads hit only reads of the bytes from..to-1 of a database
 * file; 0, 0: all reads. */
void vfs_region(int64_t from, int64_t to);
/* While held, reads of the region wait; how many are waiting. */
void vfs_hold(bool hold);
unsigned vfs_held(void);
/* Every read takes so long. */
void vfs_slow_reads(unsigned us);
/* While held, syncs wait; how many are waiting. */
void vfs_hold_syncs(bool hold);
unsigned vfs_held_syncs(void);
/* So many of the writes that a fault makes fail from now on reach the file all the same. */
void vfs_write_despite_faults(unsigned writes);
/* Files opened from now on have no shared memory, as with a VFS that cannot map files. */
void vfs_without_shared_memory(bool without);
/* From now on link() fails with this errno, and renameat2() with the other; 0: they work. */
void vfs_fail_links(int link_errno, int rename_errno);
/* While held, link() waits; how many calls are waiting. */
void vfs_hold_links(bool hold);
unsigned vfs_held_links(void);
/* No more faults; the limit stays. */
void vfs_clear_faults(void);
/* How many acts were made to fail since the program began. */
unsigned vfs_failed(void);
/* How many acts of a kind there were, failed ones too. */
unsigned vfs_count(enum vfs_call call);

/* The files that are open or were, and a filler beside them, may have that many bytes in all; more
 * is a full disk. 0: no limit. */
void vfs_limit(int64_t bytes);
/* The same, and more than that is another error than ENOSPC: EDQUOT, EFBIG. */
void vfs_limit_as(int64_t bytes, int system);
/* How many they have. */
int64_t vfs_bytes_used(void);

/* Every act waits, from now until vfs_thaw(), called by the same thread. No other function of this
 * file may be called in between. */
void vfs_freeze(void);
void vfs_thaw(void);

/* Syncs are not passed on to the system: nothing here outlives the machine anyway. */
void vfs_skip_syncs(bool skip);

#endif
