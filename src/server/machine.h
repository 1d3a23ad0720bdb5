/* SPDX-License-Identifier: MIT */
/*
 * machine - what the machine, or the control group that we run in, lets us have.
 */
#ifndef BI_MACHINE_H
#define BI_MACHINE_H

#include <stdint.h>

/*
 * Bytes of memory: of the machine, or less if a control group (version 1 or 2, ours or one above)
 * has a limit. 0 if nothing could be read. root is "", or where a test has put /proc and /sys.
 */
uint64_t bi_machine_memory(const char *root);

/* Asks for so many open files; answers how many there may be. */
uint64_t bi_machine_files(uint64_t wanted);

/* Bytes as people read them: 0, 65535B, 64KiB, 18.8GiB. text: BI_SIZE_TEXT bytes. */
#define BI_SIZE_TEXT 32
void bi_machine_size(char *text, uint64_t bytes);

#endif
