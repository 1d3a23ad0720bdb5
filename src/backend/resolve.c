/* SPDX-License-Identifier: MIT */
#include "backend/resolve.h"

#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <bide/error.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEEP_US INT64_C(10000000) /* how long a result is kept that no caller has waited for */

struct lookup {
    struct lookup *next; /* in the list below */
    char host[256];
    char port[8];
    int fd;
    unsigned refs;
    bool done;
    int64_t until; /* done: it stays in the list until then */
    int code;      /* of getaddrinfo() */
    struct addrinfo *found;
};

/* Those in progress, and results that are kept. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lookup *lookups;
static unsigned in_progress;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* ---- forks ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* A child has none of the threads that look up names, nor the callers that wait for them. It begins
 * with an empty list; the memory of the entries may be in use by a thread that is not there. */
static void in_child(void)
{
    for (struct lookup *each = lookups; each != NULL; each = each->next)
        close(each->fd);
    lookups = NULL;
    in_progress = 0;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- with the lock ---- */

static void unref(struct lookup *lookup)
{
    assert(lookup->refs > 0);
    if (--lookup->refs > 0)
        return;
    if (lookup->found != NULL)
        freeaddrinfo(lookup->found);
    close(lookup->fd);
    free(lookup);
}

static void unlist(struct lookup **place)
{
    struct lookup *lookup = *place;
    *place = lookup->next;
    unref(lookup);
}

/* Forgets results that are too old. */
static void sweep(void)
{
    int64_t now = bi_clock_boot();
    for (struct lookup **place = &lookups; *place != NULL;) {
        if ((*place)->done && (*place)->until <= now)
            unlist(place);
        else
            place = &(*place)->next;
    }
}

/* Joins a lookup that is in the list, with a reference; NULL: there is none. A kept result serves
 * one caller: the next one wants to know of changes. */
static struct lookup *join(const char *host, const char *port)
{
    struct lookup **place = &lookups;
    while (*place != NULL &&
           (strcmp((*place)->host, host) != 0 || strcmp((*place)->port, port) != 0))
        place = &(*place)->next;
    struct lookup *lookup = *place;
    if (lookup == NULL)
        return NULL;
    lookup->refs++;
    assert(lookup->refs > 1); /* the list has one, too */
    if (lookup->done)
        unlist(place);
    return lookup;
}

/* ---- a lookup ---- */

static int call_getaddrinfo(struct lookup *lookup, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    return getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
}

static void finish(struct lookup *lookup)
{
    uint64_t one = 1;
    lookup->done = true;
    /* Only addresses that no caller waits for any more are kept, for the next one. */
    lookup->until = lookup->code == 0 && lookup->refs == 2 ? bi_clock_boot() + KEEP_US : 0;
    ssize_t written = write(lookup->fd, &one, sizeof(one));
    (void)written; /* an eventfd that was never written to has room */
}

static void *run(void *argument)
{
    struct lookup *lookup = argument;
    lookup->code = call_getaddrinfo(lookup, AI_ADDRCONFIG);
    pthread_mutex_lock(&lock);
    finish(lookup);
    in_progress--;
    sweep();
    unref(lookup);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct lookup *make(const char *host, const char *port)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    if (lookup == NULL)
        return NULL;
    lookup->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (lookup->fd < 0) {
        free(lookup);
        return NULL;
    }
    lookup->refs = 1;
    snprintf(lookup->host, sizeof(lookup->host), "%s", host);
    snprintf(lookup->port, sizeof(lookup->port), "%s", port);
    return lookup;
}

/* With the lock. The references are the caller's, the list's and the thread's. */
static bool start(struct lookup *lookup)
{
    pthread_t thread;
    lookup->refs += 2;
    if (!bi_thread_start(&thread, run, lookup)) {
        lookup->refs -= 2;
        return false;
    }
    pthread_detach(thread);
    lookup->next = lookups;
    lookups = lookup;
    in_progress++;
    return true;
}

struct lookup *bi_resolve_begin(const char *host, const char *port, char *reason)
{
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&lock);
    sweep();
    struct lookup *lookup = join(host, port);
    if (lookup != NULL) {
        pthread_mutex_unlock(&lock);
        return lookup;
    }
    if ((lookup = make(host, port)) == NULL) {
        bi_text_copy(reason, bide_code_text(BIDE_ENOMEM));
    } else if ((lookup->code = call_getaddrinfo(lookup, AI_NUMERICHOST)) == 0) {
        finish(lookup); /* an address in numbers: no name server is asked */
    } else if (in_progress >= RESOLVE_MAX) {
        snprintf(reason, BIDE_ERROR_SIZE, "%d other names are being looked up", RESOLVE_MAX);
        unref(lookup);
        lookup = NULL;
    } else if (!start(lookup)) {
        bi_text_copy(reason, "cannot create a thread that looks up the name");
        unref(lookup);
        lookup = NULL;
    }
    pthread_mutex_unlock(&lock);
    return lookup;
}

int bi_resolve_fd(const struct lookup *lookup)
{
    return lookup->fd;
}

const struct addrinfo *bi_resolve_result(const struct lookup *lookup, char *reason)
{
    pthread_mutex_lock(&lock);
    assert(lookup->done);
    pthread_mutex_unlock(&lock);
    if (lookup->code == 0)
        return lookup->found;
    snprintf(reason, BIDE_ERROR_SIZE, "%s", gai_strerror(lookup->code));
    return NULL;
}

void bi_resolve_end(struct lookup *lookup)
{
    pthread_mutex_lock(&lock);
    unref(lookup);
    pthread_mutex_unlock(&lock);
}
