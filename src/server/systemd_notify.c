/* SPDX-License-Identifier: MIT */
#include "server/systemd_notify.h"

#include <stdlib.h>

#ifdef BIDE_WITH_SYSTEMD

#include "util/clock.h"

#include <systemd/sd-daemon.h>
#include <time.h>

bool bi_systemd_notify_unsupported(void)
{
    return false;
}

void bi_systemd_notify_ready(const char *status)
{
    sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

/* systemd needs the time of the reload to match the READY that ends it. */
void bi_systemd_notify_reloading(void)
{
    struct timespec now;
    bi_clock_mono_deadline(&now, 0);
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
               (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void bi_systemd_notify_stopping(void)
{
    sd_notify(0, "STOPPING=1\nSTATUS=stopping");
}

void bi_systemd_notify_status(const char *status)
{
    sd_notifyf(0, "STATUS=%s", status);
}

int64_t bi_systemd_notify_watchdog_us(void)
{
    uint64_t every;
    return sd_watchdog_enabled(0, &every) > 0 && every <= INT64_MAX ? (int64_t)every : 0;
}

void bi_systemd_notify_watchdog(void)
{
    sd_notify(0, "WATCHDOG=1");
}

#else

bool bi_systemd_notify_unsupported(void)
{
    return getenv("NOTIFY_SOCKET") != NULL;
}

void bi_systemd_notify_ready(const char *status)
{
    (void)status;
}

void bi_systemd_notify_reloading(void)
{
}

void bi_systemd_notify_stopping(void)
{
}

void bi_systemd_notify_status(const char *status)
{
    (void)status;
}

int64_t bi_systemd_notify_watchdog_us(void)
{
    return 0;
}

void bi_systemd_notify_watchdog(void)
{
}

#endif
