/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "location.h"

#include "contract.h"
#include "queue_server.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The URL under test, in the runner and in the process of each test. */
static struct {
    const char *url;
    char folder[LOCATION_SIZE / 2]; /* "" where the URL is its own place */
    _Atomic unsigned made;
} under;

/* The part of a URL before its parameters. */
static size_t length_of_base(const char *url)
{
    return strcspn(url, "?");
}

/* The schemes whose queues survive a close: this is the one place that knows. */
bool is_persistent(void)
{
    static const char *const schemes[] = {"sqlite:"};
    if (is_queue_server(under.url))
        return queue_server_persists(under.url);
    for (size_t i = 0; i < COUNT(schemes); i++)
        if (strncmp(under.url, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}

bool completes_in_submit(void)
{
    return !is_queue_server(under.url);
}

bool is_in_process(void)
{
    return !is_queue_server(under.url);
}

size_t initial_topics(void)
{
    return is_queue_server(under.url);
}

/* The file that a place names. */
static const char *file_of(char *room, size_t size, const char *location)
{
    const char *file = strchr(location, ':') + 1;
    CHECK((size_t)snprintf(room, size, "%.*s", (int)length_of_base(file), file) < size);
    return room;
}

/* The URL says that files are wanted, and not which. */
static bool wants_folder(const char *url)
{
    static const char scheme[] = "sqlite:";
    if (is_queue_server(url))
        return true;
    return length_of_base(url) == sizeof scheme - 1 && strncmp(url, scheme, sizeof scheme - 1) == 0;
}

bool locations_begin(const char *url)
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

void locations_sweep(void)
{
    char path[LOCATION_SIZE];
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

void locations_end(void)
{
    locations_sweep();
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

const char *file_location(char *room, size_t size, const char *file)
{
    size_t base = length_of_base(under.url);
    return written(room, size,
                   snprintf(room, size, "%.*s%s%s", (int)base, under.url, file, under.url + base));
}

const char *new_location(char *room, size_t size)
{
    char file[LOCATION_SIZE];
    if (under.folder[0] == '\0')
        return written(room, size, snprintf(room, size, "%s", under.url));
    return file_location(room, size, new_file(file, sizeof file));
}

const char *location_url(char *room, size_t size, const char *location, const char *parameters)
{
    if (is_queue_server(under.url)) {
        char all[LOCATION_SIZE], file[LOCATION_SIZE];
        const char *own = strchr(location, '?') ? strchr(location, '?') + 1 : "";
        snprintf(all, sizeof all, "%s%s%s", own, own[0] && parameters[0] ? "&" : "", parameters);
        return queue_server_start(room, size, file_of(file, sizeof file, location), all);
    }
    const char *join = parameters[0] == '\0' ? "" : strchr(location, '?') ? "&" : "?";
    return written(room, size, snprintf(room, size, "%s%s%s", location, join, parameters));
}

const char *second_url(char *room, size_t size, const char *location)
{
    char file[LOCATION_SIZE];
    if (is_queue_server(under.url))
        return queue_server_url(room, size, file_of(file, sizeof file, location));
    return location_url(room, size, location, "");
}

void stop_location_server(const char *location)
{
    char file[LOCATION_SIZE];
    if (is_queue_server(under.url))
        queue_server_stop(file_of(file, sizeof file, location));
}

void kill_location_server(const char *location)
{
    char file[LOCATION_SIZE];
    queue_server_kill(file_of(file, sizeof file, location));
}

void start_location_server(const char *location)
{
    char url[LOCATION_SIZE];
    location_url(url, sizeof url, location, "");
}

void remove_location(const char *location)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-lock", "-filler", ".sock", ".log"};
    char file[LOCATION_SIZE], path[LOCATION_SIZE + 16];
    if (under.folder[0] == '\0')
        return;
    stop_location_server(location);
    file_of(file, sizeof file, location);
    for (size_t i = 0; i < COUNT(ends); i++) {
        snprintf(path, sizeof path, "%s%s", file, ends[i]);
        unlink(path);
    }
}
