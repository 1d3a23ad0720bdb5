/* SPDX-License-Identifier: MIT */
/*
 * user_server_start - a server of the user's own, for whoever has none.
 *
 * user_server.h says where it is. It goes on when the command ends; whoever comes next finds it there. Its
 * settings are those of bided.conf in the user's config folder, if there is one; else the usual ones,
 * but for larger jobs.
 *
 * Two commands at the same time start one server: the second waits for the first.
 */
#ifndef BI_USER_SERVER_START_H
#define BI_USER_SERVER_START_H

#include "cli/cli.h"
#include "cli/user_server.h"

/* Starts it, and waits until it answers; it may be that of another session, which was quicker.
 * BI_EXIT_OK, or says what is wrong. */
int bi_user_server_start(const struct cli *cli, struct user_server *server);

#endif
