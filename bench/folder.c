/* SPDX-License-Identifier: MIT */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "bench.h"

/* Everything that can be in the folder: a signal handler cannot list it. */
#define WITH_COMPANIONS(name) \
    name, name "-wal", name "-shm", name "-journal", name "-lock", name "-filler"
static const char *const files[] = {WITH_COMPANIONS("jobs.db"),
                                    WITH_COMPANIONS("raw.db"),
                                    WITH_COMPANIONS("large.db"),
                                    "bided.sock",
                                    "beanstalkd.sock",
                                    "server.log",
                                    "lock"};

static struct {
    pid_t owner; /* 0: there is no folder */
    int fd;
    char path[256];
} made;

const char *folder_sync_name(bide_sync sync)
{
    static const char *const names[] = {
        [BIDE_SYNC_FULL] = "full",
        [BIDE_SYNC_NORMAL] = "normal",
        [BIDE_SYNC_OFF] = "off",
    };

    return names[sync];
}

/* The log of beanstalkd: "binlog.1" and on, as many as there could be. Numbered by hand: snprintf()
 * is not for signal handlers. */
static void remove_binlogs(void)
{
    char name[] = "binlog.\0\0\0\0";
    char *digits = name + 7;

    for (unsigned number = 1; number < 10000; number++) {
        unsigned rest = number;
        size_t count = 1 + (number >= 10) + (number >= 100) + (number >= 1000);
        for (size_t i = count; i-- > 0; rest /= 10)
            digits[i] = (char)('0' + rest % 10);
        unlinkat(made.fd, name, 0);
    }
}

void folder_empty(void)
{
    remove_binlogs();
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        unlinkat(made.fd, files[i], 0);
}

void folder_remove(void)
{
    if (made.owner == 0 || made.owner != getpid())
        return;
    folder_empty();
    rmdir(made.path);
    close(made.fd);
    made.owner = 0;
}

static void end(int signal_number)
{
    folder_remove();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void folder_make(struct folder *folder, const char *dir, bide_sync sync)
{
    const char *temporary = getenv("TMPDIR");

    if (dir == NULL)
        dir = temporary != NULL && temporary[0] != '\0' ? temporary : "/var/tmp";
    int size = snprintf(made.path, sizeof(made.path), "%s/bide-bench-XXXXXX", dir);
    if (size < 0 || (size_t)size >= sizeof(made.path))
        fail("%s: the path is too long", dir);
    if (mkdtemp(made.path) == NULL)
        fail("%s: no folder could be made: %s", dir, strerror(errno));
    made.fd = open(made.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (made.fd < 0)
        fail("%s: %s", made.path, strerror(errno));
    made.owner = getpid();
    snprintf(folder->path, sizeof(folder->path), "%s", made.path);
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGPIPE, end);
    snprintf(folder->jobs, sizeof(folder->jobs), "%s/jobs.db", made.path);
    snprintf(folder->raw, sizeof(folder->raw), "%s/raw.db", made.path);
    snprintf(folder->large, sizeof(folder->large), "%s/large.db", made.path);
    snprintf(folder->url, sizeof(folder->url), "sqlite:%s?sync=%s", folder->jobs,
             folder_sync_name(sync));
}

uint64_t folder_free_bytes(void)
{
    struct statvfs disk;

    if (fstatvfs(made.fd, &disk) != 0)
        fail("%s: %s", made.path, strerror(errno));
    return (uint64_t)disk.f_bavail * (uint64_t)disk.f_frsize;
}

uint64_t folder_file_bytes(const char *path)
{
    struct stat file;

    return stat(path, &file) == 0 ? (uint64_t)file.st_size : 0;
}

uint64_t folder_log_bytes(const char *path)
{
    char log[600];

    snprintf(log, sizeof(log), "%s-wal", path);
    return folder_file_bytes(log);
}

void folder_sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) != 0)
        fail("%s: %s", path, strerror(errno));
    close(fd);
}
