/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_plain.h"

#include "util/clock.h"

#include <stdlib.h>

struct lease *bi_lease_new(struct plain *plain, uint64_t id, struct wire *wire)
{
    struct lease *lease = calloc(1, sizeof(*lease));
    if (lease == NULL)
        return NULL;
    lease->id = id;
    lease->token = ++plain->last_token;
    lease->wire = wire;
    lease->deadline = PLAIN_NEVER;
    struct lease **bucket = &plain->leases[lease->token % PLAIN_LEASES];
    lease->next = *bucket;
    *bucket = lease;
    wire->leases++;
    return lease;
}

struct lease *bi_lease_find(const struct plain *plain, uint64_t id, uint64_t token)
{
    struct lease *lease = plain->leases[token % PLAIN_LEASES];
    while (lease != NULL && (lease->token != token || lease->id != id))
        lease = lease->next;
    return lease;
}

bool bi_lease_holds(const struct plain *plain, uint64_t id)
{
    int64_t now = bi_clock_boot();
    for (size_t i = 0; i < PLAIN_LEASES; i++)
        for (const struct lease *each = plain->leases[i]; each != NULL; each = each->next)
            if (each->id == id && each->deadline > now)
                return true;
    return false;
}

void bi_lease_free(struct plain *plain, struct lease *lease)
{
    struct lease **from = &plain->leases[lease->token % PLAIN_LEASES];
    while (*from != lease)
        from = &(*from)->next;
    *from = lease->next;
    lease->wire->leases--;
    free(lease);
}

void bi_lease_drop(struct plain *plain, const struct wire *wire)
{
    for (size_t i = 0; i < PLAIN_LEASES && wire->leases > 0; i++)
        for (struct lease *each = plain->leases[i], *next; each != NULL; each = next) {
            next = each->next;
            if (each->wire == wire)
                bi_lease_free(plain, each);
        }
}
