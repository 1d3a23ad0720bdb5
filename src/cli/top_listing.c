/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include <stdlib.h>
#include <string.h>

/* A call looks at 10,000 jobs at most, so that pages may be empty; at some point it is enough. */
#define PAGES_MOST 100

static void ask_page(struct top *top);
static void begin(struct top *top);

bool bi_listing_init(struct listing *listing)
{
    listing->rows = calloc(BI_LISTING_MOST, sizeof(struct job_row));
    listing->coming = calloc(BI_LISTING_MOST, sizeof(struct job_row));
    return listing->rows != NULL && listing->coming != NULL;
}

void bi_listing_free(struct listing *listing)
{
    free(listing->rows);
    free(listing->coming);
}

const struct job_row *bi_listing_selected(const struct listing *listing)
{
    return listing->selected < listing->count ? &listing->rows[listing->selected] : NULL;
}

/* ---- what has come ---- */

static void end(struct top *top, const char *problem)
{
    struct listing *listing = &top->listing;
    listing->busy = false;
    top->changed = true;
    if (listing->stale) {
        begin(top);
        return;
    }
    snprintf(listing->problem, sizeof(listing->problem), "%s", problem);
}

/* The cursor stays on its job, wherever that is now. */
static void find_selected(struct listing *listing, uint64_t id)
{
    for (size_t i = 0; i < listing->count; i++) {
        if (listing->rows[i].id == id) {
            listing->selected = i;
            return;
        }
    }
    if (listing->selected >= listing->count)
        listing->selected = listing->count == 0 ? 0 : listing->count - 1;
}

static void take(struct top *top)
{
    struct listing *listing = &top->listing;
    if (!listing->stale) {
        const struct job_row *selected = bi_listing_selected(listing);
        uint64_t id = selected == NULL ? 0 : selected->id;
        struct job_row *before = listing->rows;
        listing->rows = listing->coming;
        listing->coming = before;
        listing->count = listing->coming_count;
        listing->loaded = true;
        find_selected(listing, id);
    }
    end(top, "");
}

static void add(struct listing *listing, bide_job *job)
{
    if (listing->coming_count < BI_LISTING_MOST)
        listing->coming[listing->coming_count++] = (struct job_row){
            .id = job->id,
            .priority = job->priority,
            .reserves = job->reserves,
            .fails = job->fails,
            .age_ms = job->age_ms,
            .left_ms = job->left_ms,
            .body_size = job->body_size,
        };
    bide_job_clear(job);
}

static void heard_page(struct ask *ask)
{
    struct listing *listing = &ask->top->listing;
    if (ask->op.status != BIDE_OK) {
        end(ask->top, bi_ask_sentence(ask));
        return;
    }
    for (size_t i = 0; i < ask->op.list.count; i++)
        add(listing, &listing->jobs[i]);
    bool ended = listing->cursor[0] == 0;
    if (!ended && !listing->stale && listing->coming_count < listing->wanted &&
        ++listing->pages < PAGES_MOST) {
        ask_page(ask->top);
        return;
    }
    listing->more = !ended;
    take(ask->top);
}

/* A plain beanstalkd has no lists, but shows the first job of most states. */
static void heard_first(struct ask *ask)
{
    struct listing *listing = &ask->top->listing;
    int status = ask->op.status;
    if (status == BIDE_OK)
        add(listing, &listing->jobs[0]);
    listing->more = false;
    if (status == BIDE_OK || status == BIDE_NOT_FOUND)
        take(ask->top);
    else
        end(ask->top, bi_ask_sentence(ask));
}

/* ---- asking ---- */

static void ask_page(struct top *top)
{
    struct listing *listing = &top->listing;
    bide_slice topic = {listing->topic, strlen(listing->topic)};
    listing->ask.op = (bide_op){
        .kind = BIDE_OP_LIST,
        .list = {.topic = topic,
                 .state = listing->state,
                 .cursor = listing->cursor,
                 .jobs = listing->jobs,
                 .job_max = BI_LISTING_PAGE},
    };
    bi_ask_send(&listing->ask, top, heard_page);
}

static void ask_first(struct top *top)
{
    struct listing *listing = &top->listing;
    bide_slice topic = {listing->topic, strlen(listing->topic)};
    listing->ask.op = (bide_op){
        .kind = BIDE_OP_PEEK_FIRST,
        .look = {.topic = topic, .state = listing->state, .job = &listing->jobs[0]},
    };
    bi_ask_send(&listing->ask, top, heard_first);
}

static void begin(struct top *top)
{
    struct listing *listing = &top->listing;
    listing->busy = true;
    listing->stale = false;
    listing->cursor[0] = 0;
    listing->coming_count = 0;
    listing->pages = 0;
    if (top->plain)
        ask_first(top);
    else
        ask_page(top);
}

void bi_listing_refresh(struct top *top)
{
    struct listing *listing = &top->listing;
    if (!listing->busy && !top->over)
        begin(top);
}

void bi_listing_show(struct top *top, const char *topic, bide_state state)
{
    struct listing *listing = &top->listing;
    memmove(listing->topic, topic, strlen(topic) + 1);
    listing->state = state;
    listing->count = 0;
    listing->selected = 0;
    listing->first = 0;
    listing->loaded = false;
    listing->more = false;
    listing->problem[0] = 0;
    listing->wanted = BI_LISTING_PAGE;
    listing->stale = listing->busy;
    bi_listing_refresh(top);
}
