/* SPDX-License-Identifier: MIT */
#include "cli/worker_list.h"

#include "cli/print.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

bide_workers_args bi_worker_list_next_workers(struct worker_list *list, char *cursor, size_t max)
{
    bool room = BI_CLI_RESERVE(list->announced, list->announced_count + max, list->announced_room);
    return (bide_workers_args){.cursor = cursor,
                               .workers = room ? list->announced + list->announced_count : NULL,
                               .worker_max = max};
}

bide_list_args bi_worker_list_next_jobs(struct worker_list *list, char *cursor, size_t max)
{
    bool room = BI_CLI_RESERVE(list->jobs, list->job_count + max, list->job_room);
    return (bide_list_args){.state = BIDE_STATE_RESERVED,
                            .cursor = cursor,
                            .jobs = room ? list->jobs + list->job_count : NULL,
                            .job_max = max};
}

/* ---- joining ---- */

static int compare_slices(bide_slice a, bide_slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size == 0 ? 0 : memcmp(a.data, b.data, size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static bide_slice holder_of(const bide_job *job)
{
    return (bide_slice){job->holder, job->holder_size};
}

static int compare_jobs(const void *left, const void *right)
{
    const bide_job *a = left, *b = right;
    int order = compare_slices(holder_of(a), holder_of(b));
    return order != 0 ? order : (a->id > b->id) - (a->id < b->id);
}

/* The index of the first job of a holder or a later one. */
static size_t find_jobs(const struct worker_list *list, bide_slice holder)
{
    size_t low = 0, high = list->job_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_slices(holder_of(&list->jobs[middle]), holder) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct worker_row *add_row(struct worker_list *list)
{
    struct worker_row *row = &list->rows[list->count++];
    *row = (struct worker_row){.announced = NULL};
    return row;
}

/* Gives a row the jobs of a holder, from this one on, unless an earlier row has them. */
static void take_jobs(const struct worker_list *list, struct worker_row *row, size_t first,
                      bool *taken)
{
    size_t end = first;
    while (end < list->job_count &&
           compare_slices(holder_of(&list->jobs[end]), row->info.name) == 0)
        end++;
    if (end == first || taken[first])
        return;
    row->jobs = &list->jobs[first];
    row->job_count = end - first;
    memset(taken + first, true, row->job_count);
}

bool bi_worker_list_join(struct worker_list *list)
{
    bool *taken = calloc(list->job_count + 1, sizeof(*taken));
    assert(list->rows == NULL);
    list->rows = calloc(list->announced_count + list->job_count + 1, sizeof(*list->rows));
    if (taken == NULL || list->rows == NULL) {
        free(taken);
        return false;
    }
    if (list->job_count > 0)
        qsort(list->jobs, list->job_count, sizeof(*list->jobs), compare_jobs);

    for (size_t i = 0; i < list->announced_count; i++) {
        const bide_announced *announced = &list->announced[i];
        bide_worker_info info;
        if (!bide_worker_decode(announced->data, announced->data_size, &info, NULL, 0, NULL, 0))
            continue; /* the queue has checked it */
        struct worker_row *row = add_row(list);
        row->info = info;
        row->announced = announced;
        take_jobs(list, row, find_jobs(list, info.name), taken);
    }

    for (size_t i = 0; i < list->job_count; i++) {
        if (taken[i])
            continue;
        struct worker_row *row = add_row(list);
        row->info.name = holder_of(&list->jobs[i]);
        take_jobs(list, row, i, taken);
    }
    free(taken);
    return true;
}

bool bi_worker_list_is_same(const struct worker_row *a, const struct worker_row *b)
{
    return a->info.connection == b->info.connection &&
           compare_slices(a->info.name, b->info.name) == 0;
}

void bi_worker_list_clear(struct worker_list *list)
{
    for (size_t i = 0; i < list->announced_count; i++)
        bide_announced_clear(&list->announced[i]);
    for (size_t i = 0; i < list->job_count; i++)
        bide_job_clear(&list->jobs[i]);
    free(list->announced);
    free(list->jobs);
    free(list->rows);
    *list = (struct worker_list){.announced = NULL};
}

/* ---- texts ---- */

void bi_worker_list_format_jobs(const struct worker_row *row, char *to, size_t room)
{
    const size_t job_max = BIDE_TOPIC_MAX + 120;
    size_t size = 0;

    assert(room > job_max);
    snprintf(to, room, "-");
    for (size_t i = 0; i < row->job_count && size + job_max < room; i++) {
        const bide_job *job = &row->jobs[i];
        int64_t for_ms = job->created_ms + job->age_ms - job->reserved_ms;
        size += (size_t)snprintf(to + size, room - size, "%s%llu %s %s", i == 0 ? "" : ", ",
                                 (unsigned long long)job->id, job->topic,
                                 bi_text_age(for_ms < 0 ? 0 : for_ms).s);
    }
}
