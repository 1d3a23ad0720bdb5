/* SPDX-License-Identifier: MIT */
/* move.c - whole queues, from one place to another. */
#include "sample_queue.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A queue at a new place: "sqlite", "memory" (kept by bided), "served" (a file, kept by bided). */
static const char *new_queue(const char *kind)
{
    static int serial;
    char name[32], file[64];
    snprintf(name, sizeof(name), "q%d", ++serial);
    snprintf(file, sizeof(file), "%s.db", name);
    const char *url = strdup(url_of(file, strcmp(kind, "served") == 0 ? "sync=off" : ""));
    CHECK(url != NULL);
    if (strcmp(kind, "sqlite") == 0)
        return url;
    return start_another_server(name, strcmp(kind, "memory") == 0 ? "memory:" : url);
}

static void move_expect(const char *from, const char *to, const char *says)
{
    struct child *child = run_expect(0, "move", from, to);
    HAS(child->err, says);
    SILENT(child->out);
}

static int64_t counter_in(const struct child *child, const char *name)
{
    return number_in(json_at(child->out, 0), name);
}

static void put_text(bide *queue, const char *topic, const char *text)
{
    OK(bide_put(queue, topic, text, strlen(text), NULL, NULL));
}

/* ---- there and back ---- */

static void check_move(const char *from_kind, const char *to_kind)
{
    const char *from = new_queue(from_kind), *to = new_queue(to_kind);
    size_t count = sample_queue_count();
    fill_sample_queue(from, count);
    json_t *before = exported(from);
    EQ(jobs_in(before), count);
    struct child *child = run_expect(0, "move", "--json", from, to);
    EQ(counter_in(child, "copied"), count);
    EQ(counter_in(child, "verified"), count);
    EQ(counter_in(child, "pauses"), 3);
    SAME(before, exported(to));
    SAME(before, exported(from));
    move_expect(from, to, "jobs: 0 copied, ");
    SAME(before, exported(to));
}

static void a_file_is_moved_to_a_server_in_memory(void)
{
    check_move("sqlite", "memory");
}

static void a_server_in_memory_is_moved_to_a_file(void)
{
    check_move("memory", "sqlite");
}

static void a_file_is_moved_to_a_server_with_a_file(void)
{
    check_move("sqlite", "served");
}

static void a_server_with_a_file_is_moved_to_a_file(void)
{
    check_move("served", "sqlite");
}

static void a_server_in_memory_is_moved_to_a_server_with_a_file(void)
{
    check_move("memory", "served");
}

static void a_server_with_a_file_is_moved_to_a_server_in_memory(void)
{
    check_move("served", "memory");
}

static void a_file_is_moved_to_a_file(void)
{
    check_move("sqlite", "sqlite");
}

/* ---- ended on the way ---- */

/* Something to end a move by: time has passed, or a queue has other jobs than before. */
struct cut_point {
    int64_t after_ms;
    bide *queue; /* NULL: time */
};

static uint64_t jobs_of(bide *queue)
{
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    return stats.jobs.delayed + stats.jobs.ready + stats.jobs.reserved + stats.jobs.buried +
           stats.jobs.done;
}

static void wait_for_cut_point(const struct cut_point *cut_point, struct child *child)
{
    if (cut_point->queue == NULL) {
        nap_ms(cut_point->after_ms);
        return;
    }
    uint64_t before = jobs_of(cut_point->queue);
    while (jobs_of(cut_point->queue) == before && !is_over(child))
        nap_ms(1);
}

/* Begins a move, and ends it at that moment; false when it came to its end before. */
static bool is_interrupted(const char *flag, const char *from, const char *to, int signal,
                           const struct cut_point *cut_point)
{
    struct child *child =
        flag == NULL ? begin("move", from, to, NULL) : begin("move", flag, from, to, NULL);
    end_input(child);
    wait_for_cut_point(cut_point, child);
    kill(child->pid, signal);
    await_end(child, ANY_CODE);
    /* Before it watches for signals it is ended by them. */
    bool cut = child->code == 256 + signal || (signal != SIGKILL && child->code == 128 + signal);
    if (child->code != 0 && !cut)
        FAIL("the move ended with %d: %s", child->code, child->err.text);
    return cut;
}

#define ROUNDS 12

static void check_interrupted_move(const char *from_kind, const char *to_kind, int signal)
{
    const char *from = new_queue(from_kind), *to = new_queue(to_kind);
    bool served = strcmp(to_kind, "sqlite") != 0;
    fill_sample_queue(from, served ? 8 * sample_queue_count() : sample_queue_count());
    json_t *before = exported(from);
    struct cut_point cut_point = {.queue = served ? open_url(to) : NULL};
    bool cut = true;
    for (int round = 0; cut && round < ROUNDS; round++) {
        cut_point.after_ms = 2 + round * 4;
        cut = is_interrupted(NULL, from, to, signal, &cut_point);
    }
    move_expect(from, to, "verified");
    SAME(before, exported(to));
    SAME(before, exported(from));
    OK(bide_close(cut_point.queue));
}

static void a_killed_move_resumes(void)
{
    check_interrupted_move("memory", "served", SIGKILL);
}

static void a_killed_move_between_files_resumes(void)
{
    check_interrupted_move("sqlite", "sqlite", SIGKILL);
}

static void an_interrupted_move_resumes(void)
{
    check_interrupted_move("memory", "memory", SIGINT);
    check_interrupted_move("sqlite", "memory", SIGTERM);
}

static void a_killed_removal_resumes(void)
{
    const char *from = new_queue("served"), *to = new_queue("memory");
    fill_sample_queue(from, 4 * sample_queue_count());
    json_t *before = exported(from);
    run_expect(0, "move", from, to);
    struct cut_point cut_point = {.queue = open_url(from)};
    bool cut = true;
    for (int round = 0; cut && round < ROUNDS; round++)
        cut = is_interrupted("--remove", from, to, SIGKILL, &cut_point);
    run_expect(0, "move", "--remove", from, to);
    SAME(before, exported(to));
    EQ(jobs_in(exported(from)), 0);
    OK(bide_close(cut_point.queue));
}

/* ---- removing, reserved jobs ---- */

static void remove_deletes_verified_jobs(void)
{
    const char *from = new_queue("sqlite"), *to = new_queue("memory");
    fill_sample_queue(from, 50);
    json_t *before = exported(from);
    struct child *child = run_expect(0, "move", "--remove", "--json", from, to);
    EQ(counter_in(child, "removed"), 50);
    EQ(jobs_in(exported(from)), 0);
    SAME(before, exported(to));
}

static void a_reserved_job_is_reported_and_copied_as_ready(void)
{
    bide_job job = {0};
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    put_text(queue, "a", "one");
    put_text(queue, "a", "two");
    OK(bide_reserve(queue, "a", 0, &job));
    struct child *child = run_expect(7, "move", "--remove", from, to);
    HAS(child->err, "1 job is reserved in ");
    HAS(child->err, "--skip-reserved");
    HAS(child->err, "bide move: job 1: job 1 is reserved; ");
    HAS(child->err, "2 verified, 1 removed, 1 not removed (reserved or deleted");
    LACKS(child->err, "still has");
    json_t *lines = exported(to);
    EQ(jobs_in(lines), 2);
    TEXT(text_in(json_array_get(lines, 1), "state"), 5, "ready");
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void several_reserved_jobs_are_reported_in_plural(void)
{
    bide_job jobs[2] = {{0}};
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    for (size_t i = 0; i < 2; i++) {
        put_text(queue, "a", i == 0 ? "one" : "two");
        OK(bide_reserve(queue, "a", 0, &jobs[i]));
        bide_job_clear(&jobs[i]);
    }
    move_expect(from, to, "2 jobs are reserved in ");
    move_expect(from, to, "a consumer works on them");
    OK(bide_close(queue));
}

static void a_copy_reports_that_the_source_still_has_the_jobs(void)
{
    char still[1024];
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    move_expect(from, to, "jobs: 0 copied\n");
    LACKS(run_expect(0, "move", from, to)->err, "still has");
    put_text(queue, "a", "one");
    snprintf(still, sizeof(still), "%s still has this job; --remove deletes it\n", from);
    move_expect(from, to, still);
    put_text(queue, "a", "two");
    snprintf(still, sizeof(still), "%s still has these jobs; --remove deletes them\n", from);
    move_expect(from, to, still);
    LACKS(run_expect(0, "move", "--remove", from, to)->err, "still has");
    EQ(jobs_in(exported(from)), 0);
    EQ(jobs_in(exported(to)), 2);
    OK(bide_close(queue));
}

static void skip_reserved_leaves_out_reserved_jobs(void)
{
    bide_job job = {0};
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    put_text(queue, "a", "one");
    put_text(queue, "a", "two");
    OK(bide_reserve(queue, "a", 0, &job));
    struct child *child = run_expect(0, "move", "--skip-reserved", "--json", from, to);
    EQ(counter_in(child, "copied"), 1);
    EQ(counter_in(child, "reserved"), 1);
    LACKS(child->err, "is reserved in");
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void a_job_being_cancelled_is_not_copied(void)
{
    bide_job job = {0};
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    put_text(queue, "a", "one");
    OK(bide_reserve(queue, "a", 0, &job));
    OK(bide_cancel(queue, job.id));
    struct child *child = run_expect(0, "move", "--json", from, to);
    EQ(counter_in(child, "copied"), 0);
    EQ(counter_in(child, "over"), 1);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* ---- what is in the other queue ---- */

static void a_key_held_in_the_target_is_rejected_and_reported(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *one = open_url(from), *other = open_url(to);
    options.key = (bide_slice){"k", 1};
    put_text(one, "a", "without a key");
    OK(bide_put(one, "a", "one", 3, &options, NULL));
    OK(bide_put(other, "a", "other", 5, &options, NULL));
    struct child *child = run_expect(7, "move", from, to);
    HAS(child->err, "bide move: job 2: job 1 of topic a holds this key\n");
    HAS(child->err, "1 copied, 1 rejected, 1 verified");
    child = run_expect(7, "move", "--remove", "--json", from, to);
    EQ(counter_in(child, "removed"), 1);
    EQ(jobs_in(exported(from)), 1);
    OK(bide_close(one));
    OK(bide_close(other));
}

/* A job that another client put there at another time is a different job. */
static void a_lookalike_in_the_target_does_not_prevent_a_copy(void)
{
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *one = open_url(from), *other = open_url(to);
    put_text(one, "a", "tick");
    nap_ms(300);
    put_text(other, "a", "tick");
    struct child *child = run_expect(0, "move", from, to);
    HAS(child->err, "1 copied, 1 verified");
    HAS(child->err,
        "1 of the copied jobs equals a job that was there, except for the creation time");
    EQ(jobs_in(exported(to)), 2);
    move_expect(from, to, "0 copied, 1 there already");
    OK(bide_close(one));
    OK(bide_close(other));
}

/* A queue cuts error texts at its own limit; the job is still the same. */
static void a_job_whose_error_is_cut_there_is_recognised(void)
{
    static char text[2001];
    bide *queue;
    uint64_t id;
    const char *from = strdup(url_of("long.db", "max_error_size=4KiB")), *to = new_queue("sqlite");
    memset(text, 'e', sizeof(text) - 1);
    OK(bide_open(from, NULL, &queue));
    OK(bide_put(queue, "a", "body", 4, NULL, &id));
    OK(bide_bury(queue, id, 0, BIDE_KEEP, text));
    OK(bide_close(queue));
    struct child *child = run_expect(0, "move", "--json", from, to);
    EQ(counter_in(child, "copied"), 1);
    EQ(counter_in(child, "verified"), 1);
    move_expect(from, to, "jobs: 0 copied, ");
    EQ(jobs_in(exported(to)), 1);
}

static void a_queue_is_not_moved_to_itself(void)
{
    char link[200], url[256];
    const char *from = new_queue("memory"), *file = new_queue("sqlite");
    HAS(run_expect(2, "move", from, from)->err, "FROM and TO are the same");
    snprintf(link, sizeof(link), "%s/link.sock", test_dir());
    CHECK(symlink(from + strlen("beanstalk://"), link) == 0);
    snprintf(url, sizeof(url), "beanstalk://%s", link);
    HAS(run_expect(2, "move", from, url)->err, "are the same queue");
    EQ(jobs_in(exported(from)), 0);
    fill_sample_queue(file, 1);
    snprintf(url, sizeof(url), "sqlite:%s/./%s", test_dir(), strrchr(file, '/') + 1);
    run_expect(6, "move", file, url);
}

/* A client that waits for a job of a topic. */
struct waiting_client {
    bide_cq *cq;
    bide_op op;
    bide_slice topic;
    bide_job job;
};

static void begin_waiting(struct waiting_client *client, bide *queue, const char *topic)
{
    bide_topic_stats stats = {.waiting = 0};
    bide_op *list[] = {&client->op};
    *client = (struct waiting_client){.op.kind = BIDE_OP_RESERVE, .topic = slice_of(topic)};
    OK(bide_cq_new(&client->cq));
    client->op.cq = client->cq;
    client->op.reserve = (bide_reserve_args){.topics = &client->topic,
                                             .topic_count = 1,
                                             .timeout_ms = BIDE_FOREVER,
                                             .jobs = &client->job,
                                             .job_max = 1};
    EQ(bide_submit(queue, list, 1), 1);
    UNTIL(bide_topic_get_stats(queue, topic, &stats) == BIDE_OK && stats.waiting == 1);
}

static void end_waiting(struct waiting_client *client)
{
    UNTIL(bide_cq_drain(client->cq, 0) > 0);
    OK(bide_cq_free(client->cq));
    bide_job_clear(&client->job);
}

static void concurrent_moves_to_one_queue_are_rejected(void)
{
    const char *from = new_queue("sqlite"), *to = new_queue("memory");
    struct waiting_client client;
    bide_topic_stats stats;
    fill_sample_queue(from, 10);
    bide *queue = open_url(to);
    begin_waiting(&client, queue, "bide-move");
    HAS(run_expect(5, "move", from, to)->err, "another move to ");
    OK(bide_cancel_op(queue, &client.op));
    end_waiting(&client);
    move_expect(from, to, "10 copied");
    CODE(bide_topic_get_stats(queue, "bide-move", &stats), BIDE_NOT_FOUND);
    OK(bide_close(queue));
}

/* The copy is reserved at once, so it is not what was copied when it is verified. */
static void a_copy_that_a_consumer_takes_is_reported_and_not_removed(void)
{
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *one = open_url(from), *other = open_url(to);
    struct waiting_client client;
    put_text(one, "kept", "text");
    put_text(one, "taken", "text");
    begin_waiting(&client, other, "taken");
    struct child *child = run_expect(7, "move", "--remove", "--json", from, to);
    end_waiting(&client);
    EQ(counter_in(child, "copied"), 2);
    EQ(counter_in(child, "verified"), 1);
    EQ(counter_in(child, "missing"), 1);
    EQ(counter_in(child, "removed"), 1);
    HAS(child->err, "1 job of ");
    HAS(child->err, ": 2 (if no consumer has taken jobs there");
    json_t *lines = exported(from);
    EQ(jobs_in(lines), 1);
    TEXT(text_in(json_array_get(lines, 1), "topic"), 5, "taken");
    OK(bide_close(one));
    OK(bide_close(other));
}

static void a_missing_source_is_not_created(void)
{
    const char *file = url_of("none.db", "");
    HAS(run_expect(6, "move", file, new_queue("memory"))->err, "there is no file ");
    CHECK(!file_exists(test_path("none.db")));
    run_expect(6, "move", "beanstalk:///nobody/listens.sock", url_of("made.db", ""));
    CHECK(!file_exists(test_path("made.db")));
}

static void wrong_arguments_are_rejected(void)
{
    run_expect(2, "move");
    run_expect(2, "move", "sqlite:a.db");
    HAS(run_expect(2, "move", "memory:", url_of("a.db", ""))->err,
        "exists only within this command");
    HAS(run_expect(2, "--url", "sqlite:a.db", "move", "sqlite:b.db", "sqlite:c.db")->err,
        "--url is not accepted");
    run_expect(2, "move", "nonsense:", url_of("a.db", ""));
    CHECK(!file_exists(test_path("a.db")));
}

static const struct test tests[] = {
    TEST(a_file_is_moved_to_a_server_in_memory),
    TEST(a_server_in_memory_is_moved_to_a_file),
    TEST(a_file_is_moved_to_a_server_with_a_file),
    TEST(a_server_with_a_file_is_moved_to_a_file),
    TEST(a_server_in_memory_is_moved_to_a_server_with_a_file),
    TEST(a_server_with_a_file_is_moved_to_a_server_in_memory),
    TEST(a_file_is_moved_to_a_file),
    TEST(a_killed_move_resumes),
    TEST(a_killed_move_between_files_resumes),
    TEST(an_interrupted_move_resumes),
    TEST(a_killed_removal_resumes),
    TEST(remove_deletes_verified_jobs),
    TEST(a_reserved_job_is_reported_and_copied_as_ready),
    TEST(several_reserved_jobs_are_reported_in_plural),
    TEST(a_copy_reports_that_the_source_still_has_the_jobs),
    TEST(skip_reserved_leaves_out_reserved_jobs),
    TEST(a_job_being_cancelled_is_not_copied),
    TEST(a_key_held_in_the_target_is_rejected_and_reported),
    TEST(a_lookalike_in_the_target_does_not_prevent_a_copy),
    TEST(a_job_whose_error_is_cut_there_is_recognised),
    TEST(a_queue_is_not_moved_to_itself),
    TEST(concurrent_moves_to_one_queue_are_rejected),
    TEST(a_copy_that_a_consumer_takes_is_reported_and_not_removed),
    TEST(a_missing_source_is_not_created),
    TEST(wrong_arguments_are_rejected),
};

const struct theme move_theme = {"move", tests, COUNT(tests)};
