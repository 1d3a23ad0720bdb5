/* SPDX-License-Identifier: MIT */
/*
 * sqlite_owner - one process at a time.
 *
 * SQLite's own locks would let a second process in, whose core would know nothing of the first.
 * So the owner holds a lock on a file beside the database, in which it writes its process id. The
 * lock goes with the process; the file stays, because removing it would be a race.
 */
#include "store/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int refuse_second(const struct sqlite *sqlite, int fd, char *error)
{
    char text[32] = "";
    ssize_t size = pread(fd, text, sizeof(text) - 1, 0);
    long pid = size > 0 ? strtol(text, NULL, 10) : 0;
    if (pid == (long)getpid())
        snprintf(error, BIDE_ERROR_SIZE,
                 "open: %.100s is open in this process already; use that queue", sqlite->path);
    else
        snprintf(error, BIDE_ERROR_SIZE,
                 "open: %.80s belongs to process %ld; end it, or run bided on the file and go "
                 "through it",
                 sqlite->path, pid);
    return BIDE_EBUSY;
}

static void write_pid(int fd)
{
    char text[32];
    int size = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    /* The number is for people; the lock does not depend on it. */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)size, 0) != size)
        return;
}

int bi_sqlite_own(struct sqlite *sqlite, char *error)
{
    char name[4096 + 8];
    snprintf(name, sizeof(name), "%s-lock", sqlite->path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        snprintf(error, BIDE_ERROR_SIZE, "open: the lock %.90s cannot be made: %s", name,
                 strerror(errno));
        return errno == ENOSPC ? BIDE_EFULL : BIDE_EIO;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int code = BIDE_EIO;
        if (errno == EWOULDBLOCK)
            code = refuse_second(sqlite, fd, error);
        else
            snprintf(error, BIDE_ERROR_SIZE, "open: %.90s cannot be locked: %s", name,
                     strerror(errno));
        close(fd);
        return code;
    }
    write_pid(fd);
    sqlite->lock_fd = fd;
    return BIDE_OK;
}

void bi_sqlite_disown(struct sqlite *sqlite)
{
    if (sqlite->lock_fd >= 0)
        close(sqlite->lock_fd);
    sqlite->lock_fd = -1;
}
