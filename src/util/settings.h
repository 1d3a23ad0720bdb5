/* SPDX-License-Identifier: MIT */
/*
 * settings - files of lines `name = value`, with comments after #.
 *
 * Failure    A sentence in error (BI_SENTENCE_SIZE bytes), which names the file and the line.
 */
#ifndef BI_SETTINGS_FILE_H
#define BI_SETTINGS_FILE_H

#include "util/sentence.h"

#include <stdio.h>
#include <sys/stat.h>

/* One line. The texts are gone afterwards. False, with a sentence, ends the reading. */
typedef bool (*bi_settings_take)(void *user, const char *name, const char *value, char *error);

/*
 * Opens a file for reading. A pipe, as of `<(command)`, is read to its end first, which may take
 * patience_ms; a regular file is not waited for. *told is the stat of what the path names; NULL: it is not
 * wanted. Answers NULL: errno says why, and bi_settings_why() in words.
 */
FILE *bi_settings_open(const char *path, int patience_ms, struct stat *told);
const char *bi_settings_why(int number);

/* path is only for sentences. */
bool bi_settings_read(FILE *file, const char *path, bi_settings_take take, void *user, char *error);

/* One line of at most size - 1 bytes, without its end, CR and LF or LF; what does not fit is left in the
 * file. Answers how many bytes it has, NUL bytes among them, which make the text shorter; -1: there was
 * no line, or an error. */
ssize_t bi_settings_line(FILE *file, char *line, size_t size);

#endif
