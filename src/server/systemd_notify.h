/* SPDX-License-Identifier: MIT */
/*
 * systemd_notify - reports the state of the server to systemd.
 *
 * Without systemd, and in a build without libsystemd, the functions have no effect.
 */
#ifndef BI_SYSTEMD_NOTIFY_H
#define BI_SYSTEMD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* True if a service manager expects notifications and this build cannot send them. */
bool bi_systemd_notify_unsupported(void);

void bi_systemd_notify_ready(const char *status);
void bi_systemd_notify_reloading(void);
void bi_systemd_notify_stopping(void);
void bi_systemd_notify_status(const char *status);

/* The interval of the watchdog in microseconds; 0: disabled. */
int64_t bi_systemd_notify_watchdog_us(void);
void bi_systemd_notify_watchdog(void);

#endif
