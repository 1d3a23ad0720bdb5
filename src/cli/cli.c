/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* vasprintf */
#include "cli/cli.h"

#include "cli/print.h"
#include "cli/verb.h"
#include "op/job_json.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- exit codes ---- */

int bi_cli_exit_code(int code)
{
    static const struct {
        int code, exit;
    } table[] = {
        {BIDE_OK, BI_EXIT_OK},
        {BIDE_NOT_FOUND, BI_EXIT_NOT_FOUND},
        {BIDE_TIMED_OUT, BI_EXIT_TIMED_OUT},
        {BIDE_EINVAL, BI_EXIT_USAGE},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].code == code)
            return table[i].exit;
    return code > 0 ? BI_EXIT_REFUSED : BI_EXIT_FAILED;
}

bool bi_cli_is_fatal(int code)
{
    if (code < 0)
        return code != BIDE_EINVAL && code != BIDE_ENOTSUP;
    return code == BIDE_DRAINING || code == BIDE_CLOSED;
}

/* ---- errors ---- */

static const char *verb_name(const struct cli *cli)
{
    return cli->verb == NULL ? "" : cli->verb->name;
}

/* Writes a line to standard error in one call, so that lines of several commands do not mix.
 * Control characters are escaped: file names and errors come from other users. */
static void write_sanitized(const struct cli *cli, bi_print_fn *print, const char *text,
                            const char *end)
{
    char *shown = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&shown, &size);
    bool good = false;

    if (to != NULL) {
        print(to, cli->err_terminal, text, strlen(text));
        fputs(end, to);
        good = !ferror(to);
        good = fclose(to) == 0 && good;
    }

    /* Without memory it is written in pieces, so that "out of memory" can be printed. */
    if (good) {
        fwrite(shown, 1, size, stderr);
    } else {
        print(stderr, cli->err_terminal, text, strlen(text));
        fputs(end, stderr);
    }
    free(shown);
}

/* Takes the reference to the object. */
static bool print_object(json_t *object)
{
    char *line = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);

    json_decref(object);
    if (line == NULL)
        return false;
    fprintf(stderr, "%s\n", line);
    free(line);
    return true;
}

/* Prints one line, or with --json an object. */
static void print_error(const struct cli *cli, int code, int exit, const char *message)
{
    char line[BI_ERRMSG_SIZE + 40], text[BI_ERRMSG_SIZE];

    bi_print_sanitize(text, sizeof(text), message);
    if (cli->json &&
        print_object(json_pack("{s:s, s:s*, s:i}", "error", text, "code",
                               code == BIDE_OK ? NULL : bide_code_name(code), "exit", exit)))
        return;
    snprintf(line, sizeof(line), "bide%s%s: %s", cli->verb == NULL ? "" : " ", verb_name(cli),
             message);
    write_sanitized(cli, bi_print_line, line, "\n");
}

int bi_cli_usage_error(const struct cli *cli, const char *format, ...)
{
    char message[BI_ERRMSG_SIZE];

    BI_CLI_FORMAT(message, format);
    print_error(cli, BIDE_OK, BI_EXIT_USAGE, message);
    if (!cli->json)
        fprintf(stderr, "Try \"bide help%s%s\".\n", cli->verb == NULL ? "" : " ", verb_name(cli));
    return BI_EXIT_USAGE;
}

int bi_cli_error(const struct cli *cli, int exit, const char *format, ...)
{
    char message[BI_ERRMSG_SIZE];

    BI_CLI_FORMAT(message, format);
    print_error(cli, BIDE_OK, exit, message);
    return exit;
}

/* Skips the name of the call at the beginning of a library error, "put: ". */
static const char *strip_call_name(const char *message)
{
    const char *at = message;
    while (islower((unsigned char)*at) || *at == '_')
        at++;
    return at > message && at[0] == ':' && at[1] == ' ' ? at + 2 : message;
}

int bi_cli_report(const struct cli *cli, const char *subject, int code, const char *message)
{
    char text[BI_ERRMSG_SIZE];

    assert(cli != NULL);
    if (code == BIDE_OK)
        return BI_EXIT_OK;
    if (message == NULL || message[0] == 0)
        message = bide_code_text(code);
    bool named = subject != NULL && subject[0] != 0;
    snprintf(text, sizeof(text), "%.200s%s%.300s", named ? subject : "", named ? ": " : "",
             strip_call_name(message));
    print_error(cli, code, bi_cli_exit_code(code), text);
    return bi_cli_exit_code(code);
}

int bi_cli_report_job(const struct cli *cli, uint64_t id, int code, const char *message)
{
    char subject[40];
    snprintf(subject, sizeof(subject), "job %llu", (unsigned long long)id);
    return bi_cli_report(cli, subject, code, message);
}

int bi_cli_report_last(const struct cli *cli, int code)
{
    if (code == BIDE_CLOSED && bi_interrupted())
        return bi_interrupt_exit();
    return bi_cli_report(cli, NULL, code, bide_last_error());
}

/* ---- notes ---- */

void bi_cli_warn(const struct cli *cli, const char *format, ...)
{
    char message[BI_ERRMSG_SIZE], text[BI_ERRMSG_SIZE], line[BI_ERRMSG_SIZE + 60];

    BI_CLI_FORMAT(message, format);

    bi_print_sanitize(text, sizeof(text), message);
    if (cli->json && print_object(json_pack("{s:s}", "warning", text)))
        return;
    snprintf(line, sizeof(line), "bide %s: warning: %s", verb_name(cli), message);
    write_sanitized(cli, bi_print_line, line, "\n");
}

__attribute__((format(printf, 2, 0))) static void note(const struct cli *cli, const char *format,
                                                       va_list args)
{
    char *text = NULL, clean[BI_ERRMSG_SIZE];

    if (vasprintf(&text, format, args) < 0)
        return;
    bi_print_sanitize(clean, sizeof(clean), strncmp(text, "bide: ", 6) == 0 ? text + 6 : text);
    if (!cli->json || !print_object(json_pack("{s:s}", "note", clean)))
        write_sanitized(cli, bi_print_bytes, text, "\n");
    free(text);
}

void bi_cli_note(const struct cli *cli, const char *format, ...)
{
    va_list args;

    if (cli->quiet)
        return;
    va_start(args, format);
    note(cli, format, args);
    va_end(args);
}

void bi_cli_detail(const struct cli *cli, const char *format, ...)
{
    va_list args;

    if (!cli->verbose || cli->quiet)
        return;
    va_start(args, format);
    note(cli, format, args);
    va_end(args);
}

/* ---- confirmation ---- */

bool bi_cli_confirm(const struct cli *cli, const char *format, ...)
{
    char question[BI_ERRMSG_SIZE], answer[16] = "";

    BI_CLI_FORMAT(question, format);
    if (!isatty(STDIN_FILENO) || !cli->err_terminal) {
        bi_cli_error(cli, BI_EXIT_USAGE, "%.400s Cannot ask without a terminal: use --yes",
                     question);
        return false;
    }

    write_sanitized(cli, bi_print_line, question, " [y/N] ");
    if (fgets(answer, sizeof(answer), stdin) == NULL)
        fputc('\n', stderr);
    answer[strcspn(answer, "\n")] = 0;
    return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}

/* ---- arguments ---- */

bool bi_cli_parse_id(const struct cli *cli, const char *word, uint64_t *id)
{
    char reason[BI_ERRMSG_SIZE];
    if (bi_flag_parse_id(word, id, reason))
        return true;
    bi_cli_usage_error(cli, "\"%.60s\" is not a job id: it %s", word, reason);
    return false;
}

int bi_cli_parse_ids(struct cli *cli)
{
    assert(cli->word_count <= BI_WORDS_MAX);
    for (size_t i = 0; i < cli->word_count; i++)
        if (!bi_cli_parse_id(cli, cli->words[i], &cli->ids[i]))
            return BI_EXIT_USAGE;
    return BI_EXIT_OK;
}

int bi_cli_require_leases(const struct cli *cli)
{
    if ((bide_capabilities(cli->queue) & BIDE_CAN_PASS_LEASES) != 0)
        return BI_EXIT_OK;
    return bi_cli_error(
        cli, BI_EXIT_REFUSED,
        "on %.200s a lease ends with the process that reserved the job, and this one ends at once; "
        "use \"bide work\" to run a program for each job, or serve the queue with bided",
        cli->shown);
}

/* ---- memory ---- */

bool bi_cli_reserve(void *array, size_t item_size, size_t needed, size_t *capacity)
{
    size_t doubled = *capacity < 32 ? 64 : *capacity * 2,
           wanted = needed > doubled ? needed : doubled;
    void *old, *grown;

    if (needed <= *capacity)
        return true;
    memcpy(&old, array, sizeof(old)); /* array points to a pointer of any type */
    grown = realloc(old, wanted * item_size);
    if (grown == NULL)
        return false;
    memcpy(array, &grown, sizeof(grown));
    *capacity = wanted;
    return true;
}

/* ---- output ---- */

bool bi_cli_is_output_closed(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int bi_cli_flush(const struct cli *cli)
{
    static int exit = BI_EXIT_OK; /* an error is printed once */
    errno = 0;

    if (exit != BI_EXIT_OK || (fflush(stdout) == 0 && !ferror(stdout)))
        return exit;
    /* errno of the failed write may be lost by now. */
    if (errno == EPIPE || bi_cli_is_output_closed())
        exit = BI_EXIT_PIPE;
    else if (errno == 0)
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "cannot write all of the output");
    else
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "cannot write the output: %s", strerror(errno));
    return exit;
}

int bi_cli_print_json(const struct cli *cli, json_t *value)
{
    bool ok = value != NULL && bi_job_json_write(stdout, value);
    int exit = ok || value == NULL ? BI_EXIT_OK : bi_cli_flush(cli);
    json_decref(value);
    if (ok || exit != BI_EXIT_OK)
        return exit;
    return bi_cli_error(cli, BI_EXIT_FAILED, "cannot print the result: out of memory");
}
