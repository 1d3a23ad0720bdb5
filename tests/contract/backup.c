/* SPDX-License-Identifier: MIT */
/* backup.c - copies of a queue that is in use. */
#include "backlog.h"
#include "sample_queue.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A copy has the same moments; how much is left of a time depends on when one looks. */
#define SLACK_MS 1

static bide *open_copy(const char *file)
{
    char location[LOCATION_SIZE];
    return loaded(open_location(file_location(location, sizeof location, file), ""));
}

static bool exists(const char *file)
{
    return access(file, F_OK) == 0;
}

/* ---- what is in a copy ---- */

static void a_copy_opens_and_is_equal(void)
{
    struct backlog *backlog = new_backlog();
    char file[LOCATION_SIZE];
    bide *queue = open_backlog(backlog);
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.max_jobs = 1000000;
    OK(bide_topic_set(queue, backlog->small, &policy));
    OK(bide_pause(queue, backlog->small, BIDE_FOREVER));
    OK(bide_backup(queue, new_file(file, sizeof file)));
    bide *copy = open_copy(file);
    BACKLOG_IS_WHOLE(backlog, copy);
    BACKLOG_IS_WHOLE(backlog, queue);
    CHECK(topic_of(copy, backlog->small).paused);
    OK(bide_topic_get(copy, backlog->small, &policy, NULL));
    EQ(policy.max_jobs, 1000000);
    for (int spot = 0; spot < BACKLOG_SPOTS; spot++)
        for (int state = BIDE_STATE_DELAYED; state < BACKLOG_KINDS; state++) {
            uint64_t id = backlog->ids[spot][state];
            bide_job before = *peek_job(queue, id);
            SAME_JOB(peek_job(copy, id), &before, SLACK_MS);
        }
    /* Each goes its own way from here. */
    OK(bide_purge(copy, backlog->large, BIDE_STATE_READY, NULL));
    BACKLOG_IS_WHOLE(backlog, queue);
    CHECK(put(copy, backlog->small, "new") > backlog->last_id);
    copy = reopen(copy, "");
    EQ(stats_of(copy).jobs.ready, 2 * BACKLOG_SPOTS + 1);
}

static void a_copy_can_be_made_while_jobs_are_loaded(void)
{
    struct backlog *backlog = new_backlog();
    char file[LOCATION_SIZE];
    bide *queue = open_backlog(backlog);
    OK(bide_backup(queue, new_file(file, sizeof file)));
    bide *copy = open_copy(file);
    BACKLOG_IS_WHOLE(backlog, copy);
    BACKLOG_IS_WHOLE(backlog, queue);
}

static void copy_has_all_bodies_and_reserved_jobs(void)
{
    static char body[65535];
    char file[LOCATION_SIZE];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const size_t sizes[] = {0, 1, 512, 513, 65535};
    uint64_t ids[COUNT(sizes)], token = 0;
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i * 31);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        OK(bide_put(queue, a, body, sizes[i], NULL, &ids[i]));
        token = take_job(queue, ids[i])->token;
    }
    OK(bide_backup(queue, new_file(file, sizeof file)));
    bide *copy = open_copy(file);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const bide_job *job = take(copy, a);
        EQ(job->id, ids[i]);
        EQ(job->body_size, sizes[i]);
        CHECK(memcmp(job->body, body, sizes[i]) == 0);
        CHECK(job->token != token);
    }
    CODE(bide_delete(copy, ids[4], token), BIDE_LEASE_LOST);
    OK(bide_delete(queue, ids[4], token));
}

static void an_empty_queue_and_a_copy_can_be_copied(void)
{
    char first[LOCATION_SIZE], second[LOCATION_SIZE];
    bide *queue = open_queue("");
    OK(bide_backup(queue, new_file(first, sizeof first)));
    bide *copy = open_copy(first);
    EQ(stats_of(copy).topics, initial_topics());
    uint64_t id = put(copy, fresh_topic("a"), "body");
    OK(bide_backup(copy, new_file(second, sizeof second)));
    EQ(state_of(open_copy(second), id), BIDE_STATE_READY);
    EQ(stats_of(queue).topics, initial_topics());
}

/* ---- copies that are refused ---- */

static void copy_never_overwrites_a_file(void)
{
    char file[LOCATION_SIZE], text[16] = "";
    bide *queue = open_queue("");
    put(queue, fresh_topic("a"), "body");
    FILE *made = fopen(new_file(file, sizeof file), "w");
    CHECK(made != NULL && fputs("precious", made) >= 0 && fclose(made) == 0);
    CODE(bide_backup(queue, file), BIDE_EINVAL);
    CHECK(strstr(bide_last_error(), "exists") != NULL);
    made = fopen(file, "r");
    CHECK(made != NULL && fgets(text, sizeof text, made) != NULL && fclose(made) == 0);
    TEXT(text, strlen(text), "precious");
    CHECK(unlink(file) == 0);
    CHECK(mkdir(file, 0700) == 0);
    CODE(bide_backup(queue, file), BIDE_EINVAL);
    CHECK(rmdir(file) == 0);
    OK(bide_backup(queue, file));
    CODE(bide_backup(queue, file), BIDE_EINVAL);

    bide *copy = open_copy(file);
    CODE(bide_backup(copy, file), BIDE_EINVAL); /* its own file */
    EQ(stats_of(copy).jobs.ready, 1);
}

/* A file that would be taken for a part of the copy prevents the copy. */
static void copy_never_overwrites_files_beside_it(void)
{
    static const char *const ends[] = {"-part", ".part", "-wal", "-journal"};
    bide *queue = open_queue("");
    put(queue, fresh_topic("a"), "body");
    for (size_t i = 0; i < COUNT(ends); i++) {
        char file[LOCATION_SIZE], beside[LOCATION_SIZE + 16], text[16] = "";
        snprintf(beside, sizeof beside, "%s%s", new_file(file, sizeof file), ends[i]);
        FILE *made = fopen(beside, "w");
        CHECK(made != NULL && fputs("precious", made) >= 0 && fclose(made) == 0);
        CODE(bide_backup(queue, file), i < 2 ? BIDE_OK : BIDE_EINVAL);
        made = fopen(beside, "r");
        CHECK(made != NULL && fgets(text, sizeof text, made) != NULL && fclose(made) == 0);
        TEXT(text, strlen(text), "precious");
        CHECK(unlink(beside) == 0);
    }
}

static void copy_into_a_missing_directory_fails(void)
{
    char file[LOCATION_SIZE], inside[LOCATION_SIZE + 8];
    bide *queue = open_queue("");
    put(queue, fresh_topic("a"), "body");
    snprintf(inside, sizeof inside, "%s/a.db", new_file(file, sizeof file));
    int code = bide_backup(queue, inside);
    CHECK(code < 0 && bide_last_error()[0] != '\0');
    CHECK(!exists(file));
    EQ(stats_of(queue).jobs.ready, 1);
    OK(bide_backup(queue, file));
}

/* ---- copies of what changes ---- */

enum { PAIRS = 50, WRITERS = 3, COPIES = 5 };

/* Each key has one job at any time, because it is replaced in one step; its body counts. */
static struct shop {
    bide *queue;
    const char *topic;
    unsigned acknowledged[WRITERS][PAIRS];
    bool over;
} shop;

static void name_key(char *key, size_t size, int writer, int pair)
{
    snprintf(key, size, "key-%d-%d", writer, pair);
}

static void *replace_for_ever(void *arg)
{
    int writer = (int)(intptr_t)arg;
    for (unsigned count = 1; count < 1000000; count++)
        for (int pair = 0; pair < PAIRS; pair++) {
            char key[32], body[32];
            bide_put_options options = BIDE_PUT_OPTIONS_INIT;
            name_key(key, sizeof key, writer, pair);
            snprintf(body, sizeof body, "%u", count);
            options.key = slice(key);
            options.conflict = BIDE_REPLACE;
            put_as(shop.queue, shop.topic, body, &options);
            __atomic_store_n(&shop.acknowledged[writer][pair], count, __ATOMIC_RELEASE);
            if (__atomic_load_n(&shop.over, __ATOMIC_ACQUIRE))
                return NULL;
        }
    return NULL;
}

static void every_key_is_there_once(bide *copy, unsigned (*least)[PAIRS])
{
    EQ(topic_of(copy, shop.topic).jobs.ready, WRITERS * PAIRS);
    for (int writer = 0; writer < WRITERS; writer++)
        for (int pair = 0; pair < PAIRS; pair++) {
            char key[32];
            bide_job job = {0};
            unsigned count = 0;
            name_key(key, sizeof key, writer, pair);
            OK(bide_find(copy, shop.topic, key, strlen(key), &job));
            CHECK(sscanf(job.body, "%u", &count) == 1);
            CHECK(count >= least[writer][pair]);
            bide_job_clear(&job);
        }
}

static void a_copy_is_consistent_while_threads_change_the_queue(void)
{
    pthread_t threads[WRITERS];
    unsigned least[WRITERS][PAIRS];
    shop.queue = open_queue("");
    shop.topic = fresh_topic("a");
    for (intptr_t i = 0; i < WRITERS; i++)
        threads[i] = start_thread(replace_for_ever, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        UNTIL(__atomic_load_n(&shop.acknowledged[i][PAIRS - 1], __ATOMIC_ACQUIRE) > 0);
    for (int i = 0; i < COPIES; i++) {
        char file[LOCATION_SIZE];
        for (int writer = 0; writer < WRITERS; writer++)
            for (int pair = 0; pair < PAIRS; pair++)
                least[writer][pair] =
                    __atomic_load_n(&shop.acknowledged[writer][pair], __ATOMIC_ACQUIRE);
        OK(bide_backup(shop.queue, new_file(file, sizeof file)));
        bide *copy = open_copy(file);
        every_key_is_there_once(copy, least);
        close_queue(copy);
    }
    __atomic_store_n(&shop.over, true, __ATOMIC_RELEASE);
    for (int i = 0; i < WRITERS; i++)
        join_thread(threads[i]);
    every_key_is_there_once(shop.queue, least);
}

static struct copier {
    bide *queue;
    char file[LOCATION_SIZE];
    int made;
} copier;

static void *copy_once(void *arg)
{
    (void)arg;
    int code = bide_backup(copier.queue, copier.file);
    CHECK(code == BIDE_OK || code == BIDE_EINVAL);
    __atomic_fetch_add(&copier.made, code == BIDE_OK, __ATOMIC_RELAXED);
    return NULL;
}

static void only_one_of_several_copies_to_a_file_succeeds(void)
{
    struct backlog *backlog = new_backlog();
    pthread_t threads[4];
    copier.queue = open_backlog(backlog);
    new_file(copier.file, sizeof copier.file);
    for (size_t i = 0; i < COUNT(threads); i++)
        threads[i] = start_thread(copy_once, NULL);
    for (size_t i = 0; i < COUNT(threads); i++)
        join_thread(threads[i]);
    EQ(copier.made, 1);
    BACKLOG_IS_WHOLE(backlog, open_copy(copier.file));
}

/* ---- as an op ---- */

static void copy_can_be_submitted_as_an_op_and_close_waits_for_it(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    for (int round = 0; round < 4; round++) {
        char file[LOCATION_SIZE], *path = NULL;
        bide *queue = open_backlog(backlog);
        struct waiter *waiter = new_op(BIDE_OP_BACKUP, cq);
        new_file(file, sizeof file);
        path = strdup(file);
        waiter->op.backup.path = path;
        bide_op *ops[] = {&waiter->op};
        int pending = bide_submit(queue, ops, 1);
        memset(path, 'x', strlen(path));
        free(path);
        BETWEEN(pending, 0, 1);
        if (round % 2 == 1)
            leave_queue(queue);
        UNTIL(waiter->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
        EQ(waiter->calls, pending);
        int code = waiter->op.status;
        CHECK(code == BIDE_OK || (round % 2 == 1 && code == BIDE_CLOSED));
        EQ(exists(file), code == BIDE_OK);
        if (code == BIDE_OK)
            BACKLOG_IS_WHOLE(backlog, open_copy(file));
        if (round % 2 == 0)
            leave_queue(queue);
    }
}

static const struct test tests[] = {
    TEST(a_copy_opens_and_is_equal),
    TEST(a_copy_can_be_made_while_jobs_are_loaded),
    TEST(copy_has_all_bodies_and_reserved_jobs),
    TEST(an_empty_queue_and_a_copy_can_be_copied),
    TEST(copy_never_overwrites_a_file),
    TEST(copy_never_overwrites_files_beside_it),
    TEST(copy_into_a_missing_directory_fails),
    TEST(a_copy_is_consistent_while_threads_change_the_queue),
    TEST(only_one_of_several_copies_to_a_file_succeeds),
    TEST(copy_can_be_submitted_as_an_op_and_close_waits_for_it),
};

const struct theme backup_theme = {"backup", tests, COUNT(tests)};
