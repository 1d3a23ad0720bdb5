/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_plain.h"

#include <stdlib.h>

/* ---- a job by its id: its body by peek, all else by stats-job ---- */

static bool make_job(struct plain *plain, struct talk *talk)
{
    if (talk->jobs == NULL)
        talk->jobs = calloc(1, sizeof(*talk->jobs));
    talk->job_count = talk->jobs != NULL;
    if (talk->jobs == NULL)
        bi_plain_end(plain, talk, BIDE_ENOMEM);
    return talk->jobs != NULL;
}

static void ask_stats(struct plain *plain, struct talk *talk, uint64_t id)
{
    bi_wire_ask(plain->main, talk, 1, "stats-job %llu", (unsigned long long)id);
}

static void begin_peek(struct plain *plain, struct talk *talk)
{
    uint64_t id = talk->op->look.id;
    if (!make_job(plain, talk))
        return;
    bi_wire_ask(plain->main, talk, 0, "peek %llu", (unsigned long long)id);
    ask_stats(plain, talk, id);
}

static void hear_peek(struct plain *plain, struct talk *talk, size_t index,
                      const struct reply *reply)
{
    bide_job *job = &talk->jobs[0];
    if (bi_reply_is(reply, "NOT_FOUND")) {
        talk->code = BIDE_NOT_FOUND;
    } else if (index == 0 && bi_reply_is(reply, "FOUND")) {
        job->id = reply->numbers[0];
        if (!bi_reply_body(reply, job))
            talk->code = BIDE_ENOMEM;
    } else if (index == 0 || !bi_reply_is(reply, "OK") || !bi_yaml_job(reply, job)) {
        talk->code = bi_plain_error(plain, talk->op, reply);
    }
}

static void end_peek(struct plain *plain, struct talk *talk)
{
    bide_job *job = &talk->jobs[0];
    if (talk->code == BIDE_OK) {
        if (talk->op->kind == BIDE_OP_JOB_STATS)
            job->body = NULL; /* its size was wanted */
        *talk->op->look.job = *job;
        talk->job_count = 0;
    }
    bi_plain_end(plain, talk, talk->code);
}

const struct plain_kind bi_plain_peek = {begin_peek, hear_peek, end_peek, NULL};

/* ---- the first job of a topic ---- */

static void begin_peek_first(struct plain *plain, struct talk *talk)
{
    static const char *const words[] = {[BIDE_STATE_DELAYED] = "delayed",
                                        [BIDE_STATE_READY] = "ready",
                                        [BIDE_STATE_BURIED] = "buried",
                                        [BIDE_STATE_DONE] = NULL};
    const char *word = words[talk->op->look.state];
    if (word == NULL) {
        bi_plain_end(plain, talk,
                     bi_plain_cannot(talk->op, "a look at the first reserved or done job"));
        return;
    }
    if (!make_job(plain, talk))
        return;
    bi_wire_use(plain->main, talk->op->look.topic);
    bi_wire_ask(plain->main, talk, 0, "peek-%s", word);
}

static void end_peek_first(struct plain *plain, struct talk *talk)
{
    if (talk->stage == 0 && talk->code == BIDE_OK && plain->main != NULL) {
        talk->stage = 1;
        ask_stats(plain, talk, talk->jobs[0].id);
        return;
    }
    end_peek(plain, talk);
}

const struct plain_kind bi_plain_peek_first = {begin_peek_first, hear_peek, end_peek_first, NULL};

/* ---- the body alone ---- */

static void begin_body(struct plain *plain, struct talk *talk)
{
    bi_wire_ask(plain->main, talk, 0, "peek %llu", (unsigned long long)talk->op->fetch.id);
}

static void hear_body(struct plain *plain, struct talk *talk, size_t index,
                      const struct reply *reply)
{
    (void)index;
    if (!bi_reply_is(reply, "FOUND")) {
        talk->code = bi_reply_is(reply, "NOT_FOUND") ? BIDE_NOT_FOUND
                                                     : bi_plain_error(plain, talk->op, reply);
        return;
    }
    talk->op->fetch.buf = bide_buf_new(reply->data, reply->size);
    talk->code = talk->op->fetch.buf == NULL ? BIDE_ENOMEM : BIDE_OK;
}

const struct plain_kind bi_plain_body = {begin_body, hear_body, NULL, NULL};

/* ---- is it there? ---- */

static void begin_ping(struct plain *plain, struct talk *talk)
{
    bi_wire_ask(plain->main, talk, 0, "list-tube-used");
}

static void hear_ping(struct plain *plain, struct talk *talk, size_t index,
                      const struct reply *reply)
{
    (void)index;
    talk->code = bi_reply_is(reply, "USING") ? BIDE_OK : bi_plain_error(plain, talk->op, reply);
}

const struct plain_kind bi_plain_ping = {begin_ping, hear_ping, NULL, NULL};

/* beanstalkd reads its log before it listens. */
static void begin_recovered(struct plain *plain, struct talk *talk)
{
    talk->op->recovered.progress = (bide_recovery){.phase = BIDE_PHASE_RECOVERED};
    bi_plain_end(plain, talk, BIDE_OK);
}

const struct plain_kind bi_plain_recovered = {begin_recovered, NULL, NULL, NULL};
