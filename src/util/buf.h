/* SPDX-License-Identifier: MIT */
/*
 * buf - what is done with buffers besides what job.h offers.
 */
#ifndef BI_BUF_H
#define BI_BUF_H

#include <bide/job.h>

/* A new buffer whose bytes are still to be written, before anybody else sees it; NULL when out of
 * memory. */
bide_buf *bi_buf_room(size_t size, void **bytes);

/* Changes the size of a buffer that only its maker has. Its bytes stay, as far as they fit; they may
 * lie elsewhere afterwards. NULL when out of memory: then it is as it was. */
bide_buf *bi_buf_resize(bide_buf *buf, size_t size, void **bytes);

/* Have they the same bytes? No buffer is the same as no buffer only. */
bool bi_buf_same(const bide_buf *a, const bide_buf *b);

#endif
