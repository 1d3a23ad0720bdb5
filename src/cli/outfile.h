/* SPDX-License-Identifier: MIT */
/*
 * outfile - a file that is there as a whole, or not at all.
 *
 * It is written beside its place, as NAME.part, and gets its name when it is complete and on the
 * disk. Standard output, and what is no regular file, is written as it comes.
 */
#ifndef BI_OUTFILE_H
#define BI_OUTFILE_H

#include "cli/cli.h"

struct outfile {
    const struct cli *cli;
    FILE *to;
    const char *name; /* NULL: written as it comes */
    char *part_path;
    bool force;
};

/* May the file be written? NULL and "-" are standard output. force: an existing file is replaced.
 * BI_EXIT_OK, or says what is wrong. */
int bi_outfile_check(const struct cli *cli, const char *name, bool force);

/* beginning: what every such file begins with, at most 64 bytes; by it a NAME.part that a killed run
 * has left is known. */
int bi_outfile_open(struct outfile *file, const struct cli *cli, const char *name, bool force,
                    const char *prefix);
/* Why nothing more could be written; BI_EXIT_PIPE, silently, when the reader has gone. */
int bi_outfile_error(const struct outfile *file);
/* Gives the file its name. */
int bi_outfile_commit(struct outfile *file);
/* Takes away what was begun; after the end does nothing. */
void bi_outfile_discard(struct outfile *file);

#endif
