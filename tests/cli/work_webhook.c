/* SPDX-License-Identifier: MIT */
/* work_webhook.c - bide work --http: a request for each job, and what its answer means. */
#include "job_view.h"
#include "webhook_server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DONE "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nthanks\n"

/* Posts the jobs of t to a URL until there are none; flags may follow. */
#define posts(code, ...) run_expect(code, "work", "t", "--until-empty", "--http", __VA_ARGS__)

/* Where the queue is makes no difference here: it is at a bided. */
static uint64_t put_hook_job(const char *topic, const char *body)
{
    server_choose(AT_MEMORY);
    return put_job(topic, body);
}

/* ---- the request ---- */

static void a_job_is_posted_with_its_metadata(void)
{
    char wanted[64];
    uint64_t id = put_hook_job("t", "hello");
    webhook_set_reply("/jobs?x=1", DONE);
    struct child *child = posts(0, webhook_url("/jobs?x=1"));
    SILENT(child->out);
    OUTPUT_IS(child->err, "1 job done\n");
    EQ(webhook_request_count(), 1);
    const char *request = webhook_request(0);
    snprintf(wanted, sizeof(wanted), "\r\nBide-Id: %llu\r\n", (unsigned long long)id);
    CHECK(strncmp(request, "POST /jobs?x=1 HTTP/1.1\r\n", 25) == 0);
    CHECK(strstr(request, wanted) != NULL);
    CHECK(strstr(request, "\r\nBide-Topic: t\r\n") != NULL);
    CHECK(strstr(request, "\r\nBide-Attempt: 1\r\n") != NULL);
    CHECK(strstr(request, "\r\nUser-Agent: bide/" BIDE_VERSION "\r\n") != NULL);
    CHECK(strstr(request, "\r\nContent-Type: application/octet-stream\r\n") != NULL);
    CHECK(strstr(request, "\r\nExpect:") == NULL);
    CHECK(strstr(request, "oken") == NULL);
    CHECK(strcmp(strstr(request, "\r\n\r\n"), "\r\n\r\nhello") == 0);
    EQ(job_view(id)->state, BIDE_STATE_GONE);
}

static void every_byte_of_a_body_is_posted(void)
{
    static char bytes[65000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7 + i / 256);
    server_choose(AT_MEMORY);
    bide *queue = open_test_queue();
    OK(bide_put(queue, "t", bytes, sizeof(bytes), NULL, NULL));
    OK(bide_put(queue, "t", "", 0, NULL, NULL));
    OK(bide_close(queue));
    webhook_set_reply("/", DONE);
    posts(0, webhook_url("/"), "-j", "1");
    const char *request = webhook_request(0);
    CHECK(strstr(request, "\r\nContent-Length: 65000\r\n") != NULL);
    CHECK(memcmp(strstr(request, "\r\n\r\n") + 4, bytes, sizeof(bytes)) == 0);
    CHECK(strstr(webhook_request(1), "\r\nContent-Length: 0\r\n") != NULL);
}

static void headers_can_be_added_and_replaced(void)
{
    put_hook_job("t", "{}");
    webhook_set_reply("/", DONE);
    posts(0, webhook_url("/"), "--header", "content-type: application/json", "--header",
          "X-Mine: yes", "--header", "Bide-Topic: mine");
    const char *request = webhook_request(0);
    CHECK(strstr(request, "\r\ncontent-type: application/json\r\n") != NULL);
    CHECK(strstr(request, "\r\nX-Mine: yes\r\n") != NULL);
    CHECK(strstr(request, "\r\nBide-Topic: mine\r\n") != NULL);
    CHECK(strstr(request, "octet-stream") == NULL);
    CHECK(strstr(request, "Bide-Topic: t") == NULL);
}

static void a_connection_is_kept_for_the_next_job(void)
{
    for (int i = 0; i < 20; i++)
        put_hook_job("t", "x");
    webhook_set_reply("/", DONE);
    posts(0, webhook_url("/"), "-j", "1");
    EQ(webhook_request_count(), 20);
    EQ(webhook_connection_count(), 1);
}

/* Ends a worker whose requests are never answered. */
static void end_twice(struct child *child, const char *text)
{
    kill(child->pid, SIGINT);
    await_err(child, text);
    nap_ms(600);
    kill(child->pid, SIGINT);
    await_end(child, 0);
}

static void jobs_are_posted_concurrently(void)
{
    put_hook_job("t", "x");
    put_hook_job("t", "y");
    struct child *child = begin("work", "t", "-j", "2", "--http", webhook_url("/never"), NULL);
    UNTIL(webhook_request_count() == 2);
    EQ(webhook_connection_count(), 2);
    end_twice(child, "stopping; 2 still running");
    EQ(count_jobs("t", BIDE_STATE_READY), 2);
}

/* The arguments of a process can be seen by every user of the machine. */
static void headers_are_hidden_from_the_process_arguments(void)
{
    char path[40], arguments[4096] = "";
    put_hook_job("t", "x");
    struct child *child = begin("work", "t", "--http", webhook_url("/never"), "--header",
                                "Authorization: Bearer hush", "--header=X-Token: whisper", NULL);
    UNTIL(webhook_request_count() == 1);
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)child->pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    size_t size = fread(arguments, 1, sizeof(arguments) - 1, file);
    fclose(file);
    for (size_t i = 0; i < size; i++)
        arguments[i] = arguments[i] == 0 ? ' ' : arguments[i];
    CHECK(strstr(arguments, "--header Authorization:*") != NULL);
    CHECK(strstr(arguments, "--header=X-Token:*") != NULL);
    CHECK(strstr(arguments, "hush") == NULL && strstr(arguments, "whisper") == NULL);
    end_twice(child, "stopping; 1 still running");
    EQ(count_jobs("t", BIDE_STATE_READY), 1);
}

/* ---- the answer ---- */

static void each_http_status_has_its_action(void)
{
    static const struct {
        const char *path, *answer, *outcome;
        int64_t low_ms, high_ms; /* until it comes again */
    } cases[] = {
        {"/200", DONE, "done", 0, 0},
        {"/204", "HTTP/1.1 204 No Content\r\n\r\n", "done", 0, 0},
        {"/500", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "retried", 5000, 7500},
        {"/404", "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "buried", 0, 0},
        {"/429", "HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n", "snoozed", 60000, 60000},
        {"/503", "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "retried", 5000, 7500},
        {"/503-later", "HTTP/1.1 503 No\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n",
         "snoozed", 120000, 120000},
        {"/429-never", "HTTP/1.1 429 No\r\nRetry-After: 99999999\r\nContent-Length: 0\r\n\r\n",
         "snoozed", 24 * HOUR_MS, 24 * HOUR_MS},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        put_hook_job("t", "x");
        webhook_set_reply(cases[i].path, cases[i].answer);
        struct child *child = begin("work", "t", "--once", "--json", "--on", "404=bury", "--http",
                                    webhook_url(cases[i].path), NULL);
        bool failed = cases[i].outcome[0] == 'r' || cases[i].outcome[0] == 'b';
        await_end(child, failed ? 7 : 0);
        json_t *line = json_at(child->out, 0);
        const char *outcome = text_in(line, "outcome");
        TEXT(outcome, strlen(outcome), cases[i].outcome);
        EQ(number_in(line, "status"), atoi(cases[i].path + 1));
        if (cases[i].high_ms > 0)
            BETWEEN(number_in(line, "delay_ms"), cases[i].low_ms, cases[i].high_ms);
    }
}

static void retry_after_accepts_a_date(void)
{
    char answer[200], date[64];
    time_t then = time(NULL) + 3600;
    struct tm parts;
    uint64_t id = put_hook_job("t", "x");
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&then, &parts));
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 429 Slow down\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n", date);
    webhook_set_reply("/", answer);
    posts(0, webhook_url("/"));
    const bide_job *job = job_view(id);
    EQ(job->state, BIDE_STATE_DELAYED);
    EQ(job->failures, 0);
    BETWEEN(job->left_ms, HOUR_MS - 60000, HOUR_MS + 1000);
}

static void last_error_has_the_response_text(void)
{
    uint64_t id = put_hook_job("t", "x");
    webhook_set_reply("/", "HTTP/1.1 500 No\r\nContent-Length: 16\r\n\r\nout of\npatience\n");
    posts(7, webhook_url("/"));
    ERROR_IS(id, "HTTP 500: out of\npatience");
}

static void a_refused_connection_is_a_failure(void)
{
    uint64_t id = put_hook_job("t", "x");
    struct child *child = run_expect(7, "work", "t", "-e", "--http", "http://127.0.0.1:1/");
    HAS(child->err, "127.0.0.1 port 1");
    EQ(job_view(id)->failures, 1);
    id = put_hook_job("u", "x");
    run_expect(7, "work", "u", "-e", "--on", "error=bury", "--http", "http://127.0.0.1:1/");
    EQ(job_view(id)->state, BIDE_STATE_BURIED);
}

static void a_response_timeout_is_a_failure(void)
{
    uint64_t id = put_hook_job("t", "x");
    int64_t start_us = clock_us();
    posts(7, webhook_url("/never"), "--timeout", "300ms");
    NOT_BEFORE(start_us, 300);
    ERROR_IS(id, "no answer after 300ms (--timeout)");
}

static void a_truncated_response_is_a_failure(void)
{
    uint64_t id = put_hook_job("t", "x");
    webhook_set_reply("/", "this is not HTTP\r\n\r\n");
    posts(7, webhook_url("/"), "--timeout", "10s");
    EQ(job_view(id)->failures, 1);
}

static void a_redirect_is_followed_only_with_follow(void)
{
    uint64_t id = put_hook_job("t", "x");
    char answer[300];
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 302 Over there\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n",
             webhook_url("/there"));
    webhook_set_reply("/", answer);
    webhook_set_reply("/there", DONE);
    posts(7, webhook_url("/"));
    EQ(webhook_request_count(), 1);
    CHECK(strstr(job_view(id)->last_error, "/there (see --follow)") != NULL);
    put_hook_job("t", "again");
    posts(0, webhook_url("/"), "--follow");
    EQ(webhook_request_count(), 3);
    CHECK(strncmp(webhook_request(2), "POST /there ", 12) == 0);
    CHECK(strstr(webhook_request(2), "\r\n\r\nagain") != NULL);
}

/* Bodies, tokens in headers and the like are for the server that was named. */
static void a_redirect_to_another_server_is_not_followed(void)
{
    static char answer[300];
    uint64_t id = put_hook_job("t", "private");
    const char *url = webhook_url("/there");
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 307 Over there\r\nLocation: http://localhost%s\r\n"
             "Content-Length: 0\r\n\r\n",
             strrchr(url, ':'));
    webhook_set_reply("/", answer);
    webhook_set_reply("/there", DONE);
    posts(7, webhook_url("/"), "--follow", "--header", "X-Token: hush");
    EQ(webhook_request_count(), 1);
    EQ(job_view(id)->failures, 1);
    CHECK(strstr(job_view(id)->last_error, "--follow stays on the host of --http") != NULL);
}

/* A redirect without a host has the user and the password of the URL. */
static void a_password_is_not_in_the_error(void)
{
    uint64_t id = put_hook_job("t", "x");
    char url[200];
    snprintf(url, sizeof(url), "http://ada:hush-hush@%s", webhook_url("/") + strlen("http://"));
    webhook_set_reply("/",
                      "HTTP/1.1 302 Over there\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n");
    posts(7, url);
    CHECK(strstr(job_view(id)->last_error, "/there (see --follow)") != NULL);
    CHECK(strstr(job_view(id)->last_error, "hush") == NULL);
}

static void endless_redirects_are_given_up(void)
{
    static char answer[300];
    uint64_t id = put_hook_job("t", "x");
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 302 Over there\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n",
             webhook_url("/"));
    webhook_set_reply("/", answer);
    posts(7, webhook_url("/"), "--follow");
    EQ(webhook_request_count(), 11);
    EQ(job_view(id)->failures, 1);
}

static void a_redirect_to_a_file_url_is_not_followed(void)
{
    uint64_t id = put_hook_job("t", "x");
    webhook_set_reply("/", "HTTP/1.1 302 Over there\r\nLocation: file:///etc/passwd\r\n"
                           "Content-Length: 0\r\n\r\n");
    posts(7, webhook_url("/"), "--follow", "--keep-output");
    EQ(job_view(id)->failures, 1);
}

static void the_response_is_kept_as_the_result(void)
{
    uint64_t id = put_hook_job("t", "x");
    webhook_set_reply("/", DONE);
    posts(0, webhook_url("/"), "--keep-output");
    RESULT_IS(id, "thanks\n");
}

/* ---- an end before the answer ---- */

static void a_cancel_aborts_the_request(void)
{
    uint64_t id = put_hook_job("t", "x");
    struct child *child = begin("work", "t", "--once", "--http", webhook_url("/never"), NULL);
    UNTIL(webhook_request_count() == 1);
    bide *queue = open_test_queue();
    OK(bide_cancel(queue, id));
    OK(bide_close(queue));
    await_end(child, 0);
    HAS(child->err, "cancelled\n");
    EQ(job_view(id)->state, BIDE_STATE_GONE);
}

static void after_the_stop_timeout_the_request_is_aborted_and_the_job_given_back(void)
{
    uint64_t id = put_hook_job("t", "x");
    struct child *child =
        begin("work", "t", "--stop-timeout", "200ms", "--http", webhook_url("/never"), NULL);
    UNTIL(webhook_request_count() == 1);
    kill(child->pid, SIGTERM);
    await_end(child, 0);
    HAS(child->err, "1 given back\n");
    EQ(job_view(id)->state, BIDE_STATE_READY);
    EQ(job_view(id)->failures, 0);
}

static const struct test tests[] = {
    TEST(a_job_is_posted_with_its_metadata),
    TEST(every_byte_of_a_body_is_posted),
    TEST(headers_can_be_added_and_replaced),
    TEST(a_connection_is_kept_for_the_next_job),
    TEST(jobs_are_posted_concurrently),
    TEST(headers_are_hidden_from_the_process_arguments),
    TEST(each_http_status_has_its_action),
    TEST(retry_after_accepts_a_date),
    TEST(last_error_has_the_response_text),
    TEST(a_refused_connection_is_a_failure),
    TEST(a_response_timeout_is_a_failure),
    TEST(a_truncated_response_is_a_failure),
    TEST(a_redirect_is_followed_only_with_follow),
    TEST(a_redirect_to_another_server_is_not_followed),
    TEST(a_password_is_not_in_the_error),
    TEST(endless_redirects_are_given_up),
    TEST(a_redirect_to_a_file_url_is_not_followed),
    TEST(the_response_is_kept_as_the_result),
    TEST(a_cancel_aborts_the_request),
    TEST(after_the_stop_timeout_the_request_is_aborted_and_the_job_given_back),
};

const struct theme work_hook_theme = {"work_webhook", tests, COUNT(tests)};
