/* SPDX-License-Identifier: MIT */
/*
 * local_backends - the backends "memory:" and "sqlite:PATH": the local backend on a store that is
 * not persistent, and on one in a SQLite file.
 */
#include "local/local_internal.h"
#include "util/message.h"

/* ---- memory ---- */

static int open_memory(const struct backend_context *context, const struct bi_url *url,
                       struct backend **out, char *error)
{
    if (url->location[0] != 0)
        return bi_error_set(
            error, BIDE_EINVAL,
            "open: nothing may follow memory: but parameters, as in memory:?ticker=wheel");

    struct store *store = bi_memory_store_new();
    if (store == NULL)
        return bi_error_set_code(error, BIDE_ENOMEM);

    return bi_local_open(context, &bi_backend_memory, store, out, error);
}

const struct backend_ops bi_backend_memory = {
    .scheme = "memory",
    .capabilities = BIDE_CAN_ALL_OPS,
    .open = open_memory,
    .submit = bi_local_submit,
    .cancel = bi_local_cancel,
    .shutdown = bi_local_shutdown,
    .close = bi_local_close,
    .free = bi_local_free,
};

/* ---- sqlite ---- */

#ifdef BIDE_WITH_SQLITE

/* Rejects spellings of other URL schemes and shells, which would silently open another file. */
static int check_path(const char *path, char *error)
{
    const char *wrong = NULL;

    if (path[0] == 0)
        wrong = "names no file; write sqlite:jobs.db, or sqlite:/var/lib/jobs.db";
    else if (strncmp(path, "//", 2) == 0)
        wrong = "has a host's slashes; write sqlite:jobs.db, or sqlite:/var/lib/jobs.db";
    else if (strcmp(path, ":memory:") == 0)
        wrong = "keeps nothing; the queue in memory is memory:";
    else if (strncmp(path, "~", 1) == 0)
        wrong = "begins with ~, which only shells know; write the path out, or ./~";
    else if (strchr(path, '&') != NULL)
        wrong = "has a & in its path; parameters begin with ?, and %26 stands for a &";

    if (wrong == NULL)
        return BIDE_OK;

    return bi_error_set(error, BIDE_EINVAL, "open: the URL sqlite:%.40s %s", path, wrong);
}

/* The largest row of SQLite is 1,000,000,000 bytes. This leaves room for the other columns. */
#define ROW_MAX 999000000

static int check_sizes(const bide_options *options, char *error)
{
    if (options->max_job_size <= ROW_MAX && options->max_result_size <= ROW_MAX)
        return BIDE_OK;
    return bi_error_set(
        error, BIDE_EINVAL,
        "open: max_job_size and max_result_size are at most %d bytes in a SQLite file", ROW_MAX);
}

static int open_sqlite(const struct backend_context *context, const struct bi_url *url,
                       struct backend **out, char *error)
{
    struct bi_sqlite_options options = {context->options.sync, context->log};
    struct store *store;
    char path[BI_URL_MAX];

    snprintf(path, sizeof(path), "%s", url->location);
    /* Check the path before it is decoded: %26 is a valid way to write a &. */
    int code = check_path(path, error);
    if (code == BIDE_OK)
        code = check_sizes(&context->options, error);
    if (code == BIDE_OK && !bi_url_decode(path)) {
        code = bi_error_set(error, BIDE_EINVAL,
                            "open: the path in the URL has a percent sign without two hexadecimal "
                            "digits, or %%00; write %%25 for a percent sign");
    }

    if (code == BIDE_OK)
        code = bi_sqlite_store_new(path, &options, &store, error);

    if (code != BIDE_OK)
        return code;
    return bi_local_open(context, &bi_backend_sqlite, store, out, error);
}

const struct backend_ops bi_backend_sqlite = {
    .scheme = "sqlite",
    .may_block = true,
    .capabilities = BIDE_CAN_ALL_OPS,
    .open = open_sqlite,
    .submit = bi_local_submit,
    .commit = bi_local_commit,
    .commit_age = bi_commit_age,
    .set_close_deadline = bi_local_set_close_deadline,
    .cancel = bi_local_cancel,
    .shutdown = bi_local_shutdown,
    .close = bi_local_close,
    .free = bi_local_free,
};

#endif
