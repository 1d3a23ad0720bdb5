/* SPDX-License-Identifier: MIT */
/*
 * queue - opens and closes a queue: URL to backend, options, and the lifetime of the handle; the
 * last error of a thread.
 */
#include "queue/queue.h"
#include "util/thread.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *bide_version(void)
{
    return BIDE_VERSION;
}

/* ---- the last error: code and message of the last failed call, one per thread ---- */

static _Thread_local char last_error[BIDE_ERROR_SIZE];
static BI_THREAD_LOCAL bool has_error; /* false: last_error is of an earlier call */
static BI_THREAD_LOCAL int last_code;

const char *bide_last_error(void)
{
    return has_error ? last_error : "";
}

void bi_last_error_clear(void)
{
    has_error = false;
    last_code = BIDE_OK;
}

int bi_last_error_code(void)
{
    return last_code;
}

int bi_last_error_set(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);

    has_error = true;
    last_code = code;
    return code;
}

/* ---- opening and closing ---- */

static const struct backend_ops *const backends[] = {
    &bi_backend_memory,
    &bi_backend_beanstalk,
#ifdef BIDE_WITH_SQLITE
    &bi_backend_sqlite,
#endif
};

const struct backend_ops *bi_queue_find_backend(const char *scheme, const char **names)
{
    if (names != NULL)
#ifdef BIDE_WITH_SQLITE
        *names = "memory:, sqlite: and beanstalk:";
#else
        *names = "memory: and beanstalk: (no sqlite:, built without libsqlite3-dev)";
#endif

    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (strcmp(backends[i]->scheme, scheme) == 0)
            return backends[i];

    return NULL;
}

static int open_backend(struct bide *queue, const char *text, const bide_options *options,
                        bool for_server)
{
    struct bi_url url;
    const char *reason;
    if (!bi_url_parse(&url, text, &reason)) {
        char shown[BI_URL_MAX];
        bi_url_redact(shown, text);
        return bi_last_error_set(BIDE_EINVAL, "open: the URL \"%.60s\" %s", shown, reason);
    }

    const char *names;
    const struct backend_ops *ops = bi_queue_find_backend(url.scheme, &names);
    if (ops == NULL)
        return bi_last_error_set(
            BIDE_EINVAL,
            "open: there is no backend for \"%.40s:\"; this build has %s (a server is "
            "beanstalk://HOST:PORT)",
            url.scheme, names);

    struct backend_context context = {
        .for_server = for_server, .finish = bi_submit_finish, .complete = bi_cq_complete};
    int code = bi_options_merge(options, &url, ops->parameters, &context.requested);
    if (code == BIDE_OK)
        code = bi_options_validate(&context.requested, ops->remote, &context.options);
    if (code != BIDE_OK)
        return code;

    context.log = (struct bi_log){context.options.log, context.options.log_user};
    char error[BIDE_ERROR_SIZE] = "";
    code = ops->open(&context, &url, &queue->backend, error);
    if (code != BIDE_OK)
        return bi_last_error_set(code, "%s", error);
    queue->options = context.options;
    return BIDE_OK;
}

int bide_open(const char *url, const bide_options *options, bide **out)
{
    return bi_queue_open(url, options, false, out);
}

int bi_queue_open(const char *url, const bide_options *options, bool for_server, bide **out)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (url == NULL || out == NULL)
        return bi_last_error_set(BIDE_EINVAL, "open: url or out is NULL");

    struct bide *queue = calloc(1, sizeof(*queue));
    if (queue == NULL)
        return bi_last_error_set(BIDE_ENOMEM, "open: out of memory");

    int code = open_backend(queue, url, options, for_server);
    if (code != BIDE_OK) {
        free(queue);
        return code;
    }
    *out = queue;
    return BIDE_OK;
}

uint32_t bide_capabilities(const bide *queue)
{
    return queue == NULL ? 0 : queue->backend->ops->capabilities;
}

int bide_shutdown(bide *queue)
{
    bi_last_error_clear();
    if (queue == NULL)
        return bi_last_error_set(BIDE_EINVAL, "shutdown: queue is NULL");

    BI_NO_CANCEL;
    bi_queue_enter(queue);
    queue->backend->ops->shutdown(queue->backend);
    bi_queue_leave(queue);
    return BIDE_OK;
}

int bide_close(bide *queue)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (queue == NULL)
        return BIDE_OK;

    if (bi_cq_in_callback())
        return bi_last_error_set(BIDE_ECALLBACK, "close: called from a completion callback");
    if (queue->workers > 0)
        return bi_last_error_set(BIDE_EBUSY, "close: %u workers use the queue; free them first",
                                 queue->workers);

    struct backend *backend = queue->backend;
    /* close() completes every pending op, so that no blocking call stays in the backend. */
    backend->ops->close(backend);

    /* Calls that began before may not have returned yet. The acquire pairs with the release in
     * bi_queue_leave(): what they did to the backend is visible before it is freed. */
    while (atomic_load_explicit(&queue->active_calls, memory_order_acquire) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);

    backend->ops->free(backend);
    free(queue);
    return BIDE_OK;
}

int64_t bi_queue_commit_age(struct bide *queue)
{
    struct backend *backend = queue->backend;
    return backend->ops->commit_age == NULL ? 0 : backend->ops->commit_age(backend);
}

void bi_queue_set_close_deadline(struct bide *queue, int64_t deadline)
{
    struct backend *backend = queue->backend;
    if (backend->ops->set_close_deadline != NULL)
        backend->ops->set_close_deadline(backend, deadline);
}

bool bi_queue_has_commits(const struct bide *queue)
{
    return queue->backend->ops->commit != NULL;
}

bool bi_queue_commit(struct bide *queue, bool lead)
{
    struct backend *backend = queue->backend;
    return backend->ops->commit != NULL && backend->ops->commit(backend, lead);
}
