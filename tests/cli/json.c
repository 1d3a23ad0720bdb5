/* SPDX-License-Identifier: MIT */
/*
 * json.c - the names in what --json prints. Programs rely on them: a name may be added here, none
 * may go or change.
 */
#include "cli_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTS "jobs.buried jobs.delayed jobs.done jobs.ready jobs.reserved jobs.urgent "
#define TOTALS                                                                                   \
    "total.buries total.deletes total.dones total.expired total.fails total.kicks total.pauses " \
    "total.purged total.puts total.releases total.reserves total.retired total.timeouts "        \
    "total.touches "

/* Every job has these, whatever its state. */
#define JOB                                                                                  \
    "age_ms body_size buries created_ms failures fails id kicks priority releases reserves " \
    "state timeouts topic touches ttr_ms "
#define TOPIC \
    COUNTS TOTALS "name oldest_ready_age_ms pause_left_ms pause_ms paused references waiting "

static const struct golden {
    const char *argv[8];
    const char *names; /* of the first line, with those of objects inside, in any order */
} golden[] = {
    {{"put", "email", "x", "--retries", "unlimited"}, "id topic"},
    {{"topics"}, TOPIC},
    {{"stats", "email"}, TOPIC},
    {{"stats"},
     COUNTS TOTALS "draining last_id memory_bytes oldest_ready_age_ms pending_ops topics uptime_ms "
                   "waiting watching"},
    {{"list", "email"}, JOB "body ready_ms"},
    {{"list", "email", "--state", "delayed"}, JOB "body delay_ms left_ms run_at_ms"},
    {{"list", "binary"}, JOB "body_base64 ready_ms"},
    {{"peek", "email"}, JOB "body ready_ms"},
    {{"job", "1"}, JOB "ready_ms"},
    {{"job", "3"},
     JOB "backoff_base_ms backoff_max_ms expires_at_ms key max_retries ready_ms "
         "retain_ms"},
    {{"ping"}, "round_trip_us server url"},
    {{"check"}, "damaged differences good jobs"},
    {{"pause", "email", "1h"}, "pause_ms paused topic"},
    {{"resume", "email"}, "paused topic"},
    {{"update", "1", "--priority", "5"}, "id verb"},
    {{"fail", "1", "--retry-in", "0"}, "delay_ms id state verb"},
    {{"bury", "1"}, "id verb"},
    {{"kick", "email"}, "count topic verb"},
    {{"job", "1"}, JOB "buried_ms history ready_ms"},
    {{"cancel", "1"}, "id verb"},
    {{"delete", "2"}, "id verb"},
    {{"purge", "binary", "--yes"},
     "purged states.buried states.delayed states.done states.ready topic"},
};

static const struct golden served[] = {
    {{"reserve", "email"}, JOB "body holder left_ms ready_ms reserved_ms token"},
    {{"drain", "on"}, "draining"},
    {{"drain", "off"}, "draining"},
};

/* ---- names ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t collect(const json_t *object, const char *before, const char **names, size_t count)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        char full[100];
        snprintf(full, sizeof(full), "%s%s", before, name);
        if (json_is_object(value)) {
            char inner[102];
            snprintf(inner, sizeof(inner), "%s.", full);
            count = collect(value, inner, names, count);
        } else {
            CHECK(count < 100);
            names[count++] = strdup(full);
        }
    }
    return count;
}

/* Sorted, with a space behind each. */
static void names_of(const json_t *object, char *text)
{
    const char *names[100];
    size_t count = collect(object, "", names, 0);
    qsort(names, count, sizeof(names[0]), by_name);
    text[0] = 0;
    for (size_t i = 0; i < count; i++)
        text += sprintf(text, "%s ", names[i]);
}

static void sort_names(const char *wanted, char *text)
{
    char copy[2000], *rest = NULL;
    const char *names[100];
    size_t count = 0;
    snprintf(copy, sizeof(copy), "%s", wanted);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        names[count++] = word;
    qsort(names, count, sizeof(names[0]), by_name);
    text[0] = 0;
    for (size_t i = 0; i < count; i++)
        text += sprintf(text, "%s ", names[i]);
}

static void has_these_names(const struct golden *row)
{
    char got[4000], wanted[4000];
    const char *argv[10] = {"--json"};
    memcpy(argv + 1, row->argv, sizeof(row->argv));
    struct child *child = run_expect_list_at(HERE, 0, NULL, 0, argv);
    names_of(json_at(child->out, 0), got);
    sort_names(row->names, wanted);
    if (strcmp(got, wanted) != 0)
        FAIL("%s %s:\nexpected %s\ngot      %s", row->argv[0], row->argv[1] ? row->argv[1] : "",
             wanted, got);
}

/* ---- tests ---- */

static void json_names_of_every_verb_are_stable(void)
{
    /* Jobs without a limit of retries: what a job does not have is left out. */
    run_expect(0, "put", "email", "x", "--retries", "unlimited");
    run_expect(0, "put", "email", "x", "--retries", "unlimited", "--delay", "1h");
    if (is_plain()) {
        has_these_names(&golden[0]);
        return;
    }
    run_expect(0, "put", "full", "x", "--key", "k", "--retries", "3", "--expires-in", "1h",
               "--retain", "1h", "--backoff", "1s", "--backoff-max", "1h");
    run_expect_bytes(0, "\xff", 1, "put", "binary", "--retries", "unlimited");
    for (size_t i = 0; i < COUNT(golden); i++)
        has_these_names(&golden[i]);
    if (!passes_leases())
        return;
    put_job("email", "x");
    for (size_t i = 0; i < COUNT(served); i++)
        has_these_names(&served[i]);
}

static void json_names_of_errors_are_stable(void)
{
    char got[200];
    names_of(json_at(run_expect(3, "--json", "peek", "77")->err, 0), got);
    TEXT(got, strlen(got), "code error exit ");
    names_of(json_at(run_expect(2, "--json", "peek")->err, 0), got);
    TEXT(got, strlen(got), "error exit ");
    names_of(json_at(run_expect(2, "--json", "nonsense")->err, 0), got);
    TEXT(got, strlen(got), "error exit ");
}

static const struct test tests[] = {
    TEST(json_names_of_every_verb_are_stable),
    TEST(json_names_of_errors_are_stable),
};

const struct theme json_theme = {"json", tests, COUNT(tests)};
