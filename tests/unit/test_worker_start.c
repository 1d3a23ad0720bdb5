/* SPDX-License-Identifier: MIT */
/*
 * A start that fails leaves nothing behind: memory, threads and eventfds that the system does not
 * give. The linker puts the functions below in front of the C library's.
 */
#include "staged.h"

#include <dirent.h>
#include <errno.h>
#include <sys/eventfd.h>

#define THREADS 4

/* The call that fails, 1 being the next one; 0: none. */
static _Atomic long calloc_countdown, eventfd_countdown, create_countdown;
static _Atomic long created;

static bool must_fail(_Atomic long *countdown)
{
    return atomic_load(countdown) > 0 && atomic_fetch_sub(countdown, 1) == 1;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail(&calloc_countdown) ? NULL : __real_calloc(count, size);
}

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags)
{
    if (!must_fail(&eventfd_countdown))
        return __real_eventfd(count, flags);
    errno = EMFILE;
    return -1;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    if (must_fail(&create_countdown))
        return EAGAIN;
    atomic_fetch_add(&created, 1);
    return __real_pthread_create(thread, attributes, run, arg);
}

static size_t entries_of(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

/* Fails the first, second, ... call of a kind until a start succeeds; answers how many failed. */
static long fail_each(_Atomic long *countdown, int expected)
{
    struct stage *stage = stage_new(THREADS);
    size_t fds = entries_of("/proc/self/fd");
    long nth = 1;
    puppet_give(stage->puppet, puppet_job(1, 60000));
    for (;; nth++) {
        atomic_store(countdown, nth);
        int code = bide_worker_start(stage->worker);
        long left = atomic_exchange(countdown, 0);
        if (code == BIDE_OK && left > 0)
            break;
        assert_int_equal(code, expected);
        assert_string_not_equal(bide_last_error(), "");
        assert_int_equal(entries_of("/proc/self/fd"), fds);
        assert_int_equal(stage->worker->state, WORKER_IDLE);
        assert_int_equal(stage_count(stage, BIDE_WORK_STARTED, 1), 0);
    }
    stage_await(stage, BIDE_WORK_DONE, 1);
    stage_free(stage);
    return nth - 1;
}

static void a_start_without_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_true(fail_each(&calloc_countdown, BIDE_ENOMEM) > THREADS);
}

static void a_start_without_eventfds_leaves_nothing_behind(void **state)
{
    (void)state;
    /* One for each slot, and the keeper's. */
    assert_int_equal(fail_each(&eventfd_countdown, BIDE_ESYSTEM), THREADS + 1);
}

static void a_start_without_threads_leaves_none_and_takes_no_job(void **state)
{
    (void)state;
    assert_int_equal(fail_each(&create_countdown, BIDE_ESYSTEM), THREADS + 1);
    assert_true(atomic_load(&created) > THREADS);
}

static void a_worker_that_cannot_be_made_is_not(void **state)
{
    (void)state;
    struct puppet *puppet = puppet_new();
    size_t fds = entries_of("/proc/self/fd");
    bide_worker *worker = NULL;
    atomic_store(&calloc_countdown, 1);
    assert_int_equal(bide_worker_new(&puppet->queue, NULL, &worker), BIDE_ENOMEM);
    atomic_store(&eventfd_countdown, 1);
    assert_int_equal(bide_worker_new(&puppet->queue, NULL, &worker), BIDE_ESYSTEM);
    assert_null(worker);
    assert_int_equal(entries_of("/proc/self/fd"), fds);
    puppet_free(puppet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_without_memory_leaves_nothing_behind),
        cmocka_unit_test(a_start_without_eventfds_leaves_nothing_behind),
        cmocka_unit_test(a_start_without_threads_leaves_none_and_takes_no_job),
        cmocka_unit_test(a_worker_that_cannot_be_made_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
