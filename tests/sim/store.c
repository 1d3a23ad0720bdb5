/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>
#include <string.h>

static size_t place_of(const struct sim_store *store, uint64_t id)
{
    size_t first = 0;
    size_t end = store->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (store->jobs[middle].id < id)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

const struct bi_image *sim_store_find(const struct sim_store *store, uint64_t id)
{
    size_t at = place_of(store, id);
    return at < store->count && store->jobs[at].id == id ? &store->jobs[at] : NULL;
}

static void insert(struct sim_store *store, const struct bi_image *image)
{
    size_t at = place_of(store, image->id);
    store->jobs = sim_grow(store->jobs, store->count, &store->room, sizeof *image);
    memmove(&store->jobs[at + 1], &store->jobs[at], (store->count - at) * sizeof *image);
    store->jobs[at] = *image;
    store->count++;
    bi_image_ref(image);
}

static void update(struct sim_store *store, const struct bi_image *image)
{
    struct bi_image *stored = &store->jobs[place_of(store, image->id)];
    bide_buf *body = stored->body;
    bide_buf_ref(body);
    bi_image_unref(stored);
    bi_image_ref(image);
    *stored = *image;
    stored->body = body;
}

static void remove_job(struct sim_store *store, uint64_t id)
{
    size_t at = place_of(store, id);
    bi_image_unref(&store->jobs[at]);
    store->count--;
    memmove(&store->jobs[at], &store->jobs[at + 1], (store->count - at) * sizeof store->jobs[0]);
}

static void apply_topic(struct sim_store *store, const struct bi_image *image)
{
    int name = sim_name_of(sim_slice(image->topic));
    store->pauses[name] = image->due;
    bide_buf_unref(store->policies[name]);
    store->policies[name] = bide_buf_ref(image->body);
}

static void apply(struct sim_store *store, const struct bi_record *record)
{
    const struct bi_image *image = &record->image;
    switch (record->kind) {
    case BI_INSERT:
        insert(store, image);
        break;
    case BI_UPDATE:
        update(store, image);
        break;
    case BI_REMOVE:
        remove_job(store, image->id);
        break;
    case BI_TOPIC:
        apply_topic(store, image);
        break;
    }
}

void sim_store_apply(struct sim_store *store, const struct bi_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        apply(store, &batch->records[i]);
    store->next_id = batch->next_id;
    store->next_token = batch->next_token;
    store->lease_from = batch->lease_from;
}

void sim_store_done(struct sim_store *store)
{
    for (size_t i = 0; i < store->count; i++)
        bi_image_unref(&store->jobs[i]);
    for (int name = 0; name < SIM_NAMES; name++)
        bide_buf_unref(store->policies[name]);
    free(store->jobs);
    memset(store, 0, sizeof *store);
}
