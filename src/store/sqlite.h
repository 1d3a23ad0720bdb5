/* SPDX-License-Identifier: MIT */
/*
 * sqlite - what the files of the SQLite store share.
 *
 * One file beside which SQLite keeps its write-ahead log, and we a filler:
 *
 *     jobs.db  jobs.db-wal  jobs.db-shm      SQLite's
 *     jobs.db-filler                         room to delete in when the disk is full
 *
 * Three connections, one for each thread that uses the store. Whoever uses one holds its mutex:
 * so all of them can be closed and opened when a write has failed. The mutexes are taken in this
 * order: writer, slow, reader.
 */
#ifndef BI_SQLITE_H
#define BI_SQLITE_H

#include "store/store.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>

/* Larger bodies lie in a table of their own, so that a change of state does not write them again,
 * and a scan does not read them. Up to here a row with its body is faster. */
#define INLINE_MAX 512

/* The statements. Each connection prepares those that it uses, when it first does. */
enum statement {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
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
    ST_META_SET,
    ST_META_GET,
    ST_HIGHEST,
    ST_STRAY,
    ST_COUNT_BELOW,
    ST_LAST_BELOW,
    ST_SCAN,
    ST_FETCH,
    ST_BODY,
    ST_SET_ASIDE,
    ST_ASIDE_COUNT,
    ST_ORPHANS,
    ST_COUNT
};

struct connection {
    pthread_mutex_t use;
    sqlite3 *db; /* NULL while it could not be opened again */
    sqlite3_stmt *statements[ST_COUNT];
};

/* How long another program may keep the file locked before we say so. */
#define BUSY_MS 2000

struct sqlite {
    struct store base;
    struct bi_sqlite_options options;
    char *path;         /* without symbolic links */
    int lock_fd;        /* on the file itself; -1: none */
    int64_t file_limit; /* the largest file that this process may write; INT64_MAX: any */
    uint64_t device, inode;
    struct sqlite *next_owned; /* in the list of this process */
    struct connection writer, reader, slow;
    /* All connections are to be closed: a backup gives way, and begins again. */
    _Atomic bool hurry;

    /* The rest is the commit thread's. */
    uint64_t next_id;     /* of the last batch */
    uint64_t id_limit;    /* stored: a restart after a crash begins here */
    uint64_t token_limit; /* stored */
    struct bi_secret secret;
    uint64_t token_from;
    bool secret_stored;   /* both of them */
    uint64_t lease_from;  /* stored; not 0 only between an orderly close and the next batch */
    int wal_frames;       /* in the log after the last commit */
    int log_pages;        /* how many it may have */
    unsigned log_commits; /* commits, until the log is given its length */
    int64_t log_prepared; /* bytes of it that have been written */
    int64_t log_bytes;   /* what it takes while it cannot be brought in: a reader, or a full disk */
    bool log_lacks_room; /* the file could not grow for it when it was last tried */
    bool choked;         /* and nothing more may be written, or it never could be */
    unsigned tidied;     /* commits since the free pages were looked at */
    bool has_filler;
    int64_t filler_size;  /* that it has, or is to have */
    int64_t filler_tried; /* when the filler was last missed */
    int64_t filler_used;  /* by jobs that were put before it was known that the disk is full */
    int64_t pause_end;    /* when a stored pause may have ended (boot-time clock); BI_NEVER */
    int64_t pause_offset; /* the least by which the wall clock was ahead when pauses were stored */
    bool doubtful;        /* a commit failed in a way that leaves open whether it is in the file */
    struct bi_log_repeat failing; /* checkpoints */
};

static inline struct sqlite *sqlite_of(struct store *store)
{
    return (struct sqlite *)(void *)store;
}

/* How many ids are stored ahead: so many are left out after a crash, none after a close. */
#define ID_BLOCK 10000

/* ---- sqlite_connect.c ---- */

/* Opens the database of a connection that is closed, and does nothing with it. */
int bi_sqlite_open(struct sqlite *sqlite, struct connection *connection, int flags, char *error);

/* The same, and sets it up for a queue. */
int bi_sqlite_connect(struct sqlite *sqlite, struct connection *connection, char *error);
void bi_sqlite_disconnect(struct connection *connection);
void bi_sqlite_disconnect_all(struct sqlite *sqlite);

/* A number of the table meta; 0 if it is not there. False if it cannot be read. */
bool bi_sqlite_meta_get(struct connection *connection, const char *name, int64_t *value);
/* SQLITE_DONE or an error. */
int bi_sqlite_meta_set(struct connection *writer, const char *name, uint64_t value);

/* A statement, prepared; NULL if it cannot be. */
sqlite3_stmt *bi_sqlite_get(struct connection *connection, enum statement which);
/* Runs a statement that gives no rows, and resets it: SQLITE_DONE or an error. */
int bi_sqlite_run(sqlite3_stmt *statement);
/* Runs SQL that is not worth keeping: SQLITE_OK or an error. */
int bi_sqlite_exec(struct connection *connection, const char *sql);
/* One number from the first row of SQL; fallback if there is none. */
int64_t bi_sqlite_number(struct connection *connection, const char *sql, int64_t fallback);

/* Writes the sentence of the connection's last error, and answers the code of error.h for it.
 * doing: "open", "commit", ... */
int bi_sqlite_error(const struct sqlite *sqlite, const struct connection *connection,
                    const char *doing, char *error);
int bi_sqlite_code(int sqlite_code, int system_errno);
/* Is it for lack of room: on the disk, in a quota, or in the largest file that may be written? */
bool bi_sqlite_lacks_room(int system_errno);
/* What to do about it, to stand behind the text of the error; empty if the error says enough. */
#define SQLITE_WAY_OUT_SIZE 64
const char *bi_sqlite_way_out(int system_errno, char room[SQLITE_WAY_OUT_SIZE]);

/* ---- sqlite_commit.c ---- */

int bi_sqlite_commit(struct store *store, const struct bi_batch *batch, char *error);

/* ---- sqlite_scan.c: reading ---- */

/* How often, and with what pause, reading is tried before it counts as impossible. */
#define READ_TRIES 10
#define READ_MS    100

void bi_sqlite_read(struct store *store, struct store_want *wants, size_t n);
int bi_sqlite_fetch(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error);
int bi_sqlite_count(struct store *store, uint64_t below, uint64_t *count, char *error);
int bi_sqlite_scan(struct store *store, uint64_t *after, uint64_t below, size_t max,
                   store_visit visit, void *ctx, char *error);
/* The same when the mutex of the slow connection is held. */
int bi_sqlite_scan_some(struct sqlite *sqlite, uint64_t *after, uint64_t below, size_t max,
                        store_visit visit, void *ctx, char *error);

/* ---- sqlite_schema.c: is the file ours, and of which version? ---- */

/* Refuses a file that is not ours, or of a newer version. Writes nothing; on the writer. */
int bi_sqlite_is_ours(struct sqlite *sqlite, char *error);
/* The same, and makes the tables in an empty file, or brings an older version up. */
int bi_sqlite_migrate(struct sqlite *sqlite, char *error);

/* ---- sqlite_row.c: a job as a row ---- */

extern const char *const bi_sqlite_sql[ST_COUNT];

/* Stores one record of a batch. SQLITE_DONE or an error. */
int bi_sqlite_write(struct connection *writer, const struct bi_record *record);
/* Does the file hold what the record says? 1, 0, or -1 if it cannot be read. */
int bi_sqlite_holds(struct connection *writer, const struct bi_record *record);

/* Reads the row on which a statement stands (ST_SCAN, ST_FETCH), and visits it. */
int bi_sqlite_visit(sqlite3_stmt *from, store_visit visit, void *ctx);
/* Reads one body. */
void bi_sqlite_read_body(struct connection *reader, struct store_want *want);

/* ---- sqlite_owner.c: one process at a time ---- */

/* Makes the file if it does not exist, and locks it. */
int bi_sqlite_own(struct sqlite *sqlite, char *error);
void bi_sqlite_disown(struct sqlite *sqlite);

/* ---- sqlite_room.c: the filler, and the largest file ---- */

/* Around all that writes on a thread of the caller's: SIGXFSZ, which comes with EFBIG, would end its
 * process. It is held back for this thread, and one that has come is taken away. Costs nothing
 * where files have no limit. */
struct signal_guard {
    bool on;
    bool was_pending;
    sigset_t before;
};
void bi_sqlite_guard(const struct sqlite *sqlite, struct signal_guard *guard);
void bi_sqlite_unguard(const struct signal_guard *guard);

/* Learns how large a file may be. */
void bi_sqlite_look_at_limit(struct sqlite *sqlite);
/* Keeps the database below that, so that the log can always be brought into it. On the writer. */
void bi_sqlite_limit_pages(struct sqlite *sqlite);

/* Makes the filler if it is missing and there is room; looks at most once a second unless now. */
void bi_sqlite_fill(struct sqlite *sqlite, bool now);
/* Refuses puts while a log that a reader keeps from being brought in takes the room for that. */
void bi_sqlite_watch_room(struct sqlite *sqlite);
/* Can the log take so much more, and be brought in, or is there room for that twice? */
bool bi_sqlite_has_room(const struct sqlite *sqlite, int64_t bytes);
/* Removes the filler; false if there was none. */
bool bi_sqlite_drop_filler(struct sqlite *sqlite);
/* The disk is full: gives the room of the filler back, and refuses puts from now on. False if there
 * was no filler. */
bool bi_sqlite_give_room(struct sqlite *sqlite);

/* ---- sqlite_care.c: the shape of the files, and copies ---- */

/* A pause until that wall time is stored, or was. */
void bi_sqlite_note_pause(struct sqlite *sqlite, int64_t until);
/* Removes the pauses that ended before a wall time: SQLITE_OK or an error. */
int bi_sqlite_remove_pauses(struct sqlite *sqlite, int64_t before);
/* Brings the log into the file, as far as readers let it. */
void bi_sqlite_checkpoint(struct sqlite *sqlite);
int64_t bi_sqlite_tidy(struct store *store, bool idle);
int bi_sqlite_set_aside(struct store *store, uint64_t id, const char *reason, char *error);
int bi_sqlite_backup(struct store *store, const char *path, char *error);

/* ---- sqlite_check.c ---- */

int bi_sqlite_check(struct store *store, struct store_report *report, char *error);

#endif
