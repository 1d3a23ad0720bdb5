/* SPDX-License-Identifier: MIT */
/*
 * process - what the tests of workers that die, and of queues that are away, are written with.
 *
 * A test runs in a process and a folder of its own. It has a bided, or a file, to which it hires
 * worker processes, which it stops, kills and hires again. They run one handler, which does what
 * the body of the job says. What they do, and what their workers tell, is written to the diary, a
 * file in the folder of the test: it outlives a process that is killed, and every line of it says
 * when and by whom.
 *
 * Time       No test depends on how fast the machine is. What has to come in the end is waited for;
 *            what must not come early is compared with the clock.
 */
#ifndef TASK_PROCESS_H
#define TASK_PROCESS_H

#include "../server/test_server.h"

#include <bide/task.h>

#include <sys/types.h>

extern const struct theme crash_theme, poison_theme, stop_theme, run_theme, cancel_theme;
extern const struct theme answer_theme, disk_theme, health_theme, beat_theme, plain_theme,
    storm_theme;

/* ---- what the handler does ---- */

/*
 * The body is a list of commands, with "; " between them:
 *
 *     nap MS        sleeps
 *     hold NAME     until open_gate(NAME), whatever happens
 *     until MS      waits that long, or answers retry when there is a reason to stop
 *     listen        waits for a reason to stop, notes "heard", and answers retry
 *     die, abort, null    ends its process
 *     put TOPIC     collects a job "next" for that topic
 *     result TEXT, retry MS, bury, snooze MS    answers that; else done
 *
 * It notes "began" at first. In the topic "work" a handler may run for the ttr of the job, in the
 * topic "beat" for an hour, with a lease that is kept alive.
 */
int run_commands(bide_context *context, const bide_slice *body, void *arg);

/* Lets those handlers go on that hold at the gate. */
void open_gate(const char *name);
void close_gate(const char *name);

/* A worker at the queue that follows the jobs of both topics, and tells the diary. */
bide_worker *new_worker(bide *at, unsigned threads, int64_t stop_timeout_ms,
                        int64_t health_interval_ms);

/* ---- the diary ---- */

struct entry {
    int64_t at_us; /* by clock_us() */
    int pid;
    char what[24]; /* a bide_work_name(), or "began", "heard", "health", "ran" */
    uint64_t id;
    uint32_t attempt;
    int code;
    int64_t delay_ms;
    char text[BIDE_ERROR_SIZE];
};

void event_log_add(const struct entry *entry); /* when and who are filled in */
/* How many there are; id 0: of any job. */
size_t event_log_count(const char *what, uint64_t id);
/* Has that process noted such a thing? */
bool event_log_has(const char *what, pid_t pid);
/* The nth, from 0; it must be there. */
#define event_log_get(what, id, nth) event_log_get_at(HERE, (what), (id), (nth))
struct entry event_log_get_at(struct where at, const char *what, uint64_t id, size_t nth);
/* The last; false if there is none. */
bool event_log_last(const char *what, uint64_t id, struct entry *entry);
/* All of it, to be freed. */
struct entry *event_log_read(size_t *count);

/* ---- the server and the queue of a test ---- */

extern struct server server;
extern bide *queue; /* the test's own way to the jobs */

/* Starts bided, and opens the queue. */
void begin_server(enum test_server_storage where);
/* The URL of a server, with parameters ("connect_timeout=1s", or ""). */
const char *server_url(int port, const char *parameters);
/* Closes the queue, and stops bided, which must be well. */
void end_server(void);

uint64_t put_job(const char *topic, const char *body, const bide_put_options *options);
/* Options of a put. The second: with so many retries, one after another without a delay. */
bide_put_options with_ttr(int64_t ttr_ms);
bide_put_options with_retries(int64_t ttr_ms, int32_t max_retries);

/* The job as it is, without its texts; it must be there. */
bide_job get_job(uint64_t id);
bide_state state_now(uint64_t id);
bide_counts counts_now(void);
/* How many reserves wait. */
uint64_t waiting_now(void);
/* The lease of the job lasts at least until then, by clock_us(). */
int64_t lease_end_us(uint64_t id);
/* The job must have failed last with that text. */
#define LAST_ERROR(id, want) last_error_at(HERE, (id), (want))
void last_error_at(struct where at, uint64_t id, const char *want);

/* ---- worker processes ---- */

/* Starts a process with a worker, in bide_worker_run(). */
pid_t start_worker_process(const char *url, unsigned threads);
/* One that lets handlers run for so long when it is stopped. */
pid_t start_worker_process_with(const char *url, unsigned threads, int64_t stop_timeout_ms);
/* Waits for its end, which must be with this code; 256 and more: by a signal. */
#define ends_with(pid, code) ends_with_at(HERE, (pid), (code))
void ends_with_at(struct where at, pid_t pid, int want);
/* True when it has ended; then the pid is not to be used again. */
bool has_ended(pid_t pid, int *code);
/* SIGTERM, and it must end well. */
#define stop_worker_process(pid) stop_worker_process_at(HERE, (pid))
void stop_worker_process_at(struct where at, pid_t pid);
/* kill -9. */
#define kill_worker_process(pid) kill_worker_process_at(HERE, (pid))
void kill_worker_process_at(struct where at, pid_t pid);

/* What the program does instead, when it is such a process. */
int work_main(int argc, char **argv);

#endif
