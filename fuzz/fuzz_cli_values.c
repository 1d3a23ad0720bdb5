/* SPDX-License-Identifier: MIT */
/*
 * fuzz_cli_values - what people write on a command line: durations, moments, sizes, numbers, excerpts of
 * bodies. What is refused has a reason; what is read lies within its limits, and a duration or
 * moment that is said back is the same when it is read again, as far as it was said.
 */
#include "cli/flag.h"
#include "cli/print.h"
#include "fuzz/fuzz.h"
#include "util/datetime.h"

#include <stdlib.h>
#include <string.h>

static void read_duration(const char *text)
{
    char error[BI_ERRMSG_SIZE] = "", formatted[BI_DATETIME_SIZE];
    int64_t ms = -7, same = -7;
    if (!bi_duration_parse(text, &ms, error)) {
        must(error[0] != 0 && ms == -7);
        return;
    }
    must(ms >= 0 && ms <= BIDE_TIME_MAX_MS);
    bi_duration_format(formatted, ms);
    must(bi_duration_parse(formatted, &same, error));
    must(same <= ms && (ms < 60000 ? ms - same < 1000 : ms - same <= ms / 24));
}

static void read_moment(const char *text)
{
    char error[BI_ERRMSG_SIZE] = "", stamp[BI_DATETIME_SIZE], formatted[BI_DATETIME_SIZE];
    const int64_t now = INT64_C(1794700000123);
    int64_t at = -7, same = -7;
    if (!bi_datetime_parse(text, &bi_calendar_local, now, &at, error)) {
        must(error[0] != 0 && at == -7);
        return;
    }
    must(at >= 0 && at <= BIDE_TIMESTAMP_MAX_MS);
    bi_datetime_format_rfc3339(stamp, at);
    must(bi_datetime_parse(stamp, &bi_calendar_local, now, &same, error) && same == at);
    bi_datetime_format(formatted, &bi_calendar_local, at);
    bi_datetime_describe(formatted, &bi_calendar_local, at, now);
    must(strlen(formatted) < BI_DATETIME_SIZE);
}

static void read_others(const char *text)
{
    static bi_flag_parse_fn *const readers[] = {bi_flag_parse_count,    bi_flag_parse_id,
                                                bi_flag_parse_priority, bi_flag_parse_retries,
                                                bi_flag_parse_size,     bi_flag_parse_timeout};
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        char error[BI_ERRMSG_SIZE] = "";
        uint64_t value = 0;
        must(readers[i](text, &value, error) == (error[0] == 0));
    }
    char error[BI_ERRMSG_SIZE] = "";
    bide_state state;
    must(bi_flag_parse_state(text, &state, error) == (error[0] == 0));
}

static void check_excerpt(const uint8_t *data, size_t size)
{
    char excerpt[4 * 20 + 4];
    size_t width = size == 0 ? 0 : data[0] % 21;
    must(bi_print_excerpt(excerpt, width, data, size) <= width);
    must(strlen(excerpt) < sizeof(excerpt));
    for (const char *at = excerpt; *at != 0; at++)
        must((unsigned char)*at >= 0x20 && *at != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = 0;
    setenv("TZ", "Europe/Berlin", 1);
    read_duration(text);
    read_moment(text);
    read_others(text);
    check_excerpt(data, size);
    free(text);
    return 0;
}
