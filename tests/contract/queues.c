/* SPDX-License-Identifier: MIT */
/* queues.c - the queues of the trial: opened, closed, opened again, or left by a process that dies. */
#include "contract.h"
#include "place.h"

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
    char place[PLACE_SIZE];
} queues[QUEUES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(struct where at, bide *queue, const char *place)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < QUEUES_MAX && queues[i].queue)
        i++;
    check_true(at, i < QUEUES_MAX, "fewer queues");
    queues[i].queue = queue;
    memcpy(queues[i].place, place, strlen(place) + 1);
    pthread_mutex_unlock(&lock);
}

/* Tells where it is kept, too. */
static void forget(struct where at, const bide *queue, char *place)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < QUEUES_MAX && queues[i].queue != queue)
        i++;
    check_true(at, queue && i < QUEUES_MAX, "a queue of the trial");
    queues[i].queue = NULL;
    memcpy(place, queues[i].place, PLACE_SIZE);
    pthread_mutex_unlock(&lock);
}

const char *trial_url(char *room, size_t size, const char *parameters)
{
    char place[PLACE_SIZE];
    return place_url(room, size, new_place(place, sizeof place), parameters);
}

bide *open_place_at(struct where at, const char *place, const char *parameters,
                    const bide_options *options)
{
    char url[PLACE_SIZE];
    bide *queue = NULL;
    int code = bide_open(place_url(url, sizeof url, place, parameters), options, &queue);
    check_code(at, code, BIDE_OK, "bide_open()");
    check_true(at, queue != NULL, "a queue from bide_open()");
    remember(at, queue, place);
    return queue;
}

bide *open_queue_at(struct where at, const char *parameters)
{
    char place[PLACE_SIZE];
    return open_place_at(at, new_place(place, sizeof place), parameters, NULL);
}

void close_queue_at(struct where at, bide *queue)
{
    char place[PLACE_SIZE];
    forget(at, queue, place);
    check_code(at, bide_close(queue), BIDE_OK, "bide_close()");
    remove_place(place);
}

void leave_queue_at(struct where at, bide *queue)
{
    char place[PLACE_SIZE];
    forget(at, queue, place);
    check_code(at, bide_close(queue), BIDE_OK, "bide_close()");
    leave_place(place);
}

bide *loaded_at(struct where at, bide *queue)
{
    int code = bide_wait_recovered(queue, BIDE_FOREVER, NULL);
    check_code(at, code, BIDE_OK, "bide_wait_recovered()");
    return queue;
}

bide *reopen_at(struct where at, bide *queue, const char *parameters)
{
    char place[PLACE_SIZE];
    forget(at, queue, place);
    check_code(at, bide_close(queue), BIDE_OK, "bide_close()");
    return open_place_at(at, place, parameters, NULL);
}

void close_all_queues(void (*before)(bide *queue))
{
    for (size_t i = 0; i < QUEUES_MAX; i++) {
        if (!queues[i].queue)
            continue;
        before(queues[i].queue);
        OK(bide_close(queues[i].queue));
        queues[i].queue = NULL;
        remove_place(queues[i].place);
    }
}

void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

void end_badly_at(struct where at, const char *place, const char *parameters,
                  void (*work)(bide *queue))
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    check_true(at, child >= 0, "another process");
    if (child == 0) {
        work(open_place_at(at, place, parameters, NULL));
        kill(getpid(), SIGKILL);
    }
    check_true(at, waitpid(child, &status, 0) == child, "an end of the other process");
    /* A check that failed there has spoken for itself. */
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    check_equal(at, WTERMSIG(status), SIGKILL, "the signal that ended the other process");
}
