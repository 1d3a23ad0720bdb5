/* SPDX-License-Identifier: MIT */
/*
 * sysinfo - limits of the machine or the control group: memory and open files.
 */
#ifndef BI_SYSINFO_H
#define BI_SYSINFO_H

#include <stdint.h>

/*
 * Bytes of memory of the machine, or the lowest limit of the process's control group and its
 * parents (version 1 or 2). 0 if nothing can be read. root is "", or the parent of /proc and /sys
 * in a test.
 */
uint64_t bi_sysinfo_memory_limit(const char *root);

/* Raises the limit of open files to `wanted` if possible. Returns the limit in effect. */
uint64_t bi_sysinfo_raise_file_limit(uint64_t wanted);

/* Formats a size: 0, 65535B, 64KiB, 18.8GiB. text: BI_SIZE_TEXT bytes. */
#define BI_SIZE_TEXT 32
void bi_sysinfo_format_size(char *text, uint64_t bytes);

#endif
