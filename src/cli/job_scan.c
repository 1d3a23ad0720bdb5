/* SPDX-License-Identifier: MIT */
#include "cli/job_scan.h"

#include "cli/ordered_pipeline.h"
#include "cli/print.h"
#include "util/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PAGE              1000
#define INTERRUPT_POLL_MS 200      /* while stored jobs are loaded */
#define EMPTY_MAX         10000000 /* ids in a row without a job, where the last id is not known */
#define SIZE_BITS         6        /* ids have 53 bits: there is room for the logarithm of a size */
#define PROBE_DELAY_MS    (INT64_C(365) * 86400000) /* no consumer gets the job meanwhile */

/* ---- opening ---- */

static int wait_recovered(const struct cli *cli, bide *queue)
{
    struct progress progress;
    bide_recovery recovery = {.phase = BIDE_PHASE_COUNTING};
    int code;

    bi_progress_begin(&progress, cli, "loading", 0);
    while ((code = bide_wait_recovered(queue, INTERRUPT_POLL_MS, &recovery)) == BIDE_TIMED_OUT &&
           !bi_interrupted()) {
        progress.total = recovery.total;
        bi_progress_set(&progress, recovery.loaded);
    }
    bi_progress_end(&progress);
    return code == BIDE_TIMED_OUT ? bi_interrupt_exit() : bi_cli_report_last(cli, code);
}

int bi_job_scan_open(struct job_scan *scan, const struct cli *cli, bide *queue)
{
    *scan = (struct job_scan){
        .cli = cli,
        .queue = queue,
        .plain = (bide_capabilities(queue) & BIDE_CAN_ALL_OPS) == 0,
    };
    return wait_recovered(cli, queue);
}

void bi_job_scan_close(struct job_scan *scan)
{
    free(scan->ids);
    scan->ids = NULL;
    scan->count = scan->capacity = 0;
}

/* ---- listing ---- */

bool bi_job_scan_has_topic(const struct job_scan *scan, const char *topic)
{
    for (size_t i = 0; i < scan->topic_count; i++)
        if (strcmp(scan->topics[i], topic) == 0)
            return true;
    return scan->topic_count == 0;
}

size_t bi_job_scan_job_size(const bide_job *job)
{
    return sizeof(*job) + job->body_size + job->result_size + job->last_error_size +
           job->history_size;
}

static bool add_id(struct job_scan *scan, const bide_job *job)
{
    uint64_t size_log = 0;

    if (!BI_CLI_RESERVE(scan->ids, scan->count + 1, scan->capacity))
        return false;
    while ((size_t)1 << size_log < bi_job_scan_job_size(job))
        size_log++;
    scan->ids[scan->count++] = job->id << SIZE_BITS | size_log;
    return true;
}

uint64_t bi_job_scan_id(const struct job_scan *scan, size_t index)
{
    assert(index < scan->count);
    return scan->ids[index] >> SIZE_BITS;
}

static size_t size_at(const struct job_scan *scan, size_t index)
{
    return (size_t)1 << (scan->ids[index] & ((1u << SIZE_BITS) - 1));
}

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* A job that was updated to another topic during the list may have been listed twice. */
static void sort_ids(struct job_scan *scan)
{
    size_t kept = 0;

    if (scan->count > 0)
        qsort(scan->ids, scan->count, sizeof(*scan->ids), compare);
    for (size_t i = 0; i < scan->count; i++)
        if (kept == 0 || scan->ids[kept - 1] >> SIZE_BITS != scan->ids[i] >> SIZE_BITS)
            scan->ids[kept++] = scan->ids[i];
    scan->count = kept;
}

/* topic NULL: all. */
static int list_topic(struct job_scan *scan, const char *topic, struct progress *progress)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    int exit = BI_EXIT_OK;
    bide_job *jobs = calloc(PAGE, sizeof(*jobs));
    if (jobs == NULL)
        return bi_cli_error(scan->cli, BI_EXIT_FAILED, "out of memory");

    do {
        bool added = true;
        bide_list_args args = {
            .topic = {topic, topic == NULL ? 0 : strlen(topic)},
            .state = scan->state,
            .filter = scan->filter,
            .cursor = cursor,
            .jobs = jobs,
            .job_max = PAGE,
        };
        exit = bi_interrupted() ? bi_interrupt_exit()
                                : bi_cli_report_last(scan->cli, bide_list_page(scan->queue, &args));
        for (size_t i = 0; exit == BI_EXIT_OK && i < args.count; i++) {
            added = added && add_id(scan, &jobs[i]);
            bide_job_clear(&jobs[i]);
        }
        if (!added)
            exit = bi_cli_error(scan->cli, BI_EXIT_FAILED, "out of memory for the ids of all jobs");
        bi_progress_set(progress, scan->count);
    } while (exit == BI_EXIT_OK && cursor[0] != 0);
    free(jobs);
    return exit;
}

/* ---- a plain beanstalkd ---- */

void bi_job_scan_make_topic(char name[BI_JOB_SCAN_TOPIC_SIZE], const char *prefix)
{
    struct bi_hash_secret random;

    assert(strlen(prefix) <= 24);
    bi_keyed_hash_generate_secret(&random);
    snprintf(name, BI_JOB_SCAN_TOPIC_SIZE, "%.24s%016llx%016llx", prefix,
             (unsigned long long)random.key[0], (unsigned long long)random.key[1]);
}

static int count_expected(struct job_scan *scan)
{
    bide_stats stats;
    int code = bide_queue_stats(scan->queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_report_last(scan->cli, code);
    scan->expected_count =
        stats.jobs.ready + stats.jobs.delayed + stats.jobs.reserved + stats.jobs.buried;
    return BI_EXIT_OK;
}

/* Learns the last id by a job that is put and deleted again. */
static int find_last_id(struct job_scan *scan)
{
    char topic[BI_JOB_SCAN_TOPIC_SIZE];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;

    options.delay_ms = PROBE_DELAY_MS;
    bi_job_scan_make_topic(topic, BI_JOB_SCAN_PROBE_PREFIX);
    int code = bide_put(scan->queue, topic, "", 0, &options, &id);
    if (code == BIDE_DRAINING)
        return count_expected(scan);
    if (code != BIDE_OK)
        return bi_cli_report(scan->cli, "cannot put a job to learn the last id", code,
                             bide_last_error());

    code = bide_delete(scan->queue, id, 0);
    if (code != BIDE_OK) {
        bi_cli_note(scan->cli, "job %llu of topic %s was put to learn the last id; delete it",
                    (unsigned long long)id, topic);
        return bi_cli_report_last(scan->cli, code);
    }
    scan->last_id = id - 1;
    return BI_EXIT_OK;
}

int bi_job_scan_list(struct job_scan *scan)
{
    struct progress progress;
    int exit = BI_EXIT_OK;

    scan->count = 0;
    scan->unreadable = 0;
    scan->last_id = scan->expected_count = 0;
    if (scan->plain)
        return find_last_id(scan);

    bi_progress_begin(&progress, scan->cli, "listing", 0);
    if (scan->topic_count == 0)
        exit = list_topic(scan, NULL, &progress);
    for (size_t i = 0; exit == BI_EXIT_OK && i < scan->topic_count; i++)
        exit = list_topic(scan, scan->topics[i], &progress);
    bi_progress_end(&progress);
    sort_ids(scan);
    return exit;
}

/* ---- reading ---- */

struct scan_run {
    struct job_scan *scan;
    bi_job_scan_visit *visit;
    void *user;
    struct ordered_pipeline *pipeline;
    struct progress progress;
    uint64_t visited, found;
    uint64_t empty;       /* beanstalkd: ids in a row without a job */
    size_t expected_size; /* beanstalkd: of the next job, judged by those before it */
    int exit;
};

bool bi_job_scan_is_damaged_job(const struct job_scan *scan, int code)
{
    return code == BIDE_EIO && (bide_capabilities(scan->queue) & BIDE_CAN_SHARE) == 0;
}

static bool is_wanted(const struct job_scan *scan, const bide_job *job)
{
    if (scan->state != BIDE_STATE_ANY && scan->state != job->state)
        return false;
    /* The probe of a scan that was killed before it could delete it. */
    if (scan->plain &&
        strncmp(job->topic, BI_JOB_SCAN_PROBE_PREFIX, strlen(BI_JOB_SCAN_PROBE_PREFIX)) == 0)
        return false;
    return bi_job_scan_has_topic(scan, job->topic);
}

static void on_read_error(struct scan_run *scan_run, const struct op_slot *slot)
{
    struct job_scan *scan = scan_run->scan;
    int exit = bi_cli_report_job(scan->cli, slot->number, slot->op.status, slot->op.error);

    if (bi_job_scan_is_damaged_job(scan, slot->op.status))
        scan->unreadable++;
    else
        scan_run->exit = exit;
}

static void on_read(struct scan_run *scan_run, bide_job *job)
{
    assert(scan_run->exit == BI_EXIT_OK);
    scan_run->found++;
    scan_run->empty = 0;

    /* A beanstalkd reports whole seconds, rounded down; no copy may become ready early. */
    if (scan_run->scan->plain && job->state == BIDE_STATE_DELAYED) {
        job->run_at_ms += 1000;
        job->left_ms += 1000;
    }
    if (is_wanted(scan_run->scan, job))
        scan_run->exit = scan_run->visit(scan_run->user, job);
}

static void on_done(void *user, struct op_slot *slot)
{
    struct scan_run *scan_run = user;

    bi_progress_set(&scan_run->progress, ++scan_run->visited);
    if (scan_run->exit != BI_EXIT_OK)
        return;

    /* The visitor may take the job, so its size is read before. The estimate rises at once and
     * falls slowly: too small a one would let large jobs exceed the bound of the pipeline. */
    size_t size = slot->op.status == BIDE_OK ? bi_job_scan_job_size(&slot->job) : 0;
    size_t decayed = scan_run->expected_size - scan_run->expected_size / 64;
    scan_run->expected_size = size > decayed ? size : decayed;

    if (slot->op.status == BIDE_OK)
        on_read(scan_run, &slot->job);
    else if (slot->op.status == BIDE_NOT_FOUND)
        scan_run->empty++;
    else
        on_read_error(scan_run, slot);
}

static void submit_peek(struct scan_run *scan_run, uint64_t id, size_t size)
{
    struct op_slot *slot = bi_ordered_pipeline_get_slot(scan_run->pipeline, size);

    slot->op.kind = BIDE_OP_PEEK;
    slot->op.query = (bide_query_args){.id = id, .job = &slot->job};
    slot->number = id;
    bi_ordered_pipeline_submit(scan_run->pipeline);
    if (bi_interrupted() && scan_run->exit == BI_EXIT_OK)
        scan_run->exit = bi_interrupt_exit();
}

/* Has every job of a beanstalkd been found? Without the last id the scan cannot know where to stop
 * if jobs were deleted since they were counted; it gives up after EMPTY_MAX ids without a job. */
static bool is_finished(struct scan_run *scan_run, uint64_t id)
{
    const struct job_scan *scan = scan_run->scan;

    if (scan->expected_count == 0)
        return id > scan->last_id;
    if (scan_run->found >= scan->expected_count)
        return true;
    if (scan_run->empty > EMPTY_MAX)
        scan_run->exit = bi_cli_error(
            scan->cli, BI_EXIT_PARTIAL,
            "found %llu of the %llu jobs of the server, and none among the next %d ids",
            (unsigned long long)scan_run->found, (unsigned long long)scan->expected_count,
            EMPTY_MAX);
    return scan_run->exit != BI_EXIT_OK;
}

int bi_job_scan_read(struct job_scan *scan, const char *label, bi_job_scan_visit *visit, void *user)
{
    struct scan_run scan_run = {
        .scan = scan, .visit = visit, .user = user, .expected_size = (size_t)1 << 20};
    scan_run.pipeline = bi_ordered_pipeline_new(scan->cli, scan->queue, on_done, &scan_run);
    if (scan_run.pipeline == NULL)
        return BI_EXIT_FAILED;

    assert(scan->plain || scan->count <= scan->capacity);
    bi_progress_begin(&scan_run.progress, scan->cli, label,
                      scan->plain ? scan->last_id : scan->count);
    if (scan->plain) {
        for (uint64_t id = 1; scan_run.exit == BI_EXIT_OK && !is_finished(&scan_run, id); id++)
            submit_peek(&scan_run, id, scan_run.expected_size);
    } else {
        for (size_t i = 0; scan_run.exit == BI_EXIT_OK && i < scan->count; i++)
            submit_peek(&scan_run, bi_job_scan_id(scan, i), size_at(scan, i));
    }

    /* Waits for the peeks in flight, and visits their jobs. */
    bi_ordered_pipeline_free(scan_run.pipeline);
    bi_progress_end(&scan_run.progress);
    return scan_run.exit;
}
