/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* setresuid */
#include "server/become.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static enum become_code refuse(enum become_code code, char *error, const char *name,
                               const char *reason)
{
    bi_refuse(error, "cannot become user %.60s: %s", name, reason);
    return code;
}

enum become_code bi_become_find(struct account *account, const char *name, char *error)
{
    errno = 0;
    const struct passwd *entry = getpwnam(name);
    if (entry == NULL && errno != 0 && errno != ENOENT)
        return refuse(BI_BECOME_UNKNOWN, error, name, strerror(errno));
    if (entry == NULL || strlen(name) >= sizeof(account->name))
        return refuse(BI_BECOME_NOBODY, error, name, "there is no such user");
    *account = (struct account){.uid = entry->pw_uid, .gid = entry->pw_gid};
    memcpy(account->name, name, strlen(name) + 1);
    return BI_BECOME_OK;
}

static bool is_now(const struct account *account)
{
    uid_t real, effective, saved;
    gid_t group_real, group_effective, group_saved;
    return getresuid(&real, &effective, &saved) == 0 &&
           getresgid(&group_real, &group_effective, &group_saved) == 0 && real == account->uid &&
           effective == account->uid && saved == account->uid && group_real == account->gid &&
           group_effective == account->gid && group_saved == account->gid;
}

/* Without CAP_SETPCAP the bounding set cannot be reduced; bi_become_seal() makes it meaningless. */
static void drop_bounding_set(void)
{
    for (int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
}

/* Permitted, effective, inheritable and ambient ones. */
static bool drop_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &header, data) == 0;
}

void bi_become_seal(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static enum become_code stay(const struct account *account, char *error)
{
    const char *name = account->name;
    if (getuid() != account->uid || geteuid() != account->uid)
        return refuse(BI_BECOME_REFUSED, error, name, "only root can become another user");
    if (!drop_capabilities())
        return refuse(BI_BECOME_REFUSED, error, name, strerror(errno));
    return BI_BECOME_OK;
}

enum become_code bi_become(const struct account *account, char *error)
{
    const char *name = account->name;
    if (geteuid() != 0)
        return stay(account, error);

    drop_bounding_set();
    if (initgroups(name, account->gid) != 0 ||
        setresgid(account->gid, account->gid, account->gid) != 0 ||
        setresuid(account->uid, account->uid, account->uid) != 0)
        return refuse(BI_BECOME_REFUSED, error, name, strerror(errno));
    if (account->uid != 0 && !drop_capabilities())
        return refuse(BI_BECOME_REFUSED, error, name, strerror(errno));
    if (!is_now(account))
        return refuse(BI_BECOME_REFUSED, error, name, "the system did not do it");
    if (account->uid != 0 && setuid(0) == 0)
        return refuse(BI_BECOME_REFUSED, error, name, "there would be a way back to root");
    return BI_BECOME_OK;
}
