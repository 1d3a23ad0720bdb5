/* SPDX-License-Identifier: MIT */
/*
 * The arguments of an op that has to wait are kept, and its caller gets its own pointers back.
 */
#include "backend/keep.h"

#include "unit.h"

#include <string.h>

/* What the caller's arguments point to, which is overwritten as soon as submit has returned. */
static _Alignas(16) char arena[8192];
static size_t used;

static int set_up(void **state)
{
    (void)state;
    used = 0;
    return 0;
}

static void *lay(const void *data, size_t size)
{
    void *place = arena + used;
    used += (size + 15) & ~(size_t)15;
    assert_true(used <= sizeof(arena));
    memcpy(place, data, size);
    return place;
}

static bide_slice say(const char *text)
{
    return (bide_slice){lay(text, strlen(text)), strlen(text)};
}

static void assert_says(bide_slice slice, const char *text)
{
    assert_int_equal(slice.size, strlen(text));
    assert_memory_equal(slice.data, text, slice.size);
}

/* An op that is kept while its caller goes on. */
struct kept_op {
    bide_op op;
    bide_op before;
};

static void keep(struct kept_op *kept)
{
    kept->before = kept->op;
    assert_int_equal(bi_keep(&kept->op), BIDE_OK);
    assert_non_null(kept->op.private_.kept);
    memset(arena, '#', used);
}

/* The op is as it was, to the last byte. */
static void end(struct kept_op *kept)
{
    assert_true(bi_keep_end(&kept->op));
    assert_memory_equal(&kept->op, &kept->before, sizeof(kept->op));
    assert_false(bi_keep_end(&kept->op));
}

/* ---- jobs that come ---- */

static bide_put_options *lay_options(const char *key)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 77;
    options.delay_ms = 88;
    options.key = say(key);
    return lay(&options, sizeof(options));
}

static void assert_options(const bide_put_options *options, const char *key)
{
    assert_int_equal(options->size, sizeof(*options));
    assert_int_equal(options->priority, 77);
    assert_int_equal(options->delay_ms, 88);
    assert_int_equal(options->max_retries, BIDE_NO_RETRY_LIMIT);
    assert_says(options->key, key);
}

static void a_put_keeps_its_topic_its_options_and_their_key(void **state)
{
    (void)state;
    struct kept_op kept = {
        .op = {.kind = BIDE_OP_PUT, .put = {.topic = say("mail"), .options = lay_options("key")}}};
    keep(&kept);
    assert_says(kept.op.put.topic, "mail");
    assert_options(kept.op.put.options, "key");
    end(&kept);
}

static void a_put_without_options_keeps_its_topic(void **state)
{
    (void)state;
    struct kept_op kept = {.op = {.kind = BIDE_OP_PUT, .put = {.topic = say("mail")}}};
    keep(&kept);
    assert_says(kept.op.put.topic, "mail");
    assert_null(kept.op.put.options);
    end(&kept);
}

static void a_put_of_many_keeps_those_of_each(void **state)
{
    (void)state;
    bide_put_item items[3];
    memset(items, 0, sizeof(items));
    items[0] = (bide_put_item){.topic = say("one"), .options = lay_options("first")};
    items[1] = (bide_put_item){.topic = say("two")};
    items[2] = (bide_put_item){.topic = say("three"), .options = lay_options("third")};
    bide_put_item before[3];
    memcpy(before, items, sizeof(items));
    struct kept_op kept = {
        .op = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 3}}};
    keep(&kept);
    assert_says(items[0].topic, "one");
    assert_options(items[0].options, "first");
    assert_says(items[1].topic, "two");
    assert_says(items[2].topic, "three");
    assert_options(items[2].options, "third");
    items[1].id = 5; /* what comes out goes to the caller's items */
    end(&kept);
    assert_int_equal(items[1].id, 5);
    items[1].id = 0;
    assert_memory_equal(items, before, sizeof(items));
}

static void items_that_share_their_options_each_get_them_back(void **state)
{
    (void)state;
    const bide_put_options *options = lay_options("shared");
    bide_put_item items[2];
    memset(items, 0, sizeof(items));
    for (int i = 0; i < 2; i++)
        items[i] = (bide_put_item){.topic = say("one"), .options = options};
    struct kept_op kept = {
        .op = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}}};
    keep(&kept);
    assert_options(items[0].options, "shared");
    assert_options(items[1].options, "shared");
    end(&kept);
    assert_ptr_equal(items[0].options, options);
    assert_ptr_equal(items[1].options, options);
}

static void a_restore_keeps_the_job_its_key_and_its_error(void **state)
{
    (void)state;
    bide_job job;
    memset(&job, 0, sizeof(job));
    job.state = BIDE_STATE_BURIED;
    job.priority = 9;
    strcpy(job.topic, "mail");
    bide_slice key = say("key");
    bide_slice error = say("oops");
    job.key = key.data;
    job.key_size = key.size;
    job.last_error = error.data;
    job.last_error_size = error.size;
    struct kept_op kept = {
        .op = {.kind = BIDE_OP_RESTORE, .restore = {.job = lay(&job, sizeof(job))}}};
    keep(&kept);
    const bide_job *seen = kept.op.restore.job;
    assert_string_equal(seen->topic, "mail");
    assert_int_equal(seen->state, BIDE_STATE_BURIED);
    assert_int_equal(seen->priority, 9);
    assert_says((bide_slice){seen->key, seen->key_size}, "key");
    assert_says((bide_slice){seen->last_error, seen->last_error_size}, "oops");
    end(&kept);
}

/* ---- ops on jobs that are not loaded yet ---- */

static void texts_of_ops_by_id_are_kept(void **state)
{
    (void)state;
    struct kept_op touch = {.op = {.kind = BIDE_OP_TOUCH, .touch = {.progress = say("half")}}};
    keep(&touch);
    assert_says(touch.op.touch.progress, "half");
    end(&touch);
    struct kept_op fail_it = {.op = {.kind = BIDE_OP_FAIL, .fail = {.error = say("oops")}}};
    keep(&fail_it);
    assert_says(fail_it.op.fail.error, "oops");
    end(&fail_it);
    struct kept_op bury = {.op = {.kind = BIDE_OP_BURY, .bury = {.reason = say("why")}}};
    keep(&bury);
    assert_says(bury.op.bury.reason, "why");
    end(&bury);
    struct kept_op update = {.op = {.kind = BIDE_OP_UPDATE, .update = {.topic = say("to")}}};
    keep(&update);
    assert_says(update.op.update.topic, "to");
    end(&update);
}

static void the_texts_of_many_touches_are_kept(void **state)
{
    (void)state;
    bide_touch_item items[3];
    memset(items, 0, sizeof(items));
    items[0].progress = say("first");
    items[2].progress = say("third");
    bide_touch_item before[3];
    memcpy(before, items, sizeof(items));
    struct kept_op kept = {
        .op = {.kind = BIDE_OP_TOUCH_MANY, .touch_many = {.items = items, .count = 3}}};
    keep(&kept);
    assert_says(items[0].progress, "first");
    assert_int_equal(items[1].progress.size, 0);
    assert_says(items[2].progress, "third");
    end(&kept);
    assert_memory_equal(items, before, sizeof(items));
}

static void a_finish_and_reserve_keeps_topics_and_weights(void **state)
{
    (void)state;
    const bide_slice names[3] = {say("one"), say("two"), say("three")};
    static const uint32_t numbers[3] = {1, 20, 300};
    bide_job jobs[2];
    struct kept_op kept = {
        .op = {.kind = BIDE_OP_FINISH_AND_RESERVE,
               .finish_and_reserve = {.reserve = {.topics = lay(names, sizeof(names)),
                                                  .topic_count = 3,
                                                  .weights = lay(numbers, sizeof(numbers)),
                                                  .strategy = BIDE_WEIGHTED,
                                                  .jobs = jobs,
                                                  .job_max = 2}}}};
    keep(&kept);
    const bide_reserve_args *args = &kept.op.finish_and_reserve.reserve;
    assert_says(args->topics[0], "one");
    assert_says(args->topics[1], "two");
    assert_says(args->topics[2], "three");
    assert_memory_equal(args->weights, numbers, sizeof(numbers));
    assert_ptr_equal(args->jobs, jobs); /* where results go is the caller's */
    end(&kept);
}

/* ---- ops that need all jobs ---- */

static void names_of_ops_that_need_all_jobs_are_kept(void **state)
{
    (void)state;
    struct kept_op kick = {.op = {.kind = BIDE_OP_KICK, .kick = {.topic = say("a")}}};
    keep(&kick);
    assert_says(kick.op.kick.topic, "a");
    end(&kick);
    struct kept_op purge = {.op = {.kind = BIDE_OP_PURGE, .purge = {.topic = say("b")}}};
    keep(&purge);
    assert_says(purge.op.purge.topic, "b");
    end(&purge);
    struct kept_op resume = {.op = {.kind = BIDE_OP_RESUME, .topic = {.topic = say("c")}}};
    keep(&resume);
    assert_says(resume.op.topic.topic, "c");
    end(&resume);
    struct kept_op stats = {
        .op = {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {.topic = say("d")}}};
    keep(&stats);
    assert_says(stats.op.topic_stats.topic, "d");
    end(&stats);
    struct kept_op hold = {.op = {.kind = BIDE_OP_TOPIC_REF, .topic = {.topic = say("e")}}};
    keep(&hold);
    assert_says(hold.op.topic.topic, "e");
    end(&hold);
    struct kept_op feed = {.op = {.kind = BIDE_OP_SUBSCRIBE, .feed = {.topic = say("f")}}};
    keep(&feed);
    assert_says(feed.op.feed.topic, "f");
    end(&feed);
}

static void looks_by_name_keep_topic_and_key(void **state)
{
    (void)state;
    static const bide_op_kind kinds[] = {BIDE_OP_FIND, BIDE_OP_PEEK_FIRST};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        set_up(NULL);
        bide_job job;
        struct kept_op kept = {
            .op = {.kind = kinds[i],
                   .look = {.topic = say("mail"), .key = say("key"), .job = &job}}};
        keep(&kept);
        assert_says(kept.op.look.topic, "mail");
        assert_says(kept.op.look.key, "key");
        assert_ptr_equal(kept.op.look.job, &job);
        end(&kept);
    }
}

static void a_list_keeps_its_topic_and_its_filter_and_not_its_cursor(void **state)
{
    (void)state;
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[2];
    struct kept_op kept = {.op = {.kind = BIDE_OP_LIST,
                                  .list = {.topic = say("mail"),
                                           .filter = {.key = say("key"), .text = say("text")},
                                           .cursor = cursor,
                                           .jobs = jobs}}};
    keep(&kept);
    assert_says(kept.op.list.topic, "mail");
    assert_says(kept.op.list.filter.key, "key");
    assert_says(kept.op.list.filter.text, "text");
    assert_ptr_equal(kept.op.list.cursor, cursor);
    assert_ptr_equal(kept.op.list.jobs, jobs);
    end(&kept);
}

static void a_backup_keeps_its_path(void **state)
{
    (void)state;
    struct kept_op kept = {
        .op = {.kind = BIDE_OP_BACKUP, .backup = {.path = lay("/tmp/copy", 10)}}};
    keep(&kept);
    assert_string_equal(kept.op.backup.path, "/tmp/copy");
    end(&kept);
}

/* ---- nothing to do ---- */

static void a_caller_that_waits_needs_no_copies(void **state)
{
    (void)state;
    int wake = 0;
    bide_op op = {.kind = BIDE_OP_PUT,
                  .put = {.topic = say("mail"), .options = lay_options("key")},
                  .private_ = {.wake = &wake}};
    bide_op before = op;
    assert_int_equal(bi_keep(&op), BIDE_OK);
    assert_memory_equal(&op, &before, sizeof(op));
    assert_false(bi_keep_end(&op));
}

static void an_op_that_points_to_nothing_needs_no_copies(void **state)
{
    (void)state;
    static const bide_op_kind kinds[] = {
        BIDE_OP_DELETE, BIDE_OP_GIVE_BACK, BIDE_OP_KICK_JOB, BIDE_OP_CANCEL, BIDE_OP_PEEK,
        BIDE_OP_BODY,   BIDE_OP_RESULT,    BIDE_OP_WAIT,     BIDE_OP_STATS,  BIDE_OP_RELEASE,
    };
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        bide_op op = {.kind = kinds[i], .lease = {.id = 7}};
        bide_op before = op;
        assert_int_equal(bi_keep(&op), BIDE_OK);
        assert_memory_equal(&op, &before, sizeof(op));
        assert_false(bi_keep_end(&op));
    }
}

static void empty_texts_need_no_copies(void **state)
{
    (void)state;
    bide_op op = {.kind = BIDE_OP_FAIL, .fail = {.error = {"", 0}}};
    bide_op before = op;
    assert_int_equal(bi_keep(&op), BIDE_OK);
    assert_memory_equal(&op, &before, sizeof(op));
    bide_op list = {.kind = BIDE_OP_LIST};
    assert_int_equal(bi_keep(&list), BIDE_OK);
    assert_false(bi_keep_end(&list));
}

static void an_op_that_is_kept_is_not_kept_again(void **state)
{
    (void)state;
    struct kept_op kept = {.op = {.kind = BIDE_OP_KICK, .kick = {.topic = say("a")}}};
    keep(&kept);
    const void *copy = kept.op.kick.topic.data;
    assert_int_equal(bi_keep(&kept.op), BIDE_OK);
    assert_ptr_equal(kept.op.kick.topic.data, copy);
    end(&kept);
}

/* The caller's reference goes when submit has returned; the copy must have its own. */
static void a_body_that_came_as_a_buffer_stays(void **state)
{
    (void)state;
    bide_op op = {.kind = BIDE_OP_PUT,
                  .put = {.topic = say("mail"),
                          .buf = bide_buf_new("body", 4),
                          .options = lay_options("key")}};
    assert_int_equal(bi_keep(&op), BIDE_OK);
    bide_buf_unref(op.put.buf);
    assert_int_equal(bide_buf_size(op.put.buf), 4);
    assert_memory_equal(bide_buf_data(op.put.buf), "body", 4);
    assert_true(bi_keep_end(&op));
}

static void a_result_that_came_as_a_buffer_stays(void **state)
{
    (void)state;
    bide_op op = {.kind = BIDE_OP_DONE,
                  .finish = {.id = 5, .keep = true, .buf = bide_buf_new("result", 6)}};
    assert_int_equal(bi_keep(&op), BIDE_OK);
    bide_buf_unref(op.finish.buf);
    assert_int_equal(bide_buf_size(op.finish.buf), 6);
    assert_memory_equal(bide_buf_data(op.finish.buf), "result", 6);
    bi_keep_end(&op);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_put_keeps_its_topic_its_options_and_their_key),
        TEST(a_put_without_options_keeps_its_topic),
        TEST(a_put_of_many_keeps_those_of_each),
        TEST(items_that_share_their_options_each_get_them_back),
        TEST(a_restore_keeps_the_job_its_key_and_its_error),
        TEST(texts_of_ops_by_id_are_kept),
        TEST(the_texts_of_many_touches_are_kept),
        TEST(a_finish_and_reserve_keeps_topics_and_weights),
        TEST(names_of_ops_that_need_all_jobs_are_kept),
        TEST(looks_by_name_keep_topic_and_key),
        TEST(a_list_keeps_its_topic_and_its_filter_and_not_its_cursor),
        TEST(a_backup_keeps_its_path),
        TEST(a_caller_that_waits_needs_no_copies),
        TEST(an_op_that_points_to_nothing_needs_no_copies),
        TEST(empty_texts_need_no_copies),
        TEST(an_op_that_is_kept_is_not_kept_again),
        TEST(a_body_that_came_as_a_buffer_stays),
        TEST(a_result_that_came_as_a_buffer_stays),
    };
    return cmocka_run_group_tests_name("keep", tests, NULL, NULL);
}
