/* SPDX-License-Identifier: MIT */
#include "core_fixture.h"

struct core_fixture w;

int set_up_core(void **state)
{
    (void)state;
    core_fixture_open(&w, false);
    return 0;
}

int set_up_journal(void **state)
{
    (void)state;
    core_fixture_open(&w, true);
    return 0;
}

int tear_down_core(void **state)
{
    (void)state;
    core_fixture_close(&w);
    return 0;
}

static void core_fixture_complete(void *ctx, bide_op *op)
{
    struct core_fixture *fixture = ctx;
    assert_true(fixture->completed_count < COUNT_OF(fixture->completed));
    op->status = op->private_.status;
    fixture->completed[fixture->completed_count++] = op;
}

void core_fixture_init(struct core_fixture *fixture)
{
    memset(fixture, 0, sizeof(*fixture));
    fixture->now = (struct bi_now){BOOT, EPOCH};
    fixture->options = (struct bi_core_options){
        .limits = {.default_ttr = 60 * SECOND,
                   .max_job_size = 65535,
                   .max_result_size = 65536,
                   .max_error_size = 1024,
                   .max_topics = 1000000,
                   .max_waiters = 100000,
                   .max_done_per_topic = 10000,
                   .topic_cleanup = true},
        .alloc = test_alloc_of(&fixture->alloc),
        .wheel_tick = 10 * MS,
        .wheel_slots = 512,
        .seed = 1,
        .next_id = 1,
        .next_token = TOKEN,
        .complete = core_fixture_complete,
        .ctx = fixture,
    };
}

void core_fixture_start(struct core_fixture *fixture)
{
    fixture->core = bi_core_new(&fixture->options, fixture->now);
    assert_non_null(fixture->core);
}

void core_fixture_open(struct core_fixture *fixture, bool journal)
{
    core_fixture_init(fixture);
    fixture->options.journal = journal;
    core_fixture_start(fixture);
}

void core_fixture_check(struct core_fixture *fixture)
{
    const char *fault = core_check_all(fixture->core);
    if (fault != NULL)
        fail_msg("%s", fault);
}

void core_fixture_close(struct core_fixture *fixture)
{
    core_fixture_check(fixture);
    bi_waiter_close_all(fixture->core, UINT32_MAX);
    bi_core_free(fixture->core);
    assert_int_equal(fixture->alloc.blocks, 0);
    assert_int_equal(fixture->alloc.bytes, 0);
}

void tick(struct core_fixture *fixture)
{
    assert_false(bi_core_tick(fixture->core, fixture->now, UINT32_MAX));
}

void advance_clocks(struct core_fixture *fixture, int64_t us)
{
    fixture->now.mono += us;
    fixture->now.wall += us;
    tick(fixture);
}

void step_wall_clock(struct core_fixture *fixture, int64_t us)
{
    fixture->now.wall += us;
    tick(fixture);
}

int resume_op(struct core_fixture *fixture, bide_op *op)
{
    int code;
    do
        code = bi_core_run(fixture->core, op, fixture->now);
    while (code == BI_AGAIN && !bi_slice_needs_commit(fixture->core, op));
    op->status = code;
    return code;
}

int run(struct core_fixture *fixture, bide_op *op)
{
    op->private_.flags = 0;
    return resume_op(fixture, op);
}

bide_put_options put_options(void)
{
    return (bide_put_options)BIDE_PUT_OPTIONS_INIT;
}

int try_put(struct core_fixture *fixture, const char *topic, const bide_put_options *options,
            uint64_t *id)
{
    bide_op op = {.kind = BIDE_OP_PUT,
                  .put = {.topic = text(topic), .body = text(topic), .options = options}};
    int code = run(fixture, &op);
    *id = op.put.id;
    return code;
}

uint64_t put_with(struct core_fixture *fixture, const char *topic, const bide_put_options *options)
{
    uint64_t id = 0;
    assert_int_equal(try_put(fixture, topic, options, &id), BIDE_OK);
    return id;
}

uint64_t put(struct core_fixture *fixture, const char *topic)
{
    return put_with(fixture, topic, NULL);
}

uint64_t put_delayed(struct core_fixture *fixture, const char *topic, int64_t delay_ms)
{
    bide_put_options options = put_options();
    options.delay_ms = delay_ms;
    return put_with(fixture, topic, &options);
}

uint64_t put_limited(struct core_fixture *fixture, const char *topic, int32_t max_retries)
{
    bide_put_options options = put_options();
    options.max_retries = max_retries;
    return put_with(fixture, topic, &options);
}

uint64_t put_keyed(struct core_fixture *fixture, const char *topic, const char *key)
{
    bide_put_options options = put_options();
    options.key = text(key);
    return put_with(fixture, topic, &options);
}

int try_reserve(struct core_fixture *fixture, const char *topic, uint64_t *id, uint64_t *token)
{
    bide_slice name = text(topic);
    bide_job job;
    bide_op op = {.kind = BIDE_OP_RESERVE,
                  .reserve = {.topics = &name, .topic_count = 1, .jobs = &job, .job_max = 1}};
    int code = run(fixture, &op);
    if (code != BIDE_OK)
        return code;
    *id = job.id;
    *token = job.token;
    bide_job_clear(&job);
    if (op.private_.hold > bi_journal_committed_batch(fixture->core)) {
        assert_true(fixture->taken_count < COUNT_OF(fixture->taken));
        fixture->taken[fixture->taken_count].id = *id;
        fixture->taken[fixture->taken_count].token = *token;
        fixture->taken[fixture->taken_count++].hold = op.private_.hold;
    }
    return code;
}

uint64_t reserve_expected(struct core_fixture *fixture, const char *topic, uint64_t wanted)
{
    uint64_t id = 0;
    uint64_t token = 0;
    assert_int_equal(try_reserve(fixture, topic, &id, &token), BIDE_OK);
    assert_int_equal(id, wanted);
    return token;
}

void assert_nothing_ready(struct core_fixture *fixture, const char *topic)
{
    uint64_t id = 0;
    uint64_t token = 0;
    assert_int_equal(try_reserve(fixture, topic, &id, &token), BIDE_TIMED_OUT);
}

int run_lease_op(struct core_fixture *fixture, bide_op_kind kind, uint64_t id, uint64_t token)
{
    bide_op op = {.kind = kind, .lease = {.id = id, .token = token}};
    return run(fixture, &op);
}

int bury(struct core_fixture *fixture, uint64_t id, uint64_t token)
{
    bide_op op = {.kind = BIDE_OP_BURY,
                  .bury = {.id = id, .token = token, .priority = BIDE_KEEP, .reason = text("why")}};
    return run(fixture, &op);
}

int release(struct core_fixture *fixture, uint64_t id, uint64_t token, int64_t delay_ms)
{
    bide_op op = {
        .kind = BIDE_OP_RELEASE,
        .release = {.id = id, .token = token, .priority = BIDE_KEEP, .delay_ms = delay_ms}};
    return run(fixture, &op);
}

int fail_job(struct core_fixture *fixture, uint64_t id, uint64_t token, int64_t retry_in_ms)
{
    bide_op op = {
        .kind = BIDE_OP_FAIL,
        .fail = {.id = id, .token = token, .error = text("oops"), .retry_in_ms = retry_in_ms}};
    return run(fixture, &op);
}

int done(struct core_fixture *fixture, uint64_t id, uint64_t token, int64_t retain_ms)
{
    bide_op op = {
        .kind = BIDE_OP_DONE,
        .finish = {.id = id, .token = token, .result = text("result"), .retain_ms = retain_ms}};
    return run(fixture, &op);
}

uint64_t kick(struct core_fixture *fixture, const char *topic, uint64_t max)
{
    bide_op op = {.kind = BIDE_OP_KICK, .kick = {.topic = text(topic), .max = max}};
    assert_int_equal(run(fixture, &op), BIDE_OK);
    return op.kick.count;
}

int run_topic_op(struct core_fixture *fixture, bide_op_kind kind, const char *topic, int64_t for_ms)
{
    bide_op op = {.kind = kind,
                  .topic = {.topic = text(topic), .for_ms = for_ms, .delta = for_ms < 0 ? -1 : 1}};
    return run(fixture, &op);
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

bool look(struct core_fixture *fixture, uint64_t id, bide_job *job)
{
    bide_op op = {.kind = BIDE_OP_JOB_STATS, .query = {.id = id, .job = job}};
    return run(fixture, &op) == BIDE_OK;
}

bide_state state_of(struct core_fixture *fixture, uint64_t id)
{
    bide_job job;
    if (!look(fixture, id, &job))
        return BIDE_STATE_GONE;
    bide_state state = job.state;
    bide_job_clear(&job);
    return state;
}

bide_stats stats_of(struct core_fixture *fixture)
{
    bide_stats stats;
    bide_op op = {.kind = BIDE_OP_STATS, .stats = {.stats = &stats}};
    assert_int_equal(run(fixture, &op), BIDE_OK);
    return stats;
}

struct bi_batch seal(struct core_fixture *fixture)
{
    struct bi_batch batch;
    assert_int_equal(bi_journal_seal(fixture->core, fixture->now, &batch), BIDE_OK);
    return batch;
}

void commit_sealed(struct core_fixture *fixture, struct bi_batch *batch)
{
    bi_journal_committed(fixture->core, batch);
    bi_journal_batch_done(fixture->core, batch);
    size_t kept = 0;
    for (size_t i = 0; i < fixture->taken_count; i++) {
        bide_job job = {.id = fixture->taken[i].id, .token = fixture->taken[i].token};
        bide_op op = {.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.job = &job}};
        if (fixture->taken[i].hold <= bi_journal_committed_batch(fixture->core))
            bi_lease_start(fixture->core, &op, fixture->now);
        else
            fixture->taken[kept++] = fixture->taken[i];
    }
    fixture->taken_count = kept;
    core_fixture_check(fixture);
}

void commit(struct core_fixture *fixture)
{
    struct bi_batch batch = seal(fixture);
    commit_sealed(fixture, &batch);
}

void roll_back_sealed(struct core_fixture *fixture, struct bi_batch *batch)
{
    while (bi_journal_rollback(fixture->core, fixture->now, 3))
        continue;
    if (batch != NULL)
        bi_journal_batch_done(fixture->core, batch);
    core_fixture_check(fixture);
}

void fail_commit(struct core_fixture *fixture)
{
    struct bi_batch batch = seal(fixture);
    roll_back_sealed(fixture, &batch);
}
