/* SPDX-License-Identifier: MIT */
/*
 * put_input.c - where the jobs of `bide put` come from.
 *
 * What is read in pieces is put in full batches while there is more to read. When the input pauses,
 * what has gathered is put as soon as nothing is on its way: so a producer that writes a line a
 * second has it put at once, and a fast one is not slowed down by small batches.
 */
#include "cli/put.h"
#include "cli/interrupt.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

bool bi_put_input_should_stop(const struct put_run *run)
{
    return bi_interrupted() || bi_bulk_put_is_stopped(run->bulk_put) || run->should_stop ||
           ferror(stdout);
}

/* ---- pieces ---- */

static void add_json(struct put_run *run, uint64_t number, bide_slice piece)
{
    struct put_json line;
    char error[BI_ERRMSG_SIZE];
    int64_t now_ms = bi_clock_wall() / 1000;
    if (!bi_put_json_parse(piece, &run->options, now_ms, &line, error)) {
        bi_put_report_invalid(run, number, error);
    } else if (line.topic_size == 0 && run->topic.size == 0) {
        bide_buf_unref(line.body);
        bi_put_report_invalid(run, number, "there is no \"topic\", and none was given");
    } else {
        bi_bulk_put_add_json(run->bulk_put, number, &line);
    }
}

static bool is_blank(bide_slice piece)
{
    const char *text = piece.data;
    for (size_t i = 0; i < piece.size; i++)
        if (strchr(" \t\r", text[i]) == NULL || text[i] == 0)
            return false;
    return true;
}

static void add_piece(struct put_run *run, uint64_t number, bide_slice piece)
{
    if (run->form == BI_PUT_JSON) {
        if (!is_blank(piece))
            add_json(run, number, piece);
        return;
    }
    if (piece.size == 0 && run->skip_empty)
        return;
    bide_buf *body = bide_buf_new(piece.data, piece.size);
    if (body == NULL)
        bi_put_report_invalid(run, number, "this needs more memory than there is");
    else
        bi_bulk_put_add(run->bulk_put, number, body);
}

/* Until there is something to read, or a reason to end. */
static void wait_for_input(struct put_run *run, const struct input *input)
{
    while (!bi_put_input_should_stop(run)) {
        bool in_flight = bi_bulk_put_in_flight(run->bulk_put);
        if (!in_flight && bi_bulk_put_buffered(run->bulk_put) > 0) {
            bi_bulk_put_flush(run->bulk_put);
            continue;
        }
        fflush(stdout);
        struct pollfd fds[] = {
            {.fd = input->fd, .events = POLLIN},
            {.fd = bi_interrupt_fd(), .events = POLLIN},
            {.fd = in_flight ? bi_bulk_put_fd(run->bulk_put) : -1, .events = POLLIN},
        };
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return;
        if (fds[2].revents != 0)
            bi_bulk_put_poll(run->bulk_put);
        if (fds[0].revents != 0)
            return;
    }
}

/* False when there is nothing to go on with. */
static bool read_more(struct put_run *run, struct input *input)
{
    if (!bi_input_is_ready(input))
        wait_for_input(run, input);
    if (bi_put_input_should_stop(run))
        return false;
    if (bi_input_fill(input) || errno == EINTR || errno == EAGAIN)
        return true;
    bi_put_report_unreadable(run, 0, errno);
    return false;
}

static void read_pieces(struct put_run *run, int fd)
{
    struct input input;
    bide_slice piece;
    bool more = true;
    bi_input_init(&input, fd, run->form == BI_PUT_NULLS ? '\0' : '\n', BI_INPUT_RECORD_MAX);
    while (more && !bi_put_input_should_stop(run)) {
        enum bi_input_status found = bi_input_next(&input, &piece);
        if (found == BI_INPUT_RECORD)
            add_piece(run, input.number, piece);
        else if (found == BI_INPUT_TOO_LONG)
            bi_put_report_invalid(run, input.number,
                                  "this is longer than 64 MiB; put it as a --file of its own");
        else
            more = found == BI_INPUT_NEED_MORE && read_more(run, &input);
    }
    /* What stands before a line that is refused is put; what was read, and not sent when the end was
     * wanted, is not. */
    if (bi_interrupted() || bi_bulk_put_is_stopped(run->bulk_put) || ferror(stdout))
        bi_bulk_put_discard(run->bulk_put);
    else
        bi_bulk_put_drain(run->bulk_put);
    bi_input_done(&input);
}

/* ---- files ---- */

static void read_whole(struct put_run *run, int fd, uint64_t number)
{
    bide_buf *body;
    if (bi_input_read_all(fd, &body))
        bi_bulk_put_add(run->bulk_put, number, body);
    else
        bi_put_report_unreadable(run, number, errno);
}

static void read_fd(struct put_run *run, int fd, uint64_t number)
{
    if (isatty(fd))
        bi_cli_note(run->cli, "Reading from the terminal; end with Ctrl-D on a line of its own.");
    if (run->form == BI_PUT_WHOLE)
        read_whole(run, fd, number);
    else
        read_pieces(run, fd);
}

static void read_file(struct put_run *run, const char *name, uint64_t number)
{
    bool is_stdin = strcmp(name, "-") == 0;
    run->file = is_stdin ? NULL : name;
    run->line_status = (struct line_status){.last_done = 0};
    int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        bi_put_report_unreadable(run, number, errno);
    else
        read_fd(run, fd, number);
    if (fd >= 0 && !is_stdin)
        close(fd);
    if (run->form != BI_PUT_WHOLE)
        bi_put_report_position(run);
}

void bi_put_input_read(struct put_run *run)
{
    if (run->body != NULL) {
        bide_buf *body = bide_buf_new(run->body, strlen(run->body));
        if (body == NULL)
            bi_put_report_invalid(run, 1, "this needs more memory than there is");
        else
            bi_bulk_put_add(run->bulk_put, 1, body);
    }
    for (size_t i = 0; i < run->file_count && !bi_put_input_should_stop(run); i++)
        read_file(run, run->files[i], i + 1);
    if (run->form == BI_PUT_WHOLE && bi_interrupted())
        bi_bulk_put_discard(run->bulk_put);
    else if (run->form == BI_PUT_WHOLE)
        bi_bulk_put_drain(run->bulk_put);
}
