/* SPDX-License-Identifier: MIT */
/* change.c - what is done to jobs and topics from outside, without a lease. */
#include "cli_test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LACKING "the server is a plain beanstalkd, which "

/* ---- by id ---- */

static void several_jobs_are_deleted_and_unknown_ids_reported(void)
{
    for (int i = 0; i < 4; i++)
        put_job("email", "x");
    SILENT(run_expect(0, "delete", "1", "2")->out);
    EQ(count_jobs("email", BIDE_STATE_READY), 2);
    HAS(run_expect(7, "delete", "3", "77")->err, "77");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    HAS(run_expect(3, "delete", "77")->err, "77");
    run_expect(7, "delete", "77", "78");
    json_t *error = json_at(run_expect(3, "delete", "77", "--json")->err, 0);
    TEXT(text_in(error, "code"), strlen(text_in(error, "code")), "BIDE_NOT_FOUND");
    EQ(number_in(error, "exit"), 3);
}

static void ids_are_read_from_standard_input(void)
{
    static char lines[1500 * 2 + 1];
    for (int i = 0; i < 1500; i++)
        memcpy(lines + 2 * i, "x\n", 3);
    run_expect_input(0, lines, "put", "email", "--lines", "--quiet");
    if (is_plain()) {
        HAS(run_expect(1, "list", "email", "--ids")->err, LACKING);
        run_expect_input(0, "1\n2\n", "delete", "-");
        EQ(count_jobs("email", BIDE_STATE_READY), 1498);
        return;
    }
    struct child *ids = run_expect(0, "list", "email", "--ids");
    EQ(LINES(ids->out), 1500);
    run_expect_input(0, ids->out.text, "delete", "-");
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
    run_expect_input(7, "1\n2\n", "delete", "-");
    HAS(run_expect_input(2, "x\n", "delete", "-")->err, "line 1");
}

static void a_job_is_buried_and_kicked(void)
{
    put_job("email", "x");
    if (is_plain()) {
        HAS(run_expect(1, "bury", "1")->err, LACKING);
        run_expect(0, "kick", "email");
        return;
    }
    run_expect(0, "bury", "1");
    EQ(count_jobs("email", BIDE_STATE_BURIED), 1);
    OUTPUT_IS(run_expect(0, "kick", "email")->out, "1\n");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    run_expect(0, "bury", "1");
    run_expect(0, "kick", "--id", "1");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    run_expect(3, "kick", "--id", "77");
}

static void a_kick_of_a_topic_that_does_not_exist_kicks_nothing(void)
{
    struct child *child = run_expect(0, "kick", "nothing");
    OUTPUT_IS(child->out, "0\n");
    HAS(child->err, "there is no topic nothing\n");
}

static void delayed_jobs_are_kicked_with_the_flag(void)
{
    run_expect(0, "put", "email", "x", "--delay", "1h");
    struct child *child = run_expect(0, "kick", "email");
    OUTPUT_IS(child->out, "0\n");
    HAS(child->err, "--delayed");
    EQ(count_jobs("email", BIDE_STATE_DELAYED), 1);
    OUTPUT_IS(run_expect(0, "kick", "email", "--delayed")->out, "1\n");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
}

static void update_changes_the_named_fields(void)
{
    put_job("email", "x");
    if (is_plain()) {
        HAS(run_expect(1, "update", "1", "--priority", "3")->err, LACKING);
        return;
    }
    run_expect(0, "update", "1", "--priority", "3", "--ttr", "5m");
    json_t *job = json_at(run_expect(0, "job", "1", "--json")->out, 0);
    EQ(number_in(job, "priority"), 3);
    EQ(number_in(job, "ttr_ms"), 300000);
    HAS(run_expect(0, "update", "1", "--at", "2037-07-01T09:00")->err, "2037-07-01 09:00:00 UTC");
    EQ(count_jobs("email", BIDE_STATE_DELAYED), 1);
    run_expect(0, "update", "1", "--topic", "other", "--delay", "0s");
    EQ(count_jobs("other", BIDE_STATE_READY), 1);
    HAS(run_expect(2, "update", "1")->err, "bide update: ");
    run_expect(3, "update", "77", "--priority", "1");
}

static void a_cancel_deletes_jobs_that_are_not_reserved(void)
{
    put_job("email", "x");
    if (is_plain()) {
        HAS(run_expect(1, "cancel", "1")->err, LACKING);
        return;
    }
    run_expect(0, "cancel", "1");
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
    run_expect(3, "cancel", "77");
}

static void a_failure_counts_and_buries_at_the_limit(void)
{
    if (is_plain()) {
        put_job("email", "x");
        HAS(run_expect(1, "fail", "1")->err, LACKING);
        return;
    }
    run_expect(0, "put", "email", "x", "--retries", "1");
    OUTPUT_IS(run_expect(0, "fail", "1", "--error", "first")->out, "delayed\n");
    json_t *fail = json_at(run_expect(0, "fail", "1", "--error", "second", "--json")->out, 0);
    TEXT(text_in(fail, "state"), 6, "buried");
    json_t *job = json_at(run_expect(0, "job", "1", "--json")->out, 0);
    EQ(number_in(job, "fails"), 2);
    TEXT(text_in(job, "last_error"), strlen(text_in(job, "last_error")), "second");
}

/* ---- leases ---- */

static void reserve_without_shared_leases_is_rejected_and_suggests_work(void)
{
    static const char *const verbs[] = {"touch", "done", "delete", "release", "fail", "bury"};
    put_job("email", "hello");
    if (passes_leases()) {
        HAS(run_expect(0, "reserve", "email")->err, "token");
        return;
    }
    struct child *child = run_expect(5, "reserve", "email");
    HAS(child->err, "\"bide work\"");
    HAS(child->err, "serve the queue with bided");
    SILENT(child->out);
    for (size_t i = 0; i < COUNT(verbs); i++) {
        child = run_expect(5, verbs[i], "1", "--token", "5");
        HAS(child->err, "\"bide work\"");
        HAS(child->err, "with bided");
        SILENT(child->out);
    }
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
}

static void wait_on_an_unshared_queue_is_rejected(void)
{
    uint64_t id = put_job("email", "x");
    char word[24];
    snprintf(word, sizeof(word), "%llu", (unsigned long long)id);
    if (passes_leases()) {
        run_expect(4, "wait", word, "--timeout", "20ms");
        return;
    }
    struct child *child = run_expect(is_plain() ? 1 : 5, "wait", word);
    HAS(child->err, is_plain() ? "plain beanstalkd" : "with bided");
    SILENT(child->out);
}

/* ---- purge ---- */

static void a_purge_without_terminal_and_yes_deletes_nothing(void)
{
    put_job("email", "x");
    struct child *child = run_expect(is_plain() ? 1 : 2, "purge", "email");
    HAS(child->err, is_plain() ? LACKING : "use --yes");
    SILENT(child->out);
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
}

static void a_purge_asks_on_a_terminal(void)
{
    put_job("email", "x");
    struct child *child = begin_on_terminal(80, 24, "purge", "email", NULL);
    if (is_plain()) { /* it cannot purge, whatever the answer */
        await_end(child, 1);
        LACKS(child->out, "[y/N]");
        return;
    }
    await_out(child, "[y/N] ");
    press(child, "n\r");
    await_end(child, 2);
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    child = begin_on_terminal(80, 24, "purge", "email", NULL);
    await_out(child, "[y/N] ");
    press(child, "\x04");
    await_end(child, 2);
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    child = begin_on_terminal(80, 24, "purge", "email", NULL);
    await_out(child, "[y/N] ");
    press(child, "y\r");
    await_end(child, 0);
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
}

static void ctrl_c_at_the_confirmation_changes_nothing(void)
{
    put_job("email", "x");
    struct child *child = begin_on_terminal(80, 24, "purge", "email", NULL);
    if (is_plain()) { /* it cannot purge, whatever the answer */
        await_end(child, 1);
        LACKS(child->out, "[y/N]");
        return;
    }
    await_out(child, "[y/N] ");
    press(child, "\x03");
    await_end(child, 256 + SIGINT);
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
}

static void a_purge_takes_the_states_that_are_named(void)
{
    put_job("email", "x");
    run_expect(0, "put", "email", "y", "--delay", "1h");
    if (is_plain()) {
        HAS(run_expect(1, "purge", "email", "--yes")->err, LACKING);
        EQ(count_jobs("email", BIDE_STATE_READY), 1);
        return;
    }
    run_expect(0, "purge", "email", "--yes", "--state", "delayed");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    EQ(count_jobs("email", BIDE_STATE_DELAYED), 0);
    json_t *purge = json_at(run_expect(0, "purge", "email", "--yes", "--json")->out, 0);
    EQ(number_in(purge, "purged"), 1);
    run_expect(2, "purge", "email", "--yes", "--state", "nowhere");
}

/* ---- topics ---- */

static void a_pause_lasts_until_resume(void)
{
    put_job("email", "x");
    struct child *child = run_expect(0, "pause", "email", "1h");
    HAS(child->err, "UTC");
    bide *queue = open_test_queue();
    bide_topic_stats stats;
    OK(bide_topic_get_stats(queue, "email", &stats));
    /* A pause is kept with a file's queue only as long as that is open. */
    CHECK(stats.paused);
    OK(bide_close(queue));
    run_expect(0, "resume", "email");
    queue = open_test_queue();
    OK(bide_topic_get_stats(queue, "email", &stats));
    CHECK(!stats.paused);
    OK(bide_close(queue));
    run_expect(2, "pause", "email", "soon");
    run_expect(2, "pause", "email", "1h", "--until", "tomorrow");
}

static void draining_queue_rejects_puts(void)
{
    run_expect(2, "drain", "maybe");
    if (is_plain() || place_kind == AT_FILE) {
        HAS(run_expect(is_plain() ? 1 : 5, "drain", "on")->err,
            is_plain() ? LACKING : "only a bided");
        run_expect(0, "put", "email", "x");
        return;
    }
    run_expect(0, "drain", "on");
    HAS(run_expect(5, "put", "email", "x")->err, "draining");
    run_expect(0, "drain", "off");
    run_expect(0, "put", "email", "x");
}

static const struct test tests[] = {
    TEST(several_jobs_are_deleted_and_unknown_ids_reported),
    TEST(ids_are_read_from_standard_input),
    TEST(a_job_is_buried_and_kicked),
    TEST(a_kick_of_a_topic_that_does_not_exist_kicks_nothing),
    TEST(delayed_jobs_are_kicked_with_the_flag),
    TEST(update_changes_the_named_fields),
    TEST(a_cancel_deletes_jobs_that_are_not_reserved),
    TEST(a_failure_counts_and_buries_at_the_limit),
    TEST(reserve_without_shared_leases_is_rejected_and_suggests_work),
    TEST(wait_on_an_unshared_queue_is_rejected),
    TEST(a_purge_without_terminal_and_yes_deletes_nothing),
    TEST(a_purge_asks_on_a_terminal),
    TEST(ctrl_c_at_the_confirmation_changes_nothing),
    TEST(a_purge_takes_the_states_that_are_named),
    TEST(a_pause_lasts_until_resume),
    TEST(draining_queue_rejects_puts),
};

const struct theme change_theme = {"change", tests, COUNT(tests)};
