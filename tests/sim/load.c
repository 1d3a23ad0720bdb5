/* SPDX-License-Identifier: MIT */
/*
 * load - a crash or an orderly end, and how what was stored comes back: at once, or in the
 * background.
 *
 * In the background rows are read in slices, in the order of ids, and loaded some time later, with
 * other steps in between. An op that names a job which has not come yet has it loaded first; then
 * the row in hand is out of date and must not be loaded again. Ops that need to know everything are
 * not run until the end.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* Another boot: both clocks show something else. */
static void reboot_clock(struct sim *sim)
{
    static const int64_t longest[] = {10000, 20000000, INT64_C(86400000000)};
    int64_t off = rng_range(&sim->rng, 0, longest[rng_below(&sim->rng, 3)]);
    sim->now.wall += rng_one_in(&sim->rng, 4) ? -off : off;
    if (rng_one_in(&sim->rng, 2))
        sim->now.mono += off;
    else
        sim->now.mono = rng_range(&sim->rng, 0, 100000000);
    sim_clock_round(sim);
}

void sim_new_core(struct sim *sim)
{
    sim->options.next_id = sim->store.next_id;
    sim->options.next_token = sim->store.next_token;
    sim->options.lease_from = sim->store.lease_from;
    sim->options.keep_leases = sim->options.journal && rng_one_in(&sim->rng, 2);
    if (sim->alloc_fails)
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 10), 1);
    sim->core = bi_core_new(&sim->options, sim->now);
    if (sim->alloc_fails && sim_alloc_disarm(&sim->alloc) && sim->core == NULL)
        expect(sim, "blocks of memory not freed", 0, sim->alloc.blocks);
    if (sim->core == NULL)
        sim->core = bi_core_new(&sim->options, sim->now);
    expect_true(sim, sim->core != NULL, "no core could be made");
    model_reset(sim->model, sim->options.next_id, sim->options.next_token);
    sim->memory = sim_memory(sim);
}

void sim_scribble(struct sim *sim, struct bi_image *image)
{
    image->max_retries = (int32_t)rng_range(&sim->rng, BIDE_NO_RETRY_LIMIT, 3);
    image->failures = (uint32_t)rng_below(&sim->rng, 3);
    image->expires_at = rng_range(&sim->rng, 0, 1);
    image->retain = rng_range(&sim->rng, 0, 1000);
    image->reserves = image->kicks = (uint32_t)rng_below(&sim->rng, 3);
    image->ready = image->reserved = image->buried = rng_range(&sim->rng, 0, 1);
}

static void load_job(struct sim *sim, const struct bi_image *stored)
{
    struct bi_image image = *stored;
    if (sim_has_cache(sim) && rng_one_in(&sim->rng, 2))
        image.body = NULL;
    if (image.plain)
        sim_scribble(sim, &image);
    if (sim->alloc_fails && rng_one_in(&sim->rng, 8))
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 4), 1);
    int code = bi_load_job(sim->core, &image, sim->now);
    if (sim_alloc_disarm(&sim->alloc) && code == BIDE_ENOMEM) {
        model_resync(sim->model);
        code = bi_load_job(sim->core, &image, sim->now);
    }
    sim->alloc.failed = 0;
    expect_code(sim, "load", BIDE_OK, code);
    image.body = stored->body;
    model_load(sim->model, &image);
    if (rng_one_in(&sim->rng, 16) && bi_job_exists(sim->core, image.id))
        expect_code(sim, "load again", BIDE_EINVAL, bi_load_job(sim->core, &image, sim->now));
}

static void load_topics(struct sim *sim)
{
    for (int name = 0; name < SIM_NAMES; name++) {
        struct bi_image image = {.due = sim->store.pauses[name], .body = sim->store.policies[name]};
        if (image.due == 0 && image.body == NULL)
            continue;
        sim_copy_name(image.topic, name);
        expect_code(sim, "load_topic", BIDE_OK, bi_load_topic(sim->core, &image, sim->now));
        model_load_topic(sim->model, name, image.due, image.body);
    }
}

/* ---- which jobs have come ---- */

static bool is_early(const struct sim_loading *loading, uint64_t id)
{
    for (size_t i = 0; i < loading->early_count; i++)
        if (loading->early[i] == id)
            return true;
    return false;
}

bool sim_load_has(const struct sim *sim, uint64_t id)
{
    const struct sim_loading *loading = &sim->loading;
    return loading->phase != LOADING || id <= loading->after || id >= loading->below ||
           is_early(loading, id);
}

static void learn(struct sim *sim)
{
    sim_serve(sim);
    model_learn_delays(sim->model);
    sim_check_completions(sim);
}

/* Loads a job before its turn. */
static void load_early(struct sim *sim, uint64_t id)
{
    struct sim_loading *loading = &sim->loading;
    if (sim_load_has(sim, id))
        return;
    const struct bi_image *stored = sim_store_find(&sim->store, id);
    expect_true(sim, !bi_job_exists(sim->core, id), "a job is there that was not loaded");
    if (stored != NULL)
        load_job(sim, stored);
    loading->early =
        sim_grow(loading->early, loading->early_count, &loading->early_room, sizeof(uint64_t));
    loading->early[loading->early_count++] = id;
    learn(sim);
}

void sim_load_named(struct sim *sim, const struct sim_op *sop)
{
    const bide_op *op = &sop->op;
    if (sim->loading.phase != LOADING)
        return;
    switch (op->kind) {
    case BIDE_OP_FINISH_MANY:
        for (size_t i = 0; i < op->finish_many.count; i++)
            load_early(sim, op->finish_many.items[i].id);
        break;
    case BIDE_OP_TOUCH_MANY:
        for (size_t i = 0; i < op->touch_many.count; i++)
            load_early(sim, op->touch_many.items[i].id);
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        load_early(sim, op->finish_and_reserve.finish.id);
        break;
    case BIDE_OP_FINISH_AND_PUT:
        load_early(sim, op->finish_and_put.finish.id);
        break;
    case BIDE_OP_PUT:
    case BIDE_OP_PUT_MANY:
    case BIDE_OP_RESTORE:
    case BIDE_OP_RESERVE:
    case BIDE_OP_PAUSE:
    case BIDE_OP_TOPIC_REF:
    case BIDE_OP_SUBSCRIBE:
    case BIDE_OP_EVENTS:
    case BIDE_OP_UNSUBSCRIBE:
    case BIDE_OP_PING:
    case BIDE_OP_DRAIN:
    case BIDE_OP_RECOVERED:
    case BIDE_OP_TOPIC_SET:
    case BIDE_OP_TOPIC_GET:
        break;
    default: /* in all others the id comes first */
        load_early(sim, op->lease.id);
        break;
    }
}

static bool has_key(const bide_put_item *item)
{
    return item->options != NULL && item->options->key.size != 0;
}

static bool have_keys(const bide_put_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (has_key(&items[i]))
            return true;
    return false;
}

bool sim_must_wait(const struct sim *sim, const struct sim_op *sop)
{
    const bide_op *op = &sop->op;
    bool limited = bi_load_has_job_limits(sim->core);
    if (sim->loading.phase == LOADED)
        return false;
    switch (op->kind) {
    case BIDE_OP_KICK:
    case BIDE_OP_PURGE:
    case BIDE_OP_LIST:
    case BIDE_OP_FIND:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_TOPICS:
    case BIDE_OP_STATS:
    case BIDE_OP_TOPIC_STATS:
    case BIDE_OP_WAITING:
    case BIDE_OP_WHY:
    case BIDE_OP_RESUME:
        return true;
    case BIDE_OP_PUT:
        return limited || has_key(&op->put);
    case BIDE_OP_PUT_MANY:
        return limited || have_keys(op->put_many.items, op->put_many.count);
    case BIDE_OP_FINISH_AND_PUT:
        return limited || have_keys(op->finish_and_put.items, op->finish_and_put.count);
    case BIDE_OP_RESTORE:
        return limited || op->restore.job->key_size != 0;
    case BIDE_OP_UPDATE:
        return op->update.topic.size != 0;
    default:
        return false;
    }
}

/* ---- rows in hand ---- */

static void drop_rows(struct sim_loading *loading)
{
    for (size_t i = loading->row; i < loading->row_count; i++)
        bi_image_unref(&loading->rows[i]);
    loading->row = loading->row_count = 0;
}

/* Takes copies of the next rows; false at the end. */
static bool read_rows(struct sim *sim)
{
    struct sim_loading *loading = &sim->loading;
    size_t most = 1 + rng_below(&sim->rng, SIM_ROWS);
    loading->row = loading->row_count = 0;
    for (size_t i = 0; i < sim->store.count && loading->row_count < most; i++) {
        const struct bi_image *image = &sim->store.jobs[i];
        if (image->id <= loading->after || image->id >= loading->below)
            continue;
        bi_image_ref(image);
        loading->rows[loading->row_count++] = *image;
    }
    return loading->row_count != 0;
}

static void load_row(struct sim *sim, const struct bi_image *row)
{
    struct sim_loading *loading = &sim->loading;
    if (!sim_load_has(sim, row->id))
        load_job(sim, row);
    loading->after = row->id;
}

/* Some rows are loaded, or the next ones read. */
static void load_some(struct sim *sim)
{
    struct sim_loading *loading = &sim->loading;
    if (loading->row == loading->row_count && !read_rows(sim)) {
        loading->phase = COLLECTING;
        return;
    }
    for (uint64_t left = rng_below(&sim->rng, 5); left > 0 && loading->row < loading->row_count;
         left--) {
        load_row(sim, &loading->rows[loading->row]);
        bi_image_unref(&loading->rows[loading->row++]);
    }
    learn(sim);
}

/* ---- order ---- */

static void collect_some(struct sim *sim)
{
    struct sim_loading *loading = &sim->loading;
    bool armed = sim->alloc_fails && rng_one_in(&sim->rng, 3);
    if (armed)
        sim_alloc_arm(&sim->alloc, 1, 1);
    bool more = bi_load_sort_collect(sim->core, &loading->ordering,
                                     1 + (unsigned)rng_below(&sim->rng, 400));
    bool failed = armed && sim_alloc_disarm(&sim->alloc);
    expect_true(sim, loading->ordering.failed == failed, "ordering failed though there was memory");
    if (failed) { /* from the beginning */
        bi_load_sort_done(sim->core, &loading->ordering);
        memset(&loading->ordering, 0, sizeof loading->ordering);
    } else if (!more) {
        bi_load_sort_sort(&loading->ordering);
        loading->phase = APPLYING;
    }
}

static void end_loading(struct sim *sim)
{
    struct sim_loading *loading = &sim->loading;
    bi_load_sort_done(sim->core, &loading->ordering);
    loading->phase = LOADED;
    loading->early_count = 0;
    expect_true(sim, !bi_core_retire_excess(sim->core, sim->now, UINT32_MAX),
                "results are left over");
    model_retire_all(sim->model);
    bi_core_end_recovery(sim->core, sim->now);
    model_recovered(sim->model);
    sim_check_completions(sim);
    sim_compare_all(sim);
}

static void load_a_little(struct sim *sim)
{
    struct sim_loading *loading = &sim->loading;
    sim->what = "load";
    if (loading->phase == LOADING)
        load_some(sim);
    else if (loading->phase == COLLECTING)
        collect_some(sim);
    else if (!bi_load_sort_apply(sim->core, &loading->ordering,
                                 1 + (unsigned)rng_below(&sim->rng, 20)))
        end_loading(sim);
}

/* While loading goes on, everything but the order of lists must be right. */
static void check_partly(struct sim *sim)
{
    const char *broken = core_check_all(sim->core);
    if (broken != NULL && strcmp(broken, "a list is out of order") != 0)
        sim_fail(sim, "%s", broken);
}

/* A result more: there may be too many of them until all have come. */
static void add_result(struct sim *sim)
{
    struct sim_op *sop = sim_op_get(sim, BIDE_OP_RESTORE);
    sim_gen_restore_as(sim, sop, sim_pick_name(sim), BIDE_STATE_DONE);
    sop->restored.key = NULL;
    sop->restored.key_size = 0;
    if (sim_must_wait(sim, sop))
        sim_op_put(sim, sop);
    else
        sim_do(sim, sop);
}

void sim_load_step(struct sim *sim)
{
    if (sim->loading.phase == LOADED || !rng_one_in(&sim->rng, 5))
        return;
    if (rng_one_in(&sim->rng, 4))
        add_result(sim);
    load_a_little(sim);
    if (rng_one_in(&sim->rng, 8))
        check_partly(sim);
}

void sim_load_rest(struct sim *sim)
{
    while (sim->loading.phase != LOADED)
        load_a_little(sim);
}

void sim_load_drop(struct sim *sim)
{
    drop_rows(&sim->loading);
    bi_load_sort_done(sim->core, &sim->loading.ordering);
    free(sim->loading.early);
    memset(&sim->loading, 0, sizeof sim->loading);
}

uint64_t sim_load_pick(struct sim *sim)
{
    if (sim->loading.phase != LOADING || sim->store.count == 0)
        return 0;
    return sim->store.jobs[rng_below(&sim->rng, sim->store.count)].id;
}

/* ---- the end, and the next beginning ---- */

static void crash(struct sim *sim)
{
    sim->what = "crash";
    sim_trace(sim, NULL, BIDE_OK);
    if (sim->batch_open && rng_one_in(&sim->rng, 2))
        sim_store_apply(&sim->store, &sim->batch);
    sim_close(sim);
}

void sim_restart(struct sim *sim)
{
    if (rng_one_in(&sim->rng, 3))
        sim_stop(sim);
    else
        crash(sim);
    sim->what = "load";
    reboot_clock(sim);
    sim->options.recovering = true;
    sim_new_core(sim);
    expect_true(sim, sim->store.next_id > sim->model->replied_id,
                "after a restart an id would be given again");
    model_begin_load(sim->model, &sim->store);
    load_topics(sim);
    sim->loading.phase = LOADING;
    sim->loading.below = sim->store.next_id;
    bi_load_expect(sim->core, sim->store.count);
    if (rng_one_in(&sim->rng, 3))
        sim_load_rest(sim);
    sim_tick(sim);
}
