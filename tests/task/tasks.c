/* SPDX-License-Identifier: MIT */
/* tasks.c - the themes of the task layer: typed tasks and workers. */
#include "worker_fixture.h"

static const struct theme *const all_themes[] = {
    &outcome_theme,        &typed_theme,      &publish_theme,  &undecodable_theme,
    &topics_theme,         &pool_theme,       &context_theme,  &overrun_theme,
    &lease_renewal_theme,  &cancelled_theme,  &stop_theme,     &load_theme,
    &retry_jitter_theme,   &middleware_theme, &fallback_theme, &worker_events_theme,
    &server_restart_theme, &run_theme,        &badtask_theme,  &badworker_theme,
    &chain_theme,
};

static bool applies(const struct theme *theme)
{
    return theme != &server_restart_theme || !is_in_process();
}

const struct program this_program = {
    .name = "tasks",
    .subject = "a worker on the queue",
    .promises = "include/bide/task.h and worker.h",
    .themes = all_themes,
    .count = COUNT(all_themes),
    .applies = applies,
    .end = free_fixtures,
};
