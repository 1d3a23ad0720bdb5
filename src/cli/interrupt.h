/* SPDX-License-Identifier: MIT */
/*
 * interrupt - Ctrl-C, SIGTERM and SIGHUP in the middle of something that should end in order.
 *
 * A verb that waits or works in pieces calls bi_interrupt_watch() once its queue is open. From then
 * on a first signal does not end the process: bi_interrupted() turns true, the descriptor becomes
 * readable, and calls of the queue that wait answer BIDE_CLOSED, because the queue is shut down;
 * calls that store go on as always. The verb finishes the piece it is at, says what is done, and
 * answers bi_interrupt_exit(). A second signal, half a second later or more, ends the process.
 */
#ifndef BI_INTERRUPT_H
#define BI_INTERRUPT_H

#include "cli/cli.h"

#include <sys/types.h>

/* BI_EXIT_OK, or says what is wrong. queue may be NULL. Once a process. */
int bi_interrupt_watch(const struct cli *cli, bide *queue);
/* Ends the watching of the queue, which may then be closed. Done by main() for cli->queue. */
void bi_interrupt_stop(void);

bool bi_interrupted(void);
/* Readable once interrupted; not to be read. -1 when nothing is watched. */
int bi_interrupt_fd(void);
/* 128 and the number of the signal. */
int bi_interrupt_exit(void);

/* Reads, or waits for something to read, until interrupted: then -1 with errno EINTR. */
ssize_t bi_interrupt_read(int fd, void *data, size_t size);
/* Writes all of it, also to a pipe whose reader is slow, until interrupted. False with errno; then
 * some of it may be written. */
bool bi_interrupt_write(int fd, const void *data, size_t size);

#endif
