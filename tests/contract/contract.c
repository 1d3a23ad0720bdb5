/* SPDX-License-Identifier: MIT */
/* contract.c - the themes of the contract suite. */
#include "contract.h"

#include <bide/schedule.h>

static const struct theme *const all_themes[] = {
    &put_theme,        &restore_theme,       &reserve_theme,       &strategy_theme,
    &lease_theme,      &touch_theme,         &retry_theme,         &key_theme,
    &time_theme,       &result_theme,        &wait_theme,          &admin_theme,
    &update_theme,     &topic_theme,         &peek_theme,          &list_theme,
    &stats_theme,      &events_theme,        &async_theme,         &cq_theme,
    &threads_theme,    &thread_cancel_theme, &open_theme,          &bad_put_theme,
    &bad_topic_theme,  &bad_time_theme,      &bad_call_theme,      &bad_lease_theme,
    &bad_list_theme,   &limits_theme,        &hostile_theme,       &chaos_theme,
    &shutdown_theme,   &fuzz_theme,          &storage_calls_theme, &reconnect_theme,
    &optionsize_theme, &holder_theme,        &history_theme,       &finish_and_put_theme,
    &policy_theme,     &why_theme,           &workers_theme,       &schedule_theme,
};

/* What is promised of queues that are closed and opened again. */
static const struct theme *const kept_themes[] = {
    &restart_theme,          &restart_lease_theme, &restart_order_theme, &restart_time_theme,
    &loading_theme,          &loading_ops_theme,   &loading_close_theme, &recovered_theme,
    &backup_theme,           &check_call_theme,    &cold_theme,          &cold_concurrent_theme,
    &restart_schedule_theme,
};

/* A library that was built without JSON has none. */
static bool has_schedules(void)
{
    bide_schedule schedule = BIDE_SCHEDULE_INIT;
    int64_t moment;
    size_t count;
    schedule.when = "every 1m";
    return bide_schedule_next(&schedule, 0, &moment, 1, &count, NULL) != BIDE_ENOTSUP;
}

static bool applies(const struct theme *theme)
{
    if (theme == &schedule_theme || theme == &restart_schedule_theme)
        return has_schedules();
    return !is_in_process() || theme != &reconnect_theme;
}

const struct program this_program = {
    .name = "contract",
    .subject = "the queue",
    .promises = "docs/SEMANTICS.md",
    .themes = all_themes,
    .count = COUNT(all_themes),
    .kept = kept_themes,
    .kept_count = COUNT(kept_themes),
    .applies = applies,
};
