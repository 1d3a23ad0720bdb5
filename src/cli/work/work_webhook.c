/* SPDX-License-Identifier: MIT */
/*
 * work_webhook - runs a job by a web hook: POSTs the body; the status of the response decides.
 *
 * A request takes a client from a free list, whose connection stays open for the next request;
 * there are as many clients as concurrent requests. The thread waits in curl_multi_poll() for
 * everything that may end the request.
 */
#include "cli/work/work.h"
#include "util/clock.h"

#define CURL_DISABLE_TYPECHECK /* its macros would call the functions by name */
#include <curl/curl.h>

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A longer Retry-After is taken for a mistake. */
#define RETRY_AFTER_MAX_MS INT64_C(86400000)
/* Beyond what is kept this much of a response is read; then the connection is closed, and the
 * status counts. */
#define EXCESS_MAX    (1 << 20)
#define REDIRECTS_MAX 10

/* ---- libcurl ---- */

/* Loaded by the first `bide work --http` only: loading it with its dependencies takes five times as
 * long as everything else that bide does to put a job. */
#define CURL_CALLS(X)      \
    X(easy_cleanup)        \
    X(easy_getinfo)        \
    X(easy_init)           \
    X(easy_setopt)         \
    X(easy_strerror)       \
    X(free)                \
    X(global_cleanup)      \
    X(global_init)         \
    X(multi_add_handle)    \
    X(multi_cleanup)       \
    X(multi_info_read)     \
    X(multi_init)          \
    X(multi_perform)       \
    X(multi_poll)          \
    X(multi_remove_handle) \
    X(slist_append)        \
    X(slist_free_all)      \
    X(url)                 \
    X(url_cleanup)         \
    X(url_get)             \
    X(url_set)

#undef curl_easy_setopt
#undef curl_easy_getinfo

#define CURL_POINTER(name_) \
    __typeof__(curl_##name_) *name_; /* NOLINT(bugprone-macro-parentheses) */
static struct {
    CURL_CALLS(CURL_POINTER)
} curl;

/* Once, before there are other threads. */
static bool load_curl(char *error)
{
#define CURL_NAME(name_) "curl_" #name_,
    static const char *const names[] = {CURL_CALLS(CURL_NAME)};
    _Static_assert(sizeof(curl) == sizeof(names), "one name per function");
    void *library = dlopen("libcurl.so.4", RTLD_NOW);

    if (library == NULL)
        library = dlopen("libcurl-gnutls.so.4", RTLD_NOW);
    if (library == NULL)
        return bi_errmsg_set(error, "cannot load libcurl: %.200s (install libcurl4)", dlerror());
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *function = dlsym(library, names[i]);
        if (function == NULL)
            return bi_errmsg_set(error, "libcurl is too old: it has no %s", names[i]);
        memcpy((char *)&curl + i * sizeof(function), &function, sizeof(function));
    }
    return true;
}

/* ---- clients ---- */

struct http_client {
    CURLM *multi;
    CURL *easy;
    struct http_client *next;
    char error[CURL_ERROR_SIZE];
};

static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static struct http_client *idle_clients;

struct request {
    struct work *work;
    bide_context *context;
    struct run_outcome *outcome;
    struct output *output; /* for a result */
    struct output head;    /* for an error */
    uint64_t excess;       /* bytes beyond what is kept */
    bool aborted;          /* because of the excess */
    char *url;             /* where redirects have led; NULL: that of the flag */
    int redirects;
    struct curl_slist *headers;
    int64_t limit_at;
};

static void free_client(struct http_client *client)
{
    if (client == NULL)
        return;
    if (client->easy != NULL)
        curl.easy_cleanup(client->easy);
    if (client->multi != NULL)
        curl.multi_cleanup(client->multi);
    free(client);
}

static size_t on_body(char *data, size_t one, size_t size, void *user)
{
    struct request *request = user;
    size *= one;
    bi_work_output_add(request->output, data, size);
    bi_work_output_add(&request->head, data, size);
    if (request->output->truncated || request->output->limit == 0)
        request->excess += size;
    request->aborted = request->excess > EXCESS_MAX;
    return request->aborted ? 0 : size;
}

static void set_fixed_options(struct http_client *client)
{
    CURL *easy = client->easy;

#if LIBCURL_VERSION_NUM >= 0x075500
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, CURLOPT_POST, 1L);
    curl.easy_setopt(easy, CURLOPT_USERAGENT, "bide/" BIDE_VERSION);
    curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, client->error);
    curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
}

static struct http_client *acquire_client(void)
{
    pthread_mutex_lock(&clients_lock);
    struct http_client *client = idle_clients;
    if (client != NULL)
        idle_clients = client->next;
    pthread_mutex_unlock(&clients_lock);

    if (client != NULL || (client = calloc(1, sizeof(*client))) == NULL)
        return client;
    client->multi = curl.multi_init();
    client->easy = curl.easy_init();
    if (client->multi == NULL || client->easy == NULL) {
        free_client(client);
        return NULL;
    }
    set_fixed_options(client);
    return client;
}

static void release_client(struct http_client *client)
{
    assert(client->easy != NULL && client->multi != NULL);
    pthread_mutex_lock(&clients_lock);
    client->next = idle_clients;
    idle_clients = client;
    pthread_mutex_unlock(&clients_lock);
}

static int open_webhook(struct work *work)
{
    char error[BI_ERRMSG_SIZE];

    if (!load_curl(error))
        return bi_cli_error(work->cli, BI_EXIT_FAILED, "%s", error);
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return bi_cli_error(work->cli, BI_EXIT_FAILED, "cannot initialise libcurl");
    return BI_EXIT_OK;
}

/* Also after an open that failed: then there are no functions of libcurl. */
static void close_webhook(void)
{
    while (idle_clients != NULL) {
        struct http_client *client = idle_clients;
        idle_clients = client->next;
        free_client(client);
    }
    if (curl.global_cleanup != NULL)
        curl.global_cleanup();
}

/* ---- headers ---- */

/* Does a --header have the name of this line? */
static bool is_overridden(const struct words *custom, const char *line)
{
    size_t size = strcspn(line, ":");
    for (size_t i = 0; i < custom->count; i++)
        if (strcspn(custom->list[i], ":") == size && strncasecmp(custom->list[i], line, size) == 0)
            return true;
    return false;
}

static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *appended = curl.slist_append(*list, line);

    if (appended != NULL)
        *list = appended;
    return appended != NULL;
}

static bool build_headers(struct request *request)
{
    const struct words *custom = &request->work->plan->headers;
    /* "Expect: 100-continue" would cost a round trip. */
    char lines[2 + BI_WORK_METADATA_COUNT][BI_WORK_METADATA_SIZE] = {
        "Content-Type: application/octet-stream", "Expect:"};
    size_t count = 2 + bi_work_metadata_format(request->context, true, lines + 2);
    bool good = true;

    /* Headers of the command line replace the built-in ones of the same name. */
    for (size_t i = 0; i < custom->count; i++)
        good = good && add_header(&request->headers, custom->list[i]);
    for (size_t i = 0; i < count; i++)
        if (!is_overridden(custom, lines[i]))
            good = good && add_header(&request->headers, lines[i]);
    return good;
}

/* ---- waiting for the response ---- */

/* Must the request be aborted? Then the outcome says why. */
static bool check_abort(struct request *request, const struct curl_waitfd *fds)
{
    struct run_outcome *outcome = request->outcome;
    bide_reason reason = bide_context_reason(request->context);

    if (fds[0].revents != 0 || fds[1].revents != 0 || reason == BIDE_REASON_STOPPING)
        outcome->kind = RUN_STOPPED;
    else if (reason != BIDE_REASON_NONE)
        bi_work_handler_set_revoked(request->work, request->context, outcome);
    else if (bi_clock_boot() >= request->limit_at)
        bi_work_handler_set_timeout(request->work, request->context, outcome);
    else
        return false;
    return true;
}

/* True: the request is complete, with *code. False: it was aborted. */
static bool wait_response(struct request *request, struct http_client *client, CURLcode *code)
{
    int context_fd = bide_context_fd(request->context);
    struct curl_waitfd fds[] = {
        {request->work->stop_fd, CURL_WAIT_POLLIN, 0},
        {request->work->kill_fd, CURL_WAIT_POLLIN, 0},
        {context_fd, CURL_WAIT_POLLIN, 0},
    };
    int running = 1, unused;

    while (curl.multi_perform(client->multi, &running) == CURLM_OK && running != 0) {
        curl.multi_poll(client->multi, fds, context_fd < 0 ? 2 : 3,
                        bi_work_supervisor_poll_ms(request->limit_at), NULL);
        if (check_abort(request, fds))
            return false;
    }
    const CURLMsg *message = curl.multi_info_read(client->multi, &unused);
    *code = message == NULL ? CURLE_OUT_OF_MEMORY : message->data.result;
    return true;
}

/* ---- the outcome ---- */

static void set_outcome(struct request *request, struct http_client *client, CURLcode code)
{
    struct run_outcome *outcome = request->outcome;
    long status = 0;
    curl_off_t retry_after_s = 0;

    if (code != CURLE_OK && !request->aborted) {
        outcome->kind = RUN_ERROR;
        snprintf(outcome->text, sizeof(outcome->text), "%s",
                 client->error[0] != 0 ? client->error : curl.easy_strerror(code));
        return;
    }
    curl.easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    curl.easy_getinfo(client->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    outcome->kind = RUN_STATUS;
    outcome->status = (int)status;
    if (retry_after_s > RETRY_AFTER_MAX_MS / 1000)
        outcome->after_ms = RETRY_AFTER_MAX_MS;
    else if (retry_after_s > 0)
        outcome->after_ms = (int64_t)retry_after_s * 1000;
}

/* NULL: the response is no redirect. */
static const char *redirect_of(struct http_client *client)
{
    char *location = NULL;
    curl.easy_getinfo(client->easy, CURLINFO_REDIRECT_URL, &location);
    return location;
}

/* The beginning of the response; of a redirect, where it points. */
static void copy_error_text(const struct request *request, struct http_client *client, char *tail)
{
    const char *location = redirect_of(client);
    char shown[BI_URL_MAX];

    if (request->outcome->kind != RUN_STATUS)
        return;
    if (location == NULL) {
        bi_work_output_head(&request->head, tail);
        return;
    }
    bi_url_redact(shown, location); /* a relative redirect has the password of --http */
    snprintf(tail, BI_WORK_TAIL_SIZE, "redirected to %.500s (%s)", shown,
             request->work->plan->follow ? "--follow stays on the host of --http" : "see --follow");
}

/* ---- redirects ---- */

/* "https", "example.org" and "443"; false: the URL cannot be parsed. */
#define PART_SIZE 300
static bool parse_origin(const char *url, char parts[3][PART_SIZE])
{
    static const CURLUPart kinds[3] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    CURLU *parsed = curl.url();
    bool good = parsed != NULL && curl.url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK;

    for (int i = 0; i < 3 && good; i++) {
        char *text = NULL;
        good = curl.url_get(parsed, kinds[i], &text, CURLU_DEFAULT_PORT) == CURLUE_OK &&
               snprintf(parts[i], PART_SIZE, "%s", text) < PART_SIZE;
        curl.free(text);
    }
    curl.url_cleanup(parsed);
    return good;
}

/* The body and the headers are meant for one server: a redirect is followed to the same scheme,
 * host and port, or from http to https of the same host on the default ports. */
static bool is_same_origin(const char *from, const char *to)
{
    char a[3][PART_SIZE], b[3][PART_SIZE];

    if (!parse_origin(from, a) || !parse_origin(to, b) || strcasecmp(a[1], b[1]) != 0)
        return false;
    if (strcasecmp(a[0], b[0]) == 0)
        return strcmp(a[2], b[2]) == 0;
    return strcasecmp(a[0], "http") == 0 && strcmp(a[2], "80") == 0 &&
           strcasecmp(b[0], "https") == 0 && strcmp(b[2], "443") == 0;
}

/* If the response is a redirect to follow, sets request->url and resets the rest of the request. */
static bool follow_redirect(struct request *request, struct http_client *client)
{
    const struct work_plan *plan = request->work->plan;
    const char *location = redirect_of(client);

    if (!plan->follow || location == NULL || request->redirects == REDIRECTS_MAX ||
        !is_same_origin(request->url == NULL ? plan->url : request->url, location))
        return false;
    char *copy = strdup(location);
    if (copy == NULL)
        return false;
    free(request->url);
    request->url = copy;
    request->redirects++;

    /* The body of the redirect is not the result. */
    bi_work_output_done(request->output);
    bi_work_output_done(&request->head);
    request->output->truncated = request->head.truncated = request->aborted = false;
    request->excess = 0;
    *request->outcome = (struct run_outcome){.after_ms = -1};
    return true;
}

/* True: the response is a redirect, and the request must be sent again. */
static bool send_once(struct request *request, struct http_client *client, const bide_slice *body,
                      char *tail)
{
    CURL *easy = client->easy;
    CURLcode code = CURLE_OK;
    bool is_redirected = false;

    client->error[0] = 0;
    curl.easy_setopt(easy, CURLOPT_URL,
                     request->url == NULL ? request->work->plan->url : request->url);
    curl.easy_setopt(easy, CURLOPT_POSTFIELDS, body->size == 0 ? "" : body->data);
    curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
    curl.easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
    curl.easy_setopt(easy, CURLOPT_WRITEDATA, request);
    curl.multi_add_handle(client->multi, easy);

    if (wait_response(request, client, &code)) {
        set_outcome(request, client, code);
        is_redirected = request->outcome->kind == RUN_STATUS && follow_redirect(request, client);
        if (!is_redirected)
            copy_error_text(request, client, tail);
    }
    curl.multi_remove_handle(client->multi, easy);
    return is_redirected;
}

static void run_webhook(struct work *work, bide_context *context, const bide_slice *body,
                        struct run_outcome *outcome, struct output *output, char *tail)
{
    struct request request = {
        .work = work,
        .context = context,
        .outcome = outcome,
        .output = output,
        .head = {.limit = BI_WORK_TAIL_SIZE + 1},
        .limit_at = bi_work_handler_deadline(work, context),
    };
    struct http_client *client = acquire_client();

    if (client != NULL && build_headers(&request)) {
        while (send_once(&request, client, body, tail))
            assert(request.redirects <= REDIRECTS_MAX);
    } else {
        outcome->kind = RUN_ERROR;
        snprintf(outcome->text, sizeof(outcome->text), "out of memory");
    }

    if (client != NULL)
        release_client(client);
    free(request.url);
    curl.slist_free_all(request.headers);
    bi_work_output_done(&request.head);
}

const struct work_runner bi_work_webhook = {open_webhook, run_webhook, close_webhook};
