/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memfd_create, strerrordesc_np */
#include "util/conffile.h"

#include "util/clock.h"

#include <assert.h>
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
#define PIPE_MAX  ((size_t)1 << 20) /* the most that is read from a pipe */

/* ---- open ---- */

/* Copies a pipe to its end. False: errno has the cause. A pipe that no process has opened for
 * writing never becomes ready, hence the timeout. */
static bool copy_pipe(int from, int to, int timeout_ms)
{
    const int64_t end = bi_clock_boot() + (int64_t)timeout_ms * 1000;
    assert(timeout_ms >= 0);
    char chunk[4096];

    /* <=, because the end is only seen by a read behind the last byte. */
    for (size_t total = 0; total <= PIPE_MAX;) {
        struct pollfd polled = {.fd = from, .events = POLLIN};
        int64_t left = (end - bi_clock_boot()) / 1000;
        int ready = poll(&polled, 1, left > 0 ? (int)left : 0);
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return false;

        ssize_t got = ready < 0 ? -1 : read(from, chunk, sizeof(chunk));
        if (got == 0)
            return true;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (got > 0 && write(to, chunk, (size_t)got) != got)
            return false;
        total += got > 0 ? (size_t)got : 0;
    }

    errno = EFBIG;
    return false;
}

/* Copies a pipe into a file in memory. */
static int copy_to_memfd(int from, int timeout_ms)
{
    int to = memfd_create("settings", MFD_CLOEXEC);
    if (to < 0)
        return -1;

    if (fchmod(to, 0600) == 0 && copy_pipe(from, to, timeout_ms) && lseek(to, 0, SEEK_SET) == 0)
        return to;

    /* close() may change errno. */
    int error_number = errno;
    close(to);
    errno = error_number;
    return -1;
}

FILE *bi_conffile_open(const char *path, int timeout_ms, struct stat *stat_out)
{
    struct stat info;
    FILE *file = NULL;

    /* O_NONBLOCK: opening a pipe without a writer must not block. O_NOCTTY: a terminal must
     * not become the controlling one. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;

    int copy = -1;
    bool good = fstat(fd, &info) == 0;
    if (good && stat_out != NULL)
        *stat_out = info;

    bool plain = good && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
    if (good && !plain)
        copy = copy_to_memfd(fd, timeout_ms);
    if (plain || copy >= 0)
        file = fdopen(plain ? fd : copy, "r");

    int error_number = errno;
    if (file == NULL && copy >= 0)
        close(copy);
    if (file == NULL || !plain)
        close(fd);
    errno = error_number;
    return file;
}

const char *bi_conffile_strerror(int error_number)
{
    return error_number == ETIMEDOUT
               ? "it is a pipe whose writer has not come, or not ended, in time"
               : strerrordesc_np(error_number);
}

/* ---- parse ---- */

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;

    size_t size = strlen(text);
    while (size > 0 && isspace((unsigned char)text[size - 1]))
        text[--size] = 0;
    return text;
}

/* A comment begins with # at the start of a line or after a space; a # inside a value is
 * literal. */
static void strip_comment(char *line)
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

static bool parse_line(char *line, bi_conffile_handler handler, void *user, char *error)
{
    strip_comment(line);
    char *name = trim(line);
    if (*name == 0)
        return true;
    if (*name == '[')
        return bi_errmsg_set(error, "there are no sections; every line is name = value");

    char *equals = strchr(name, '=');
    if (equals == NULL)
        /* The message does not quote the line: it may be a secret. */
        return bi_errmsg_set(error, "there is no = in the line; every line is name = value");

    *equals = 0;
    return handler(user, trim(name), unquote(trim(equals + 1)), error);
}

bool bi_conffile_parse(FILE *file, const char *path, bi_conffile_handler handler, void *user,
                       char *error)
{
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    int count = 0;

    for (ssize_t size; good && (size = getline(&line, &room, file)) >= 0;) {
        char reason[BI_ERRMSG_SIZE];
        count++;
        if (size > LINE_SIZE || count > LINES_MAX)
            good = bi_errmsg_set(reason, "the %s is too long", size > LINE_SIZE ? "line" : "file");
        else if (strlen(line) != (size_t)size)
            good = bi_errmsg_set(reason, "there is a NUL byte in the line");
        else
            good = parse_line(line, handler, user, reason);
        if (!good)
            bi_errmsg_set(error, "%.200s:%d: %.280s", path, count, reason);
    }

    if (good && ferror(file))
        good = bi_errmsg_set(error, "cannot read %.200s: %s", path, strerror(errno));
    free(line);
    return good;
}

ssize_t bi_conffile_read_line(FILE *file, char *line, size_t size)
{
    size_t count = 0;
    int byte = 0;
    assert(size > 1); /* else an empty line and the end could not be told apart */

    while (count + 1 < size && (byte = getc(file)) != EOF && byte != '\n')
        line[count++] = (char)byte;
    line[count] = 0;

    /* A last line without LF counts; an error in the middle of one does not. */
    if (byte == EOF && (count == 0 || ferror(file)))
        return -1;

    if (byte == '\n' && count > 0 && line[count - 1] == '\r')
        line[--count] = 0;
    return (ssize_t)count;
}
