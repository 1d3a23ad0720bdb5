/* SPDX-License-Identifier: MIT */
/*
 * task.h - typed tasks: publish a struct in one process, and a function gets it in another.
 *
 *     struct email {
 *         const char *to;
 *         const char *subject;
 *     };
 *     BIDE_TYPE(email, struct email, BIDE_FIELD(to), BIDE_FIELD(subject));
 *     BIDE_TASK(send_email, email, .topic = "send-email", .max_retries = 5, .ttr_ms = 30000);
 *
 *     // the producer
 *     struct email hello = {.to = "ada@example.org", .subject = "hello"};
 *     bide_publish(queue, send_email, hello, NULL, NULL);
 *
 *     // the consumer, see worker.h
 *     static int send(bide_context *context, const struct email *email, void *arg)
 *     {
 *         return smtp_send(email) ? BIDE_DONE : bide_context_retry(context, "no answer");
 *     }
 *     bide_handle(worker, send_email, send, NULL);
 *
 * Publishing a struct of another type, or registering a function of another type, does not compile.
 * The jobs of a task are ordinary jobs of its topic: bide_peek(), bide_wait(), bide_cancel() and
 * all other calls apply to them.
 *
 * How it works: BIDE_TASK(NAME, ...) generates a constant bide_task_of_NAME, and inline functions
 * that know the struct: bide_publish_of_NAME() and bide_next_of_NAME() take it by value,
 * bide_handle_of_NAME() and bide_fall_of_NAME() call a handler or fallback with a pointer to it. The macros bide_publish(),
 * bide_handle() and bide_fallback() pass these to the untyped functions of the library and let the
 * compiler check the types; so the library itself never needs to know the struct.
 */
#ifndef BIDE_TASK_H
#define BIDE_TASK_H

#include <bide/bide.h>
#include <bide/type.h>
#include <bide/worker.h>

#ifdef __cplusplus
#define BIDE_DEFAULT_(value) = (value)
#define BIDE_ZEROES_         = {}
extern "C" {
#else
#define BIDE_DEFAULT_(value)
#define BIDE_ZEROES_
#endif

/* max_retries of a task that does not set it, unless the policy of its topic has another number. */
#define BIDE_TASK_RETRIES 25
/* The default of the member: not a value to be given. */
#define BIDE_TASK_RETRIES_UNSET_ (-100)

/* The defaults of the jobs of a task; a publish may override them. */
typedef struct bide_task {
    const char *name BIDE_DEFAULT_(NULL);              /* the NAME of BIDE_TASK */
    const bide_type *(*type)(void)BIDE_DEFAULT_(NULL); /* of its data */
    const char *topic BIDE_DEFAULT_(NULL);             /* default: the name */
    /* The fields of the unique key: "customer" or "customer, month"; NULL: no key. A running job
     * holds its key, so its handler cannot publish a job with the same key, except with its end:
     * bide_context_publish(). */
    const char *key BIDE_DEFAULT_(NULL);
    bide_conflict conflict BIDE_DEFAULT_(BIDE_REJECT); /* with a key; or BIDE_REPLACE, SKIP */
    bool key_hold_retained BIDE_DEFAULT_(false); /* hold the key while a result is retained, too */
    uint32_t priority BIDE_DEFAULT_(BIDE_DEFAULT_PRIORITY);
    /* Or BIDE_NO_RETRY_LIMIT: unlimited, unless the policy of the topic has a limit; or
     * BIDE_NO_DEFAULT: unlimited in any case. */
    int32_t max_retries BIDE_DEFAULT_(BIDE_TASK_RETRIES_UNSET_);
    int64_t ttr_ms BIDE_DEFAULT_(0);          /* duration of a lease; 0: the queue's default_ttr */
    int64_t time_limit_ms BIDE_DEFAULT_(0);   /* of a handler: see bide_context_left_ms() */
    int64_t delay_ms BIDE_DEFAULT_(0);        /* until the job is ready */
    int64_t backoff_base_ms BIDE_DEFAULT_(0); /* first retry; 0 is 5 s */
    int64_t backoff_max_ms BIDE_DEFAULT_(0);  /* longest retry; 0 is 1 h */
    int64_t expires_in_ms BIDE_DEFAULT_(0);   /* removed if not reserved before; 0: never */
    int64_t retain_ms BIDE_DEFAULT_(0);       /* how long a result is retained; 0: not at all */
    uint64_t room_[4] BIDE_ZEROES_;           /* for later versions */
} bide_task;

/*
 * Defines a task: BIDE_TASK(NAME, TYPE, .field = value, ...); at file scope, in a header if several
 * files need it. TYPE is the name of a BIDE_TYPE, or `bytes` for bodies that are not JSON. Fields
 * that are not named have their defaults. In C++ they must be in the order of the struct.
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
    BIDE_MADE_ int bide_next_of_##name_(bide_context *context_, bide_of_##type_ data_,             \
                                        const bide_put_options *options_)                          \
    {                                                                                              \
        return bide_context_publish_task(context_, &bide_task_of_##name_, &data_, options_);       \
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
                                   .max_retries = BIDE_TASK_RETRIES_UNSET_,                       \
                                   __VA_ARGS__};                                                  \
    _Pragma("GCC diagnostic pop") BIDE_END_
/* The function, if it has the type; else a compile error with the sentence.
 * NOLINTBEGIN(bugprone-macro-parentheses): it is a type. */
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

/* In C++ the struct itself has the defaults, except those that depend on the task. */
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

/* The put options of a task, to be changed for one job:
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
    if (task->max_retries == BIDE_TASK_RETRIES_UNSET_) {
        options.max_retries = BIDE_TASK_RETRIES;
        options.fallbacks = BIDE_FALLBACK_RETRIES;
    }
    options.backoff_base_ms = task->backoff_base_ms;
    options.backoff_max_ms = task->backoff_max_ms;
    options.retain_ms = task->retain_ms;
    return options;
}

/*
 * Puts a job of the task: bide_publish(queue, TASK, data, options, &id), where data is a value of
 * the task's struct, for example (struct email){.to = "ada@example.org"}. options NULL: the task's
 * defaults. Other options begin with bide_defaults(TASK); BIDE_PUT_OPTIONS_INIT does not contain
 * them. Everything is copied. id may be NULL.
 *
 * Key       That of the options; else it is made of the fields that the task names: the value of a
 *           single field, or a JSON array of several. A single field that is missing gives no key;
 *           among several it is null.
 * Expiry    That of the options; else expires_in_ms from now.
 * Returns   The codes of bide_put(); with BIDE_EXISTS the id is that of the job that holds the key.
 *           BIDE_EINVAL when the data cannot be encoded as JSON, or the key is empty, longer than
 *           BIDE_KEY_MAX, or made of fields that are structs, arrays or bytes, or do not exist.
 */
#define bide_publish(queue, task_, ...) \
    ((void)sizeof(bide_task_of_##task_), bide_publish_of_##task_((queue), __VA_ARGS__))
BIDE_API int bide_task_publish(bide *queue, const bide_task *task, const void *data,
                               const bide_put_options *options, uint64_t *id);

/*
 * For handlers: puts a job of the task in one atomic step with the end of the handler's own job;
 * when the handler fails nothing is put. bide_context_publish(context, TASK, data, options), where
 * data and options are those of bide_publish(). bide_context_put() in worker.h has the rules and the
 * codes. The job has no id before it is put.
 *
 *     static int resize(bide_context *context, const struct photo *photo, void *arg)
 *     {
 *         ...
 *         return bide_context_publish(context, upload, (struct file){.path = small}, NULL);
 *     }
 */
#define bide_context_publish(context, task_, ...) \
    ((void)sizeof(bide_task_of_##task_), bide_next_of_##task_((context), __VA_ARGS__))
BIDE_API int bide_context_publish_task(bide_context *context, const bide_task *task,
                                       const void *data, const bide_put_options *options);

/*
 * Registers the handler of the task: bide_handle(worker, TASK, function, arg). See worker.h for the
 * values that it may return. Must be called before bide_worker_start(), else BIDE_EBUSY.
 * BIDE_EINVAL: the worker has a handler for the topic.
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
 * Registers a function that is called with the data and the error whenever a job of the task has
 * failed: bide_fallback(worker, TASK, function, arg), after bide_handle(). It runs after the
 * handler, while the lease is still held and before the queue accepts the outcome;
 * bide_context_is_last() returns whether the job will be buried. The data is NULL if it could not
 * be decoded. BIDE_NOT_FOUND: no handler yet; BIDE_EINVAL: the handler is that of another task.
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
