/* SPDX-License-Identifier: MIT */
/*
 * scratch - a temporary directory for one test, and files in it.
 */
#ifndef BI_SCRATCH_H
#define BI_SCRATCH_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

extern char scratch[64];

int scratch_make(void **state);
int scratch_remove(void **state);

/* A path in the directory, in static memory: the fourth call after this one overwrites it. */
const char *scratch_path(const char *name);

/* Writes a file and creates the directories above it. */
const char *scratch_write(const char *name, const char *text);

#endif
