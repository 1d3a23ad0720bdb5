/* SPDX-License-Identifier: MIT */
/* top.c - bide top on every kind of queue: what it shows, and what it changes. */
#include "pane.h"

#include <stdio.h>
#include <string.h>

#define FLAGS "--interval 100ms"

static void topics_jobs_and_bodies_are_shown(void)
{
    put_job("zip", "small");
    put_job("mail", "first body");
    put_job("mail", "second body");
    pane_begin(80, 24, FLAGS);
    SHOWS("ready 3 ");
    SHOWS("  mail  *  2  ");
    SHOWS("  zip  *  1  ");
    CHECK(pane_line("  mail ") < pane_line("  zip "));
    if (place_kind == AT_FILE)
        SHOWS("no other process can use it");
    pane_keys("Enter");
    SHOWS("topic mail");
    SHOWS("ready 2 ");
    SHOWS("  1024 *first body");
    if (is_plain())
        SHOWS("a beanstalkd shows only the first job");
    else
        SHOWS("  1024 *second body");
    pane_keys("Enter");
    SHOWS("body: 10 bytes");
    SHOWS("first body");
    SHOWS("state *ready");
    SHOWS("ttr *1m");
    pane_keys("q q");
    SHOWS("bide top");
    pane_quit();
}

static void a_job_is_deleted_only_after_yes(void)
{
    char line[100];
    unsigned long long id = put_job("mail", "first");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail  *  1  ");
    pane_keys("Enter");
    SHOWS("first");
    static const char *const refusals[] = {"n", "Enter", "Escape", "d"};
    for (size_t i = 0; i < COUNT(refusals); i++) {
        pane_keys("d");
        SHOWS("Delete job * for good? y/N");
        pane_keys(refusals[i]);
        SHOWS("Nothing was done.");
    }
    pane_keys("d y");
    snprintf(line, sizeof(line), "job %llu is deleted", id);
    SHOWS(line);
    HIDES("first");
    SHOWS("none");
    pane_keys("q");
    SHOWS("bide top");
    pane_quit();
    EQ(count_jobs("mail", BIDE_STATE_READY), 0);
}

static void a_job_is_buried_and_made_ready_again(void)
{
    put_job("mail", "first");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail  *  1  ");
    pane_keys("Enter");
    SHOWS("first");
    pane_keys("b");
    SHOWS("Bury job * y/N");
    pane_keys("y");
    if (is_plain()) {
        SHOWS("Failed: job *plain beanstalkd");
    } else {
        SHOWS("job * is buried");
        SHOWS("ready 0 * buried 1 ");
        pane_keys("Tab Tab Tab");
        SHOWS("  1024 *first");
        pane_keys("n");
        SHOWS("Make job * ready now? y/N");
        pane_keys("y");
        SHOWS("job * is ready");
        SHOWS("ready 1 * buried 0 ");
    }
    pane_keys("q");
    SHOWS("bide top");
    pane_quit();
    EQ(count_jobs("mail", BIDE_STATE_READY), 1);
}

static void kick_takes_a_number_of_jobs(void)
{
    bide *queue = open_test_queue();
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = HOUR_MS;
    for (int i = 0; i < 4; i++)
        OK(bide_put(queue, "later", "x", 1, &options, NULL));
    OK(bide_close(queue));
    pane_begin(80, 24, FLAGS " --sort delayed");
    SHOWS("  later  *  4  ");
    pane_keys("K");
    SHOWS("Kick how many of 4 delayed jobs of later?");
    pane_keys("Escape");
    SHOWS("Nothing was done.");
    pane_keys("K x 1 BSpace 2 Enter");
    SHOWS("None of later is buried. Make 2 of its 4 delayed jobs ready now? y/N");
    pane_keys("n");
    SHOWS("Nothing was done.");
    pane_keys("K 2 Enter y");
    SHOWS("later: 2 jobs made ready");
    SHOWS("ready 2 * delayed 2 ");
    pane_keys("K 0 Enter");
    SHOWS("Nothing was done.");
    pane_keys("K Enter");
    SHOWS("None of later is buried. Make 2 of its 2 delayed jobs ready now? y/N");
    pane_keys("y");
    SHOWS("later: 2 jobs made ready");
    SHOWS("ready 4 * delayed 0 ");
    pane_keys("K");
    SHOWS(" has no buried and no delayed jobs.");
    pane_quit();
    EQ(count_jobs("later", BIDE_STATE_READY), 4);
}

/* No more than are buried, however many are asked for: the delayed ones are another question. */
static void a_kick_of_buried_jobs_leaves_the_delayed_ones(void)
{
    if (is_plain())
        return; /* only a holder can bury there */
    bide *queue = open_test_queue();
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    OK(bide_put(queue, "mixed", "x", 1, NULL, &id));
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    options.delay_ms = HOUR_MS;
    for (int i = 0; i < 3; i++)
        OK(bide_put(queue, "mixed", "x", 1, &options, NULL));
    OK(bide_close(queue));
    pane_begin(80, 24, FLAGS " --sort delayed");
    SHOWS("buried 1 ");
    pane_keys("K");
    SHOWS("Kick how many of 1 buried jobs of mixed?");
    pane_keys("9 9 Enter");
    SHOWS("Make 1 of the 1 buried job of mixed ready? y/N");
    pane_keys("y");
    SHOWS("mixed: 1 job made ready");
    SHOWS("ready 1 * delayed 3 ");
    pane_quit();
    EQ(count_jobs("mixed", BIDE_STATE_DELAYED), 3);
}

/* Other clients have kicked the buried one, or buried one, while the question was on the screen. */
static void a_kick_affects_only_the_confirmed_state(void)
{
    if (!passes_leases())
        return; /* there are no other clients, or only a holder can bury */
    bide *queue = open_test_queue();
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    options.delay_ms = HOUR_MS;
    OK(bide_put(queue, "mixed", "x", 1, &options, NULL));
    OK(bide_put(queue, "mixed", "x", 1, NULL, &id));
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    pane_begin(80, 24, FLAGS " --sort delayed");
    SHOWS("buried 1 ");
    pane_keys("K Enter");
    SHOWS("Make 1 of the 1 buried job of mixed ready? y/N");
    OK(bide_kick_job(queue, id));
    pane_keys("y");
    SHOWS("mixed has changed since you were asked; nothing was done.");

    SHOWS("buried 0 ");
    pane_keys("K Enter");
    SHOWS("None of mixed is buried. Make 1 of its 1 delayed job ready now? y/N");
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    pane_keys("y");
    SHOWS("mixed has changed since you were asked; nothing was done.");
    OK(bide_close(queue));
    pane_quit();
    EQ(count_jobs("mixed", BIDE_STATE_DELAYED), 1);
    EQ(count_jobs("mixed", BIDE_STATE_BURIED), 1);
}

static void a_topic_is_paused_and_resumed(void)
{
    put_job("mail", "first");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail  *  1  ");
    pane_keys("P");
    SHOWS("Pause mail until it is resumed? y/N");
    pane_keys("n");
    SHOWS("Nothing was done.");
    pane_keys("P y");
    SHOWS("mail is paused");
    SHOWS("P mail  ");
    pane_keys("Enter");
    SHOWS("topic mail (paused)");
    pane_keys("P");
    SHOWS("Resume mail? y/N");
    pane_keys("y");
    SHOWS("mail is resumed");
    HIDES("(paused)");
    pane_keys("q");
    SHOWS("bide top");
    HIDES("P mail ");
    pane_quit();
}

static void a_state_other_than_reserved_is_purged(void)
{
    put_job("mail", "first");
    put_job("mail", "second");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail  *  2  ");
    pane_keys("X");
    SHOWS("To purge, open the topic");
    pane_keys("Enter");
    SHOWS("first");
    pane_keys("X");
    SHOWS("Remove all ready jobs of mail for good? y/N");
    pane_keys("n");
    SHOWS("Nothing was done.");
    pane_keys("X y");
    SHOWS(is_plain() ? "Failed: * plain beanstalkd" : "mail: 2 jobs removed");
    pane_keys("Tab X");
    SHOWS("Reserved jobs cannot be purged: their workers hold a lease.");
    pane_keys("q");
    SHOWS("bide top");
    pane_quit();
    EQ(count_jobs("mail", BIDE_STATE_READY), is_plain() ? 2 : 0);
}

static const struct test tests[] = {
    TEST(topics_jobs_and_bodies_are_shown),
    TEST(a_job_is_deleted_only_after_yes),
    TEST(a_job_is_buried_and_made_ready_again),
    TEST(kick_takes_a_number_of_jobs),
    TEST(a_kick_of_buried_jobs_leaves_the_delayed_ones),
    TEST(a_kick_affects_only_the_confirmed_state),
    TEST(a_topic_is_paused_and_resumed),
    TEST(a_state_other_than_reserved_is_purged),
};

const struct theme top_theme = {"top", tests, COUNT(tests)};
