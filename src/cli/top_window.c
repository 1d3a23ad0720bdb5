/* SPDX-License-Identifier: MIT */
/*
 * top_window - what all views have in common: the cursor, the keys that work everywhere, and the
 * drawing of the whole.
 */
#include "cli/top.h"

#include <string.h>

/* ---- the cursor ---- */

bool bi_top_move(int key, size_t count, size_t window, size_t *selected)
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

size_t bi_top_scroll(size_t first, size_t selected, size_t count, size_t window)
{
    size_t last_first = count > window ? count - window : 0;
    if (selected < first)
        first = selected;
    else if (selected >= first + window)
        first = selected - window + 1;
    return first < last_first ? first : last_first;
}

/* Whoever never moved the cursor wants to see the top of the list, whatever stands there. */
void bi_top_reorder(struct top *top)
{
    top->changed = true;
    if (!bi_top_order_make(&top->order, &top->model))
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

void bi_top_view(struct top *top, const struct top_view *view)
{
    top->view = view;
    top->changed = true;
}

void bi_top_draw(struct top *top)
{
    top->changed = false;
    bi_screen_wipe();
    if (top->screen.rows < BI_TOP_LEAST_ROWS || top->screen.columns < BI_TOP_LEAST_COLUMNS) {
        bi_screen_text(&top->screen, 0, 0, top->screen.columns, LOOK_PLAIN, "too small: 40 x 10");
        bi_screen_text(&top->screen, 1, 0, top->screen.columns, LOOK_PLAIN, "is the least");
    } else {
        top->view->draw(top);
        bi_prompt_draw(top);
    }
    bi_screen_show(top->all);
    top->all = false;
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
    bi_top_note(top, LOOK_PLAIN, "Refreshed every %.1f s.", (double)top->interval_ms / 1000);
}

static void freeze(struct top *top)
{
    top->frozen = !top->frozen;
    if (top->frozen)
        bi_top_note(top, LOOK_WARN, "Frozen: space goes on.");
    else
        bi_sampler_hurry(top);
}

void bi_top_key(struct top *top, int key)
{
    top->changed = true;
    if (key == TOP_KEY_REDRAW || key == TOP_KEY_RESIZE) {
        top->all = key == TOP_KEY_REDRAW;
        return;
    }
    top->note[0] = 0;
    if (top->prompt.kind != PROMPT_NONE)
        bi_prompt_key(top, key);
    else if (top->view == &bi_view_help)
        top->view->key(top, key);
    else if (key == '+' || key == '-')
        change_interval(top, key == '+' ? 1 : -1);
    else if (key == ' ')
        freeze(top);
    else if (key == '?') {
        top->behind_help = top->view;
        bi_top_view(top, &bi_view_help);
    } else
        top->view->key(top, key);
}
