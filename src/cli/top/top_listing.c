/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include <stdlib.h>
#include <string.h>

/* A call looks at 10,000 jobs at most, so that pages may be empty; at some point it is enough. */
#define PAGES_MAX 100

static void request_page(struct top *top);
static void start_load(struct top *top);

bool bi_top_listing_init(struct listing *listing)
{
    listing->rows = calloc(BI_TOP_LISTING_MAX, sizeof(struct job_row));
    listing->incoming = calloc(BI_TOP_LISTING_MAX, sizeof(struct job_row));
    return listing->rows != NULL && listing->incoming != NULL;
}

void bi_top_listing_free(struct listing *listing)
{
    free(listing->rows);
    free(listing->incoming);
}

const struct job_row *bi_top_listing_selected(const struct listing *listing)
{
    return listing->selected < listing->count ? &listing->rows[listing->selected] : NULL;
}

/* ---- what has come ---- */

static void finish_load(struct top *top, const char *error)
{
    struct listing *listing = &top->listing;
    listing->busy = false;
    top->needs_redraw = true;
    if (listing->stale) {
        start_load(top);
        return;
    }
    snprintf(listing->error, sizeof(listing->error), "%s", error);
}

/* The cursor stays on its job, wherever that is now. */
static void restore_selection(struct listing *listing, uint64_t id)
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

static void publish_rows(struct top *top)
{
    struct listing *listing = &top->listing;
    if (!listing->stale) {
        const struct job_row *selected = bi_top_listing_selected(listing);
        uint64_t id = selected == NULL ? 0 : selected->id;
        struct job_row *before = listing->rows;
        listing->rows = listing->incoming;
        listing->incoming = before;
        listing->count = listing->incoming_count;
        listing->loaded = true;
        restore_selection(listing, id);
    }
    finish_load(top, "");
}

static void add_row(struct listing *listing, bide_job *job)
{
    if (listing->incoming_count < BI_TOP_LISTING_MAX)
        listing->incoming[listing->incoming_count++] = (struct job_row){
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

static void on_page(struct top_request *request)
{
    struct listing *listing = &request->top->listing;
    if (request->op.status != BIDE_OK) {
        finish_load(request->top, bi_top_request_error(request));
        return;
    }
    for (size_t i = 0; i < request->op.list.count; i++)
        add_row(listing, &listing->jobs[i]);
    bool ended = listing->cursor[0] == 0;
    if (!ended && !listing->stale && listing->incoming_count < listing->wanted &&
        ++listing->pages < PAGES_MAX) {
        request_page(request->top);
        return;
    }
    listing->has_more = !ended;
    publish_rows(request->top);
}

/* A plain beanstalkd has no lists, but shows the first job of most states. */
static void on_first(struct top_request *request)
{
    struct listing *listing = &request->top->listing;
    int status = request->op.status;
    if (status == BIDE_OK)
        add_row(listing, &listing->jobs[0]);
    listing->has_more = false;
    if (status == BIDE_OK || status == BIDE_NOT_FOUND)
        publish_rows(request->top);
    else
        finish_load(request->top, bi_top_request_error(request));
}

/* ---- asking ---- */

static void request_page(struct top *top)
{
    struct listing *listing = &top->listing;
    bide_slice topic = {listing->topic, strlen(listing->topic)};
    listing->request.op = (bide_op){
        .kind = BIDE_OP_LIST,
        .list = {.topic = topic,
                 .state = listing->state,
                 .cursor = listing->cursor,
                 .jobs = listing->jobs,
                 .job_max = BI_TOP_LISTING_PAGE},
    };
    bi_top_request_send(&listing->request, top, on_page);
}

static void request_first(struct top *top)
{
    struct listing *listing = &top->listing;
    bide_slice topic = {listing->topic, strlen(listing->topic)};
    listing->request.op = (bide_op){
        .kind = BIDE_OP_PEEK_FIRST,
        .query = {.topic = topic, .state = listing->state, .job = &listing->jobs[0]},
    };
    bi_top_request_send(&listing->request, top, on_first);
}

static void start_load(struct top *top)
{
    struct listing *listing = &top->listing;
    listing->busy = true;
    listing->stale = false;
    listing->cursor[0] = 0;
    listing->incoming_count = 0;
    listing->pages = 0;
    if (top->plain)
        request_first(top);
    else
        request_page(top);
}

void bi_top_listing_refresh(struct top *top)
{
    struct listing *listing = &top->listing;
    if (!listing->busy && !top->quit)
        start_load(top);
}

void bi_top_listing_show(struct top *top, const char *topic, bide_state state)
{
    struct listing *listing = &top->listing;
    memmove(listing->topic, topic, strlen(topic) + 1);
    listing->state = state;
    listing->count = 0;
    listing->selected = 0;
    listing->first = 0;
    listing->loaded = false;
    listing->has_more = false;
    listing->error[0] = 0;
    listing->wanted = BI_TOP_LISTING_PAGE;
    listing->stale = listing->busy;
    bi_top_listing_refresh(top);
}
