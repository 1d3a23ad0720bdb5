/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include "cli/print.h"
#include "cli/when.h"
#include "util/clock.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FIRST_US 500000
#define EVERY_US 100000
#define BAR      16 /* so that all of it fits into 80 columns */

void bi_progress_begin(struct progress *progress, const struct cli *cli, const char *what,
                       uint64_t total)
{
    *progress = (struct progress){
        .cli = cli, .what = what, .total = total, .began_us = bi_clock_boot(), .drawn_us = 0};
}

static bool is_shown(const struct cli *cli)
{
    return cli->err_terminal && !cli->quiet && !cli->json;
}

static size_t write_bar(char *to, const struct progress *progress)
{
    uint64_t part = progress->done < progress->total ? progress->done : progress->total;
    size_t full = (size_t)((double)part / (double)progress->total * BAR);
    char bar[BAR + 1];
    memset(bar, ' ', BAR);
    memset(bar, '=', full);
    if (full < BAR)
        bar[full] = '>';
    bar[BAR] = 0;
    return (size_t)sprintf(to, "[%s] %3d %%  ", bar,
                           (int)((double)part / (double)progress->total * 100));
}

static void write_left(char *to, size_t size, const struct progress *progress, double rate)
{
    char left[BI_WHEN_SIZE];
    to[0] = 0;
    if (progress->total <= progress->done || rate <= 0)
        return;
    double seconds = (double)(progress->total - progress->done) / rate;
    if (seconds > 1e9)
        return;
    bi_duration_say(left, (int64_t)(seconds + 1) * 1000);
    snprintf(to, size, "  %s left", left);
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
    char bar[64] = "", done[32], total[32], of[48] = "", rate_text[32], left[96], line[400];
    double rate = (double)progress->done * 1e6 / (double)(now - progress->began_us + 1);
    if (progress->total > 0) {
        write_bar(bar, progress);
        bi_print_number(total, progress->total);
        snprintf(of, sizeof(of), " of %s", total);
    }
    bi_print_number(done, progress->done);
    bi_print_number(rate_text, (uint64_t)rate);
    write_left(left, sizeof(left), progress, rate);
    snprintf(line, sizeof(line), "%-10s %s%s%s  %s/s%s", progress->what, bar, done, of, rate_text,
             left);
    draw_line(progress, line, now);
}

static bool is_due(const struct progress *progress, int64_t now)
{
    return is_shown(progress->cli) && now - progress->began_us >= FIRST_US &&
           now - progress->drawn_us >= EVERY_US;
}

void bi_progress_set(struct progress *progress, uint64_t done)
{
    int64_t now = bi_clock_boot();
    progress->done = done;
    if (is_due(progress, now))
        draw(progress, now);
}

void bi_progress_wait(struct progress *progress)
{
    int64_t now = bi_clock_boot();
    char time[BI_WHEN_SIZE], line[200];
    if (!is_due(progress, now))
        return;
    bi_duration_say(time, (now - progress->began_us) / 1000000 * 1000);
    snprintf(line, sizeof(line), "%-10s %s so far", progress->what, time);
    draw_line(progress, line, now);
}

void bi_progress_end(struct progress *progress)
{
    if (progress->drawn_us != 0)
        fputs("\r\x1b[K", stderr);
    progress->drawn_us = 0;
}
