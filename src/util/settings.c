/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memfd_create, strerrordesc_np */
#include "util/settings.h"

#include "util/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINES_MAX 10000
#define LINE_SIZE 8192
#define PIPE_MAX  ((size_t)1 << 20) /* bytes that are read of a pipe */

/* ---- opening ---- */

/* False: errno says why. A pipe that no process has opened for writing gives no sign at all. */
static bool copy_pipe(int from, int to, int patience_ms)
{
    const int64_t end = bi_clock_boot() + (int64_t)patience_ms * 1000;
    char piece[4096];
    for (size_t all = 0; all < PIPE_MAX;) {
        struct pollfd polled = {.fd = from, .events = POLLIN};
        int64_t left = (end - bi_clock_boot()) / 1000;
        int ready = poll(&polled, 1, left > 0 ? (int)left : 0);
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return false;
        ssize_t got = ready < 0 ? -1 : read(from, piece, sizeof(piece));
        if (got == 0)
            return true;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (got > 0 && write(to, piece, (size_t)got) != got)
            return false;
        all += got > 0 ? (size_t)got : 0;
    }
    errno = EFBIG;
    return false;
}

/* What the pipe brings, as a file. */
static int read_pipe(int from, int patience_ms)
{
    int to = memfd_create("settings", MFD_CLOEXEC);
    if (to < 0)
        return -1;
    if (fchmod(to, 0600) == 0 && copy_pipe(from, to, patience_ms) && lseek(to, 0, SEEK_SET) == 0)
        return to;
    int number = errno;
    close(to);
    errno = number;
    return -1;
}

FILE *bi_settings_open(const char *path, int patience_ms, struct stat *told)
{
    struct stat info;
    FILE *file = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;
    int copy = -1;
    bool good = fstat(fd, &info) == 0;
    if (good && told != NULL)
        *told = info;
    bool plain = good && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
    if (good && !plain)
        copy = read_pipe(fd, patience_ms);
    if (plain || copy >= 0)
        file = fdopen(plain ? fd : copy, "r");

    int number = errno;
    if (file == NULL && copy >= 0)
        close(copy);
    if (file == NULL || !plain)
        close(fd);
    errno = number;
    return file;
}

const char *bi_settings_why(int number)
{
    return number == ETIMEDOUT ? "it is a pipe whose writer has not come, or not ended, in time"
                               : strerrordesc_np(number);
}

/* ---- reading ---- */

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
