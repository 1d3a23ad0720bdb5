/* SPDX-License-Identifier: MIT */
/*
 * state_dir - the location of the queue if only a directory is configured, or nothing.
 *
 * The state directory is $STATE_DIRECTORY (systemd), else /var/lib/bide if that is writable, else
 * the user's own ($XDG_STATE_HOME/bide, ~/.local/state/bide). It is created if it does not exist,
 * for its owner only. A directory that is configured must exist: a typing error, or a disk that is
 * not mounted, must not start an empty queue.
 */
#ifndef BI_STATE_DIR_H
#define BI_STATE_DIR_H

#include "util/message.h"
#include "util/url.h"

#include <sys/types.h>

#define BI_STATE_DIR_SIZE 1024

/* The environment as input of bi_state_dir_find(), so that tests can set it. */
struct state_dir_env {
    const char *state_directory, *xdg_state_home, *home; /* NULL or "": not set */
    const char *system;                                  /* "/var/lib/bide" */
    bool root;
};

struct state_dir_env bi_state_dir_environment(void);

/* Determines the state directory, which need not exist yet. */
bool bi_state_dir_find(char *directory, const struct state_dir_env *env, char *error);

/* Creates a directory and its parents if they do not exist. *created: the directory is new. */
bool bi_state_dir_create(const char *directory, bool *created, char *error);

/* Fails if the directory does not exist. */
bool bi_state_dir_check(const char *directory, char *error);

/* The files at the location of a queue. */
struct queue_dir_info {
    bool is_new;     /* the database does not exist yet */
    char binlog[64]; /* a log of beanstalkd in the same directory; "": none */
};

/* location: the path of a file URL, percent-encoded. */
struct queue_dir_info bi_state_dir_inspect(const char *location);

/* Writes the URL of bide.db in a directory, in BI_URL_MAX bytes. */
bool bi_state_dir_url(char *url, const char *directory, char *error);

#endif
