/* SPDX-License-Identifier: MIT */
/*
 * A program that was compiled with headers of another version than the library's. check-compile.sh
 * takes the last member of each options struct away (-DOLDER), or adds one, future_ (-DNEWER), and
 * runs it with the library as it is. Says which line failed.
 */
#include <bide/task.h>

#include <stddef.h>
#include <stdio.h>

#define must(condition)      \
    do {                     \
        if (!(condition))    \
            return __LINE__; \
    } while (0)

#ifdef OLDER
#define LAST(type, member) _Static_assert(offsetof(type, member) + 8 == sizeof(type), #type)
LAST(bide_options, recovery);
LAST(bide_put_options, retain_ms);
LAST(bide_worker_options, flags);
#endif

/* The layout that compiled programs rely on. A new member takes the place of `room_`, so that
 * neither a size nor an offset here changes between releases of one major version. */
#define LAYOUT(type, size, room) \
    _Static_assert(sizeof(type) == (size) && offsetof(type, room_) == (room), #type)
#if UINTPTR_MAX > UINT32_MAX && !defined(NEWER)
LAYOUT(bide_job, 632, 320);
LAYOUT(bide_failure, 64, 48);
LAYOUT(bide_counters, 128, 112);
LAYOUT(bide_counts, 64, 48);
LAYOUT(bide_topic_stats, 512, 488);
LAYOUT(bide_topic_policy, 128, 88);
LAYOUT(bide_stats, 328, 264);
LAYOUT(bide_event, 248, 232);
LAYOUT(bide_explanation, 1384, 1320);
LAYOUT(bide_running_job, 64, 48);
LAYOUT(bide_worker_info, 176, 144);
LAYOUT(bide_announced, 64, 40);
LAYOUT(bide_put_item, 88, 72);
LAYOUT(bide_finish_item, 88, 72);
LAYOUT(bide_touch_item, 72, 56);
LAYOUT(bide_reserve_args, 112, 80);
LAYOUT(bide_finish_and_put_args, 192, 160);
LAYOUT(bide_update_args, 88, 56);
LAYOUT(bide_filter, 96, 64);
LAYOUT(bide_list_args, 200, 168);
LAYOUT(bide_recovery, 48, 32);
LAYOUT(bide_check_report, 256, 224);
LAYOUT(bide_type, 56, 40);
LAYOUT(bide_field, 88, 72);
LAYOUT(bide_task, 136, 104);
_Static_assert(sizeof(bide_op) == 624 && offsetof(bide_op, error) == 264, "bide_op");
#endif

BIDE_TASK(greet, bytes, .priority = 5, .max_retries = 2);

static int events; /* of one thread */

static void count_event(void *user, const bide_work_event *event)
{
    (void)user;
    events += event->kind == BIDE_WORK_STARTED;
}

static int greet_once(bide_context *context, const bide_slice *body, void *arg)
{
    *(size_t *)arg += body->size;
    return bide_context_quit(context);
}

/* Put with a priority and no more than two retries: nothing else is set. */
static bool is_as_put(bide *queue, uint64_t id)
{
    bide_job job;
    if (bide_peek(queue, id, &job) != BIDE_OK)
        return false;
    bool right = job.priority == 5 && job.max_retries == 2 && job.retain_ms == 0 &&
                 job.ttr_ms == 33000 && job.expires_at_ms == 0;
    bide_job_clear(&job);
    return right;
}

/* A job is restored as it is; with a member that the library does not know it is refused. */
static int restore(bide *queue)
{
    bide_job job;
    uint64_t id = 0, copy = 0;
    must(bide_put(queue, "b", "body", 4, NULL, &id) == BIDE_OK);
    must(bide_peek(queue, id, &job) == BIDE_OK);
    must(bide_restore(queue, &job, &copy) == BIDE_OK && copy > id);
#ifdef NEWER
    must(job.future_ == 0);
    job.future_ = 1;
    must(bide_restore(queue, &job, &copy) == BIDE_EINVAL);
#endif
    bide_job_clear(&job);
    return 0;
}

static int put_and_publish(bide *queue)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_put_options defaults = bide_defaults(greet);
    uint64_t id = 0;
    options.priority = 5;
    options.max_retries = 2;
    bide_put_item items[] = {{.topic = {"a", 1}, .options = &options},
                             {.topic = {"a", 1}, .options = &options}};
    size_t accepted = 0;
    must(bide_put(queue, "a", "body", 4, &options, &id) == BIDE_OK && is_as_put(queue, id));
    must(bide_put_many(queue, items, 2, &accepted) == BIDE_OK && accepted == 2);
    must(is_as_put(queue, items[0].id) && is_as_put(queue, items[1].id));
    must(items[0].options == &options);
    bide_slice hello = {"hello", 5};
    must(bide_publish(queue, greet, hello, &defaults, &id) == BIDE_OK && is_as_put(queue, id));
#ifdef NEWER
    options.future_ = defaults.future_ = 1;
    must(bide_put(queue, "a", "body", 4, &options, &id) == BIDE_EINVAL);
    must(bide_publish(queue, greet, hello, &defaults, &id) == BIDE_EINVAL);
#endif
    return 0;
}

static int work(bide *queue)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide_worker *worker = NULL;
    size_t size = 0;
    options.threads = 1;
    options.event = count_event;
#ifdef NEWER
    options.future_ = 1;
    must(bide_worker_new(queue, &options, &worker) == BIDE_EINVAL);
    options.future_ = 0;
#endif
    must(bide_worker_new(queue, &options, &worker) == BIDE_OK);
    must(bide_handle(worker, greet, greet_once, &size) == BIDE_OK);
    must(bide_worker_run(worker) == BIDE_OK);
    must(bide_worker_free(worker) == BIDE_OK);
    must(size == 5 && events == 1);
    return 0;
}

static int run(void)
{
    bide_options options = BIDE_OPTIONS_INIT;
    bide *queue = NULL;
    options.default_ttr_ms = 33000;
#ifdef NEWER
    options.future_ = 1;
    must(bide_open("memory:", &options, &queue) == BIDE_EINVAL);
    options.future_ = 0;
#endif
    must(bide_open("memory:", &options, &queue) == BIDE_OK);
    int line = put_and_publish(queue);
    if (line == 0)
        line = restore(queue);
    if (line == 0)
        line = work(queue);
    must(bide_close(queue) == BIDE_OK);
    return line;
}

int main(void)
{
    int line = run();
    if (line != 0)
        printf("line %d: %s\n", line, bide_last_error());
    return line != 0;
}
