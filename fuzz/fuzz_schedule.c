/* SPDX-License-Identifier: MIT */
/*
 * fuzz_schedule - any bytes, decoded as the definition of a schedule: what is rejected has a reason;
 * what is accepted is encoded, decoded and encoded the same, and a plan of it keeps its promises at
 * any time.
 */
#include "fuzz/fuzz.h"
#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

static void encode_again(const struct schedule *schedule)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct schedule *again = NULL;
    char *first = bi_schedule_format_stored(&schedule->def);
    must(first != NULL);
    must(bi_schedule_decode(first, strlen(first), 0, &again, error) == BIDE_OK);
    char *second = bi_schedule_format_stored(&again->def);
    must(second != NULL && strcmp(first, second) == 0);
    bi_schedule_free(again);
    free(first);
    free(second);
}

static void plan(struct schedule *schedule, int64_t now)
{
    struct schedule_plan made;
    int64_t from = schedule->def.next_at_ms;
    bi_schedule_plan(schedule, now, &made);
    must(made.count <= BI_SCHEDULE_STEP_MAX);
    for (size_t i = 0; i < made.count; i++) {
        struct schedule_put put;
        bide_put_item item;
        must(made.moments[i] >= from && made.moments[i] <= now);
        must(i == 0 || made.moments[i] > made.moments[i - 1]);
        must(made.next_ms > made.moments[i]);
        bi_schedule_describe(schedule, made.moments[i], now, &put, &item);
        must(put.options.key.size > 0 && put.options.key.size <= BIDE_KEY_MAX);
    }
    bi_schedule_advance(schedule, &made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct schedule *schedule = NULL;
    int code = bi_schedule_decode((const char *)data, size, 1000, &schedule, error);
    must((code == BIDE_OK) == (schedule != NULL) && (code == BIDE_OK) == (error[0] == 0));
    if (code != BIDE_OK)
        return 0;

    encode_again(schedule);
    if (bi_schedule_open_zone(schedule, error) == BIDE_OK) {
        int64_t now = schedule->def.last_at_ms + 86400000;
        for (int i = 0; i < 3; i++)
            plan(schedule, now += 1000);
    }
    bi_schedule_free(schedule);
    return 0;
}
