/* SPDX-License-Identifier: MIT */
/*
 * arguments.c - every flag of every verb, as its help names it, with values that are none.
 *
 * The list of verbs and flags is that of the help, so that a new one is tried as soon as it is
 * there. Whatever is wrong, nothing is done: no queue is opened, no server is started.
 */
#include "cli_test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERBS_MAX 60
#define FLAGS_MAX 60

struct flag_seen {
    char letter; /* 0: none */
    char name[40];
    char takes[80]; /* "": no value */
    bool has_help;
};

struct verb_seen {
    char name[40];
    struct flag_seen flags[FLAGS_MAX];
    size_t flag_count;
};

static struct verb_seen verbs[VERBS_MAX];
static size_t verb_count;

/* ---- reading the help ---- */

/* "  -d, --delay DURATION  make it ready later"; false when it is no such line. */
static bool read_flag(struct flag_seen *flag, const char *line)
{
    int end = 0;
    memset(flag, 0, sizeof(*flag));
    if (strncmp(line, "  ", 2) != 0)
        return false;
    if (sscanf(line, "  -%c, --%39[a-z0-9-]%n", &flag->letter, flag->name, &end) != 2) {
        flag->letter = 0;
        if (sscanf(line, "      --%39[a-z0-9-]%n", flag->name, &end) != 1)
            return false;
    }
    line += end;
    if (line[0] == ' ' && line[1] != ' ')
        line += sscanf(line, line[1] == '\'' ? " %79[^\n]%n" : " %79s%n", flag->takes, &end) == 1
                    ? end
                    : 0;
    line += *line == '\n'; /* a long one has its help on the next line */
    flag->has_help = strspn(line, " ") >= 2 && strcspn(line + strspn(line, " "), "\n") > 3;
    return true;
}

static void read_flags(struct verb_seen *verb)
{
    const char *help = run_expect(0, "help", verb->name)->out.text;
    for (const char *line = help; line != NULL && *line != 0; line = strchr(line, '\n')) {
        line += *line == '\n';
        CHECK(verb->flag_count < FLAGS_MAX);
        if (read_flag(&verb->flags[verb->flag_count], line))
            verb->flag_count++;
    }
}

/* A verb is a line with two spaces and a small letter, below a heading of the list. */
static void read_verbs(void)
{
    const char *help = run_expect(0, "help")->out.text;
    for (const char *line = help; line != NULL && *line != 0; line = strchr(line, '\n')) {
        struct verb_seen *verb = &verbs[verb_count];
        line += *line == '\n';
        CHECK(verb_count < VERBS_MAX);
        if (strncmp(line, "  ", 2) == 0 && islower((unsigned char)line[2]) &&
            sscanf(line, "  %39[a-z]", verb->name) == 1 && strcmp(verb->name, "bide") != 0)
            verb_count++;
    }
    CHECK(verb_count >= 33);
    for (size_t i = 0; i < verb_count; i++)
        read_flags(&verbs[i]);
}

/* ---- what is no value ---- */

static const struct {
    const char *takes;
    const char *bad[8];
} kinds[] = {
    {"N", {"x", "", "-1", "1.5", "1x", "99999999999999999999999", " 1"}},
    {"ID", {"x", "", "0", "-1", "9007199254740992", "1x"}},
    {"TOKEN", {"x", "", "0", "-1", "9007199254740992", "1x"}},
    {"DURATION", {"x", "", "5", "-3s", "3 parsecs", "99999999999999999d", "s"}},
    {"TIME", {"x", "", "25:00", "2026-02-30", "2026-13-01T00:00", "yesterday-ish"}},
    {"SIZE", {"x", "", "-1", "1 elephant", "99999999999999999999GiB"}},
    {"STATE", {"x", "", "readyy", "5"}},
};

static const char *const *bad_values(const char *verb, const struct flag_seen *flag)
{
    static const char *const choice[] = {"xyzzy", "", NULL};
    static const char *const none[] = {NULL};
    if (strcmp(verb, "purge") == 0 && strcmp(flag->name, "state") == 0)
        return none; /* a list, which is looked at later; change.c */
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strcmp(kinds[i].takes, flag->takes) == 0)
            return kinds[i].bad;
    return strchr(flag->takes, '|') != NULL ? choice : none;
}

/* The command line is refused, with a sentence that has this in it, and nothing is done. */
static void is_refused(const char *verb, const char *flag, const char *value, const char *says)
{
    const char *const argv[] = {verb, flag, value, NULL};
    struct child *child = run_expect_list_at(HERE, 2, NULL, 0, argv);
    char begins[60];
    snprintf(begins, sizeof(begins), "bide %s: ", verb);
    if (strncmp(child->err.text, begins, strlen(begins)) != 0)
        FAIL("%s %s %s: expected \"%s...\", got:\n%s", verb, flag, value, begins, child->err.text);
    if (strstr(child->err.text, says) == NULL)
        FAIL("%s %s %s: expected \"%s\" in:\n%s", verb, flag, value, says, child->err.text);
    HAS(child->err, "Try \"bide help");
    SILENT(child->out);
}

static void nothing_was_done(void)
{
    CHECK(!file_exists(test_path("data/bide")));
    CHECK(!file_exists(test_path("run/bide")));
}

static void refuses_bad_values(const char *verb, const struct flag_seen *flag)
{
    char both[100], says[300];
    snprintf(both, sizeof(both), "--%s", flag->name);
    for (const char *const *bad = bad_values(verb, flag); *bad != NULL; bad++) {
        snprintf(says, sizeof(says), "--%s: \"%s\" ", flag->name, *bad);
        is_refused(verb, both, *bad, says);
    }
    if (flag->takes[0] == 0) {
        snprintf(both, sizeof(both), "--%s=1", flag->name);
        snprintf(says, sizeof(says), "--%s takes no value", flag->name);
    } else {
        snprintf(says, sizeof(says), "--%s wants a value: --%s %s", flag->name, flag->name,
                 flag->takes);
    }
    is_refused(verb, both, NULL, says);
    if (flag->takes[0] != 0 && flag->letter != 0) {
        snprintf(both, sizeof(both), "-%c", flag->letter);
        is_refused(verb, both, NULL, says);
    }
}

/* ---- tests ---- */

/* Those of every verb are read in one way, and so tried with one. */
static bool is_common(const struct flag_seen *flag)
{
    static const char *const names[] = {"url",      "json",  "quiet", "verbose",
                                        "no-start", "color", "help",  "version"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(flag->name, names[i]) == 0)
            return true;
    return false;
}

/* Every third verb, so that three runs can share the work. */
static void try_every_third(size_t first)
{
    read_verbs();
    for (size_t i = first; i < verb_count; i += 3)
        for (size_t j = 0; j < verbs[i].flag_count; j++)
            if (!is_common(&verbs[i].flags[j]))
                refuses_bad_values(verbs[i].name, &verbs[i].flags[j]);
    nothing_was_done();
}

static void flags_of_the_first_verbs_reject_invalid_values(void)
{
    try_every_third(0);
}

static void flags_of_the_next_verbs_reject_invalid_values(void)
{
    try_every_third(1);
}

static void flags_of_the_last_verbs_reject_invalid_values(void)
{
    try_every_third(2);
}

static void common_flags_reject_invalid_values(void)
{
    read_verbs();
    for (size_t j = 0; j < verbs[0].flag_count; j++)
        if (is_common(&verbs[0].flags[j]))
            refuses_bad_values(verbs[0].name, &verbs[0].flags[j]);
    nothing_was_done();
}

static void every_verb_rejects_flags_of_other_verbs(void)
{
    read_verbs();
    for (size_t i = 0; i < verb_count; i++) {
        is_refused(verbs[i].name, "--xyzzyxyzzy", NULL, "unknown flag --xyzzyxyzzy\n");
        is_refused(verbs[i].name, "--no-strat", NULL,
                   "unknown flag --no-strat; did you mean --no-start?");
        is_refused(verbs[i].name, "-!", NULL, "unknown flag -!");
        is_refused(verbs[i].name, "--=x", NULL, "unknown flag --");
    }
    nothing_was_done();
}

static void every_flag_is_explained_and_named_once(void)
{
    read_verbs();
    for (size_t i = 0; i < verb_count; i++) {
        const struct verb_seen *verb = &verbs[i];
        CHECK(verb->flag_count >= 8); /* those of every verb */
        for (size_t j = 0; j < verb->flag_count; j++) {
            if (!verb->flags[j].has_help)
                FAIL("%s --%s: no word of help", verb->name, verb->flags[j].name);
            for (size_t k = 0; k < j; k++)
                if (strcmp(verb->flags[j].name, verb->flags[k].name) == 0 ||
                    (verb->flags[j].letter != 0 && verb->flags[j].letter == verb->flags[k].letter))
                    FAIL("%s: --%s and --%s", verb->name, verb->flags[j].name, verb->flags[k].name);
        }
    }
}

/* How many columns a line takes; all that is printed is UTF-8. */
static size_t columns_of(const char *line, size_t size)
{
    size_t columns = 0;
    for (size_t i = 0; i < size; i++)
        columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    return columns;
}

static void is_narrow(const char *verb, const char *help)
{
    for (const char *line = help; *line != 0;) {
        size_t size = strcspn(line, "\n");
        if (columns_of(line, size) > 80)
            FAIL("help %s: more than 80 columns: %.*s", verb, (int)size, line);
        if (memchr(line, '\t', size) != NULL || (size > 0 && line[size - 1] == ' '))
            FAIL("help %s: a tab, or a space at the end: %.*s", verb, (int)size, line);
        line += size + (line[size] == '\n');
    }
}

static void the_help_of_every_verb_is_80_columns_wide_and_has_examples(void)
{
    read_verbs();
    is_narrow("", run_expect(0, "help")->out.text);
    for (size_t i = 0; i < verb_count; i++) {
        const struct child *child = run_expect(0, "help", verbs[i].name);
        char use[60], example[60];
        snprintf(use, sizeof(use), "Usage: bide %.39s", verbs[i].name);
        snprintf(example, sizeof(example), "bide %.39s", verbs[i].name);
        is_narrow(verbs[i].name, child->out.text);
        CHECK(strncmp(child->out.text, use, strlen(use)) == 0);
        if (count_of(&child->out, example) < 2)
            FAIL("help %s: no example", verbs[i].name);
        OUTPUT_IS(run_expect(0, verbs[i].name, "--help")->out, child->out.text);
        OUTPUT_IS(run_expect(0, verbs[i].name, "-h", "some", "words")->out, child->out.text);
        SILENT(child->err);
    }
}

/* ---- words ---- */

static void an_error_before_the_json_flag_is_printed_as_json(void)
{
    static const char *const lines[][4] = {
        {"put", "t", "--bogus", "--json"},
        {"put", "t", "--delay=1", "-J"},
        {"nosuchverb", "x", "y", "--json"},
    };
    for (size_t i = 0; i < COUNT(lines); i++) {
        const char *const *at = lines[i];
        struct child *child = run_expect(2, at[0], at[1], at[2], at[3]);
        EQ(LINES(child->err), 1);
        EQ(number_in(json_at(child->err, 0), "exit"), 2);
    }
    HAS(run_expect(2, "work", "t", "--bogus", "--", "x", "--json")->err, "bide work: unknown flag");
}

static void missing_arguments_are_reported(void)
{
    static const char *const wanted[] = {
        "put",     "work", "wait",  "reserve", "touch",  "done",   "delete",
        "release", "fail", "bury",  "kick",    "update", "cancel", "purge",
        "peek",    "job",  "pause", "resume",  "move",   "backup",
    };
    for (size_t i = 0; i < COUNT(wanted); i++) {
        struct child *child = run_expect(2, wanted[i]);
        HAS(child->err, "missing argument: bide ");
        HAS(child->err, wanted[i]);
        SILENT(child->out);
    }
    nothing_was_done();
}

static void extra_arguments_are_reported(void)
{
    static const char *const lines[][6] = {
        {"touch", "1", "2", "3"}, {"topics", "a", "b", "c"},
        {"ping", "now"},          {"workers", "now"},
        {"help", "put", "work"},  {"move", "memory:", "memory:", "memory:"},
        {"backup", "a", "b"},     {"drain", "a", "b"},
    };
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct child *child = run_expect_list_at(HERE, 2, NULL, 0, lines[i]);
        HAS(child->err, "unexpected argument \"");
        SILENT(child->out);
    }
    nothing_was_done();
}

static void invalid_ids_are_reported(void)
{
    static const char *const with_id[] = {"delete", "job",     "wait", "cancel", "touch",
                                          "done",   "release", "fail", "bury",   "update"};
    static const char *const bad[] = {
        "x", "", "0", "-0", "1x", "9007199254740992", "1.0", " 1", "99999999999999999999999999"};
    for (size_t i = 0; i < COUNT(with_id); i++)
        for (size_t j = 0; j < COUNT(bad); j++) {
            struct child *child = run_expect(2, with_id[i], bad[j], "1");
            SILENT(child->out);
            HAS(child->err, "bide ");
        }
    nothing_was_done();
}

static void invalid_topics_are_reported(void)
{
    static char longest[202];
    static const char *const with_topic[] = {"put",  "reserve", "kick",  "purge",
                                             "peek", "pause",   "resume"};
    memset(longest, 'x', 201);
    const char *const bad[] = {"", "a b", "a\nb", "\xff", "é", longest};
    for (size_t i = 0; i < COUNT(with_topic); i++)
        for (size_t j = 0; j < COUNT(bad); j++) {
            struct child *child = run_expect(2, with_topic[i], bad[j]);
            SILENT(child->out);
            HAS(child->err, with_topic[i]);
        }
    nothing_was_done();
}

static const struct test tests[] = {
    TEST(flags_of_the_first_verbs_reject_invalid_values),
    TEST(flags_of_the_next_verbs_reject_invalid_values),
    TEST(flags_of_the_last_verbs_reject_invalid_values),
    TEST(common_flags_reject_invalid_values),
    TEST(every_verb_rejects_flags_of_other_verbs),
    TEST(every_flag_is_explained_and_named_once),
    TEST(the_help_of_every_verb_is_80_columns_wide_and_has_examples),
    TEST(an_error_before_the_json_flag_is_printed_as_json),
    TEST(missing_arguments_are_reported),
    TEST(extra_arguments_are_reported),
    TEST(invalid_ids_are_reported),
    TEST(invalid_topics_are_reported),
};

const struct theme arguments_theme = {"arguments", tests, COUNT(tests)};
