/* SPDX-License-Identifier: MIT */
/* storage_calls.c - the calls about the store, on any queue: a volatile queue rejects them. */
#include "location.h"
#include "sample_queue.h"

#include <stdint.h>
#include <string.h>

static void wait_recovered_returns_at_once_after_recovery(void)
{
    bide *queue = open_queue("");
    bide_recovery progress = {0};
    OK(bide_wait_recovered(queue, BIDE_FOREVER, NULL));
    OK(bide_wait_recovered(queue, 0, &progress));
    EQ(progress.phase, BIDE_PHASE_RECOVERED);
    EQ(progress.failed, 0);
    OK(bide_shutdown(queue));
    OK(bide_wait_recovered(queue, 0, &progress));
}

static void invalid_wait_recovered_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_recovery progress;
    spoil(&progress, sizeof progress);
    for (size_t i = 0; i < COUNT(bad_times); i++)
        BAD(sample, bide_wait_recovered(sample->queue, bad_times[i], &progress));
    BAD(sample, bide_wait_recovered(NULL, 0, &progress));
    SPOILED(progress);
}

static void invalid_backup_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    BAD(sample, bide_backup(sample->queue, NULL));
    BAD(sample, bide_backup(sample->queue, ""));
    BAD(sample, bide_backup(NULL, "a.db"));
    if (!is_persistent())
        REFUSE(sample, bide_backup(sample->queue, "/nowhere/a.db"), BIDE_ENOTSUP);
}

static void invalid_check_is_rejected(void)
{
    struct sample_queue *sample = new_sample_queue("");
    bide_check_report report;
    spoil(&report, sizeof report);
    BAD(sample, bide_check(NULL, &report));
    SPOILED(report);
    BAD(sample, bide_check(sample->queue, NULL));
}

/* A delete that is not stored may fail, and the job come back: until then nobody is told that it is
 * gone, whichever way it is looked for. */
static void not_found_is_returned_when_the_removal_is_stored(void)
{
    enum { DELETE, FIND, FIRST, KICK, PURGE, KINDS };
    static const bide_op_kind kinds[KINDS] = {BIDE_OP_DELETE, BIDE_OP_FIND, BIDE_OP_PEEK_FIRST,
                                              BIDE_OP_KICK, BIDE_OP_PURGE};
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("key");
    options.delay_ms = 3600000;
    for (size_t kind = FIND; kind < KINDS; kind++) {
        bide_cq *cq = new_cq();
        struct waiter *gone = new_op(BIDE_OP_DELETE, cq), *look = new_op(kinds[kind], cq);
        gone->op.lease.id = put_as(queue, a, "body", &options);
        if (kind == KICK)
            look->op.kick = (bide_kick_args){.topic = slice(a), .max = 10};
        else if (kind == PURGE)
            look->op.purge = (bide_purge_args){.topic = slice(a), .state = BIDE_STATE_DELAYED};
        else
            look->op.query = (bide_query_args){.topic = slice(a),
                                               .key = slice("key"),
                                               .state = BIDE_STATE_DELAYED,
                                               .job = &look->job};
        bide_op *ops[] = {&gone->op, &look->op};
        int pending = bide_submit(queue, ops, COUNT(ops));
        EQ(pending, is_persistent() || !is_in_process() ? 2 : 0);
        EQ(look->op.status == BIDE_PENDING, gone->op.status == BIDE_PENDING);
        if (pending > 0) {
            completes(gone, BIDE_OK);
            completes(look, kind == FIND || kind == FIRST ? BIDE_NOT_FOUND : BIDE_OK);
        }
    }
}

static void every_phase_has_a_name(void)
{
    static const char *const names[] = {"counting", "loading", "ordering", "recovered"};
    for (size_t i = 0; i < COUNT(names); i++)
        TEXT(bide_phase_name((bide_phase)i), strlen(names[i]), names[i]);
    TEXT(bide_phase_name((bide_phase)4), 1, "?");
    TEXT(bide_phase_name((bide_phase)-1), 1, "?");
}

static const struct test tests[] = {
    TEST(wait_recovered_returns_at_once_after_recovery),
    TEST(invalid_wait_recovered_is_rejected),
    TEST(invalid_backup_is_rejected),
    TEST(invalid_check_is_rejected),
    TEST(not_found_is_returned_when_the_removal_is_stored),
    TEST(every_phase_has_a_name),
};

const struct theme storage_calls_theme = {"storage_calls", tests, COUNT(tests)};
