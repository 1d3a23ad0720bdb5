/* SPDX-License-Identifier: MIT */
#include "slow_store.h"

static int slow_start(struct store *store, struct store_start *start, char *error)
{
    (void)store;
    (void)error;
    *start = (struct store_start){.next_id = 1, .next_token = 1000};
    return BIDE_OK;
}

int slow_pauses(struct store *store, store_visit visit, void *ctx, char *error)
{
    (void)store;
    (void)visit;
    (void)ctx;
    (void)error;
    return BIDE_OK;
}

static int slow_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                     store_visit visit, void *ctx, char *error)
{
    (void)after;
    (void)below;
    (void)max;
    slow_pauses(store, visit, ctx, error);
    return BIDE_NOT_FOUND;
}

int slow_count(struct store *store, uint64_t below, uint64_t *count, char *error)
{
    (void)store;
    (void)below;
    (void)error;
    *count = 0;
    return BIDE_OK;
}

int slow_fetch(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error)
{
    (void)id;
    slow_pauses(store, visit, ctx, error);
    return BIDE_NOT_FOUND;
}

static void slow_apply(struct slow_store *slow, const struct bi_batch *batch)
{
    slow->last_count = batch->count;
    for (size_t i = 0; i < batch->count; i++) {
        slow->jobs += batch->records[i].kind == BI_INSERT;
        slow->jobs -= batch->records[i].kind == BI_REMOVE;
    }
}

static int slow_commit(struct store *store, const struct bi_batch *batch, char *error)
{
    struct slow_store *slow = (struct slow_store *)(void *)store;
    pthread_mutex_lock(&slow->lock);
    slow->started++;
    pthread_cond_broadcast(&slow->changed);
    while (slow->shut && slow->permits == 0)
        pthread_cond_wait(&slow->changed, &slow->lock);
    if (slow->permits > 0)
        slow->permits--;
    int code = slow->failures > 0 ? BIDE_EIO : BIDE_OK;
    if (slow->failures > 0 && slow->failures != FOR_EVER)
        slow->failures--;
    if (code == BIDE_OK)
        slow_apply(slow, batch);
    else
        strcpy(error, FAILURE);
    slow->finished++;
    pthread_cond_broadcast(&slow->changed);
    pthread_mutex_unlock(&slow->lock);
    return code;
}

static void slow_close(struct store *store)
{
    struct slow_store *slow = (struct slow_store *)(void *)store;
    if (slow->closed != NULL)
        *slow->closed = true;
    pthread_cond_destroy(&slow->changed);
    pthread_mutex_destroy(&slow->lock);
    free(slow);
}

static const struct store_ops slow_store_ops = {
    .name = "slow",
    .persistent = true,
    .start = slow_start,
    .scan_topics = slow_pauses,
    .count = slow_count,
    .fetch = slow_fetch,
    .scan = slow_scan,
    .commit = slow_commit,
    .close = slow_close,
};

const struct backend_ops slow_backend_ops = {
    .scheme = "slow",
    .submit = bi_local_submit,
    .commit_age = bi_commit_age,
    .set_close_deadline = bi_local_set_close_deadline,
    .cancel = bi_local_cancel,
    .shutdown = bi_local_shutdown,
    .close = bi_local_close,
    .free = bi_local_free,
    .may_block = true,
};

void slow_await(struct slow_store *slow, unsigned started)
{
    pthread_mutex_lock(&slow->lock);
    while (slow->started < started)
        pthread_cond_wait(&slow->changed, &slow->lock);
    pthread_mutex_unlock(&slow->lock);
}

void slow_set(struct slow_store *slow, bool shut, unsigned failures)
{
    pthread_mutex_lock(&slow->lock);
    slow->shut = shut;
    slow->failures = failures;
    pthread_cond_broadcast(&slow->changed);
    pthread_mutex_unlock(&slow->lock);
}

void slow_permit(struct slow_store *slow)
{
    pthread_mutex_lock(&slow->lock);
    slow->permits++;
    pthread_cond_broadcast(&slow->changed);
    pthread_mutex_unlock(&slow->lock);
}

unsigned slow_started(struct slow_store *slow)
{
    pthread_mutex_lock(&slow->lock);
    unsigned started = slow->started;
    pthread_mutex_unlock(&slow->lock);
    return started;
}

int64_t slow_jobs(struct slow_store *slow)
{
    pthread_mutex_lock(&slow->lock);
    int64_t jobs = slow->jobs;
    pthread_mutex_unlock(&slow->lock);
    return jobs;
}

size_t slow_last_count(struct slow_store *slow)
{
    pthread_mutex_lock(&slow->lock);
    size_t count = slow->last_count;
    pthread_mutex_unlock(&slow->lock);
    return count;
}

bide *slow_open(const char *url, struct slow_store **slow)
{
    *slow = calloc(1, sizeof(**slow));
    bide *queue = calloc(1, sizeof(*queue));
    if (*slow == NULL || queue == NULL)
        abort();
    (*slow)->base.ops = &slow_store_ops;
    pthread_mutex_init(&(*slow)->lock, NULL);
    pthread_cond_init(&(*slow)->changed, NULL);
    struct bi_url parsed;
    const char *reason;
    struct backend_context context = {.finish = bi_submit_finish, .complete = bi_cq_complete};
    assert_true(bi_url_parse(&parsed, url, &reason));
    assert_int_equal(bi_options_resolve(NULL, &parsed, &context.options), BIDE_OK);
    queue->options = context.options;
    char error[BIDE_ERROR_SIZE];
    assert_int_equal(
        bi_local_open(&context, &slow_backend_ops, &(*slow)->base, &queue->backend, error),
        BIDE_OK);
    slow_await(*slow, 1); /* the first batch stores nothing but the limit of tokens */
    return queue;
}

int submit_one(bide *queue, bide_op *op)
{
    bide_op *list[1] = {op};
    return bide_submit(queue, list, 1);
}

bide_op put_op(bide_cq *cq, const char *topic)
{
    return (bide_op){
        .kind = BIDE_OP_PUT, .cq = cq, .put = {.topic = text(topic), .body = text("body")}};
}

bide_op lease_op(bide_cq *cq, bide_op_kind kind, uint64_t id, uint64_t token)
{
    return (bide_op){.kind = kind, .cq = cq, .lease = {.id = id, .token = token}};
}

bide_op reserve_op(bide_cq *cq, const bide_slice *topic, bide_job *job)
{
    return (bide_op){.kind = BIDE_OP_RESERVE,
                     .cq = cq,
                     .reserve = {.topics = topic, .topic_count = 1, .jobs = job, .job_max = 1}};
}

void await_completions(bide_cq *cq, int wanted)
{
    for (int count = 0; count < wanted;)
        count += bide_cq_wait(cq, BIDE_FOREVER);
}
