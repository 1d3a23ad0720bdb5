/* SPDX-License-Identifier: MIT */
#include "server/place.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct surroundings bi_place_look(void)
{
    return (struct surroundings){
        .state_directory = getenv("STATE_DIRECTORY"),
        .xdg_state_home = getenv("XDG_STATE_HOME"),
        .home = getenv("HOME"),
        .system = "/var/lib/bide",
        .root = geteuid() == 0,
    };
}

static bool is_said(const char *text)
{
    return text != NULL && text[0] != 0;
}

static bool write_path(char *directory, const char *above, size_t size, const char *name,
                       char *error)
{
    if (size + strlen(name) >= BI_PLACE_SIZE)
        return bi_refuse(error, "the name of the state directory is too long");
    memcpy(directory, above, size);
    memcpy(directory + size, name, strlen(name) + 1);
    return true;
}

bool bi_place_find(char *directory, const struct surroundings *around, char *error)
{
    const char *given = around->state_directory;
    if (is_said(given)) /* a list with colons; the first is as good as any */
        return write_path(directory, given, strcspn(given, ":"), "", error);
    if (around->root || access(around->system, W_OK) == 0)
        return write_path(directory, around->system, strlen(around->system), "", error);
    if (is_said(around->xdg_state_home) && around->xdg_state_home[0] == '/')
        return write_path(directory, around->xdg_state_home, strlen(around->xdg_state_home),
                          "/bide", error);
    if (is_said(around->home))
        return write_path(directory, around->home, strlen(around->home), "/.local/state/bide",
                          error);
    return bi_refuse(error, "there is no place for the queue: HOME is not set; "
                            "say where with --url sqlite:PATH or --directory DIR");
}

static bool make_one(const char *directory, mode_t mode, bool *made, char *error)
{
    struct stat info;
    *made = mkdir(directory, mode) == 0;
    if (*made || (errno == EEXIST && stat(directory, &info) == 0 && S_ISDIR(info.st_mode)))
        return true;
    return bi_refuse(error,
                     "cannot make the directory %.250s: %s; "
                     "say where with --url sqlite:PATH or --directory DIR",
                     directory, errno == EEXIST ? "there is a file of that name" : strerror(errno));
}

bool bi_place_make(const char *directory, bool *made, char *error)
{
    char above[BI_PLACE_SIZE];
    struct stat info;
    *made = false;
    if (stat(directory, &info) == 0 && S_ISDIR(info.st_mode))
        return true;
    size_t size = strlen(directory);
    if (size >= sizeof(above))
        return bi_refuse(error, "the name of the directory is too long");
    memcpy(above, directory, size + 1);
    for (char *slash = strchr(above + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (!make_one(above, 0755, made, error))
            return false;
        *slash = '/';
    }
    return make_one(directory, 0700, made, error);
}

bool bi_place_check(const char *directory, char *error)
{
    struct stat info;
    if (stat(directory, &info) != 0)
        return bi_refuse(error, "the directory %.300s: %s; make it first", directory,
                         strerror(errno));
    return S_ISDIR(info.st_mode) || bi_refuse(error, "%.300s is not a directory", directory);
}

/* The first of binlog.1, binlog.2, ... that the directory lists. */
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

struct neighbourhood bi_place_survey(const char *location)
{
    char path[BI_URL_MAX];
    struct stat info;
    struct neighbourhood found = {.is_new = false};
    snprintf(path, sizeof(path), "%s", location);
    if (!bi_url_decode(path))
        return found;
    found.is_new = stat(path, &info) != 0 && errno == ENOENT;
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        slash[slash == path] = 0;
    find_binlog(found.binlog, sizeof(found.binlog), slash != NULL ? path : ".");
    return found;
}

bool bi_place_url(char *url, const char *directory, char *error)
{
    char file[BI_PLACE_SIZE + sizeof("/bide.db")];
    snprintf(file, sizeof(file), "%s/bide.db", directory);
    return (strlen(directory) < BI_PLACE_SIZE && bi_url_make(url, "sqlite:", file)) ||
           bi_refuse(error, "the name of the directory is too long");
}
