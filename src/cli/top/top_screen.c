/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strcasestr */
#include "cli/top/top_screen.h"

#ifdef BIDE_WITH_NCURSES

#include "cli/print.h"

#include <langinfo.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>

#define ESCAPE_MS 100 /* how long after Esc more may belong to it, over a slow line */
#define WIDTH_MAX 1000

static SCREEN *terminal;
static attr_t style_attrs[STYLE_COUNT];
static int cursor_row, cursor_column;

/* ---- keys ---- */

/* What terminals send although TERM says something else: over ssh, in tmux and in screen the two
 * often differ, and an unknown End would be an Esc and some letters. */
static void define_keys(void)
{
    static const struct {
        const char *sent;
        int key;
    } table[] = {
        {"\033[A", KEY_UP},     {"\033OA", KEY_UP},     {"\033[B", KEY_DOWN},
        {"\033OB", KEY_DOWN},   {"\033[C", KEY_RIGHT},  {"\033OC", KEY_RIGHT},
        {"\033[D", KEY_LEFT},   {"\033OD", KEY_LEFT},   {"\033[H", KEY_HOME},
        {"\033OH", KEY_HOME},   {"\033[1~", KEY_HOME},  {"\033[7~", KEY_HOME},
        {"\033[F", KEY_END},    {"\033OF", KEY_END},    {"\033[4~", KEY_END},
        {"\033[8~", KEY_END},   {"\033[Z", KEY_BTAB},   {"\033OM", KEY_ENTER},
        {"\033[5~", KEY_PPAGE}, {"\033[6~", KEY_NPAGE},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (key_defined(table[i].sent) == 0)
            define_key(table[i].sent, table[i].key);
}

static void update_size(struct screen *screen)
{
    screen->rows = LINES;
    screen->columns = COLS;
}

int bi_top_screen_read_key(struct screen *screen)
{
    static const struct {
        int from, to;
    } table[] = {
        {ERR, TOP_KEY_NONE},         {KEY_UP, TOP_KEY_UP},
        {KEY_DOWN, TOP_KEY_DOWN},    {KEY_PPAGE, TOP_KEY_PAGE_UP},
        {KEY_HOME, TOP_KEY_HOME},    {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
        {KEY_END, TOP_KEY_END},      {KEY_LEFT, TOP_KEY_LEFT},
        {KEY_RIGHT, TOP_KEY_RIGHT},  {KEY_BTAB, TOP_KEY_BACK_TAB},
        {KEY_ENTER, TOP_KEY_ENTER},  {KEY_BACKSPACE, TOP_KEY_BACKSPACE},
        {'\r', TOP_KEY_ENTER},       {'\n', TOP_KEY_ENTER},
        {'\t', TOP_KEY_TAB},         {'\b', TOP_KEY_BACKSPACE},
        {0x7f, TOP_KEY_BACKSPACE},   {KEY_FIND, TOP_KEY_HOME},
        {KEY_SELECT, TOP_KEY_END},   {KEY_A1, TOP_KEY_HOME},
        {KEY_A3, TOP_KEY_PAGE_UP},   {KEY_C1, TOP_KEY_END},
        {KEY_C3, TOP_KEY_PAGE_DOWN}, {KEY_RESIZE, TOP_KEY_RESIZE},
    };
    int key = getch();
    update_size(screen);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].from == key)
            return table[i].to;
    return key > 0 && key < 0x100 ? key : TOP_KEY_OTHER;
}

/* ---- begin and end ---- */

static bool use_colors(const struct cli *cli)
{
    const char *no = getenv("NO_COLOR");
    return cli->color == BI_COLOR_ALWAYS ||
           (cli->color == BI_COLOR_AUTO && (no == NULL || no[0] == 0));
}

static void init_styles(const struct cli *cli)
{
    static const short colors[STYLE_COUNT] = {[STYLE_COLUMN_HEADING] = COLOR_CYAN,
                                              [STYLE_TREND] = COLOR_CYAN,
                                              [STYLE_GOOD] = COLOR_GREEN,
                                              [STYLE_WARN] = COLOR_YELLOW,
                                              [STYLE_BAD] = COLOR_RED};
    static const attr_t plain[STYLE_COUNT] = {[STYLE_HEADING] = A_BOLD,
                                              [STYLE_COLUMN_HEADING] = A_BOLD | A_UNDERLINE,
                                              [STYLE_CURSOR] = A_REVERSE,
                                              [STYLE_BAD] = A_BOLD,
                                              [STYLE_DIM] = A_DIM};
    bool colored = use_colors(cli) && has_colors() && start_color() == OK;
    short background = colored && use_default_colors() == OK ? -1 : COLOR_BLACK;
    for (int i = 0; i < STYLE_COUNT; i++) {
        style_attrs[i] = plain[i];
        if (colored && colors[i] != 0 && init_pair((short)i, colors[i], background) == OK)
            style_attrs[i] |= COLOR_PAIR(i);
    }
}

/* Whoever names a locale that is not of UTF-8 means it. */
static bool is_utf8_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;
    for (size_t i = 0; i < 3 && (value == NULL || value[0] == 0); i++)
        value = getenv(names[i]);
    bool named = value != NULL && value[0] != 0;
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 &&
           (!named || strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL);
}

static bool can_move_cursor(void)
{
    const char *move = tigetstr("cup");
    return move != NULL && move != (const char *)-1;
}

int bi_top_screen_check(const struct cli *cli)
{
    (void)cli;
    return BI_EXIT_OK;
}

int bi_top_screen_open(struct screen *screen, const struct cli *cli)
{
    const char *name = getenv("TERM");
    terminal = newterm(NULL, stdout, stdin);
    if (terminal == NULL || !can_move_cursor()) {
        bi_top_screen_close();
        return bi_cli_error(cli, BI_EXIT_FAILED,
                            "the terminal \"%.60s\" (TERM) is not known, or its cursor cannot be "
                            "moved; \"bide topics\" prints the same figures once",
                            name == NULL ? "" : name);
    }
    set_escdelay(ESCAPE_MS);
    cbreak();
    noecho();
    nonl();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    define_keys();
    init_styles(cli);
    screen->utf8 = is_utf8_locale();
    update_size(screen);
    bi_top_screen_set_cursor(-1, 0);
    return BI_EXIT_OK;
}

void bi_top_screen_close(void)
{
    if (terminal == NULL)
        return;
    endwin();
    delscreen(terminal);
    terminal = NULL;
}

/* ---- drawing ---- */

void bi_top_screen_clear(void)
{
    erase();
}

/* Where the locale is not of UTF-8, only ASCII is sure to be shown as one column each. */
static void to_ascii(char *text)
{
    char *to = text;
    for (const char *at = text; *at != 0; at++) {
        if ((*at & 0x80) == 0)
            *to++ = *at;
        else if ((*at & 0xc0) == 0xc0)
            *to++ = '?';
    }
    *to = 0;
}

/* Answers how many columns it takes. */
static int fit_text(const struct screen *screen, char *to, int width, const char *text)
{
    int used = (int)bi_print_excerpt(to, (size_t)width, text, strlen(text));
    if (screen->utf8)
        return used;
    to_ascii(to);
    return (int)strlen(to);
}

static void draw_text(const struct screen *screen, int row, int column, int width, enum style style,
                      const char *text, bool right)
{
    char fitted[4 * WIDTH_MAX + 8];
    if (width > screen->columns - column)
        width = screen->columns - column;
    if (width > WIDTH_MAX)
        width = WIDTH_MAX;
    if (row < 0 || row >= screen->rows || width <= 0)
        return;
    int used = fit_text(screen, fitted, width, text);
    int blank = width > used ? width - used : 0;
    attrset((int)style_attrs[style]);
    move(row, column);
    for (int i = 0; right && i < blank; i++)
        addch(' ');
    addstr(fitted);
    for (int i = 0; !right && i < blank; i++)
        addch(' ');
    attrset(A_NORMAL);
}

void bi_top_screen_draw(const struct screen *screen, int row, int column, int width,
                        enum style style, const char *text)
{
    draw_text(screen, row, column, width, style, text, false);
}

void bi_top_screen_draw_right(const struct screen *screen, int row, int column, int width,
                              enum style style, const char *text)
{
    draw_text(screen, row, column, width, style, text, true);
}

void bi_top_screen_refresh(bool all)
{
    if (all)
        clearok(curscr, TRUE);
    if (cursor_row >= 0)
        move(cursor_row, cursor_column);
    refresh();
}

void bi_top_screen_set_cursor(int row, int column)
{
    cursor_row = row;
    cursor_column = column;
    curs_set(row >= 0);
}

#else /* without ncurses */

int bi_top_screen_check(const struct cli *cli)
{
    return bi_cli_error(cli, BI_EXIT_FAILED,
                        "this bide was built without ncurses, and has no top; \"bide topics\" and "
                        "\"bide stats\" print the same figures once");
}

int bi_top_screen_open(struct screen *screen, const struct cli *cli)
{
    (void)screen;
    return bi_top_screen_check(cli);
}

void bi_top_screen_close(void)
{
}

int bi_top_screen_read_key(struct screen *screen)
{
    (void)screen;
    return TOP_KEY_NONE;
}

void bi_top_screen_clear(void)
{
}

void bi_top_screen_draw(const struct screen *screen, int row, int column, int width,
                        enum style style, const char *text)
{
    (void)screen, (void)row, (void)column, (void)width, (void)style, (void)text;
}

void bi_top_screen_draw_right(const struct screen *screen, int row, int column, int width,
                              enum style style, const char *text)
{
    (void)screen, (void)row, (void)column, (void)width, (void)style, (void)text;
}

void bi_top_screen_refresh(bool all)
{
    (void)all;
}

void bi_top_screen_set_cursor(int row, int column)
{
    (void)row, (void)column;
}

#endif
