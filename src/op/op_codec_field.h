/* SPDX-License-Identifier: MIT */
/*
 * op_codec_field - the types of fields that ops are made of: how each is written and read, copied
 * for an op that waits, and freed.
 *
 * A field of an argument is written by the client and read by the server, a field of a result the
 * other way round. reader->owner distinguishes the two readers: a server (owner is set) allocates
 * from the decoded op and borrows bytes; a client (owner is NULL) reads into memory of the caller
 * and copies.
 */
#ifndef BI_OP_CODEC_FIELD_H
#define BI_OP_CODEC_FIELD_H

#include "op/op_codec_wire.h"

struct field;
struct args_copy;

struct field_codec {
    /* NULL: the field has no bytes. */
    void (*write)(struct op_writer *writer, const struct field *field, const void *base);
    bool (*read)(struct op_reader *reader, const struct field *field, void *base);
    /* Arguments: visits what the field points to, see bi_op_args_visit(). NULL: nothing. */
    void (*dup)(struct args_copy *copy, const struct field *field, void *base);
    /* Arguments: releases the private copy of a body. NULL: there is none. */
    void (*release)(const struct field *field, void *base);
    /* Results of an op that fails after all: frees what the field holds, or resets it; a status of
     * success becomes the code. NULL: the field stays as it is. */
    void (*discard)(const struct field *field, void *base, int code);
    /* Numbers: the size of the member, and the largest value; of either sign if it is signed. */
    uint8_t size;
    bool is_signed;
    uint64_t max;
};

struct field {
    const struct field_codec *codec;
    uint16_t at;     /* the offset in its struct */
    uint16_t aux[2]; /* the offsets of related members; see the codecs below */
    uint32_t limit;
    const struct layout *layout; /* of the struct that it is or points to */
};

#define BI_OP_CODEC_DECLARE(name) extern const struct field_codec bi_op_codec_field_##name

/* op_codec_scalar.c: numbers; with a limit, that many consecutive members. */
BI_OP_CODEC_DECLARE(id);      /* arguments: of a job; results: of a new job */
BI_OP_CODEC_DECLARE(timeout); /* arguments: how long to wait */
BI_OP_CODEC_DECLARE(u32);
BI_OP_CODEC_DECLARE(u64);
BI_OP_CODEC_DECLARE(i32);
BI_OP_CODEC_DECLARE(i64);
BI_OP_CODEC_DECLARE(size);
BI_OP_CODEC_DECLARE(flag);
BI_OP_CODEC_DECLARE(enum);
BI_OP_CODEC_DECLARE(error_item); /* results: error_item of the op */
BI_OP_CODEC_DECLARE(status);     /* an int; unchanged if missing */
BI_OP_CODEC_DECLARE(feed);       /* the number of a feed, which is not in the op */

/* op_codec_scalar.c: bytes. */
BI_OP_CODEC_DECLARE(text);  /* a char array of limit bytes, with a NUL; a longer one is cut */
BI_OP_CODEC_DECLARE(topic); /* the same, of printable ASCII only; a longer one is malformed */
BI_OP_CODEC_DECLARE(slice);
BI_OP_CODEC_DECLARE(changed_topic); /* a slice: the topic that the op inserts into or changes */
BI_OP_CODEC_DECLARE(unused_slice);  /* a slice that the kind ignores: sent, but not copied */
/* A bide_slice, unless there is a bide_buf of the caller at aux[0], or a copy at aux[1]. With a
 * limit it is a result: limit is then the offset of the bool that says whether it is kept. */
BI_OP_CODEC_DECLARE(body);
BI_OP_CODEC_DECLARE(part);    /* of a job: a pointer, its size at aux[0], its bide_buf at aux[1] */
BI_OP_CODEC_DECLARE(payload); /* the same, if the op has a copy in a buffer of its own (made) */
BI_OP_CODEC_DECLARE(made);    /* arguments: a private bide_buf, not sent */
BI_OP_CODEC_DECLARE(buf);     /* results: a bide_buf, or NULL */
BI_OP_CODEC_DECLARE(cursor);  /* a pointer to BIDE_CURSOR_SIZE bytes */
BI_OP_CODEC_DECLARE(path);    /* arguments: a pointer to a string */

/* op_codec_nested.c */
BI_OP_CODEC_DECLARE(struct);   /* an embedded struct */
BI_OP_CODEC_DECLARE(pointed);  /* arguments: a pointer to a struct, or NULL */
BI_OP_CODEC_DECLARE(restored); /* arguments: a pointer to the job */
BI_OP_CODEC_DECLARE(topics);   /* a bide_reserve_args: its topics, with their weights */
/* A pointer to items, their count at aux[0]: in arguments the items, in results their outcomes. */
BI_OP_CODEC_DECLARE(items);
BI_OP_CODEC_DECLARE(outcomes);
/* A pointer to a struct that the op fills: in arguments no bytes, in results the struct. */
BI_OP_CODEC_DECLARE(space);
BI_OP_CODEC_DECLARE(one);
/* A pointer to an array of such: in arguments its capacity, which is at aux[1]; in results the
 * filled ones, at least limit of them, their count at aux[0]. */
BI_OP_CODEC_DECLARE(room);
BI_OP_CODEC_DECLARE(list);

/* The fields of a struct. */
struct layout {
    const struct field *fields;
    uint16_t count;
    uint16_t status;                 /* items: the offset of the status */
    int alt_ok;                      /* items: a second status of success */
    const struct layout *results_ok; /* outcomes: fields that follow on success; may be NULL */
    uint32_t size;                   /* of the struct */
    bool has_size_member;            /* its first member is its size */
    bool is_job;                     /* a bide_job */
    void (*clear)(void *);           /* frees what a filled struct holds; may be NULL, */
    size_t (*held)(const void *);    /* as may this: the bytes in buffers that it holds */
};

/* ---- access to members by offset ---- */

static inline void *member_at(void *base, size_t offset)
{
    return (char *)base + offset;
}

static inline const void *const_member_at(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

static inline size_t size_at(const void *base, size_t offset)
{
    return *(const size_t *)const_member_at(base, offset);
}

/* Pointers of any type are accessed by memcpy(), which does not violate strict aliasing. */
static inline void *pointer_at(const void *base, size_t offset)
{
    void *pointer;
    memcpy(&pointer, const_member_at(base, offset), sizeof(pointer));
    return pointer;
}

static inline void set_pointer(void *base, size_t offset, const void *pointer)
{
    memcpy(member_at(base, offset), &pointer, sizeof(pointer));
}

/* Reads a number and rejects one that is greater than max. */
bool bi_op_codec_scalar_read_limited(struct op_reader *reader, uint64_t *number, uint64_t max);

/* ---- all fields of a struct ---- */

void bi_op_codec_nested_write_fields(struct op_writer *writer, const struct layout *layout,
                                     const void *base);

/* On failure there is nothing to free. */
bool bi_op_codec_nested_read_fields(struct op_reader *reader, const struct layout *layout,
                                    void *base);

/* See struct field_codec. */
void bi_op_codec_nested_dup_fields(struct args_copy *copy, const struct layout *layout, void *base);
void bi_op_codec_nested_release_fields(const struct layout *layout, void *base);
void bi_op_codec_nested_discard_fields(const struct layout *layout, void *base, int code);

/* ---- copies of arguments (op_args.c) ---- */

/* Visits the memory that the pointer at `member` points to. Arguments are visited twice: the first
 * pass counts, the second copies and redirects the pointer. Returns what is to be visited for
 * further pointers: the original in the first pass, the copy in the second; NULL if there is
 * nothing. */
void *bi_op_args_visit(struct args_copy *copy, void *member, size_t size);
/* The same for a buffer of the caller, which is referenced. */
void bi_op_args_visit_buf(struct args_copy *copy, bide_buf *buf);

#endif
