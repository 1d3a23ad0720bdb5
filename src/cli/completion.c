/* SPDX-License-Identifier: MIT */
/*
 * completion.c - bide completion: what the tab key offers.
 *
 * The scripts for the shells are short: they pass the words of the command line to "bide completion
 * words", which completes the last one from the tables of verbs and flags. The kind of an argument
 * is its name in the usage of a verb, or after a flag: TOPIC, FILE, STATE, ACTION and VERB are completed,
 * lower case is a literal, and a|b are alternatives. Other kinds are not completed.
 *
 * Output     The first line is the part of the last word that stays ("--color="). Then a candidate
 *            per line, and after a tab its description; or what the shell completes itself:
 *                :files        names of files
 *                :program N    a program, which is word N from 0, and its arguments
 */
#include "cli/connect.h"
#include "cli/query.h"
#include "cli/schedule/schedule_cli.h"

#include <assert.h>
#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_S  2
#define TOPICS_MAX 10000

/* ---- topics ---- */

/* The tab key must not hang on a server that does not answer. */
static void on_alarm(int number)
{
    (void)number;
    _exit(BI_EXIT_TIMED_OUT);
}

/* A file is not opened: it would be locked for other processes meanwhile. */
static int open_server(struct cli *cli)
{
    cli->no_start = true;
    int exit = bi_connect_load_config(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    const char *url = bi_connect_explicit_url(cli);
    if (url != NULL && strncmp(url, "beanstalk:", 10) != 0)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "topics are completed from servers only");
    return bi_connect_open(cli);
}

static int print_topic(void *user, const bide_topic_stats *topic)
{
    size_t *total = user;

    printf("%s\n", topic->name);
    return ++*total == TOPICS_MAX ? BI_EXIT_PARTIAL : BI_EXIT_OK;
}

static int print_topics(struct cli *cli)
{
    size_t total = 0;

    signal(SIGALRM, on_alarm);
    alarm(TIMEOUT_S);
    int exit = open_server(cli);
    if (exit == BI_EXIT_OK)
        exit = bi_query_each_topic(cli, cli->queue, false, print_topic, &total);
    return total == TOPICS_MAX ? BI_EXIT_OK : exit;
}

/* ---- candidates ---- */

static void offer_verbs(void)
{
    const struct verb *verb;
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++)
        printf("%s\t%s\n", verb->name, verb->summary);
}

static void offer_states(void)
{
    for (bide_state state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
        printf("%s\n", bide_state_name(state));
}

static const struct {
    const char *kind;
    void (*offer)(void);
} kinds[] = {
    {"ACTION", bi_schedule_offer_actions},
    {"STATE", offer_states},
    {"VERB", offer_verbs},
};

/* Offers the values of a kind for the text in word from value on. */
static int offer(struct cli *cli, const char *kind, const char *word, const char *value)
{
    const char *choice, *comma = strrchr(value, ',');
    int exit = BI_EXIT_OK;
    size_t size;

    /* There may be several states, with commas. */
    if (strcmp(kind, "STATE") == 0 && comma != NULL)
        value = comma + 1;
    printf("%.*s\n", (int)(value - word), word);

    while ((choice = bi_flag_next_choice(&kind, &size)) != NULL) {
        if (islower((unsigned char)choice[0]))
            printf("%.*s\n", (int)size, choice);
        else if (size == strlen("FILE") && memcmp(choice, "FILE", size) == 0)
            printf(":files\n");
        else if (size == strlen("TOPIC") && memcmp(choice, "TOPIC", size) == 0)
            exit = print_topics(cli);
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
            if (size == strlen(kinds[i].kind) && memcmp(choice, kinds[i].kind, size) == 0)
                kinds[i].offer();
    }
    return exit;
}

/* ---- the words of the line ---- */

struct line {
    struct flag_parser parser;  /* its tables are those of the verb and of all verbs */
    const struct verb *verb;    /* NULL: not named yet, or unknown */
    const struct flag *pending; /* the flag whose value is the next word; NULL: none */
    bool has_verb;
    bool has_dashes; /* "--" was given: there are no more flags */
    size_t word_count;
};

/* Returns the flag of this word that takes a value, and where the value begins; NULL: none does. */
static const struct flag *parse_flag(const struct line *line, const char *word, const char **value)
{
    const struct flag *flag = NULL;

    if (word[1] == '-') {
        size_t size = strcspn(word + 2, "=");
        flag = bi_flag_find_name(&line->parser, word + 2, size);
        *value = word + 2 + size + (word[2 + size] == '=');
        return flag != NULL && flag->value_name != NULL ? flag : NULL;
    }
    for (const char *letter = word + 1; *letter != 0; letter++) {
        flag = bi_flag_find_letter(&line->parser, *letter);
        *value = letter + 1;
        if (flag == NULL || flag->value_name != NULL)
            return flag;
    }
    return NULL;
}

/* Does the word contain the value, or its beginning? Otherwise the value is the next word. */
static bool has_value(const char *value)
{
    return value[0] != 0 || value[-1] == '=';
}

static void set_value(struct cli *cli, const struct flag *flag, const char *value)
{
    if (strcmp(flag->name, "url") == 0)
        cli->url = value;
}

/* Parses a word before the one that is completed. Mistakes are left to the command itself. */
static void parse_word(struct cli *cli, struct line *line, const char *word)
{
    const char *value;

    if (line->pending != NULL) {
        set_value(cli, line->pending, word);
        line->pending = NULL;
    } else if (!line->has_dashes && strcmp(word, "--") == 0) {
        line->has_dashes = true;
    } else if (!line->has_dashes && word[0] == '-' && word[1] != 0) {
        const struct flag *flag = parse_flag(line, word, &value);
        if (flag != NULL && has_value(value))
            set_value(cli, flag, value);
        else
            line->pending = flag;
    } else if (!line->has_verb) {
        line->has_verb = true;
        line->verb = bi_verb_find(word);
        line->parser.tables[0] = line->verb == NULL ? NULL : line->verb->flags;
    } else {
        line->word_count++;
    }
}

static bool is_given(const struct flag *flag, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strcspn(words[i], "=");
        bool by_name = strncmp(words[i], "--", 2) == 0 && size == strlen(flag->name) + 2 &&
                       memcmp(words[i] + 2, flag->name, size - 2) == 0;
        if (by_name || (words[i][0] == '-' && words[i][1] != 0 && words[i][1] == flag->letter))
            return true;
    }
    return false;
}

/* Offers the flags that the words do not contain yet, or that may be repeated. */
static void offer_flags(const struct line *line, const char *const *words, size_t count)
{
    printf("\n");
    for (int t = 0; t < 2; t++) {
        for (const struct flag *flag = line->parser.tables[t]; flag != NULL && flag->name != NULL;
             flag++) {
            if (flag->parse != bi_flag_parse_list && is_given(flag, words, count))
                continue;
            if (flag->letter != 0)
                printf("-%c\t%s\n", flag->letter, flag->help);
            printf("--%s\t%s\n", flag->name, flag->help);
        }
    }
}

static int complete_word(struct cli *cli)
{
    const char *const *words = cli->words + 1;
    size_t last = cli->word_count - 2;
    const char *word = words[last], *value;
    struct line line = {.parser.tables[1] = bi_verb_common_flags(NULL)};
    struct usage usage = {.count = 0};

    assert(cli->word_count >= 2);
    for (size_t i = 0; i < last; i++) {
        parse_word(cli, &line, words[i]);
        if (line.has_dashes && line.verb != NULL && (line.verb->traits & BI_VERB_PROGRAM) != 0) {
            printf("\n:program %zu\n", i + 1);
            return BI_EXIT_OK;
        }
    }

    if (line.pending != NULL)
        return offer(cli, line.pending->value_name, word, word);
    if (word[0] == '-' && !line.has_dashes) {
        const struct flag *flag = parse_flag(&line, word, &value);
        if (flag != NULL && has_value(value))
            return offer(cli, flag->value_name, word, value);
        offer_flags(&line, words, last);
        return BI_EXIT_OK;
    }
    if (!line.has_verb)
        return offer(cli, "VERB", word, word);

    if (line.verb != NULL)
        bi_verb_parse_usage(&usage, line.verb->usage);
    if (usage.repeats && line.word_count >= usage.count)
        line.word_count = usage.count - 1;
    return offer(cli, line.word_count < usage.count ? usage.name[line.word_count] : "", word, word);
}

/* ---- the verb ---- */

static int print_script(struct cli *cli)
{
    fputs(bi_verb_text(strcmp(cli->words[0], "bash") == 0 ? "bide.bash" : "bide.zsh"), stdout);
    return BI_EXIT_OK;
}

static const struct mode {
    const char *name;
    size_t min, max; /* arguments, with the name */
    int (*print)(struct cli *cli);
} modes[] = {
    {"bash", 1, 1, print_script},
    {"zsh", 1, 1, print_script},
    {"topics", 1, 1, print_topics},
    {"words", 2, BI_WORDS_MAX, complete_word},
};

static const struct mode *mode;

static int check(struct cli *cli)
{
    int exit = bi_verb_check_words(cli, 1, BI_WORDS_MAX);
    if (exit != BI_EXIT_OK)
        return exit;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]) && mode == NULL; i++)
        if (strcmp(modes[i].name, cli->words[0]) == 0)
            mode = &modes[i];
    if (mode == NULL)
        return bi_cli_usage_error(cli, "\"%.60s\" is not bash, zsh or topics", cli->words[0]);
    return bi_verb_check_words(cli, mode->min, mode->max);
}

static int run(struct cli *cli)
{
    return mode->print(cli);
}

const struct verb bi_verb_completion = {
    .name = "completion",
    .usage = "bash|zsh|topics",
    .summary = "print a shell completion script",
    .traits = BI_VERB_NO_QUEUE | BI_VERB_NO_CONFIG | BI_VERB_COUNTS_WORDS,
    .check = check,
    .run = run,
};
