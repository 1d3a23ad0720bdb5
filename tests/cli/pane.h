/* SPDX-License-Identifier: MIT */
/*
 * pane - a real terminal, which tmux is, for what takes the whole of it.
 *
 * A shell runs in it, and bide in the shell. Keys are named as tmux names them; what is on the
 * screen is looked at until it is as it should be.
 */
#ifndef PANE_H
#define PANE_H

#include "cli_test.h"

/* Starts `bide --url QUEUE top FLAGS` in a terminal of this size. More environment by
 * pane_set("NO_COLOR=1 ") before it; TERM is "xterm-256color" unless that says another. */
void pane_set(const char *assignments);
void pane_begin(int columns, int rows, const char *flags);

/* "Down Down Enter": one after another. And text as it is. */
void pane_keys(const char *keys);
void pane_type(const char *text);
void pane_resize(int columns, int rows);

/* The screen as it is now, its lines ended by newlines; styled: with colours and the like. */
const char *pane_text(bool styled);
/* The line of the screen, from 0 on, that matches now; -1: none. */
int pane_line(const char *pattern);

/* Waits until a line of the screen matches the pattern (of fnmatch, anywhere in the line); until
 * none does. */
#define SHOWS(pattern) pane_await_at(HERE, (pattern), true)
#define HIDES(pattern) pane_await_at(HERE, (pattern), false)
void pane_await_at(struct where at, const char *pattern, bool shown);

/* The process of bide in it. */
pid_t pane_pid(void);

/* Waits for the end of bide with this code, and that the terminal is as it was. */
#define pane_ended(code) pane_ended_at(HERE, (code))
void pane_ended_at(struct where at, int code);
/* Quits from the list of topics. */
#define pane_quit() (pane_keys("q"), pane_ended(0))
/* Takes the terminal away. */
void pane_close(void);

#endif
