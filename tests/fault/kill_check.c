/* SPDX-License-Identifier: MIT */
/* kill_check.c - what a killed process left, compared with what it was told. */
#include "kill.h"

#include "../sim/rng.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP_JOBS  150 /* that go on to the next round */
#define PAGE       200
#define ERRORS_MAX 5

static int errors;

static void __attribute__((format(printf, 2, 3))) wrong(uint64_t serial, const char *format, ...)
{
    va_list arguments;
    if (errors++ >= ERRORS_MAX)
        return;
    printf("     job %llu: ", (unsigned long long)serial);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

/* ---- what may be ---- */

/* The calls of a round, by job and then in the order in which they began. */
static struct entry *calls[THREADS * ENTRIES_MAX];
static size_t call_count;
static bool taking[TOPICS]; /* a reserve was under way there */

static int by_serial(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a;
    const struct entry *y = *(struct entry *const *)b;
    if (x->serial != y->serial)
        return x->serial < y->serial ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static bool is_refusal(const struct entry *entry)
{
    return entry->stage == ANSWERED && entry->code != BIDE_OK;
}

static void collect_calls(void)
{
    call_count = 0;
    memset(taking, 0, sizeof(taking));
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < ENTRIES_MAX; j++) {
            struct entry *entry = &shared->entries[i][j];
            if (entry->stage == NOT_BEGUN)
                break;
            if (entry->call == RESERVE && entry->stage == BEGUN)
                taking[entry->topic] = true;
            else if (entry->call != RESERVE || entry->code != BIDE_TIMED_OUT)
                calls[call_count++] = entry;
        }
    }
    qsort(calls, call_count, sizeof(calls[0]), by_serial);
}

static struct form after(struct form form, const struct known *job, const struct entry *entry)
{
    switch (entry->call) {
    case PUT:
        return (struct form){true, entry->due == DUE_LATER ? BIDE_STATE_DELAYED : BIDE_STATE_READY,
                             entry->priority, entry->due, 0};
    case RESERVE:
        form.state = BIDE_STATE_RESERVED;
        break;
    case DELETE:
        form.exists = false;
        break;
    case DONE:
        form.state = BIDE_STATE_DONE;
        break;
    case BURY:
        form.state = BIDE_STATE_BURIED;
        break;
    case FAILED:
        form.failures++;
        form.state = job->max_retries >= 0 && form.failures > (uint32_t)job->max_retries
                         ? BIDE_STATE_BURIED
                         : BIDE_STATE_DELAYED;
        break;
    case RELEASE:
        form.state = entry->due == DUE_LATER ? BIDE_STATE_DELAYED : BIDE_STATE_READY;
        break;
    case KICK:
        form.state = BIDE_STATE_READY;
        form.failures = 0;
        break;
    default:
        break;
    }
    form.due = entry->call == UPDATE ? form.due : entry->due;
    if (entry->call == BURY || entry->call == RELEASE || entry->call == UPDATE)
        form.priority = entry->priority;
    return form;
}

/* What a restart makes of it. */
static struct form restarted(struct form form, const struct known *job)
{
    if (form.state != BIDE_STATE_RESERVED)
        return form;
    form.state = BIDE_STATE_READY;
    if (job->max_retries < 0)
        return form;
    form.failures++;
    form.due = DUE_LATER;
    form.state =
        form.failures > (uint32_t)job->max_retries ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
    return form;
}

static bool fits(struct form form, const struct known *job, const bide_job *found)
{
    form = restarted(form, job);
    if (!form.exists || found == NULL)
        return !form.exists && found == NULL;
    bool state =
        found->state == form.state || (form.due == DUE_SOON && form.state == BIDE_STATE_READY &&
                                       found->state == BIDE_STATE_DELAYED);
    return state && found->priority == form.priority &&
           (job->max_retries < 0 || found->failures == form.failures);
}

/* A reserve that was under way may have been stored, which counts for a job with a retry limit. */
static bool fits_taken(struct form form, const struct known *job, const bide_job *found)
{
    if (fits(form, job, found))
        return true;
    if (!form.exists || form.state != BIDE_STATE_READY || !taking[job->topic])
        return false;
    form.state = BIDE_STATE_RESERVED;
    return fits(form, job, found);
}

/* ---- what is ---- */

static const char *name_of(enum call call)
{
    static const char *const names[] = {"nothing", "put",     "reserve", "delete", "done",
                                        "bury",    "release", "fail",    "update", "kick"};
    return names[call];
}

static void tell_calls(size_t first, size_t last)
{
    for (size_t i = first; i < last && errors <= ERRORS_MAX; i++)
        printf("         %s %s %d priority %u due %d\n", name_of(calls[i]->call),
               calls[i]->stage == BEGUN ? "under way" : "answered", calls[i]->code,
               calls[i]->priority, (int)calls[i]->due);
}

static void check_refusal(const struct entry *entry)
{
    wrong(entry->serial, "%s was answered with %s", name_of(entry->call),
          bide_code_name(entry->code));
}

/* Tokens and ids are given once, over all rounds. */
static void note_answer(struct known *job, const struct entry *entry)
{
    if (entry->call == PUT && entry->stage == ANSWERED) {
        job->id = entry->id;
        if (entry->id <= shared->highest_id)
            wrong(entry->serial, "the id %llu was given before", (unsigned long long)entry->id);
    }
    if (entry->call == BURY)
        job->buried = entry->order;
    if (entry->call == KICK)
        job->buried = 0;
    job->token = 0;
    if (entry->call == RESERVE) {
        job->token = entry->token;
        if (shared->token_count < TOKENS_MAX)
            shared->tokens[shared->token_count++] = entry->token;
    }
}

/* Goes through the calls on one job; found is NULL if the file does not have it. */
static void check_job(uint64_t serial, size_t first, size_t last, const bide_job *found)
{
    struct known *job = &shared->jobs[serial];
    struct form form = job->form;
    bool fit = false;
    size_t settled = first; /* the calls before this one have happened */
    for (size_t i = first; i < last; i++)
        if (calls[i]->stage == ANSWERED)
            settled = i + 1;
    for (size_t i = first; i < last; i++) {
        if (is_refusal(calls[i])) {
            check_refusal(calls[i]);
            continue;
        }
        if (i >= settled)
            fit = fit || fits_taken(form, job, found);
        form = after(form, job, calls[i]);
        note_answer(job, calls[i]);
    }
    if (!fit && !fits_taken(form, job, found)) {
        wrong(serial, "is %s with priority %u and %u failures; expected %s, priority %u, %u",
              found == NULL ? "not there" : bide_state_name(found->state),
              found == NULL ? 0 : found->priority, found == NULL ? 0 : found->failures,
              form.exists ? bide_state_name(form.state) : "gone", form.priority, form.failures);
        tell_calls(first, last);
    }
}

static void check_contents(uint64_t serial, const bide_job *found)
{
    const struct known *job = &shared->jobs[serial];
    char text[32];
    if (!body_is(serial, found->body, found->body_size))
        wrong(serial, "has another body (%zu bytes)", found->body_size);
    if (strcmp(found->topic, kill_topics[job->topic]) != 0)
        wrong(serial, "is in topic %s", found->topic);
    if (job->id != 0 && job->id != found->id)
        wrong(serial, "has the id %llu instead of %llu", (unsigned long long)found->id,
              (unsigned long long)job->id);
    snprintf(text, sizeof text, "k%llu", (unsigned long long)serial);
    if (job->has_key != (found->key != NULL) ||
        (job->has_key &&
         (found->key_size != strlen(text) || memcmp(found->key, text, strlen(text)) != 0)))
        wrong(serial, "has another key");
    text[0] = 'r';
    if (found->state == BIDE_STATE_DONE &&
        (found->result_size != strlen(text) || memcmp(found->result, text, strlen(text)) != 0))
        wrong(serial, "has another result");
    if (found->max_retries != job->max_retries)
        wrong(serial, "has another retry limit");
}

/* ---- the whole file ---- */

static bide_job *jobs;
static size_t job_count;

static int by_ttr(const void *a, const void *b)
{
    const bide_job *x = a;
    const bide_job *y = b;
    return x->ttr_ms < y->ttr_ms ? -1 : x->ttr_ms > y->ttr_ms;
}

static bool read_jobs(bide *queue)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t room = 0;
    do {
        size_t count = 0;
        if (job_count + PAGE > room) {
            room = room * 2 + PAGE;
            jobs = realloc(jobs, room * sizeof(jobs[0]));
        }
        if (jobs == NULL || bide_list(queue, NULL, BIDE_STATE_ANY, NULL, cursor, jobs + job_count,
                                      PAGE, &count) != BIDE_OK) {
            wrong(0, "the list cannot be read: %s", bide_last_error());
            return false;
        }
        job_count += count;
    } while (cursor[0] != 0);
    qsort(jobs, job_count, sizeof(jobs[0]), by_ttr);
    return true;
}

static uint64_t serial_of(const bide_job *job)
{
    return (uint64_t)(job->ttr_ms - TTR_BASE_MS);
}

/* Nothing that was never put, and nothing twice. */
static bool check_serials(void)
{
    for (size_t i = 0; i < job_count; i++) {
        uint64_t serial = serial_of(&jobs[i]);
        if (jobs[i].ttr_ms <= TTR_BASE_MS || serial > shared->serial || serial >= JOBS_MAX) {
            wrong(serial, "was never put");
            return false;
        }
        if (i > 0 && jobs[i].ttr_ms == jobs[i - 1].ttr_ms)
            wrong(serial, "is there twice, as %llu and %llu", (unsigned long long)jobs[i].id,
                  (unsigned long long)jobs[i - 1].id);
    }
    return true;
}

/* Every job that ever was, with its calls of this round, and with what the file has of it. */
static void check_jobs(void)
{
    size_t at = 0;
    size_t call = 0;
    for (uint64_t serial = 1; serial <= shared->serial && serial < JOBS_MAX; serial++) {
        size_t first = call;
        while (call < call_count && calls[call]->serial == serial)
            call++;
        const bide_job *found = NULL;
        for (; at < job_count && serial_of(&jobs[at]) <= serial; at++)
            found = serial_of(&jobs[at]) == serial ? &jobs[at] : NULL;
        if (first == call && found == NULL && !shared->jobs[serial].form.exists)
            continue;
        check_job(serial, first, call, found);
        if (found != NULL)
            check_contents(serial, found);
    }
}

/* From here the next round goes on. */
static void adopt(void)
{
    for (uint64_t serial = 1; serial <= shared->serial && serial < JOBS_MAX; serial++)
        shared->jobs[serial].form.exists = false;
    for (size_t i = 0; i < job_count; i++) {
        struct known *job = &shared->jobs[serial_of(&jobs[i])];
        job->id = jobs[i].id;
        job->form =
            (struct form){true, jobs[i].state, jobs[i].priority, DUE_LATER, jobs[i].failures};
        if (jobs[i].state == BIDE_STATE_READY)
            job->form.due = DUE_NOW;
        if (jobs[i].state == BIDE_STATE_DELAYED && jobs[i].left_ms < HOUR_MS / 2) {
            job->form.state = BIDE_STATE_READY;
            job->form.due = DUE_SOON;
        }
        if (jobs[i].id > shared->highest_id)
            shared->highest_id = jobs[i].id;
    }
    for (size_t i = 0; i < call_count; i++)
        if (calls[i]->call == PUT && calls[i]->id > shared->highest_id)
            shared->highest_id = calls[i]->id;
}

/* ---- leases and burials ---- */

static void check_leases(bide *queue)
{
    for (size_t i = 0; i < call_count; i++) {
        const struct entry *entry = calls[i];
        if (entry->call != RESERVE || entry->code != BIDE_OK)
            continue;
        int code = bide_delete(queue, entry->id, entry->token);
        bool there = shared->jobs[entry->serial].form.exists;
        if (code != (there ? BIDE_LEASE_LOST : BIDE_NOT_FOUND))
            wrong(entry->serial, "delete with the token of before the end: %s",
                  bide_code_name(code));
    }
}

/* The one that has been buried for longest comes first. Those that the restart buried may be
 * anywhere, and in the shared topic two threads may have buried at once. All are deleted. */
static void check_burials(bide *queue, int topic)
{
    uint64_t last = 0;
    bide_job job;
    for (size_t i = 0; i < job_count; i++) {
        if (bide_peek_first(queue, kill_topics[topic], BIDE_STATE_BURIED, &job) != BIDE_OK)
            return;
        struct known *known = &shared->jobs[serial_of(&job)];
        if (topic != SHARED && known->buried != 0 && known->buried < last)
            wrong(serial_of(&job), "is not in the order of burials");
        last = known->buried != 0 ? known->buried : last;
        if (bide_delete(queue, job.id, 0) != BIDE_OK)
            wrong(serial_of(&job), "cannot be deleted: %s", bide_last_error());
        known->form.exists = false;
        bide_job_clear(&job);
    }
}

static void make_room(bide *queue, struct rng *rng)
{
    size_t left = job_count;
    for (size_t i = 0; i < job_count && left > KEEP_JOBS; i++) {
        struct known *job = &shared->jobs[serial_of(&jobs[i])];
        if (!job->form.exists || !rng_percent(rng, 60))
            continue;
        if (bide_delete(queue, jobs[i].id, 0) != BIDE_OK)
            wrong(serial_of(&jobs[i]), "cannot be deleted: %s", bide_last_error());
        job->form.exists = false;
        left--;
    }
}

bool kill_check(const char *url, uint64_t seed, bool tidily)
{
    struct rng rng = {seed};
    bide *queue;
    errors = 0;
    if (bide_open(url, NULL, &queue) != BIDE_OK ||
        bide_wait_recovered(queue, 60000, NULL) != BIDE_OK) {
        printf("     cannot be opened: %s\n", bide_last_error());
        return false;
    }
    collect_calls();
    if (read_jobs(queue) && check_serials()) {
        check_jobs();
        adopt();
        check_leases(queue);
        check_burials(queue, (int)rng_below(&rng, TOPICS));
        make_room(queue, &rng);
    }
    if (tidily && bide_close(queue) != BIDE_OK)
        wrong(0, "cannot be closed: %s", bide_last_error());
    fflush(stdout);
    return errors == 0;
}
