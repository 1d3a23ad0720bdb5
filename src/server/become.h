/* SPDX-License-Identifier: MIT */
/*
 * become - giving up root for the user that -u names.
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

/* Groups, group, user, for good; looks that there is no way back. Whoever is that user already
 * stays so. */
enum become_code bi_become(const struct account *account, char *error);

#endif
