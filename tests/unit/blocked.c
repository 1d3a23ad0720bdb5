/* SPDX-License-Identifier: MIT */
#include "blocked.h"

#define CALLERS 16

static atomic_size_t cond_waits;

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    atomic_fetch_add(&cond_waits, 1);
    return __real_pthread_cond_wait(cond, lock);
}

static void *put_one(void *code)
{
    uint64_t id;
    *(int *)code = bide_put(server.queue, "t", "x", 1, NULL, &id);
    return NULL;
}

void let_callers_through(void (*answer_put)(void))
{
    pthread_t threads[CALLERS];
    int codes[CALLERS];
    atomic_store(&cond_waits, 0);
    for (size_t i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_one, &codes[i]), 0);
    for (int i = 0; i < PATIENCE_MS && atomic_load(&cond_waits) < CALLERS - 1; i++)
        usleep(1000);
    for (size_t i = 0; i < CALLERS; i++)
        answer_put();
    for (size_t i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(codes[i], BIDE_OK);
    }
    assert_in_range(atomic_load(&cond_waits), CALLERS - 1, 3 * CALLERS);
}
