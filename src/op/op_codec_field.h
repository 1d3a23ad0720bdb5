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
    void (*write)(struct op_writer *writer, const struct field *field, const void *base);
    bool (*read)(struct op_reader *reader, const struct field *field, void *base);
    /* Arguments: visits what the field points to, see bi_op_args_visit(). NULL: nothing. */
    void (*dup)(struct args_copy *copy, const struct field *field, void *base);
    /* Arguments: releases the private copy of a body. NULL: there is none. */
    void (*release)(const struct field *field, void *base);
    /* Results of an op that fails after all: frees what the field holds, or resets it; a status of
     * success becomes the code. NULL: the field stays as it is. */
    void (*discard)(const struct field *field, void *base, int code);
};

struct field {
    const struct field_codec *codec;
    uint16_t at;     /* the offset in its struct */
    uint16_t aux[2]; /* the offsets of related members; see the codecs below */
    uint32_t limit;
    const struct layout *layout; /* of the struct that it is or points to */
};

/* op_codec_scalar.c */
extern const struct field_codec
    bi_op_codec_field_id; /* arguments: of a job; results: of a new job */
extern const struct field_codec bi_op_codec_field_timeout; /* arguments: how long to wait */
extern const struct field_codec bi_op_codec_field_u32;
extern const struct field_codec bi_op_codec_field_u64;
extern const struct field_codec bi_op_codec_field_i32;
extern const struct field_codec bi_op_codec_field_i64;
extern const struct field_codec bi_op_codec_field_u32s; /* limit of them, consecutive members */
extern const struct field_codec bi_op_codec_field_u64s;
extern const struct field_codec bi_op_codec_field_i64s;
extern const struct field_codec bi_op_codec_field_size;
extern const struct field_codec bi_op_codec_field_flag;
extern const struct field_codec bi_op_codec_field_enum;
extern const struct field_codec bi_op_codec_field_status; /* an int; unchanged if missing */
extern const struct field_codec
    bi_op_codec_field_text; /* a char array of limit bytes, with a NUL */
extern const struct field_codec bi_op_codec_field_topic; /* the same, of printable ASCII only */
extern const struct field_codec bi_op_codec_field_slice;
/* A slice: the topic that the op inserts into or changes. */
extern const struct field_codec bi_op_codec_field_changed_topic;
/* A slice that the kind ignores: it is sent, but not copied. */
extern const struct field_codec bi_op_codec_field_unused_slice;
/* A bide_slice, unless there is a bide_buf at aux[0] or at aux[1]. */
extern const struct field_codec bi_op_codec_field_body;
/* Of a job: a pointer, its size at aux[0], a bide_buf for it at aux[1]. */
extern const struct field_codec bi_op_codec_field_part;
/* The same, if the op has a copy in a buffer of its own (made). */
extern const struct field_codec bi_op_codec_field_payload;
extern const struct field_codec
    bi_op_codec_field_made;                            /* arguments: a private bide_buf, not sent */
extern const struct field_codec bi_op_codec_field_buf; /* results: a bide_buf, or NULL */
extern const struct field_codec bi_op_codec_field_cursor; /* a pointer to BIDE_CURSOR_SIZE bytes */
extern const struct field_codec bi_op_codec_field_path;   /* arguments: a pointer to a string */
extern const struct field_codec
    bi_op_codec_field_feed; /* the number of a feed, which is not in the op */
extern const struct field_codec
    bi_op_codec_field_error_item; /* results: error_item of the op, not of its arguments */

/* op_codec_nested.c */
extern const struct field_codec bi_op_codec_field_struct; /* an embedded struct */
extern const struct field_codec
    bi_op_codec_field_pointed; /* arguments: a pointer to a struct, or NULL */
extern const struct field_codec bi_op_codec_field_restored; /* arguments: a pointer to the job */
extern const struct field_codec bi_op_codec_field_topics;   /* of a reserve, with their weights */
/* A pointer to items, their count at aux[0]: in arguments the items, in results their outcomes. */
extern const struct field_codec bi_op_codec_field_items;
extern const struct field_codec bi_op_codec_field_outcomes;
/* A pointer to a struct that the op fills: in arguments no bytes, in results the struct. */
extern const struct field_codec bi_op_codec_field_space;
extern const struct field_codec bi_op_codec_field_one;
/* A pointer to an array of such: in arguments its capacity, which is at aux[0]; in results the
 * filled ones, at least limit of them, their count at aux[1]. */
extern const struct field_codec bi_op_codec_field_room;
extern const struct field_codec bi_op_codec_field_list;

/* The fields of a struct. */
struct layout {
    const struct field *fields;
    uint16_t count;
    uint16_t status;                 /* items: the offset of the status */
    int alt_ok;                      /* items: a second status of success */
    const struct layout *results_ok; /* outcomes: fields that follow on success; may be NULL */
    uint32_t size;                   /* of the struct */
    bool has_size_member;            /* its first member is its size */
    void (*clear)(void *);           /* frees what a filled struct holds; may be NULL */
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
 * pass counts, the second copies and redirects the pointer. Returns what is to be visited for further
 * pointers: the original in the first pass, the copy in the second; NULL if there is nothing. */
void *bi_op_args_visit(struct args_copy *copy, void *member, size_t size);
/* The same for a buffer of the caller, which is referenced. */
void bi_op_args_visit_buf(struct args_copy *copy, bide_buf *buf);

#endif
