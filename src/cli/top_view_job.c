/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include <string.h>

static size_t window_of(const struct top *top)
{
    int rows = top->screen.rows - 2;
    return rows > 0 ? (size_t)rows : 1;
}

static size_t last_first(const struct top *top)
{
    size_t count = top->detail.page.count, window = window_of(top);
    return count > window ? count - window : 0;
}

static void draw_title(struct top *top)
{
    struct detail *detail = &top->detail;
    char text[BI_SENTENCE_SIZE];
    const char *state = detail->gone         ? "is gone"
                        : detail->problem[0] ? detail->problem
                        : detail->loaded     ? ""
                                             : "loading";
    size_t last = detail->first + window_of(top);
    snprintf(text, sizeof(text), "job %llu %s", (unsigned long long)detail->id, state);
    bi_screen_text(&top->screen, 0, 0, top->screen.columns, LOOK_BAR, text);
    if (detail->page.count <= window_of(top))
        return;
    snprintf(text, sizeof(text), " lines %zu-%zu of %zu", detail->first + 1,
             last < detail->page.count ? last : detail->page.count, detail->page.count);
    bi_screen_right(&top->screen, 0, top->screen.columns - (int)strlen(text), (int)strlen(text),
                    LOOK_BAR, text);
}

static void draw(struct top *top)
{
    struct detail *detail = &top->detail;
    if (detail->page.width != top->screen.columns)
        bi_detail_lines(top);
    if (detail->first > last_first(top))
        detail->first = last_first(top);
    draw_title(top);
    for (size_t i = 0; i < window_of(top) && detail->first + i < detail->page.count; i++)
        bi_screen_text(&top->screen, 1 + (int)i, 0, top->screen.columns, LOOK_PLAIN,
                       detail->page.lines[detail->first + i]);
}

static void key(struct top *top, int pressed)
{
    struct detail *detail = &top->detail;
    if (bi_top_move(pressed, last_first(top) + 1, window_of(top), &detail->first))
        return;
    if (pressed == 'q' || pressed == TOP_KEY_ESCAPE) {
        bi_top_view(top, &bi_view_jobs);
        bi_listing_refresh(top);
    } else if (pressed == 'n') {
        bi_action_job(top, BIDE_OP_KICK_JOB, detail->id);
    } else if (pressed == 'b') {
        bi_action_job(top, BIDE_OP_BURY, detail->id);
    } else if (pressed == 'd') {
        bi_action_job(top, BIDE_OP_DELETE, detail->id);
    }
}

const struct top_view bi_view_job = {
    .keys = "Up/Down PgUp/PgDn scroll  n ready now  b bury  d delete  ? help  q back",
    .draw = draw,
    .key = key,
    .refresh = bi_detail_refresh,
};
