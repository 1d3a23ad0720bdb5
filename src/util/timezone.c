/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* secure_getenv */
#include "util/timezone.h"

#include "util/message.h"
#include "util/timezone_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DATABASE "/usr/share/zoneinfo"

/* ---- lookups ---- */

void bi_timezone_free(struct timezone_rules *zone)
{
    free(zone);
}

const char *bi_timezone_name(const struct timezone_rules *zone)
{
    return zone->name;
}

struct timezone_period bi_timezone_period(const struct timezone_rules *zone, int64_t at_s)
{
    /* The last change that is not behind at_s lies in [low, high). */
    size_t low = 0, high = zone->count;
    assert(zone->count > 0 && zone->changes[0].at_s == INT64_MIN);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (zone->changes[middle].at_s <= at_s)
            low = middle;
        else
            high = middle;
    }

    const struct timezone_change *change = &zone->changes[low];
    return (struct timezone_period){
        .begin_s = change->at_s,
        .end_s = high < zone->count ? zone->changes[high].at_s : INT64_MAX,
        .offset_s = change->offset_s,
        .is_dst = change->is_dst,
        .abbreviation = zone->abbreviations + change->abbreviation,
    };
}

bool bi_timezone_break_down(const struct timezone_rules *zone, int64_t at_s, struct tm *tm)
{
    struct timezone_period period = bi_timezone_period(zone, at_s);
    assert(period.begin_s <= at_s && (at_s < period.end_s || period.end_s == INT64_MAX));
    time_t local;
    if (__builtin_add_overflow(at_s, period.offset_s, &local) || gmtime_r(&local, tm) == NULL)
        return false;

    tm->tm_isdst = period.is_dst;
    tm->tm_gmtoff = period.offset_s;
    tm->tm_zone = period.abbreviation;
    return true;
}

/* ---- zones without a file ---- */

/* A zone with one offset. */
static int make_fixed(int offset_s, const char *name, struct timezone_rules **out, char *error)
{
    assert(offset_s > -BI_TIMEZONE_OFFSET_MAX && offset_s < BI_TIMEZONE_OFFSET_MAX);
    struct timezone_rules *zone = calloc(1, sizeof(*zone) + sizeof(zone->changes[0]));
    if (zone == NULL)
        return bi_errmsg_fail(error, BIDE_ENOMEM, "cannot open the time zone %s: out of memory",
                              name);

    snprintf(zone->name, sizeof(zone->name), "%s", name);
    snprintf(zone->abbreviations, sizeof(zone->abbreviations), "%s", name);
    zone->count = 1;
    zone->changes[0] = (struct timezone_change){.at_s = INT64_MIN, .offset_s = offset_s};
    *out = zone;
    return 0;
}

static bool is_digits(const char *text, size_t count)
{
    return strspn(text, "0123456789") >= count;
}

/* Parses +HH:MM, +HHMM or +HH, and writes the name of that zone. */
static bool parse_offset(const char *text, int *offset_s, char *name)
{
    size_t size = strlen(text), colon = size == 6 && text[3] == ':';
    if ((text[0] != '+' && text[0] != '-') || (size != 3 && size != 5 && !colon) ||
        !is_digits(text + 1, 2) || (size > 3 && !is_digits(text + 3 + colon, 2)))
        return false;

    int hours = (text[1] - '0') * 10 + (text[2] - '0'), minutes = 0;
    if (size > 3)
        minutes = (text[3 + colon] - '0') * 10 + (text[4 + colon] - '0');
    /* The limits are those of datetime.h. */
    if (minutes > 59 || hours * 60 + minutes > 14 * 60)
        return false;

    *offset_s = (text[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    snprintf(name, BI_TIMEZONE_NAME_SIZE, "%c%02d:%02d", text[0], hours, minutes);
    return true;
}

static bool is_utc(const char *name)
{
    return strcasecmp(name, "UTC") == 0 || strcmp(name, "Etc/UTC") == 0 || strcmp(name, "Z") == 0;
}

/* ---- the database ---- */

/* Such names stay in the directory and need no quotation marks anywhere. */
static bool is_valid_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_+-/.";
    size_t size = strlen(name);
    if (size == 0 || strspn(name, allowed) != size || name[size - 1] == '/')
        return false;

    /* No part may be empty or begin with a point. */
    for (size_t i = 0; i < size; i++)
        if ((i == 0 || name[i - 1] == '/') && (name[i] == '/' || name[i] == '.'))
            return false;
    return true;
}

static const char *database_path(void)
{
    const char *path = secure_getenv("TZDIR");
    return path != NULL && path[0] != 0 ? path : DATABASE;
}

static int no_such_zone(const char *name, char *error)
{
    struct stat status;
    const char *database = database_path();
    if (stat(database, &status) != 0 || !S_ISDIR(status.st_mode))
        return bi_errmsg_fail(
            error, BIDE_EIO,
            "cannot open the time zone %s: there is no time zone database in %s (install "
            "the package tzdata, or set TZDIR)",
            name, database);

    return bi_errmsg_fail(
        error, BIDE_EINVAL,
        "there is no time zone \"%s\": write a name as Europe/Berlin, with capital "
        "letters, or UTC, or an offset as +02:00",
        name);
}

/* Reads from an open file; the number of bytes, or -1 with errno. */
static ssize_t read_all(int fd, char *data, size_t room)
{
    size_t size = 0;
    while (size < room) {
        ssize_t count = read(fd, data + size, room - size);
        if (count == 0)
            break;
        if (count > 0)
            size += (size_t)count;
        else if (errno != EINTR)
            return -1;
    }
    return (ssize_t)size;
}

static int set_read_error(const char *name, const char *path, char *error)
{
    /* These say that there is no such file. A directory is part of a name, as in "Europe". */
    if (errno == ENOENT || errno == ENOTDIR || errno == EISDIR || errno == ENAMETOOLONG)
        return no_such_zone(name, error);

    return bi_errmsg_fail(error, BIDE_EIO, "cannot open the time zone %s: %s: %s", name, path,
                          strerror(errno));
}

/* Opens a file of the database, which must be a regular file: others may block. -1 with errno. */
static int open_regular(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;

    close(fd);
    errno = EISDIR;
    return -1;
}

static int open_file(const char *name, struct timezone_rules **out, char *error)
{
    char path[PATH_MAX], reason[BI_ERRMSG_SIZE];
    if (snprintf(path, sizeof(path), "%s/%s", database_path(), name) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return set_read_error(name, path, error);
    }

    int fd = open_regular(path);
    if (fd < 0)
        return set_read_error(name, path, error);

    /* One byte more than allowed, so that the decoder refuses a file that is too large. */
    char *data = malloc(BI_TIMEZONE_FILE_MAX + 1);
    ssize_t size = data == NULL ? -1 : read_all(fd, data, BI_TIMEZONE_FILE_MAX + 1);
    int code = data == NULL ? BIDE_ENOMEM : 0;
    if (data == NULL)
        bi_errmsg_set(error, "cannot open the time zone %s: out of memory", name);
    else if (size < 0)
        code = set_read_error(name, path, error);
    else if (size < 4 || memcmp(data, "TZif", 4) != 0)
        code = no_such_zone(name, error); /* the database has other files, too */
    close(fd);

    struct timezone_rules *zone;
    if (code == 0 && (code = bi_timezone_file_decode(data, (size_t)size, &zone, reason)) != 0) {
        bi_errmsg_set(error, "cannot open the time zone %s: the file %s %s", name, path, reason);
        code = code == BIDE_EINVAL ? BIDE_EIO : code;
    }
    free(data);
    if (code != 0)
        return code;

    snprintf(zone->name, sizeof(zone->name), "%s", name);
    *out = zone;
    return 0;
}

/* ---- the zone of the machine ---- */

static bool copy_name(char *to, const char *from, size_t size)
{
    if (size >= BI_TIMEZONE_NAME_SIZE)
        return false;
    memmove(to, from, size);
    to[size] = 0;
    return is_valid_name(to);
}

/* Takes what follows the directory of the database in a path, wherever that directory is. */
static bool name_of_path(const char *path, char *name)
{
    const char *found = strstr(path, "zoneinfo/");
    return found != NULL && copy_name(name, found + 9, strlen(found + 9));
}

/* False if TZ does not name a zone: it may also be a rule, as EST5EDT,M3.2.0,M11.1.0. */
static bool name_of_variable(const char *tz, char *name)
{
    if (tz[0] == ':')
        tz++;
    /* The C library takes an empty TZ for UTC; the other one is a rule. */
    if (tz[0] == 0 || strcmp(tz, "UTC0") == 0)
        tz = "UTC";
    if (tz[0] == '/')
        return name_of_path(tz, name);
    return copy_name(name, tz, strlen(tz));
}

/* The first line of the file `timezone`, which Debian keeps beside the link. */
static bool name_of_text(const char *path, char *name)
{
    char text[BI_TIMEZONE_NAME_SIZE + 1];
    int fd = open_regular(path);
    if (fd < 0)
        return false;
    ssize_t size = read_all(fd, text, sizeof(text) - 1);
    close(fd);
    if (size < 0)
        return false;
    text[size] = 0;
    return copy_name(name, text, strcspn(text, " \t\r\n"));
}

int bi_timezone_find_local(const char *tz, const char *etc, char *name, char *error)
{
    char path[PATH_MAX], target[PATH_MAX], found[BI_TIMEZONE_NAME_SIZE] = "UTC";

    /* Programs set it to avoid that the C library looks at the link again and again. */
    if (tz != NULL && strcmp(tz, ":/etc/localtime") != 0 && strcmp(tz, "/etc/localtime") != 0) {
        if (!name_of_variable(tz, found))
            return bi_errmsg_fail(
                error, BIDE_EINVAL,
                "the variable TZ, \"%.60s\", is not the name of a time zone: name one, as "
                "Europe/Berlin",
                tz);
        memcpy(name, found, sizeof(found));
        return 0;
    }

    /* The link is what the C library follows, so it comes before the text. */
    snprintf(path, sizeof(path), "%s/localtime", etc);
    ssize_t size = readlink(path, target, sizeof(target) - 1);
    bool exists = size >= 0 || errno != ENOENT;
    target[size < 0 ? 0 : size] = 0;
    if (exists && !name_of_path(target, found)) {
        snprintf(path, sizeof(path), "%s/timezone", etc);
        if (!name_of_text(path, found))
            return bi_errmsg_fail(
                error, BIDE_EINVAL,
                "cannot find out the name of this machine's time zone (%s/localtime "
                "is not a link into the database): name one, as Europe/Berlin",
                etc);
    }
    memcpy(name, found, sizeof(found));
    return 0;
}

/* ---- open ---- */

int bi_timezone_check_name(const char *name, size_t size, char *error)
{
    char text[BI_TIMEZONE_NAME_SIZE], offset_name[BI_TIMEZONE_NAME_SIZE];
    int offset_s;

    if (size == 0 || size >= sizeof(text) || memchr(name, 0, size) != NULL) {
        bi_errmsg_set(error, "the name of a time zone has 1 to %d bytes",
                      BI_TIMEZONE_NAME_SIZE - 1);
        return BIDE_EINVAL;
    }
    memcpy(text, name, size);
    text[size] = 0;
    if (text[0] != '+' && text[0] != '-') {
        if (is_valid_name(text))
            return 0;
        bi_errmsg_set(error, "a time zone cannot have this name: write one as Europe/Berlin, or "
                             "UTC, or an offset as +02:00");
        return BIDE_EINVAL;
    }
    if (parse_offset(text, &offset_s, offset_name))
        return 0;
    bi_errmsg_set(error, "\"%s\" is not an offset from UTC: write one from -14:00 to +14:00", text);
    return BIDE_EINVAL;
}

/* The name is valid. */
static int open_named(const char *name, struct timezone_rules **out, char *error)
{
    char offset_name[BI_TIMEZONE_NAME_SIZE];
    int offset_s;
    if (is_utc(name))
        return make_fixed(0, "UTC", out, error);
    if (parse_offset(name, &offset_s, offset_name))
        return make_fixed(offset_s, offset_name, out, error);
    return open_file(name, out, error);
}

static int open_local(struct timezone_rules **out, char *error)
{
    char name[BI_TIMEZONE_NAME_SIZE], reason[BI_ERRMSG_SIZE];
    int code = bi_timezone_find_local(getenv("TZ"), "/etc", name, error);
    if (code == 0 && (code = open_named(name, out, reason)) != 0)
        bi_errmsg_set(error, "the time zone of this machine: %s", reason);
    return code;
}

int bi_timezone_open(const char *name, size_t size, struct timezone_rules **out, char *error)
{
    char text[BI_TIMEZONE_NAME_SIZE];
    if (size == 0)
        return open_local(out, error);
    int code = bi_timezone_check_name(name, size, error);
    if (code != 0)
        return code;

    memcpy(text, name, size);
    text[size] = 0;
    /* The database has a link of this name to the zone of the machine, which is another one
     * elsewhere. */
    return strcmp(text, "localtime") == 0 ? open_local(out, error) : open_named(text, out, error);
}
