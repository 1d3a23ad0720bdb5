/* SPDX-License-Identifier: MIT */
/*
 * retry - what becomes of a job that has failed: a retry after a delay, or burial at the limit.
 *
 * The delay is an exponential backoff with jitter: d = min(base * 2^(failures-1), 2/3 max), then
 * uniform in [d, 1.5 d]. It is never longer than max. At the cap it is uniform in [2/3 max, max],
 * so that jobs which failed together do not run again together, however often they fail.
 */
#include "core/core_internal.h"
#include "util/message.h"

#include <assert.h>

int64_t bi_retry_delay(uint32_t failures, int64_t base, int64_t max, struct bi_random *random)
{
    assert(failures > 0 && base >= 0 && max >= 0);
    if (base == 0)
        base = BI_BACKOFF_BASE;
    if (max == 0)
        max = BI_BACKOFF_MAX;
    if (max > BI_BACKOFF_END)
        max = BI_BACKOFF_END;

    /* Use whole milliseconds: the delay that a fail reports is then exact. */
    int64_t max_ms = max < 1000 ? 1 : max / 1000;
    int64_t highest_start = (2 * max_ms + 2) / 3;
    int64_t start = (base < max ? base : max) / 1000;

    for (uint32_t i = 1; i < failures && start < highest_start; i++)
        start *= 2;
    if (start > highest_start)
        start = highest_start;

    /* The rounded cap may leave less than start / 2 below max: do not exceed max. */
    int64_t jitter = start / 2 < max_ms - start ? start / 2 : max_ms - start;
    return 1000 * (start + (int64_t)bi_random_below(random, (uint64_t)jitter + 1));
}

bide_buf *bi_retry_reason(const struct core *core, bide_slice text)
{
    size_t size = bi_text_utf8_fit(text.data, text.size, core->limits.max_error_size);
    return bide_buf_new(text.data, size);
}

bide_buf *bi_retry_history(const struct core *core, const struct job_ext *ext,
                           bide_failure_kind kind, bide_slice text)
{
    int64_t at_ms = ms_down(core->now.wall);

    /* The wall clock may be set to any time. */
    if (at_ms < 0)
        at_ms = 0;
    else if (at_ms > BIDE_TIMESTAMP_MAX_MS)
        at_ms = BIDE_TIMESTAMP_MAX_MS;

    const bide_failure failure = {
        .kind = kind,
        .attempt = ext->counters.reserves,
        .at_ms = at_ms,
        .error = {text.data, bi_text_utf8_fit(text.data, text.size, core->limits.max_error_size)},
        .holder = bi_buf_slice(ext->holder),
    };
    return bi_job_history_add(ext->history, &failure);
}

void bi_retry_record(struct core *core, struct job_ext *ext, bide_failure_kind kind,
                     bide_slice text)
{
    bide_buf *history = bi_retry_history(core, ext, kind, text);
    if (history != NULL)
        bi_job_ext_set_text(core, &ext->history, history);
}

void bi_retry_bury(struct core *core, struct job *job, int64_t priority)
{
    struct job_ext *ext = ext_of(core, job);
    assert(ext != NULL && job->state != BIDE_STATE_BURIED && job->state != BIDE_STATE_DONE);

    bi_job_leave(core, job);
    bi_lease_end(core, job);

    if (priority != BIDE_KEEP)
        job->priority = (uint32_t)priority;
    ext->buried = core->now.mono;
    count_up(&ext->counters.buries);

    bi_job_enter(core, job, BIDE_STATE_BURIED);
    COUNT(core, topic_of(core, job), buries);

    bi_event_emit(core, BIDE_EVENT_BURIED, job);
    bi_waiters_notify(core, job, BIDE_STATE_BURIED, false);
}

void bi_retry_or_bury(struct core *core, struct job *job, int64_t retry_in, bide_event_kind event)
{
    const struct job_ext *ext = ext_of(core, job);
    assert(ext != NULL && ext->failures > 0);

    if (ext->max_retries != BIDE_NO_RETRY_LIMIT && ext->failures > (uint32_t)ext->max_retries) {
        bi_event_emit_as(core, event, job, BIDE_STATE_BURIED);
        bi_retry_bury(core, job, BIDE_KEEP);
        return;
    }

    if (retry_in < 0)
        retry_in =
            bi_retry_delay(ext->failures, ext->backoff_base, ext->backoff_max, &core->random);

    bi_lease_requeue(core, job, retry_in);
    bi_job_set_delay(job, retry_in);
    bi_event_emit(core, event, job);
}
