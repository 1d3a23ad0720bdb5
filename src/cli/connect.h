/* SPDX-License-Identifier: MIT */
/*
 * connect - selects and opens the queue.
 *
 * In this order: --url, $BIDE_URL, the user's config file, the system's; then the user server on
 * its socket in the runtime directory, then a server on 127.0.0.1:11300 whose owner is trusted
 * (remote/peer_owner.c). If none answers, a user server is started.
 *
 * The config file is $XDG_CONFIG_HOME/bide/bide.conf (~/.config/bide/bide.conf), else
 * /etc/bide/bide.conf: lines `url = ...`, `secret_file = ...` and `color = auto|always|never`.
 *
 * The secret of a server is in its URL or in a file: $BIDE_SECRET_FILE, for every URL without a
 * secret, or secret_file of the config file, for the url there and for servers that are not named.
 * Child processes get the URL and the name of the file, never the secret.
 */
#ifndef BI_CONNECT_H
#define BI_CONNECT_H

#include "cli/cli.h"

#include <sys/types.h>

/* Reads the config file; flags override it. Returns BI_EXIT_OK, or prints an error. */
int bi_connect_load_config(struct cli *cli);

/* Returns the URL of --url, $BIDE_URL or a config file; NULL: none. */
const char *bi_connect_explicit_url(const struct cli *cli);

/* Opens cli->queue. Returns BI_EXIT_OK, or prints an error. */
int bi_connect_open(struct cli *cli);

/* Fails if the URL names a file that does not exist. An open would create it, and a mistyped name
 * in a script would never be noticed. */
int bi_connect_check_file(const struct cli *cli, const char *url);

/* Opens another queue, for verbs that have two. */
int bi_connect_open_url(struct cli *cli, const char *url, bide **queue);

/* Returns how many rows and pages of the file could not be loaded so far; their jobs are missing
 * from the queue. 0 for the queue of a server, which logs them. */
uint64_t bi_connect_damage_count(bide *queue);

/* Warns if the file of the queue is damaged, and closes the queue, which may be NULL. shown: its
 * URL for messages. Returns exit, or the code of a close that failed if exit is BI_EXIT_OK. */
int bi_connect_close(const struct cli *cli, bide *queue, const char *shown, int exit);

/*
 * user_server - the bided that bide starts for a user: its socket, file and log, start and stop.
 *
 * The file is in the data directory ($XDG_DATA_HOME/bide/jobs.db, ~/.local/share/bide/jobs.db), the
 * log beside it, the socket in the runtime directory ($XDG_RUNTIME_DIR/bide/bided.sock, else
 * /tmp/bide-UID/bided.sock). There is one file, but a login, cron and ssh may each have a runtime
 * directory of their own: a link in the data directory points to the socket of the server that was
 * started last.
 *
 * Safety     Both directories must belong to this user and not be writable by others: otherwise
 *            another user could place a socket, a link or a log there. A directory that exists and
 *            is not safe is an error; no other server is used instead.
 */

struct user_server {
    char dir[1024]; /* runtime directory */
    char socket[1100];
    char data_dir[1024]; /* data directory */
    char file[1100];
    char link[1100];
    char log[1100];
    char noted[1100]; /* exists: the user knows that the file is not served */
    bool unsafe;      /* a directory exists, and others can write to it */
};

/* Returns true if the owner is this user or root. In a user namespace without root, files of root
 * have the owner of "/". */
bool bi_user_server_trusts_uid(uid_t owner);

/* Writes the path of a file in the user's config directory. False: there is none. */
bool bi_user_server_config_path(char *path, size_t size, const char *name);

/* Fills in where the server is, or would be. False with an error text: there is no place, or it is
 * not safe. */
bool bi_user_server_locate(struct user_server *server, char *error);

/* Returns true if the server listens on its socket, or at the target of the link; dir and socket
 * are then those of the target. Sockets in a directory that is not safe are not tried. */
bool bi_user_server_find(struct user_server *server);

/* Writes the URL of its socket, which rejects servers of other users. False: it is too long. */
bool bi_user_server_url(const struct user_server *server, char *url);

/* Returns true once, until the server is started again: whether to tell the user that its file is
 * not served. */
bool bi_user_server_note_unserved(const struct user_server *server);

/* Starts the server and waits until it answers. Two commands at the same time start one server: the
 * second waits for the first. The server goes on when the command ends. Its settings are those of
 * bided.conf in the user's config directory; without one the defaults, with a larger
 * max_job_size. */
int bi_user_server_start(const struct cli *cli, struct user_server *server);

#endif
