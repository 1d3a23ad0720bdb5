/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_lease - the leases of this client, by token.
 *
 * beanstalkd ties a reserved job to its connection and knows no tokens. The client makes up a token
 * for each reservation: a job that was reserved again gets another, so an old token finds nothing.
 *
 * Threads    Only the I/O thread.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>

struct lease *bi_beanstalkd_lease_new(struct beanstalkd *beanstalkd, uint64_t id, struct conn *conn)
{
    struct lease *lease = calloc(1, sizeof(*lease));

    if (lease == NULL)
        return NULL;

    lease->id = id;
    lease->token = ++beanstalkd->last_token;
    lease->conn = conn;
    lease->deadline = REMOTE_NEVER; /* until its ttr is known */

    struct lease **bucket = &beanstalkd->leases[lease->token % LEASE_BUCKETS];
    lease->next = *bucket;
    *bucket = lease;
    conn->leases++;
    return lease;
}

struct lease *bi_beanstalkd_lease_find(const struct beanstalkd *beanstalkd, uint64_t id,
                                       uint64_t token)
{
    struct lease *lease = beanstalkd->leases[token % LEASE_BUCKETS];
    while (lease != NULL && (lease->token != token || lease->id != id))
        lease = lease->next;
    return lease;
}

bool bi_beanstalkd_lease_is_held(const struct beanstalkd *beanstalkd, uint64_t id)
{
    int64_t now = bi_clock_boot();
    /* By id there is no index. Only a delete without a token gets here. */
    for (size_t i = 0; i < LEASE_BUCKETS; i++)
        for (const struct lease *each = beanstalkd->leases[i]; each != NULL; each = each->next)
            if (each->id == id && each->deadline > now)
                return true;
    return false;
}

void bi_beanstalkd_lease_free(struct beanstalkd *beanstalkd, struct lease *lease)
{
    struct lease **from = &beanstalkd->leases[lease->token % LEASE_BUCKETS];
    while (*from != lease)
        from = &(*from)->next;
    *from = lease->next;

    assert(lease->conn->leases > 0);
    lease->conn->leases--;
    free(lease);
}

void bi_beanstalkd_lease_free_conn(struct beanstalkd *beanstalkd, const struct conn *conn)
{
    /* Stops early: most connections hold few leases, or none. */
    for (size_t i = 0; i < LEASE_BUCKETS && conn->leases > 0; i++)
        for (struct lease *each = beanstalkd->leases[i], *next; each != NULL; each = next) {
            next = each->next;
            if (each->conn == conn)
                bi_beanstalkd_lease_free(beanstalkd, each);
        }
}
