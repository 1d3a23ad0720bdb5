/* SPDX-License-Identifier: MIT */
/*
 * flag_value.c - the kinds of values that flags take.
 */
#include "cli/flag.h"
#include "util/clock.h"
#include "util/duration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool parse_number(const char *text, uint64_t max, uint64_t *number)
{
    char *end;
    if (text[0] == 0 || text[strspn(text, "0123456789")] != 0)
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || value > max)
        return false;
    *number = value;
    return true;
}

bool bi_flag_parse_bool(const char *text, void *to, char *error)
{
    (void)text;
    (void)error;
    *(bool *)to = true;
    return true;
}

bool bi_flag_parse_string(const char *text, void *to, char *error)
{
    (void)error;
    *(const char **)to = text;
    return true;
}

bool bi_flag_parse_list(const char *text, void *to, char *error)
{
    struct words *words = to;
    if (words->count == BI_WORDS_MAX)
        return bi_errmsg_set(error, "is one too many: there may be %d", BI_WORDS_MAX);
    words->list[words->count++] = text;
    return true;
}

bool bi_flag_parse_count(const char *text, void *to, char *error)
{
    return parse_number(text, UINT64_MAX, to) || bi_errmsg_set(error, "is no number");
}

bool bi_flag_parse_id(const char *text, void *to, char *error)
{
    uint64_t id;
    if (!parse_number(text, BIDE_ID_MAX, &id) || id == 0)
        return bi_errmsg_set(error, "is no number from 1 to 2^53-1");
    *(uint64_t *)to = id;
    return true;
}

bool bi_flag_parse_priority(const char *text, void *to, char *error)
{
    uint64_t number;
    if (!parse_number(text, UINT32_MAX, &number))
        return bi_errmsg_set(error, "is no priority: a number from 0, the first, to 4294967295");
    *(int64_t *)to = (int64_t)number;
    return true;
}

bool bi_flag_parse_retries(const char *text, void *to, char *error)
{
    uint64_t number;
    if (strcmp(text, "unlimited") == 0 || strcmp(text, "forever") == 0) {
        *(int64_t *)to = BIDE_NO_RETRY_LIMIT;
        return true;
    }
    if (!parse_number(text, INT32_MAX, &number))
        return bi_errmsg_set(error, "is neither a number of retries nor \"unlimited\"");
    *(int64_t *)to = (int64_t)number;
    return true;
}

bool bi_flag_parse_duration(const char *text, void *to, char *error)
{
    return bi_duration_parse(text, to, error);
}

bool bi_flag_parse_timeout(const char *text, void *to, char *error)
{
    if (strcmp(text, "forever") != 0)
        return bi_duration_parse(text, to, error);
    *(int64_t *)to = BIDE_FOREVER;
    return true;
}

bool bi_flag_parse_time(const char *text, void *to, char *error)
{
    return bi_datetime_parse(text, bi_clock_wall() / 1000, to, error);
}

bool bi_flag_parse_size(const char *text, void *to, char *error)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    char digits[24] = "";
    uint64_t number;
    size_t size = strspn(text, "0123456789");
    if (size < sizeof(digits))
        memcpy(digits, text, size);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text + size, units[i].unit) != 0)
            continue;
        if (!parse_number(digits, UINT64_MAX >> units[i].shift, &number))
            break;
        *(uint64_t *)to = number << units[i].shift;
        return true;
    }
    return bi_errmsg_set(error, "is no size: a number of bytes, or with KiB, MiB or GiB");
}

bool bi_flag_parse_state(const char *text, void *to, char *error)
{
    for (bide_state state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++) {
        if (strcmp(text, bide_state_name(state)) == 0) {
            *(bide_state *)to = state;
            return true;
        }
    }
    return bi_errmsg_set(error, "is no state: delayed, ready, reserved, buried or done");
}
