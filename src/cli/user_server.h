/* SPDX-License-Identifier: MIT */
/*
 * user_server - where the user's own server is: its socket, its file, its log.
 *
 * The file lies in the data folder ($XDG_DATA_HOME/bide/jobs.db, ~/.local/share/bide/jobs.db), its log
 * beside it, the socket in the runtime folder ($XDG_RUNTIME_DIR/bide/bided.sock, else
 * /tmp/bide-UID/bided.sock). There is one file, but a login, cron and ssh may each have a runtime
 * folder of their own: so a link in the data folder tells where the server listens that was started
 * last.
 *
 * Safety     Both folders must belong to this user, and others must not be able to write there: else
 *            another user could put a socket, a link or a log there. A folder that exists and does
 *            not satisfy this is an error; no other server is used in its place.
 */
#ifndef BI_USER_SERVER_H
#define BI_USER_SERVER_H

#include "util/errmsg.h"

#include <sys/types.h>

struct user_server {
    char dir[1024]; /* the runtime folder */
    char socket[1100];
    char data_dir[1024]; /* the data folder */
    char file[1100];
    char link[1100];
    char log[1100];
    bool unsafe; /* a folder exists, and others could put something there */
};

/* A folder that only this user can change: nobody else may have put a socket there. */
bool bi_user_server_owns_dir(const char *dir);

/* Does a file of this owner belong to this user or to root? In a user namespace that does not know root
 * its files have the owner of "/". */
bool bi_user_server_trusts_uid(uid_t owner);

/* Where the server is, or would be. False, with a sentence, when there is no place, or when it is
 * unsafe. */
bool bi_user_server_locate(struct user_server *server, char *error);

/* Does it listen there? Nobody is asked in a folder that others can write to. */
bool bi_user_server_is_listening(const struct user_server *server);

/* The same, also where the link points to: then folder and socket are those. */
bool bi_user_server_find(struct user_server *server);

/* The URL of its socket: a server of another user is not talked to. False when it is too long. */
bool bi_user_server_url(const struct user_server *server, char *url);

/* Makes the link. */
/* Returns true once, until the server is started again: whether to tell the user that its file is not
 * served. */
bool bi_user_server_note_unserved(const struct user_server *server);

bool bi_user_server_write_link(const struct user_server *server);

/* The process that listens; 0 if there is none. */
pid_t bi_user_server_pid(const struct user_server *server);

#endif
