/* SPDX-License-Identifier: MIT */
/* disk.c - a disk that is full, or a file that is damaged: what is said to be there is, and the
 * rest is told. */
#define _GNU_SOURCE /* unshare */
#include "cli_test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

/* A disk of 4 MiB in the folder of the test; false where none may be mounted. It goes with the
 * process. */
static bool mount_disk(void)
{
    const char *folder = folder_of("disk");
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("bide-cli", folder, "tmpfs", 0, "size=4m") == 0;
}

static void unmount_disk(void)
{
    CHECK(umount2(test_path("disk"), MNT_DETACH) == 0);
}

static void lines_that_exceed_the_disk_are_reported_and_the_others_stored(void)
{
    enum { LINES_PUT = 20000, LENGTH = 500 };
    if (!mount_disk()) {
        CHECK(file_exists(test_path("disk")));
        return;
    }
    char *text = malloc(LINES_PUT * (LENGTH + 1) + 1);
    CHECK(text != NULL);
    for (size_t i = 0; i < LINES_PUT; i++) {
        memset(text + i * (LENGTH + 1), 'x', LENGTH);
        text[i * (LENGTH + 1) + LENGTH] = '\n';
    }
    text[LINES_PUT * (LENGTH + 1)] = 0;
    const char *url = url_of("disk/jobs.db", "");
    struct child *child = begin("put", "email", "--lines", "--json", "--url", url, NULL);
    feed_at(HERE, child, text, strlen(text));
    end_input(child);
    await_end(child, 1);
    json_t *sum = json_at(child->out, (size_t)LINES(child->out) - 1);
    int64_t put = number_in(sum, "put");
    BETWEEN(put, 1, LINES_PUT - 1);
    EQ(number_in(sum, "up_to"), put);
    HAS(child->err, "\"code\":\"BIDE_EFULL\"");
    HAS(child->err, "; make room"); /* for the lines at hand, or for any */
    json_t *stats = json_at(run_expect(0, "stats", "--json", "--url", url)->out, 0);
    EQ(number_in(json_object_get(stats, "jobs"), "ready"), put);
    run_expect(0, "check", "--url", url);
    unmount_disk();
}

/* ---- damage ---- */

/* Three jobs, the second of which is no longer one: the URL of their file. */
static const char *make_damaged(void)
{
    static const char *const files[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-filler"};
    const char *url = url_of("jobs.db", "");
    for (size_t i = 0; i < COUNT(files); i++)
        remove(test_path(files[i]));
    run_expect_input(0, "one\ntwo\nthree\n", "put", "email", "--lines", "--quiet", "--url", url);
    SQL(test_path("jobs.db"), "UPDATE job SET state=99 WHERE id=2");
    return url;
}

static const char warning[] = "warning: 1 row or page of ";

static void a_damaged_file_is_reported_by_every_command_that_opens_it(void)
{
    static const struct {
        int code;
        const char *words[3];
    } commands[] = {
        {0, {"stats"}},  {0, {"list", "email"}}, {0, {"topics"}},
        {7, {"export"}}, {7, {"backup", NULL}},  {0, {"peek", "3"}},
    };
    for (size_t i = 0; i < COUNT(commands); i++) {
        const char *argv[8] = {"--quiet", "--url", make_damaged()};
        size_t count = 3;
        for (size_t j = 0; j < COUNT(commands[i].words) && commands[i].words[j] != NULL; j++)
            argv[count++] = commands[i].words[j];
        if (commands[i].code == 7 && strcmp(argv[3], "backup") == 0)
            argv[count++] = test_path("copy.db");
        struct child *child = run_expect_list_at(HERE, commands[i].code, NULL, 0, argv);
        HAS(child->err, warning);
        HAS(child->err, "\"damaged\"");
        HAS(child->err, "\"bide check\"");
        EQ(LINES(child->err), 1);
        EQ(NUMBER(test_path("jobs.db"), "SELECT count(*) FROM damaged"), 1);
    }
}

static void top_reports_a_damaged_file_at_its_end(void)
{
    const char *url = make_damaged();
    struct child *child = begin_on_terminal(80, 24, "top", "--url", url, NULL);
    await_out(child, "email");
    LACKS(child->out, warning);
    press(child, "q");
    await_end(child, 0);
    HAS(child->out, warning);
}

static void a_copy_of_a_damaged_file_does_not_claim_to_be_complete(void)
{
    struct child *child = run_expect(7, "backup", test_path("copy.db"), "--url", make_damaged());
    LACKS(child->err, "a copy of the queue");
    HAS(child->err, "is a copy of the damaged queue");

    const char *url = make_damaged();
    child = run_expect(7, "move", "--remove", url, url_of("other.db", ""));
    HAS(child->err, "2 removed");
    HAS(child->err, warning);
    EQ(count_of(&child->err, "warning: "), 1);

    child = run_expect(7, "export", "--json", "--quiet", "--url", make_damaged());
    const json_t *line = json_at(child->err, (size_t)LINES(child->err) - 1);
    CHECK(strstr(text_in(line, "warning"), "1 row or page of ") != NULL);
}

static const struct test tests[] = {
    TEST(lines_that_exceed_the_disk_are_reported_and_the_others_stored),
    TEST(a_damaged_file_is_reported_by_every_command_that_opens_it),
    TEST(top_reports_a_damaged_file_at_its_end),
    TEST(a_copy_of_a_damaged_file_does_not_claim_to_be_complete),
};

const struct theme disk_theme = {"disk", tests, COUNT(tests)};
