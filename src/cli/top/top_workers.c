/* SPDX-License-Identifier: MIT */
/*
 * top_workers - the view of the workers: who holds which jobs since when. Announcements and
 * reserved jobs are read page by page and joined.
 */
#include "cli/top/top.h"

#include "cli/print.h"
#include "util/clock.h"

#include <string.h>

static const struct worker_row *selected_worker(const struct workers_view *view)
{
    return view->selected < view->list.count ? &view->list.rows[view->selected] : NULL;
}

/* ---- loading ---- */

static void finish_load(struct top *top, const char *error)
{
    struct workers_view *view = &top->workers;
    view->busy = false;
    top->needs_redraw = true;
    snprintf(view->error, sizeof(view->error), "%s", error);
}

/* Shows what was read. The cursor stays on its worker. */
static void publish(struct top *top)
{
    struct workers_view *view = &top->workers;
    const struct worker_row *selected = selected_worker(view);
    struct worker_list shown = view->list;
    size_t at = view->selected;

    if (!bi_worker_list_join(&view->incoming)) {
        finish_load(top, bide_code_text(BIDE_ENOMEM));
        return;
    }
    for (size_t i = 0; selected != NULL && i < view->incoming.count; i++)
        if (bi_worker_list_is_same(&view->incoming.rows[i], selected))
            at = i;
    view->list = view->incoming;
    view->incoming = shown;
    view->selected = at < view->list.count ? at : view->list.count == 0 ? 0 : view->list.count - 1;
    view->loaded = true;
    finish_load(top, "");
}

static void request_jobs(struct top *top);
static void request_workers(struct top *top);

static void on_workers(struct top_request *request)
{
    struct top *top = request->top;
    struct workers_view *view = &top->workers;

    if (request->op.status != BIDE_OK) {
        finish_load(top, bi_top_request_error(request));
        return;
    }
    view->incoming.announced_count += request->op.workers.count;
    if (view->cursor[0] != 0 && view->incoming.announced_count < BI_TOP_WORKERS_MAX) {
        request_workers(top);
        return;
    }
    view->truncated = view->truncated || view->cursor[0] != 0;
    publish(top);
}

static void request_workers(struct top *top)
{
    struct workers_view *view = &top->workers;
    view->request.op = (bide_op){
        .kind = BIDE_OP_WORKERS,
        .workers = bi_worker_list_next_workers(&view->incoming, view->cursor, BI_TOP_WORKERS_PAGE)};
    bi_top_request_send(&view->request, top, on_workers);
}

static void on_jobs(struct top_request *request)
{
    struct top *top = request->top;
    struct workers_view *view = &top->workers;

    if (request->op.status != BIDE_OK) {
        finish_load(top, bi_top_request_error(request));
        return;
    }
    view->incoming.job_count += request->op.list.count;
    if (view->cursor[0] != 0 && view->incoming.job_count < BI_TOP_WORKERS_MAX &&
        ++view->pages < BI_TOP_WORKERS_PAGES) {
        request_jobs(top);
        return;
    }
    view->truncated = view->cursor[0] != 0;
    view->cursor[0] = 0;
    request_workers(top);
}

static void request_jobs(struct top *top)
{
    struct workers_view *view = &top->workers;
    view->request.op = (bide_op){
        .kind = BIDE_OP_LIST,
        .list = bi_worker_list_next_jobs(&view->incoming, view->cursor, BI_TOP_WORKERS_PAGE)};
    bi_top_request_send(&view->request, top, on_jobs);
}

static void refresh(struct top *top)
{
    struct workers_view *view = &top->workers;
    if (view->busy || top->quit)
        return;
    bi_worker_list_clear(&view->incoming);
    view->busy = true;
    view->cursor[0] = 0;
    view->pages = 0;
    request_jobs(top);
}

void bi_top_workers_show(struct top *top)
{
    bi_top_window_set_view(top, &bi_top_workers);
    refresh(top);
}

/* ---- drawing ---- */

/* The columns between the name and the jobs, all aligned to the right. Narrow windows omit some. */
enum { RUNNING, THREADS, DONE, FAILED, UP, FIELDS };
static const struct {
    const char *heading;
    int width, min_columns;
} fields[FIELDS] = {
    [RUNNING] = {"RUN", 4, 0},    [THREADS] = {"OF", 4, 50}, [DONE] = {"DONE", 5, 76},
    [FAILED] = {"FAILED", 6, 76}, [UP] = {"UP", 6, 60},
};
#define NAME_MIN 12

/* At most a third of the window, as wide as the longest name. */
static int name_width(const struct top *top)
{
    size_t longest = NAME_MIN, most = (size_t)top->screen.columns / 3;
    for (size_t i = 0; i < top->workers.list.count; i++) {
        size_t size = top->workers.list.rows[i].info.name.size;
        longest = size > longest ? size : longest;
    }
    return (int)(longest < most ? longest : most);
}

static void format_fields(const struct worker_row *row, int64_t now_ms,
                          char cells[FIELDS][BI_TOP_FORMAT_SIZE])
{
    for (int i = 0; i < FIELDS; i++)
        snprintf(cells[i], BI_TOP_FORMAT_SIZE, "-");
    bi_top_column_format_count(cells[RUNNING], row->job_count);
    if (row->announced == NULL)
        return;
    bi_top_column_format_count(cells[THREADS], row->info.threads);
    bi_top_column_format_count(cells[DONE], row->info.done);
    bi_top_column_format_count(cells[FAILED], row->info.failed);
    if (row->info.started_ms != 0)
        bi_top_column_format_age(cells[UP], now_ms - row->info.started_ms);
}

/* Draws cells of a row; jobs is the text behind them. */
static void draw_cells(const struct top *top, int row, enum style style, const bide_slice *name,
                       char cells[FIELDS][BI_TOP_FORMAT_SIZE], const char *jobs)
{
    int width = name_width(top), column = 1 + width;
    char text[4 * BI_TOP_WIDTH_MAX + 8];

    bi_top_screen_draw(row, 0, BI_TOP_REST, style, "");
    bi_print_excerpt(text, (size_t)width, name->data, name->size);
    bi_top_screen_draw(row, 1, width, style, text);
    for (int i = 0; i < FIELDS; i++) {
        if (top->screen.columns < fields[i].min_columns)
            continue;
        bool bad = i == FAILED && style == STYLE_PLAIN && strcmp(cells[i], "0") != 0 &&
                   strcmp(cells[i], "-") != 0;
        bi_top_screen_draw_right(row, column + 1, fields[i].width, bad ? STYLE_BAD : style,
                                 cells[i]);
        column += 1 + fields[i].width;
    }
    bi_top_screen_draw(row, column + 2, BI_TOP_REST, style, jobs);
}

static void draw_headings(const struct top *top, int row)
{
    const bide_slice name = {"WORKER", 6};
    char cells[FIELDS][BI_TOP_FORMAT_SIZE];
    for (int i = 0; i < FIELDS; i++)
        snprintf(cells[i], sizeof(cells[i]), "%s", fields[i].heading);
    draw_cells(top, row, STYLE_COLUMN_HEADING, &name, cells, "JOBS");
}

static void draw_worker(const struct top *top, int row, const struct worker_row *worker,
                        bool selected)
{
    static const bide_slice unknown = {"-", 1};
    char cells[FIELDS][BI_TOP_FORMAT_SIZE], jobs[2000];
    format_fields(worker, bi_clock_wall() / 1000, cells);
    bi_worker_list_format_jobs(worker, jobs, sizeof(jobs));
    draw_cells(top, row, selected ? STYLE_CURSOR : STYLE_PLAIN,
               worker->info.name.size == 0 ? &unknown : &worker->info.name, cells, jobs);
}

/* The line below the workers: why there are none, or not all. */
static void draw_status(const struct top *top, int row)
{
    const struct workers_view *view = &top->workers;
    const char *text = view->error[0] != 0     ? view->error
                       : !view->loaded         ? "loading"
                       : view->list.count == 0 ? "none"
                       : view->truncated       ? "not all workers and jobs are shown"
                                               : "";
    bi_top_screen_draw(row, 1, BI_TOP_REST, view->error[0] != 0 ? STYLE_BAD : STYLE_DIM, text);
}

/* Without the title, the headings, the status and the bottom line. */
#define USED_ROWS 4

static void draw(struct top *top)
{
    struct workers_view *view = &top->workers;
    size_t window = bi_top_window_rows(top, USED_ROWS);
    struct top_line line = {0, 9, top->screen.columns};

    bi_top_screen_draw(0, 0, BI_TOP_REST, STYLE_HEADING, "workers");
    bi_top_window_draw_item(&line, STYLE_PLAIN, "announced",
                            bi_text_number(view->list.announced_count).s);
    bi_top_window_draw_item(&line, STYLE_PLAIN, "jobs reserved",
                            bi_text_number(view->list.job_count).s);
    draw_headings(top, 1);
    view->first = bi_top_page_scroll(view->first, view->selected, view->list.count, window);
    for (size_t i = 0; i < window && view->first + i < view->list.count; i++)
        draw_worker(top, 2 + (int)i, &view->list.rows[view->first + i],
                    view->first + i == view->selected);
    draw_status(top, top->screen.rows - 2);
}

/* ---- keys ---- */

static void key(struct top *top, int pressed)
{
    struct workers_view *view = &top->workers;
    const struct worker_row *worker = selected_worker(view);

    if (bi_top_page_move_cursor(pressed, view->list.count, bi_top_window_rows(top, USED_ROWS),
                                &view->selected))
        return;
    if (pressed == 'q' || pressed == TOP_KEY_ESCAPE)
        bi_top_window_set_view(top, &bi_top_topics);
    else if (pressed == TOP_KEY_ENTER && worker != NULL && worker->job_count > 0)
        bi_top_job_show(top, worker->jobs[0].id);
}

const struct top_view bi_top_workers = {
    .key_hint = "Enter open the first job  Up/Down PgUp/PgDn move  ? help  q back",
    .draw = draw,
    .key = key,
    .refresh = refresh,
};
