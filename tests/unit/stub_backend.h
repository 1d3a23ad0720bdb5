/* SPDX-License-Identifier: MIT */
/*
 * stub_backend - a queue whose backend completes ops as and when the test says.
 *
 * It has no jobs of its own: a reserve gets a job that the test adds. Every other op completes by
 * the rule of its kind: within submit, through its completion queue, or when the test releases it.
 * Submitted ops are recorded, and a test can wait for one.
 */
#ifndef BI_UNIT_STUB_BACKEND_H
#define BI_UNIT_STUB_BACKEND_H

#include "unit.h"

#include "op/op_args.h"
#include "queue/queue.h"
#include "util/clock.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STUB_IDS     64  /* job ids are below this */
#define STUB_HELD    256 /* ops held at a time */
#define STUB_RECORDS 4096
#define TOKEN_OF(id) ((id) + 1000)

/* Only a failing test waits this long. */
#define PATIENCE_US 30000000

enum stub_mode {
    AT_ONCE, /* within submit */
    THROUGH_CQ,
    HELD, /* until the test releases it */
};

struct stub_rule {
    enum stub_mode way;
    int code;
    int first[8]; /* codes of the next ops, used before code */
    size_t first_count;
};

/* A submitted op. */
struct stub_record {
    bide_op_kind kind;
    uint64_t id;
    int64_t delay_ms; /* of a release, or of the retry that a fail asks for */
    int delta;        /* of a topic_ref */
    size_t count;     /* items of a touch_many */
    uint64_t ids[8];  /* the first of them */
    char text[80];    /* an error, a reason, a result, the progress of the first item, a topic */
    int64_t at;       /* time of the submit */
};

struct stub {
    struct backend base;
    struct bide queue;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct stub_rule rules[BIDE_OP_COUNT];
    int touch_codes[STUB_IDS]; /* of items */
    bool cancel_wanted[STUB_IDS];
    bide_state fail_state;
    bide_job ready[STUB_IDS];
    size_t ready_count;
    bide_op *held[STUB_HELD];
    size_t held_count;
    struct stub_record notes[STUB_RECORDS];
    size_t note_count;
    unsigned feeds; /* open subscriptions */
    bool closed;
    bool serves_cancelled; /* a cancelled reserve completes with a job */
    /* Called for every op before it is run, with no lock held; may be NULL. */
    void (*before)(struct stub *stub, bide_op_kind kind);
    void *user;
};

/* Completes the oldest held op of a kind; false if there is none. */
bool stub_release(struct stub *stub, bide_op_kind kind, int code);
struct stub *stub_new(void);
void stub_free(struct stub *stub);
void stub_rule(struct stub *stub, bide_op_kind kind, enum stub_mode way, int code);

/* Only the next op of the kind completes with this code. */
void stub_once(struct stub *stub, bide_op_kind kind, int code);
bide_job stub_job(uint64_t id, int64_t ttr_ms);

/* Makes a job available to the next reserve. */
void stub_add_job(struct stub *stub, bide_job job);

/* Delivers a request to cancel a job (0: none) and a number of lost events to a waiting reader of
 * events; false if there is none. */
bool stub_emit_event(struct stub *stub, uint64_t id, uint64_t lost);
size_t stub_count(struct stub *stub, bide_op_kind kind, uint64_t id);

/* Waits for the nth op of a kind (from 1) for a job (0: any). */
struct stub_record stub_await(struct stub *stub, bide_op_kind kind, uint64_t id, size_t nth);

#endif
