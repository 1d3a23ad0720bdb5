/* SPDX-License-Identifier: MIT */
/*
 * op_table - what every layer knows of an op: one row per kind.
 *
 * The name and the number are in BIDE_OPS (bide/op.h), all else is in op_table.c. Checks, copies,
 * encoding, the recovery gate and the resend policy read the row; no other file has a table or a
 * switch over kinds, except for the functions that run an op (those of the core, and the commands
 * of a client).
 *
 * The layouts list the members of the arguments and results. What follows from them is not in the
 * row: which jobs and topics an op names, what must be copied for an op that waits (op_args.h), and
 * which snapshots and buffers it returns (op_result.h).
 *
 * A kind without a row does not compile. test_op_table.c finds a row without a check or without
 * arguments, and proves that rows and layouts agree.
 */
#ifndef BI_OP_TABLE_H
#define BI_OP_TABLE_H

#include <bide/bide.h>

struct layout;

enum op_flag {
    OP_IMMEDIATE = 1 << 0,      /* never held for a commit; runs also while the store fails */
    OP_INSERTS_JOBS = 1 << 1,   /* rejected while the store is full */
    OP_RESERVES = 1 << 2,       /* returns leases; not allowed after shutdown */
    OP_TWO_PARTS = 1 << 3,      /* a finish, which may succeed although the reserve fails */
    OP_UNDO_ON_CANCEL = 1 << 4, /* a cancel undoes the reservation, even after success */
    OP_COUNTS = 1 << 5,         /* changes many jobs in slices and counts them, also on failure */
    OP_NEEDS_RECOVERY =
        1 << 6,              /* depends on jobs that it does not name: waits until all are loaded */
    OP_MAINTENANCE = 1 << 7, /* a persistent queue runs it on the maintenance thread, */
    OP_EXCLUSIVE = 1 << 8,   /* one at a time */
    OP_REPEATABLE = 1 << 9,  /* may be sent twice: a query, or a reserve, whose lease expires */
    OP_ADMIN = 1 << 10,      /* an operator's op: the server logs it */
    OP_SLOW = 1 << 11,       /* may visit thousands of jobs or topics and take a millisecond */
    OP_PAGE = 1 << 12,       /* returns a page of a listing */
    OP_BODIES = 1 << 13,     /* returns bodies, */
    OP_RESULTS = 1 << 14,    /* or the result of a job */
    OP_ATOMIC = 1 << 16,     /* a list that succeeds or fails as a whole */
    OP_PAYLOAD = 1 << 15,    /* has bodies or results, which are copied (op_args.h) */
};

/* A rule of one argument. */
struct op_rule {
    int (*check)(bide_op *op, const char *what, const void *member); /* NULL: the end of a list */
    const char *name;
    uint16_t at; /* the offset of the argument in the op */
};

struct op_row {
    const char *name;
    uint8_t name_size;
    uint16_t
        timeout_at; /* the offset of timeout_ms in the op; 0: the op never waits for an event */
    uint16_t reserve_at; /* the offset of its bide_reserve_args; 0: none */
    uint16_t holder_at;  /* the offset of the name of the holder; 0: the op reserves no job */
    uint32_t flags;
    int alt_ok; /* a second code of success; BIDE_OK: none */
    /* Of members of the op: */
    const struct layout *args;
    const struct layout *results_any; /* results that do not depend on the code; may be NULL */
    const struct layout *results_ok;  /* results on success; may be NULL */
    /* The checks of the arguments: the rules first, then the function; either may be NULL. */
    const struct op_rule *rules;
    int (*check)(const bide_options *options, bide_op *op);
    /* Whether these arguments make it depend on jobs that it does not name; may be NULL. */
    bool (*needs_recovery)(const bide_op *op);
    /* Restores arguments that are results, too; may be NULL. */
    void (*undo)(bide_op *op);
};

extern const struct op_row bi_op_table[BIDE_OP_COUNT];

/* ---- checks of arguments, as far as that needs no state of the queue (op_check.c) ---- */

/* A check returns a code and writes the message of the op. The items of a list are checked one by
 * one; an invalid item fails alone, and the others proceed. */

/* BIDE_OK, or a code and the message of the op. The limits of body and result are in options. */
int bi_op_check(const bide_options *options, bide_op *op);

/* Sets the error text of an op that is rejected, with its name in front. Returns the code. */
int bi_op_reject(bide_op *op, int code, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));

/* True for a topic name: 1 to 200 of the allowed bytes, not beginning with '-'. */
bool bi_topic_name_valid(bide_slice name);

/* The rules of single arguments. `what` names the argument in a message; some need no name. */
typedef int op_rule_check(bide_op *op, const char *what, const void *member);
op_rule_check bi_op_check_topic, bi_op_check_any_topic, bi_op_check_slice, bi_op_check_key,
    bi_op_check_duration, bi_op_check_duration_or_keep, bi_op_check_duration_or_forever,
    bi_op_check_priority, bi_op_check_pointer, bi_op_check_count, bi_op_check_event_count,
    bi_op_check_state, bi_op_check_any_state, bi_op_check_state_set, bi_op_check_fail_kind,
    bi_op_check_text, bi_op_check_cursor, bi_op_check_ending, bi_op_check_holder;

/* The checks of all arguments that the rules do not cover. */
typedef int op_check(const bide_options *options, bide_op *op);
op_check bi_op_check_put, bi_op_check_put_many, bi_op_check_restore, bi_op_check_reserve,
    bi_op_check_done, bi_op_check_finish_many, bi_op_check_finish_and_reserve,
    bi_op_check_finish_and_put, bi_op_check_touch, bi_op_check_touch_many, bi_op_check_update,
    bi_op_check_announce, bi_op_check_why, bi_op_check_purge, bi_op_check_list,
    bi_op_check_topic_ref, bi_op_check_topic_set, bi_op_check_find, bi_op_check_subscribe,
    bi_op_check_backup;

/* ---- access to rows ---- */

static inline bool bi_op_is_kind(int kind)
{
    return kind > BIDE_OP_NONE && kind < BIDE_OP_COUNT;
}

static inline const struct op_row *bi_op_row(const bide_op *op)
{
    return &bi_op_table[op->kind];
}

/* True if the op has one of these flags. */
static inline bool bi_op_is(const bide_op *op, unsigned flags)
{
    return (bi_op_table[op->kind].flags & flags) != 0;
}

/* Whether a completed op with this code has its results. */
static inline bool bi_op_succeeded(const bide_op *op, int code)
{
    return code == BIDE_OK || code == bi_op_row(op)->alt_ok;
}

/* timeout_ms of the op; NULL for a kind that never waits for an event. */
static inline int64_t *bi_op_timeout(bide_op *op)
{
    size_t at = bi_op_row(op)->timeout_at;
    return at == 0 ? NULL : (int64_t *)(void *)((char *)op + at);
}

/* The reserve arguments of an op, or NULL. */
static inline bide_reserve_args *bi_op_reserve_args(bide_op *op)
{
    size_t at = bi_op_row(op)->reserve_at;
    return at == 0 ? NULL : (bide_reserve_args *)(void *)((char *)op + at);
}

/* The name of the holder of the jobs that an op reserves, or NULL. */
static inline bide_slice *bi_op_holder(bide_op *op)
{
    size_t at = bi_op_row(op)->holder_at;
    return at == 0 ? NULL : (bide_slice *)(void *)((char *)op + at);
}

/* The finish of an op with two parts, or NULL. */
static inline bide_finish_item *bi_op_finish_part(bide_op *op)
{
    return bi_op_is(op, OP_TWO_PARTS) ? &op->finish_and_reserve.finish : NULL;
}

/* The bits of private_.flags, by the layer that sets them. */
enum {
    /* core */
    BI_BODY_MISSING = 1 << 0,    /* the op succeeds and returns jobs whose bodies are not in memory.
                                     Do not reply before bi_body_fetch_supply() allows it. Leases of
                                     its jobs do not run meanwhile. If private_.waiter is NULL, the
                                     arguments must stay valid until then. */
    BI_SLICING = 1 << 1,         /* a sliced op that has begun, */
    BI_SLICING_DELAYED = 1 << 2, /* that kicks delayed jobs, */
    BI_SLICING_KICK_SET = 1 << 3, /* which are in a kick set, */
    BI_SLICING_CHECK = 1 << 4,    /* that is a check */

    /* queue */
    BI_CHECKED = 1 << 7,        /* the arguments are valid */
    BI_PAYLOAD_COPIED = 1 << 8, /* copies of bodies or results were made */
    BI_SUBMITTED = 1 << 9,      /* the op is submitted and not completed */
    BI_OTHER_SIZE = 1 << 10,    /* put options have another size than ours, */
    BI_COPY_OPTIONS = 1 << 11,  /* and copies of them are in use */

    /* local */
    BI_CANCEL_REQUESTED = 1 << 16,   /* a cancel was requested while the op could not be cancelled,
                                      because its job or its bodies were being read. If the op would
                                      then have to wait, it is cancelled instead. */
    BI_HELD = 1 << 17,               /* the core has run the op, and it is held for a commit */
    BI_DEFERRED = 1 << 18,           /* the op waits for the end of recovery, not only for the jobs
                                      that it names */
    BI_MAINTENANCE_QUEUED = 1 << 19, /* the op waits for the maintenance thread */
};

#endif
