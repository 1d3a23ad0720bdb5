/* SPDX-License-Identifier: MIT */
/*
 * What is said when the system refuses a thread, a timer or an eventfd.
 */
#include "unit.h"

#include "bide/bide.h"
#include "util/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

static int create_fails, eventfd_fails; /* with this errno, unless it is 0 */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    return create_fails != 0 ? create_fails : __real_pthread_create(thread, attributes, run, arg);
}

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags)
{
    if (eventfd_fails == 0)
        return __real_eventfd(count, flags);
    errno = eventfd_fails;
    return -1;
}

static void *run_nothing(void *arg)
{
    return arg;
}

static void a_thread_that_is_not_started_leaves_its_errno(void **state)
{
    (void)state;
    pthread_t thread;
    create_fails = EAGAIN;
    errno = 0;
    assert_false(bi_thread_start(&thread, run_nothing, NULL));
    assert_int_equal(errno, EAGAIN);
    create_fails = 0;
    assert_true(bi_thread_start(&thread, run_nothing, NULL));
    pthread_join(thread, NULL);
}

static void an_open_without_threads_or_eventfds_says_why(void **state)
{
    (void)state;
    bide *queue = NULL;
    create_fails = EAGAIN;
    assert_int_equal(bide_open("memory:", NULL, &queue), BIDE_ESYSTEM);
    create_fails = 0;
    assert_non_null(strstr(bide_last_error(), strerror(EAGAIN)));
    eventfd_fails = EMFILE;
    assert_int_equal(bide_open("memory:", NULL, &queue), BIDE_ESYSTEM);
    eventfd_fails = 0;
    assert_non_null(strstr(bide_last_error(), strerror(EMFILE)));
    assert_null(queue);
}

static void a_completion_queue_without_an_eventfd_says_why(void **state)
{
    (void)state;
    bide_cq *cq = NULL;
    eventfd_fails = EMFILE;
    assert_int_equal(bide_cq_new(&cq), BIDE_ESYSTEM);
    eventfd_fails = 0;
    assert_non_null(strstr(bide_last_error(), strerror(EMFILE)));
    assert_null(cq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_is_not_started_leaves_its_errno),
        cmocka_unit_test(an_open_without_threads_or_eventfds_says_why),
        cmocka_unit_test(a_completion_queue_without_an_eventfd_says_why),
    };
    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
