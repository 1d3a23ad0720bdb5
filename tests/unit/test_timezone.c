/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strptime */
#include "util/timezone.h"

#include "scratch.h"
#include "unit.h"

#include "util/datetime.h"
#include "util/timezone_file.h"

#include <bide/job.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAY_S INT64_C(86400)

static char error[BI_ERRMSG_SIZE];

static struct timezone_rules *opened(const char *name)
{
    struct timezone_rules *zone = NULL;
    if (bi_timezone_open(name, strlen(name), &zone, error) != 0)
        fail_msg("%s: %s", name, error);
    return zone;
}

/* Refused with this code and with these words. */
static void refuses(const char *name, int code, const char *words)
{
    struct timezone_rules *zone = (void *)error;
    int got = bi_timezone_open(name, strlen(name), &zone, error);
    if (got != code || strstr(error, words) == NULL)
        fail_msg("\"%s\": %d: %s", name, got, got == 0 ? "opened" : error);
    assert_true(zone == (void *)error);
}

static int64_t utc(const char *text)
{
    struct tm tm = {.tm_isdst = 0};
    const char *end = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
    assert_true(end != NULL && *end == 0);
    return timegm(&tm);
}

/* The local time at a time in UTC, with offset and abbreviation. */
static void shows(const struct timezone_rules *zone, const char *at, const char *expected)
{
    struct tm tm;
    char text[64];
    assert_true(bi_timezone_break_down(zone, utc(at), &tm));
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z %Z", &tm);
    assert_string_equal(text, expected);
}

/* ---- names ---- */

static void a_zone_has_the_local_time_of_its_place(void **state)
{
    (void)state;
    struct timezone_rules *zone = opened("Europe/Berlin");
    assert_string_equal(bi_timezone_name(zone), "Europe/Berlin");
    shows(zone, "2026-03-29 00:59:59", "2026-03-29 01:59:59 +0100 CET");
    shows(zone, "2026-03-29 01:00:00", "2026-03-29 03:00:00 +0200 CEST");
    shows(zone, "1970-01-01 00:00:00", "1970-01-01 01:00:00 +0100 CET");
    shows(zone, "2150-07-01 00:00:00", "2150-07-01 02:00:00 +0200 CEST");
    bi_timezone_free(zone);

    zone = opened("Asia/Kathmandu");
    shows(zone, "2026-01-01 00:00:00", "2026-01-01 05:45:00 +0545 +0545");
    bi_timezone_free(zone);
    bi_timezone_free(NULL);
}

static void utc_and_offsets_need_no_database(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"UTC", "UTC"},       {"utc", "UTC"},       {"Etc/UTC", "UTC"}, {"Z", "UTC"},
        {"+02:00", "+02:00"}, {"-0330", "-03:30"},  {"+05", "+05:00"},  {"+14:00", "+14:00"},
        {"-14", "-14:00"},    {"+00:00", "+00:00"},
    };
    setenv("TZDIR", "/does/not/exist", 1);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct timezone_rules *zone = opened(names[i][0]);
        assert_string_equal(bi_timezone_name(zone), names[i][1]);
        bi_timezone_free(zone);
    }
    struct timezone_rules *zone = opened("-0330");
    shows(zone, "2026-01-01 00:00:00", "2025-12-31 20:30:00 -0330 -03:30");
    bi_timezone_free(zone);
    unsetenv("TZDIR");
}

static void names_of_no_zone_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Berlin", "Europe/Nowhere", "Europe", "europe/berlin", "UTC/x", "UTC+2", "CEST", "02",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        refuses(names[i], BIDE_EINVAL, "there is no time zone \"");
    refuses("zone.tab", BIDE_EINVAL, "there is no time zone \"zone.tab\"");

    static const char *const offsets[] = {"+15:00", "-14:01", "+2",      "+02:0", "+02:60",
                                          "+020",   "+2:000", "+02:00x", "+-2",   "+02:00:00"};
    for (size_t i = 0; i < COUNT_OF(offsets); i++)
        refuses(offsets[i], BIDE_EINVAL,
                "\" is not an offset from UTC: write one from -14:00 to +14:00");
    refuses("+2", BIDE_EINVAL, "\"+2\" is not an offset");
}

static void names_cannot_leave_the_database(void **state)
{
    (void)state;
    static const char *const names[] = {
        "/etc/passwd",
        "../../../etc/passwd",
        "Europe/../UTC",
        "Europe/./Berlin",
        "./UTC",
        "Europe//Berlin",
        "Europe/",
        "/",
        ".",
        "..",
        "...",
        "a/..",
        ".hidden",
        "Europe Berlin",
        " ",
        "Europe\\Berlin",
        "Europe/Berlin\n",
        "Europe/B\xc3\xa9rlin",
        ":Europe/Berlin",
        "$TZ",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        refuses(names[i], BIDE_EINVAL, "a time zone cannot have this name");

    char longest[BI_TIMEZONE_NAME_SIZE + 1];
    memset(longest, 'a', sizeof(longest));
    longest[BI_TIMEZONE_NAME_SIZE - 1] = 0;
    refuses(longest, BIDE_EINVAL, "there is no time zone");
    longest[BI_TIMEZONE_NAME_SIZE - 1] = 'a';
    longest[BI_TIMEZONE_NAME_SIZE] = 0;
    refuses(longest, BIDE_EINVAL, "has 1 to 63 bytes");

    struct timezone_rules *zone = NULL;
    assert_int_equal(bi_timezone_open("UTC\0x", 5, &zone, error), BIDE_EINVAL);
    assert_null(zone);
}

static void a_missing_database_is_named(void **state)
{
    (void)state;
    setenv("TZDIR", "/does/not/exist", 1);
    refuses("Europe/Berlin", BIDE_EIO,
            "there is no time zone database in /does/not/exist (install the package tzdata");
    unsetenv("TZDIR");
}

static void zones_that_count_leap_seconds_are_refused(void **state)
{
    (void)state;
    struct stat status;
    if (stat("/usr/share/zoneinfo/right/Europe/Berlin", &status) != 0)
        skip();
    refuses("right/Europe/Berlin", BIDE_EIO, "counts leap seconds");
}

/* ---- the zone of the machine ---- */

static void finds(const char *tz, const char *etc, const char *expected)
{
    char name[BI_TIMEZONE_NAME_SIZE] = "";
    if (bi_timezone_find_local(tz, etc, name, error) != 0)
        fail_msg("%s", error);
    assert_string_equal(name, expected);
}

static void finds_none(const char *tz, const char *etc, const char *words)
{
    char name[BI_TIMEZONE_NAME_SIZE] = "as before";
    assert_int_equal(bi_timezone_find_local(tz, etc, name, error), BIDE_EINVAL);
    if (strstr(error, words) == NULL)
        fail_msg("%s", error);
    assert_string_equal(name, "as before");
}

static void the_variable_names_the_zone_of_the_machine(void **state)
{
    (void)state;
    finds("Europe/Berlin", "/does/not/exist", "Europe/Berlin");
    finds(":Asia/Tokyo", "/does/not/exist", "Asia/Tokyo");
    finds("/usr/share/zoneinfo/Asia/Tokyo", "/does/not/exist", "Asia/Tokyo");
    finds("", "/does/not/exist", "UTC");
    finds_none("EST5EDT,M3.2.0,M11.1.0", "/etc", "TZ, \"EST5EDT,M3.2.0,M11.1.0\", is not the name");
    finds_none("/home/me/zone", "/etc", "is not the name of a time zone");
    finds_none("../zone", "/etc", "is not the name of a time zone");
}

static void write_file(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(scratch_path(name), "wb");
    assert_non_null(file);
    assert_true(fwrite(data, 1, size, file) == size);
    assert_int_equal(fclose(file), 0);
}

static void the_link_and_the_text_in_etc_name_the_zone(void **state)
{
    (void)state;
    finds(NULL, scratch, "UTC");
    assert_int_equal(symlink("../usr/share/zoneinfo/America/Lima", scratch_path("localtime")), 0);
    write_file("timezone", "Asia/Tokyo\n", 11);
    finds(NULL, scratch, "America/Lima");
    finds(":/etc/localtime", scratch, "America/Lima");

    /* A copy of a file has no name. */
    assert_int_equal(unlink(scratch_path("localtime")), 0);
    write_file("localtime", "TZif", 4);
    finds(NULL, scratch, "Asia/Tokyo");
    write_file("timezone", "../x\n", 5);
    finds_none(NULL, scratch, "cannot find out the name of this machine's time zone");
    assert_int_equal(unlink(scratch_path("timezone")), 0);
    finds_none(NULL, scratch, "localtime is not a link into the database");
}

static void an_empty_name_is_the_zone_of_the_machine(void **state)
{
    (void)state;
    struct timezone_rules *zone = NULL;
    setenv("TZ", "Asia/Tokyo", 1);
    assert_int_equal(bi_timezone_open(NULL, 0, &zone, error), 0);
    assert_string_equal(bi_timezone_name(zone), "Asia/Tokyo");
    bi_timezone_free(zone);
    zone = opened("localtime");
    assert_string_equal(bi_timezone_name(zone), "Asia/Tokyo");
    bi_timezone_free(zone);

    setenv("TZ", "CET-1CEST", 1);
    assert_int_equal(bi_timezone_open(NULL, 0, &zone, error), BIDE_EINVAL);
    assert_non_null(strstr(error, "the time zone of this machine: there is no time zone"));
    unsetenv("TZ");
}

/* ---- files ---- */

struct file {
    uint8_t data[600];
    size_t size;
};

static void put32(struct file *file, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        file->data[file->size++] = (uint8_t)(number >> shift);
}

static void put64(struct file *file, int64_t number)
{
    put32(file, (uint32_t)((uint64_t)number >> 32));
    put32(file, (uint32_t)number);
}

static void put_header(struct file *file, char version, uint32_t times)
{
    memcpy(file->data + file->size, "TZif", 4);
    file->data[file->size + 4] = (uint8_t)version;
    memset(file->data + file->size + 5, 0, 15);
    file->size += 20;
    put32(file, 0);
    put32(file, 0);
    put32(file, 0);
    put32(file, times);
    put32(file, 2);
    put32(file, 8);
}

/* Type 0 is AAA, an hour before UTC, and type 1 is BBB, two hours after it. */
static void put_types(struct file *file)
{
    put32(file, (uint32_t)-3600);
    file->data[file->size++] = 0;
    file->data[file->size++] = 0;
    put32(file, 7200);
    file->data[file->size++] = 1;
    file->data[file->size++] = 4;
    memcpy(file->data + file->size, "AAA\0BBB", 8);
    file->size += 8;
}

/* A file of version 3 with one change to type 1, or none if at_s is 0. */
static struct file file_of(int64_t at_s, const char *rule)
{
    struct file file = {.size = 0};
    put_header(&file, '3', 0);
    put_types(&file);
    put_header(&file, '3', at_s != 0);
    if (at_s != 0) {
        put64(&file, at_s);
        file.data[file.size++] = 1;
    }
    put_types(&file);
    file.size += (size_t)sprintf((char *)file.data + file.size, "\n%s\n", rule);
    return file;
}

static struct timezone_rules *decoded(const struct file *file)
{
    struct timezone_rules *zone = NULL;
    if (bi_timezone_file_decode(file->data, file->size, &zone, error) != 0)
        fail_msg("%s", error);
    return zone;
}

static void damaged(const struct file *file, const char *words)
{
    struct timezone_rules *zone = (void *)error;
    assert_int_equal(bi_timezone_file_decode(file->data, file->size, &zone, error), BIDE_EINVAL);
    if (strstr(error, words) == NULL)
        fail_msg("%s", error);
    assert_true(zone == (void *)error);
}

static void a_file_of_version_1_has_32_bit_times(void **state)
{
    (void)state;
    struct file file = {.size = 0};
    put_header(&file, 0, 1);
    put32(&file, (uint32_t)-86400);
    file.data[file.size++] = 1;
    put_types(&file);
    struct timezone_rules *zone = decoded(&file);
    shows(zone, "1969-12-30 23:59:59", "1969-12-30 22:59:59 -0100 AAA");
    shows(zone, "1969-12-31 00:00:00", "1969-12-31 02:00:00 +0200 BBB");
    shows(zone, "2190-01-01 00:00:00", "2190-01-01 02:00:00 +0200 BBB");
    bi_timezone_free(zone);
}

static void the_last_change_applies_without_a_rule(void **state)
{
    (void)state;
    struct file file = file_of(utc("2020-01-01 00:00:00"), "");
    struct timezone_rules *zone = decoded(&file);
    shows(zone, "2019-12-31 23:59:59", "2019-12-31 22:59:59 -0100 AAA");
    shows(zone, "2199-01-01 00:00:00", "2199-01-01 02:00:00 +0200 BBB");
    bi_timezone_free(zone);
}

static void a_rule_applies_behind_the_last_change(void **state)
{
    (void)state;
    struct file file = file_of(utc("2020-05-01 00:00:00"), "AAA1BBB-2,M3.5.0,M10.5.0/3");
    struct timezone_rules *zone = decoded(&file);
    shows(zone, "2019-07-01 00:00:00", "2019-06-30 23:00:00 -0100 AAA");
    shows(zone, "2020-10-25 00:59:59", "2020-10-25 02:59:59 +0200 BBB");
    shows(zone, "2020-10-25 01:00:00", "2020-10-25 00:00:00 -0100 AAA");
    shows(zone, "2021-03-28 02:59:59", "2021-03-28 01:59:59 -0100 AAA");
    shows(zone, "2021-03-28 03:00:00", "2021-03-28 05:00:00 +0200 BBB");
    bi_timezone_free(zone);
}

static void dates_of_a_rule_have_three_forms(void **state)
{
    (void)state;
    /* J60 is always March 1; 60 is March 1 or, in leap years, February 29. */
    struct file file = file_of(0, "AAA0BBB,J60/0,300/0");
    struct timezone_rules *zone = decoded(&file);
    shows(zone, "2024-02-29 23:59:59", "2024-02-29 23:59:59 +0000 AAA");
    shows(zone, "1970-07-01 00:00:00", "1970-07-01 01:00:00 +0100 BBB");
    shows(zone, "2024-03-01 00:00:00", "2024-03-01 01:00:00 +0100 BBB");
    shows(zone, "2023-03-01 00:00:00", "2023-03-01 01:00:00 +0100 BBB");
    shows(zone, "2024-10-26 23:00:00", "2024-10-26 23:00:00 +0000 AAA");
    shows(zone, "2023-10-27 23:00:00", "2023-10-27 23:00:00 +0000 AAA");
    bi_timezone_free(zone);

    file = file_of(0, "AAA0BBB,60/0,M12.5.6/-25:30:15");
    zone = decoded(&file);
    shows(zone, "2024-03-01 00:00:00", "2024-03-01 01:00:00 +0100 BBB");
    shows(zone, "2023-03-02 00:00:00", "2023-03-02 01:00:00 +0100 BBB");
    shows(zone, "2023-03-01 23:59:59", "2023-03-01 23:59:59 +0000 AAA");
    /* 25:30:15 before Saturday, December 28. */
    shows(zone, "2024-12-26 21:29:44", "2024-12-26 22:29:44 +0100 BBB");
    shows(zone, "2024-12-26 21:29:45", "2024-12-26 21:29:45 +0000 AAA");
    bi_timezone_free(zone);
}

static void the_year_begins_with_dst_in_the_south(void **state)
{
    (void)state;
    struct file file = file_of(0, "<-03>3<-02>,M10.1.0/0,M2.3.0/0");
    struct timezone_rules *zone = decoded(&file);
    shows(zone, "2026-01-01 00:00:00", "2025-12-31 22:00:00 -0200 -02");
    shows(zone, "2026-07-01 00:00:00", "2026-06-30 21:00:00 -0300 -03");
    shows(zone, "2026-12-31 00:00:00", "2026-12-30 22:00:00 -0200 -02");
    bi_timezone_free(zone);
}

static void dst_may_last_all_year(void **state)
{
    (void)state;
    struct file file = file_of(0, "XXX3EDT4,0/0,J365/23");
    struct timezone_rules *zone = decoded(&file);
    for (int64_t at_s = utc("2020-01-01 00:00:00"); at_s < utc("2025-01-01 00:00:00"); at_s += 3600)
        assert_true(bi_timezone_period(zone, at_s).offset_s == -4 * 3600);
    bi_timezone_free(zone);
}

static void an_invalid_rule_is_damage(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "A1",
        "AAA",
        "AAA25",
        "AAA1BBB",
        "AAA1BBB,M3.5.0",
        "AAA1BB",
        "<AAA1",
        "AAA1BBB,M0.5.0,M10.5.0",
        "AAA1BBB,M13.5.0,M10.5.0",
        "AAA1BBB,M3.0.0,M10.5.0",
        "AAA1BBB,M3.6.0,M10.5.0",
        "AAA1BBB,M3.5.7,M10.5.0",
        "AAA1BBB,J0,J365",
        "AAA1BBB,J366,J365",
        "AAA1BBB,366,1",
        "AAA1BBB,1/168,2",
        "AAA1BBB,1,2x",
        "AAA1BBB,1,2,3",
        "AAA1BBB,1/2:60,2",
        "AAA1:",
        "AAA99999999999",
        " AAA1",
        "AAA1BBB;1;2",
        "AAA1 ",
    };
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct file file = file_of(0, rules[i]);
        damaged(&file, "its rule for later times is not valid");
    }

    struct file file = file_of(0, "AAA1");
    file.data[file.size - 1] = '1';
    damaged(&file, "does not end with a rule");
    file = file_of(0, "");
    file.size--;
    damaged(&file, "does not end with a rule");
}

/* Where the second block of file_of() begins. */
#define SECOND (44 + 2 * 6 + 8)

static void numbers_of_a_file_are_checked(void **state)
{
    (void)state;
    struct {
        size_t at;
        uint8_t value;
        const char *words;
    } changes[] = {
        {0, 'X', "is not in the format TZif"},
        {SECOND, 'X', "is not in the format TZif"},
        {32, 0x7f, "its header is not valid"}, /* changes */
        {32 + 3, 0x7f, "is truncated"},
        {SECOND + 36 + 2, 0xff, "its header is not valid"}, /* types */
        {SECOND + 36 + 3, 0, "its header is not valid"},
        {SECOND + 40 + 3, 0, "its header is not valid"}, /* bytes of abbreviations */
        {SECOND + 20 + 3, 3, "its header is not valid"}, /* indicators */
        {SECOND + 28 + 3, 1, "counts leap seconds"},
        {SECOND + 44 + 0, 0x7f, "its change 1 is not valid"}, /* the time */
        {SECOND + 44 + 8, 2, "its change 1 is not valid"},    /* its type */
        {SECOND + 44 + 9, 0x7f, "its first offset is not valid"},
        {SECOND + 44 + 9 + 4, 2, "its first offset is not valid"},    /* is DST */
        {SECOND + 44 + 9 + 5, 8, "its first offset is not valid"},    /* abbreviation */
        {SECOND + 44 + 9 + 6 + 1, 0xff, "its change 1 is not valid"}, /* offset */
        {SECOND + 44 + 9 + 12 + 7, 'x', "its change 1 is not valid"}, /* the last NUL */
    };
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct file file = file_of(1000000000, "");
        file.data[changes[i].at] = changes[i].value;
        /* The block is longer, too. */
        if (changes[i].at == SECOND + 28 + 3)
            file.size += 12;
        damaged(&file, changes[i].words);
    }
}

static void times_of_a_file_must_rise(void **state)
{
    (void)state;
    struct file file = {.size = 0};
    put_header(&file, 0, 2);
    put32(&file, 1000);
    put32(&file, 1000);
    file.data[file.size++] = 1;
    file.data[file.size++] = 0;
    put_types(&file);
    damaged(&file, "its change 2 is not valid");
}

static void every_truncation_is_detected(void **state)
{
    (void)state;
    struct file whole = file_of(1000000000, "AAA1BBB,M3.5.0,M10.5.0");
    for (size_t size = 0; size < whole.size; size++) {
        /* A copy of that size, so that a sanitizer sees what is read behind it. */
        uint8_t *data = malloc(size + 1);
        struct timezone_rules *zone = NULL;
        assert_non_null(data);
        memcpy(data, whole.data, size);
        data = realloc(data, size > 0 ? size : 1);
        assert_int_equal(bi_timezone_file_decode(data, size, &zone, error), BIDE_EINVAL);
        assert_null(zone);
        free(data);
    }

    static uint8_t large[BI_TIMEZONE_FILE_MAX + 1];
    struct timezone_rules *zone = NULL;
    assert_int_equal(bi_timezone_file_decode(large, sizeof(large), &zone, error), BIDE_EINVAL);
    assert_non_null(strstr(error, "is too large"));
}

static void only_regular_files_are_read(void **state)
{
    (void)state;
    setenv("TZDIR", scratch, 1);

    /* A pipe would block, and a directory cannot be read. */
    assert_int_equal(mkfifo(scratch_path("Pipe"), 0600), 0);
    refuses("Pipe", BIDE_EINVAL, "there is no time zone");

    struct file file = file_of(0, "AAA1BBB,M3.5.0,M10.5.0");
    write_file("Own", file.data, file.size);
    struct timezone_rules *zone = opened("Own");
    assert_string_equal(bi_timezone_name(zone), "Own");
    bi_timezone_free(zone);
    write_file("Own", file.data, file.size - 1);
    refuses("Own", BIDE_EIO, "/Own is damaged: it does not end with a rule");
    write_file("Own", "TZif", 4);
    refuses("Own", BIDE_EIO, "/Own is not in the format TZif");
    write_file("Own", "", 0);
    refuses("Own", BIDE_EINVAL, "there is no time zone");
    unsetenv("TZDIR");
}

/* ---- memory ---- */

/* The call that fails, 1 being the next one; 0: none. */
static int countdown;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
    return countdown > 0 && --countdown == 0 ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return countdown > 0 && --countdown == 0 ? NULL : __real_calloc(count, size);
}

static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    static const char *const names[] = {"Europe/Berlin", "UTC", "+02:00"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        int fail = 1;
        for (;; fail++) {
            struct timezone_rules *zone = NULL;
            countdown = fail;
            int code = bi_timezone_open(names[i], strlen(names[i]), &zone, error);
            bool failed = countdown == 0;
            countdown = 0;
            bi_timezone_free(zone);
            if (!failed)
                break;
            assert_int_equal(code, BIDE_ENOMEM);
            assert_null(zone);
            assert_non_null(strstr(error, "out of memory"));
        }
        assert_true(fail > 1);
    }
}

/* ---- periods ---- */

static void periods_follow_each_other_without_gaps(void **state)
{
    (void)state;
    struct timezone_rules *zone = opened("Africa/Casablanca");
    struct timezone_period period = bi_timezone_period(zone, INT64_MIN), next;
    size_t count = 1;
    assert_true(period.begin_s == INT64_MIN);
    for (; period.end_s != INT64_MAX; period = next, count++) {
        next = bi_timezone_period(zone, period.end_s);
        assert_true(next.begin_s == period.end_s && next.end_s > next.begin_s);
        assert_true(bi_timezone_period(zone, period.end_s - 1).begin_s == period.begin_s);
    }
    assert_true(bi_timezone_period(zone, INT64_MAX).begin_s == period.begin_s);
    assert_true(count > 100);
    bi_timezone_free(zone);
}

static void years_beyond_the_calendar_are_refused(void **state)
{
    (void)state;
    struct timezone_rules *east = opened("+02:00"), *west = opened("-02:00");
    struct tm tm;
    assert_false(bi_timezone_break_down(east, INT64_MAX, &tm));
    assert_false(bi_timezone_break_down(west, INT64_MIN, &tm));
    assert_false(bi_timezone_break_down(east, INT64_MAX / 2, &tm));
    bi_timezone_free(east);
    bi_timezone_free(west);
}

/* ---- every zone of the database ---- */

static void same_as_the_c_library(const struct timezone_rules *zone, int64_t at_s)
{
    time_t at = at_s;
    struct tm tm, other, normalized;
    assert_non_null(localtime_r(&at, &other));
    assert_true(bi_timezone_break_down(zone, at_s, &tm));
    normalized = tm; /* timegm() writes to it */
    if (timegm(&normalized) - tm.tm_gmtoff != at_s || tm.tm_gmtoff != other.tm_gmtoff ||
        tm.tm_isdst != other.tm_isdst || tm.tm_hour != other.tm_hour ||
        tm.tm_wday != other.tm_wday || strcmp(tm.tm_zone, other.tm_zone) != 0)
        fail_msg("%s at %lld: %ld %s, in the C library %ld %s", bi_timezone_name(zone),
                 (long long)at_s, tm.tm_gmtoff, tm.tm_zone, other.tm_gmtoff, other.tm_zone);
}

static void compare_zone(const char *name)
{
    struct timezone_rules *zone = opened(name);
    int64_t last_s = BIDE_TIMESTAMP_MAX_MS / 1000;
    setenv("TZ", name, 1);
    tzset();

    for (int64_t at_s = 0; at_s < last_s; at_s += 40 * DAY_S + 7)
        same_as_the_c_library(zone, at_s);
    for (int64_t at_s = bi_timezone_period(zone, 0).end_s; at_s < last_s;
         at_s = bi_timezone_period(zone, at_s).end_s) {
        same_as_the_c_library(zone, at_s - 1);
        same_as_the_c_library(zone, at_s);
    }
    bi_timezone_free(zone);
}

/* Compares all zones in a folder of the database; returns how many they are. */
static size_t compare_folder(const char *prefix)
{
    char path[300];
    struct dirent *entry;
    size_t count = 0;
    snprintf(path, sizeof(path), "/usr/share/zoneinfo/%s", prefix);
    DIR *folder = opendir(path);
    assert_non_null(folder);

    while ((entry = readdir(folder)) != NULL) {
        char name[280], magic[4] = "";
        struct stat status;
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "right") == 0 ||
            strcmp(entry->d_name, "posix") == 0 || strcmp(entry->d_name, "localtime") == 0)
            continue;
        snprintf(name, sizeof(name), "%s%s", prefix, entry->d_name);
        snprintf(path, sizeof(path), "/usr/share/zoneinfo/%.200s", name);
        assert_int_equal(stat(path, &status), 0);
        if (S_ISDIR(status.st_mode)) {
            snprintf(name, sizeof(name), "%s%.200s/", prefix, entry->d_name);
            count += compare_folder(name);
            continue;
        }

        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        bool is_zone = fread(magic, 1, 4, file) == 4 && memcmp(magic, "TZif", 4) == 0;
        fclose(file);
        if (is_zone) {
            compare_zone(name);
            count++;
        }
    }
    closedir(folder);
    return count;
}

static void every_zone_agrees_with_the_c_library(void **state)
{
    (void)state;
    assert_true(compare_folder("") > 300);
    unsetenv("TZ");
    tzset();
}

/* ---- the calendar ---- */

static void datetimes_may_be_in_any_zone(void **state)
{
    (void)state;
    struct timezone_rules *tokyo = opened("Asia/Tokyo"), *berlin = opened("Europe/Berlin");
    struct zone zone = {.rules = berlin};
    char text[BI_DATETIME_SIZE];
    int64_t at_ms, now_ms = utc("2026-03-28 12:00:00") * 1000;

    assert_true(bi_datetime_parse("tomorrow 9:00", &zone, now_ms, &at_ms, error));
    assert_true(at_ms == utc("2026-03-29 07:00:00") * 1000);
    assert_false(bi_datetime_parse("2026-03-29 2:30", &zone, now_ms, &at_ms, error));
    bi_datetime_format(text, &zone, at_ms);
    assert_string_equal(text, "2026-03-29 09:00:00 CEST");
    zone.rules = tokyo;
    bi_datetime_format(text, &zone, at_ms);
    assert_string_equal(text, "2026-03-29 16:00:00 JST");
    bi_timezone_free(tokyo);
    bi_timezone_free(berlin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zone_has_the_local_time_of_its_place),
        cmocka_unit_test(utc_and_offsets_need_no_database),
        cmocka_unit_test(names_of_no_zone_are_refused),
        cmocka_unit_test(names_cannot_leave_the_database),
        cmocka_unit_test(a_missing_database_is_named),
        cmocka_unit_test(zones_that_count_leap_seconds_are_refused),
        cmocka_unit_test(the_variable_names_the_zone_of_the_machine),
        cmocka_unit_test_setup_teardown(the_link_and_the_text_in_etc_name_the_zone, scratch_make,
                                        scratch_remove),
        cmocka_unit_test(an_empty_name_is_the_zone_of_the_machine),
        cmocka_unit_test(a_file_of_version_1_has_32_bit_times),
        cmocka_unit_test(the_last_change_applies_without_a_rule),
        cmocka_unit_test(a_rule_applies_behind_the_last_change),
        cmocka_unit_test(dates_of_a_rule_have_three_forms),
        cmocka_unit_test(the_year_begins_with_dst_in_the_south),
        cmocka_unit_test(dst_may_last_all_year),
        cmocka_unit_test(an_invalid_rule_is_damage),
        cmocka_unit_test(numbers_of_a_file_are_checked),
        cmocka_unit_test(times_of_a_file_must_rise),
        cmocka_unit_test(every_truncation_is_detected),
        cmocka_unit_test_setup_teardown(only_regular_files_are_read, scratch_make, scratch_remove),
        cmocka_unit_test(out_of_memory_is_an_error),
        cmocka_unit_test(periods_follow_each_other_without_gaps),
        cmocka_unit_test(years_beyond_the_calendar_are_refused),
        cmocka_unit_test(every_zone_agrees_with_the_c_library),
        cmocka_unit_test(datetimes_may_be_in_any_zone),
    };
    unsetenv("TZDIR");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
