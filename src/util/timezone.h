/* SPDX-License-Identifier: MIT */
/*
 * timezone - the rules of one time zone, read from the time zone database of the system.
 *
 * The C library knows one zone per process (TZ), but each schedule has its own. The rules are read
 * from TZif files (RFC 8536, versions 1 to 4) in the directory TZDIR, by default
 * /usr/share/zoneinfo. Times behind the last stored change follow the POSIX rule at the end of the
 * file.
 *
 * A name is that of the database (Europe/Berlin), UTC, or an offset from UTC (+02:00, -0330, +05).
 * UTC and offsets need no database. A name that could leave the directory is refused, and so are
 * files that count leap seconds ("right/").
 *
 * The rules cover 1970 to BIDE_TIMESTAMP_MAX_MS; other times have the offset of the nearest covered
 * time. A change of the database on disk has no effect on zones that are open.
 *
 * Threads    Immutable once open: any number of threads may use a zone at the same time.
 * Failure    A message in error (BI_ERRMSG_SIZE bytes): a whole clause that names the zone, without
 *            a final point. *out is then unchanged.
 * Cost       Opening reads one file. A lookup is a binary search in a few hundred changes.
 */
#ifndef BI_TIMEZONE_H
#define BI_TIMEZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define BI_TIMEZONE_NAME_SIZE 64 /* the longest name, with its NUL */

struct timezone_rules; /* timezone_file.h */

/* Whether a zone could have this name. The database is not read. BIDE_EINVAL. */
int bi_timezone_check_name(const char *name, size_t size, char *error);

/*
 * Opens a zone. With size 0 (name may be NULL), or "localtime", it is the zone of this machine, as
 * bi_timezone_find_local() determines it. BIDE_EINVAL: the name is not that of a zone; BIDE_EIO:
 * the database is missing, or the file cannot be read or is damaged; BIDE_ENOMEM.
 */
int bi_timezone_open(const char *name, size_t size, struct timezone_rules **out, char *error);

/* zone may be NULL. */
void bi_timezone_free(struct timezone_rules *zone);

/* The name by which the zone can be opened again, also on another machine: that of bi_timezone_open,
 * of the machine's zone the one found; "UTC" for all names of UTC. */
const char *bi_timezone_name(const struct timezone_rules *zone);

/* A time with one offset: from begin_s to before end_s, seconds since 1970. The first one begins
 * with INT64_MIN, the last one ends with INT64_MAX. */
struct timezone_period {
    int64_t begin_s, end_s;
    int32_t offset_s; /* local time minus UTC; less than 26 hours either way */
    bool is_dst;
    const char *abbreviation; /* of the zone's memory */
};

/* The period that contains a time. Neighbours may have the same offset. */
struct timezone_period bi_timezone_period(const struct timezone_rules *zone, int64_t at_s);

/* The same as localtime_r() in this zone; tm_zone points into the memory of the zone. False if the
 * year does not fit. */
bool bi_timezone_break_down(const struct timezone_rules *zone, int64_t at_s, struct tm *tm);

/*
 * Determines the name of the machine's zone: tz if it is not NULL (the variable TZ), the target of
 * the link localtime in the directory etc ("/etc"), the text of the file timezone there, or UTC if
 * there is neither. name has BI_TIMEZONE_NAME_SIZE bytes. BIDE_EINVAL if they do not give a name.
 */
int bi_timezone_find_local(const char *tz, const char *etc, char *name, char *error);

#endif
