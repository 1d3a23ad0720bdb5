/* SPDX-License-Identifier: MIT */
#include "cli/print.h"

#include "util/clock.h"

#include <assert.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FIRST_DRAW_US 500000
#define REDRAW_US     100000
#define BAR_WIDTH     16 /* so that all of it fits into 80 columns */

void bi_progress_begin(struct progress *progress, const struct cli *cli, const char *label,
                       uint64_t total)
{
    *progress = (struct progress){
        .cli = cli, .label = label, .total = total, .began_us = bi_clock_boot(), .drawn_us = 0};
}

static size_t format_bar(char *to, const struct progress *progress)
{
    uint64_t done_capped = progress->done < progress->total ? progress->done : progress->total;
    size_t full = (size_t)((double)done_capped / (double)progress->total * BAR_WIDTH);
    char bar[BAR_WIDTH + 1];

    assert(progress->total > 0);
    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '=', full);
    if (full < BAR_WIDTH)
        bar[full] = '>';
    bar[BAR_WIDTH] = 0;
    return (size_t)sprintf(to, "[%s] %3d %%  ", bar,
                           (int)((double)done_capped / (double)progress->total * 100));
}

static void format_time_left(char *to, size_t size, const struct progress *progress, double rate)
{
    to[0] = 0;
    if (progress->total <= progress->done || rate <= 0)
        return;
    double seconds = (double)(progress->total - progress->done) / rate;
    if (seconds > 1e9)
        return;
    snprintf(to, size, "  %s left", bi_text_duration((int64_t)(seconds + 1) * 1000).s);
}

static void draw_line(struct progress *progress, const char *line, int64_t now)
{
    struct winsize window = {.ws_col = 0};

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
        window.ws_col = 80;
    fprintf(stderr, "\r%.*s\x1b[K", window.ws_col - 1, line);
    fflush(stderr);
    progress->drawn_us = now;
}

static void draw(struct progress *progress, int64_t now)
{
    char bar[64] = "", of[96] = "", left[96], line[512];
    double rate = (double)progress->done * 1e6 / (double)(now - progress->began_us + 1);

    if (progress->total > 0) {
        format_bar(bar, progress);
        snprintf(of, sizeof(of), " of %s", bi_text_number(progress->total).s);
    }
    format_time_left(left, sizeof(left), progress, rate);
    snprintf(line, sizeof(line), "%-10s %s%s%s  %s/s%s", progress->label, bar,
             bi_text_number(progress->done).s, of, bi_text_number((uint64_t)rate).s, left);
    draw_line(progress, line, now);
}

static bool is_due(const struct progress *progress, int64_t now)
{
    const struct cli *cli = progress->cli;
    return cli->err_terminal && !cli->quiet && !cli->json &&
           now - progress->began_us >= FIRST_DRAW_US && now - progress->drawn_us >= REDRAW_US;
}

void bi_progress_set(struct progress *progress, uint64_t done)
{
    assert(progress->cli != NULL);
    int64_t now = bi_clock_boot();
    progress->done = done;
    if (is_due(progress, now))
        draw(progress, now);
}

void bi_progress_set_elapsed(struct progress *progress)
{
    int64_t now = bi_clock_boot();
    char line[200];

    if (!is_due(progress, now))
        return;
    snprintf(line, sizeof(line), "%-10s %s so far", progress->label,
             bi_text_duration((now - progress->began_us) / 1000000 * 1000).s);
    draw_line(progress, line, now);
}

void bi_progress_end(struct progress *progress)
{
    if (progress->drawn_us != 0)
        fputs("\r\x1b[K", stderr);
    progress->drawn_us = 0;
}
