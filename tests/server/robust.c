/* SPDX-License-Identifier: MIT */
/* robust.c - the tests of a server in rough hands, as a program; see robust.h. */
#include "robust.h"

#include "../fault/suite.h"

#include <inttypes.h>
#include <stdio.h>

static const struct theme *const themes[] = {&order_theme, &slow_theme, &waiting_theme,
                                             &storm_theme, &flood_theme};

static const char usage[] =
    "usage: robust [--server PROGRAM] [--parameters TEXT] [--memory-mib N] [--filter TEXT]\n"
    "              [--list] [--timeout SECONDS] [-v]\n"
    "\n"
    "Checks what a server makes of clients that pipeline, do not read, or go away at any moment.\n"
    "  --server PROGRAM   bided (build/bided), or beanstalkd\n"
    "  --parameters TEXT  of the sqlite: URL, as sync=off\n"
    "  --memory-mib N     how much a server may grow in a test (64)\n"
    "  --filter TEXT      only tests whose theme/name contains TEXT\n"
    "  --list             print the names of the tests and run none\n"
    "  --timeout SECONDS  a test that takes longer has hung (120)\n"
    "  --part K/N         only the K-th of N parts, for several runs at a time\n"
    "  -v                 name the tests that pass, too\n";

/* ---- what tests share ---- */

struct rest rest_of(const struct peer *peer)
{
    struct talk talk;
    talk_open(&talk, peer);
    CHECK(say_put(&talk, 0, 0, 10, "x", 1));
    uint64_t id = HEAR_NUMBER(&talk, "INSERTED");
    say(&talk, "reserve\r\ndelete %" PRIu64 "\r\n", id);
    CHECK(HEAR_NUMBER(&talk, "RESERVED") == id);
    HEAR(&talk, "x");
    HEAR(&talk, "DELETED");
    int files = peer_files(peer);
    talk_close(&talk);
    /* One of them was this connection. */
    UNTIL(peer_files(peer) == files - 1);
    return (struct rest){files - 1, peer_memory(peer)};
}

/* The tube that is always there is the only one in the end. */
static void only_default(struct talk *talk)
{
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (talk_stat(talk, "stats", "current-tubes") != 1) {
        if (clock_us() > limit_us) {
            say(talk, "list-tubes\r\n");
            size_t size = HEAR_NUMBER(talk, "OK");
            FAIL("there are still tubes:\n%.*s", (int)size, hear_body(talk, size));
        }
        nap_ms(1);
    }
}

void at_rest_again(const struct peer *peer, const struct rest *rest)
{
    static const char *const none[] = {"current-jobs-ready",   "current-jobs-reserved",
                                       "current-jobs-delayed", "current-jobs-buried",
                                       "current-waiting",      "current-workers",
                                       "current-producers"};
    struct talk talk;
    talk_open(&talk, peer);
    UNTIL(talk_stat(&talk, "stats", "current-connections") == 1);
    for (size_t i = 0; i < COUNT(none); i++)
        if (talk_stat(&talk, "stats", none[i]) != 0)
            FAIL("%s is %" PRId64 " at the end", none[i], talk_stat(&talk, "stats", none[i]));
    only_default(&talk);
    talk_close(&talk);
    UNTIL(peer_files(peer) == rest->files);
    CHECK(peer_memory(peer) <= rest->memory + peer_settings.memory_limit);
}

void with_peer(enum peer_place where, void (*run)(const struct peer *peer))
{
    struct peer peer;
    peer_start(&peer, where);
    struct rest rest = rest_of(&peer);
    run(&peer);
    at_rest_again(&peer, &rest);
    peer_stop(&peer);
}

/* ---- the program ---- */

static bool take_setting(const char *name, const char *value)
{
    return peer_argument(name, value) && peer_settings.memory_limit > 0;
}

int main(int argc, char **argv)
{
    const struct suite suite = {.name = "robust",
                                .subject = &peer_settings.program,
                                .usage = usage,
                                .themes = themes,
                                .theme_count = COUNT(themes),
                                .timeout_s = 120,
                                .argument = take_setting};
    return suite_main(&suite, argc, argv);
}
