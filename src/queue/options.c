/* SPDX-License-Identifier: MIT */
/*
 * options - one table of what can be configured: name, unit, default, limits. The fields of
 * bide_options and the parameters of URLs are read through it.
 */
#include "queue/queue.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum unit { COUNT, BYTES, DURATION, ON_OFF, TICKER, SYNC };

/* How wide a field is. */
enum width { U32, U64, I64, SIZE, ENUM, INT };

struct option {
    const char *name; /* as in URLs; the field's name without its unit */
    size_t offset;
    enum width width;
    enum unit unit;
    uint64_t fallback; /* what 0 stands for */
    uint64_t max;
};

#define MB_1         (UINT64_C(1) << 20)
#define GB_1         (UINT64_C(1) << 30)
#define FIELD(field) offsetof(bide_options, field)

static const struct option options[] = {
    {"default_ttr", FIELD(default_ttr_ms), I64, DURATION, 60000, BIDE_TIME_MAX_MS},
    {"max_job_size", FIELD(max_job_size), SIZE, BYTES, 65535, GB_1},
    {"max_result_size", FIELD(max_result_size), SIZE, BYTES, 65536, GB_1},
    {"max_error_size", FIELD(max_error_size), SIZE, BYTES, 1024, MB_1},
    {"max_touches", FIELD(max_touches), U32, COUNT, 0, UINT32_MAX},
    {"max_touch_total", FIELD(max_touch_total_ms), I64, DURATION, 0, BIDE_TIME_MAX_MS},
    {"min_touch_interval", FIELD(min_touch_interval_ms), I64, DURATION, 0, BIDE_TIME_MAX_MS},
    {"max_topics", FIELD(max_topics), U32, COUNT, 1000000, UINT32_MAX},
    {"max_waiters", FIELD(max_waiters), U32, COUNT, 100000, UINT32_MAX},
    {"max_jobs_per_topic", FIELD(max_jobs_per_topic), U64, COUNT, 0, UINT32_MAX},
    {"max_done_per_topic", FIELD(max_done_per_topic), U64, COUNT, 10000, UINT32_MAX},
    {"max_memory", FIELD(max_memory), U64, BYTES, 0, UINT64_MAX},
    {"max_pending_ops", FIELD(max_pending_ops), U32, COUNT, 100000, UINT32_MAX},
    {"max_pending_bytes", FIELD(max_pending_bytes), U64, BYTES, 64 * MB_1, UINT64_MAX},
    {"topic_cleanup", FIELD(topic_cleanup), INT, ON_OFF, 0, 0},
    {"ticker", FIELD(ticker), ENUM, TICKER, BIDE_TICKER_DYNAMIC, BIDE_TICKER_WHEEL},
    {"ticker_min", FIELD(ticker_min_ms), I64, DURATION, 0, 3600000},
    {"ticker_max", FIELD(ticker_max_ms), I64, DURATION, 0, BIDE_TIME_MAX_MS},
    {"wheel_tick", FIELD(wheel_tick_ms), I64, DURATION, 10, 3600000},
    {"wheel_slots", FIELD(wheel_slots), U32, COUNT, 512, 1000000},
    {"sync", FIELD(sync), ENUM, SYNC, BIDE_SYNC_FULL, BIDE_SYNC_OFF},
    {"batch_jobs", FIELD(batch_jobs), U32, COUNT, 1000, 1000000},
    {"batch_bytes", FIELD(batch_bytes), U64, BYTES, 8 * MB_1, GB_1},
    {"cache_bytes", FIELD(cache_bytes), U64, BYTES, 64 * MB_1, UINT64_MAX},
    {"seed", FIELD(seed), U64, COUNT, 0, UINT64_MAX},
};

#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

_Static_assert(sizeof(bide_ticker) == sizeof(unsigned) && sizeof(bide_sync) == sizeof(unsigned),
               "fields of width ENUM are read as unsigned");

/* ---- fields, whatever their width ---- */

static uint64_t get(const bide_options *from, const struct option *option)
{
    const char *field = (const char *)from + option->offset;
    switch (option->width) {
    case U32:
        return *(const uint32_t *)(const void *)field;
    case SIZE:
        return *(const size_t *)(const void *)field;
    case ENUM: {
        unsigned value;
        memcpy(&value, field, sizeof(value));
        return value;
    }
    case INT:
        return (uint64_t) * (const int *)(const void *)field;
    default:
        return *(const uint64_t *)(const void *)field;
    }
}

static void set(bide_options *to, const struct option *option, uint64_t value)
{
    void *field = (char *)to + option->offset;
    switch (option->width) {
    case U32:
        *(uint32_t *)field = (uint32_t)value;
        break;
    case SIZE:
        *(size_t *)field = (size_t)value;
        break;
    case ENUM: {
        unsigned number = (unsigned)value;
        memcpy(field, &number, sizeof(number));
        break;
    }
    case INT:
        *(int *)field = (int)value;
        break;
    default:
        *(uint64_t *)field = value;
    }
}

/* ---- values in URLs ---- */

struct suffix {
    const char *name;
    enum unit unit;
    uint64_t factor;
};

static const struct suffix suffixes[] = {
    {"", COUNT, 1},
    {"", DURATION, 1},
    {"ms", DURATION, 1},
    {"s", DURATION, 1000},
    {"m", DURATION, 60000},
    {"h", DURATION, 3600000},
    {"d", DURATION, 86400000},
    {"", BYTES, 1},
    {"B", BYTES, 1},
    {"KiB", BYTES, 1024},
    {"MiB", BYTES, MB_1},
    {"GiB", BYTES, GB_1},
};

static const struct {
    const char *name;
    enum unit unit;
    uint64_t value;
} words[] = {
    {"dynamic", TICKER, BIDE_TICKER_DYNAMIC},
    {"wheel", TICKER, BIDE_TICKER_WHEEL},
    {"full", SYNC, BIDE_SYNC_FULL},
    {"normal", SYNC, BIDE_SYNC_NORMAL},
    {"off", SYNC, BIDE_SYNC_OFF},
    {"on", ON_OFF, 0},
    {"off", ON_OFF, (uint64_t)-1},
};

/* Digits, then a suffix that suits the unit. */
static bool parse_number(enum unit unit, const char *text, uint64_t *value)
{
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (at == text)
        return false;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (suffixes[i].unit != unit || strcmp(suffixes[i].name, at) != 0)
            continue;
        if (number > UINT64_MAX / suffixes[i].factor)
            return false;
        *value = number * suffixes[i].factor;
        return true;
    }
    return false;
}

static bool parse(enum unit unit, const char *text, uint64_t *value)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].unit == unit && strcmp(words[i].name, text) == 0) {
            *value = words[i].value;
            return true;
        }
    }
    return parse_number(unit, text, value);
}

static int out_of_range(const struct option *option, uint64_t value)
{
    return bi_error_set(BIDE_EINVAL, "open: %s is %lld; 0 to %llu is allowed", option->name,
                        (long long)value, (unsigned long long)option->max);
}

/* A name that is none; the unit at the end of a field's name is the likely mistake. */
static int unknown(const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        size_t size = strlen(options[i].name);
        if (strncmp(options[i].name, name, size) == 0 && strcmp(name + size, "_ms") == 0)
            return bi_error_set(BIDE_EINVAL, "open: \"%s\" is called %s in a URL", name,
                                options[i].name);
    }
    return bi_error_set(BIDE_EINVAL, "open: there is no option \"%.40s\" in URLs; see bide_options",
                        name);
}

static int apply_param(bide_options *resolved, const struct bi_url_param *param)
{
    static const char *const kinds[] = {
        [COUNT] = "a number",
        [BYTES] = "a size such as 64KiB",
        [DURATION] = "a duration such as 90s or 250ms",
        [ON_OFF] = "on or off",
        [TICKER] = "dynamic or wheel",
        [SYNC] = "full, normal or off",
    };
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        if (strcmp(option->name, param->name) != 0)
            continue;
        uint64_t value;
        if (!parse(option->unit, param->value, &value))
            return bi_error_set(BIDE_EINVAL, "open: %s is \"%.40s\"; it takes %s", option->name,
                                param->value, kinds[option->unit]);
        if (option->unit != ON_OFF && value > option->max)
            return out_of_range(option, value);
        set(resolved, option, value);
        return BIDE_OK;
    }
    return unknown(param->name);
}

/* ---- all together ---- */

static int check_and_default(bide_options *resolved, const struct option *option)
{
    uint64_t value = get(resolved, option);
    if (option->unit == ON_OFF) {
        if (value != 0 && value != (uint64_t)-1)
            return bi_error_set(BIDE_EINVAL, "open: %s is neither 0 (on) nor -1 (off)",
                                option->name);
        return BIDE_OK;
    }
    if (value > option->max)
        return out_of_range(option, value);
    if (value == 0)
        set(resolved, option, option->fallback);
    return BIDE_OK;
}

static uint64_t random_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed) || seed == 0)
        seed = (uint64_t)(uintptr_t)&seed ^ UINT64_C(0x9e3779b97f4a7c15);
    return seed;
}

int bi_options_resolve(const bide_options *given, const struct bi_url *url, bide_options *resolved)
{
    static const bide_options init = BIDE_OPTIONS_INIT;
    if (given != NULL && given->size != sizeof(bide_options))
        return bi_error_set(BIDE_EINVAL, "open: the options were not begun with BIDE_OPTIONS_INIT");
    *resolved = given == NULL ? init : *given;
    for (size_t i = 0; i < url->param_count; i++) {
        int code = apply_param(resolved, &url->params[i]);
        if (code != BIDE_OK)
            return code;
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        int code = check_and_default(resolved, &options[i]);
        if (code != BIDE_OK)
            return code;
    }
    if (resolved->seed == 0)
        resolved->seed = random_seed();
    return BIDE_OK;
}
