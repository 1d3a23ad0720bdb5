/* SPDX-License-Identifier: MIT */
#include "cli/source.h"

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/relay.h"
#include "cli/source_probe.h"

#include <stdlib.h>
#include <string.h>

#define PAGE       1000
#define LOOK_MS    200      /* how often an interrupt is looked for while stored jobs are loaded */
#define EMPTY_MOST 10000000 /* ids in a row without a job, where their end is not known */
#define SIZE_BITS  6        /* ids have 53 bits: there is room for the logarithm of a size */

/* ---- opening ---- */

static int wait_recovered(const struct cli *cli, bide *queue)
{
    struct progress progress;
    bide_recovery recovery = {.phase = BIDE_PHASE_COUNTING};
    int code;
    bi_progress_begin(&progress, cli, "loading", 0);
    while ((code = bide_wait_recovered(queue, LOOK_MS, &recovery)) == BIDE_TIMED_OUT &&
           !bi_interrupted()) {
        progress.total = recovery.total;
        bi_progress_set(&progress, recovery.loaded);
    }
    bi_progress_end(&progress);
    return code == BIDE_TIMED_OUT ? bi_interrupt_exit() : bi_cli_answered(cli, code);
}

int bi_source_open(struct source *source, const struct cli *cli, bide *queue)
{
    *source = (struct source){
        .cli = cli,
        .queue = queue,
        .plain = (bide_capabilities(queue) & BIDE_CAN_ALL_OPS) == 0,
    };
    return wait_recovered(cli, queue);
}

void bi_source_close(struct source *source)
{
    free(source->ids);
    source->ids = NULL;
    source->count = source->room = 0;
}

/* ---- listing ---- */

size_t bi_source_size(const bide_job *job)
{
    return sizeof(*job) + job->body_size + job->result_size + job->last_error_size;
}

/* The logarithm of the size, rounded up. */
static uint64_t pack(uint64_t id, size_t size)
{
    uint64_t bits = 0;
    while ((size_t)1 << bits < size)
        bits++;
    return id << SIZE_BITS | bits;
}

void bi_source_clear(struct source *source)
{
    source->count = 0;
    source->counted = false;
}

bool bi_source_add(struct source *source, uint64_t id, size_t size)
{
    if (source->count == source->room) {
        size_t room = source->room == 0 ? 4096 : source->room * 2;
        uint64_t *ids = realloc(source->ids, room * sizeof(*ids));
        if (ids == NULL)
            return false;
        source->ids = ids;
        source->room = room;
    }
    source->ids[source->count++] = pack(id, size);
    return true;
}

static int take_page(struct source *source, bide_op *op, bide_job *jobs)
{
    bool good = true;
    int code = bi_source_ask(source->queue, op);
    if (code != BIDE_OK)
        return bi_cli_refused(source->cli, NULL, code, op->error);
    for (size_t i = 0; i < op->list.count; i++) {
        good = good && bi_source_add(source, jobs[i].id, bi_source_size(&jobs[i]));
        bide_job_clear(&jobs[i]);
    }
    return good ? BI_EXIT_OK
                : bi_cli_failed(source->cli, BI_EXIT_FAILED,
                                "there is not enough memory for the "
                                "ids of all jobs");
}

/* topic NULL: all. */
static int list_topic(struct source *source, const char *topic, struct progress *progress)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job *jobs = calloc(PAGE, sizeof(*jobs));
    int exit;
    if (jobs == NULL)
        return bi_cli_failed(source->cli, BI_EXIT_FAILED, "there is not enough memory");
    do {
        bide_op op = {.kind = BIDE_OP_LIST};
        op.list = (bide_list_args){
            .topic = {topic, topic == NULL ? 0 : strlen(topic)},
            .state = source->state,
            .cursor = cursor,
            .jobs = jobs,
            .job_max = PAGE,
        };
        exit = bi_interrupted() ? bi_interrupt_exit() : take_page(source, &op, jobs);
        bi_progress_set(progress, source->count);
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
void bi_source_sort(struct source *source)
{
    size_t kept = 0;
    if (source->count > 0)
        qsort(source->ids, source->count, sizeof(*source->ids), compare);
    for (size_t i = 0; i < source->count; i++)
        if (kept == 0 || source->ids[kept - 1] >> SIZE_BITS != source->ids[i] >> SIZE_BITS)
            source->ids[kept++] = source->ids[i];
    source->count = kept;
}

uint64_t bi_source_id(const struct source *source, size_t index)
{
    return source->ids[index] >> SIZE_BITS;
}

int bi_source_list(struct source *source)
{
    struct progress progress;
    int exit = BI_EXIT_OK;
    bi_source_clear(source);
    source->counted = source->plain;
    source->unreadable = 0;
    source->sought = 0;
    if (source->counted)
        return bi_source_probe(source);
    bi_progress_begin(&progress, source->cli, "listing", 0);
    if (source->topic_count == 0)
        exit = list_topic(source, NULL, &progress);
    for (size_t i = 0; exit == BI_EXIT_OK && i < source->topic_count; i++)
        exit = list_topic(source, source->topics[i], &progress);
    bi_progress_end(&progress);
    bi_source_sort(source);
    return exit;
}

uint64_t bi_source_total(const struct source *source)
{
    if (source->counted)
        return source->sought > 0 ? 0 : source->last;
    return source->count;
}

/* ---- reading ---- */

struct reading {
    struct source *source;
    bi_source_take *take;
    void *user;
    struct progress progress;
    uint64_t looked, found;
    uint64_t empty;  /* ids in a row that are no job's */
    size_t expected; /* beanstalkd: how large a job may be, judged by those before it */
    int exit;
};

static bool is_wanted(const struct source *source, const bide_job *job)
{
    if (source->state != BIDE_STATE_ANY && source->state != job->state)
        return false;
    /* Whoever probed it and was killed has left this. */
    if (source->plain && strncmp(job->topic, BI_PROBE, strlen(BI_PROBE)) == 0)
        return false;
    for (size_t i = 0; i < source->topic_count; i++)
        if (strcmp(source->topics[i], job->topic) == 0)
            return true;
    return source->topic_count == 0;
}

/* Of a file, one job may be damaged and the next one not; a server that does not answer will not
 * answer for the next one either. */
static void cannot_read(struct reading *reading, const struct piece *piece)
{
    struct source *source = reading->source;
    char subject[40];
    snprintf(subject, sizeof(subject), "job %llu", (unsigned long long)piece->number);
    int exit = bi_cli_refused(source->cli, subject, piece->op.status, piece->op.error);
    if (piece->op.status == BIDE_EIO && (bide_capabilities(source->queue) & BIDE_CAN_SHARE) == 0)
        source->unreadable++;
    else
        reading->exit = exit;
}

/* Seconds are all that beanstalkd tells, rounded down; no job may be early. */
static void round_up(bide_job *job)
{
    if (job->state != BIDE_STATE_DELAYED)
        return;
    job->run_at_ms += 1000;
    job->left_ms += 1000;
}

static void take_piece(void *user, struct piece *piece)
{
    struct reading *reading = user;
    size_t size = 0;
    bi_progress_set(&reading->progress, ++reading->looked);
    if (reading->exit != BI_EXIT_OK)
        return;
    if (piece->op.status == BIDE_OK) {
        size = bi_source_size(&piece->job);
        reading->found++;
        reading->empty = 0;
        if (reading->source->plain)
            round_up(&piece->job);
        if (is_wanted(reading->source, &piece->job))
            reading->exit = reading->take(reading->user, &piece->job);
    } else if (piece->op.status == BIDE_NOT_FOUND) {
        reading->empty++;
    } else {
        cannot_read(reading, piece);
    }
    size_t less = reading->expected - reading->expected / 64;
    reading->expected = size > less ? size : less;
}

static void look_at(struct relay *relay, uint64_t id, size_t size)
{
    struct piece *piece = bi_relay_piece(relay, size);
    piece->op.kind = BIDE_OP_PEEK;
    piece->op.look = (bide_look_args){.id = id, .job = &piece->job};
    piece->number = id;
    bi_relay_send(relay);
}

static void read_listed(struct reading *reading, struct relay *relay)
{
    const struct source *source = reading->source;
    for (size_t i = 0; i < source->count && reading->exit == BI_EXIT_OK; i++) {
        uint64_t packed = source->ids[i];
        look_at(relay, packed >> SIZE_BITS, (size_t)1 << (packed & ((1u << SIZE_BITS) - 1)));
        if (bi_interrupted() && reading->exit == BI_EXIT_OK)
            reading->exit = bi_interrupt_exit();
    }
}

/* Of jobs that are gone meanwhile nobody knows whether they would have come. */
static bool is_at_end(struct reading *reading, uint64_t id)
{
    const struct source *source = reading->source;
    if (source->sought == 0)
        return id > source->last;
    if (reading->found < source->sought && reading->empty > EMPTY_MOST)
        reading->exit = bi_cli_failed(
            source->cli, BI_EXIT_PARTLY,
            "%llu of the %llu jobs that the server has were found, and none among the next %d ids",
            (unsigned long long)reading->found, (unsigned long long)source->sought, EMPTY_MOST);
    return reading->found >= source->sought || reading->exit != BI_EXIT_OK;
}

static void read_counted(struct reading *reading, struct relay *relay)
{
    for (uint64_t id = 1; !is_at_end(reading, id) && reading->exit == BI_EXIT_OK; id++) {
        look_at(relay, id, reading->expected);
        if (bi_interrupted() && reading->exit == BI_EXIT_OK)
            reading->exit = bi_interrupt_exit();
    }
}

int bi_source_read(struct source *source, const char *what, bi_source_take *take, void *user)
{
    struct reading reading = {
        .source = source, .take = take, .user = user, .expected = (size_t)1 << 20};
    struct relay *relay = bi_relay_new(source->cli, source->queue, take_piece, &reading);
    if (relay == NULL)
        return BI_EXIT_FAILED;
    bi_progress_begin(&reading.progress, source->cli, what, bi_source_total(source));
    if (source->counted)
        read_counted(&reading, relay);
    else
        read_listed(&reading, relay);
    bi_relay_free(relay);
    bi_progress_end(&reading.progress);
    return reading.exit;
}

/* ---- one op ---- */

int bi_source_ask(bide *queue, bide_op *op)
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
