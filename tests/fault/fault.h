/* SPDX-License-Identifier: MIT */
/*
 * fault - what the tests of failing disks, files and processes are written with.
 *
 * A test is a function without arguments that runs in a process and an empty folder of its own.
 * The checks are those of the contract suite. A test opens its queues in that folder, spoils what
 * lies there, or lets the VFS (vfs.h) fail, and looks at what the queue makes of it.
 *
 * Time       No test depends on how fast the machine is. Where something has to happen in the end,
 *            it is waited for with a patience that only a hang exceeds.
 */
#ifndef FAULT_H
#define FAULT_H

#include "../contract/contract.h"

extern const struct theme power_theme, sync_theme, full_theme, errors_theme, refuse_theme;
extern const struct theme clock_theme, damage_theme, page_theme, schema_theme, owner_theme;
extern const struct theme load_theme, in_doubt_theme, memory_theme, slow_disk_theme, combined_theme,
    limited_theme;
extern const struct theme schedule_fault_theme;
extern const struct theme body_read_theme, hung_disk_theme, model_theme;

#define HOUR_MS INT64_C(3600000)

/* ---- the folder of the test ---- */

/* Begins the one test of this process. */
void test_dir_begin(const char *folder);

/* The folder, and the path of a file in it; valid until the eighth call from now. */
const char *test_dir(void);
const char *test_path(const char *name);
/* The URL of a file in it, with parameters ("sync=off", or ""). */
const char *url_of(const char *name, const char *parameters);

/* Removes a folder with all that is in it; one that does not exist is fine. */
void remove_folder(const char *folder);
/* Makes an empty folder in the folder of the test, removing what was there; answers its path. */
const char *fresh_folder(const char *name);

bool file_exists(const char *path);
int64_t size_of(const char *path);
void write_file(const char *path, int64_t offset, const void *data, size_t size);

/* ---- queues ---- */

/* Opens the queue jobs.db, or that of a URL; it must open, and recovers. */
#define open_jobs(parameters) open_url_at(HERE, url_of("jobs.db", (parameters)), NULL)
#define open_url(url)         open_url_at(HERE, (url), NULL)
bide *open_url_at(struct where at, const char *url, bide_recovery *recovery);

/* Opening must answer the code, with a sentence that has the text in it. */
#define REFUSED(url, code, text) refused_at(HERE, (url), (code), (text))
void refused_at(struct where at, const char *url, int code, const char *text);

bide_slice slice_of(const char *text);

/* ---- bodies that can be told from a number ---- */

#define BODY_MAX 20000

/* The body of a serial number, in a buffer of the thread; the same size for the same number. */
const void *body_of(uint64_t serial, size_t *size);
bool body_is(uint64_t serial, const void *body, size_t size);

/* The same with the number in front, so that it can be read back; the room has NUMBERED_MAX + 1
 * bytes. */
#define NUMBER_SIZE  16
#define NUMBERED_MAX (NUMBER_SIZE + BODY_MAX)
size_t write_numbered(char *room, uint64_t serial);
uint64_t read_numbered(const void *body, size_t size);

/* Puts the job of a serial number into a topic; answers the code of the put. */
int put_serial(bide *queue, const char *topic, uint64_t serial, const bide_put_options *options,
               uint64_t *id);

/* ---- the file, seen from outside ---- */

#define SQL(path, ...) sql_at(HERE, (path), __VA_ARGS__)
void sql_at(struct where at, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define NUMBER(path, sql) number_at(HERE, (path), (sql))
int64_t number_at(struct where at, const char *path, const char *sql);

#endif
