/* SPDX-License-Identifier: MIT */
/*
 * work_meta - what a program or a web hook is told about its job, besides the body: environment
 * variables (BIDE_ID=12) or headers (Bide-Id: 12).
 */
#ifndef BI_WORK_META_H
#define BI_WORK_META_H

#include <bide/task.h>

#define BI_META_COUNT 13
#define BI_META_SIZE  320 /* name and value */

/* One line each, "BIDE_ID=12"; a key that does not fit into an environment is base64. Answers how
 * many there are. */
size_t bi_meta_environment(const bide_context *context, char (*lines)[BI_META_SIZE]);

/* The same as "Bide-Id: 12"; here a key must be visible characters, with spaces in between. */
size_t bi_meta_headers(const bide_context *context, char (*lines)[BI_META_SIZE]);

/* Is this "NAME=value" one of the names above, or BIDE_URL? */
bool bi_meta_is_ours(const char *line);

#endif
