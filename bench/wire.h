/* SPDX-License-Identifier: MIT */
/*
 * wire - a connection to a server that speaks the beanstalkd protocol, as the benchmarks use it.
 *
 * What is here blocks, and is for making ready what is measured. An answer other than the expected
 * one ends the program with both: a figure that was measured on errors is worth nothing.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "127.0.0.1:11300" or "unix:/path". Longer ones are refused. */
#define WIRE_ADDRESS_SIZE 320

/* As many open files as the system allows this process and its children. */
void wire_allow_files(void);

/* Answers -1 if no server listens there yet. */
int wire_try_connect(const char *address);
int wire_connect(const char *address);

/* Writes all of it, and reads exactly what is expected. */
void wire_send(int fd, const char *text, size_t size);
void wire_ask(int fd, const char *text, const char *expected);

/* Uses and watches only that tube. */
void wire_take_tube(int fd, const char *tube);

/* The number behind "key:" in the answer to a stats command. */
uint64_t wire_stat(int fd, const char *command, const char *key);

/* Asks again until the number is that large; gives up, with the program, after a while. */
void wire_await_stat(int fd, const char *command, const char *key, uint64_t at_least);

void wire_unblock(int fd);

#endif
