/* SPDX-License-Identifier: MIT */
/*
 * scheduler - the thread that puts the jobs of schedules, for bided and for workers.
 */
#ifndef BI_SCHEDULER_H
#define BI_SCHEDULER_H

#include <bide/schedule.h>

/*
 * bide_scheduler_start(). patient: it reserves nothing while the topic of schedules has no jobs,
 * until bi_scheduler_notice() says that a job is being put there. A reserve that waits would make the
 * topic exist, and clients of a server would see it.
 */
int bi_scheduler_start(bide *queue, const bide_scheduler_options *options, bool patient,
                       bide_scheduler **out);

/* Any thread may call it, also before the job is there. */
void bi_scheduler_notice(bide_scheduler *scheduler);

/* bide_scheduler_stop() in two steps: ask the thread to end, which does not wait; then wait at most
 * this long and free the scheduler. False: it has not ended, and is still to be joined. NULL is
 * allowed. */
void bi_scheduler_quit(bide_scheduler *scheduler);
bool bi_scheduler_join(bide_scheduler *scheduler, int64_t us);

/* For a process that ends although the thread has not: it makes no further call of the queue, so
 * that the queue can be closed. Does not wait for the call in progress; bide_close() does. The
 * scheduler is not freed. */
void bi_scheduler_abandon(bide_scheduler *scheduler);

#endif
