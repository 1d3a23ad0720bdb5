/* SPDX-License-Identifier: MIT */
/*
 * logger - the log of bided: lines on a file descriptor, as text or as JSON.
 *
 *     2026-11-15T10:00:00.123Z INFO  listening on 127.0.0.1:11300
 *     {"time":"2026-11-15T10:00:00.123Z","level":"info","message":"listening on ..."}
 *
 * The journal of systemd records the time itself; a line of text begins with its priority there. A
 * line is one write(). Lines may contain text of clients, so unprintable bytes are escaped: a
 * client can neither forge a line nor control a terminal.
 *
 * Threads    All functions may be called by any thread after bi_logger_init().
 * Failure    The logger never blocks. If the reader does not keep up, a line is dropped and
 *            counted, and the count is logged as soon as there is room.
 */
#ifndef BI_LOGGER_H
#define BI_LOGGER_H

#include "util/message.h"

#include <pthread.h>

enum bi_log_format { BI_LOG_TEXT, BI_LOG_JSON };

struct logger {
    pthread_mutex_t lock;
    int fd;
    bool journal;
    enum bi_log_format format;
    bide_log_level level; /* less urgent lines are not written */
    uint64_t lost;        /* lines dropped since the last one written */
};

/* The descriptor is borrowed. */
void bi_logger_init(struct logger *logger, int fd);
void bi_logger_configure(struct logger *logger, enum bi_log_format format, bide_log_level level);
void bi_logger_write(struct logger *logger, bide_log_level level, const char *text);

/* The log interface for the library and the server. */
struct bi_log bi_logger_log(struct logger *logger);

/* True if the descriptor is the one named by $JOURNAL_STREAM (`stream`, may be NULL). */
bool bi_logger_is_journal(int fd, const char *stream);

#endif
