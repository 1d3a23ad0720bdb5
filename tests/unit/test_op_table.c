/* SPDX-License-Identifier: MIT */
/*
 * The op table is complete: every row agrees with its layouts, and what is derived from the layouts
 * works for ops of every kind.
 */
#include "op/op_args.h"
#include "op/op_codec.h"
#include "op/op_codec_field.h"
#include "op/op_result.h"

#include "random_results.h"

#define ROUNDS 200

static struct op_world world;
static bide_op op;
static char error[BIDE_ERROR_SIZE];

static int begin(void **state)
{
    (void)state;
    dice.state = 20261118;
    return 0;
}

/* ---- rows ---- */

/* The offset in the struct of the first field of this type, or -1; items of lists count as well. */
static long find(const struct layout *layout, const struct field_codec *codec)
{
    for (size_t i = 0; layout != NULL && i < layout->count; i++) {
        const struct field *field = &layout->fields[i];
        if (field->codec == codec)
            return field->at;
        if (field->codec != &bi_op_codec_field_struct && field->codec != &bi_op_codec_field_items)
            continue;
        long inner = find(field->layout, codec);
        if (inner >= 0)
            return field->at + inner;
    }
    return -1;
}

#define HAS(layout, name) (find(layout, &bi_op_codec_field_##name) >= 0)

static bool has_snapshots(const struct layout *layout)
{
    for (size_t i = 0; layout != NULL && i < layout->count; i++)
        if ((layout->fields[i].codec == &bi_op_codec_field_one ||
             layout->fields[i].codec == &bi_op_codec_field_list) &&
            layout->fields[i].layout->clear != NULL)
            return true;
    return false;
}

/* True if the gate of recovery knows what the op depends on. */
static bool is_gated(const struct op_row *row)
{
    return HAS(row->args, id) || HAS(row->args, changed_topic) || HAS(row->args, topics) ||
           HAS(row->args, restored) || HAS(row->args, feed) ||
           (row->flags & (OP_NEEDS_RECOVERY | OP_IMMEDIATE | OP_MAINTENANCE)) != 0;
}

/* What is wrong with a row; NULL if nothing is. */
static const char *find_problem(const struct op_row *row)
{
    if (row->name == NULL || row->name_size == 0 || row->name_size != strlen(row->name))
        return "name";
    if (row->rules == NULL && row->check == NULL)
        return "check";
    if (row->args == NULL)
        return "arguments";
    for (size_t i = 0; i < row->args->count; i++)
        if (row->args->fields[i].codec != &bi_op_codec_field_feed &&
            (row->args->fields[i].at < offsetof(bide_op, put) ||
             row->args->fields[i].at >= offsetof(bide_op, error)))
            return "place of the arguments";

    long timeout = find(row->args, &bi_op_codec_field_timeout);
    if (row->timeout_at != (timeout < 0 ? 0 : timeout))
        return "timeout";
    long topics = find(row->args, &bi_op_codec_field_topics);
    if (row->reserve_at != (topics < 0 ? 0 : topics))
        return "reserve arguments";

    bool has_payload = HAS(row->args, body) || HAS(row->args, made);
    if (((row->flags & OP_PAYLOAD) != 0) != has_payload)
        return "copies of bodies";
    if (HAS(row->args, items) != HAS(row->results_any, outcomes))
        return "outcomes of items";
    if (!is_gated(row))
        return "what it depends on during recovery";

    unsigned flags = row->flags;
    if ((topics >= 0) && (flags & OP_RESERVES) == 0)
        return "OP_RESERVES";
    if ((flags & OP_RESERVES) != 0 && !has_snapshots(row->results_ok))
        return "reserved jobs";
    if (HAS(row->results_ok, buf) && (flags & (OP_BODIES | OP_RESULTS)) == 0)
        return "OP_BODIES or OP_RESULTS";
    if ((flags & OP_RESERVES) != 0 && (flags & OP_BODIES) == 0)
        return "OP_BODIES";
    if ((flags & OP_BODIES) != 0 && !has_snapshots(row->results_ok) && !HAS(row->results_ok, buf))
        return "bodies";
    if ((flags & OP_COUNTS) != 0 && !HAS(row->results_any, u64))
        return "count";
    if ((flags & OP_COUNTS) == 0 && HAS(row->results_any, u64))
        return "OP_COUNTS";
    bool two = row->reserve_at != 0 && HAS(row->args, id);
    if (two != ((flags & OP_TWO_PARTS) != 0))
        return "OP_TWO_PARTS";
    if ((flags & OP_EXCLUSIVE) != 0 && (flags & OP_MAINTENANCE) == 0)
        return "OP_MAINTENANCE";
    if (((flags & OP_PAGE) != 0) != (HAS(row->args, cursor) && HAS(row->results_ok, list)))
        return "OP_PAGE";
    if (HAS(row->results_ok, id) != ((flags & OP_INSERTS_JOBS) != 0 && !HAS(row->args, items)))
        return "OP_INSERTS_JOBS";
    if ((flags & OP_INSERTS_JOBS) != 0 && (row->needs_recovery == NULL || !has_payload))
        return "keys during recovery";
    /* An immediate op is not throttled, so it may have to be undone when bodies must be read. */
    if ((flags & OP_IMMEDIATE) != 0 && (flags & OP_BODIES) != 0 && row->undo == NULL)
        return "undo";
    /* What is repeated changes no job, except that a lease expires. */
    if ((flags & OP_REPEATABLE) != 0 && (flags & (OP_INSERTS_JOBS | OP_COUNTS | OP_TWO_PARTS)) != 0)
        return "OP_REPEATABLE";
    return NULL;
}

static void every_row_is_complete(void **state)
{
    (void)state;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        const char *problem = find_problem(&bi_op_table[kind]);
        if (problem != NULL)
            fail_msg("op %d (%s): %s", kind, bide_op_name((bide_op_kind)kind), problem);
    }
}

/* The arguments of an op are members of its own struct in the union. */
static void expect_args_within(const struct op_row *row, size_t start, size_t size)
{
    for (size_t i = 0; i < row->args->count; i++) {
        const struct field *field = &row->args->fields[i];
        if (field->codec != &bi_op_codec_field_feed)
            assert_in_range(field->at, start, start + size - 1);
    }
}

/* The numbers are part of the ABI and of the layout of the table: without gaps, in the order of the
 * list. */
static void kinds_have_consecutive_numbers(void **state)
{
    (void)state;
    int next = BIDE_OP_NONE;
#define CHECK(NAME, number, op_name, member)                 \
    assert_int_equal(BIDE_OP_##NAME, ++next);                \
    assert_int_equal(BIDE_OP_##NAME, number);                \
    assert_string_equal(bi_op_table[number].name, #op_name); \
    expect_args_within(&bi_op_table[number], offsetof(bide_op, member), sizeof(op.member));
    BIDE_OPS(CHECK)
#undef CHECK
    assert_int_equal(BIDE_OP_COUNT, next + 1);
    /* Kinds that exist keep their numbers. */
    assert_int_equal(BIDE_OP_PUT, 1);
    assert_int_equal(BIDE_OP_RESERVE, 3);
    assert_int_equal(BIDE_OP_PEEK, 19);
    assert_int_equal(BIDE_OP_PING, 39);
    assert_int_equal(BIDE_OP_DRAIN, 43);
}

static void expect_problem(struct op_row row, const char *what)
{
    if (find_problem(&row) == NULL)
        fail_msg("%s without its %s is not noticed", row.name == NULL ? "?" : row.name, what);
}

/* Each column of each row is taken away in turn. */
static void missing_column_is_noticed(void **state)
{
    (void)state;
#define WITHOUT(column)                               \
    do {                                              \
        struct op_row copy = *row;                    \
        memset(&copy.column, 0, sizeof(copy.column)); \
        expect_problem(copy, #column);                \
    } while (0)
#define WITHOUT_FLAG(flag)               \
    do {                                 \
        struct op_row copy = *row;       \
        copy.flags &= ~(unsigned)(flag); \
        expect_problem(copy, #flag);     \
    } while (0)

    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        const struct op_row *row = &bi_op_table[kind];
        struct op_row unchecked = *row;
        unchecked.rules = NULL;
        unchecked.check = NULL;
        expect_problem(unchecked, "check");
        WITHOUT(name);
        WITHOUT(args);
        if (row->timeout_at != 0)
            WITHOUT(timeout_at);
        if (row->reserve_at != 0)
            WITHOUT(reserve_at);
        if ((row->flags & OP_PAYLOAD) != 0)
            WITHOUT_FLAG(OP_PAYLOAD);
        if (row->results_any != NULL && !HAS(row->results_any, status))
            WITHOUT(results_any);
        if (row->results_ok != NULL && (row->flags & (OP_BODIES | OP_PAGE)) != 0)
            WITHOUT(results_ok);
        if ((row->flags & OP_INSERTS_JOBS) != 0)
            WITHOUT(needs_recovery);
        if (row->undo != NULL)
            WITHOUT(undo);
        if (row->reserve_at != 0)
            WITHOUT_FLAG(OP_RESERVES);
        if (HAS(row->results_ok, buf))
            WITHOUT_FLAG(OP_BODIES | OP_RESULTS);
        if ((row->flags & OP_TWO_PARTS) != 0)
            WITHOUT_FLAG(OP_TWO_PARTS);
        if ((row->flags & OP_COUNTS) != 0)
            WITHOUT_FLAG(OP_COUNTS);
        if ((row->flags & OP_PAGE) != 0)
            WITHOUT_FLAG(OP_PAGE);
    }
}

/* A new op in a copy of the table: it is refused until the last of its columns is there. */
static void new_op_needs_all_its_columns(void **state)
{
    (void)state;
    static struct op_row rows[BIDE_OP_COUNT + 1];
    memcpy(rows, bi_op_table, sizeof(bi_op_table));
    struct op_row *row = &rows[BIDE_OP_COUNT];
    const struct op_row *like = &bi_op_table[BIDE_OP_FINISH_AND_RESERVE];

    assert_string_equal(find_problem(row), "name");
    row->name = "finish_all_and_reserve";
    row->name_size = (uint8_t)strlen(row->name);
    assert_string_equal(find_problem(row), "check");
    row->check = like->check;
    assert_string_equal(find_problem(row), "arguments");
    row->args = like->args;
    assert_string_equal(find_problem(row), "timeout");
    row->timeout_at = like->timeout_at;
    assert_string_equal(find_problem(row), "reserve arguments");
    row->reserve_at = like->reserve_at;
    assert_string_equal(find_problem(row), "copies of bodies");
    row->flags |= OP_PAYLOAD;
    assert_string_equal(find_problem(row), "OP_RESERVES");
    row->flags |= OP_RESERVES;
    assert_string_equal(find_problem(row), "reserved jobs");
    row->results_any = like->results_any;
    row->results_ok = like->results_ok;
    assert_string_equal(find_problem(row), "OP_BODIES");
    row->flags |= OP_BODIES;
    assert_string_equal(find_problem(row), "OP_TWO_PARTS");
    row->flags |= OP_TWO_PARTS;
    assert_null(find_problem(row));

    /* A query by name that does not wait for recovery would return NOT_FOUND during it. */
    *row = bi_op_table[BIDE_OP_FIND];
    row->flags &= ~(unsigned)OP_NEEDS_RECOVERY;
    assert_string_equal(find_problem(row), "what it depends on during recovery");
}

/* ---- ids and topics ---- */

static void ids_and_topics_are_found(void **state)
{
    (void)state;
    bide_finish_item finishes[2] = {{.id = 7}, {.id = 8}};
    bide_op many = {.kind = BIDE_OP_FINISH_MANY, .finish_many = {.items = finishes, .count = 2}};
    assert_int_equal(bi_op_args_id_count(&many), 2);
    assert_int_equal(bi_op_args_id(&many, 0), 7);
    assert_int_equal(bi_op_args_id(&many, 1), 8);
    assert_int_equal(bi_op_args_item_count(&many), 2);
    assert_int_equal(bi_op_args_topic_count(&many), 0);

    bide_slice topics[2] = {{"a", 1}, {"bc", 2}};
    bide_op both = {.kind = BIDE_OP_FINISH_AND_RESERVE,
                    .finish_and_reserve = {.finish = {.id = 9},
                                           .reserve = {.topics = topics, .topic_count = 2}}};
    assert_int_equal(bi_op_args_id_count(&both), 1);
    assert_int_equal(bi_op_args_id(&both, 0), 9);
    assert_int_equal(bi_op_args_topic_count(&both), 2);
    assert_int_equal(bi_op_args_topic(&both, 1).size, 2);
    assert_ptr_equal(bi_op_finish_part(&both), &both.finish_and_reserve.finish);

    bide_put_item puts[2] = {{.topic = {"x", 1}}, {.topic = {"yz", 2}}};
    bide_op put_many = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = puts, .count = 2}};
    assert_int_equal(bi_op_args_id_count(&put_many), 0);
    assert_int_equal(bi_op_args_topic_count(&put_many), 2);
    assert_int_equal(bi_op_args_topic(&put_many, 1).size, 2);

    bide_job job = {.topic = "mail"};
    bide_op restore = {.kind = BIDE_OP_RESTORE, .restore = {.job = &job}};
    assert_int_equal(bi_op_args_id_count(&restore), 0);
    assert_int_equal(bi_op_args_topic_count(&restore), 1);
    assert_int_equal(bi_op_args_topic(&restore, 0).size, 4);

    bide_op update = {.kind = BIDE_OP_UPDATE, .update = {.id = 3}};
    assert_int_equal(bi_op_args_topic_count(&update), 0);
    update.update.topic = topics[1];
    assert_int_equal(bi_op_args_topic_count(&update), 1);
    assert_int_equal(bi_op_args_id(&update, 0), 3);

    /* A query by name ignores the id, and changes no topic. */
    bide_op find_op = {.kind = BIDE_OP_FIND, .query = {.id = 3, .topic = topics[0]}};
    assert_int_equal(bi_op_args_id_count(&find_op) + bi_op_args_topic_count(&find_op), 0);
    bide_op peek = {.kind = BIDE_OP_PEEK, .query = {.id = 3}};
    assert_int_equal(bi_op_args_id(&peek, 0), 3);
}

/* ---- duplicates ---- */

static void drop_unused_result(bide_finish_item *item)
{
    if (item->keep)
        return;
    item->result = (bide_slice){NULL, 0};
    item->buf = item->made_ = NULL;
}

/* A random op without arguments that its kind does not read while it waits: those are not
 * copied. */
static void any_used_op(bide_op_kind kind)
{
    any_op(&world, &op, kind);
    for (size_t i = 0; kind == BIDE_OP_FINISH_MANY && i < op.finish_many.count; i++)
        drop_unused_result(&op.finish_many.items[i]);
    if (kind == BIDE_OP_FINISH_AND_RESERVE)
        drop_unused_result(&op.finish_and_reserve.finish);
    if (kind == BIDE_OP_FINISH_AND_PUT)
        drop_unused_result(&op.finish_and_put.finish);
    if (kind == BIDE_OP_PEEK || kind == BIDE_OP_JOB_STATS)
        op.query.topic = op.query.key = (bide_slice){NULL, 0};
    if (kind == BIDE_OP_RESTORE) { /* these have buffers, which are not sent */
        world.given.body = world.given.result = NULL;
        world.given.progress = NULL;
        world.given.body_size = world.given.result_size = world.given.progress_size = 0;
    }
}

/* The op as a server gets it: its slices point into bytes, which are overwritten when it waits.
 * What it would send afterwards is the same. */
static void every_op_keeps_copies_of_its_arguments(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS * BIDE_OP_COUNT; round++) {
        bide_op_kind kind = (bide_op_kind)(BIDE_OP_NONE + 1 + round % (BIDE_OP_COUNT - 1));
        static struct decoded_op call;
        struct op_bytes sent = {NULL, 0, 0};
        struct op_bytes expected = {NULL, 0, 0};
        struct op_bytes after = {NULL, 0, 0};

        any_used_op(kind);
        assert_int_equal(bi_op_codec_encode(&op, 5, &sent), BIDE_OK);
        unsigned char *given = malloc(sent.size + 1);
        assert_non_null(given);
        if (sent.size > 0)
            memcpy(given, sent.data, sent.size);
        assert_int_equal(bi_op_codec_decode(&call, kind, given, sent.size, error), BIDE_OK);

        /* As the check does: a done always retains its result. */
        if (kind == BIDE_OP_DONE)
            call.op.finish.keep = true;
        if (bi_op_is(&call.op, OP_PAYLOAD))
            assert_int_equal(bi_op_payload_copy(&call.op), BIDE_OK);
        assert_int_equal(bi_op_codec_encode(&call.op, 5, &expected), BIDE_OK);
        static bide_op before;
        before = call.op;
        assert_int_equal(bi_op_args_dup(&call.op), BIDE_OK);
        memset(given, '#', sent.size);
        assert_int_equal(bi_op_codec_encode(&call.op, 5, &after), BIDE_OK);
        if (after.size != expected.size ||
            (after.size > 0 && memcmp(after.data, expected.data, after.size) != 0))
            fail_msg("%s: an argument is not copied", bide_op_name(kind));

        bi_op_args_dup_restore(&call.op);
        assert_memory_equal(&call.op, &before, sizeof(before));
        bi_op_payload_free(&call.op);
        bi_op_codec_free_op(&call);
        free(given);
        bi_op_codec_wire_free_bytes(&sent);
        bi_op_codec_wire_free_bytes(&expected);
        bi_op_codec_wire_free_bytes(&after);
        end_op(&world);
    }
}

/* ---- results ---- */

static void discarded_results_leave_nothing(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS * BIDE_OP_COUNT; round++) {
        bide_op_kind kind = (bide_op_kind)(BIDE_OP_NONE + 1 + round % (BIDE_OP_COUNT - 1));
        static struct decoded_op call;
        struct op_bytes sent = {NULL, 0, 0};
        bide_job *jobs;

        any_used_op(kind);
        assert_int_equal(bi_op_codec_encode(&op, 5, &sent), BIDE_OK);
        assert_int_equal(bi_op_codec_decode(&call, kind, sent.data, sent.size, error), BIDE_OK);
        any_answer(&call.op, BIDE_OK);
        call.op.private_.status = BIDE_OK;

        bi_op_result_discard(&call.op, BIDE_EIO, "the disk is gone");
        assert_int_equal(call.op.private_.status, BIDE_EIO);
        assert_string_equal(call.op.error, "the disk is gone");
        assert_null(bi_op_result_buf(&call.op));
        size_t count = bi_op_result_snapshots(&call.op, &jobs);
        for (size_t i = 0; i < count; i++)
            assert_true(jobs[i].body == NULL && jobs[i].bufs_[0] == NULL && jobs[i].id == 0);
        for (size_t i = 0; kind == BIDE_OP_PUT_MANY && i < call.op.put_many.count; i++)
            assert_true(call.op.put_many.items[i].status != BIDE_OK);
        bi_op_result_fail_items(&call.op, BIDE_EIO);
        for (size_t i = 0; kind == BIDE_OP_FINISH_AND_PUT && i < call.op.finish_and_put.count; i++)
            assert_int_equal(call.op.finish_and_put.items[i].status, BIDE_EIO);
        if (bi_op_finish_part(&call.op) != NULL)
            assert_int_not_equal(bi_op_finish_part(&call.op)->status, BIDE_OK);

        call.op.status = BIDE_EIO;
        bi_op_codec_free_op(&call);
        bi_op_codec_wire_free_bytes(&sent);
        end_op(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_complete),
        cmocka_unit_test(kinds_have_consecutive_numbers),
        cmocka_unit_test(missing_column_is_noticed),
        cmocka_unit_test(new_op_needs_all_its_columns),
        cmocka_unit_test(ids_and_topics_are_found),
        cmocka_unit_test(every_op_keeps_copies_of_its_arguments),
        cmocka_unit_test(discarded_results_leave_nothing),
    };
    return cmocka_run_group_tests_name("op_table", tests, begin, NULL);
}
