/* SPDX-License-Identifier: MIT */
/*
 * top_window - what all views have in common: the header, the bottom line, the help, and the keys
 * that work everywhere.
 */
#include "cli/top/top.h"

#include "cli/print.h"
#include "util/clock.h"

#include <assert.h>
#include <string.h>

#define TALL_MIN_ROWS 16 /* from here on all header lines are shown */
#define REASON_MAX    200

/* ---- header ---- */

void bi_top_window_draw_item(struct top_line *line, enum style style, const char *name,
                             const char *value)
{
    int name_size = (int)strlen(name), value_size = (int)strlen(value);
    int width = name_size + 1 + value_size;

    if (line->column + width > line->columns)
        return;
    bi_top_screen_draw(line->row, line->column, name_size, STYLE_DIM, name);
    bi_top_screen_draw(line->row, line->column + name_size + 1, value_size, style, value);
    line->column += width + 2;
}

static void draw_count_item(struct top_line *line, enum style style, const char *name,
                            uint64_t number)
{
    bi_top_window_draw_item(line, number == 0 ? STYLE_DIM : style, name, bi_text_number(number).s);
}

static void draw_title(const struct top *top)
{
    char right[80], interval[BI_TOP_FORMAT_SIZE], up[BI_TOP_FORMAT_SIZE] = "-";
    int width = top->screen.columns;

    if (top->interval_ms < 1000)
        snprintf(interval, sizeof(interval), "%dms", (int)top->interval_ms);
    else
        bi_top_column_format_age(interval, top->interval_ms);
    if (top->model.samples > 0)
        bi_top_column_format_age(up, top->model.stats.uptime_ms);
    int size = snprintf(right, sizeof(right), "  up %s  %s%s", up,
                        top->frozen ? "FROZEN" : "every ", top->frozen ? "" : interval);

    bi_top_screen_draw(0, 0, 8, STYLE_HEADING, "bide top");
    bi_top_screen_draw(0, 9, width - 9 - size, STYLE_PLAIN, top->cli->shown);
    bi_top_screen_draw(0, width - size, size, top->frozen ? STYLE_WARN : STYLE_PLAIN, right);
}

static void draw_counts(const struct top *top, int row)
{
    struct top_line line = {row, 0, top->screen.columns};

    for (size_t i = 0; i < BI_TOP_STATES; i++) {
        const struct top_state *state = &bi_top_column_states[i];
        if (top->plain && state->state == BIDE_STATE_DONE)
            bi_top_window_draw_item(&line, STYLE_PLAIN, "done", "-");
        else
            draw_count_item(&line, state->style, bide_state_name(state->state),
                            bi_top_column_state_count(state, &top->model.stats.jobs));
    }
    draw_count_item(&line, STYLE_PLAIN, "topics", top->model.stats.topics);
}

static void draw_rates(const struct top *top, int row)
{
    static const char *const names[TOP_RATES] = {
        [TOP_RATE_PUTS] = "put/s",
        [TOP_RATE_RESERVES] = "reserve/s",
        [TOP_RATE_FINISHED] = "finish/s",
        [TOP_RATE_FAILS] = "fail/s",
    };
    struct top_line line = {row, 0, top->screen.columns};

    for (int i = 0; i < TOP_RATES; i++) {
        double rate = top->model.rates[i];
        char text[BI_TOP_FORMAT_SIZE];
        bi_top_column_format_rate(text, rate);
        bi_top_window_draw_item(&line, rate > 0 ? STYLE_PLAIN : STYLE_DIM, names[i], text);
    }
    draw_count_item(&line, STYLE_PLAIN, "waiting", top->model.stats.waiting);
    if (top->model.stats.draining)
        bi_top_window_draw_item(&line, STYLE_WARN, "", "draining");
}

static void draw_gauges(const struct top *top, int row)
{
    const bide_stats *stats = &top->model.stats;
    char age[BI_TOP_FORMAT_SIZE] = "-", took[32];
    struct top_line line = {row, 0, top->screen.columns};

    if (!top->plain && stats->jobs.ready > 0)
        bi_top_column_format_age(age, stats->oldest_ready_age_ms);
    snprintf(took, sizeof(took), "%.1f ms", (double)top->sampler.duration_us / 1000);

    bi_top_window_draw_item(&line, STYLE_PLAIN, "oldest ready", age);
    bi_top_window_draw_item(&line, STYLE_PLAIN, "memory",
                            top->plain ? "-" : bi_text_size(stats->memory_bytes).s);
    if (top->sampler.truncated)
        bi_top_window_draw_item(&line, STYLE_WARN, "topics", "the first " BI_TOP_TOPICS_TEXT);
    bi_top_window_draw_item(&line, STYLE_PLAIN, "sample", took);
}

/* Formats why the queue does not answer; false if it does. */
static bool queue_error(const struct top *top, char *text, size_t size)
{
    const struct sampler *sampler = &top->sampler;
    char elapsed[BI_TOP_FORMAT_SIZE];
    int64_t now_us = bi_clock_boot(), waiting_since_us = bi_top_sampler_waiting_since(sampler);
    int64_t since_us = sampler->failing_since_us;

    if (since_us == 0 && waiting_since_us != 0 &&
        now_us - waiting_since_us >= BI_TOP_REPLY_TIMEOUT_US)
        since_us = waiting_since_us;
    if (since_us == 0)
        return false;

    bi_top_column_format_age(elapsed, (now_us - since_us) / 1000);
    snprintf(text, size, "NO ANSWER for %s%s%.*s", elapsed, sampler->error[0] == 0 ? "" : ": ",
             REASON_MAX, sampler->error);
    return true;
}

int bi_top_window_header_rows(const struct top *top)
{
    return top->screen.rows >= TALL_MIN_ROWS ? 4 : 2;
}

size_t bi_top_window_rows(const struct top *top, int used)
{
    return top->screen.rows > used ? (size_t)(top->screen.rows - used) : 1;
}

bool bi_top_window_scroll_lines(const struct top *top, int key, size_t count, size_t *first)
{
    size_t window = bi_top_window_rows(top, 2);
    return bi_top_page_move_cursor(key, count > window ? count - window + 1 : 1, window, first);
}

size_t bi_top_window_draw_lines(const struct top *top, const char *const *lines, size_t count,
                                size_t first)
{
    size_t window = bi_top_window_rows(top, 2), max_first = count > window ? count - window : 0;

    first = first < max_first ? first : max_first;
    for (size_t i = 0; i < window && first + i < count; i++) {
        const char *line = lines[first + i];
        bool heading = top->help && line[0] != ' ';
        bi_top_screen_draw(1 + (int)i, 0, BI_TOP_REST, heading ? STYLE_HEADING : STYLE_PLAIN, line);
    }
    return first;
}

void bi_top_window_draw_header(struct top *top)
{
    char text[BI_ERRMSG_SIZE];
    int last = bi_top_window_header_rows(top) - 1;

    draw_title(top);
    draw_counts(top, 1);
    if (last > 1) {
        draw_rates(top, 2);
        draw_gauges(top, 3);
    }
    /* Over the last header line, where it is visible in a window of any height. */
    if (queue_error(top, text, sizeof(text)))
        bi_top_screen_draw(last, 0, BI_TOP_REST, STYLE_BAD, text);
    else if (top->model.samples == 0)
        bi_top_screen_draw(last, 0, BI_TOP_REST, STYLE_DIM, "waiting for the first sample");
}

/* ---- bottom line ---- */

void bi_top_window_note(struct top *top, enum style style, const char *format, ...)
{
    BI_CLI_FORMAT(top->note, format);
    top->note_style = style;
    top->note_expires_us = bi_clock_boot() + BI_TOP_NOTE_US;
    top->needs_redraw = true;
}

void bi_top_window_ask(struct top *top, enum prompt_kind kind,
                       void (*on_answer)(struct top *top, bool yes), const char *format, ...)
{
    struct prompt *prompt = &top->prompt;

    assert(kind != PROMPT_NONE && prompt->kind == PROMPT_NONE);
    *prompt = (struct prompt){.kind = kind, .on_answer = on_answer};
    BI_CLI_FORMAT(prompt->question, format);
    top->needs_redraw = true;
}

/* on_answer may ask the next question, so the prompt is closed before. */
static void answer_prompt(struct top *top, bool yes)
{
    assert(top->prompt.kind != PROMPT_NONE);
    top->prompt.kind = PROMPT_NONE;
    top->prompt.on_answer(top, yes);
}

static void handle_prompt_key(struct top *top, int key)
{
    struct prompt *prompt = &top->prompt;
    bool number = prompt->kind == PROMPT_NUMBER;
    size_t max = number ? 15 : sizeof(prompt->input) - 1;

    if (prompt->kind == PROMPT_CONFIRM) {
        answer_prompt(top, key == 'y' || key == 'Y');
        return;
    }
    if (key == TOP_KEY_ESCAPE || key == TOP_KEY_ENTER) {
        answer_prompt(top, key == TOP_KEY_ENTER);
        return;
    }

    bool accepted = number ? key >= '0' && key <= '9' : key > ' ' && key < 0x7f;
    if (key == TOP_KEY_BACKSPACE && prompt->size > 0)
        prompt->input[--prompt->size] = 0;
    else if (accepted && prompt->size < max)
        prompt->input[prompt->size++] = (char)key;
    else
        return;
    if (prompt->on_change != NULL)
        prompt->on_change(top);
}

static void draw_bottom_line(const struct top *top)
{
    const struct prompt *prompt = &top->prompt;
    int row = top->screen.rows - 1, width = top->screen.columns;
    char line[sizeof(prompt->question) + sizeof(prompt->input) + 8], error[BI_ERRMSG_SIZE];

    if (prompt->kind != PROMPT_NONE) {
        int size = snprintf(line, sizeof(line), "%s %s%s", prompt->question, prompt->input,
                            prompt->kind == PROMPT_CONFIRM ? "y/N" : "");
        /* Of a line that is too long the end is shown, where the user types. */
        int from = size > width - 1 ? size - (width - 1) : 0;
        bi_top_screen_draw(row, 0, width, STYLE_HEADING, line + from);
        bi_top_screen_set_cursor(row, size - from);
        return;
    }

    bi_top_screen_set_cursor(-1, 0);
    if (top->note[0] != 0)
        bi_top_screen_draw(row, 0, width, top->note_style, top->note);
    else if ((top->help || top->view != &bi_top_topics) && queue_error(top, error, sizeof(error)))
        bi_top_screen_draw(row, 0, width, STYLE_BAD, error); /* the topics have it in the header */
    else
        bi_top_screen_draw(row, 0, width, STYLE_DIM,
                           top->help ? "any key: back" : top->view->key_hint);
}

/* ---- help ---- */

static const char *const help_lines[] = {
    "All views",
    "  Up Down j k PgUp PgDn Home End   move the cursor",
    "  + -        refresh less often, more often",
    "  space      freeze, resume        Ctrl-L     redraw",
    "  ?          this help             q Esc      back; q in the topics: quit",
    "Topics (before a name P: paused, L: at a limit)",
    "  Enter      open the topic        s > <      sort by the next, previous column",
    "  /          filter by name        r          reverse the order",
    "  w          the workers           t          trend of ready or of finished jobs",
    "  K  kick    make buried jobs ready; if there are none, delayed ones",
    "  P          pause or resume the topic",
    "Jobs of a topic",
    "  Enter      open the job          Tab        next state",
    "  K P        as above              X          purge all jobs in this state",
    "Workers, and the jobs that they hold: id, topic, for how long",
    "  Enter      open the first job",
    "Job, also in the list",
    "  n          make it ready now     b  bury    d  delete",
    "Columns: jobs READY, RESVD (reserved), DELAY (delayed), BURIED, DONE; per second",
    "IN/S put and OUT/S finished; OLDEST ready job; WAIT: waiting workers; TREND.",
    "Every change asks for confirmation: y confirms, any other key cancels.",
};
#define HELP_LINES (sizeof(help_lines) / sizeof(help_lines[0]))

/* ---- the window ---- */

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
        bi_top_screen_draw(0, 0, BI_TOP_REST, STYLE_PLAIN, "too small: 40 x 10");
        bi_top_screen_draw(1, 0, BI_TOP_REST, STYLE_PLAIN, "is the minimum");
    } else {
        if (top->help) {
            bi_top_screen_draw(0, 0, BI_TOP_REST, STYLE_CURSOR, "bide top: keys");
            top->help_first =
                bi_top_window_draw_lines(top, help_lines, HELP_LINES, top->help_first);
        } else {
            top->view->draw(top);
        }
        draw_bottom_line(top);
    }
    bi_top_screen_refresh(top->full_redraw);
    top->full_redraw = false;
}

static void change_interval(struct top *top, int step)
{
    static const int64_t steps[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};
    const int count = sizeof(steps) / sizeof(steps[0]);
    int at = 0;

    while (at < count - 1 && steps[at] < top->interval_ms)
        at++;
    /* Between two steps, + goes to the one above, which is found already. */
    if (step < 0 || steps[at] == top->interval_ms)
        at += step;
    top->interval_ms = steps[at < 0 ? 0 : at < count ? at : count - 1];
    bi_top_window_note(top, STYLE_PLAIN, "Refreshed every %.1f s.",
                       (double)top->interval_ms / 1000);
}

static void toggle_freeze(struct top *top)
{
    top->frozen = !top->frozen;
    if (top->frozen)
        bi_top_window_note(top, STYLE_WARN, "Frozen: space resumes.");
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

    /* Any key acknowledges the note. */
    top->note[0] = 0;
    if (top->prompt.kind != PROMPT_NONE) {
        handle_prompt_key(top, key);
    } else if (top->help) {
        top->help = bi_top_window_scroll_lines(top, key, HELP_LINES, &top->help_first);
    } else if (key == '+' || key == '-') {
        change_interval(top, key == '+' ? 1 : -1);
    } else if (key == ' ') {
        toggle_freeze(top);
    } else if (key == '?') {
        top->help = true;
        top->help_first = 0;
    } else {
        top->view->key(top, key);
    }
}
