/* SPDX-License-Identifier: MIT */
/*
 * outfile - an output file that is complete or does not exist.
 *
 * It is written as NAME.part and renamed when it is complete and synced. Standard output and files that
 * are not regular are written directly.
 */
#ifndef BI_OUTFILE_H
#define BI_OUTFILE_H

#include "cli/cli.h"

struct outfile {
    const struct cli *cli;
    FILE *to;
    const char *name; /* NULL: written directly */
    char *part_path;
    bool force;
};

/* Checks that the file may be written. NULL and "-" are standard output. force: replace an existing
 * file. Returns BI_EXIT_OK, or prints an error. */
int bi_outfile_check(const struct cli *cli, const char *name, bool force);

/* prefix: the first bytes of every such file, at most 64; they identify a NAME.part that a killed run
 * has left. */
int bi_outfile_open(struct outfile *file, const struct cli *cli, const char *name, bool force,
                    const char *prefix);
/* Reports a failed write; BI_EXIT_PIPE, without a message, if the reader has gone. */
int bi_outfile_error(const struct outfile *file);
/* Syncs the file and gives it its name. */
int bi_outfile_commit(struct outfile *file);
/* Removes an incomplete file; does nothing after commit. */
void bi_outfile_discard(struct outfile *file);

#endif
