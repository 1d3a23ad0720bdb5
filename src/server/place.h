/* SPDX-License-Identifier: MIT */
/*
 * place - where the queue is, when only a directory is known, or nothing at all.
 *
 * The state directory is what systemd says ($STATE_DIRECTORY), else /var/lib/bide for whoever can
 * write there, else the user's own ($XDG_STATE_HOME/bide, ~/.local/state/bide). It is made if it
 * does not exist, for its owner only. A directory that somebody names must be there: a slip of the
 * pen, or a disk that is not mounted, must not begin an empty queue.
 */
#ifndef BI_PLACE_H
#define BI_PLACE_H

#include "util/sentence.h"
#include "util/url.h"

#include <sys/types.h>

#define BI_PLACE_SIZE 1024

/* What the environment says; see bi_place_find(). */
struct surroundings {
    const char *state_directory, *xdg_state_home, *home; /* NULL or "": not said */
    const char *system;                                  /* "/var/lib/bide" */
    bool root;
};

struct surroundings bi_place_look(void);

/* The state directory, which need not exist yet. */
bool bi_place_find(char *directory, const struct surroundings *around, char *error);

/* Makes a directory and those above it, if they do not exist. made says if there was something to
 * make. */
bool bi_place_make(const char *directory, bool *made, char *error);

/* Is there such a directory? */
bool bi_place_check(const char *directory, char *error);

/* What lies where a queue is to be opened. */
struct neighbourhood {
    bool is_new;     /* there is no such file yet */
    char binlog[64]; /* a log file of beanstalkd beside it; "": none */
};

/* location: of a URL of a file, still encoded. */
struct neighbourhood bi_place_survey(const char *location);

/* The URL of bide.db in a directory: BI_URL_MAX bytes. */
bool bi_place_url(char *url, const char *directory, char *error);

#endif
