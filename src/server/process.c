/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* setresuid */
#include "server/process.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef BIDE_WITH_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

/* ---- user ---- */

static enum privileges_code fail(enum privileges_code code, char *error, const char *name,
                                 const char *reason)
{
    bi_errmsg_set(error, "cannot become user %.60s: %s", name, reason);
    return code;
}

enum privileges_code bi_process_find_account(struct account *account, const char *name, char *error)
{
    errno = 0; /* getpwnam() leaves it alone if there is no such user */
    const struct passwd *entry = getpwnam(name);
    if (entry == NULL && errno != 0 && errno != ENOENT)
        return fail(BI_PRIVILEGES_LOOKUP_FAILED, error, name, strerror(errno));
    if (entry == NULL || strlen(name) >= sizeof(account->name))
        return fail(BI_PRIVILEGES_NO_USER, error, name, "there is no such user");

    *account = (struct account){.uid = entry->pw_uid, .gid = entry->pw_gid};
    memcpy(account->name, name, strlen(name) + 1);
    return BI_PRIVILEGES_OK;
}

static bool is_current_user(const struct account *account)
{
    uid_t real, effective, saved;
    gid_t group_real, group_effective, group_saved;
    return getresuid(&real, &effective, &saved) == 0 &&
           getresgid(&group_real, &group_effective, &group_saved) == 0 && real == account->uid &&
           effective == account->uid && saved == account->uid && group_real == account->gid &&
           group_effective == account->gid && group_saved == account->gid;
}

/* Clears the permitted, effective, inheritable and ambient sets. */
static bool drop_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &header, data) == 0;
}

void bi_process_forbid_new_privileges(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

enum privileges_code bi_process_drop_privileges(const struct account *account, char *error)
{
    const char *name = account->name;
    assert(name[0] != 0);

    if (geteuid() != 0) {
        if (getuid() != account->uid || geteuid() != account->uid)
            return fail(BI_PRIVILEGES_DENIED, error, name, "only root can become another user");
        return drop_capabilities() ? BI_PRIVILEGES_OK
                                   : fail(BI_PRIVILEGES_DENIED, error, name, strerror(errno));
    }

    /* Fails silently without CAP_SETPCAP; bi_process_forbid_new_privileges() makes the bounding set
     * irrelevant. */
    for (int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        prctl(PR_CAPBSET_DROP, i, 0, 0, 0);

    /* The user comes last: after it there is no right to change groups. */
    if (initgroups(name, account->gid) != 0 ||
        setresgid(account->gid, account->gid, account->gid) != 0 ||
        setresuid(account->uid, account->uid, account->uid) != 0 ||
        (account->uid != 0 && !drop_capabilities()))
        return fail(BI_PRIVILEGES_DENIED, error, name, strerror(errno));

    /* Verify: a security module may make the calls succeed without an effect. */
    if (!is_current_user(account))
        return fail(BI_PRIVILEGES_DENIED, error, name, "the system did not do it");
    if (account->uid != 0 && setuid(0) == 0)
        return fail(BI_PRIVILEGES_DENIED, error, name, "there would be a way back to root");
    return BI_PRIVILEGES_OK;
}

/* ---- memory ---- */

/* The lower of two limits, where 0 means none. */
static uint64_t lower_limit(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Reads the number of the line that begins with the prefix; 0 if there is none. Without a limit,
 * version 2 of control groups writes "max", and version 1 a number that no machine has. */
static uint64_t read_number(const char *path, const char *prefix)
{
    char line[256];
    unsigned long long number = 0;
    FILE *file = fopen(path, "re");

    while (file != NULL && number == 0 && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, prefix, strlen(prefix)) != 0 ||
            sscanf(line + strlen(prefix), "%llu", &number) != 1 || number > UINT64_C(1) << 60)
            number = 0;
    if (file != NULL)
        fclose(file);
    return number;
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
        limit = lower_limit(limit, read_number(path, ""));

        /* Continue with the parent; the root group, with an empty path, is the last. */
        char *slash = strrchr(at, '/');
        if (slash == NULL)
            return limit;
        *slash = 0;
    }
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

    char *rest = NULL;
    for (char *name = strtok_r(controllers, ":,", &rest); name != NULL;
         name = strtok_r(NULL, ":,", &rest))
        if (strcmp(name, "memory") == 0)
            return cgroup_limit(root, "/sys/fs/cgroup/memory", cgroup, "memory.limit_in_bytes");
    return 0;
}

uint64_t bi_process_memory_limit(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];

    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    uint64_t limit = read_number(path, "MemTotal:") * 1024;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return limit;

    while (fgets(line, sizeof(line), file) != NULL)
        limit = lower_limit(limit, cgroup_line_limit(root, line));
    fclose(file);
    return limit;
}

/* ---- open files ---- */

uint64_t bi_process_raise_file_limit(uint64_t wanted)
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

void bi_process_format_size(char *text, uint64_t bytes)
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

/* ---- service manager ---- */

void bi_process_notify(const char *format, ...)
{
#ifdef BIDE_WITH_SYSTEMD
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    sd_notify(0, text);
#else
    (void)format;
#endif
}

bool bi_process_cannot_notify(void)
{
#ifdef BIDE_WITH_SYSTEMD
    return false;
#else
    return getenv("NOTIFY_SOCKET") != NULL;
#endif
}

int64_t bi_process_watchdog_us(void)
{
    uint64_t every = 0;
#ifdef BIDE_WITH_SYSTEMD
    if (sd_watchdog_enabled(0, &every) <= 0 || every > INT64_MAX)
        every = 0;
#endif
    return (int64_t)every;
}
