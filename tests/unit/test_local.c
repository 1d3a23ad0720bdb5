/* SPDX-License-Identifier: MIT */
/*
 * The local backend: an open that fails, and ops that complete within their submit.
 */
#include "local/local_internal.h"

#include "bide/bide.h"
#include "slow_store.h"
#include "unit.h"
#include "util/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

/* How the store starts, and how often it was called. */
static struct {
    int start_code;
    unsigned commits, closes;
} found;

static int found_start(struct store *store, struct store_start *start, char *error)
{
    (void)store;
    if (found.start_code != BIDE_OK)
        strcpy(error, "the store does not start");
    else
        *start = (struct store_start){.next_id = 500, .next_token = 7000};
    return found.start_code;
}

static int found_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                      store_visit visit, void *ctx, char *error)
{
    (void)store;
    (void)after;
    (void)below;
    (void)max;
    (void)visit;
    (void)ctx;
    (void)error;
    return BIDE_NOT_FOUND;
}

static int found_commit(struct store *store, const struct bi_batch *batch, char *error)
{
    (void)store;
    (void)batch;
    (void)error;
    found.commits++;
    return BIDE_OK;
}

static void found_close(struct store *store)
{
    free(store);
    found.closes++;
}

static const struct store_ops persistent_ops = {
    .name = "found",
    .persistent = true,
    .start = found_start,
    .scan_topics = slow_pauses,
    .count = slow_count,
    .fetch = slow_fetch,
    .scan = found_scan,
    .commit = found_commit,
    .close = found_close,
};

/* Keeps nothing: scan and commit are never called. */
static const struct store_ops volatile_ops = {
    .name = "passing",
    .persistent = false,
    .start = found_start,
    .close = found_close,
};

static int open_on(const struct store_ops *ops, bide **queue, char *error)
{
    struct store *store = calloc(1, sizeof(*store));
    *queue = calloc(1, sizeof(**queue));
    if (store == NULL || *queue == NULL)
        abort();
    store->ops = ops;
    struct bi_url url;
    const char *reason;
    struct backend_context context = {.finish = bi_submit_finish, .complete = bi_cq_complete};
    assert_true(bi_url_parse(&url, "found:", &reason));
    assert_int_equal(bi_options_resolve(NULL, &url, &context.options), BIDE_OK);
    (*queue)->options = context.options;
    int code = bi_local_open(&context, &slow_backend_ops, store, &(*queue)->backend, error);
    if (code != BIDE_OK) {
        free(*queue);
        *queue = NULL;
    }
    return code;
}

static int set_up(void **state)
{
    (void)state;
    found.start_code = BIDE_OK;
    found.commits = found.closes = 0;
    return 0;
}

static void failed_store_start_fails_open_and_closes_the_store(void **state)
{
    (void)state;
    const struct store_ops *const kinds[] = {&persistent_ops, &volatile_ops};
    for (unsigned i = 0; i < 2; i++) {
        found.start_code = BIDE_EIO;
        bide *queue;
        char error[BIDE_ERROR_SIZE] = "";
        assert_int_equal(open_on(kinds[i], &queue, error), BIDE_EIO);
        assert_string_equal(error, "the store does not start");
        assert_int_equal(found.closes, i + 1);
    }
}

static void volatile_store_holds_no_reply(void **state)
{
    (void)state;
    bide *queue;
    char error[BIDE_ERROR_SIZE] = "";
    assert_int_equal(open_on(&volatile_ops, &queue, error), BIDE_OK);
    bide_op op = put_op(NULL, "a");
    assert_int_equal(submit_one(queue, &op), 0);
    assert_int_equal(op.status, BIDE_OK);
    op = lease_op(NULL, BIDE_OP_DELETE, op.put.id, 0);
    assert_int_equal(submit_one(queue, &op), 0);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(bide_close(queue), BIDE_OK);
    assert_int_equal(found.commits, 0);
}

/* ---- on the memory store ---- */

static bide *queue_;
static bide_cq *cq;

static int open_memory(void **state)
{
    (void)state;
    return bide_open("memory:", NULL, &queue_) == BIDE_OK ? bide_cq_new(&cq) : -1;
}

static int close_memory(void **state)
{
    (void)state;
    bide_close(queue_);
    bide_cq_drain(cq, 0);
    return bide_cq_free(cq);
}

static void op_that_would_wait_without_completion_queue_is_rejected(void **state)
{
    (void)state;
    bide_slice topic = text("a");
    bide_job job;
    bide_op reserve = reserve_op(NULL, &topic, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue_, &reserve), 0);
    assert_int_equal(reserve.status, BIDE_EINVAL);
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue_, &stats), BIDE_OK);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.topics, 0);
    uint64_t id;
    assert_int_equal(bide_put(queue_, "a", "x", 1, NULL, &id), BIDE_OK);
    assert_int_equal(submit_one(queue_, &reserve), 0); /* now it need not wait */
    assert_int_equal(reserve.status, BIDE_OK);
    assert_int_equal(job.id, id);
    bide_job_clear(&job);
}

static void purge_without_completion_queue_finishes_within_submit(void **state)
{
    (void)state;
    for (int i = 0; i < 3500; i++)
        assert_int_equal(bide_put(queue_, "a", "x", 1, NULL, NULL), BIDE_OK);
    bide_op op = {.kind = BIDE_OP_PURGE, .purge = {.topic = text("a"), .state = BIDE_STATE_READY}};
    assert_int_equal(submit_one(queue_, &op), 0);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(op.purge.count, 3500);
}

/* ---- completions between slices ---- */

static bide_op kicking;
static uint64_t kicked; /* when the first completion was told */

static void note_kicked(bide_op *ops)
{
    if (kicked == 0)
        kicked = kicking.kick.count;
    bi_cq_complete(ops);
}

static void calls_served_by_a_kick_complete_during_the_kick(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    struct bi_url url;
    const char *reason;
    char error[BIDE_ERROR_SIZE];
    struct store *store = calloc(1, sizeof(*store));
    bide *queue = calloc(1, sizeof(*queue));
    struct backend_context context = {.finish = bi_submit_finish, .complete = note_kicked};
    assert_true(bi_url_parse(&url, "found:", &reason));
    assert_int_equal(bi_options_resolve(NULL, &url, &context.options), BIDE_OK);
    store->ops = &volatile_ops;
    queue->options = context.options;
    assert_int_equal(bi_local_open(&context, &slow_backend_ops, store, &queue->backend, error),
                     BIDE_OK);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = 3600000;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(bide_put(queue, "a", "x", 1, &options, NULL), BIDE_OK);
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    bide_slice topic = text("a");
    bide_job job;
    bide_op reserve = reserve_op(cq, &topic, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(submit_one(queue, &reserve), 1);
    kicked = 0;
    kicking = (bide_op){.kind = BIDE_OP_KICK, .kick = {.topic = topic, .max = MANY}};
    assert_int_equal(submit_one(queue, &kicking), 0); /* without a completion queue */
    assert_int_equal(kicking.status, BIDE_OK);
    assert_int_equal(kicking.kick.count, MANY);
    assert_in_range(kicked, 1, MANY - 1);
    await_completions(cq, 1);
    bide_job_clear(&job);
    assert_int_equal(bide_close(queue), BIDE_OK);
    assert_int_equal(bide_cq_free(cq), BIDE_OK);
}

/* ---- threads and descriptors that the system does not give ---- */

/* The call that fails, 1 being the next one; 0: none. */
static _Atomic long eventfd_countdown, timerfd_countdown, create_countdown;

static bool must_fail(_Atomic long *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags)
{
    if (!must_fail(&eventfd_countdown))
        return __real_eventfd(count, flags);
    errno = ENFILE;
    return -1;
}

int __real_timerfd_create(clockid_t clock, int flags);
int __wrap_timerfd_create(clockid_t clock, int flags);
int __wrap_timerfd_create(clockid_t clock, int flags)
{
    if (!must_fail(&timerfd_countdown))
        return __real_timerfd_create(clock, flags);
    errno = EMFILE;
    return -1;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *arg)
{
    return must_fail(&create_countdown) ? EAGAIN
                                        : __real_pthread_create(thread, attributes, start, arg);
}

/* Fails each of so many calls, one at a time: the open names what failed, and why. */
static void fail_each(_Atomic long *countdown, int calls, const char *what, int why)
{
    for (int nth = 1; nth <= calls; nth++) {
        bide *queue = NULL;
        char error[BIDE_ERROR_SIZE] = "";
        *countdown = nth;
        found.closes = 0;
        assert_int_equal(open_on(&persistent_ops, &queue, error), BIDE_ESYSTEM);
        assert_int_equal(*countdown, 0);
        assert_non_null(strstr(error, what));
        assert_non_null(strstr(error, strerror(why)));
        assert_int_equal(found.closes, 1);
    }
}

static void failed_open_names_the_system_call_and_its_error(void **state)
{
    (void)state;
    fail_each(&timerfd_countdown, 2, "timer", EMFILE);
    fail_each(&eventfd_countdown, 1, "eventfd", ENFILE);
    fail_each(&create_countdown, 4, "thread", EAGAIN);
}

#define OPEN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, NULL)

/* ---- threads and completion queues without the resources of the system ---- */

static void *run_nothing(void *arg)
{
    return arg;
}

static void failed_thread_start_sets_errno(void **state)
{
    (void)state;
    pthread_t thread;
    create_countdown = 1;
    errno = 0;
    assert_false(bi_thread_start(&thread, run_nothing, NULL));
    assert_int_equal(errno, EAGAIN);
    assert_true(bi_thread_start(&thread, run_nothing, NULL));
    pthread_join(thread, NULL);
}

static void failed_cq_creation_reports_the_reason(void **state)
{
    (void)state;
    bide_cq *none = NULL;
    eventfd_countdown = 1;
    assert_int_equal(bide_cq_new(&none), BIDE_ESYSTEM);
    assert_non_null(strstr(bide_last_error(), strerror(ENFILE)));
    assert_null(none);
}

/* ---- the lock while the wall clock is set back ---- */

/* By how many seconds the wall clock is set back as soon as it was read. */
static time_t set_back;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int code = __real_clock_gettime(clock, out);
    if (clock == CLOCK_REALTIME)
        out->tv_sec += set_back;
    return code;
}

static struct local local;

static void *acquire(void *arg)
{
    (bi_local_lock_during_rollback)(&local);
    pthread_mutex_unlock(&local.lock);
    return arg;
}

/* Only a hang takes so many milliseconds. */
#define PATIENCE_MS 30000

static void lock_starvation_is_detected_although_the_wall_clock_is_set_back(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_mutex_init(&local.lock, NULL);
    pthread_mutex_init(&local.turnstile, NULL);
    set_back = 3600;
    pthread_mutex_lock(&local.lock);
    assert_int_equal(pthread_create(&thread, NULL, acquire, NULL), 0);
    unsigned starving = 0;
    for (int i = 0; i < PATIENCE_MS && starving == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        starving = local.starving;
    }
    pthread_mutex_unlock(&local.lock);
    pthread_join(thread, NULL);
    assert_int_equal(starving, 1);
    assert_int_equal(local.starving, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_memory, close_memory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN_TEST(failed_store_start_fails_open_and_closes_the_store),
        OPEN_TEST(volatile_store_holds_no_reply),
        TEST(op_that_would_wait_without_completion_queue_is_rejected),
        TEST(purge_without_completion_queue_finishes_within_submit),
        OPEN_TEST(calls_served_by_a_kick_complete_during_the_kick),
        OPEN_TEST(failed_open_names_the_system_call_and_its_error),
        cmocka_unit_test(failed_thread_start_sets_errno),
        cmocka_unit_test(failed_cq_creation_reports_the_reason),
        cmocka_unit_test(lock_starvation_is_detected_although_the_wall_clock_is_set_back),
    };
    return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
