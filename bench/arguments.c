/* SPDX-License-Identifier: MIT */
#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* A number from 1 to max, or a complaint. k and M at its end are a thousand and a million. */
static uint64_t parse_number(const char *option, const char *text, uint64_t max)
{
    char *end = NULL;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned long long unit = *end == 'k' ? 1000 : *end == 'M' ? 1000000 : 1;
    if (errno != 0 || text[0] < '0' || text[0] > '9' || end[unit > 1] != '\0' || number == 0 ||
        number > max / unit)
        fail("--%s takes a number from 1 to %llu, not \"%s\"", option, (unsigned long long)max,
             text);
    return number * unit;
}

static void set_url(struct arguments *arguments, const char *text)
{
    arguments->settings.url = text;
}

static void set_json(struct arguments *arguments, const char *text)
{
    arguments->json = text;
}

static void set_repeat(struct arguments *arguments, const char *text)
{
    arguments->settings.repeat = (size_t)parse_number("repeat", text, BENCH_MAX_REPEAT);
}

static void set_quick(struct arguments *arguments, const char *text)
{
    (void)text;
    arguments->settings.quick = true;
}

static void set_max_resident(struct arguments *arguments, const char *text)
{
    arguments->settings.max_resident = parse_number("max-resident", text, UINT64_MAX);
}

static void set_dir(struct arguments *arguments, const char *text)
{
    arguments->settings.dir = text;
}

static void set_sync(struct arguments *arguments, const char *text)
{
    static const char *const names[] = {
        [BIDE_SYNC_FULL] = "full",
        [BIDE_SYNC_NORMAL] = "normal",
        [BIDE_SYNC_OFF] = "off",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            arguments->settings.sync = (bide_sync)i;
            return;
        }
    }
    fail("--sync takes full, normal or off, not \"%s\"", text);
}

static void set_cycles(struct arguments *arguments, const char *text)
{
    arguments->settings.cycles = parse_number("cycles", text, UINT64_MAX / 2);
}

static void set_large(struct arguments *arguments, const char *text)
{
    (void)text;
    arguments->settings.large = true;
}

static void set_pin(struct arguments *arguments, const char *text)
{
    static const char *const names[] = {
        [PIN_BOTH] = "both",
        [PIN_SAME] = "same",
        [PIN_APART] = "apart",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            arguments->settings.pinning = (enum pinning)i;
            return;
        }
    }
    fail("--pin takes same, apart or both, not \"%s\"", text);
}

static void set_bided(struct arguments *arguments, const char *text)
{
    arguments->settings.bided = text;
}

static void set_beanstalkd(struct arguments *arguments, const char *text)
{
    arguments->settings.beanstalkd = text;
}

static void set_connect(struct arguments *arguments, const char *text)
{
    arguments->settings.connect = text;
}

static void set_work(struct arguments *arguments, const char *text)
{
    for (enum load_work work = 0; work < LOAD_WORKS; work++) {
        if (strcmp(text, load_work_name(work)) == 0) {
            arguments->settings.load.work = work;
            return;
        }
    }
    fail("--work takes cycle, put or drain, not \"%s\"", text);
}

static void set_connections(struct arguments *arguments, const char *text)
{
    arguments->settings.load.connections = (size_t)parse_number("connections", text, 10000);
}

static void set_in_flight(struct arguments *arguments, const char *text)
{
    arguments->settings.load.in_flight = (size_t)parse_number("in-flight", text, 10000);
}

static void set_body(struct arguments *arguments, const char *text)
{
    arguments->settings.load.body_size = (size_t)parse_number("body", text, 1 << 20);
}

static void set_tubes(struct arguments *arguments, const char *text)
{
    arguments->settings.load.tubes = (size_t)parse_number("tubes", text, 10000);
}

static void set_jobs(struct arguments *arguments, const char *text)
{
    arguments->settings.load.jobs = parse_number("jobs", text, UINT32_MAX);
}

static void set_random(struct arguments *arguments, const char *text)
{
    (void)text;
    arguments->settings.load.random_priorities = true;
}

static void set_attack(struct arguments *arguments, const char *text)
{
    arguments->settings.attack = text;
}

static void set_help(struct arguments *arguments, const char *text)
{
    (void)text;
    arguments->help = true;
}

/* What the options are, and what is said about them. */
static const struct {
    const char *name;
    const char *value; /* NULL: takes none */
    void (*set)(struct arguments *arguments, const char *text);
    const char *help;
} options[] = {
    {"url", "URL", set_url, "the queue to measure; memory: default"},
    {"json", "FILE", set_json,
     "also write one JSON object per figure and line; with - the JSON\n"
     "                      goes to stdout and the table to stderr"},
    {"repeat", "N", set_repeat, "runs per figure: 1 to 100; 5 default"},
    {"quick", NULL, set_quick, "3 runs with small counts, at most 100,000 resident jobs"},
    {"max-resident", "N", set_max_resident, "leave out larger numbers of resident jobs"},
    {"dir", "DIR", set_dir, "where files are made; $TMPDIR or /var/tmp default"},
    {"sync", "MODE", set_sync, "of the files: full (default), normal, off"},
    {"cycles", "N", set_cycles, "growth: how many; 1M default"},
    {"large", NULL, set_large, "recovery: with 10 M jobs, too; wants 160 GB of disk"},
    {"pin", "MODE", set_pin, "server: load on its core (same), on another (apart), or both"},
    {"bided", "FILE", set_bided, "server: the program; the one beside bench default"},
    {"beanstalkd", "FILE", set_beanstalkd, "server: the other; the installed one default"},
    {"connect", "ADDR", set_connect, "load: a server that runs, ADDRESS:PORT or unix:PATH"},
    {"work", "WORK", set_work, "load: cycle (default), put, drain"},
    {"connections", "N", set_connections, "load: 10 default"},
    {"in-flight", "N", set_in_flight, "load: commands on each connection; 64 default"},
    {"body", "N", set_body, "load: bytes of each; 10 and more; 100 default"},
    {"tubes", "N", set_tubes, "load: the connections are spread over them; 1 default"},
    {"jobs", "N", set_jobs, "load: how many; a second of cycles default"},
    {"random", NULL, set_random, "load: random priorities"},
    {"attack", "TEXT", set_attack, "abuse: only attacks with this in their names"},
    {"help", NULL, set_help, "show this"},
};

#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

void arguments_print(FILE *file)
{
    fputs("usage: bench [NAME...] [OPTION...]\n\n", file);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *value = options[i].value == NULL ? "" : options[i].value;
        int width = fprintf(file, "  --%s %s", options[i].name, value);
        fprintf(file, "%*s%s\n", 22 - width, "", options[i].help);
    }
}

static void set_load_defaults(struct load_plan *load)
{
    load->duration_ns = 1000000000;
    if (load->connections == 0)
        load->connections = 10;
    if (load->in_flight == 0)
        load->in_flight = 64;
    if (load->body_size == 0)
        load->body_size = BENCH_BODY_SIZE;
    if (load->tubes == 0)
        load->tubes = 1;
    if (load->jobs == 0 && load->work != LOAD_CYCLE)
        load->jobs = 100000;
}

static void set_defaults(struct settings *settings)
{
    set_load_defaults(&settings->load);
    if (settings->repeat == 0)
        settings->repeat = settings->quick ? 3 : 5;
    if (settings->max_resident == 0)
        settings->max_resident = settings->quick ? 100000 : UINT64_MAX;
    if (settings->cycles == 0)
        settings->cycles = settings->quick ? 100000 : 1000000;
}

void arguments_parse(struct arguments *arguments, int argc, char **argv)
{
    struct option known[OPTION_COUNT + 1] = {{0}};
    int option;
    int at = 0;

    arguments->settings.url = "memory:";
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        known[i].name = options[i].name;
        known[i].has_arg = options[i].value == NULL ? no_argument : required_argument;
    }
    while ((option = getopt_long(argc, argv, "h", known, &at)) != -1) {
        if (option == 'h')
            arguments->help = true;
        else if (option == 0)
            options[at].set(arguments, optarg);
        else
            fail("see bench --help");
    }
    set_defaults(&arguments->settings);
    arguments->names = argv + optind;
    arguments->name_count = (size_t)(argc - optind);
}
