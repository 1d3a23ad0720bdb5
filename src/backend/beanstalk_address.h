/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_address - which server a URL means, and how patient its client is.
 *
 *     beanstalk://host:port          beanstalk://host (11300)      beanstalk://[::1]:11300
 *     beanstalk:///run/bide.sock     a unix socket; beanstalk://unix:/run/bide.sock is the same
 *     beanstalk://:secret@host       the secret that the server wants; or ?secret=...
 *
 *     secret_file=/etc/bide/secret   the secret is the first line of that file
 *     peer=trusted                   only a server of root, of the user bide or of this user is
 *                                    talked to, on this machine (peer_owner.h)
 *     connect_timeout=5s             how long a call goes without a connection before it fails
 *     answer_timeout=15s             a silent server is asked after it whether it is there, and given
 *                                    up after as long again
 *     reconnect_min=50ms             the pause after the first connection that failed; it doubles,
 *     reconnect_max=5s               with jitter, up to this
 *
 * What limits the queue (max_topics, max_touches, ...) is the server's, and refused in the client's
 * URL and options: a limit that nobody keeps would be a surprise. The client itself keeps
 * max_pending_ops and max_pending_bytes; max_job_size and max_result_size, if they are given, are
 * checked before anything is sent, and else the server alone decides; default_ttr, if it is given,
 * is what this client's jobs get.
 */
#ifndef BI_BEANSTALK_ADDRESS_H
#define BI_BEANSTALK_ADDRESS_H

#include "util/url.h"

#include <bide/bide.h>

#include <stdint.h>

#define BI_SECRET_MAX 200

struct address {
    char name[128]; /* for sentences: "host:11300", or the path */
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

/* The names of the parameters that are read here, NULL at the end. */
extern const char *const bi_client_address_parameters[];

/* BIDE_OK, or BIDE_EINVAL with a sentence. */
int bi_client_address_parse(struct address *address, const struct bi_url *url, char *error);

#endif
