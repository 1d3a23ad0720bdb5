/* SPDX-License-Identifier: MIT */
/*
 * call_field - the kinds of fields that ops and what they point to are made of, each with the way
 * it is written, read and given back.
 *
 * A field of an argument is written by the client and read by the server, a field of a result the
 * other way round. Where the two read differently, the reader's owner tells them apart: a server
 * reads into memory of the op and borrows bytes, a client reads into what the caller brought and
 * copies.
 */
#ifndef BI_CALL_FIELD_H
#define BI_CALL_FIELD_H

#include "backend/call_wire.h"

struct field;

struct field_codec {
    void (*write)(struct call_writer *writer, const struct field *field, const void *base);
    bool (*read)(struct call_reader *reader, const struct field *field, void *base);
    void (*free)(const struct field *field, void *base); /* of a result; NULL: holds nothing */
};

struct field {
    const struct field_codec *codec;
    uint16_t at;      /* where it lies in its struct */
    uint16_t more[2]; /* where its companions lie */
    uint32_t limit;
    const struct shape *shape; /* of what it is, or points to */
};

/* call_plain.c */
extern const struct field_codec bi_field_u32;
extern const struct field_codec bi_field_u64;
extern const struct field_codec bi_field_i32;
extern const struct field_codec bi_field_i64;
extern const struct field_codec bi_field_u32s; /* several in a row, limit of them */
extern const struct field_codec bi_field_u64s;
extern const struct field_codec bi_field_i64s;
extern const struct field_codec bi_field_size;
extern const struct field_codec bi_field_flag;
extern const struct field_codec bi_field_enum;
extern const struct field_codec bi_field_status; /* an int; if it is missing it stays as it is */
extern const struct field_codec bi_field_text;   /* a char array of limit bytes, with a NUL */
extern const struct field_codec bi_field_topic;  /* one of signs that can be seen */
extern const struct field_codec bi_field_slice;
/* A bide_slice, unless there is a bide_buf at more[0] or at more[1]. */
extern const struct field_codec bi_field_body;
/* Of a job: a pointer, its size at more[0], a bide_buf for it at more[1]. */
extern const struct field_codec bi_field_part;
extern const struct field_codec bi_field_buf;    /* results: a bide_buf, or NULL */
extern const struct field_codec bi_field_cursor; /* a pointer to BIDE_CURSOR_SIZE bytes */
extern const struct field_codec bi_field_path;   /* arguments: a pointer to a text with a NUL */
extern const struct field_codec bi_field_feed;   /* the number of a feed: not in the op */

/* call_nested.c */
extern const struct field_codec bi_field_struct;  /* another struct, in place */
extern const struct field_codec bi_field_pointed; /* arguments: a pointer to a struct, or NULL */
extern const struct field_codec bi_field_topics;  /* of a reserve, with their weights */
/* Arguments: a pointer to items, their count at more[0]; and, in results, what became of them. */
extern const struct field_codec bi_field_items;
extern const struct field_codec bi_field_outcomes;
/* A pointer to a struct that the op fills: in arguments without a byte, in results that struct. */
extern const struct field_codec bi_field_space;
extern const struct field_codec bi_field_one;
/* A pointer to many such: in arguments how many have room, which is at more[0]; in results those
 * that were filled, at least limit, the count at more[1]. */
extern const struct field_codec bi_field_room;
extern const struct field_codec bi_field_list;

/* What a struct is made of. */
struct shape {
    const struct field *fields;
    uint16_t count;
    uint16_t status;          /* items: where the status lies */
    int also;                 /* items: a status that is as good as BIDE_OK */
    const struct shape *good; /* outcomes: what follows if the status is good; may be NULL */
    uint32_t size;            /* of the struct */
    bool sized;               /* its first member says so */
    void (*clear)(void *);    /* gives back what a filled one holds; may be NULL */
};

/* ---- what codecs are made of ---- */

static inline void *at(void *base, size_t offset)
{
    return (char *)base + offset;
}

static inline const void *in(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

static inline size_t size_at(const void *base, size_t offset)
{
    return *(const size_t *)in(base, offset);
}

/* Pointers to whatever it is: all look alike. */
static inline void *pointer_at(const void *base, size_t offset)
{
    void *pointer;
    memcpy(&pointer, in(base, offset), sizeof(pointer));
    return pointer;
}

static inline void set_pointer(void *base, size_t offset, const void *pointer)
{
    memcpy(at(base, offset), &pointer, sizeof(pointer));
}

/* A number that is at most max. */
bool bi_call_read_limited(struct call_reader *reader, uint64_t *number, uint64_t max);

/* ---- all fields of a struct ---- */

void bi_fields_write(struct call_writer *writer, const struct shape *shape, const void *base);

/* On failure nothing that was read has to be given back. */
bool bi_fields_read(struct call_reader *reader, const struct shape *shape, void *base);

/* Gives back what the fields of a result hold. */
void bi_fields_free(const struct shape *shape, void *base);

#endif
