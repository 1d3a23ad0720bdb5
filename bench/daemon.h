/* SPDX-License-Identifier: MIT */
/*
 * daemon - a server that a benchmark starts, measures and stops: bided, or Debian's beanstalkd.
 *
 * It runs as a child on a port or socket that nobody else has, and ends with this program,
 * however that ends. Its files are in the folder of the benchmark: only one durable server, and
 * one on a unix socket, of a kind can run at once, and whoever wants the next to find nothing calls
 * folder_empty().
 */
#ifndef BENCH_DAEMON_H
#define BENCH_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench.h"
#include "wire.h"

enum daemon_kind { DAEMON_BIDED, DAEMON_BEANSTALKD, DAEMONS };

struct daemon_setup {
    enum daemon_kind kind;
    bool durable;            /* in the folder: sync=full, or -f 0 */
    bool on_unix;            /* else on a port of 127.0.0.1 */
    int core;                /* that it may use, with all its threads; or DAEMON_ANY_CORE */
    const char *const *more; /* further words of bided's command line, up to NULL; may be NULL */
};

#define DAEMON_ANY_CORE (-1)

struct daemon {
    enum daemon_kind kind;
    pid_t pid; /* 0: does not run */
    char address[WIRE_ADDRESS_SIZE];
};

const char *daemon_name(enum daemon_kind kind);

/* Ends the program with a sentence if one of the two is not there. */
void daemon_check(const struct settings *settings);

/* A port of 127.0.0.1 that was free a moment ago. */
uint16_t daemon_free_port(void);

/* Starts it, and waits until it accepts connections. */
void daemon_start(struct daemon *daemon, const struct settings *settings,
                  const struct daemon_setup *setup);

/* Stops it and waits for its end. Nothing, if it does not run. */
void daemon_stop(struct daemon *daemon);

/* The same without asking. */
void daemon_kill(struct daemon *daemon);

/* The processor time that it has used, in user and kernel mode, of all its threads. */
int64_t daemon_cpu_ns(const struct daemon *daemon);

uint64_t daemon_rss_bytes(const struct daemon *daemon);

#endif
