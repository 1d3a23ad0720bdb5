/* SPDX-License-Identifier: MIT */
#include "util/settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 10000
#define LINE_SIZE 8192

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t size = strlen(text);
    while (size > 0 && isspace((unsigned char)text[size - 1]))
        text[--size] = 0;
    return text;
}

/* A # begins a comment at the beginning of a line or after a space. */
static void cut_comment(char *line)
{
    for (char *at = line; *at != 0; at++) {
        if (*at == '#' && (at == line || isspace((unsigned char)at[-1]))) {
            *at = 0;
            return;
        }
    }
}

static char *unquote(char *text)
{
    size_t size = strlen(text);
    if (size < 2 || text[0] != '"' || text[size - 1] != '"')
        return text;
    text[size - 1] = 0;
    return text + 1;
}

static bool read_line(char *line, bi_settings_take take, void *user, char *error)
{
    cut_comment(line);
    char *name = trim(line);
    if (*name == 0)
        return true;
    if (*name == '[')
        return bi_refuse(error, "there are no sections; every line is name = value");
    char *equals = strchr(name, '=');
    if (equals == NULL)
        /* Not what the line says: it may be a secret. */
        return bi_refuse(error, "there is no = in the line; every line is name = value");
    *equals = 0;
    return take(user, trim(name), unquote(trim(equals + 1)), error);
}

bool bi_settings_read(FILE *file, const char *path, bi_settings_take take, void *user, char *error)
{
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    int count = 0;
    for (ssize_t size; good && (size = getline(&line, &room, file)) >= 0;) {
        char reason[BI_SENTENCE_SIZE];
        count++;
        if (size > LINE_SIZE || count > LINES_MAX)
            good = bi_refuse(reason, "the %s is too long", size > LINE_SIZE ? "line" : "file");
        else if (strlen(line) != (size_t)size)
            good = bi_refuse(reason, "there is a NUL byte in the line");
        else
            good = read_line(line, take, user, reason);
        if (!good)
            bi_refuse(error, "%.200s:%d: %.280s", path, count, reason);
    }
    if (good && ferror(file))
        good = bi_refuse(error, "cannot read %.200s: %s", path, strerror(errno));
    free(line);
    return good;
}

ssize_t bi_settings_line(FILE *file, char *line, size_t size)
{
    size_t count = 0;
    int byte = 0;
    while (count + 1 < size && (byte = getc(file)) != EOF && byte != '\n')
        line[count++] = (char)byte;
    line[count] = 0;
    if (byte == EOF && (count == 0 || ferror(file)))
        return -1;
    if (byte == '\n' && count > 0 && line[count - 1] == '\r')
        line[--count] = 0;
    return (ssize_t)count;
}
