/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* asprintf */
#include "script.h"

#include "pattern.h"

#include <ctype.h>
#include <signal.h>

struct reader {
    const char *file;
    int line;
    unsigned kind;
    struct transcript head; /* what stands before the first title */
    struct transcript *now; /* the head, or the one that is being read */
    struct script *script;
    struct pattern_words words;
    bool bad;
};

static void complain(struct reader *reader, const char *what)
{
    printf("%s:%d: %s\n", reader->file, reader->line, what);
    reader->bad = true;
}

static char *copy(const char *text)
{
    char *made = strdup(text);
    if (!made) {
        perror("memory");
        exit(2);
    }
    return made;
}

static const char *skip_space(const char *text)
{
    while (*text == ' ')
        text++;
    return text;
}

/* ---- settings of a transcript ---- */

static void set_flags(struct reader *reader, const char *value)
{
    free(reader->now->flags);
    reader->now->flags = copy(value);
}

static void set_config(struct reader *reader, const char *value)
{
    char *config = NULL;
    if (asprintf(&config, "%s%s\n", reader->now->config, value) < 0)
        exit(2);
    free(reader->now->config);
    reader->now->config = config;
}

static void set_only(struct reader *reader, const char *value)
{
    if (strcmp(value, "bided") == 0)
        reader->now->only = FOR_BIDED;
    else if (strcmp(value, "beanstalkd") == 0)
        reader->now->only = FOR_REFERENCE;
    else
        complain(reader, "only: bided or beanstalkd");
}

static void set_deliver(struct reader *reader, const char *value)
{
    static const char *const names[DELIVERIES] = {"written", "bytes", "burst"};
    reader->now->deliveries = 0;
    for (unsigned i = 0; i < DELIVERIES; i++)
        if (strstr(value, names[i]))
            reader->now->deliveries |= 1U << i;
    if (reader->now->deliveries == 0)
        complain(reader, "deliver: some of written, bytes and burst");
}

static const struct setting {
    const char *name;
    void (*set)(struct reader *reader, const char *value);
} settings[] = {
    {"flags:", set_flags}, {"config:", set_config}, {"only:", set_only}, {"deliver:", set_deliver}};

static bool read_setting(struct reader *reader, const char *line)
{
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        size_t size = strlen(settings[i].name);
        if (strncmp(line, settings[i].name, size) == 0) {
            settings[i].set(reader, skip_space(line + size));
            return true;
        }
    }
    return false;
}

/* ---- steps ---- */

static struct step *add_step(struct reader *reader, enum action action, int connection,
                             const char *text)
{
    struct transcript *now = reader->now;
    now->steps = realloc(now->steps, (now->step_count + 1) * sizeof *now->steps);
    if (!now->steps) {
        perror("memory");
        exit(2);
    }
    struct step *step = &now->steps[now->step_count++];
    *step = (struct step){
        .action = action, .line = reader->line, .connection = connection, .text = copy(text)};
    return step;
}

static void read_text(struct reader *reader, struct step *step, const char *end)
{
    const char *wrong = pattern_parse(step, end, &reader->words);
    if (wrong)
        complain(reader, wrong);
}

static int64_t no_argument(const char *argument)
{
    return *argument == 0 ? 0 : -1;
}

static int64_t milliseconds(const char *argument)
{
    char *end = NULL;
    long value = strtol(argument, &end, 10);
    return end != argument && *end == 0 ? value : -1;
}

static int64_t signal_number(const char *argument)
{
    if (strcmp(argument, "USR1") == 0)
        return SIGUSR1;
    return strcmp(argument, "HUP") == 0 ? SIGHUP : -1;
}

/* What can be done besides sending and expecting. */
static const struct doing {
    const char *name;
    enum action action;
    int64_t (*argument)(const char *argument);
} doings[] = {
    {"open", ACTION_OPEN, no_argument},      /* a connection is else opened when it is first used */
    {"half", ACTION_HALF, no_argument},      /* the client sends no more, and reads on */
    {"close", ACTION_CLOSE, no_argument},    /* the client closes, and has read all it wants */
    {"leave", ACTION_LEAVE, no_argument},    /* the client closes, whatever came */
    {"ended", ACTION_ENDED, no_argument},    /* expected: the server closes */
    {"quiet", ACTION_QUIET, milliseconds},   /* expected: nothing comes so long */
    {"sleep", ACTION_SLEEP, milliseconds},   /* time goes by */
    {"mark", ACTION_MARK, no_argument},      /* remembers the time */
    {"passed", ACTION_PASSED, milliseconds}, /* expected: so much has passed since */
    {"signal", ACTION_SIGNAL, signal_number} /* the server gets USR1 or HUP */
};

static void read_doing(struct reader *reader, int connection, const char *text)
{
    size_t size = strcspn(text, " ");
    for (size_t i = 0; i < sizeof doings / sizeof doings[0]; i++) {
        if (strlen(doings[i].name) != size || strncmp(text, doings[i].name, size) != 0)
            continue;
        int64_t number = doings[i].argument(skip_space(text + size));
        if (number < 0)
            complain(reader, "a deed with a wrong argument");
        add_step(reader, doings[i].action, connection, text)->number = number;
        return;
    }
    complain(reader, "no such deed");
}

static void read_question(struct reader *reader, int connection, const char *text)
{
    struct step *step = add_step(reader, ACTION_ASK, connection, text);
    char *split = strstr(step->text, " | ");
    if (!split) {
        complain(reader, "a question is: command | text");
        return;
    }
    *split = 0;
    step->wanted = copy(split + 3);
    read_text(reader, step, "\r\n");
}

static void read_step(struct reader *reader, const char *line)
{
    int connection = islower((unsigned char)line[0]) ? *line++ - 'a' : 0;
    char sigil = *line++;
    const char *text = *line == ' ' ? line + 1 : line;
    struct step *step;
    switch (sigil) {
    case '>':
        read_text(reader, add_step(reader, ACTION_SEND, connection, text), "\r\n");
        return;
    case '<':
        read_text(reader, add_step(reader, ACTION_EXPECT, connection, text), "\r\n");
        return;
    case '|':
        step = add_step(reader, ACTION_EXPECT, connection, text);
        step->in_yaml = true;
        read_text(reader, step, "\n");
        return;
    case '?':
        read_question(reader, connection, text);
        return;
    case '!':
        read_doing(reader, connection, text);
        return;
    default:
        complain(reader, "neither a setting nor a step");
    }
}

/* ---- lines ---- */

static void begin_transcript(struct reader *reader, const char *title)
{
    struct script *script = reader->script;
    script->transcripts =
        realloc(script->transcripts, (script->count + 1) * sizeof *script->transcripts);
    if (!script->transcripts) {
        perror("memory");
        exit(2);
    }
    reader->now = &script->transcripts[script->count++];
    *reader->now = reader->head;
    reader->now->file = reader->file;
    reader->now->line = reader->line;
    reader->now->title = copy(title);
    reader->now->flags = copy(reader->head.flags);
    reader->now->config = copy(reader->head.config);
    reader->words.count = 0;
}

/* Drops "[bided] " or "[beanstalkd] " before a line; NULL when the line is for the other one. */
static const char *for_this_kind(const struct reader *reader, const char *line)
{
    static const char bided[] = "[bided] ";
    static const char reference[] = "[beanstalkd] ";
    if (strncmp(line, bided, sizeof bided - 1) == 0)
        return reader->kind == FOR_BIDED ? line + sizeof bided - 1 : NULL;
    if (strncmp(line, reference, sizeof reference - 1) == 0)
        return reader->kind == FOR_REFERENCE ? line + sizeof reference - 1 : NULL;
    return line;
}

static void read_line(struct reader *reader, const char *line)
{
    line = for_this_kind(reader, line);
    if (!line || *line == 0 || *line == '#')
        return;
    if (strncmp(line, "== ", 3) == 0)
        begin_transcript(reader, line + 3);
    else if (read_setting(reader, line))
        return;
    else if (reader->now == &reader->head)
        complain(reader, "a step before the first title");
    else
        read_step(reader, line);
}

bool script_read(struct script *script, const char *name, unsigned kind)
{
    struct reader reader = {.file = name, .kind = kind, .script = script};
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(name, "r");
    if (!file) {
        perror(name);
        return false;
    }
    reader.head.only = FOR_ALL;
    reader.head.deliveries = (1U << DELIVERIES) - 1;
    reader.head.flags = copy("");
    reader.head.config = copy("");
    reader.now = &reader.head;
    while (getline(&line, &room, file) >= 0) {
        reader.line++;
        line[strcspn(line, "\n")] = 0;
        read_line(&reader, line);
    }
    fclose(file);
    free(line);
    free(reader.head.flags);
    free(reader.head.config);
    return !reader.bad;
}

void script_done(struct script *script)
{
    for (size_t i = 0; i < script->count; i++) {
        struct transcript *transcript = &script->transcripts[i];
        for (size_t j = 0; j < transcript->step_count; j++) {
            pattern_done(&transcript->steps[j]);
            free(transcript->steps[j].text);
            free(transcript->steps[j].wanted);
        }
        free(transcript->steps);
        free(transcript->title);
        free(transcript->flags);
        free(transcript->config);
    }
    free(script->transcripts);
    *script = (struct script){NULL, 0};
}
