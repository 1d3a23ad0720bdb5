/* SPDX-License-Identifier: MIT */
/* workers.c - bide workers and bide why: who works on what, and why a job does not run. */
#include "job_view.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void announce(bide *queue, const char *name, const char *topic)
{
    const bide_slice topics[] = {{topic, strlen(topic)}};
    const bide_worker_info info = {.name = {name, strlen(name)},
                                   .host = {"web1", 4},
                                   .threads = 4,
                                   .done = 17,
                                   .failed = 2,
                                   .topics = topics,
                                   .topic_count = 1};
    OK(bide_announce(queue, &info, 3600000));
}

/* The object of a worker in the output of bide workers --json; NULL if it is not listed. */
static json_t *find_worker(const struct child *child, const char *name)
{
    size_t count = (size_t)LINES(child->out);
    for (size_t i = 0; i < count; i++) {
        json_t *object = json_at(child->out, i);
        if (strcmp(text_in(object, "name"), name) == 0)
            return object;
    }
    return NULL;
}

/* ---- workers ---- */

static void workers_are_listed_with_the_jobs_that_they_hold(void)
{
    bide *queue = open_test_queue();
    uint64_t id = put_job("email", "hello");
    announce(queue, "web1:47:0a", "email");
    announce(queue, "web1:48:0b", "email");
    bide_job job = reserve_by(queue, "email", "web1:47:0a");
    OK(bide_touch(queue, id, job.token, 0, "half"));

    struct child *child = run_expect(0, "workers");
    HAS(child->out, "WORKER");
    HAS(child->out, "web1:47:0a");
    HAS(child->out, "web1:48:0b");
    HAS(child->out, " email ");

    child = run_expect(0, "workers", "--json");
    json_t *worker = find_worker(child, "web1:47:0a");
    CHECK(worker != NULL);
    EQ(number_in(worker, "threads"), 4);
    EQ(number_in(worker, "done"), 17);
    EQ(number_in(worker, "failed"), 2);
    EQ(number_in(worker, "running"), 1);
    BETWEEN(number_in(worker, "left_ms"), 1, 3600000);
    const json_t *jobs = json_object_get(worker, "jobs");
    EQ(json_array_size(jobs), 1);
    const json_t *one = json_array_get(jobs, 0);
    EQ(number_in(one, "id"), id);
    CHECK(number_in(one, "since_ms") > 0);
    TEXT(text_in(one, "topic"), strlen(text_in(one, "topic")), "email");
    TEXT(text_in(one, "progress"), strlen(text_in(one, "progress")), "half");
    worker = find_worker(child, "web1:48:0b");
    CHECK(worker != NULL);
    EQ(json_array_size(json_object_get(worker, "jobs")), 0);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void holder_that_has_not_announced_itself_is_listed(void)
{
    bide *queue = open_test_queue();
    uint64_t id = put_job("email", "hello");
    bide_job job = reserve_by(queue, "email", "quiet\x1b[1m");
    struct child *child = run_expect(0, "workers");
    HAS(child->out, "quiet\\x1b[1m");
    child = run_expect(0, "workers", "--json");
    json_t *worker = find_worker(child, "quiet\x1b[1m");
    CHECK(worker != NULL);
    EQ(number_in(worker, "running"), 1);
    CHECK(json_object_get(worker, "left_ms") == NULL);
    EQ(number_in(json_array_get(json_object_get(worker, "jobs"), 0), "id"), id);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void job_is_listed_once_if_connections_share_a_name(void)
{
    bide *queue = open_test_queue();
    uint64_t id = put_job("email", "hello");
    bide_worker_info info = {.name = {"same", 4}, .connection = 7, .threads = 1};
    OK(bide_announce(queue, &info, 3600000));
    info.connection = 8;
    OK(bide_announce(queue, &info, 3600000));
    bide_job job = reserve_by(queue, "email", "same");

    struct child *child = run_expect(0, "workers", "--json");
    size_t workers = 0, jobs = 0;
    for (size_t i = 0; i < (size_t)LINES(child->out); i++) {
        json_t *object = json_at(child->out, i);
        if (strcmp(text_in(object, "name"), "same") != 0)
            continue;
        EQ(number_in(object, "connection"), 7 + workers++);
        const json_t *held = json_object_get(object, "jobs");
        jobs += json_array_size(held);
        EQ(number_in(object, "running"), json_array_size(held));
        if (json_array_size(held) > 0)
            EQ(number_in(json_array_get(held, 0), "id"), id);
    }
    EQ(workers, 2);
    EQ(jobs, 1);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void columns_are_aligned_whoever_is_announced(void)
{
    bide *queue = open_test_queue();
    put_job("email", "hello");
    put_job("email", "hello");
    announce(queue, "w1", "email");
    bide_job first = reserve_by(queue, "email", "w1");
    bide_job second = reserve_by(queue, "email", "a holder with a long name");
    struct child *child = run_expect(0, "workers");
    const char *text = child->out.text;
    const char *jobs = strstr(text, "JOBS");
    CHECK(jobs != NULL);
    size_t column = (size_t)(jobs - text), rows = 0;
    for (const char *line = strchr(text, '\n') + 1; *line != 0; line = strchr(line, '\n') + 1) {
        const char *email = strstr(line, " email ");
        if (email == NULL || email > strchr(line, '\n'))
            continue; /* a connection of the server */
        CHECK(strchr(line, '\n') > line + column && line[column - 1] == ' ' &&
              line[column] >= '0' && line[column] <= '9');
        rows++;
    }
    EQ(rows, 2);
    bide_job_clear(&first);
    bide_job_clear(&second);
    OK(bide_close(queue));
}

static void bide_work_is_a_worker_with_a_name(void)
{
    uint64_t id = put_job("email", "hello");
    struct child *work = begin("work", "email", "--name", "mailer", "-j", "2", "--stop-timeout",
                               "10ms", "--", "sleep", "60", NULL);
    bide *queue = open_test_queue();
    bide_job job = {0};
    int64_t limit = clock_us() + PATIENCE_MS * 1000;
    do {
        bide_job_clear(&job);
        OK(bide_job_stats(queue, id, &job));
        CHECK(clock_us() < limit);
        nap_ms(5);
    } while (job.state != BIDE_STATE_RESERVED);
    char name[BIDE_HOLDER_MAX + 1] = "";
    CHECK(job.holder_size > 7 && job.holder_size < sizeof(name));
    memcpy(name, job.holder, job.holder_size);
    CHECK(strncmp(name, "mailer:", 7) == 0);

    json_t *worker = find_worker(run_expect(0, "workers", "--json"), name);
    CHECK(worker != NULL);
    EQ(number_in(worker, "threads"), 2);
    EQ(number_in(worker, "pid"), work->pid);
    EQ(json_array_size(json_object_get(worker, "jobs")), 1);
    const json_t *topics = json_object_get(worker, "topics");
    EQ(json_array_size(topics), 1);

    /* A worker that stops is not listed any more. */
    kill(work->pid, SIGTERM);
    await_end(work, ANY_CODE);
    CHECK(find_worker(run_expect(0, "workers", "--json"), name) == NULL);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* ---- why ---- */

static void why_says_what_a_job_waits_for(void)
{
    uint64_t id = put_job("email", "hello");
    HAS(run_expect(0, "why", id_text(id))->out, "no worker waits for topic email\n");
    run_expect(0, "pause", "email", "1h");
    HAS(run_expect(0, "why", id_text(id))->out, "topic email is paused for another ");
    HAS(run_expect(0, "why", id_text(id))->out, " UTC)\n");
    json_t *why = json_at(run_expect(0, "why", id_text(id), "--json")->out, 0);
    TEXT(text_in(why, "reason"), strlen(text_in(why, "reason")), "paused");
    TEXT(text_in(why, "state"), strlen(text_in(why, "state")), "ready");
    EQ(number_in(why, "id"), id);
    BETWEEN(number_in(why, "left_ms"), 1, 3600000);
    CHECK(number_in(why, "until_ms") > 0);
    HAS(run_expect(0, "why", id_text(id + 100))->out, "no job has had the id ");
    HAS(run_expect(2, "why")->err, "bide why ID... | TOPIC --key KEY");
    run_expect(0, "update", id_text(id), "--delay", "1h");
    HAS(run_expect(0, "why", id_text(id))->out, " (at 2");
}

static void why_explains_each_of_several_jobs(void)
{
    uint64_t first = put_job("email", "hello"), second = put_job("email", "hello");
    run_expect(0, "bury", id_text(first), "--reason", "bad address");
    struct child *child = run_expect(0, "why", id_text(first), id_text(second));
    EQ(LINES(child->out), 2);
    HAS(child->out, "is buried after 0 attempts, until it is kicked: bad address\n");
}

static void why_of_a_key_names_its_job(void)
{
    run_expect(0, "put", "email", "x", "--key", "order-7");
    HAS(run_expect(0, "why", "email", "--key", "order-7")->out, "holds this key\n");
    HAS(run_expect(0, "why", "email", "--key", "order-8")->out,
        "no job of topic email holds this key\n");
    json_t *why = json_at(run_expect(0, "why", "email", "--key", "order-7", "--json")->out, 0);
    TEXT(text_in(why, "reason"), strlen(text_in(why, "reason")), "key_held");
}

static void questions_that_make_no_sense_are_rejected(void)
{
    run_expect(2, "why");
    run_expect(2, "why", "x");
    run_expect(2, "why", "email", "topic", "--key", "k");
    run_expect(2, "why", "email", "--key", "");
    run_expect(2, "why", "not ok", "--key", "k");
    run_expect(2, "workers", "now");
}

static const struct test tests[] = {
    TEST(workers_are_listed_with_the_jobs_that_they_hold),
    TEST(holder_that_has_not_announced_itself_is_listed),
    TEST(job_is_listed_once_if_connections_share_a_name),
    TEST(columns_are_aligned_whoever_is_announced),
    TEST(bide_work_is_a_worker_with_a_name),
    TEST(why_says_what_a_job_waits_for),
    TEST(why_explains_each_of_several_jobs),
    TEST(why_of_a_key_names_its_job),
    TEST(questions_that_make_no_sense_are_rejected),
};

const struct theme workers_verb_theme = {"workers", tests, COUNT(tests)};
