/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* nftw */
#include "scratch.h"

#include <ftw.h>

char scratch[64];

int scratch_make(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/bide-unit-XXXXXX");
    assert_non_null(mkdtemp(scratch));
    return 0;
}

static int scratch_drop(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

int scratch_remove(void **state)
{
    (void)state;
    assert_int_equal(nftw(scratch, scratch_drop, 16, FTW_DEPTH | FTW_PHYS), 0);
    return 0;
}

const char *scratch_path(const char *name)
{
    static char rooms[4][512];
    static unsigned next;
    char *room = rooms[next++ % 4];
    snprintf(room, sizeof(rooms[0]), "%s/%s", scratch, name);
    return room;
}

const char *scratch_write(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    char above[512];
    snprintf(above, sizeof(above), "%s", path);
    for (char *slash = above + strlen(scratch) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        mkdir(above, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}
