/* SPDX-License-Identifier: MIT */
/*
 * quickstart - the life of a few jobs, shown call by call.
 *
 * CALL(why, expected, call) prints a call of the library as it stands here and the sentence that
 * says why, makes it, and prints the code that it answered. SET shows and runs a statement that
 * is no call. fact() prints what else became of it. If anything is not as told, the program ends
 * with exit code 1.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bide/bide.h>

#define CALL(why, expected, call) (show_call(why, #call), show_answer(expected, call))
#define SET(statement)            (show_line(#statement), statement)

static const char *bold = "", *dim = "", *plain = ""; /* escape codes on a terminal */
static const char *gap = "\n";                        /* before the first line after an answer */

static void show_title(const char *title)
{
    printf("\n%s%s%s\n", bold, title, plain);
}

static void show_line(const char *code)
{
    printf("%s    %s%s;%s\n", gap, bold, code, plain);
    gap = "";
}

static void show_call(const char *why, const char *call)
{
    show_line(call);
    printf("    %s%s%s\n", dim, why, plain);
    fflush(stdout);
}

static void show_answer(int expected, int answer)
{
    printf("    = %s\n", bide_code_name(answer));
    gap = "\n";
    if (answer == expected)
        return;
    printf("    That should have been %s. %s\n", bide_code_name(expected), bide_last_error());
    exit(EXIT_FAILURE);
}

__attribute__((format(printf, 2, 3))) static void fact(bool holds, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("    = ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    if (holds)
        return;
    printf("    That is not what should have happened.\n");
    exit(EXIT_FAILURE);
}

static bool body_is(const bide_job *job, const char *text)
{
    return job->body_size == strlen(text) && memcmp(job->body, text, job->body_size) == 0;
}

static void put_and_reserve(bide *queue)
{
    bide_put_options urgent = BIDE_PUT_OPTIONS_INIT;
    bide_job job = {0};
    uint64_t id = 0;

    show_title("Put a job in, take it out");
    CALL("A job is bytes in a topic. The topic is made by its first use.", BIDE_OK,
         bide_put(queue, "email", "to Ann", 6, NULL, &id));
    fact(id == 1, "job %" PRIu64 " is ready", id);
    show_line("bide_put_options urgent = BIDE_PUT_OPTIONS_INIT");
    SET(urgent.priority = 10);
    CALL("A smaller number goes first; 1024 is the default.", BIDE_OK,
         bide_put(queue, "email", "to Bob", 6, &urgent, &id));
    fact(id == 2, "job %" PRIu64 " is ready", id);

    CALL("Take the best ready job, without waiting for one. It is ours for its ttr, 60 s.", BIDE_OK,
         bide_reserve(queue, "email", 0, &job));
    fact(body_is(&job, "to Bob"), "job %" PRIu64 ": \"to Bob\", the urgent one", job.id);
    CALL("The work is done: forget the job. The token proves that we hold it.", BIDE_OK,
         bide_delete(queue, job.id, job.token));
    CALL("Stale answers are told apart: this job is gone.", BIDE_NOT_FOUND,
         bide_delete(queue, job.id, job.token));
    show_call(
        "A job that we were given holds memory of its own: give it back, once we have read it.",
        "bide_job_clear(&job)");
    gap = "\n";
    bide_job_clear(&job);
}

static void delay_and_bury(bide *queue)
{
    bide_put_options later = BIDE_PUT_OPTIONS_INIT;
    bide_job job = {0};

    show_title("Work that happens later, and work that is set aside");
    show_line("bide_put_options later = BIDE_PUT_OPTIONS_INIT");
    SET(later.delay_ms = 300);
    CALL("This job is delayed: nobody can take it for 300 ms.", BIDE_OK,
         bide_put(queue, "reminder", "call Cy", 7, &later, NULL));
    CALL("Nothing is ready now, and 0 means not to wait.", BIDE_TIMED_OUT,
         bide_reserve(queue, "reminder", 0, &job));
    CALL("Wait up to 2 s. The thread sleeps until the delay is over.", BIDE_OK,
         bide_reserve(queue, "reminder", 2000, &job));
    fact(job.age_ms >= 300, "\"call Cy\" came %" PRId64 " ms after it was put", job.age_ms);
    CALL("It needs a person to look at it: bury it, with the reason.", BIDE_OK,
         bide_bury(queue, job.id, job.token, BIDE_KEEP, "number unknown"));
    bide_job_clear(&job);
}

static void fail_and_retry(bide *queue)
{
    bide_put_options fragile = BIDE_PUT_OPTIONS_INIT;
    bide_job job = {0};
    bide_state state = BIDE_STATE_GONE;
    int64_t wait_ms = 0;

    show_title("Work that fails, and is tried again");
    show_line("bide_put_options fragile = BIDE_PUT_OPTIONS_INIT");
    SET(fragile.max_retries = 1);
    SET(fragile.backoff_base_ms = 200);
    CALL("One failure is forgiven; the retry comes after 200 to 300 ms, at random.", BIDE_OK,
         bide_put(queue, "reminder", "mail Dee", 8, &fragile, NULL));
    CALL("Take it.", BIDE_OK, bide_reserve(queue, "reminder", 0, &job));
    CALL("It went wrong: say why, and let the job's own backoff decide when.", BIDE_OK,
         bide_fail(queue, job.id, job.token, "no route", BIDE_KEEP, &state, &wait_ms));
    fact(state == BIDE_STATE_DELAYED && wait_ms >= 200 && wait_ms <= 300,
         "%s, to be retried in %" PRId64 " ms", bide_state_name(state), wait_ms);
    CALL("The lease ended with that, so a late answer cannot do harm.", BIDE_LEASE_LOST,
         bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);

    CALL("Wait for the retry.", BIDE_OK, bide_reserve(queue, "reminder", 2000, &job));
    fact(job.failures == 1 && job.last_error != NULL, "failures: %" PRIu32 ", last error: %s",
         job.failures, job.last_error != NULL ? job.last_error : "none");
    CALL("The second failure is one too many.", BIDE_OK,
         bide_fail(queue, job.id, job.token, "no route", BIDE_KEEP, &state, NULL));
    fact(state == BIDE_STATE_BURIED, "%s", bide_state_name(state));
    bide_job_clear(&job);
}

static void kick_and_count(bide *queue)
{
    bide_job job = {0};
    bide_topic_stats topic = {0};
    bide_stats all = {0};
    uint64_t count = 0;

    show_title("Bring buried jobs back, and see what happened");
    CALL("Whatever was wrong is mended: make up to 100 buried jobs ready again.", BIDE_OK,
         bide_kick(queue, "reminder", 100, &count));
    fact(count == 2, "%" PRIu64 " jobs came back", count);
    CALL("Look at the oldest without taking it.", BIDE_OK,
         bide_peek_first(queue, "reminder", BIDE_STATE_READY, &job));
    fact(body_is(&job, "call Cy"), "\"call Cy\", buried %" PRIu32 " time, kicked %" PRIu32,
         job.buries, job.kicks);
    bide_job_clear(&job);
    CALL("What is in a topic, and what became of its jobs so far.", BIDE_OK,
         bide_topic_get_stats(queue, "reminder", &topic));
    fact(topic.jobs.ready == 2 && topic.total.fails == 2 && topic.total.buries == 2,
         "ready %" PRIu64 ", puts %" PRIu64 ", fails %" PRIu64 ", buries %" PRIu64,
         topic.jobs.ready, topic.total.puts, topic.total.fails, topic.total.buries);
    CALL("The same for the whole queue.", BIDE_OK, bide_queue_stats(queue, &all));
    fact(all.jobs.ready == 3 && all.total.puts == 4 && all.topics == 2,
         "ready %" PRIu64 ", puts %" PRIu64 ", topics %" PRIu64, all.jobs.ready, all.total.puts,
         all.topics);
}

int main(void)
{
    bide *queue = NULL;

    if (isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL) {
        bold = "\033[1m";
        dim = "\033[2m";
        plain = "\033[0m";
    }
    printf("bide %s: each call of this example, why it is made, and what it answered.\n",
           bide_version());
    CALL("A queue in this process, gone when it is closed.", BIDE_OK,
         bide_open("memory:", NULL, &queue));
    put_and_reserve(queue);
    delay_and_bury(queue);
    fail_and_retry(queue);
    kick_and_count(queue);
    CALL("Ends the threads of the queue and frees everything.", BIDE_OK, bide_close(queue));
    printf("\nEverything went as told. The source is examples/quickstart.c.\n");
    return EXIT_SUCCESS;
}
