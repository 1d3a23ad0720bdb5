/* SPDX-License-Identifier: MIT */
/*
 * blocked - callers that block because of max_pending_ops. The program wraps pthread_cond_wait()
 * (unit_wraps in tests/meson.build), and blocked.c counts its calls.
 */
#ifndef BI_UNIT_BLOCKED_H
#define BI_UNIT_BLOCKED_H

#include "fake_server.h"

#include <stdatomic.h>

/* Verifies with max_pending_ops=1 that all callers proceed, one at a time, and that each completion
 * wakes one. */
void let_callers_through(void (*answer_put)(void));

#endif
