/* SPDX-License-Identifier: MIT */
/*
 * job_scan - all jobs of a queue, or some of them, in the order of their ids.
 *
 * Listings come in the backend's order, and a copy keeps the order of its jobs only if they are fed
 * by id. So first the ids are listed, without bodies, and sorted; then each job is looked at. A job
 * that comes later is not in it, one that goes meanwhile is left out, and each is shown as it was
 * when it was looked at.
 *
 * A plain beanstalkd has no lists. Its ids count up from 1: a job that is put, and deleted again,
 * tells how far, and every id up to there is asked for. One that is draining takes no job: then ids
 * are asked for until as many were found as it says it has.
 *
 * Cost       8 bytes a job, and what a relay has under way.
 */
#ifndef BI_JOB_SCAN_H
#define BI_JOB_SCAN_H

#include "cli/cli.h"

struct job_scan {
    const struct cli *cli;
    bide *queue;
    bool plain;       /* a beanstalkd */
    bool by_counting; /* its ids are counted, not listed */
    const char *const *topics;
    size_t topic_count; /* 0: all */
    bide_state state;   /* BIDE_STATE_ANY: all */
    uint64_t *ids;      /* sorted; in the lowest bits how large the job is */
    size_t count, capacity;
    uint64_t last_id;        /* beanstalkd: all ids up to this one ... */
    uint64_t expected_count; /* ... or, if it is not 0, until so many jobs were found */
    uint64_t unreadable;
};

/* Waits until the queue has loaded what is stored. BI_EXIT_OK, says what is wrong, or interrupted. */
int bi_job_scan_open(struct job_scan *scan, const struct cli *cli, bide *queue);
void bi_job_scan_close(struct job_scan *scan);

/* Lists the ids of the topics and the state that are set. May be called again. */
int bi_job_scan_list(struct job_scan *scan);
/* Another list: an empty one, and one more job at its end, of which this is the size in bytes. Jobs
 * are added in the order of their ids. False when there is not enough memory. */
void bi_job_scan_clear(struct job_scan *scan);
bool bi_job_scan_add(struct job_scan *scan, uint64_t id, size_t size);
/* Jobs that were added in another order are sorted by their ids; the id of one of them. */
void bi_job_scan_sort(struct job_scan *scan);
uint64_t bi_job_scan_id(const struct job_scan *scan, size_t index);
/* How many jobs there are, or ids to look at; 0 if that is not known. */
uint64_t bi_job_scan_total(const struct job_scan *scan);

/* Gets each job; may keep it by copying the struct and zeroing what it was given. Answers
 * BI_EXIT_OK, or what ends the reading. */
typedef int bi_job_scan_visit(void *user, bide_job *job);

/* Looks at each job that was listed. what is shown in front of the progress bar. A job that cannot
 * be read is said, counted in unreadable, and left out. */
int bi_job_scan_read(struct job_scan *scan, const char *label, bi_job_scan_visit *visit,
                     void *user);

/* How many bytes a job takes on its way. */
size_t bi_job_scan_job_size(const bide_job *job);

/* One op, and its answer. */
int bi_job_scan_run_op(bide *queue, bide_op *op);

#endif
