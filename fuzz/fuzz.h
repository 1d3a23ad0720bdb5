/* SPDX-License-Identifier: MIT */
/*
 * fuzz - what every fuzz target has in common. A target is fuzz/fuzz_<name>.c with this one
 * function, and a line in the table of meson.build; `make fuzz TARGET=<name> SECONDS=60` runs it.
 */
#ifndef BI_FUZZ_H
#define BI_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process, so that the fuzzer keeps the input. */
#define must(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#endif
