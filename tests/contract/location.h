/* SPDX-License-Identifier: MIT */
/*
 * location - where the queues of a test are kept.
 *
 * A URL that names a file cannot be shared by two queues, and what is in the file outlives the
 * queue. So for a URL that names a kind of file and no file ("sqlite:", "sqlite:?sync=off") the
 * runner makes a folder, every queue gets a file of its own in it, and all of it is removed, also
 * when a test has failed. Any other URL is its own place, and all queues share it; but
 * "beanstalk:", which names no server, means one of its own for every queue (queue_server.h).
 */
#ifndef LOCATION_H
#define LOCATION_H

#include "contract.h"

#define LOCATION_SIZE 1024

/* For the runner: begins with a URL, removes what a test has left, ends with the URL. */
bool locations_begin(const char *url);
void locations_sweep(void);
void locations_end(void);

/* Writes a location that was not used before: a URL without further parameters. */
const char *new_location(char *room, size_t size);
/* Writes the URL of a place with further parameters ("seed=1&ticker=wheel", or ""). */
const char *location_url(char *room, size_t size, const char *location, const char *parameters);
/* Writes the name of a file that does not exist yet, for a copy of the queue. */
const char *new_file(char *room, size_t size);
/* Writes the URL of the queue in a file. */
const char *file_location(char *room, size_t size, const char *file);
/* Writes the URL of a place that is open already, to open it a second time. */
const char *second_url(char *room, size_t size, const char *location);
/* The queue at a place was closed: if a server keeps it, that ends, too. */
void stop_location_server(const char *location);
/* Kills the server of a place, or starts it again; only where not is_in_process(). */
void kill_location_server(const char *location);
void start_location_server(const char *location);
/* Removes the files of a place that is closed; nothing where the URL is its own place. */
void remove_location(const char *location);

/* ---- queues that are closed and opened again ---- */

/* Opens the queue at a place; options may be NULL. It belongs to the trial. */
#define open_location(location, parameters) open_location_at(HERE, (location), (parameters), NULL)
#define open_location_with(location, params, options) \
    open_location_at(HERE, (location), (params), (options))
bide *open_location_at(struct where at, const char *location, const char *parameters,
                       const bide_options *options);

/* Closes a queue and leaves what it kept. */
#define leave_queue(queue) leave_queue_at(HERE, (queue))
void leave_queue_at(struct where at, bide *queue);

/* Waits until everything is loaded. */
#define loaded(queue) loaded_at(HERE, (queue))
bide *loaded_at(struct where at, bide *queue);

/* Closes a queue and opens it again at the same place; at once: nothing is waited for. */
#define reopen(queue, parameters) loaded(reopen_at(HERE, (queue), (parameters)))
#define reopen_at_once(queue)     reopen_at(HERE, (queue), "")
bide *reopen_at(struct where at, bide *queue, const char *parameters);

/* Opens the queue at a place in another process, which is killed when work has returned. No queue
 * may be open in this one. What work has to tell goes into memory that both share, until the end
 * of the test; topics must be named before. */
void *shared_memory(size_t size);
#define crash_during(location, parameters, work) \
    crash_during_at(HERE, (location), (parameters), (work))
void crash_during_at(struct where at, const char *location, const char *parameters,
                     void (*work)(bide *queue));

#endif
