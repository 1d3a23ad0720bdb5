/* SPDX-License-Identifier: MIT */
#include "cli/record.h"
