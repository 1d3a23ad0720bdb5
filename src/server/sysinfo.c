/* SPDX-License-Identifier: MIT */
#include "server/sysinfo.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* ---- memory ---- */

/* The lower of two limits, where 0 means none. */
static uint64_t lower_limit(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

static uint64_t total_memory(const char *root)
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

/* Reads the number in a file; 0 without a limit. Version 2 writes "max" then, version 1 a number
 * that no machine has. */
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

/* Returns the lowest limit of a group and its parents. In a container the path may not be visible;
 * the limit is then that of the root group, which is the container's own. */
static uint64_t cgroup_limit(const char *root, const char *mount, const char *cgroup,
                             const char *name)
{
    char at[PATH_MAX];
    uint64_t limit = 0;
    snprintf(at, sizeof(at), "%s", cgroup);

    for (;;) {
        char path[PATH_MAX * 2];
        snprintf(path, sizeof(path), "%s%s%s/%s", root, mount, at, name);
        limit = lower_limit(limit, read_limit(path));

        /* Continue with the parent; the root group, with an empty path, is the last. */
        char *slash = strrchr(at, '/');
        if (slash == NULL)
            return limit;
        *slash = 0;
    }
}

/* True if "memory" is in a list of controllers separated by commas. */
static bool lists_memory(const char *controllers)
{
    for (const char *at = controllers; *at != 0; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strcspn(at, ",") == strlen("memory") && strncmp(at, "memory", 6) == 0)
            return true;
    }
    return false;
}

/* Parses a line: "0::/group" in version 2, "5:memory:/group" in version 1. */
static uint64_t cgroup_line_limit(const char *root, char *line)
{
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *cgroup = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (cgroup == NULL)
        return 0;
    *cgroup++ = 0;

    /* In the hybrid mode of systemd version 2 is mounted below unified. */
    if (strcmp(controllers, ":") == 0)
        return lower_limit(cgroup_limit(root, "/sys/fs/cgroup", cgroup, "memory.max"),
                           cgroup_limit(root, "/sys/fs/cgroup/unified", cgroup, "memory.max"));
    if (lists_memory(controllers + 1))
        return cgroup_limit(root, "/sys/fs/cgroup/memory", cgroup, "memory.limit_in_bytes");
    return 0;
}

uint64_t bi_sysinfo_memory_limit(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t limit = total_memory(root);

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return limit;

    while (fgets(line, sizeof(line), file) != NULL)
        limit = lower_limit(limit, cgroup_line_limit(root, line));
    fclose(file);
    return limit;
}

/* ---- files ---- */

uint64_t bi_sysinfo_raise_file_limit(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    if (limit.rlim_cur >= wanted)
        return limit.rlim_cur;

    /* Only root may raise the hard limit. On failure the soft limit is raised as far as it goes. */
    struct rlimit raised = {.rlim_cur = wanted, .rlim_max = limit.rlim_max};
    if (raised.rlim_max < wanted)
        raised.rlim_max = wanted;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
        return wanted;

    raised = (struct rlimit){limit.rlim_max, limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? limit.rlim_max : limit.rlim_cur;
}

/* ---- sizes ---- */

void bi_sysinfo_format_size(char *text, uint64_t bytes)
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
