/* SPDX-License-Identifier: MIT */
#include "fake_store.h"

static struct fake_store *fake_of(struct store *store)
{
    return (struct fake_store *)(void *)store;
}

void fake_enter_gate(struct fake_store *fake, enum fake_gate gate)
{
    fake->gates[gate].arrived++;
    pthread_cond_broadcast(&fake->changed);
    while (fake->gates[gate].shut && fake->gates[gate].permits == 0)
        pthread_cond_wait(&fake->changed, &fake->lock);
    if (fake->gates[gate].permits > 0)
        fake->gates[gate].permits--;
}

void gate_set(struct fake_store *fake, enum fake_gate gate, bool shut, unsigned permits)
{
    pthread_mutex_lock(&fake->lock);
    fake->gates[gate].shut = shut;
    fake->gates[gate].permits = permits;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
}

void gate_shut(struct fake_store *fake, enum fake_gate gate)
{
    gate_set(fake, gate, true, 0);
}

void gate_open(struct fake_store *fake, enum fake_gate gate)
{
    gate_set(fake, gate, false, 0);
}

unsigned gate_arrived(struct fake_store *fake, enum fake_gate gate)
{
    pthread_mutex_lock(&fake->lock);
    unsigned arrived = fake->gates[gate].arrived;
    pthread_mutex_unlock(&fake->lock);
    return arrived;
}

void gate_await(struct fake_store *fake, enum fake_gate gate, unsigned arrived)
{
    pthread_mutex_lock(&fake->lock);
    while (fake->gates[gate].arrived < arrived)
        pthread_cond_wait(&fake->changed, &fake->lock);
    pthread_mutex_unlock(&fake->lock);
}

void fake_drop(struct fake_store *fake, uint64_t id)
{
    if (fake->rows[id] == NULL)
        return;
    bi_image_unref(&fake->rows[id]->image);
    free(fake->rows[id]);
    fake->rows[id] = NULL;
}

static void fake_apply(struct fake_store *fake, const struct bi_record *record)
{
    const struct bi_image *image = &record->image;
    if (record->kind == BI_TOPIC)
        return;
    assert(image->id > 0 && image->id < FAKE_ROWS);
    if (record->kind == BI_REMOVE) {
        fake_drop(fake, image->id);
        return;
    }
    struct fake_row *row = calloc(1, sizeof(*row));
    row->image = *image;
    bi_image_ref(image);
    if (record->kind == BI_UPDATE)
        row->image.body = bide_buf_ref(fake->rows[image->id]->image.body);
    fake_drop(fake, image->id);
    fake->rows[image->id] = row;
}

struct bi_image *fake_row(struct fake_store *fake, uint64_t id)
{
    struct fake_row *row = calloc(1, sizeof(*row));
    row->image = (struct bi_image){.id = id,
                                   .state = BIDE_STATE_READY,
                                   .priority = BIDE_DEFAULT_PRIORITY,
                                   .ttr = 60000000,
                                   .max_retries = BIDE_NO_RETRY_LIMIT,
                                   .created = 1000000,
                                   .since = 1000000,
                                   .body_size = sizeof(FAKE_BODY) - 1,
                                   .body = bide_buf_new(FAKE_BODY, sizeof(FAKE_BODY) - 1),
                                   .topic = "old"};
    fake->rows[id] = row;
    if (fake->next_id <= id)
        fake->next_id = id + 1;
    return &row->image;
}

struct bi_image fake_stored(struct fake_store *fake, uint64_t id)
{
    struct bi_image image = {.id = 0};
    pthread_mutex_lock(&fake->lock);
    if (fake->rows[id] != NULL)
        image = fake->rows[id]->image;
    pthread_mutex_unlock(&fake->lock);
    return image;
}

static int fake_start(struct store *store, struct store_start *start, char *error)
{
    (void)error;
    *start = (struct store_start){.next_id = fake_of(store)->next_id, .next_token = 1000};
    return BIDE_OK;
}

static int fake_count(struct store *store, uint64_t below, uint64_t *count, char *error)
{
    struct fake_store *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    bool fails = fake->count_failures > 0;
    fake->count_failures -= fails;
    *count = 0;
    for (uint64_t id = 1; id < below && id < FAKE_ROWS; id++)
        *count += fake->rows[id] != NULL;
    pthread_mutex_unlock(&fake->lock);
    strcpy(error, fails ? "cannot count" : "");
    return fails ? BIDE_EIO : BIDE_OK;
}

/* Rows are copied out, because what visits them may lock the queue. */
static struct fake_row fake_copy(const struct fake_row *row)
{
    bi_image_ref(&row->image);
    return *row;
}

/* Shows a copied row as scans of a real store show it, without its body; then it is done with. */
static int fake_visit(const struct fake_row *row, store_visit visit, void *ctx)
{
    struct bi_record record = {.kind = BI_INSERT, .image = row->image};
    record.image.body = NULL;
    int code = visit(ctx, &record, row->damage);
    bi_image_unref(&row->image);
    return code;
}

static int fake_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                     store_visit visit, void *ctx, char *error)
{
    struct fake_store *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    fake_enter_gate(fake, GATE_SCAN);
    int code = BIDE_OK;
    if (fake->scan_failures > 0) {
        fake->scan_failures--;
        strcpy(error, "the disk is on fire");
        code = BIDE_EIO;
    }
    struct fake_row rows[32];
    size_t count = 0;
    if (max > 32)
        max = 32;
    uint64_t id = *after;
    while (code == BIDE_OK && count < max && ++id < below && id < FAKE_ROWS)
        if (fake->rows[id] != NULL)
            rows[count++] = fake_copy(fake->rows[id]);
    pthread_mutex_unlock(&fake->lock);
    for (size_t i = 0; i < count; i++) {
        assert(fake_visit(&rows[i], visit, ctx) == BIDE_OK);
        *after = rows[i].image.id;
    }
    pthread_mutex_lock(&fake->lock);
    fake_enter_gate(fake, GATE_SCANNED);
    pthread_mutex_unlock(&fake->lock);
    return code != BIDE_OK ? code : count < max ? BIDE_NOT_FOUND : BIDE_OK;
}

static int fake_fetch(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error)
{
    struct fake_store *fake = fake_of(store);
    struct fake_row row = {.damage = NULL};
    pthread_mutex_lock(&fake->lock);
    fake_enter_gate(fake, GATE_FETCH);
    int code = fake->fetch_code;
    bool found = id < FAKE_ROWS && fake->rows[id] != NULL;
    if (found && code == BIDE_OK)
        row = fake_copy(fake->rows[id]);
    pthread_mutex_unlock(&fake->lock);
    strcpy(error, "it cannot be fetched");
    if (code == BIDE_OK)
        code = found ? fake_visit(&row, visit, ctx) : BIDE_NOT_FOUND;
    pthread_mutex_lock(&fake->lock);
    fake_enter_gate(fake, GATE_FETCHED);
    pthread_mutex_unlock(&fake->lock);
    return code;
}

static void fake_read(struct store *store, struct store_body_request *requests, size_t n)
{
    struct fake_store *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    fake_enter_gate(fake, GATE_READ);
    bool retry = fake->retry > 0;
    if (fake->retry > 0 && fake->retry != FOR_EVER)
        fake->retry--;
    for (size_t i = 0; i < n; i++) {
        struct store_body_request *request = &requests[i];
        const struct fake_row *row = request->id < FAKE_ROWS ? fake->rows[request->id] : NULL;
        unsigned nth = row == NULL ? 0 : ++fake->reads[request->id];
        bool fails = fake->fails != NULL && fake->fails(request->id, nth);
        request->retry = retry || fails;
        request->out_of_memory = fails && fake->out_of_memory;
        request->body = NULL;
        strcpy(request->reason, "the page is torn");
        if (!request->retry && row != NULL && request->id != fake->bad)
            request->body = bide_buf_ref(row->image.body);
    }
    pthread_mutex_unlock(&fake->lock);
}

static int fake_commit(struct store *store, const struct bi_batch *batch, char *error)
{
    struct fake_store *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    fake->overlapped |= ++fake->committing > 1;
    fake_enter_gate(fake, GATE_COMMIT);
    int code = fake->commit_failures > 0 ? fake->commit_code : BIDE_OK;
    if (fake->commit_failures > 0 && fake->commit_failures != FOR_EVER)
        fake->commit_failures--;
    fake->unordered |= batch->number < fake->number;
    fake->number = batch->number;
    fake->commits++;
    fake->largest = batch->count > fake->largest ? batch->count : fake->largest;
    for (size_t i = 0; code == BIDE_OK && i < batch->count; i++)
        fake_apply(fake, &batch->records[i]);
    if (code != BIDE_OK)
        strcpy(error, FAILURE);
    if (fake->reopens)
        store->reopened = true;
    fake->reopens = false;
    fake->committing--;
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    return code;
}

static int fake_quarantine(struct store *store, uint64_t id, const char *reason, char *error)
{
    struct fake_store *fake = fake_of(store);
    (void)error;
    pthread_mutex_lock(&fake->lock);
    fake->quarantined_id = id;
    fake->quarantine_count++;
    strncpy(fake->quarantine_reason, reason, sizeof(fake->quarantine_reason) - 1);
    fake_drop(fake, id);
    pthread_cond_broadcast(&fake->changed);
    pthread_mutex_unlock(&fake->lock);
    return BIDE_OK;
}

static void fake_close(struct store *store)
{
    fake_of(store)->closed = true;
}

const struct store_ops fake_store_ops = {
    .name = "fake",
    .persistent = true,
    .start = fake_start,
    .scan_topics = slow_pauses,
    .count = fake_count,
    .fetch = fake_fetch,
    .scan = fake_scan,
    .read = fake_read,
    .commit = fake_commit,
    .quarantine = fake_quarantine,
    .close = fake_close,
};

struct fake_store *fake_new(void)
{
    struct fake_store *fake = calloc(1, sizeof(*fake));
    fake->base.ops = &fake_store_ops;
    fake->next_id = 1;
    pthread_mutex_init(&fake->lock, NULL);
    pthread_cond_init(&fake->changed, NULL);
    return fake;
}

void fake_free(struct fake_store *fake)
{
    assert_true(fake->closed);
    assert_false(fake->overlapped);
    assert_false(fake->unordered);
    for (uint64_t id = 0; id < FAKE_ROWS; id++)
        fake_drop(fake, id);
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

bide *fake_open(struct fake_store *fake, const char *url, const bide_options *options)
{
    bide *queue = calloc(1, sizeof(*queue));
    struct bi_url parsed;
    const char *reason;
    struct backend_context context = {.finish = bi_submit_finish, .complete = bi_cq_complete};
    assert_true(bi_url_parse(&parsed, url, &reason));
    assert_int_equal(bi_options_resolve(options, &parsed, &context.options), BIDE_OK);
    queue->options = context.options;
    char error[BIDE_ERROR_SIZE];
    assert_int_equal(
        bi_local_open(&context, &slow_backend_ops, &fake->base, &queue->backend, error), BIDE_OK);
    return queue;
}

void fake_await_ready(bide *queue)
{
    assert_int_equal(bide_wait_recovered(queue, BIDE_FOREVER, NULL), BIDE_OK);
    assert_int_equal(bide_pause(queue, "settled", 1000), BIDE_OK);
    assert_int_equal(bide_resume(queue, "settled"), BIDE_OK);
}

void *fake_close_queue(void *queue)
{
    assert(bide_close(queue) == BIDE_OK);
    return NULL;
}

int fake_tear_down(struct fake_store *fake, bide *queue, bide_cq *cq)
{
    for (int gate = 0; gate < GATES; gate++)
        gate_open(fake, gate);
    assert_int_equal(bide_close(queue), BIDE_OK);
    assert_int_equal(bide_cq_free(cq), BIDE_OK);
    fake_free(fake);
    return 0;
}
