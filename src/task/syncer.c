/* SPDX-License-Identifier: MIT */
/*
 * syncer - answers that the queue could not take are told again until the lease ends: a disk that
 * is full, a server that is away.
 *
 * Slots add to the list, under the worker's lock; only the keeper takes from it.
 */
#include "task/keeper.h"

#include <stdlib.h>
#include <string.h>

bool bi_keeper_owe(struct keeper *keeper, struct answer *answer)
{
    bide_worker *worker = keeper->worker;
    struct answer *owed = malloc(sizeof(*owed));
    if (owed == NULL)
        return false;
    *owed = *answer;
    answer->result = NULL;
    memset(&owed->op.private_, 0, sizeof(owed->op.private_));
    owed->told = owed->complete = false;
    int64_t again_at = owed->again_at = bi_clock_boot() + owed->pause;
    pthread_mutex_lock(&worker->lock);
    owed->next = worker->owed;
    worker->owed = owed;
    worker->owed_count++;
    pthread_mutex_unlock(&worker->lock);
    bi_keeper_want(keeper, again_at); /* the keeper may be done with it by now */
    return true;
}

static void remove_owed(bide_worker *worker, struct answer *owed)
{
    pthread_mutex_lock(&worker->lock);
    struct answer **at = &worker->owed;
    while (*at != owed)
        at = &(*at)->next;
    *at = owed->next;
    bool wanted = worker->owed_count-- == worker->options.threads;
    pthread_mutex_unlock(&worker->lock);
    bi_answer_clear(owed);
    free(owed);
    bi_worker_tell(worker);
    for (uint32_t i = 0; wanted && i < worker->options.threads; i++)
        bi_slot_wake(&worker->slots[i]); /* jobs may be taken again */
}

/* The first of the list; what follows an answer stays where it is until it is removed. */
static struct answer *first_owed(bide_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    struct answer *first = worker->owed;
    pthread_mutex_unlock(&worker->lock);
    return first;
}

static void finish_one(struct keeper *keeper, struct answer *owed, int64_t now)
{
    if (!bi_keeper_came_back(&owed->told, &owed->op))
        return;
    if (bi_answer_settle(owed, keeper->worker))
        remove_owed(keeper->worker, owed);
    else
        owed->again_at = now + owed->pause;
}

void bi_syncer_finish(struct keeper *keeper, int64_t now)
{
    struct answer *next;
    for (struct answer *owed = first_owed(keeper->worker); owed != NULL; owed = next) {
        next = owed->next;
        finish_one(keeper, owed, now);
    }
}

static void tell_again(struct keeper *keeper, struct answer *owed)
{
    owed->op.cq = keeper->cq;
    owed->op.done = NULL;
    owed->told = true;
    bi_answer_arm(owed);
    bi_keeper_submit(keeper, &owed->op);
}

/* Answers when it is next wanted for this one, which may be gone then. */
static int64_t tend_one(struct keeper *keeper, struct answer *owed, int64_t now)
{
    if (owed->told)
        return NEVER;
    if (now >= owed->lease_end) {
        bi_answer_give_up(owed, keeper->worker);
        remove_owed(keeper->worker, owed);
        return NEVER;
    }
    if (now < owed->again_at)
        return bi_sooner(owed->again_at, owed->lease_end);
    tell_again(keeper, owed);
    return owed->op.status == BIDE_PENDING ? NEVER : now;
}

int64_t bi_syncer_tend(struct keeper *keeper, int64_t now)
{
    int64_t due = NEVER;
    struct answer *next;
    for (struct answer *owed = first_owed(keeper->worker); owed != NULL; owed = next) {
        next = owed->next;
        due = bi_sooner(due, tend_one(keeper, owed, now));
    }
    return due;
}

bool bi_syncer_end(struct keeper *keeper)
{
    struct answer *next;
    for (struct answer *owed = first_owed(keeper->worker); owed != NULL; owed = next) {
        next = owed->next;
        if (owed->told)
            continue;
        bi_answer_give_up(owed, keeper->worker);
        remove_owed(keeper->worker, owed);
    }
    return first_owed(keeper->worker) != NULL;
}
