/* SPDX-License-Identifier: MIT */
/*
 * cold - a queue whose bodies are not in memory, and bodies that say whose they are.
 */
#ifndef COLD_H
#define COLD_H

#include "location.h"

/* Next to nothing is kept in memory, so that every body has to be read. */
#define COLD "cache_bytes=1"

#define COLD_JOBS 60

/* Opens a queue and puts the cold jobs, half of them before a restart. They have the numbers from
 * 0 on, the keys "key 0" and so on, and these ids. */
bide *open_cold(const char *topic);
extern uint64_t cold_ids[COLD_JOBS];

/* Puts a job whose body has this number. */
uint64_t put_number(bide *queue, const char *topic, size_t number, const bide_put_options *options);
size_t number_size(size_t number);

/* The number that a body tells; the whole body must be that one's. */
#define NUMBER_OF(data, size) number_of(HERE, (data), (size))
size_t number_of(struct where at, const void *data, size_t size);

/* The job must be the cold one of this number, with its body. */
#define IS_NUMBER(job, number) is_number(HERE, (job), (number))
void is_number(struct where at, const bide_job *job, size_t number);

#endif
