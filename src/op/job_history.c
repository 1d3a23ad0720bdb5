/* SPDX-License-Identifier: MIT */
#include "op/job_history.h"

#include "util/alloc.h"
#include "util/message.h"

#include <assert.h>
#include <string.h>

/* The places of the members of a record, and their sizes. */
enum {
    KIND_AT = 0,
    KIND_SIZE = 1,
    TIME_AT = 1,
    TIME_SIZE = 7,
    ATTEMPT_AT = 8,
    ATTEMPT_SIZE = 4,
    HOLDER_AT = 12,
    ERROR_AT = 14,
    LENGTH_SIZE = 2,
    TEXTS_AT = BI_JOB_HISTORY_HEADER,
};

static void write_number(unsigned char *to, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (unsigned char)(number >> (8 * i));
}

static uint64_t read_number(const unsigned char *from, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++)
        number |= (uint64_t)from[i] << (8 * i);
    return number;
}

/* Returns the size of the record, or 0 if the bytes begin with none. */
static size_t decode_record(const unsigned char *bytes, size_t size, bide_failure *failure)
{
    if (size < TEXTS_AT)
        return 0;

    uint64_t kind = read_number(bytes + KIND_AT, KIND_SIZE);
    uint64_t at_ms = read_number(bytes + TIME_AT, TIME_SIZE);
    size_t holder = read_number(bytes + HOLDER_AT, LENGTH_SIZE);
    size_t error = read_number(bytes + ERROR_AT, LENGTH_SIZE);
    if (kind >= BIDE_FAILURE_KINDS || at_ms > (uint64_t)BIDE_TIMESTAMP_MAX_MS ||
        holder + error > BIDE_FAILURE_TEXT_MAX || holder + error > size - TEXTS_AT)
        return 0;

    *failure = (bide_failure){
        .kind = (bide_failure_kind)kind,
        .attempt = (uint32_t)read_number(bytes + ATTEMPT_AT, ATTEMPT_SIZE),
        .at_ms = (int64_t)at_ms,
        .holder = {bytes + TEXTS_AT, holder},
        .error = {bytes + TEXTS_AT + holder, error},
    };
    return TEXTS_AT + holder + error;
}

/* Decodes the records up to the end, a malformed one, or the maximum. Returns the bytes they take. */
static size_t decode(const void *data, size_t size, bide_failure *failures, size_t *count)
{
    const unsigned char *bytes = data;
    size_t used = 0;

    for (*count = 0; *count < BIDE_HISTORY_MAX && used < size; ++*count) {
        size_t record = decode_record(bytes + used, size - used, &failures[*count]);
        if (record == 0)
            break;
        used += record;
    }
    return used;
}

bool bi_job_history_is_valid(const void *data, size_t size)
{
    bide_failure failures[BIDE_HISTORY_MAX];
    size_t count;
    return decode(data, size, failures, &count) == size;
}

size_t bi_job_history_decode(const void *data, size_t size, bide_failure failures[BIDE_HISTORY_MAX])
{
    size_t count;
    decode(data, size, failures, &count);
    return count;
}

size_t bi_job_history_encode(const bide_failure *failure, unsigned char *to)
{
    assert((unsigned)failure->kind < BIDE_FAILURE_KINDS);
    assert(failure->at_ms >= 0 && failure->at_ms <= BIDE_TIMESTAMP_MAX_MS);
    size_t holder =
        bi_text_utf8_fit(failure->holder.data, failure->holder.size, BIDE_FAILURE_TEXT_MAX);
    size_t error =
        bi_text_utf8_fit(failure->error.data, failure->error.size, BIDE_FAILURE_TEXT_MAX - holder);

    write_number(to + KIND_AT, failure->kind, KIND_SIZE);
    write_number(to + TIME_AT, (uint64_t)failure->at_ms, TIME_SIZE);
    write_number(to + ATTEMPT_AT, failure->attempt, ATTEMPT_SIZE);
    write_number(to + HOLDER_AT, holder, LENGTH_SIZE);
    write_number(to + ERROR_AT, error, LENGTH_SIZE);
    if (holder > 0)
        memcpy(to + TEXTS_AT, failure->holder.data, holder);
    if (error > 0)
        memcpy(to + TEXTS_AT + holder, failure->error.data, error);
    return TEXTS_AT + holder + error;
}

bide_buf *bi_job_history_add(const bide_buf *history, const bide_failure *failure)
{
    const unsigned char *old = bide_buf_data(history);
    size_t old_size = bide_buf_size(history);
    bide_failure failures[BIDE_HISTORY_MAX];
    unsigned char record[BI_JOB_HISTORY_HEADER + BIDE_FAILURE_TEXT_MAX];

    assert(bi_job_history_is_valid(old, old_size));
    size_t size = bi_job_history_encode(failure, record);
    if (bi_job_history_decode(old, old_size, failures) == BIDE_HISTORY_MAX) {
        size_t dropped = TEXTS_AT + failures[0].holder.size + failures[0].error.size;
        old += dropped;
        old_size -= dropped;
    }

    void *bytes;
    bide_buf *added = bi_buf_alloc(old_size + size, &bytes);
    if (added == NULL)
        return NULL;
    if (old_size > 0)
        memcpy(bytes, old, old_size);
    memcpy((unsigned char *)bytes + old_size, record, size);
    return added;
}

size_t bide_job_history(const bide_job *job, bide_failure *failures, size_t max)
{
    bide_failure all[BIDE_HISTORY_MAX];
    if (job == NULL || failures == NULL || job->history == NULL)
        return 0;

    size_t count = bi_job_history_decode(job->history, job->history_size, all);
    size_t copied = count < max ? count : max;
    memcpy(failures, all + (count - copied), copied * sizeof(*failures));
    return copied;
}
