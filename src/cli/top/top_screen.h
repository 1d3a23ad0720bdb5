/* SPDX-License-Identifier: MIT */
/*
 * top_screen - the terminal. Only top_screen.c uses ncurses.
 *
 * ncurses sends only the difference to what the terminal shows, so each frame is drawn completely,
 * between bi_top_screen_clear() and bi_top_screen_refresh().
 */
#ifndef BI_TOP_SCREEN_H
#define BI_TOP_SCREEN_H

#include "cli/cli.h"

/* By meaning; without colours: bold, underlined, reverse, dim. */
enum style {
    STYLE_PLAIN,
    STYLE_HEADING,        /* titles, questions */
    STYLE_COLUMN_HEADING, /* underlined, to differ from the cursor */
    STYLE_CURSOR,
    STYLE_TREND,
    STYLE_GOOD,
    STYLE_WARN,
    STYLE_BAD,
    STYLE_DIM,
    STYLE_COUNT
};

/* Characters stand for themselves. */
enum top_key {
    TOP_KEY_NONE = 0, /* no key was pressed */
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
    TOP_KEY_RESIZE, /* the window changed its size */
    TOP_KEY_OTHER,
};

struct screen {
    int rows, columns;
    bool utf8;
};

/* Takes over the terminal and fills screen. BI_EXIT_OK, or reports the error. */
int bi_top_screen_open(struct screen *screen, const struct cli *cli);
/* Restores the terminal; harmless if it is not open. */
void bi_top_screen_close(void);

/* The next key, without waiting; updates the size. */
int bi_top_screen_read_key(struct screen *screen);

void bi_top_screen_clear(void);
/* Text in a field: cut at its end, padded with blanks. BI_TOP_REST: up to the end of the row. */
#define BI_TOP_REST      10000
#define BI_TOP_WIDTH_MAX 1000 /* columns of a wider window stay empty */
void bi_top_screen_draw(int row, int column, int width, enum style style, const char *text);
/* The same, aligned to the right. */
void bi_top_screen_draw_right(int row, int column, int width, enum style style, const char *text);
/* Sends what has changed; all: everything, for a terminal that another program wrote to. */
void bi_top_screen_refresh(bool all);
/* Shows the cursor there; row -1: hides it. */
void bi_top_screen_set_cursor(int row, int column);

#endif
