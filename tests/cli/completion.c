/* SPDX-License-Identifier: MIT */
/* completion.c - the tab key, pressed in a real bash and in a real zsh. */
#include "cli_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- shells ---- */

static void prepare(const char *shell)
{
    char path[4400];
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", program_folder());
    set_env("PATH", path);
    set_env("TERM", "dumb");
    program_path = shell;
}

static struct child *in_bash(void)
{
    prepare("/bin/bash");
    struct child *shell = begin_on_terminal(200, 100, "--norc", "--noprofile", "-i", NULL);
    press(shell, "bind 'set bell-style none' 'set show-all-if-ambiguous on'\r");
    press(shell, "bind 'set completion-query-items 0' 'set page-completions off'\r");
    press(shell, "source <(bide completion bash); complete -p bide; echo loa''ded\r");
    await_out(shell, "complete -F _bide bide\r\n");
    await_out(shell, "loaded\r\n");
    return shell;
}

/* The file lies where zsh looks for functions, as an installation has it. */
static struct child *in_zsh(void)
{
    set_env("FUNCTIONS", folder_of("functions"));
    prepare("/bin/zsh");
    struct child *shell = begin_on_terminal(200, 100, "--emulate", "zsh", "-f", "-i", NULL);
    press(shell, "bide completion zsh > $FUNCTIONS/_bide; bindkey -e; LISTMAX=1000\r");
    press(shell, "fpath=($FUNCTIONS $fpath); autoload -Uz compinit; compinit -u -D\r");
    press(shell, "echo loa''ded\r");
    await_out(shell, "loaded\r\n");
    return shell;
}

/* What stands on the line once the tab key was pressed behind what is typed. The shell itself says
 * it, by an echo that is put before it, because lines are drawn in many ways. */
static void tab(struct child *shell, const char *typed, const char *line)
{
    static int number;
    char keys[400], wanted[400];
    number++;
    snprintf(keys, sizeof(keys), "%s\t\005 e''nd%d\001echo b''egin%d \r", typed, number, number);
    snprintf(wanted, sizeof(wanted), "begin%d %s end%d\r\n", number, line, number);
    press(shell, keys);
    await_out(shell, wanted);
}

/* ---- what every shell completes ---- */

static void complete_verbs(struct child *shell)
{
    tab(shell, "bide comple", "bide completion");
    tab(shell, "bide help resu", "bide help resume");
    tab(shell, "bide --quiet rese", "bide --quiet reserve");
    tab(shell, "bide -u beanstalk://nowhere:1 comple", "bide -u beanstalk://nowhere:1 completion");
    tab(shell, "bide --url=beanstalk://nowhere:1 -qv comple",
        "bide --url=beanstalk://nowhere:1 -qv completion");
    tab(shell, "bide -ubeanstalk: comple", "bide -ubeanstalk: completion");
    tab(shell, "bide nosuchverb", "bide nosuchverb");
    tab(shell, "bide nosuchverb comple", "bide nosuchverb comple");
}

static void complete_flags(struct child *shell)
{
    tab(shell, "bide --no-s", "bide --no-start");
    tab(shell, "bide completion --vers", "bide completion --version");
    tab(shell, "bide completion --color al", "bide completion --color always");
    tab(shell, "bide --color nev", "bide --color never");
    tab(shell, "bide --color=nev", "bide --color=never");
    tab(shell, "bide --color never completion --color=al",
        "bide --color never completion --color=always");
}

static void complete_words(struct child *shell)
{
    tab(shell, "bide completion z", "bide completion zsh");
    tab(shell, "bide completion --quiet z", "bide completion --quiet zsh");
    tab(shell, "bide completion zsh z", "bide completion zsh z");
    tab(shell, "bide reserve letters --strategy=we", "bide reserve letters --strategy=weighted");
    tab(shell, "bide reserve letters -s fa", "bide reserve letters -s fair");
    tab(shell, "bide list --state bur", "bide list --state buried");
    tab(shell, "bide peek letters -sdel", "bide peek letters -sdelayed");
    tab(shell, "bide drain of", "bide drain off");
}

static void complete_files(struct child *shell)
{
    char path[4400];
    snprintf(path, sizeof(path), "%s/a letter", folder_of("files"));
    write_text(path, "dear reader");
    press(shell, "cd $FILES\r");
    tab(shell, "bide put letters --file a", "bide put letters --file a letter");
    tab(shell, "bide put letters -f a", "bide put letters -f a letter");
    tab(shell, "bide put letters a", "bide put letters a");
    tab(shell, "bide work letters -- printen", "bide work letters -- printenv");
    tab(shell, "bide work letters -- cat a", "bide work letters -- cat a letter");
    tab(shell, "bide work letters --http x -e -- cat --a a",
        "bide work letters --http x -e -- cat --a a letter");
}

static const char *serve_topic(const char *topic)
{
    bide *queue;
    const char *url = start_another_server("other", "memory:");
    OK(bide_open(url, NULL, &queue));
    OK(bide_put(queue, topic, "x", 1, NULL, NULL));
    OK(bide_close(queue));
    set_env("BIDE_URL", url);
    return url;
}

static void complete_topics(struct child *shell)
{
    tab(shell, "bide put let", "bide put letters");
    tab(shell, "bide reserve letters let", "bide reserve letters letters");
    tab(shell, "bide update 12 --topic let", "bide update 12 --topic letters");
    tab(shell, "bide put letters let", "bide put letters let");
}

/* In each of the forms and places of a flag. */
static void complete_topics_of_line(struct child *shell)
{
    static const char *const before[] = {"bide -u ", "bide put --url ",
                                         "bide put --url=", "bide put -d 1h -u"};
    const char *url = serve_topic("letters");
    for (size_t i = 0; i < COUNT(before); i++) {
        char typed[300], line[400];
        snprintf(typed, sizeof(typed), "%s%s%s let", before[i], url, i == 0 ? " put" : "");
        snprintf(line, sizeof(line), "%sters", typed);
        tab(shell, typed, line);
    }
}

/* Nothing in a name is run; and what stands on the line means the name. */
static void complete_odd_topic(struct child *shell)
{
    char path[4400];
    struct stat status;
    const char *folder = folder_of("odd");
    snprintf(path, sizeof(path), "%s/boom", folder);
    press(shell, "boom() { touch $ODD/boom; }\r");
    tab(shell, "bide put \\$", "bide put $(boom);/a");
    CHECK(stat(path, &status) != 0);
}

static void bash_completes_verbs(void)
{
    complete_verbs(in_bash());
}

static void zsh_completes_verbs(void)
{
    complete_verbs(in_zsh());
}

static void bash_completes_flags_and_their_values(void)
{
    complete_flags(in_bash());
}

static void zsh_completes_flags_and_their_values(void)
{
    complete_flags(in_zsh());
}

static void bash_completes_words(void)
{
    complete_words(in_bash());
}

static void zsh_completes_words(void)
{
    complete_words(in_zsh());
}

static void bash_completes_files_and_programs(void)
{
    set_env("FILES", folder_of("files"));
    complete_files(in_bash());
}

static void zsh_completes_files_and_programs(void)
{
    set_env("FILES", folder_of("files"));
    complete_files(in_zsh());
}

static void bash_completes_topics(void)
{
    serve_topic("letters");
    complete_topics(in_bash());
}

static void bash_asks_the_server_of_the_line(void)
{
    complete_topics_of_line(in_bash());
}

static void zsh_asks_the_server_of_the_line(void)
{
    complete_topics_of_line(in_zsh());
}

static void zsh_completes_topics(void)
{
    serve_topic("letters");
    complete_topics(in_zsh());
}

static void bash_does_not_execute_topic_names(void)
{
    serve_topic("$(boom);/a");
    set_env("ODD", folder_of("odd"));
    complete_odd_topic(in_bash());
}

static void zsh_does_not_execute_topic_names(void)
{
    serve_topic("$(boom);/a");
    set_env("ODD", folder_of("odd"));
    complete_odd_topic(in_zsh());
}

static void bash_shows_every_verb(void)
{
    struct child *shell = in_bash();
    press(shell, "bide \t");
    await_out(shell, "backup");
    await_out(shell, "work");
    press(shell, "\025bide --\t");
    await_out(shell, "--no-start");
    await_out(shell, "--verbose");
}

static void zsh_shows_every_verb_with_its_description(void)
{
    struct child *shell = in_zsh();
    press(shell, "bide \t");
    await_out(shell, "-- print a shell completion script");
    press(shell, "\025bide --\t");
    await_out(shell, "-- print JSON, one value per line");
}

/* ---- the verb ---- */

static void an_unknown_shell_is_reported_with_the_known_ones(void)
{
    HAS(run_expect(2, "completion", "fish")->err,
        "bide completion: \"fish\" is not bash, zsh or topics\n");
    HAS(run_expect(2, "completion")->err, "missing argument: bide completion bash|zsh|topics");
}

/* What the scripts are told: the part of the word that stays, then the candidates. */
static void words_are_completed_from_the_tables(void)
{
    struct child *child = run_expect(0, "completion", "words", "--", "list", "--state", "ready,b");
    HAS(child->out, "ready,\ndelayed\n");
    HAS(child->out, "\nburied\n");
    HAS(run_expect(0, "completion", "words", "--", "reserve", "t", "-sfa")->out, "-s\npriority\n");
    HAS(run_expect(0, "completion", "words", "--", "put", "t", "--file=x")->out,
        "--file=\n:files\n");
    HAS(run_expect(0, "completion", "words", "--", "work", "t", "--", "cat", "")->out,
        "\n:program 3\n");
    HAS(run_expect(0, "completion", "words", "--", "drain", "--", "o")->out, "\non\noff\n");
    HAS(run_expect(0, "completion", "words", "--", "top", "--q")->out,
        "\n--quiet\tprint no notes and no progress\n");
}

static void a_flag_is_offered_once_unless_it_may_be_repeated(void)
{
    struct child *child =
        run_expect(0, "completion", "words", "--", "put", "-q", "--file", "x", "--priority=1", "-");
    LACKS(child->out, "--quiet\t");
    LACKS(child->out, "-q\t");
    LACKS(child->out, "--priority\t");
    HAS(child->out, "\n--file\t");
    HAS(child->out, "\n--json\t");
}

static void extra_arguments_of_completion_are_rejected(void)
{
    HAS(run_expect(2, "completion", "bash", "zsh")->err, "unexpected argument \"zsh\"");
    HAS(run_expect(2, "completion", "words")->err, "missing argument");
}

static void completion_works_with_an_invalid_config_file(void)
{
    char path[4400];
    snprintf(path, sizeof(path), "%s/bide.conf", folder_of("config/bide"));
    set_env("XDG_CONFIG_HOME", folder_of("config"));
    write_text(path, "nonsense\n");
    run_expect(2, "completion", "topics");
    HAS(run_expect(0, "completion", "bash")->out, "complete -F _bide bide\n");
    HAS(run_expect(0, "completion", "zsh")->out, "#compdef bide\n");
    run_expect(0, "help");
}

static void topics_are_those_of_the_server(void)
{
    bide *queue;
    const char *url = start_another_server("other", "memory:");
    OK(bide_open(url, NULL, &queue));
    OK(bide_put(queue, "email", "x", 1, NULL, NULL));
    OK(bide_put(queue, "sms", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    set_env("BIDE_URL", url);
    struct child *child = run_expect(0, "completion", "topics");
    HAS(child->out, "email\n");
    HAS(child->out, "sms\n");
    SILENT(child->err);
    set_env("BIDE_URL", NULL);
    HAS(run_expect(0, "completion", "topics", "--url", url)->out, "email\n");
}

static void no_file_is_opened_and_no_server_started_for_topics(void)
{
    char path[4400], url[4500];
    struct stat status;
    snprintf(path, sizeof(path), "%s/jobs.db", folder_of("files"));
    snprintf(url, sizeof(url), "sqlite:%s", path);
    set_env("BIDE_URL", url);
    struct child *child = run_expect(6, "completion", "topics");
    SILENT(child->out);
    HAS(child->err, "topics are completed from servers only");
    CHECK(stat(path, &status) != 0);
}

/* A server that takes connections and never says a word. */
static void completion_waits_two_seconds_for_a_silent_server(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char url[200];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(name.sun_path, sizeof(name.sun_path), "%s/s", folder_of("silent"));
    snprintf(url, sizeof(url), "beanstalk://%s", name.sun_path);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(fd, 5) == 0);
    SILENT(run_expect(4, "completion", "topics", "--url", url)->out);
    close(fd);
}

static const struct test tests[] = {
    TEST(bash_completes_verbs),
    TEST(zsh_completes_verbs),
    TEST(bash_completes_flags_and_their_values),
    TEST(zsh_completes_flags_and_their_values),
    TEST(bash_completes_words),
    TEST(zsh_completes_words),
    TEST(bash_completes_files_and_programs),
    TEST(zsh_completes_files_and_programs),
    TEST(bash_completes_topics),
    TEST(zsh_completes_topics),
    TEST(bash_asks_the_server_of_the_line),
    TEST(zsh_asks_the_server_of_the_line),
    TEST(bash_does_not_execute_topic_names),
    TEST(zsh_does_not_execute_topic_names),
    TEST(bash_shows_every_verb),
    TEST(zsh_shows_every_verb_with_its_description),
    TEST(an_unknown_shell_is_reported_with_the_known_ones),
    TEST(words_are_completed_from_the_tables),
    TEST(a_flag_is_offered_once_unless_it_may_be_repeated),
    TEST(extra_arguments_of_completion_are_rejected),
    TEST(completion_works_with_an_invalid_config_file),
    TEST(topics_are_those_of_the_server),
    TEST(no_file_is_opened_and_no_server_started_for_topics),
    TEST(completion_waits_two_seconds_for_a_silent_server),
};

const struct theme completion_theme = {"completion", tests, COUNT(tests)};
