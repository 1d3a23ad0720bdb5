/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "cli/print.h"
#include "util/clock.h"

#include <string.h>

#define TALL_MIN_ROWS 16 /* rows of a window that has room for all lines */
#define REASON_MAX    200

/* Items of a line, with two blanks between them; those that do not fit are left out. */
struct line {
    const struct screen *screen;
    int row, column;
};

static void draw_item(struct line *line, enum style style, const char *name, const char *value)
{
    int name_size = (int)strlen(name), value_size = (int)strlen(value);
    int width = name_size + 1 + value_size;
    if (line->column + width > line->screen->columns)
        return;
    bi_top_screen_draw(line->screen, line->row, line->column, name_size, STYLE_DIM, name);
    bi_top_screen_draw(line->screen, line->row, line->column + name_size + 1, value_size, style,
                       value);
    line->column += width + 2;
}

static void draw_count_item(struct line *line, enum style style, const char *name, uint64_t number)
{
    char text[32];
    bi_print_number(text, number);
    draw_item(line, number == 0 ? STYLE_DIM : style, name, text);
}

static void draw_rate_item(struct line *line, const char *name, double rate)
{
    char text[BI_TOP_FORMAT_SIZE];
    bi_top_format_rate(text, rate);
    draw_item(line, rate > 0 ? STYLE_PLAIN : STYLE_DIM, name, text);
}

/* ---- the lines ---- */

static void draw_title(struct top *top, int row)
{
    char right[80], interval[BI_TOP_FORMAT_SIZE], up[BI_TOP_FORMAT_SIZE] = "-";
    int width = top->screen.columns;
    if (top->interval_ms < 1000)
        snprintf(interval, sizeof(interval), "%dms", (int)top->interval_ms);
    else
        bi_top_format_age(interval, top->interval_ms);
    if (top->model.samples > 0)
        bi_top_format_age(up, top->model.stats.uptime_ms);
    int size = snprintf(right, sizeof(right), "  up %s  %s%s", up,
                        top->frozen ? "FROZEN" : "every ", top->frozen ? "" : interval);
    bi_top_screen_draw(&top->screen, row, 0, 8, STYLE_HEADING, "bide top");
    bi_top_screen_draw(&top->screen, row, 9, width - 9 - size, STYLE_PLAIN, top->cli->shown);
    bi_top_screen_draw(&top->screen, row, width - size, size,
                       top->frozen ? STYLE_WARN : STYLE_PLAIN, right);
}

static void draw_counts(struct top *top, int row)
{
    const bide_counts *jobs = &top->model.stats.jobs;
    struct line line = {&top->screen, row, 0};
    draw_count_item(&line, STYLE_HEADING, "ready", jobs->ready);
    draw_count_item(&line, STYLE_WARN, "reserved", jobs->reserved);
    draw_count_item(&line, STYLE_PLAIN, "delayed", jobs->delayed);
    draw_count_item(&line, STYLE_BAD, "buried", jobs->buried);
    if (top->plain)
        draw_item(&line, STYLE_PLAIN, "done", "-");
    else
        draw_count_item(&line, STYLE_GOOD, "done", jobs->done);
    draw_count_item(&line, STYLE_PLAIN, "topics", top->model.stats.topics);
}

static void draw_rates(struct top *top, int row)
{
    const double *rates = top->model.rates;
    struct line line = {&top->screen, row, 0};
    draw_rate_item(&line, "put/s", rates[TOP_RATE_PUTS]);
    draw_rate_item(&line, "reserve/s", rates[TOP_RATE_RESERVES]);
    draw_rate_item(&line, "finish/s", rates[TOP_RATE_FINISHED]);
    draw_rate_item(&line, "fail/s", rates[TOP_RATE_FAILS]);
    draw_count_item(&line, STYLE_PLAIN, "waiting", top->model.stats.waiting);
    if (top->model.stats.draining)
        draw_item(&line, STYLE_WARN, "", "draining");
}

static void draw_gauges(struct top *top, int row)
{
    const bide_stats *stats = &top->model.stats;
    char age[BI_TOP_FORMAT_SIZE] = "-", memory[32] = "-", took[32];
    struct line line = {&top->screen, row, 0};
    if (!top->plain && stats->jobs.ready > 0)
        bi_top_format_age(age, stats->oldest_ready_age_ms);
    if (!top->plain)
        bi_print_size(memory, stats->memory_bytes);
    snprintf(took, sizeof(took), "%.1f ms", (double)top->sampler.duration_us / 1000);
    draw_item(&line, STYLE_PLAIN, "oldest ready", age);
    draw_item(&line, STYLE_PLAIN, "memory", memory);
    if (top->sampler.truncated)
        draw_item(&line, STYLE_WARN, "topics", "the first " BI_TOP_TOPICS_TEXT);
    draw_item(&line, STYLE_PLAIN, "sample", took);
}

/* ---- what is wrong ---- */

bool bi_top_header_queue_error(const struct top *top, char *text, size_t size)
{
    const struct sampler *sampler = &top->sampler;
    char elapsed[BI_TOP_FORMAT_SIZE];
    int64_t now = bi_clock_boot(), waiting_since_us = bi_top_sampler_waiting_since(sampler);
    bool silent = waiting_since_us != 0 && now - waiting_since_us >= BI_TOP_REPLY_TIMEOUT_US;

    if (sampler->failing_since_us == 0 && !silent)
        return false;
    bi_top_format_age(elapsed, (now - (sampler->failing_since_us > 0 ? sampler->failing_since_us
                                                                     : waiting_since_us)) /
                                   1000);
    snprintf(text, size, "NO ANSWER for %s%s%.*s", elapsed, sampler->error[0] == 0 ? "" : ": ",
             REASON_MAX, sampler->error);
    return true;
}

int bi_top_header_rows(const struct top *top)
{
    return top->screen.rows >= TALL_MIN_ROWS ? 4 : 2;
}

void bi_top_header_draw(struct top *top)
{
    char text[BI_ERRMSG_SIZE];
    int last = bi_top_header_rows(top) - 1, width = top->screen.columns;
    draw_title(top, 0);
    draw_counts(top, 1);
    if (last > 1) {
        draw_rates(top, 2);
        draw_gauges(top, 3);
    }
    if (bi_top_header_queue_error(top, text, sizeof(text)))
        bi_top_screen_draw(&top->screen, last, 0, width, STYLE_BAD, text);
    else if (top->model.samples == 0)
        bi_top_screen_draw(&top->screen, last, 0, width, STYLE_DIM, "waiting for figures");
}
