/* SPDX-License-Identifier: MIT */
/* admin.c - pause, resume, purge, drain, check and backup. */
#include "cli_test.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static bool is_paused(const char *topic)
{
    bide_topic_stats stats;
    bide *queue = open_test_queue();
    OK(bide_topic_get_stats(queue, topic, &stats));
    OK(bide_close(queue));
    return stats.paused;
}

/* ---- the policy of a topic ---- */

static bide_topic_policy policy_of(const char *topic)
{
    bide_topic_policy policy;
    bide *queue = open_test_queue();
    OK(bide_topic_get(queue, topic, &policy, NULL));
    OK(bide_close(queue));
    return policy;
}

/* A plain beanstalkd has no policies, and says so: true. */
static bool policy_is_refused(void)
{
    if (!is_plain())
        return false;
    HAS(run_expect(1, "topic", "show", "email")->err, "plain beanstalkd");
    return true;
}

static void topic_set_changes_the_policy_and_shows_it(void)
{
    if (policy_is_refused())
        return;
    struct child *child = run_expect(0, "topic", "set", "email", "--concurrency", "10", "--rate",
                                     "100/1m", "--retries", "5", "--ttr", "2m");
    HAS(child->out, "100 per 1m, burst 100");
    EQ(policy_of("email").concurrency, 10);
    EQ(policy_of("email").rate, 100);
    EQ(policy_of("email").rate_period_ms, 60000);
    EQ(policy_of("email").max_retries, 5);
    EQ(policy_of("email").ttr_ms, 120000);
    run_expect(0, "topic", "set", "email", "--rate", "7/s", "--retries", "unlimited", "-t", "none");
    EQ(policy_of("email").rate, 7);
    EQ(policy_of("email").rate_period_ms, 1000);
    EQ(policy_of("email").max_retries, BIDE_UNLIMITED);
    EQ(policy_of("email").ttr_ms, 0);
    EQ(policy_of("email").concurrency, 10);
    json_t *shown = json_at(run_expect(0, "topic", "show", "email", "--json")->out, 0);
    EQ(number_in(json_object_get(shown, "policy"), "concurrency"), 10);
    EQ(number_in(json_object_get(shown, "policy"), "max_retries"), -1);
    CHECK(json_object_get(json_object_get(shown, "policy"), "ttr_ms") == NULL);
    EQ(number_in(json_object_get(shown, "in_force"), "rate_burst"), 7);
    run_expect(0, "topic", "set", "email", "--concurrency", "none", "--rate", "none", "--retries",
               "none");
    LACKS(run_expect(0, "topics", "--names")->out, "email");
}

/* A lease of the command line ends with it, unless a server keeps it. */
static void topic_shows_the_limit_that_is_reached(void)
{
    if (policy_is_refused() || !passes_leases())
        return;
    run_expect(0, "topic", "set", "email", "--concurrency", "1");
    put_job("email", "1");
    put_job("email", "2");
    run_expect(0, "reserve", "email");
    HAS(run_expect(4, "reserve", "other", "email")->err,
        "topic email is at its concurrency limit: 1 of at most 1 jobs are reserved");
    HAS(run_expect(0, "topics")->out, "concurrency");
    HAS(run_expect(0, "stats", "email")->out, "concurrency");
    json_t *stats = json_at(run_expect(0, "stats", "email", "--json")->out, 0);
    EQ(number_in(stats, "concurrency"), 1);
    CHECK(strcmp(json_string_value(json_object_get(stats, "limited")), "concurrency") == 0);
    run_expect(0, "topic", "set", "email", "--concurrency", "none", "--rate", "1/1h");
    run_expect(0, "reserve", "email");
    run_expect(0, "put", "email", "3");
    HAS(run_expect(4, "reserve", "email", "--timeout", "1ms")->err,
        "topic email is at its rate limit for another 59m");
    HAS(run_expect(0, "topic", "show", "email")->out, "rate for 59m");
    run_expect(0, "pause", "email");
    HAS(run_expect(4, "reserve", "email")->err, "topic email is paused until it is resumed");
}

static void invalid_policy_is_rejected(void)
{
    HAS(run_expect(2, "topic", "set", "email")->err, "needs a flag");
    HAS(run_expect(2, "topic", "show", "email", "--ttr", "1m")->err, "bide topic set email");
    HAS(run_expect(2, "topic", "change", "email")->err, "is not show or set");
    if (!is_plain()) {
        HAS(run_expect(2, "topic", "set", "email", "--burst", "4")->err,
            "has no rate that a period or burst applies to");
        HAS(run_expect(3, "topic", "show", "email")->err, "there is no topic email");
        run_expect(0, "topic", "set", "email", "--rate", "10");
        run_expect(0, "topic", "set", "email", "--burst", "4");
        run_expect(0, "topic", "set", "email", "--rate", "none");
        run_expect(3, "topic", "show", "email");
    }
    HAS(run_expect(2, "topic", "set", "email", "--concurrency", "0")->err, "none");
    HAS(run_expect(2, "topic", "set", "email", "--rate", "x/1m")->err, "N/PERIOD");
    HAS(run_expect(2, "topic", "set", "email", "--rate", "1/99d")->err, "31d");
    HAS(run_expect(2, "topic", "set", "no topic", "--ttr", "1m")->err, "is not a valid topic name");
}

static void put_takes_the_defaults_of_the_topic(void)
{
    bide_job job;
    if (policy_is_refused())
        return;
    run_expect(0, "put", "email", "1");
    run_expect(0, "topic", "set", "email", "--retries", "3", "--retain", "1h");
    run_expect(0, "put", "email", "2");
    run_expect(0, "put", "email", "3", "--retries", "7", "--retain", "0s");
    run_expect(0, "put", "email", "4", "--retries", "unlimited");
    static const int32_t want[] = {25, 3, 7, BIDE_NO_RETRY_LIMIT};
    static const int64_t retained[] = {0, 3600000, 0, 3600000};
    bide *queue = open_test_queue();
    for (size_t i = 0; i < 4; i++) {
        OK(bide_job_stats(queue, i + 1, &job));
        EQ(job.max_retries, want[i]);
        EQ(job.retain_ms, retained[i]);
        bide_job_clear(&job);
    }
    OK(bide_close(queue));
}

/* ---- pause and resume ---- */

static void a_pause_holds_until_resume(void)
{
    put_job("email", "hello");
    struct child *child = run_expect(0, "pause", "email");
    HAS(child->err, "bide resume email");
    SILENT(child->out);
    CHECK(is_paused("email"));
    HAS(run_expect(0, "topics")->out, "forever");
    run_expect(0, "resume", "email");
    CHECK(!is_paused("email"));
    run_expect(0, "resume", "email");
}

static void a_timed_pause_shows_its_end_with_the_zone(void)
{
    put_job("email", "hello");
    struct child *child = run_expect(0, "pause", "email", "1h30m");
    HAS(child->err, "email is paused until ");
    HAS(child->err, "UTC");
    HAS(child->err, "in 1h30m");
    CHECK(is_paused("email"));
    HAS(run_expect(0, "topics")->out, "1h29m");
    child = run_expect(0, "pause", "email", "--until", "@4102444800");
    HAS(child->err, "2100-01-01 00:00:00 UTC");
    json_t *answer = json_at(run_expect(0, "pause", "email", "10m", "--json")->out, 0);
    EQ(number_in(answer, "pause_ms"), 600000);
    CHECK(json_is_true(json_object_get(answer, "paused")));
}

static void invalid_pause_is_rejected(void)
{
    put_job("email", "hello");
    HAS(run_expect(2, "pause", "email", "0")->err, "bide resume email");
    HAS(run_expect(2, "pause", "email", "10")->err, "unit");
    HAS(run_expect(2, "pause", "email", "soon")->err, "soon");
    HAS(run_expect(2, "pause", "email", "--until", "2001-01-01")->err, "that time is past");
    HAS(run_expect(2, "pause", "email", "1h", "--until", "tomorrow")->err, "are both given");
    HAS(run_expect(2, "pause", "-- email", "1h")->err, "unknown flag");
    HAS(run_expect(2, "pause", "no topic")->err, "is not a valid topic name");
    CHECK(!is_paused("email"));
}

static void resume_reports_whether_it_ended_a_pause(void)
{
    put_job("email", "hello");
    run_expect(0, "pause", "email");
    struct child *child = run_expect(0, "resume", "email");
    HAS(child->err, "email is resumed");
    SILENT(child->out);
    HAS(run_expect(0, "resume", "email")->err, "email was not paused");
}

static void resume_of_a_topic_that_does_not_exist_changes_nothing(void)
{
    HAS(run_expect(0, "resume", "nothing")->err, "there is no topic nothing\n");
    CHECK(json_object_get(json_at(run_expect(0, "resume", "nothing", "--json")->out, 0),
                          "paused") == json_false());
    run_expect(2, "resume", "");
}

/* ---- purge ---- */

/* Two ready, one buried. */
static void put_some(void)
{
    bide *queue = open_test_queue();
    bide_job job;
    for (int i = 0; i < 3; i++)
        OK(bide_put(queue, "email", "x", 1, NULL, NULL));
    OK(bide_reserve(queue, "email", 5000, &job));
    OK(bide_bury(queue, job.id, job.token, BIDE_KEEP, NULL));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* A plain beanstalkd cannot purge, and says so without asking: true. */
static bool has_no_purge(void)
{
    if (!is_plain())
        return false;
    put_some();
    HAS(run_expect(1, "purge", "email")->err, "plain beanstalkd");
    HAS(run_expect(1, "purge", "email", "--yes")->err, "plain beanstalkd");
    EQ(count_jobs("email", BIDE_STATE_READY), 2);
    return true;
}

static void nothing_is_purged_without_confirmation(void)
{
    if (has_no_purge())
        return;
    put_some();
    struct child *child = run_expect(2, "purge", "email");
    HAS(child->err, "2 ready");
    HAS(child->err, "1 buried");
    HAS(child->err, "--yes");
    SILENT(child->out);
    run_expect_input(2, "yes\n", "purge", "email");
    EQ(count_jobs("email", BIDE_STATE_READY), 2);
    EQ(count_jobs("email", BIDE_STATE_BURIED), 1);
}

static void answering_no_cancels_a_purge(void)
{
    if (has_no_purge())
        return;
    static const char *const answers[] = {"n\r", "\r", "yesterday\r", "\x04"};
    put_some();
    for (size_t i = 0; i < COUNT(answers); i++) {
        struct child *child = begin_on_terminal(80, 24, "purge", "email", NULL);
        await_out(child, "[y/N]");
        press(child, answers[i]);
        await_end(child, 2);
    }
    struct child *child = begin_on_terminal(80, 24, "purge", "email", NULL);
    await_out(child, "Delete 3 jobs of email for good");
    press(child, "\x03");
    await_end(child, 256 + SIGINT);
    EQ(count_jobs("email", BIDE_STATE_READY), 2);
}

static void confirmed_purge_removes_all_but_reserved_jobs(void)
{
    if (has_no_purge())
        return;
    put_some();
    struct child *child = begin_on_terminal(80, 24, "purge", "email", NULL);
    await_out(child, "[y/N]");
    press(child, "y\r");
    await_end(child, 0);
    HAS(child->out, "3 jobs of email deleted");
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
    EQ(count_jobs("email", BIDE_STATE_BURIED), 0);
    /* A topic without jobs is removed (topic_cleanup). */
    OUTPUT_IS(run_expect(0, "purge", "email", "--yes")->out, "0 jobs of email deleted\n");
}

static void a_purge_of_an_unknown_topic_deletes_nothing_and_is_reported(void)
{
    if (has_no_purge())
        return;
    struct child *child = run_expect(0, "purge", "emial", "--yes");
    OUTPUT_IS(child->out, "0 jobs of emial deleted\n");
    OUTPUT_IS(child->err, "there is no topic emial\n");
    child = run_expect(0, "purge", "emial", "--json");
    EQ(number_in(json_at(child->out, 0), "purged"), 0);
}

static void a_purge_of_some_states_leaves_the_others(void)
{
    if (has_no_purge())
        return;
    put_some();
    json_t *answer = json_at(
        run_expect(0, "purge", "email", "--state", "buried,done", "--yes", "--json")->out, 0);
    EQ(number_in(answer, "purged"), 1);
    EQ(number_in(json_object_get(answer, "states"), "buried"), 1);
    CHECK(json_object_get(json_object_get(answer, "states"), "ready") == NULL);
    EQ(count_jobs("email", BIDE_STATE_READY), 2);
    struct child *child = run_expect(0, "purge", "email", "-s", "ready", "-s", "delayed", "-y");
    OUTPUT_IS(child->out, "2 jobs of email deleted\n");
    HAS(run_expect(2, "purge", "email", "--state", "reserved", "--yes")->err, "bide cancel");
    HAS(run_expect(2, "purge", "email", "--state", "ready,", "--yes")->err, "is not a state");
}

static void a_reserved_job_outlives_a_purge(void)
{
    if (!passes_leases()) { /* no lease can be held from outside */
        HAS(run_expect(2, "purge", "email", "--state", "reserved", "--yes")->err, "bide cancel");
        return;
    }
    bide_job job;
    bide *queue = open_test_queue();
    put_some();
    OK(bide_reserve(queue, "email", 5000, &job));
    struct child *child = run_expect(0, "purge", "email", "--yes");
    OUTPUT_IS(child->out, "2 jobs of email deleted\n");
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* ---- drain ---- */

static void draining_server_rejects_puts(void)
{
    if (!passes_leases()) {
        HAS(run_expect(is_plain() ? 1 : 5, "drain", "on")->err,
            is_plain() ? "beanstalkd" : "bided");
        return;
    }
    HAS(run_expect(0, "drain", "on")->err, "bide drain off");
    HAS(run_expect(0, "stats")->out, "draining         yes\n");
    bide *queue = open_test_queue();
    CODE(bide_put(queue, "email", "x", 1, NULL, NULL), BIDE_DRAINING);
    json_t *answer = json_at(run_expect(0, "drain", "off", "--json")->out, 0);
    CHECK(json_is_false(json_object_get(answer, "draining")));
    OK(bide_put(queue, "email", "x", 1, NULL, NULL));
    OK(bide_close(queue));
}

static void a_drain_is_on_or_off(void)
{
    HAS(run_expect(2, "drain", "maybe")->err, "not on or off");
    HAS(run_expect(2, "drain")->err, "missing");
}

/* ---- check ---- */

/* 80 years are long, but they end. */
static void a_long_pause_has_an_end_in_every_output(void)
{
    run_expect(0, "put", "email", "x");
    run_expect(0, "pause", "email", "29220d");
    LACKS(run_expect(0, "topics")->out, "forever");
    if (!is_plain())
        HAS(run_expect(0, "export")->out, "\"until_ms\":");
    run_expect(0, "pause", "email");
    HAS(run_expect(0, "topics")->out, "forever");
    if (!is_plain())
        LACKS(run_expect(0, "export")->out, "\"until_ms\":");
}

static void a_healthy_queue_passes_the_check(void)
{
    if (is_plain()) {
        HAS(run_expect(1, "check")->err, "plain beanstalkd");
        return;
    }
    put_some();
    HAS(run_expect(0, "check")->out, "differences      0\n");
    json_t *report = json_at(run_expect(0, "check", "--json")->out, 0);
    CHECK(json_is_true(json_object_get(report, "good")));
    EQ(number_in(report, "damaged"), 0);
    if (place_kind != AT_MEMORY)
        EQ(number_in(report, "jobs"), 3);
}

/* ---- backup ---- */

static int files_in(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    for (struct dirent *each; (each = readdir(dir)) != NULL;)
        count += each->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* The queue must be stored, by a process that can write backups. */
static bool has_backup(void)
{
    return place_kind == AT_FILE || place_kind == AT_SERVED_FILE;
}

static void a_copy_is_a_queue_with_the_same_jobs(void)
{
    char path[4400], url[4420];
    snprintf(path, sizeof(path), "%s/copy.db", folder_of("copies"));
    put_some();
    if (!has_backup()) {
        run_expect(1, "backup", path);
        EQ(files_in(folder_of("copies")), 0);
        return;
    }
    struct child *child = run_expect(0, "backup", path);
    HAS(child->err, path);
    EQ(files_in(folder_of("copies")), 1);
    snprintf(url, sizeof(url), "sqlite:%s", path);
    use_url(url);
    EQ(LINES(run_expect(0, "list", "--ids")->out), 3);
    EQ(LINES(run_expect(0, "list", "--ids", "--state", "buried")->out), 1);
}

static void enter_the_folder(void)
{
    if (chdir(folder_of("copies")) != 0)
        _exit(99);
}

static void relative_path_of_a_copy_is_in_the_current_directory(void)
{
    queue_url();
    put_some();
    folder_of("copies");
    before_exec = enter_the_folder;
    struct child *child = run_expect(has_backup() ? 0 : 1, "backup", "copy.db", "--json");
    EQ(files_in(folder_of("copies")), has_backup() ? 1 : 0);
    if (has_backup())
        CHECK(number_in(json_at(child->out, 0), "bytes") > 0);
}

static void a_copy_overwrites_nothing(void)
{
    char path[4400];
    snprintf(path, sizeof(path), "%s/copy.db", folder_of("copies"));
    write_text(path, "precious");
    struct child *child = run_expect(2, "backup", path);
    HAS(child->err, "already exists");
    EQ(size_of(path), 8);
    run_expect(2, "backup", "");
}

static void a_copy_that_cannot_be_written_is_a_failure(void)
{
    char path[4400];
    snprintf(path, sizeof(path), "%s/nosuch/copy.db", folder_of("copies"));
    struct child *child = run_expect(1, "backup", path);
    SILENT(child->out);
    if (has_backup())
        HAS(child->err, "No such file");
}

static const struct test tests[] = {
    TEST(a_pause_holds_until_resume),
    TEST(a_timed_pause_shows_its_end_with_the_zone),
    TEST(invalid_pause_is_rejected),
    TEST(a_long_pause_has_an_end_in_every_output),
    TEST(resume_reports_whether_it_ended_a_pause),
    TEST(resume_of_a_topic_that_does_not_exist_changes_nothing),
    TEST(topic_set_changes_the_policy_and_shows_it),
    TEST(topic_shows_the_limit_that_is_reached),
    TEST(invalid_policy_is_rejected),
    TEST(put_takes_the_defaults_of_the_topic),
    TEST(nothing_is_purged_without_confirmation),
    TEST(answering_no_cancels_a_purge),
    TEST(confirmed_purge_removes_all_but_reserved_jobs),
    TEST(a_purge_of_an_unknown_topic_deletes_nothing_and_is_reported),
    TEST(a_purge_of_some_states_leaves_the_others),
    TEST(a_reserved_job_outlives_a_purge),
    TEST(draining_server_rejects_puts),
    TEST(a_drain_is_on_or_off),
    TEST(a_healthy_queue_passes_the_check),
    TEST(a_copy_is_a_queue_with_the_same_jobs),
    TEST(relative_path_of_a_copy_is_in_the_current_directory),
    TEST(a_copy_overwrites_nothing),
    TEST(a_copy_that_cannot_be_written_is_a_failure),
};

const struct theme admin_theme = {"admin", tests, COUNT(tests)};
