/* SPDX-License-Identifier: MIT */
/* overview.c - list, peek, job, topics, stats, ping, check and backup: what they print, and
 * where. */
#include "cli_test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- list ---- */

/* A plain beanstalkd has no list of its jobs, and that is said. */
static bool has_lists(void)
{
    if (is_plain())
        HAS(run_expect(1, "list")->err, "plain beanstalkd");
    return !is_plain();
}

static void a_list_is_by_topic_state_and_text(void)
{
    if (!has_lists())
        return;
    run_expect(0, "put", "email", "hello ada");
    run_expect(0, "put", "email", "hello bob", "--delay", "1h");
    run_expect(0, "put", "other", "hello eve");
    EQ(LINES(run_expect(0, "list", "--json")->out), 3);
    EQ(LINES(run_expect(0, "list", "email", "--json")->out), 2);
    struct child *child = run_expect(0, "list", "email", "--state", "delayed", "--json");
    EQ(LINES(child->out), 1);
    TEXT(text_in(json_at(child->out, 0), "body"), 9, "hello bob");
    OUTPUT_IS(run_expect(0, "list", "email", "--text", "ada", "--ids")->out, "1\n");
    SILENT(run_expect(3, "list", "nothing", "--ids")->out);
    SILENT(run_expect(0, "list", "email", "--older-than", "1h", "--ids")->out);
    EQ(LINES(run_expect(0, "list", "email", "--younger-than", "1h", "--ids")->out), 2);
}

static void a_list_has_a_job_by_its_key(void)
{
    if (!has_lists())
        return;
    run_expect(0, "put", "email", "one", "--key", "a");
    run_expect(0, "put", "email", "two", "--key", "b");
    OUTPUT_IS(run_expect(0, "list", "email", "--key", "b", "--ids")->out, "2\n");
    OUTPUT_IS(run_expect(0, "peek", "email", "--key", "b")->out, "two");
    run_expect(3, "peek", "email", "--key", "c");
}

static void list_continues_where_it_ended(void)
{
    static char lines[2501 * 2];
    char cursor[100] = "";
    int seen = 0;
    if (!has_lists())
        return;
    for (int i = 0; i < 2500; i++)
        memcpy(lines + 2 * i, "x\n", 3);
    run_expect_input(0, lines, "put", "email", "--lines", "--quiet");
    for (int page = 0; page < 100; page++) {
        struct child *child =
            cursor[0] == 0
                ? run_expect(0, "list", "email", "--json", "--limit", "700")
                : run_expect(0, "list", "email", "--json", "--limit", "700", "--cursor", cursor);
        json_t *last = json_at(child->out, (size_t)LINES(child->out) - 1);
        seen += LINES(child->out);
        if (json_object_get(last, "cursor") == NULL)
            break;
        seen--;
        snprintf(cursor, sizeof(cursor), "%s", text_in(last, "cursor"));
    }
    EQ(seen, 2500);
    EQ(LINES(run_expect(0, "list", "email", "--ids")->out), 2500);
}

static void a_table_is_cut_at_the_edge_of_a_terminal_only(void)
{
    static char body[301];
    if (!has_lists())
        return;
    memset(body, 'x', 300);
    put_job("email", body);
    HAS(run_expect(0, "list")->out, body);
    struct child *child = begin_on_terminal(80, 24, "list", NULL);
    await_end(child, 0);
    LACKS(child->out, body);
    HAS(child->out, "…");
}

static void a_list_of_buried_jobs_shows_the_last_error(void)
{
    if (!has_lists())
        return;
    put_job("email", "to ada");
    put_job("email", "to bob");
    run_expect(0, "bury", "1", "--reason",
               "\nno such address in all of the town\nAsked at three doors.\n");
    run_expect(0, "bury", "2");
    struct child *child = run_expect(0, "list", "--state", "buried");
    HAS(child->out, "ERROR");
    HAS(child->out, "no such address in all of the town  to ada\n");
    HAS(child->out, "  -                                   to bob\n");
    LACKS(child->out, "three doors");
    LACKS(run_expect(0, "list")->out, "ERROR");
    LACKS(run_expect(0, "list")->out, "no such address");
    child = begin_on_terminal(100, 24, "list", "--state", "buried", NULL);
    await_end(child, 0);
    HAS(child->out, "no such address in all of the…  to ada");
}

/* ---- bodies ---- */

static void a_peek_has_every_byte(void)
{
    static const char bytes[] = "\0\x1b[1m\xff\xfe\r\n";
    run_expect_bytes(0, bytes, sizeof(bytes) - 1, "put", "email");
    struct child *child = run_expect(0, "peek", "email");
    EQ(child->out.size, sizeof(bytes) - 1);
    CHECK(memcmp(child->out.text, bytes, sizeof(bytes) - 1) == 0);
    child = run_expect(0, "peek", "1");
    EQ(child->out.size, sizeof(bytes) - 1);
    json_t *job = json_at(run_expect(0, "peek", "email", "--json")->out, 0);
    EQ(number_in(job, "body_size"), sizeof(bytes) - 1);
    CHECK(strlen(text_in(job, "body_base64")) > 0);
    child = begin_on_terminal(80, 24, "peek", "email", NULL);
    await_end(child, 0);
    LACKS(child->out, "\x1b[1m\xff");
    HAS(child->out, "\\x1b[1m");
    run_expect(3, "peek", "nothing");
    run_expect(3, "peek", "77");
}

static void control_characters_do_not_reach_a_terminal(void)
{
    run_expect_bytes(0,
                     "\x1b]0;owned\x07\x9b"
                     "31m\xc2\x9b",
                     15, "put", "email");
    static const char *const verbs[] = {"list", "job", "peek"};
    for (size_t i = is_plain() ? 1 : 0; i < COUNT(verbs); i++) {
        struct child *child = begin_on_terminal(80, 24, verbs[i], i == 0 ? "email" : "1", NULL);
        await_end(child, 0);
        LACKS(child->out, "\x1b]0;");
        LACKS(child->out, "\x07");
        LACKS(child->out, "\xc2\x9b");
    }
}

/* ---- colours ---- */

static void colors_are_used_on_terminals_by_default(void)
{
    put_job("email", "x");
    LACKS(run_expect(0, "topics")->out, "\x1b[");
    HAS(run_expect(0, "topics", "--color", "always")->out, "\x1b[");
    LACKS(run_expect(0, "topics", "--color", "always", "--json")->out, "\x1b[");
    struct child *child = begin_on_terminal(80, 24, "topics", NULL);
    await_end(child, 0);
    HAS(child->out, "\x1b[");
    child = begin_on_terminal(80, 24, "topics", "--color=never", NULL);
    await_end(child, 0);
    LACKS(child->out, "\x1b[");
    set_env("NO_COLOR", "1");
    child = begin_on_terminal(80, 24, "topics", NULL);
    await_end(child, 0);
    LACKS(child->out, "\x1b[");
    set_env("NO_COLOR", NULL);
    set_env("TERM", "dumb");
    child = begin_on_terminal(80, 24, "topics", NULL);
    await_end(child, 0);
    LACKS(child->out, "\x1b[");
}

/* ---- topics and figures ---- */

static void topics_are_named_and_counted(void)
{
    put_job("email", "x");
    put_job("letters", "x");
    struct child *child = run_expect(0, "topics", "--names");
    HAS(child->out, "email\n");
    HAS(child->out, "letters\n");
    child = run_expect(0, "stats", "email");
    HAS(child->out, "ready            1\n");
    json_t *stats = json_at(run_expect(0, "stats", "--json")->out, 0);
    EQ(number_in(json_object_get(stats, "jobs"), "ready"), 2);
    run_expect(3, "stats", "nothing");
    run_expect(3, "job", "77");
    HAS(run_expect(7, "job", "1", "77")->out, "email");
}

static void many_topics_are_listed_completely(void)
{
    static char lines[600 * 40];
    size_t size = 0;
    for (int i = 0; i < 600; i++)
        size += (size_t)sprintf(lines + size, "{\"topic\":\"t%d\",\"body\":\"x\"}\n", i);
    run_expect_bytes(0, lines, size, "put", "--jsonl", "--quiet");
    struct child *child = run_expect(0, "topics", "--names");
    EQ(count_of(&child->out, "t"), 600 + count_of(&child->out, "default"));
}

/* ---- the server ---- */

static void a_ping_names_the_kind_of_server(void)
{
    struct child *child = run_expect(0, "ping");
    HAS(child->out, place_kind == AT_FILE ? "sqlite:" : is_plain() ? "beanstalkd" : "bided");
    child = run_expect(0, "ping", "--count", "3", "--interval", "10ms", "--json");
    EQ(LINES(child->out), 3);
    CHECK(number_in(json_at(child->out, 2), "round_trip_us") >= 0);
    child = begin("ping", "--count", "0", "--interval", "5ms", NULL);
    await_out(child, "\n");
    interrupt(child, SIGINT, 130);
}

static void check_of_an_intact_queue_passes(void)
{
    put_job("email", "x");
    if (is_plain()) {
        run_expect(1, "check");
        return;
    }
    json_t *check = json_at(run_expect(0, "check", "--json")->out, 0);
    CHECK(json_is_true(json_object_get(check, "good")));
    EQ(number_in(check, "damaged"), 0);
}

static void a_backup_is_a_queue_of_its_own(void)
{
    put_job("email", "hello");
    bool can = place_kind == AT_FILE || place_kind == AT_SERVED_FILE;
    struct child *child = run_expect(can ? 0 : 1, "backup", test_path("copy.db"));
    if (!can) {
        HAS(child->err, "bide backup: ");
        return;
    }
    OUTPUT_IS(run_expect(0, "peek", "email", "--url", url_of("copy.db", ""))->out, "hello");
    HAS(run_expect(2, "backup", test_path("copy.db"))->err, "already exists");
    CHECK(chdir(test_dir()) == 0);
    run_expect(0, "backup", "relative.db");
    CHECK(file_exists(test_path("relative.db")));
}

static void a_bench_leaves_nothing_behind(void)
{
    put_job("email", "hello");
    struct child *child = run_expect(0, "bench", "--jobs", "200", "--threads", "2", "--json");
    CHECK(LINES(child->out) >= 1);
    json_of(child->out);
    json_t *stats = json_at(run_expect(0, "stats", "--json")->out, 0);
    EQ(number_in(json_object_get(stats, "jobs"), "ready"), 1);
}

static const struct test tests[] = {
    TEST(a_list_is_by_topic_state_and_text),
    TEST(a_list_has_a_job_by_its_key),
    TEST(list_continues_where_it_ended),
    TEST(a_table_is_cut_at_the_edge_of_a_terminal_only),
    TEST(a_list_of_buried_jobs_shows_the_last_error),
    TEST(a_peek_has_every_byte),
    TEST(control_characters_do_not_reach_a_terminal),
    TEST(colors_are_used_on_terminals_by_default),
    TEST(topics_are_named_and_counted),
    TEST(many_topics_are_listed_completely),
    TEST(a_ping_names_the_kind_of_server),
    TEST(check_of_an_intact_queue_passes),
    TEST(a_backup_is_a_queue_of_its_own),
    TEST(a_bench_leaves_nothing_behind),
};

const struct theme overview_theme = {"overview", tests, COUNT(tests)};
