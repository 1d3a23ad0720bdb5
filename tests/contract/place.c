/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "place.h"

#include "contract.h"
#include "served.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The URL under test, in the runner and in the process of each test. */
static struct {
    const char *url;
    char folder[PLACE_SIZE / 2]; /* "" where the URL is its own place */
    _Atomic unsigned made;
} under;

/* The part of a URL before its parameters. */
static size_t length_of_base(const char *url)
{
    return strcspn(url, "?");
}

/* The schemes whose queues survive a close: this is the one place that knows. */
bool keeps(void)
{
    static const char *const schemes[] = {"sqlite:"};
    if (is_served(under.url))
        return served_keeps(under.url);
    for (size_t i = 0; i < COUNT(schemes); i++)
        if (strncmp(under.url, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}

bool answers_at_once(void)
{
    return !is_served(under.url);
}

bool is_own(void)
{
    return !is_served(under.url);
}

size_t own_topics(void)
{
    return is_served(under.url);
}

/* The file that a place names. */
static const char *file_of(char *room, size_t size, const char *place)
{
    const char *file = strchr(place, ':') + 1;
    CHECK((size_t)snprintf(room, size, "%.*s", (int)length_of_base(file), file) < size);
    return room;
}

/* The URL says that files are wanted, and not which. */
static bool wants_folder(const char *url)
{
    static const char scheme[] = "sqlite:";
    if (is_served(url))
        return true;
    return length_of_base(url) == sizeof scheme - 1 && strncmp(url, scheme, sizeof scheme - 1) == 0;
}

bool places_begin(const char *url)
{
    const char *folder = getenv("TMPDIR");
    under.url = url;
    under.folder[0] = '\0';
    if (!wants_folder(url))
        return true;
    snprintf(under.folder, sizeof under.folder, "%s/bide-contract-XXXXXX",
             folder && folder[0] ? folder : "/tmp");
    if (mkdtemp(under.folder))
        return true;
    perror(under.folder);
    under.folder[0] = '\0';
    return false;
}

void places_sweep(void)
{
    char path[PLACE_SIZE];
    DIR *folder = under.folder[0] == '\0' ? NULL : opendir(under.folder);
    if (!folder)
        return;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        snprintf(path, sizeof path, "%s/%s", under.folder, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(path);
    }
    closedir(folder);
}

void places_end(void)
{
    places_sweep();
    if (under.folder[0] != '\0' && rmdir(under.folder) != 0)
        perror(under.folder);
    under.folder[0] = '\0';
}

static const char *written(char *room, size_t size, int length)
{
    CHECK(length > 0 && (size_t)length < size);
    return room;
}

const char *new_file(char *room, size_t size)
{
    CHECK(under.folder[0] != '\0');
    return written(
        room, size,
        snprintf(room, size, "%s/%ld.%u.db", under.folder, (long)getpid(), ++under.made));
}

const char *file_place(char *room, size_t size, const char *file)
{
    size_t base = length_of_base(under.url);
    return written(room, size,
                   snprintf(room, size, "%.*s%s%s", (int)base, under.url, file, under.url + base));
}

const char *new_place(char *room, size_t size)
{
    char file[PLACE_SIZE];
    if (under.folder[0] == '\0')
        return written(room, size, snprintf(room, size, "%s", under.url));
    return file_place(room, size, new_file(file, sizeof file));
}

const char *place_url(char *room, size_t size, const char *place, const char *parameters)
{
    if (is_served(under.url)) {
        char all[PLACE_SIZE], file[PLACE_SIZE];
        const char *own = strchr(place, '?') ? strchr(place, '?') + 1 : "";
        snprintf(all, sizeof all, "%s%s%s", own, own[0] && parameters[0] ? "&" : "", parameters);
        return served_start(room, size, file_of(file, sizeof file, place), all);
    }
    const char *join = parameters[0] == '\0' ? "" : strchr(place, '?') ? "&" : "?";
    return written(room, size, snprintf(room, size, "%s%s%s", place, join, parameters));
}

const char *open_again(char *room, size_t size, const char *place)
{
    char file[PLACE_SIZE];
    if (is_served(under.url))
        return served_url(room, size, file_of(file, sizeof file, place));
    return place_url(room, size, place, "");
}

void leave_place(const char *place)
{
    char file[PLACE_SIZE];
    if (is_served(under.url))
        served_stop(file_of(file, sizeof file, place));
}

void kill_place(const char *place)
{
    char file[PLACE_SIZE];
    served_kill(file_of(file, sizeof file, place));
}

void start_place(const char *place)
{
    char url[PLACE_SIZE];
    place_url(url, sizeof url, place, "");
}

void remove_place(const char *place)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-lock", "-filler", ".sock", ".log"};
    char file[PLACE_SIZE], path[PLACE_SIZE + 16];
    if (under.folder[0] == '\0')
        return;
    leave_place(place);
    file_of(file, sizeof file, place);
    for (size_t i = 0; i < COUNT(ends); i++) {
        snprintf(path, sizeof path, "%s%s", file, ends[i]);
        unlink(path);
    }
}
