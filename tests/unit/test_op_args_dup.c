/* SPDX-License-Identifier: MIT */
/*
 * The arguments of an op that has to wait are kept, and its caller gets its own pointers back.
 */
#include "op/op_args.h"

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

static void *store(const void *data, size_t size)
{
    void *place = arena + used;
    used += (size + 15) & ~(size_t)15;
    assert_true(used <= sizeof(arena));
    memcpy(place, data, size);
    return place;
}

static bide_slice make_slice(const char *text)
{
    return (bide_slice){store(text, strlen(text)), strlen(text)};
}

static void assert_slice(bide_slice slice, const char *text)
{
    assert_int_equal(slice.size, strlen(text));
    assert_memory_equal(slice.data, text, slice.size);
}

/* An op that is kept while its caller goes on. */
struct copied_op {
    bide_op op;
    bide_op before;
};

static void keep(struct copied_op *kept)
{
    kept->before = kept->op;
    assert_int_equal(bi_op_args_dup(&kept->op), BIDE_OK);
    assert_non_null(kept->op.private_.args_dup);
    memset(arena, '#', used);
}

/* The op is as it was, to the last byte. */
static void restore_args(struct copied_op *kept)
{
    assert_true(bi_op_args_dup_restore(&kept->op));
    assert_memory_equal(&kept->op, &kept->before, sizeof(kept->op));
    assert_false(bi_op_args_dup_restore(&kept->op));
}

/* ---- jobs that come ---- */

static bide_put_options *store_options(const char *key)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 77;
    options.delay_ms = 88;
    options.key = make_slice(key);
    return store(&options, sizeof(options));
}

static void assert_options(const bide_put_options *options, const char *key)
{
    assert_int_equal(options->size, sizeof(*options));
    assert_int_equal(options->priority, 77);
    assert_int_equal(options->delay_ms, 88);
    assert_int_equal(options->max_retries, BIDE_NO_RETRY_LIMIT);
    assert_slice(options->key, key);
}

static void put_copies_topic_options_and_key(void **state)
{
    (void)state;
    struct copied_op kept = {
        .op = {.kind = BIDE_OP_PUT,
               .put = {.topic = make_slice("mail"), .options = store_options("key")}}};
    keep(&kept);
    assert_slice(kept.op.put.topic, "mail");
    assert_options(kept.op.put.options, "key");
    restore_args(&kept);
}

static void put_without_options_copies_topic(void **state)
{
    (void)state;
    struct copied_op kept = {.op = {.kind = BIDE_OP_PUT, .put = {.topic = make_slice("mail")}}};
    keep(&kept);
    assert_slice(kept.op.put.topic, "mail");
    assert_null(kept.op.put.options);
    restore_args(&kept);
}

static void put_many_copies_every_item(void **state)
{
    (void)state;
    bide_put_item items[3];
    memset(items, 0, sizeof(items));
    items[0] = (bide_put_item){.topic = make_slice("one"), .options = store_options("first")};
    items[1] = (bide_put_item){.topic = make_slice("two")};
    items[2] = (bide_put_item){.topic = make_slice("three"), .options = store_options("third")};
    bide_put_item before[3];
    memcpy(before, items, sizeof(items));
    struct copied_op kept = {
        .op = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 3}}};
    keep(&kept);
    assert_slice(items[0].topic, "one");
    assert_options(items[0].options, "first");
    assert_slice(items[1].topic, "two");
    assert_slice(items[2].topic, "three");
    assert_options(items[2].options, "third");
    items[1].id = 5; /* what comes out goes to the caller's items */
    restore_args(&kept);
    assert_int_equal(items[1].id, 5);
    items[1].id = 0;
    assert_memory_equal(items, before, sizeof(items));
}

static void shared_options_are_restored_for_every_item(void **state)
{
    (void)state;
    const bide_put_options *options = store_options("shared");
    bide_put_item items[2];
    memset(items, 0, sizeof(items));
    for (int i = 0; i < 2; i++)
        items[i] = (bide_put_item){.topic = make_slice("one"), .options = options};
    struct copied_op kept = {
        .op = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}}};
    keep(&kept);
    assert_options(items[0].options, "shared");
    assert_options(items[1].options, "shared");
    restore_args(&kept);
    assert_ptr_equal(items[0].options, options);
    assert_ptr_equal(items[1].options, options);
}

static void restore_copies_job_key_and_error(void **state)
{
    (void)state;
    bide_job job;
    memset(&job, 0, sizeof(job));
    job.state = BIDE_STATE_BURIED;
    job.priority = 9;
    strcpy(job.topic, "mail");
    bide_slice key = make_slice("key");
    bide_slice error = make_slice("oops");
    job.key = key.data;
    job.key_size = key.size;
    job.last_error = error.data;
    job.last_error_size = error.size;
    bide_slice history = make_slice("log");
    job.history = history.data;
    job.history_size = history.size;
    struct copied_op kept = {
        .op = {.kind = BIDE_OP_RESTORE, .restore = {.job = store(&job, sizeof(job))}}};
    keep(&kept);
    const bide_job *seen = kept.op.restore.job;
    assert_string_equal(seen->topic, "mail");
    assert_int_equal(seen->state, BIDE_STATE_BURIED);
    assert_int_equal(seen->priority, 9);
    assert_slice((bide_slice){seen->key, seen->key_size}, "key");
    assert_slice((bide_slice){seen->last_error, seen->last_error_size}, "oops");
    assert_slice((bide_slice){seen->history, seen->history_size}, "log");
    restore_args(&kept);
}

/* ---- ops on jobs that are not loaded yet ---- */

static void texts_of_ops_by_id_are_copied(void **state)
{
    (void)state;
    struct copied_op touch = {
        .op = {.kind = BIDE_OP_TOUCH, .touch = {.progress = make_slice("half")}}};
    keep(&touch);
    assert_slice(touch.op.touch.progress, "half");
    restore_args(&touch);
    struct copied_op fail_it = {
        .op = {.kind = BIDE_OP_FAIL, .fail = {.error = make_slice("oops")}}};
    keep(&fail_it);
    assert_slice(fail_it.op.fail.error, "oops");
    restore_args(&fail_it);
    struct copied_op bury = {.op = {.kind = BIDE_OP_BURY, .bury = {.reason = make_slice("why")}}};
    keep(&bury);
    assert_slice(bury.op.bury.reason, "why");
    restore_args(&bury);
    struct copied_op update = {
        .op = {.kind = BIDE_OP_UPDATE, .update = {.topic = make_slice("to")}}};
    keep(&update);
    assert_slice(update.op.update.topic, "to");
    restore_args(&update);
}

static void touch_many_copies_progress_texts(void **state)
{
    (void)state;
    bide_touch_item items[3];
    memset(items, 0, sizeof(items));
    items[0].progress = make_slice("first");
    items[2].progress = make_slice("third");
    bide_touch_item before[3];
    memcpy(before, items, sizeof(items));
    struct copied_op kept = {
        .op = {.kind = BIDE_OP_TOUCH_MANY, .touch_many = {.items = items, .count = 3}}};
    keep(&kept);
    assert_slice(items[0].progress, "first");
    assert_int_equal(items[1].progress.size, 0);
    assert_slice(items[2].progress, "third");
    restore_args(&kept);
    assert_memory_equal(items, before, sizeof(items));
}

static void finish_and_reserve_copies_topics_and_weights(void **state)
{
    (void)state;
    const bide_slice names[3] = {make_slice("one"), make_slice("two"), make_slice("three")};
    static const uint32_t numbers[3] = {1, 20, 300};
    bide_job jobs[2];
    struct copied_op kept = {
        .op = {.kind = BIDE_OP_FINISH_AND_RESERVE,
               .finish_and_reserve = {.reserve = {.topics = store(names, sizeof(names)),
                                                  .topic_count = 3,
                                                  .weights = store(numbers, sizeof(numbers)),
                                                  .strategy = BIDE_WEIGHTED,
                                                  .jobs = jobs,
                                                  .job_max = 2}}}};
    keep(&kept);
    const bide_reserve_args *args = &kept.op.finish_and_reserve.reserve;
    assert_slice(args->topics[0], "one");
    assert_slice(args->topics[1], "two");
    assert_slice(args->topics[2], "three");
    assert_memory_equal(args->weights, numbers, sizeof(numbers));
    assert_ptr_equal(args->jobs, jobs); /* where results go is the caller's */
    restore_args(&kept);
}

/* ---- ops that need all jobs ---- */

static void topic_names_are_copied(void **state)
{
    (void)state;
    struct copied_op kick = {.op = {.kind = BIDE_OP_KICK, .kick = {.topic = make_slice("a")}}};
    keep(&kick);
    assert_slice(kick.op.kick.topic, "a");
    restore_args(&kick);
    struct copied_op purge = {.op = {.kind = BIDE_OP_PURGE, .purge = {.topic = make_slice("b")}}};
    keep(&purge);
    assert_slice(purge.op.purge.topic, "b");
    restore_args(&purge);
    struct copied_op resume = {.op = {.kind = BIDE_OP_RESUME, .topic = {.topic = make_slice("c")}}};
    keep(&resume);
    assert_slice(resume.op.topic.topic, "c");
    restore_args(&resume);
    struct copied_op stats = {
        .op = {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {.topic = make_slice("d")}}};
    keep(&stats);
    assert_slice(stats.op.topic_stats.topic, "d");
    restore_args(&stats);
    struct copied_op hold = {
        .op = {.kind = BIDE_OP_TOPIC_REF, .topic = {.topic = make_slice("e")}}};
    keep(&hold);
    assert_slice(hold.op.topic.topic, "e");
    restore_args(&hold);
    struct copied_op feed = {
        .op = {.kind = BIDE_OP_SUBSCRIBE, .subscription = {.topic = make_slice("f")}}};
    keep(&feed);
    assert_slice(feed.op.subscription.topic, "f");
    restore_args(&feed);
}

static void queries_by_name_copy_topic_and_key(void **state)
{
    (void)state;
    static const bide_op_kind kinds[] = {BIDE_OP_FIND, BIDE_OP_PEEK_FIRST};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        set_up(NULL);
        bide_job job;
        struct copied_op kept = {
            .op = {.kind = kinds[i],
                   .query = {.topic = make_slice("mail"), .key = make_slice("key"), .job = &job}}};
        keep(&kept);
        assert_slice(kept.op.query.topic, "mail");
        assert_slice(kept.op.query.key, "key");
        assert_ptr_equal(kept.op.query.job, &job);
        restore_args(&kept);
    }
}

static void list_copies_topic_and_filter_but_not_cursor(void **state)
{
    (void)state;
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[2];
    struct copied_op kept = {
        .op = {.kind = BIDE_OP_LIST,
               .list = {.topic = make_slice("mail"),
                        .filter = {.key = make_slice("key"), .text = make_slice("text")},
                        .cursor = cursor,
                        .jobs = jobs}}};
    keep(&kept);
    assert_slice(kept.op.list.topic, "mail");
    assert_slice(kept.op.list.filter.key, "key");
    assert_slice(kept.op.list.filter.text, "text");
    assert_ptr_equal(kept.op.list.cursor, cursor);
    assert_ptr_equal(kept.op.list.jobs, jobs);
    restore_args(&kept);
}

static void backup_copies_its_path(void **state)
{
    (void)state;
    struct copied_op kept = {
        .op = {.kind = BIDE_OP_BACKUP, .backup = {.path = store("/tmp/copy", 10)}}};
    keep(&kept);
    assert_string_equal(kept.op.backup.path, "/tmp/copy");
    restore_args(&kept);
}

/* ---- nothing to do ---- */

static void blocking_call_makes_no_copies(void **state)
{
    (void)state;
    int wake = 0;
    bide_op op = {.kind = BIDE_OP_PUT,
                  .put = {.topic = make_slice("mail"), .options = store_options("key")},
                  .private_ = {.wake = &wake}};
    bide_op before = op;
    assert_int_equal(bi_op_args_dup(&op), BIDE_OK);
    assert_memory_equal(&op, &before, sizeof(op));
    assert_false(bi_op_args_dup_restore(&op));
}

static void op_without_pointers_makes_no_copies(void **state)
{
    (void)state;
    static const bide_op_kind kinds[] = {
        BIDE_OP_DELETE, BIDE_OP_GIVE_BACK, BIDE_OP_KICK_JOB, BIDE_OP_CANCEL, BIDE_OP_PEEK,
        BIDE_OP_BODY,   BIDE_OP_RESULT,    BIDE_OP_WAIT,     BIDE_OP_STATS,  BIDE_OP_RELEASE,
    };
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        bide_op op = {.kind = kinds[i], .lease = {.id = 7}};
        bide_op before = op;
        assert_int_equal(bi_op_args_dup(&op), BIDE_OK);
        assert_memory_equal(&op, &before, sizeof(op));
        assert_false(bi_op_args_dup_restore(&op));
    }
}

static void empty_texts_make_no_copies(void **state)
{
    (void)state;
    bide_op op = {.kind = BIDE_OP_FAIL, .fail = {.error = {"", 0}}};
    bide_op before = op;
    assert_int_equal(bi_op_args_dup(&op), BIDE_OK);
    assert_memory_equal(&op, &before, sizeof(op));
    bide_op list = {.kind = BIDE_OP_LIST};
    assert_int_equal(bi_op_args_dup(&list), BIDE_OK);
    assert_false(bi_op_args_dup_restore(&list));
}

static void second_dup_changes_nothing(void **state)
{
    (void)state;
    struct copied_op kept = {.op = {.kind = BIDE_OP_KICK, .kick = {.topic = make_slice("a")}}};
    keep(&kept);
    const void *copy = kept.op.kick.topic.data;
    assert_int_equal(bi_op_args_dup(&kept.op), BIDE_OK);
    assert_ptr_equal(kept.op.kick.topic.data, copy);
    restore_args(&kept);
}

/* The caller's reference goes when submit has returned; the copy must have its own. */
static void body_buffer_is_referenced(void **state)
{
    (void)state;
    bide_op op = {.kind = BIDE_OP_PUT,
                  .put = {.topic = make_slice("mail"),
                          .buf = bide_buf_new("body", 4),
                          .options = store_options("key")}};
    assert_int_equal(bi_op_args_dup(&op), BIDE_OK);
    bide_buf_unref(op.put.buf);
    assert_int_equal(bide_buf_size(op.put.buf), 4);
    assert_memory_equal(bide_buf_data(op.put.buf), "body", 4);
    assert_true(bi_op_args_dup_restore(&op));
}

static void result_buffer_is_referenced(void **state)
{
    (void)state;
    bide_op op = {.kind = BIDE_OP_DONE,
                  .finish = {.id = 5, .keep = true, .buf = bide_buf_new("result", 6)}};
    assert_int_equal(bi_op_args_dup(&op), BIDE_OK);
    bide_buf_unref(op.finish.buf);
    assert_int_equal(bide_buf_size(op.finish.buf), 6);
    assert_memory_equal(bide_buf_data(op.finish.buf), "result", 6);
    bi_op_args_dup_restore(&op);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(put_copies_topic_options_and_key),
        TEST(put_without_options_copies_topic),
        TEST(put_many_copies_every_item),
        TEST(shared_options_are_restored_for_every_item),
        TEST(restore_copies_job_key_and_error),
        TEST(texts_of_ops_by_id_are_copied),
        TEST(touch_many_copies_progress_texts),
        TEST(finish_and_reserve_copies_topics_and_weights),
        TEST(topic_names_are_copied),
        TEST(queries_by_name_copy_topic_and_key),
        TEST(list_copies_topic_and_filter_but_not_cursor),
        TEST(backup_copies_its_path),
        TEST(blocking_call_makes_no_copies),
        TEST(op_without_pointers_makes_no_copies),
        TEST(empty_texts_make_no_copies),
        TEST(second_dup_changes_nothing),
        TEST(body_buffer_is_referenced),
        TEST(result_buffer_is_referenced),
    };
    return cmocka_run_group_tests_name("keep", tests, NULL, NULL);
}
