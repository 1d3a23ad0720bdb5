/* SPDX-License-Identifier: MIT */
/*
 * bided_suite - what the tests of bided as a program are written with.
 *
 * A test starts the real program, on ports that the system chooses and in a folder of its own,
 * talks to it over sockets, sends it signals, and reads what it writes. Its environment is empty
 * but for what a test says. Checks are those of the contract suite, the folder is that of the fault
 * tests.
 *
 * Time       Nothing depends on how fast the machine is: what has to come in the end is waited
 *            for with a patience that only a hang exceeds.
 */
#ifndef BIDED_SUITE_H
#define BIDED_SUITE_H

#include "../fault/fault.h"

#include <sys/types.h>

extern const struct theme flags_theme, config_file_theme, state_dir_theme, listener_theme,
    systemd_theme;
extern const struct theme signal_theme, graceful_close_theme, logger_theme, connection_limits_theme,
    privileges_theme, docs_theme, rpc_theme, dns_theme, stats_theme, admission_theme, sandbox_theme,
    hostile_theme, resource_limits_theme, memory_limits_theme;

#define OUTPUT_SIZE 65536

/* A bided that runs, or has run. */
struct bided {
    pid_t pid;
    int code; /* what it exited with; -1: it has not; 256 and more: killed by a signal */
    struct {
        int fd; /* -1 when it has ended */
        size_t size;
        char text[OUTPUT_SIZE];
    } out, err;         /* what it has printed, and logged */
    struct bided *next; /* started before */
};

/* The runner's. */
void bided_begin(const char *program, const char *source);

/* The file of a project, as "man/bided.8". */
const char *source_of(const char *name);

/* The folder of the programs under test. */
const char *program_folder(void);

/* A folder in that of the test, which is made if it is not there. */
const char *folder_of(const char *name);

/* Writes the file of settings anew; answers its flag. */
const char *file_of(const char *text);

/* What the next ones have in their environment, besides HOME (the folder of the test); a NULL value
 * takes it out. */
void set_env(const char *name, const char *value);

/* What is done in the new process before it becomes bided; NULL: nothing. */
extern void (*before_exec)(void);

/* Starts it with these flags, up to NULL, and --config=/dev/null unless the first is --config. */
struct bided *start(const char *flag, ...) __attribute__((sentinel));
/* And waits until it is ready. */
#define serve(...) serve_at(HERE, __VA_ARGS__, NULL)
struct bided *serve_at(struct where at, const char *flag, ...) __attribute__((sentinel));
/* Runs one that is to end by itself; the code must be that. */
#define ends_with(code, ...) ends_at(HERE, (code), __VA_ARGS__, NULL)
struct bided *ends_at(struct where at, int code, const char *flag, ...) __attribute__((sentinel));

/* Waits until the log has a text in it; or has it n times. */
#define await_log(bided, text)     await_log_at(HERE, (bided), (text), 1)
#define await_logs(bided, text, n) await_log_at(HERE, (bided), (text), (n))
void await_log_at(struct where at, struct bided *bided, const char *text, int times);

/* What there is of it now. */
#define HAS(output, wanted)   has_at(HERE, (output).text, (wanted), true)
#define LACKS(output, wanted) has_at(HERE, (output).text, (wanted), false)
void has_at(struct where at, const char *text, const char *wanted, bool must);

/* Waits for the end, which must be with this code. */
#define await_end(bided, code) await_end_at(HERE, (bided), (code))
void await_end_at(struct where at, struct bided *bided, int code);
/* Asks it to stop, and waits for that. */
#define stop(bided) stop_at(HERE, (bided))
void stop_at(struct where at, struct bided *bided);

/* The port of the first line "listening on HOST:PORT"; of the nth. */
int port_of(const struct bided *bided, const char *host);

/* A queue at it. */
bide *open_at(const struct bided *bided);

/* A network of the test's own, in which no other program is and OUTER is an address of this machine
 * that is not loopback; false where that is not allowed. Files can still be made in it. */
#define OUTER "10.9.8.7"
bool have_own_network(void);

/* Addresses from which a client in that network connects as if it were on another machine. */
#define NEIGHBOUR "10.9.8.6"
#define STRANGER  "10.200.1.1"

/* Adds addresses of IPv6 to that network: from NEIGHBOUR_SIX and BESIDE_SIX, which are in one
 * network of 64 bits, a client connects to OUTER_SIX as if it were on another machine. False
 * without IPv6. */
#define OUTER_SIX     "fd99::7"
#define NEIGHBOUR_SIX "fd99::6"
#define BESIDE_SIX    "fd99::5"
bool have_own_ipv6(void);

/* ---- talking ---- */

/* A connection to 127.0.0.1, ::1 or a path; -1 if it is refused. */
int try_tcp(const char *host, int port);
int try_unix(const char *path);
/* The same to an address, from another one of its family; NULL: whichever the system takes. */
int try_tcp_from(const char *from, const char *host, int port);
#define connect_tcp(port) connect_at(HERE, try_tcp("127.0.0.1", (port)))
int connect_at(struct where at, int fd);

/* Sends, and reads exactly the answer that is wanted. */
#define ask(fd, text, want) ask_at(HERE, (fd), (text), (want))
void ask_at(struct where at, int fd, const char *text, const char *want);
/* The other side must close. */
#define await_close(fd) await_close_at(HERE, (fd))
void await_close_at(struct where at, int fd);

#endif
