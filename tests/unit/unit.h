/* SPDX-License-Identifier: MIT */
/*
 * unit - what every unit test needs: cmocka with the headers that it wants before it.
 */
#ifndef BI_UNIT_H
#define BI_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
