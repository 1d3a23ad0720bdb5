/* SPDX-License-Identifier: MIT */
/* For sched_setaffinity(). */
#define _GNU_SOURCE
#include "pin.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* The first two cores that the program was given at its start. */
static size_t find_cores(int cores[2])
{
    static cpu_set_t allowed;
    static bool known;
    size_t count = 0;

    if (!known && sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        fail("the cores of this machine are unknown: %s", strerror(errno));
    known = true;
    for (int core = 0; core < CPU_SETSIZE && count < 2; core++) {
        if (CPU_ISSET((size_t)core, &allowed))
            cores[count++] = core;
    }
    return count;
}

size_t pin_modes(const struct settings *settings, struct pin modes[PIN_MODES])
{
    int cores[2] = {0, 0};
    bool has_two = find_cores(cores) == 2;
    size_t count = 0;

    if (settings->pinning != PIN_APART)
        modes[count++] = (struct pin){"same", cores[0], cores[0]};
    if (settings->pinning != PIN_SAME && has_two)
        modes[count++] = (struct pin){"apart", cores[1], cores[0]};
    if (count == 0)
        fail("there is only one core: nothing can run apart");
    if (settings->pinning == PIN_BOTH && !has_two)
        report_note(settings->report, "there is only one core: nothing runs apart");
    return count;
}

void pin_self(int core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(0, sizeof(cores), &cores) != 0)
        fail("the program cannot stay on core %d: %s", core, strerror(errno));
}
