/* SPDX-License-Identifier: MIT */
/* contract.c - the themes of the contract suite. */
#include "contract.h"

static const struct theme *const all_themes[] = {
    &put_theme,       &restore_theme,      &reserve_theme,  &strategy_theme, &lease_theme,
    &leases_theme,    &retry_theme,        &key_theme,      &time_theme,     &result_theme,
    &wait_theme,      &outside_theme,      &update_theme,   &topic_theme,    &look_theme,
    &list_theme,      &stats_theme,        &events_theme,   &async_theme,    &cq_theme,
    &threads_theme,   &threadcancel_theme, &open_theme,     &badput_theme,   &badtopic_theme,
    &badtime_theme,   &badcall_theme,      &badlease_theme, &badlist_theme,  &limits_theme,
    &hostile_theme,   &chaos_theme,        &ending_theme,   &fuzz_theme,     &stored_theme,
    &reconnect_theme,
};

/* What is promised of queues that are closed and opened again. */
static const struct theme *const kept_themes[] = {
    &restart_theme, &restartlease_theme, &restartorder_theme, &restarttime_theme,
    &loading_theme, &loadingop_theme,    &loadingend_theme,   &recovered_theme,
    &backup_theme,  &verify_theme,       &cold_theme,         &coldwork_theme,
};

static bool applies(const struct theme *theme)
{
    return !is_own() || theme != &reconnect_theme;
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
