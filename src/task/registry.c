/* SPDX-License-Identifier: MIT */
/*
 * registry - the handlers of a worker by topic, their weights, and the middleware.
 *
 * `entries` is sorted by topic, for the lookup after each reserve. `topics` and `weights` have the
 * order of registration, which is the order of a strict reserve.
 *
 * Threads    Changed only while the worker does not run, so that its threads read without a lock.
 * Failure    A call that fails changes nothing, except that arrays may have grown.
 */
#include "task/worker_internal.h"

#include "op/op_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare_topic(const void *topic, const void *item)
{
    return strcmp(topic, (*(struct entry *const *)item)->topic);
}

static struct entry *find(const bide_worker *worker, const char *topic)
{
    if (worker->entry_count == 0)
        return NULL;
    struct entry **found =
        bsearch(topic, worker->entries, worker->entry_count, sizeof(struct entry *), compare_topic);
    return found == NULL ? NULL : *found;
}

const struct entry *bi_registry_lookup(const bide_worker *worker, const char *topic)
{
    /* The topic of a reserved job is the server's word. */
    static char name[] = "(no handler)";
    static const struct entry no_handler = {.topic = name};
    const struct entry *entry = find(worker, topic);

    assert(worker->entry_count > 0); /* a worker without handlers does not start */
    return entry != NULL ? entry : &no_handler;
}

/* Stores an array as soon as it has grown: realloc() has freed the old one. `array` points to a
 * pointer of any type. */
static bool grow_array(void *array, size_t item_size, size_t room)
{
    void *old, *grown;

    memcpy(&old, array, sizeof(old));
    grown = realloc(old, room * item_size);
    if (grown != NULL)
        memcpy(array, &grown, sizeof(grown));
    return grown != NULL;
}

/* If a later array fails, entry_room stays, and the larger arrays do no harm. */
static bool grow(bide_worker *worker)
{
    size_t room = worker->entry_room == 0 ? 8 : worker->entry_room * 2;

    if (!grow_array(&worker->entries, sizeof(struct entry *), room) ||
        !grow_array(&worker->topics, sizeof(*worker->topics), room) ||
        !grow_array(&worker->weights, sizeof(*worker->weights), room))
        return false;
    worker->entry_room = room;
    return true;
}

static int check(bide_worker *worker, const char *topic, const char *call)
{
    if (worker == NULL || topic == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: worker or topic is NULL", call);
    if (worker->state != WORKER_IDLE)
        return bi_last_error_set(BIDE_EBUSY, "%s: the worker runs; stop it first", call);
    return BIDE_OK;
}

static int check_new(bide_worker *worker, const char *topic)
{
    int code = check(worker, topic, "worker_handle");
    if (code != BIDE_OK)
        return code;
    if (!bi_topic_name_valid((bide_slice){topic, strlen(topic)}))
        return bi_last_error_set(BIDE_EINVAL, "worker_handle: \"%.60s\" is not the name of a topic",
                                 topic);
    if (find(worker, topic) != NULL)
        return bi_last_error_set(BIDE_EINVAL, "worker_handle: topic \"%.60s\" has a handler",
                                 topic);
    if (worker->entry_count == BIDE_WORKER_TOPICS_MAX)
        return bi_last_error_set(BIDE_EINVAL, "worker_handle: a worker has at most %d topics",
                                 BIDE_WORKER_TOPICS_MAX);
    return BIDE_OK;
}

/* Adds a copy of the entry, with the topic. */
static int add(bide_worker *worker, const char *topic, const struct entry *described)
{
    int code = check_new(worker, topic);
    if (code != BIDE_OK)
        return code;

    /* Allocate everything first: a failure leaves the registry unchanged. */
    struct entry *entry = calloc(1, sizeof(*entry));
    char *copy = strdup(topic);
    if (entry == NULL || copy == NULL ||
        (worker->entry_count == worker->entry_room && !grow(worker))) {
        free(entry);
        free(copy);
        return bi_last_error_set(BIDE_ENOMEM, "worker_handle: out of memory");
    }

    assert(worker->entry_count < worker->entry_room);
    *entry = *described;
    entry->topic = copy;
    size_t at = worker->entry_count++, i = at;
    for (; i > 0 && strcmp(worker->entries[i - 1]->topic, topic) > 0; i--)
        worker->entries[i] = worker->entries[i - 1];
    worker->entries[i] = entry;
    worker->topics[at] = (bide_slice){copy, strlen(copy)};
    worker->weights[at] = 1;
    return BIDE_OK;
}

void bi_registry_free(bide_worker *worker)
{
    for (size_t i = 0; i < worker->entry_count; i++) {
        free(worker->entries[i]->topic);
        free(worker->entries[i]);
    }

    free(worker->entries);
    free(worker->topics);
    free(worker->weights);
}

/* ---- handlers ---- */

/* Calls a handler of bytes by its own type; tasks have a generated function for this (task.h). */
static int call_handler(bide_context *context, const void *data, bide_function *function, void *arg)
{
    return ((bide_handler)function)(context, data, arg);
}

int bide_worker_handle(bide_worker *worker, const char *topic, bide_handler handler, void *arg)
{
    bi_last_error_clear();
    if (handler == NULL)
        return bi_last_error_set(BIDE_EINVAL, "worker_handle: handler is NULL");
    return add(
        worker, topic,
        &(struct entry){.call = call_handler, .function = (bide_function *)handler, .arg = arg});
}

static int check_task(const bide_task *task, const char *call)
{
    if (task == NULL || task->name == NULL || task->topic == NULL || task->type == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: the task, its name, topic or type is NULL",
                                 call);
    if (task->time_limit_ms < BIDE_FOREVER || task->time_limit_ms > BIDE_TIME_MAX_MS)
        return bi_last_error_set(
            BIDE_EINVAL,
            "%s: time_limit_ms of the task \"%.60s\" is %lld; 0 to 136 years in "
            "milliseconds are allowed, or BIDE_FOREVER",
            call, task->name, (long long)task->time_limit_ms);
    return BIDE_OK;
}

int bide_worker_handle_task(bide_worker *worker, const bide_task *task, bide_handler_call *call,
                            bide_function *function, void *arg)
{
    bi_last_error_clear();
    int code = check_task(task, "handle");
    if (code != BIDE_OK)
        return code;
    if (call == NULL || function == NULL)
        return bi_last_error_set(BIDE_EINVAL, "handle: the handler of \"%.60s\" is NULL",
                                 task->name);

    const bide_type *type = task->type();
    return add(worker, task->topic,
               &(struct entry){
                   .type = type->raw ? NULL : type, /* bytes are not decoded */
                   .call = call,
                   .function = function,
                   .arg = arg,
                   .time_limit_ms = task->time_limit_ms,
               });
}

/* Compares by name and size, not by address: a task in a header has one description per file that
 * includes it. */
static bool is_same_task(const struct entry *entry, const bide_task *task)
{
    const bide_type *type = task->type();
    if (type->raw || entry->type == NULL)
        return type->raw && entry->type == NULL;
    return type->size == entry->type->size && strcmp(type->name, entry->type->name) == 0;
}

int bide_worker_fallback_task(bide_worker *worker, const bide_task *task, bide_fallback_call *call,
                              bide_function *function, void *arg)
{
    bi_last_error_clear();
    int code = check_task(task, "fallback");
    if (code != BIDE_OK)
        return code;
    if (call == NULL || function == NULL)
        return bi_last_error_set(BIDE_EINVAL, "fallback: the function is NULL");

    code = check(worker, task->topic, "fallback");
    if (code != BIDE_OK)
        return code;

    /* The handler decides the struct, so it must be registered first. */
    struct entry *entry = find(worker, task->topic);
    if (entry == NULL)
        return bi_last_error_set(BIDE_NOT_FOUND, "fallback: topic \"%.60s\" has no handler yet",
                                 task->topic);
    if (!is_same_task(entry, task))
        return bi_last_error_set(
            BIDE_EINVAL, "fallback: topic \"%.60s\" is handled as another task than \"%.60s\"",
            task->topic, task->name);

    entry->fallback_call = call;
    entry->fallback = function;
    entry->fallback_arg = arg;
    return BIDE_OK;
}

/* ---- weights and middleware ---- */

int bide_worker_set_weight(bide_worker *worker, const char *topic, uint32_t weight)
{
    bi_last_error_clear();
    int code = check(worker, topic, "worker_set_weight");
    if (code != BIDE_OK)
        return code;
    if (weight == 0)
        return bi_last_error_set(BIDE_EINVAL, "worker_set_weight: a weight is at least 1");

    for (size_t i = 0; i < worker->entry_count; i++)
        if (strcmp(worker->topics[i].data, topic) == 0) {
            worker->weights[i] = weight;
            return BIDE_OK;
        }

    return bi_last_error_set(BIDE_NOT_FOUND, "worker_set_weight: topic \"%.60s\" has no handler",
                             topic);
}

int bide_worker_use(bide_worker *worker, bide_middleware middleware, void *arg)
{
    bi_last_error_clear();
    if (middleware == NULL)
        return bi_last_error_set(BIDE_EINVAL, "worker_use: middleware is NULL");

    int code = check(worker, "", "worker_use");
    if (code != BIDE_OK)
        return code;
    if (worker->middleware_count == BIDE_WORKER_MIDDLEWARE_MAX)
        return bi_last_error_set(BIDE_EINVAL, "worker_use: a worker has at most %d of these",
                                 BIDE_WORKER_MIDDLEWARE_MAX);

    worker->middlewares[worker->middleware_count++] = (struct middleware){middleware, arg};
    return BIDE_OK;
}
