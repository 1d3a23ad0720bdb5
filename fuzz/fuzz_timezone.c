/* SPDX-License-Identifier: MIT */
/*
 * fuzz_timezone - files of the time zone database, and names of zones. A file that is accepted has
 * periods that follow each other, and moments of expressions that rise.
 */
#include "fuzz/fuzz.h"
#include "util/cron.h"
#include "util/message.h"
#include "util/timezone.h"
#include "util/timezone_file.h"

#include <bide/job.h>
#include <string.h>

static void check_periods(const struct timezone_rules *zone)
{
    struct timezone_period period = bi_timezone_period(zone, INT64_MIN);
    must(period.begin_s == INT64_MIN);
    for (;;) {
        must(period.begin_s < period.end_s);
        must(period.offset_s > -BI_TIMEZONE_OFFSET_MAX && period.offset_s < BI_TIMEZONE_OFFSET_MAX);
        must(strlen(period.abbreviation) < BI_TIMEZONE_ABBREVIATIONS_SIZE);
        if (period.end_s == INT64_MAX)
            return;
        int64_t end_s = period.end_s;
        must(bi_timezone_period(zone, end_s - 1).end_s == end_s);
        period = bi_timezone_period(zone, end_s);
        must(period.begin_s == end_s);
    }
}

static void check_moments(const struct timezone_rules *zone)
{
    static const char *const texts[] = {"30 2 * * *", "0 * * * *", "5 0 0 L 2 *", "0 0 29 2 *"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char error[BI_ERRMSG_SIZE];
        struct cron cron;
        int64_t at_ms = 0;
        must(bi_cron_parse(texts[i], strlen(texts[i]), &cron, error) == 0);
        for (int step = 0; step < 50 && at_ms != BI_CRON_NEVER; step++) {
            int64_t next_ms = bi_cron_next(&cron, zone, at_ms);
            must(next_ms > at_ms);
            must(bi_cron_next(&cron, zone, at_ms + (next_ms - at_ms) / 2 - 1) <= next_ms);
            at_ms = next_ms;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct timezone_rules *zone = NULL;
    if (bi_timezone_file_decode(data, size, &zone, error) == 0) {
        check_periods(zone);
        check_moments(zone);
        bi_timezone_free(zone);
    } else {
        must(error[0] != 0 && zone == NULL);
    }

    error[0] = 0;
    zone = NULL;
    if (size > 0 && size <= 100 && bi_timezone_open((const char *)data, size, &zone, error) == 0) {
        must(bi_timezone_name(zone)[0] != 0);
        bi_timezone_free(zone);
    }
    return 0;
}
