/* SPDX-License-Identifier: MIT */
/* stored.c - the calls about what is stored, on any queue: one that keeps nothing says so. */
#include "place.h"
#include "world.h"

#include <stdint.h>
#include <string.h>

static void a_queue_that_has_loaded_everything_says_so_at_once(void)
{
    bide *queue = open_queue("");
    bide_recovery progress = {0};
    OK(bide_wait_recovered(queue, BIDE_FOREVER, NULL));
    OK(bide_wait_recovered(queue, 0, &progress));
    EQ(progress.phase, BIDE_PHASE_RECOVERED);
    EQ(progress.failed, 0);
    OK(bide_shutdown(queue));
    OK(bide_wait_recovered(queue, 0, &progress));
}

static void bad_waits_for_the_loading_are_refused(void)
{
    struct world *world = new_world("");
    bide_recovery progress;
    spoil(&progress, sizeof progress);
    for (size_t i = 0; i < COUNT(bad_times); i++)
        BAD(world, bide_wait_recovered(world->queue, bad_times[i], &progress));
    BAD(world, bide_wait_recovered(NULL, 0, &progress));
    SPOILED(progress);
}

static void bad_backups_are_refused(void)
{
    struct world *world = new_world("");
    BAD(world, bide_backup(world->queue, NULL));
    BAD(world, bide_backup(world->queue, ""));
    BAD(world, bide_backup(NULL, "a.db"));
    if (!keeps())
        REFUSE(world, bide_backup(world->queue, "/nowhere/a.db"), BIDE_ENOTSUP);
}

static void bad_checks_are_refused(void)
{
    struct world *world = new_world("");
    bide_check_report report;
    spoil(&report, sizeof report);
    BAD(world, bide_check(NULL, &report));
    SPOILED(report);
    BAD(world, bide_check(world->queue, NULL));
}

static void every_phase_has_a_name(void)
{
    static const char *const names[] = {"counting", "loading", "ordering", "recovered"};
    for (size_t i = 0; i < COUNT(names); i++)
        TEXT(bide_phase_name((bide_phase)i), strlen(names[i]), names[i]);
    TEXT(bide_phase_name((bide_phase)4), 1, "?");
    TEXT(bide_phase_name((bide_phase)-1), 1, "?");
}

static const struct test tests[] = {
    TEST(a_queue_that_has_loaded_everything_says_so_at_once),
    TEST(bad_waits_for_the_loading_are_refused),
    TEST(bad_backups_are_refused),
    TEST(bad_checks_are_refused),
    TEST(every_phase_has_a_name),
};

const struct theme stored_theme = {"stored", tests, COUNT(tests)};
