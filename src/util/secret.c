/* SPDX-License-Identifier: MIT */
#include "util/secret.h"

#include "util/clock.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/random.h>

/* Without getrandom() (a system call filter, a very old kernel): from the bytes that the kernel gives
 * every process at its start, with the time, so that two secrets of a process differ. */
static void draw_otherwise(struct bi_secret *secret)
{
    struct bi_secret start = {{0, 0}};
    const void *bytes = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    if (bytes != NULL)
        memcpy(&start, bytes, sizeof(start));
    uint64_t now[2] = {(uint64_t)bi_clock_boot(), (uint64_t)bi_clock_wall()};
    *secret = bi_secret_derive(&start, bi_secret_hash(&start, now, sizeof(now)));
}

void bi_secret_draw(struct bi_secret *secret)
{
    ssize_t got;
    do
        got = getrandom(secret, sizeof(*secret), 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(*secret))
        draw_otherwise(secret);
}
