/* SPDX-License-Identifier: MIT */
#include "util/hash.h"

#include "util/clock.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/random.h>

/* Four independent lanes let it run at the speed of memory. */
uint32_t bi_hash_checksum(uint64_t seed, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t lanes[4] = {seed ^ size, seed + 1, seed + 2, seed + 3};

    for (; size >= 32; bytes += 32, size -= 32) {
        uint64_t words[4];
        memcpy(words, bytes, 32);
        for (int i = 0; i < 4; i++) {
            lanes[i] = (lanes[i] ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
            lanes[i] ^= lanes[i] >> 29;
        }
    }

    /* Added to each lane: equal lanes must not cancel out. */
    uint64_t hash = bi_hash_u64(lanes[0]) ^ bi_hash_u64(lanes[1] + 1) ^ bi_hash_u64(lanes[2] + 2) ^
                    bi_hash_u64(lanes[3] + 3);
    return (uint32_t)bi_hash_bytes(hash, bytes, size);
}

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
