/* SPDX-License-Identifier: MIT */
/*
 * work_webhook - runs a job by a web hook: POSTs the body, and the status of the answer decides.
 *
 * A request takes a seat, which keeps its connection open for the next one; there are as many seats
 * as requests at a time. The thread sleeps in curl_multi_poll() with everything that may end it.
 */
#include "cli/work/curl.h"
#include "cli/work/work.h"
#include "cli/work/work_metadata.h"
#include "util/clock.h"
#include "util/url.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NEVER INT64_MAX
/* The longest sleep: limits count the time that the machine sleeps, too. */
#define STEP_US 5000000
/* A web hook that asks to come again later than that has made a mistake. */
#define RETRY_AFTER_MAX_MS INT64_C(86400000)
/* So much of an answer is read beyond what is kept; then we hang up, and the status counts. */
#define EXCESS_MAX    (1 << 20)
#define REDIRECTS_MAX 10

struct http_client {
    CURLM *multi;
    CURL *easy;
    struct http_client *next;
    char error[CURL_ERROR_SIZE];
};

struct webhook {
    pthread_mutex_t lock;
    struct http_client *free;
};

/* One request. */
struct request {
    struct work *work;
    bide_context *context;
    struct run_outcome *outcome;
    struct output *output; /* for a result */
    struct output head;    /* for an error */
    uint64_t excess;
    bool aborted; /* we hung up */
    char *url;    /* where redirects have led; NULL: that of the flag */
    int redirects;
    struct curl_slist *headers;
    int64_t limit_at;
};

/* ---- seats ---- */

static void free_client(struct http_client *http_client)
{
    if (http_client == NULL)
        return;
    if (http_client->easy != NULL)
        bi_curl.curl_easy_cleanup(http_client->easy);
    if (http_client->multi != NULL)
        bi_curl.curl_multi_cleanup(http_client->multi);
    free(http_client);
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

/* Only what the flag says. */
static void set_protocols(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    bi_curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    bi_curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static void set_fixed_options(struct http_client *http_client)
{
    CURL *easy = http_client->easy;
    set_protocols(easy);
    bi_curl.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bi_curl.curl_easy_setopt(easy, CURLOPT_POST, 1L);
    bi_curl.curl_easy_setopt(easy, CURLOPT_USERAGENT, "bide/" BIDE_VERSION);
    bi_curl.curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http_client->error);
    bi_curl.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    bi_curl.curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
}

static struct http_client *acquire_client(struct work *work)
{
    struct webhook *webhook = work->state;
    pthread_mutex_lock(&webhook->lock);
    struct http_client *http_client = webhook->free;
    if (http_client != NULL)
        webhook->free = http_client->next;
    pthread_mutex_unlock(&webhook->lock);
    if (http_client != NULL || (http_client = calloc(1, sizeof(*http_client))) == NULL)
        return http_client;
    http_client->multi = bi_curl.curl_multi_init();
    http_client->easy = bi_curl.curl_easy_init();
    if (http_client->multi == NULL || http_client->easy == NULL) {
        free_client(http_client);
        return NULL;
    }
    set_fixed_options(http_client);
    return http_client;
}

static void release_client(struct work *work, struct http_client *http_client)
{
    struct webhook *webhook = work->state;
    pthread_mutex_lock(&webhook->lock);
    http_client->next = webhook->free;
    webhook->free = http_client;
    pthread_mutex_unlock(&webhook->lock);
}

static int open_webhook(struct work *work)
{
    char error[BI_ERRMSG_SIZE];
    if (!bi_curl_load(error))
        return bi_cli_error(work->cli, BI_EXIT_FAILED, "%s", error);
    struct webhook *webhook = calloc(1, sizeof(*webhook));
    if (webhook == NULL || bi_curl.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(webhook);
        return bi_cli_error(work->cli, BI_EXIT_FAILED, "cannot prepare libcurl");
    }
    pthread_mutex_init(&webhook->lock, NULL);
    work->state = webhook;
    return BI_EXIT_OK;
}

static void close_webhook(struct work *work)
{
    struct webhook *webhook = work->state;
    if (webhook == NULL)
        return;
    for (struct http_client *http_client = webhook->free, *next; http_client != NULL;
         http_client = next) {
        next = http_client->next;
        free_client(http_client);
    }
    pthread_mutex_destroy(&webhook->lock);
    free(webhook);
    work->state = NULL;
    bi_curl.curl_global_cleanup();
}

/* ---- headers ---- */

/* Has the user said something else under the name of this line? */
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
    struct curl_slist *appended = bi_curl.curl_slist_append(*list, line);
    if (appended != NULL)
        *list = appended;
    return appended != NULL;
}

/* An answer to "Expect" would be a round trip more. */
static bool build_headers(struct request *request)
{
    static const char *const defaults[] = {"Content-Type: application/octet-stream", "Expect:"};
    const struct words *custom = request->work->plan->headers;
    char lines[BI_WORK_METADATA_COUNT][BI_WORK_METADATA_SIZE];
    size_t count = bi_work_metadata_headers(request->context, lines);
    bool good = true;
    for (size_t i = 0; i < custom->count; i++)
        good = good && add_header(&request->headers, custom->list[i]);
    for (size_t i = 0; i < 2; i++)
        if (!is_overridden(custom, defaults[i]))
            good = good && add_header(&request->headers, defaults[i]);
    for (size_t i = 0; i < count; i++)
        if (!is_overridden(custom, lines[i]))
            good = good && add_header(&request->headers, lines[i]);
    return good;
}

/* ---- waiting for the answer ---- */

static int poll_timeout_ms(const struct request *request)
{
    int64_t now = bi_clock_boot();
    int64_t left = request->limit_at == NEVER ? STEP_US : request->limit_at - now;
    return left <= 0 ? 0 : left > STEP_US ? (int)(STEP_US / 1000) : (int)((left + 999) / 1000);
}

/* Is it to be given up? Then fate says why. */
static bool check_abort(struct request *request, const struct curl_waitfd *fds)
{
    struct run_outcome *outcome = request->outcome;
    bide_reason reason = bide_context_reason(request->context);
    if (fds[0].revents != 0 || fds[1].revents != 0 || reason == BIDE_REASON_STOPPING) {
        outcome->kind = RUN_STOPPED;
    } else if (reason != BIDE_REASON_NONE) {
        bi_work_handler_set_revoked(request->work, request->context, outcome);
    } else if (bi_clock_boot() >= request->limit_at) {
        outcome->kind = RUN_TIMEOUT;
        outcome->after_ms = bi_work_handler_time_limit(
            request->work, bide_context_job(request->context), &outcome->limit);
    } else {
        return false;
    }
    return true;
}

/* True when the answer is there, or none will come: *code. */
static bool wait_response(struct request *request, struct http_client *http_client, CURLcode *code)
{
    int context_fd = bide_context_fd(request->context);
    struct curl_waitfd fds[] = {
        {request->work->stop_fd, CURL_WAIT_POLLIN, 0},
        {request->work->kill_fd, CURL_WAIT_POLLIN, 0},
        {context_fd, CURL_WAIT_POLLIN, 0},
    };
    int running = 1, unused;
    for (;;) {
        if (bi_curl.curl_multi_perform(http_client->multi, &running) != CURLM_OK || running == 0)
            break;
        bi_curl.curl_multi_poll(http_client->multi, fds, context_fd < 0 ? 2 : 3,
                                poll_timeout_ms(request), NULL);
        if (check_abort(request, fds))
            return false;
    }
    const CURLMsg *message = bi_curl.curl_multi_info_read(http_client->multi, &unused);
    *code = message == NULL ? CURLE_OUT_OF_MEMORY : message->data.result;
    return true;
}

/* ---- judging ---- */

static void set_outcome(struct request *request, struct http_client *http_client, CURLcode code)
{
    struct run_outcome *outcome = request->outcome;
    long status = 0;
    curl_off_t retry_after_s = 0;
    bi_curl.curl_easy_getinfo(http_client->easy, CURLINFO_RESPONSE_CODE, &status);
    bi_curl.curl_easy_getinfo(http_client->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    if (code != CURLE_OK && !request->aborted) {
        outcome->kind = RUN_ERROR;
        snprintf(outcome->text, sizeof(outcome->text), "%s",
                 http_client->error[0] != 0 ? http_client->error
                                            : bi_curl.curl_easy_strerror(code));
        return;
    }
    outcome->kind = RUN_STATUS;
    outcome->status = (int)status;
    if (retry_after_s > 0)
        outcome->after_ms = retry_after_s > RETRY_AFTER_MAX_MS / 1000
                                ? RETRY_AFTER_MAX_MS
                                : (int64_t)retry_after_s * 1000;
}

/* Where a redirect points; NULL if the answer is none. */
static const char *redirect_of(struct http_client *http_client)
{
    char *location = NULL;
    bi_curl.curl_easy_getinfo(http_client->easy, CURLINFO_REDIRECT_URL, &location);
    return location;
}

/* What the answer says; of a redirect, where it points. */
static void copy_error_text(const struct request *request, struct http_client *http_client,
                            char *tail)
{
    const char *location = redirect_of(http_client);
    if (request->outcome->kind == RUN_STATUS && location != NULL) {
        char shown[BI_URL_MAX]; /* the password of --http is in it if the redirect is relative */
        bi_url_redact(shown, location);
        snprintf(tail, BI_WORK_TAIL_SIZE, "redirected to %.500s (%s)", shown,
                 request->work->plan->follow ? "--follow stays on the host of --http"
                                             : "see --follow");
    }
    if (request->outcome->kind == RUN_STATUS && location == NULL)
        bi_work_output_head(&request->head, tail);
}

/* ---- redirects ---- */

/* A part of a URL, to be freed by curl_free(); NULL if there is none. */
static char *get_url_part(const char *url, CURLUPart part)
{
    char *text = NULL;
    CURLU *parts = bi_curl.curl_url();
    if (parts != NULL && bi_curl.curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        bi_curl.curl_url_get(parts, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK)
        text = NULL;
    bi_curl.curl_url_cleanup(parts);
    return text;
}

static bool is_same_part(const char *one, const char *other, CURLUPart part)
{
    char *a = get_url_part(one, part), *b = get_url_part(other, part);
    bool same = a != NULL && b != NULL && strcasecmp(a, b) == 0;
    bi_curl.curl_free(a);
    bi_curl.curl_free(b);
    return same;
}

static bool has_port(const char *url, const char *scheme, const char *port)
{
    char *a = get_url_part(url, CURLUPART_SCHEME), *b = get_url_part(url, CURLUPART_PORT);
    bool has = a != NULL && b != NULL && strcasecmp(a, scheme) == 0 && strcmp(b, port) == 0;
    bi_curl.curl_free(a);
    bi_curl.curl_free(b);
    return has;
}

/* The body and the headers are meant for one server: a redirect is followed to the same scheme, host
 * and port, or from http to https of the same host on the usual ports. */
static bool is_same_origin(const char *from, const char *to)
{
    if (!is_same_part(from, to, CURLUPART_HOST))
        return false;
    if (is_same_part(from, to, CURLUPART_SCHEME))
        return is_same_part(from, to, CURLUPART_PORT);
    return has_port(from, "http", "80") && has_port(to, "https", "443");
}

/* Sends the request again to where a redirect of the same server points? Then request->url is that. */
static bool follow_redirect(struct request *request, struct http_client *http_client)
{
    const struct work_plan *plan = request->work->plan;
    const char *location = redirect_of(http_client);
    if (!plan->follow || location == NULL || request->redirects == REDIRECTS_MAX ||
        !is_same_origin(request->url == NULL ? plan->url : request->url, location))
        return false;
    char *copy = strdup(location);
    if (copy == NULL)
        return false;
    free(request->url);
    request->url = copy;
    request->redirects++;
    /* What the redirect itself said is no result. */
    bi_work_output_done(request->output);
    bi_work_output_done(&request->head);
    request->output->truncated = request->head.truncated = request->aborted = false;
    request->excess = 0;
    *request->outcome = (struct run_outcome){.after_ms = -1};
    return true;
}

/* True if the answer is a redirect that is followed. */
static bool send_once(struct request *request, struct http_client *http_client,
                      const bide_slice *body, char *tail)
{
    CURLcode code = CURLE_OK;
    bool is_redirected = false;
    http_client->error[0] = 0;
    bi_curl.curl_easy_setopt(http_client->easy, CURLOPT_URL,
                             request->url == NULL ? request->work->plan->url : request->url);
    bi_curl.curl_easy_setopt(http_client->easy, CURLOPT_POSTFIELDS,
                             body->size == 0 ? "" : body->data);
    bi_curl.curl_easy_setopt(http_client->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                             (curl_off_t)body->size);
    bi_curl.curl_easy_setopt(http_client->easy, CURLOPT_HTTPHEADER, request->headers);
    bi_curl.curl_easy_setopt(http_client->easy, CURLOPT_WRITEDATA, request);
    bi_curl.curl_multi_add_handle(http_client->multi, http_client->easy);
    if (wait_response(request, http_client, &code)) {
        set_outcome(request, http_client, code);
        is_redirected =
            request->outcome->kind == RUN_STATUS && follow_redirect(request, http_client);
        if (!is_redirected)
            copy_error_text(request, http_client, tail);
    }
    bi_curl.curl_multi_remove_handle(http_client->multi, http_client->easy);
    return is_redirected;
}

static void send_request(struct request *request, struct http_client *http_client,
                         const bide_slice *body, char *tail)
{
    while (send_once(request, http_client, body, tail))
        continue;
    free(request->url);
    request->url = NULL;
}

static void run_webhook(struct work *work, bide_context *context, const bide_slice *body,
                        struct run_outcome *outcome, struct output *output, char *tail)
{
    const char *whose;
    int64_t limit_ms = bi_work_handler_time_limit(work, bide_context_job(context), &whose);
    struct request request = {
        .work = work,
        .context = context,
        .outcome = outcome,
        .output = output,
        .head = {.limit = BI_WORK_TAIL_SIZE + 1},
        .limit_at = limit_ms < 0 ? NEVER : bi_clock_boot() + limit_ms * 1000,
    };
    struct http_client *http_client = acquire_client(work);
    if (http_client != NULL && build_headers(&request)) {
        send_request(&request, http_client, body, tail);
    } else {
        outcome->kind = RUN_ERROR;
        snprintf(outcome->text, sizeof(outcome->text), "out of memory");
    }
    if (http_client != NULL)
        release_client(work, http_client);
    bi_curl.curl_slist_free_all(request.headers);
    bi_work_output_done(&request.head);
}

const struct work_runner bi_work_webhook = {open_webhook, run_webhook, close_webhook};
