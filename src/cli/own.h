/* SPDX-License-Identifier: MIT */
/*
 * own - where the user's own server is: its socket, its file, its log.
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
#ifndef BI_OWN_H
#define BI_OWN_H

#include "util/sentence.h"

#include <sys/types.h>

struct own_server {
    char folder[1024]; /* the runtime folder */
    char socket[1100];
    char data[1024]; /* the data folder */
    char file[1100];
    char link[1100];
    char log[1100];
    bool unsafe; /* a folder exists, and others could put something there */
};

/* A folder that only this user can change: nobody else may have put a socket there. */
bool bi_own_is_mine(const char *folder);

/* Does a file of this owner belong to this user or to root? In a user namespace that does not know root
 * its files have the owner of "/". */
bool bi_own_trusts(uid_t owner);

/* Where the server is, or would be. False, with a sentence, when there is no place, or when it is
 * unsafe. */
bool bi_own_look(struct own_server *own, char *error);

/* Does it listen there? Nobody is asked in a folder that others can write to. */
bool bi_own_answers(const struct own_server *own);

/* The same, also where the link points to: then folder and socket are those. */
bool bi_own_find(struct own_server *own);

/* The URL of its socket: a server of another user is not talked to. False when it is too long. */
bool bi_own_url(const struct own_server *own, char *url);

/* Makes the link. */
bool bi_own_leave_link(const struct own_server *own);

/* The process that listens; 0 if there is none. */
pid_t bi_own_pid(const struct own_server *own);

#endif
