/* SPDX-License-Identifier: MIT */
/*
 * The SQLite file as a whole: whose it is, what may be wrong with it, copies and checks.
 */
#include "sqlite_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>

static struct store *store;
static char error[BIDE_ERROR_SIZE];

/* While it is set, no directory can be synced. */
static bool fail_directories;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
    struct stat status;
    if (fail_directories && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

static int set_up(void **state)
{
    folder_make(state);
    open_store(&store);
    return 0;
}

static int tear_down(void **state)
{
    if (store != NULL)
        close_store(store);
    return folder_remove(state);
}

static void in_folder(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static int count_one(void *ctx, const struct bi_record *record, const char *damage)
{
    uint64_t *counts = ctx; /* good rows, damaged ones, the last id of those */
    (void)record;
    counts[damage == NULL ? 0 : 1]++;
    if (damage != NULL)
        counts[2] = record->image.id;
    return BIDE_OK;
}

static void count_rows(struct store *from, uint64_t counts[3])
{
    memset(counts, 0, 3 * sizeof(*counts));
    uint64_t after = 0;
    int code = BIDE_OK;
    while (code == BIDE_OK)
        code = from->ops->scan(from, &after, BIDE_ID_MAX, 10, count_one, counts, error);
    assert_int_equal(code, BIDE_NOT_FOUND);
}

/* ---- a batch is there as a whole or not at all ---- */

static void a_batch_that_cannot_be_stored_leaves_nothing(void **state)
{
    (void)state;
    commit_sized(store, 5, 10);
    struct bi_record records[3] = {insert_of(6), insert_of(5), insert_of(7)}; /* 5 is there */
    assert_int_not_equal(try_commit(store, records, 3, error), BIDE_OK);
    assert_string_not_equal(error, "");
    uint64_t counts[3];
    count_rows(store, counts);
    assert_int_equal(counts[0], 1);
    commit_sized(store, 6, 10); /* and the next one may be tried */
    count_rows(store, counts);
    assert_int_equal(counts[0], 2);
}

static int holds(const struct bi_record *record)
{
    return bi_sqlite_record_is_stored(&((struct sqlite *)(void *)store)->writer, record);
}

static void stored_records_are_recognized(void **state)
{
    (void)state;
    struct bi_record insert = insert_sized(3, 1000);
    assert_int_equal(holds(&insert), 0);
    commit_records(store, &insert, 1);
    assert_int_equal(holds(&insert), 1);
    bide_buf_unref(insert.image.body);

    struct bi_record update = insert_of(3);
    update.kind = BI_UPDATE;
    update.image.body_size = 1000;
    update.image.plain = false;
    update.image.state = BIDE_STATE_BURIED;
    update.image.bury_order = 9;
    update.image.last_error = bide_buf_new("why", 3);
    assert_int_equal(holds(&update), 0);
    commit_records(store, &update, 1);
    assert_int_equal(holds(&update), 1);
    struct bi_record other = update;
    other.image.bury_order = 10;
    assert_int_equal(holds(&other), 0);
    other = update;
    other.image.last_error = NULL;
    assert_int_equal(holds(&other), 0);
    other = update;
    other.image.reserves++;
    assert_int_equal(holds(&other), 0);
    bide_buf_unref(update.image.last_error);

    struct bi_record remove = {.kind = BI_REMOVE, .image = {.id = 3, .body_size = 1000}};
    assert_int_equal(holds(&remove), 0);
    commit_records(store, &remove, 1);
    assert_int_equal(holds(&remove), 1);

    struct bi_record pause = {.kind = BI_TOPIC, .image = {.due = 500, .topic = "mail"}};
    struct bi_record resume = {.kind = BI_TOPIC, .image = {.due = 0, .topic = "mail"}};
    assert_int_equal(holds(&pause), 0);
    assert_int_equal(holds(&resume), 1);
    commit_records(store, &pause, 1);
    assert_int_equal(holds(&pause), 1);
    assert_int_equal(holds(&resume), 0);
    commit_records(store, &resume, 1);
    assert_int_equal(holds(&resume), 1);
}

/* ---- transactions that cannot be ended ---- */

/* Denies a kind of transaction statement to a connection, as a lack of memory would. */
static int deny(void *which, int action, const char *statement, const char *b, const char *c,
                const char *d)
{
    (void)b;
    (void)c;
    (void)d;
    return action == SQLITE_TRANSACTION && strcmp(statement, which) == 0 ? SQLITE_DENY : SQLITE_OK;
}

static void a_read_that_cannot_end_does_not_hide_later_jobs(void **state)
{
    (void)state;
    static char denied[] = "COMMIT";
    struct store_body_request request = {.id = 1, .size = 10};
    commit_sized(store, 1, 10);
    sqlite3_set_authorizer(((struct sqlite *)(void *)store)->reader.db, deny, denied);
    store->ops->read(store, &request, 1);
    assert_non_null(request.body);
    bide_buf_unref(request.body);

    commit_sized(store, 2, 10);
    request = (struct store_body_request){.id = 2, .size = 10};
    store->ops->read(store, &request, 1);
    assert_string_equal(request.reason, "");
    assert_non_null(request.body);
    bide_buf_unref(request.body);
}

static void a_read_that_cannot_begin_is_retried(void **state)
{
    (void)state;
    static char denied[] = "BEGIN";
    struct store_body_request request = {.id = 1, .size = 10};
    commit_sized(store, 1, 10);
    struct connection *reader = &((struct sqlite *)(void *)store)->reader;
    sqlite3_set_authorizer(reader->db, deny, denied);
    store->ops->read(store, &request, 1);
    assert_null(request.body);
    assert_true(request.retry);
    assert_string_not_equal(request.reason, "");

    sqlite3_set_authorizer(reader->db, NULL, NULL);
    store->ops->read(store, &request, 1);
    assert_non_null(request.body);
    bide_buf_unref(request.body);
}

static void batch_that_cannot_be_rolled_back_does_not_affect_the_next(void **state)
{
    (void)state;
    static char denied[] = "ROLLBACK";
    commit_sized(store, 5, 10);
    sqlite3_set_authorizer(((struct sqlite *)(void *)store)->writer.db, deny, denied);
    struct bi_record records[2] = {insert_of(6), insert_of(5)}; /* 5 is there */
    assert_int_not_equal(try_commit(store, records, 2, error), BIDE_OK);

    commit_sized(store, 7, 10);
    uint64_t counts[3];
    count_rows(store, counts);
    assert_int_equal(counts[0], 2);
}

/* ---- the log ---- */

static off_t wal_size(void)
{
    char path[160];
    struct stat status;
    snprintf(path, sizeof(path), "%s-wal", file);
    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

static void the_log_is_not_extended_while_another_program_writes(void **state)
{
    (void)state;
    ((struct sqlite *)(void *)store)->options.sync = BIDE_SYNC_FULL; /* only then it is extended */
    for (uint64_t id = 1; id <= 100; id++)
        commit_sized(store, id, 10);
    ((struct sqlite *)(void *)store)->wal_prealloc_commits = 1000;

    sqlite3 *other;
    assert_int_equal(sqlite3_open(file, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    off_t before = wal_size();
    store->ops->maintain(store, false);
    assert_int_equal(wal_size(), before);

    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    store->ops->maintain(store, false);
    assert_true(wal_size() > before);
    commit_sized(store, 101, 10);
}

/* ---- rows that make no sense ---- */

/*
 * Damages the root of the table job: the key of the last cell becomes larger than every id, so that
 * a search for such ids ends at a row that no lookup finds.
 */
static void damage_root(unsigned root)
{
    enum { PAGE = 4096, HEADER = 12 };
    static const unsigned char key[] = {0xa0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    unsigned char page[PAGE];
    int fd = open(file, O_RDWR);
    assert_int_equal(pread(fd, page, PAGE, (off_t)(root - 1) * PAGE), PAGE);
    assert_int_equal(page[0], 5); /* an interior page of a table */

    /* A copy of the cell with another key, in the gap before the cells. */
    unsigned cells = page[3] << 8 | page[4];
    unsigned char *pointer = page + HEADER + 2 * (cells - 1);
    unsigned gap = HEADER + 2 * cells;
    memcpy(page + gap, page + (pointer[0] << 8 | pointer[1]), 4);
    memcpy(page + gap + 4, key, sizeof(key));
    pointer[0] = (unsigned char)(gap >> 8);
    pointer[1] = (unsigned char)gap;
    assert_int_equal(pwrite(fd, page, PAGE, (off_t)(root - 1) * PAGE), PAGE);
    close(fd);
}

static void damage_that_hides_rows_from_lookups_does_not_hang_the_open(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 100; id++)
        commit_sized(store, id, 500);
    unsigned root =
        (unsigned)bi_sqlite_query_int64(&((struct sqlite *)(void *)store)->writer,
                                        "SELECT rootpage FROM sqlite_schema WHERE name='job'", 0);
    close_store(store);
    damage_root(root);

    struct store_start start = open_store(&store);
    assert_int_equal(start.damaged, 0); /* no id is invalid: the scan finds the damage */
    uint64_t counts[3];
    count_rows(store, counts);
    assert_true(counts[0] > 0);
    assert_true(counts[1] > 0);
}

static void invalid_rows_are_reported_and_quarantined(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "UPDATE job SET topic='' WHERE id=2",       "UPDATE job SET state=3 WHERE id=2",
        "UPDATE job SET state=9 WHERE id=2",        "UPDATE job SET body_size=-1 WHERE id=2",
        "UPDATE job SET max_retries=-5 WHERE id=2", "UPDATE job SET key=zeroblob(201) WHERE id=2",
    };
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        for (uint64_t id = 1; id <= 3; id++)
            commit_sized(store, id, 1000);
        struct bi_record update = insert_of(2);
        update.kind = BI_UPDATE;
        update.image.plain = false; /* something happened to it, so that all its columns count */
        update.image.kicks = 1;
        commit_one(store, update);
        alter(file, damages[i]);
        uint64_t counts[3];
        count_rows(store, counts);
        assert_int_equal(counts[0], 2);
        assert_int_equal(counts[1], 1);
        assert_int_equal(counts[2], 2);
        assert_int_equal(store->ops->quarantine(store, 2, "it makes no sense", error), BIDE_OK);
        count_rows(store, counts);
        assert_int_equal(counts[0], 2);
        assert_int_equal(counts[1], 0);
        struct bi_record remove[2] = {{.kind = BI_REMOVE, .image = {.id = 1, .body_size = 1000}},
                                      {.kind = BI_REMOVE, .image = {.id = 3, .body_size = 1000}}};
        commit_records(store, remove, 2);
    }
    /* They are kept, with their bodies, for inspection. */
    alter(file, "CREATE TEMP TABLE t(x CHECK(x=1)); "
                "INSERT INTO t SELECT count(*) FROM damaged WHERE id=2 AND length(data)=1000 "
                "AND reason='it makes no sense'");
}

static void quarantine_of_a_missing_row_is_harmless(void **state)
{
    (void)state;
    commit_sized(store, 1, 10);
    assert_int_equal(store->ops->quarantine(store, 77, "why", error), BIDE_OK);
    uint64_t counts[3];
    count_rows(store, counts);
    assert_int_equal(counts[0], 1);
}

/* ---- checks ---- */

static void a_check_finds_what_is_wrong(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 5; id++)
        commit_sized(store, id, id % 2 == 0 ? 100 : 1000);
    struct store_report report = {.jobs = 0};
    assert_int_equal(store->ops->check(store, &report, error), BIDE_OK);
    assert_int_equal(report.jobs, 5);
    assert_int_equal(report.damaged, 0);
    alter(file, "UPDATE job SET body=zeroblob(100) WHERE id=2");
    report = (struct store_report){.jobs = 0};
    assert_int_equal(store->ops->check(store, &report, error), BIDE_EIO);
    assert_non_null(strstr(error, "job 2"));
    assert_int_equal(report.jobs, 4);
    assert_int_equal(report.damaged, 1);
    alter(file, "DELETE FROM body WHERE id=1; UPDATE job SET state=9 WHERE id=1");
    report = (struct store_report){.jobs = 0};
    assert_int_equal(store->ops->check(store, &report, error), BIDE_EIO);
    assert_int_equal(report.jobs, 3);
    assert_int_equal(report.damaged, 2); /* a row with two faults is one row */
}

static void quarantined_rows_count_as_damaged(void **state)
{
    (void)state;
    commit_sized(store, 1, 10);
    commit_sized(store, 2, 10);
    assert_int_equal(store->ops->quarantine(store, 1, "why", error), BIDE_OK);
    struct store_report report = {.jobs = 0};
    store->ops->check(store, &report, error);
    assert_int_equal(report.jobs, 1);
    assert_int_equal(report.damaged, 1);
}

static void a_check_that_cannot_read_a_table_fails(void **state)
{
    (void)state;
    struct store_report report = {.jobs = 0};
    commit_sized(store, 1, 10);
    alter(file, "DROP TABLE damaged");
    assert_int_equal(store->ops->check(store, &report, error), BIDE_EIO);
    assert_non_null(strstr(error, "damaged"));
    assert_int_equal(report.jobs, 1);
    assert_int_equal(report.damaged, 0);
}

/* ---- copies ---- */

static void a_backup_whose_directory_cannot_be_synced_leaves_nothing(void **state)
{
    (void)state;
    commit_sized(store, 1, 10);
    char copy[128];
    in_folder(copy, sizeof(copy), "copy.db");
    fail_directories = true;
    int code = store->ops->backup(store, copy, error);
    fail_directories = false;
    assert_int_equal(code, BIDE_EIO);
    assert_non_null(strstr(error, "copy.db"));
    assert_int_equal(access(copy, F_OK), -1);
    assert_int_equal(store->ops->backup(store, copy, error), BIDE_OK);
}

/* ---- one owner ---- */

static int64_t stored_limit(void)
{
    return bi_sqlite_query_int64(&((struct sqlite *)(void *)store)->writer,
                                 "SELECT value FROM meta WHERE name='next_id'", -1);
}

/* Some descriptor of the program gets the number that the owner's had. */
static void a_forked_child_that_closes_the_store_changes_nothing(void **state)
{
    (void)state;
    commit_sized(store, 1, 10);
    int64_t limit = stored_limit();
    int number = ((struct sqlite *)(void *)store)->lock_fd;
    pid_t child = fork();
    if (child == 0) {
        int own = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (own != number && dup2(own, number) != number)
            _exit(2);
        close_store(store);
        _exit(fcntl(number, F_GETFD) >= 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(stored_limit(), limit);
    commit_sized(store, 2, 10);
}

static void path_longer_than_PATH_MAX_is_rejected(void **state)
{
    (void)state;
    static char large[PATH_MAX + 100];
    memset(large, 'x', sizeof(large) - 1);
    struct store *none = NULL;
    assert_true(try_open(large, &none, error) < 0);
    assert_null(none);
    assert_string_not_equal(error, "");
    assert_int_equal(store->ops->backup(store, large, error), BIDE_EINVAL);
}

/* ---- files of others ---- */

/* A program that rewrites the file may choose the size. */
static void the_largest_file_is_counted_in_pages_of_its_own_size(void **state)
{
    (void)state;
    assert_int_equal(
        bi_sqlite_query_int64(&((struct sqlite *)(void *)store)->writer, "PRAGMA page_size", 0),
        4096);
    close_store(store);
    store = NULL;
    alter(file, "PRAGMA journal_mode=DELETE; PRAGMA page_size=32768; VACUUM");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {.rlim_cur = 8 << 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int code = try_open(file, &store, error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, BIDE_OK);
    struct connection *writer = &((struct sqlite *)(void *)store)->writer;
    assert_int_equal(bi_sqlite_query_int64(writer, "PRAGMA page_size", 0), 32768);
    assert_in_range(bi_sqlite_query_int64(writer, "PRAGMA max_page_count", 0), 1,
                    (8 << 20) / 32768);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_that_cannot_be_stored_leaves_nothing),
        TEST(stored_records_are_recognized),
        TEST(a_read_that_cannot_end_does_not_hide_later_jobs),
        TEST(a_read_that_cannot_begin_is_retried),
        TEST(batch_that_cannot_be_rolled_back_does_not_affect_the_next),
        TEST(the_log_is_not_extended_while_another_program_writes),
        TEST(damage_that_hides_rows_from_lookups_does_not_hang_the_open),
        TEST(invalid_rows_are_reported_and_quarantined),
        TEST(quarantine_of_a_missing_row_is_harmless),
        TEST(a_check_finds_what_is_wrong),
        TEST(a_check_that_cannot_read_a_table_fails),
        TEST(quarantined_rows_count_as_damaged),
        TEST(a_backup_whose_directory_cannot_be_synced_leaves_nothing),
        TEST(a_forked_child_that_closes_the_store_changes_nothing),
        TEST(path_longer_than_PATH_MAX_is_rejected),
        TEST(the_largest_file_is_counted_in_pages_of_its_own_size),
    };
    return cmocka_run_group_tests_name("sqlite_file", tests, NULL, NULL);
}
