/* SPDX-License-Identifier: MIT */
#include "cli/work/work.h"

#include "util/base64.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define VALUE_SIZE 280

enum value { U64, I64, U32, RETRIES, ATTEMPT, LAST, TOPIC, KEY_TEXT, KEY_BASE64 };

#define AT(member) offsetof(bide_job, member)

static const struct field {
    const char *variable, *header;
    enum value value;
    size_t offset; /* of a number in bide_job */
} fields[BI_WORK_METADATA_COUNT] = {
    {"BIDE_ID", "Bide-Id", U64, AT(id)},
    {"BIDE_TOPIC", "Bide-Topic", TOPIC, 0},
    {"BIDE_TOKEN", NULL, U64, AT(token)}, /* a secret of this worker: not sent over the network */
    {"BIDE_ATTEMPT", "Bide-Attempt", ATTEMPT, 0},
    {"BIDE_LAST", "Bide-Last", LAST, 0},
    {"BIDE_PRIORITY", "Bide-Priority", U32, AT(priority)},
    {"BIDE_TTR_MS", "Bide-Ttr-Ms", I64, AT(ttr_ms)},
    {"BIDE_CREATED_MS", "Bide-Created-Ms", I64, AT(created_ms)},
    {"BIDE_RESERVES", "Bide-Reserves", U32, AT(reserves)},
    {"BIDE_FAILURES", "Bide-Failures", U32, AT(failures)},
    {"BIDE_MAX_RETRIES", "Bide-Max-Retries", RETRIES, 0},
    {"BIDE_KEY", "Bide-Key", KEY_TEXT, 0},
    {"BIDE_KEY_BASE64", "Bide-Key-Base64", KEY_BASE64, 0},
};

/* Can the key be a value as it is? header: visible ASCII with spaces only inside, else any text
 * without NUL. */
static bool is_text(const bide_job *job, bool header)
{
    const unsigned char *key = job->key;

    for (size_t i = 0; i < job->key_size; i++)
        if (key[i] == 0 || (header && (key[i] < ' ' || key[i] >= 0x7f)))
            return false;
    return !header || job->key_size == 0 || (key[0] != ' ' && key[job->key_size - 1] != ' ');
}

/* False: the job has no such value. */
static bool format_value(char *to, const struct field *field, const bide_context *context,
                         bool header)
{
    const bide_job *job = bide_context_job(context);
    const void *number = (const char *)job + field->offset;
    long long value = 0;

    switch (field->value) {
    case TOPIC:
        snprintf(to, VALUE_SIZE, "%s", job->topic);
        return true;
    case KEY_TEXT:
        snprintf(to, VALUE_SIZE, "%.*s", (int)job->key_size, (const char *)job->key);
        return job->key != NULL && is_text(job, header);
    case KEY_BASE64:
        if (job->key == NULL || is_text(job, header))
            return false;
        assert(bi_base64_encoded_size(job->key_size) < VALUE_SIZE);
        bi_base64_encode(job->key, job->key_size, to);
        to[bi_base64_encoded_size(job->key_size)] = 0;
        return true;
    case U64:
        value = (long long)*(const uint64_t *)number;
        break;
    case I64:
        value = *(const int64_t *)number;
        break;
    case U32:
        value = *(const uint32_t *)number;
        break;
    case RETRIES:
        value = job->max_retries;
        break;
    case ATTEMPT:
        value = bide_context_attempt(context);
        break;
    case LAST:
        value = bide_context_is_last(context);
        break;
    }
    snprintf(to, VALUE_SIZE, "%lld", value);
    return field->value != RETRIES || value >= 0; /* negative: no limit */
}

static size_t format_all(const bide_context *context, char (*lines)[BI_WORK_METADATA_SIZE],
                         bool header)
{
    size_t count = 0;

    for (size_t i = 0; i < BI_WORK_METADATA_COUNT; i++) {
        const char *name = header ? fields[i].header : fields[i].variable;
        char value[VALUE_SIZE];
        if (name != NULL && format_value(value, &fields[i], context, header))
            snprintf(lines[count++], BI_WORK_METADATA_SIZE, "%s%s%s", name, header ? ": " : "=",
                     value);
    }
    return count;
}

size_t bi_work_metadata_environment(const bide_context *context,
                                    char (*lines)[BI_WORK_METADATA_SIZE])
{
    return format_all(context, lines, false);
}

size_t bi_work_metadata_headers(const bide_context *context, char (*lines)[BI_WORK_METADATA_SIZE])
{
    return format_all(context, lines, true);
}

bool bi_work_metadata_is_reserved(const char *line)
{
    size_t size = strcspn(line, "=");

    if (size == strlen("BIDE_URL") && strncmp(line, "BIDE_URL", size) == 0)
        return true;
    for (size_t i = 0; i < BI_WORK_METADATA_COUNT; i++)
        if (strlen(fields[i].variable) == size && strncmp(line, fields[i].variable, size) == 0)
            return true;
    return false;
}
