/* SPDX-License-Identifier: MIT */
/*
 * sqlite_owner - one process at a time, and one queue in it.
 *
 * SQLite's own locks would let a second process in, whose core would know nothing of the first. So
 * the owner holds a lock (flock) on the database file itself, through a descriptor of its own: a
 * file has one owner whatever names it has. SQLite's locks are of another kind, and do not meet it.
 *
 * Within the process the files that are owned stand in a list: a second open must not even open
 * the file, because closing that descriptor would drop SQLite's locks. A forked child closes its
 * copies of the descriptors, so that the lock ends with the owner.
 */
#include "store/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t owned_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sqlite *owned; /* linked by next_owned */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&owned_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&owned_lock);
}

static void in_child(void)
{
    for (struct sqlite *each = owned; each != NULL; each = each->next_owned)
        close(each->lock_fd);
    owned = NULL;
    pthread_mutex_unlock(&owned_lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* Who holds the lock on an inode, as the system tells it; 0 if it does not. */
static long holder_of(const struct stat *file)
{
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    long holder = 0;
    while (locks != NULL && holder == 0 && fgets(line, sizeof(line), locks) != NULL) {
        char *at = strstr(line, "FLOCK");
        char *end = at == NULL ? NULL : strstr(at, "WRITE");
        if (end == NULL)
            continue;
        long pid = strtol(end + 5, &end, 10);
        /* major:minor:inode; some file systems show another device than stat() does. */
        char *inode = strrchr(end, ':');
        if (inode != NULL && strtoull(inode + 1, NULL, 10) == (unsigned long long)file->st_ino)
            holder = pid;
    }
    if (locks != NULL)
        fclose(locks);
    return holder;
}

/* "process 4711 (bided)", as far as it is known. */
static void describe(char *who, size_t size, long pid)
{
    char path[48], name[17] = "";
    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(name, sizeof(name), file) == NULL)
            name[0] = 0;
        fclose(file);
    }
    name[strcspn(name, "\n")] = 0;
    snprintf(who, size, name[0] == 0 ? "process %ld" : "process %ld (%s)", pid, name);
}

static int refuse_second(const struct sqlite *sqlite, const struct stat *file, char *error)
{
    char who[64] = "another process";
    long pid = holder_of(file);
    if (pid > 0)
        describe(who, sizeof(who), pid);
    const char *way_out = strstr(who, "(bided)") != NULL
                              ? "go through that server, beanstalk://..., or end it first"
                              : "end that one first, or run bided on the file and let both go "
                                "through it";
    snprintf(error, BIDE_ERROR_SIZE, "open: %.80s belongs to %s; %s", sqlite->path, who, way_out);
    return BIDE_EBUSY;
}

static int cannot_open(const struct sqlite *sqlite, char *error)
{
    int code = bi_sqlite_lacks_room(errno) ? BIDE_EFULL : BIDE_EIO;
    char room[SQLITE_WAY_OUT_SIZE];
    snprintf(error, BIDE_ERROR_SIZE, "open: %.90s cannot be %s: %s%s", sqlite->path,
             errno == ENOENT || code == BIDE_EFULL ? "made" : "opened for writing", strerror(errno),
             bi_sqlite_way_out(errno, room));
    return code;
}

static bool is_owned_here(const struct stat *file)
{
    for (const struct sqlite *each = owned; each != NULL; each = each->next_owned)
        if (each->device == file->st_dev && each->inode == file->st_ino)
            return true;
    return false;
}

/* The list is locked. */
static int own(struct sqlite *sqlite, char *error)
{
    struct stat file;
    if (stat(sqlite->path, &file) == 0 && is_owned_here(&file)) {
        snprintf(error, BIDE_ERROR_SIZE,
                 "open: %.100s is open in this process already; use that queue", sqlite->path);
        return BIDE_EBUSY;
    }
    /* Jobs are for their owner, whatever the umask; SQLite gives its other files the same mode. */
    int fd = open(sqlite->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return cannot_open(sqlite, error);
    int code = BIDE_OK;
    if (fstat(fd, &file) != 0)
        code = cannot_open(sqlite, error);
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        code =
            errno == EWOULDBLOCK ? refuse_second(sqlite, &file, error) : cannot_open(sqlite, error);
    if (code != BIDE_OK) {
        close(fd);
        return code;
    }
    sqlite->lock_fd = fd;
    sqlite->device = file.st_dev;
    sqlite->inode = file.st_ino;
    sqlite->next_owned = owned;
    owned = sqlite;
    return BIDE_OK;
}

int bi_sqlite_own(struct sqlite *sqlite, char *error)
{
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&owned_lock);
    int code = own(sqlite, error);
    pthread_mutex_unlock(&owned_lock);
    return code;
}

void bi_sqlite_disown(struct sqlite *sqlite)
{
    if (sqlite->lock_fd < 0)
        return;
    pthread_mutex_lock(&owned_lock);
    struct sqlite **link = &owned;
    while (*link != NULL && *link != sqlite)
        link = &(*link)->next_owned;
    if (*link != NULL)
        *link = sqlite->next_owned;
    flock(sqlite->lock_fd, LOCK_UN); /* a child may still have a copy */
    close(sqlite->lock_fd);
    sqlite->lock_fd = -1;
    pthread_mutex_unlock(&owned_lock);
}
