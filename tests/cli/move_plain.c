/* SPDX-License-Identifier: MIT */
/* move_plain.c - from a beanstalkd to bide, and back as far as that goes. */
#include "sample_queue.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *beanstalkd(void)
{
    static int serial;
    char name[32];
    snprintf(name, sizeof(name), "bean%d", ++serial);
    return start_another_server(name, "beanstalkd");
}

static const char *new_file(void)
{
    static int serial;
    char name[32];
    snprintf(name, sizeof(name), "plain%d.db", ++serial);
    return strdup(url_of(name, ""));
}

static uint64_t put_plain_job(bide *queue, const char *topic, const char *text, uint32_t priority,
                              int64_t delay_ms, int64_t ttr_ms)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    options.priority = priority;
    options.delay_ms = delay_ms;
    options.ttr_ms = ttr_ms;
    OK(bide_put(queue, topic, text, strlen(text), &options, &id));
    return id;
}

static void bury_plain_job(bide *queue, uint64_t id)
{
    bide_job job = {0};
    OK(bide_reserve_job(queue, id, &job));
    OK(bide_bury(queue, id, job.token, 77, NULL));
    bide_job_clear(&job);
}

/* A queue as it would be after some time: ids that are gone, every state, jobs that do not
 * differ. */
static void fill_plain(const char *url)
{
    bide *queue = open_url(url);
    for (int i = 0; i < 300; i++) {
        char text[32];
        snprintf(text, sizeof(text), "job %d", i % 4 == 0 ? 0 : i);
        uint64_t id = put_plain_job(queue, i % 3 == 0 ? "a" : "b", text, (uint32_t)i % 7,
                                    i % 5 == 0 ? HOUR_MS + i * 1000 : 0, 60000 + i % 3 * 1000);
        if (i % 10 == 3)
            OK(bide_delete(queue, id, 0));
        if (i % 10 == 7)
            bury_plain_job(queue, id);
    }
    OK(bide_pause(queue, "b", HOUR_MS));
    OK(bide_close(queue));
}

static const char *const compared_fields[] = {"topic",  "state",    "priority", "body",
                                              "ttr_ms", "reserves", "timeouts", "releases",
                                              "buries", "kicks"};

/* What a beanstalkd tells of its jobs, in the order of the ids; times to the second. */
static void check_same(const json_t *a, const json_t *b)
{
    size_t i;
    json_t *line;
    EQ(json_array_size(a), json_array_size(b));
    json_array_foreach(a, i, line)
    {
        json_t *other = json_array_get(b, i);
        if (json_object_get(line, "kind") != NULL)
            continue;
        for (size_t k = 0; k < COUNT(compared_fields); k++)
            CHECK(json_equal(json_object_get(line, compared_fields[k]),
                             json_object_get(other, compared_fields[k])));
        if (json_object_get(line, "run_at_ms") != NULL)
            BETWEEN(number_in(line, "run_at_ms") - number_in(other, "run_at_ms"), -2500, 2500);
        BETWEEN(number_in(line, "created_ms") - number_in(other, "created_ms"), -2500, 2500);
    }
}

static void a_beanstalkd_is_moved_with_all_its_fields(void)
{
    const char *from = beanstalkd(), *to = new_file();
    fill_plain(from);
    json_t *before = exported(from);
    EQ(jobs_in(before), 270);
    HAS(run_expect(0, "move", from, to)->err, "jobs: 270 copied, 270 verified\n");
    check_same(before, exported(to));
    HAS(run_expect(0, "move", from, to)->err, "jobs: 0 copied, 270 there already, 270 verified\n");
    check_same(before, exported(from));
}

/* The secret is that of the other end, perhaps: one that asks for none is not told it. */
static void a_secret_in_the_environment_does_not_prevent_a_move_from_beanstalkd(void)
{
    const char *from = beanstalkd(), *to = new_file();
    bide *queue = open_url(from);
    put_plain_job(queue, "a", "x", 0, 0, 60000);
    OK(bide_close(queue));
    write_text(test_path("secret"), "a-secret-of-another-server\n");
    CHECK(chmod(test_path("secret"), 0600) == 0);
    set_env("BIDE_SECRET_FILE", test_path("secret"));
    HAS(run_expect(0, "move", from, to)->err, "jobs: 1 copied, 1 verified\n");
    set_env("BIDE_SECRET_FILE", NULL);
}

static void a_delay_does_not_end_early_after_a_move(void)
{
    const char *from = beanstalkd(), *to = new_file();
    bide *queue = open_url(from);
    int64_t begin_ms = wall_ms();
    put_plain_job(queue, "a", "later", 0, 100000, 60000);
    nap_ms(700);
    OK(bide_close(queue));
    run_expect(0, "move", from, to);
    json_t *lines = exported(to);
    CHECK(number_in(json_array_get(lines, 1), "run_at_ms") >= begin_ms + 100000);
}

static void a_beanstalkd_is_emptied(void)
{
    const char *from = beanstalkd(), *to = new_file();
    fill_plain(from);
    HAS(run_expect(0, "move", "--remove", from, to)->err, "270 removed");
    EQ(jobs_in(exported(from)), 0);
    EQ(jobs_in(exported(to)), 270);
}

static void a_draining_beanstalkd_is_moved(void)
{
    const char *from = beanstalkd(), *to = new_file();
    fill_plain(from);
    kill(another_pid(from), SIGUSR1);
    bide *queue = open_url(from);
    bide_stats stats = {0};
    do
        OK(bide_queue_stats(queue, &stats));
    while (!stats.draining);
    OK(bide_close(queue));
    HAS(run_expect(0, "move", from, to)->err, "jobs: 270 copied, 270 verified\n");
    HAS(run_expect(0, "move", from, to)->err, "jobs: 0 copied, 270 there already, 270 verified\n");
}

static void a_killed_move_from_a_beanstalkd_resumes(void)
{
    const char *from = beanstalkd(), *to = start_another_server("target", "memory:");
    bide *queue = open_url(from), *target = open_url(to);
    for (int i = 0; i < 5000; i++)
        put_plain_job(queue, "a", i % 2 == 0 ? "even" : "odd", 0, 0, 60000);
    bide_stats stats = {0};
    for (int round = 0; round < 8; round++) {
        uint64_t before = stats.jobs.ready;
        struct child *child = begin("move", from, to, NULL);
        end_input(child);
        do {
            nap_ms(1);
            OK(bide_queue_stats(target, &stats));
        } while (stats.jobs.ready == before && !is_over(child));
        kill(child->pid, SIGKILL);
        await_end(child, ANY_CODE);
    }
    run_expect(0, "move", from, to);
    OK(bide_queue_stats(target, &stats));
    EQ(stats.jobs.ready, 5000);
    OK(bide_close(queue));
    OK(bide_close(target));
}

static void a_beanstalkd_target_takes_what_a_put_can_express(void)
{
    const char *from = new_file(), *to = beanstalkd();
    bide *queue = open_url(from);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    put_plain_job(queue, "a", "ready", 5, 0, 60000);
    put_plain_job(queue, "a", "ready", 5, 0, 60000);
    put_plain_job(queue, "a", "delayed", 6, HOUR_MS, 61000);
    bury_plain_job(queue, put_plain_job(queue, "a", "buried", 7, 0, 60000));
    options.key = slice_of("k");
    OK(bide_put(queue, "a", "keyed", 5, &options, NULL));
    OK(bide_close(queue));
    struct child *child = run_expect(7, "move", from, to);
    HAS(child->err, "counters and ages begin anew there");
    HAS(child->err, "job 4: it is buried, and a beanstalkd accepts only ready and delayed jobs");
    HAS(child->err, "job 5: a beanstalkd cannot store its key; use --lossy to drop it");
    HAS(child->err, "3 copied, 2 rejected, 3 verified");
    HAS(run_expect(7, "move", "--lossy", from, to)->err, "1 copied, 3 there already, 1 rejected");
    HAS(run_expect(7, "move", "--lossy", from, to)->err, "0 copied, 4 there already, 1 rejected");
    json_t *lines = exported(to);
    EQ(jobs_in(lines), 4);
    TEXT(text_in(json_array_get(lines, 3), "state"), 7, "delayed");
    EQ(number_in(json_array_get(lines, 3), "ttr_ms"), 61000);
    EQ(number_in(json_array_get(lines, 3), "priority"), 6);
}

/* A beanstalkd creates its jobs at the time of the put, so a job that was there before may be the
 * copy of an earlier run or a job of its own. Only a copy of the same run proves that nothing is
 * lost. */
static void remove_keeps_jobs_that_a_beanstalkd_target_had_before(void)
{
    const char *from = new_file(), *to = beanstalkd();
    bide *one = open_url(from), *other = open_url(to);
    put_plain_job(one, "a", "alike", 5, 0, 60000);
    put_plain_job(one, "a", "new", 5, 0, 60000);
    put_plain_job(other, "a", "alike", 5, 0, 60000);
    OK(bide_close(one));
    OK(bide_close(other));
    struct child *child = run_expect(7, "move", "--remove", from, to);
    HAS(child->err, "1 copied, 1 there already, 2 verified, 1 removed");
    HAS(child->err, "1 job was in ");
    HAS(child->err, " before this run and may not be a copy; not removed");
    LACKS(child->err, "still has");
    json_t *lines = exported(from);
    EQ(jobs_in(lines), 1);
    TEXT(text_in(json_array_get(lines, 1), "body"), 5, "alike");
    child = run_expect(7, "move", "--remove", "--json", from, to);
    EQ(number_in(json_at(child->out, 0), "there"), 1);
    EQ(number_in(json_at(child->out, 0), "removed"), 0);
    EQ(number_in(json_at(child->out, 0), "unproven"), 1);
    EQ(jobs_in(exported(from)), 1);
    EQ(jobs_in(exported(to)), 2);
}

/* A beanstalkd reports creation times in whole seconds: a job that a producer has put into the
 * target at about the same time is no proof of a copy. */
static void remove_keeps_a_job_of_a_beanstalkd_that_only_a_lookalike_matches(void)
{
    const char *from = beanstalkd(), *to = new_file();
    bide *one = open_url(from), *other = open_url(to);
    bide_job job = {0};
    uint64_t id = put_plain_job(one, "a", "alike", 5, 0, 60000);
    put_plain_job(one, "a", "new", 5, 0, 60000);
    OK(bide_peek(one, id, &job));
    OK(bide_restore(other, &job, NULL));
    bide_job_clear(&job);
    OK(bide_close(one));
    OK(bide_close(other));
    struct child *child = run_expect(7, "move", "--remove", from, to);
    HAS(child->err, "1 copied, 1 there already, 2 verified, 1 removed");
    HAS(child->err, " before this run and may not be a copy; not removed");
    json_t *lines = exported(from);
    EQ(jobs_in(lines), 1);
    TEXT(text_in(json_array_get(lines, 1), "body"), 5, "alike");
    EQ(jobs_in(exported(to)), 2);
    child = run_expect(7, "move", "--remove", "--json", from, to);
    EQ(number_in(json_at(child->out, 0), "unproven"), 1);
    EQ(jobs_in(exported(from)), 1);
    LACKS(run_expect(0, "move", from, to)->err, "still has");
}

/* Of two equal jobs, the one that this run has copied is removed. */
static void remove_deletes_only_the_copied_one_of_two_equal_jobs(void)
{
    const char *from = beanstalkd(), *to = beanstalkd();
    bide *one = open_url(from), *other = open_url(to);
    put_plain_job(one, "a", "alike", 5, 0, 60000);
    put_plain_job(one, "a", "alike", 5, 0, 60000);
    put_plain_job(other, "a", "alike", 5, 0, 60000);
    struct child *child = run_expect(7, "move", "--remove", "--json", from, to);
    EQ(number_in(json_at(child->out, 0), "copied"), 1);
    EQ(number_in(json_at(child->out, 0), "removed"), 1);
    EQ(number_in(json_at(child->out, 0), "unproven"), 1);
    EQ(jobs_in(exported(from)), 1);
    EQ(jobs_in(exported(to)), 2);
    OK(bide_close(one));
    OK(bide_close(other));
}

/* One may refuse because of the other; never does a job come twice. */
static void concurrent_moves_to_a_beanstalkd_copy_a_job_once(void)
{
    const char *from = beanstalkd(), *to = beanstalkd();
    struct child *children[3];
    bide *queue = open_url(from), *other = open_url(to);
    bide_stats stats;
    for (int i = 0; i < 2000; i++)
        put_plain_job(queue, "a", "alike", 0, 0, 60000);
    for (size_t i = 0; i < COUNT(children); i++)
        children[i] = begin("move", from, to, NULL);
    for (size_t i = 0; i < COUNT(children); i++) {
        end_input(children[i]);
        await_end(children[i], ANY_CODE);
        if (children[i]->code == 5)
            HAS(children[i]->err, "another move to ");
        else
            EQ(children[i]->code, 0);
    }
    run_expect(0, "move", from, to);
    OK(bide_queue_stats(other, &stats));
    EQ(stats.jobs.ready, 2000);
    OK(bide_close(other));
    OK(bide_close(queue));
}

static void a_beanstalkd_is_not_moved_to_itself(void)
{
    char url[300];
    const char *from = beanstalkd();
    snprintf(url, sizeof(url), "beanstalk:///%s", from + strlen("beanstalk://"));
    HAS(run_expect(2, "move", from, url)->err, "are the same queue");
    bide *queue = open_url(from);
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_topic_stats topics[10];
    size_t count = 0;
    OK(bide_topics(queue, cursor, topics, 10, &count));
    EQ(count, 1);
    OK(bide_close(queue));
}

static const struct test tests[] = {
    TEST(a_beanstalkd_is_moved_with_all_its_fields),
    TEST(a_secret_in_the_environment_does_not_prevent_a_move_from_beanstalkd),
    TEST(a_delay_does_not_end_early_after_a_move),
    TEST(a_beanstalkd_is_emptied),
    TEST(a_draining_beanstalkd_is_moved),
    TEST(a_killed_move_from_a_beanstalkd_resumes),
    TEST(a_beanstalkd_target_takes_what_a_put_can_express),
    TEST(remove_keeps_jobs_that_a_beanstalkd_target_had_before),
    TEST(remove_keeps_a_job_of_a_beanstalkd_that_only_a_lookalike_matches),
    TEST(remove_deletes_only_the_copied_one_of_two_equal_jobs),
    TEST(concurrent_moves_to_a_beanstalkd_copy_a_job_once),
    TEST(a_beanstalkd_is_not_moved_to_itself),
};

const struct theme move_plain_theme = {"move_plain", tests, COUNT(tests)};
