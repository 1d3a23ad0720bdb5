/* SPDX-License-Identifier: MIT */
#include "cli/work/curl.h"

#include <dlfcn.h>
#include <string.h>

struct bi_curl bi_curl;

/* The one that the headers are of, and the same with another library for TLS. */
static void *open_library(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW);
    return library != NULL ? library : dlopen("libcurl-gnutls.so.4", RTLD_NOW);
}

bool bi_curl_load(char *error)
{
    static const char *const names[] = {
#define BI_CURL_CALL(name_) #name_,
        BI_CURL_CALLS(BI_CURL_CALL)
#undef BI_CURL_CALL
    };
    void *library = open_library();
    if (library == NULL)
        return bi_errmsg_set(error, "cannot load libcurl: %.200s; install libcurl4", dlerror());
    _Static_assert(sizeof(bi_curl) == sizeof(names), "a name for each function");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *function = dlsym(library, names[i]);
        if (function == NULL)
            return bi_errmsg_set(error, "libcurl is too old: it has no %s", names[i]);
        memcpy((char *)&bi_curl + i * sizeof(function), &function, sizeof(function));
    }
    return true;
}
