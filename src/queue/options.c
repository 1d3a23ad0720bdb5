/* SPDX-License-Identifier: MIT */
/*
 * options - the table of all options: name, unit, default, limit.
 *
 * The members of bide_options, the parameters of URLs and the settings of the server are parsed,
 * checked and documented through this table. An option is one row.
 */
#include "queue/queue.h"
#include "util/sized_struct.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* How an option is treated when a server owns the queue (backend_ops.remote). */
enum remote {
    REMOTE_REJECT, /* configured on the server: rejected here */
    REMOTE_ACCEPT, /* has the same meaning as in a local queue */
    REMOTE_LIMIT,  /* checked here if it is set; otherwise the server decides */
};

struct option {
    const char *name;    /* in URLs: the name of the member without its unit */
    size_t offset, size; /* of the member: 4 or 8 bytes */
    enum bi_option_type type;
    uint64_t fallback; /* the default, which 0 selects */
    uint64_t max;
    enum remote remote;
};

#define MB_1         (UINT64_C(1) << 20)
#define GB_1         (UINT64_C(1) << 30)
#define FIELD(field) offsetof(bide_options, field), sizeof(((bide_options *)0)->field)

static const struct option options[] = {
    {"default_ttr", FIELD(default_ttr_ms), BI_OPTION_DURATION, 60000, BIDE_TIME_MAX_MS,
     REMOTE_ACCEPT},
    {"max_job_size", FIELD(max_job_size), BI_OPTION_BYTES, 65535, GB_1, REMOTE_LIMIT},
    {"max_result_size", FIELD(max_result_size), BI_OPTION_BYTES, 65536, GB_1, REMOTE_LIMIT},
    {"max_error_size", FIELD(max_error_size), BI_OPTION_BYTES, 1024, MB_1, REMOTE_REJECT},
    {"max_touches", FIELD(max_touches), BI_OPTION_COUNT, 0, UINT32_MAX, REMOTE_REJECT},
    {"max_touch_total", FIELD(max_touch_total_ms), BI_OPTION_DURATION, 0, BIDE_TIME_MAX_MS,
     REMOTE_REJECT},
    {"min_touch_interval", FIELD(min_touch_interval_ms), BI_OPTION_DURATION, 0, BIDE_TIME_MAX_MS,
     REMOTE_REJECT},
    {"max_topics", FIELD(max_topics), BI_OPTION_COUNT, 1000000, UINT32_MAX, REMOTE_REJECT},
    {"max_waiters", FIELD(max_waiters), BI_OPTION_COUNT, 100000, UINT32_MAX, REMOTE_REJECT},
    {"max_jobs_per_topic", FIELD(max_jobs_per_topic), BI_OPTION_COUNT, 0, UINT32_MAX,
     REMOTE_REJECT},
    {"max_done_per_topic", FIELD(max_done_per_topic), BI_OPTION_COUNT, 10000, UINT32_MAX,
     REMOTE_REJECT},
    {"max_memory", FIELD(max_memory), BI_OPTION_BYTES, 0, UINT64_MAX, REMOTE_REJECT},
    {"max_pending_ops", FIELD(max_pending_ops), BI_OPTION_COUNT, 100000, UINT32_MAX, REMOTE_ACCEPT},
    {"max_pending_bytes", FIELD(max_pending_bytes), BI_OPTION_BYTES, 64 * MB_1, UINT64_MAX,
     REMOTE_ACCEPT},
    {"topic_cleanup", FIELD(topic_cleanup), BI_OPTION_ON_OFF, 0, 0, REMOTE_REJECT},
    {"ticker", FIELD(ticker), BI_OPTION_TICKER, BIDE_TICKER_DYNAMIC, BIDE_TICKER_WHEEL,
     REMOTE_REJECT},
    {"ticker_min", FIELD(ticker_min_ms), BI_OPTION_DURATION, 0, 3600000, REMOTE_REJECT},
    {"ticker_max", FIELD(ticker_max_ms), BI_OPTION_DURATION, 0, BIDE_TIME_MAX_MS, REMOTE_REJECT},
    {"wheel_tick", FIELD(wheel_tick_ms), BI_OPTION_DURATION, 10, 3600000, REMOTE_REJECT},
    {"wheel_slots", FIELD(wheel_slots), BI_OPTION_COUNT, 512, 1000000, REMOTE_REJECT},
    {"sync", FIELD(sync), BI_OPTION_SYNC, BIDE_SYNC_FULL, BIDE_SYNC_OFF, REMOTE_REJECT},
    {"batch_jobs", FIELD(batch_jobs), BI_OPTION_COUNT, 1000, 1000000, REMOTE_REJECT},
    {"batch_bytes", FIELD(batch_bytes), BI_OPTION_BYTES, 8 * MB_1, GB_1, REMOTE_REJECT},
    {"cache_bytes", FIELD(cache_bytes), BI_OPTION_BYTES, 64 * MB_1, UINT64_MAX, REMOTE_REJECT},
    {"seed", FIELD(seed), BI_OPTION_COUNT, 0, UINT64_MAX, REMOTE_ACCEPT},
};

#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

/* topic_cleanup is 0 (on) or -1 (off), which as an unsigned number is this. */
#define OFF UINT32_MAX

/* ---- members of any type, as unsigned numbers ---- */

static uint64_t get(const bide_options *from, const struct option *option)
{
    assert(option->size == sizeof(uint32_t) || option->size == sizeof(uint64_t));
    /* memcpy: the enum types differ, and a pointer to unsigned must not alias them. */
    uint64_t large;
    uint32_t small;
    const char *member = (const char *)from + option->offset;
    memcpy(option->size == sizeof(small) ? (void *)&small : &large, member, option->size);
    return option->size == sizeof(small) ? small : large;
}

static void set(bide_options *to, const struct option *option, uint64_t value)
{
    uint32_t small = (uint32_t)value;
    assert(option->size == sizeof(value) || small == value);
    memcpy((char *)to + option->offset,
           option->size == sizeof(small) ? (const void *)&small : &value, option->size);
}

/* ---- parse ---- */

struct suffix {
    const char *name;
    enum bi_option_type type;
    uint64_t factor;
};

static const struct suffix suffixes[] = {
    {"", BI_OPTION_COUNT, 1},
    {"", BI_OPTION_DURATION, 1},
    {"ms", BI_OPTION_DURATION, 1},
    {"s", BI_OPTION_DURATION, 1000},
    {"m", BI_OPTION_DURATION, 60000},
    {"h", BI_OPTION_DURATION, 3600000},
    {"d", BI_OPTION_DURATION, 86400000},
    {"", BI_OPTION_BYTES, 1},
    {"B", BI_OPTION_BYTES, 1},
    {"KiB", BI_OPTION_BYTES, 1024},
    {"MiB", BI_OPTION_BYTES, MB_1},
    {"GiB", BI_OPTION_BYTES, GB_1},
};

static const struct {
    const char *name;
    enum bi_option_type type;
    uint64_t value;
} named_values[] = {
    {"dynamic", BI_OPTION_TICKER, BIDE_TICKER_DYNAMIC},
    {"wheel", BI_OPTION_TICKER, BIDE_TICKER_WHEEL},
    {"full", BI_OPTION_SYNC, BIDE_SYNC_FULL},
    {"normal", BI_OPTION_SYNC, BIDE_SYNC_NORMAL},
    {"off", BI_OPTION_SYNC, BIDE_SYNC_OFF},
    {"on", BI_OPTION_ON_OFF, 0},
    {"off", BI_OPTION_ON_OFF, OFF},
};

/* Parses digits and a suffix that the type permits. */
static bool parse_number(enum bi_option_type type, const char *text, uint64_t *value)
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
        if (suffixes[i].type != type || strcmp(suffixes[i].name, at) != 0)
            continue;
        if (number > UINT64_MAX / suffixes[i].factor)
            return false;
        *value = number * suffixes[i].factor;
        return true;
    }
    return false;
}

bool bi_options_parse(enum bi_option_type type, const char *text, uint64_t *value)
{
    for (size_t i = 0; i < sizeof(named_values) / sizeof(named_values[0]); i++) {
        if (named_values[i].type == type && strcmp(named_values[i].name, text) == 0) {
            *value = named_values[i].value;
            return true;
        }
    }
    return parse_number(type, text, value);
}

static const char *const type_texts[] = {
    [BI_OPTION_COUNT] = "a number",
    [BI_OPTION_BYTES] = "a size such as 64KiB",
    [BI_OPTION_DURATION] = "a duration such as 90s or 250ms",
    [BI_OPTION_ON_OFF] = "on or off",
    [BI_OPTION_TICKER] = "dynamic or wheel",
    [BI_OPTION_SYNC] = "full, normal or off",
};

const char *bi_options_type_text(enum bi_option_type type)
{
    assert((unsigned)type <= BI_OPTION_SYNC);
    return type_texts[type];
}

static int out_of_range(const struct option *option, uint64_t value, char *error)
{
    return bi_error_set(error, BIDE_EINVAL, "%s is %lld; 0 to %llu is allowed", option->name,
                        (long long)value, (unsigned long long)option->max);
}

/* The likely mistake is the name of the member, with its unit. */
static int set_unknown_option(const char *name, char *error)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        size_t size = strlen(options[i].name);
        if (strncmp(options[i].name, name, size) == 0 && strcmp(name + size, "_ms") == 0)
            return bi_error_set(error, BIDE_EINVAL, "\"%s\" is called %s in a URL", name,
                                options[i].name);
    }
    return bi_error_set(
        error, BIDE_EINVAL,
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
        if (!bi_options_parse(option->type, text, &value))
            return bi_error_set(error, BIDE_EINVAL, "%s is \"%.40s\"; it takes %s", option->name,
                                text, type_texts[option->type]);
        /* The values of on and off are 0 and -1, which no limit covers. */
        if (option->type != BI_OPTION_ON_OFF && value > option->max)
            return out_of_range(option, value, error);

        set(to, option, value);
        return BIDE_OK;
    }
    return set_unknown_option(name, error);
}

/* ---- format ---- */

/* Uses the largest unit that leaves a whole number. */
static void format_number(enum bi_option_type type, uint64_t value, char *text)
{
    const struct suffix *best = NULL;

    /* 0 is a multiple of every unit, and is written without one. */
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (suffixes[i].type == type && (best == NULL || value % suffixes[i].factor == 0) &&
            (value > 0 || best == NULL))
            best = &suffixes[i];

    assert(best != NULL); /* every type of number has the empty suffix */
    snprintf(text, BI_OPTION_TEXT_SIZE, "%llu%s", (unsigned long long)(value / best->factor),
             best->name);
}

bool bi_options_describe(size_t index, struct bi_option *out)
{
    if (index >= OPTION_COUNT)
        return false;
    const struct option *option = &options[index];
    *out = (struct bi_option){.name = option->name, .kind = type_texts[option->type]};

    for (size_t i = 0; i < sizeof(named_values) / sizeof(named_values[0]); i++) {
        if (named_values[i].type == option->type && named_values[i].value == option->fallback) {
            snprintf(out->fallback, sizeof(out->fallback), "%s", named_values[i].name);
            return true;
        }
    }

    format_number(option->type, option->fallback, out->fallback);
    return true;
}

/* ---- merge and validate ---- */

/* Sets the last error of bide_open(). */
static int set_open_error(int code, const char *error)
{
    return bi_last_error_set(code, "open: %s", error);
}

static int check_and_default(bide_options *resolved, const struct option *option, bool remote)
{
    char error[BIDE_ERROR_SIZE];
    uint64_t value = get(resolved, option);

    if (option->type == BI_OPTION_ON_OFF) {
        if (value != 0 && value != OFF)
            return bi_last_error_set(BIDE_EINVAL, "open: %s is neither 0 (on) nor -1 (off)",
                                     option->name);
        return BIDE_OK;
    }

    /* A negative duration appears as a huge number here and exceeds its limit. */
    if (value > option->max)
        return set_open_error(out_of_range(option, value, error), error);
    /* The limit of a server is not known here: accept the maximum, and let the server reject. */
    if (value == 0)
        set(resolved, option,
            remote && option->remote == REMOTE_LIMIT ? option->max : option->fallback);
    return BIDE_OK;
}

static bool is_one_of(const char *const *names, const char *name)
{
    for (; names != NULL && *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

BI_SIZED_STRUCT_ENDS_WITH(bide_options, recovery_user);

int bi_options_merge(const bide_options *given, const struct bi_url *url,
                     const char *const *backend_params, bide_options *requested)
{
    static const bide_options init = BIDE_OPTIONS_INIT;
    char error[BIDE_ERROR_SIZE];

    *requested = init;
    if (given != NULL &&
        bi_sized_struct_copy(requested, given, "BIDE_OPTIONS_INIT", error) != BIDE_OK)
        return set_open_error(BIDE_EINVAL, error);

    /* The URL comes second: its parameters override the struct. */
    for (size_t i = 0; i < url->param_count; i++) {
        if (is_one_of(backend_params, url->params[i].name))
            continue;

        int code = bi_options_set(requested, url->params[i].name, url->params[i].value, error);
        if (code != BIDE_OK)
            return set_open_error(code, error);
    }
    return BIDE_OK;
}

int bi_options_validate(const bide_options *requested, bool remote, bide_options *resolved)
{
    *resolved = *requested;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        int code = check_and_default(resolved, &options[i], remote);
        if (code != BIDE_OK)
            return code;

        /* An option that was set here but is configured on the server. */
        if (remote && options[i].remote == REMOTE_REJECT && get(requested, &options[i]) != 0)
            return bi_last_error_set(BIDE_EINVAL,
                                     "open: %s is kept by the server of this queue: set it there",
                                     options[i].name);
    }

    /* Not a secret: if the kernel has no entropy yet, an address of the stack is good enough. */
    uint64_t seed = 0;
    if (resolved->seed == 0 &&
        (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed) || seed == 0))
        seed = (uint64_t)(uintptr_t)&seed ^ UINT64_C(0x9e3779b97f4a7c15);
    if (resolved->seed == 0)
        resolved->seed = seed;
    return BIDE_OK;
}

int bi_options_resolve(const bide_options *given, const struct bi_url *url, bide_options *resolved)
{
    bide_options requested;
    int code = bi_options_merge(given, url, NULL, &requested);
    return code == BIDE_OK ? bi_options_validate(&requested, false, resolved) : code;
}
