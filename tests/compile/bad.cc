/* SPDX-License-Identifier: MIT */
/*
 * The same in C++, and what only C++ has: one fault for each CASE that is defined; without any, the
 * file compiles.
 */
#define _Alignas alignas
#include "bad.c"

#ifdef STRUCT_THAT_IS_NOT_TRIVIAL
struct full {
    int number;
    ~full()
    {
    }
};
BIDE_TYPE(bad, full, BIDE_FIELD(number));
#endif
#ifdef POINTER_TO_WHAT_IS_DERIVED
struct longer : line {
    int more;
};
struct holder {
    longer *lines;
};
BIDE_TYPE(bad, holder, BIDE_POINTER(lines, line));
#endif
