/* SPDX-License-Identifier: MIT */
/*
 * schedule_file - reads a file of schedules.
 *
 * A line of JSON is a definition, as `bide schedule export` writes it. Blank lines, and lines that
 * begin with #, are skipped.
 *
 * Of a crontab (crontab(5)), each line of five fields or a word with @ and a command is a schedule;
 * the command is the body. Its name is "cron-" and a hash of the line, or the word after "# name:"
 * in the line before it. CRON_TZ=ZONE sets the zone of the lines that follow; other variables have
 * no meaning here.
 */
#include "cli/schedule/schedule_cli.h"

#include "cli/input.h"
#include "util/clock.h"
#include "util/hash.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct cli *cli;
    const struct schedule_flags *flags;
    struct schedule_list *list;
    int64_t now_ms;
    uint64_t line;
    /* With one more byte, so that a text that is too long stays invalid. */
    char zone[BI_TIMEZONE_NAME_SIZE + 1];  /* of CRON_TZ */
    char name[BIDE_SCHEDULE_NAME_MAX + 2]; /* of the next line of a crontab */
};

/* Takes a schedule over, after the checks that a queue would make. */
static bool add(struct reader *reader, struct schedule *schedule, char *error)
{
    if (bi_schedule_open_zone(schedule, error) != BIDE_OK) {
        bi_schedule_free(schedule);
        return false;
    }
    return bi_schedule_list_add(reader->list, schedule) || bi_errmsg_set(error, "out of memory");
}

static bool read_json(struct reader *reader, const char *line, char *error)
{
    struct schedule *schedule;
    if (bi_schedule_decode(line, strlen(line), reader->now_ms, &schedule, error) != BIDE_OK)
        return false;
    return add(reader, schedule, error);
}

/* ---- crontab ---- */

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* Splits "*\/5 * * * * command" or "@daily command"; returns the command. */
static const char *split_fields(const char *line, char *fields, size_t room)
{
    const char *at = line;
    int words = *line == '@' ? 1 : 5;

    for (int i = 0; i < words; i++)
        at = skip_blanks(at + strcspn(at, " \t"));
    const char *end = at;
    while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    snprintf(fields, room, "%.*s", (int)(end - line), line);
    return at;
}

/* Sets the zone, or the name of the next schedule. True if the line is not a schedule. */
static bool read_setting(struct reader *reader, const char *line)
{
    static const char zone[] = "CRON_TZ=", name[] = "name:";
    if (*line == '#') {
        const char *word = skip_blanks(line + 1);
        if (strncmp(word, name, strlen(name)) == 0)
            snprintf(reader->name, sizeof(reader->name), "%s", skip_blanks(word + strlen(name)));
        return true;
    }
    if (strncmp(line, zone, strlen(zone)) == 0) {
        snprintf(reader->zone, sizeof(reader->zone), "%s", line + strlen(zone));
        return true;
    }
    size_t word = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    return word > 0 && *skip_blanks(line + word) == '=' && isalpha((unsigned char)*line);
}

/* In a crontab an unescaped % begins the input of the command. */
static bool copy_command(const char *from, char *to, char *error)
{
    for (; *from != 0; from++) {
        if (*from == '%')
            return bi_errmsg_set(error, "the command has input after %%, which a job cannot have; "
                                        "write \\%% for the character");
        from += *from == '\\' && from[1] == '%';
        *to++ = *from;
    }
    *to = 0;
    return true;
}

static bool add_cron(struct reader *reader, const char *when, const char *command, char *error)
{
    bide_schedule def = reader->flags->def;
    struct schedule *schedule;
    def.options = &reader->flags->options;
    def.name = reader->name;
    def.when = when;
    def.topic = reader->flags->topic;
    def.body = (bide_slice){command, strlen(command)};
    if (reader->zone[0] != 0)
        def.zone = reader->zone;
    return bi_schedule_copy(&def, &schedule, error) == BIDE_OK && add(reader, schedule, error);
}

static bool read_cron(struct reader *reader, const char *line, char *error)
{
    char when[BI_CRON_TEXT_MAX + 2];
    if (read_setting(reader, line))
        return true;

    const char *rest = split_fields(line, when, sizeof(when));
    char *command = malloc(strlen(rest) + 1);
    if (command == NULL)
        return bi_errmsg_set(error, "out of memory");

    bool good = *rest != 0 || bi_errmsg_set(error, "there is no command after \"%.100s\"", when);
    good = good && copy_command(rest, command, error);
    if (good && reader->name[0] == 0)
        snprintf(reader->name, sizeof(reader->name), "cron-%08x",
                 (unsigned)bi_hash_bytes(0, line, strlen(line)));
    good = good && add_cron(reader, when, command, error);
    free(command);
    reader->name[0] = 0;
    return good;
}

/* ---- files ---- */

static bool read_line(struct reader *reader, const char *line, char *error)
{
    line = skip_blanks(line);
    if (*line == 0)
        return true;
    if (reader->flags->crontab)
        return read_cron(reader, line, error);
    return *line == '#' || read_json(reader, line, error);
}

/* Reads the text, which is changed. */
static int read_text(struct reader *reader, const char *path, char *text, size_t size)
{
    char error[BI_ERRMSG_SIZE];

    for (char *line = text, *end; line < text + size; line = end + 1) {
        reader->line++;
        end = memchr(line, '\n', (size_t)(text + size - line));
        if (end == NULL)
            end = text + size;
        *end = 0;
        if (end > line && end[-1] == '\r')
            end[-1] = 0;
        bool good = strlen(line) + 1 >= (size_t)(end - line)
                        ? read_line(reader, line, error)
                        : bi_errmsg_set(error, "the line contains NUL");
        if (!good)
            return bi_cli_error(reader->cli, BI_EXIT_USAGE, "%.200s, line %llu: %s", path,
                                (unsigned long long)reader->line, error);
    }
    return BI_EXIT_OK;
}

int bi_schedule_file_read(const struct cli *cli, const struct schedule_flags *flags,
                          const char *path, struct schedule_list *list)
{
    struct reader reader = {
        .cli = cli, .flags = flags, .list = list, .now_ms = bi_clock_wall() / 1000};
    bide_buf *buf = NULL;

    int exit = bi_input_read_file(cli, path, &buf);
    if (exit != BI_EXIT_OK)
        return exit;

    size_t size = bide_buf_size(buf);
    char *text = malloc(size + 1);
    if (text == NULL) {
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    } else {
        memcpy(text, bide_buf_data(buf), size);
        exit = read_text(&reader, path, text, size);
    }
    free(text);
    bide_buf_unref(buf);

    const char *repeated = exit == BI_EXIT_OK ? bi_schedule_list_sort(list) : NULL;
    if (repeated != NULL)
        exit = bi_cli_error(cli, BI_EXIT_USAGE, "%.200s: there are two schedules \"%s\"", path,
                            repeated);
    return exit;
}
