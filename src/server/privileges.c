/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* setresuid */
#include "server/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static enum privileges_code fail(enum privileges_code code, char *error, const char *name,
                                 const char *reason)
{
    bi_errmsg_set(error, "cannot become user %.60s: %s", name, reason);
    return code;
}

enum privileges_code bi_privileges_find_account(struct account *account, const char *name,
                                                char *error)
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

/* Fails silently without CAP_SETPCAP; bi_privileges_forbid_new() makes the bounding set
 * irrelevant. */
static void drop_bounding_set(void)
{
    for (int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
}

/* Clears the permitted, effective, inheritable and ambient sets. */
static bool drop_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &header, data) == 0;
}

void bi_privileges_forbid_new(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static enum privileges_code keep_user(const struct account *account, char *error)
{
    const char *name = account->name;
    if (getuid() != account->uid || geteuid() != account->uid)
        return fail(BI_PRIVILEGES_DENIED, error, name, "only root can become another user");
    if (!drop_capabilities())
        return fail(BI_PRIVILEGES_DENIED, error, name, strerror(errno));
    return BI_PRIVILEGES_OK;
}

enum privileges_code bi_privileges_drop(const struct account *account, char *error)
{
    const char *name = account->name;
    if (geteuid() != 0)
        return keep_user(account, error);

    /* The user comes last: after it there is no right to change groups. */
    drop_bounding_set();
    if (initgroups(name, account->gid) != 0 ||
        setresgid(account->gid, account->gid, account->gid) != 0 ||
        setresuid(account->uid, account->uid, account->uid) != 0)
        return fail(BI_PRIVILEGES_DENIED, error, name, strerror(errno));
    if (account->uid != 0 && !drop_capabilities())
        return fail(BI_PRIVILEGES_DENIED, error, name, strerror(errno));

    /* Verify: a security module may make the calls succeed without an effect. */
    if (!is_current_user(account))
        return fail(BI_PRIVILEGES_DENIED, error, name, "the system did not do it");
    if (account->uid != 0 && setuid(0) == 0)
        return fail(BI_PRIVILEGES_DENIED, error, name, "there would be a way back to root");
    return BI_PRIVILEGES_OK;
}
