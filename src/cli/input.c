/* SPDX-License-Identifier: MIT */
#include "cli/input.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)256 << 10)

void bi_input_begin(struct input *input, int fd, char separator, size_t limit)
{
    *input = (struct input){.fd = fd, .separator = separator, .limit = limit};
}

void bi_input_end(struct input *input)
{
    free(input->data);
    input->data = NULL;
}

/* ---- pieces ---- */

static void drop_all(struct input *input)
{
    input->begin = input->searched = input->end = 0;
}

/* Without a separator in sight: the rest of the input, or nothing yet. */
static enum bi_piece without_separator(struct input *input, bide_slice *piece)
{
    size_t size = input->end - input->begin;
    input->searched = input->end;
    if (size > input->limit)
        input->skips = true;
    if (input->skips)
        drop_all(input);
    if (!input->ended)
        return BI_PIECE_NONE;
    if (input->skips) {
        input->skips = false;
        input->number++;
        return BI_PIECE_TOO_LONG;
    }
    if (size == 0)
        return BI_PIECE_END;
    *piece = (bide_slice){input->data + input->begin, size};
    input->begin = input->end;
    input->number++;
    return BI_PIECE_THERE;
}

enum bi_piece bi_input_next(struct input *input, bide_slice *piece)
{
    char *found = NULL;
    if (input->searched < input->end)
        found =
            memchr(input->data + input->searched, input->separator, input->end - input->searched);
    if (found == NULL)
        return without_separator(input, piece);
    size_t at = (size_t)(found - input->data), size = at - input->begin;
    *piece = (bide_slice){input->data + input->begin, size};
    input->begin = input->searched = at + 1;
    input->number++;
    if (!input->skips && size <= input->limit)
        return BI_PIECE_THERE;
    input->skips = false;
    return BI_PIECE_TOO_LONG;
}

/* ---- reading ---- */

/* Room for one more chunk behind what is there, which moves to the front. */
static bool make_room(struct input *input)
{
    size_t kept = input->end - input->begin;
    if (input->begin > 0 && kept > 0)
        memmove(input->data, input->data + input->begin, kept);
    input->searched -= input->begin;
    input->begin = 0;
    input->end = kept;
    if (input->room - kept >= CHUNK)
        return true;
    size_t room = kept + CHUNK > 2 * input->room ? kept + CHUNK : 2 * input->room;
    char *data = realloc(input->data, room);
    if (data == NULL)
        return false;
    input->data = data;
    input->room = room;
    return true;
}

bool bi_input_fill(struct input *input)
{
    if (!make_room(input)) {
        errno = ENOMEM;
        return false;
    }
    ssize_t got = read(input->fd, input->data + input->end, input->room - input->end);
    if (got < 0)
        return false;
    input->end += (size_t)got;
    input->ended = got == 0;
    return true;
}

bool bi_input_waits(const struct input *input)
{
    struct pollfd fd = {.fd = input->fd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

bool bi_input_whole(int fd, bide_buf **whole)
{
    struct input input;
    bool good = true;
    bi_input_begin(&input, fd, 0, BI_INPUT_WHOLE);
    while (good && !input.ended) {
        good = make_room(&input);
        errno = ENOMEM;
        if (!good)
            break;
        ssize_t got = bi_interrupt_read(fd, input.data + input.end, input.room - input.end);
        good = got >= 0;
        input.end += good ? (size_t)got : 0;
        input.ended = got == 0;
        if (input.end > BI_INPUT_WHOLE) {
            errno = EFBIG;
            good = false;
        }
    }
    if (good && (*whole = bide_buf_new(input.data, input.end)) == NULL) {
        errno = ENOMEM;
        good = false;
    }
    int saved = errno;
    bi_input_end(&input);
    errno = saved;
    return good;
}
