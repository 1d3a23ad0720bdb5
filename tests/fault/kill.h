/* SPDX-License-Identifier: MIT */
/*
 * kill - a queue whose process is killed again and again.
 *
 * A round: a process opens the file and works on it with several threads until it is killed. What
 * its threads were about to do and what was acknowledged stands in memory that outlives it. Another
 * process opens the file, compares, makes room, and ends. The next round goes on with the file.
 *
 * A job is known by a serial number, which is in its ttr, so that it is recognised even if nobody
 * was told its id. The serial gives its body, too.
 *
 * Ordering   Each thread makes one call at a time. Topics of a thread are touched by no other
 *            thread; from the shared one every thread takes, and acts with a lease only. So the
 *            calls on one job come one after another, in the order in which they began, or, of a
 *            reserve, in which it was answered.
 */
#ifndef FAULT_KILL_H
#define FAULT_KILL_H

#include "fault.h"

#define THREADS     4
#define TOPICS      (THREADS + 1) /* one each, and the last is for all */
#define SHARED      THREADS
#define ENTRIES_MAX 4000 /* calls of a thread in one round */
#define JOBS_MAX    1000000
#define TOKENS_MAX  1000000
#define TTR_BASE_MS INT64_C(1000000)

enum call { CALL_NONE, PUT, RESERVE, DELETE, DONE, BURY, RELEASE, FAILED, UPDATE, KICK };
enum stage { NOT_BEGUN, BEGUN, ANSWERED };

/* When a job is due. */
enum due { DUE_NOW, DUE_SOON, DUE_LATER };

/* One call of a thread. */
struct entry {
    _Atomic int stage;
    enum call call;
    int code;
    int topic;
    uint64_t order;  /* rises over all threads and rounds */
    uint64_t serial; /* of the job; a reserve knows it when it is answered */
    uint64_t id;     /* as answered by the put */
    uint64_t token;
    uint32_t priority; /* that the call gives the job */
    enum due due;
};

/* A job as it must be, or may be. */
struct form {
    bool exists;
    bide_state state;
    uint32_t priority;
    enum due due;
    uint32_t failures;
};

/* What is fixed when a job is put, and its form. */
struct known {
    uint64_t id; /* 0: the put was not acknowledged */
    int topic;
    int32_t max_retries; /* -1: none */
    bool has_key;
    uint64_t buried; /* the order of its burial; 0: not by a call */
    uint64_t token;  /* of the lease that ended with the process */
    struct form form;
};

/* Everything that outlives the processes. */
struct shared {
    _Atomic uint64_t order;
    _Atomic uint64_t serial;
    _Atomic int acknowledged; /* something was, in this round */
    uint64_t highest_id;      /* seen in the rounds before */
    uint64_t token_count;
    struct entry entries[THREADS][ENTRIES_MAX];
    uint64_t tokens[TOKENS_MAX];
    struct known jobs[JOBS_MAX]; /* by serial */
};

extern struct shared *shared;
extern const char *const kill_topics[TOPICS];

/* Works on the queue until it is killed. Does not return. */
void kill_work(const char *url, uint64_t seed) __attribute__((noreturn));

/* Opens the file, compares it with the log, and makes room. False: something is wrong, and was
 * told. tidily: the file is closed at the end; else the process just ends. */
bool kill_check(const char *url, uint64_t seed, bool tidily);

#endif
