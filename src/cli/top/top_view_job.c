/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include <string.h>

static size_t visible_rows(const struct top *top)
{
    int rows = top->screen.rows - 2;
    return rows > 0 ? (size_t)rows : 1;
}

static size_t max_first(const struct top *top)
{
    size_t count = top->detail.page.count, window = visible_rows(top);
    return count > window ? count - window : 0;
}

static void draw_title(struct top *top)
{
    struct detail *detail = &top->detail;
    char text[BI_ERRMSG_SIZE];
    const char *state = detail->gone       ? "is gone"
                        : detail->error[0] ? detail->error
                        : detail->loaded   ? ""
                                           : "loading";
    size_t last = detail->first + visible_rows(top);
    snprintf(text, sizeof(text), "job %llu %s", (unsigned long long)detail->id, state);
    bi_top_screen_draw(&top->screen, 0, 0, top->screen.columns, STYLE_CURSOR, text);
    if (detail->page.count <= visible_rows(top))
        return;
    snprintf(text, sizeof(text), " lines %zu-%zu of %zu", detail->first + 1,
             last < detail->page.count ? last : detail->page.count, detail->page.count);
    bi_top_screen_draw_right(&top->screen, 0, top->screen.columns - (int)strlen(text),
                             (int)strlen(text), STYLE_CURSOR, text);
}

static void draw(struct top *top)
{
    struct detail *detail = &top->detail;
    if (detail->page.width != top->screen.columns)
        bi_top_detail_format(top);
    if (detail->first > max_first(top))
        detail->first = max_first(top);
    draw_title(top);
    for (size_t i = 0; i < visible_rows(top) && detail->first + i < detail->page.count; i++)
        bi_top_screen_draw(&top->screen, 1 + (int)i, 0, top->screen.columns, STYLE_PLAIN,
                           detail->page.lines[detail->first + i]);
}

static void key(struct top *top, int pressed)
{
    struct detail *detail = &top->detail;
    if (bi_top_window_move_cursor(pressed, max_first(top) + 1, visible_rows(top), &detail->first))
        return;
    if (pressed == 'q' || pressed == TOP_KEY_ESCAPE) {
        bi_top_window_set_view(top, &bi_top_view_jobs);
        bi_top_listing_refresh(top);
    } else if (pressed == 'n') {
        bi_top_action_job(top, BIDE_OP_KICK_JOB, detail->id);
    } else if (pressed == 'b') {
        bi_top_action_job(top, BIDE_OP_BURY, detail->id);
    } else if (pressed == 'd') {
        bi_top_action_job(top, BIDE_OP_DELETE, detail->id);
    }
}

const struct top_view bi_top_view_job = {
    .key_hint = "Up/Down PgUp/PgDn scroll  n ready now  b bury  d delete  ? help  q back",
    .draw = draw,
    .key = key,
    .refresh = bi_top_detail_refresh,
};
