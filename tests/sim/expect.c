/* SPDX-License-Identifier: MIT */
#include "sim.h"

#include <string.h>

void sim_differs(struct sim *sim, const char *what, int64_t want, int64_t got)
{
    sim_fail(sim, "%s: expected %lld, got %lld", what, (long long)want, (long long)got);
}

static const char *code_name(int code)
{
    return code == BI_AGAIN ? "BI_AGAIN" : bide_code_name(code);
}

void expect_code(struct sim *sim, const char *what, int want, int got)
{
    sim_hash(sim, (uint64_t)got);
    if (want != got)
        sim_fail(sim, "%s: expected %s, got %s", what, code_name(want), code_name(got));
}

void expect_bytes(struct sim *sim, const char *what, const void *want, size_t want_size,
                  const void *got, size_t got_size)
{
    sim_hash(sim, got_size);
    for (size_t i = 0; i < got_size && got != NULL; i++)
        sim_hash(sim, ((const unsigned char *)got)[i]);
    if (want_size == got_size && (got_size == 0 || (got && memcmp(want, got, got_size) == 0)))
        return;
    sim_fail(sim, "%s: expected \"%.*s\", got \"%.*s\"", what, (int)want_size, (const char *)want,
             got ? (int)got_size : 6, got ? (const char *)got : "(NULL)");
}

void expect_true(struct sim *sim, bool true_, const char *sentence)
{
    if (!true_)
        sim_fail(sim, "%s", sentence);
}
