/* SPDX-License-Identifier: MIT */
/*
 * privileges - drops root privileges and all capabilities, for the user that -u names.
 *
 * Failure    The exit code that beanstalkd uses, and a message (BI_ERRMSG_SIZE bytes). After a
 *            failed drop the process may be in between and must exit.
 */
#ifndef BI_PRIVILEGES_H
#define BI_PRIVILEGES_H

#include "util/message.h"

#include <sys/types.h>

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

enum privileges_code bi_privileges_find_account(struct account *account, const char *name,
                                                char *error);

/*
 * Drops groups, group, user and capabilities for good, and verifies that there is no way back. A
 * process that runs as the user already drops its capabilities only.
 */
enum privileges_code bi_privileges_drop(const struct account *account, char *error);

/* From now on neither this process nor a program that it executes can gain privileges by
 * set-user-ID or file capabilities. */
void bi_privileges_forbid_new(void);

#endif
