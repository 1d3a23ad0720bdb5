/* SPDX-License-Identifier: MIT */
#include "cli/each.h"

#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/pipeline.h"
#include "cli/record.h"
#include "cli/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUND     256 /* ops on their way at the same time */
#define LINE_MAX_ 64  /* bytes of a line with an id and a token */

struct aimed {
    bide_op op;
    uint64_t id;
    uint64_t line; /* 0: it was a word */
};

struct round {
    const struct cli *cli;
    const struct each *each;
    struct pipeline pipeline;
    struct aimed *list;
    size_t count;
    uint64_t told, refused;
    uint64_t line; /* the last that was told */
    int exit;      /* of the first that was refused */
    bool failed;   /* for a reason that others do not escape */
};

/* ---- words ---- */

static bool reads_input(const struct cli *cli)
{
    return cli->word_count == 1 && strcmp(cli->words[0], "-") == 0;
}

int bi_each_check(const struct cli *cli, const struct each *each)
{
    uint64_t id;
    if (reads_input(cli))
        return each->token == 0 ? BI_EXIT_OK
                                : bi_cli_misused(cli, "with - the token stands behind the id in "
                                                      "each line, and there is no --token");
    for (size_t i = 0; i < cli->word_count; i++)
        if (!bi_cli_id(cli, cli->words[i], &id))
            return BI_EXIT_USAGE;
    if (each->token != 0 && cli->word_count > 1)
        return bi_cli_misused(cli, "a --token is that of one job, and there are %zu",
                              cli->word_count);
    if (each->leased && each->token == 0)
        return bi_cli_misused(cli,
                              "the --token is missing, which \"bide reserve\" printed: only "
                              "the holder of a job can %s it",
                              cli->verb->name);
    return BI_EXIT_OK;
}

/* ---- telling ---- */

void bi_each_tell(const struct each *each, const struct cli *cli, const bide_op *op, uint64_t id)
{
    (void)op;
    if (cli->json)
        bi_record_print(cli,
                        json_pack("{s:I, s:s}", "id", (json_int_t)id, "verb", cli->verb->name));
    else if (cli->out_terminal)
        printf("job %llu %s\n", (unsigned long long)id, each->did);
}

static void refuse(struct round *round, int exit)
{
    round->refused++;
    if (round->exit == BI_EXIT_OK)
        round->exit = exit;
}

/* Most sentences name the job themselves. */
static void say_refusal(struct round *round, const struct aimed *aimed)
{
    char job[40], line[40] = "", subject[80];
    const char *error = aimed->op.error;
    snprintf(job, sizeof(job), "job %llu", (unsigned long long)aimed->id);
    if (aimed->line > 0)
        snprintf(line, sizeof(line), "line %llu", (unsigned long long)aimed->line);
    if (strstr(error, job) != NULL)
        job[0] = 0;
    snprintf(subject, sizeof(subject), "%s%s%s", line, line[0] != 0 && job[0] != 0 ? ", " : "",
             job);
    if (aimed->op.status == BIDE_CANCEL_WANTED)
        error = "it is extended, but somebody wants it to stop";
    refuse(round,
           bi_cli_refused(round->cli, subject[0] == 0 ? NULL : subject, aimed->op.status, error));
}

static void tell(struct round *round, const struct aimed *aimed)
{
    const struct each *each = round->each;
    int code = aimed->op.status;
    round->told++;
    round->line = aimed->line;
    if (code == BIDE_OK || code == each->also_good)
        (each->tell != NULL ? each->tell : bi_each_tell)(each, round->cli, &aimed->op, aimed->id);
    if (code != BIDE_OK)
        say_refusal(round, aimed);
    round->failed = round->failed || (code < 0 && code != BIDE_EINVAL);
}

/* ---- one round ---- */

static void answered(bide_op *op)
{
    (void)op;
}

static void add(struct round *round, uint64_t id, uint64_t token, uint64_t line)
{
    struct aimed *aimed = &round->list[round->count++];
    *aimed = (struct aimed){.id = id, .line = line};
    round->each->aim(round->each, &aimed->op, id, token);
    aimed->op.done = answered;
}

static void send(struct round *round)
{
    bide_op *ops[ROUND];
    for (size_t i = 0; i < round->count; i++)
        ops[i] = &round->list[i].op;
    bi_pipeline_submit(&round->pipeline, ops, round->count);
    while (round->pipeline.flying > 0)
        bi_pipeline_wait(&round->pipeline);
    for (size_t i = 0; i < round->count; i++)
        tell(round, &round->list[i]);
    round->count = 0;
}

static bool ends(const struct round *round)
{
    return bi_interrupted() || round->failed || ferror(stdout);
}

static int run_words(struct round *round)
{
    int exit = round->each->token == 0 ? BI_EXIT_OK : bi_cli_need_leases(round->cli);
    for (size_t i = 0; exit == BI_EXIT_OK && i < round->cli->word_count && !ends(round); i++) {
        uint64_t id;
        if (!bi_cli_id(round->cli, round->cli->words[i], &id))
            return BI_EXIT_USAGE;
        add(round, id, round->each->token, 0);
        if (round->count == ROUND || i + 1 == round->cli->word_count)
            send(round);
    }
    return exit;
}

/* ---- lines ---- */

static bool read_line(bide_slice piece, uint64_t *id, uint64_t *token, char *error)
{
    char text[LINE_MAX_ + 1], reason[BI_SENTENCE_SIZE];
    if (piece.data == NULL || memchr(piece.data, 0, piece.size) != NULL)
        return bi_refuse(error, "this is no id of a job");
    memcpy(text, piece.data, piece.size);
    text[piece.size] = 0;
    char *rest, *word = strtok_r(text, " \t\r", &rest);
    if (word == NULL || !bi_read_id(word, id, reason))
        return bi_refuse(error, "\"%s\" is no id of a job", word == NULL ? "" : word);
    word = strtok_r(NULL, " \t\r", &rest);
    *token = 0;
    if (word != NULL && !bi_read_id(word, token, reason))
        return bi_refuse(error, "\"%s\" is no token", word);
    if (word != NULL && strtok_r(NULL, " \t\r", &rest) != NULL)
        return bi_refuse(error, "there is more than an id and a token");
    return true;
}

static int add_line(struct round *round, uint64_t line, bide_slice piece)
{
    char error[BI_SENTENCE_SIZE];
    uint64_t id = 0, token = 0;
    bool good = read_line(piece, &id, &token, error);
    if (good && token == 0 && round->each->leased)
        good = bi_refuse(error, "there is no token behind the id");
    if (!good) {
        round->told++;
        refuse(round, bi_cli_failed(round->cli, BI_EXIT_USAGE, "line %llu: %s",
                                    (unsigned long long)line, error));
        return BI_EXIT_OK;
    }
    int exit = token == 0 ? BI_EXIT_OK : bi_cli_need_leases(round->cli);
    if (exit == BI_EXIT_OK)
        add(round, id, token, line);
    return exit;
}

/* Does what has gathered while there is nothing to read. */
static int read_more(struct round *round, struct input *input)
{
    char none;
    if (round->count > 0 && !bi_input_waits(input))
        send(round);
    fflush(stdout);
    /* Reading nothing waits until there is something, or a signal. */
    if (ends(round) || (bi_interrupt_read(input->fd, &none, 0) < 0 && bi_interrupted()))
        return BI_EXIT_OK;
    if (bi_input_fill(input) || errno == EINTR || errno == EAGAIN)
        return BI_EXIT_OK;
    return bi_cli_failed(round->cli, BI_EXIT_FAILED, "cannot read standard input: %s",
                         strerror(errno));
}

static int run_lines(struct round *round)
{
    struct input input;
    enum bi_piece found = BI_PIECE_NONE;
    int exit = BI_EXIT_OK;
    bi_input_begin(&input, STDIN_FILENO, '\n', LINE_MAX_);
    while (exit == BI_EXIT_OK && found != BI_PIECE_END && !ends(round)) {
        bide_slice piece = {NULL, 0};
        found = bi_input_next(&input, &piece);
        if (found == BI_PIECE_NONE)
            exit = read_more(round, &input);
        else if (found == BI_PIECE_TOO_LONG)
            exit = add_line(round, input.number, (bide_slice){NULL, 0});
        else if (found == BI_PIECE_THERE && piece.size > 0)
            exit = add_line(round, input.number, piece);
        if (round->count == ROUND)
            send(round);
    }
    if (!ends(round))
        send(round);
    bi_input_end(&input);
    return exit;
}

/* ---- all ---- */

static int exit_of(const struct round *round, int exit)
{
    if (bi_interrupted()) {
        if (round->line > 0)
            bi_cli_note(round->cli, "Interrupted; all up to line %llu is done.",
                        (unsigned long long)round->line);
        return bi_interrupt_exit();
    }
    if (exit != BI_EXIT_OK || round->failed || round->told <= 1)
        return exit != BI_EXIT_OK ? exit : round->exit;
    return round->refused > 0 ? BI_EXIT_PARTLY : BI_EXIT_OK;
}

int bi_each_run(const struct cli *cli, const struct each *each)
{
    struct round round = {.cli = cli, .each = each};
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit == BI_EXIT_OK)
        exit = bi_pipeline_open(&round.pipeline, cli);
    if (exit != BI_EXIT_OK)
        return exit;
    round.list = calloc(ROUND, sizeof(*round.list));
    if (round.list == NULL)
        exit = bi_cli_failed(cli, BI_EXIT_FAILED, "out of memory");
    else
        exit = reads_input(cli) ? run_lines(&round) : run_words(&round);
    bi_pipeline_close(&round.pipeline);
    free(round.list);
    return exit_of(&round, exit);
}
