/* SPDX-License-Identifier: MIT */
/*
 * call_table - what each op sends, and what it answers.
 */
#ifndef BI_CALL_TABLE_H
#define BI_CALL_TABLE_H

#include "backend/call_field.h"

struct call_kind {
    uint16_t at; /* where the arguments lie in the op */
    bool travels;
    bool slow;              /* looks at thousands of jobs or topics: it may take a millisecond */
    int also;               /* a code that is as good as BIDE_OK; BIDE_OK: there is none */
    const struct shape *in; /* arguments */
    const struct shape *always; /* results whatever the code; may be NULL */
    const struct shape *good;   /* results if it is good; may be NULL */
};

extern const struct call_kind bi_call_kinds[BIDE_OP_COUNT];

#endif
