/* SPDX-License-Identifier: MIT */
/*
 * put_tell.c - what `bide put` says: ids, refusals, and how far it came.
 */
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/put_run.h"
#include "cli/record.h"
#include "cli/when.h"
#include "util/clock.h"

#include <errno.h>
#include <string.h>

/* ---- one job ---- */

static const char *unit_of(const struct put_run *run)
{
    return run->form == BI_PUT_NULLS ? "record" : "line";
}

static const char *source_of(const struct put_run *run, uint64_t number)
{
    const char *file = run->file;
    if (run->form == BI_PUT_WHOLE && run->file_count > 0)
        file = strcmp(run->files[number - 1], "-") == 0 ? NULL : run->files[number - 1];
    return file == NULL ? "standard input" : file;
}

/* "line 7", "letters.txt, line 7", "letter.txt"; "" for a body that is an argument. */
static void name_it(const struct put_run *run, uint64_t number, char *to, size_t size)
{
    if (run->form == BI_PUT_WHOLE)
        snprintf(to, size, "%.150s", run->file_count == 0 ? "" : source_of(run, number));
    else
        snprintf(to, size, "%.150s%s%s %llu", run->file == NULL ? "" : run->file,
                 run->file == NULL ? "" : ", ", unit_of(run), (unsigned long long)number);
}

static void count_refusal(struct put_run *run, int exit)
{
    run->refused++;
    if (run->exit == BI_EXIT_OK)
        run->exit = exit;
    run->stops = run->stops || run->stop_on_error;
}

void bi_put_bad(struct put_run *run, uint64_t number, const char *sentence)
{
    char name[200];
    name_it(run, number, name, sizeof(name));
    bi_progress_end(&run->progress);
    count_refusal(run, bi_cli_failed(run->cli, BI_EXIT_USAGE, "%s: %.400s",
                                     name[0] == 0 ? "the body" : name, sentence));
}

/* A body that is missing is one of several; lines that are missing may be any number. */
void bi_put_unreadable(struct put_run *run, uint64_t number, int error)
{
    if (bi_interrupted())
        return;
    bi_progress_end(&run->progress);
    int exit =
        bi_cli_failed(run->cli, BI_EXIT_FAILED, "%.200s cannot be read: %s", source_of(run, number),
                      error == EFBIG ? "it is more than 1 GiB" : strerror(error));
    if (run->form == BI_PUT_WHOLE) {
        count_refusal(run, exit);
    } else {
        run->exit = exit;
        run->failed = true;
    }
}

/* "ready now", "ready in 1h30m", "ready at 2026-12-25 00:00:00 CET". */
static void say_ready(const bide_put_options *options, char *to, size_t size)
{
    char when[BI_WHEN_SIZE];
    if (options->run_at_ms > bi_clock_wall() / 1000) {
        bi_moment_say(when, options->run_at_ms);
        snprintf(to, size, "ready at %s", when);
    } else if (options->delay_ms > 0) {
        bi_duration_say(when, options->delay_ms);
        snprintf(to, size, "ready in %s", when);
    } else {
        snprintf(to, size, "ready now");
    }
}

static void print_json(const struct put_run *run, uint64_t number, uint64_t id)
{
    json_t *object = json_pack("{s:I}", "id", (json_int_t)id);
    if (object == NULL)
        return;
    if (run->form != BI_PUT_WHOLE)
        json_object_set_new(object, unit_of(run), json_integer((json_int_t)number));
    else
        json_object_set_new(object, "topic", json_stringn(run->topic.data, run->topic.size));
    bi_record_print(run->cli, object);
}

static void print_id(struct put_run *run, uint64_t number, uint64_t id)
{
    char ready[BI_WHEN_SIZE + 16];
    if (run->waits) {
        run->ids[run->in - 1] = id;
        bi_cli_detail(run->cli, "job %llu", (unsigned long long)id);
    } else if (run->form != BI_PUT_WHOLE && !run->shows_ids) {
        return;
    } else if (run->cli->json) {
        print_json(run, number, id);
    } else if (run->form == BI_PUT_WHOLE && run->cli->out_terminal) {
        say_ready(&run->options, ready, sizeof(ready));
        printf("job %llu, %s\n", (unsigned long long)id, ready);
    } else {
        printf("%llu\n", (unsigned long long)id);
    }
}

/* Which lines are in is said at the end; that something is wrong with all of them, once. */
static void tell_failure(struct put_run *run, const struct put_answer *answer, const char *name)
{
    bi_account_tell(&run->account, answer->number,
                    answer->code == BIDE_EUNKNOWN ? BI_UNSURE : BI_LEFT);
    if (run->failed)
        return;
    run->failed = true;
    run->exit =
        bi_cli_refused(run->cli, name[0] == 0 ? NULL : name, answer->code, answer->sentence);
}

static void tell_refusal(struct put_run *run, const struct put_answer *answer, const char *name)
{
    char sentence[100];
    const char *said = answer->sentence;
    if (answer->code == BIDE_EXISTS && said[0] == 0) {
        snprintf(sentence, sizeof(sentence), "the key is held by job %llu",
                 (unsigned long long)answer->id);
        said = sentence;
    }
    bi_account_tell(&run->account, answer->number, BI_SETTLED);
    /* Cron would mail every line: that the last one is not done yet is in the exit code. */
    if (answer->code == BIDE_EXISTS && run->cli->quiet) {
        count_refusal(run, bi_cli_exit(answer->code));
        return;
    }
    /* Lines that have no options of their own fare all alike. */
    run->stops = run->stops || (answer->code == BIDE_ENOTSUP && run->form != BI_PUT_JSON);
    count_refusal(run, bi_cli_refused(run->cli, name[0] == 0 ? NULL : name, answer->code, said));
}

void bi_put_told(void *user, const struct put_answer *answer)
{
    struct put_run *run = user;
    char name[200];
    if (answer->code == BIDE_OK) {
        run->in++;
        bi_account_tell(&run->account, answer->number, BI_SETTLED);
        print_id(run, answer->number, answer->id);
        if (run->in % 256 == 0)
            bi_progress_set(&run->progress, run->in);
        return;
    }
    bi_progress_end(&run->progress);
    name_it(run, answer->number, name, sizeof(name));
    if (bi_puts_stopped(run->puts))
        tell_failure(run, answer, name);
    else
        tell_refusal(run, answer, name);
}

/* ---- how far it came ---- */

/* How the rest can be put: for lines there is a program that skips some. */
static void say_how_to_go_on(const struct put_run *run)
{
    unsigned long long first = run->account.sure + 1;
    if (!bi_account_is_clear(&run->account))
        bi_cli_note(run->cli, "Look what is in (\"bide list\") before you put the rest.");
    else if (run->form == BI_PUT_NULLS)
        bi_cli_note(run->cli, "Go on with record %llu.", first);
    else if (first > 1)
        bi_cli_note(run->cli, "Go on with: tail -n +%llu%s%s | bide put ...", first,
                    run->file == NULL ? "" : " ", run->file == NULL ? "" : run->file);
}

/* Where it ended is said with --quiet, too; but not if nobody reads what is put out. */
static void say_where(const struct put_run *run, const char *sentence)
{
    if (bi_interrupted())
        bi_cli_failed(run->cli, bi_interrupt_exit(), "interrupted; %s", sentence);
    else if (ferror(stdout))
        bi_cli_note(run->cli, "%s", sentence);
    else
        bi_cli_failed(run->cli, run->exit, "%s", sentence);
}

void bi_put_said(struct put_run *run)
{
    char rest[400] = "", sure[32], sentence[BI_SENTENCE_SIZE];
    const struct account *account = &run->account;
    const char *source = source_of(run, 0);
    bi_progress_end(&run->progress);
    if (!bi_put_ends(run) && !run->failed)
        return;
    if (!bi_account_is_clear(account))
        bi_account_say(account, unit_of(run), rest, sizeof(rest));
    bi_print_number(sure, account->sure);
    if (account->sure > 0)
        bi_refuse(sentence, "all up to %s %s of %.100s is done%s%s", unit_of(run), sure, source,
                  rest[0] == 0 ? "" : "; ", rest);
    else
        bi_refuse(sentence, "nothing of %.100s is %sin%s%s", source,
                  rest[0] == 0 ? "" : "certain to be ", rest[0] == 0 ? "" : "; ", rest);
    say_where(run, sentence);
    say_how_to_go_on(run);
}

static void say_count(const struct put_run *run)
{
    char in[32], refused[64] = "", number[32];
    double seconds = (double)(bi_clock_boot() - run->began_us) / 1e6;
    bi_print_number(in, run->in);
    bi_print_number(number, run->refused);
    if (run->refused > 0)
        snprintf(refused, sizeof(refused), ", %s refused", number);
    bi_cli_note(run->cli, "%s job%s put in %.1f s%s", in, run->in == 1 ? "" : "s", seconds,
                refused);
}

static int summary_exit(const struct put_run *run)
{
    if (bi_interrupted())
        return bi_interrupt_exit();
    if (ferror(stdout))
        return bi_cli_flush(run->cli);
    if (run->failed || run->in + run->refused <= 1)
        return run->exit;
    return run->refused > 0 ? BI_EXIT_PARTLY : BI_EXIT_OK;
}

int bi_put_summary(struct put_run *run)
{
    if (run->form != BI_PUT_WHOLE && run->cli->json && !run->shows_ids)
        bi_record_print(run->cli, json_pack("{s:I, s:I, s:I}", "put", (json_int_t)run->in,
                                            "refused", (json_int_t)run->refused, "up_to",
                                            (json_int_t)run->account.sure));
    if (run->form != BI_PUT_WHOLE)
        say_count(run);
    else if (bi_interrupted())
        bi_cli_note(run->cli,
                    run->in == 0 ? "Interrupted; nothing was put." : "Interrupted; some were put.");
    return summary_exit(run);
}

/* ---- all of it ---- */

int bi_put_run(struct put_run *run)
{
    run->began_us = bi_clock_boot();
    int exit = bi_puts_new(&run->puts, run->cli, run->topic, &run->options, bi_put_told, run);
    if (exit != BI_EXIT_OK)
        return exit;
    bi_progress_begin(&run->progress, run->cli, "putting", 0);
    bi_put_feed(run);
    bi_progress_end(&run->progress);
    exit = bi_put_summary(run);
    bi_puts_free(run->puts);
    return exit;
}
