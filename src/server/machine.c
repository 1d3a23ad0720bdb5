/* SPDX-License-Identifier: MIT */
#include "server/machine.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* ---- memory ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

static uint64_t machine_total(const char *root)
{
    char path[PATH_MAX], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    while (kib == 0 && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "MemTotal: %llu kB", &kib) != 1)
            kib = 0;
    fclose(file);
    return kib * 1024;
}

/* The number in a file; 0 if there is none, as when it says "max". Version 1 says that there is no
 * limit with a number that no machine has. */
static uint64_t read_limit(const char *path)
{
    unsigned long long limit = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu", &limit) != 1 || limit > UINT64_C(1) << 60)
        limit = 0;
    fclose(file);
    return limit;
}

/* The least limit of a group and of those above it. In a container the path may be one that is
 * not seen from inside; the group at the top is then ours. */
static uint64_t group_limit(const char *root, const char *mount, const char *group,
                            const char *name)
{
    char at[PATH_MAX];
    uint64_t limit = 0;
    snprintf(at, sizeof(at), "%s", group);
    for (;;) {
        char path[PATH_MAX * 2];
        snprintf(path, sizeof(path), "%s%s%s/%s", root, mount, at, name);
        limit = least(limit, read_limit(path));
        char *slash = strrchr(at, '/');
        if (slash == NULL)
            return limit;
        *slash = 0;
    }
}

/* Is "memory" among the names of controllers, which have commas between them? */
static bool has_memory(const char *controllers)
{
    for (const char *at = controllers; *at != 0; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strcspn(at, ",") == strlen("memory") && strncmp(at, "memory", 6) == 0)
            return true;
    }
    return false;
}

/* A line is "0::/group" in version 2, "5:memory:/group" in version 1. */
static uint64_t line_limit(const char *root, char *line)
{
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL)
        return 0;
    *group++ = 0;
    if (strcmp(controllers, ":") == 0)
        return least(group_limit(root, "/sys/fs/cgroup", group, "memory.max"),
                     group_limit(root, "/sys/fs/cgroup/unified", group, "memory.max"));
    if (has_memory(controllers + 1))
        return group_limit(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    return 0;
}

uint64_t bi_machine_memory(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t limit = machine_total(root);
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return limit;
    while (fgets(line, sizeof(line), file) != NULL)
        limit = least(limit, line_limit(root, line));
    fclose(file);
    return limit;
}

/* ---- files ---- */

uint64_t bi_machine_files(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    if (limit.rlim_cur >= wanted)
        return limit.rlim_cur;
    struct rlimit more = {.rlim_cur = wanted, .rlim_max = limit.rlim_max};
    if (more.rlim_max < wanted)
        more.rlim_max = wanted; /* root's to raise */
    if (setrlimit(RLIMIT_NOFILE, &more) == 0)
        return wanted;
    more = (struct rlimit){limit.rlim_max, limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &more) == 0 ? limit.rlim_max : limit.rlim_cur;
}

/* ---- sizes ---- */

void bi_machine_size(char *text, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    uint64_t factor = 1;
    while (unit < 3 && bytes >= factor * 1024) {
        factor *= 1024;
        unit++;
    }
    if (bytes % factor == 0)
        snprintf(text, BI_SIZE_TEXT, "%llu%s", (unsigned long long)(bytes / factor),
                 bytes == 0 ? "" : units[unit]);
    else if (unit < 2)
        snprintf(text, BI_SIZE_TEXT, "%lluB", (unsigned long long)bytes);
    else
        snprintf(text, BI_SIZE_TEXT, "%.1f%s", (double)bytes / (double)factor, units[unit]);
}
