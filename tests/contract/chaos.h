/* SPDX-License-Identifier: MIT */
/* chaos - chance, and figures that must add up whatever has happened by it. */
#ifndef CHAOS_H
#define CHAOS_H

#include "contract.h"

/* Where this thread's numbers come from; set it to have the same ones in every run. */
extern _Thread_local uint64_t dice;

/* A number from 0 to sides - 1; true once in so many times; one of four topics of the trial. */
uint64_t roll(uint64_t sides);
bool one_in(uint64_t sides);
const char *any_topic(void);

/* How many jobs there are in all states. */
uint64_t all_of(const bide_counts *jobs);

/* The topics add up to the queue, and a list of everything has each job exactly once. */
void figures_add_up(bide *queue);

#endif
