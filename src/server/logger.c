/* SPDX-License-Identifier: MIT */
#include "server/logger.h"

#include "util/clock.h"
#include "util/datetime.h"

#include <assert.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* PIPE_BUF: longer writes to a pipe may be interleaved with those of other processes. */
#define LINE_MAX_SIZE 4096
#define LINE_END_MAX  3 /* "}, and the newline */

struct line {
    size_t size;
    char text[LINE_MAX_SIZE];
};

static const struct {
    const char *upper, *lower;
    int priority; /* of syslog */
} levels[] = {
    [BIDE_LOG_ERROR] = {"ERROR", "error", 3},
    [BIDE_LOG_WARN] = {"WARN ", "warn", 4},
    [BIDE_LOG_INFO] = {"INFO ", "info", 6},
    [BIDE_LOG_DEBUG] = {"DEBUG", "debug", 7},
};

/* ---- lines ---- */

/* The room for text in front of the end of the line. */
static size_t room_of(const struct line *line)
{
    return sizeof(line->text) - LINE_END_MAX - line->size;
}

/* Appends valid UTF-8. If it does not fit, it is cut between two characters; returns false then. */
static bool append(struct line *line, const char *text, size_t size)
{
    size_t part = size, room = room_of(line);

    if (part > room) {
        part = room;
        while (part > 0 && ((unsigned char)text[part] & 0xc0) == 0x80)
            part--;
    }
    memcpy(line->text + line->size, text, part);
    line->size += part;
    return part == size;
}

/* Appends short text. Returns false if it does not fit; it is dropped then. */
__attribute__((format(printf, 2, 3))) static bool add(struct line *line, const char *format, ...)
{
    char text[128];
    va_list args;

    va_start(args, format);
    int size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert(size >= 0 && (size_t)size < sizeof(text));
    return (size_t)size <= room_of(line) && append(line, text, (size_t)size);
}

/* ASCII controls, and U+0080 to U+009F, which some terminals interpret like escape sequences. */
static bool is_control(const unsigned char *text)
{
    return text[0] < 0x20 || text[0] == 0x7f ||
           (text[0] == 0xc2 && text[1] >= 0x80 && text[1] < 0xa0);
}

/* Returns the size of a character that is written as it is, or 0. */
static size_t plain_size(const unsigned char *at, const unsigned char *end, bool json)
{
    if (is_control(at) || (json && (*at == '"' || *at == '\\')))
        return 0;
    return bi_text_utf8_size(at, (size_t)(end - at));
}

/* Control characters and invalid bytes are written as \x1b, in JSON as \u001b. JSON must be valid
 * UTF-8, so an invalid byte becomes the replacement character. The text ends where the line is
 * full. */
static void add_escaped(struct line *line, const char *text, bool json)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    bool fits = true;

    while (at < end && fits) {
        const unsigned char *run = at;
        for (size_t plain; at < end && (plain = plain_size(at, end, json)) > 0;)
            at += plain;
        fits = append(line, (const char *)run, (size_t)(at - run));
        if (at == end || !fits)
            break;

        size_t size = bi_text_utf8_size(at, (size_t)(end - at));
        if (json && (*at == '"' || *at == '\\'))
            fits = add(line, "\\%c", *at);
        else if (json && is_control(at))
            fits = add(line, "\\u%04x", size == 2 ? at[1] : at[0]);
        else if (json && size == 0)
            fits = add(line, "\\ufffd");
        else {
            fits = add(line, "\\x%02x", *at);
            size = 1; /* the other bytes of a control character are invalid by themselves */
        }
        at += size > 0 ? size : 1;
    }
}

/* ---- writing ---- */

/* Writes a line without blocking. A pipe that polls writable has room for PIPE_BUF bytes. */
static bool put_text(const struct logger *logger, bide_log_level level, const char *text)
{
    struct pollfd writable = {.fd = logger->fd, .events = POLLOUT};
    bool json = logger->format == BI_LOG_JSON;
    struct line line = {.size = 0};
    char now[BI_DATETIME_SIZE];

    bi_datetime_format_rfc3339(now, bi_clock_wall() / 1000);

    /* journald removes the prefix and records the priority, also of a line of JSON. */
    if (logger->journal)
        add(&line, "<%d>", levels[level].priority);
    if (json)
        add(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":\"", now, levels[level].lower);
    else if (!logger->journal)
        add(&line, "%s %s ", now, levels[level].upper);

    add_escaped(&line, text, json);
    const char *end = json ? "\"}\n" : "\n";
    assert(line.size + strlen(end) <= sizeof(line.text));
    memcpy(line.text + line.size, end, strlen(end));
    line.size += strlen(end);

    return poll(&writable, 1, 0) == 1 && (writable.revents & POLLOUT) != 0 &&
           write(logger->fd, line.text, line.size) == (ssize_t)line.size;
}

/* Logs the number of dropped lines. True if none is left to report. */
static bool report_lost(struct logger *logger)
{
    if (logger->lost == 0)
        return true;

    char text[80];
    snprintf(text, sizeof(text), "%llu lines of the log were lost: the log was not read in time",
             (unsigned long long)logger->lost);
    if (!put_text(logger, BIDE_LOG_WARN, text))
        return false;
    logger->lost = 0;
    return true;
}

void bi_logger_write(struct logger *logger, bide_log_level level, const char *text)
{
    assert(logger->fd >= 0 && text != NULL);
    if (level > BIDE_LOG_DEBUG)
        level = BIDE_LOG_DEBUG;

    /* The report comes first: the log shows where lines are missing. */
    pthread_mutex_lock(&logger->lock);
    if (level <= logger->level && (!report_lost(logger) || !put_text(logger, level, text)))
        logger->lost++;
    pthread_mutex_unlock(&logger->lock);
}

static void on_log(void *user, bide_log_level level, const char *text)
{
    bi_logger_write(user, level, text);
}

struct bi_log bi_logger_log(struct logger *logger)
{
    return (struct bi_log){on_log, logger};
}

/* ---- setup ---- */

bool bi_logger_is_journal(int fd, const char *stream)
{
    struct stat info;
    unsigned long long device, inode;
    char trailing;

    if (stream == NULL || fstat(fd, &info) != 0 ||
        sscanf(stream, "%llu:%llu%c", &device, &inode, &trailing) != 2)
        return false;
    return info.st_dev == device && info.st_ino == inode;
}

void bi_logger_init(struct logger *logger, int fd)
{
    *logger = (struct logger){.fd = fd, .level = BIDE_LOG_INFO};
    pthread_mutex_init(&logger->lock, NULL);
    logger->journal = bi_logger_is_journal(fd, getenv("JOURNAL_STREAM"));
}

void bi_logger_configure(struct logger *logger, enum bi_log_format format, bide_log_level level)
{
    pthread_mutex_lock(&logger->lock);
    logger->format = format;
    logger->level = level;
    pthread_mutex_unlock(&logger->lock);
}
