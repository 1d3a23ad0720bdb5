/* SPDX-License-Identifier: MIT */
/*
 * become - giving up root for the user that -u names, and every capability with it.
 *
 * Failure    A code as beanstalkd exits with, and a sentence (BI_SENTENCE_SIZE bytes).
 */
#ifndef BI_BECOME_H
#define BI_BECOME_H

#include "util/sentence.h"

#include <sys/types.h>

enum become_code {
    BI_BECOME_OK = 0,
    BI_BECOME_UNKNOWN = 32, /* the users cannot be looked up */
    BI_BECOME_NOBODY = 33,  /* there is no such user */
    BI_BECOME_REFUSED = 34, /* we cannot become that one */
};

struct account {
    char name[64];
    uid_t uid;
    gid_t gid;
};

enum become_code bi_become_find(struct account *account, const char *name, char *error);

/*
 * Groups, group, user and capabilities, for good; looks that there is no way back. A process that is
 * that user already only gives up its capabilities.
 */
enum become_code bi_become(const struct account *account, char *error);

/* Neither this process nor a program that it might start can gain privileges from now on (set-user-ID
 * programs, file capabilities). */
void bi_become_seal(void);

#endif
