/* SPDX-License-Identifier: MIT */
/* move.c - whole queues, from one place to another. */
#include "mixed.h"

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
    return serve_another(name, strcmp(kind, "memory") == 0 ? "memory:" : url);
}

static void moves(const char *from, const char *to, const char *says)
{
    struct child *child = ends(0, "move", from, to);
    HAS(child->err, says);
    SILENT(child->out);
}

static int64_t figure(const struct child *child, const char *name)
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
    size_t count = mixed_count();
    fill_mixed(from, count);
    json_t *before = exported(from);
    EQ(jobs_in(before), count);
    struct child *child = ends(0, "move", "--json", from, to);
    EQ(figure(child, "copied"), count);
    EQ(figure(child, "verified"), count);
    EQ(figure(child, "pauses"), 3);
    SAME(before, exported(to));
    SAME(before, exported(from));
    moves(from, to, "jobs: 0 copied, ");
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
struct moment {
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

static void await_moment(const struct moment *moment, struct child *child)
{
    if (moment->queue == NULL) {
        nap_ms(moment->after_ms);
        return;
    }
    uint64_t before = jobs_of(moment->queue);
    while (jobs_of(moment->queue) == before && !is_over(child))
        nap_ms(1);
}

/* Begins a move, and ends it at that moment; false when it came to its end before. */
static bool is_cut_short(const char *flag, const char *from, const char *to, int signal,
                         const struct moment *moment)
{
    struct child *child =
        flag == NULL ? begin("move", from, to, NULL) : begin("move", flag, from, to, NULL);
    end_input(child);
    await_moment(moment, child);
    kill(child->pid, signal);
    await_end(child, ANY_CODE);
    /* Before it watches for signals it is ended by them. */
    bool cut = child->code == 256 + signal || (signal != SIGKILL && child->code == 128 + signal);
    if (child->code != 0 && !cut)
        FAIL("the move ended with %d: %s", child->code, child->err.text);
    return cut;
}

#define ROUNDS 12

static void check_cut(const char *from_kind, const char *to_kind, int signal)
{
    const char *from = new_queue(from_kind), *to = new_queue(to_kind);
    bool served = strcmp(to_kind, "sqlite") != 0;
    fill_mixed(from, served ? 8 * mixed_count() : mixed_count());
    json_t *before = exported(from);
    struct moment moment = {.queue = served ? open_url(to) : NULL};
    bool cut = true;
    for (int round = 0; cut && round < ROUNDS; round++) {
        moment.after_ms = 2 + round * 4;
        cut = is_cut_short(NULL, from, to, signal, &moment);
    }
    moves(from, to, "verified");
    SAME(before, exported(to));
    SAME(before, exported(from));
    OK(bide_close(moment.queue));
}

static void a_move_that_is_killed_goes_on(void)
{
    check_cut("memory", "served", SIGKILL);
}

static void a_move_between_files_that_is_killed_goes_on(void)
{
    check_cut("sqlite", "sqlite", SIGKILL);
}

static void a_move_that_is_interrupted_goes_on(void)
{
    check_cut("memory", "memory", SIGINT);
    check_cut("sqlite", "memory", SIGTERM);
}

static void a_removal_that_is_killed_goes_on(void)
{
    const char *from = new_queue("served"), *to = new_queue("memory");
    fill_mixed(from, 4 * mixed_count());
    json_t *before = exported(from);
    ends(0, "move", from, to);
    struct moment moment = {.queue = open_url(from)};
    bool cut = true;
    for (int round = 0; cut && round < ROUNDS; round++)
        cut = is_cut_short("--remove", from, to, SIGKILL, &moment);
    ends(0, "move", "--remove", from, to);
    SAME(before, exported(to));
    EQ(jobs_in(exported(from)), 0);
    OK(bide_close(moment.queue));
}

/* ---- removing, reserved jobs ---- */

static void remove_deletes_what_was_found_in_the_other_queue(void)
{
    const char *from = new_queue("sqlite"), *to = new_queue("memory");
    fill_mixed(from, 50);
    json_t *before = exported(from);
    struct child *child = ends(0, "move", "--remove", "--json", from, to);
    EQ(figure(child, "removed"), 50);
    EQ(jobs_in(exported(from)), 0);
    SAME(before, exported(to));
}

static void what_somebody_works_on_is_told_and_copied_as_ready(void)
{
    bide_job job = {0};
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    put_text(queue, "a", "one");
    put_text(queue, "a", "two");
    OK(bide_reserve(queue, "a", 0, &job));
    struct child *child = ends(7, "move", "--remove", from, to);
    HAS(child->err, "1 job is reserved in ");
    HAS(child->err, "--skip-reserved");
    HAS(child->err, "bide move: job 1: job 1 is reserved; ");
    HAS(child->err, "2 verified, 1 removed, 1 taken or gone");
    LACKS(child->err, "still has");
    json_t *lines = exported(to);
    EQ(jobs_in(lines), 2);
    TEXT(text_in(json_array_get(lines, 1), "state"), 5, "ready");
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void several_that_somebody_works_on_are_told_as_several(void)
{
    bide_job jobs[2] = {{0}};
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    for (size_t i = 0; i < 2; i++) {
        put_text(queue, "a", i == 0 ? "one" : "two");
        OK(bide_reserve(queue, "a", 0, &jobs[i]));
        bide_job_clear(&jobs[i]);
    }
    moves(from, to, "2 jobs are reserved in ");
    moves(from, to, "somebody works on them");
    OK(bide_close(queue));
}

static void who_copies_is_told_that_the_jobs_are_still_there(void)
{
    char still[1024];
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    moves(from, to, "jobs: 0 copied\n");
    LACKS(ends(0, "move", from, to)->err, "still has");
    put_text(queue, "a", "one");
    snprintf(still, sizeof(still), "%s still has this job; --remove deletes it\n", from);
    moves(from, to, still);
    put_text(queue, "a", "two");
    snprintf(still, sizeof(still), "%s still has these jobs; --remove deletes them\n", from);
    moves(from, to, still);
    LACKS(ends(0, "move", "--remove", from, to)->err, "still has");
    EQ(jobs_in(exported(from)), 0);
    EQ(jobs_in(exported(to)), 2);
    OK(bide_close(queue));
}

static void skip_reserved_leaves_out_what_somebody_works_on(void)
{
    bide_job job = {0};
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    put_text(queue, "a", "one");
    put_text(queue, "a", "two");
    OK(bide_reserve(queue, "a", 0, &job));
    struct child *child = ends(0, "move", "--skip-reserved", "--json", from, to);
    EQ(figure(child, "copied"), 1);
    EQ(figure(child, "reserved"), 1);
    LACKS(child->err, "is reserved in");
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void a_job_that_is_to_be_cancelled_is_not_copied(void)
{
    bide_job job = {0};
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *queue = open_url(from);
    put_text(queue, "a", "one");
    OK(bide_reserve(queue, "a", 0, &job));
    OK(bide_cancel(queue, job.id));
    struct child *child = ends(0, "move", "--json", from, to);
    EQ(figure(child, "copied"), 0);
    EQ(figure(child, "over"), 1);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* ---- what is in the other queue ---- */

static void a_key_that_is_held_there_is_refused_and_told(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *one = open_url(from), *other = open_url(to);
    options.key = (bide_slice){"k", 1};
    put_text(one, "a", "without a key");
    OK(bide_put(one, "a", "one", 3, &options, NULL));
    OK(bide_put(other, "a", "other", 5, &options, NULL));
    struct child *child = ends(7, "move", from, to);
    HAS(child->err, "bide move: job 2: job 1 of topic a holds this key\n");
    HAS(child->err, "1 copied, 1 refused, 1 verified");
    child = ends(7, "move", "--remove", "--json", from, to);
    EQ(figure(child, "removed"), 1);
    EQ(jobs_in(exported(from)), 1);
    OK(bide_close(one));
    OK(bide_close(other));
}

/* One that was made there by somebody else at another time is another one. */
static void a_job_that_only_looks_the_same_is_copied(void)
{
    const char *from = new_queue("memory"), *to = new_queue("memory");
    bide *one = open_url(from), *other = open_url(to);
    put_text(one, "a", "tick");
    nap_ms(300);
    put_text(other, "a", "tick");
    struct child *child = ends(0, "move", from, to);
    HAS(child->err, "1 copied, 1 verified");
    HAS(child->err, "made at another time");
    EQ(jobs_in(exported(to)), 2);
    moves(from, to, "0 copied, 1 there already");
    OK(bide_close(one));
    OK(bide_close(other));
}

static void a_queue_is_not_moved_to_itself(void)
{
    char link[200], url[256];
    const char *from = new_queue("memory"), *file = new_queue("sqlite");
    HAS(ends(2, "move", from, from)->err, "FROM and TO are the same");
    snprintf(link, sizeof(link), "%s/link.sock", place());
    CHECK(symlink(from + strlen("beanstalk://"), link) == 0);
    snprintf(url, sizeof(url), "beanstalk://%s", link);
    HAS(ends(2, "move", from, url)->err, "are the same queue");
    EQ(jobs_in(exported(from)), 0);
    fill_mixed(file, 1);
    snprintf(url, sizeof(url), "sqlite:%s/./%s", place(), strrchr(file, '/') + 1);
    ends(6, "move", file, url);
}

static void two_do_not_move_to_a_queue_at_the_same_time(void)
{
    const char *from = new_queue("sqlite"), *to = new_queue("memory");
    bide_slice topic = slice_of("bide-move");
    bide_topic_stats stats = {.waiting = 0};
    bide_job job = {0};
    bide_cq *cq = NULL;
    fill_mixed(from, 10);
    bide *queue = open_url(to);
    bide_op op = {.kind = BIDE_OP_RESERVE}, *list[] = {&op};
    OK(bide_cq_new(&cq));
    op.cq = cq;
    op.reserve = (bide_reserve_args){.topics = &topic, .topic_count = 1, .jobs = &job};
    op.reserve.timeout_ms = BIDE_FOREVER;
    op.reserve.job_max = 1;
    EQ(bide_submit(queue, list, 1), 1);
    UNTIL(bide_topic_get_stats(queue, "bide-move", &stats) == BIDE_OK && stats.waiting == 1);
    HAS(ends(5, "move", from, to)->err, "somebody else moves to ");
    OK(bide_cancel_op(queue, &op));
    UNTIL(bide_cq_drain(cq, 0) > 0);
    OK(bide_cq_free(cq));
    moves(from, to, "10 copied");
    CODE(bide_topic_get_stats(queue, "bide-move", &stats), BIDE_NOT_FOUND);
    OK(bide_close(queue));
}

static void what_is_not_there_is_not_made(void)
{
    const char *file = url_of("none.db", "");
    HAS(ends(6, "move", file, new_queue("memory"))->err, "there is no file ");
    CHECK(!file_exists(place_of("none.db")));
    ends(6, "move", "beanstalk:///nobody/listens.sock", url_of("made.db", ""));
    CHECK(!file_exists(place_of("made.db")));
}

static void wrong_arguments_are_refused(void)
{
    ends(2, "move");
    ends(2, "move", "sqlite:a.db");
    HAS(ends(2, "move", "memory:", url_of("a.db", ""))->err, "begins and ends with this command");
    HAS(ends(2, "--url", "sqlite:a.db", "move", "sqlite:b.db", "sqlite:c.db")->err, "no --url");
    ends(2, "move", "nonsense:", url_of("a.db", ""));
    CHECK(!file_exists(place_of("a.db")));
}

static const struct test tests[] = {
    TEST(a_file_is_moved_to_a_server_in_memory),
    TEST(a_server_in_memory_is_moved_to_a_file),
    TEST(a_file_is_moved_to_a_server_with_a_file),
    TEST(a_server_with_a_file_is_moved_to_a_file),
    TEST(a_server_in_memory_is_moved_to_a_server_with_a_file),
    TEST(a_server_with_a_file_is_moved_to_a_server_in_memory),
    TEST(a_file_is_moved_to_a_file),
    TEST(a_move_that_is_killed_goes_on),
    TEST(a_move_between_files_that_is_killed_goes_on),
    TEST(a_move_that_is_interrupted_goes_on),
    TEST(a_removal_that_is_killed_goes_on),
    TEST(remove_deletes_what_was_found_in_the_other_queue),
    TEST(what_somebody_works_on_is_told_and_copied_as_ready),
    TEST(several_that_somebody_works_on_are_told_as_several),
    TEST(who_copies_is_told_that_the_jobs_are_still_there),
    TEST(skip_reserved_leaves_out_what_somebody_works_on),
    TEST(a_job_that_is_to_be_cancelled_is_not_copied),
    TEST(a_key_that_is_held_there_is_refused_and_told),
    TEST(a_job_that_only_looks_the_same_is_copied),
    TEST(a_queue_is_not_moved_to_itself),
    TEST(two_do_not_move_to_a_queue_at_the_same_time),
    TEST(what_is_not_there_is_not_made),
    TEST(wrong_arguments_are_refused),
};

const struct theme move_theme = {"move", tests, COUNT(tests)};
