/* SPDX-License-Identifier: MIT */
#include "remote/remote_socket.h"

#include "util/clock.h"
#include "util/message.h"
#include "util/thread.h"

#include <bide/error.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CACHE_US INT64_C(10000000) /* how long a result that no caller waited for is cached */

struct lookup {
    struct lookup *next; /* in lookups */
    char host[256];
    char port[8];
    int fd;
    unsigned refs;
    bool done;
    int64_t cached_until; /* if done: evicted from the list then */
    int code;             /* of getaddrinfo() */
    struct addrinfo *found;
};

/* Lookups in progress, and cached results. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lookup *lookups;
static unsigned in_progress;

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child has neither the lookup threads nor the callers of its parent. It starts with an empty
 * list. The entries leak: a thread that does not exist here may have been changing them. */
static void in_child(void)
{
    for (struct lookup *each = lookups; each != NULL; each = each->next)
        close(each->fd);
    lookups = NULL;
    in_progress = 0;
    pthread_mutex_unlock(&lock);
}

/* When the library is loaded: a fork that begins before the first lookup must find the handlers,
 * too, or its child may inherit a mutex that no thread unlocks. */
__attribute__((constructor)) static void register_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- list (with the lock) ---- */

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

static void unlink_lookup(struct lookup **slot)
{
    struct lookup *lookup = *slot;
    *slot = lookup->next;
    unref(lookup);
}

/* Evicts results that are too old. */
static void evict_expired(void)
{
    int64_t now = bi_clock_boot();

    for (struct lookup **slot = &lookups; *slot != NULL;) {
        if ((*slot)->done && (*slot)->cached_until <= now)
            unlink_lookup(slot);
        else
            slot = &(*slot)->next;
    }
}

/* Takes a reference to a listed lookup of this name; NULL: none. A cached result serves one
 * caller: the next one must see changes in the DNS. */
static struct lookup *join_lookup(const char *host, const char *port)
{
    struct lookup **slot = &lookups;

    while (*slot != NULL && (strcmp((*slot)->host, host) != 0 || strcmp((*slot)->port, port) != 0))
        slot = &(*slot)->next;

    struct lookup *lookup = *slot;
    if (lookup == NULL)
        return NULL;

    lookup->refs++;
    assert(lookup->refs > 1); /* the list holds one, too */
    if (lookup->done)
        unlink_lookup(slot);
    return lookup;
}

/* ---- a lookup ---- */

static int call_getaddrinfo(struct lookup *lookup, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    return getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
}

static void publish(struct lookup *lookup)
{
    uint64_t one = 1;

    lookup->done = true;
    /* refs == 2 is the list and the thread: every caller has stopped waiting. The result serves its
     * next attempt, which would otherwise time out again behind a slow name server. */
    lookup->cached_until = lookup->code == 0 && lookup->refs == 2 ? bi_clock_boot() + CACHE_US : 0;
    ssize_t written = write(lookup->fd, &one, sizeof(one));
    (void)written; /* cannot fail: this eventfd is written once */
}

static void *run_lookup(void *argument)
{
    struct lookup *lookup = argument;

    /* Without the lock, for as long as the name servers take. No other thread reads code and found
     * before the lookup is done. */
    lookup->code = call_getaddrinfo(lookup, AI_ADDRCONFIG);

    pthread_mutex_lock(&lock);
    publish(lookup);
    assert(in_progress > 0 && lookup->refs >= 2); /* those of the list and of this thread */
    in_progress--;
    evict_expired();
    unref(lookup);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct lookup *new_lookup(const char *host, const char *port)
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

/* With the lock. Adds two references, for the list and the thread; the caller has its own. */
static bool start_thread(struct lookup *lookup)
{
    pthread_t thread;

    lookup->refs += 2;
    if (!bi_thread_start(&thread, run_lookup, lookup)) {
        lookup->refs -= 2;
        return false;
    }
    /* The thread cannot finish before the lookup is listed: it needs the lock, which is held
     * here. */
    pthread_detach(thread);
    lookup->next = lookups;
    lookups = lookup;
    in_progress++;
    return true;
}

struct lookup *bi_resolve_begin(const char *host, const char *port, char *reason)
{
    pthread_mutex_lock(&lock);
    evict_expired();
    struct lookup *lookup = join_lookup(host, port);

    if (lookup != NULL) {
        pthread_mutex_unlock(&lock);
        return lookup;
    }

    if ((lookup = new_lookup(host, port)) == NULL) {
        bi_text_copy(reason, bide_code_text(BIDE_ENOMEM));
    } else if ((lookup->code = call_getaddrinfo(lookup, AI_NUMERICHOST)) == 0) {
        publish(lookup); /* a numeric address: done, and never listed */
    } else if (in_progress >= RESOLVE_MAX) {
        snprintf(reason, BIDE_ERROR_SIZE, "%d other names are being looked up", RESOLVE_MAX);
        unref(lookup);
        lookup = NULL;
    } else if (!start_thread(lookup)) {
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
    /* The lock also orders the reads below after the writes of the lookup thread. */
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
