/* SPDX-License-Identifier: MIT */
/*
 * sqlite_lock - admits one process at a time to a file, and one queue in that process.
 *
 * The locks of SQLite would admit a second process, whose core would know nothing of the first.
 * So the owner holds an flock() on the database file itself, through its own descriptor: a file
 * has one owner whatever names it has. SQLite uses POSIX locks, which do not conflict with it.
 *
 * The process keeps a list of the files that it has locked. A second open must not even open the
 * file, because closing that descriptor would release the POSIX locks of SQLite.
 *
 * Fork       A forked child closes its copies of the descriptors, so that the lock ends with the
 *            owner. The child must not use the store. If it closes the store nevertheless, neither
 *            the file nor a descriptor of the child is affected.
 */
#include "store/sqlite.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t locked_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sqlite *locked_files; /* linked by next_locked */

static void before_fork(void)
{
    /* Held across the fork, so that the child inherits a consistent list. */
    pthread_mutex_lock(&locked_mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&locked_mutex);
}

static void after_fork_in_child(void)
{
    for (struct sqlite *entry = locked_files; entry != NULL; entry = entry->next_locked) {
        assert(entry->lock_fd >= 0 && !entry->inherited);
        close(entry->lock_fd);
        entry->lock_fd = -1; /* the child may reuse the number for another file */
        entry->inherited = true;
    }
    locked_files = NULL;
    pthread_mutex_unlock(&locked_mutex);
}

/* When the library is loaded: a fork that begins before the first open must find the handlers, too,
 * or its child may inherit a mutex that no thread unlocks. */
__attribute__((constructor)) static void register_atfork(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Returns the process that holds the lock on an inode according to /proc/locks; 0 if unknown. */
static long find_lock_holder(const struct stat *file)
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
        /* major:minor:inode. Only the inode is compared: on some file systems the device differs
         * from that of stat(). */
        char *inode = strrchr(end, ':');
        if (inode != NULL && strtoull(inode + 1, NULL, 10) == (unsigned long long)file->st_ino)
            holder = pid;
    }

    if (locks != NULL)
        fclose(locks);
    return holder;
}

/* Writes "process 4711 (bided)", or what is known of it. */
static void describe_process(char *holder_name, size_t size, long pid)
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
    snprintf(holder_name, size, name[0] == 0 ? "process %ld" : "process %ld (%s)", pid, name);
}

static int set_locked_error(const struct sqlite *sqlite, const struct stat *file, char *error)
{
    char holder_name[64] = "another process";
    long pid = find_lock_holder(file);
    if (pid > 0)
        describe_process(holder_name, sizeof(holder_name), pid);

    const char *hint = strstr(holder_name, "(bided)") != NULL
                           ? "go through that server, beanstalk://..., or end it first"
                           : "end that one first, or run bided on the file and let both go "
                             "through it";
    return bi_error_set(error, BIDE_EBUSY, "open: %.80s belongs to %s; %s", sqlite->path,
                        holder_name, hint);
}

static int set_open_error(const struct sqlite *sqlite, char *error)
{
    /* First of all: the calls below may change errno. */
    int number = errno;
    int code = bi_sqlite_is_out_of_space(number) ? BIDE_EFULL : BIDE_EIO;
    char hint_buf[BI_SQLITE_HINT_SIZE];
    return bi_error_set(error, code, "open: %.90s cannot be %s: %s%s", sqlite->path,
                        number == ENOENT || code == BIDE_EFULL ? "made" : "opened for writing",
                        strerror(number), bi_sqlite_error_hint(number, hint_buf));
}

/* Opens and locks the file, and inserts it into the list. The mutex of the list is held, so
 * that no other open of this process can come between the check and the insert. */
static int lock_file(struct sqlite *sqlite, char *error)
{
    struct stat file;
    assert(sqlite->lock_fd < 0 && !sqlite->inherited);
    const struct sqlite *other = stat(sqlite->path, &file) == 0 ? locked_files : NULL;
    while (other != NULL && (other->device != file.st_dev || other->inode != file.st_ino))
        other = other->next_locked;
    if (other != NULL)
        return bi_error_set(error, BIDE_EBUSY,
                            "open: %.100s is open in this process already; use that queue",
                            sqlite->path);

    /* Jobs are private to their owner, whatever the umask; SQLite copies the mode to its files. */
    int fd = open(sqlite->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return set_open_error(sqlite, error);

    int code = BIDE_OK;
    if (fstat(fd, &file) != 0)
        code = set_open_error(sqlite, error);
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        code = errno == EWOULDBLOCK ? set_locked_error(sqlite, &file, error)
                                    : set_open_error(sqlite, error);

    if (code != BIDE_OK) {
        close(fd);
        return code;
    }

    sqlite->lock_fd = fd;
    sqlite->device = file.st_dev;
    sqlite->inode = file.st_ino;
    sqlite->next_locked = locked_files;
    locked_files = sqlite;
    return BIDE_OK;
}

int bi_sqlite_lock_acquire(struct sqlite *sqlite, char *error)
{
    pthread_mutex_lock(&locked_mutex);
    int code = lock_file(sqlite, error);
    pthread_mutex_unlock(&locked_mutex);
    return code;
}

void bi_sqlite_lock_release(struct sqlite *sqlite)
{
    if (sqlite->lock_fd < 0)
        return;

    pthread_mutex_lock(&locked_mutex);
    struct sqlite **link = &locked_files;
    while (*link != NULL && *link != sqlite)
        link = &(*link)->next_locked;
    assert(*link == sqlite); /* it is linked as long as it has a descriptor */
    *link = sqlite->next_locked;

    /* close() is not enough: the copy of a child that was created without the fork handlers, or
     * has not run them yet, would hold the lock. */
    flock(sqlite->lock_fd, LOCK_UN);
    close(sqlite->lock_fd);
    sqlite->lock_fd = -1;

    pthread_mutex_unlock(&locked_mutex);
}
