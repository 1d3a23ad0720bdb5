/* SPDX-License-Identifier: MIT */
/*
 * buf - internal functions of the reference-counted buffers of job.h.
 */
#ifndef BI_BUF_H
#define BI_BUF_H

#include <bide/job.h>

/* A new buffer. The caller writes its bytes before it shares it. NULL when out of memory. */
bide_buf *bi_buf_alloc(size_t size, void **bytes);

/* Resizes a buffer with one reference. The bytes are preserved as far as they fit, and may
 * move. NULL when out of memory; the buffer is then unchanged. */
bide_buf *bi_buf_resize(bide_buf *buf, size_t size, void **bytes);

/* Whether both have the same bytes. NULL equals NULL only. */
bool bi_buf_equal(const bide_buf *a, const bide_buf *b);

#endif
