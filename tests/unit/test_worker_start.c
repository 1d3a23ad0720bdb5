/* SPDX-License-Identifier: MIT */
/*
 * A start that fails leaves nothing behind: memory, threads and eventfds that the system does not
 * give. The linker puts the functions below in front of the C library's.
 */
#include "worker_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <sys/eventfd.h>

#define THREADS 4

/* The call that fails, 1 being the next one; 0: none. */
static _Atomic long calloc_countdown, eventfd_countdown, create_countdown;
static _Atomic long created;
/* The size of blocks that malloc does not give; 0: none. */
static _Atomic size_t lacking_size;

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

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    size_t lacking = atomic_load(&lacking_size);
    return lacking != 0 && size == lacking ? NULL : __real_malloc(size);
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
static long fail_each(_Atomic long *countdown, int expected, const char *expected_error)
{
    struct fixture *fixture = fixture_new(THREADS);
    size_t fds = entries_of("/proc/self/fd");
    long nth = 1;
    stub_add_job(fixture->stub, stub_job(1, 60000));
    for (;; nth++) {
        atomic_store(countdown, nth);
        int code = bide_worker_start(fixture->worker);
        long left = atomic_exchange(countdown, 0);
        if (code == BIDE_OK && left > 0)
            break;
        assert_int_equal(code, expected);
        assert_non_null(strstr(bide_last_error(), expected_error));
        assert_int_equal(entries_of("/proc/self/fd"), fds);
        assert_int_equal(fixture->worker->state, WORKER_IDLE);
        assert_int_equal(fixture_count(fixture, BIDE_WORK_STARTED, 1), 0);
    }
    fixture_await(fixture, BIDE_WORK_DONE, 1);
    fixture_free(fixture);
    return nth - 1;
}

static void failed_allocation_in_start_leaks_nothing(void **state)
{
    (void)state;
    assert_true(fail_each(&calloc_countdown, BIDE_ENOMEM, "memory") > THREADS);
}

static void failed_eventfd_in_start_leaks_nothing(void **state)
{
    (void)state;
    /* One for each slot, and the keeper's. */
    assert_int_equal(fail_each(&eventfd_countdown, BIDE_ESYSTEM, "eventfd"), THREADS + 1);
}

static void failed_thread_in_start_leaves_no_thread_and_reserves_no_job(void **state)
{
    (void)state;
    assert_int_equal(fail_each(&create_countdown, BIDE_ESYSTEM,
                               "cannot create thread: Resource temporarily unavailable"),
                     THREADS + 1);
    assert_true(atomic_load(&created) > THREADS);
}

static void failed_worker_creation_leaks_nothing(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    size_t fds = entries_of("/proc/self/fd");
    bide_worker *worker = NULL;
    atomic_store(&calloc_countdown, 1);
    assert_int_equal(bide_worker_new(&stub->queue, NULL, &worker), BIDE_ENOMEM);
    atomic_store(&eventfd_countdown, 1);
    assert_int_equal(bide_worker_new(&stub->queue, NULL, &worker), BIDE_ESYSTEM);
    assert_null(worker);
    assert_int_equal(entries_of("/proc/self/fd"), fds);
    stub_free(stub);
}

static int stop_code;

static void stop_it(struct fixture *fixture, const bide_work_event *event)
{
    if (event->kind == BIDE_WORK_GIVEN_UP)
        stop_code = bide_worker_stop(fixture->worker);
}

static void stop_without_memory_reports_that_a_job_is_not_given_back(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_start_short_stop(1);
    fixture->on_event = stop_it;
    fixture_add_job(fixture, stub_job(1, 60000), (struct handler_plan){.blocks = true});
    fixture_await_start(fixture, 1);
    atomic_store(&lacking_size, sizeof(struct ack));
    assert_int_equal(bide_worker_stop(fixture->worker), BIDE_TIMED_OUT);
    atomic_store(&lacking_size, 0);
    struct seen_event event = fixture_await(fixture, BIDE_WORK_GIVEN_UP, 1);
    assert_int_equal(event.code, BIDE_ENOMEM);
    assert_string_not_equal(event.text, "");
    assert_int_equal(stop_code, BIDE_ECALLBACK);
    fixture_end(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_allocation_in_start_leaks_nothing),
        cmocka_unit_test(failed_eventfd_in_start_leaks_nothing),
        cmocka_unit_test(failed_thread_in_start_leaves_no_thread_and_reserves_no_job),
        cmocka_unit_test(failed_worker_creation_leaks_nothing),
        cmocka_unit_test(stop_without_memory_reports_that_a_job_is_not_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
