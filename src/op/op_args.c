/* SPDX-License-Identifier: MIT */
#include "op/op_args.h"

#include "op/op_codec_field.h"
#include "op/op_result.h"
#include "util/sized_struct.h"

#include <assert.h>
#include <stdlib.h>

/* ---- what an op names ---- */

/* Fields of one type: one in the arguments, or one in each item of a list. */
struct run {
    const struct field *field; /* NULL: none */
    char *base;                /* the first struct that has the field */
    size_t count, stride;
    const struct layout *items; /* of the items of a list; NULL: the arguments have the field */
};

static struct run find_run(const struct layout *layout, void *base, const struct field_codec *codec)
{
    for (size_t i = 0; i < layout->count; i++) {
        const struct field *field = &layout->fields[i];
        struct run run = {.field = NULL};

        if (field->codec == codec) {
            return (struct run){.field = field, .base = base, .count = 1};
        } else if (field->codec == &bi_op_codec_field_struct) {
            run = find_run(field->layout, member_at(base, field->at), codec);
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
    return find_run(bi_op_row(op)->args, (void *)(uintptr_t)op, codec);
}

/* The struct that has the field: item i of a list, or the arguments. */
static void *run_item(const struct run *run, size_t i)
{
    assert(i < run->count);
    return run->base + i * run->stride;
}

static void *run_at(const struct run *run, size_t i)
{
    return member_at(run_item(run, i), run->field->at);
}

/* Whether the check has rejected item i: its pointers may be invalid, and are not copied. */
static bool is_rejected(const struct run *run, size_t i)
{
    return run->items != NULL &&
           *(const int *)const_member_at(run_item(run, i), run->items->status) != BIDE_OK;
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
               ? size_at(op, first->aux[0])
               : 0;
}

int *bi_op_args_item_status(bide_op *op, size_t i)
{
    const struct field *list = bi_op_row(op)->args->fields;
    assert(i < bi_op_args_item_count(op));
    char *item = (char *)pointer_at(op, list->at) + i * list->layout->size;
    return member_at(item, list->layout->status);
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
    assert(copy->bytes == NULL || (at & 15) == 0);
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

    const struct layout *args = bi_op_row(op)->args;
    struct args_copy counted = {.count = 0};
    bi_op_codec_nested_dup_fields(&counted, args, op);
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
    bi_op_codec_nested_dup_fields(copy, args, op);
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
        assert(saved->original != NULL);
        if (saved->member == NULL)
            bide_buf_unref(saved->original);
        else
            set_pointer(saved->member, 0, saved->original);
    }

    op->private_.args_dup = NULL;
    free(copy);
    return true;
}

/* ---- payloads ---- */

static bool copy_slice(bide_op *op, bide_slice bytes, const bide_buf *given, bide_buf **copied_buf)
{
    *copied_buf = NULL;
    /* Counted in any case: the limit on pending bytes applies to buffers of the caller as
     * well. */
    op->private_.bytes += given != NULL ? bide_buf_size(given) : bytes.size;
    if (given != NULL)
        return true;

    op->private_.flags |= BI_PAYLOAD_COPIED;
    *copied_buf = bide_buf_new(bytes.data, bytes.size);
    return *copied_buf != NULL;
}

static int set_no_memory(bide_op *op)
{
    return bi_error_set_code(op->error, BIDE_ENOMEM);
}

/* Copies the body or the result of an item. A result may be missing, or not to be kept. */
static bool copy_body(bide_op *op, const struct field *field, void *item)
{
    const bide_slice *bytes = member_at(item, field->at);
    const bide_buf *given = pointer_at(item, field->aux[0]);
    const bool *keep = field->limit == 0 ? NULL : member_at(item, field->limit);

    set_pointer(item, field->aux[1], NULL);
    if (keep != NULL && (!*keep || (bytes->data == NULL && given == NULL)))
        return true;
    return copy_slice(op, *bytes, given, member_at(item, field->aux[1]));
}

/* An item without memory fails alone, except in a list that fails as a whole. */
static bool copy_bodies_of_items(bide_op *op, const struct run *run)
{
    struct bulk_errors errors;
    bi_bulk_begin(&errors, op);

    for (size_t i = 0; i < run->count; i++) {
        void *item = run_item(run, i);
        if (is_rejected(run, i)) {
            set_pointer(item, run->field->aux[1], NULL);
        } else if (!copy_body(op, run->field, item)) {
            *(int *)member_at(item, run->items->status) = set_no_memory(op);
            bi_bulk_record(&errors, op, i, BIDE_ENOMEM);
        }
    }
    bi_bulk_end(&errors, op);
    return errors.item == 0 || !bi_op_is(op, OP_ATOMIC);
}

static bool copy_restored(bide_op *op)
{
    const bide_job *job = op->restore.job;

    /* Cleared first: if the body cannot be copied, the cleanup frees both members. */
    op->restore.made_result_ = NULL;
    if (!copy_slice(op, (bide_slice){job->body, job->body_size}, NULL, &op->restore.made_body_))
        return false;
    return job->result == NULL || copy_slice(op, (bide_slice){job->result, job->result_size}, NULL,
                                             &op->restore.made_result_);
}

/* Copies the bodies or results of one field of the arguments. */
static bool copy_payload(bide_op *op, const struct field *field)
{
    if (field->codec == &bi_op_codec_field_body)
        return copy_body(op, field, op);
    if (field->codec == &bi_op_codec_field_restored)
        return copy_restored(op);
    if (field->codec != &bi_op_codec_field_struct && field->codec != &bi_op_codec_field_items)
        return true;

    const struct layout one = {.fields = field, .count = 1};
    struct run run = find_run(&one, op, &bi_op_codec_field_body);
    if (run.items != NULL)
        return copy_bodies_of_items(op, &run);
    return run.field == NULL || copy_body(op, run.field, run.base);
}

static bool copy_payloads(bide_op *op)
{
    const struct layout *args = bi_op_row(op)->args;
    bool copied = true;

    /* All of them, also after a failure: the members for copies must be valid. */
    for (size_t i = 0; i < args->count; i++)
        copied = copy_payload(op, &args->fields[i]) && copied;
    return copied;
}

/* Put options of another size, and their copy in our size. */
struct options_copy {
    const bide_put_options *given; /* NULL: no copy was necessary */
    bide_put_options options;
};

static bool copy_options(bide_op *op)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    char error[BIDE_ERROR_SIZE];
    struct run run = find_in_args(op, &bi_op_codec_field_pointed);
    assert(run.count > 0);
    struct options_copy *copies = calloc(run.count, sizeof(*copies));
    if (copies == NULL)
        return false;

    for (size_t i = 0; i < run.count; i++) {
        const bide_put_options **options = run_at(&run, i);
        if (is_rejected(&run, i) || *options == NULL || (*options)->size == sizeof(init))
            continue;

        copies[i] = (struct options_copy){*options, init};
        /* Cannot fail: the argument check has copied the same options before. */
        bi_sized_struct_copy(&copies[i].options, *options, "", error);
        *options = &copies[i].options;
    }

    op->private_.options = copies;
    op->private_.flags |= BI_COPY_OPTIONS;
    return true;
}

void bi_op_payload_restore_options(bide_op *op)
{
    if ((op->private_.flags & BI_COPY_OPTIONS) == 0)
        return;

    struct run run = find_in_args(op, &bi_op_codec_field_pointed);
    struct options_copy *copies = op->private_.options;
    for (size_t i = 0; i < run.count; i++)
        if (copies[i].given != NULL)
            set_pointer(run_at(&run, i), 0, copies[i].given);

    free(copies);
    op->private_.options = NULL;
    op->private_.flags &= ~BI_COPY_OPTIONS;
}

int bi_op_payload_copy(bide_op *op)
{
    assert(bi_op_is(op, OP_PAYLOAD));
    bool copied = copy_payloads(op);

    if (copied && (op->private_.flags & BI_OTHER_SIZE) != 0)
        copied = copy_options(op);
    return copied ? BIDE_OK : set_no_memory(op);
}

void bi_op_payload_free(bide_op *op)
{
    if ((op->private_.flags & BI_PAYLOAD_COPIED) != 0)
        bi_op_codec_nested_release_fields(bi_op_row(op)->args, op);
}
