/* SPDX-License-Identifier: MIT */
/*
 * sqlite_fixture - a SQLite store on a file in a directory of its own.
 */
#ifndef BI_UNIT_SQLITE_FIXTURE_H
#define BI_UNIT_SQLITE_FIXTURE_H

#include "unit.h"

#include "store/sqlite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char folder[64];
extern char file[128]; /* path of the database */

int folder_make(void **state);
int folder_remove(void **state);
int try_open(const char *path, struct store **store, char *error);

/* Opens the store as a queue does and returns what its start() reported. */
struct store_start open_store(struct store **store);
void close_store(struct store *store);

/* The insertion of a plain ready job without a body. */
struct bi_record insert_of(uint64_t id);

/* A buffer whose bytes differ from each other. */
bide_buf *buf_of(size_t size);

/* The same with a body of size bytes. The caller releases the body. */
struct bi_record insert_sized(uint64_t id, size_t size);
int try_commit(struct store *store, struct bi_record *records, size_t count, char *error);
void commit_records(struct store *store, struct bi_record *records, size_t count);
void commit_one(struct store *store, struct bi_record record);
void commit_sized(struct store *store, uint64_t id, size_t size);

/* Changes the file through another SQLite connection. */
void alter(const char *path, const char *sql);

#endif
