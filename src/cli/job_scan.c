/* SPDX-License-Identifier: MIT */
#include "cli/job_scan.h"

#include "cli/interrupt.h"
#include "cli/ordered_pipeline.h"
#include "cli/progress.h"
#include "cli/queue_probe.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 1000
#define INTERRUPT_POLL_MS \
    200                    /* how often an interrupt is looked for while stored jobs are loaded */
#define EMPTY_MAX 10000000 /* ids in a row without a job, where their end is not known */
#define SIZE_BITS 6        /* ids have 53 bits: there is room for the logarithm of a size */

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

size_t bi_job_scan_job_size(const bide_job *job)
{
    return sizeof(*job) + job->body_size + job->result_size + job->last_error_size;
}

/* The logarithm of the size, rounded up. */
static uint64_t pack_id(uint64_t id, size_t size)
{
    uint64_t bits = 0;
    while ((size_t)1 << bits < size)
        bits++;
    return id << SIZE_BITS | bits;
}

void bi_job_scan_clear(struct job_scan *scan)
{
    scan->count = 0;
    scan->by_counting = false;
}

bool bi_job_scan_add(struct job_scan *scan, uint64_t id, size_t size)
{
    if (scan->count == scan->capacity) {
        size_t capacity = scan->capacity == 0 ? 4096 : scan->capacity * 2;
        uint64_t *ids = realloc(scan->ids, capacity * sizeof(*ids));
        if (ids == NULL)
            return false;
        scan->ids = ids;
        scan->capacity = capacity;
    }
    scan->ids[scan->count++] = pack_id(id, size);
    return true;
}

static int add_page(struct job_scan *scan, bide_op *op, bide_job *jobs)
{
    bool good = true;
    int code = bi_job_scan_run_op(scan->queue, op);
    if (code != BIDE_OK)
        return bi_cli_report(scan->cli, NULL, code, op->error);
    for (size_t i = 0; i < op->list.count; i++) {
        good = good && bi_job_scan_add(scan, jobs[i].id, bi_job_scan_job_size(&jobs[i]));
        bide_job_clear(&jobs[i]);
    }
    return good ? BI_EXIT_OK
                : bi_cli_error(scan->cli, BI_EXIT_FAILED,
                               "there is not enough memory for the "
                               "ids of all jobs");
}

/* topic NULL: all. */
static int list_topic(struct job_scan *scan, const char *topic, struct progress *progress)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job *jobs = calloc(PAGE, sizeof(*jobs));
    int exit;
    if (jobs == NULL)
        return bi_cli_error(scan->cli, BI_EXIT_FAILED, "there is not enough memory");
    do {
        bide_op op = {.kind = BIDE_OP_LIST};
        op.list = (bide_list_args){
            .topic = {topic, topic == NULL ? 0 : strlen(topic)},
            .state = scan->state,
            .cursor = cursor,
            .jobs = jobs,
            .job_max = PAGE,
        };
        exit = bi_interrupted() ? bi_interrupt_exit() : add_page(scan, &op, jobs);
        bi_progress_set(progress, scan->count);
    } while (exit == BI_EXIT_OK && cursor[0] != 0);
    free(jobs);
    return exit;
}

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* A job that went from one topic to another meanwhile may be there twice. */
void bi_job_scan_sort(struct job_scan *scan)
{
    size_t kept = 0;
    if (scan->count > 0)
        qsort(scan->ids, scan->count, sizeof(*scan->ids), compare);
    for (size_t i = 0; i < scan->count; i++)
        if (kept == 0 || scan->ids[kept - 1] >> SIZE_BITS != scan->ids[i] >> SIZE_BITS)
            scan->ids[kept++] = scan->ids[i];
    scan->count = kept;
}

uint64_t bi_job_scan_id(const struct job_scan *scan, size_t index)
{
    return scan->ids[index] >> SIZE_BITS;
}

int bi_job_scan_list(struct job_scan *scan)
{
    struct progress progress;
    int exit = BI_EXIT_OK;
    bi_job_scan_clear(scan);
    scan->by_counting = scan->plain;
    scan->unreadable = 0;
    scan->expected_count = 0;
    if (scan->by_counting)
        return bi_queue_probe_last_id(scan);
    bi_progress_begin(&progress, scan->cli, "listing", 0);
    if (scan->topic_count == 0)
        exit = list_topic(scan, NULL, &progress);
    for (size_t i = 0; exit == BI_EXIT_OK && i < scan->topic_count; i++)
        exit = list_topic(scan, scan->topics[i], &progress);
    bi_progress_end(&progress);
    bi_job_scan_sort(scan);
    return exit;
}

uint64_t bi_job_scan_total(const struct job_scan *scan)
{
    if (scan->by_counting)
        return scan->expected_count > 0 ? 0 : scan->last_id;
    return scan->count;
}

/* ---- reading ---- */

struct scan_run {
    struct job_scan *scan;
    bi_job_scan_visit *visit;
    void *user;
    struct progress progress;
    uint64_t visited, found;
    uint64_t empty;  /* ids in a row that are no job's */
    size_t expected; /* beanstalkd: how large a job may be, judged by those before it */
    int exit;
};

static bool is_wanted(const struct job_scan *scan, const bide_job *job)
{
    if (scan->state != BIDE_STATE_ANY && scan->state != job->state)
        return false;
    /* Whoever probed it and was killed has left this. */
    if (scan->plain &&
        strncmp(job->topic, BI_QUEUE_PROBE_PREFIX, strlen(BI_QUEUE_PROBE_PREFIX)) == 0)
        return false;
    for (size_t i = 0; i < scan->topic_count; i++)
        if (strcmp(scan->topics[i], job->topic) == 0)
            return true;
    return scan->topic_count == 0;
}

/* Of a file, one job may be damaged and the next one not; a server that does not answer will not
 * answer for the next one either. */
static void on_read_error(struct scan_run *scan_run, const struct op_slot *slot)
{
    struct job_scan *scan = scan_run->scan;
    char subject[40];
    snprintf(subject, sizeof(subject), "job %llu", (unsigned long long)slot->number);
    int exit = bi_cli_report(scan->cli, subject, slot->op.status, slot->op.error);
    if (slot->op.status == BIDE_EIO && (bide_capabilities(scan->queue) & BIDE_CAN_SHARE) == 0)
        scan->unreadable++;
    else
        scan_run->exit = exit;
}

/* Seconds are all that beanstalkd tells, rounded down; no job may be early. */
static void round_up_times(bide_job *job)
{
    if (job->state != BIDE_STATE_DELAYED)
        return;
    job->run_at_ms += 1000;
    job->left_ms += 1000;
}

static void on_result(void *user, struct op_slot *slot)
{
    struct scan_run *scan_run = user;
    size_t size = 0;
    bi_progress_set(&scan_run->progress, ++scan_run->visited);
    if (scan_run->exit != BI_EXIT_OK)
        return;
    if (slot->op.status == BIDE_OK) {
        size = bi_job_scan_job_size(&slot->job);
        scan_run->found++;
        scan_run->empty = 0;
        if (scan_run->scan->plain)
            round_up_times(&slot->job);
        if (is_wanted(scan_run->scan, &slot->job))
            scan_run->exit = scan_run->visit(scan_run->user, &slot->job);
    } else if (slot->op.status == BIDE_NOT_FOUND) {
        scan_run->empty++;
    } else {
        on_read_error(scan_run, slot);
    }
    size_t decayed = scan_run->expected - scan_run->expected / 64;
    scan_run->expected = size > decayed ? size : decayed;
}

static void submit_peek(struct ordered_pipeline *ordered_pipeline, uint64_t id, size_t size)
{
    struct op_slot *slot = bi_ordered_pipeline_get_slot(ordered_pipeline, size);
    slot->op.kind = BIDE_OP_PEEK;
    slot->op.query = (bide_query_args){.id = id, .job = &slot->job};
    slot->number = id;
    bi_ordered_pipeline_submit(ordered_pipeline);
}

static void read_listed(struct scan_run *scan_run, struct ordered_pipeline *ordered_pipeline)
{
    const struct job_scan *scan = scan_run->scan;
    for (size_t i = 0; i < scan->count && scan_run->exit == BI_EXIT_OK; i++) {
        uint64_t packed = scan->ids[i];
        submit_peek(ordered_pipeline, packed >> SIZE_BITS,
                    (size_t)1 << (packed & ((1u << SIZE_BITS) - 1)));
        if (bi_interrupted() && scan_run->exit == BI_EXIT_OK)
            scan_run->exit = bi_interrupt_exit();
    }
}

/* Of jobs that are gone meanwhile nobody knows whether they would have come. */
static bool is_finished(struct scan_run *scan_run, uint64_t id)
{
    const struct job_scan *scan = scan_run->scan;
    if (scan->expected_count == 0)
        return id > scan->last_id;
    if (scan_run->found < scan->expected_count && scan_run->empty > EMPTY_MAX)
        scan_run->exit = bi_cli_error(
            scan->cli, BI_EXIT_PARTIAL,
            "%llu of the %llu jobs that the server has were found, and none among the next %d ids",
            (unsigned long long)scan_run->found, (unsigned long long)scan->expected_count,
            EMPTY_MAX);
    return scan_run->found >= scan->expected_count || scan_run->exit != BI_EXIT_OK;
}

static void read_by_counting(struct scan_run *scan_run, struct ordered_pipeline *ordered_pipeline)
{
    for (uint64_t id = 1; !is_finished(scan_run, id) && scan_run->exit == BI_EXIT_OK; id++) {
        submit_peek(ordered_pipeline, id, scan_run->expected);
        if (bi_interrupted() && scan_run->exit == BI_EXIT_OK)
            scan_run->exit = bi_interrupt_exit();
    }
}

int bi_job_scan_read(struct job_scan *scan, const char *label, bi_job_scan_visit *visit, void *user)
{
    struct scan_run scan_run = {
        .scan = scan, .visit = visit, .user = user, .expected = (size_t)1 << 20};
    struct ordered_pipeline *ordered_pipeline =
        bi_ordered_pipeline_new(scan->cli, scan->queue, on_result, &scan_run);
    if (ordered_pipeline == NULL)
        return BI_EXIT_FAILED;
    bi_progress_begin(&scan_run.progress, scan->cli, label, bi_job_scan_total(scan));
    if (scan->by_counting)
        read_by_counting(&scan_run, ordered_pipeline);
    else
        read_listed(&scan_run, ordered_pipeline);
    bi_ordered_pipeline_free(ordered_pipeline);
    bi_progress_end(&scan_run.progress);
    return scan_run.exit;
}

/* ---- one op ---- */

int bi_job_scan_run_op(bide *queue, bide_op *op)
{
    bide_op *list[] = {op};
    if (bide_cq_new(&op->cq) != BIDE_OK)
        return BIDE_ESYSTEM;
    int pending = bide_submit(queue, list, 1);
    while (pending > 0 && op->status == BIDE_PENDING)
        bide_cq_wait(op->cq, BIDE_FOREVER);
    bide_cq_free(op->cq);
    return pending < 0 ? pending : op->status;
}
