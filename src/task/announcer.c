/* SPDX-License-Identifier: MIT */
/*
 * announcer - announces the worker: who it is, what it runs and what it has done.
 *
 * A worker announces itself when it starts, and again at every health check, so that it costs an
 * idle process no further wake-up. It does so after lost events, too: the server may have been
 * restarted, and announcements are not stored. When it stops it removes its announcement; if the
 * process dies, the announcement expires. What the worker runs at any time is in the queue anyway:
 * its jobs name it as their holder.
 *
 * Failure    An announcement that fails is made again when it is due. A queue without announcements
 *            (BIDE_ENOTSUP) is not asked again.
 */
#include "task/worker_internal.h"

#include "util/hash.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* An announcement outlasts two that fail. */
#define TTL_FACTOR 3
#define TTL_MIN_MS INT64_C(10000)

void bi_announcer_init(bide_worker *worker)
{
    char host[HOST_NAME_MAX + 1] = "";
    struct bi_hash_secret secret;
    const char *given = worker->options.name;

    /* The name must differ from those of all other workers, also of an earlier one with this pid. */
    gethostname(host, sizeof(host) - 1);
    bi_keyed_hash_generate_secret(&secret);
    snprintf(worker->host, sizeof(worker->host), "%.*s", (int)sizeof(worker->host) - 1, host);
    snprintf(worker->name, sizeof(worker->name), "%.90s:%ld:%08x",
             given != NULL && given[0] != 0 ? given : worker->host, (long)getpid(),
             (unsigned)secret.key[0]);
    worker->started_ms = bi_clock_wall() / 1000;
}

/* ---- what is announced ---- */

static bide_slice slice_of(const char *text)
{
    return (bide_slice){text, strlen(text)};
}

/* Adds the job that a thread runs. Its texts are copied: the thread goes on. */
static void add_job(struct announcement *to, struct worker_thread *thread, int64_t now)
{
    struct bide_context *context = &thread->context;

    pthread_mutex_lock(&context->lock);
    if (context->running) {
        to->running++;
        if (to->job_count < BIDE_ANNOUNCED_JOBS_MAX) {
            struct announced_job *job = &to->jobs[to->job_count];
            bi_text_copy(job->topic, context->job.topic);
            job->progress_size = context->progress_size;
            memcpy(job->progress, context->progress, context->progress_size);
            to->list[to->job_count++] =
                (bide_running_job){.id = context->job.id,
                                   .since_ms = (bi_clock_wall() - (now - context->started)) / 1000,
                                   .topic = slice_of(job->topic),
                                   .progress = {job->progress, job->progress_size}};
        }
    }
    pthread_mutex_unlock(&context->lock);
}

static uint64_t count(const bide_worker *worker, bide_work_kind kind)
{
    return atomic_load_explicit(&worker->outcomes[kind], memory_order_relaxed);
}

static bide_buf *encode(struct background *background, int64_t now)
{
    bide_worker *worker = background->worker;
    struct announcement *announcement = &background->announcement;

    announcement->running = announcement->job_count = 0;
    for (uint32_t i = 0; i < worker->options.threads; i++)
        add_job(announcement, &worker->threads[i], now);

    size_t topics = worker->entry_count;
    const bide_worker_info info = {
        .name = slice_of(worker->name),
        .host = slice_of(worker->host),
        .version = slice_of("bide " BIDE_VERSION),
        .pid = (uint64_t)getpid(),
        .threads = worker->options.threads,
        .running = announcement->running,
        .done = count(worker, BIDE_WORK_DONE),
        .failed = count(worker, BIDE_WORK_RETRIED) + count(worker, BIDE_WORK_BURIED),
        .lost = count(worker, BIDE_WORK_LOST) + count(worker, BIDE_WORK_GIVEN_UP),
        .started_ms = worker->started_ms,
        .topics = worker->topics,
        .topic_count = topics < BIDE_ANNOUNCED_TOPICS_MAX ? topics : BIDE_ANNOUNCED_TOPICS_MAX,
        .jobs = announcement->list,
        .job_count = announcement->job_count,
    };
    return bide_worker_encode(&info);
}

/* ---- the parts of the background thread ---- */

static void submit(struct background *background, int64_t ttl_ms, int64_t now)
{
    bide_announce_args *args = &background->ops[BACKGROUND_ANNOUNCE].announce;
    bide_buf *worker = encode(background, now);
    if (worker == NULL) /* out of memory */
        return;

    *args = (bide_announce_args){.buf = worker, .ttl_ms = ttl_ms};
    bi_background_submit(background, BACKGROUND_ANNOUNCE, BIDE_OP_ANNOUNCE);
}

void bi_announcer_complete(struct background *background)
{
    bide_op *op = &background->ops[BACKGROUND_ANNOUNCE];
    if (!bi_background_poll(background, BACKGROUND_ANNOUNCE))
        return;

    bide_buf_unref(op->announce.buf);
    op->announce.buf = NULL;
    /* A renewal that fails leaves the earlier announcement. */
    if (op->status == BIDE_OK)
        background->announced = op->announce.ttl_ms > 0;
    if (op->status == BIDE_ENOTSUP)
        background->announce_at = NEVER;
}

int64_t bi_announcer_run(struct background *background, int64_t now)
{
    int64_t interval_ms = background->worker->options.health_interval_ms;
    int64_t ttl_ms = interval_ms * TTL_FACTOR > TTL_MIN_MS ? interval_ms * TTL_FACTOR : TTL_MIN_MS;
    if (atomic_load(&background->quit) || background->announce_at == NEVER)
        return NEVER;
    if (now < background->announce_at)
        return background->announce_at;

    background->announce_at = now + interval_ms * 1000;
    if (background->pending[BACKGROUND_ANNOUNCE])
        return background->announce_at; /* the queue does not answer */
    submit(background, ttl_ms < BIDE_TIME_MAX_MS ? ttl_ms : BIDE_TIME_MAX_MS, now);
    bi_announcer_complete(background); /* submit may complete it, and does not wake the cq then */
    return background->announce_at;
}

void bi_announcer_renew(struct background *background, int64_t now)
{
    if (background->announce_at != NEVER)
        background->announce_at = now;
}

void bi_announcer_stop(struct background *background)
{
    if (!background->announced || background->pending[BACKGROUND_ANNOUNCE])
        return;
    background->announced = false;
    submit(background, 0, bi_clock_boot());
}
