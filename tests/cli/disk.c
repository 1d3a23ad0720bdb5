/* SPDX-License-Identifier: MIT */
/* disk.c - a disk that is full: what is said to be put is there, and the rest is told. */
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
    CHECK(umount2(place_of("disk"), MNT_DETACH) == 0);
}

static void lines_for_which_there_is_no_room_are_told_and_the_others_are_there(void)
{
    enum { LINES_PUT = 20000, LENGTH = 500 };
    if (!mount_disk()) {
        CHECK(file_exists(place_of("disk")));
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
    json_t *stats = json_at(ends(0, "stats", "--json", "--url", url)->out, 0);
    EQ(number_in(json_object_get(stats, "jobs"), "ready"), put);
    ends(0, "check", "--url", url);
    unmount_disk();
}

static const struct test tests[] = {
    TEST(lines_for_which_there_is_no_room_are_told_and_the_others_are_there),
};

const struct theme disk_theme = {"disk", tests, COUNT(tests)};
