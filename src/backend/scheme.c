/* SPDX-License-Identifier: MIT */
/*
 * scheme - maps the scheme of a URL to its backend.
 */
#include "backend/backend.h"

#include <string.h>

static const struct backend_ops *const backends[] = {
    &bi_backend_memory,
    &bi_backend_beanstalk,
#ifdef BIDE_WITH_SQLITE
    &bi_backend_sqlite,
#endif
};

const struct backend_ops *bi_scheme_find(const char *scheme, const char **names)
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
