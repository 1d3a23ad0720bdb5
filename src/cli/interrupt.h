/* SPDX-License-Identifier: MIT */
/*
 * interrupt - orderly end on Ctrl-C, SIGTERM and SIGHUP.
 *
 * A verb that waits or runs for long calls bi_interrupt_watch() when its queue is open. The first signal
 * then does not end the process: bi_interrupted() becomes true, the descriptor becomes readable, and the
 * queue is shut down, so waiting calls return BIDE_CLOSED; other calls complete. The verb completes its
 * current step, prints what is done, and returns bi_interrupt_exit(). A second signal, at least half a
 * second later, ends the process.
 */
#ifndef BI_INTERRUPT_H
#define BI_INTERRUPT_H

#include "cli/cli.h"

/* Returns BI_EXIT_OK, or prints an error. queue may be NULL. Called once per process. */
int bi_interrupt_watch(const struct cli *cli, bide *queue);
/* Releases the queue, which may then be closed. main() calls it. */
void bi_interrupt_stop(void);

bool bi_interrupted(void);
/* Returns a descriptor that is readable after a signal, and must not be read; -1 before watch(). */
int bi_interrupt_fd(void);
/* Returns 128 plus the signal number. */
int bi_interrupt_exit(void);

/* Waits until the descriptor is ready for events of poll(). False with errno: EINTR after a signal. */
bool bi_interrupt_wait(int fd, short events);
/* Writes all data, unless interrupted. False with errno; a part may have been written. */
bool bi_interrupt_write(int fd, const void *data, size_t size);

#endif
