/* SPDX-License-Identifier: MIT */
/* check.c - the checks that tests make, and the clocks that they read. */
#include "contract.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Clocks of different machines, or of a database, may run at slightly different rates. */
#define DRIFT_US 100

/* The one test of this process, as trial_begin() told. */
static const char *test_url;
static const char *test_theme;
static const char *test_name;
static struct trace *test_trace;

void checks_begin(const char *url, const char *theme, const char *test, struct trace *trace)
{
    test_url = url;
    test_theme = theme;
    test_name = test;
    test_trace = trace;
}

static void leave_trace(struct where at)
{
    __atomic_store_n(&test_trace->file, at.file, __ATOMIC_RELAXED);
    __atomic_store_n(&test_trace->line, at.line, __ATOMIC_RELAXED);
}

/* The first failure wins: the lock is never given back. */
void fail_test(struct where at, const char *format, ...)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    va_list arguments;
    pthread_mutex_lock(&once);
    printf("FAIL %s %s/%s\n     %s:%d: ", test_url, test_theme, test_name, at.file, at.line);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
    _exit(1);
}

void check_true(struct where at, bool holds, const char *text)
{
    leave_trace(at);
    if (!holds)
        fail_test(at, "expected %s", text);
}

void check_equal(struct where at, int64_t got, int64_t want, const char *text)
{
    leave_trace(at);
    if (got != want)
        fail_test(at, "%s: expected %lld, got %lld", text, (long long)want, (long long)got);
}

void check_between(struct where at, int64_t got, int64_t low, int64_t high, const char *text)
{
    leave_trace(at);
    if (got < low || got > high)
        fail_test(at, "%s: expected %lld to %lld, got %lld", text, (long long)low, (long long)high,
                  (long long)got);
}

void check_text(struct where at, const void *data, size_t size, const char *want, const char *text)
{
    leave_trace(at);
    size_t want_size = strlen(want);
    if (size == want_size && (size == 0 || (data && memcmp(data, want, size) == 0)))
        return;
    fail_test(at, "%s: expected \"%s\", got \"%.*s\" (%zu bytes)", text, want,
              data ? (int)(size < 200 ? size : 200) : 4, data ? (const char *)data : "NULL", size);
}

void check_code(struct where at, int got, int want, const char *call)
{
    leave_trace(at);
    const char *sentence = bide_last_error();
    if (got != want)
        fail_test(at, "%s: expected %s, got %s (%d), \"%s\"", call, bide_code_name(want),
                  bide_code_name(got), got, sentence ? sentence : "(null)");
    /* A list that is good may still have something to say of an item. Only an op that succeeds or
     * fails as a whole fails because of one. */
    bool about_item = sentence && strncmp(sentence, "item ", 5) == 0 &&
                      (got == BIDE_OK || strstr(call, "finish_and_put") == NULL);
    bool quiet = sentence && (sentence[0] == '\0' || about_item);
    if (!sentence || (got == BIDE_OK) != quiet)
        fail_test(at, "%s answered %s: expected %s sentence from bide_last_error(), got \"%s\"",
                  call, bide_code_name(got), got == BIDE_OK ? "no" : "a",
                  sentence ? sentence : "(null)");
}

void check_not_before(struct where at, int64_t start_us, int64_t duration_ms)
{
    leave_trace(at);
    int64_t passed_us = clock_us() - start_us;
    if (passed_us + DRIFT_US < duration_ms * 1000)
        fail_test(at, "too early: expected at least %lld us, got %lld us",
                  (long long)duration_ms * 1000, (long long)passed_us);
}

static int64_t read_clock_us(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_us(void)
{
    return read_clock_us(CLOCK_BOOTTIME);
}

int64_t wall_us(void)
{
    return read_clock_us(CLOCK_REALTIME);
}

int64_t wall_ms(void)
{
    return wall_us() / 1000;
}

void nap_ms(int64_t duration_ms)
{
    struct timespec nap = {duration_ms / 1000, (long)(duration_ms % 1000) * 1000000};
    nanosleep(&nap, NULL);
}
