/* SPDX-License-Identifier: MIT */
#include "util/keyed_hash.h"

#include "util/clock.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/random.h>

/* Without getrandom() (a system call filter, a very old kernel): derives the secret from the
 * random bytes that the kernel passes to each process at its start. The time makes two secrets
 * of a process differ. */
static void generate_without_getrandom(struct bi_hash_secret *secret)
{
    struct bi_hash_secret seed = {{0, 0}};
    const void *bytes = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    if (bytes != NULL)
        memcpy(&seed, bytes, sizeof(seed));

    uint64_t now[2] = {(uint64_t)bi_clock_boot(), (uint64_t)bi_clock_wall()};
    *secret = bi_keyed_hash_derive_secret(&seed, bi_keyed_hash_bytes(&seed, now, sizeof(now)));
}

void bi_keyed_hash_generate_secret(struct bi_hash_secret *secret)
{
    ssize_t got;
    /* Without GRND_NONBLOCK: early at boot this waits for entropy instead of returning a weak
     * secret. */
    do
        got = getrandom(secret, sizeof(*secret), 0);
    while (got < 0 && errno == EINTR);

    if (got != (ssize_t)sizeof(*secret))
        generate_without_getrandom(secret);
}
