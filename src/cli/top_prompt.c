/* SPDX-License-Identifier: MIT */
#include "cli/top.h"

#include "util/clock.h"

#include <ctype.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static void begin(struct top *top, enum prompt_kind kind,
                                                        void (*answered)(struct top *top, bool yes),
                                                        const char *format, va_list args)
{
    struct prompt *prompt = &top->prompt;
    *prompt = (struct prompt){.kind = kind, .answered = answered};
    vsnprintf(prompt->question, sizeof(prompt->question), format, args);
    top->changed = true;
}

void bi_prompt_confirm(struct top *top, void (*answered)(struct top *top, bool yes),
                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    begin(top, PROMPT_CONFIRM, answered, format, args);
    va_end(args);
}

void bi_prompt_number(struct top *top, void (*answered)(struct top *top, bool yes),
                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    begin(top, PROMPT_NUMBER, answered, format, args);
    va_end(args);
}

void bi_prompt_text(struct top *top, const char *question, const char *input,
                    void (*typed)(struct top *top), void (*answered)(struct top *top, bool yes))
{
    struct prompt *prompt = &top->prompt;
    *prompt = (struct prompt){.kind = PROMPT_TEXT, .answered = answered, .typed = typed};
    snprintf(prompt->question, sizeof(prompt->question), "%s", question);
    snprintf(prompt->input, sizeof(prompt->input), "%s", input);
    prompt->size = strlen(prompt->input);
    top->changed = true;
}

/* The answer may ask the next question. */
static void answer(struct top *top, bool yes)
{
    top->prompt.kind = PROMPT_NONE;
    top->changed = true;
    top->prompt.answered(top, yes);
}

static bool fits(const struct prompt *prompt, int key)
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
    else if (fits(prompt, key))
        prompt->input[prompt->size++] = (char)key;
    else
        return;
    top->changed = true;
    if (prompt->typed != NULL)
        prompt->typed(top);
}

void bi_prompt_key(struct top *top, int key)
{
    if (top->prompt.kind == PROMPT_CONFIRM)
        answer(top, key == 'y' || key == 'Y');
    else if (key == TOP_KEY_ESCAPE || key == TOP_KEY_ENTER)
        answer(top, key == TOP_KEY_ENTER);
    else
        edit(top, key);
}

/* A note, else what is wrong with the queue (the list of topics says that at its top), else keys. */
static void draw_idle(struct top *top, int row, int width)
{
    char trouble[BI_SENTENCE_SIZE];

    if (top->note[0] != 0)
        bi_screen_text(&top->screen, row, 0, width, top->note_look, top->note);
    else if (top->view != &bi_view_topics && bi_top_trouble(top, trouble, sizeof(trouble)))
        bi_screen_text(&top->screen, row, 0, width, LOOK_BAD, trouble);
    else
        bi_screen_text(&top->screen, row, 0, width, LOOK_DIM, top->view->keys);
}

void bi_prompt_draw(struct top *top)
{
    struct prompt *prompt = &top->prompt;
    int row = top->screen.rows - 1, width = top->screen.columns;
    char line[sizeof(prompt->question) + sizeof(prompt->input) + 8];
    if (prompt->kind == PROMPT_NONE) {
        draw_idle(top, row, width);
        bi_screen_cursor(-1, 0);
        return;
    }
    int size = snprintf(line, sizeof(line), "%s %s%s", prompt->question, prompt->input,
                        prompt->kind == PROMPT_CONFIRM ? "y/N" : "");
    /* The end is what is typed: of a long line it must be seen. */
    int from = size > width - 1 ? size - (width - 1) : 0;
    bi_screen_text(&top->screen, row, 0, width, LOOK_HEAD, line + from);
    bi_screen_cursor(row, size - from);
}

void bi_top_note(struct top *top, enum look look, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(top->note, sizeof(top->note), format, args);
    va_end(args);
    top->note_look = look;
    top->note_until_us = bi_clock_boot() + BI_TOP_NOTE_US;
    top->changed = true;
}
