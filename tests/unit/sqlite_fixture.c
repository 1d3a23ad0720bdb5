/* SPDX-License-Identifier: MIT */
#include "sqlite_fixture.h"

char folder[64];
char file[128];

int folder_make(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/bide-unit-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/jobs.db", folder);
    return 0;
}

int folder_remove(void **state)
{
    (void)state;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(path) != 0)
            rmdir(path);
    }
    closedir(directory);
    assert_int_equal(rmdir(folder), 0);
    return 0;
}

int try_open(const char *path, struct store **store, char *error)
{
    struct bi_sqlite_options options = {.sync = BIDE_SYNC_OFF};
    error[0] = 0;
    return bi_sqlite_store_new(path, &options, store, error);
}

struct store_start open_store(struct store **store)
{
    char error[BIDE_ERROR_SIZE];
    if (try_open(file, store, error) != BIDE_OK)
        fail_msg("%s", error);
    struct store_start start;
    assert_int_equal((*store)->ops->start(*store, &start, error), BIDE_OK);
    return start;
}

void close_store(struct store *store)
{
    store->ops->close(store);
}

struct bi_record insert_of(uint64_t id)
{
    return (struct bi_record){.kind = BI_INSERT,
                              .image = {.id = id,
                                        .state = BIDE_STATE_READY,
                                        .plain = true,
                                        .priority = 1024,
                                        .ttr = 60000000,
                                        .max_retries = BIDE_NO_RETRY_LIMIT,
                                        .created = 1000,
                                        .since = 1000,
                                        .topic = "mail"}};
}

bide_buf *buf_of(size_t size)
{
    char *bytes = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 31 + size);
    bide_buf *buf = bide_buf_new(bytes, size);
    free(bytes);
    return buf;
}

struct bi_record insert_sized(uint64_t id, size_t size)
{
    struct bi_record record = insert_of(id);
    record.image.body = buf_of(size);
    record.image.body_size = (uint32_t)size;
    return record;
}

int try_commit(struct store *store, struct bi_record *records, size_t count, char *error)
{
    struct bi_batch batch = {
        .number = 1, .next_id = 1, .next_token = 5000, .count = count, .records = records};
    for (size_t i = 0; i < count; i++)
        if (records[i].image.id >= batch.next_id)
            batch.next_id = records[i].image.id + 1;
    return store->ops->commit(store, &batch, error);
}

void commit_records(struct store *store, struct bi_record *records, size_t count)
{
    char error[BIDE_ERROR_SIZE];
    if (try_commit(store, records, count, error) != BIDE_OK)
        fail_msg("%s", error);
}

void commit_one(struct store *store, struct bi_record record)
{
    commit_records(store, &record, 1);
}

void commit_sized(struct store *store, uint64_t id, size_t size)
{
    struct bi_record record = insert_sized(id, size);
    commit_records(store, &record, 1);
    bide_buf_unref(record.image.body);
}

void alter(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}
