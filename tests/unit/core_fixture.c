/* SPDX-License-Identifier: MIT */
#include "core_fixture.h"

static void core_fixture_complete(void *ctx, bide_op *op)
{
    struct core_fixture *w = ctx;
    assert_true(w->completed_count < COUNT_OF(w->completed));
    op->status = op->private_.status;
    w->completed[w->completed_count++] = op;
}

void core_fixture_init(struct core_fixture *w)
{
    memset(w, 0, sizeof(*w));
    w->now = (struct bi_now){BOOT, EPOCH};
    w->options = (struct bi_core_options){
        .limits = {.default_ttr = 60 * SECOND,
                   .max_job_size = 65535,
                   .max_result_size = 65536,
                   .max_error_size = 1024,
                   .max_topics = 1000000,
                   .max_waiters = 100000,
                   .max_done_per_topic = 10000,
                   .topic_cleanup = true},
        .alloc = test_alloc_of(&w->alloc),
        .wheel_tick = 10 * MS,
        .wheel_slots = 512,
        .seed = 1,
        .next_id = 1,
        .next_token = TOKEN,
        .complete = core_fixture_complete,
        .ctx = w,
    };
}

void core_fixture_start(struct core_fixture *w)
{
    w->core = bi_core_new(&w->options, w->now);
    assert_non_null(w->core);
}

void core_fixture_open(struct core_fixture *w, bool journal)
{
    core_fixture_init(w);
    w->options.journal = journal;
    core_fixture_start(w);
}

void core_fixture_check(struct core_fixture *w)
{
    const char *fault = bi_core_check_all(w->core);
    if (fault != NULL)
        fail_msg("%s", fault);
}

void core_fixture_close(struct core_fixture *w)
{
    core_fixture_check(w);
    bi_waiter_close_all(w->core, UINT32_MAX);
    bi_core_free(w->core);
    assert_int_equal(w->alloc.blocks, 0);
    assert_int_equal(w->alloc.bytes, 0);
}

void tick(struct core_fixture *w)
{
    assert_false(bi_core_tick(w->core, w->now, UINT32_MAX));
}

void advance_clocks(struct core_fixture *w, int64_t us)
{
    w->now.mono += us;
    w->now.wall += us;
    tick(w);
}

void step_wall_clock(struct core_fixture *w, int64_t us)
{
    w->now.wall += us;
    tick(w);
}

int resume_op(struct core_fixture *w, bide_op *op)
{
    int code;
    do
        code = bi_core_run(w->core, op, w->now);
    while (code == BI_AGAIN && !bi_slice_needs_commit(w->core, op));
    op->status = code;
    return code;
}

int run(struct core_fixture *w, bide_op *op)
{
    op->private_.flags = 0;
    return resume_op(w, op);
}

bide_put_options put_options(void)
{
    return (bide_put_options)BIDE_PUT_OPTIONS_INIT;
}

int try_put(struct core_fixture *w, const char *topic, const bide_put_options *options,
            uint64_t *id)
{
    bide_op op = {.kind = BIDE_OP_PUT,
                  .put = {.topic = text(topic), .body = text(topic), .options = options}};
    int code = run(w, &op);
    *id = op.put.id;
    return code;
}

uint64_t put_with(struct core_fixture *w, const char *topic, const bide_put_options *options)
{
    uint64_t id = 0;
    assert_int_equal(try_put(w, topic, options, &id), BIDE_OK);
    return id;
}

uint64_t put(struct core_fixture *w, const char *topic)
{
    return put_with(w, topic, NULL);
}

uint64_t put_delayed(struct core_fixture *w, const char *topic, int64_t delay_ms)
{
    bide_put_options options = put_options();
    options.delay_ms = delay_ms;
    return put_with(w, topic, &options);
}

uint64_t put_limited(struct core_fixture *w, const char *topic, int32_t max_retries)
{
    bide_put_options options = put_options();
    options.max_retries = max_retries;
    return put_with(w, topic, &options);
}

uint64_t put_keyed(struct core_fixture *w, const char *topic, const char *key)
{
    bide_put_options options = put_options();
    options.key = text(key);
    return put_with(w, topic, &options);
}

int try_reserve(struct core_fixture *w, const char *topic, uint64_t *id, uint64_t *token)
{
    bide_slice name = text(topic);
    bide_job job;
    bide_op op = {.kind = BIDE_OP_RESERVE,
                  .reserve = {.topics = &name, .topic_count = 1, .jobs = &job, .job_max = 1}};
    int code = run(w, &op);
    if (code != BIDE_OK)
        return code;
    *id = job.id;
    *token = job.token;
    bide_job_clear(&job);
    if (op.private_.hold > bi_journal_committed_batch(w->core)) {
        assert_true(w->taken_count < COUNT_OF(w->taken));
        w->taken[w->taken_count].id = *id;
        w->taken[w->taken_count].token = *token;
        w->taken[w->taken_count++].hold = op.private_.hold;
    }
    return code;
}

uint64_t reserve_expected(struct core_fixture *w, const char *topic, uint64_t wanted)
{
    uint64_t id = 0;
    uint64_t token = 0;
    assert_int_equal(try_reserve(w, topic, &id, &token), BIDE_OK);
    assert_int_equal(id, wanted);
    return token;
}

void assert_nothing_ready(struct core_fixture *w, const char *topic)
{
    uint64_t id = 0;
    uint64_t token = 0;
    assert_int_equal(try_reserve(w, topic, &id, &token), BIDE_TIMED_OUT);
}

int run_lease_op(struct core_fixture *w, bide_op_kind kind, uint64_t id, uint64_t token)
{
    bide_op op = {.kind = kind, .lease = {.id = id, .token = token}};
    return run(w, &op);
}

int bury(struct core_fixture *w, uint64_t id, uint64_t token)
{
    bide_op op = {.kind = BIDE_OP_BURY,
                  .bury = {.id = id, .token = token, .priority = BIDE_KEEP, .reason = text("why")}};
    return run(w, &op);
}

int release(struct core_fixture *w, uint64_t id, uint64_t token, int64_t delay_ms)
{
    bide_op op = {
        .kind = BIDE_OP_RELEASE,
        .release = {.id = id, .token = token, .priority = BIDE_KEEP, .delay_ms = delay_ms}};
    return run(w, &op);
}

int fail_job(struct core_fixture *w, uint64_t id, uint64_t token, int64_t retry_in_ms)
{
    bide_op op = {
        .kind = BIDE_OP_FAIL,
        .fail = {.id = id, .token = token, .error = text("oops"), .retry_in_ms = retry_in_ms}};
    return run(w, &op);
}

int done(struct core_fixture *w, uint64_t id, uint64_t token, int64_t retain_ms)
{
    bide_op op = {
        .kind = BIDE_OP_DONE,
        .finish = {.id = id, .token = token, .result = text("result"), .retain_ms = retain_ms}};
    return run(w, &op);
}

uint64_t kick(struct core_fixture *w, const char *topic, uint64_t max)
{
    bide_op op = {.kind = BIDE_OP_KICK, .kick = {.topic = text(topic), .max = max}};
    assert_int_equal(run(w, &op), BIDE_OK);
    return op.kick.count;
}

int run_topic_op(struct core_fixture *w, bide_op_kind kind, const char *topic, int64_t for_ms)
{
    bide_op op = {.kind = kind,
                  .topic = {.topic = text(topic), .for_ms = for_ms, .delta = for_ms < 0 ? -1 : 1}};
    return run(w, &op);
}

bide_op update_of(uint64_t id)
{
    return (bide_op){.kind = BIDE_OP_UPDATE,
                     .update = {.id = id,
                                .priority = BIDE_KEEP,
                                .delay_ms = BIDE_KEEP,
                                .run_at_ms = BIDE_KEEP,
                                .ttr_ms = BIDE_KEEP}};
}

bool look(struct core_fixture *w, uint64_t id, bide_job *job)
{
    bide_op op = {.kind = BIDE_OP_JOB_STATS, .query = {.id = id, .job = job}};
    return run(w, &op) == BIDE_OK;
}

bide_state state_of(struct core_fixture *w, uint64_t id)
{
    bide_job job;
    if (!look(w, id, &job))
        return BIDE_STATE_GONE;
    bide_state state = job.state;
    bide_job_clear(&job);
    return state;
}

bide_stats stats_of(struct core_fixture *w)
{
    bide_stats stats;
    bide_op op = {.kind = BIDE_OP_STATS, .stats = {.stats = &stats}};
    assert_int_equal(run(w, &op), BIDE_OK);
    return stats;
}

struct bi_batch seal(struct core_fixture *w)
{
    struct bi_batch batch;
    assert_int_equal(bi_journal_seal(w->core, w->now, &batch), BIDE_OK);
    return batch;
}

void commit_sealed(struct core_fixture *w, struct bi_batch *batch)
{
    bi_journal_committed(w->core, batch);
    bi_journal_batch_done(w->core, batch);
    size_t kept = 0;
    for (size_t i = 0; i < w->taken_count; i++) {
        bide_job job = {.id = w->taken[i].id, .token = w->taken[i].token};
        bide_op op = {.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.job = &job}};
        if (w->taken[i].hold <= bi_journal_committed_batch(w->core))
            bi_lease_start(w->core, &op, w->now);
        else
            w->taken[kept++] = w->taken[i];
    }
    w->taken_count = kept;
    core_fixture_check(w);
}

void commit(struct core_fixture *w)
{
    struct bi_batch batch = seal(w);
    commit_sealed(w, &batch);
}

void roll_back_sealed(struct core_fixture *w, struct bi_batch *batch)
{
    while (bi_journal_rollback(w->core, w->now, 3))
        continue;
    if (batch != NULL)
        bi_journal_batch_done(w->core, batch);
    core_fixture_check(w);
}

void fail_commit(struct core_fixture *w)
{
    struct bi_batch batch = seal(w);
    roll_back_sealed(w, &batch);
}
