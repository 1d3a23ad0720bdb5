/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strcasestr */
#include "cli/top/top_screen.h"

#ifdef BIDE_WITH_NCURSES /* else "bide top" ends before it needs a screen */

#include "cli/print.h"

#include <assert.h>
#include <langinfo.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>

#define ESCAPE_MS 100 /* the rest of an escape sequence arrives within this time */

static SCREEN *terminal; /* NULL: not open */
static bool utf8;
static attr_t style_attrs[STYLE_COUNT];
static int cursor_row, cursor_column;

/* ---- keys ---- */

/* What terminals send even if TERM says something else. Over ssh, in tmux and in screen the two
 * often differ, and an unknown End would be read as Esc and some letters. */
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

    assert(terminal != NULL);
    int key = getch();
    screen->rows = LINES;
    screen->columns = COLS;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].from == key)
            return table[i].to;
    return key > 0 && key < 0x100 ? key : TOP_KEY_OTHER;
}

/* ---- open and close ---- */

static void init_styles(const struct cli *cli)
{
    static const struct {
        short color;
        attr_t attrs;
    } styles[STYLE_COUNT] = {
        [STYLE_HEADING] = {0, A_BOLD},
        [STYLE_COLUMN_HEADING] = {COLOR_CYAN, A_BOLD | A_UNDERLINE},
        [STYLE_CURSOR] = {0, A_REVERSE},
        [STYLE_TREND] = {COLOR_CYAN, 0},
        [STYLE_GOOD] = {COLOR_GREEN, 0},
        [STYLE_WARN] = {COLOR_YELLOW, 0},
        [STYLE_BAD] = {COLOR_RED, A_BOLD},
        [STYLE_DIM] = {0, A_DIM},
    };
    const char *no_color = getenv("NO_COLOR");
    bool wanted = cli->color == BI_COLOR_ALWAYS ||
                  (cli->color == BI_COLOR_AUTO && (no_color == NULL || no_color[0] == 0));
    bool colored = wanted && has_colors() && start_color() == OK;
    short background = colored && use_default_colors() == OK ? -1 : COLOR_BLACK;

    for (int i = 0; i < STYLE_COUNT; i++) {
        style_attrs[i] = styles[i].attrs;
        if (colored && styles[i].color != 0 &&
            init_pair((short)i, styles[i].color, background) == OK)
            style_attrs[i] |= COLOR_PAIR(i);
    }
}

/* A locale variable that names another encoding wins: the user set it on purpose. */
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

int bi_top_screen_open(struct screen *screen, const struct cli *cli)
{
    const char *name = getenv("TERM");

    assert(terminal == NULL);
    terminal = newterm(NULL, stdout, stdin);
    const char *move_cursor = terminal == NULL ? NULL : tigetstr("cup");
    if (move_cursor == NULL || move_cursor == (const char *)-1) {
        bi_top_screen_close();
        return bi_cli_error(cli, BI_EXIT_FAILED,
                            "unknown terminal \"%.60s\" (TERM), or it cannot move the cursor; "
                            "\"bide topics\" prints the same figures once",
                            name == NULL ? "" : name);
    }

    /* Keys are polled: getch() returns ERR instead of blocking the event loop. */
    set_escdelay(ESCAPE_MS);
    cbreak();
    noecho();
    nonl();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    define_keys();
    init_styles(cli);
    utf8 = is_utf8_locale();
    *screen = (struct screen){.rows = LINES, .columns = COLS, .utf8 = utf8};
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

/* Without UTF-8 only ASCII is certain to take one column per character. */
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

static void draw_text(int row, int column, int width, enum style style, const char *text,
                      bool right)
{
    char fitted[4 * BI_TOP_WIDTH_MAX + 8];

    assert(style < STYLE_COUNT);
    if (width > COLS - column)
        width = COLS - column;
    if (width > BI_TOP_WIDTH_MAX)
        width = BI_TOP_WIDTH_MAX;
    if (row < 0 || row >= LINES || width <= 0)
        return;

    int used = (int)bi_print_excerpt(fitted, (size_t)width, text, strlen(text));
    if (!utf8) {
        to_ascii(fitted);
        used = (int)strlen(fitted);
    }
    int blank = width > used ? width - used : 0;
    attrset((int)style_attrs[style]);
    mvprintw(row, column, "%*s%s%*s", right ? blank : 0, "", fitted, right ? 0 : blank, "");
    attrset(A_NORMAL);
}

void bi_top_screen_draw(int row, int column, int width, enum style style, const char *text)
{
    draw_text(row, column, width, style, text, false);
}

void bi_top_screen_draw_right(int row, int column, int width, enum style style, const char *text)
{
    draw_text(row, column, width, style, text, true);
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

#endif
