/* SPDX-License-Identifier: MIT */
/* test_dir.c - the folder of a test, the files in it, and the queues that lie there. */
#define _GNU_SOURCE /* nftw */
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char test_dir_path[PATH_MAX];

void test_dir_begin(const char *folder)
{
    snprintf(test_dir_path, sizeof(test_dir_path), "%s", folder);
}

/* ---- paths ---- */

static char *next_room(void)
{
    static char rooms[8][PATH_MAX + 300];
    static unsigned next;
    return rooms[next++ % COUNT(rooms)];
}

const char *test_dir(void)
{
    return test_dir_path;
}

const char *test_path(const char *name)
{
    char *room = next_room();
    snprintf(room, PATH_MAX + 300, "%s/%s", test_dir_path, name);
    return room;
}

const char *url_of(const char *name, const char *parameters)
{
    char *room = next_room();
    snprintf(room, PATH_MAX + 300, "sqlite:%s/%s%s%s", test_dir_path, name,
             parameters[0] == 0 ? "" : "?", parameters);
    return room;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void remove_folder(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fresh_folder(const char *name)
{
    const char *path = test_path(name);
    remove_folder(path);
    CHECK(mkdir(path, 0777) == 0);
    return path;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

int64_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}

void write_file(const char *path, int64_t offset, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, data, size, offset) == (ssize_t)size);
    close(fd);
}

/* ---- queues ---- */

bide *open_url_at(struct where at, const char *url, bide_recovery *recovery)
{
    bide *queue = NULL;
    check_code(at, bide_open(url, NULL, &queue), BIDE_OK, url);
    check_code(at, bide_wait_recovered(queue, 60000, recovery), BIDE_OK, "bide_wait_recovered()");
    return queue;
}

void refused_at(struct where at, const char *url, int code, const char *text)
{
    bide *queue = NULL;
    check_code(at, bide_open(url, NULL, &queue), code, url);
    check_true(at, queue == NULL, "queue == NULL");
    if (strstr(bide_last_error(), text) == NULL)
        fail_test(at, "expected \"%s\" in the sentence \"%s\"", text, bide_last_error());
}

bide_slice slice_of(const char *text)
{
    return (bide_slice){text, strlen(text)};
}

/* ---- bodies ---- */

/* Small, of the sizes at which something changes, and large. */
static size_t body_size(uint64_t serial)
{
    static const size_t sizes[] = {0, 1, 30, 100, 511, 512, 513, 4096};
    uint64_t mixed = serial * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    switch (mixed % 8) {
    case 0:
    case 1:
        return sizes[mixed / 8 % COUNT(sizes)];
    case 2:
        return mixed / 8 % (BODY_MAX + 1);
    default:
        return mixed / 8 % 1000;
    }
}

const void *body_of(uint64_t serial, size_t *size)
{
    static _Thread_local unsigned char bytes[BODY_MAX + 8];
    *size = body_size(serial);
    uint64_t word = serial;
    for (size_t i = 0; i < *size; i += 8) {
        word = (word + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
        word ^= word >> 31;
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

bool body_is(uint64_t serial, const void *body, size_t size)
{
    size_t wanted;
    const void *bytes = body_of(serial, &wanted);
    return size == wanted && (size == 0 || (body != NULL && memcmp(bytes, body, size) == 0));
}

size_t write_numbered(char *room, uint64_t serial)
{
    size_t size;
    const void *body = body_of(serial, &size);
    snprintf(room, NUMBER_SIZE + 1, "%016" PRIx64, serial);
    memcpy(room + NUMBER_SIZE, body, size);
    return NUMBER_SIZE + size;
}

uint64_t read_numbered(const void *body, size_t size)
{
    char number[NUMBER_SIZE + 1] = "";
    CHECK(body != NULL && size >= NUMBER_SIZE);
    memcpy(number, body, NUMBER_SIZE);
    uint64_t serial = strtoull(number, NULL, 16);
    CHECK(body_is(serial, (const char *)body + NUMBER_SIZE, size - NUMBER_SIZE));
    return serial;
}

int put_serial(bide *queue, const char *topic, uint64_t serial, const bide_put_options *options,
               uint64_t *id)
{
    size_t size;
    const void *body = body_of(serial, &size);
    return bide_put(queue, topic, body, size, options, id);
}

/* ---- SQL ---- */

static sqlite3 *open_database(struct where at, const char *path)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        fail_test(at, "SQLite cannot open %s: %s", path, sqlite3_errmsg(db));
    return db;
}

void sql_at(struct where at, const char *path, const char *format, ...)
{
    va_list arguments;
    char *sql = NULL;
    va_start(arguments, format);
    int size = vasprintf(&sql, format, arguments);
    va_end(arguments);
    check_true(at, size >= 0, "memory");
    sqlite3 *db = open_database(at, path);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_test(at, "%.200s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
    free(sql);
}

int64_t number_at(struct where at, const char *path, const char *sql)
{
    sqlite3 *db = open_database(at, path);
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        fail_test(at, "%s: %s", sql, sqlite3_errmsg(db));
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}
