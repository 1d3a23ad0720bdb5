/* SPDX-License-Identifier: MIT */
/*
 * notify - telling systemd what we are doing. Without systemd, or in a build without
 * libsystemd-dev, nothing happens.
 */
#ifndef BI_NOTIFY_H
#define BI_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Somebody wants to be notified, and this build cannot. */
bool bi_notify_missing(void);

void bi_notify_ready(const char *status);
void bi_notify_reloading(void);
void bi_notify_stopping(void);
void bi_notify_status(const char *status);

/* How often systemd wants to hear that we are alive, in microseconds; 0: not at all. */
int64_t bi_notify_watchdog(void);
void bi_notify_alive(void);

#endif
