/* SPDX-License-Identifier: MIT */
#include "cli/input.h"

#include "cli/print.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)256 << 10)

void bi_input_init(struct input *input, int fd, char separator, size_t limit)
{
    *input = (struct input){.fd = fd, .separator = separator, .limit = limit};
}

void bi_input_done(struct input *input)
{
    free(input->data);
    input->data = NULL;
}

/* ---- records ---- */

/* There is no separator: the record is the rest of the input, or not complete yet. */
static enum bi_input_status take_remainder(struct input *input, bide_slice *record)
{
    size_t size = input->end - input->start;

    input->searched = input->end;
    if (size > input->limit)
        input->skipping = true;
    if (input->skipping)
        input->start = input->searched = input->end = 0;
    if (!input->eof)
        return BI_INPUT_NEED_MORE;
    if (input->skipping) {
        input->skipping = false;
        input->number++;
        return BI_INPUT_TOO_LONG;
    }

    if (size == 0)
        return BI_INPUT_EOF;
    *record = (bide_slice){input->data + input->start, size};
    input->start = input->end;
    input->number++;
    return BI_INPUT_RECORD;
}

enum bi_input_status bi_input_next(struct input *input, bide_slice *record)
{
    assert(input->start <= input->searched && input->searched <= input->end);
    char *found = NULL;
    if (input->searched < input->end)
        found =
            memchr(input->data + input->searched, input->separator, input->end - input->searched);
    if (found == NULL)
        return take_remainder(input, record);
    size_t at = (size_t)(found - input->data), size = at - input->start;
    *record = (bide_slice){input->data + input->start, size};
    input->start = input->searched = at + 1;
    input->number++;
    if (!input->skipping && size <= input->limit)
        return BI_INPUT_RECORD;
    input->skipping = false;
    return BI_INPUT_TOO_LONG;
}

/* ---- reading ---- */

/* Makes room for another chunk; unread data moves to the front. */
static bool make_room(struct input *input)
{
    size_t pending = input->end - input->start;

    assert(input->start <= input->end && input->end <= input->room);
    if (input->start > 0 && pending > 0)
        memmove(input->data, input->data + input->start, pending);
    input->searched -= input->start;
    input->start = 0;
    input->end = pending;
    if (input->room - pending >= CHUNK)
        return true;

    size_t room = pending + CHUNK > 2 * input->room ? pending + CHUNK : 2 * input->room;
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
    input->eof = got == 0;
    return true;
}

enum bi_input_status bi_input_read(struct input *input, struct ordered_pipeline *pipeline,
                                   bide_slice *record)
{
    enum bi_input_status status = bi_input_next(input, record);
    if (status != BI_INPUT_NEED_MORE)
        return status;

    bool ready = pipeline == NULL ? bi_interrupt_wait(input->fd, POLLIN)
                                  : bi_ordered_pipeline_wait_input(pipeline, input->fd);
    if (!ready || bi_input_fill(input) || errno == EINTR || errno == EAGAIN)
        return BI_INPUT_NEED_MORE;
    return BI_INPUT_FAILED;
}

bool bi_input_read_all(int fd, bide_buf **buf)
{
    struct input input;
    bool good = true;

    bi_input_init(&input, fd, 0, BI_INPUT_TOTAL_MAX);
    while (good && !input.eof) {
        good = bi_interrupt_wait(fd, POLLIN) &&
               (bi_input_fill(&input) || errno == EINTR || errno == EAGAIN);
        if (input.end > BI_INPUT_TOTAL_MAX) {
            errno = EFBIG;
            good = false;
        }
    }

    if (good && (*buf = bide_buf_new(input.data, input.end)) == NULL) {
        errno = ENOMEM;
        good = false;
    }

    int saved = errno;
    bi_input_done(&input);
    errno = saved;
    return good;
}

int bi_input_read_file(const struct cli *cli, const char *path, bide_buf **buf)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && bi_input_read_all(fd, buf);
    int cause = errno;

    if (fd >= 0 && !is_stdin)
        close(fd);
    if (good)
        return BI_EXIT_OK;
    if (cause == EFBIG)
        return bi_cli_error(cli, BI_EXIT_REFUSED, "%.200s is more than 1 GiB", path);
    return bi_cli_error(cli, BI_EXIT_FAILED, "cannot read %.200s: %s",
                        is_stdin ? "standard input" : path, strerror(cause));
}

/* ---- outcomes ---- */

/* Without room for another range, the last one is extended and becomes unknown. */
static void add_range(struct line_status *line_status, uint64_t line, enum bi_line_outcome outcome)
{
    size_t count = line_status->range_count;
    struct line_range *last = count == 0 ? NULL : &line_status->ranges[count - 1];

    assert(line_status->range_count <= BI_LINE_RANGES_MAX);
    if (last != NULL && last->outcome == outcome) {
        last->last = line;
    } else if (count < BI_LINE_RANGES_MAX) {
        line_status->ranges[line_status->range_count++] = (struct line_range){outcome, line, line};
    } else if (last != NULL) {
        last->last = line;
        last->outcome = BI_LINE_UNKNOWN;
    }
}

void bi_input_add_outcome(struct line_status *line_status, uint64_t line,
                          enum bi_line_outcome outcome)
{
    assert(line > line_status->last_done);
    if (line_status->range_count == 0 && outcome == BI_LINE_DONE)
        line_status->last_done = line;
    else
        add_range(line_status, line, outcome);
}

bool bi_input_can_resume(const struct line_status *line_status)
{
    for (size_t i = 0; i < line_status->range_count; i++)
        if (line_status->ranges[i].outcome != BI_LINE_NOT_STORED)
            return false;
    return true;
}

static int format_range(const struct line_range *range, const char *unit, char *to, size_t size)
{
    static const char *const outcomes[] = {"stored", "unknown (the reply was lost)", "not stored"};
    struct text first = bi_text_number(range->first), last = bi_text_number(range->last);

    if (range->first == range->last)
        return snprintf(to, size, "%s %s is %s", unit, first.s, outcomes[range->outcome]);
    return snprintf(to, size, "%ss %s to %s are %s", unit, first.s, last.s,
                    outcomes[range->outcome]);
}

void bi_input_format_outcomes(const struct line_status *line_status, const char *unit, char *to,
                              size_t size)
{
    size_t used = 0;

    to[0] = 0;
    for (size_t i = 0; i < line_status->range_count && used < size; i++) {
        if (i > 0)
            used += (size_t)snprintf(to + used, size - used, "; ");
        if (used < size)
            used += (size_t)format_range(&line_status->ranges[i], unit, to + used, size - used);
    }
}
