/* SPDX-License-Identifier: MIT */
/*
 * settings - files of lines `name = value`, with comments after #.
 *
 * Failure    A sentence in error (BI_SENTENCE_SIZE bytes), which names the file and the line.
 */
#ifndef BI_SETTINGS_FILE_H
#define BI_SETTINGS_FILE_H

#include "util/sentence.h"

/* One line. The texts are gone afterwards. False, with a sentence, ends the reading. */
typedef bool (*bi_settings_take)(void *user, const char *name, const char *value, char *error);

/* path is only for sentences. */
bool bi_settings_read(FILE *file, const char *path, bi_settings_take take, void *user, char *error);

#endif
