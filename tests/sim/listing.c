/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define MOST_JOBS  4096
#define MOST_PAGES 100000

/*
 * A listing in pages. Whoever matches from the first page to the last must come exactly once;
 * jobs that change meanwhile may be listed any number of times, but only while they match.
 */
struct listing {
    bide_op_kind kind; /* list, topics or waiting */
    char cursor[BIDE_CURSOR_SIZE];
    int name; /* -1: all */
    bide_state state;
    bide_filter filter;
    char text[4];
    bool with_body;
    uint64_t began; /* a sequence number */
    unsigned pages;
    uint64_t wanted[MOST_JOBS];
    size_t wanted_count;
    uint64_t seen[MOST_JOBS];
    size_t seen_count;
    bool seen_name[SIM_NAMES];
    uint64_t largest; /* id that was listed */
};

/* ---- what matches ---- */

static bool has_text(const struct mjob *job, bide_slice text)
{
    return text.size == 0 || memmem(job->body.bytes, job->body.size, text.data, text.size) != NULL;
}

static bool matches(const struct sim *sim, const struct listing *listing, const struct mjob *job,
                    bool with_text)
{
    const bide_filter *filter = &listing->filter;
    int64_t age = sim->now.mono > job->created ? sim->now.mono - job->created : 0;
    if (listing->name >= 0 && job->name != listing->name)
        return false;
    if (listing->state != BIDE_STATE_GONE && job->state != listing->state)
        return false;
    if (listing->state == BIDE_STATE_GONE && filter->states != 0 &&
        (filter->states & 1u << job->state) == 0)
        return false;
    if (job->id <= filter->after_id)
        return false;
    if (filter->key.size != 0 && job->key != sim_key_of(filter->key))
        return false;
    if (age < filter->min_age_ms * US_PER_MS)
        return false;
    if (filter->max_age_ms != 0 && age > filter->max_age_ms * US_PER_MS)
        return false;
    return !with_text || has_text(job, filter->text);
}

/* The number of times that an id was listed. */
static size_t times_seen(const struct listing *listing, uint64_t id)
{
    size_t times = 0;
    for (size_t i = 0; i < listing->seen_count; i++)
        times += listing->seen[i] == id;
    return times;
}

/* Keeps those wanted that still match and have not changed since the beginning. With a state
 * only that state counts; otherwise the job need only be there. */
static void prune(struct sim *sim, struct listing *listing)
{
    size_t kept = 0;
    for (size_t i = 0; i < listing->wanted_count; i++) {
        const struct mjob *job = model_find(sim->model, listing->wanted[i]);
        bool changed = job != NULL && job->changed > listing->began;
        if (job != NULL && !changed && matches(sim, listing, job, true))
            listing->wanted[kept++] = listing->wanted[i];
    }
    listing->wanted_count = kept;
}

/* ---- jobs ---- */

static void see_job(struct sim *sim, struct listing *listing, const bide_job *got, bool with_body)
{
    struct mjob *job = model_find(sim->model, got->id);
    bool lacks = got->body == NULL && got->body_size > 0 && with_body; /* so is its text */
    if (job == NULL || !matches(sim, listing, job, !lacks))
        sim_fail(sim, "job %llu was listed and does not match", (unsigned long long)got->id);
    model_compare_job(sim->model, job, got, 0, with_body);
    if (job->changed <= listing->began && times_seen(listing, job->id) != 0)
        sim_fail(sim, "job %llu was listed twice", (unsigned long long)job->id);
}

static void note_seen(struct listing *listing, uint64_t id)
{
    if (listing->seen_count < MOST_JOBS)
        listing->seen[listing->seen_count++] = id;
}

/* What could not be searched is not listed. */
static void excuse(struct listing *listing, uint64_t id)
{
    size_t kept = 0;
    for (size_t i = 0; i < listing->wanted_count; i++)
        if (listing->wanted[i] != id)
            listing->wanted[kept++] = listing->wanted[i];
    listing->wanted_count = kept;
}

/* ---- pages whose bodies must be read ---- */

/* A page before and after its bodies came. */
struct late_page {
    struct bi_body bodies[SIM_PAGE];
    size_t body_count;
    uint64_t ids[SIM_PAGE]; /* that must remain, and their bodies */
    bide_buf *kept[SIM_PAGE];
    bool unreadable[SIM_PAGE];
    size_t count;
};

static void read_page(struct sim *sim, const bide_op *op, struct late_page *late)
{
    late->body_count = bi_body_fetch_missing(op, 0, late->bodies, SIM_PAGE);
    for (size_t i = 0; i < late->body_count; i++) {
        struct bi_body *body = &late->bodies[i];
        const struct bi_image *image = sim_store_find(&sim->store, body->id);
        expect_true(sim, image != NULL, "a body is neither in memory nor in the store");
        bool readable = sim->eager || !rng_one_in(&sim->rng, 8);
        body->body = readable ? bide_buf_ref(image->body) : NULL;
        body->reason = readable ? NULL : "checksum";
    }
}

/* Which jobs must remain: those with the text, and without one those that cannot be read, too. */
static void expect_page(struct sim *sim, struct listing *listing, const bide_op *op,
                        struct late_page *late)
{
    bide_slice text = listing->filter.text;
    const struct bi_body *body = late->bodies;
    for (size_t i = 0; i < op->list.count; i++) {
        const bide_job *job = &sim->page[i];
        bool lacks = job->body == NULL && job->body_size > 0;
        const struct bi_body *own = lacks ? body++ : NULL;
        if (own != NULL && text.size != 0 && own->body == NULL)
            excuse(listing, job->id);
        if (own != NULL && text.size != 0 &&
            (own->body == NULL || memmem(bide_buf_data(own->body), bide_buf_size(own->body),
                                         text.data, text.size) == NULL))
            continue;
        late->ids[late->count] = job->id;
        late->unreadable[late->count] = own != NULL && own->body == NULL;
        late->kept[late->count++] = own != NULL ? own->body : NULL;
    }
    expect_true(sim, body == late->bodies + late->body_count, "other bodies are lacking");
}

/* What cannot be read because it has gone meanwhile is not listed. */
static void drop_gone(struct sim *sim, struct listing *listing, struct late_page *late)
{
    size_t kept = 0;
    for (size_t i = 0; i < late->count; i++) {
        if (late->unreadable[i] && model_find(sim->model, late->ids[i]) == NULL) {
            excuse(listing, late->ids[i]);
            continue;
        }
        late->ids[kept] = late->ids[i];
        late->kept[kept++] = late->kept[i];
    }
    late->count = kept;
}

static void check_late(struct sim *sim, struct listing *listing, const bide_op *op,
                       struct late_page *late)
{
    drop_gone(sim, listing, late);
    expect(sim, "jobs of the page", (int64_t)late->count, (int64_t)op->list.count);
    for (size_t i = 0; i < late->count; i++) {
        const bide_job *job = &sim->page[i];
        const bide_buf *body = late->kept[i];
        expect(sim, "job id", (int64_t)late->ids[i], (int64_t)job->id);
        if (!listing->with_body)
            expect_true(sim, job->body == NULL, "an unrequested body was returned");
        else if (body != NULL)
            expect_bytes(sim, "body", bide_buf_data(body), bide_buf_size(body), job->body,
                         job->body_size);
        note_seen(listing, job->id);
    }
}

static void finish_late(struct sim *sim, struct listing *listing, bide_op *op)
{
    struct late_page late = {.count = 0};
    read_page(sim, op, &late);
    expect_page(sim, listing, op, &late);
    sim->paging = true;
    for (uint64_t i = sim->eager ? 0 : rng_below(&sim->rng, 3); i > 0; i--)
        sim_interleave(sim);
    if (!sim->eager && rng_one_in(&sim->rng, 4))
        sim_end_job(sim, late.bodies[0].id);
    sim->paging = false;
    sim->what = "list";
    expect_code(sim, "supply", BIDE_OK, bi_body_fetch_supply(sim->core, op, late.bodies, sim->now));
    check_late(sim, listing, op, &late);
    for (size_t i = 0; i < late.body_count; i++)
        bide_buf_unref(late.bodies[i].body);
}

static void fill_list(struct sim *sim, struct listing *listing, bide_op *op)
{
    if (listing->name >= 0)
        op->list.topic = sim_slice(sim_names[listing->name]);
    op->list.state = listing->state;
    op->list.filter = listing->filter;
    op->list.with_body = listing->with_body;
    op->list.cursor = listing->cursor;
    op->list.jobs = sim->page;
    op->list.job_max = (size_t)rng_range(&sim->rng, 1, SIM_PAGE);
}

/* A page may exceed its bytes only with a single job. */
static void check_bytes(struct sim *sim, const struct listing *listing, const bide_op *op)
{
    uint64_t most = sim->options.limits.page_bytes;
    uint64_t bytes = 0;
    bool with_body = listing->with_body || listing->filter.text.size != 0;
    for (size_t i = 0; i < op->list.count; i++)
        bytes += model_shown_size(model_find(sim->model, sim->page[i].id), with_body);
    expect_true(sim, most == 0 || op->list.count <= 1 || bytes <= most,
                "a page shows too many bytes");
}

static void jobs_page(struct sim *sim, struct listing *listing, bide_op *op)
{
    fill_list(sim, listing, op);
    sim->model->now = sim->now;
    expect_code(sim, "list", BIDE_OK, bi_core_run(sim->core, op, sim->now));
    expect_true(sim, op->list.count <= op->list.job_max, "a page has too many jobs");
    bool late = (op->private_.flags & BI_BODY_MISSING) != 0;
    /* Bodies that are to be searched are there until all of them have come. */
    bool with_body = listing->with_body || (late && listing->filter.text.size != 0);
    sim->model->lacking = false;
    for (size_t i = 0; i < op->list.count; i++) {
        expect_true(sim, !op->list.ordered || sim->page[i].id > listing->largest,
                    "a page says that it is in the order of ids and is not");
        if (sim->page[i].id > listing->largest)
            listing->largest = sim->page[i].id;
        see_job(sim, listing, &sim->page[i], with_body);
        if (!late)
            note_seen(listing, sim->page[i].id);
    }
    expect(sim, "lacks bodies", sim->model->lacking, late);
    check_bytes(sim, listing, op);
    prune(sim, listing);
    if (late)
        finish_late(sim, listing, op);
    for (size_t i = 0; i < op->list.count; i++)
        bide_job_clear(&sim->page[i]);
}

static void jobs_end(struct sim *sim, struct listing *listing)
{
    for (size_t i = 0; i < listing->wanted_count; i++)
        if (times_seen(listing, listing->wanted[i]) != 1)
            sim_fail(sim, "job %llu matched the whole time and was listed %zu times",
                     (unsigned long long)listing->wanted[i],
                     times_seen(listing, listing->wanted[i]));
}

/* ---- topics ---- */

/* Has the topic been there, and waited for, since the listing began? */
static bool was_there(const struct sim *sim, const struct listing *listing, int name)
{
    const struct mtopic *topic = &sim->model->topics[name];
    if (!topic->exists || topic->born > listing->began)
        return false;
    return listing->kind == BIDE_OP_TOPICS ||
           (topic->waiting != 0 && topic->waited_since <= listing->began);
}

static void see_topic(struct sim *sim, struct listing *listing, const bide_topic_stats *got)
{
    int name = sim_name_of(sim_slice(got->name));
    expect_true(sim, name >= 0 && sim->model->topics[name].exists,
                "a topic was listed that does not exist");
    model_compare_topic(sim->model, name, got);
    if (listing->kind == BIDE_OP_WAITING)
        expect_true(sim, got->waiting != 0, "a topic without waiting calls was listed");
    if (was_there(sim, listing, name) && listing->seen_name[name])
        sim_fail(sim, "topic %s was listed twice", sim_names[name]);
    listing->seen_name[name] = true;
}

static void topics_page(struct sim *sim, struct listing *listing, bide_op *op)
{
    op->topics.cursor = listing->cursor;
    op->topics.topics = sim->topic_page;
    op->topics.topic_max = (size_t)rng_range(&sim->rng, 1, 5);
    sim->model->now = sim->now;
    expect_code(sim, "topics", BIDE_OK, bi_core_run(sim->core, op, sim->now));
    expect_true(sim, op->topics.count <= op->topics.topic_max, "a page has too many topics");
    for (size_t i = 0; i < op->topics.count; i++)
        see_topic(sim, listing, &sim->topic_page[i]);
}

static void topics_end(struct sim *sim, struct listing *listing)
{
    for (int name = 0; name < SIM_NAMES; name++)
        if (was_there(sim, listing, name) && !listing->seen_name[name])
            sim_fail(sim, "topic %s was not listed", sim_names[name]);
}

/* ---- pages ---- */

/* Often the age of some job. */
static int64_t pick_age(struct sim *sim)
{
    const struct model *m = sim->model;
    const struct mjob *job = m->count != 0 ? m->jobs[rng_below(&sim->rng, m->count)] : NULL;
    if (job == NULL || job->created > sim->now.mono || rng_one_in(&sim->rng, 3))
        return rng_range(&sim->rng, 0, 10000);
    int64_t age = (sim->now.mono - job->created) / US_PER_MS;
    return age < BIDE_TIME_MAX_MS ? age : 0;
}

static void pick_filter(struct sim *sim, struct listing *listing)
{
    struct rng *rng = &sim->rng;
    bide_filter *filter = &listing->filter;
    if (rng_one_in(rng, 4))
        filter->key = sim_slice(sim_keys[rng_below(rng, SIM_KEYS)]);
    if (rng_one_in(rng, 4)) {
        filter->text = sim_pick_text(sim, listing->text, 2);
        if (filter->text.size == 0)
            filter->text.data = NULL;
    }
    if (rng_one_in(rng, 4))
        filter->min_age_ms = pick_age(sim);
    if (rng_one_in(rng, 4))
        filter->max_age_ms = 1 + pick_age(sim);
    if (rng_one_in(rng, 4)) {
        filter->states = 1u << (1 + rng_below(rng, BIDE_STATE_DONE));
        filter->states |= 1u << (1 + rng_below(rng, BIDE_STATE_DONE));
    }
    if (rng_one_in(rng, 4) && sim->model->count > 0)
        filter->after_id = sim->model->jobs[rng_below(rng, sim->model->count)]->id;
}

static struct listing *begin(struct sim *sim)
{
    static const bide_op_kind kinds[] = {BIDE_OP_LIST, BIDE_OP_LIST, BIDE_OP_LIST, BIDE_OP_TOPICS,
                                         BIDE_OP_WAITING};
    struct listing *listing = calloc(1, sizeof *listing);
    if (listing == NULL)
        abort();
    listing->kind = kinds[rng_below(&sim->rng, 5)];
    listing->name = rng_one_in(&sim->rng, 2) ? -1 : sim_pick_name(sim);
    listing->state = (bide_state)rng_range(&sim->rng, BIDE_STATE_GONE, BIDE_STATE_DONE);
    listing->with_body = rng_one_in(&sim->rng, 2);
    if (rng_one_in(&sim->rng, 2))
        pick_filter(sim, listing);
    listing->began = sim->model->sequence;
    for (size_t i = 0; i < sim->model->count && i < MOST_JOBS; i++)
        listing->wanted[listing->wanted_count++] = sim->model->jobs[i]->id;
    return listing;
}

/* One page; true at the end. */
static bool page(struct sim *sim, struct listing *listing)
{
    bide_op op = {.kind = listing->kind};
    sim->what = bide_op_name(op.kind);
    if (op.kind == BIDE_OP_LIST)
        jobs_page(sim, listing, &op);
    else
        topics_page(sim, listing, &op);
    expect(sim, "hold of a listing", 0, (int64_t)op.private_.hold);
    model_settle(sim->model);
    sim_check_completions(sim);
    if (++listing->pages > MOST_PAGES)
        sim_fail(sim, "a listing does not end");
    if (listing->cursor[0] != '\0')
        return false;
    if (op.kind == BIDE_OP_LIST)
        jobs_end(sim, listing);
    else
        topics_end(sim, listing);
    return true;
}

void sim_listing_step(struct sim *sim)
{
    size_t at = rng_below(&sim->rng, SIM_LISTINGS);
    if (sim->listings[at] == NULL)
        sim->listings[at] = begin(sim);
    struct listing *listing = sim->listings[at];
    bool to_the_end = rng_one_in(&sim->rng, 4);
    bool ended = page(sim, listing);
    while (!ended && to_the_end)
        ended = page(sim, listing);
    if (!ended)
        return;
    free(listing);
    sim->listings[at] = NULL;
}

void sim_listing_drop_all(struct sim *sim)
{
    for (size_t i = 0; i < SIM_LISTINGS; i++) {
        free(sim->listings[i]);
        sim->listings[i] = NULL;
    }
}

/* Every job and every topic, once. */
void sim_list_everything(struct sim *sim)
{
    struct listing *jobs = begin(sim);
    jobs->kind = BIDE_OP_LIST;
    jobs->name = -1;
    jobs->state = BIDE_STATE_GONE;
    jobs->with_body = true;
    memset(&jobs->filter, 0, sizeof jobs->filter);
    struct listing *topics = begin(sim);
    topics->kind = BIDE_OP_TOPICS;
    while (!page(sim, jobs))
        continue;
    while (!page(sim, topics))
        continue;
    free(jobs);
    free(topics);
}
