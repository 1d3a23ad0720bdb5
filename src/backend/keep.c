/* SPDX-License-Identifier: MIT */
#include "backend/keep.h"

#include <stdlib.h>
#include <string.h>

/* A pointer in the op, or in its items, and what it was. */
struct place {
    const void **pointer;
    const void *was;
};

struct kept {
    size_t count, room;
    struct place *places;
    char *bytes; /* the copies; NULL while they are only counted */
    size_t size;
};

/* Visits everything that the arguments of an op point to, twice: to count, and to copy. */
static void *visit(struct kept *kept, const void **pointer, size_t size)
{
    if (*pointer == NULL || size == 0)
        return NULL;
    size_t at = kept->size;
    kept->size += (size + 15) & ~(size_t)15;
    if (kept->bytes == NULL) {
        kept->count++;
        return NULL;
    }
    memcpy(kept->bytes + at, *pointer, size);
    kept->places[kept->count++] = (struct place){pointer, *pointer};
    *pointer = kept->bytes + at;
    return kept->bytes + at;
}

static void visit_slice(struct kept *kept, bide_slice *slice)
{
    visit(kept, &slice->data, slice->size);
}

/* The options are copied as a whole, and then the key that the copy names. */
static void visit_options(struct kept *kept, const bide_put_options **options)
{
    bide_put_options read;
    if (*options == NULL)
        return;
    read = **options;
    bide_put_options *copy = visit(kept, (const void **)options, sizeof(**options));
    visit_slice(kept, copy != NULL ? &copy->key : &read.key);
}

static void visit_put(struct kept *kept, bide_put_item *item)
{
    visit_slice(kept, &item->topic);
    visit_options(kept, &item->options);
}

static void visit_restore(struct kept *kept, bide_restore_args *args)
{
    bide_job read = *args->job;
    bide_job *copy = visit(kept, (const void **)&args->job, sizeof(*args->job));
    bide_job *job = copy != NULL ? copy : &read;
    visit(kept, &job->key, job->key_size);
    visit(kept, (const void **)&job->last_error, job->last_error_size);
    /* Body and result are in buffers of their own. */
}

static void visit_reserve(struct kept *kept, bide_reserve_args *args)
{
    const bide_slice *topics = args->topics;
    bide_slice *copy =
        visit(kept, (const void **)&args->topics, args->topic_count * sizeof(*topics));
    for (size_t i = 0; i < args->topic_count; i++) {
        bide_slice read = topics[i];
        visit_slice(kept, copy != NULL ? &copy[i] : &read);
    }
    visit(kept, (const void **)&args->weights, args->topic_count * sizeof(*args->weights));
}

static void visit_args(struct kept *kept, bide_op *op)
{
    switch (op->kind) {
    case BIDE_OP_PUT:
        visit_put(kept, &op->put);
        break;
    case BIDE_OP_PUT_MANY:
        for (size_t i = 0; i < op->put_many.count; i++)
            visit_put(kept, &op->put_many.items[i]);
        break;
    case BIDE_OP_RESTORE:
        visit_restore(kept, &op->restore);
        break;
    case BIDE_OP_TOUCH_MANY:
        for (size_t i = 0; i < op->touch_many.count; i++)
            visit_slice(kept, &op->touch_many.items[i].progress);
        break;
    case BIDE_OP_TOUCH:
        visit_slice(kept, &op->touch.progress);
        break;
    case BIDE_OP_FAIL:
        visit_slice(kept, &op->fail.error);
        break;
    case BIDE_OP_BURY:
        visit_slice(kept, &op->bury.reason);
        break;
    case BIDE_OP_UPDATE:
        visit_slice(kept, &op->update.topic);
        break;
    case BIDE_OP_KICK:
        visit_slice(kept, &op->kick.topic);
        break;
    case BIDE_OP_PURGE:
        visit_slice(kept, &op->purge.topic);
        break;
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
        visit_slice(kept, &op->look.topic);
        visit_slice(kept, &op->look.key);
        break;
    case BIDE_OP_LIST:
        visit_slice(kept, &op->list.topic);
        visit_slice(kept, &op->list.filter.key);
        visit_slice(kept, &op->list.filter.text);
        break;
    case BIDE_OP_PAUSE:
    case BIDE_OP_RESUME:
    case BIDE_OP_TOPIC_REF:
        visit_slice(kept, &op->topic.topic);
        break;
    case BIDE_OP_TOPIC_STATS:
        visit_slice(kept, &op->topic_stats.topic);
        break;
    case BIDE_OP_SUBSCRIBE:
        visit_slice(kept, &op->feed.topic);
        break;
    case BIDE_OP_RESERVE:
        visit_reserve(kept, &op->reserve);
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        visit_reserve(kept, &op->finish_and_reserve.reserve);
        break;
    case BIDE_OP_BACKUP:
        visit(kept, (const void **)&op->backup.path, strlen(op->backup.path) + 1);
        break;
    default:
        break;
    }
}

/* ---- bodies and results that the caller brought as buffers ---- */

/* Takes or gives back a reference to each; answers how many there are. */
static size_t each_buf(bide_op *op, void (*visit_buf)(bide_buf *))
{
    size_t count = 0;
    if (op->kind == BIDE_OP_PUT_MANY || op->kind == BIDE_OP_FINISH_MANY) {
        bool puts = op->kind == BIDE_OP_PUT_MANY;
        size_t items = puts ? op->put_many.count : op->finish_many.count;
        for (size_t i = 0; i < items; i++) {
            bide_buf *buf = puts ? op->put_many.items[i].buf : op->finish_many.items[i].buf;
            count += buf != NULL;
            visit_buf(buf);
        }
        return count;
    }
    bide_buf *buf = op->kind == BIDE_OP_PUT                  ? op->put.buf
                    : op->kind == BIDE_OP_DONE               ? op->finish.buf
                    : op->kind == BIDE_OP_FINISH_AND_RESERVE ? op->finish_and_reserve.finish.buf
                                                             : NULL;
    visit_buf(buf);
    return buf != NULL;
}

static void count_buf(bide_buf *buf)
{
    (void)buf;
}

static void take_buf(bide_buf *buf)
{
    bide_buf_ref(buf);
}

int bi_keep(bide_op *op)
{
    if (op->private_.wake != NULL || op->private_.kept != NULL)
        return BIDE_OK;
    struct kept counted = {.count = 0};
    visit_args(&counted, op);
    if (counted.count == 0 && each_buf(op, count_buf) == 0)
        return BIDE_OK;
    size_t places = counted.count * sizeof(struct place);
    struct kept *kept = malloc(sizeof(*kept) + places + counted.size);
    if (kept == NULL)
        return BIDE_ENOMEM;
    kept->count = 0;
    kept->room = counted.count;
    kept->size = 0;
    kept->places = (struct place *)(void *)(kept + 1);
    kept->bytes = (char *)kept->places + places;
    visit_args(kept, op);
    each_buf(op, take_buf);
    op->private_.kept = kept;
    return BIDE_OK;
}

bool bi_keep_end(bide_op *op)
{
    struct kept *kept = op->private_.kept;
    if (kept == NULL)
        return false;
    each_buf(op, bide_buf_unref);
    while (kept->count > 0) {
        const struct place *place = &kept->places[--kept->count];
        *place->pointer = place->was;
    }
    op->private_.kept = NULL;
    free(kept);
    return true;
}
