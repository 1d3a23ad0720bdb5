/* SPDX-License-Identifier: MIT */
/*
 * bided_suite.c - the tests of bided as a program, as a program; see ../fault/suite.h. A bided that
 * a test leaves behind ends with it.
 */
#include "bided_suite.h"

#include "../fault/suite.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct theme *const themes[] = {
    &flags_theme,
    &config_file_theme,
    &state_dir_theme,
    &listener_theme,
    &systemd_theme,
    &signal_theme,
    &graceful_close_theme,
    &logger_theme,
    &connection_limits_theme,
    &privileges_theme,
    &docs_theme,
    &rpc_theme,
    &dns_theme,
    &stats_theme,
    &admission_theme,
    &sandbox_theme,
    &hostile_theme,
    &resource_limits_theme,
    &memory_limits_theme,
};

static const char usage[] =
    "usage: operation [--bided FILE] [--filter TEXT] [--list] [--timeout SECONDS] [-v]\n"
    "\n"
    "Checks bided as a program: flags, file, sockets, signals, log, privileges.\n"
    "  --bided FILE       the program (bided beside this one)\n"
    "  --filter TEXT      only tests whose theme/name contains TEXT\n"
    "  --list             print the names of the tests and run none\n"
    "  --timeout SECONDS  a test that takes longer has hung (60)\n"
    "  --part K/N         only the K-th of N parts, for several runs at a time\n"
    "  -v                 name the tests that pass, too\n";

static const char *bided_path;

static bool take_path(const char *name, const char *value)
{
    if (strcmp(name, "--bided") != 0)
        return false;
    bided_path = value;
    return true;
}

static void begin(void)
{
    bided_begin(bided_path, OPERATION_SOURCES);
}

int main(int argc, char **argv)
{
    static const char *const subject = "bided";
    static char beside[PATH_MAX], own[PATH_MAX];
    snprintf(own, sizeof own, "%s", argv[0]);
    snprintf(beside, sizeof beside, "%.4000s/bided", dirname(own));
    bided_path = beside;
    const struct suite suite = {.name = "op",
                                .subject = &subject,
                                .usage = usage,
                                .themes = themes,
                                .theme_count = COUNT(themes),
                                .timeout_s = 60,
                                .folder = "/tmp", /* paths of unix sockets are short */
                                .argument = take_path,
                                .begin = begin};
    return suite_main(&suite, argc, argv);
}
