/* SPDX-License-Identifier: MIT */
#include "print.h"

#define TURN_MAX 400 /* bytes of a turn that are shown */

void print_bytes(const char *data, size_t size, size_t max, char *out)
{
    size_t shown = size < max ? size : max;
    for (size_t i = 0; i < shown; i++) {
        unsigned char byte = (unsigned char)data[i];
        if (byte >= ' ' && byte <= '~')
            *out++ = (char)byte;
        else if (byte == '\r' || byte == '\n')
            out += sprintf(out, "\\%c", byte == '\r' ? 'r' : 'n');
        else
            out += sprintf(out, "\\x%02x", byte);
    }
    sprintf(out, "%s", shown < size ? "..." : "");
}

/* Marks are shown as <J0012>. */
static void print_text(const struct bytes *text)
{
    char shown[PRINTED_SIZE(1)];
    for (size_t i = 0; i < text->size && i < TURN_MAX; i++) {
        if (text->data[i] == MARK) {
            printf("<%.5s>", text->data + i + 1);
            i += MARK_SIZE - 1;
            continue;
        }
        print_bytes(text->data + i, 1, 1, shown);
        fputs(shown, stdout);
    }
    puts(text->size > TURN_MAX ? "..." : "");
}

static void print_turn(const struct turn *turn, size_t number)
{
    static const char *const ends[] = {"", " and sends no more", " and closes", " and has quit"};
    if (turn->end == TURN_DRAIN) {
        printf("     turn %zu: both servers drain\n", number);
        return;
    }
    printf("     turn %zu: client %d sends%s%s: ", number, turn->client,
           turn->cuts ? " in pieces" : "", ends[turn->end]);
    print_text(&turn->text);
}

void print_scenario(const struct scenario *scenario, size_t last)
{
    for (size_t i = 0; i < scenario->count && i <= last; i++)
        if (!scenario->turns[i].left_out)
            print_turn(&scenario->turns[i], i);
}
