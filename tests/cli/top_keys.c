/* SPDX-License-Identifier: MIT */
/* top_keys.c - the keys of bide top that change nothing but the view, and what the views show. */
#include "pane.h"

#include <stdio.h>
#include <string.h>

#define FLAGS "--interval 100ms"

/* Topics q0, q1 ...; each has one job more than the one behind it. */
static void put_topics(int count)
{
    bide *queue = open_test_queue();
    for (int i = 0; i < count; i++) {
        char topic[20];
        snprintf(topic, sizeof(topic), "q%d", i);
        for (int j = i; j < count; j++)
            OK(bide_put(queue, topic, "x", 1, NULL, NULL));
    }
    OK(bide_close(queue));
}

static void topics_are_sorted_by_every_column(void)
{
    static const char *const heads[] = {"RESVD", "DELAY",  "BURIED", "DONE",  "IN/S",
                                        "OUT/S", "OLDEST", "WAIT",   "TOPIC", "READY"};
    char line[40];
    server_choose(AT_MEMORY);
    put_topics(3);
    pane_begin(80, 24, FLAGS);
    SHOWS("vREADY");
    SHOWS("  q2  ");
    CHECK(pane_line("  q0 ") < pane_line("  q2 "));
    pane_keys("r");
    SHOWS("Sorted by READY, reversed.");
    SHOWS("^READY");
    CHECK(pane_line("  q0 ") > pane_line("  q2 "));
    pane_keys("r");
    for (size_t i = 0; i < COUNT(heads); i++) {
        pane_keys(i % 2 == 0 ? "s" : "'>'");
        snprintf(line, sizeof(line), "Sorted by %s.", heads[i]);
        SHOWS(line);
        if (strcmp(heads[i], "TOPIC") == 0)
            CHECK(pane_line("^TOPIC") >= 0 && pane_line("  default ") < pane_line("  q0 "));
    }
    pane_keys("'<'");
    SHOWS("Sorted by TOPIC.");
    pane_quit();
}

static void a_filter_works_while_it_is_typed(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    put_job("mail-slow", "x");
    put_job("zip", "x");
    pane_begin(80, 24, FLAGS);
    SHOWS("  zip ");
    pane_keys("/");
    SHOWS("Show topics with:");
    pane_keys("M a");
    HIDES("  zip ");
    SHOWS("  mail-slow ");
    pane_keys("i l - Enter");
    SHOWS("Only topics with \"Mail-\" are shown");
    HIDES("  mail  ");
    SHOWS("  mail-slow ");
    pane_keys("/ BSpace BSpace BSpace BSpace BSpace x x");
    SHOWS("No topic name contains the filter text.");
    pane_keys("Escape");
    SHOWS("  zip ");
    SHOWS("  mail  ");
    pane_quit();
}

static void the_cursor_moves_by_lines_pages_and_to_the_ends(void)
{
    static const struct {
        const char *keys, *topic;
    } steps[] = {
        {"Down", "q1"},
        {"j j", "q3"},
        {"Up", "q2"},
        {"k", "q1"},
        {"End", "q39"},
        {"Down", "q39"},
        {"Home", "q0"},
        {"Up", "q0"},
        {"NPage", "q18"},
        {"PPage", "q0"},
        {"NPage NPage NPage NPage", "q39"},
        {"PPage Down", "q22"},
    };
    char line[40];
    server_choose(AT_MEMORY);
    put_topics(40);
    pane_begin(80, 24, FLAGS " --filter q");
    SHOWS("  q0 ");
    for (size_t i = 0; i < COUNT(steps); i++) {
        pane_keys(steps[i].keys);
        pane_keys("Enter");
        snprintf(line, sizeof(line), "topic %s", steps[i].topic);
        SHOWS(line);
        CHECK(strncmp(pane_text(false), line, strlen(line)) == 0);
        CHECK(pane_text(false)[strlen(line)] == '\n');
        pane_keys("q");
        SHOWS("bide top");
    }
    pane_quit();
}

static void help_opens_in_every_view_and_closes(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "the body");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    pane_keys("?");
    SHOWS("bide top: keys");
    SHOWS("K  kick");
    HIDES("  mail ");
    pane_keys("x");
    SHOWS("  mail ");
    pane_keys("Enter");
    SHOWS("topic mail");
    pane_keys("?");
    SHOWS("bide top: keys");
    pane_keys("q");
    SHOWS("the body");
    pane_keys("Enter");
    SHOWS("body: 8 bytes");
    pane_keys("?");
    SHOWS("bide top: keys");
    pane_keys("Escape");
    SHOWS("body: 8 bytes");
    pane_keys("Escape");
    SHOWS("topic mail");
    pane_keys("Escape");
    SHOWS("bide top");
    pane_quit();
}

static void a_frozen_view_does_not_change_until_resumed(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    pane_begin(80, 24, FLAGS);
    SHOWS("ready 1 ");
    pane_keys("Space");
    SHOWS("FROZEN");
    put_job("mail", "y");
    pane_keys("r");
    SHOWS("reversed");
    CHECK(pane_line("ready 1 ") >= 0);
    pane_keys("Space");
    SHOWS("ready 2 ");
    HIDES("FROZEN");
    pane_quit();
}

static void keys_change_the_sample_interval(void)
{
    server_choose(AT_MEMORY);
    pane_begin(80, 24, "");
    SHOWS("every 1s");
    pane_keys("-");
    SHOWS("every 500ms");
    pane_keys("- - -");
    SHOWS("every 100ms");
    pane_keys("+ + + + +");
    SHOWS("every 5s");
    SHOWS("Refreshed every 5.0 s.");
    pane_keys("+ + + + +");
    SHOWS("every 1m0s");
    pane_keys("C-l t");
    SHOWS("Trend of jobs finished per second.");
    SHOWS("WAIT OUT/S");
    pane_keys("t");
    SHOWS("Trend of ready jobs.");
    SHOWS("WAIT TREND");
    pane_quit();
}

static void changes_by_other_clients_are_shown(void)
{
    bide_job job;
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail *  1 ");
    put_job("new", "y");
    SHOWS("  new *  1 ");
    bide *queue = open_test_queue();
    OK(bide_reserve(queue, "mail", 0, &job));
    SHOWS("reserved 1 ");
    SHOWS("  mail *  0 *  1 *  0 ");
    OK(bide_delete(queue, job.id, job.token));
    HIDES("  mail ");
    bide_job_clear(&job);
    OK(bide_pause(queue, "new", HOUR_MS));
    SHOWS("P new ");
    OK(bide_close(queue));
    pane_quit();
}

/* One job in every state: the tabs show each. */
static void jobs_are_listed_by_state(void)
{
    static const char *const bodies[] = {"is ready", "is reserved", "is delayed", "is buried",
                                         "is done"};
    uint64_t ids[COUNT(bodies)];
    bide_job job;
    server_choose(AT_MEMORY);
    bide *queue = open_test_queue();
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (size_t i = 0; i < COUNT(bodies); i++) {
        options.delay_ms = i == 2 ? HOUR_MS : 0;
        OK(bide_put(queue, "mail", bodies[i], strlen(bodies[i]), &options, &ids[i]));
    }
    OK(bide_reserve_job(queue, ids[1], &job));
    OK(bide_bury(queue, ids[3], 0, BIDE_KEEP, "it was bad"));
    OK(bide_done(queue, ids[4], 0, "the result", 10, HOUR_MS));
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail  *  1 *  1 *  1 *  1 *  1 ");
    pane_keys("Enter");
    SHOWS("ready 1  reserved 1  delayed 1  buried 1  done 1");
    for (size_t i = 0; i < COUNT(bodies); i++) {
        SHOWS(bodies[i]);
        pane_keys(i % 2 == 0 ? "Tab" : "Right");
        HIDES(bodies[i]);
    }
    pane_keys("BTab");
    SHOWS("is done");
    pane_keys("Enter");
    SHOWS("result: 10 bytes");
    SHOWS("the result");
    pane_keys("q Left Enter");
    SHOWS("is buried");
    pane_keys("Enter");
    SHOWS("last error: 10 bytes");
    SHOWS("it was bad");
    SHOWS("attempt 0 was buried: 10 bytes");
    pane_keys("q q");
    SHOWS("bide top");
    pane_quit();
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void a_rejected_action_is_reported(void)
{
    bide_job job;
    server_choose(AT_MEMORY);
    put_job("mail", "the body");
    bide *queue = open_test_queue();
    OK(bide_reserve(queue, "mail", 0, &job));
    pane_begin(80, 24, FLAGS " --sort reserved");
    SHOWS("  mail  *  0 *  1 ");
    pane_keys("Enter");
    SHOWS("the body");
    pane_keys("d y");
    SHOWS("Refused: job 1 *reserved");
    pane_keys("b y");
    SHOWS("Refused: job 1 *reserved");
    pane_keys("Enter");
    SHOWS("lease ends in ");
    OK(bide_delete(queue, job.id, job.token));
    SHOWS("job 1 is gone");
    pane_keys("n y");
    SHOWS("Refused: *1");
    pane_keys("q q");
    SHOWS("bide top");
    pane_quit();
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void a_long_body_is_scrolled_through(void)
{
    char body[3000] = "";
    server_choose(AT_MEMORY);
    for (int i = 0; i < 200; i++)
        snprintf(body + strlen(body), 20, "line %d\n", i);
    put_job("mail", body);
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    pane_keys("Enter");
    SHOWS("line 0 line 1");
    pane_keys("Enter");
    SHOWS("lines 1-22 of ");
    pane_keys("End");
    SHOWS("line 199");
    pane_keys("PPage");
    HIDES("line 199");
    SHOWS("line 177");
    pane_keys("Home");
    SHOWS("topic  *mail");
    pane_keys("NPage Down");
    SHOWS("lines 24-45 of ");
    pane_keys("q q");
    SHOWS("bide top");
    pane_quit();
}

/* Bytes that would clear the screen, ring and rename the window are shown, not done. */
static void terminal_escapes_in_bodies_are_harmless(void)
{
    static const char steering[] = "start\x1b[2J\x1b]0;title\x07\rend",
                      binary[] = "\x00\xff\x1b[2J";
    server_choose(AT_MEMORY);
    bide *queue = open_test_queue();
    OK(bide_put(queue, "mail", steering, sizeof(steering) - 1, NULL, NULL));
    OK(bide_put(queue, "mail", binary, sizeof(binary) - 1, NULL, NULL));
    OK(bide_close(queue));
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    pane_keys("Enter");
    SHOWS("start.*2J.*title. end");
    pane_keys("Enter");
    SHOWS("start\\\\x1b*2J\\\\x1b*0;title\\\\x07\\\\x0dend");
    pane_keys("q Down Enter");
    SHOWS("body: 6 bytes");
    SHOWS("00000000  00 ff 1b 5b 32 4a");
    pane_keys("q q");
    SHOWS("bide top");
    pane_quit();
}

static void a_long_list_is_loaded_as_it_is_scrolled(void)
{
    server_choose(AT_MEMORY);
    bide *queue = open_test_queue();
    for (int i = 0; i < 450; i++)
        OK(bide_put(queue, "mail", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail *  450 ");
    pane_keys("Enter");
    SHOWS("the first 200");
    pane_keys("End");
    SHOWS("the first 400");
    pane_keys("End");
    HIDES("the first ");
    pane_keys("End");
    SHOWS("  450  *1024 ");
    pane_keys("q");
    SHOWS("bide top");
    pane_quit();
}

/* One job each in so many topics: topic-00000, topic-00001 ... */
static void put_in_batches(bide *queue, int count)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    static char names[BIDE_BATCH_JOBS][20];
    for (int from = 0; from < count; from += BIDE_BATCH_JOBS) {
        int part = count - from < BIDE_BATCH_JOBS ? count - from : BIDE_BATCH_JOBS;
        for (int i = 0; i < part; i++) {
            snprintf(names[i], sizeof(names[i]), "topic-%05d", from + i);
            items[i] = (bide_put_item){.topic = slice_of(names[i]), .body = {"x", 1}};
        }
        OK(bide_put_many(queue, items, (size_t)part, NULL));
    }
}

static void a_thousand_topics_are_sorted_and_found(void)
{
    server_choose(AT_MEMORY);
    bide *queue = open_test_queue();
    put_in_batches(queue, 1000);
    OK(bide_put(queue, "topic-00777", "y", 1, NULL, NULL));
    OK(bide_close(queue));
    pane_begin(80, 24, FLAGS);
    SHOWS("ready 1,001 * topics 1,001");
    SHOWS("  topic-00777 *  2 ");
    EQ(pane_line("  topic-00777 "), 5);
    pane_keys("End Up");
    SHOWS("  topic-00999 ");
    pane_keys("/ 0 5 0 Enter");
    SHOWS("  topic-00050 ");
    HIDES("  topic-00999 ");
    pane_quit();
}

static void topics_beyond_the_limit_are_reported_as_left_out(void)
{
    server_choose(AT_MEMORY);
    bide *queue = open_test_queue();
    put_in_batches(queue, 20000); /* and one that is always there */
    pane_begin(80, 24, FLAGS);
    SHOWS("ready 20,000 * topics 20,001");
    SHOWS("topics the first 20,000");
    OK(bide_purge(queue, "topic-00000", BIDE_STATE_READY, NULL));
    SHOWS("topics 20,000");
    HIDES("topics the first 20,000");
    OK(bide_close(queue));
    pane_quit();
}

/* ---- workers and limits ---- */

static void workers_are_shown_with_the_jobs_that_they_hold(void)
{
    bide_worker_info info = {.name = {"web1:47", 7}, .threads = 4, .done = 17, .failed = 2};
    server_choose(AT_MEMORY);
    put_job("mail", "first body");
    put_job("mail", "second body");
    bide *queue = open_test_queue();
    OK(bide_announce(queue, &info, 3600000));
    bide_job first = reserve_by(queue, "mail", "web1:47"),
             second = reserve_by(queue, "mail", "quiet\x1b[1m");

    pane_begin(100, 30, FLAGS);
    SHOWS("  mail ");
    pane_keys("w");
    SHOWS("workers  announced 1  jobs reserved 2");
    SHOWS(" WORKER * RUN *OF *DONE FAILED *UP  JOBS");
    SHOWS(" web1:47 * 1 * 4 * 17 * 2 * mail ");
    SHOWS(" quiet.[[]1m * 1 * - * - * - * - * mail ");
    pane_keys("Enter");
    SHOWS("body: 10 bytes");
    pane_keys("q");
    SHOWS("workers  announced 1");
    pane_keys("Down Enter");
    SHOWS("body: 11 bytes");
    pane_keys("Escape");
    SHOWS("workers  announced 1");

    OK(bide_delete(queue, second.id, second.token));
    HIDES("quiet");
    SHOWS(" web1:47 ");
    OK(bide_announce(queue, &info, 0));
    SHOWS(" web1:47 * 1 * - * mail ");
    OK(bide_delete(queue, first.id, first.token));
    SHOWS("none");
    pane_keys("?");
    SHOWS("w          the workers");
    pane_keys("q q");
    SHOWS("bide top");
    bide_job_clear(&first);
    bide_job_clear(&second);
    OK(bide_close(queue));
    pane_quit();
}

/* A narrow window has the names and the jobs. */
static void workers_fit_in_a_small_window(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    bide *queue = open_test_queue();
    bide_job job = reserve_by(queue, "mail", "a-worker-with-a-very-long-name-that-is-cut");
    pane_begin(40, 10, FLAGS);
    SHOWS("  mail ");
    pane_keys("w");
    SHOWS(" a-worker-wi* 1  1 mail ");
    HIDES("DONE");
    pane_resize(100, 24);
    SHOWS("DONE");
    pane_keys("q");
    SHOWS("bide top");
    bide_job_clear(&job);
    OK(bide_close(queue));
    pane_quit();
}

static void limits_of_a_topic_are_shown(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    put_job("mail", "x");
    run_expect(0, "topic", "set", "mail", "--concurrency", "1", "--rate", "100/1m");
    bide *queue = open_test_queue();
    bide_job job = reserve_by(queue, "mail", "w");
    struct child *waits = begin("reserve", "mail", "--timeout", "forever", NULL);

    pane_begin(100, 24, FLAGS);
    SHOWS("L mail ");
    pane_keys("Enter");
    SHOWS("topic mail  concurrency 1 of 1  rate 100 per 1m  limited concurrency  waiting 1");
    OK(bide_delete(queue, job.id, job.token));
    await_end(waits, 0);
    SHOWS("topic mail  concurrency 1 of 1  rate 100 per 1m  limited concurrency  waiting 0");
    run_expect(0, "topic", "set", "mail", "--concurrency", "none", "--rate", "none");
    HIDES("concurrency");
    HIDES("waiting");
    SHOWS("topic mail");
    pane_keys("q");
    SHOWS("bide top");
    bide_job_clear(&job);
    OK(bide_close(queue));
    pane_quit();
}

static const struct test tests[] = {
    TEST(topics_are_sorted_by_every_column),
    TEST(a_filter_works_while_it_is_typed),
    TEST(the_cursor_moves_by_lines_pages_and_to_the_ends),
    TEST(help_opens_in_every_view_and_closes),
    TEST(a_frozen_view_does_not_change_until_resumed),
    TEST(keys_change_the_sample_interval),
    TEST(changes_by_other_clients_are_shown),
    TEST(jobs_are_listed_by_state),
    TEST(a_rejected_action_is_reported),
    TEST(a_long_body_is_scrolled_through),
    TEST(terminal_escapes_in_bodies_are_harmless),
    TEST(a_long_list_is_loaded_as_it_is_scrolled),
    TEST(a_thousand_topics_are_sorted_and_found),
    TEST(topics_beyond_the_limit_are_reported_as_left_out),
    TEST(workers_are_shown_with_the_jobs_that_they_hold),
    TEST(workers_fit_in_a_small_window),
    TEST(limits_of_a_topic_are_shown),
};

const struct theme top_keys_theme = {"top_keys", tests, COUNT(tests)};
