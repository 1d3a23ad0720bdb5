/* SPDX-License-Identifier: MIT */
#include "cli/restore_op.h"

#include "op/job_fields.h"

#include <string.h>

const char *bi_restore_op_skip_reason(bide_job *job, int64_t now_ms)
{
    bool is_waiting = job->state == BIDE_STATE_READY || job->state == BIDE_STATE_DELAYED;
    int64_t seen_ms = job->created_ms == 0 ? now_ms : job->created_ms + job->age_ms;
    if (job->state == BIDE_STATE_RESERVED && job->cancel_wanted)
        return "it was cancelled while it was reserved";
    if (is_waiting && job->reserves == 0 && job->expires_at_ms != 0 && job->expires_at_ms <= now_ms)
        return "it has expired";
    if (job->state != BIDE_STATE_DONE)
        return NULL;
    if (now_ms > seen_ms)
        job->left_ms -= now_ms - seen_ms;
    return job->left_ms <= 0 ? "its retention is over" : NULL;
}

#define LOST_FIELD(kind, name) \
    BI_JOB_IF_PUT_##kind(      \
        {job->BI_JOB_MEMBER_##kind(name) != BI_JOB_NONE_##kind, "its " BI_JOB_NAME(kind, name)}, )

/* Returns the first attribute that a beanstalkd lacks; NULL: none. */
static const char *unsupported_field(const bide_job *job)
{
    const struct {
        bool present;
        const char *name;
    } parts[] = {
        {job->key != NULL, "its key"},
        BI_JOB_EXT(LOST_FIELD){job->last_error != NULL, "its last error"},
        {job->ttr_ms % 1000 != 0, "the milliseconds of its ttr"},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].present)
            return parts[i].name;
    return NULL;
}

static bool make_put(const struct restore_target *restore_target, struct op_slot *slot, char *error)
{
    const bide_job *job = &slot->job;
    const char *lost = unsupported_field(job);
    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        return bi_errmsg_set(error,
                             "it is %s, and a beanstalkd accepts only ready and delayed jobs",
                             bide_state_name(job->state));
    if (lost != NULL && !restore_target->lossy)
        return bi_errmsg_set(error, "a beanstalkd cannot store %s; use --lossy to drop it", lost);
    slot->options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    slot->options.priority = job->priority;
    slot->options.ttr_ms = job->ttr_ms;
    slot->options.run_at_ms = job->state == BIDE_STATE_DELAYED ? job->run_at_ms : 0;
    slot->op.kind = BIDE_OP_PUT;
    slot->op.put = (bide_put_item){
        .topic = {job->topic, strlen(job->topic)},
        .body = {job->body, job->body_size},
        .options = &slot->options,
    };
    return true;
}

bool bi_restore_op_build(const struct restore_target *restore_target, struct op_slot *slot,
                         char *error)
{
    if (restore_target->plain)
        return make_put(restore_target, slot, error);
    slot->op.kind = BIDE_OP_RESTORE;
    slot->op.restore = (bide_restore_args){.job = &slot->job};
    return true;
}
