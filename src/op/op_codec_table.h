/* SPDX-License-Identifier: MIT */
/*
 * op_codec_table - the encoding of each op: one row per kind with its arguments and results.
 */
#ifndef BI_OP_CODEC_TABLE_H
#define BI_OP_CODEC_TABLE_H

#include "op/op_codec_field.h"

struct op_codec_row {
    uint16_t at; /* the offset of the arguments in the op */
    bool has_codec;
    bool slow;  /* may visit thousands of jobs or topics and take a millisecond */
    int alt_ok; /* a second code of success; BIDE_OK: none */
    const struct layout *args;
    const struct layout *results_any; /* results that do not depend on the code; may be NULL */
    const struct layout *results_ok;  /* results on success; may be NULL */
};

extern const struct op_codec_row bi_op_codec_table[BIDE_OP_COUNT];

#endif
