/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include <string.h>

#define AT_NAME           2  /* before it stand the marks */
#define TREND_HEADING_MIN 24 /* columns */

/* ---- drawing ---- */

/* What the trend is of, and how far it goes back where there is room to say so. */
static void format_trend_heading(const struct top *top, int width, char *heading, size_t size)
{
    const char *name = top->trend_of_finished ? "OUT/S" : bi_top_column_heading(TOP_TREND);
    char span[BI_TOP_FORMAT_SIZE];

    bi_top_format_age(span, width * top->interval_ms);
    if (width < TREND_HEADING_MIN)
        snprintf(heading, size, "%s", name);
    else
        snprintf(heading, size, "%s %s, the last %s", name,
                 top->trend_of_finished ? "finished" : "of ready", span);
}

static void draw_headings(struct top *top, int row, const int *widths)
{
    bi_top_screen_draw(&top->screen, row, 0, top->screen.columns, STYLE_COLUMN_HEADING, "");
    int column = AT_NAME;
    for (int i = 0; i < TOP_COLUMNS; i++) {
        char heading[80];
        if (widths[i] == 0)
            continue;
        bool sorted = (int)top->order.by == i;
        /* The mark stands in the blank before the column. */
        if (sorted)
            bi_top_screen_draw(&top->screen, row, column - 1, 1, STYLE_COLUMN_HEADING,
                               (i == TOP_NAME) != top->order.reverse ? "^" : "v");
        snprintf(heading, sizeof(heading), "%s", bi_top_column_heading(i));
        if (i == TOP_TREND)
            format_trend_heading(top, widths[i], heading, sizeof(heading));
        if (i == TOP_NAME || i == TOP_TREND)
            bi_top_screen_draw(&top->screen, row, column, widths[i], STYLE_COLUMN_HEADING, heading);
        else
            bi_top_screen_draw_right(&top->screen, row, column, widths[i], STYLE_COLUMN_HEADING,
                                     heading);
        column += widths[i] + 1;
    }
}

/* What is 0, or is not known, steps back: the eye finds the rest. */
static enum style cell_style(int column, const struct top_topic *topic, const char *cell)
{
    const bide_counts *jobs = &topic->now.jobs;
    if (strcmp(cell, "0") == 0 || strcmp(cell, "-") == 0)
        return STYLE_DIM;
    if (column == TOP_BURIED && jobs->buried > 0)
        return STYLE_BAD;
    if (column == TOP_RESERVED && jobs->reserved > 0)
        return STYLE_WARN;
    if (column == TOP_DONE && jobs->done > 0)
        return STYLE_GOOD;
    return STYLE_PLAIN;
}

static void draw_trend(struct top *top, int row, int column, int width, enum style style,
                       const struct top_topic *topic)
{
    float values[BI_TOP_HISTORY];
    char bars[3 * BI_TOP_HISTORY + 1];
    size_t count = bi_top_model_history(
        topic, top->trend_of_finished ? topic->finish_rates : topic->ready, values, (size_t)width);
    bi_top_format_sparkline(bars, values, count, top->screen.utf8);
    bi_top_screen_draw_right(&top->screen, row, column, width, style, bars);
}

static void draw_topic(struct top *top, int row, const int *widths, const struct top_topic *topic,
                       bool selected)
{
    int column = AT_NAME;
    if (selected)
        bi_top_screen_draw(&top->screen, row, 0, top->screen.columns, STYLE_CURSOR, "");
    if (topic->now.paused)
        bi_top_screen_draw(&top->screen, row, 0, 1, selected ? STYLE_CURSOR : STYLE_WARN, "P");
    for (int i = 0; i < TOP_COLUMNS; i++) {
        char cell[BI_TOP_FORMAT_SIZE];
        enum style style = selected ? STYLE_CURSOR : STYLE_PLAIN;
        if (widths[i] == 0)
            continue;
        if (i == TOP_NAME) {
            bi_top_screen_draw(&top->screen, row, column, widths[i], style, topic->now.name);
        } else if (i == TOP_TREND) {
            draw_trend(top, row, column, widths[i], selected ? STYLE_CURSOR : STYLE_TREND, topic);
        } else {
            bi_top_column_format(cell, (enum top_column)i, topic, top->plain);
            style = selected ? STYLE_CURSOR : cell_style(i, topic, cell);
            bi_top_screen_draw_right(&top->screen, row, column, widths[i], style, cell);
        }
        column += widths[i] + 1;
    }
}

/* The heads stand above, the bottom line below. */
static size_t visible_rows(const struct top *top)
{
    int rows = top->screen.rows - bi_top_header_rows(top) - 2;
    return rows > 0 ? (size_t)rows : 1;
}

static void draw(struct top *top)
{
    int widths[TOP_COLUMNS], header = bi_top_header_rows(top);
    size_t window = visible_rows(top);
    const struct top_order *order = &top->order;
    bi_top_header_draw(top);
    bi_top_column_layout(top->screen.columns - AT_NAME, order->longest_name, widths);
    draw_headings(top, header, widths);
    top->first = bi_top_window_scroll(top->first, top->selected, order->count, window);
    for (size_t i = 0; i < window && top->first + i < order->count; i++)
        draw_topic(top, header + 1 + (int)i, widths, order->list[top->first + i],
                   top->first + i == top->selected);
    if (order->count == 0 && top->model.samples > 0)
        bi_top_screen_draw(
            &top->screen, header + 1, AT_NAME, top->screen.columns - AT_NAME, STYLE_DIM,
            order->filter[0] == 0 ? "There are no topics."
                                  : "No topic's name has the text of the filter in it.");
}

/* ---- keys ---- */

static void sort_by(struct top *top, int step)
{
    top->order.by =
        (enum top_column)(((int)top->order.by + step + BI_TOP_SORTABLE) % BI_TOP_SORTABLE);
    bi_top_window_sort_topics(top);
    bi_top_prompt_note(top, STYLE_PLAIN, "Sorted by %s%s.", bi_top_column_heading(top->order.by),
                       top->order.reverse ? ", reversed" : "");
}

static void on_filter_change(struct top *top)
{
    memcpy(top->order.filter, top->prompt.input, sizeof(top->order.filter));
    bi_top_window_sort_topics(top);
}

static void on_filter_done(struct top *top, bool yes)
{
    if (!yes)
        top->order.filter[0] = 0;
    bi_top_window_sort_topics(top);
    if (top->order.filter[0] != 0)
        bi_top_prompt_note(top, STYLE_PLAIN,
                           "Only topics with \"%s\" are shown; / and Esc shows all.",
                           top->order.filter);
}

static const char *selected_topic(const struct top *top)
{
    return top->selected < top->order.count ? top->order.list[top->selected]->now.name : NULL;
}

static void open_topic(struct top *top, const char *topic)
{
    const struct top_topic *entry = bi_top_model_find(&top->model, topic);
    const bide_counts *jobs = &entry->now.jobs;
    bide_state state = jobs->ready > 0      ? BIDE_STATE_READY
                       : jobs->reserved > 0 ? BIDE_STATE_RESERVED
                       : jobs->buried > 0   ? BIDE_STATE_BURIED
                       : jobs->delayed > 0  ? BIDE_STATE_DELAYED
                       : jobs->done > 0     ? BIDE_STATE_DONE
                                            : BIDE_STATE_READY;
    bi_top_window_set_view(top, &bi_top_view_jobs);
    bi_top_listing_show(top, topic, state);
}

/* Keys that need a topic. */
static void handle_topic_key(struct top *top, int key)
{
    char topic[BIDE_TOPIC_MAX + 1];
    const char *selected = selected_topic(top);
    if (selected == NULL)
        return;
    /* A sample that comes meanwhile may take the topic away. */
    memcpy(topic, selected, strlen(selected) + 1);
    if (key == TOP_KEY_ENTER || key == TOP_KEY_RIGHT)
        open_topic(top, topic);
    else if (key == 'K')
        bi_top_action_kick(top, topic);
    else if (key == 'P')
        bi_top_action_pause(top, topic);
    else if (key == 'X')
        bi_top_prompt_note(top, STYLE_PLAIN,
                           "Look into the topic with Enter, choose a state with Tab, then X.");
}

static void key(struct top *top, int pressed)
{
    if (bi_top_window_move_cursor(pressed, top->order.count, visible_rows(top), &top->selected)) {
        const char *selected = selected_topic(top);
        if (selected != NULL)
            memcpy(top->selected_name, selected, strlen(selected) + 1);
        return;
    }
    switch (pressed) {
    case 'q':
    case TOP_KEY_ESCAPE:
        top->quit = pressed == 'q';
        break;
    case 's':
    case '>':
        sort_by(top, 1);
        break;
    case '<':
        sort_by(top, -1);
        break;
    case 'r':
        top->order.reverse = !top->order.reverse;
        sort_by(top, 0);
        break;
    case 't':
        top->trend_of_finished = !top->trend_of_finished;
        bi_top_prompt_note(top, STYLE_PLAIN, "The trend is of %s.",
                           top->trend_of_finished ? "what is finished a second" : "the ready jobs");
        break;
    case '/':
        bi_top_prompt_text(top, "Show topics with:", top->order.filter, on_filter_change,
                           on_filter_done);
        break;
    default:
        handle_topic_key(top, pressed);
    }
}

const struct top_view bi_top_view_topics = {
    .key_hint = "Enter look  s sort  r reverse  / filter  K kick  P pause  ? help  q quit",
    .draw = draw,
    .key = key,
};
