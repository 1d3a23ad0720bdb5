/* SPDX-License-Identifier: MIT */
#include "power_loss.h"

#include "../sim/rng.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR     512
#define FILES_MAX  16
#define NAME_ROOM  64
#define STEPS_MAX  1000000
#define BYTES_MAX  ((size_t)512 << 20)
#define GROW_STEPS 4096

enum step_kind { STEP_MADE, STEP_WRITTEN, STEP_CUT, STEP_SYNCED, STEP_FAILED_SYNC, STEP_REMOVED };

struct step {
    enum step_kind kind;
    int file;
    int64_t offset; /* or the new size of a cut; or, of a removal, whether it lasts */
    size_t size;
    unsigned char *data;
};

/* The bytes of a file. */
struct image {
    unsigned char *data;
    size_t size;
    size_t room;
    bool exists;
};

/* A step that no sync has made last yet. */
struct pending {
    size_t step;
    bool dropped; /* by a sync that failed */
};

/* A file while the record is gone through. */
struct replay {
    struct image synced;
    struct image removed; /* what comes back if its removal does not last */
    struct pending *pending;
    size_t pending_count;
    bool ever_synced; /* since it was made */
};

static struct {
    bool on;
    char directory[PATH_MAX];
    char names[FILES_MAX][NAME_ROOM];
    struct image first[FILES_MAX]; /* as the files were when the record began */
    int file_count;
    struct step *steps;
    size_t count, room;
    size_t bytes;
} record;

static void give_up(const char *why)
{
    fprintf(stderr, "loss: %s\n", why);
    abort();
}

static void *must(void *memory)
{
    if (memory == NULL)
        give_up("out of memory");
    return memory;
}

/* ---- images ---- */

static void image_resize(struct image *image, size_t size)
{
    if (size > image->room) {
        image->room = size * 2;
        image->data = must(realloc(image->data, image->room));
    }
    if (size > image->size)
        memset(image->data + image->size, 0, size - image->size);
    image->size = size;
}

static void image_write(struct image *image, size_t offset, const void *data, size_t size)
{
    if (offset + size > image->size)
        image_resize(image, offset + size);
    if (size > 0)
        memcpy(image->data + offset, data, size);
}

static void image_copy(struct image *to, const struct image *from)
{
    to->size = 0;
    to->exists = from->exists;
    image_write(to, 0, from->data, from->size);
}

static void image_done(struct image *image)
{
    free(image->data);
    *image = (struct image){NULL, 0, 0, false};
}

static void image_read(struct image *image, const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &info) != 0)
        give_up("a file cannot be read");
    image_resize(image, (size_t)info.st_size);
    image->exists = true;
    if (info.st_size > 0 && read(fd, image->data, image->size) != (ssize_t)image->size)
        give_up("a file cannot be read");
    close(fd);
}

static void image_save(const struct image *image, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || (image->size > 0 && write(fd, image->data, image->size) != (ssize_t)image->size))
        give_up("a file cannot be written");
    close(fd);
}

/* ---- recording ---- */

/* The number of a file of the record, new if need be; -1 for any other file. */
static int file_number(const char *path)
{
    size_t length = strlen(record.directory);
    if (!record.on || path == NULL || strncmp(path, record.directory, length) != 0 ||
        path[length] != '/')
        return -1;
    const char *name = path + length + 1;
    for (int i = 0; i < record.file_count; i++)
        if (strcmp(record.names[i], name) == 0)
            return i;
    if (record.file_count == FILES_MAX || strlen(name) >= NAME_ROOM)
        give_up("too many files, or too long a name");
    strcpy(record.names[record.file_count], name);
    return record.file_count++;
}

static void add_step(enum step_kind kind, int file, int64_t offset, const void *data, size_t size)
{
    if (file < 0)
        return;
    if (record.count == STEPS_MAX || record.bytes + size > BYTES_MAX)
        give_up("the record is too long");
    if (record.count == record.room) {
        record.room += GROW_STEPS;
        record.steps = must(realloc(record.steps, record.room * sizeof(record.steps[0])));
    }
    struct step step = {kind, file, offset, size, NULL};
    if (size > 0) {
        step.data = must(malloc(size));
        memcpy(step.data, data, size);
    }
    record.bytes += size;
    record.steps[record.count++] = step;
}

static bool is_of_sqlite(const char *name)
{
    size_t length = strlen(name);
    return name[0] != '.' && !(length > 5 && strcmp(name + length - 5, "-lock") == 0) &&
           !(length > 4 && strcmp(name + length - 4, "-shm") == 0) &&
           !(length > 7 && strcmp(name + length - 7, "-filler") == 0);
}

void loss_begin(const char *directory)
{
    loss_forget();
    snprintf(record.directory, sizeof(record.directory), "%s", directory);
    record.on = true;
    DIR *entries = opendir(directory);
    if (entries == NULL)
        give_up("the directory cannot be read");
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[PATH_MAX + 256];
        if (!is_of_sqlite(entry->d_name))
            continue;
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        image_read(&record.first[file_number(path)], path);
    }
    closedir(entries);
}

void loss_end(void)
{
    record.on = false;
}

void loss_forget(void)
{
    for (size_t i = 0; i < record.count; i++)
        free(record.steps[i].data);
    free(record.steps);
    for (int i = 0; i < record.file_count; i++)
        image_done(&record.first[i]);
    memset(&record, 0, sizeof(record));
}

size_t loss_steps(void)
{
    return __atomic_load_n(&record.count, __ATOMIC_SEQ_CST);
}

bool loss_is_sync(size_t step)
{
    return record.steps[step].kind == STEP_SYNCED;
}

size_t loss_next_write(size_t step, const char *name)
{
    while (step < record.count && (record.steps[step].kind != STEP_WRITTEN ||
                                   strcmp(record.names[record.steps[step].file], name) != 0))
        step++;
    return step;
}

void loss_made(const char *path)
{
    add_step(STEP_MADE, file_number(path), 0, NULL, 0);
}

void loss_written(const char *path, int64_t offset, const void *data, size_t size)
{
    add_step(STEP_WRITTEN, file_number(path), offset, data, size);
}

void loss_cut(const char *path, int64_t size)
{
    add_step(STEP_CUT, file_number(path), size, NULL, 0);
}

void loss_synced(const char *path, bool failed)
{
    add_step(failed ? STEP_FAILED_SYNC : STEP_SYNCED, file_number(path), 0, NULL, 0);
}

void loss_removed(const char *path, bool lasting)
{
    add_step(STEP_REMOVED, file_number(path), lasting, NULL, 0);
}

/* ---- going through it ---- */

static void apply(struct image *image, const struct step *step)
{
    if (step->kind == STEP_WRITTEN)
        image_write(image, (size_t)step->offset, step->data, step->size);
    else
        image_resize(image, (size_t)step->offset);
}

/* Some of the sectors that a write touches are as it left them, the others as they were before. */
static void apply_torn(struct image *image, const struct step *step, struct rng *rng)
{
    if (step->kind == STEP_CUT) {
        if (rng_range(rng, 0, 1) == 1)
            apply(image, step);
        return;
    }
    int64_t mood = rng_range(rng, 0, 2); /* all, nothing, or some */
    size_t end = (size_t)step->offset + step->size;
    for (size_t at = (size_t)step->offset; at < end;) {
        size_t next = (at / SECTOR + 1) * SECTOR;
        next = next < end ? next : end;
        if (mood == 0 || (mood == 2 && rng_range(rng, 0, 1) == 1))
            image_write(image, at, step->data + (at - (size_t)step->offset), next - at);
        at = next;
    }
}

/* The first sync of a new log or journal syncs the directory, too: from then on all names last. */
static void sync_directory(struct replay *files)
{
    for (int i = 0; i < record.file_count; i++)
        image_done(&files[i].removed);
}

static bool is_beside(int file)
{
    return strrchr(record.names[file], '-') != NULL;
}

static void sync_replay(struct replay *file)
{
    for (size_t i = 0; i < file->pending_count; i++)
        if (!file->pending[i].dropped)
            apply(&file->synced, &record.steps[file->pending[i].step]);
    file->pending_count = 0;
    file->ever_synced = true;
}

static void remove_replay(struct replay *file, bool lasting)
{
    if (lasting)
        image_done(&file->removed);
    else if (file->synced.exists && file->ever_synced)
        image_copy(&file->removed, &file->synced);
    file->pending_count = 0;
    file->synced.size = 0;
    file->synced.exists = false;
    file->ever_synced = false;
}

static void replay_step(struct replay *files, size_t at)
{
    const struct step *step = &record.steps[at];
    struct replay *file = &files[step->file];
    switch (step->kind) {
    case STEP_MADE:
        file->synced.exists = true;
        break;
    case STEP_WRITTEN:
    case STEP_CUT:
        file->synced.exists = true; /* it may have been made by others than SQLite */
        if (file->pending_count % 64 == 0)
            file->pending =
                must(realloc(file->pending, (file->pending_count + 64) * sizeof(file->pending[0])));
        file->pending[file->pending_count++] = (struct pending){at, false};
        break;
    case STEP_SYNCED:
        if (!file->ever_synced && is_beside(step->file))
            sync_directory(files);
        sync_replay(file);
        break;
    case STEP_FAILED_SYNC:
        for (size_t i = 0; i < file->pending_count; i++)
            file->pending[i].dropped = true;
        break;
    case STEP_REMOVED:
        remove_replay(file, step->offset != 0);
        break;
    }
}

/* What is left of one file; it has no name when it is not there. */
static void settle(struct replay *file, enum loss_kind kind, struct rng *rng)
{
    bool comes_back = file->removed.exists && kind != LOSS_NONE &&
                      (kind == LOSS_ALL || rng_range(rng, 0, 1) == 1);
    if (comes_back && !file->ever_synced) {
        image_copy(&file->synced, &file->removed);
        return;
    }
    for (size_t i = 0; i < file->pending_count && kind != LOSS_ALL; i++) {
        const struct step *step = &record.steps[file->pending[i].step];
        if (kind == LOSS_NONE)
            apply(&file->synced, step);
        else if (!file->pending[i].dropped)
            apply_torn(&file->synced, step, rng);
    }
}

void loss_at(size_t steps, enum loss_kind kind, uint64_t seed, const char *directory)
{
    struct replay files[FILES_MAX];
    struct rng rng = {seed};
    memset(files, 0, sizeof(files));
    for (int i = 0; i < record.file_count; i++) {
        image_copy(&files[i].synced, &record.first[i]);
        files[i].ever_synced = record.first[i].exists;
    }
    for (size_t at = 0; at < steps && at < record.count; at++)
        replay_step(files, at);
    for (int i = 0; i < record.file_count; i++) {
        char path[PATH_MAX + NAME_ROOM];
        settle(&files[i], kind, &rng);
        snprintf(path, sizeof(path), "%s/%s", directory, record.names[i]);
        if (files[i].synced.exists)
            image_save(&files[i].synced, path);
        image_done(&files[i].synced);
        image_done(&files[i].removed);
        free(files[i].pending);
    }
}
