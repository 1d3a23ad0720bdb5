/* SPDX-License-Identifier: MIT */
/* export_import.c - export and import. */
#include "sample_queue.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *other_file(void)
{
    return url_of("other.db", "");
}

static const char *export_to_file(void)
{
    const char *path = test_path("out.jsonl");
    run_expect(0, "export", "--quiet", "--force", "--output", path);
    return path;
}

static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, (size_t)size_of(path) + 1);
    CHECK(file != NULL && text != NULL);
    CHECK(fread(text, 1, (size_t)size_of(path), file) == (size_t)size_of(path));
    fclose(file);
    return text;
}

/* How many jobs an import brings in: into a file of its own, so that nothing else is there. */
static size_t jobs_there(void)
{
    return jobs_in(exported(other_file()));
}

/* ---- export ---- */

static void an_export_has_a_line_for_each_job_in_order(void)
{
    put_job("a", "one");
    put_job("b", "two");
    put_job("a", "three");
    struct child *child = run_expect(0, "export");
    HAS(child->err, "exported 3 jobs\n");
    json_t *lines = json_of(child->out);
    EQ(json_array_size(lines), 5);
    TEXT(text_in(json_array_get(lines, 0), "kind"), 6, "export");
    TEXT(text_in(json_array_get(lines, 1), "body"), 3, "one");
    TEXT(text_in(json_array_get(lines, 2), "body"), 3, "two");
    TEXT(text_in(json_array_get(lines, 3), "body"), 5, "three");
    EQ(number_in(json_array_get(lines, 4), "jobs"), 3);
    CHECK(number_in(json_array_get(lines, 1), "id") < number_in(json_array_get(lines, 2), "id"));
}

static void an_export_is_for_its_owner_only(void)
{
    struct stat info;
    mode_t mask = umask(0);
    put_job("a", "one");
    CHECK(stat(export_to_file(), &info) == 0);
    umask(mask);
    EQ(info.st_mode & 0777, 0600);
}

/* Its owner could read what is exported, or change it on the way. */
static void an_export_is_not_written_to_a_file_of_another_user(void)
{
    const char *part = test_path("out.jsonl.part");
    write_file(part, 0, "", 0);
    if (geteuid() != 0 || chown(part, 65534, 65534) != 0)
        return;
    put_job("a", "one");
    struct child *child = run_expect(1, "export", "--output", test_path("out.jsonl"));
    HAS(child->err, "cannot write ");
    EQ(size_of(part), 0);
}

static void an_empty_queue_is_exported(void)
{
    struct child *child = run_expect(0, "export", "--quiet");
    EQ(LINES(child->out), 2);
    SILENT(child->err);
}

static void topics_and_a_state_are_chosen(void)
{
    put_job("a", "one");
    put_job("b", "two");
    put_job("c", "three");
    EQ(LINES(run_expect(0, "export", "a", "c", "a")->out), 4);
    EQ(LINES(run_expect(0, "export", "--state", "ready", "b")->out), 3);
    EQ(LINES(run_expect(0, "export", "--state", "buried")->out), 2);
    HAS(run_expect(3, "export", "nothing")->err, "there is no topic nothing\n");
    struct child *child = run_expect(3, "export", "a", "nothing", "-o", test_path("half.jsonl"));
    SILENT(child->out);
    CHECK(!file_exists(test_path("half.jsonl")));
    HAS(run_expect(2, "export", "no topic")->err, "is not a valid topic name");
    run_expect(2, "export", "--state", "strange");
}

static void file_is_replaced_only_with_the_flag(void)
{
    const char *path = test_path("kept.jsonl");
    put_job("a", "one");
    write_text(path, "mine");
    HAS(run_expect(2, "export", "-o", path)->err, "--force");
    TEXT(read_whole(path), 4, "mine");
    run_expect(0, "export", "--force", "-o", path);
    HAS(run_expect(2, "export", "-o", path)->err, "already exists");
    CHECK(!file_exists(test_path("kept.jsonl.part")));
    EQ(count_of(&(struct output){.text = read_whole(path), .size = (size_t)size_of(path)}, "\n"),
       3);
}

static void a_foreign_part_file_is_not_overwritten(void)
{
    const char *path = test_path("new.jsonl");
    write_text(test_path("new.jsonl.part"), "mine");
    HAS(run_expect(1, "export", "-o", path)->err, "is not an unfinished export");
    TEXT(read_whole(test_path("new.jsonl.part")), 4, "mine");
    write_text(test_path("new.jsonl.part"), "{\"kind\":\"export\",\"form");
    run_expect(0, "export", "-o", path);
    CHECK(!file_exists(test_path("new.jsonl.part")));
    CHECK(symlink(path, test_path("link.jsonl.part")) == 0);
    HAS(run_expect(1, "export", "-o", test_path("link.jsonl"))->err, "it is a link");
}

static void an_export_that_cannot_be_written_is_reported(void)
{
    put_job("a", "one");
    HAS(run_expect(1, "export", "-o", "/nobody/has/this")->err,
        "cannot write /nobody/has/this.part");
    run_expect(0, "export", "-o", "/dev/null");
    HAS(run_expect(1, "export", "-o", "/dev/full")->err, "No space left");
    HAS(run_expect(2, "export", "-o", test_dir())->err, "is a directory");
}

/* More than a pipe holds. */
static void closed_reader_ends_the_export_silently(void)
{
    static char body[60000];
    memset(body, 'x', sizeof(body) - 1);
    for (int i = 0; i < 20; i++)
        put_job("a", body);
    struct child *child = begin("export", NULL);
    end_input(child);
    end_output(child);
    await_end(child, 141);
    SILENT(child->err);
}

/* It may have come to its end before; then the file is complete. */
static void an_interrupted_export_leaves_no_file(void)
{
    static char body[60000];
    memset(body, 'x', sizeof(body) - 1);
    for (int i = 0; i < 20; i++)
        put_job("a", body);
    const char *path = test_path("never.jsonl");
    struct child *child = begin("export", "-o", path, NULL);
    end_input(child);
    kill(child->pid, SIGINT);
    await_end(child, ANY_CODE);
    if (child->code != 0) {
        CHECK(child->code == 130 || child->code == 256 + SIGINT);
        CHECK(!file_exists(path));
    } else {
        HAS(child->err, "exported 20 jobs");
        CHECK(file_exists(path));
    }
}

/* ---- import ---- */

static void exported_jobs_are_imported(void)
{
    if (is_plain())
        return;
    fill_sample_queue(queue_url(), 200);
    json_t *before = exported(queue_url());
    use_url(queue_url());
    const char *path = export_to_file();
    use_url(other_file());
    struct child *child = run_expect(0, "import", path);
    HAS(child->err, "imported 200 jobs\n");
    SAME(before, exported(other_file()));
}

static void export_and_import_into_the_same_queue(void)
{
    if (is_plain())
        return;
    use_url(other_file());
    fill_sample_queue(other_file(), 100);
    const char *path = export_to_file();
    json_t *before = exported(other_file());
    use_url(queue_url());
    char *text = read_whole(path);
    run_expect_input(0, text, "import");
    SAME(before, exported(queue_url()));
}

static void ready_and_delayed_jobs_are_imported_by_a_beanstalkd(void)
{
    if (!is_plain())
        return;
    run_expect_input(0, "{\"topic\":\"a\",\"body\":\"one\",\"priority\":3,\"ttr_ms\":5000}\n",
                     "import");
    struct child *child =
        run_expect_input(7,
                         "{\"topic\":\"a\",\"body\":\"two\",\"key\":\"k\"}\n"
                         "{\"topic\":\"a\",\"body\":\"three\",\"state\":\"buried\"}\n"
                         "{\"topic\":\"a\",\"body\":\"four\"}\n",
                         "import");
    HAS(child->err, "line 1: a beanstalkd cannot store its key; use --lossy");
    HAS(child->err, "line 2: it is buried");
    HAS(child->err, "imported 1 job\n");
    run_expect_input(0, "{\"topic\":\"a\",\"body\":\"two\",\"key\":\"k\"}\n", "import", "--lossy");
    EQ(count_jobs("a", BIDE_STATE_READY), 3);
}

static void a_line_needs_a_topic_and_a_body(void)
{
    struct child *child = run_expect_input(
        0, "{\"topic\":\"a\",\"body\":\"one\"}\n\n  \r\n{\"topic\":\"a\",\"body\":\"two\"}",
        "import", "--json");
    EQ(number_in(json_at(child->out, 0), "jobs"), 2);
    EQ(count_jobs("a", BIDE_STATE_READY), 2);
    HAS(run_expect_input(7, "{\"topic\":\"a\"}\n", "import")->err, "line 1: \"body\" is missing");
    HAS(run_expect_input(7, "{\"body\":\"a\"}\n", "import")->err, "line 1: \"topic\" is missing");
}

static void import_of_a_stream_stops_at_an_invalid_line(void)
{
    struct child *child = run_expect_input(7,
                                           "{\"topic\":\"a\",\"body\":\"one\"}\n"
                                           "{\"topic\":\"a\",\"bod\":\"two\"}\n"
                                           "{\"topic\":\"a\",\"body\":\"three\"}\n",
                                           "import");
    HAS(child->err, "line 2: unknown name \"bod\"");
    HAS(child->err,
        "all lines before line 2 are imported; continue with: bide import --from-line 2");
    EQ(count_jobs("a", BIDE_STATE_READY), 1);
}

static void overlong_line_is_not_read_to_its_end(void)
{
    static const char zeros[4096];
    struct child *child = begin("import", "-", NULL);
    feed(child, "{\"topic\":\"a\",\"body\":\"one\"}\n \t");
    feed_at(HERE, child, zeros, sizeof(zeros));
    await_end(child, 7);
    HAS(child->err, "line 2: not a JSON object");
    HAS(child->err,
        "all lines before line 2 are imported; continue with: bide import --from-line 2");
    EQ(count_jobs("a", BIDE_STATE_READY), 1);
}

/* The same without an op that completes meanwhile. */
static void overlong_first_line_is_not_read_to_its_end(void)
{
    struct child *child = begin("import", "-", NULL);
    feed(child, " \thello");
    await_end(child, 7);
    HAS(child->err, "line 1: not a JSON object");
}

/* A refused line behind a failure of all jobs is neither imported nor reported yet. */
static void refused_line_after_a_failure_is_not_imported(void)
{
    static char text[70300];
    if (place_kind != AT_MEMORY && place_kind != AT_SERVED_FILE)
        return;
    size_t size =
        (size_t)sprintf(text, "{\"topic\":\"a\",\"body\":\"1\"}\n{\"topic\":\"a\",\"body\":\"");
    memset(text + size, 'x', 70000);
    strcpy(text + size + 70000, "\"}\n{\"topic\":\"a\",\"body\":\"3\"}\n");
    bide *queue = open_test_queue();
    OK(bide_drain(queue, true));
    OK(bide_close(queue));

    struct child *child = run_expect_input(ANY_CODE, text, "import", "-");
    CHECK(child->code != 0 && child->code != 7);
    HAS(child->err, "line 1: ");
    LACKS(child->err, "is stored");
    HAS(child->err, "continue with: bide import --from-line 1");
}

static void leading_blanks_are_ignored(void)
{
    struct child *child = begin("import", "-", NULL);
    feed(child, "  \r\n   ");
    feed(child, "{\"topic\":\"a\",\"body\":\"one\"}  \n  ");
    end_input(child);
    await_end(child, 0);
    EQ(count_jobs("a", BIDE_STATE_READY), 1);
}

static void invalid_file_imports_nothing(void)
{
    const char *path = test_path("bad.jsonl");
    write_text(path, "{\"topic\":\"a\",\"body\":\"one\"}\n{\"topic\":\"a\",\"body\":\"tw");
    struct child *child = run_expect(7, "import", path);
    HAS(child->err, "line 2: not JSON");
    HAS(child->err, "nothing was imported");
    EQ(count_jobs("a", BIDE_STATE_READY), 0);
}

/* Wherever it was cut: within a line, or between two. */
static void truncated_export_is_rejected(void)
{
    if (is_plain())
        return;
    fill_sample_queue(queue_url(), 20);
    use_url(queue_url());
    char *text = read_whole(export_to_file());
    size_t size = strlen(text);
    const char *cut = test_path("cut.jsonl");
    use_url(other_file());
    for (size_t length = 1; length < size; length += 1 + size / 40) {
        bool whole_line = text[length - 1] == '\n';
        unlink(cut);
        write_file(cut, 0, text, length);
        struct child *child = run_expect(7, "import", cut);
        HAS(child->err, whole_line ? "the end of the export is missing" : "line ");
    }
    char *end = strstr(text, "{\"kind\":\"end\"");
    CHECK(end != NULL);
    unlink(cut);
    write_file(cut, 0, text, (size_t)(end - text));
    HAS(run_expect(7, "import", cut)->err, "the end of the export is missing");
    EQ(jobs_there(), 0);
}

static void removed_or_duplicated_line_is_noticed(void)
{
    const char *path = test_path("less.jsonl");
    write_text(path, "{\"kind\":\"export\",\"format\":1}\n"
                     "{\"topic\":\"a\",\"body\":\"one\"}\n"
                     "{\"kind\":\"end\",\"jobs\":2,\"pauses\":0}\n");
    HAS(run_expect(7, "import", path)->err, "should have 2 jobs, but has 1");
    write_text(path, "{\"kind\":\"export\",\"format\":2}\n");
    HAS(run_expect(7, "import", path)->err, "unknown export format");
    EQ(count_jobs("a", BIDE_STATE_READY), 0);
}

static void invalid_policy_in_an_export_is_rejected(void)
{
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"{\"kind\":\"policy\",\"topic\":\"a\"}\n", "nothing else"},
        {"{\"kind\":\"policy\",\"topic\":\"-\",\"policy\":{}}\n", "the name of a topic"},
        {"{\"kind\":\"policy\",\"topic\":\"a\",\"policy\":[]}\n", "is an object"},
        {"{\"kind\":\"policy\",\"topic\":\"a\",\"policy\":{\"rate\":-3}}\n", "\"rate\" must"},
        {"{\"kind\":\"policy\",\"topic\":\"a\",\"policy\":{\"rate\":\"9\"}}\n", "\"rate\" must"},
        {"{\"kind\":\"policy\",\"topic\":\"a\",\"policy\":{\"new\":1}}\n",
         "unknown setting \"new\""},
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        HAS(run_expect_input(7, bad[i].line, "import")->err, bad[i].message);
    EQ(count_jobs("a", BIDE_STATE_READY), 0);
}

static void jobs_rejected_by_the_queue_are_reported_by_line(void)
{
    if (is_plain())
        return;
    struct child *child = run_expect_input(7,
                                           "{\"topic\":\"a\",\"body\":\"one\",\"key\":\"k\"}\n"
                                           "{\"topic\":\"a\",\"body\":\"two\",\"key\":\"k\"}\n"
                                           "{\"topic\":\"a\",\"body\":\"three\"}\n",
                                           "import");
    HAS(child->err, "bide import: line 2: job 1 of topic a holds this key\n");
    HAS(child->err, "imported 2 jobs\n1 refused\n");
    EQ(count_jobs("a", BIDE_STATE_READY), 2);
}

static void a_dry_run_changes_nothing(void)
{
    const char *path = test_path("good.jsonl");
    write_text(path, "{\"topic\":\"a\",\"body\":\"one\"}\n");
    HAS(run_expect(0, "import", "--dry-run", path)->err, "1 job, nothing is wrong");
    run_expect_input(0, "{\"topic\":\"a\",\"body\":\"one\"}\n", "import", "-n");
    HAS(run_expect_input(7, "{}\n", "import", "-n")->err, "line 1: ");
    EQ(count_jobs("a", BIDE_STATE_READY), 0);
}

static void lines_before_the_given_number_are_skipped(void)
{
    run_expect_input(0, "{\"topic\":\"a\",\"body\":\"one\"}\n{\"topic\":\"a\",\"body\":\"two\"}\n",
                     "import", "--from-line", "2");
    EQ(count_jobs("a", BIDE_STATE_READY), 1);
}

static void an_interrupted_import_prints_how_to_resume(void)
{
    if (place_kind == AT_FILE) /* no other process can read it meanwhile */
        return;
    struct child *child = begin("import", "-", NULL);
    feed(child, "{\"topic\":\"a\",\"body\":\"one\"}\n{\"topic\":\"a\",\"bo");
    UNTIL(count_jobs("a", BIDE_STATE_READY) == 1);
    interrupt(child, SIGINT, 130);
    HAS(child->err, "--from-line 2\n");
    EQ(count_jobs("a", BIDE_STATE_READY), 1);
}

static void expired_results_are_skipped(void)
{
    if (is_plain())
        return;
    char line[300];
    snprintf(line, sizeof(line),
             "{\"topic\":\"a\",\"body\":\"\",\"state\":\"done\",\"created_ms\":%lld,"
             "\"age_ms\":1000,\"left_ms\":2000}\n",
             (long long)wall_ms() - 10000);
    struct child *child = run_expect_input(0, line, "import", "--json");
    EQ(number_in(json_at(child->out, 0), "over"), 1);
    EQ(number_in(json_at(child->out, 0), "jobs"), 0);
    EQ(count_jobs("a", BIDE_STATE_DONE), 0);
}

static void an_unreadable_import_file_is_reported(void)
{
    HAS(run_expect(1, "import", test_path("none.jsonl"))->err, "No such file");
    HAS(run_expect(1, "import", test_dir())->err, "is a directory");
}

/* ---- move, where the server of the place is needed ---- */

static uint64_t jobs_of(bide *queue)
{
    bide_stats stats = {.topics = 0};
    if (bide_queue_stats(queue, &stats) != BIDE_OK)
        return 0;
    return stats.jobs.delayed + stats.jobs.ready + stats.jobs.buried + stats.jobs.done;
}

static void move_continues_after_a_server_crash(void)
{
    if (place_kind != AT_SERVED_FILE)
        return;
    const char *from = strdup(other_file());
    char to[300];
    fill_sample_queue(from, 3000);
    json_t *before = exported(from);
    use_url(NULL);
    for (int round = 0; round < 3; round++) {
        snprintf(to, sizeof(to), "%s?connect_timeout=1s", queue_url());
        bide *queue = open_test_queue();
        uint64_t there = jobs_of(queue);
        struct child *child = begin("move", from, to, NULL);
        end_input(child);
        while (jobs_of(queue) == there && !is_over(child))
            nap_ms(1);
        OK(bide_close(queue));
        stop_server(SIGKILL);
        await_end(child, ANY_CODE);
        if (child->code != 0)
            HAS(child->err, "run the same command again to resume");
    }
    HAS(run_expect(0, "move", from, queue_url())->err, "3,000 verified");
    SAME(before, exported(queue_url()));
}

static const struct test tests[] = {
    TEST(an_export_has_a_line_for_each_job_in_order),
    TEST(an_export_is_for_its_owner_only),
    TEST(an_export_is_not_written_to_a_file_of_another_user),
    TEST(an_empty_queue_is_exported),
    TEST(topics_and_a_state_are_chosen),
    TEST(file_is_replaced_only_with_the_flag),
    TEST(a_foreign_part_file_is_not_overwritten),
    TEST(an_export_that_cannot_be_written_is_reported),
    TEST(closed_reader_ends_the_export_silently),
    TEST(an_interrupted_export_leaves_no_file),
    TEST(exported_jobs_are_imported),
    TEST(export_and_import_into_the_same_queue),
    TEST(ready_and_delayed_jobs_are_imported_by_a_beanstalkd),
    TEST(a_line_needs_a_topic_and_a_body),
    TEST(import_of_a_stream_stops_at_an_invalid_line),
    TEST(overlong_line_is_not_read_to_its_end),
    TEST(overlong_first_line_is_not_read_to_its_end),
    TEST(refused_line_after_a_failure_is_not_imported),
    TEST(leading_blanks_are_ignored),
    TEST(invalid_file_imports_nothing),
    TEST(truncated_export_is_rejected),
    TEST(removed_or_duplicated_line_is_noticed),
    TEST(invalid_policy_in_an_export_is_rejected),
    TEST(jobs_rejected_by_the_queue_are_reported_by_line),
    TEST(a_dry_run_changes_nothing),
    TEST(lines_before_the_given_number_are_skipped),
    TEST(an_interrupted_import_prints_how_to_resume),
    TEST(expired_results_are_skipped),
    TEST(an_unreadable_import_file_is_reported),
    TEST(move_continues_after_a_server_crash),
};

const struct theme export_import_theme = {"export_import", tests, COUNT(tests)};
