/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

#include "util/clock.h"

#include <ctype.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static void open_prompt(
    struct top *top, enum prompt_kind kind, void (*on_answer)(struct top *top, bool yes),
    const char *format, va_list args)
{
    struct prompt *prompt = &top->prompt;
    *prompt = (struct prompt){.kind = kind, .on_answer = on_answer};
    vsnprintf(prompt->question, sizeof(prompt->question), format, args);
    top->needs_redraw = true;
}

void bi_top_prompt_confirm(struct top *top, void (*on_answer)(struct top *top, bool yes),
                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    open_prompt(top, PROMPT_CONFIRM, on_answer, format, args);
    va_end(args);
}

void bi_top_prompt_number(struct top *top, void (*on_answer)(struct top *top, bool yes),
                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    open_prompt(top, PROMPT_NUMBER, on_answer, format, args);
    va_end(args);
}

void bi_top_prompt_text(struct top *top, const char *question, const char *input,
                        void (*on_change)(struct top *top),
                        void (*on_answer)(struct top *top, bool yes))
{
    struct prompt *prompt = &top->prompt;
    *prompt = (struct prompt){.kind = PROMPT_TEXT, .on_answer = on_answer, .on_change = on_change};
    snprintf(prompt->question, sizeof(prompt->question), "%s", question);
    snprintf(prompt->input, sizeof(prompt->input), "%s", input);
    prompt->size = strlen(prompt->input);
    top->needs_redraw = true;
}

/* The answer may ask the next question. */
static void answer(struct top *top, bool yes)
{
    top->prompt.kind = PROMPT_NONE;
    top->needs_redraw = true;
    top->prompt.on_answer(top, yes);
}

static bool is_accepted(const struct prompt *prompt, int key)
{
    size_t most = prompt->kind == PROMPT_NUMBER ? 15 : sizeof(prompt->input) - 1;
    bool good = prompt->kind == PROMPT_NUMBER ? key >= '0' && key <= '9' : key > ' ' && key < 0x7f;
    return good && prompt->size < most;
}

static void edit(struct top *top, int key)
{
    struct prompt *prompt = &top->prompt;
    if (key == TOP_KEY_BACKSPACE && prompt->size > 0)
        prompt->input[--prompt->size] = 0;
    else if (is_accepted(prompt, key))
        prompt->input[prompt->size++] = (char)key;
    else
        return;
    top->needs_redraw = true;
    if (prompt->on_change != NULL)
        prompt->on_change(top);
}

void bi_top_prompt_handle_key(struct top *top, int key)
{
    if (top->prompt.kind == PROMPT_CONFIRM)
        answer(top, key == 'y' || key == 'Y');
    else if (key == TOP_KEY_ESCAPE || key == TOP_KEY_ENTER)
        answer(top, key == TOP_KEY_ENTER);
    else
        edit(top, key);
}

/* A note, else what is wrong with the queue (the list of topics says that at its top), else keys. */
static void draw_hint(struct top *top, int row, int width)
{
    char queue_error[BI_ERRMSG_SIZE];

    if (top->note[0] != 0)
        bi_top_screen_draw(&top->screen, row, 0, width, top->note_style, top->note);
    else if (top->view != &bi_top_view_topics &&
             bi_top_header_queue_error(top, queue_error, sizeof(queue_error)))
        bi_top_screen_draw(&top->screen, row, 0, width, STYLE_BAD, queue_error);
    else
        bi_top_screen_draw(&top->screen, row, 0, width, STYLE_DIM, top->view->key_hint);
}

void bi_top_prompt_draw(struct top *top)
{
    struct prompt *prompt = &top->prompt;
    int row = top->screen.rows - 1, width = top->screen.columns;
    char line[sizeof(prompt->question) + sizeof(prompt->input) + 8];
    if (prompt->kind == PROMPT_NONE) {
        draw_hint(top, row, width);
        bi_top_screen_set_cursor(-1, 0);
        return;
    }
    int size = snprintf(line, sizeof(line), "%s %s%s", prompt->question, prompt->input,
                        prompt->kind == PROMPT_CONFIRM ? "y/N" : "");
    /* The end is what is typed: of a long line it must be seen. */
    int from = size > width - 1 ? size - (width - 1) : 0;
    bi_top_screen_draw(&top->screen, row, 0, width, STYLE_HEADING, line + from);
    bi_top_screen_set_cursor(row, size - from);
}

void bi_top_prompt_note(struct top *top, enum style style, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(top->note, sizeof(top->note), format, args);
    va_end(args);
    top->note_style = style;
    top->note_expires_us = bi_clock_boot() + BI_TOP_NOTE_US;
    top->needs_redraw = true;
}
