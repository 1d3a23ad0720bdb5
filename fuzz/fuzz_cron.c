/* SPDX-License-Identifier: MIT */
/*
 * fuzz_cron - expressions for recurring moments. What is refused has a reason, and what is read has
 * moments that rise, are in range, and do not depend on where the search for them began.
 */
#include "fuzz/fuzz.h"
#include "util/cron.h"
#include "util/message.h"
#include "util/timezone.h"

#include <bide/job.h>
#include <string.h>

/* The first moment after a time, which is also the first one after any time between both. */
static int64_t next(const struct cron *cron, const struct timezone_rules *zone, int64_t after_ms)
{
    int64_t at_ms = bi_cron_next(cron, zone, after_ms);
    must(at_ms > after_ms && (at_ms == BI_CRON_NEVER || at_ms <= BIDE_TIMESTAMP_MAX_MS));

    int64_t last_ms = (at_ms == BI_CRON_NEVER ? BIDE_TIMESTAMP_MAX_MS : at_ms) - 1;
    must(bi_cron_next(cron, zone, last_ms) == at_ms);
    must(bi_cron_next(cron, zone, after_ms + (last_ms - after_ms) / 2) == at_ms);
    return at_ms;
}

static void walk(const struct cron *cron, const struct timezone_rules *zone, int64_t after_ms)
{
    for (int i = 0; i < 20 && after_ms < BIDE_TIMESTAMP_MAX_MS; i++)
        after_ms = next(cron, zone, after_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"};
    static struct timezone_rules *zones[3];
    char error[BI_ERRMSG_SIZE] = "";
    struct cron cron = {.every_ms = -7};
    for (size_t i = 0; i < 3; i++)
        must(zones[i] != NULL ||
             bi_timezone_open(names[i], strlen(names[i]), &zones[i], error) == 0);

    if (bi_cron_parse((const char *)data, size, &cron, error) != 0) {
        must(error[0] != 0 && strlen(error) < BIDE_ERROR_SIZE && cron.every_ms == -7);
        for (const char *at = error; *at != 0; at++)
            must(*at >= 0x20 && *at <= 0x7e);
        return 0;
    }
    for (size_t i = 0; i < 3; i++) {
        walk(&cron, zones[i], 0);
        walk(&cron, zones[i], INT64_C(1325152800000)); /* before the skipped day of Samoa */
        walk(&cron, zones[i], INT64_C(1774740000000)); /* before a change in Berlin */
        walk(&cron, zones[i], INT64_C(1775300000000)); /* before a change on Lord Howe Island */
        walk(&cron, zones[i], BIDE_TIMESTAMP_MAX_MS - 100000);
    }
    return 0;
}
