/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* fallocate, renameat2 */
#include "vfs.h"

#include "../sim/rng.h"
#include "power_loss.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAULTS_MAX 8
#define FILES_MAX  64

/* A file by its name, whether it is open or not. */
struct tracked {
    char *path;
    bool main; /* the database itself, beside which the filler lies */
    int64_t size;
};

/* What SQLite holds; the file of the system's VFS follows in memory. */
struct shim_file {
    sqlite3_file base;
    struct tracked *tracked; /* NULL: a temporary file without a name */
    int last_errno;          /* of the last act on it that was made to fail */
};

static struct {
    pthread_mutex_t lock;
    sqlite3_vfs vfs;
    sqlite3_vfs *system;
    struct vfs_fault faults[FAULTS_MAX];
    int fault_count;
    struct rng rng;
    unsigned per_mille;
    unsigned failed;
    unsigned counts[VFS_CALLS];
    int last_errno;
    bool hold_syncs;
    unsigned held_syncs;
    int64_t limit;
    int limit_errno; /* what it is to be above the limit */
    bool skip_syncs;
    unsigned write_despite_faults;
    bool without_shared_memory;
    sqlite3_io_methods old_methods; /* version 1: without shared memory */
    int link_errno, rename_errno;
    bool hold_links;
    unsigned held_links;
    int64_t region[2]; /* 0, 0: everything */
    bool hold;
    unsigned held;
    unsigned read_us;
    pthread_cond_t released;
    struct tracked files[FILES_MAX];
    int file_count;
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER, .released = PTHREAD_COND_INITIALIZER};

static struct shim_file *shim_of(sqlite3_file *file)
{
    return (struct shim_file *)(void *)file;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)(shim_of(file) + 1);
}

static const char *path_of(sqlite3_file *file)
{
    return shim_of(file)->tracked == NULL ? NULL : shim_of(file)->tracked->path;
}

static void lock_shim(void)
{
    pthread_mutex_lock(&shim.lock);
}

static int unlock_shim(int code)
{
    pthread_mutex_unlock(&shim.lock);
    return code;
}

/* ---- failing ---- */

static bool ends_with(const char *path, const char *suffix)
{
    if (suffix == NULL || suffix[0] == 0)
        return true;
    size_t length = path == NULL ? 0 : strlen(path);
    return length >= strlen(suffix) && strcmp(path + length - strlen(suffix), suffix) == 0;
}

/* SQLite's own VFS has a code for reads that the disk fails, of which SQLite makes
 * SQLITE_CORRUPT. */
static int fail(int code, int system)
{
    shim.failed++;
    shim.last_errno = system;
    return code == SQLITE_IOERR_READ && system == EIO ? SQLITE_IOERR_CORRUPTFS : code;
}

/* What chance makes of an act. */
static int random_code(enum vfs_call call)
{
    static const int codes[VFS_CALLS] = {
        [VFS_READ] = SQLITE_IOERR_READ,         [VFS_WRITE] = SQLITE_IOERR_WRITE,
        [VFS_SYNC] = SQLITE_IOERR_FSYNC,        [VFS_SHM] = SQLITE_IOERR_SHMMAP,
        [VFS_TRUNCATE] = SQLITE_IOERR_TRUNCATE,
    };
    if (codes[call] == 0 || shim.per_mille == 0 || rng_below(&shim.rng, 1000) >= shim.per_mille)
        return SQLITE_OK;
    return fail(codes[call], EIO);
}

/* Counts an act, and answers the code that it fails with, or SQLITE_OK. */
static int inject(enum vfs_call call, const char *path)
{
    shim.counts[call]++;
    for (int i = 0; i < shim.fault_count; i++) {
        struct vfs_fault *fault = &shim.faults[i];
        if (fault->call != call || fault->nth == 0 || !ends_with(path, fault->suffix))
            continue;
        if (fault->nth > 1) {
            fault->nth--;
            continue;
        }
        if (fault->times > 0 && --fault->times == 0)
            fault->nth = 0;
        return fail(fault->code, fault->system);
    }
    return random_code(call);
}

void vfs_fail(const struct vfs_fault *fault)
{
    lock_shim();
    for (int i = 0; i < shim.fault_count; i++)
        if (shim.faults[i].nth == 0)
            shim.faults[i] = shim.faults[--shim.fault_count];
    if (shim.fault_count == FAULTS_MAX)
        abort();
    shim.faults[shim.fault_count++] = *fault;
    unlock_shim(0);
}

void vfs_freeze(void)
{
    lock_shim();
}

void vfs_thaw(void)
{
    unlock_shim(0);
}

void vfs_fail_at_random(uint64_t seed, unsigned per_mille)
{
    lock_shim();
    shim.rng.state = seed;
    shim.per_mille = per_mille;
    unlock_shim(0);
}

void vfs_hold_syncs(bool hold)
{
    lock_shim();
    shim.hold_syncs = hold;
    pthread_cond_broadcast(&shim.released);
    unlock_shim(0);
}

unsigned vfs_held_syncs(void)
{
    lock_shim();
    return (unsigned)unlock_shim((int)shim.held_syncs);
}

void vfs_clear_faults(void)
{
    lock_shim();
    shim.fault_count = 0;
    shim.per_mille = 0;
    unlock_shim(0);
}

void vfs_write_despite_faults(unsigned writes)
{
    lock_shim();
    shim.write_despite_faults = writes;
    unlock_shim(0);
}

void vfs_without_shared_memory(bool without)
{
    lock_shim();
    shim.without_shared_memory = without;
    unlock_shim(0);
}

void vfs_fail_links(int link_errno, int rename_errno)
{
    lock_shim();
    shim.link_errno = link_errno;
    shim.rename_errno = rename_errno;
    unlock_shim(0);
}

void vfs_hold_links(bool hold)
{
    lock_shim();
    shim.hold_links = hold;
    pthread_cond_broadcast(&shim.released);
    unlock_shim(0);
}

unsigned vfs_held_links(void)
{
    lock_shim();
    return (unsigned)unlock_shim((int)shim.held_links);
}

void vfs_region(int64_t from, int64_t to)
{
    lock_shim();
    shim.region[0] = from;
    shim.region[1] = to;
    unlock_shim(0);
}

void vfs_hold(bool hold)
{
    lock_shim();
    shim.hold = hold;
    pthread_cond_broadcast(&shim.released);
    unlock_shim(0);
}

unsigned vfs_held(void)
{
    lock_shim();
    return (unsigned)unlock_shim((int)shim.held);
}

void vfs_slow_reads(unsigned us)
{
    lock_shim();
    shim.read_us = us;
    unlock_shim(0);
}

unsigned vfs_failed(void)
{
    lock_shim();
    return (unsigned)unlock_shim((int)shim.failed);
}

unsigned vfs_count(enum vfs_call call)
{
    lock_shim();
    return (unsigned)unlock_shim((int)shim.counts[call]);
}

void vfs_skip_syncs(bool skip)
{
    lock_shim();
    shim.skip_syncs = skip;
    unlock_shim(0);
}

/* ---- room ---- */

static int64_t ballast_size(const struct tracked *file)
{
    char path[4200];
    struct stat info;
    snprintf(path, sizeof(path), "%s-filler", file->path);
    return file->main && stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

static int64_t used(void)
{
    int64_t bytes = 0;
    for (int i = 0; i < shim.file_count; i++)
        bytes += shim.files[i].size + ballast_size(&shim.files[i]);
    return bytes;
}

static bool has_space(const struct tracked *file, int64_t size)
{
    return shim.limit == 0 || file == NULL || size <= file->size ||
           used() + size - file->size <= shim.limit;
}

void vfs_limit(int64_t bytes)
{
    vfs_limit_as(bytes, ENOSPC);
}

void vfs_limit_as(int64_t bytes, int system)
{
    lock_shim();
    shim.limit = bytes;
    shim.limit_errno = system;
    unlock_shim(0);
}

/* SQLite's own VFS tells a disk without room from everything else that lacks room. */
static int fail_disk_full(void)
{
    return fail(shim.limit_errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE, shim.limit_errno);
}

/* In the place of the C library's: the filler does not go through SQLite, and must not have room
 * that the files do not have. */
int posix_fallocate(int fd, off_t offset, off_t size)
{
    struct stat info;
    lock_shim();
    bool room = shim.limit == 0 || fstat(fd, &info) != 0 ||
                used() + offset + size - (int64_t)info.st_size <= shim.limit;
    unlock_shim(0);
    if (!room)
        return shim.limit_errno;
    return fallocate(fd, 0, offset, size) == 0 ? 0 : errno;
}

/* Likewise: a backup gives its copy a name without SQLite. */
int link(const char *from, const char *to)
{
    lock_shim();
    shim.held_links++;
    while (shim.hold_links)
        pthread_cond_wait(&shim.released, &shim.lock);
    shim.held_links--;
    int failed = unlock_shim(shim.link_errno);
    if (failed == 0)
        return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
    errno = failed;
    return -1;
}

int renameat2(int oldfd, const char *old, int newfd, const char *new, unsigned flags)
{
    lock_shim();
    int failed = unlock_shim(shim.rename_errno);
    if (failed == 0)
        return (int)syscall(SYS_renameat2, oldfd, old, newfd, new, flags);
    errno = failed;
    return -1;
}

int64_t vfs_bytes_used(void)
{
    lock_shim();
    int64_t bytes = used();
    unlock_shim(0);
    return bytes;
}

static struct tracked *track(const char *path, int flags)
{
    if (path == NULL)
        return NULL;
    for (int i = 0; i < shim.file_count; i++)
        if (strcmp(shim.files[i].path, path) == 0)
            return &shim.files[i];
    if (shim.file_count == FILES_MAX)
        abort();
    struct tracked *file = &shim.files[shim.file_count++];
    *file = (struct tracked){strdup(path), (flags & SQLITE_OPEN_MAIN_DB) != 0, 0};
    return file;
}

/* ---- one file ---- */

static int file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *data, int size, sqlite3_int64 offset)
{
    lock_shim();
    const struct tracked *tracked = shim_of(file)->tracked;
    bool in_region =
        shim.region[1] == 0 || (tracked != NULL && tracked->main && offset < shim.region[1] &&
                                offset + size > shim.region[0]);
    for (shim.held++; in_region && shim.hold;)
        pthread_cond_wait(&shim.released, &shim.lock);
    shim.held--;
    int code = in_region ? inject(VFS_READ, path_of(file)) : SQLITE_OK;
    if (code != SQLITE_OK)
        shim_of(file)->last_errno = shim.last_errno; /* stays, as in SQLite */
    unsigned us = shim.read_us;
    unlock_shim(0);
    if (us > 0)
        usleep(us);
    if (code != SQLITE_OK)
        return code;
    return real_of(file)->pMethods->xRead(real_of(file), data, size, offset);
}

static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
    lock_shim();
    struct tracked *tracked = shim_of(file)->tracked;
    int code = inject(VFS_WRITE, path_of(file));
    bool acts = has_space(tracked, offset + size);
    if (code == SQLITE_OK && !acts)
        code = fail_disk_full();
    if (code != SQLITE_OK)
        acts = acts && shim.write_despite_faults > 0 && shim.write_despite_faults-- > 0;
    shim_of(file)->last_errno = code == SQLITE_OK ? 0 : shim.last_errno;
    int written = acts ? real_of(file)->pMethods->xWrite(real_of(file), data, size, offset) : code;
    code = code == SQLITE_OK ? written : code;
    if (written == SQLITE_OK) {
        loss_written(path_of(file), offset, data, (size_t)size);
        if (tracked != NULL && offset + size > tracked->size)
            tracked->size = offset + size;
    }
    return unlock_shim(code);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    lock_shim();
    int code = inject(VFS_TRUNCATE, path_of(file));
    shim_of(file)->last_errno = code == SQLITE_OK ? 0 : shim.last_errno;
    if (code == SQLITE_OK)
        code = real_of(file)->pMethods->xTruncate(real_of(file), size);
    if (code == SQLITE_OK) {
        loss_cut(path_of(file), size);
        if (shim_of(file)->tracked != NULL)
            shim_of(file)->tracked->size = size;
    }
    return unlock_shim(code);
}

static int file_sync(sqlite3_file *file, int flags)
{
    lock_shim();
    shim.held_syncs++;
    while (shim.hold_syncs)
        pthread_cond_wait(&shim.released, &shim.lock);
    shim.held_syncs--;
    int code = inject(VFS_SYNC, path_of(file));
    shim_of(file)->last_errno = code == SQLITE_OK ? 0 : shim.last_errno;
    if (code == SQLITE_OK && !shim.skip_syncs)
        code = real_of(file)->pMethods->xSync(real_of(file), flags);
    loss_synced(path_of(file), code != SQLITE_OK);
    return unlock_shim(code);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_check_reserved(sqlite3_file *file, int *result)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), result);
}

static int file_control(sqlite3_file *file, int what, void *arg)
{
    if (what == SQLITE_FCNTL_LAST_ERRNO && shim_of(file)->last_errno != 0) {
        *(int *)arg = shim_of(file)->last_errno;
        return SQLITE_OK;
    }
    return real_of(file)->pMethods->xFileControl(real_of(file), what, arg);
}

static int file_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    lock_shim();
    int code = inject(VFS_SHM, path_of(file));
    unlock_shim(0);
    if (code != SQLITE_OK) {
        *out = NULL;
        return code;
    }
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, out);
}

static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

/* Version 2: no memory-mapped pages, so that every byte goes through xWrite. */
static const sqlite3_io_methods file_methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

/* ---- the directory ---- */

static bool exists(const char *path)
{
    struct stat info;
    return path != NULL && stat(path, &info) == 0;
}

static int shim_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    lock_shim();
    bool was_there = exists(path);
    file->pMethods = NULL;
    int code = inject(VFS_OPEN, path);
    if (code == SQLITE_OK)
        code = shim.system->xOpen(shim.system, path, real_of(file), flags, out);
    if (code == SQLITE_OK) {
        sqlite3_int64 size = 0;
        real_of(file)->pMethods->xFileSize(real_of(file), &size);
        file->pMethods = shim.without_shared_memory ? &shim.old_methods : &file_methods;
        shim_of(file)->last_errno = 0;
        shim_of(file)->tracked = track(path, flags);
        if (shim_of(file)->tracked != NULL)
            shim_of(file)->tracked->size = size;
        if (!was_there)
            loss_made(path);
    }
    return unlock_shim(code);
}

static int shim_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    lock_shim();
    int code = inject(VFS_DELETE, path);
    bool was_there = exists(path);
    if (code == SQLITE_OK)
        code = shim.system->xDelete(shim.system, path, shim.skip_syncs ? 0 : sync);
    if (code == SQLITE_OK && was_there) {
        struct tracked *tracked = track(path, 0);
        if (tracked != NULL)
            tracked->size = 0;
        loss_removed(path, sync != 0);
    }
    return unlock_shim(code);
}

static int shim_last_error(sqlite3_vfs *vfs, int size, char *text)
{
    (void)vfs;
    (void)size;
    (void)text;
    lock_shim();
    int system =
        shim.last_errno != 0 ? shim.last_errno : shim.system->xGetLastError(shim.system, 0, NULL);
    shim.last_errno = 0;
    return unlock_shim(system);
}

void vfs_install(void)
{
    if (shim.system != NULL)
        return;
    shim.system = sqlite3_vfs_find(NULL);
    shim.old_methods = file_methods;
    shim.old_methods.iVersion = 1;
    shim.vfs = *shim.system;
    shim.vfs.iVersion = 2; /* no hooks into system calls */
    shim.vfs.pNext = NULL;
    shim.vfs.zName = "fault";
    shim.vfs.szOsFile = (int)sizeof(struct shim_file) + shim.system->szOsFile;
    shim.vfs.xOpen = shim_open;
    shim.vfs.xDelete = shim_delete;
    shim.vfs.xGetLastError = shim_last_error;
    if (sqlite3_vfs_register(&shim.vfs, 1) != SQLITE_OK)
        abort();
}
