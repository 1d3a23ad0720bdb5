/* SPDX-License-Identifier: MIT */
#include "cli/by_id.h"
#include "cli/input.h"
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const char *result_text, *result_file;
static int64_t retain_ms = BIDE_KEEP;
static bide_buf *result;

static void build_op(const struct id_verb *id_verb, bide_op *op, uint64_t id, uint64_t token)
{
    (void)id_verb;
    op->kind = BIDE_OP_DONE;
    op->finish =
        (bide_finish_item){.id = id, .token = token, .buf = result, .retain_ms = retain_ms};
}

static struct id_verb id_verb = {.past_tense = "done", .build_op = build_op};

static const struct flag flags[] = {
    BI_FLAG_ID('t', "token", "TOKEN", &id_verb.token,
               "of the lease, as \"bide reserve\" printed it"),
    BI_FLAG_STRING('r', "result", "TEXT", &result_text, "keep this as its result"),
    BI_FLAG_STRING('f', "result-file", "FILE", &result_file,
                   "or what is in FILE; - is standard input"),
    BI_FLAG_DURATION(0, "retain", &retain_ms, "keep the result that long, whatever the put said"),
    BI_FLAGS_END,
};

static const char details[] =
    "The work is finished. The job and its result are kept for as long as the put said (put\n"
    "--retain), or --retain says here; without either the job is forgotten, and the result with\n"
    "it. \"bide wait\" prints a result. Without a token a job that is reserved is refused.\n"
    "\n"
    "With - the ids are lines of standard input, each with its token behind it if it has one.\n"
    "\n"
    "  bide done 12 --token 4294967301 --result 'sent' --retain 1d\n"
    "  ./resize < cat.jpg | bide done 12 --token 4294967301 --result-file -\n";

static int check(struct cli *cli)
{
    if (result_text != NULL && result_file != NULL)
        return bi_cli_usage_error(cli, "--result and --result-file are both given; choose one");
    if (result_file != NULL && strcmp(result_file, "-") == 0 && strcmp(cli->words[0], "-") == 0)
        return bi_cli_usage_error(cli, "standard input cannot be both the ids and the result");
    return bi_by_id_check(cli, &id_verb);
}

static int read_result(const struct cli *cli)
{
    bool is_input = strcmp(result_file, "-") == 0;
    int fd = is_input ? STDIN_FILENO : open(result_file, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && bi_input_read_all(fd, &result);
    int error = errno;
    if (fd >= 0 && !is_input)
        close(fd);
    if (good)
        return BI_EXIT_OK;
    if (error == EFBIG)
        return bi_cli_error(cli, BI_EXIT_REFUSED, "%.200s is more than 1 GiB", result_file);
    return bi_cli_error(cli, BI_EXIT_FAILED, "%.200s cannot be read: %s",
                        is_input ? "standard input" : result_file, strerror(error));
}

/* A result that nobody keeps is a mistake that would be noticed too late. */
static int check_retention(const struct cli *cli)
{
    bide_job job = {.id = 0};
    uint64_t id;
    if (result == NULL || retain_ms != BIDE_KEEP || strcmp(cli->words[0], "-") == 0)
        return BI_EXIT_OK;
    for (size_t i = 0; i < cli->word_count; i++) {
        if (!bi_cli_parse_id(cli, cli->words[i], &id))
            return BI_EXIT_USAGE;
        if (bide_job_stats(cli->queue, id, &job) != BIDE_OK)
            continue;
        bool kept = job.retain_ms > 0;
        bide_job_clear(&job);
        if (!kept)
            return bi_cli_error(cli, BI_EXIT_USAGE,
                                "job %llu was put without --retain, so its result would be lost; "
                                "say how long to keep it with --retain, or leave the result out",
                                (unsigned long long)id);
    }
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    int exit = id_verb.token == 0 ? BI_EXIT_OK : bi_cli_require_leases(cli);
    if (exit == BI_EXIT_OK && result_file != NULL)
        exit = read_result(cli);
    if (result_text != NULL && (result = bide_buf_new(result_text, strlen(result_text))) == NULL)
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    if (exit == BI_EXIT_OK)
        exit = check_retention(cli);
    if (exit == BI_EXIT_OK)
        exit = bi_by_id_run(cli, &id_verb);
    bide_buf_unref(result);
    return exit;
}

const struct verb bi_verb_done = {
    .name = "done",
    .group = BI_GROUP_LEASE,
    .usage = "ID...|-",
    .summary = "say that a job is done, and keep its result",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
