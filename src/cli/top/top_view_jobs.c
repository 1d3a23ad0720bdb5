/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "cli/print.h"

#include <string.h>

static const bide_state states[] = {BIDE_STATE_READY, BIDE_STATE_RESERVED, BIDE_STATE_DELAYED,
                                    BIDE_STATE_BURIED, BIDE_STATE_DONE};
#define STATES (sizeof(states) / sizeof(states[0]))

/* ---- drawing ---- */

static void format_count(char *to, size_t size, const struct top *top, bide_state state)
{
    const struct top_topic *topic = bi_top_model_find(&top->model, top->listing.topic);
    char number[BI_TOP_FORMAT_SIZE] = "0";
    if (topic != NULL) {
        const bide_counts *jobs = &topic->now.jobs;
        const uint64_t counts[] = {[BIDE_STATE_DELAYED] = jobs->delayed,
                                   [BIDE_STATE_READY] = jobs->ready,
                                   [BIDE_STATE_RESERVED] = jobs->reserved,
                                   [BIDE_STATE_BURIED] = jobs->buried,
                                   [BIDE_STATE_DONE] = jobs->done};
        bi_top_format_count(number, counts[state]);
    }
    if (top->plain && state == BIDE_STATE_DONE)
        snprintf(number, sizeof(number), "-");
    snprintf(to, size, " %s %s ", bide_state_name(state), number);
}

/* The name of the topic, and the states as tabs. */
static void draw_tabs(struct top *top, int row)
{
    const struct top_topic *topic = bi_top_model_find(&top->model, top->listing.topic);
    char text[BIDE_TOPIC_MAX + 20];
    int column = 0;
    snprintf(text, sizeof(text), "topic %s%s", top->listing.topic,
             topic != NULL && topic->now.paused ? " (paused)" : "");
    bi_top_screen_draw(&top->screen, row, 0, top->screen.columns, STYLE_HEADING, text);
    for (size_t i = 0; i < STATES; i++) {
        format_count(text, sizeof(text), top, states[i]);
        int width = (int)strlen(text);
        bi_top_screen_draw(&top->screen, row + 1, column, width,
                           states[i] == top->listing.state ? STYLE_CURSOR : STYLE_PLAIN, text);
        column += width;
    }
}

static const char *left_heading(bide_state state)
{
    static const char *const heads[] = {[BIDE_STATE_DELAYED] = "DUE IN",
                                        [BIDE_STATE_READY] = "",
                                        [BIDE_STATE_RESERVED] = "LEASE",
                                        [BIDE_STATE_BURIED] = "",
                                        [BIDE_STATE_DONE] = "KEPT"};
    return heads[state];
}

/* The columns: where each begins, and how wide it is; the body has the rest. */
enum { AT_ID = 1, AT_PRIORITY = 14, AT_AGE = 22, AT_LEFT = 29, AT_FAILS = 36, AT_BODY = 43 };

static void draw_headings(struct top *top, int row)
{
    const struct screen *screen = &top->screen;
    bi_top_screen_draw(screen, row, 0, screen->columns, STYLE_COLUMN_HEADING, "");
    bi_top_screen_draw_right(screen, row, AT_ID, 12, STYLE_COLUMN_HEADING, "ID");
    bi_top_screen_draw_right(screen, row, AT_PRIORITY, 7, STYLE_COLUMN_HEADING, "PRI");
    bi_top_screen_draw_right(screen, row, AT_AGE, 6, STYLE_COLUMN_HEADING, "AGE");
    bi_top_screen_draw_right(screen, row, AT_LEFT, 6, STYLE_COLUMN_HEADING,
                             left_heading(top->listing.state));
    bi_top_screen_draw_right(screen, row, AT_FAILS, 5, STYLE_COLUMN_HEADING, "FAILS");
    bi_top_screen_draw(screen, row, AT_BODY, screen->columns - AT_BODY, STYLE_COLUMN_HEADING,
                       "BODY");
}

static void draw_body(struct top *top, int row, enum style style, const struct job_row *job)
{
    int width = top->screen.columns - AT_BODY;
    char text[4 * BI_TOP_EXCERPT_BYTES + 8] = "";
    if (width <= 0)
        return;
    const struct excerpt *excerpt = bi_top_excerpt_get(top, job->id, job->body_size);
    if (excerpt != NULL) {
        size_t most = (size_t)width < BI_TOP_EXCERPT_BYTES ? (size_t)width : BI_TOP_EXCERPT_BYTES;
        bi_print_excerpt(text, most, excerpt->bytes, excerpt->size);
    } else {
        char size[32];
        bi_print_size(size, job->body_size);
        snprintf(text, sizeof(text), "(%s)", size);
    }
    bi_top_screen_draw(&top->screen, row, AT_BODY, width, style, text);
}

static void draw_job(struct top *top, int row, const struct job_row *job, bool selected)
{
    const struct screen *screen = &top->screen;
    enum style style = selected ? STYLE_CURSOR : STYLE_PLAIN;
    char text[32];
    bi_top_screen_draw(screen, row, 0, screen->columns, style, "");
    snprintf(text, sizeof(text), "%llu", (unsigned long long)job->id);
    bi_top_screen_draw_right(screen, row, AT_ID, 12, style, text);
    if (job->priority < 10000000)
        snprintf(text, sizeof(text), "%u", job->priority);
    else
        bi_top_format_count(text, job->priority);
    bi_top_screen_draw_right(screen, row, AT_PRIORITY, 7, style, text);
    bi_top_format_age(text, job->age_ms);
    bi_top_screen_draw_right(screen, row, AT_AGE, 6, style, text);
    bi_top_format_age(text, job->left_ms);
    bi_top_screen_draw_right(screen, row, AT_LEFT, 6, style,
                             left_heading(top->listing.state)[0] == 0 ? "" : text);
    bi_top_format_count(text, job->fails);
    bi_top_screen_draw_right(screen, row, AT_FAILS, 5,
                             !selected && job->fails > 0 ? STYLE_BAD : style,
                             top->plain ? "-" : text);
    draw_body(top, row, style, job);
}

/* The line below the jobs: why there are none, or not all. */
static void draw_status(struct top *top, int row)
{
    const struct listing *listing = &top->listing;
    char text[BI_ERRMSG_SIZE] = "";
    if (listing->error[0] != 0)
        snprintf(text, sizeof(text), "%s", listing->error);
    else if (!listing->loaded)
        snprintf(text, sizeof(text), "loading");
    else if (top->plain)
        snprintf(text, sizeof(text), "%s",
                 listing->count == 0 ? "none" : "a beanstalkd shows the first only");
    else if (listing->count == 0)
        snprintf(text, sizeof(text), "none%s",
                 listing->has_more ? " yet; there is more to look at" : "");
    else if (listing->has_more)
        snprintf(text, sizeof(text), "the first %zu", listing->count);
    bi_top_screen_draw(&top->screen, row, 1, top->screen.columns - 1,
                       listing->error[0] != 0 ? STYLE_BAD : STYLE_DIM, text);
}

static size_t visible_rows(const struct top *top)
{
    int rows = top->screen.rows - 5;
    return rows > 0 ? (size_t)rows : 1;
}

static void draw(struct top *top)
{
    struct listing *listing = &top->listing;
    size_t window = visible_rows(top), i = 0;
    draw_tabs(top, 0);
    draw_headings(top, 2);
    listing->first =
        bi_top_window_scroll(listing->first, listing->selected, listing->count, window);
    for (; i < window && listing->first + i < listing->count; i++)
        draw_job(top, 3 + (int)i, &listing->rows[listing->first + i],
                 listing->first + i == listing->selected);
    draw_status(top, top->screen.rows - 2);
}

/* ---- keys ---- */

static void switch_state(struct top *top, size_t step)
{
    size_t i = 0;
    while (i < STATES - 1 && states[i] != top->listing.state)
        i++;
    bi_top_listing_show(top, top->listing.topic, states[(i + step) % STATES]);
}

/* More of the list when its end comes near. */
static void load_more(struct top *top)
{
    struct listing *listing = &top->listing;
    if (!listing->has_more || listing->wanted >= BI_TOP_LISTING_MAX ||
        listing->selected + 2 * visible_rows(top) < listing->count)
        return;
    listing->wanted += BI_TOP_LISTING_PAGE;
    bi_top_listing_refresh(top);
}

static void handle_job_key(struct top *top, int pressed)
{
    const struct job_row *job = bi_top_listing_selected(&top->listing);
    if (job == NULL)
        return;
    if (pressed == TOP_KEY_ENTER) {
        bi_top_window_set_view(top, &bi_top_view_job);
        bi_top_detail_show(top, job->id);
    } else if (pressed == 'n') {
        bi_top_action_job(top, BIDE_OP_KICK_JOB, job->id);
    } else if (pressed == 'b') {
        bi_top_action_job(top, BIDE_OP_BURY, job->id);
    } else if (pressed == 'd') {
        bi_top_action_job(top, BIDE_OP_DELETE, job->id);
    }
}

static void key(struct top *top, int pressed)
{
    struct listing *listing = &top->listing;
    if (bi_top_window_move_cursor(pressed, listing->count, visible_rows(top), &listing->selected)) {
        load_more(top);
        return;
    }
    switch (pressed) {
    case 'q':
    case TOP_KEY_ESCAPE:
        bi_top_window_set_view(top, &bi_top_view_topics);
        break;
    case TOP_KEY_TAB:
    case TOP_KEY_RIGHT:
        switch_state(top, 1);
        break;
    case TOP_KEY_BACK_TAB:
    case TOP_KEY_LEFT:
        switch_state(top, STATES - 1);
        break;
    case 'K':
        bi_top_action_kick(top, listing->topic);
        break;
    case 'P':
        bi_top_action_pause(top, listing->topic);
        break;
    case 'X':
        bi_top_action_purge(top, listing->topic, listing->state);
        break;
    default:
        handle_job_key(top, pressed);
    }
}

const struct top_view bi_top_view_jobs = {
    .key_hint = "Enter look  Tab state  n ready now  b bury  d delete  K P X topic  ? help  q",
    .draw = draw,
    .key = key,
    .refresh = bi_top_listing_refresh,
};
