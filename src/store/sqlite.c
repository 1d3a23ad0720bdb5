/* SPDX-License-Identifier: MIT */
#include "store/sqlite.h"

#include "util/clock.h"
#include "util/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ---- */

/* A limit that makes no sense is replaced by one that is above whatever may have been given. */
static uint64_t sound_limit(const struct sqlite *sqlite, const char *name, int64_t value,
                            int64_t instead)
{
    if (value >= 0 && value <= (int64_t)BIDE_ID_MAX)
        return (uint64_t)value;
    bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s: %s is %lld in the table meta; %lld is used",
           sqlite->path, name, (long long)value, (long long)instead);
    return (uint64_t)instead;
}

/* Rows whose ids cannot have been given would stand in the way of those that will be. */
static uint64_t set_strays_aside(struct sqlite *sqlite)
{
    char error[BIDE_ERROR_SIZE];
    uint64_t count = 0;
    for (;;) {
        int64_t id = bi_sqlite_number(&sqlite->writer, bi_sqlite_sql[ST_STRAY], 0);
        if (id == 0 && bi_sqlite_number(&sqlite->writer, "SELECT 1 FROM job WHERE id=0", 0) == 0)
            return count;
        bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s: job %lld: the id was never given",
               sqlite->path, (long long)id);
        if (bi_sqlite_set_aside(&sqlite->base, (uint64_t)id, "the id was never given", error) !=
            BIDE_OK) {
            bi_log(&sqlite->options.log, BIDE_LOG_ERROR, "%s", error);
            return count;
        }
        count++;
    }
}

/* The secret of the file, drawn when it has none. False if the file cannot be read. */
static bool get_secret(struct sqlite *sqlite)
{
    int64_t key[2], token_from;
    if (!bi_sqlite_meta_get(&sqlite->writer, "secret_1", &key[0]) ||
        !bi_sqlite_meta_get(&sqlite->writer, "secret_2", &key[1]) ||
        !bi_sqlite_meta_get(&sqlite->writer, "token_from", &token_from))
        return false;
    sqlite->secret = (struct bi_secret){{(uint64_t)key[0], (uint64_t)key[1]}};
    sqlite->secret_stored = key[0] != 0 || key[1] != 0;
    sqlite->token_from = sound_limit(sqlite, "token_from", token_from, 1);
    if (!sqlite->secret_stored)
        bi_secret_draw(&sqlite->secret);
    return true;
}

static int sqlite_start(struct store *store, struct store_start *start, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct connection *writer = &sqlite->writer;
    int64_t next_id, next_token, lease_from;
    if (!bi_sqlite_meta_get(writer, "next_id", &next_id) ||
        !bi_sqlite_meta_get(writer, "next_token", &next_token) ||
        !bi_sqlite_meta_get(writer, "lease_from", &lease_from) || !get_secret(sqlite))
        return bi_sqlite_error(sqlite, writer, "open", error);
    /* The limit is stored ahead, and so above all of them; but who can read the highest id does. */
    int64_t highest = bi_sqlite_number(writer, bi_sqlite_sql[ST_HIGHEST], -1);
    bool limited = next_id > 0 && next_id <= (int64_t)BIDE_ID_MAX;
    if (highest < 0 && !limited)
        return bi_sqlite_error(sqlite, writer, "open", error);
    start->next_id = sound_limit(sqlite, "next_id", next_id, highest + ID_BLOCK);
    if (start->next_id <= (uint64_t)(highest < 0 ? 0 : highest))
        start->next_id = (uint64_t)highest + 1;
    if (start->next_id == 0)
        start->next_id = 1;
    /* Tokens begin with the time at the least, and are given out more slowly than microseconds pass:
     * so those of another file, or of one before a backup was put back, are not good here. */
    uint64_t now = (uint64_t)bi_clock_wall();
    start->next_token = sound_limit(sqlite, "next_token", next_token, (int64_t)now);
    if (start->next_token < now)
        start->next_token = now;
    start->lease_from = sound_limit(sqlite, "lease_from", lease_from, 0);
    /* A file from before there was a secret: the tokens that were given are bare numbers. */
    if (!sqlite->secret_stored)
        sqlite->token_from = next_token == 0 ? 1 : start->next_token;
    start->token_from = sqlite->token_from == 0 ? 1 : sqlite->token_from;
    start->secret = sqlite->secret;
    start->damaged = set_strays_aside(sqlite);
    sqlite->next_id = start->next_id;
    sqlite->id_limit = 0; /* the first batch stores one */
    sqlite->token_limit = 0;
    sqlite->lease_from = (uint64_t)lease_from;
    return BIDE_OK;
}

static int sqlite_pauses(struct store *store, store_visit visit, void *ctx, char *error)
{
    struct sqlite *sqlite = sqlite_of(store);
    int64_t now = bi_clock_wall(); /* what has ended by now is not loaded */
    bool ended = false;
    sqlite3_stmt *from = bi_sqlite_get(&sqlite->writer, ST_PAUSES);
    int code = from == NULL ? SQLITE_ERROR : SQLITE_ROW;
    int answer = BIDE_OK;
    while (answer == BIDE_OK && code == SQLITE_ROW && (code = sqlite3_step(from)) == SQLITE_ROW) {
        struct bi_record record = {.kind = BI_PAUSE};
        const char *topic = (const char *)sqlite3_column_text(from, 0);
        snprintf(record.image.topic, sizeof(record.image.topic), "%s", topic == NULL ? "" : topic);
        record.image.due = sqlite3_column_int64(from, 1);
        ended |= record.image.due <= now;
        if (record.image.due > now)
            bi_sqlite_note_pause(sqlite, record.image.due);
        if (topic == NULL && (sqlite3_errcode(sqlite->writer.db) & 0xff) == SQLITE_NOMEM)
            code = SQLITE_NOMEM;
        else
            answer = visit(ctx, &record, NULL);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        answer = bi_sqlite_error(sqlite, &sqlite->writer, "open", error);
    sqlite3_reset(from);
    if (answer == BIDE_OK && ended) { /* if it fails they are found again at the next start */
        struct signal_guard guard;
        bi_sqlite_guard(sqlite, &guard);
        bi_sqlite_remove_pauses(sqlite, now);
        bi_sqlite_unguard(&guard);
    }
    return answer;
}

/* ---- life ---- */

static void free_sqlite(struct sqlite *sqlite)
{
    bi_sqlite_disconnect_all(sqlite);
    bi_sqlite_disown(sqlite);
    pthread_mutex_destroy(&sqlite->writer.use);
    pthread_mutex_destroy(&sqlite->reader.use);
    pthread_mutex_destroy(&sqlite->slow.use);
    free(sqlite->path);
    free(sqlite);
}

/* The exact next id is stored, so that a restart leaves none out. When there is no time for that, some
 * are left out, and the next start reads the write-ahead log. */
static void sqlite_close(struct store *store)
{
    struct sqlite *sqlite = sqlite_of(store);
    struct signal_guard guard;
    bi_sqlite_guard(sqlite, &guard);
    bool late = bi_store_is_late(store);
    if (late && sqlite->writer.db != NULL)
        sqlite3_db_config(sqlite->writer.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (!late && sqlite->id_limit != 0 && !sqlite->doubtful && sqlite->writer.db != NULL)
        bi_sqlite_meta_set(&sqlite->writer, "next_id", sqlite->next_id);
    free_sqlite(sqlite);
    bi_sqlite_unguard(&guard);
}

static const struct store_ops sqlite_ops = {
    .name = "sqlite",
    .keeps = true,
    .start = sqlite_start,
    .pauses = sqlite_pauses,
    .commit = bi_sqlite_commit,
    .tidy = bi_sqlite_tidy,
    .set_aside = bi_sqlite_set_aside,
    .read = bi_sqlite_read,
    .fetch = bi_sqlite_fetch,
    .count = bi_sqlite_count,
    .scan = bi_sqlite_scan,
    .backup = bi_sqlite_backup,
    .check = bi_sqlite_check,
    .close = sqlite_close,
};

/* What is to be opened: the path as it was given, from the root. */
static int absolute(const char *path, char **out, char *error)
{
    char *here = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
    size_t size = here == NULL ? 0 : strlen(here) + strlen(path) + 2;
    char *whole = here == NULL ? NULL : malloc(size);
    if (whole == NULL) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.120s: %s", path, strerror(errno));
        free(here);
        return errno == ENOMEM ? BIDE_ENOMEM : BIDE_EIO;
    }
    snprintf(whole, size, "%s%s%s", here, path[0] == '/' ? "" : "/", path);
    free(here);
    *out = whole;
    return BIDE_OK;
}

/* The file exists now: its path without symbolic links, which SQLite would not follow in the names
 * of the files beside it. */
static int resolve(struct sqlite *sqlite, char *error)
{
    char *real = realpath(sqlite->path, NULL);
    if (real == NULL) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.120s: %s", sqlite->path, strerror(errno));
        return errno == ENOMEM ? BIDE_ENOMEM : BIDE_EIO;
    }
    free(sqlite->path);
    sqlite->path = real;
    return BIDE_OK;
}

static int check_directory(const char *path, char *error)
{
    char directory[PATH_MAX];
    struct stat file;
    const char *name = strrchr(path, '/') + 1;
    snprintf(directory, sizeof(directory), "%.*s", (int)(name - path), path);
    if (stat(directory, &file) == 0 && name[0] != 0)
        return BIDE_OK;
    if (name[0] == 0)
        snprintf(error, BIDE_ERROR_SIZE, "open: %.120s ends in a slash; a file is needed", path);
    else
        snprintf(error, BIDE_ERROR_SIZE, "open: the directory %.90s of %.30s: %s; make it first",
                 directory, name, strerror(errno));
    return name[0] == 0 ? BIDE_EINVAL : BIDE_EIO;
}

/* Is there something that is no file, or may not be written, or no directory for it? */
static int check_file(const char *path, char *error)
{
    struct stat file;
    if (strlen(path) > PATH_MAX - 16) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.60s... is too long for a path", path);
        return BIDE_EINVAL;
    }
    if (stat(path, &file) != 0)
        return check_directory(path, error);
    if (!S_ISREG(file.st_mode)) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.120s is %s, not a file", path,
                 S_ISDIR(file.st_mode) ? "a directory" : "a device, pipe or socket");
        return BIDE_EINVAL;
    }
    if (access(path, R_OK | W_OK) != 0) {
        char room[SQLITE_WAY_OUT_SIZE];
        snprintf(error, BIDE_ERROR_SIZE, "open: %.100s cannot be written: %s%s", path,
                 strerror(errno), bi_sqlite_way_out(errno, room));
        return BIDE_EIO;
    }
    return BIDE_OK;
}

/* Before anything is written: whose file is it? */
static int check_owner(struct sqlite *sqlite, char *error)
{
    int code = bi_sqlite_open(sqlite, &sqlite->writer, SQLITE_OPEN_READWRITE, error);
    if (code == BIDE_OK)
        code = bi_sqlite_is_ours(sqlite, error);
    bi_sqlite_disconnect(&sqlite->writer);
    return code;
}

static int connect_all(struct sqlite *sqlite, char *error)
{
    int code = bi_sqlite_connect(sqlite, &sqlite->writer, error);
    if (code == BIDE_OK)
        code = bi_sqlite_migrate(sqlite, error);
    if (code == BIDE_OK)
        code = bi_sqlite_connect(sqlite, &sqlite->reader, error);
    if (code == BIDE_OK)
        code = bi_sqlite_connect(sqlite, &sqlite->slow, error);
    return code;
}

/* The filler gives way to the log and its index. Without one there is nothing to begin with: not even
 * a delete could be stored, and jobs that are done would be taken again. */
static int open_when_full(struct sqlite *sqlite, char *error)
{
    int code = BIDE_EFULL;
    if (bi_sqlite_drop_filler(sqlite)) {
        bi_sqlite_disconnect_all(sqlite);
        code = connect_all(sqlite, error);
    }

    if (code == BIDE_OK)
        bi_sqlite_give_room(sqlite);
    else if (code == BIDE_EFULL)
        snprintf(error, BIDE_ERROR_SIZE,
                 "open: %.100s: the disk is full, without room for the log of the file; make room, "
                 "and open it again",
                 sqlite->path);
    return code;
}

/* Everything that may fail. */
static int open_files(struct sqlite *sqlite, const char *path, char *error)
{
    int code = absolute(path, &sqlite->path, error);
    if (code == BIDE_OK)
        code = check_file(sqlite->path, error);
    if (code == BIDE_OK)
        code = bi_sqlite_own(sqlite, error);
    if (code == BIDE_OK)
        code = resolve(sqlite, error);
    if (code == BIDE_OK)
        code = check_owner(sqlite, error);
    if (code == BIDE_EFULL && sqlite->lock_fd >= 0) /* the index of the log needs room; see below */
        code = BIDE_OK;
    if (code == BIDE_OK)
        code = connect_all(sqlite, error);
    return code == BIDE_EFULL && sqlite->lock_fd >= 0 ? open_when_full(sqlite, error) : code;
}

int bi_store_sqlite_new(const char *path, const struct bi_sqlite_options *options,
                        struct store **out, char *error)
{
    struct signal_guard guard;
    struct sqlite *sqlite = calloc(1, sizeof(*sqlite));
    if (sqlite == NULL) {
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }
    sqlite->base.ops = &sqlite_ops;
    sqlite->options = *options;
    sqlite->lock_fd = -1;
    sqlite->pause_end = BI_NEVER;
    pthread_mutex_init(&sqlite->writer.use, NULL);
    pthread_mutex_init(&sqlite->reader.use, NULL);
    pthread_mutex_init(&sqlite->slow.use, NULL);
    bi_sqlite_look_at_limit(sqlite);
    bi_sqlite_guard(sqlite, &guard);
    int code = open_files(sqlite, path, error);
    if (code == BIDE_OK)
        bi_sqlite_fill(sqlite, true);
    else
        free_sqlite(sqlite);
    bi_sqlite_unguard(&guard);
    if (code != BIDE_OK)
        return code;
    if (!sqlite->has_filler)
        bi_log(&options->log, BIDE_LOG_WARN,
               "%s: no room for the filler: when the disk is full jobs may not even be finished",
               sqlite->path);
    sqlite->base.place = sqlite->path;
    *out = &sqlite->base;
    return BIDE_OK;
}
