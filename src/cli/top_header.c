/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include "cli/print.h"
#include "util/clock.h"

#include <string.h>

#define TALL_FROM     16 /* rows of a window that has room for all lines */
#define REASON_COLUMN 200

/* Items of a line, with two blanks between them; those that do not fit are left out. */
struct line {
    const struct screen *screen;
    int row, column;
};

static void item(struct line *line, enum look look, const char *name, const char *value)
{
    int name_size = (int)strlen(name), value_size = (int)strlen(value);
    int width = name_size + 1 + value_size;
    if (line->column + width > line->screen->columns)
        return;
    bi_screen_text(line->screen, line->row, line->column, name_size, LOOK_DIM, name);
    bi_screen_text(line->screen, line->row, line->column + name_size + 1, value_size, look, value);
    line->column += width + 2;
}

static void count_item(struct line *line, enum look look, const char *name, uint64_t number)
{
    char text[32];
    bi_print_number(text, number);
    item(line, number == 0 ? LOOK_DIM : look, name, text);
}

static void rate_item(struct line *line, const char *name, double rate)
{
    char text[BI_TOP_TEXT_SIZE];
    bi_top_rate(text, rate);
    item(line, rate > 0 ? LOOK_PLAIN : LOOK_DIM, name, text);
}

/* ---- the lines ---- */

static void draw_title(struct top *top, int row)
{
    char right[80], every[BI_TOP_TEXT_SIZE], up[BI_TOP_TEXT_SIZE] = "-";
    int width = top->screen.columns;
    if (top->interval_ms < 1000)
        snprintf(every, sizeof(every), "%dms", (int)top->interval_ms);
    else
        bi_top_age(every, top->interval_ms);
    if (top->model.samples > 0)
        bi_top_age(up, top->model.stats.uptime_ms);
    int size = snprintf(right, sizeof(right), "  up %s  %s%s", up,
                        top->frozen ? "FROZEN" : "every ", top->frozen ? "" : every);
    bi_screen_text(&top->screen, row, 0, 8, LOOK_HEAD, "bide top");
    bi_screen_text(&top->screen, row, 9, width - 9 - size, LOOK_PLAIN, top->cli->shown);
    bi_screen_text(&top->screen, row, width - size, size, top->frozen ? LOOK_WARN : LOOK_PLAIN,
                   right);
}

static void draw_counts(struct top *top, int row)
{
    const bide_counts *jobs = &top->model.stats.jobs;
    struct line line = {&top->screen, row, 0};
    count_item(&line, LOOK_HEAD, "ready", jobs->ready);
    count_item(&line, LOOK_WARN, "reserved", jobs->reserved);
    count_item(&line, LOOK_PLAIN, "delayed", jobs->delayed);
    count_item(&line, LOOK_BAD, "buried", jobs->buried);
    if (top->plain)
        item(&line, LOOK_PLAIN, "done", "-");
    else
        count_item(&line, LOOK_GOOD, "done", jobs->done);
    count_item(&line, LOOK_PLAIN, "topics", top->model.stats.topics);
}

static void draw_rates(struct top *top, int row)
{
    const double *rates = top->model.rates;
    struct line line = {&top->screen, row, 0};
    rate_item(&line, "put/s", rates[TOP_RATE_PUTS]);
    rate_item(&line, "reserve/s", rates[TOP_RATE_RESERVES]);
    rate_item(&line, "finish/s", rates[TOP_RATE_FINISHED]);
    rate_item(&line, "fail/s", rates[TOP_RATE_FAILS]);
    count_item(&line, LOOK_PLAIN, "waiting", top->model.stats.waiting);
    if (top->model.stats.draining)
        item(&line, LOOK_WARN, "", "draining");
}

static void draw_rest(struct top *top, int row)
{
    const bide_stats *stats = &top->model.stats;
    char age[BI_TOP_TEXT_SIZE] = "-", memory[32] = "-", took[32];
    struct line line = {&top->screen, row, 0};
    if (!top->plain && stats->jobs.ready > 0)
        bi_top_age(age, stats->oldest_ready_age_ms);
    if (!top->plain)
        bi_print_size(memory, stats->memory_bytes);
    snprintf(took, sizeof(took), "%.1f ms", (double)top->sampler.took_us / 1000);
    item(&line, LOOK_PLAIN, "oldest ready", age);
    item(&line, LOOK_PLAIN, "memory", memory);
    if (top->sampler.cut)
        item(&line, LOOK_WARN, "topics", "the first " BI_TOP_TOPICS_TEXT);
    item(&line, LOOK_PLAIN, "sample", took);
}

/* ---- what is wrong ---- */

bool bi_top_trouble(const struct top *top, char *text, size_t size)
{
    const struct sampler *sampler = &top->sampler;
    char since[BI_TOP_TEXT_SIZE];
    int64_t now = bi_clock_boot(), asked_us = bi_sampler_asked(sampler);
    bool silent = asked_us != 0 && now - asked_us >= BI_TOP_SILENT_US;

    if (sampler->failing_us == 0 && !silent)
        return false;
    bi_top_age(since, (now - (sampler->failing_us > 0 ? sampler->failing_us : asked_us)) / 1000);
    snprintf(text, size, "NO ANSWER for %s%s%.*s", since, sampler->problem[0] == 0 ? "" : ": ",
             REASON_COLUMN, sampler->problem);
    return true;
}

int bi_top_header_rows(const struct top *top)
{
    return top->screen.rows >= TALL_FROM ? 4 : 2;
}

void bi_top_header(struct top *top)
{
    char text[BI_SENTENCE_SIZE];
    int last = bi_top_header_rows(top) - 1, width = top->screen.columns;
    draw_title(top, 0);
    draw_counts(top, 1);
    if (last > 1) {
        draw_rates(top, 2);
        draw_rest(top, 3);
    }
    if (bi_top_trouble(top, text, sizeof(text)))
        bi_screen_text(&top->screen, last, 0, width, LOOK_BAD, text);
    else if (top->model.samples == 0)
        bi_screen_text(&top->screen, last, 0, width, LOOK_DIM, "waiting for figures");
}
