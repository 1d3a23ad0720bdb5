/* SPDX-License-Identifier: MIT */
/*
 * verify - what the core believes to be stored, against what the store has: at any moment, also
 * while batches wait, are being stored, or only a part has been loaded.
 */
#include "model.h"

#include <stdlib.h>

/* An image that differs in one thing must be found out. */
static void check_other(struct sim *sim, const struct bi_image *stored)
{
    struct bi_image other = *stored;
    switch (rng_below(&sim->rng, 6)) {
    case 0:
        other.priority++;
        break;
    case 1:
        other.ttr++;
        break;
    case 2:
        other.body_size++;
        break;
    case 3:
        other.id = BIDE_ID_MAX;
        break;
    case 4:
        other.state = stored->state == BIDE_STATE_BURIED ? BIDE_STATE_DONE : BIDE_STATE_BURIED;
        break;
    default:
        sim_copy_name(other.topic, stored->topic[0] == 'a' ? 1 : 0);
        break;
    }
    expect_true(sim, bi_verify_job(sim->core, &other) != NULL, "a difference was not found");
}

static void compare_job(struct sim *sim, const struct bi_image *stored)
{
    struct bi_image image = *stored;
    if (image.plain)
        sim_scribble(sim, &image);
    const char *differs = bi_verify_job(sim->core, &image);
    if (differs != NULL)
        sim_fail(sim, "job %llu is not as it is stored: %s", (unsigned long long)stored->id,
                 differs);
    expect_true(sim, bi_verify_is_stored(sim->core, stored->id), "a stored job should not be");
    if (rng_one_in(&sim->rng, 4))
        check_other(sim, stored);
}

static int by_id(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* The ids that the core would have the store have, in order. */
static size_t list_ids(struct sim *sim, uint64_t **ids)
{
    size_t room = sim->store.count + 64 + 64;
    size_t count = 0;
    uint64_t place = 0;
    bool end = false;
    *ids = calloc(room, sizeof **ids);
    if (*ids == NULL)
        abort();
    while (!end) {
        size_t most = 64 + rng_below(&sim->rng, 64);
        if (count + most > room)
            sim_fail(sim, "the core lists more jobs than are stored");
        size_t got = bi_verify_stored_ids(sim->core, &place, *ids + count, most, &end);
        expect_true(sim, got <= most, "too many ids were listed");
        count += got;
    }
    qsort(*ids, count, sizeof **ids, by_id);
    return count;
}

/* Removed, but not yet stored so: then it need not be listed. */
static bool is_dead(const struct model *m, uint64_t id)
{
    for (size_t i = 0; i < m->dead_count; i++)
        if (m->dead[i]->id == id)
            return true;
    return false;
}

void sim_compare_store(struct sim *sim)
{
    uint64_t *ids;
    size_t at = 0;
    sim->what = "compare with the store";
    size_t count = list_ids(sim, &ids);
    for (size_t i = 0; i < sim->store.count; i++) {
        const struct bi_image *stored = &sim->store.jobs[i];
        if (!sim_load_has(sim, stored->id))
            continue;
        compare_job(sim, stored);
        if (at < count && ids[at] == stored->id)
            at++;
        else if (!is_dead(sim->model, stored->id))
            sim_fail(sim, "the core does not list job %llu, which is stored",
                     (unsigned long long)stored->id);
    }
    expect(sim, "stored jobs", (int64_t)at, (int64_t)count);
    for (size_t i = 0; i < sim->model->count; i++) {
        uint64_t id = sim->model->jobs[i]->id;
        if (sim_store_find(&sim->store, id) == NULL)
            expect_true(sim, !bi_verify_is_stored(sim->core, id),
                        "a job should be stored too early");
    }
    free(ids);
}
