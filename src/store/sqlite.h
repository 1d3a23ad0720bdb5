/* SPDX-License-Identifier: MIT */
/*
 * sqlite - what the files of the SQLite store share.
 *
 * SQLite keeps its write-ahead log and the index of the log beside the database; the store adds a
 * ballast file:
 *
 *     jobs.db  jobs.db-wal  jobs.db-shm      SQLite
 *     jobs.db-filler                         the ballast: space for deletes on a full disk
 *
 * Threads    Three connections, one for each thread that uses the store. A thread holds the mutex
 *            of a connection while it uses it, so that a commit can close and reopen all of them
 *            after a failed write. Lock order: writer, scanner, reader.
 */
#ifndef BI_SQLITE_H
#define BI_SQLITE_H

#include "store/store.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>

/* Larger bodies are rows of their own table, so that a change of state does not write them
 * again and a scan does not read them. Up to this size a row with its body is faster. */
#define INLINE_MAX 512

/* A connection prepares each statement when it first uses it. */
enum statement {
    ST_BEGIN,
    ST_COMMIT,
    ST_INSERT_PLAIN,
    ST_INSERT,
    ST_INSERT_BODY,
    ST_UPDATE,
    ST_REMOVE,
    ST_REMOVE_BODY,
    ST_PAUSE,
    ST_RESUME,
    ST_PAUSE_GET,
    ST_PAUSES,
    ST_POLICY,
    ST_POLICY_CLEAR,
    ST_POLICY_GET,
    ST_POLICIES,
    ST_META_SET,
    ST_META_GET,
    ST_MAX_ID,
    ST_INVALID_ID,
    ST_COUNT_BELOW,
    ST_LAST_BELOW,
    ST_SCAN,
    ST_FETCH,
    ST_BODY,
    ST_QUARANTINE,
    ST_QUARANTINE_COUNT,
    ST_ORPHANS,
    ST_COUNT
};

struct connection {
    pthread_mutex_t lock;
    sqlite3 *db; /* NULL if it could not be reopened */
    sqlite3_stmt *statements[ST_COUNT];
};

/* How long to wait for a lock of another program on the file before an operation fails. */
#define BUSY_MS 2000

struct sqlite {
    struct store base;
    struct bi_sqlite_options options;
    char *path;         /* absolute, without symbolic links */
    int lock_fd;        /* holds the flock() on the file; -1: none */
    bool inherited;     /* this process is a forked child of the owner */
    int64_t file_limit; /* RLIMIT_FSIZE; INT64_MAX: none */
    int64_t page_size;  /* of the file; set when the writer connects */
    uint64_t device, inode;
    struct sqlite *next_locked; /* in the list of sqlite_lock.c */
    struct connection writer, reader, scanner;
    /* A commit must close all connections: a backup or count stops, and starts again. */
    _Atomic bool reopening;

    /* The rest belongs to the commit thread. */
    uint64_t next_id;     /* of the last batch */
    uint64_t id_limit;    /* stored; a restart after a crash begins here */
    uint64_t token_limit; /* stored */
    struct bi_hash_secret secret;
    uint64_t token_from;
    bool secret_stored;  /* the secret and token_from */
    uint64_t lease_from; /* stored; not 0 only between an orderly close and the next batch */
    int wal_frames;      /* in the log after the last commit */
    int wal_max_pages;   /* frames after which it is checkpointed */
    unsigned wal_prealloc_commits; /* commits before the log is preallocated */
    int64_t wal_prealloc_bytes;    /* bytes preallocated so far */
    int64_t
        wal_pinned_bytes;  /* size of a log that cannot be checkpointed: a reader, or a full disk */
    bool wal_out_of_space; /* the last checkpoint could not grow the database */
    bool checkpoint_blocked; /* commits fail, or the log would take the space of its checkpoint */
    unsigned vacuum_commits; /* commits, to count the free pages now and then */
    bool has_ballast;
    int64_t ballast_size;       /* that it has or should have */
    int64_t ballast_tried_at;   /* last try to create it (boot-time clock) */
    int64_t ballast_used;       /* by inserts that were accepted on the full disk */
    int64_t pause_end_us;       /* the next end of a stored pause (boot-time clock); BI_NEVER */
    int64_t pause_clock_offset; /* smallest (wall - boot-time) clock when a pause was stored */
    bool outcome_unknown;       /* the last commit may or may not be stored; see sqlite_commit.c */
    struct bi_log_limit checkpoint_failures; /* limits their log messages */
};

static inline struct sqlite *sqlite_of(struct store *store)
{
    assert(store->ops->persistent); /* the memory store has no file */
    return (struct sqlite *)(void *)store;
}

/* Size of a frame in the log: a header and a page. */
static inline int64_t sqlite_frame_size(const struct sqlite *sqlite)
{
    assert(sqlite->page_size > 0); /* set when the writer connects */
    return sqlite->page_size + 24;
}

/* How far ahead the id limit is stored. A crash skips up to this many ids, a close none. */
#define ID_BLOCK 10000

/* 10^12 below BIDE_ID_MAX. No queue has ever assigned ids above this: such rows are damaged. */
#define ASSIGNED_ID_MAX 9006199254740991

/* ---- sqlite_connect.c ---- */

/* Opens the database without configuring or writing anything. */
int bi_sqlite_open(struct sqlite *sqlite, struct connection *connection, int flags, char *error);

/* Opens the database and configures it for a queue; creates the file if necessary. */
int bi_sqlite_connect(struct sqlite *sqlite, struct connection *connection, char *error);
void bi_sqlite_disconnect(struct connection *connection);
void bi_sqlite_disconnect_all(struct sqlite *sqlite);

/* Reads a number of the table meta; 0 if it is missing. False if it cannot be read. */
bool bi_sqlite_meta_get(struct connection *connection, const char *name, int64_t *value);
/* Returns SQLITE_DONE or an error. */
int bi_sqlite_meta_set(struct connection *writer, const char *name, uint64_t value);

/* Returns a prepared statement, or NULL. */
sqlite3_stmt *bi_sqlite_statement(struct connection *connection, enum statement which);
/* Runs and resets a statement that returns no rows: SQLITE_DONE or an error; SQLITE_ERROR for
 * NULL. */
int bi_sqlite_run(sqlite3_stmt *statement);
/* Runs SQL that is too rare to stay prepared: SQLITE_OK or an error. */
int bi_sqlite_exec(struct connection *connection, const char *sql);
/* Ends the transaction of a failed operation, if SQLite has not done it. May close the
 * connection. */
void bi_sqlite_roll_back(struct connection *connection);
/* Returns one number from the first row of a query; fallback if there is none. */
int64_t bi_sqlite_query_int64(struct connection *connection, const char *sql, int64_t fallback);

/* Writes the message of the connection's last error and returns its code of error.h. Must come
 * before any other call on the connection. operation: "open", "commit", ... */
int bi_sqlite_set_error(const struct sqlite *sqlite, const struct connection *connection,
                        const char *operation, char *error);
int bi_sqlite_map_error(int sqlite_code, int system_errno);

/* Whether SQLITE_CORRUPT stands for a read that the disk failed (EIO), as SQLite reports it: the
 * file need not be damaged. SQLite does not reset the errno of a file, so an earlier read of the
 * same connection may have failed instead. */
bool bi_sqlite_is_read_failure(const struct connection *connection, int code);
/* Whether space is missing: on the disk, in a quota, or below the file size limit. */
bool bi_sqlite_is_out_of_space(int system_errno);
/* Advice to append to the text of an error; empty if there is none. */
#define BI_SQLITE_HINT_SIZE 64
const char *bi_sqlite_error_hint(int system_errno, char hint[BI_SQLITE_HINT_SIZE]);

/* ---- sqlite_commit.c ---- */

int bi_sqlite_commit(struct store *store, const struct bi_batch *batch, char *error);

/* ---- sqlite_scan.c: reading ---- */

/* Tries of a failed read, and the pause between them, before its failure counts as permanent. */
#define READ_TRIES 10
#define READ_MS    100

void bi_sqlite_read_bodies(struct store *store, struct store_body_request *requests, size_t n);
int bi_sqlite_fetch(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error);
int bi_sqlite_count(struct store *store, uint64_t below, uint64_t *count, char *error);
int bi_sqlite_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                   store_visit visit, void *ctx, char *error);

/* ---- sqlite_schema.c: owner and version of the file ---- */

/* Rejects a file of another program or of a newer version. Uses the writer and writes nothing. */
int bi_sqlite_check_schema(struct sqlite *sqlite, char *error);
/* The same; then creates the tables of an empty file, or migrates an older version. */
int bi_sqlite_migrate(struct sqlite *sqlite, char *error);

/* ---- sqlite_row.c: a job as a row ---- */

extern const char *const bi_sqlite_sql[ST_COUNT];

/* Writes one record of a batch: SQLITE_DONE or an error. */
int bi_sqlite_write_record(struct connection *writer, const struct bi_record *record);
/* Whether the file holds what the record says: 1, 0, or -1 if it cannot be read. */
int bi_sqlite_record_is_stored(struct connection *writer, const struct bi_record *record);

/* Reads the topic of a row. Returns NULL, or the damage; the topic is empty then. A damaged name is
 * not cut to the maximum length or at a zero byte: the rest could be the name of another topic. */
const char *bi_sqlite_read_topic(sqlite3_stmt *row, int column, struct bi_image *image);
/* Reads the policy of a row of ST_POLICIES or ST_POLICY_GET. */
void bi_sqlite_read_policy(sqlite3_stmt *row, bide_topic_policy *policy);

/* Reads the current row of a statement (ST_SCAN, ST_FETCH) and visits it. */
int bi_sqlite_visit_row(sqlite3_stmt *row, store_visit visit, void *ctx);
void bi_sqlite_read_body(struct connection *reader, struct store_body_request *request);

/* ---- sqlite_lock.c: one process at a time ---- */

/* Creates the file if it does not exist, and locks it. BIDE_EBUSY if it is locked. */
int bi_sqlite_lock_acquire(struct sqlite *sqlite, char *error);
void bi_sqlite_lock_release(struct sqlite *sqlite);

/* ---- sqlite_ballast.c: the ballast, and the file size limit ---- */

/* Blocks SIGXFSZ on this thread while the store writes. The signal accompanies EFBIG and would
 * terminate the process of the application. A signal that a write raised is consumed before
 * the old mask is restored. Does nothing if files have no size limit. */
struct sigxfsz_guard {
    bool on;
    bool was_pending;
    sigset_t before;
};
void bi_sqlite_block_sigxfsz(const struct sqlite *sqlite, struct sigxfsz_guard *guard);
void bi_sqlite_unblock_sigxfsz(const struct sigxfsz_guard *guard);

/* Reads the file size limit of the process. */
void bi_sqlite_read_file_limit(struct sqlite *sqlite);
/* Keeps the database below the limit, so that a checkpoint always succeeds. Uses the writer. */
void bi_sqlite_set_max_pages(struct sqlite *sqlite);

/* Creates the ballast if it is missing and there is space, and leaves the full state then. Tries
 * at most five times a second, unless `now`. */
void bi_sqlite_ballast_restore(struct sqlite *sqlite, bool now);
/* Enters the full state when a log that cannot be checkpointed leaves too little space. */
void bi_sqlite_check_space(struct sqlite *sqlite);
/* Whether the log can grow by so much and still be checkpointed. */
bool bi_sqlite_has_space(const struct sqlite *sqlite, int64_t bytes);
/* Removes the ballast; false if there was none. */
bool bi_sqlite_ballast_remove(struct sqlite *sqlite);
/* Enters the full state: removes the ballast and rejects inserts from now on. False if there was no
 * ballast. */
bool bi_sqlite_ballast_release(struct sqlite *sqlite);

/* ---- sqlite_maintenance.c ---- */

/* Notes that a pause with this end (wall clock) is stored, so that its row is removed later. */
void bi_sqlite_track_pause(struct sqlite *sqlite, int64_t until);
/* Syncs a file or a directory through a descriptor of its own. Returns 0 or an errno. */
int bi_sqlite_sync_file(const char *path);
/* Checkpoints the log as far as readers permit. */
void bi_sqlite_checkpoint(struct sqlite *sqlite);
int64_t bi_sqlite_maintain(struct store *store, bool idle);
int bi_sqlite_quarantine(struct store *store, uint64_t id, const char *reason, char *error);
int bi_sqlite_backup(struct store *store, const char *path, char *error);

/* ---- sqlite_check.c ---- */

int bi_sqlite_check(struct store *store, struct store_report *report, char *error);

#endif
