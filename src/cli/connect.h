/* SPDX-License-Identifier: MIT */
/*
 * connect - which queue is meant, and how it is opened.
 *
 * In this order: --url, $BIDE_URL, the user's config file, the system's; then the user's own server
 * on its socket in the runtime folder, then a server on 127.0.0.1:11300 whose owner is trusted
 * (remote/peer_owner.h). If none answers, the user's own server is started (user_server.h, user_server_start.h).
 *
 * The config file is $XDG_CONFIG_HOME/bide/bide.conf (~/.config/bide/bide.conf), else
 * /etc/bide/bide.conf: lines `url = ...`, `secret_file = ...` and `color = auto|always|never`.
 *
 * The secret of a server is in its URL, or in a file: that of $BIDE_SECRET_FILE, for every URL
 * without a secret, or the secret_file of the config file, for the url there and for servers that
 * were not named. Programs that we start get the URL and the name of the file, never the secret.
 */
#ifndef BI_CONNECT_H
#define BI_CONNECT_H

#include "cli/cli.h"

/* Reads the config file into what the command line has left open. BI_EXIT_OK, or says what is
 * wrong. */
int bi_connect_load_config(struct cli *cli);

/* The URL that somebody has said: that of --url, $BIDE_URL or a config file. NULL: none. */
const char *bi_connect_explicit_url(const struct cli *cli);

/* Opens cli->queue. BI_EXIT_OK, or says what is wrong, and what to do. */
int bi_connect_open(struct cli *cli);

/* Opening a file that is not there would make it, and a slip of the pen in a script would go
 * unnoticed for ever. BI_EXIT_OK, or says that there is none. */
int bi_connect_check_file(const struct cli *cli, const char *url);

/* Opens another queue, by its URL; for verbs that have two. */
int bi_connect_open_url(struct cli *cli, const char *url, bide **queue);

/* How many rows and pages of its file could not be loaded since the queue was opened, as far as is
 * known now; the jobs in them are missing in everything that the queue shows. 0 for a queue that a
 * server keeps: the server's log has it. */
uint64_t bi_connect_damage_count(bide *queue);

/* Warns if the file of the queue is damaged, and closes the queue. shown is its URL for people, exit
 * the exit code so far: if that is BI_EXIT_OK, a close that fails is said and changes it. queue may
 * be NULL. */
int bi_connect_close(const struct cli *cli, bide *queue, const char *shown, int exit);

#endif
