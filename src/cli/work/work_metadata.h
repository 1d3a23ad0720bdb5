/* SPDX-License-Identifier: MIT */
/*
 * work_metadata - what a program or a web hook is told about its job, besides the body: environment
 * variables (BIDE_ID=12) or headers (Bide-Id: 12).
 */
#ifndef BI_WORK_METADATA_H
#define BI_WORK_METADATA_H

#include <bide/task.h>

#define BI_WORK_METADATA_COUNT 13
#define BI_WORK_METADATA_SIZE  320 /* name and value */

/* One line each, "BIDE_ID=12"; a key that does not fit into an environment is base64. Answers how
 * many there are. */
size_t bi_work_metadata_environment(const bide_context *context,
                                    char (*lines)[BI_WORK_METADATA_SIZE]);

/* The same as "Bide-Id: 12"; here a key must be visible characters, with spaces in between. */
size_t bi_work_metadata_headers(const bide_context *context, char (*lines)[BI_WORK_METADATA_SIZE]);

/* Is this "NAME=value" one of the names above, or BIDE_URL? */
bool bi_work_metadata_is_reserved(const char *line);

#endif
