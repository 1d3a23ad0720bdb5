/* SPDX-License-Identifier: MIT */
/* process_log.c - the diary: one line for each entry, written at once, so that they do not mix. */
#include "process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void event_log_path(char *path, size_t size)
{
    snprintf(path, size, "%s/diary", test_dir());
}

/* The name of an event may be two words. */
static void replace_spaces(char *name)
{
    for (; *name != '\0'; name++)
        if (*name == ' ' || *name == '_')
            *name = '-';
}

void event_log_add(const struct entry *entry)
{
    char path[4096];
    char line[512];
    char what[sizeof entry->what];
    event_log_path(path, sizeof path);
    memcpy(what, entry->what, sizeof what);
    replace_spaces(what);
    int size =
        snprintf(line, sizeof line, "%" PRId64 " %d %s %" PRIu64 " %" PRIu32 " %d %" PRId64 " %s\n",
                 clock_us(), (int)getpid(), what, entry->id, entry->attempt, entry->code,
                 entry->delay_ms, entry->text);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, (size_t)size) != size)
        abort();
    close(fd);
}

static bool parse(const char *line, struct entry *entry)
{
    int text = 0;
    *entry = (struct entry){0};
    if (sscanf(line, "%" SCNd64 " %d %23s %" SCNu64 " %" SCNu32 " %d %" SCNd64 " %n", &entry->at_us,
               &entry->pid, entry->what, &entry->id, &entry->attempt, &entry->code,
               &entry->delay_ms, &text) != 7)
        return false;
    snprintf(entry->text, sizeof entry->text, "%s", line + text);
    entry->text[strcspn(entry->text, "\n")] = '\0';
    return true;
}

struct entry *event_log_read(size_t *count)
{
    char path[4096];
    char line[512];
    size_t room = 64;
    struct entry *entries = malloc(room * sizeof *entries);
    CHECK(entries != NULL);
    event_log_path(path, sizeof path);
    *count = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (*count == room)
            entries = realloc(entries, (room *= 2) * sizeof *entries);
        CHECK(entries != NULL);
        /* The end of a line may not be there yet. */
        if (strchr(line, '\n') != NULL && parse(line, &entries[*count]))
            ++*count;
    }
    if (file != NULL)
        fclose(file);
    return entries;
}

static bool matches(const struct entry *entry, const char *what, uint64_t id)
{
    return strcmp(entry->what, what) == 0 && (id == 0 || entry->id == id);
}

size_t event_log_count(const char *what, uint64_t id)
{
    size_t count, found = 0;
    struct entry *entries = event_log_read(&count);
    for (size_t i = 0; i < count; i++)
        found += matches(&entries[i], what, id);
    free(entries);
    return found;
}

bool event_log_has(const char *what, pid_t pid)
{
    size_t count;
    bool found = false;
    struct entry *entries = event_log_read(&count);
    for (size_t i = 0; i < count && !found; i++)
        found = entries[i].pid == pid && matches(&entries[i], what, 0);
    free(entries);
    return found;
}

struct entry event_log_get_at(struct where at, const char *what, uint64_t id, size_t nth)
{
    size_t count;
    struct entry *entries = event_log_read(&count);
    size_t i = 0;
    for (size_t seen = 0; i < count; i++)
        if (matches(&entries[i], what, id) && seen++ == nth)
            break;
    if (i == count)
        fail_test(at, "job %" PRIu64 ": the diary has no entry %zu \"%s\"", id, nth, what);
    struct entry found = entries[i];
    free(entries);
    return found;
}

bool event_log_last(const char *what, uint64_t id, struct entry *entry)
{
    size_t count;
    bool found = false;
    struct entry *entries = event_log_read(&count);
    for (size_t i = 0; i < count; i++)
        if (matches(&entries[i], what, id)) {
            *entry = entries[i];
            found = true;
        }
    free(entries);
    return found;
}
