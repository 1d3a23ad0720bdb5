/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_conn_pool - the spare connections, for reserves that wait: opened when one is needed,
 * reused when they hold no lease, and closed.
 */
#include "remote/beanstalkd/beanstalkd_client.h"
#include "util/clock.h"

#include <assert.h>
#include <unistd.h>

/* SPARE_MAX bounds the connections for blocked reserves; SPARE_KEEP idle ones are retained for
 * reuse. */
#define SPARE_MAX  (REMOTE_POLL_MAX - 1)
#define SPARE_KEEP 8

struct conn *bi_beanstalkd_conn_pool_acquire(struct beanstalkd *beanstalkd)
{
    struct remote *remote = &beanstalkd->remote;
    char reason[BIDE_ERROR_SIZE];

    /* A connection with leases is not reused: a blocked reserve would delay their delete or
     * touch. */
    for (struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if (!each->broken && !each->blocked && !each->strays && each->leases == 0 &&
            !bi_beanstalkd_conn_expects(each))
            return each;

    if (beanstalkd->spare_count >= SPARE_MAX)
        return NULL;

    /* Blocks this thread, for connect_timeout at most. No handshake: the server's kind is known.
     * To the peer of the main connection: a second lookup might find another server. */
    struct io_wait io_wait = {.deadline = bi_clock_boot() + remote->address.connect_timeout,
                              .stop_fd = remote->stop_fd};
    const struct conn *main_conn = beanstalkd->main;
    pthread_mutex_unlock(&remote->lock);
    int fd = main_conn != NULL ? bi_remote_socket_connect_peer(
                                     main_conn->fd, remote->address.trusted, &io_wait, reason)
                               : bi_remote_socket_connect(&remote->address, &io_wait, reason);
    struct conn *conn = fd < 0 ? NULL : bi_beanstalkd_conn_new(fd);
    pthread_mutex_lock(&remote->lock);

    if (conn == NULL) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    conn->next = beanstalkd->spare;
    beanstalkd->spare = conn;
    beanstalkd->spare_count++;
    return conn;
}

void bi_beanstalkd_conn_pool_close(struct beanstalkd *beanstalkd, struct conn *conn)
{
    /* Unlink first: handlers called below must not find the connection and send on it. */
    if (conn == beanstalkd->main) {
        beanstalkd->main = NULL;
        beanstalkd->max_job_size = 0; /* the next server may have another limit */
    } else {
        struct conn **from = &beanstalkd->spare;
        while (*from != conn)
            from = &(*from)->next;
        *from = conn->next;
        assert(beanstalkd->spare_count > 0);
        beanstalkd->spare_count--;
    }

    /* beanstalkd releases the jobs of a closed connection, so their leases end here, too. */
    bi_beanstalkd_lease_free_conn(beanstalkd, conn);
    bi_beanstalkd_conn_fail_expected(conn);
    bi_beanstalkd_conn_free(conn);
}

void bi_beanstalkd_conn_pool_close_unused(struct beanstalkd *beanstalkd)
{
    size_t idle = 0;

    for (struct conn *each = beanstalkd->spare, *next; each != NULL; each = next) {
        next = each->next;
        bool busy = each->blocked || each->leases > 0 || bi_beanstalkd_conn_expects(each);
        if (each->broken)
            bi_beanstalkd_conn_read_pending(each);
        /* A stray job is released by closing, but only after the last lease of the connection. */
        if (each->broken || each->abort || (!busy && (each->strays || ++idle > SPARE_KEEP))) {
            bi_beanstalkd_conn_pool_close(beanstalkd, each);
            next = beanstalkd->spare; /* the handlers of lost replies may have changed the list */
            idle = 0;
        }
    }
}
