/* SPDX-License-Identifier: MIT */
/*
 * sandbox.c - bided as bided.service runs it, and the backup of docs/SERVER.md there.
 *
 * systemd itself cannot be had in a test. What of the unit decides about files and sockets is done
 * by hand, as root or in a table of users of one's own: a file system that is read-only but for the
 * state and runtime directories, a temporary directory of the server's own, no rights of root, no
 * new ones, a mask of 077.
 */
#define _GNU_SOURCE /* unshare, mount_setattr, setresuid */
#include "bided_suite.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATE "/var/lib/bide"
#define RUN   "/run/bide"

static char state[300], run[300], elsewhere[300];

/* A temporary directory, and what the server has in its place. */
static char temporary[300], private_temporary[300];

/* The user of the service: "nobody" if the test runs as root. */
static uid_t user(void)
{
    const struct passwd *entry = getpwnam("nobody");
    CHECK(entry != NULL);
    return geteuid() == 0 ? entry->pw_uid : geteuid();
}

static bool is_set(const char *path, uint64_t attributes, uint64_t cleared, unsigned flags)
{
    struct mount_attr attr = {.attr_set = attributes, .attr_clr = cleared};
    return mount_setattr(AT_FDCWD, path, flags, &attr, sizeof(attr)) == 0;
}

/* In a chroot / is no mount point: / is then bound on a directory, which becomes the root. */
static bool own_root(void)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
        return true;
    return errno == EINVAL && mount("/", elsewhere, NULL, MS_BIND | MS_REC, NULL) == 0 &&
           mount(NULL, elsewhere, NULL, MS_REC | MS_PRIVATE, NULL) == 0 && chroot(elsewhere) == 0 &&
           chdir("/") == 0;
}

/* ProtectSystem=strict, StateDirectory=, RuntimeDirectory=, PrivateTmp=. */
static bool protect_system(void)
{
    return unshare(CLONE_NEWNS) == 0 && own_root() &&
           mount(state, state, NULL, MS_BIND, NULL) == 0 &&
           mount(run, run, NULL, MS_BIND, NULL) == 0 &&
           mount(private_temporary, temporary, NULL, MS_BIND, NULL) == 0 &&
           is_set("/", MOUNT_ATTR_RDONLY, 0, AT_RECURSIVE) &&
           is_set(state, 0, MOUNT_ATTR_RDONLY, 0) && is_set(run, 0, MOUNT_ATTR_RDONLY, 0) &&
           is_set(temporary, 0, MOUNT_ATTR_RDONLY, 0);
}

/* UMask=, NoNewPrivileges=, User=. */
static void enter_sandbox(void)
{
    uid_t id = user();
    umask(077);
    if (!protect_system() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        (geteuid() == 0 && (setresgid(id, id, id) != 0 || setresuid(id, id, id) != 0))) {
        dprintf(
            STDERR_FILENO,
            "cannot make the sandbox: %s (in a chroot whose / is no mount point, bind it on itself)\n",
            strerror(errno));
        _exit(98);
    }
}

/* A directory that systemd makes for the service. */
static void make_directory(char *path, size_t size, const char *name, mode_t mode)
{
    snprintf(path, size, "%s", fresh_folder(name));
    CHECK(chmod(path, mode) == 0 && (geteuid() != 0 || chown(path, user(), user()) == 0));
}

static struct bided *serve_in_sandbox(void)
{
    CHECK(chmod(test_dir(), 0755) == 0);
    make_directory(state, sizeof(state), "state", 0700);
    make_directory(run, sizeof(run), "run", 0755);
    make_directory(elsewhere, sizeof(elsewhere), "elsewhere", 0777);
    make_directory(temporary, sizeof(temporary), "temporary", 0777);
    make_directory(private_temporary, sizeof(private_temporary), "private", 0700);
    set_env("STATE_DIRECTORY", state);
    set_env("RUNTIME_DIRECTORY", run);
    before_exec = enter_sandbox;
    return serve("--log-level=info");
}

/* ---- the line of the document ---- */

static void replace(char *text, size_t size, const char *from, const char *to)
{
    char *at = strstr(text, from);
    if (at == NULL)
        FAIL("there is no \"%s\" in \"%s\"", from, text);
    char rest[600];
    snprintf(rest, sizeof(rest), "%s", at + strlen(from));
    snprintf(at, size - (size_t)(at - text), "%s%s", to, rest);
}

/* The command of docs/SERVER.md, with the program and the directories of the test. */
static void read_command(char *line, size_t size)
{
    static const char begin[] = "sudo bide backup ";
    char program[400];
    FILE *file = fopen(source_of("docs/SERVER.md"), "r");
    CHECK(file != NULL);
    char *found = NULL;
    while (found == NULL && fgets(line, (int)size / 2, file) != NULL)
        found = strstr(line, begin);
    fclose(file);
    CHECK(found != NULL);
    memmove(line, found, strlen(found) + 1);
    line[strcspn(line, "\n")] = 0;
    snprintf(program, sizeof(program), "%s/bide backup ", program_folder());
    replace(line, size, begin, program);
    replace(line, size, RUN, run);
    replace(line, size, STATE, state);
}

/* What it says goes to the file "said" of the test. */
static int status_of(const char *command)
{
    char line[3000];
    snprintf(line, sizeof(line), "%s >%s 2>&1", command, test_path("said"));
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void the_backup_of_the_manual_is_made(void)
{
    char command[2000];
    glob_t found;
    if (!have_own_network())
        return;
    struct bided *bided = serve_in_sandbox();
    ask(connect_at(HERE, try_tcp("127.0.0.1", 11300)), "put 0 0 60 5\r\nhello\r\n",
        "INSERTED 1\r\n");
    read_command(command, sizeof(command));
    EQ(status_of(command), 0);
    CHECK(glob(test_path("state/backup*.db"), 0, NULL, &found) == 0);
    EQ(found.gl_pathc, 1);
    EQ(NUMBER(found.gl_pathv[0], "SELECT count(*) FROM job"), 1);
    globfree(&found);
    /* It is not overwritten. */
    EQ(status_of(command), 2);
    stop(bided);
}

static void backup_is_refused(const char *directory, const char *why, const char *way_out)
{
    char command[2000], text[1000] = "";
    snprintf(command, sizeof(command), "%s/bide backup --url beanstalk://%s/bided.sock %s/copy.db",
             program_folder(), run, directory);
    EQ(status_of(command), 1);
    FILE *file = fopen(test_path("said"), "r");
    CHECK(file != NULL && fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    has_at(HERE, text, why, true);
    has_at(HERE, text, way_out, true);
}

/* What the unit does not let it write to is told, with the way out. */
static void backup_to_a_read_only_path_is_reported(void)
{
    if (!have_own_network())
        return;
    struct bided *bided = serve_in_sandbox();
    backup_is_refused(elsewhere, "Read-only file system", "ReadWritePaths");
    stop(bided);
}

/* The server writes the copy to a directory that the client does not see. */
static void backup_in_a_private_directory_is_reported(void)
{
    if (!have_own_network())
        return;

    struct bided *bided = serve_in_sandbox();
    backup_is_refused(temporary, "is not there", "PrivateTmp");
    CHECK(!file_exists(test_path("temporary/copy.db")) &&
          file_exists(test_path("private/copy.db")));
    stop(bided);
}

/* Root asks, and the server's user writes. */
static void backup_permission_error_names_the_user_of_the_server(void)
{
    char way_out[100];
    if (!have_own_network() || geteuid() != 0)
        return;
    struct bided *bided = serve_in_sandbox();
    CHECK(chmod(folder_of("closed"), 0700) == 0);
    snprintf(way_out, sizeof(way_out), "user %u must be able to write there", (unsigned)user());
    backup_is_refused(folder_of("closed"), "Permission denied", way_out);
    stop(bided);
}

static void socket_in_the_runtime_directory_is_removed_at_shutdown(void)
{
    char path[400];
    if (!have_own_network())
        return;
    struct bided *bided = serve_in_sandbox();
    snprintf(path, sizeof(path), "%s/bided.sock", run);
    ask(connect_at(HERE, try_unix(path)), "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
    CHECK(!file_exists(path));
    /* Who says where to listen gets that, and nothing more. */
    bided = serve("--listen=0", "--url=memory:");
    CHECK(!file_exists(path));
    stop(bided);
}

static const struct test tests[] = {
    TEST(the_backup_of_the_manual_is_made),
    TEST(backup_to_a_read_only_path_is_reported),
    TEST(backup_in_a_private_directory_is_reported),
    TEST(backup_permission_error_names_the_user_of_the_server),
    TEST(socket_in_the_runtime_directory_is_removed_at_shutdown),
};

const struct theme sandbox_theme = {"sandbox", tests, COUNT(tests)};
