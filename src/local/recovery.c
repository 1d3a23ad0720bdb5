/* SPDX-License-Identifier: MIT */
/*
 * recovery - loads the stored jobs while the queue already serves.
 *
 * The maintenance thread scans the store by ascending id, a slice at a time: it reads rows without
 * the lock and loads them under it. The gate decides for each op that is submitted meanwhile. An op
 * that names a job which is not loaded waits until the reader thread has fetched that job. An op
 * that depends on all jobs (counts, lists, keys, limits) is deferred to the end of recovery. All
 * others run at once.
 *
 * Ordering   An op that names a topic waits behind earlier waiting ops of the same order (one list
 *            of ops, or one connection of a server) that name the topic or any job.
 * Races      The scan may hold the row of a job that was fetched early and has been changed or
 *            deleted since. loaded_early records these ids, and the scan skips them.
 * Failure    A store that cannot be read is retried until it can, or until the queue closes. A row
 *            that is invalid is quarantined. Out of memory is retried from the last loaded id.
 * Threads    Everything in struct recovery is guarded by local->lock, except that
 *            first_new_id does not change after the open, and reported_at and failure_log are used
 *            by the maintenance thread only.
 */
#include "local/local_internal.h"
#include "op/op_args.h"
#include "util/clock.h"
#include "util/message.h"
#include "util/thread.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows that are loaded under one hold of the lock. */
#define SLICE_ROWS 256
/* Loading a job that was running journals a change. Loading pauses above this many changes, so that
 * the memory of the journal stays bounded. */
#define BACKLOG_MAX 20000
/* Deferred ops run for this long under one hold of the lock: each may insert a thousand jobs. */
#define RESUME_US 1000
/* The interval between two attempts to read a store that cannot be read. */
#define RETRY_MS 200
/* Attempts to sort the lists when out of memory. */
#define SORT_TRIES 25
/* The least time between two calls of the progress callback. */
#define REPORT_INTERVAL_US 100000

/* ---- ids that were loaded early ---- */

/* An open-addressing hash set, at most half full. The hash is keyed: clients choose the ids. */

static uint64_t *id_slot(const struct id_set *set, uint64_t id)
{
    /* A free slot ends the search: the set is never full. */
    assert(id != 0 && set->count < set->capacity);
    size_t at = bi_keyed_hash_u64(&set->secret, id) & (set->capacity - 1);
    while (set->ids[at] != 0 && set->ids[at] != id)
        at = (at + 1) & (set->capacity - 1);
    return &set->ids[at];
}

static bool has_id(const struct id_set *set, uint64_t id)
{
    return set->capacity > 0 && *id_slot(set, id) == id;
}

static bool grow_ids(struct id_set *set)
{
    assert(set->count * 2 <= set->capacity);
    struct id_set larger = {.capacity = set->capacity == 0 ? 256 : set->capacity * 2,
                            .secret = set->secret};
    larger.ids = calloc(larger.capacity, sizeof(*larger.ids));
    if (larger.ids == NULL)
        return false;

    for (size_t i = 0; i < set->capacity; i++)
        if (set->ids[i] != 0)
            *id_slot(&larger, set->ids[i]) = set->ids[i];

    larger.count = set->count;
    free(set->ids);
    *set = larger;
    return true;
}

/* Ensures that add_id() of one more id cannot fail. False when out of memory. */
static bool reserve_id(struct id_set *set)
{
    return set->count * 2 < set->capacity || grow_ids(set);
}

/* False when out of memory. */
static bool add_id(struct id_set *set, uint64_t id)
{
    if (has_id(set, id))
        return true;
    if (!reserve_id(set))
        return false;
    *id_slot(set, id) = id;
    set->count++;
    return true;
}

bool bi_recovery_is_loaded(const struct local *local, uint64_t id)
{
    const struct recovery *recovery = &local->recovery;
    /* Ids below `after` were scanned. Ids from first_new_id on were assigned by this process and
     * are not the scan's to load. */
    return !recovery->running || id <= recovery->after || id >= recovery->first_new_id ||
           has_id(&recovery->loaded_early, id);
}

/* ---- which ops must wait ---- */

/* Whether the result of the op depends on jobs that are not loaded and that it does not name. */
static bool needs_full_recovery(const struct local *local, const bide_op *op)
{
    const struct op_row *row = bi_op_row(op);
    /* A limit counts all jobs: also those that are not loaded. */
    bool limited = (row->flags & OP_INSERTS_JOBS) != 0 && bi_load_has_job_limits(local->core);

    /* So does max_memory, once the stored jobs are counted. Before, there may be one for each id
     * that was ever assigned. */
    bool uncounted = (row->flags & OP_INSERTS_JOBS) != 0 &&
                     local->recovery.progress.phase == BIDE_PHASE_COUNTING &&
                     bi_load_may_fill_memory(local->core, local->recovery.first_new_id - 1);

    return (row->flags & OP_NEEDS_RECOVERY) != 0 || limited || uncounted ||
           (row->needs_recovery != NULL && row->needs_recovery(op));
}

static bool names_unloaded_job(const struct local *local, const bide_op *op)
{
    size_t count = bi_op_args_id_count(op);
    for (size_t i = 0; i < count; i++)
        if (!bi_recovery_is_loaded(local, bi_op_args_id(op, i)))
            return true;
    return false;
}

/* ---- the order of waiting ops ---- */

static size_t topic_bucket(const struct recovery *recovery, const bide_op *op, bide_slice topic)
{
    /* The order is part of the hash: ops of other orders do not wait. A collision makes an op wait
     * that need not, which costs only time. */
    struct bi_hash_secret secret = recovery->loaded_early.secret;
    secret.key[1] ^= op->private_.order;
    return bi_keyed_hash_bytes(&secret, topic.data, topic.size) & (BI_ORDER_BUCKETS - 1);
}

/* Stands for the topic of an op that names a job: the topic is unknown until the job is loaded. */
static const bide_slice any_topic = {"", 0};

static bool follows_waiting_op(const struct recovery *recovery, const uint32_t *topic_counts,
                               const bide_op *op)
{
    if (op->private_.order == 0)
        return false;
    size_t count = bi_op_args_topic_count(op);
    for (size_t i = 0; i < count; i++) {
        bide_slice topic = bi_op_args_topic(op, i);
        if (topic.size > 0 && topic_counts[topic_bucket(recovery, op, topic)] > 0)
            return true;
    }
    return count > 0 && topic_counts[topic_bucket(recovery, op, any_topic)] > 0;
}

static void count_topics(const struct recovery *recovery, uint32_t *topic_counts, const bide_op *op,
                         int delta)
{
    if (op->private_.order == 0)
        return;

    size_t count = bi_op_args_topic_count(op);
    for (size_t i = 0; i < count; i++) {
        /* A rejected item names no topic. */
        bide_slice topic = bi_op_args_topic(op, i);
        if (topic.size == 0)
            continue;

        /* An op must leave with the names that it came with. */
        uint32_t *counted = &topic_counts[topic_bucket(recovery, op, topic)];
        assert(delta > 0 || *counted > 0);
        *counted += (uint32_t)delta;
    }
    if (bi_op_args_id_count(op) > 0)
        topic_counts[topic_bucket(recovery, op, any_topic)] += (uint32_t)delta;
}

void bi_recovery_assign_order(struct local *local, bide_op *const *ops, size_t n)
{
    /* A server sets the order of each op itself, one per connection. */
    if (!local->recovery.running || local->context.for_server)
        return;

    /* 0 means no order, and a single op has none. */
    if (++local->recovery.order == 0)
        local->recovery.order = 1;

    for (size_t i = 0; i < n; i++)
        ops[i]->private_.order = n > 1 ? local->recovery.order : 0;
}

void bi_recovery_dequeue(struct local *local, bide_op *op)
{
    bool deferred = (op->private_.flags & BI_DEFERRED) != 0;
    struct recovery *recovery = &local->recovery;
    op->private_.flags &= ~BI_DEFERRED;
    count_topics(recovery, deferred ? recovery->deferred_topics : recovery->awaiting_job_topics, op,
                 -1);
    assert(deferred || local->fetch_count > 0);
    local->fetch_count -= !deferred;
    bi_op_count_remove(&local->backlog, op);
}

int bi_recovery_gate(struct local *local, bide_op *op)
{
    assert(local->recovery.running);
    struct recovery *recovery = &local->recovery;
    bool all = needs_full_recovery(local, op) ||
               follows_waiting_op(recovery, recovery->deferred_topics, op);

    if (!all && !names_unloaded_job(local, op) &&
        !follows_waiting_op(recovery, recovery->awaiting_job_topics, op))
        return BIDE_OK;

    int code = bi_local_backlog_add(
        local, op,
        "what was stored is still being loaded, and the op names no completion "
        "queue; see bide_wait_recovered()");
    if (code != BIDE_PENDING)
        return code;

    /* The flag may be left from an earlier wait of the same op, so it is set or cleared. */
    op->private_.flags = (op->private_.flags & ~BI_DEFERRED) | (all ? BI_DEFERRED : 0);
    local->fetch_count += !all;
    count_topics(recovery, all ? recovery->deferred_topics : recovery->awaiting_job_topics, op, 1);

    bi_op_fifo_push(all ? &recovery->deferred : &local->awaiting_job, op);
    if (!all)
        pthread_cond_signal(&local->reader_work);
    return BIDE_PENDING;
}

bool bi_recovery_cancel(struct local *local, bide_op *op)
{
    /* An op in awaiting_job may be in the hands of the reader thread. It gets BI_CANCEL_REQUESTED
     * instead. */
    if ((op->private_.flags & BI_DEFERRED) == 0)
        return false;
    bi_op_fifo_remove(&local->recovery.deferred, op);
    bi_recovery_dequeue(local, op);
    bi_local_complete_with(local, op, BIDE_CANCELLED);
    return true;
}

void bi_recovery_close(struct local *local)
{
    bide_op *op;
    while ((op = bi_op_fifo_pop(&local->recovery.deferred)) != NULL) {
        bi_recovery_dequeue(local, op);
        bi_local_complete_with(local, op, BIDE_CLOSED);
    }

    while ((op = bi_maintenance_pop(local)) != NULL) {
        if (op == local->check_op)
            local->check_op = NULL; /* a later cancel must not find this op */
        bi_op_count_remove(&local->backlog, op);
        bi_local_complete_with(local, op, BIDE_CLOSED);
    }
}

/* ---- loading jobs that ops name ---- */

/* Loads one row unless it is loaded. Returns NULL, or the reason why the row is invalid; *code is
 * BIDE_ENOMEM when out of memory. The lock is held. */
static const char *load_row(struct local *local, const struct bi_image *image, int *code)
{
    *code = BIDE_OK;
    if (bi_recovery_is_loaded(local, image->id))
        return NULL;
    *code = bi_load_job(local->core, image, bi_local_now(local));
    if (*code == BIDE_EINVAL)
        return "the row makes no sense, or its key belongs to another job, too";

    if (*code == BIDE_OK)
        local->recovery.progress.loaded++;
    return NULL;
}

/* Visits the row of a job that an op names. Called without the lock. */
static int fetch_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct local *local = ctx;
    int code = BIDE_OK;

    bi_local_lock(local);
    if (bi_recovery_is_loaded(local, record->image.id)) {
        damage = NULL; /* the scan has loaded it meanwhile */
    } else if (!reserve_id(&local->recovery.loaded_early)) {
        /* Reserve the slot before the job is loaded: without its id in loaded_early the scan would
         * load the row again and quarantine it as a duplicate. */
        damage = NULL;
        code = BIDE_ENOMEM;
    } else {
        if (damage == NULL)
            damage = load_row(local, &record->image, &code);
        if (damage != NULL)
            local->recovery.progress.failed++;
        if (code != BIDE_ENOMEM)
            add_id(&local->recovery.loaded_early, record->image.id);
    }

    bi_core_serve(local->core, bi_local_now(local));
    bi_local_unlock(local);

    if (damage != NULL)
        bi_commit_quarantine(local, record->image.id, damage);
    return code == BIDE_ENOMEM ? code : BIDE_OK;
}

/* Loads one job, and records that it was fetched, whether it exists or not. Without the lock. */
static int fetch_id(struct local *local, uint64_t id, char *error)
{
    int code = local->store->ops->fetch(local->store, id, fetch_row, local, error);
    if (code == BIDE_ENOMEM)
        bi_text_copy(error, bide_code_text(code));

    /* Only a definite result (found, not found) makes an id loaded. Otherwise the scan still loads
     * it, and an op must not get NOT_FOUND for it. */
    if (code != BIDE_OK && code != BIDE_NOT_FOUND)
        return code;

    bi_local_lock(local);
    bool recorded = bi_recovery_is_loaded(local, id) || add_id(&local->recovery.loaded_early, id);
    pthread_mutex_unlock(&local->lock);

    if (recorded)
        return BIDE_OK;
    return bi_error_set_code(error, BIDE_ENOMEM);
}

int bi_recovery_fetch(struct local *local, bide_op *op)
{
    int code = BIDE_OK;

    for (size_t i = 0; code == BIDE_OK && i < bi_op_args_id_count(op); i++) {
        uint64_t id = bi_op_args_id(op, i);
        bi_local_lock(local);
        bool known = bi_recovery_is_loaded(local, id) || local->closing;
        pthread_mutex_unlock(&local->lock);

        if (!known)
            code = fetch_id(local, id, op->error);
    }
    return code;
}

/* ---- the scan ---- */

struct scan_slice {
    struct local *local;
    size_t count;
    struct bi_record records[SLICE_ROWS];
    const char *damages[SLICE_ROWS];
};

/* Collects a row: the scan runs without the lock, and rows are loaded under it. */
static int collect_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct scan_slice *slice = ctx;
    assert(slice->count < SLICE_ROWS);
    slice->damages[slice->count] = damage;
    slice->records[slice->count++] = *record;

    /* The image is valid during the visit only. damage points to static storage. */
    bi_image_ref(&record->image);

    return BIDE_OK;
}

static void release_rows(struct scan_slice *slice)
{
    for (size_t i = 0; i < slice->count; i++)
        bi_image_unref(&slice->records[i].image);
    slice->count = 0;
}

/* Loads the collected rows until out of memory. Returns how many are done. The lock is held. */
static size_t load_rows(struct scan_slice *slice)
{
    assert(slice->count <= SLICE_ROWS);
    struct local *local = slice->local;
    struct recovery *recovery = &local->recovery;

    for (size_t i = 0; i < slice->count; i++) {
        const struct bi_image *image = &slice->records[i].image;
        int code = BIDE_OK;

        if (slice->damages[i] == NULL)
            slice->damages[i] = load_row(local, image, &code);
        else if (bi_recovery_is_loaded(local, image->id))
            slice->damages[i] = NULL; /* fetched for an op, which reported the damage */

        if (code == BIDE_ENOMEM)
            return i;

        if (slice->damages[i] != NULL)
            recovery->progress.failed++;
        assert(image->id > recovery->after); /* the scan is in the order of ids */
        recovery->after = image->id;
    }
    return slice->count;
}

static void report_progress(struct local *local, bool now)
{
    const bide_options *options = &local->context.options;
    int64_t time = bi_clock_boot();

    if (options->recovery == NULL ||
        (!now && time - local->recovery.reported_at < REPORT_INTERVAL_US))
        return;
    local->recovery.reported_at = time;
    bi_local_lock(local);
    bide_recovery progress = local->recovery.progress;
    pthread_mutex_unlock(&local->lock);

    /* Without the lock: the handler is code of the application and may block. */
    options->recovery(options->recovery_user, &progress);
}

/* Waits before a retry. False: the queue closes. Without the lock. */
static bool rest(struct local *local, int ms)
{
    bi_local_lock(local);
    bi_local_pause(local, &local->maintenance_work, &local->closing, ms);
    bool closing = local->closing;
    pthread_mutex_unlock(&local->lock);
    return !closing;
}

/* Loads the slice of rows behind *after. False: no rows are left, or the queue closes. */
static bool load_slice(struct local *local, struct scan_slice *slice, uint64_t *after)
{
    char error[BIDE_ERROR_SIZE] = "";
    int code = local->store->ops->scan(local->store, after, local->recovery.first_new_id,
                                       SLICE_ROWS, collect_row, slice, error);

    if (code == BIDE_OK || code == BIDE_NOT_FOUND)
        bi_log_limit_reset(&local->recovery.failure_log);
    else if (bi_log_limit_hit(&local->recovery.failure_log, bi_clock_boot()) > 0)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "what was stored cannot be loaded, and is tried again: %s", error);

    bi_local_lock(local);
    /* A row may be stale by now. Only an op that named its job can have changed it, and then the id
     * is in loaded_early. */
    size_t done = load_rows(slice);
    /* Out of memory: scan again behind the last row that was loaded. Otherwise all ids up to *after
     * are known, also those without a row. */
    if (done < slice->count)
        *after = local->recovery.after;
    else if (local->recovery.after < *after)
        local->recovery.after = *after;

    bi_core_serve(local->core, bi_local_now(local));
    bi_local_wake_threads(local);

    bool backlogged = bi_journal_backlog(local->core) > BACKLOG_MAX;
    bool closing = local->closing;
    bi_local_unlock(local);

    /* Log and quarantine without the lock. An unreadable page stands for unknown jobs and cannot be
     * moved. */
    for (size_t i = 0; i < done; i++)
        if (slice->damages[i] == bi_store_unreadable)
            bi_log(&local->context.log, BIDE_LOG_ERROR, "jobs from %llu on cannot be loaded: %s",
                   (unsigned long long)slice->records[i].image.id, slice->damages[i]);
        else if (slice->damages[i] != NULL)
            bi_commit_quarantine(local, slice->records[i].image.id, slice->damages[i]);

    bool all_loaded = done == slice->count;
    release_rows(slice);

    if (!all_loaded || backlogged || (code != BIDE_OK && code != BIDE_NOT_FOUND))
        closing = !rest(local, backlogged ? 1 : RETRY_MS);

    return !closing && (code != BIDE_NOT_FOUND || !all_loaded);
}

static bool set_phase(struct local *local, bide_phase phase)
{
    assert(phase != BIDE_PHASE_RECOVERED); /* finish_recovery() sets that one */
    bi_local_lock(local);
    local->recovery.progress.phase = phase;
    bool closing = local->closing;
    pthread_mutex_unlock(&local->lock);
    report_progress(local, true);
    return !closing;
}

static void count_rows(struct local *local)
{
    uint64_t total = 0;
    char error[BIDE_ERROR_SIZE] = "";
    int code = local->store->ops->count(local->store, local->recovery.first_new_id, &total, error);
    if (code != BIDE_OK && code != BIDE_CLOSED)
        bi_log(&local->context.log, BIDE_LOG_WARN, "what was stored cannot be counted: %s", error);

    bi_local_lock(local);
    uint64_t loaded = local->recovery.progress.loaded; /* by ops that named them */
    local->recovery.progress.total = total;
    /* Reserves memory below max_memory for the rest, so that new jobs cannot take it. */
    bi_load_expect(local->core, total > loaded ? total - loaded : 0);
    pthread_mutex_unlock(&local->lock);
}

static void load_all(struct local *local)
{
    struct scan_slice *slice = malloc(sizeof(*slice));
    while (slice == NULL && rest(local, RETRY_MS))
        slice = malloc(sizeof(*slice));
    if (slice == NULL)
        return;

    slice->local = local;
    slice->count = 0;

    uint64_t after = 0;
    while (load_slice(local, slice, &after))
        report_progress(local, false);
    free(slice);
}

/* Runs one step of the sort under the lock. True if there is more. */
static bool run_sort_step(struct local *local, struct bi_load_sort *ordering,
                          bool (*run)(struct core *, struct bi_load_sort *, unsigned))
{
    bi_local_lock(local);
    bool more = !local->closing && run(local->core, ordering, SLICE_ROWS);
    pthread_mutex_unlock(&local->lock);
    return more;
}

/* Restores the order of lists whose order is not that of ids: the scan has loaded them by id. Only
 * collect and apply need the lock; the sort itself runs without it. False when out of memory. */
static bool sort_lists(struct local *local)
{
    struct bi_load_sort ordering = {.count = 0};
    while (run_sort_step(local, &ordering, bi_load_sort_collect))
        continue;

    bi_load_sort_sort(&ordering);
    while (!ordering.failed && run_sort_step(local, &ordering, bi_load_sort_apply))
        continue;

    bi_local_lock(local);
    bi_load_sort_done(local->core, &ordering);
    bool aborted = local->closing;
    pthread_mutex_unlock(&local->lock);
    return !ordering.failed || aborted;
}

static void sort_lists_with_retry(struct local *local)
{
    int tries = 0;

    while (!sort_lists(local)) {
        if (++tries == SORT_TRIES) {
            bi_log(&local->context.log, BIDE_LOG_ERROR,
                   "out of memory: jobs are not in the order in which they were buried");
            return;
        }
        rest(local, RETRY_MS); /* when the queue closes, sort_lists() stops and reports success */
    }
}

/* Removes results above max_done_per_topic: the option may be lower than at the last run. */
static void trim_results(struct local *local)
{
    bool more = true;
    while (more) {
        bi_local_lock(local);
        more =
            bi_core_retire_excess(local->core, bi_local_now(local), SLICE_ROWS) && !local->closing;
        bool backlogged = bi_journal_backlog(local->core) > BACKLOG_MAX;

        bi_local_wake_threads(local);
        bi_local_unlock(local);

        if (backlogged)
            bi_thread_sleep_ms(1);
    }
}

/* Runs the deferred ops, a slice at a time; then recovery is finished. */
static void finish_recovery(struct local *local)
{
    bool more = true;
    while (more) {
        bi_local_lock(local);
        /* Ops that wait for a fetch may precede deferred ops of the same order, so they run first.
         * All jobs are loaded by now: the reader thread has nothing to read for them. */
        while (local->fetch_count > 0 && !local->closing) {
            bi_local_unlock(local);
            bi_thread_sleep_ms(1);
            bi_local_lock(local);
        }

        int64_t until = bi_clock_boot() + RESUME_US;
        do {
            bide_op *op = local->closing ? NULL : bi_op_fifo_pop(&local->recovery.deferred);
            more = op != NULL;
            if (!more)
                break;
            bi_recovery_dequeue(local, op);
            bi_local_resume(local, op);
        } while (bi_clock_boot() < until);

        /* Under the same hold of the lock in which the list was found empty: no op can be deferred
         * after the last one ran. */
        if (!more && !local->closing) {
            struct bide_recovery *progress = &local->recovery.progress;
            assert(local->recovery.deferred.head == NULL && local->fetch_count == 0);
            progress->phase = BIDE_PHASE_RECOVERED;
            progress->total = progress->loaded + progress->failed;
            local->recovery.running = false;
            free(local->recovery.loaded_early.ids);
            memset(&local->recovery.loaded_early, 0, sizeof(local->recovery.loaded_early));
            bi_core_end_recovery(local->core, bi_local_now(local));
            pthread_cond_broadcast(&local->recovery.finished);
        }

        bi_local_wake_threads(local);
        bi_local_unlock(local);
    }

    report_progress(local, true);
}

static void recover(struct local *local)
{
    if (!set_phase(local, BIDE_PHASE_COUNTING))
        return;

    count_rows(local);

    if (!set_phase(local, BIDE_PHASE_LOADING))
        return;
    load_all(local);

    if (!set_phase(local, BIDE_PHASE_ORDERING))
        return;
    sort_lists_with_retry(local);
    trim_results(local);
    finish_recovery(local);
}

/* ---- the thread ---- */

void *bi_recovery_run(void *arg)
{
    struct local *local = arg;

    recover(local);

    bi_local_lock(local);
    while (!local->closing) {
        bide_op *op = bi_maintenance_pop(local);
        if (op == NULL && bi_store_verify_next_due(local) > bi_clock_boot()) {
            bi_local_wait_until(local, &local->maintenance_work, bi_store_verify_next_due(local));
            continue;
        }

        if (op != NULL) {
            bi_maintenance_execute(local, op);
            continue;
        }
        pthread_mutex_unlock(&local->lock);
        bi_store_verify_continue(local);
        bi_local_lock(local);
    }

    pthread_mutex_unlock(&local->lock);
    return NULL;
}
