/* SPDX-License-Identifier: MIT */
/*
 * job_history_json - the history of a job as a JSON array of its failures, oldest first.
 */
#include "op/job_history.h"
#include "op/job_json.h"
#include "util/base64.h"

#include <string.h>

/* ---- encoding ---- */

static bool write_text(json_t *object, const char *name, bide_slice text)
{
    return text.size == 0 || bi_job_json_set_bytes(object, name, text.data, text.size);
}

static json_t *encode_failure(const bide_failure *failure)
{
    json_t *object =
        json_pack("{s:I,s:I,s:s}", "attempt", (json_int_t)failure->attempt, "at_ms",
                  (json_int_t)failure->at_ms, "kind", bide_failure_name(failure->kind));
    if (object != NULL && write_text(object, "holder", failure->holder) &&
        write_text(object, "error", failure->error))
        return object;
    json_decref(object);
    return NULL;
}

json_t *bi_job_history_json_encode(const bide_job *job)
{
    bide_failure failures[BIDE_HISTORY_MAX];
    size_t count = bide_job_history(job, failures, BIDE_HISTORY_MAX);
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && i < count; i++) {
        /* Takes the failure also when it fails. */
        if (json_array_append_new(array, encode_failure(&failures[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* ---- decoding ---- */

/* A failure that is being read, and its texts if they are base64. */
struct reader {
    bide_failure failure;
    unsigned char holder[BIDE_FAILURE_TEXT_MAX], error[BIDE_FAILURE_TEXT_MAX];
};

static bool read_number(const char *name, const json_t *value, int64_t max, int64_t *number,
                        char *error)
{
    *number = json_integer_value(value);
    if (!json_is_integer(value) || *number < 0 || *number > max)
        return bi_errmsg_set(error, "\"%s\" of a failure must be a number from 0 to %lld", name,
                             (long long)max);
    return true;
}

static bool read_kind(const json_t *value, bide_failure_kind *kind, char *error)
{
    const char *name = json_string_value(value);
    size_t length = json_string_length(value);
    for (int i = 0; name != NULL && i < BIDE_FAILURE_KINDS; i++) {
        const char *known = bide_failure_name((bide_failure_kind)i);
        if (strlen(known) == length && memcmp(name, known, length) == 0) {
            *kind = (bide_failure_kind)i;
            return true;
        }
    }
    return bi_errmsg_set(error, "\"kind\" of a failure must be failed, buried, timed_out, "
                                "disconnected or restarted");
}

static bool read_text(const char *name, const json_t *value, bool encoded, unsigned char *room,
                      bide_slice *text, char *error)
{
    const char *string = json_string_value(value);
    size_t length = json_string_length(value), size = length;

    if (string == NULL || (encoded && !bi_base64_decoded_size(string, length, &size)))
        return bi_errmsg_set(error, "\"%s\" of a failure must be %s", name,
                             encoded ? "base64" : "a string");
    if (text->data != NULL)
        return bi_errmsg_set(error, "\"%s\" of a failure repeats a text", name);
    if (size > BIDE_FAILURE_TEXT_MAX)
        return bi_errmsg_set(error, "\"%s\" of a failure has %zu bytes; %d are allowed", name, size,
                             BIDE_FAILURE_TEXT_MAX);
    if (encoded && !bi_base64_decode(string, length, room))
        return bi_errmsg_set(error, "\"%s\" of a failure must be base64", name);
    *text = (bide_slice){encoded ? (const void *)room : string, size};
    return true;
}

static bool read_member(const char *name, const json_t *value, struct reader *reader, char *error)
{
    bide_failure *failure = &reader->failure;
    int64_t number;

    if (strcmp(name, "attempt") == 0) {
        bool good = read_number(name, value, UINT32_MAX, &number, error);
        failure->attempt = good ? (uint32_t)number : 0;
        return good;
    }
    if (strcmp(name, "at_ms") == 0)
        return read_number(name, value, BIDE_TIMESTAMP_MAX_MS, &failure->at_ms, error);
    if (strcmp(name, "kind") == 0)
        return read_kind(value, &failure->kind, error);
    if (strcmp(name, "holder") == 0 || strcmp(name, "holder_base64") == 0)
        return read_text(name, value, name[6] != 0, reader->holder, &failure->holder, error);
    if (strcmp(name, "error") == 0 || strcmp(name, "error_base64") == 0)
        return read_text(name, value, name[5] != 0, reader->error, &failure->error, error);
    return bi_errmsg_set(error, "a failure has the unknown name \"%.60s\"", name);
}

static bool decode_failure(const json_t *object, struct reader *reader, char *error)
{
    const char *name;
    json_t *value;

    reader->failure = (bide_failure){.kind = BIDE_FAILURE_FAILED};
    if (!json_is_object(object))
        return bi_errmsg_set(error, "a failure in \"history\" must be a JSON object");
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (!read_member(name, value, reader, error))
            return false;
    }
    if (reader->failure.holder.size + reader->failure.error.size > BIDE_FAILURE_TEXT_MAX)
        return bi_errmsg_set(error,
                             "\"error\" and \"holder\" of a failure have %zu bytes; %d are "
                             "allowed",
                             reader->failure.holder.size + reader->failure.error.size,
                             BIDE_FAILURE_TEXT_MAX);
    return true;
}

bool bi_job_history_json_decode(const json_t *array, unsigned char *bytes, size_t *size,
                                char *error)
{
    struct reader reader;

    *size = 0;
    if (!json_is_array(array) || json_array_size(array) > BIDE_HISTORY_MAX)
        return bi_errmsg_set(error, "\"history\" must be an array of up to %d failures",
                             BIDE_HISTORY_MAX);
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!decode_failure(json_array_get(array, i), &reader, error))
            return false;
        *size += bi_job_history_encode(&reader.failure, bytes + *size);
    }
    return true;
}
