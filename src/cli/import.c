/* SPDX-License-Identifier: MIT */
#include "cli/import.h"

#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

/* The largest job in base64. */
#define LINE_MAX_SIZE ((size_t)3 << 29)

struct import {
    const struct cli *cli;
    const struct import_handlers *handlers;
    void *user;
    struct import_counts *counts;
    struct input input;
    bool in_export;             /* between the header and the end of an export */
    uint64_t jobs, pauses;      /* in this export */
    char error[BI_ERRMSG_SIZE]; /* of the current line */
};

/* ---- lines with a kind; each returns an exit code ---- */

static int reject_line(struct import *import)
{
    return bi_cli_error(import->cli, BI_EXIT_PARTIAL, "line %llu: %.400s",
                        (unsigned long long)import->input.number, import->error);
}

static int handle_export(struct import *import, const json_t *object)
{
    if (import->in_export) {
        bi_errmsg_set(import->error, "an export begins inside another");
        return reject_line(import);
    }
    if (json_integer_value(json_object_get(object, "format")) != 1) {
        bi_errmsg_set(import->error, "unknown export format (this is bide %s)", bide_version());
        return reject_line(import);
    }
    import->in_export = true;
    import->jobs = import->pauses = 0;
    return BI_EXIT_OK;
}

static int handle_pause(struct import *import, const json_t *object)
{
    struct pause pause;
    if (!bi_pauses_from_json(object, &pause, import->error))
        return reject_line(import);
    import->counts->pauses++;
    import->pauses++;
    return import->handlers->pause == NULL
               ? BI_EXIT_OK
               : import->handlers->pause(import->user, import->input.number, &pause);
}

/* Detects lines that were removed or duplicated. */
static int handle_end(struct import *import, const json_t *object)
{
    json_int_t jobs = json_integer_value(json_object_get(object, "jobs"));
    if (!import->in_export) {
        bi_errmsg_set(import->error, "end of an export without a beginning");
        return reject_line(import);
    }
    if ((uint64_t)jobs != import->jobs) {
        bi_errmsg_set(import->error, "the export should have %lld jobs, but has %llu",
                      (long long)jobs, (unsigned long long)import->jobs);
        return reject_line(import);
    }
    import->in_export = false;
    return BI_EXIT_OK;
}

static const struct {
    const char *name;
    int (*handle)(struct import *import, const json_t *object);
} kinds[] = {
    {"export", handle_export},
    {"pause", handle_pause},
    {"end", handle_end},
};

static int handle_kind(struct import *import, const json_t *object, const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].handle(import, object);
    bi_errmsg_set(import->error, "\"kind\" is not export, pause or end");
    return reject_line(import);
}

/* ---- lines ---- */

static int handle_job(struct import *import, json_t *object)
{
    struct job_json_buffers buffers;
    bide_job job;
    int exit;
    if (!bi_job_json_decode(object, &job, &buffers, import->error)) {
        exit = reject_line(import);
    } else {
        import->counts->jobs++;
        import->jobs++;
        exit =
            import->handlers->job == NULL
                ? BI_EXIT_OK
                : import->handlers->job(import->user, import->input.number, object, &job, &buffers);
    }
    bi_job_json_buffers_free(&buffers);
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

static int handle_line(struct import *import, const char *text, size_t size)
{
    if (is_empty(text, size))
        return BI_EXIT_OK;
    json_t *object = bi_job_json_parse(text, size, import->error);
    if (object == NULL)
        return reject_line(import);
    const json_t *kind = json_object_get(object, "kind");
    int exit = kind != NULL ? handle_kind(import, object, json_string_value(kind))
                            : handle_job(import, object);
    json_decref(object);
    return exit;
}

/* Reads more, unless interrupted. */
static bool fill_input(struct import *import)
{
    struct pollfd fds[] = {{.fd = import->input.fd, .events = POLLIN},
                           {.fd = bi_interrupt_fd(), .events = POLLIN}};
    if (import->handlers->idle != NULL && !bi_input_is_ready(&import->input))
        import->handlers->idle(import->user);
    while (!bi_interrupted()) {
        if (poll(fds, 2, -1) > 0 && fds[0].revents != 0)
            return bi_input_fill(&import->input);
    }
    errno = EINTR;
    return false;
}

static int report_read_error(const struct import *import)
{
    if (bi_interrupted())
        return bi_interrupt_exit();
    return bi_cli_error(import->cli, BI_EXIT_FAILED, "cannot read after line %llu: %s",
                        (unsigned long long)import->input.number, strerror(errno));
}

/* Rejects a line by its first byte: a line without an end would otherwise be buffered as a whole.
 * Leading blanks are dropped for the same reason. */
static const char *check_line_start(struct input *input)
{
    while (input->start < input->end && is_blank(input->data[input->start]))
        input->start++;
    if (input->skipping)
        return "it is longer than any job can be";
    if (input->start == input->end || input->data[input->start] == '{')
        return NULL;
    return "not a JSON object";
}

static int read_input(struct import *import)
{
    const char *message = check_line_start(&import->input);
    if (message == NULL)
        return fill_input(import) ? BI_EXIT_OK : report_read_error(import);
    import->input.number++;
    bi_errmsg_set(import->error, "%s", message);
    return reject_line(import);
}

static int handle_record(struct import *import, enum bi_input_status status, bide_slice line)
{
    int exit = BI_EXIT_OK;
    if (status == BI_INPUT_NEED_MORE)
        return read_input(import);
    if (status == BI_INPUT_RECORD) {
        exit = handle_line(import, line.data, line.size);
    } else {
        bi_errmsg_set(import->error, "it is longer than any job can be");
        exit = reject_line(import);
    }
    if (exit == BI_EXIT_OK)
        import->counts->lines = import->input.number;
    return exit == BI_EXIT_OK && bi_interrupted() ? bi_interrupt_exit() : exit;
}

static int read_lines(struct import *import, struct progress *progress)
{
    bide_slice line = {NULL, 0};
    enum bi_input_status status;
    uint64_t bytes = 0;
    while ((status = bi_input_next(&import->input, &line)) != BI_INPUT_EOF) {
        int exit = handle_record(import, status, line);
        if (exit != BI_EXIT_OK)
            return exit;
        if (status == BI_INPUT_RECORD)
            bi_progress_set(progress, bytes += line.size + 1);
    }
    if (!import->in_export)
        return BI_EXIT_OK;
    return bi_cli_error(import->cli, BI_EXIT_PARTIAL,
                        "the end of the export is missing: the last line is line %llu",
                        (unsigned long long)import->input.number);
}

int bi_import_read(const struct cli *cli, int fd, const struct import_handlers *handlers,
                   void *user, struct import_counts *counts)
{
    struct import import = {.cli = cli, .handlers = handlers, .user = user, .counts = counts};
    struct progress progress;
    struct stat file_stat;
    bool sized = fstat(fd, &file_stat) == 0 && S_ISREG(file_stat.st_mode);
    *counts = (struct import_counts){.jobs = 0};
    bi_input_init(&import.input, fd, '\n', LINE_MAX_SIZE);
    bi_progress_begin(&progress, cli, handlers->label, sized ? (uint64_t)file_stat.st_size : 0);
    int exit = read_lines(&import, &progress);
    bi_progress_end(&progress);
    bi_input_done(&import.input);
    return exit;
}
