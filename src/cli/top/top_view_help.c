/* SPDX-License-Identifier: MIT */
#include "cli/top/top.h"

static const char *const lines[] = {
    "Everywhere",
    "  Up Down j k PgUp PgDn Home End   move          space  freeze, and go on",
    "  + -  refresh less, more often    Ctrl-L redraw   ?  this     q Esc  back",
    "Topics (P before a name: paused)",
    "  Enter  look into it              s > <  sort by the next, previous column",
    "  /  only names with a text        r  the other way round",
    "  t  trend of ready jobs, or of what is finished",
    "  K  kick: make buried jobs ready; if there are none, delayed ones",
    "  P  pause, or resume              q  quit",
    "Jobs of a topic",
    "  Tab  the next state              Enter  look at the job",
    "  K P  as above                    X  remove all jobs in this state",
    "  n  make the job ready now (kick) b  bury it     d  delete it",
    "A job",
    "  n b d  as above",
    "Columns: jobs READY, RESVD (reserved), DELAYed, BURIED, DONE; IN/S put and",
    "OUT/S finished a second; OLDEST ready job; WAITing workers; TREND.",
    "What changes something asks first: y does it, other keys do not; K: how many.",
};
#define LINES_COUNT (sizeof(lines) / sizeof(lines[0]))

static size_t first;

static size_t max_first(const struct top *top)
{
    size_t window = (size_t)top->screen.rows - 2;
    return LINES_COUNT > window ? LINES_COUNT - window : 0;
}

static void draw(struct top *top)
{
    first = first < max_first(top) ? first : max_first(top);
    bi_top_screen_draw(&top->screen, 0, 0, top->screen.columns, STYLE_CURSOR, "bide top: the keys");
    for (size_t i = 0; first + i < LINES_COUNT && (int)i < top->screen.rows - 2; i++) {
        const char *line = lines[first + i];
        bi_top_screen_draw(&top->screen, 1 + (int)i, 0, top->screen.columns,
                           line[0] == ' ' ? STYLE_PLAIN : STYLE_HEADING, line);
    }
}

static void key(struct top *top, int pressed)
{
    if (bi_top_window_move_cursor(pressed, max_first(top) + 1, (size_t)top->screen.rows - 2,
                                  &first))
        return;
    first = 0;
    bi_top_window_set_view(top, top->view_before_help);
}

const struct top_view bi_top_view_help = {
    .key_hint = "any key: back",
    .draw = draw,
    .key = key,
};
