/* SPDX-License-Identifier: MIT */
/*
 * history - what a queue held after each call, and how far the disk was then.
 *
 * With a record of the disk's steps (power_loss.h) it tells for every moment at which the power may
 * go what the queue must hold afterwards: what it held after the last call that had been
 * acknowledged, or after the one that was under way.
 */
#ifndef FAULT_HISTORY_H
#define FAULT_HISTORY_H

#include "power_loss.h"
#include "snapshot.h"

/* Takes down what the queue holds, after a call was acknowledged. */
void history_add(bide *queue);
void history_forget(void);

size_t history_count(void);
/* The steps that the disk had taken when a call was acknowledged. */
size_t history_steps(size_t call);

/*
 * Opens what the power left after so many steps, in a folder of its own, and compares. back: the
 * last calls may be lost, as a whole. The queue must go on from there.
 */
void history_check(size_t steps, enum loss_kind kind, bool back);

#endif
