/* SPDX-License-Identifier: MIT */
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/job_json.h"
#include "cli/long_op.h"
#include "cli/query.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Before a queue is opened, and perhaps loaded for a minute. */
static int check(struct cli *cli)
{
    struct stat existing;
    if (cli->words[0][0] == 0)
        return bi_cli_usage_error(cli, "the name of the file is empty");
    if (lstat(cli->words[0], &existing) == 0)
        return bi_cli_error(cli, BI_EXIT_USAGE,
                            "%.300s is there already, and nothing is overwritten; name a file "
                            "that does not exist",
                            cli->words[0]);
    return BI_EXIT_OK;
}

/* A server runs in another folder than we do. False with errno. */
static bool make_absolute(char *path, size_t size, const char *word)
{
    char folder[PATH_MAX] = "";
    if (word[0] != '/' && getcwd(folder, sizeof(folder)) == NULL)
        return false;
    int length = snprintf(path, size, "%s%s%s", folder, folder[0] == 0 ? "" : "/", word);
    errno = ENAMETOOLONG;
    return length > 0 && (size_t)length < size;
}

static int print_json(const struct cli *cli, json_int_t bytes)
{
    json_t *object = json_pack("{s:I}", "bytes", bytes);
    if (object != NULL &&
        !bi_job_json_set_bytes(object, "file", cli->words[0], strlen(cli->words[0]))) {
        json_decref(object);
        object = NULL;
    }
    return bi_cli_print_json(cli, object);
}

static int print_result(const struct cli *cli)
{
    struct stat file = {.st_size = 0};
    bool damaged = bi_connect_damage_count(cli->queue) > 0;
    int exit = damaged ? BI_EXIT_PARTIAL : BI_EXIT_OK;
    char size[32];
    if (stat(cli->words[0], &file) != 0)
        return bi_cli_error(cli, BI_EXIT_FAILED,
                            "%.300s was written, and is not there: %s; the server may have a "
                            "directory of its own in that place (PrivateTmp= of its unit): choose "
                            "one that both see, as /var/lib/bide",
                            cli->words[0], strerror(errno));
    if (cli->json) {
        int printed = print_json(cli, (json_int_t)file.st_size);
        return printed == BI_EXIT_OK ? exit : printed;
    }
    bi_print_size(size, (uint64_t)file.st_size);
    bi_cli_note(cli, "%s is a copy of %s, %s", cli->words[0],
                damaged ? "the file with its damage" : "all that is stored", size);
    return exit;
}

/* A copy that has begun is completed: half of one is of no use. */
static int run(struct cli *cli)
{
    static struct long_op long_op = {.op = {.kind = BIDE_OP_BACKUP}};
    static char path[PATH_MAX];
    if (!make_absolute(path, sizeof(path), cli->words[0]))
        return bi_cli_error(cli, BI_EXIT_FAILED, "%.200s: %s", cli->words[0], strerror(errno));
    long_op.op.backup.path = path;
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit == BI_EXIT_OK)
        exit = bi_long_op_submit(&long_op, cli);
    while (exit == BI_EXIT_OK && !bi_long_op_wait(&long_op, -1))
        if (bi_interrupted())
            bi_cli_note(cli, "the copy is being completed; Ctrl-C once more ends at once");
    bi_long_op_end(&long_op);
    if (exit != BI_EXIT_OK)
        return exit;
    if (long_op.op.status == BIDE_OK)
        exit = print_result(cli);
    else if (!bi_interrupted())
        exit = bi_cli_report(cli, NULL, long_op.op.status, long_op.op.error);
    return exit == BI_EXIT_OK && bi_interrupted() ? bi_interrupt_exit() : exit;
}

const struct verb bi_verb_backup = {
    .name = "backup",
    .group = BI_GROUP_STORE,
    .usage = "FILE",
    .summary = "copy all that is stored to a new file",
    .details = "The copy is a queue like the one it was made of: open it by --url sqlite:FILE.\n"
               "A file that exists is not touched. Through a server it is the server that\n"
               "writes it, as its own user, on its machine, and only for this user and root,\n"
               "at its unix socket; \"bide export\" copies all jobs from anywhere.\n"
               "\n"
               "  bide backup --url sqlite:jobs.db jobs-$(date +%F).db\n"
               "  bide backup ~/jobs.db            from the server of your own\n"
               "  bide export > jobs.jsonl         from any other\n",
    .min = 1,
    .max = 1,
    .check = check,
    .run = run,
};
