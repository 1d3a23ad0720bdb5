/* SPDX-License-Identifier: MIT */
#include "cli/account.h"
#include "cli/deliver.h"
#include "cli/import.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/record.h"
#include "cli/source.h"
#include "cli/verb.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool dry_run;
static bool lossy;
static uint64_t from_line;

static const struct flag flags[] = {
    BI_FLAG_ON('n', "dry-run", &dry_run, "only check what is in it; nothing is changed"),
    BI_FLAG_COUNT(0, "from-line", &from_line, "leave out the lines before this one"),
    BI_FLAG_ON(0, "lossy", &lossy, "to a beanstalkd: leave out what it has no word for"),
    BI_FLAGS_END,
};

/* What was read, on its way into the queue. */
struct importer {
    struct cli *cli;
    struct relay *relay;
    struct deliver deliver;
    uint64_t jobs, pauses, over, refused;
    struct account account;
    int exit;
};

/* What a job of a line points into, until its answer is there. */
struct holder {
    json_t *object;
    struct record_room room;
};

static void free_holder(struct holder *holder)
{
    if (holder == NULL)
        return;
    bi_record_room_free(&holder->room);
    json_decref(holder->object);
    free(holder);
}

static int refuse_line(struct importer *in, uint64_t line, int code, const char *sentence)
{
    char subject[40];
    snprintf(subject, sizeof(subject), "line %llu", (unsigned long long)line);
    in->refused += !bi_deliver_is_final(code);
    return bi_cli_refused(in->cli, subject, code, sentence);
}

/* What became of a line, for whoever has to go on. */
static enum bi_settled outcome_of(int code)
{
    if (code == BIDE_EUNKNOWN)
        return BI_UNSURE;
    return bi_deliver_is_final(code) ? BI_LEFT : BI_SETTLED;
}

/* Once something has ended it, what is under way is answered, too, but not worth a word. */
static void take_answer(void *user, struct piece *piece)
{
    struct importer *in = user;
    int code = piece->op.status;
    free_holder(piece->extra);
    bi_account_tell(&in->account, piece->number, outcome_of(code));
    in->jobs += code == BIDE_OK;
    if (code == BIDE_OK || in->exit != BI_EXIT_OK)
        return;
    int exit = refuse_line(in, piece->number, code, piece->op.error);
    if (bi_deliver_is_final(code))
        in->exit = exit;
}

static int add_pause(void *user, uint64_t line, const struct pause *pause)
{
    struct importer *in = user;
    bool over = false;
    if (line < from_line || dry_run)
        return BI_EXIT_OK;
    int exit = bi_pauses_set(in->cli, in->cli->queue, pause, &over);
    in->pauses += exit == BI_EXIT_OK && !over;
    return exit;
}

/* The holder is taken over. */
static int send_job(struct importer *in, uint64_t line, struct holder *holder, const bide_job *job)
{
    char error[BI_SENTENCE_SIZE];
    struct piece *piece = bi_relay_piece(in->relay, job->body_size + job->result_size);
    piece->job = *job;
    piece->number = line;
    piece->extra = holder;
    if (bi_deliver_op(&in->deliver, piece, error)) {
        bi_relay_send(in->relay);
        return in->exit;
    }
    free_holder(holder);
    refuse_line(in, line, BIDE_ENOTSUP, error);
    return in->exit;
}

static int add_job(void *user, uint64_t line, json_t *object, const bide_job *read,
                   struct record_room *room)
{
    struct importer *in = user;
    bide_job job = *read;
    if (line < from_line || dry_run)
        return BI_EXIT_OK;
    const char *over = bi_deliver_over(&job, bi_clock_wall() / 1000);
    if (over != NULL) {
        bi_cli_detail(in->cli, "line %llu: %s", (unsigned long long)line, over);
        in->over++;
        return BI_EXIT_OK;
    }
    struct holder *holder = calloc(1, sizeof(*holder));
    if (holder == NULL)
        return bi_cli_failed(in->cli, BI_EXIT_FAILED, "there is not enough memory");
    holder->object = json_incref(object);
    holder->room = *room;
    *room = (struct record_room){.parts = {NULL}};
    return send_job(in, line, holder, &job);
}

static void hurry(void *user)
{
    struct importer *in = user;
    bi_relay_hurry(in->relay);
}

/* ---- the end ---- */

static int say_json(const struct importer *in)
{
    return bi_record_print(in->cli,
                           json_pack("{s:I, s:I, s:I, s:I}", "jobs", (json_int_t)in->jobs, "pauses",
                                     (json_int_t)in->pauses, "over", (json_int_t)in->over,
                                     "refused", (json_int_t)in->refused));
}

static void say_way_on(const struct importer *in, const char *name)
{
    char rest[BI_SENTENCE_SIZE];
    bool is_file = name != NULL && strcmp(name, "-") != 0;
    unsigned long long next = in->account.sure + 1;
    bi_account_say(&in->account, "line", rest, sizeof(rest));
    bi_cli_note(in->cli,
                "every line before line %llu is in%s%s; to go on: bide import --from-line "
                "%llu%s%s",
                next, rest[0] == 0 ? "" : "; ", rest, next, is_file ? " " : "",
                is_file ? name : "");
}

static int say_end(const struct importer *in, const char *name, int exit)
{
    char jobs[32], over[32], refused[32];
    bi_print_number(jobs, in->jobs);
    bi_print_number(over, in->over);
    bi_print_number(refused, in->refused);
    bi_cli_note(in->cli, "imported %s job%s", jobs, in->jobs == 1 ? "" : "s");
    if (in->over > 0)
        bi_cli_note(in->cli, "%s left out: expired, cancelled, or no longer to be kept", over);
    if (in->refused > 0)
        bi_cli_note(in->cli, "%s refused", refused);
    if (exit != BI_EXIT_OK)
        say_way_on(in, name);
    int printed = in->cli->json ? say_json(in) : BI_EXIT_OK;
    if (exit == BI_EXIT_OK && in->refused > 0)
        exit = BI_EXIT_PARTLY;
    return exit == BI_EXIT_OK ? printed : exit;
}

/* ---- running ---- */

static int open_input(const struct cli *cli, const char *name, int *fd)
{
    struct stat status;
    *fd = name == NULL || strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, &status) != 0)
        return bi_cli_failed(cli, BI_EXIT_FAILED, "cannot read %.300s: %s", name, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return bi_cli_failed(cli, BI_EXIT_FAILED, "%.300s is a folder", name);
    return BI_EXIT_OK;
}

/* Can it be read twice? */
static bool is_rereadable(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
}

static const struct import_reader nothing = {.what = "checking"};

static int look_over(struct cli *cli, int fd)
{
    struct import_tally tally;
    int exit = bi_import_read(cli, fd, &nothing, NULL, &tally);
    if (exit == BI_EXIT_OK && dry_run) {
        char jobs[32];
        bi_print_number(jobs, tally.jobs);
        bi_cli_note(cli, "%s job%s, nothing is wrong", jobs, tally.jobs == 1 ? "" : "s");
        if (cli->json)
            exit = bi_record_print(cli, json_pack("{s:I, s:I}", "jobs", (json_int_t)tally.jobs,
                                                  "pauses", (json_int_t)tally.pauses));
    } else if (exit != BI_EXIT_OK && !dry_run) {
        bi_cli_note(cli, "nothing was imported");
    }
    return exit;
}

static int import(struct cli *cli, int fd)
{
    static const struct import_reader reader = {"importing", add_job, add_pause, hurry};
    struct importer in = {.cli = cli, .deliver = {.lossy = lossy}};
    struct import_tally tally;
    in.deliver.plain = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0;
    in.account.sure = from_line > 0 ? from_line - 1 : 0;
    in.relay = bi_relay_new(cli, cli->queue, take_answer, &in);
    if (in.relay == NULL)
        return BI_EXIT_FAILED;
    int exit = bi_import_read(cli, fd, &reader, &in, &tally);
    bi_relay_free(in.relay);
    if (in.account.range_count == 0 && tally.lines > in.account.sure)
        in.account.sure = tally.lines;
    return say_end(&in, cli->word_count > 0 ? cli->words[0] : NULL,
                   in.exit != BI_EXIT_OK ? in.exit : exit);
}

static int run(struct cli *cli)
{
    struct source target;
    int fd = -1;
    int exit = bi_interrupt_watch(cli, NULL);
    if (exit == BI_EXIT_OK)
        exit = open_input(cli, cli->word_count > 0 ? cli->words[0] : NULL, &fd);
    bool twice = exit == BI_EXIT_OK && is_rereadable(fd);
    if (exit == BI_EXIT_OK && (twice || dry_run))
        exit = look_over(cli, fd);
    if (exit == BI_EXIT_OK && twice && lseek(fd, 0, SEEK_SET) != 0)
        exit = bi_cli_failed(cli, BI_EXIT_FAILED, "cannot read it again: %s", strerror(errno));
    /* What has a key waits for the end of loading, and would come behind what has none. */
    if (exit == BI_EXIT_OK && !dry_run)
        exit = bi_source_open(&target, cli, cli->queue);
    if (exit == BI_EXIT_OK && !dry_run)
        exit = import(cli, fd);
    if (fd > STDERR_FILENO)
        close(fd);
    return exit;
}

const struct verb bi_verb_import = {
    .name = "import",
    .group = BI_GROUP_STORE,
    .usage = "[FILE]",
    .summary = "put in what an export wrote",
    .details =
        "Reads standard input without a FILE, or if it is -. Jobs keep their order and\n"
        "get new ids; a reserved one becomes ready. A file is checked as a whole before\n"
        "anything changes; a stream is taken up to the first line that is wrong. A line\n"
        "needs \"topic\" and \"body\"; what it does not say is as in a put. What is imported\n"
        "twice is there twice, unless a key is held; \"bide move\" looks what is there.\n"
        "\n"
        "  bide import jobs.jsonl\n"
        "  bide import --dry-run jobs.jsonl\n"
        "  zstdcat jobs.jsonl.zst | bide import --url sqlite:other.db\n"
        "  bide export --state buried | jq -c '.state = \"ready\"' | bide import --url URL\n",
    .flags = flags,
    .most = 1,
    .traits = BI_MAKES,
    .run = run,
};
