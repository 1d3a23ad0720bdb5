/* SPDX-License-Identifier: MIT */
/*
 * curl - libcurl, loaded when it is needed.
 *
 * Loading it with all that it needs takes five times as long as everything else that bide does
 * to put a job. Only `bide work --http` calls it, so only that loads it.
 */
#ifndef BI_CURL_H
#define BI_CURL_H

#include "util/errmsg.h"

#define CURL_DISABLE_TYPECHECK /* its macros would name the functions */
#include <curl/curl.h>

#define BI_CURL_CALLS(X)        \
    X(curl_easy_cleanup)        \
    X(curl_easy_getinfo)        \
    X(curl_easy_init)           \
    X(curl_easy_setopt)         \
    X(curl_easy_strerror)       \
    X(curl_global_cleanup)      \
    X(curl_global_init)         \
    X(curl_multi_add_handle)    \
    X(curl_multi_cleanup)       \
    X(curl_multi_info_read)     \
    X(curl_multi_init)          \
    X(curl_multi_perform)       \
    X(curl_multi_poll)          \
    X(curl_multi_remove_handle) \
    X(curl_free)                \
    X(curl_slist_append)        \
    X(curl_slist_free_all)      \
    X(curl_url)                 \
    X(curl_url_cleanup)         \
    X(curl_url_get)             \
    X(curl_url_set)

#undef curl_easy_setopt
#undef curl_easy_getinfo

struct bi_curl {
#define BI_CURL_CALL(name_) __typeof__(name_) *name_; /* NOLINT(bugprone-macro-parentheses) */
    BI_CURL_CALLS(BI_CURL_CALL)
#undef BI_CURL_CALL
};
extern struct bi_curl bi_curl;

/* Once a process, before its other threads. False, with a sentence, when it cannot be loaded. */
bool bi_curl_load(char *error);

#endif
