/* SPDX-License-Identifier: MIT */
/*
 * task_topics - topics whose names are known to the compiler, as those of tasks have to be.
 *
 * Where queues share a database an earlier run may have left something in them; so they are emptied
 * when the queue is opened, and the trial sweeps them at its end.
 */
#ifndef TASK_TOPICS_H
#define TASK_TOPICS_H

#include "worker_fixture.h"

#define TASK_TOPIC_A "contract/task-a"
#define TASK_TOPIC_B "contract/task-b"

/* A queue with nothing in these topics. */
#define open_with_task_topics(parameters) open_with_task_topics_at(HERE, (parameters))
bide *open_with_task_topics_at(struct where at, const char *parameters);

#endif
