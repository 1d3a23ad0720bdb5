/* SPDX-License-Identifier: MIT */
#include "core/worker.h"

#include "core/core_internal.h"
#include "op/worker_info.h"

#include <assert.h>
#include <string.h>

/* Bytes that they count for max_memory: themselves, their buckets, entry of the list and timer. */
#define WORKER_COST (sizeof(struct worker_entry) + 8 + 16 + 48)
#define TOPIC_COST  (sizeof(struct worker_topic) + 8)

/* ---- tables ---- */

static uint64_t entry_hash(const void *ctx, uint32_t ref)
{
    return ((const struct worker_entry *)bi_pool_at(ctx, ref))->hash;
}

static uint32_t *entry_link(const void *ctx, uint32_t ref)
{
    return &((struct worker_entry *)bi_pool_at(ctx, ref))->link;
}

static uint64_t topic_hash(const void *ctx, uint32_t ref)
{
    return ((const struct worker_topic *)bi_pool_at(ctx, ref))->hash;
}

static uint32_t *topic_link(const void *ctx, uint32_t ref)
{
    return &((struct worker_topic *)bi_pool_at(ctx, ref))->link;
}

static const struct hash_table_ops entries = {entry_hash, entry_link, 0};
static const struct hash_table_ops topics = {topic_hash, topic_link, 0};

static uint64_t hash_of(const struct core *core, bide_slice name)
{
    return bi_keyed_hash_bytes(&core->name_secret, name.data, name.size);
}

/* A worker of the library has a name of its own; connections of a server may share one. */
static uint64_t hash_of_worker(const struct core *core, bide_slice name, uint64_t connection)
{
    return bi_keyed_hash_u64(&core->name_secret, hash_of(core, name) ^ connection);
}

static bool same(bide_slice a, const void *data, size_t size)
{
    return a.size == size && memcmp(a.data, data, size) == 0;
}

bool bi_workers_init(struct core *core)
{
    struct announced_workers *all = &core->workers;
    bi_pool_init(&all->entries, core->alloc, sizeof(struct worker_entry), 5);
    bi_pool_init(&all->topics, core->alloc, sizeof(struct worker_topic), 4);
    bi_serial_list_init(&all->list, core->alloc);
    return bi_hash_table_init(&all->by_name, core->alloc) &&
           bi_hash_table_init(&all->by_topic, core->alloc);
}

void bi_workers_done(struct core *core)
{
    struct announced_workers *all = &core->workers;
    const struct worker_entry *worker = bi_worker_at_or_after(core, 0);
    for (; worker != NULL; worker = bi_worker_at_or_after(core, worker->serial + 1))
        bide_buf_unref(worker->data);

    bi_serial_list_done(&all->list);
    bi_hash_table_done(&all->by_name);
    bi_hash_table_done(&all->by_topic);
    bi_pool_done(&all->entries);
    bi_pool_done(&all->topics);
}

/* ---- the topics of workers ---- */

static struct worker_topic *find_topic(const struct core *core, bide_slice name, uint64_t hash)
{
    const struct announced_workers *all = &core->workers;
    uint32_t ref = bi_hash_table_first(&all->by_topic, hash);
    while (ref != 0) {
        struct worker_topic *topic = bi_pool_at(&all->topics, ref);
        if (topic->hash == hash && same(name, topic->name, topic->size))
            return topic;
        ref = topic->link;
    }
    return NULL;
}

uint32_t bi_worker_count(const struct core *core, bide_slice topic)
{
    const struct worker_topic *found = find_topic(core, topic, hash_of(core, topic));
    return found == NULL ? 0 : found->workers;
}

static bool add_topic(struct core *core, bide_slice name)
{
    struct announced_workers *all = &core->workers;
    uint64_t hash = hash_of(core, name);
    struct worker_topic *topic = find_topic(core, name, hash);

    if (topic == NULL) {
        uint32_t ref = bi_pool_alloc(&all->topics);
        if (ref == 0)
            return false;
        topic = bi_pool_at(&all->topics, ref);
        *topic = (struct worker_topic){.self = ref, .hash = hash, .size = (uint8_t)name.size};
        memcpy(topic->name, name.data, name.size);
        bi_hash_table_insert(&all->by_topic, &topics, &all->topics, ref);
        core->memory += TOPIC_COST;
    }
    topic->workers++;
    return true;
}

static void remove_topic(struct core *core, bide_slice name)
{
    struct announced_workers *all = &core->workers;
    struct worker_topic *topic = find_topic(core, name, hash_of(core, name));
    assert(topic != NULL && topic->workers > 0);
    if (--topic->workers > 0)
        return;
    bi_hash_table_remove(&all->by_topic, &topics, &all->topics, topic->self);
    bi_pool_free(&all->topics, topic->self);
    core->memory -= TOPIC_COST;
}

/* What the core reads of an announcement. */
struct head {
    bide_worker_info info;
    bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
};

static void read_head(const bide_buf *data, struct head *head)
{
    bi_worker_info_read_head(bide_buf_data(data), bide_buf_size(data), &head->info, head->topics);
}

static void remove_topics(struct core *core, const bide_buf *data)
{
    struct head head;
    read_head(data, &head);
    core->work += head.info.topic_count;
    for (size_t i = 0; i < head.info.topic_count; i++)
        remove_topic(core, head.topics[i]);
}

/* All of them, or none when out of memory. */
static bool add_topics(struct core *core, const bide_slice *list, size_t count)
{
    core->work += count;
    for (size_t i = 0; i < count; i++) {
        if (add_topic(core, list[i]))
            continue;
        while (i-- > 0)
            remove_topic(core, list[i]);
        return false;
    }
    return true;
}

/* ---- workers ---- */

struct worker_entry *bi_worker_at_or_after(const struct core *core, uint64_t serial)
{
    const struct announced_workers *all = &core->workers;
    uint32_t ref = bi_serial_list_at_or_after(&all->list, serial);
    return ref == 0 ? NULL : bi_pool_at(&all->entries, ref);
}

static struct worker_entry *find_worker(const struct core *core, const bide_worker_info *info)
{
    const struct announced_workers *all = &core->workers;
    uint64_t hash = hash_of_worker(core, info->name, info->connection);
    uint32_t ref = bi_hash_table_first(&all->by_name, hash);
    while (ref != 0) {
        struct worker_entry *worker = bi_pool_at(&all->entries, ref);
        if (worker->hash == hash && worker->connection == info->connection &&
            same(info->name, worker->name.data, worker->name.size))
            return worker;
        ref = worker->link;
    }
    return NULL;
}

static void remove_worker(struct core *core, struct worker_entry *worker)
{
    struct announced_workers *all = &core->workers;
    assert(bi_pool_at(&all->entries, worker->self) == worker);

    bi_timers_clear(&core->mono, &worker->timer);
    bi_timers_unreserve(&core->mono);
    bi_hash_table_remove(&all->by_name, &entries, &all->entries, worker->self);
    bi_serial_list_remove(&all->list, worker->serial);

    remove_topics(core, worker->data);
    core->memory -= WORKER_COST + bide_buf_size(worker->data);
    bide_buf_unref(worker->data);
    bi_pool_free(&all->entries, worker->self);
}

void bi_fire_worker(struct core *core, struct timer *timer)
{
    remove_worker(core, BI_TIMER_OWNER(timer, struct worker_entry, timer));
}

/* Creates a worker without an announcement. NULL when out of memory. */
static struct worker_entry *create(struct core *core, const bide_worker_info *info)
{
    struct announced_workers *all = &core->workers;
    uint32_t ref = 0;
    if (!bi_serial_list_reserve(&all->list) || !bi_timers_reserve(&core->mono))
        return NULL;
    ref = bi_pool_alloc(&all->entries);
    if (ref == 0) {
        bi_timers_unreserve(&core->mono);
        return NULL;
    }

    struct worker_entry *worker = bi_pool_at(&all->entries, ref);
    *worker = (struct worker_entry){.self = ref,
                                    .name = info->name,
                                    .connection = info->connection,
                                    .hash = hash_of_worker(core, info->name, info->connection),
                                    .serial = bi_serial_list_add(&all->list, ref)};
    bi_timer_init(&worker->timer, TIMER_WORKER, TIMER_CLASS_ANNOUNCEMENT, worker->serial);
    bi_hash_table_insert(&all->by_name, &entries, &all->entries, ref);
    core->memory += WORKER_COST;
    return worker;
}

static int announce(struct core *core, bide_op *op, bide_buf *data, const struct head *head,
                    struct worker_entry *worker)
{
    const struct announced_workers *all = &core->workers;
    size_t count = head->info.topic_count;
    size_t old_size = worker == NULL ? 0 : bide_buf_size(worker->data);
    size_t cost = bide_buf_size(data) + (worker == NULL ? WORKER_COST : 0) + count * TOPIC_COST;

    if (worker == NULL && all->by_name.count >= BIDE_ANNOUNCED_MAX)
        return bi_core_error(op, BIDE_TOO_MANY_WAITERS,
                             "announce: %llu workers are announced, %d are allowed",
                             (unsigned long long)all->by_name.count, BIDE_ANNOUNCED_MAX);
    /* A renewal that is no larger is accepted by a full queue, too. */
    if ((worker == NULL || bide_buf_size(data) > old_size) && bi_core_is_full(core, cost))
        return bi_core_error_limit(core, op, BIDE_EFULL);

    /* The new topics first: those that stay are not removed and created again. */
    if (!add_topics(core, head->topics, count))
        return bi_core_error_code(op, BIDE_ENOMEM);
    if (worker == NULL)
        worker = create(core, &head->info);
    else
        remove_topics(core, worker->data);
    if (worker == NULL) {
        while (count-- > 0)
            remove_topic(core, head->topics[count]);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }

    core->memory += bide_buf_size(data);
    core->memory -= old_size;
    bide_buf_unref(worker->data);
    worker->data = bide_buf_ref(data);
    worker->name = head->info.name; /* the bytes of the old one have gone */
    worker->announced = core->now.mono;
    bi_timers_set(&core->mono, &worker->timer, core->now.mono + us_of(op->announce.ttl_ms));
    return BIDE_OK;
}

/* ---- ops ---- */

static int announce_or_remove(struct core *core, bide_op *op, bide_buf *data)
{
    struct head head;
    read_head(data, &head);
    struct worker_entry *worker = find_worker(core, &head.info);

    if (op->announce.ttl_ms != 0)
        return announce(core, op, data, &head, worker);
    if (worker != NULL)
        remove_worker(core, worker);
    return BIDE_OK;
}

int bi_exec_announce(struct core *core, bide_op *op)
{
    bide_announce_args *args = &op->announce;
    /* Takes over the copy that was made for the queue: nothing else frees it after a success. */
    bide_buf *data = args->buf != NULL ? bide_buf_ref(args->buf) : args->made_;
    if (args->buf == NULL)
        args->made_ = NULL;
    if (data == NULL)
        data = bide_buf_new(args->worker.data, args->worker.size);

    int code =
        data == NULL ? bi_core_error_code(op, BIDE_ENOMEM) : announce_or_remove(core, op, data);
    bide_buf_unref(data);
    return code;
}

static void fill(const struct core *core, const struct worker_entry *worker, bide_announced *out)
{
    int64_t left = worker->timer.due - core->now.mono;
    *out = (bide_announced){
        .data = bide_buf_data(worker->data),
        .data_size = bide_buf_size(worker->data),
        .data_buf_ = bide_buf_ref(worker->data),
        .announced_ms = ms_down(wall_of(core, worker->announced)),
        .left_ms = left < 0 ? 0 : ms_up(left),
    };
}

int bi_exec_workers(struct core *core, bide_op *op)
{
    bide_workers_args *args = &op->workers;
    uint64_t serial = 0, bytes = 0;
    size_t count = 0;

    if (!bi_op_list_parse_cursor(args->cursor, 'a', &serial, 1))
        return bi_core_error(op, BIDE_EINVAL, "workers: the cursor is not one that this call gave");

    /* Serials only rise: a worker that is announced all the time is returned exactly once. */
    const struct worker_entry *worker = bi_worker_at_or_after(core, serial);
    for (; worker != NULL && count < args->worker_max; count++) {
        uint64_t size = bide_buf_size(worker->data);
        if (count > 0 && !bi_snapshot_fits_page(core, bytes, size))
            break;
        bytes += size;
        fill(core, worker, &args->workers[count]);
        worker = bi_worker_at_or_after(core, worker->serial + 1);
    }

    args->count = count;
    core->work += count;
    if (worker != NULL)
        bi_op_list_format_cursor(args->cursor, 'a', &worker->serial, 1);
    else
        args->cursor[0] = 0;
    return BIDE_OK;
}
