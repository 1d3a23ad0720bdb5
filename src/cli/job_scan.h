/* SPDX-License-Identifier: MIT */
/*
 * job_scan - reads the jobs of a queue in the order of their ids.
 *
 * A copy keeps the order of its jobs only if they are restored by id, but a queue lists them in an
 * order of its own. So a scan first lists the ids, without bodies, and sorts them; then it peeks
 * each job. A job that is put after the list is not read, and one that is deleted before its peek
 * is left out.
 *
 * A plain beanstalkd cannot list jobs. Its ids ascend from 1, so the scan puts a job and deletes it
 * to learn the last id, and peeks every id up to there. A beanstalkd that is draining accepts no
 * job: then the scan peeks ids until it has found as many jobs as the server has.
 *
 * Cost       8 bytes per job, and what an ordered_pipeline holds.
 */
#ifndef BI_JOB_SCAN_H
#define BI_JOB_SCAN_H

#include "cli/cli.h"

struct job_scan {
    const struct cli *cli;
    bide *queue;
    bool plain; /* a beanstalkd: ids are counted, not listed */
    const char *const *topics;
    size_t topic_count; /* 0: all */
    bide_state state;   /* BIDE_STATE_ANY: all */
    bide_filter filter; /* of the list; zeroed: all */
    uint64_t *ids;      /* sorted; the lowest bits are the logarithm of the size of the job */
    size_t count, capacity;
    uint64_t last_id;        /* beanstalkd: the last id to peek, */
    uint64_t expected_count; /* or, if it is draining, how many jobs there are to find */
    uint64_t unreadable;     /* damaged jobs that were reported and left out */
};

/* The prefix of topics that exist only to find something out. */
#define BI_JOB_SCAN_PROBE_PREFIX "bide-probe-"
#define BI_JOB_SCAN_TOPIC_SIZE   64

/* Writes the prefix (at most 24 characters) and a random suffix: a topic that no one else has. */
void bi_job_scan_make_topic(char name[BI_JOB_SCAN_TOPIC_SIZE], const char *prefix);

/* Waits until the queue has loaded its stored jobs. BI_EXIT_OK, or reports what failed, or the exit
 * code of an interrupt. */
int bi_job_scan_open(struct job_scan *scan, const struct cli *cli, bide *queue);
void bi_job_scan_close(struct job_scan *scan);

/* Returns true if the topic is one of those to read. */
bool bi_job_scan_has_topic(const struct job_scan *scan, const char *topic);

/* Lists the ids of the given topics, state and filter. */
int bi_job_scan_list(struct job_scan *scan);
uint64_t bi_job_scan_id(const struct job_scan *scan, size_t index);

/* Called with each job; may keep the job by copying the struct and zeroing the argument. Returns
 * BI_EXIT_OK, or the exit code that ends the scan. */
typedef int bi_job_scan_visit(void *user, bide_job *job);

/* Reads each listed job. label is shown with the progress bar. */
int bi_job_scan_read(struct job_scan *scan, const char *label, bi_job_scan_visit *visit,
                     void *user);

/* Does this code of a peek mean that one job of a file is damaged, and the next one may be
 * readable? An error of a server concerns all jobs. */
bool bi_job_scan_is_damaged_job(const struct job_scan *scan, int code);

/* The memory that a job takes in a pipeline. */
size_t bi_job_scan_job_size(const bide_job *job);

#endif
