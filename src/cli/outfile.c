/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* renameat2 */
#include "cli/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER ((size_t)1 << 18)

static bool is_stdout(const char *name)
{
    return name == NULL || strcmp(name, "-") == 0;
}

static int report_exists(const struct cli *cli, const char *name)
{
    return bi_cli_error(cli, BI_EXIT_USAGE,
                        "%.300s is there already; say --force to replace it, or another name",
                        name);
}

int bi_outfile_check(const struct cli *cli, const char *name, bool force)
{
    struct stat file_stat;
    if (is_stdout(name))
        return BI_EXIT_OK;
    /* A dangling link has the name, too. */
    if (stat(name, &file_stat) != 0)
        return lstat(name, &file_stat) == 0 && !force ? report_exists(cli, name) : BI_EXIT_OK;
    if (S_ISDIR(file_stat.st_mode))
        return bi_cli_error(cli, BI_EXIT_USAGE, "%.300s is a directory", name);
    return S_ISREG(file_stat.st_mode) && !force ? report_exists(cli, name) : BI_EXIT_OK;
}

/* Returns true if the open file still has the name (another process may have renamed it) and belongs to
 * this user (another owner could read or change it). */
static bool is_same_file(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && S_ISREG(opened.st_mode) &&
           opened.st_uid == geteuid() && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Returns true for an empty file or the rest of a killed export, which may be overwritten. */
static bool is_stale_part(int fd, const char *prefix)
{
    char head[64];
    ssize_t size = pread(fd, head, strlen(prefix), 0);
    return size == 0 || (size > 0 && memcmp(head, prefix, (size_t)size) == 0);
}

/* Returns why the file cannot be written; NULL: it can. A concurrent export holds the lock. */
static const char *claim_part(int fd, const struct outfile *file, const char *prefix)
{
    if (fd < 0)
        return errno == ELOOP ? "it is a link" : strerror(errno);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !is_same_file(fd, file->part_path))
        return "another process does";
    if (!is_stale_part(fd, prefix))
        return "it is there already, and nothing that was left half written";
    if (fchmod(fd, 0600) != 0)
        return strerror(errno);
    return ftruncate(fd, 0) != 0 ? strerror(errno) : NULL;
}

static int open_part(struct outfile *file, const char *prefix)
{
    if (asprintf(&file->part_path, "%s.part", file->name) < 0) {
        file->part_path = NULL;
        return bi_cli_error(file->cli, BI_EXIT_FAILED, "there is not enough memory");
    }
    int fd = open(file->part_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    const char *reason = claim_part(fd, file, prefix);
    if (reason == NULL) {
        file->to = fdopen(fd, "w");
        if (file->to != NULL)
            return BI_EXIT_OK;
        reason = strerror(errno);
        unlink(file->part_path);
    }
    bi_cli_error(file->cli, BI_EXIT_FAILED, "cannot write %.300s: %s", file->part_path, reason);
    if (fd >= 0)
        close(fd);
    return BI_EXIT_FAILED;
}

static int open_special(struct outfile *file, const char *name)
{
    file->to = fopen(name, "we");
    return file->to != NULL ? BI_EXIT_OK
                            : bi_cli_error(file->cli, BI_EXIT_FAILED, "cannot write %.300s: %s",
                                           name, strerror(errno));
}

int bi_outfile_open(struct outfile *file, const struct cli *cli, const char *name, bool force,
                    const char *prefix)
{
    struct stat file_stat;
    *file = (struct outfile){.cli = cli, .to = stdout, .force = force};
    if (is_stdout(name))
        return BI_EXIT_OK;
    if (stat(name, &file_stat) == 0 && !S_ISREG(file_stat.st_mode))
        return open_special(file, name);
    file->name = name;
    file->to = NULL;
    int exit = open_part(file, prefix);
    if (exit == BI_EXIT_OK)
        setvbuf(file->to, NULL, _IOFBF, BUFFER);
    return exit;
}

int bi_outfile_error(const struct outfile *file)
{
    if (file->to == stdout)
        return bi_cli_flush(file->cli);
    if (errno == EPIPE)
        return BI_EXIT_PIPE;
    return bi_cli_error(file->cli, BI_EXIT_FAILED, "cannot write %.300s: %s",
                        file->name == NULL ? "the output" : file->part_path, strerror(errno));
}

/* A file that was created since the check is not replaced. */
static int rename_into_place(const struct outfile *file)
{
    unsigned flags = file->force ? 0 : RENAME_NOREPLACE;
    int code = renameat2(AT_FDCWD, file->part_path, AT_FDCWD, file->name, flags);
    if (code != 0 && flags != 0 && (errno == EINVAL || errno == ENOSYS) &&
        access(file->name, F_OK) != 0)
        code = rename(file->part_path, file->name);
    if (code == 0)
        return BI_EXIT_OK;
    if (errno == EEXIST)
        return report_exists(file->cli, file->name);
    return bi_cli_error(file->cli, BI_EXIT_FAILED, "cannot give %.200s its name: %s",
                        file->part_path, strerror(errno));
}

int bi_outfile_commit(struct outfile *file)
{
    if (fflush(file->to) != 0)
        return bi_outfile_error(file);
    if (file->name == NULL)
        return BI_EXIT_OK;
    if (fsync(fileno(file->to)) != 0)
        return bi_outfile_error(file);
    int exit = rename_into_place(file);
    if (exit == BI_EXIT_OK) {
        free(file->part_path);
        file->part_path = NULL;
    }
    return exit;
}

void bi_outfile_discard(struct outfile *file)
{
    if (file->part_path != NULL && file->to != NULL)
        unlink(file->part_path);
    if (file->to != NULL && file->to != stdout)
        fclose(file->to);
    free(file->part_path);
    file->part_path = NULL;
    file->to = NULL;
}
