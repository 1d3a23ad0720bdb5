/* SPDX-License-Identifier: MIT */
/*
 * logger - the log of bided: lines on a file descriptor, as text or as JSON.
 *
 *     2026-11-15T10:00:00.123Z INFO  listening on 127.0.0.1:11300
 *     {"time":"2026-11-15T10:00:00.123Z","level":"info","message":"listening on ..."}
 *
 * In the journal of systemd, which knows the time, a line of text begins with its level instead.
 * A line is one write. Nobody waits for the reader: a line for which there is no room is dropped and
 * counted, and the count is told as soon as there is room. Names and texts of clients may be in a
 * line: what is not printable is escaped, so that one line stays one line.
 *
 * Threads    Any thread may write, and change what is written.
 * Failure    None that anybody would be told of.
 */
#ifndef BI_LOGGER_H
#define BI_LOGGER_H

#include "util/log.h"

#include <pthread.h>

enum bi_log_format { BI_LOG_TEXT, BI_LOG_JSON };

struct logger {
    pthread_mutex_t lock;
    int fd;
    bool journal;
    enum bi_log_format format;
    bide_log_level level; /* what is less urgent is not written */
    uint64_t lost;        /* lines since the last that was written */
};

/* The descriptor stays the caller's. */
void bi_logger_init(struct logger *logger, int fd);
void bi_logger_change(struct logger *logger, enum bi_log_format format, bide_log_level level);
void bi_logger_write(struct logger *logger, bide_log_level level, const char *text);

/* What the library and the server write to. */
struct bi_log bi_logger_log(struct logger *logger);

/* Is the descriptor the one that JOURNAL_STREAM (may be NULL) tells of? */
bool bi_logger_is_journal(int fd, const char *stream);

#endif
