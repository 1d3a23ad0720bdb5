/* SPDX-License-Identifier: MIT */
/*
 * top_topics - the first view: the header and the table of topics.
 */
#include "cli/top/top.h"

#include <assert.h>
#include <string.h>

#define AT_NAME           2  /* columns before it hold the pause mark and the sort mark */
#define TREND_HEADING_MIN 24 /* columns for the long heading of the trend */

static const struct top_topic *selected_topic(const struct top *top)
{
    return top->selected < top->order.count ? top->order.list[top->selected] : NULL;
}

void bi_top_topics_sort(struct top *top)
{
    top->needs_redraw = true;
    if (!bi_top_column_sort(&top->order, &top->model))
        return;

    /* A cursor that was never moved stays at the top of the list, not on a topic. */
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

/* What the trend shows and, in a wide column, how far it goes back. */
static void format_trend_heading(const struct top *top, int width, char *heading, size_t size)
{
    const char *name = top->trend_of_finished ? "OUT/S" : bi_top_column_heading(TOP_TREND);
    char span[BI_TOP_FORMAT_SIZE];

    bi_top_column_format_age(span, width * top->interval_ms);
    if (width < TREND_HEADING_MIN)
        snprintf(heading, size, "%s", name);
    else
        snprintf(heading, size, "%s %s, the last %s", name,
                 top->trend_of_finished ? "finished" : "of ready", span);
}

static void draw_headings(const struct top *top, int row, const int *widths)
{
    int at = AT_NAME;

    bi_top_screen_draw(row, 0, BI_TOP_REST, STYLE_COLUMN_HEADING, "");
    for (int i = 0; i < TOP_COLUMNS; i++) {
        char heading[80];
        if (widths[i] == 0)
            continue;

        /* The sort mark takes the blank before the column. */
        if ((int)top->order.by == i)
            bi_top_screen_draw(row, at - 1, 1, STYLE_COLUMN_HEADING,
                               (i == TOP_NAME) != top->order.reverse ? "^" : "v");
        snprintf(heading, sizeof(heading), "%s", bi_top_column_heading(i));
        if (i == TOP_TREND)
            format_trend_heading(top, widths[i], heading, sizeof(heading));
        if (i == TOP_NAME || i == TOP_TREND)
            bi_top_screen_draw(row, at, widths[i], STYLE_COLUMN_HEADING, heading);
        else
            bi_top_screen_draw_right(row, at, widths[i], STYLE_COLUMN_HEADING, heading);
        at += widths[i] + 1;
    }
}

static void draw_trend(const struct top *top, int row, int column, int width, enum style style,
                       const struct top_topic *topic)
{
    float values[BI_TOP_HISTORY];
    char bars[3 * BI_TOP_HISTORY + 1];
    const float *ring = top->trend_of_finished ? topic->finish_rates : topic->ready;

    assert(width <= BI_TOP_HISTORY);
    size_t count = bi_top_model_history(topic, ring, values, (size_t)width);
    bi_top_column_format_sparkline(bars, values, count, top->screen.utf8);
    bi_top_screen_draw_right(row, column, width, style, bars);
}

static void draw_topic(const struct top *top, int row, const int *widths,
                       const struct top_topic *topic, bool selected)
{
    int at = AT_NAME;

    if (selected)
        bi_top_screen_draw(row, 0, BI_TOP_REST, STYLE_CURSOR, "");
    if (topic->now.paused)
        bi_top_screen_draw(row, 0, 1, selected ? STYLE_CURSOR : STYLE_WARN, "P");
    else if (topic->now.limited != BIDE_LIMIT_NONE)
        bi_top_screen_draw(row, 0, 1, selected ? STYLE_CURSOR : STYLE_WARN, "L");

    for (int i = 0; i < TOP_COLUMNS; i++) {
        char cell[BI_TOP_FORMAT_SIZE];
        if (widths[i] == 0)
            continue;
        if (i == TOP_NAME) {
            bi_top_screen_draw(row, at, widths[i], selected ? STYLE_CURSOR : STYLE_PLAIN,
                               topic->now.name);
        } else if (i == TOP_TREND) {
            draw_trend(top, row, at, widths[i], selected ? STYLE_CURSOR : STYLE_TREND, topic);
        } else {
            enum style style = bi_top_column_format(cell, (enum top_column)i, topic, top->plain);
            bi_top_screen_draw_right(row, at, widths[i], selected ? STYLE_CURSOR : style, cell);
        }
        at += widths[i] + 1;
    }
}

/* Between the header and the bottom line, without the column headings. */
static size_t visible_rows(const struct top *top)
{
    return bi_top_window_rows(top, bi_top_window_header_rows(top) + 2);
}

static void draw(struct top *top)
{
    const struct top_order *order = &top->order;
    int widths[TOP_COLUMNS], header = bi_top_window_header_rows(top);
    size_t window = visible_rows(top);

    bi_top_window_draw_header(top);
    bi_top_column_layout(top->screen.columns - AT_NAME, order->longest_name, widths);
    draw_headings(top, header, widths);

    top->first = bi_top_page_scroll(top->first, top->selected, order->count, window);
    for (size_t i = 0; i < window && top->first + i < order->count; i++)
        draw_topic(top, header + 1 + (int)i, widths, order->list[top->first + i],
                   top->first + i == top->selected);
    if (order->count == 0 && top->model.samples > 0)
        bi_top_screen_draw(header + 1, AT_NAME, BI_TOP_REST, STYLE_DIM,
                           order->filter[0] == 0 ? "There are no topics."
                                                 : "No topic name contains the filter text.");
}

/* ---- keys ---- */

static void sort_by(struct top *top, int step)
{
    int column = ((int)top->order.by + step + BI_TOP_SORTABLE) % BI_TOP_SORTABLE;

    top->order.by = (enum top_column)column;
    bi_top_topics_sort(top);
    bi_top_window_note(top, STYLE_PLAIN, "Sorted by %s%s.", bi_top_column_heading(top->order.by),
                       top->order.reverse ? ", reversed" : "");
}

static void on_filter_change(struct top *top)
{
    memcpy(top->order.filter, top->prompt.input, sizeof(top->order.filter));
    bi_top_topics_sort(top);
}

static void on_filter_done(struct top *top, bool yes)
{
    if (!yes)
        top->order.filter[0] = 0;
    bi_top_topics_sort(top);
    if (top->order.filter[0] != 0)
        bi_top_window_note(top, STYLE_PLAIN,
                           "Only topics with \"%s\" are shown; / and Esc shows all.",
                           top->order.filter);
}

static void ask_filter(struct top *top)
{
    struct prompt *prompt = &top->prompt;

    bi_top_window_ask(top, PROMPT_TEXT, on_filter_done, "Show topics with:");
    memcpy(prompt->input, top->order.filter, sizeof(top->order.filter));
    prompt->size = strlen(prompt->input);
    prompt->on_change = on_filter_change;
}

/* The first state that has jobs, buried jobs before delayed ones. */
static void open_topic(struct top *top, const struct top_topic *topic)
{
    static const size_t by_interest[BI_TOP_STATES] = {0, 1, 3, 2, 4};
    size_t state = 0;

    for (size_t i = BI_TOP_STATES; i-- > 0;)
        if (bi_top_column_state_count(&bi_top_column_states[by_interest[i]], &topic->now.jobs) > 0)
            state = by_interest[i];
    bi_top_jobs_show(top, topic->now.name, state);
}

static void handle_topic_key(struct top *top, int key)
{
    const struct top_topic *topic = selected_topic(top);

    if (topic == NULL)
        return;
    if (key == TOP_KEY_ENTER || key == TOP_KEY_RIGHT)
        open_topic(top, topic);
    else if (key == 'K')
        bi_top_action_kick(top, topic->now.name);
    else if (key == 'P')
        bi_top_action_pause(top, topic->now.name);
    else if (key == 'X')
        bi_top_window_note(top, STYLE_PLAIN,
                           "To purge, open the topic (Enter), select a state (Tab) and press X.");
}

static void key(struct top *top, int pressed)
{
    if (bi_top_page_move_cursor(pressed, top->order.count, visible_rows(top), &top->selected)) {
        const struct top_topic *topic = selected_topic(top);
        if (topic != NULL)
            memcpy(top->selected_name, topic->now.name, sizeof(top->selected_name));
        return;
    }

    switch (pressed) {
    case 'q':
        top->quit = true;
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
        bi_top_window_note(top, STYLE_PLAIN, "Trend of %s.",
                           top->trend_of_finished ? "jobs finished per second" : "ready jobs");
        break;
    case 'w':
        bi_top_workers_show(top);
        break;
    case '/':
        ask_filter(top);
        break;
    default:
        handle_topic_key(top, pressed);
    }
}

const struct top_view bi_top_topics = {
    .key_hint = "Enter open  w workers  s sort  / filter  K kick  P pause  ? help  q quit",
    .draw = draw,
    .key = key,
};
