/* SPDX-License-Identifier: MIT */
/*
 * connect - selects and opens the queue.
 *
 * In this order: --url, $BIDE_URL, the user's config file, the system's; then the user server on its
 * socket in the runtime directory, then a server on 127.0.0.1:11300 whose owner is trusted
 * (remote/peer_owner.c). If none answers, a user server is started (user_server.h).
 *
 * The config file is $XDG_CONFIG_HOME/bide/bide.conf (~/.config/bide/bide.conf), else
 * /etc/bide/bide.conf: lines `url = ...`, `secret_file = ...` and `color = auto|always|never`.
 *
 * The secret of a server is in its URL or in a file: $BIDE_SECRET_FILE, for every URL without a secret,
 * or secret_file of the config file, for the url there and for servers that are not named. Child
 * processes get the URL and the name of the file, never the secret.
 */
#ifndef BI_CONNECT_H
#define BI_CONNECT_H

#include "cli/cli.h"

/* Reads the config file; flags override it. Returns BI_EXIT_OK, or prints an error. */
int bi_connect_load_config(struct cli *cli);

/* Returns the URL of --url, $BIDE_URL or a config file; NULL: none. */
const char *bi_connect_explicit_url(const struct cli *cli);

/* Opens cli->queue. Returns BI_EXIT_OK, or prints an error. */
int bi_connect_open(struct cli *cli);

/* Fails if the URL names a file that does not exist. An open would create it, and a mistyped name in a
 * script would never be noticed. */
int bi_connect_check_file(const struct cli *cli, const char *url);

/* Opens another queue, for verbs that have two. */
int bi_connect_open_url(struct cli *cli, const char *url, bide **queue);

/* Returns how many rows and pages of the file could not be loaded so far; their jobs are missing from
 * the queue. 0 for the queue of a server, which logs them. */
uint64_t bi_connect_damage_count(bide *queue);

/* Warns if the file of the queue is damaged, and closes the queue, which may be NULL. shown: its URL for
 * messages. Returns exit, or the code of a close that failed if exit is BI_EXIT_OK. */
int bi_connect_close(const struct cli *cli, bide *queue, const char *shown, int exit);

#endif
