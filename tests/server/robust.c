/* SPDX-License-Identifier: MIT */
/* robust.c - the tests of a server in rough hands, as a program; see robust.h. */
#include "robust.h"

#include "../fault/suite.h"

#include <inttypes.h>
#include <stdio.h>

static const struct theme *const themes[] = {&reply_order_theme, &slow_clients_theme,
                                             &waiting_clients_theme, &connection_storm_theme,
                                             &flood_theme};

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

struct rest measure_rest(const struct server *server)
{
    struct client client;
    test_client_open(&client, server);
    CHECK(send_put(&client, 0, 0, 10, "x", 1));
    uint64_t id = EXPECT_NUMBER(&client, "INSERTED");
    send_text(&client, "reserve\r\ndelete %" PRIu64 "\r\n", id);
    CHECK(EXPECT_NUMBER(&client, "RESERVED") == id);
    EXPECT_LINE(&client, "x");
    EXPECT_LINE(&client, "DELETED");
    int files = test_server_open_files(server);
    test_client_close(&client);
    /* One of them was this connection. */
    UNTIL(test_server_open_files(server) == files - 1);
    return (struct rest){files - 1, test_server_memory(server)};
}

/* The tube that is always there is the only one in the end. */
static void only_default(struct client *client)
{
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (test_client_stat(client, "stats", "current-tubes") != 1) {
        if (clock_us() > limit_us) {
            send_text(client, "list-tubes\r\n");
            size_t size = EXPECT_NUMBER(client, "OK");
            FAIL("there are still tubes:\n%.*s", (int)size, read_body(client, size));
        }
        nap_ms(1);
    }
}

void await_rest_state(const struct server *server, const struct rest *rest)
{
    static const char *const none[] = {"current-jobs-ready",   "current-jobs-reserved",
                                       "current-jobs-delayed", "current-jobs-buried",
                                       "current-waiting",      "current-workers",
                                       "current-producers"};
    struct client client;
    test_client_open(&client, server);
    UNTIL(test_client_stat(&client, "stats", "current-connections") == 1);
    for (size_t i = 0; i < COUNT(none); i++)
        if (test_client_stat(&client, "stats", none[i]) != 0)
            FAIL("%s is %" PRId64 " at the end", none[i],
                 test_client_stat(&client, "stats", none[i]));
    only_default(&client);
    test_client_close(&client);
    UNTIL(test_server_open_files(server) == rest->files);
    CHECK(test_server_memory(server) <= rest->memory + test_server_settings.memory_limit);
}

void with_server(enum test_server_storage where, void (*run)(const struct server *server))
{
    struct server server;
    test_server_start(&server, where);
    struct rest rest = measure_rest(&server);
    run(&server);
    await_rest_state(&server, &rest);
    test_server_stop(&server);
}

/* ---- the program ---- */

static bool take_setting(const char *name, const char *value)
{
    return test_server_argument(name, value) && test_server_settings.memory_limit > 0;
}

int main(int argc, char **argv)
{
    const struct suite suite = {.name = "robust",
                                .subject = &test_server_settings.program,
                                .usage = usage,
                                .themes = themes,
                                .theme_count = COUNT(themes),
                                .timeout_s = 120,
                                .argument = take_setting};
    return suite_main(&suite, argc, argv);
}
