/* SPDX-License-Identifier: MIT */
#include "cli/deliver.h"

#include <string.h>

const char *bi_deliver_over(bide_job *job, int64_t now_ms)
{
    bool waits = job->state == BIDE_STATE_READY || job->state == BIDE_STATE_DELAYED;
    int64_t looked_ms = job->created_ms == 0 ? now_ms : job->created_ms + job->age_ms;
    if (job->state == BIDE_STATE_RESERVED && job->cancel_wanted)
        return "it was cancelled while it was reserved";
    if (waits && job->reserves == 0 && job->expires_at_ms != 0 && job->expires_at_ms <= now_ms)
        return "it has expired";
    if (job->state != BIDE_STATE_DONE)
        return NULL;
    if (now_ms > looked_ms)
        job->left_ms -= now_ms - looked_ms;
    return job->left_ms <= 0 ? "its retention is over" : NULL;
}

/* What a beanstalkd has no word for; NULL: nothing. */
static const char *surplus(const bide_job *job)
{
    const struct {
        bool there;
        const char *name;
    } parts[] = {
        {job->key != NULL, "its key"},
        {job->max_retries != BIDE_NO_RETRY_LIMIT, "its limit of retries"},
        {job->backoff_base_ms != 0 || job->backoff_max_ms != 0, "its backoff"},
        {job->expires_at_ms != 0, "its expiry"},
        {job->retain_ms != 0, "its retention"},
        {job->last_error != NULL, "its last error"},
        {job->ttr_ms % 1000 != 0, "the milliseconds of its ttr"},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].there)
            return parts[i].name;
    return NULL;
}

static bool make_put(const struct deliver *deliver, struct piece *piece, char *error)
{
    const bide_job *job = &piece->job;
    const char *lost = surplus(job);
    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        return bi_refuse(error, "it is %s, and a beanstalkd takes ready and delayed jobs only",
                         bide_state_name(job->state));
    if (lost != NULL && !deliver->lossy)
        return bi_refuse(error, "a beanstalkd has no place for %s; say --lossy to do without",
                         lost);
    piece->options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    piece->options.priority = job->priority;
    piece->options.ttr_ms = job->ttr_ms;
    piece->options.run_at_ms = job->state == BIDE_STATE_DELAYED ? job->run_at_ms : 0;
    piece->op.kind = BIDE_OP_PUT;
    piece->op.put = (bide_put_item){
        .topic = {job->topic, strlen(job->topic)},
        .body = {job->body, job->body_size},
        .options = &piece->options,
    };
    return true;
}

bool bi_deliver_op(const struct deliver *deliver, struct piece *piece, char *error)
{
    if (deliver->plain)
        return make_put(deliver, piece, error);
    piece->op.kind = BIDE_OP_RESTORE;
    piece->op.restore = (bide_restore_args){.job = &piece->job};
    return true;
}

bool bi_deliver_is_final(int code)
{
    static const int finals[] = {BIDE_DRAINING, BIDE_CLOSED, BIDE_ENOMEM,   BIDE_EFULL,
                                 BIDE_EIO,      BIDE_EBUSY,  BIDE_EUNKNOWN, BIDE_ESYSTEM};
    for (size_t i = 0; i < sizeof(finals) / sizeof(finals[0]); i++)
        if (finals[i] == code)
            return true;
    return false;
}
