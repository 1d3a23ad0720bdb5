/* SPDX-License-Identifier: MIT */
/*
 * folder - the temporary folder in which the benchmarks of files have their files.
 *
 * It is removed with everything in it: at the end, when the program fails, and when it is
 * interrupted. There is one at a time.
 */
#ifndef BENCH_FOLDER_H
#define BENCH_FOLDER_H

#include <stdint.h>

#include <bide/bide.h>

struct folder {
    char path[256];
    char jobs[512];  /* the file of the queue */
    char raw[512];   /* the file of the raw loop that it is compared with */
    char large[512]; /* the same, for large bodies */
    char url[600];   /* of the queue */
};

/* Makes the folder. dir is where; NULL: $TMPDIR, or /var/tmp, which a disk is behind. */
void folder_make(struct folder *folder, const char *dir, bide_sync sync);

/* Removes the files, but not the folder, so that the next figure begins anew. */
void folder_empty(void);

/* Removes the folder, if there is one and this process made it. Safe in a signal handler. */
void folder_remove(void);

/* The room that is left on the disk of the folder. */
uint64_t folder_free_bytes(void);

/* The size of a file, or of the log beside it; 0 if it does not exist. */
uint64_t folder_file_bytes(const char *path);
uint64_t folder_log_bytes(const char *path);

/* Brings what was written to the disk. */
void folder_sync_file(const char *path);

/* "full", "normal", "off". */
const char *folder_sync_name(bide_sync sync);

#endif
