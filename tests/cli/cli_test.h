/* SPDX-License-Identifier: MIT */
/*
 * cli_test - what the tests of the command line are written with.
 *
 * A test runs the real bide as a child, with arguments, input, an environment of its own, or on a
 * terminal, and looks at its exit code and at every byte that it wrote. The checks are those of the
 * contract suite, the folder is that of the fault tests.
 *
 * Places     A theme that is named in `everywhere` (main.c) is run at every place that a queue can
 *            be at: a file, a bided in memory or on a file, a plain beanstalkd. `--url` with that
 *            queue then stands before the arguments of every child. One in `served` is run where a
 *            bided keeps the queue. A theme in `once` is run once, and its children get no --url
 *            but by use_url().
 * Processes  Every test has a process of its own. What it started, and what that started and left,
 *            which becomes the test's own child, does not outlive it.
 * Time       Nothing depends on how fast the machine is: what has to come in the end is waited for
 *            with a patience that only a hang exceeds.
 */
#ifndef CLI_TEST_H
#define CLI_TEST_H

#include "../fault/fault.h"

#include <jansson.h>
#include <sys/types.h>

/* One of these in each file of tests, and in one of the tables of main.c. */
extern const struct theme admin_theme;
extern const struct theme arguments_theme;
extern const struct theme put_failure_theme;
extern const struct theme change_theme;
extern const struct theme completion_theme;
extern const struct theme disk_theme;
extern const struct theme monitor_theme;
extern const struct theme self_test_theme;
extern const struct theme hostile_theme;
extern const struct theme json_theme;
extern const struct theme lease_theme;
extern const struct theme query_theme;
extern const struct theme schedule_theme;
extern const struct theme overview_theme;
extern const struct theme move_plain_theme;
extern const struct theme move_theme;
extern const struct theme user_server_theme;
extern const struct theme put_theme;
extern const struct theme connect_theme;
extern const struct theme stream_theme;
extern const struct theme top_keys_theme;
extern const struct theme top_term_theme;
extern const struct theme top_theme;
extern const struct theme export_import_theme;
extern const struct theme usage_theme;
extern const struct theme job_wait_theme;
extern const struct theme work_hook_theme;
extern const struct theme work_next_theme;
extern const struct theme work_stop_theme;
extern const struct theme work_theme;
extern const struct theme work_usage_theme;
extern const struct theme workers_verb_theme;

/* ---- the queue ---- */

enum place_kind {
    NOWHERE,        /* a theme that is run once */
    AT_FILE,        /* sqlite:, opened by bide itself */
    AT_MEMORY,      /* bided on memory: */
    AT_SERVED_FILE, /* bided on sqlite: */
    AT_BEANSTALKD,  /* a real one */
};
extern enum place_kind place_kind;

/* Does a lease outlive the process that took it? Does the queue know more than beanstalkd? */
#define passes_leases() (place_kind == AT_MEMORY || place_kind == AT_SERVED_FILE)
#define is_plain()      (place_kind == AT_BEANSTALKD)

/* The URL of the queue of the test. Its server is started when it is first asked for, and is
 * stopped after the test, where it must end well. */
const char *queue_url(void);

/* Stops that server, or kills it with this signal; the next queue_url() starts another, on what the
 * first has left on its disk. */
void stop_server(int signal);
pid_t server_pid(void);

/* Another bided on "memory:" or a file, or "beanstalkd", on a socket "NAME.sock" in the folder of
 * the test: its URL. */
const char *start_another_server(const char *name, const char *bided_url);
/* The process of one of these, by its URL. */
pid_t another_pid(const char *url);

/* What the next children get as --url instead; NULL: none. */
void use_url(const char *url);

/* The library's view, for what is hard to set up from outside. A file is bide's or the test's, so
 * that it must be closed before a child is started. */
#define open_test_queue() open_test_queue_at(HERE)
bide *open_test_queue_at(struct where at);

/* ---- environment ---- */

/* What the next children have in their environment, besides HOME, XDG_RUNTIME_DIR, XDG_DATA_HOME
 * and XDG_CONFIG_HOME (folders in that of the test), PATH, TZ=UTC and LC_ALL=C.UTF-8. A NULL value
 * takes it out. */
void set_env(const char *name, const char *value);

/* What is done in the new process just before it becomes bide, when its descriptors are in place;
 * NULL: nothing. */
extern void (*before_exec)(void);

/* The program that is run: bide, or what stands here. */
extern const char *program_path;
/* The folder of the programs under test. */
const char *program_folder(void);
/* The file of a project, as "man/bide.1". */
const char *source_of(const char *name);

/* A folder in that of the test, which is made if it is not there. */
const char *folder_of(const char *name);
void write_text(const char *path, const char *text);

/* ---- children ---- */

struct output {
    int fd; /* -1 when it has ended */
    size_t size;
    char *text; /* with a 0 behind it; never NULL */
};

struct child {
    pid_t pid;
    int code; /* what it exited with; -1: it has not; 256 and more: killed by that signal */
    int in;   /* feeds its standard input; -1: closed */
    struct output out, err; /* on a terminal, all of it is in out */
    struct child *next;
};

/* Runs bide with these arguments to its end, without input; the code must be that. */
#define run_expect(code, ...) run_expect_at(HERE, (code), NULL, 0, __VA_ARGS__, NULL)
/* The same with an input: a text, or bytes. */
#define run_expect_input(code, input, ...) \
    run_expect_at(HERE, (code), (input), strlen(input), __VA_ARGS__, NULL)
#define run_expect_bytes(code, input, size, ...) \
    run_expect_at(HERE, (code), (input), (size), __VA_ARGS__, NULL)
struct child *run_expect_at(struct where at, int code, const void *input, size_t size, ...)
    __attribute__((sentinel));
/* With arguments in a list that ends with NULL. */
struct child *run_expect_list_at(struct where at, int code, const void *input, size_t size,
                                 const char *const *argv);

/* Starts it; its input stays open until end_input(). */
struct child *begin(const char *argument, ...) __attribute__((sentinel));
struct child *begin_list(const char *const *argv);
/* On a terminal of this size, which is its controlling one; press() types. */
struct child *begin_on_terminal(int columns, int rows, const char *argument, ...)
    __attribute__((sentinel));
/* The same, but standard output is not the terminal: out is that, and err is the terminal. */
struct child *begin_piped_on_terminal(const char *argument, ...) __attribute__((sentinel));

#define feed(child, text) feed_at(HERE, (child), (text), strlen(text))
void feed_at(struct where at, struct child *child, const void *data, size_t size);
#define press(child, keys) feed_at(HERE, (child), (keys), strlen(keys))
void end_input(struct child *child);
/* Closes the reading end of its standard output. */
void end_output(struct child *child);

/* Waits until a text was written. */
#define await_out(child, text) await_text_at(HERE, (child), &(child)->out, (text))
#define await_err(child, text) await_text_at(HERE, (child), &(child)->err, (text))
void await_text_at(struct where at, struct child *child, struct output *output, const char *text);

/* Waits for the end, which must be with this code, or may be with any. */
#define ANY_CODE               (-2)
#define await_end(child, code) await_end_at(HERE, (child), (code))
void await_end_at(struct where at, struct child *child, int code);

/* Has it ended? Reads what it has written meanwhile. */
bool is_over(struct child *child);

/* Sends a signal, and waits for the end, which must be with this code. */
#define interrupt(child, signal, code) interrupt_at(HERE, (child), (signal), (code))
void interrupt_at(struct where at, struct child *child, int signal, int code);

/* ---- what was written ---- */

#define HAS(output, wanted)   has_at(HERE, &(output), (wanted), true)
#define LACKS(output, wanted) has_at(HERE, &(output), (wanted), false)
void has_at(struct where at, const struct output *output, const char *wanted, bool must);
#define OUTPUT_IS(output, wanted) output_is_at(HERE, &(output), (wanted), #output)
#define SILENT(output)            output_is_at(HERE, &(output), "", #output)
void output_is_at(struct where at, const struct output *output, const char *wanted,
                  const char *text);

/* How often a text, or a line, is in it. */
int count_of(const struct output *output, const char *text);
#define LINES(output) count_of(&(output), "\n")

/* Every line must be a JSON value: an array of all of them; the one of a line, from 0 on. They live
 * as long as the test. */
#define json_of(output)       json_of_at(HERE, &(output))
#define json_at(output, line) json_line_at(HERE, &(output), (line))
json_t *json_of_at(struct where at, const struct output *output);
json_t *json_line_at(struct where at, const struct output *output, size_t line);
/* Members, which must be there and of that kind. */
#define number_in(object, name) number_in_at(HERE, (object), (name))
#define text_in(object, name)   text_in_at(HERE, (object), (name))
int64_t number_in_at(struct where at, const json_t *object, const char *name);
const char *text_in_at(struct where at, const json_t *object, const char *name);

/* ---- short ways ---- */

/* Puts a job through the library; answers its id. */
uint64_t put_job(const char *topic, const char *body);
/* An id as an argument, valid for the next seven calls. */
const char *id_text(uint64_t id);
/* Reserves the next job of a topic by this name. */
bide_job reserve_by(bide *queue, const char *topic, const char *holder);
/* How many jobs of a topic are in a state, as the library says. */
uint64_t count_jobs(const char *topic, bide_state state);

/* ---- the runner's ---- */

void children_begin(const char *folder, const char *source);
void server_end(void);
void server_choose(enum place_kind kind);

#endif
