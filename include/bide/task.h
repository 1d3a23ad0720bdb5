/* SPDX-License-Identifier: MIT */
/*
 * task.h - publish a struct here, and a function gets it there.
 *
 *     struct email {
 *         const char *to;
 *         const char *subject;
 *     };
 *     BIDE_TYPE(email, struct email, BIDE_FIELD(to), BIDE_FIELD(subject));
 *     BIDE_TASK(send_email, email, .topic = "send-email", .max_retries = 5, .ttr_ms = 30000);
 *
 *     // who has work to be done
 *     struct email hello = {.to = "ada@example.org", .subject = "hello"};
 *     bide_publish(queue, send_email, hello, NULL, NULL);
 *
 *     // who does it: worker.h
 *     static int send(bide_context *context, const struct email *email, void *arg)
 *     {
 *         return smtp_send(email) ? BIDE_DONE : bide_context_retry(context, "no answer");
 *     }
 *     bide_handle(worker, send_email, send, NULL);
 *
 * Publishing another struct than the task's, or handling it with a function of another type, does
 * not compile. A task is a topic of the queue: whatever can be asked about jobs (bide_peek(),
 * bide_wait(), bide_cancel() ...) can be asked about what was published.
 */
#ifndef BIDE_TASK_H
#define BIDE_TASK_H

#include <bide/bide.h>
#include <bide/type.h>
#include <bide/worker.h>

#ifdef __cplusplus
#define BIDE_DEFAULT_(value) = (value)
extern "C" {
#else
#define BIDE_DEFAULT_(value)
#endif

#define BIDE_TASK_RETRIES 25 /* max_retries of a task that says nothing else */

/* What holds for every job of a task, unless its publish says otherwise. */
typedef struct bide_task {
    const char *name BIDE_DEFAULT_(NULL);              /* as in BIDE_TASK */
    const bide_type *(*type)(void)BIDE_DEFAULT_(NULL); /* of its data */
    const char *topic BIDE_DEFAULT_(NULL);             /* the name, if not said */
    /* Unique by these fields: "customer" or "customer, month"; NULL: not unique. A job that runs
     * has its key: what its handler publishes under the same one is refused. */
    const char *key BIDE_DEFAULT_(NULL);
    bide_conflict conflict BIDE_DEFAULT_(BIDE_REJECT); /* with a key: or BIDE_REPLACE */
    bool key_hold_retained BIDE_DEFAULT_(false); /* hold the key while a result is kept, too */
    uint32_t priority BIDE_DEFAULT_(BIDE_DEFAULT_PRIORITY);
    int32_t max_retries BIDE_DEFAULT_(BIDE_TASK_RETRIES); /* or BIDE_NO_RETRY_LIMIT */
    int64_t ttr_ms BIDE_DEFAULT_(0);        /* how long a lease lasts; 0: the queue's default_ttr */
    int64_t time_limit_ms BIDE_DEFAULT_(0); /* of a handler: see bide_context_left_ms() */
    int64_t delay_ms BIDE_DEFAULT_(0);      /* ready that much later */
    int64_t backoff_base_ms BIDE_DEFAULT_(0); /* first retry; 0 is 5 s */
    int64_t backoff_max_ms BIDE_DEFAULT_(0);  /* longest retry; 0 is 1 h */
    int64_t expires_in_ms BIDE_DEFAULT_(0);   /* gone if nobody has begun by then; 0: never */
    int64_t retain_ms BIDE_DEFAULT_(0);       /* how long a result is kept; 0: not at all */
} bide_task;

/*
 * Defines a task: BIDE_TASK(NAME, TYPE, .field = value, ...); at file scope, in a header if several
 * files need it. TYPE is the name of a BIDE_TYPE, or `bytes` for bodies that are not JSON. Fields
 * that are not named have their defaults. C++ wants them in the order of the struct.
 */
#define BIDE_TASK(name_, ...) BIDE_TASK_1_(name_, __VA_ARGS__, )
#define BIDE_TASK_1_(name_, type_, ...)                                                            \
    typedef int bide_handler_of_##name_(bide_context *, const bide_of_##type_ *, void *);          \
    typedef void bide_fallback_of_##name_(bide_context *, const bide_of_##type_ *, const char *,   \
                                          void *);                                                 \
    BIDE_MADE_ int bide_handle_of_##name_(bide_context *context_, const void *data_,               \
                                          bide_function *handler_, void *arg_)                     \
    {                                                                                              \
        return ((bide_handler_of_##name_ *)handler_)(context_, (const bide_of_##type_ *)data_,     \
                                                     arg_);                                        \
    }                                                                                              \
    BIDE_MADE_ void bide_fall_of_##name_(bide_context *context_, const void *data_,                \
                                         const char *error_, bide_function *fallback_, void *arg_) \
    {                                                                                              \
        ((bide_fallback_of_##name_ *)fallback_)(context_, (const bide_of_##type_ *)data_, error_,  \
                                                arg_);                                             \
    }                                                                                              \
    BIDE_TASK_2_(name_, type_, __VA_ARGS__);                                                       \
    BIDE_MADE_ int bide_publish_of_##name_(bide *queue_, bide_of_##type_ data_,                    \
                                           const bide_put_options *options_, uint64_t *id_)        \
    {                                                                                              \
        return bide_task_publish(queue_, &bide_task_of_##name_, &data_, options_, id_);            \
    }                                                                                              \
    BIDE_END_

#ifndef __cplusplus
#define BIDE_TASK_2_(name_, type_, ...)                                                           \
    _Pragma("GCC diagnostic push") _Pragma(                                                       \
        "GCC diagnostic ignored \"-Woverride-init\"") static const bide_task bide_task_of_##name_ \
        __attribute__((unused)) = {.name = #name_,                                                \
                                   .type = bide_type_of_##type_,                                  \
                                   .topic = #name_,                                               \
                                   .priority = BIDE_DEFAULT_PRIORITY,                             \
                                   .max_retries = BIDE_TASK_RETRIES,                              \
                                   __VA_ARGS__};                                                  \
    _Pragma("GCC diagnostic pop") BIDE_END_
/* The function, if it has the type; else a sentence. NOLINTBEGIN(bugprone-macro-parentheses): it is
 * a type. */
#define BIDE_FUNCTION_(type_, function, sentence_)                                  \
    ((void)sizeof(struct {                                                          \
         _Static_assert(_Generic((function), type_ * : 1, default : 0), sentence_); \
         char unused_;                                                              \
     }),                                                                            \
     (bide_function *)(function))
/* NOLINTEND(bugprone-macro-parentheses) */
#else
#define BIDE_TASK_2_(name_, type_, ...)                                   \
    static const bide_task bide_task_of_##name_ __attribute__((unused)) = \
        bide_task_called_(#name_, bide_type_of_##type_, bide_task{__VA_ARGS__})
#define BIDE_FUNCTION_(type_, function, sentence_) \
    reinterpret_cast<bide_function *>(static_cast<type_ *>(function))

/* Here fields that are not named have the defaults of the struct; the rest depends on the task. */
static inline bide_task bide_task_called_(const char *name, const bide_type *(*type)(void),
                                          bide_task task)
{
    task.name = name;
    task.type = type;
    if (task.topic == NULL)
        task.topic = name;
    return task;
}
#endif

/* What holds for the jobs of a task, to be changed for one of them:
 *
 *     bide_put_options later = bide_defaults(send_email);
 *     later.delay_ms = 60000;
 *     bide_publish(queue, send_email, mail, &later, &id);
 */
#define bide_defaults(task_) bide_task_defaults(&bide_task_of_##task_)
static inline bide_put_options bide_task_defaults(const bide_task *task)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = task->priority;
    options.conflict = task->conflict;
    options.delay_ms = task->delay_ms;
    options.ttr_ms = task->ttr_ms;
    options.key_hold_retained = task->key_hold_retained;
    options.max_retries = task->max_retries;
    options.backoff_base_ms = task->backoff_base_ms;
    options.backoff_max_ms = task->backoff_max_ms;
    options.retain_ms = task->retain_ms;
    return options;
}

/*
 * Puts a job of the task: bide_publish(queue, TASK, data, options, &id), where data is a value of
 * the task's struct, (struct email){.to = "ada@example.org"} say. options NULL: the task's
 * defaults; others begin with bide_defaults(TASK), for BIDE_PUT_OPTIONS_INIT knows nothing of the
 * task. All of it is copied. The key is that of the options, else it is made of the fields that
 * the task names: the value itself if it is one field, else a JSON array of the values. One field
 * that is missing makes no key; among several it is null. The expiry is that of the options, else
 * expires_in_ms from now. id may be NULL. Answers as bide_put(); BIDE_EXISTS with the id of the
 * live job that has the key; BIDE_EINVAL when the data cannot be written as JSON, or the key is
 * empty, longer than BIDE_KEY_MAX, or of fields that are structs, arrays, bytes, or not there.
 */
#define bide_publish(queue, task_, ...) \
    ((void)sizeof(bide_task_of_##task_), bide_publish_of_##task_((queue), __VA_ARGS__))
BIDE_API int bide_task_publish(bide *queue, const bide_task *task, const void *data,
                               const bide_put_options *options, uint64_t *id);

/*
 * From now on the worker runs the function for each job of the task:
 * bide_handle(worker, TASK, function, arg). See worker.h for what it may answer. Before
 * bide_worker_start(); BIDE_EBUSY later; BIDE_EINVAL when the worker has a handler for the topic.
 */
#define BIDE_HANDLER_(task_) \
    "a handler of " #task_   \
    " is int (bide_context *, const STRUCT *, void *), with the STRUCT of the task"
#define bide_handle(worker, task_, function, ...)                \
    bide_worker_handle_task(                                     \
        (worker), &bide_task_of_##task_, bide_handle_of_##task_, \
        BIDE_FUNCTION_(bide_handler_of_##task_, function, BIDE_HANDLER_(task_)), __VA_ARGS__)
typedef int bide_handler_call(bide_context *context, const void *data, bide_function *function,
                              void *arg);
BIDE_API int bide_worker_handle_task(bide_worker *worker, const bide_task *task,
                                     bide_handler_call *call, bide_function *function, void *arg);

/*
 * Whenever a job of the task has failed, the function is called with the data and the error:
 * bide_fallback(worker, TASK, function, arg), after bide_handle(). It is called after the handler,
 * while the lease is still held, before the queue is told; bide_context_is_last() says whether the
 * job will be buried. The data is NULL if it could not be read. BIDE_NOT_FOUND: no handler yet;
 * BIDE_EINVAL: its handler is that of another task.
 */
#define BIDE_FALLBACK_(task_) \
    "a fallback of " #task_   \
    " is void (bide_context *, const STRUCT *, const char *, void *), with the STRUCT of the task"
#define bide_fallback(worker, task_, function, ...)            \
    bide_worker_fallback_task(                                 \
        (worker), &bide_task_of_##task_, bide_fall_of_##task_, \
        BIDE_FUNCTION_(bide_fallback_of_##task_, function, BIDE_FALLBACK_(task_)), __VA_ARGS__)
typedef void bide_fallback_call(bide_context *context, const void *data, const char *error,
                                bide_function *function, void *arg);
BIDE_API int bide_worker_fallback_task(bide_worker *worker, const bide_task *task,
                                       bide_fallback_call *call, bide_function *function,
                                       void *arg);

#ifdef __cplusplus
}
#endif
#endif
