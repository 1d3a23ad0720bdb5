/* SPDX-License-Identifier: MIT */
/* queues.c - the queues of the trial: opened, closed, opened again, or left by a process that
 * dies. */
#include "contract.h"
#include "location.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUEUES_MAX 128

/* A free slot has no queue. */
static struct owned_queue {
    bide *queue;
    char location[LOCATION_SIZE];
} queues[QUEUES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(struct where at, bide *queue, const char *location)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < QUEUES_MAX && queues[i].queue)
        i++;
    check_true(at, i < QUEUES_MAX, "fewer queues");
    queues[i].queue = queue;
    memcpy(queues[i].location, location, strlen(location) + 1);
    pthread_mutex_unlock(&lock);
}

/* Tells where it is kept, too. */
static void forget(struct where at, const bide *queue, char *location)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < QUEUES_MAX && queues[i].queue != queue)
        i++;
    check_true(at, queue && i < QUEUES_MAX, "a queue of the trial");
    queues[i].queue = NULL;
    memcpy(location, queues[i].location, LOCATION_SIZE);
    pthread_mutex_unlock(&lock);
}

const char *trial_url(char *room, size_t size, const char *parameters)
{
    char location[LOCATION_SIZE];
    return location_url(room, size, new_location(location, sizeof location), parameters);
}

bide *open_location_at(struct where at, const char *location, const char *parameters,
                       const bide_options *options)
{
    char url[LOCATION_SIZE];
    bide *queue = NULL;
    int code = bide_open(location_url(url, sizeof url, location, parameters), options, &queue);
    check_code(at, code, BIDE_OK, "bide_open()");
    check_true(at, queue != NULL, "a queue from bide_open()");
    remember(at, queue, location);
    return queue;
}

bide *open_queue_at(struct where at, const char *parameters)
{
    char location[LOCATION_SIZE];
    return open_location_at(at, new_location(location, sizeof location), parameters, NULL);
}

void close_queue_at(struct where at, bide *queue)
{
    char location[LOCATION_SIZE];
    forget(at, queue, location);
    check_code(at, bide_close(queue), BIDE_OK, "bide_close()");
    remove_location(location);
}

void leave_queue_at(struct where at, bide *queue)
{
    char location[LOCATION_SIZE];
    forget(at, queue, location);
    check_code(at, bide_close(queue), BIDE_OK, "bide_close()");
    stop_location_server(location);
}

bide *loaded_at(struct where at, bide *queue)
{
    int code = bide_wait_recovered(queue, BIDE_FOREVER, NULL);
    check_code(at, code, BIDE_OK, "bide_wait_recovered()");
    return queue;
}

bide *reopen_at(struct where at, bide *queue, const char *parameters)
{
    char location[LOCATION_SIZE];
    forget(at, queue, location);
    check_code(at, bide_close(queue), BIDE_OK, "bide_close()");
    return open_location_at(at, location, parameters, NULL);
}

void close_all_queues(void (*before)(bide *queue))
{
    for (size_t i = 0; i < QUEUES_MAX; i++) {
        if (!queues[i].queue)
            continue;
        before(queues[i].queue);
        OK(bide_close(queues[i].queue));
        queues[i].queue = NULL;
        remove_location(queues[i].location);
    }
}

void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

void crash_during_at(struct where at, const char *location, const char *parameters,
                     void (*work)(bide *queue))
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    check_true(at, child >= 0, "another process");
    if (child == 0) {
        work(open_location_at(at, location, parameters, NULL));
        kill(getpid(), SIGKILL);
    }
    check_true(at, waitpid(child, &status, 0) == child, "an end of the other process");
    /* A check that failed there has spoken for itself. */
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    check_equal(at, WTERMSIG(status), SIGKILL, "the signal that ended the other process");
}
