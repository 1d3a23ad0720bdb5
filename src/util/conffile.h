/* SPDX-License-Identifier: MIT */
/*
 * conffile - configuration files: lines `name = value`, and comments after #.
 *
 * Failure    A message in error (BI_ERRMSG_SIZE bytes) that names the file and the line.
 */
#ifndef BI_CONFFILE_H
#define BI_CONFFILE_H

#include "util/message.h"

#include <stdio.h>
#include <sys/stat.h>

/* Called for one line. The texts are valid during the call. False, with a message, ends the
 * parse. */
typedef bool (*bi_conffile_handler)(void *user, const char *name, const char *value, char *error);

/* Opens a file for reading. A pipe, as of `<(command)`, is read to its end first, for at most
 * timeout_ms; a regular file is never waited for. *stat_out, unless NULL, gets the stat of the
 * path. NULL on failure: errno has the cause, and bi_conffile_strerror() its text. */
FILE *bi_conffile_open(const char *path, int timeout_ms, struct stat *stat_out);
const char *bi_conffile_strerror(int error_number);

/* Parses the whole file. path is for messages only. */
bool bi_conffile_parse(FILE *file, const char *path, bi_conffile_handler handler, void *user,
                       char *error);

/* Reads one line of at most size - 1 bytes, without its end (LF or CR LF); the rest of a
 * longer line stays in the file. Returns the number of bytes, which may include NUL bytes; -1
 * if there is no line, or on an error. */
ssize_t bi_conffile_read_line(FILE *file, char *line, size_t size);

#endif
