/* SPDX-License-Identifier: MIT */
/*
 * options - one table of what can be configured: name, unit, default, limits. The fields of
 * bide_options, the parameters of URLs and the settings of the server are read through it.
 */
#include "queue/queue.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* How wide a field is. */
enum width { U32, U64, I64, SIZE, ENUM, INT };

/* What becomes of an option when a server keeps the queue (backend_ops.served). */
enum served {
    SERVERS, /* the server's to keep: asking for it here is refused */
    OURS,    /* means the same as always */
    BOUND,   /* checked here if it was asked for; else the server says what is too much */
};

struct option {
    const char *name; /* as in URLs; the field's name without its unit */
    size_t offset;
    enum width width;
    enum bi_unit unit;
    uint64_t fallback; /* what 0 stands for */
    uint64_t max;
    enum served served;
};

#define MB_1         (UINT64_C(1) << 20)
#define GB_1         (UINT64_C(1) << 30)
#define FIELD(field) offsetof(bide_options, field)

static const struct option options[] = {
    {"default_ttr", FIELD(default_ttr_ms), I64, BI_DURATION, 60000, BIDE_TIME_MAX_MS, OURS},
    {"max_job_size", FIELD(max_job_size), SIZE, BI_BYTES, 65535, GB_1, BOUND},
    {"max_result_size", FIELD(max_result_size), SIZE, BI_BYTES, 65536, GB_1, BOUND},
    {"max_error_size", FIELD(max_error_size), SIZE, BI_BYTES, 1024, MB_1, SERVERS},
    {"max_touches", FIELD(max_touches), U32, BI_COUNT, 0, UINT32_MAX, SERVERS},
    {"max_touch_total", FIELD(max_touch_total_ms), I64, BI_DURATION, 0, BIDE_TIME_MAX_MS, SERVERS},
    {"min_touch_interval", FIELD(min_touch_interval_ms), I64, BI_DURATION, 0, BIDE_TIME_MAX_MS,
     SERVERS},
    {"max_topics", FIELD(max_topics), U32, BI_COUNT, 1000000, UINT32_MAX, SERVERS},
    {"max_waiters", FIELD(max_waiters), U32, BI_COUNT, 100000, UINT32_MAX, SERVERS},
    {"max_jobs_per_topic", FIELD(max_jobs_per_topic), U64, BI_COUNT, 0, UINT32_MAX, SERVERS},
    {"max_done_per_topic", FIELD(max_done_per_topic), U64, BI_COUNT, 10000, UINT32_MAX, SERVERS},
    {"max_memory", FIELD(max_memory), U64, BI_BYTES, 0, UINT64_MAX, SERVERS},
    {"max_pending_ops", FIELD(max_pending_ops), U32, BI_COUNT, 100000, UINT32_MAX, OURS},
    {"max_pending_bytes", FIELD(max_pending_bytes), U64, BI_BYTES, 64 * MB_1, UINT64_MAX, OURS},
    {"topic_cleanup", FIELD(topic_cleanup), INT, BI_ON_OFF, 0, 0, SERVERS},
    {"ticker", FIELD(ticker), ENUM, BI_TICKER, BIDE_TICKER_DYNAMIC, BIDE_TICKER_WHEEL, SERVERS},
    {"ticker_min", FIELD(ticker_min_ms), I64, BI_DURATION, 0, 3600000, SERVERS},
    {"ticker_max", FIELD(ticker_max_ms), I64, BI_DURATION, 0, BIDE_TIME_MAX_MS, SERVERS},
    {"wheel_tick", FIELD(wheel_tick_ms), I64, BI_DURATION, 10, 3600000, SERVERS},
    {"wheel_slots", FIELD(wheel_slots), U32, BI_COUNT, 512, 1000000, SERVERS},
    {"sync", FIELD(sync), ENUM, BI_SYNC, BIDE_SYNC_FULL, BIDE_SYNC_OFF, SERVERS},
    {"batch_jobs", FIELD(batch_jobs), U32, BI_COUNT, 1000, 1000000, SERVERS},
    {"batch_bytes", FIELD(batch_bytes), U64, BI_BYTES, 8 * MB_1, GB_1, SERVERS},
    {"cache_bytes", FIELD(cache_bytes), U64, BI_BYTES, 64 * MB_1, UINT64_MAX, SERVERS},
    {"seed", FIELD(seed), U64, BI_COUNT, 0, UINT64_MAX, OURS},
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
    enum bi_unit unit;
    uint64_t factor;
};

static const struct suffix suffixes[] = {
    {"", BI_COUNT, 1},
    {"", BI_DURATION, 1},
    {"ms", BI_DURATION, 1},
    {"s", BI_DURATION, 1000},
    {"m", BI_DURATION, 60000},
    {"h", BI_DURATION, 3600000},
    {"d", BI_DURATION, 86400000},
    {"", BI_BYTES, 1},
    {"B", BI_BYTES, 1},
    {"KiB", BI_BYTES, 1024},
    {"MiB", BI_BYTES, MB_1},
    {"GiB", BI_BYTES, GB_1},
};

static const struct {
    const char *name;
    enum bi_unit unit;
    uint64_t value;
} words[] = {
    {"dynamic", BI_TICKER, BIDE_TICKER_DYNAMIC},
    {"wheel", BI_TICKER, BIDE_TICKER_WHEEL},
    {"full", BI_SYNC, BIDE_SYNC_FULL},
    {"normal", BI_SYNC, BIDE_SYNC_NORMAL},
    {"off", BI_SYNC, BIDE_SYNC_OFF},
    {"on", BI_ON_OFF, 0},
    {"off", BI_ON_OFF, (uint64_t)-1},
};

/* Digits, then a suffix that suits the unit. */
static bool parse_number(enum bi_unit unit, const char *text, uint64_t *value)
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

bool bi_options_parse(enum bi_unit unit, const char *text, uint64_t *value)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].unit == unit && strcmp(words[i].name, text) == 0) {
            *value = words[i].value;
            return true;
        }
    }
    return parse_number(unit, text, value);
}

static const char *const kinds[] = {
    [BI_COUNT] = "a number",
    [BI_BYTES] = "a size such as 64KiB",
    [BI_DURATION] = "a duration such as 90s or 250ms",
    [BI_ON_OFF] = "on or off",
    [BI_TICKER] = "dynamic or wheel",
    [BI_SYNC] = "full, normal or off",
};

const char *bi_options_kind(enum bi_unit unit)
{
    return kinds[unit];
}

static int refuse(char *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, BIDE_ERROR_SIZE, format, args);
    va_end(args);
    return BIDE_EINVAL;
}

static int out_of_range(const struct option *option, uint64_t value, char *error)
{
    return refuse(error, "%s is %lld; 0 to %llu is allowed", option->name, (long long)value,
                  (unsigned long long)option->max);
}

/* A name that is none; the unit at the end of a field's name is the likely mistake. */
static int unknown(const char *name, char *error)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        size_t size = strlen(options[i].name);
        if (strncmp(options[i].name, name, size) == 0 && strcmp(name + size, "_ms") == 0)
            return refuse(error, "\"%s\" is called %s in a URL", name, options[i].name);
    }
    return refuse(
        error,
        "there is no option \"%.40s\" in URLs; bided.conf(5) and docs/LIBRARY.md have them all",
        name);
}

int bi_options_set(bide_options *to, const char *name, const char *text, char *error)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        if (strcmp(option->name, name) != 0)
            continue;
        uint64_t value;
        if (!bi_options_parse(option->unit, text, &value))
            return refuse(error, "%s is \"%.40s\"; it takes %s", option->name, text,
                          kinds[option->unit]);
        if (option->unit != BI_ON_OFF && value > option->max)
            return out_of_range(option, value, error);
        set(to, option, value);
        return BIDE_OK;
    }
    return unknown(name, error);
}

/* ---- values as they are written ---- */

/* The largest unit that leaves a whole number. */
static void write_number(enum bi_unit unit, uint64_t value, char *text)
{
    const struct suffix *best = NULL;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (suffixes[i].unit == unit && (best == NULL || value % suffixes[i].factor == 0) &&
            (value > 0 || best == NULL))
            best = &suffixes[i];
    snprintf(text, BI_OPTION_TEXT, "%llu%s", (unsigned long long)(value / best->factor),
             best->name);
}

bool bi_options_describe(size_t index, struct bi_option *out)
{
    if (index >= OPTION_COUNT)
        return false;
    const struct option *option = &options[index];
    *out = (struct bi_option){.name = option->name, .kind = kinds[option->unit]};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].unit == option->unit && words[i].value == option->fallback) {
            snprintf(out->fallback, sizeof(out->fallback), "%s", words[i].name);
            return true;
        }
    }
    write_number(option->unit, option->fallback, out->fallback);
    return true;
}

/* ---- all together ---- */

/* A sentence of bide_open(). */
static int refused(int code, const char *error)
{
    return bi_error_set(code, "open: %s", error);
}

/* Was it asked for, and is it somebody else's? */
static int check_server(const bide_options *asked, const struct option *option)
{
    if (option->served != SERVERS || get(asked, option) == 0)
        return BIDE_OK;
    return bi_error_set(BIDE_EINVAL, "open: %s is kept by the server of this queue: set it there",
                        option->name);
}

static int check_and_default(bide_options *resolved, const struct option *option, bool served)
{
    char error[BIDE_ERROR_SIZE];
    uint64_t value = get(resolved, option);
    if (option->unit == BI_ON_OFF) {
        if (value != 0 && value != (uint64_t)-1)
            return bi_error_set(BIDE_EINVAL, "open: %s is neither 0 (on) nor -1 (off)",
                                option->name);
        return BIDE_OK;
    }
    if (value > option->max)
        return refused(out_of_range(option, value, error), error);
    if (value == 0)
        set(resolved, option, served && option->served == BOUND ? option->max : option->fallback);
    return BIDE_OK;
}

static uint64_t random_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed) || seed == 0)
        seed = (uint64_t)(uintptr_t)&seed ^ UINT64_C(0x9e3779b97f4a7c15);
    return seed;
}

static bool is_one_of(const char *const *names, const char *name)
{
    for (; names != NULL && *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

int bi_options_ask(const bide_options *given, const struct bi_url *url, const char *const *others,
                   bide_options *asked)
{
    static const bide_options init = BIDE_OPTIONS_INIT;
    if (given != NULL && given->size != sizeof(bide_options))
        return bi_error_set(BIDE_EINVAL, "open: the options were not begun with BIDE_OPTIONS_INIT");
    *asked = given == NULL ? init : *given;
    for (size_t i = 0; i < url->param_count; i++) {
        char error[BIDE_ERROR_SIZE];
        if (is_one_of(others, url->params[i].name))
            continue;
        int code = bi_options_set(asked, url->params[i].name, url->params[i].value, error);
        if (code != BIDE_OK)
            return refused(code, error);
    }
    return BIDE_OK;
}

int bi_options_settle(const bide_options *asked, bool served, bide_options *resolved)
{
    *resolved = *asked;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        int code = check_and_default(resolved, &options[i], served);
        if (code == BIDE_OK && served)
            code = check_server(asked, &options[i]);
        if (code != BIDE_OK)
            return code;
    }
    if (resolved->seed == 0)
        resolved->seed = random_seed();
    return BIDE_OK;
}

int bi_options_resolve(const bide_options *given, const struct bi_url *url, bide_options *resolved)
{
    bide_options asked;
    int code = bi_options_ask(given, url, NULL, &asked);
    return code == BIDE_OK ? bi_options_settle(&asked, false, resolved) : code;
}
