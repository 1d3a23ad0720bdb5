/* SPDX-License-Identifier: MIT */
/*
 * recovery - what was stored comes back, while the queue already serves.
 *
 * The slow thread scans the store in the order of ids, a slice at a time: rows are read without the
 * lock and loaded under it. Meanwhile an op that names a job which is not loaded has it fetched
 * first; such ids are remembered, because the scan may still have their rows in hand when they have
 * changed or gone. Ops that need to know everything wait for the end.
 */
#include "backend/inside.h"
#include "util/clock.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows that are loaded under one lock. */
#define SLICE_ROWS 256
/* Changes (of jobs that had been started) that may wait to be stored before loading waits. */
#define BACKLOG_MAX 20000
/* How long ops that had waited for the end are run under one lock: each may bring a thousand jobs. */
#define RESUME_US 1000
/* Between two tries to read a store that cannot be read. */
#define RETRY_MS 200
/* How often putting lists in order is tried when memory lacks. */
#define ORDER_TRIES 25
/* The callback is called that often at most. */
#define TELL_EVERY 100000 /* us */

/* ---- ids that came early ---- */

static uint64_t *id_place(const struct idset *set, uint64_t id)
{
    size_t at = bi_secret_hash_u64(&set->secret, id) & (set->room - 1);
    while (set->ids[at] != 0 && set->ids[at] != id)
        at = (at + 1) & (set->room - 1);
    return &set->ids[at];
}

static bool has_id(const struct idset *set, uint64_t id)
{
    return set->room > 0 && *id_place(set, id) == id;
}

static bool grow_ids(struct idset *set)
{
    struct idset larger = {.room = set->room == 0 ? 256 : set->room * 2, .secret = set->secret};
    larger.ids = calloc(larger.room, sizeof(*larger.ids));
    if (larger.ids == NULL)
        return false;
    for (size_t i = 0; i < set->room; i++)
        if (set->ids[i] != 0)
            *id_place(&larger, set->ids[i]) = set->ids[i];
    larger.count = set->count;
    free(set->ids);
    *set = larger;
    return true;
}

/* Makes sure that one more id fits; false when out of memory. */
static bool reserve_id(struct idset *set)
{
    return set->count * 2 < set->room || grow_ids(set);
}

/* False when out of memory. */
static bool add_id(struct idset *set, uint64_t id)
{
    if (has_id(set, id))
        return true;
    if (!reserve_id(set))
        return false;
    *id_place(set, id) = id;
    set->count++;
    return true;
}

bool bi_recovery_knows(const struct local *local, uint64_t id)
{
    const struct recovery *recovery = &local->recovery;
    return !recovery->running || id <= recovery->after || id >= recovery->below ||
           has_id(&recovery->early, id);
}

/* ---- which ops must wait ---- */

/* How many jobs an op names. */
static size_t named_count(const bide_op *op)
{
    static const bool one[BIDE_OP_COUNT] = {
        [BIDE_OP_RESERVE_JOB] = true,
        [BIDE_OP_DONE] = true,
        [BIDE_OP_FINISH_AND_RESERVE] = true,
        [BIDE_OP_DELETE] = true,
        [BIDE_OP_GIVE_BACK] = true,
        [BIDE_OP_KICK_JOB] = true,
        [BIDE_OP_CANCEL] = true,
        [BIDE_OP_RELEASE] = true,
        [BIDE_OP_FAIL] = true,
        [BIDE_OP_BURY] = true,
        [BIDE_OP_TOUCH] = true,
        [BIDE_OP_UPDATE] = true,
        [BIDE_OP_PEEK] = true,
        [BIDE_OP_JOB_STATS] = true,
        [BIDE_OP_BODY] = true,
        [BIDE_OP_RESULT] = true,
        [BIDE_OP_WAIT] = true,
    };
    return op->kind == BIDE_OP_FINISH_MANY  ? op->finish_many.count
           : op->kind == BIDE_OP_TOUCH_MANY ? op->touch_many.count
                                            : one[op->kind];
}

/* The i-th of them. */
static uint64_t named(const bide_op *op, size_t i)
{
    switch (op->kind) {
    case BIDE_OP_FINISH_MANY:
        return op->finish_many.items[i].id;
    case BIDE_OP_TOUCH_MANY:
        return op->touch_many.items[i].id;
    case BIDE_OP_RESERVE_JOB:
        return op->reserve_job.id;
    case BIDE_OP_DONE:
        return op->finish.id;
    case BIDE_OP_FINISH_AND_RESERVE:
        return op->finish_and_reserve.finish.id;
    case BIDE_OP_RELEASE:
        return op->release.id;
    case BIDE_OP_FAIL:
        return op->fail.id;
    case BIDE_OP_BURY:
        return op->bury.id;
    case BIDE_OP_TOUCH:
        return op->touch.id;
    case BIDE_OP_UPDATE:
        return op->update.id;
    case BIDE_OP_PEEK:
    case BIDE_OP_JOB_STATS:
        return op->look.id;
    case BIDE_OP_BODY:
    case BIDE_OP_RESULT:
        return op->fetch.id;
    case BIDE_OP_WAIT:
        return op->wait.id;
    default: /* delete, give_back, kick_job, cancel */
        return op->lease.id;
    }
}

static bool has_key(const bide_put_item *item)
{
    return item->options != NULL && item->options->key.size > 0;
}

static bool any_key(const bide_op *op)
{
    for (size_t i = 0; i < op->put_many.count; i++)
        if (has_key(&op->put_many.items[i]))
            return true;
    return false;
}

/* Does the op have to know all jobs? */
static bool needs_all(const struct local *local, const bide_op *op)
{
    static const bool always[BIDE_OP_COUNT] = {
        [BIDE_OP_KICK] = true,   [BIDE_OP_PURGE] = true,       [BIDE_OP_LIST] = true,
        [BIDE_OP_FIND] = true,   [BIDE_OP_PEEK_FIRST] = true,  [BIDE_OP_TOPICS] = true,
        [BIDE_OP_STATS] = true,  [BIDE_OP_TOPIC_STATS] = true, [BIDE_OP_WAITING] = true,
        [BIDE_OP_RESUME] = true,
    };
    bool limited = local->context.options.max_jobs_per_topic != 0;
    switch (op->kind) {
    case BIDE_OP_PUT:
        return limited || has_key(&op->put);
    case BIDE_OP_PUT_MANY:
        return limited || any_key(op);
    case BIDE_OP_RESTORE:
        return limited || op->restore.job->key_size > 0;
    case BIDE_OP_UPDATE:
        return op->update.topic.size > 0;
    default:
        return always[op->kind];
    }
}

static bool names_unknown(const struct local *local, const bide_op *op)
{
    for (size_t i = 0; i < named_count(op); i++)
        if (!bi_recovery_knows(local, named(op, i)))
            return true;
    return false;
}

/* ---- the order of ops that wait ---- */

/* How many topics an op puts into, takes from or changes. */
static size_t topic_count(const bide_op *op)
{
    switch (op->kind) {
    case BIDE_OP_PUT_MANY:
        return op->put_many.count;
    case BIDE_OP_RESERVE:
        return op->reserve.topic_count;
    case BIDE_OP_FINISH_AND_RESERVE:
        return op->finish_and_reserve.reserve.topic_count;
    case BIDE_OP_UPDATE:
        return op->update.topic.size > 0;
    case BIDE_OP_PUT:
    case BIDE_OP_RESTORE:
    case BIDE_OP_KICK:
    case BIDE_OP_PURGE:
    case BIDE_OP_PAUSE:
    case BIDE_OP_RESUME:
        return 1;
    default:
        return 0;
    }
}

/* The i-th of them. */
static bide_slice topic_of(const bide_op *op, size_t i)
{
    switch (op->kind) {
    case BIDE_OP_PUT:
        return op->put.topic;
    case BIDE_OP_PUT_MANY:
        return op->put_many.items[i].topic;
    case BIDE_OP_RESTORE:
        return (bide_slice){op->restore.job->topic, strlen(op->restore.job->topic)};
    case BIDE_OP_RESERVE:
        return op->reserve.topics[i];
    case BIDE_OP_FINISH_AND_RESERVE:
        return op->finish_and_reserve.reserve.topics[i];
    case BIDE_OP_UPDATE:
        return op->update.topic;
    case BIDE_OP_KICK:
        return op->kick.topic;
    case BIDE_OP_PURGE:
        return op->purge.topic;
    default: /* pause, resume */
        return op->topic.topic;
    }
}

static size_t mark_of(const struct recovery *recovery, const bide_op *op, bide_slice topic)
{
    struct bi_secret secret = recovery->early.secret;
    secret.key[1] ^= op->private_.order;
    return bi_secret_hash(&secret, topic.data, topic.size) & (BI_ORDER_MARKS - 1);
}

/* An op that names a job may change any topic. */
static const bide_slice any_topic = {"", 0};

static bool is_marked(const struct recovery *recovery, const uint32_t *marks, const bide_op *op)
{
    if (op->private_.order == 0)
        return false;
    size_t count = topic_count(op);
    for (size_t i = 0; i < count; i++)
        if (marks[mark_of(recovery, op, topic_of(op, i))] > 0)
            return true;
    return count > 0 && marks[mark_of(recovery, op, any_topic)] > 0;
}

static void mark(const struct recovery *recovery, uint32_t *marks, const bide_op *op, int delta)
{
    if (op->private_.order == 0)
        return;
    for (size_t i = 0; i < topic_count(op); i++)
        marks[mark_of(recovery, op, topic_of(op, i))] += (uint32_t)delta;
    if (named_count(op) > 0)
        marks[mark_of(recovery, op, any_topic)] += (uint32_t)delta;
}

void bi_recovery_order(struct local *local, bide_op *const *ops, size_t n)
{
    /* The ops of a server come from many connections, each of which is an order. */
    if (!local->recovery.running || local->context.serves)
        return;
    if (++local->recovery.order == 0)
        local->recovery.order = 1;
    for (size_t i = 0; i < n; i++)
        ops[i]->private_.order = n > 1 ? local->recovery.order : 0;
}

void bi_recovery_leave(struct local *local, bide_op *op)
{
    bool deferred = (op->private_.flags & BI_DEFERRED) != 0;
    struct recovery *recovery = &local->recovery;
    op->private_.flags &= ~BI_DEFERRED;
    mark(recovery, deferred ? recovery->deferred_marks : recovery->wanting_marks, op, -1);
    local->fetching -= !deferred;
    bi_local_backlog_remove(local, op);
}

int bi_recovery_gate(struct local *local, bide_op *op)
{
    struct recovery *recovery = &local->recovery;
    bool all = needs_all(local, op) || is_marked(recovery, recovery->deferred_marks, op);
    if (!all && !names_unknown(local, op) && !is_marked(recovery, recovery->wanting_marks, op))
        return BIDE_OK;
    int code = bi_local_backlog_add(
        local, op,
        "what was stored is still being loaded, and the op names no completion "
        "queue; see bide_wait_recovered()");
    if (code != BIDE_PENDING)
        return code;
    op->private_.flags = (op->private_.flags & ~BI_DEFERRED) | (all ? BI_DEFERRED : 0);
    local->fetching += !all;
    mark(recovery, all ? recovery->deferred_marks : recovery->wanting_marks, op, 1);
    list_add(all ? &recovery->deferred : &local->wanting, op);
    if (!all)
        pthread_cond_signal(&local->read);
    return BIDE_PENDING;
}

bool bi_recovery_cancel(struct local *local, bide_op *op)
{
    if ((op->private_.flags & BI_DEFERRED) == 0)
        return false;
    list_remove(&local->recovery.deferred, op);
    bi_recovery_leave(local, op);
    bi_local_end(local, op, BIDE_CANCELLED);
    return true;
}

void bi_recovery_end(struct local *local)
{
    bide_op *op;
    while ((op = list_pop(&local->recovery.deferred)) != NULL) {
        bi_recovery_leave(local, op);
        bi_local_end(local, op, BIDE_CLOSED);
    }
    while ((op = list_pop(&local->chores)) != NULL) {
        if (op == local->checking)
            local->checking = NULL; /* a cancel that comes now finds no check to end */
        bi_local_end(local, op, BIDE_CLOSED);
    }
}

/* ---- loading ---- */

/* Loads one row under the lock. NULL, or what is wrong with it; *code: out of memory. */
static const char *load_row(struct local *local, const struct bi_image *image, int *code)
{
    *code = BIDE_OK;
    if (bi_recovery_knows(local, image->id))
        return NULL;
    *code = bi_core_load(local->core, image, bi_local_clocks(local));
    if (*code == BIDE_EINVAL)
        return "the row makes no sense, or its key belongs to another job, too";
    if (*code == BIDE_OK)
        local->recovery.progress.loaded++;
    return NULL;
}

/* For one job that an op names. */
static int fetch_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct local *local = ctx;
    int code = BIDE_OK;
    bi_local_lock(local);
    if (bi_recovery_knows(local, record->image.id)) {
        damage = NULL; /* the scan was quicker */
    } else if (!reserve_id(&local->recovery.early)) {
        damage = NULL;
        code = BIDE_ENOMEM; /* if it were loaded now, the scan would take it for another */
    } else {
        if (damage == NULL)
            damage = load_row(local, &record->image, &code);
        if (damage != NULL)
            local->recovery.progress.failed++;
        if (code != BIDE_ENOMEM)
            add_id(&local->recovery.early, record->image.id);
    }
    bi_core_serve(local->core, bi_local_clocks(local));
    bi_local_unlock(local);
    if (damage != NULL)
        bi_commit_set_aside(local, record->image.id, damage);
    return code == BIDE_ENOMEM ? code : BIDE_OK;
}

/* Loads one job, and remembers that it was looked for. Without the lock. */
static int fetch_id(struct local *local, uint64_t id, char *error)
{
    int code = local->store->ops->fetch(local->store, id, fetch_row, local, error);
    if (code == BIDE_ENOMEM)
        bi_text_copy(error, bide_code_text(code));
    if (code != BIDE_OK && code != BIDE_NOT_FOUND)
        return code; /* the scan will come to it */
    bi_local_lock(local);
    bool noted = bi_recovery_knows(local, id) || add_id(&local->recovery.early, id);
    pthread_mutex_unlock(&local->lock);
    if (noted)
        return BIDE_OK;
    bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
    return BIDE_ENOMEM;
}

int bi_recovery_fetch(struct local *local, bide_op *op)
{
    int code = BIDE_OK;
    for (size_t i = 0; code == BIDE_OK && i < named_count(op); i++) {
        uint64_t id = named(op, i);
        bi_local_lock(local);
        bool known = bi_recovery_knows(local, id) || local->closing;
        pthread_mutex_unlock(&local->lock);
        if (!known)
            code = fetch_id(local, id, op->error);
    }
    return code;
}

/* ---- the scan ---- */

struct slice {
    struct local *local;
    size_t count;
    struct bi_record records[SLICE_ROWS];
    const char *damages[SLICE_ROWS];
};

/* Keeps a row until the lock is had. */
static int keep_row(void *ctx, const struct bi_record *record, const char *damage)
{
    struct slice *slice = ctx;
    slice->damages[slice->count] = damage;
    slice->records[slice->count++] = *record;
    bide_buf_ref(record->image.body);
    bide_buf_ref(record->image.key);
    bide_buf_ref(record->image.last_error);
    bide_buf_ref(record->image.result);
    return BIDE_OK;
}

static void drop_rows(struct slice *slice)
{
    for (size_t i = 0; i < slice->count; i++) {
        const struct bi_image *image = &slice->records[i].image;
        bide_buf_unref(image->body);
        bide_buf_unref(image->key);
        bide_buf_unref(image->last_error);
        bide_buf_unref(image->result);
    }
    slice->count = 0;
}

/* Loads what was read, as far as memory goes; answers how many rows are done. The lock is held. */
static size_t load_rows(struct slice *slice)
{
    struct local *local = slice->local;
    struct recovery *recovery = &local->recovery;
    for (size_t i = 0; i < slice->count; i++) {
        const struct bi_image *image = &slice->records[i].image;
        int code = BIDE_OK;
        if (slice->damages[i] == NULL)
            slice->damages[i] = load_row(local, image, &code);
        else if (bi_recovery_knows(local, image->id))
            slice->damages[i] = NULL;
        if (code == BIDE_ENOMEM)
            return i;
        if (slice->damages[i] != NULL)
            recovery->progress.failed++;
        recovery->after = image->id;
    }
    return slice->count;
}

static void tell(struct local *local, bool now)
{
    const bide_options *options = &local->context.options;
    int64_t time = bi_clock_boot();
    if (options->recovery == NULL || (!now && time - local->recovery.told < TELL_EVERY))
        return;
    local->recovery.told = time;
    bi_local_lock(local);
    bide_recovery progress = local->recovery.progress;
    pthread_mutex_unlock(&local->lock);
    options->recovery(options->recovery_user, &progress);
}

/* Loads one slice, behind the last one. False: the end, or closing. */
static bool load_slice(struct local *local, struct slice *slice, uint64_t *after)
{
    char error[BIDE_ERROR_SIZE] = "";
    int code = local->store->ops->scan(local->store, after, local->recovery.below, SLICE_ROWS,
                                       keep_row, slice, error);
    if (code == BIDE_OK || code == BIDE_NOT_FOUND)
        bi_log_ends(&local->recovery.failing);
    else if (bi_log_repeats(&local->recovery.failing, bi_clock_boot()) > 0)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "what was stored cannot be loaded, and is tried again: %s", error);
    bi_local_lock(local);
    size_t done = load_rows(slice);
    if (done < slice->count)
        *after = local->recovery.after;
    else if (local->recovery.after < *after)
        local->recovery.after = *after;
    bi_core_serve(local->core, bi_local_clocks(local));
    bi_local_look_ahead(local);
    bool behind = bi_core_backlog(local->core) > BACKLOG_MAX;
    bool closing = local->closing;
    bi_local_unlock(local);
    for (size_t i = 0; i < done; i++)
        if (slice->damages[i] == bi_store_unreadable)
            bi_log(&local->context.log, BIDE_LOG_ERROR, "jobs from %llu on cannot be loaded: %s",
                   (unsigned long long)slice->records[i].image.id, slice->damages[i]);
        else if (slice->damages[i] != NULL)
            bi_commit_set_aside(local, slice->records[i].image.id, slice->damages[i]);
    bool whole = done == slice->count;
    drop_rows(slice);
    if (!whole || behind || (code != BIDE_OK && code != BIDE_NOT_FOUND))
        bi_alarm_sleep(behind ? 1 : RETRY_MS);
    return !closing && (code != BIDE_NOT_FOUND || !whole);
}

static bool set_phase(struct local *local, bide_phase phase)
{
    bi_local_lock(local);
    local->recovery.progress.phase = phase;
    bool closing = local->closing;
    pthread_mutex_unlock(&local->lock);
    tell(local, true);
    return !closing;
}

static void count_rows(struct local *local)
{
    uint64_t total = 0;
    char error[BIDE_ERROR_SIZE] = "";
    int code = local->store->ops->count(local->store, local->recovery.below, &total, error);
    if (code != BIDE_OK && code != BIDE_CLOSED)
        bi_log(&local->context.log, BIDE_LOG_WARN, "what was stored cannot be counted: %s", error);

    bi_local_lock(local);
    uint64_t loaded = local->recovery.progress.loaded; /* because ops named them */
    local->recovery.progress.total = total;
    bi_core_expect(local->core, total > loaded ? total - loaded : 0);
    pthread_mutex_unlock(&local->lock);
}

static void load_all(struct local *local)
{
    struct slice *slice = malloc(sizeof(*slice));
    while (slice == NULL) {
        bi_alarm_sleep(RETRY_MS);
        slice = malloc(sizeof(*slice));
    }
    slice->local = local;
    slice->count = 0;
    uint64_t after = 0;
    while (load_slice(local, slice, &after))
        tell(local, false);
    free(slice);
}

/* One step of putting lists in order, under the lock. */
static bool step(struct local *local, struct bi_ordering *ordering,
                 bool (*run)(struct core *, struct bi_ordering *, unsigned))
{
    bi_local_lock(local);
    bool more = !local->closing && run(local->core, ordering, SLICE_ROWS);
    pthread_mutex_unlock(&local->lock);
    return more;
}

/* False when out of memory. */
static bool put_in_order(struct local *local)
{
    struct bi_ordering ordering = {.count = 0};
    while (step(local, &ordering, bi_core_order_collect))
        continue;
    bi_core_order_sort(&ordering);
    while (!ordering.failed && step(local, &ordering, bi_core_order_apply))
        continue;
    bi_local_lock(local);
    bi_core_order_done(local->core, &ordering);
    bool given_up = local->closing;
    pthread_mutex_unlock(&local->lock);
    return !ordering.failed || given_up;
}

static void put_all_in_order(struct local *local)
{
    int tries = 0;
    while (!put_in_order(local)) {
        if (++tries == ORDER_TRIES) {
            bi_log(&local->context.log, BIDE_LOG_ERROR,
                   "out of memory: jobs are not in the order in which they were buried");
            return;
        }
        bi_alarm_sleep(RETRY_MS);
    }
}

/* Drops results over max_done_per_topic. */
static void retire(struct local *local)
{
    bool more = true;
    while (more) {
        bi_local_lock(local);
        more = bi_core_retire(local->core, bi_local_clocks(local), SLICE_ROWS) && !local->closing;
        bool behind = bi_core_backlog(local->core) > BACKLOG_MAX;
        bi_local_look_ahead(local);
        bi_local_unlock(local);
        if (behind)
            bi_alarm_sleep(1);
    }
}

/* Runs what has waited, some at a time; then recovery is over. */
static void finish(struct local *local)
{
    bool more = true;
    while (more) {
        bi_local_lock(local);
        /* Ops that name jobs, and may have come first: by now there is nothing to fetch. */
        while (local->fetching > 0 && !local->closing) {
            bi_local_unlock(local);
            bi_alarm_sleep(1);
            bi_local_lock(local);
        }
        int64_t until = bi_clock_boot() + RESUME_US;
        do {
            bide_op *op = local->closing ? NULL : list_pop(&local->recovery.deferred);
            more = op != NULL;
            if (!more)
                break;
            bi_recovery_leave(local, op);
            bi_local_resume(local, op);
        } while (bi_clock_boot() < until);
        if (!more && !local->closing) {
            struct bide_recovery *progress = &local->recovery.progress;
            progress->phase = BIDE_PHASE_RECOVERED;
            progress->total = progress->loaded + progress->failed;
            local->recovery.running = false;
            free(local->recovery.early.ids);
            memset(&local->recovery.early, 0, sizeof(local->recovery.early));
            bi_core_recovered(local->core, bi_local_clocks(local));
            pthread_cond_broadcast(&local->recovery.over);
        }
        bi_local_look_ahead(local);
        bi_local_unlock(local);
    }
    tell(local, true);
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
    put_all_in_order(local);
    retire(local);
    finish(local);
}

/* ---- the thread ---- */

static void wait_for_chore(struct local *local)
{
    int64_t next = bi_care_next(local);
    if (next == BI_NEVER) {
        pthread_cond_wait(&local->chore, &local->lock);
        return;
    }
    struct timespec until;
    int64_t us = next - bi_clock_boot();
    bi_clock_until(&until, us < 0 ? 0 : us);
    pthread_cond_timedwait(&local->chore, &local->lock, &until);
}

void *bi_recovery_run(void *arg)
{
    struct local *local = arg;
    recover(local);
    bi_local_lock(local);
    while (!local->closing) {
        bide_op *op = list_pop(&local->chores);
        if (op == NULL && bi_care_next(local) > bi_clock_boot()) {
            wait_for_chore(local);
            continue;
        }
        local->chore_op = op;
        pthread_mutex_unlock(&local->lock);
        if (op != NULL)
            bi_care_do(local, op);
        else
            bi_care_go_on(local);
        bi_local_lock(local);
    }
    pthread_mutex_unlock(&local->lock);
    return NULL;
}
