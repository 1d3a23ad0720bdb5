/* SPDX-License-Identifier: MIT */
/*
 * work_writer - what a worker and its programs say, to whoever reads it.
 *
 * A reader who does not read must not keep a worker from stopping, nor a program from its time
 * limit: it is waited for only as long as nothing of that is due, and then what it has missed is
 * dropped.
 */
#ifndef BI_WORK_WRITER_H
#define BI_WORK_WRITER_H

#include "cli/work/work.h"

#define BI_WORK_WRITER_PATIENCE_US INT64_C(200000) /* how long even then */

/* Writes all of it, up to 4096 bytes at once, without those of other threads in between. Waits for
 * the reader until the worker is to end what runs, wake_fd (-1: none) is readable, or it is
 * until_us. False with errno, which is ETIMEDOUT when nobody has read. */
bool bi_work_writer_write(const struct work *work, int fd, const char *data, size_t size,
                          int wake_fd, int64_t until_us);

/* As bi_cli_note(), for a reader who may not read. */
void bi_work_writer_note(const struct work *work, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
