/* SPDX-License-Identifier: MIT */
#include "op/op_args.h"

#include "op/op_codec_field.h"

#include <assert.h>
#include <stdlib.h>

/* ---- what an op names ---- */

/* Fields of one type: one in the arguments, or one in each item of a list. */
struct run {
    const struct field *field; /* NULL: none */
    const char *base;          /* the first struct that has the field */
    size_t count, stride;
    const struct layout *items; /* of the items of a list; NULL: the arguments have the field */
};

static struct run find_run(const struct layout *layout, const void *base,
                           const struct field_codec *codec)
{
    for (size_t i = 0; i < layout->count; i++) {
        const struct field *field = &layout->fields[i];
        struct run run = {.field = NULL};

        if (field->codec == codec) {
            return (struct run){.field = field, .base = base, .count = 1};
        } else if (field->codec == &bi_op_codec_field_struct) {
            run = find_run(field->layout, const_member_at(base, field->at), codec);
        } else if (field->codec == &bi_op_codec_field_items) {
            run = find_run(field->layout, pointer_at(base, field->at), codec);
            run.count = size_at(base, field->aux[0]);
            run.stride = field->layout->size;
            run.items = field->layout;
        }

        if (run.field != NULL)
            return run;
    }
    return (struct run){.field = NULL};
}

static struct run find_in_args(const bide_op *op, const struct field_codec *codec)
{
    const struct op_row *row = bi_op_row(op);
    return find_run(row->args, (const char *)op + row->args_at, codec);
}

static const void *run_at(const struct run *run, size_t i)
{
    assert(i < run->count);
    return run->base + i * run->stride + run->field->at;
}

/* Whether the check has rejected item i: its pointers may be invalid, and are not copied. */
static bool is_rejected(const struct run *run, size_t i)
{
    if (run->items == NULL)
        return false;

    const void *item = run->base + i * run->stride;
    return *(const int *)const_member_at(item, run->items->status) != BIDE_OK;
}

size_t bi_op_args_id_count(const bide_op *op)
{
    return find_in_args(op, &bi_op_codec_field_id).count;
}

uint64_t bi_op_args_id(const bide_op *op, size_t i)
{
    struct run run = find_in_args(op, &bi_op_codec_field_id);
    return *(const uint64_t *)run_at(&run, i);
}

/* The job of a restore, or NULL. */
static const bide_job *restored_job(const bide_op *op)
{
    struct run run = find_in_args(op, &bi_op_codec_field_restored);
    return run.count == 0 ? NULL : pointer_at(run_at(&run, 0), 0);
}

static const bide_reserve_args *reserve_args(const bide_op *op)
{
    size_t at = bi_op_row(op)->reserve_at;
    return at == 0 ? NULL : const_member_at(op, at);
}

size_t bi_op_args_topic_count(const bide_op *op)
{
    const bide_reserve_args *reserve = reserve_args(op);
    if (reserve != NULL)
        return reserve->topic_count;

    struct run run = find_in_args(op, &bi_op_codec_field_changed_topic);
    /* An update that does not move the job names no topic. */
    if (run.count == 1 && run.items == NULL)
        return ((const bide_slice *)run_at(&run, 0))->size > 0;
    return run.count > 0 ? run.count : restored_job(op) != NULL;
}

bide_slice bi_op_args_topic(const bide_op *op, size_t i)
{
    const bide_reserve_args *reserve = reserve_args(op);
    if (reserve != NULL)
        return reserve->topics[i];

    const bide_job *job = restored_job(op);
    if (job != NULL)
        return (bide_slice){job->topic, strlen(job->topic)};

    struct run run = find_in_args(op, &bi_op_codec_field_changed_topic);
    const bide_slice *topic = run_at(&run, i);
    return is_rejected(&run, i) ? (bide_slice){NULL, 0} : *topic;
}

bool bi_op_args_has_feed(const bide_op *op)
{
    return find_in_args(op, &bi_op_codec_field_feed).field != NULL;
}

size_t bi_op_args_item_count(const bide_op *op)
{
    const struct op_row *row = bi_op_row(op);
    const struct field *first = row->args->fields;
    return row->args->count > 0 && first->codec == &bi_op_codec_field_items
               ? size_at((const char *)op + row->args_at, first->aux[0])
               : 0;
}

/* ---- duplicates ---- */

/* A pointer in the op, its items or a copy, and its original value; or a referenced buffer. */
struct saved_pointer {
    void *member; /* NULL: original is a bide_buf */
    void *original;
};

struct args_copy {
    size_t count; /* of saved pointers */
    size_t size;  /* of the copies */
    struct saved_pointer *saved;
    char *bytes; /* the copies; NULL in the counting pass */
};

void *bi_op_args_visit(struct args_copy *copy, void *member, size_t size)
{
    void *original = pointer_at(member, 0);
    if (original == NULL || size == 0)
        return NULL;

    size_t at = copy->size;
    /* Copies contain structs, so each is aligned for any type. */
    copy->size += (size + 15) & ~(size_t)15;
    copy->count++;
    if (copy->bytes == NULL)
        return original;

    memcpy(copy->bytes + at, original, size);
    copy->saved[copy->count - 1] = (struct saved_pointer){member, original};
    set_pointer(member, 0, copy->bytes + at);
    return copy->bytes + at;
}

void bi_op_args_visit_buf(struct args_copy *copy, bide_buf *buf)
{
    if (buf == NULL)
        return;
    copy->count++;
    if (copy->bytes != NULL)
        copy->saved[copy->count - 1] = (struct saved_pointer){NULL, bide_buf_ref(buf)};
}

int bi_op_args_dup(bide_op *op)
{
    /* A blocking caller keeps its arguments valid, and an op that waits twice is copied once. */
    if (op->private_.wake != NULL || op->private_.args_dup != NULL)
        return BIDE_OK;

    const struct op_row *row = bi_op_row(op);
    void *args = (char *)op + row->args_at;
    struct args_copy counted = {.count = 0};
    bi_op_codec_nested_dup_fields(&counted, row->args, args);
    if (counted.count == 0)
        return BIDE_OK;

    /* One block: the header, the saved pointers, then the copies, each aligned to 16 bytes. */
    size_t saved = counted.count * sizeof(struct saved_pointer);
    struct args_copy *copy = malloc(sizeof(*copy) + saved + counted.size);
    if (copy == NULL)
        return BIDE_ENOMEM;

    copy->count = copy->size = 0;
    copy->saved = (struct saved_pointer *)(void *)(copy + 1);
    copy->bytes = (char *)copy->saved + saved;
    bi_op_codec_nested_dup_fields(copy, row->args, args);
    assert(copy->count == counted.count && copy->size == counted.size);

    op->private_.args_dup = copy;
    return BIDE_OK;
}

bool bi_op_args_dup_restore(bide_op *op)
{
    struct args_copy *copy = op->private_.args_dup;
    if (copy == NULL)
        return false;

    /* Pointers within copies are restored, too. That is harmless: the copies are freed below. */
    while (copy->count > 0) {
        const struct saved_pointer *saved = &copy->saved[--copy->count];
        if (saved->member == NULL)
            bide_buf_unref(saved->original);
        else
            set_pointer(saved->member, 0, saved->original);
    }

    op->private_.args_dup = NULL;
    free(copy);
    return true;
}
