/* SPDX-License-Identifier: MIT */
/*
 * error.h - the codes that calls return.
 *
 * 0 is success. A positive code is an outcome that the caller handles: nothing is broken. A
 * negative code is a failure of the call itself. A call that does not return 0 (or
 * BIDE_CANCEL_WANTED) has changed nothing, with three exceptions: BIDE_EUNKNOWN; a kick or purge
 * that failed in the middle, whose count is the number of changes; and the finish of
 * finish_and_reserve, which has its own status.
 *
 * Any call may return BIDE_EINVAL, BIDE_ENOMEM, BIDE_EIO, BIDE_EUNKNOWN, BIDE_CLOSED and, if it
 * blocks, BIDE_ECALLBACK. The lists of codes in the headers omit these.
 */
#ifndef BIDE_ERROR_H
#define BIDE_ERROR_H

#if defined(__GNUC__)
#define BIDE_API __attribute__((visibility("default")))
#else
#define BIDE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The list of all codes: X(name, value, sentence). */
#define BIDE_CODES(X)                                                                      \
    X(BIDE_OK, 0, "done")                                                                  \
    X(BIDE_PENDING, 1, "the op has not completed yet")                                     \
    X(BIDE_NOT_FOUND, 2, "no such job, key or topic")                                      \
    X(BIDE_TIMED_OUT, 3, "timed out")                                                      \
    X(BIDE_EXISTS, 4, "a live job of the topic holds this key")                            \
    X(BIDE_RESERVED, 5, "the job is reserved")                                             \
    X(BIDE_LEASE_LOST, 6, "the lease is not valid: it has expired, or the token is wrong") \
    X(BIDE_CANCEL_WANTED, 7, "done, but a cancel of the job was requested")                \
    X(BIDE_TOUCH_LIMIT, 8, "the lease cannot be extended any further now")                 \
    X(BIDE_WRONG_STATE, 9, "not possible in the state of the job")                         \
    X(BIDE_TOO_BIG, 10, "the body, result or text is larger than the limit")               \
    X(BIDE_TOPIC_FULL, 11, "the topic holds as many jobs as it may")                       \
    X(BIDE_TOO_MANY_TOPICS, 12, "the queue has reached max_topics")                        \
    X(BIDE_TOO_MANY_WAITERS, 13, "the number of waiting calls has reached max_waiters")    \
    X(BIDE_DRAINING, 14, "the queue is draining and rejects new jobs")                     \
    X(BIDE_CANCELLED, 15, "the op was cancelled")                                          \
    X(BIDE_CLOSED, 16, "the queue is closed")                                              \
    X(BIDE_LIMITED, 17, "the topic has reached its concurrency or its rate")               \
    X(BIDE_EINVAL, -1, "invalid argument")                                                 \
    X(BIDE_ENOMEM, -2, "out of memory")                                                    \
    X(BIDE_EFULL, -3, "the memory or disk of the queue is full")                           \
    X(BIDE_EIO, -4, "the store cannot be read or written")                                 \
    X(BIDE_EBUSY, -5, "too many ops are pending; try again when some have completed")      \
    X(BIDE_EUNKNOWN, -6, "the reply was lost; the call may or may not have taken effect")  \
    X(BIDE_ENOTSUP, -7, "not supported by this backend")                                   \
    X(BIDE_ECALLBACK, -8, "a blocking call was made from a completion callback")           \
    X(BIDE_ESYSTEM, -9, "the operating system rejected a request for a resource")

enum bide_code {
#define BIDE_CODE_ENUM(name, value, sentence) name = (value),
    BIDE_CODES(BIDE_CODE_ENUM)
#undef BIDE_CODE_ENUM
};

/* The size of a buffer for an error message, with its final NUL. */
#define BIDE_ERROR_SIZE 200

/* The name of a code, as in this header; "BIDE_?" for an unknown number. */
BIDE_API const char *bide_code_name(int code);

/* The general meaning of a code; after a call bide_last_error() is more exact. */
BIDE_API const char *bide_code_text(int code);

/*
 * The error message of the last call of this thread: the operation, the object, the cause, and what
 * to do. Empty when that call returned 0; but a call on a list that returned 0 explains here why
 * the first rejected item was rejected. Valid until the thread's next call.
 */
BIDE_API const char *bide_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
