/* SPDX-License-Identifier: MIT */
/* worker_event - the names of worker events, for logs. */
#include <bide/worker.h>

static const char *const names[BIDE_WORK_KINDS] = {
    [BIDE_WORK_STARTED] = "started",     [BIDE_WORK_DONE] = "done",
    [BIDE_WORK_RETRIED] = "retried",     [BIDE_WORK_BURIED] = "buried",
    [BIDE_WORK_SNOOZED] = "snoozed",     [BIDE_WORK_INTERRUPTED] = "interrupted",
    [BIDE_WORK_CANCELLED] = "cancelled", [BIDE_WORK_OVERRAN] = "overran",
    [BIDE_WORK_LOST] = "lost",           [BIDE_WORK_DEFERRED] = "deferred",
    [BIDE_WORK_GIVEN_UP] = "given up",   [BIDE_WORK_UNHEALTHY] = "unhealthy",
    [BIDE_WORK_HEALTHY] = "healthy",
};

const char *bide_work_name(bide_work_kind kind)
{
    return (unsigned)kind < BIDE_WORK_KINDS ? names[kind] : "?";
}
