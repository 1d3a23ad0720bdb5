/* SPDX-License-Identifier: MIT */
/*
 * start - a server of the user's own, for whoever has none.
 *
 * It keeps its queue in a file in the data folder ($XDG_DATA_HOME/bide/jobs.db,
 * ~/.local/share/bide/jobs.db), its log beside it, and listens on a socket in the runtime folder
 * ($XDG_RUNTIME_DIR/bide/bided.sock, else /tmp/bide-UID/bided.sock), which is nobody else's. It
 * goes on when the command ends; whoever comes next finds it there.
 *
 * Two commands at the same time start one server: the second waits for the first.
 */
#ifndef BI_START_H
#define BI_START_H

#include "cli/cli.h"

struct own_server {
    char folder[1024]; /* the runtime folder */
    char socket[1100];
    char data[1024]; /* the data folder */
    char file[1100];
    char log[1100];
};

/* Where the user's own server is, or would be. False, with a sentence, when there is no place. */
bool bi_start_look(struct own_server *own, char *error);

/* Does it listen? Nobody is asked in a folder that others can write to. */
bool bi_start_answers(const struct own_server *own);

/* Starts it, and waits until it answers. BI_EXIT_OK, or says what is wrong. */
int bi_start(const struct cli *cli, const struct own_server *own);

#endif
