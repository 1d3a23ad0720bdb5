/* SPDX-License-Identifier: MIT */
/*
 * worker_list - who works on what: announced workers and reserved jobs, joined by name.
 *
 * Announcements are some seconds old; so the jobs are the reserved ones, which name their holder.
 * Holders that have not announced themselves are workers, too.
 *
 * Ownership  The list owns announcements and jobs, which the caller reads into it. Rows borrow
 *            them.
 */
#ifndef BI_WORKER_LIST_H
#define BI_WORKER_LIST_H

#include "cli/cli.h"

struct worker_row {
    bide_worker_info info;           /* without topics and jobs; only the name, if not announced */
    const bide_announced *announced; /* NULL: it has not announced itself */
    const bide_job *jobs; /* that it holds, by id. Connections with the same name share */
    size_t job_count;     /* them: the first one has them all */
};

struct worker_list {
    bide_announced *announced;
    size_t announced_count, announced_room;
    bide_job *jobs; /* reserved */
    size_t job_count, job_room;
    struct worker_row *rows; /* workers as listed, then the other holders by name */
    size_t count;
};

/* The arguments that read the next page; workers or jobs is NULL when out of memory. The caller
 * adds the count that the op returns. */
bide_workers_args bi_worker_list_next_workers(struct worker_list *list, char *cursor, size_t max);
bide_list_args bi_worker_list_next_jobs(struct worker_list *list, char *cursor, size_t max);

/* Makes the rows. False: out of memory. */
bool bi_worker_list_join(struct worker_list *list);
/* Whether rows of two lists are of the same worker. */
bool bi_worker_list_is_same(const struct worker_row *a, const struct worker_row *b);
/* Releases everything; the list is empty. */
void bi_worker_list_clear(struct worker_list *list);

/* "12 email 3m20s, 14 email 5s", as many as fit; "-" without jobs. */
void bi_worker_list_format_jobs(const struct worker_row *row, char *to, size_t room);

#endif
