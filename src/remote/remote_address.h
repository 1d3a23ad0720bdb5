/* SPDX-License-Identifier: MIT */
/*
 * remote_address - the URL of a server: where it is, and the timeouts of its client.
 *
 *     beanstalk://host:port          beanstalk://host (11300)      beanstalk://[::1]:11300
 *     beanstalk:///run/bide.sock     a unix socket; beanstalk://unix:/run/bide.sock is the same
 *     beanstalk://:secret@host       the secret that the server requires; or ?secret=...
 *
 *     secret_file=/etc/bide/secret   the secret is the first line of that file
 *     peer=trusted                   connect only to a server of root, of the user bide or of this
 *                                    user, on this machine (peer_owner.c)
 *     connect_timeout=5s             how long a call may be without a connection before it fails
 *     answer_timeout=15s             a server that is silent for so long is probed; after as long
 *                                    again the connection counts as lost
 *     reconnect_min=50ms             the pause after the first failed connection; it doubles, with
 *     reconnect_max=5s               jitter, up to this
 *
 * Limits of the queue (max_topics, max_touches, ...) belong to the server. They are rejected in the
 * client's URL and options: a limit that is not enforced would be a surprise. The client itself
 * enforces max_pending_ops and max_pending_bytes. If max_job_size and max_result_size are set, they
 * are checked before anything is sent; otherwise only the server's limits apply. default_ttr, if
 * set, applies to the jobs of this client.
 */
#ifndef BI_REMOTE_ADDRESS_H
#define BI_REMOTE_ADDRESS_H

#include "util/hash.h"
#include "util/url.h"

#include <bide/bide.h>

#include <stdint.h>

#define BI_SECRET_MAX 200

struct address {
    char name[128]; /* for error texts: "host:11300", or the path */
    char host[256]; /* "": a unix socket */
    char port[8];
    char path[108];
    char secret[BI_SECRET_MAX + 1]; /* "": none */
    bool trusted;                   /* peer=trusted */
    int64_t connect_timeout;        /* microseconds */
    int64_t answer_timeout;
    int64_t reconnect_min;
    int64_t reconnect_max;
};

/* The parameters that parse() reads, terminated by NULL. */
extern const char *const bi_remote_address_params[];

/* Returns BIDE_OK, or BIDE_EINVAL with an error text. default_port applies to a host without one.
 * May block on a secret_file that is a pipe. */
int bi_remote_address_parse(struct address *address, const struct bi_url *url,
                            const char *default_port, char *error);

/* Returns the pause before the next attempt to connect, in microseconds. attempts: how many have
 * failed, from 1. The pause doubles from reconnect_min, plus up to half of it at random. The
 * longest pauses are two thirds of reconnect_max to reconnect_max: the clients of one server
 * must not reconnect in step. */
int64_t bi_remote_address_backoff(const struct address *address, unsigned attempts,
                                  struct bi_random *random);

#endif
