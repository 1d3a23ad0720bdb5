/* SPDX-License-Identifier: MIT */
/*
 * raw - what SQLite itself does in the place of the store: the yardstick of the figures.
 *
 * One thread, straight on the SQLite API, with the tables, settings and statements of the store,
 * in a file that a queue has made. A row is a copy of one that the queue has written there, under
 * another id and with the checksum that belongs to it.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "bench.h"
#include "folder.h"

struct raw;

/* Opens the file, and makes it if it does not exist; else it must have rows with bodies of that
 * size, one of which is the model. */
struct raw *raw_open(const char *path, bide_sync sync, size_t body_size);
void raw_close(struct raw *raw);

/* Inserts count rows in one transaction and deletes them in another, again and again for about
 * that time: cycles a second. */
double raw_cycles(struct raw *raw, size_t count, int64_t duration_ns);

/* Inserts count rows, batch of them in a transaction: rows a second. */
double raw_put(struct raw *raw, uint64_t count, size_t batch);

/* Deletes the last count rows that were inserted, the oldest first, in the same way. */
double raw_drain(struct raw *raw, uint64_t count, size_t batch);

/* Inserts one row in a transaction of its own. */
void raw_insert(struct raw *raw);

/* Adds count rows with random priorities as fast as it can, safe from nothing. */
void raw_fill(struct raw *raw, uint64_t count);

/* Reads every row as the store does at start, and looks at every column. Answers how many;
 * *ended_ns is when it had, before the file was closed. */
uint64_t raw_scan(const char *path, int64_t *ended_ns);

#endif
