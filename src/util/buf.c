/* SPDX-License-Identifier: MIT */
/*
 * buf - the reference-counted buffers of job.h.
 *
 * The header has eight bytes, so the data is aligned for any number.
 */
#include "util/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct bide_buf {
    _Atomic uint32_t refs;
    uint32_t size;
    unsigned char data[];
};

bide_buf *bi_buf_alloc(size_t size, void **bytes)
{
    if (size >= UINT32_MAX)
        return NULL;
    bide_buf *buf = malloc(sizeof(*buf) + size + 1);
    if (buf == NULL)
        return NULL;

    atomic_init(&buf->refs, 1);
    buf->size = (uint32_t)size;
    /* Text in a buffer can be used as a C string. */
    buf->data[size] = 0;
    *bytes = buf->data;
    return buf;
}

bide_buf *bi_buf_resize(bide_buf *buf, size_t size, void **bytes)
{
    assert(atomic_load_explicit(&buf->refs, memory_order_relaxed) == 1);
    if (size >= UINT32_MAX)
        return NULL;
    bide_buf *resized = realloc(buf, sizeof(*buf) + size + 1);
    if (resized == NULL)
        return NULL;

    resized->size = (uint32_t)size;
    resized->data[size] = 0;
    *bytes = resized->data;
    return resized;
}

bide_buf *bide_buf_new(const void *data, size_t size)
{
    void *bytes;
    if (data == NULL && size > 0)
        return NULL;

    bide_buf *buf = bi_buf_alloc(size, &bytes);
    if (buf != NULL && size > 0)
        memcpy(bytes, data, size);
    return buf;
}

bide_buf *bide_buf_ref(bide_buf *buf)
{
    if (buf != NULL) {
        uint32_t refs = atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);
        assert(refs > 0 && refs < UINT32_MAX); /* a freed buffer, or more than can be counted */
        (void)refs;
    }
    return buf;
}

void bide_buf_unref(bide_buf *buf)
{
    if (buf == NULL)
        return;

    /* The holder of the only reference needs no atomic decrement: no other thread can add one. The
     * acquire pairs with the decrements of the references that are gone. */
    if (atomic_load_explicit(&buf->refs, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel) == 1)
        free(buf);
}

const void *bide_buf_data(const bide_buf *buf)
{
    return buf == NULL ? NULL : buf->data;
}

size_t bide_buf_size(const bide_buf *buf)
{
    return buf == NULL ? 0 : buf->size;
}

bool bi_buf_equal(const bide_buf *a, const bide_buf *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}
