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
#define BIDE_CODES(X)                                                                     \
    X(BIDE_OK, 0, "done")                                                                 \
    X(BIDE_PENDING, 1, "the op has not completed yet")                                    \
    X(BIDE_NOT_FOUND, 2, "no such job, key or topic")                                     \
    X(BIDE_TIMED_OUT, 3, "the time to wait is over")                                      \
    X(BIDE_EXISTS, 4, "a live job of the topic holds this key")                           \
    X(BIDE_RESERVED, 5, "the job is reserved by somebody else")                           \
    X(BIDE_LEASE_LOST, 6, "the lease is no longer valid: it ran out, or was never yours") \
    X(BIDE_CANCEL_WANTED, 7, "done, and somebody wants this job to stop")                 \
    X(BIDE_TOUCH_LIMIT, 8, "the lease may not be extended any further now")               \
    X(BIDE_WRONG_STATE, 9, "the job is in a state that does not allow this")              \
    X(BIDE_TOO_BIG, 10, "the body, result or text is larger than the limit")              \
    X(BIDE_TOPIC_FULL, 11, "the topic holds as many jobs as max_jobs_per_topic allows")   \
    X(BIDE_TOO_MANY_TOPICS, 12, "there are as many topics as max_topics allows")          \
    X(BIDE_TOO_MANY_WAITERS, 13, "as many calls wait as max_waiters allows")              \
    X(BIDE_DRAINING, 14, "the queue is draining and takes no new jobs")                   \
    X(BIDE_CANCELLED, 15, "the op was cancelled by its owner")                            \
    X(BIDE_CLOSED, 16, "the queue was closed")                                            \
    X(BIDE_EINVAL, -1, "an argument is not valid")                                        \
    X(BIDE_ENOMEM, -2, "out of memory")                                                   \
    X(BIDE_EFULL, -3, "the memory or disk that the queue may use is full")                \
    X(BIDE_EIO, -4, "the store could not be read or written")                             \
    X(BIDE_EBUSY, -5, "too many ops are pending; try again when some have completed")     \
    X(BIDE_EUNKNOWN, -6, "the answer was lost; the call may or may not have happened")    \
    X(BIDE_ENOTSUP, -7, "this backend cannot do that")                                    \
    X(BIDE_ECALLBACK, -8, "a blocking call was made from a completion callback")          \
    X(BIDE_ESYSTEM, -9, "the operating system refused a resource")

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
