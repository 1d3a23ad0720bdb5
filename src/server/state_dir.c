/* SPDX-License-Identifier: MIT */
#include "server/state_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct state_dir_env bi_state_dir_environment(void)
{
    return (struct state_dir_env){
        .state_directory = getenv("STATE_DIRECTORY"),
        .xdg_state_home = getenv("XDG_STATE_HOME"),
        .home = getenv("HOME"),
        .system = "/var/lib/bide",
        .root = geteuid() == 0,
    };
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != 0;
}

static bool join(char *directory, const char *parent, size_t size, const char *name, char *error)
{
    int written = snprintf(directory, BI_STATE_DIR_SIZE, "%.*s%s", (int)size, parent, name);
    return (written >= 0 && written < BI_STATE_DIR_SIZE) ||
           bi_errmsg_set(error, "the name of the state directory is too long");
}

bool bi_state_dir_find(char *directory, const struct state_dir_env *env, char *error)
{
    const char *from_systemd = env->state_directory;

    /* A list separated by colons if the unit has several; take the first. */
    if (is_set(from_systemd))
        return join(directory, from_systemd, strcspn(from_systemd, ":"), "", error);
    if (env->root || access(env->system, W_OK) == 0)
        return join(directory, env->system, strlen(env->system), "", error);
    /* The XDG specification requires to ignore relative paths. */
    if (is_set(env->xdg_state_home) && env->xdg_state_home[0] == '/')
        return join(directory, env->xdg_state_home, strlen(env->xdg_state_home), "/bide", error);
    if (is_set(env->home))
        return join(directory, env->home, strlen(env->home), "/.local/state/bide", error);
    return bi_errmsg_set(error, "no directory for the queue: HOME is not set; "
                                "set --url sqlite:PATH or --directory DIR");
}

static bool create_one(const char *directory, mode_t mode, bool *created, char *error)
{
    struct stat info;

    /* mkdir() first, then the test: another process may create the directory in between. */
    *created = mkdir(directory, mode) == 0;
    if (*created || (errno == EEXIST && stat(directory, &info) == 0 && S_ISDIR(info.st_mode)))
        return true;

    return bi_errmsg_set(error,
                         "cannot create directory %.250s: %s; "
                         "set --url sqlite:PATH or --directory DIR",
                         directory,
                         errno == EEXIST ? "there is a file of that name" : strerror(errno));
}

bool bi_state_dir_create(const char *directory, bool *created, char *error)
{
    char parent[BI_STATE_DIR_SIZE];
    struct stat info;

    *created = false;
    if (stat(directory, &info) == 0 && S_ISDIR(info.st_mode))
        return true;

    size_t size = strlen(directory);
    if (size >= sizeof(parent))
        return bi_errmsg_set(error, "the name of the directory is too long");
    memcpy(parent, directory, size + 1);

    /* Parents are shared with other programs; only the directory itself is private. */
    for (char *slash = strchr(parent + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (!create_one(parent, 0755, created, error))
            return false;
        *slash = '/';
    }

    return create_one(directory, 0700, created, error);
}

bool bi_state_dir_check(const char *directory, char *error)
{
    struct stat info;
    if (stat(directory, &info) != 0)
        return bi_errmsg_set(error, "cannot use directory %.300s: %s; create it first", directory,
                             strerror(errno));
    return S_ISDIR(info.st_mode) || bi_errmsg_set(error, "%.300s is not a directory", directory);
}

/* Finds a file binlog.N: the first that the directory lists. */
static void find_binlog(char *name, size_t size, const char *directory)
{
    DIR *open = opendir(directory);
    const struct dirent *entry;

    while (open != NULL && name[0] == 0 && (entry = readdir(open)) != NULL) {
        const char *number = entry->d_name + strlen("binlog.");
        if (strncmp(entry->d_name, "binlog.", strlen("binlog.")) == 0 && number[0] != 0 &&
            number[strspn(number, "0123456789")] == 0)
            snprintf(name, size, "%.60s", entry->d_name);
    }

    if (open != NULL)
        closedir(open);
}

struct queue_dir_info bi_state_dir_inspect(const char *location)
{
    char path[BI_URL_MAX];
    struct stat info;
    struct queue_dir_info found = {.is_new = false};

    snprintf(path, sizeof(path), "%s", location);
    if (!bi_url_decode(path))
        return found;
    found.is_new = stat(path, &info) != 0 && errno == ENOENT;

    /* Cut the name of the file; the root directory keeps its slash. */
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        slash[slash == path] = 0;
    find_binlog(found.binlog, sizeof(found.binlog), slash != NULL ? path : ".");
    return found;
}

bool bi_state_dir_url(char *url, const char *directory, char *error)
{
    char file[BI_STATE_DIR_SIZE + sizeof("/bide.db")];
    snprintf(file, sizeof(file), "%s/bide.db", directory);
    return (strlen(directory) < BI_STATE_DIR_SIZE && bi_url_from_path(url, "sqlite:", file)) ||
           bi_errmsg_set(error, "the name of the directory is too long");
}
