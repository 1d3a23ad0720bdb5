/* SPDX-License-Identifier: MIT */
#include "cli/import.h"

#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

/* What the largest job there can be takes in base64. */
#define LONGEST ((size_t)3 << 29)

struct reading {
    const struct cli *cli;
    const struct import_reader *reader;
    void *user;
    struct import_tally *tally;
    struct input input;
    bool begun;                   /* an export whose end has not come */
    uint64_t jobs, pauses;        /* since it began */
    char error[BI_SENTENCE_SIZE]; /* what is wrong with the line */
};

/* ---- lines with a kind; each answers an exit code ---- */

static int wrong(struct reading *reading)
{
    return bi_cli_failed(reading->cli, BI_EXIT_PARTLY, "line %llu: %.400s",
                         (unsigned long long)reading->input.number, reading->error);
}

static int take_beginning(struct reading *reading, const json_t *object)
{
    if (reading->begun) {
        bi_refuse(reading->error, "an export begins before the one in front of it has ended");
        return wrong(reading);
    }
    if (json_integer_value(json_object_get(object, "format")) != 1) {
        bi_refuse(reading->error, "it is of a form that this bide (%s) does not know",
                  bide_version());
        return wrong(reading);
    }
    reading->begun = true;
    reading->jobs = reading->pauses = 0;
    return BI_EXIT_OK;
}

static int take_pause(struct reading *reading, const json_t *object)
{
    struct pause pause;
    if (!bi_pauses_read(object, &pause, reading->error))
        return wrong(reading);
    reading->tally->pauses++;
    reading->pauses++;
    return reading->reader->pause == NULL
               ? BI_EXIT_OK
               : reading->reader->pause(reading->user, reading->input.number, &pause);
}

/* Lines that somebody took out, or copied twice, are noticed, too. */
static int take_end(struct reading *reading, const json_t *object)
{
    json_int_t jobs = json_integer_value(json_object_get(object, "jobs"));
    if (!reading->begun) {
        bi_refuse(reading->error, "an export ends that has not begun");
        return wrong(reading);
    }
    if ((uint64_t)jobs != reading->jobs) {
        bi_refuse(reading->error, "the export says that it has %lld jobs, and there are %llu",
                  (long long)jobs, (unsigned long long)reading->jobs);
        return wrong(reading);
    }
    reading->begun = false;
    return BI_EXIT_OK;
}

static const struct {
    const char *name;
    int (*take)(struct reading *reading, const json_t *object);
} kinds[] = {
    {"export", take_beginning},
    {"pause", take_pause},
    {"end", take_end},
};

static int take_kind(struct reading *reading, const json_t *object, const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].take(reading, object);
    bi_refuse(reading->error, "its \"kind\" is not one of export, pause and end");
    return wrong(reading);
}

/* ---- lines ---- */

static int take_job(struct reading *reading, json_t *object)
{
    struct record_room room;
    bide_job job;
    int exit;
    if (!bi_record_read(object, &job, &room, reading->error)) {
        exit = wrong(reading);
    } else {
        reading->tally->jobs++;
        reading->jobs++;
        exit =
            reading->reader->job == NULL
                ? BI_EXIT_OK
                : reading->reader->job(reading->user, reading->input.number, object, &job, &room);
    }
    bi_record_room_free(&room);
    return exit;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_empty(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!is_blank(text[i]))
            return false;
    return true;
}

static int take_line(struct reading *reading, const char *text, size_t size)
{
    if (is_empty(text, size))
        return BI_EXIT_OK;
    json_t *object = bi_record_parse(text, size, reading->error);
    if (object == NULL)
        return wrong(reading);
    const json_t *kind = json_object_get(object, "kind");
    int exit = kind != NULL ? take_kind(reading, object, json_string_value(kind))
                            : take_job(reading, object);
    json_decref(object);
    return exit;
}

/* Reads more, unless interrupted. */
static bool fill(struct reading *reading)
{
    struct pollfd fds[] = {{.fd = reading->input.fd, .events = POLLIN},
                           {.fd = bi_interrupt_fd(), .events = POLLIN}};
    if (reading->reader->idle != NULL && !bi_input_waits(&reading->input))
        reading->reader->idle(reading->user);
    while (!bi_interrupted()) {
        if (poll(fds, 2, -1) > 0 && fds[0].revents != 0)
            return bi_input_fill(&reading->input);
    }
    errno = EINTR;
    return false;
}

static int cannot_read(const struct reading *reading)
{
    if (bi_interrupted())
        return bi_interrupt_exit();
    return bi_cli_failed(reading->cli, BI_EXIT_FAILED, "cannot read behind line %llu: %s",
                         (unsigned long long)reading->input.number, strerror(errno));
}

/* A line that cannot become a record is not read to its end, which it may not have: all of it would
 * be kept in memory until then. Blanks in front of it are not kept either. */
static const char *look_ahead(struct input *input)
{
    while (input->begin < input->end && is_blank(input->data[input->begin]))
        input->begin++;
    if (input->skips)
        return "it is longer than any job can be";
    if (input->begin == input->end || input->data[input->begin] == '{')
        return NULL;
    return "it is no JSON object";
}

static int read_more(struct reading *reading)
{
    const char *sentence = look_ahead(&reading->input);
    if (sentence == NULL)
        return fill(reading) ? BI_EXIT_OK : cannot_read(reading);
    reading->input.number++;
    bi_refuse(reading->error, "%s", sentence);
    return wrong(reading);
}

static int take_piece(struct reading *reading, enum bi_piece piece, bide_slice line)
{
    int exit = BI_EXIT_OK;
    if (piece == BI_PIECE_NONE)
        return read_more(reading);
    if (piece == BI_PIECE_THERE) {
        exit = take_line(reading, line.data, line.size);
    } else {
        bi_refuse(reading->error, "it is longer than any job can be");
        exit = wrong(reading);
    }
    if (exit == BI_EXIT_OK)
        reading->tally->lines = reading->input.number;
    return exit == BI_EXIT_OK && bi_interrupted() ? bi_interrupt_exit() : exit;
}

static int read_lines(struct reading *reading, struct progress *progress)
{
    bide_slice line = {NULL, 0};
    enum bi_piece piece;
    uint64_t bytes = 0;
    while ((piece = bi_input_next(&reading->input, &line)) != BI_PIECE_END) {
        int exit = take_piece(reading, piece, line);
        if (exit != BI_EXIT_OK)
            return exit;
        if (piece == BI_PIECE_THERE)
            bi_progress_set(progress, bytes += line.size + 1);
    }
    if (!reading->begun)
        return BI_EXIT_OK;
    return bi_cli_failed(reading->cli, BI_EXIT_PARTLY,
                         "the end of the export is missing: the last line is line %llu",
                         (unsigned long long)reading->input.number);
}

int bi_import_read(const struct cli *cli, int fd, const struct import_reader *reader, void *user,
                   struct import_tally *tally)
{
    struct reading reading = {.cli = cli, .reader = reader, .user = user, .tally = tally};
    struct progress progress;
    struct stat status;
    bool sized = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    *tally = (struct import_tally){.jobs = 0};
    bi_input_begin(&reading.input, fd, '\n', LONGEST);
    bi_progress_begin(&progress, cli, reader->what, sized ? (uint64_t)status.st_size : 0);
    int exit = read_lines(&reading, &progress);
    bi_progress_end(&progress);
    bi_input_end(&reading.input);
    return exit;
}
