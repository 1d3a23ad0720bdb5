/* SPDX-License-Identifier: MIT */
/*
 * top_screen - the terminal as a whole, by ncurses, of which nobody else knows.
 *
 * What is drawn is compared with what is there, and only the difference is sent: draw everything
 * each time, between bi_screen_wipe() and bi_screen_show().
 */
#ifndef BI_TOP_SCREEN_H
#define BI_TOP_SCREEN_H

#include "cli/cli.h"

/* How something looks; where there are no colours, bold, underlined and reverse. */
enum look {
    LOOK_PLAIN,
    LOOK_HEAD,    /* titles, questions */
    LOOK_COLUMNS, /* the headings of columns: a line under them, and not as the cursor */
    LOOK_BAR,     /* the cursor */
    LOOK_TREND,
    LOOK_GOOD,
    LOOK_WARN,
    LOOK_BAD,
    LOOK_DIM,
    LOOKS
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
int bi_screen_check(const struct cli *cli);
/* Takes the terminal. BI_EXIT_OK, or says what is wrong. */
int bi_screen_begin(struct screen *screen, const struct cli *cli);
/* Gives it back as it was. */
void bi_screen_end(void);

/* The next key that was pressed; does not wait. */
int bi_screen_key(struct screen *screen);

void bi_screen_wipe(void);
/* Text in a field of so many columns: cut at its end, the rest blank. */
void bi_screen_text(const struct screen *screen, int row, int column, int width, enum look look,
                    const char *text);
/* The same at the right of the field. */
void bi_screen_right(const struct screen *screen, int row, int column, int width, enum look look,
                     const char *text);
/* Sends what has changed. all: everything, for a terminal that others have written on. */
void bi_screen_show(bool all);
/* Where the cursor is to stand; row -1: nowhere. */
void bi_screen_cursor(int row, int column);

#endif
