/* SPDX-License-Identifier: MIT */
/*
 * top_screen - the terminal as a whole, by ncurses, of which nobody else knows.
 *
 * What is drawn is compared with what is there, and only the difference is sent: draw everything
 * each time, between bi_top_screen_clear() and bi_top_screen_refresh().
 */
#ifndef BI_TOP_SCREEN_H
#define BI_TOP_SCREEN_H

#include "cli/cli.h"

/* How something looks; where there are no colours, bold, underlined and reverse. */
enum style {
    STYLE_PLAIN,
    STYLE_HEADING,        /* titles, questions */
    STYLE_COLUMN_HEADING, /* the headings of columns: a line under them, and not as the cursor */
    STYLE_CURSOR,         /* the cursor */
    STYLE_TREND,
    STYLE_GOOD,
    STYLE_WARN,
    STYLE_BAD,
    STYLE_DIM,
    STYLE_COUNT
};

/* Keys: characters are themselves. */
enum top_key {
    TOP_KEY_NONE = 0, /* nothing was pressed */
    TOP_KEY_REDRAW = 0x0c,
    TOP_KEY_ESCAPE = 0x1b,
    TOP_KEY_UP = 0x100,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_LEFT,
    TOP_KEY_RIGHT,
    TOP_KEY_ENTER,
    TOP_KEY_TAB,
    TOP_KEY_BACK_TAB,
    TOP_KEY_BACKSPACE,
    TOP_KEY_RESIZE, /* the window has another size */
    TOP_KEY_OTHER,
};

struct screen {
    int rows, columns;
    bool utf8;
};

/* Is there one at all? BI_EXIT_OK, or says that this build has none. */
int bi_top_screen_check(const struct cli *cli);
/* Takes the terminal. BI_EXIT_OK, or says what is wrong. */
int bi_top_screen_open(struct screen *screen, const struct cli *cli);
/* Gives it back as it was. */
void bi_top_screen_close(void);

/* The next key that was pressed; does not wait. */
int bi_top_screen_read_key(struct screen *screen);

void bi_top_screen_clear(void);
/* Text in a field of so many columns: cut at its end, the rest blank. */
void bi_top_screen_draw(const struct screen *screen, int row, int column, int width,
                        enum style style, const char *text);
/* The same at the right of the field. */
void bi_top_screen_draw_right(const struct screen *screen, int row, int column, int width,
                              enum style style, const char *text);
/* Sends what has changed. all: everything, for a terminal that others have written on. */
void bi_top_screen_refresh(bool all);
/* Where the cursor is to stand; row -1: nowhere. */
void bi_top_screen_set_cursor(int row, int column);

#endif
