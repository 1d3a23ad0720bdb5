/* SPDX-License-Identifier: MIT */
#include "journal_fixture.h"

/* jobs and bytes limit the changes and the bytes of bodies in a batch; 0: no limit. */
static void open_with(uint32_t jobs, uint64_t bytes)
{
    core_fixture_init(&w);
    w.options.journal = true;
    w.options.limits.batch_jobs = jobs;
    w.options.limits.batch_bytes = bytes;
    core_fixture_start(&w);
    commit(&w);
}

int set_up_small_batches(void **state)
{
    (void)state;
    open_with(2, 0);
    return 0;
}

void reopen_with(uint32_t jobs, uint64_t bytes)
{
    core_fixture_close(&w);
    open_with(jobs, bytes);
}

uint64_t put_size(size_t size)
{
    static const char bytes[10000];
    bide_op op = {.kind = BIDE_OP_PUT, .put = {.topic = text("a"), .body = {bytes, size}}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    return op.put.id;
}

uint64_t hold_of(uint64_t id)
{
    bide_job job;
    bide_op op = {.kind = BIDE_OP_JOB_STATS, .query = {.id = id, .job = &job}};
    if (run(&w, &op) == BIDE_OK)
        bide_job_clear(&job);
    return op.private_.hold > bi_journal_committed_batch(w.core) ? op.private_.hold : 0;
}

void commit_count(size_t count)
{
    struct bi_batch batch = seal(&w);
    assert_int_equal(batch.count, count);
    commit_sealed(&w, &batch);
}

void commit_all(void)
{
    while (bi_journal_is_dirty(w.core))
        commit(&w);
}

void next_batch(void)
{
    uint64_t gathering = bi_journal_open_batch(w.core);
    while (bi_journal_open_batch(w.core) == gathering)
        put(&w, "b");
}

const struct bi_record *record_of(const struct bi_batch *batch, uint64_t id)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->records[i].image.id == id)
            return &batch->records[i];
    return NULL;
}

int set_priority(uint64_t id, int64_t priority)
{
    bide_op op = update_of(id);
    op.update.priority = priority;
    return run(&w, &op);
}

uint32_t priority_of(uint64_t id)
{
    bide_job job;
    assert_true(look(&w, id, &job));
    uint32_t priority = job.priority;
    bide_job_clear(&job);
    return priority;
}

uint64_t replace(const char *key)
{
    bide_put_options options = put_options();
    options.key = text(key);
    options.conflict = BIDE_REPLACE;
    return put_with(&w, "a", &options);
}
