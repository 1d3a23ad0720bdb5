/* SPDX-License-Identifier: MIT */
/*
 * process - the process and its surroundings: its user, the limits of the machine, and the service
 * manager.
 */
#ifndef BI_PROCESS_H
#define BI_PROCESS_H

#include "util/message.h"

#include <stdint.h>
#include <sys/types.h>

/* ---- user ---- */

/* The exit codes that beanstalkd uses. */
enum privileges_code {
    BI_PRIVILEGES_OK = 0,
    BI_PRIVILEGES_LOOKUP_FAILED = 32, /* the user database cannot be read */
    BI_PRIVILEGES_NO_USER = 33,       /* no such user */
    BI_PRIVILEGES_DENIED = 34,        /* the change of user failed */
};

struct account {
    char name[64];
    uid_t uid;
    gid_t gid;
};

/* A failure has a message in error (BI_ERRMSG_SIZE bytes). */
enum privileges_code bi_process_find_account(struct account *account, const char *name,
                                             char *error);

/*
 * Drops groups, group, user and capabilities for good, and verifies that there is no way back. A
 * process that runs as the user already drops its capabilities only. After a failure the process
 * may be in between and must exit.
 */
enum privileges_code bi_process_drop_privileges(const struct account *account, char *error);

/* From now on neither this process nor a program that it executes can gain privileges by
 * set-user-ID or file capabilities. */
void bi_process_forbid_new_privileges(void);

/* ---- limits ---- */

/*
 * Bytes of memory of the machine, or the lowest limit of the process's control group and its
 * parents (version 1 or 2). 0 if nothing can be read. root is "", or the parent of /proc and /sys
 * in a test.
 */
uint64_t bi_process_memory_limit(const char *root);

/* Raises the limit of open files to `wanted` if possible. Returns the limit in effect. */
uint64_t bi_process_raise_file_limit(uint64_t wanted);

/* Formats a size: 0, 65535B, 64KiB, 18.8GiB. text: BI_SIZE_TEXT bytes. */
#define BI_SIZE_TEXT 32
void bi_process_format_size(char *text, uint64_t bytes);

/* ---- service manager ---- */

/* Sends lines VARIABLE=value to systemd, see sd_notify(3). Without systemd, and in a build without
 * libsystemd, it has no effect. */
void bi_process_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* True if a service manager expects notifications and this build cannot send them. */
bool bi_process_cannot_notify(void);

/* The interval of the watchdog in microseconds; 0: disabled. */
int64_t bi_process_watchdog_us(void);

#endif
