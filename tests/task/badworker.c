/* SPDX-License-Identifier: MIT */
/* badworker.c - calls about workers that make no sense: refused, with a sentence, and no harm
 * done. */
#include "../contract/sample_queue.h"
#include "worker_fixture.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- options ---- */

static void refused(bide *queue, const bide_worker_options *options)
{
    bide_worker *worker;
    spoil(&worker, sizeof worker);
    CODE(bide_worker_new(queue, options, &worker), BIDE_EINVAL);
    SPOILED(worker);
}

static void invalid_options_are_rejected(void)
{
    bide *queue = open_queue("");
    bide_worker_options options = threads(BIDE_WORKER_THREADS_MAX + 1);
    refused(queue, &options);
    options = threads(UINT32_MAX);
    refused(queue, &options);
    options = threads(1);
    options.strategy = (bide_strategy)(BIDE_FAIR + 1);
    refused(queue, &options);
    options.strategy = (bide_strategy)-1;
    refused(queue, &options);
    for (size_t i = 0; i < COUNT(bad_times); i++) {
        options = threads(1);
        options.stop_timeout_ms = bad_times[i];
        refused(queue, &options);
        options = threads(1);
        options.health_interval_ms = bad_times[i];
        refused(queue, &options);
    }
    options = threads(1);
    options.health_interval_ms = -1;
    refused(queue, &options);
}

static void options_of_an_invalid_size_are_rejected(void)
{
    bide *queue = open_queue("");
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    static const size_t sizes[] = {0, 1, sizeof options - 1, sizeof options + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        options.size = sizes[i];
        refused(queue, &options);
    }
}

/* Only the size lies before the end of the readable memory. */
static void options_are_read_no_further_than_their_size(void)
{
    bide *queue = open_queue("");
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    refused(queue, (const bide_worker_options *)(void *)(pages + page - sizeof(size_t)));
    CHECK(munmap(pages, 2 * page) == 0);
}

static void options_of_other_versions_are_accepted_unless_unknown_members_are_set(void)
{
    bide *queue = open_queue("");
    static const size_t sizes[] = {sizeof(size_t), sizeof(bide_worker_options) - sizeof(void *),
                                   sizeof(bide_worker_options) + 64};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        union {
            bide_worker_options options;
            char bytes[sizeof(bide_worker_options) + 64];
        } other = {.bytes = {0}};
        bide_worker *worker = NULL;
        other.options = threads(2);
        other.options.size = sizes[i];
        if (sizes[i] < sizeof other.options) /* what lies behind must not be looked at */
            memset(other.bytes + sizes[i], -1, sizeof other.bytes - sizes[i]);
        OK(bide_worker_new(queue, &other.options, &worker));
        OK(bide_worker_free(worker));
        other.bytes[sizeof other.bytes - 1] = 1;
        if (sizes[i] > sizeof other.options)
            refused(queue, &other.options);
    }
}

static void options_at_their_limits_are_accepted(void)
{
    bide *queue = open_queue("");
    bide_worker_options options = threads(BIDE_WORKER_THREADS_MAX);
    bide_worker *worker = NULL;
    options.strategy = BIDE_FAIR;
    options.stop_timeout_ms = BIDE_FOREVER;
    options.health_interval_ms = BIDE_TIME_MAX_MS;
    OK(bide_worker_new(queue, &options, &worker));
    OK(bide_worker_free(worker));
    options.stop_timeout_ms = BIDE_TIME_MAX_MS;
    OK(bide_worker_new(queue, &options, &worker));
    OK(bide_worker_free(worker));
}

/* ---- NULL ---- */

static int pass(bide_context *context, void *arg)
{
    (void)arg;
    return bide_context_next(context);
}

static void NULL_is_rejected(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    bide_worker *worker;
    CODE(bide_worker_new(NULL, NULL, &worker), BIDE_EINVAL);
    CODE(bide_worker_new(fixture->queue, NULL, NULL), BIDE_EINVAL);
    CODE(bide_worker_handle(NULL, fresh_topic("b"), do_nothing, NULL), BIDE_EINVAL);
    CODE(bide_worker_handle(fixture->worker, NULL, do_nothing, NULL), BIDE_EINVAL);
    CODE(bide_worker_handle(fixture->worker, fresh_topic("b"), NULL, NULL), BIDE_EINVAL);
    CODE(bide_worker_set_weight(NULL, fixture->topic, 1), BIDE_EINVAL);
    CODE(bide_worker_set_weight(fixture->worker, NULL, 1), BIDE_EINVAL);
    CODE(bide_worker_use(NULL, pass, NULL), BIDE_EINVAL);
    CODE(bide_worker_use(fixture->worker, NULL, NULL), BIDE_EINVAL);
    CODE(bide_worker_start(NULL), BIDE_EINVAL);
    CODE(bide_worker_stop(NULL), BIDE_EINVAL);
    CODE(bide_worker_quit(NULL), BIDE_EINVAL);
    CODE(bide_worker_run(NULL), BIDE_EINVAL);
    OK(bide_worker_free(NULL));
    OK(bide_worker_start(fixture->worker));
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void null_context_is_harmless(void)
{
    CHECK(bide_context_job(NULL) == NULL);
    CHECK(bide_context_queue(NULL) == NULL);
    EQ(bide_context_reason(NULL), BIDE_REASON_NONE);
    EQ(bide_context_wait(NULL, 0), BIDE_REASON_NONE);
    EQ(bide_context_left_ms(NULL), 0);
    CHECK(!bide_context_is_last(NULL));
    bide_context_progress(NULL, "%d", 1);
    CODE(bide_context_fd(NULL), BIDE_EINVAL);
    CODE(bide_context_touch(NULL), BIDE_EINVAL);
    CODE(bide_context_result(NULL, "x", 1), BIDE_EINVAL);
    CODE(bide_context_quit(NULL), BIDE_EINVAL);
    EQ(bide_context_retry(NULL, "x"), BIDE_RETRY);
    EQ(bide_context_retry_in(NULL, 1, "x"), BIDE_RETRY);
    EQ(bide_context_bury(NULL, "x"), BIDE_BURY);
    EQ(bide_context_snooze(NULL, 1), BIDE_SNOOZE);
    CHECK(bide_context_next(NULL) != BIDE_DONE);
}

/* ---- registration ---- */

static void a_topic_has_one_handler(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_at_gate, NULL);
    fixture->open = true;
    CODE(bide_worker_handle(fixture->worker, fixture->topic, do_nothing, NULL), BIDE_EINVAL);
    OK(bide_worker_start(fixture->worker));
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 1);
}

static void invalid_topic_names_are_rejected(void)
{
    struct worker_fixture *fixture = new_fixture(open_queue(""), NULL);
    char name[BIDE_TOPIC_MAX + 2];
    static const char *const names[] = {"", "-a", "a b", "a\n", "a,b", "gr\xc3\xbc\xc3\x9f"};
    for (size_t i = 0; i < COUNT(names); i++)
        CODE(bide_worker_handle(fixture->worker, names[i], do_nothing, NULL), BIDE_EINVAL);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CODE(bide_worker_handle(fixture->worker, name, do_nothing, NULL), BIDE_EINVAL);
    CODE(bide_worker_start(fixture->worker), BIDE_EINVAL);
    name[BIDE_TOPIC_MAX] = '\0';
    OK(bide_worker_handle(fixture->worker, name, do_nothing, NULL));
}

static void a_worker_without_handlers_does_not_start(void)
{
    struct worker_fixture *fixture = new_fixture(open_queue(""), NULL);
    CODE(bide_worker_start(fixture->worker), BIDE_EINVAL);
    CODE(bide_worker_run(fixture->worker), BIDE_EINVAL);
    OK(bide_worker_stop(fixture->worker));
    OK(bide_worker_handle(fixture->worker, fixture->topic, do_nothing, NULL));
    OK(bide_worker_start(fixture->worker));
}

static void running_worker_rejects_registration(void)
{
    struct worker_fixture *fixture = start_fixture(do_nothing, 1);
    CODE(bide_worker_handle(fixture->worker, fresh_topic("b"), do_nothing, NULL), BIDE_EBUSY);
    CODE(bide_worker_set_weight(fixture->worker, fixture->topic, 2), BIDE_EBUSY);
    CODE(bide_worker_use(fixture->worker, pass, NULL), BIDE_EBUSY);
    CODE(bide_worker_start(fixture->worker), BIDE_EBUSY);
    put(fixture->queue, fresh_topic("b"), "body");
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(topic_of(fixture->queue, fresh_topic("b")).jobs.ready, 1);
}

static void weight_needs_a_handled_topic_and_is_not_0(void)
{
    struct worker_fixture *fixture = new_fixture_of(do_nothing, NULL);
    CODE(bide_worker_set_weight(fixture->worker, fresh_topic("b"), 1), BIDE_NOT_FOUND);
    CODE(bide_worker_set_weight(fixture->worker, fixture->topic, 0), BIDE_EINVAL);
    OK(bide_worker_set_weight(fixture->worker, fixture->topic, UINT32_MAX));
    OK(bide_worker_set_weight(fixture->worker, fixture->topic, 1));
}

/* ---- what a handler may say ---- */

static int say_nonsense(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    CODE(bide_context_result(context, NULL, 1), BIDE_EINVAL);
    OK(bide_context_result(context, NULL, 0));
    bide_context_progress(context, "%s", "");
    if (enter(fixture) == 1)
        return bide_context_retry_in(context, -5, "%s", "");
    return BIDE_DONE;
}

static void invalid_context_calls_are_harmless(void)
{
    struct worker_fixture *fixture = start_fixture(say_nonsense, 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = 3600000;
    uint64_t id = enqueue_as(fixture, "body", &options);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(fixture->runs, 2);
    EQ(stat_job(fixture->queue, id)->result_size, 0);
}

static char much[5000];

static int say_much(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    return bide_context_bury(context, "%s", much);
}

static void long_error_text_is_cut(void)
{
    struct worker_fixture *fixture = new_fixture_of(say_much, NULL);
    memset(much, 'x', sizeof much - 1);
    uint64_t id = enqueue(fixture, "body");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    const bide_job *job = stat_job(fixture->queue, id);
    BETWEEN(job->last_error_size, 1000, 1024);
    CHECK(memcmp(job->last_error, much, job->last_error_size) == 0);
}

static const struct test tests[] = {
    TEST(invalid_options_are_rejected),
    TEST(options_are_read_no_further_than_their_size),
    TEST(options_of_an_invalid_size_are_rejected),
    TEST(options_of_other_versions_are_accepted_unless_unknown_members_are_set),
    TEST(options_at_their_limits_are_accepted),
    TEST(NULL_is_rejected),
    TEST(null_context_is_harmless),
    TEST(a_topic_has_one_handler),
    TEST(invalid_topic_names_are_rejected),
    TEST(a_worker_without_handlers_does_not_start),
    TEST(running_worker_rejects_registration),
    TEST(weight_needs_a_handled_topic_and_is_not_0),
    TEST(invalid_context_calls_are_harmless),
    TEST(long_error_text_is_cut),
};

const struct theme badworker_theme = {"badworker", tests, COUNT(tests)};
