/* SPDX-License-Identifier: MIT */
/* fault.c - the fault tests as a program; see suite.h. */
#include "suite.h"

static const struct theme *const themes[] = {
    &power_theme,          &sync_theme,      &full_theme,      &errors_theme,    &refuse_theme,
    &clock_theme,          &damage_theme,    &page_theme,      &schema_theme,    &owner_theme,
    &load_theme,           &in_doubt_theme,  &memory_theme,    &slow_disk_theme, &combined_theme,
    &limited_theme,        &body_read_theme, &hung_disk_theme, &model_theme,
#ifdef BIDE_WITH_JSON
    &schedule_fault_theme,
#endif
};

static const char usage[] =
    "usage: fault [--filter TEXT] [--list] [--timeout SECONDS] [-v]\n"
    "\n"
    "Checks what becomes of a sqlite: queue when disks, files and clocks fail.\n"
    "  --filter TEXT      only tests whose theme/name contains TEXT\n"
    "  --list             print the names of the tests and run none\n"
    "  --timeout SECONDS  a test that takes longer has hung (60)\n"
    "  --part K/N         only the K-th of N parts, for several runs at a time\n"
    "  -v                 name the tests that pass, too\n";

int main(int argc, char **argv)
{
    static const char *const subject = "sqlite";
    const struct suite suite = {.name = "fault",
                                .subject = &subject,
                                .usage = usage,
                                .themes = themes,
                                .theme_count = COUNT(themes),
                                .timeout_s = 60};
    return suite_main(&suite, argc, argv);
}
