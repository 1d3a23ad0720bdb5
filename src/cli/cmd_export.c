/* SPDX-License-Identifier: MIT */
/*
 * cmd_export.c - bide export.
 *
 * A file is complete or does not exist: it is written as NAME.part and renamed when it is complete
 * and synced. Standard output and files that are not regular are written directly.
 */
#define _GNU_SOURCE /* renameat2 */
#include "cli/connect.h"
#include "cli/job_scan.h"
#include "cli/query.h"
#include "cli/transfer.h"
#include "op/job_json.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER ((size_t)1 << 18)

static bide_state state;
static const char *output;
static bool force;

static const struct flag flags[] = {
    BI_FLAG_STATE('s', "state", &state, "only jobs in this state"),
    BI_FLAG_STRING('o', "output", "FILE", &output, "write to FILE, which must not exist"),
    BI_FLAG_BOOL('f', "force", &force, "replace an existing file"),
    BI_FLAGS_END,
};

/* ---- the output ---- */

struct outfile {
    const struct cli *cli;
    FILE *to;
    const char *name; /* NULL: written directly */
    char *part_path;
};

static bool is_stdout(const char *name)
{
    return name == NULL || strcmp(name, "-") == 0;
}

static int report_exists(const struct cli *cli, const char *name)
{
    return bi_cli_error(cli, BI_EXIT_USAGE,
                        "%.300s already exists; choose another name, or replace it with --force",
                        name);
}

/* Checks that the file may be written. NULL and "-" are standard output. */
static int check_output(const struct cli *cli, const char *name)
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

/* Returns true if the open file still has the name (another process may have renamed it) and
 * belongs to this user (another owner could read or change it). */
static bool is_same_file(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && S_ISREG(opened.st_mode) &&
           opened.st_uid == geteuid() && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Returns true for an empty file or the rest of a killed export, which may be overwritten. */
static bool is_stale_part(int fd)
{
    static const char prefix[] = "{\"kind\":\"export\",";
    char head[sizeof(prefix)];
    ssize_t size = pread(fd, head, strlen(prefix), 0);
    return size == 0 || (size > 0 && memcmp(head, prefix, (size_t)size) == 0);
}

/* Returns why the file cannot be written; NULL: it can. A concurrent export holds the lock. */
static const char *claim_part(int fd, const struct outfile *file)
{
    if (fd < 0)
        return errno == ELOOP ? "it is a link" : strerror(errno);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !is_same_file(fd, file->part_path))
        return "another process does";
    if (!is_stale_part(fd))
        return "it exists, and is not an unfinished export";
    if (fchmod(fd, 0600) != 0)
        return strerror(errno);
    return ftruncate(fd, 0) != 0 ? strerror(errno) : NULL;
}

static int open_part(struct outfile *file)
{
    assert(file->name != NULL && file->to == NULL);
    if (asprintf(&file->part_path, "%s.part", file->name) < 0) {
        file->part_path = NULL;
        return bi_cli_error(file->cli, BI_EXIT_FAILED, "out of memory");
    }

    int fd = open(file->part_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    const char *reason = claim_part(fd, file);
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

static int open_output(struct outfile *file, const struct cli *cli, const char *name)
{
    struct stat file_stat;

    *file = (struct outfile){.cli = cli, .to = stdout};
    if (is_stdout(name))
        return BI_EXIT_OK;
    if (stat(name, &file_stat) == 0 && !S_ISREG(file_stat.st_mode)) {
        file->to = fopen(name, "we");
        return file->to != NULL ? BI_EXIT_OK
                                : bi_cli_error(cli, BI_EXIT_FAILED, "cannot write %.300s: %s", name,
                                               strerror(errno));
    }

    file->name = name;
    file->to = NULL;
    int exit = open_part(file);
    if (exit == BI_EXIT_OK)
        setvbuf(file->to, NULL, _IOFBF, BUFFER);
    return exit;
}

/* Returns BI_EXIT_PIPE, without a message, if the reader has gone. */
static int report_write_error(const struct outfile *file)
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
    unsigned mode = force ? 0 : RENAME_NOREPLACE;

    assert(file->name != NULL && file->part_path != NULL);
    int code = renameat2(AT_FDCWD, file->part_path, AT_FDCWD, file->name, mode);
    if (code != 0 && mode != 0 && (errno == EINVAL || errno == ENOSYS) &&
        access(file->name, F_OK) != 0)
        code = rename(file->part_path, file->name);
    if (code == 0)
        return BI_EXIT_OK;
    if (errno == EEXIST)
        return report_exists(file->cli, file->name);
    return bi_cli_error(file->cli, BI_EXIT_FAILED, "cannot give %.200s its name: %s",
                        file->part_path, strerror(errno));
}

/* Syncs the file and gives it its name. */
static int commit_output(struct outfile *file)
{
    if (fflush(file->to) != 0)
        return report_write_error(file);
    if (file->name == NULL)
        return BI_EXIT_OK;
    if (fsync(fileno(file->to)) != 0)
        return report_write_error(file);
    int exit = rename_into_place(file);
    if (exit == BI_EXIT_OK) {
        free(file->part_path);
        file->part_path = NULL;
    }
    return exit;
}

/* Removes an incomplete file; does nothing after a commit. */
static void discard_output(struct outfile *file)
{
    if (file->part_path != NULL && file->to != NULL)
        unlink(file->part_path);
    if (file->to != NULL && file->to != stdout)
        fclose(file->to);
    free(file->part_path);
    file->part_path = NULL;
    file->to = NULL;
}

/* ---- the export ---- */

struct exporter {
    struct cli *cli;
    struct outfile file;
    struct job_scan scan;
    uint64_t jobs, pauses, reserved;
};

static int check(struct cli *cli)
{
    int exit = bi_query_check_topics(cli);
    return exit == BI_EXIT_OK ? check_output(cli, output) : exit;
}

/* Takes the reference to the value. */
static int write_line(const struct exporter *out, json_t *value)
{
    if (value == NULL)
        return bi_cli_error(out->cli, BI_EXIT_FAILED, "out of memory");
    bool good = bi_job_json_write(out->file.to, value);
    json_decref(value);
    return good ? BI_EXIT_OK : report_write_error(&out->file);
}

static int write_job(void *user, bide_job *job)
{
    struct exporter *out = user;

    job->token = 0;
    int exit = write_line(out, bi_job_json_encode(job));
    if (exit == BI_EXIT_OK) {
        out->jobs++;
        out->reserved += job->state == BIDE_STATE_RESERVED;
    }
    return exit;
}

static int write_pause(struct exporter *out, const bide_topic_stats *topic)
{
    struct pause pause;

    if (!bi_transfer_get_pause(topic, &pause))
        return BI_EXIT_OK;
    out->pauses++;
    return write_line(out, bi_transfer_pause_to_json(&pause));
}

static int write_policy(struct exporter *out, const bide_topic_stats *topic)
{
    struct policy_line line;
    bool found;

    int exit = bi_transfer_get_policy(out->cli, out->cli->queue, topic, &line, &found);
    return found ? write_line(out, bi_transfer_policy_to_json(&line)) : exit;
}

static int write_topic(void *user, const bide_topic_stats *topic)
{
    struct exporter *out = user;

    if (!bi_job_scan_has_topic(&out->scan, topic->name))
        return BI_EXIT_OK;
    int exit = write_pause(out, topic);
    return exit == BI_EXIT_OK ? write_policy(out, topic) : exit;
}

/* The last line proves that the export is complete. */
static int write_all(struct exporter *out)
{
    int exit =
        write_line(out, json_pack("{s:s, s:i, s:s, s:I}", "kind", "export", "format", 1, "bide",
                                  bide_version(), "at_ms", (json_int_t)(bi_clock_wall() / 1000)));
    if (exit == BI_EXIT_OK && state == BIDE_STATE_ANY)
        exit = bi_query_each_topic(out->cli, out->cli->queue, false, write_topic, out);
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_list(&out->scan);
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_read(&out->scan, "exporting", write_job, out);
    if (exit == BI_EXIT_OK)
        exit = write_line(out, json_pack("{s:s, s:I, s:I}", "kind", "end", "jobs",
                                         (json_int_t)out->jobs, "pauses", (json_int_t)out->pauses));
    return exit == BI_EXIT_OK ? commit_output(&out->file) : exit;
}

static int print_summary(const struct exporter *out, int exit)
{
    const struct cli *cli = out->cli;

    if (exit >= BI_EXIT_INTERRUPTED && exit != BI_EXIT_PIPE)
        bi_cli_note(cli, "interrupted after %s jobs%s", bi_text_number(out->jobs).s,
                    out->file.name == NULL ? "; what was written is not complete"
                                           : "; no file was written");
    if (exit != BI_EXIT_OK)
        return exit;
    bi_cli_note(cli, "exported %s%s%s", bi_text_jobs(out->jobs).s,
                out->file.name == NULL ? "" : " to ", out->file.name == NULL ? "" : out->file.name);
    if (out->reserved > 0)
        bi_cli_note(cli, "%s of them %s reserved; an import makes %s ready",
                    bi_text_number(out->reserved).s, out->reserved == 1 ? "is" : "are",
                    out->reserved == 1 ? "it" : "them");

    bool complete = out->scan.unreadable == 0 && bi_connect_damage_count(cli->queue) == 0;
    return complete ? BI_EXIT_OK : BI_EXIT_PARTIAL;
}

static int run(struct cli *cli)
{
    struct exporter out = {.cli = cli};
    bide_topic_stats stats;

    int exit = bi_job_scan_open(&out.scan, cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;

    out.scan.topics = cli->words;
    out.scan.topic_count = cli->word_count;
    out.scan.state = state;

    /* Before anything is written: a mistyped topic must not give a copy that looks complete. */
    for (size_t i = 0; i < cli->word_count && exit == BI_EXIT_OK; i++)
        exit = bi_query_topic_stats(cli, cli->words[i], &stats);
    if (exit == BI_EXIT_OK)
        exit = open_output(&out.file, cli, output);
    if (exit == BI_EXIT_OK)
        exit = print_summary(&out, write_all(&out));
    discard_output(&out.file);
    bi_job_scan_close(&out.scan);
    return exit;
}

const struct verb bi_verb_export = {
    .name = "export",
    .usage = "[TOPIC...]",
    .summary = "write jobs as JSON lines",
    .flags = flags,
    .traits = BI_VERB_FINISH,
    .check = check,
    .run = run,
};
