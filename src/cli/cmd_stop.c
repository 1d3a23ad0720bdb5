/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pidfd_open */
#include "cli/interrupt.h"
#include "cli/user_server.h"
#include "cli/verb.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

static const char details[] =
    "Stops the server that bide started for you because no other server answered. It completes\n"
    "the current operations. The jobs stay in its file, and the next command that needs the\n"
    "server starts it again. Other servers are not affected.\n"
    "\n"
    "  bide stop\n";

/* Its end is waited for, so that its file is free afterwards. */
static int wait_for_exit(const struct cli *cli, int process, pid_t pid)
{
    struct pollfd fds[] = {{.fd = process, .events = POLLIN},
                           {.fd = bi_interrupt_fd(), .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    if (fds[0].revents == 0)
        return bi_interrupt_exit();
    bi_cli_note(cli, "user server stopped (process %d)", (int)pid);
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    struct user_server server;
    char error[BI_ERRMSG_SIZE];
    if (!bi_user_server_locate(&server, error))
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "%s", error);
    pid_t pid = bi_user_server_find(&server) ? bi_user_server_pid(&server) : 0;
    if (pid <= 0)
        return bi_cli_error(cli, BI_EXIT_NOT_FOUND, "no user server is running");
    int exit = bi_interrupt_watch(cli, NULL);
    int process = exit == BI_EXIT_OK ? pidfd_open(pid, 0) : -1;
    if (exit != BI_EXIT_OK)
        return exit;
    /* If the server ended before pidfd_open(), its process id may be another process's by now. */
    if (process >= 0 && bi_user_server_pid(&server) != pid) {
        close(process);
        return bi_cli_error(cli, BI_EXIT_NOT_FOUND, "no user server is running");
    }
    if (process < 0 || pidfd_send_signal(process, SIGTERM, NULL, 0) != 0)
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "cannot stop process %d: %s", (int)pid,
                            strerror(errno));
    else
        exit = wait_for_exit(cli, process, pid);
    if (process >= 0)
        close(process);
    return exit;
}

const struct verb bi_verb_stop = {
    .name = "stop",
    .group = BI_GROUP_SELF,
    .usage = "",
    .summary = "stop the user server, which bide started",
    .details = details,
    .traits = BI_VERB_NO_QUEUE,
    .run = run,
};
