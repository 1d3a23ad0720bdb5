/* SPDX-License-Identifier: MIT */
/* docs.c - man pages, units and the example of the settings tell of the program as it is. */
#include "bided_suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* All of a file of the project, to be freed. */
static char *text_of(const char *name)
{
    FILE *file = fopen(source_of(name), "r");
    CHECK(file != NULL);
    char *text = calloc(1, OUTPUT_SIZE);
    CHECK(text != NULL && fread(text, 1, OUTPUT_SIZE - 1, file) > 0);
    fclose(file);
    return text;
}

/* Calls with every setting that the help has, as "max_job_size". */
static int for_each_setting(void (*look)(const char *name, void *user), void *user)
{
    struct bided *bided = ends_with(0, "--help");
    int count = 0;
    char name[100];
    for (char *line = strtok(bided->out.text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (sscanf(line, "      --%99[a-z-] ", name) != 1)
            continue;
        for (char *at = name; *at != 0; at++)
            *at = *at == '-' ? '_' : *at;
        if (strcmp(name, "config") == 0 || strcmp(name, "check_config") == 0)
            continue;
        look(name, user);
        count++;
    }
    return count;
}

static void look_in_example(const char *name, void *user)
{
    char line[120];
    snprintf(line, sizeof line, "\n#%s =", name);
    if (strstr(user, line) == NULL)
        FAIL("%s is not in the example", name);
}

static void example_config_has_every_setting(void)
{
    char *text = text_of("systemd/bided.conf");
    CHECK(for_each_setting(look_in_example, text) > 30);
    CHECK(strstr(text, "\n#auth_secret =") != NULL);
    free(text);
}

/* What is commented out is the default, and would be taken. */
static const char *file_of_example(void)
{
    char *text = text_of("systemd/bided.conf");
    for (char *at = text; at != NULL; at = strchr(at + 1, '\n'))
        if (strncmp(at, "\n#", 2) == 0 && at[2] != ' ' && at[2] != '\n')
            at[1] = ' ';
    CHECK(strstr(text, "\n max_job_size = 65535") != NULL);
    const char *flag = file_of(text);
    free(text);
    return flag;
}

static void example_config_is_valid(void)
{
    HAS(ends_with(0, file_of_example(), "--check-config")->out, "the settings are good");
    HAS(ends_with(0, "--config", source_of("systemd/bided.conf"), "--check-config")->out, "good");
}

static void look_in_page(const char *name, void *user)
{
    char line[120], other[120];
    snprintf(line, sizeof line, ".It Cm %s ", name);
    snprintf(other, sizeof other, ", %s No =", name);
    if (strstr(user, line) == NULL && strstr(user, other) == NULL)
        FAIL("%s is not in bided.conf(5)", name);
}

static void bided_conf_man_page_has_every_setting(void)
{
    char *text = text_of("man/bided.conf.5");
    CHECK(for_each_setting(look_in_page, text) > 30);
    CHECK(strstr(text, ".It Cm auth_secret ") != NULL);
    free(text);
}

struct reloading {
    const struct bided *bided; /* which has read a file with every setting again */
    const char *section;       /* of the page, about that */
};

static void look_in_reloading(const char *name, void *user)
{
    const struct reloading *reloading = user;
    char restart[120], within[120], last[120];
    snprintf(restart, sizeof restart, " %s has changed; that takes a restart", name);
    snprintf(within, sizeof within, " %s ,", name);
    snprintf(last, sizeof last, ".Cm %s\n", name);
    bool said = strstr(reloading->bided->err.text, restart) != NULL;
    bool named =
        strstr(reloading->section, within) != NULL || strstr(reloading->section, last) != NULL;
    if (said == named)
        FAIL("bided.conf(5) must name %s among the settings that a reload changes, or not", name);
}

static void bided_conf_man_page_says_what_a_reload_changes(void)
{
    char *text = text_of("man/bided.conf.5");
    char *section = strstr(text, ".Ss Reloading"), *end = strstr(text, ".Sh FILES");
    if (section == NULL || end == NULL || end < section)
        FAIL("bided.conf(5) has no section %s", "about reloading");
    *end = 0;
    struct bided *bided = serve(file_of("url = memory:\nlisten = 127.0.0.1:0\n"));
    file_of_example();
    CHECK(kill(bided->pid, SIGHUP) == 0);
    await_log(bided, "has changed; that takes a restart");
    stop(bided); /* then all of the log is there */
    struct reloading reloading = {bided, section};
    CHECK(for_each_setting(look_in_reloading, &reloading) > 30);
    free(text);
}

static void bided_man_page_has_every_flag_and_exit_code(void)
{
    char *text = text_of("man/bided.8");
    for (const char *letter = "bfFlpuVzscnhv"; *letter != 0; letter++) {
        char flag[] = {'F', 'l', ' ', *letter, 0};
        if (strstr(text, flag) == NULL)
            FAIL("-%c is not in bided(8)", *letter);
    }
    static const char *const codes[] = {"0", "1", "5", "10", "32 , 33 , 34", "111"};
    for (size_t i = 0; i < COUNT(codes); i++) {
        char line[60];
        snprintf(line, sizeof line, "\n.It %s\n", codes[i]);
        if (strstr(text, line) == NULL)
            FAIL("exit code %s is not in bided(8)", codes[i]);
    }
    free(text);
}

/* Runs a command line; true if it ended with 0. What it says is shown if not. */
static bool runs(const char *command)
{
    int status = system(command);
    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void man_pages_are_well_formed(void)
{
    char command[600];
    CHECK(runs("command -v mandoc >/dev/null"));
    snprintf(command, sizeof command, "mandoc -T lint -W warning %s", source_of("man/bided.8"));
    CHECK(runs(command));
    snprintf(command, sizeof command, "mandoc -T lint -W warning %s",
             source_of("man/bided.conf.5"));
    CHECK(runs(command));
}

static void the_service_is_complete(const char *text)
{
    static const char *const lines[] = {
        "WatchdogSec=",
        "MemoryMax=",
        /* A reload fails if the settings are wrong, and is then not begun. A small Debian has no
         * program kill; every shell has a command of that name. */
        "ExecReload=@bindir@/bided --check-config\nExecReload=/bin/sh -c 'kill -HUP $MAINPID'\n",
        /* systemd gives up after five starts within ten seconds, unless told otherwise. */
        "RestartSec=",
        "StartLimitIntervalSec=0\n",
        "RestartPreventExitStatus=5\n",
    };
    for (size_t i = 0; i < COUNT(lines); i++) {
        char line[200];
        snprintf(line, sizeof line, "\n%s", lines[i]);
        if (strstr(text, line) == NULL)
            FAIL("bided.service has no line %s", lines[i]);
    }

    /* With users of its own bided sees nearly every client as user 65534: the log of who asked for
     * a drain or a purge would name none of them. */
    CHECK(strstr(text, "\nPrivateUsers=") == NULL);
}

/* As far as that can be told without systemd running. */
static void systemd_units_are_valid(void)
{
    char command[1500];
    char *text = text_of("systemd/bided.service.in");
    the_service_is_complete(text);

    char *program = strstr(text, "@bindir@/bided");
    CHECK(program != NULL);
    for (; program != NULL; program = strstr(program, "@bindir@/bided"))
        memcpy(program, "/usr/bin/true ", 14);
    write_file(test_path("bided.service"), 0, text, strlen(text));
    free(text);
    text = text_of("systemd/bided.socket");
    write_file(test_path("bided.socket"), 0, text, strlen(text));
    CHECK(strstr(text, "ListenStream=127.0.0.1:11300\n") != NULL);
    free(text);
    if (!runs("command -v systemd-analyze >/dev/null"))
        return;
    snprintf(command, sizeof command,
             "systemd-analyze verify --man=no %s %s >%s 2>&1 || { cat %s; false; }",
             test_path("bided.service"), test_path("bided.socket"), test_path("said"),
             test_path("said"));
    CHECK(runs(command));
    snprintf(command, sizeof command,
             "systemd-analyze security --offline=true --threshold=20 %s >%s 2>&1 || "
             "{ cat %s; false; }",
             test_path("bided.service"), test_path("said"), test_path("said"));
    CHECK(runs(command));
}

static const struct test tests[] = {
    TEST(example_config_has_every_setting),
    TEST(example_config_is_valid),
    TEST(bided_conf_man_page_has_every_setting),
    TEST(bided_conf_man_page_says_what_a_reload_changes),
    TEST(bided_man_page_has_every_flag_and_exit_code),
    TEST(man_pages_are_well_formed),
    TEST(systemd_units_are_valid),
};

const struct theme docs_theme = {"docs", tests, COUNT(tests)};
