/* SPDX-License-Identifier: MIT */
/*
 * timezone_file - decodes the files of the time zone database: TZif, RFC 8536, versions 1 to 4.
 *
 * A file has a list of changes of the offset and, since version 2, a rule in POSIX form for the
 * times behind the last one ("CET-1CEST,M3.5.0,M10.5.0/3"). The decoder turns the rule into changes
 * too, so that a lookup needs only the list.
 *
 * Failure    Any bytes may be decoded: sizes, indices, offsets and the order of times are checked.
 *            The reason in error (BI_ERRMSG_SIZE bytes) continues the sentence "the file ...".
 */
#ifndef BI_TIMEZONE_FILE_H
#define BI_TIMEZONE_FILE_H

#include "util/timezone.h"

/* The largest file of the database has less than 4 KiB. */
#define BI_TIMEZONE_FILE_MAX 65536

/* Offsets, also those of a rule, are smaller than this: RFC 8536 allows -25 to 26 hours. */
#define BI_TIMEZONE_OFFSET_MAX 93600 /* 26 hours */

/* Indices of abbreviations are bytes, and the rule adds two names. */
#define BI_TIMEZONE_ABBREVIATIONS_SIZE 320

/* What applies from a time on. */
struct timezone_change {
    int64_t at_s;
    int32_t offset_s;
    uint16_t abbreviation; /* where it begins in abbreviations */
    bool is_dst;
};

struct timezone_rules {
    char name[BI_TIMEZONE_NAME_SIZE];
    char abbreviations[BI_TIMEZONE_ABBREVIATIONS_SIZE];
    size_t count;
    /* Rising at_s; the first one is INT64_MIN. */
    struct timezone_change changes[];
};

/* Decodes the contents of a file. The zone has no name yet, and is freed with bi_timezone_free().
 * BIDE_EINVAL: they are not valid; BIDE_ENOMEM. */
int bi_timezone_file_decode(const void *data, size_t size, struct timezone_rules **out,
                            char *error);

#endif
