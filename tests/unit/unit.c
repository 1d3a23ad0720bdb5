/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <bide/op.h>

#include <string.h>

bide_slice text(const char *string);

bide_slice text(const char *string)
{
    return (bide_slice){string, strlen(string)};
}
