/* SPDX-License-Identifier: MIT */
/* schedule.c - bide schedule. */
#include "cli_test.h"

#include <bide/schedule.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A schedule that is never due in a test. */
#define YEARLY "0 0 1 1 *"

static const char *path_of(const char *name, const char *text)
{
    const char *path = test_path(name);
    write_text(path, text);
    return path;
}

static void set(const char *name)
{
    run_expect(0, "schedule", "set", name, YEARLY, "t", "body", "--zone", "UTC");
}

static json_t *got(const char *name)
{
    return json_at(run_expect(0, "schedule", "get", name, "--json")->out, 0);
}

/* ---- set, get, list, remove ---- */

static void set_says_the_zone_and_the_next_moment(void)
{
    struct child *child = run_expect(0, "schedule", "set", "report", YEARLY, "reports", "daily",
                                     "--zone", "Europe/Berlin");
    HAS(child->err, "report: next 20");
    HAS(child->err, "-01-01 00:00:00");
    HAS(child->err, "Europe/Berlin");
    SILENT(child->out);
    child = run_expect(0, "schedule", "get", "report");
    HAS(child->out, "reports");
    HAS(child->out, "daily");
    HAS(child->out, "Europe/Berlin");
    HAS(child->out, "active");
}

static void flags_are_those_of_the_definition(void)
{
    run_expect(0, "schedule", "set", "all", "every 90m", "t", "--zone", "UTC", "--late", "all",
               "--late-max", "7", "--grace", "5m", "--overlap", "skip", "--jitter", "2s", "--start",
               "2100-01-01T00:00Z", "--end", "2101-01-01T00:00Z", "--paused", "--priority", "3",
               "--delay", "4s", "--ttr", "5s", "--key", "k", "--key-hold-retained", "--retries",
               "6", "--backoff", "8s", "--backoff-max", "9s", "--expires-in", "10s", "--retain",
               "11s");
    json_t *all = got("all");
    TEXT(text_in(all, "misfire"), strlen(text_in(all, "misfire")), "all");
    TEXT(text_in(all, "overlap"), strlen(text_in(all, "overlap")), "skip");
    TEXT(text_in(all, "state"), strlen(text_in(all, "state")), "paused");
    EQ(number_in(all, "misfire_max"), 7);
    EQ(number_in(all, "grace_ms"), 300000);
    EQ(number_in(all, "jitter_ms"), 2000);
    EQ(number_in(all, "start_at_ms"), INT64_C(4102444800000));
    EQ(number_in(all, "end_at_ms"), INT64_C(4133980800000));
    EQ(number_in(all, "priority"), 3);
    EQ(number_in(all, "delay_ms"), 4000);
    EQ(number_in(all, "ttr_ms"), 5000);
    EQ(number_in(all, "max_retries"), 6);
    EQ(number_in(all, "backoff_base_ms"), 8000);
    EQ(number_in(all, "backoff_max_ms"), 9000);
    EQ(number_in(all, "expires_in_ms"), 10000);
    EQ(number_in(all, "retain_ms"), 11000);
    set("plain");
    EQ(number_in(got("plain"), "max_retries"), 25);
    EQ(number_in(got("plain"), "fallbacks"), 1);
    run_expect(0, "schedule", "set", "none", YEARLY, "t", "--ttr", "0", "--retries", "unlimited",
               "--backoff", "0", "--retain", "0", "--expires-in", "0");
    json_t *none = got("none");
    EQ(number_in(none, "ttr_ms"), 0);
    EQ(number_in(none, "max_retries"), -1);
    EQ(number_in(none, "backoff_base_ms"), 0);
    EQ(number_in(none, "retain_ms"), 0);
    EQ(number_in(none, "expires_in_ms"), 0);
    CHECK(json_object_get(none, "backoff_max_ms") == NULL);
    HAS(run_expect(0, "schedule", "get", "none")->out, "unlimited");
}

static void policy_of_the_topic_wins(void)
{
    char id[30];
    run_expect(0, "topic", "set", "t", "--retries", "3", "--retain", "1h");
    set("a");
    struct child *child = run_expect(0, "schedule", "run", "a");
    snprintf(id, sizeof id, "%d", atoi(child->out.text));
    json_t *job = json_at(run_expect(0, "job", id, "--json")->out, 0);
    EQ(number_in(job, "max_retries"), 3);
    EQ(number_in(job, "retain_ms"), 3600000);
}

static void start_and_end_are_in_the_zone(void)
{
    run_expect(0, "schedule", "set", "a", "@daily", "t", "--start", "2100-01-01 09:00", "--end",
               "2101-01-01", "--zone", "Asia/Tokyo");
    json_t *a = got("a");
    EQ(number_in(a, "start_at_ms"), INT64_C(4102444800000));
    EQ(number_in(a, "end_at_ms"), INT64_C(4133948400000));
    struct child *child = run_expect(0, "schedule", "next", "@hourly", "-n", "1", "--zone",
                                     "+05:00", "--start", "2100-01-01 05:00", "--json");
    EQ(number_in(json_at(child->out, 0), "at_ms"), INT64_C(4102444800000));
    HAS(run_expect(2, "schedule", "set", "a", "@daily", "t", "--start", "soon")->err,
        "--start: \"soon\"");
    HAS(run_expect(2, "schedule", "set", "a", "@daily", "t", "--end", "9:00", "--zone", "X/Y")->err,
        "X/Y");
}

static void list_is_sorted_by_name(void)
{
    SILENT(run_expect(0, "schedule", "list", "--json")->out);
    set("b");
    set("a");
    set("c");
    json_t *list = json_of(run_expect(0, "schedule", "list", "--json")->out);
    EQ(json_array_size(list), 3);
    const char *first = text_in(json_array_get(list, 0), "name");
    TEXT(first, strlen(first), "a");
    struct child *child = run_expect(0, "schedule", "list");
    HAS(child->out, YEARLY);
    EQ(LINES(child->out), 4);
}

static void list_tells_that_all_schedules_are_paused(void)
{
    set("a");
    SILENT(run_expect(0, "schedule", "list")->err);
    HAS(run_expect(0, "pause", BIDE_SCHEDULE_TOPIC)->err, "bide resume '$schedules'");
    HAS(run_expect(0, "schedule", "list")->err, "topic $schedules is paused (forever)");
    run_expect(0, "resume", BIDE_SCHEDULE_TOPIC);
    SILENT(run_expect(0, "schedule", "list")->err);
}

/* On a file schedules run only while a worker has it open. kick makes the job of a schedule ready. */
static void list_tells_that_nothing_runs_schedules(void)
{
    char url[PATH_MAX + 10];
    snprintf(url, sizeof url, "sqlite:%s", test_path("idle.db"));
    use_url(url);
    set("a");
    SILENT(run_expect(0, "schedule", "list")->err);
    run_expect(0, "kick", BIDE_SCHEDULE_TOPIC, "--delayed");
    HAS(run_expect(0, "schedule", "list")->err, "no bided and no worker runs them");
}

static void removed_schedules_are_gone(void)
{
    set("a");
    set("b");
    HAS(run_expect(7, "schedule", "remove", "a", "none", "b")->err,
        "there is no schedule \"none\"");
    HAS(run_expect(3, "schedule", "get", "a")->err, "there is no schedule \"a\"");
    run_expect(3, "schedule", "remove", "b");
    run_expect(3, "schedule", "pause", "b");
    run_expect(3, "schedule", "run", "b");
    run_expect(3, "schedule", "next", "b");
}

static void pause_and_resume_change_the_state(void)
{
    set("a");
    HAS(run_expect(0, "schedule", "pause", "a")->err, "a is paused");
    TEXT(text_in(got("a"), "state"), 6, "paused");
    run_expect(0, "schedule", "resume", "a");
    TEXT(text_in(got("a"), "state"), 6, "active");
}

static void run_prints_the_id_of_a_job(void)
{
    set("a");
    struct child *child = run_expect(0, "schedule", "run", "a");
    json_t *job = json_at(run_expect(0, "peek", "t", "--json")->out, 0);
    EQ(number_in(job, "id"), atoll(child->out.text));
    TEXT(text_in(job, "body"), 4, "body");
    TEXT(text_in(job, "key"), 4, "a@20");
}

static void body_may_be_a_file(void)
{
    run_expect_input(0, "from input", "schedule", "set", "a", YEARLY, "t", "--file", "-");
    TEXT(text_in(got("a"), "body"), 10, "from input");
    run_expect(0, "schedule", "set", "a", YEARLY, "t", "--file", path_of("body", "of a file"));
    TEXT(text_in(got("a"), "body"), 9, "of a file");
    HAS(run_expect(1, "schedule", "set", "a", YEARLY, "t", "--file", "/nowhere")->err, "/nowhere");
}

static void lines_of_json_are_set(void)
{
    run_expect_input(0,
                     "{\"name\":\"a\",\"when\":\"@yearly\",\"topic\":\"t\",\"ttr\":\"5m\"}\n\n"
                     "{\"name\":\"b\",\"when\":\"@yearly\",\"topic\":\"t\",\"body\":\"x\"}\n",
                     "schedule", "set", "-");
    EQ(number_in(got("a"), "ttr_ms"), 300000);
    TEXT(text_in(got("b"), "body"), 1, "x");
    HAS(run_expect_input(2, "{\"name\":\"c\",\"when\":\"@yearly\",\"topic\":\"t\"}\nno\n",
                         "schedule", "set", "-")
            ->err,
        "line 2");
    run_expect(3, "schedule", "get", "c");
}

static void invalid_arguments_are_rejected(void)
{
    HAS(run_expect(2, "schedule")->err, "missing argument: bide schedule set, get, list");
    HAS(run_expect(2, "schedule", "sett", "a")->err, "did you mean \"set\"");
    HAS(run_expect(2, "schedule", "set", "a", YEARLY)->err, "NAME WHEN TOPIC");
    HAS(run_expect(2, "schedule", "set", "a b", YEARLY, "t")->err, "the name must be");
    HAS(run_expect(2, "schedule", "set", "a", "61 * * * *", "t")->err, "61");
    HAS(run_expect(2, "schedule", "set", "a", YEARLY, "t", "--zone", "Mars/X")->err, "Mars/X");
    HAS(run_expect(2, "schedule", "set", "a", YEARLY, "t", "--key", "k")->err, "overlap");
    HAS(run_expect(2, "schedule", "set", "a", YEARLY, "t", "--late", "maybe")->err, "once, skip");
    HAS(run_expect(2, "schedule", "set", "a", YEARLY, "t", "--overlap", "x")->err, "allow, skip");
    HAS(run_expect(2, "schedule", "set", "a", YEARLY, "t", "--late-max", "1001")->err,
        "--late-max: from 1 to 1000");
    run_expect(2, "schedule", "set", "a", YEARLY, "t", "--late-max", "4294967297");
    HAS(run_expect(2, "schedule", "set", "a", YEARLY, "t", "--zone", "+2")->err, "\"+2\"");
    HAS(run_expect(2, "schedule", "set", "a", YEARLY, "t", "b", "-f", "-")->err, "both given");
    HAS(run_expect(2, "schedule", "set", "a", "0 0 30 2 *", "t")->err, "never occurs");
    HAS(run_expect(2, "schedule", "next", "1 2 3")->err, "5 fields");
    HAS(run_expect(2, "schedule", "next", "0 0 31 2,4 *")->err, "never occurs");
    HAS(run_expect(2, "schedule", "next", "a", "-n", "0")->err, "--count");
    HAS(run_expect(2, "schedule", "load", "x", "--crontab")->err, "need each other");
    HAS(run_expect(2, "schedule", "get")->err, "missing argument: bide schedule get NAME\n");
    HAS(run_expect(2, "schedule", "remove")->err, "bide schedule remove NAME...");
    HAS(run_expect(2, "schedule", "load")->err, "bide schedule load FILE");
    HAS(run_expect(2, "schedule", "list", "a")->err, "\"a\": bide schedule list\n");
    HAS(run_expect(2, "schedule", "set", "a", "0", "6", "*", "*", "*", "t")->err, "quote WHEN");
    HAS(run_expect(2, "schedule", "next", "0", "6", "*", "*", "*")->err, "quote WHEN");
}

/* In particular, --dry-run must not be ignored. */
static void flags_of_other_actions_are_rejected(void)
{
    static const char *const lines[][7] = {
        {"schedule", "remove", "a", "--dry-run"},
        {"schedule", "pause", "a", "--late", "all"},
        {"schedule", "set", "b", YEARLY, "t", "--dry-run"},
        {"schedule", "set", "-", "--zone", "UTC"},
        {"schedule", "list", "--zone", "UTC"},
        {"schedule", "next", "a", "--zone", "UTC"},
        {"schedule", "next", "@daily", "-p", "5"},
        {"schedule", "run", "a", "-k", "key"},
        {"schedule", "load", "file", "--zone", "UTC"},
    };
    set("a");
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct child *child = run_expect_list_at(HERE, 2, NULL, 0, lines[i]);
        HAS(child->err, "does not apply to \"bide schedule ");
    }
    TEXT(text_in(got("a"), "state"), 6, "active");
    EQ(json_array_size(json_of(run_expect(0, "schedule", "export")->out)), 1);
}

/* ---- next ---- */

static void next_of_an_expression_needs_no_queue(void)
{
    use_url("beanstalk://127.0.0.1:1");
    struct child *child = run_expect(0, "schedule", "next", "0 0 29 2 *", "--zone", "UTC", "-n",
                                     "2", "--start", "2095-01-01T00:00Z");
    HAS(child->out, "2096-02-29 00:00:00");
    HAS(child->out, "2104-02-29 00:00:00");
    HAS(child->err, "UTC");
    child = run_expect(0, "schedule", "next", "@yearly", "--zone", "Europe/Berlin", "-n", "1",
                       "--start", "2050-06-01T00:00Z", "--json");
    json_t *moment = json_at(child->out, 0);
    EQ(number_in(moment, "at_ms"), INT64_C(2556140400000));
    TEXT(text_in(moment, "at"), 24, "2050-12-31T23:00:00.000Z");
    HAS(run_expect(0, "schedule", "next", "@daily", "--end", "2000-01-01")->err, "no more moments");
}

static void next_of_a_schedule_is_its_own(void)
{
    set("a");
    struct child *child = run_expect(0, "schedule", "next", "a", "-n", "3");
    EQ(LINES(child->out), 3);
    HAS(child->out, "-01-01 00:00:00");
}

/* ---- load and export ---- */

static const char definitions[] =
    "# a comment\n"
    "{\"name\":\"a\",\"when\":\"@yearly\",\"zone\":\"UTC\",\"topic\":\"t\",\"body\":\"1\"}\n"
    "\n"
    "{\"name\":\"b\",\"when\":\"@yearly\",\"zone\":\"UTC\",\"topic\":\"t\",\"body\":\"2\"}\n";

static void load_makes_the_queue_equal_to_a_file(void)
{
    set("b");
    set("c");
    const char *file = path_of("schedules", definitions);
    struct child *child = run_expect(0, "schedule", "load", file, "--dry-run");
    HAS(child->out, "+ a  @yearly (UTC) t\n");
    HAS(child->out, "~ b\n");
    HAS(child->out, "    body: \"body\" -> \"2\"\n");
    HAS(child->out, "- c");
    run_expect(3, "schedule", "get", "a");

    HAS(run_expect(2, "schedule", "load", file)->err, "--yes");
    HAS(run_expect(0, "schedule", "load", file, "--yes")->err, "3 schedules changed");
    json_t *list = json_of(run_expect(0, "schedule", "export")->out);
    EQ(json_array_size(list), 2);
    TEXT(text_in(json_array_get(list, 1), "body"), 1, "2");
    child = run_expect(0, "schedule", "load", file);
    SILENT(child->out);
    HAS(child->err, "are those of the file");
}

static void export_can_be_loaded(void)
{
    set("a");
    run_expect(0, "schedule", "set", "b", "every 15m", "t", "--retries", "unlimited", "--paused");
    struct child *exported = run_expect(0, "schedule", "export");
    const char *file = path_of("exported", exported->out.text);
    SILENT(run_expect(0, "schedule", "load", file)->out);
    run_expect(0, "schedule", "remove", "a", "b");
    run_expect(0, "schedule", "load", file, "--yes");
    OUTPUT_IS(run_expect(0, "schedule", "export")->out, exported->out.text);
    TEXT(text_in(got("b"), "state"), 6, "paused");
}

static void invalid_file_changes_nothing(void)
{
    set("a");
    static const struct {
        const char *text, *message;
    } files[] = {
        {"{\"name\":\"b\",\"when\":\"@yearly\",\"topic\":\"t\"}\n{\"name\":\"b\"}\n", "line 2"},
        {"{\"name\":\"b\",\"when\":\"@yearly\",\"topic\":\"t\"}\n"
         "{\"name\":\"b\",\"when\":\"@daily\",\"topic\":\"t\"}\n",
         "two schedules \"b\""},
        {"nonsense\n", "not JSON"},
        {"{\"name\":\"b\",\"when\":\"@never\",\"topic\":\"t\"}\n", "@never"},
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        struct child *child =
            run_expect(2, "schedule", "load", path_of("bad", files[i].text), "--yes");
        HAS(child->err, files[i].message);
        SILENT(child->out);
    }
    HAS(run_expect(1, "schedule", "load", "/nowhere")->err, "/nowhere");
    EQ(json_array_size(json_of(run_expect(0, "schedule", "export")->out)), 1);
}

static void crontab_is_loaded(void)
{
    const char *file = path_of("crontab", "SHELL=/bin/sh\n"
                                          "CRON_TZ=Europe/Berlin\n"
                                          "# a comment\n"
                                          "# name: report\n"
                                          "30 6 * * mon-fri  /usr/bin/report --daily 100\\%\n"
                                          "\n"
                                          "@daily\tclean up\n");
    struct child *child =
        run_expect(0, "schedule", "load", "--crontab", "--topic", "shell", file, "--yes");
    HAS(child->out, "+ report  30 6 * * mon-fri (Europe/Berlin) shell");
    json_t *list = json_of(run_expect(0, "schedule", "export")->out);
    EQ(json_array_size(list), 2);
    json_t *report = got("report");
    TEXT(text_in(report, "body"), strlen(text_in(report, "body")), "/usr/bin/report --daily 100%");
    TEXT(text_in(report, "topic"), 5, "shell");
    EQ(number_in(report, "max_retries"), 25);
    const char *name = text_in(json_array_get(list, 0), "name");
    TEXT(name, 5, "cron-");
    TEXT(text_in(json_array_get(list, 0), "body"), 8, "clean up");
    SILENT(run_expect(0, "schedule", "load", "--crontab", "--topic", "shell", file)->out);

    file = path_of("bad", "* * * * *\n");
    HAS(run_expect(2, "schedule", "load", "--crontab", "--topic", "t", file)->err, "no command");
    file = path_of("bad", "* * * * * mail%hello\n");
    HAS(run_expect(2, "schedule", "load", "--crontab", "--topic", "t", file)->err, "input after %");
    file = path_of("bad", "\n@reboot start\n");
    HAS(run_expect(2, "schedule", "load", "--crontab", "--topic", "t", file)->err, "line 2");
}

static void only_set_and_load_create_a_file(void)
{
    char url[PATH_MAX + 10];
    snprintf(url, sizeof url, "sqlite:%s", test_path("none.db"));
    use_url(url);
    const char *file = path_of("schedules", definitions);
    static const char *const actions[][2] = {{"list", NULL}, {"get", "a"},    {"remove", "a"},
                                             {"pause", "a"}, {"resume", "a"}, {"run", "a"},
                                             {"next", "a"},  {"export", NULL}};
    for (size_t i = 0; i < COUNT(actions); i++)
        HAS(run_expect(6, "schedule", actions[i][0], actions[i][1])->err, "there is no file");
    HAS(run_expect(6, "schedule", "load", file, "--dry-run")->err, "there is no file");
    CHECK(access(test_path("none.db"), F_OK) != 0);
    run_expect(0, "schedule", "load", file, "--yes");
    CHECK(access(test_path("none.db"), F_OK) == 0);
    run_expect(0, "schedule", "load", file, "--dry-run");
    snprintf(url, sizeof url, "sqlite:%s", test_path("other.db"));
    use_url(url);
    set("a");
    CHECK(access(test_path("other.db"), F_OK) == 0);
}

/* ---- jobs ---- */

/* A worker puts the jobs, also where the queue is a file. */
static void worker_runs_schedules(void)
{
    run_expect(0, "schedule", "set", "tick", "every 1s", "ticks", "tick");
    struct child *child = run_expect(0, "work", "ticks", "--count", "2", "--", "cat");
    OUTPUT_IS(child->out, "ticktick");
}

static const struct test tests[] = {
    TEST(set_says_the_zone_and_the_next_moment),
    TEST(flags_are_those_of_the_definition),
    TEST(policy_of_the_topic_wins),
    TEST(start_and_end_are_in_the_zone),
    TEST(list_is_sorted_by_name),
    TEST(list_tells_that_all_schedules_are_paused),
    TEST(list_tells_that_nothing_runs_schedules),
    TEST(removed_schedules_are_gone),
    TEST(pause_and_resume_change_the_state),
    TEST(run_prints_the_id_of_a_job),
    TEST(body_may_be_a_file),
    TEST(lines_of_json_are_set),
    TEST(invalid_arguments_are_rejected),
    TEST(flags_of_other_actions_are_rejected),
    TEST(next_of_an_expression_needs_no_queue),
    TEST(next_of_a_schedule_is_its_own),
    TEST(load_makes_the_queue_equal_to_a_file),
    TEST(export_can_be_loaded),
    TEST(invalid_file_changes_nothing),
    TEST(crontab_is_loaded),
    TEST(only_set_and_load_create_a_file),
    TEST(worker_runs_schedules),
};

const struct theme schedule_theme = {"schedule", tests, COUNT(tests)};
