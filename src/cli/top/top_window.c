/* SPDX-License-Identifier: MIT */
/*
 * top_window - what all views have in common: the cursor, the keys that work everywhere, and the
 * drawing of the whole.
 */
#include "cli/top/top.h"

#include <string.h>

/* ---- the cursor ---- */

bool bi_top_window_move_cursor(int key, size_t count, size_t window, size_t *selected)
{
    size_t last = count == 0 ? 0 : count - 1, at = *selected < last ? *selected : last;
    switch (key) {
    case TOP_KEY_UP:
    case 'k':
        *selected = at > 0 ? at - 1 : 0;
        return true;
    case TOP_KEY_DOWN:
    case 'j':
        *selected = at < last ? at + 1 : last;
        return true;
    case TOP_KEY_PAGE_UP:
        *selected = at > window ? at - window : 0;
        return true;
    case TOP_KEY_PAGE_DOWN:
        *selected = last - at > window ? at + window : last;
        return true;
    case TOP_KEY_HOME:
        *selected = 0;
        return true;
    case TOP_KEY_END:
        *selected = last;
        return true;
    default:
        return false;
    }
}

size_t bi_top_window_scroll(size_t first, size_t selected, size_t count, size_t window)
{
    size_t max_first = count > window ? count - window : 0;
    if (selected < first)
        first = selected;
    else if (selected >= first + window)
        first = selected - window + 1;
    return first < max_first ? first : max_first;
}

/* Whoever never moved the cursor wants to see the top of the list, whatever stands there. */
void bi_top_window_sort_topics(struct top *top)
{
    top->needs_redraw = true;
    if (!bi_top_column_sort(&top->order, &top->model))
        return;
    for (size_t i = 0; i < top->order.count && top->selected_name[0] != 0; i++) {
        if (strcmp(top->order.list[i]->now.name, top->selected_name) == 0) {
            top->selected = i;
            return;
        }
    }
    if (top->selected >= top->order.count)
        top->selected = top->order.count == 0 ? 0 : top->order.count - 1;
}

/* ---- drawing ---- */

void bi_top_window_set_view(struct top *top, const struct top_view *view)
{
    top->view = view;
    top->needs_redraw = true;
}

void bi_top_window_draw(struct top *top)
{
    top->needs_redraw = false;
    bi_top_screen_clear();
    if (top->screen.rows < BI_TOP_MIN_ROWS || top->screen.columns < BI_TOP_MIN_COLUMNS) {
        bi_top_screen_draw(&top->screen, 0, 0, top->screen.columns, STYLE_PLAIN,
                           "too small: 40 x 10");
        bi_top_screen_draw(&top->screen, 1, 0, top->screen.columns, STYLE_PLAIN, "is the least");
    } else {
        top->view->draw(top);
        bi_top_prompt_draw(top);
    }
    bi_top_screen_refresh(top->full_redraw);
    top->full_redraw = false;
}

/* ---- keys ---- */

static void change_interval(struct top *top, int step)
{
    static const int64_t steps[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};
    const int count = sizeof(steps) / sizeof(steps[0]);
    int at = 0;
    while (at < count - 1 && steps[at] < top->interval_ms)
        at++;
    /* From between two steps, + goes to the one above, which is found already. */
    if (step < 0 || steps[at] == top->interval_ms)
        at += step;
    top->interval_ms = steps[at < 0 ? 0 : at < count ? at : count - 1];
    bi_top_prompt_note(top, STYLE_PLAIN, "Refreshed every %.1f s.",
                       (double)top->interval_ms / 1000);
}

static void toggle_freeze(struct top *top)
{
    top->frozen = !top->frozen;
    if (top->frozen)
        bi_top_prompt_note(top, STYLE_WARN, "Frozen: space goes on.");
    else
        bi_top_sampler_sample_now(top);
}

void bi_top_window_handle_key(struct top *top, int key)
{
    top->needs_redraw = true;
    if (key == TOP_KEY_REDRAW || key == TOP_KEY_RESIZE) {
        top->full_redraw = key == TOP_KEY_REDRAW;
        return;
    }
    top->note[0] = 0;
    if (top->prompt.kind != PROMPT_NONE)
        bi_top_prompt_handle_key(top, key);
    else if (top->view == &bi_top_view_help)
        top->view->key(top, key);
    else if (key == '+' || key == '-')
        change_interval(top, key == '+' ? 1 : -1);
    else if (key == ' ')
        toggle_freeze(top);
    else if (key == '?') {
        top->view_before_help = top->view;
        bi_top_window_set_view(top, &bi_top_view_help);
    } else
        top->view->key(top, key);
}
