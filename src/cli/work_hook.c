/* SPDX-License-Identifier: MIT */
/*
 * work_hook - runs a job by a web hook: POSTs the body, and the status of the answer decides.
 *
 * A request takes a seat, which keeps its connection open for the next one; there are as many seats
 * as requests at a time. The thread sleeps in curl_multi_poll() with everything that may end it.
 */
#include "cli/curl.h"
#include "cli/work.h"
#include "cli/work_meta.h"
#include "util/clock.h"
#include "util/url.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NEVER INT64_MAX
/* The longest sleep: limits count the time that the machine sleeps, too. */
#define STEP_US 5000000
/* A web hook that asks to come again later than that has made a mistake. */
#define AGAIN_MAX_MS INT64_C(86400000)
/* So much of an answer is read beyond what is kept; then we hang up, and the status counts. */
#define SURPLUS       (1 << 20)
#define REDIRECTS_MAX 10

struct seat {
    CURLM *multi;
    CURL *easy;
    struct seat *next;
    char error[CURL_ERROR_SIZE];
};

struct hook {
    pthread_mutex_t lock;
    struct seat *free;
};

/* One request. */
struct request {
    struct work *work;
    bide_context *context;
    struct fate *fate;
    struct output *output; /* for a result */
    struct output head;    /* for an error */
    uint64_t surplus;
    bool flooded; /* we hung up */
    char *url;    /* where redirects have led; NULL: that of the flag */
    int redirects;
    struct curl_slist *headers;
    int64_t limit_at;
};

/* ---- seats ---- */

static void free_seat(struct seat *seat)
{
    if (seat == NULL)
        return;
    if (seat->easy != NULL)
        bi_curl.curl_easy_cleanup(seat->easy);
    if (seat->multi != NULL)
        bi_curl.curl_multi_cleanup(seat->multi);
    free(seat);
}

static size_t receive(char *data, size_t one, size_t size, void *user)
{
    struct request *request = user;
    size *= one;
    bi_output_add(request->output, data, size);
    bi_output_add(&request->head, data, size);
    if (request->output->cut || request->output->most == 0)
        request->surplus += size;
    request->flooded = request->surplus > SURPLUS;
    return request->flooded ? 0 : size;
}

/* Only what the flag says. */
static void allow_protocols(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    bi_curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    bi_curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static void set_constants(struct seat *seat)
{
    CURL *easy = seat->easy;
    allow_protocols(easy);
    bi_curl.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bi_curl.curl_easy_setopt(easy, CURLOPT_POST, 1L);
    bi_curl.curl_easy_setopt(easy, CURLOPT_USERAGENT, "bide/" BIDE_VERSION);
    bi_curl.curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, seat->error);
    bi_curl.curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
    bi_curl.curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
}

static struct seat *take_seat(struct work *work)
{
    struct hook *hook = work->state;
    pthread_mutex_lock(&hook->lock);
    struct seat *seat = hook->free;
    if (seat != NULL)
        hook->free = seat->next;
    pthread_mutex_unlock(&hook->lock);
    if (seat != NULL || (seat = calloc(1, sizeof(*seat))) == NULL)
        return seat;
    seat->multi = bi_curl.curl_multi_init();
    seat->easy = bi_curl.curl_easy_init();
    if (seat->multi == NULL || seat->easy == NULL) {
        free_seat(seat);
        return NULL;
    }
    set_constants(seat);
    return seat;
}

static void give_seat(struct work *work, struct seat *seat)
{
    struct hook *hook = work->state;
    pthread_mutex_lock(&hook->lock);
    seat->next = hook->free;
    hook->free = seat;
    pthread_mutex_unlock(&hook->lock);
}

static int open_hook(struct work *work)
{
    char error[BI_SENTENCE_SIZE];
    if (!bi_curl_load(error))
        return bi_cli_failed(work->cli, BI_EXIT_FAILED, "%s", error);
    struct hook *hook = calloc(1, sizeof(*hook));
    if (hook == NULL || bi_curl.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(hook);
        return bi_cli_failed(work->cli, BI_EXIT_FAILED, "cannot prepare libcurl");
    }
    pthread_mutex_init(&hook->lock, NULL);
    work->state = hook;
    return BI_EXIT_OK;
}

static void close_hook(struct work *work)
{
    struct hook *hook = work->state;
    if (hook == NULL)
        return;
    for (struct seat *seat = hook->free, *next; seat != NULL; seat = next) {
        next = seat->next;
        free_seat(seat);
    }
    pthread_mutex_destroy(&hook->lock);
    free(hook);
    work->state = NULL;
    bi_curl.curl_global_cleanup();
}

/* ---- headers ---- */

/* Has the user said something else under the name of this line? */
static bool is_replaced(const struct words *said, const char *line)
{
    size_t size = strcspn(line, ":");
    for (size_t i = 0; i < said->count; i++)
        if (strcspn(said->list[i], ":") == size && strncasecmp(said->list[i], line, size) == 0)
            return true;
    return false;
}

static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = bi_curl.curl_slist_append(*list, line);
    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

/* An answer to "Expect" would be a round trip more. */
static bool make_headers(struct request *request)
{
    static const char *const ours[] = {"Content-Type: application/octet-stream", "Expect:"};
    const struct words *said = request->work->plan->headers;
    char lines[BI_META_COUNT][BI_META_SIZE];
    size_t count = bi_meta_headers(request->context, lines);
    bool good = true;
    for (size_t i = 0; i < said->count; i++)
        good = good && add_header(&request->headers, said->list[i]);
    for (size_t i = 0; i < 2; i++)
        if (!is_replaced(said, ours[i]))
            good = good && add_header(&request->headers, ours[i]);
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(said, lines[i]))
            good = good && add_header(&request->headers, lines[i]);
    return good;
}

/* ---- waiting for the answer ---- */

static int sleep_ms(const struct request *request)
{
    int64_t now = bi_clock_boot();
    int64_t left = request->limit_at == NEVER ? STEP_US : request->limit_at - now;
    return left <= 0 ? 0 : left > STEP_US ? (int)(STEP_US / 1000) : (int)((left + 999) / 1000);
}

/* Is it to be given up? Then fate says why. */
static bool is_over(struct request *request, const struct curl_waitfd *fds)
{
    struct fate *fate = request->fate;
    bide_reason reason = bide_context_reason(request->context);
    if (fds[0].revents != 0 || fds[1].revents != 0 || reason == BIDE_REASON_STOPPING) {
        fate->kind = FATE_STOPPED;
    } else if (reason != BIDE_REASON_NONE) {
        bi_work_unwanted(request->work, request->context, fate);
    } else if (bi_clock_boot() >= request->limit_at) {
        fate->kind = FATE_TIMEOUT;
        fate->after_ms =
            bi_work_limit(request->work, bide_context_job(request->context), &fate->limit);
    } else {
        return false;
    }
    return true;
}

/* True when the answer is there, or none will come: *code. */
static bool await_answer(struct request *request, struct seat *seat, CURLcode *code)
{
    int told_fd = bide_context_fd(request->context);
    struct curl_waitfd fds[] = {
        {request->work->stop_fd, CURL_WAIT_POLLIN, 0},
        {request->work->kill_fd, CURL_WAIT_POLLIN, 0},
        {told_fd, CURL_WAIT_POLLIN, 0},
    };
    int running = 1, unused;
    for (;;) {
        if (bi_curl.curl_multi_perform(seat->multi, &running) != CURLM_OK || running == 0)
            break;
        bi_curl.curl_multi_poll(seat->multi, fds, told_fd < 0 ? 2 : 3, sleep_ms(request), NULL);
        if (is_over(request, fds))
            return false;
    }
    const CURLMsg *message = bi_curl.curl_multi_info_read(seat->multi, &unused);
    *code = message == NULL ? CURLE_OUT_OF_MEMORY : message->data.result;
    return true;
}

/* ---- judging ---- */

static void judge(struct request *request, struct seat *seat, CURLcode code)
{
    struct fate *fate = request->fate;
    long status = 0;
    curl_off_t again_s = 0;
    bi_curl.curl_easy_getinfo(seat->easy, CURLINFO_RESPONSE_CODE, &status);
    bi_curl.curl_easy_getinfo(seat->easy, CURLINFO_RETRY_AFTER, &again_s);
    if (code != CURLE_OK && !request->flooded) {
        fate->kind = FATE_ERROR;
        snprintf(fate->text, sizeof(fate->text), "%s",
                 seat->error[0] != 0 ? seat->error : bi_curl.curl_easy_strerror(code));
        return;
    }
    fate->kind = FATE_STATUS;
    fate->status = (int)status;
    if (again_s > 0)
        fate->after_ms = again_s > AGAIN_MAX_MS / 1000 ? AGAIN_MAX_MS : (int64_t)again_s * 1000;
}

/* Where a redirect points; NULL if the answer is none. */
static const char *redirect_of(struct seat *seat)
{
    char *where = NULL;
    bi_curl.curl_easy_getinfo(seat->easy, CURLINFO_REDIRECT_URL, &where);
    return where;
}

/* What the answer says; of a redirect, where it points. */
static void quote(const struct request *request, struct seat *seat, char *tail)
{
    const char *where = redirect_of(seat);
    if (request->fate->kind == FATE_STATUS && where != NULL) {
        char shown[BI_URL_MAX]; /* the password of --http is in it if the redirect is relative */
        bi_url_show(shown, where);
        snprintf(tail, BI_TAIL_SIZE, "redirected to %.500s (%s)", shown,
                 request->work->plan->follow ? "--follow stays on the host of --http"
                                             : "see --follow");
    }
    if (request->fate->kind == FATE_STATUS && where == NULL)
        bi_output_head(&request->head, tail);
}

/* ---- redirects ---- */

/* A part of a URL, to be freed by curl_free(); NULL if there is none. */
static char *part_of(const char *url, CURLUPart part)
{
    char *text = NULL;
    CURLU *parts = bi_curl.curl_url();
    if (parts != NULL && bi_curl.curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        bi_curl.curl_url_get(parts, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK)
        text = NULL;
    bi_curl.curl_url_cleanup(parts);
    return text;
}

static bool same_part(const char *one, const char *other, CURLUPart part)
{
    char *a = part_of(one, part), *b = part_of(other, part);
    bool same = a != NULL && b != NULL && strcasecmp(a, b) == 0;
    bi_curl.curl_free(a);
    bi_curl.curl_free(b);
    return same;
}

static bool has_port(const char *url, const char *scheme, const char *port)
{
    char *a = part_of(url, CURLUPART_SCHEME), *b = part_of(url, CURLUPART_PORT);
    bool has = a != NULL && b != NULL && strcasecmp(a, scheme) == 0 && strcmp(b, port) == 0;
    bi_curl.curl_free(a);
    bi_curl.curl_free(b);
    return has;
}

/* The body and the headers are meant for one server: a redirect is followed to the same scheme, host
 * and port, or from http to https of the same host on the usual ports. */
static bool stays(const char *from, const char *to)
{
    if (!same_part(from, to, CURLUPART_HOST))
        return false;
    if (same_part(from, to, CURLUPART_SCHEME))
        return same_part(from, to, CURLUPART_PORT);
    return has_port(from, "http", "80") && has_port(to, "https", "443");
}

/* Sends the request again to where a redirect of the same server points? Then request->url is that. */
static bool follows(struct request *request, struct seat *seat)
{
    const struct work_plan *plan = request->work->plan;
    const char *where = redirect_of(seat);
    if (!plan->follow || where == NULL || request->redirects == REDIRECTS_MAX ||
        !stays(request->url == NULL ? plan->url : request->url, where))
        return false;
    char *copy = strdup(where);
    if (copy == NULL)
        return false;
    free(request->url);
    request->url = copy;
    request->redirects++;
    /* What the redirect itself said is no result. */
    bi_output_done(request->output);
    bi_output_done(&request->head);
    request->output->cut = request->head.cut = request->flooded = false;
    request->surplus = 0;
    *request->fate = (struct fate){.after_ms = -1};
    return true;
}

/* True if the answer is a redirect that is followed. */
static bool send_once(struct request *request, struct seat *seat, const bide_slice *body,
                      char *tail)
{
    CURLcode code = CURLE_OK;
    bool again = false;
    seat->error[0] = 0;
    bi_curl.curl_easy_setopt(seat->easy, CURLOPT_URL,
                             request->url == NULL ? request->work->plan->url : request->url);
    bi_curl.curl_easy_setopt(seat->easy, CURLOPT_POSTFIELDS, body->size == 0 ? "" : body->data);
    bi_curl.curl_easy_setopt(seat->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
    bi_curl.curl_easy_setopt(seat->easy, CURLOPT_HTTPHEADER, request->headers);
    bi_curl.curl_easy_setopt(seat->easy, CURLOPT_WRITEDATA, request);
    bi_curl.curl_multi_add_handle(seat->multi, seat->easy);
    if (await_answer(request, seat, &code)) {
        judge(request, seat, code);
        again = request->fate->kind == FATE_STATUS && follows(request, seat);
        if (!again)
            quote(request, seat, tail);
    }
    bi_curl.curl_multi_remove_handle(seat->multi, seat->easy);
    return again;
}

static void send_request(struct request *request, struct seat *seat, const bide_slice *body,
                         char *tail)
{
    while (send_once(request, seat, body, tail))
        continue;
    free(request->url);
    request->url = NULL;
}

static void run_hook(struct work *work, bide_context *context, const bide_slice *body,
                     struct fate *fate, struct output *output, char *tail)
{
    const char *whose;
    int64_t limit_ms = bi_work_limit(work, bide_context_job(context), &whose);
    struct request request = {
        .work = work,
        .context = context,
        .fate = fate,
        .output = output,
        .head = {.most = BI_TAIL_SIZE + 1},
        .limit_at = limit_ms < 0 ? NEVER : bi_clock_boot() + limit_ms * 1000,
    };
    struct seat *seat = take_seat(work);
    if (seat != NULL && make_headers(&request)) {
        send_request(&request, seat, body, tail);
    } else {
        fate->kind = FATE_ERROR;
        snprintf(fate->text, sizeof(fate->text), "out of memory");
    }
    if (seat != NULL)
        give_seat(work, seat);
    bi_curl.curl_slist_free_all(request.headers);
    bi_output_done(&request.head);
}

const struct work_runner bi_work_hook = {open_hook, run_hook, close_hook};
