/* SPDX-License-Identifier: MIT */
/* top_term.c - bide top and its surroundings: terminals, windows, signals, servers that are
 * away. */
#include "pane.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FLAGS "--interval 100ms"

/* ---- whether it starts ---- */

static void without_a_terminal_top_is_rejected_and_starts_no_server(void)
{
    struct child *child = run_expect(2, "top");
    SILENT(child->out);
    HAS(child->err, "bide topics --json");
    HAS(child->err, "bide stats --json");
    child = begin_piped_on_terminal("top", NULL);
    await_end(child, 2);
    HAS(child->err, "this is a view for a terminal");
    child = begin_on_terminal(80, 24, "top", "--json", NULL);
    await_end(child, 2);
    HAS(child->out, "this is a view for a terminal");
    CHECK(!file_exists(test_path("run/bide/bided.sock")));
}

static void invalid_flags_are_rejected(void)
{
    static const char *const wrong[][2] = {
        {"--interval", "1ms"},
        {"--interval", "2h"},
        {"--interval", "often"},
        {"--sort", "nothing"},
        {"--sort", "trend"},
        {"--sort", ""},
        {"--filter", "0123456789012345678901234567890123456789012345678901234567890123456789"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct child *child = begin_on_terminal(80, 24, "top", wrong[i][0], wrong[i][1], NULL);
        await_end(child, 2);
        HAS(child->out, wrong[i][0]);
    }
    await_end(begin_on_terminal(80, 24, "top", "word", NULL), 2);
}

static void unknown_terminal_type_is_reported(void)
{
    static const char *const names[] = {"dumb", "no-such-terminal"};
    server_choose(AT_MEMORY);
    for (size_t i = 0; i < COUNT(names); i++) {
        set_env("TERM", names[i]);
        struct child *child = begin_on_terminal(200, 24, "top", NULL);
        await_end(child, 1);
        HAS(child->out, names[i]);
        HAS(child->out, "bide topics");
    }
}

/* ---- how it looks ---- */

static void watch_on(const char *term)
{
    char assignment[60];
    snprintf(assignment, sizeof(assignment), "TERM=%s", term);
    server_choose(AT_MEMORY);
    put_job("mail", "the body");
    pane_set(assignment);
    pane_begin(80, 24, FLAGS);
    SHOWS("bide top");
    SHOWS("  mail *  1 *█");
    pane_keys("Down Up Enter");
    SHOWS("the body");
    pane_keys("Escape");
    SHOWS("  mail *  1 ");
    pane_quit();
}

static void it_works_on_xterm(void)
{
    watch_on("xterm");
}
static void it_works_on_screen(void)
{
    watch_on("screen");
}
static void it_works_on_tmux(void)
{
    watch_on("tmux-256color");
}
static void it_works_on_linux(void)
{
    watch_on("linux");
}
static void it_works_on_vt100(void)
{
    watch_on("vt100");
}

static void a_locale_without_utf8_gets_ascii(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "gr\xc3\xbc\xc3\x9f");
    pane_set("LC_ALL=C");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail *  1 *##");
    pane_keys("Enter");
    SHOWS("gr[?][?]");
    for (const char *at = pane_text(false); *at != 0; at++)
        CHECK((*at & 0x80) == 0);
    pane_keys("q");
    SHOWS("bide top");
    pane_quit();
}

/* A buried job is red; escape sequences of colours have a 3 first. */
static void check_colors(const char *environment, const char *flags, bool wanted)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    bide *queue = open_test_queue();
    OK(bide_bury(queue, 1, 0, BIDE_KEEP, NULL));
    OK(bide_close(queue));
    pane_set(environment);
    pane_begin(80, 24, flags);
    SHOWS("buried 1 ");
    EQ(strstr(pane_text(true), "\x1b[31m") != NULL || strstr(pane_text(true), ";31m") != NULL,
       wanted);
    pane_quit();
}

static void colors_are_on_by_default(void)
{
    check_colors("", FLAGS, true);
}
static void no_color_turns_colors_off(void)
{
    check_colors("NO_COLOR=1", FLAGS, false);
}
static void color_never_turns_colors_off(void)
{
    check_colors("", FLAGS " --color never", false);
}
static void color_always_turns_colors_on(void)
{
    check_colors("NO_COLOR=1", FLAGS " --color always", true);
}

/* ---- windows ---- */

static void windows_shrink_and_grow_while_it_runs(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "the body is so long that it has to be folded in a window that is small");
    pane_begin(80, 24, FLAGS);
    SHOWS("WAIT TREND");
    pane_resize(40, 10);
    HIDES("TREND");
    SHOWS("READY RESVD *BURIED");
    SHOWS("  mail *  1 ");
    pane_resize(39, 10);
    SHOWS("too small: 40 x 10");
    pane_resize(60, 9);
    SHOWS("too small: 40 x 10");
    pane_resize(12, 3);
    SHOWS("too small*");
    pane_resize(200, 60);
    SHOWS("WAIT TREND");
    SHOWS("  mail *  1 ");
    pane_keys("Enter");
    SHOWS("the body is so long that it has to be folded in a window that is small");
    pane_resize(40, 10);
    pane_keys("Enter");
    SHOWS("lines 1-8 of ");
    pane_keys("End");
    SHOWS("the body is so long that it has to be fo");
    SHOWS("lded in a window that is small");
    pane_resize(80, 40);
    SHOWS("the body is so long that it has to be folded in a window that is small");
    pane_keys("q q");
    SHOWS("bide top");
    pane_quit();
}

static void it_starts_in_a_window_that_is_too_small(void)
{
    server_choose(AT_MEMORY);
    pane_begin(20, 5, FLAGS);
    SHOWS("too small: 40 x 10");
    pane_resize(80, 24);
    SHOWS("bide top");
    pane_quit();
}

/* ---- the end ---- */

static void signals_end_top_and_restore_the_terminal(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    kill(pane_pid(), SIGTERM);
    pane_ended(128 + SIGTERM);
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    kill(pane_pid(), SIGHUP);
    pane_ended(128 + SIGHUP);
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    pane_keys("Enter");
    SHOWS("  1024 *x");
    pane_keys("d");
    SHOWS("y/N");
    pane_keys("C-c");
    pane_ended(128 + SIGINT);
    EQ(count_jobs("mail", BIDE_STATE_READY), 1);
}

static void the_previous_screen_is_restored(void)
{
    server_choose(AT_MEMORY);
    pane_begin(80, 24, FLAGS);
    SHOWS("bide top");
    pane_keys("q");
    SHOWS("ended with 0");
    SHOWS("shell> ./watch");
    CHECK(pane_line("bide top") < 0);
    pane_ended(0);
}

static void top_resumes_after_sigtstp(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    pane_keys("C-z");
    SHOWS("Stopped");
    HIDES("  mail ");
    pane_type("clear; fg; echo ended with $?");
    pane_keys("Enter");
    SHOWS("  mail ");
    put_job("zip", "y");
    SHOWS("  zip ");
    pane_quit();
}

/* An ended process has no arguments any more, even before it is waited for. */
static bool has_ended(pid_t pid)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "r");
    bool ended = file == NULL || fgetc(file) == EOF;
    if (file != NULL)
        fclose(file);
    return ended;
}

/* The terminal's end sends several signals; one that comes while the sanitizer looks for leaks, at
 * the exit, would stop it for ever. */
static void top_exits_when_the_terminal_hangs_up(void)
{
    server_choose(AT_MEMORY);
    pane_set("ASAN_OPTIONS=detect_leaks=0");
    pane_begin(80, 24, FLAGS);
    SHOWS("bide top");
    pid_t pid = pane_pid();
    pane_close();
    CHECK(!has_ended(getpid()));
    UNTIL(has_ended(pid));
}

/* ---- servers that are away ---- */

/* So long a call goes without a connection before it fails. */
static void watch_patiently(const char *timeout)
{
    char flags[300];
    snprintf(flags, sizeof(flags), "--url '%s?connect_timeout=%s' " FLAGS, queue_url(), timeout);
    pane_begin(80, 24, flags);
}

static void server_loss_and_return_are_reported(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    watch_patiently("500ms");
    SHOWS("  mail ");
    stop_server(SIGTERM);
    SHOWS("NO ANSWER for ");
    pane_keys("s");
    SHOWS("Sorted by RESVD.");
    SHOWS("NO ANSWER for *: no connection to ");
    put_job("zip", "y");
    SHOWS("  zip ");
    HIDES("NO ANSWER");
    HIDES("  mail ");
    pane_quit();
}

/* However seldom the figures are refreshed, and wherever one looks: the server is asked
 * meanwhile. */
static void a_dead_server_is_reported_soon_with_any_interval(void)
{
    char flags[300];
    server_choose(AT_MEMORY);
    put_job("mail", "the body");
    snprintf(flags, sizeof(flags), "--url '%s?connect_timeout=1h' --interval 1h", queue_url());
    pane_begin(80, 24, flags);
    SHOWS("  mail ");
    pane_keys("Enter");
    SHOWS("the body");
    stop_server(SIGKILL);
    SHOWS("NO ANSWER for ");
    pane_keys("q");
    SHOWS("NO ANSWER for ");
    pane_quit();
}

/* ---- how it looks, in attributes ---- */

/* The line that has a text, with its escape sequences. */
static const char *styled_line(const char *text)
{
    static char line[2000];
    const char *screen = pane_text(true), *found = strstr(screen, text);
    CHECK(found != NULL);
    const char *begin = found;
    while (begin > screen && begin[-1] != '\n')
        begin--;
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(begin, "\n"), begin);
    return line;
}

static bool is_reverse(const char *line)
{
    return strstr(line, "[7m") != NULL || strstr(line, ";7m") != NULL;
}

static void check_cursor_differs_from_headings(const char *environment)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    pane_set(environment);
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    CHECK(is_reverse(styled_line("mail")));
    CHECK(!is_reverse(styled_line("TOPIC")));
    CHECK(strstr(styled_line("TOPIC"), "4m") != NULL); /* underlined */
    pane_quit();
}

static void the_cursor_and_the_headings_differ_in_colours(void)
{
    check_cursor_differs_from_headings("");
}

static void the_cursor_and_the_headings_differ_without_colours(void)
{
    check_cursor_differs_from_headings("NO_COLOR=1");
}

static void zeros_are_dim(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    put_job("zip", "x");
    pane_begin(80, 24, FLAGS);
    SHOWS("  zip ");
    CHECK(strstr(styled_line("zip"), "\x1b[2m") != NULL);
    pane_quit();
}

/* A window with twice the columns has a trend that is longer by as many. */
static void a_trend_uses_the_width_of_the_window(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    pane_begin(160, 24, FLAGS);
    SHOWS("TREND of ready, the last ");
    SHOWS("████████████████████████████████████████████████████████████████████████████████");
    pane_quit();
}

static void a_note_expires(void)
{
    server_choose(AT_MEMORY);
    pane_begin(80, 24, FLAGS);
    SHOWS("Enter open");
    pane_keys("r");
    SHOWS("Sorted by READY, reversed.");
    HIDES("Sorted by READY, reversed.");
    SHOWS("Enter open");
    pane_quit();
}

/* With a timeout of an hour, a command that waits for the server would be noticed. */
static void a_silent_server_does_not_block_quit(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "x");
    watch_patiently("1h");
    SHOWS("  mail ");
    kill(server_pid(), SIGSTOP);
    SHOWS("NO ANSWER for ");
    pane_keys("? x Enter Tab q r");
    SHOWS("reversed");
    pane_quit();
    kill(server_pid(), SIGCONT);
}

static void quit_waits_for_a_pending_action(void)
{
    server_choose(AT_MEMORY);
    put_job("mail", "the body");
    pane_begin(80, 24, FLAGS);
    SHOWS("  mail ");
    pane_keys("Enter");
    SHOWS("the body");
    kill(server_pid(), SIGSTOP);
    pane_keys("d y");
    SHOWS("job 1: sent, waiting for the reply");
    pane_keys("b");
    SHOWS("job 1: still waiting for the reply");
    pane_keys("q q");
    SHOWS("waiting for the reply about job 1");
    kill(server_pid(), SIGCONT);
    SHOWS("job 1 is deleted");
    pane_ended(0);
    EQ(count_jobs("mail", BIDE_STATE_READY), 0);
}

/* A kick is two calls: whether the topic is as it was, and the kick itself. */
static void quit_waits_for_a_pending_kick(void)
{
    server_choose(AT_MEMORY);
    char id[32];
    snprintf(id, sizeof(id), "%llu", (unsigned long long)put_job("mail", "x"));
    run_expect(0, "bury", id);
    pane_begin(80, 24, FLAGS " --sort buried");
    SHOWS("buried 1 ");
    pane_keys("K Enter");
    SHOWS("ready? y/N");
    kill(server_pid(), SIGSTOP);
    pane_keys("y");
    SHOWS("sent, waiting for the reply");
    pane_keys("q");
    SHOWS("waiting for the reply about");
    nap_ms(1000); /* looks are not waited for as long as that */
    kill(server_pid(), SIGCONT);
    pane_ended(0);
    EQ(count_jobs("mail", BIDE_STATE_READY), 1);
}

static const struct test tests[] = {
    TEST(without_a_terminal_top_is_rejected_and_starts_no_server),
    TEST(invalid_flags_are_rejected),
    TEST(unknown_terminal_type_is_reported),
    TEST(it_works_on_xterm),
    TEST(it_works_on_screen),
    TEST(it_works_on_tmux),
    TEST(it_works_on_linux),
    TEST(it_works_on_vt100),
    TEST(a_locale_without_utf8_gets_ascii),
    TEST(colors_are_on_by_default),
    TEST(no_color_turns_colors_off),
    TEST(color_never_turns_colors_off),
    TEST(color_always_turns_colors_on),
    TEST(windows_shrink_and_grow_while_it_runs),
    TEST(it_starts_in_a_window_that_is_too_small),
    TEST(signals_end_top_and_restore_the_terminal),
    TEST(the_previous_screen_is_restored),
    TEST(top_resumes_after_sigtstp),
    TEST(top_exits_when_the_terminal_hangs_up),
    TEST(server_loss_and_return_are_reported),
    TEST(a_silent_server_does_not_block_quit),
    TEST(a_dead_server_is_reported_soon_with_any_interval),
    TEST(the_cursor_and_the_headings_differ_in_colours),
    TEST(the_cursor_and_the_headings_differ_without_colours),
    TEST(zeros_are_dim),
    TEST(a_trend_uses_the_width_of_the_window),
    TEST(a_note_expires),
    TEST(quit_waits_for_a_pending_action),
    TEST(quit_waits_for_a_pending_kick),
};

const struct theme top_term_theme = {"top_term", tests, COUNT(tests)};
