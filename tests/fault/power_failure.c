/* SPDX-License-Identifier: MIT */
/*
 * power_failure.c - the power goes.
 *
 * A workload runs once, from the making of the file to its second close, while every step on the
 * disk is recorded. Then, for each step, a folder is made with what a disk could hold had the
 * power gone there, and the queue in it is opened.
 */
#include "history.h"
#include "script.h"
#include "vfs.h"

#include <stdio.h>
#include <string.h>

/* Moments at which the power goes, besides those next to a sync. */
#define MOMENTS_MAX 400

/* Opens, runs so many steps of the script, closes. */
static void run_script(struct script *script, const char *url, size_t from, size_t count)
{
    script->queue = open_url(url);
    history_add(script->queue);
    for (size_t i = from; i < from + count; i++) {
        EQ(script_run(script, i), BIDE_OK);
        history_add(script->queue);
    }
    script_done(script);
    OK(bide_close(script->queue));
}

/* The whole life of a file in a folder of its own. */
static void record(const char *parameters)
{
    struct script script;
    vfs_install();
    vfs_skip_syncs(true);
    history_forget();
    loss_begin(fresh_folder("before"));
    script_begin(&script, NULL);
    run_script(&script, url_of("before/jobs.db", parameters), 0, script_length());
    run_script(&script, url_of("before/jobs.db", parameters), 3, 6);
    loss_end();
    CHECK(loss_steps() > 50);
}

static bool is_near_sync(size_t steps)
{
    return (steps < loss_steps() && loss_is_sync(steps)) || (steps > 0 && loss_is_sync(steps - 1));
}

/* Every moment if there are few, else a choice that has the syncs and their neighbours in it. */
static void check_moments(enum loss_kind first, enum loss_kind last, bool back)
{
    size_t stride = 1 + loss_steps() / MOMENTS_MAX;
    for (size_t steps = 0; steps <= loss_steps(); steps++)
        for (enum loss_kind kind = first; kind <= last; kind++)
            if (steps % stride == 0 || is_near_sync(steps))
                history_check(steps, kind, back);
}

static void sync_full_survives_power_loss_at_every_step(void)
{
    record("sync=full");
    check_moments(LOSS_ALL, LOSS_TORN, false);
}

/* Without a sync for each commit the power may take the last calls, but only as a whole. */
static void sync_normal_loses_only_whole_calls_at_power_loss(void)
{
    record("sync=normal");
    check_moments(LOSS_ALL, LOSS_TORN, true);
}

static void sync_normal_survives_a_process_crash(void)
{
    record("sync=normal");
    check_moments(LOSS_NONE, LOSS_NONE, false);
}

static void sync_off_survives_a_process_crash(void)
{
    record("sync=off");
    check_moments(LOSS_NONE, LOSS_NONE, false);
}

/* ---- the log is brought into the file ---- */

#define LARGE       60000
#define LARGE_PUTS  320 /* together more pages than the log may have */
#define LARGE_TIMES 60

/* Large bodies fill the log until it is brought into the file while the queue serves. Each put is
 * followed by the delete of the job before it. */
static void fill_log(bide *queue, size_t *steps)
{
    static unsigned char body[LARGE];
    uint64_t before = 0;
    for (size_t i = 0; i < LARGE_PUTS; i++) {
        uint64_t id = 0;
        memset(body, (int)(i % 251 + 1), sizeof(body));
        OK(bide_put(queue, "work", body, sizeof(body), NULL, &id));
        steps[i] = loss_steps();
        if (before != 0)
            OK(bide_delete(queue, before, 0));
        before = id;
    }
}

/* One job is left, or two: that whose put was acknowledged last, or one next to it. */
static void check_large(size_t moment, enum loss_kind kind, const size_t *steps, uint64_t first_id)
{
    uint64_t acknowledged = 0;
    while (acknowledged < LARGE_PUTS && steps[acknowledged] <= moment)
        acknowledged++;
    loss_at(moment, kind, moment, fresh_folder("after"));
    bide *queue = open_url(url_of("after/jobs.db", ""));
    struct snapshot *snapshot = snapshot_take(queue);
    for (size_t i = 0; i < snapshot->count; i++) {
        EQ(snapshot->jobs[i].body_size, LARGE);
        BETWEEN((int64_t)snapshot->jobs[i].id, (int64_t)(first_id + acknowledged) - 2,
                (int64_t)(first_id + acknowledged));
    }
    if (acknowledged > 0)
        CHECK(snapshot_find(snapshot, first_id + acknowledged - 1) != NULL);
    snapshot_free(snapshot);
    OK(bide_close(queue));
}

static void power_loss_during_a_checkpoint_loses_nothing(void)
{
    static size_t steps[LARGE_PUTS];
    vfs_install();
    vfs_skip_syncs(true);
    bide *queue = open_jobs("");
    uint64_t first_id = 0;
    OK(bide_put(queue, "work", "", 0, NULL, &first_id));
    OK(bide_delete(queue, first_id, 0));
    loss_begin(test_dir());
    fill_log(queue, steps);
    loss_end();
    size_t begin = loss_next_write(0, "jobs.db");
    CHECK(begin < loss_steps());
    size_t end = begin;
    while (loss_next_write(end + 1, "jobs.db") < loss_steps())
        end = loss_next_write(end + 1, "jobs.db");
    for (size_t i = 0; i <= LARGE_TIMES; i++)
        check_large(begin - 5 + (end + 10 - begin) * i / LARGE_TIMES,
                    i % 2 == 0 ? LOSS_ALL : LOSS_TORN, steps, first_id + 1);
    OK(bide_close(queue));
}

static const struct test tests[] = {
    TEST(sync_full_survives_power_loss_at_every_step),
    TEST(sync_normal_loses_only_whole_calls_at_power_loss),
    TEST(sync_normal_survives_a_process_crash),
    TEST(sync_off_survives_a_process_crash),
    TEST(power_loss_during_a_checkpoint_loses_nothing),
};
const struct theme power_theme = {"power_failure", tests, COUNT(tests)};
