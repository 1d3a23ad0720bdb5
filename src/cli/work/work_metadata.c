/* SPDX-License-Identifier: MIT */
#include "cli/work/work_metadata.h"

#include "util/base64.h"

#include <stdio.h>
#include <string.h>

#define VALUE_SIZE 280

/* Writes a value; false when the job has none. */
typedef bool write_value(char *to, const bide_context *context, const bide_job *job);

/* A value that is a number of the job. */
#define NUMBER(name_, value_)                                                             \
    static bool write_##name_(char *to, const bide_context *context, const bide_job *job) \
    {                                                                                     \
        (void)context;                                                                    \
        snprintf(to, VALUE_SIZE, "%lld", (long long)(value_));                            \
        return (job) != NULL;                                                             \
    }

NUMBER(id, job->id)
NUMBER(token, job->token)
NUMBER(attempt, bide_context_attempt(context))
NUMBER(last, bide_context_is_last(context))
NUMBER(priority, job->priority)
NUMBER(ttr, job->ttr_ms)
NUMBER(created, job->created_ms)
NUMBER(reserves, job->reserves)
NUMBER(failures, job->failures)

static bool write_topic(char *to, const bide_context *context, const bide_job *job)
{
    (void)context;
    snprintf(to, VALUE_SIZE, "%s", job->topic);
    return true;
}

static bool write_max_retries(char *to, const bide_context *context, const bide_job *job)
{
    (void)context;
    snprintf(to, VALUE_SIZE, "%d", job->max_retries);
    return job->max_retries >= 0;
}

static bool write_key(char *to, const bide_context *context, const bide_job *job)
{
    (void)context;
    snprintf(to, VALUE_SIZE, "%.*s", (int)job->key_size, (const char *)job->key);
    return job->key != NULL;
}

static bool write_key_base64(char *to, const bide_context *context, const bide_job *job)
{
    (void)context;
    if (job->key == NULL)
        return false;
    bi_base64_encode(job->key, job->key_size, to);
    to[bi_base64_encoded_size(job->key_size)] = 0;
    return true;
}

enum form { ALWAYS, IF_TEXT, IF_BYTES };

static const struct {
    const char *variable, *header;
    write_value *write;
    enum form form;
} fields[BI_WORK_METADATA_COUNT] = {
    {"BIDE_ID", "Bide-Id", write_id, ALWAYS},
    {"BIDE_TOPIC", "Bide-Topic", write_topic, ALWAYS},
    {"BIDE_TOKEN", NULL, write_token, ALWAYS}, /* nobody on the network needs it */
    {"BIDE_ATTEMPT", "Bide-Attempt", write_attempt, ALWAYS},
    {"BIDE_LAST", "Bide-Last", write_last, ALWAYS},
    {"BIDE_PRIORITY", "Bide-Priority", write_priority, ALWAYS},
    {"BIDE_TTR_MS", "Bide-Ttr-Ms", write_ttr, ALWAYS},
    {"BIDE_CREATED_MS", "Bide-Created-Ms", write_created, ALWAYS},
    {"BIDE_RESERVES", "Bide-Reserves", write_reserves, ALWAYS},
    {"BIDE_FAILURES", "Bide-Failures", write_failures, ALWAYS},
    {"BIDE_MAX_RETRIES", "Bide-Max-Retries", write_max_retries, ALWAYS},
    {"BIDE_KEY", "Bide-Key", write_key, IF_TEXT},
    {"BIDE_KEY_BASE64", "Bide-Key-Base64", write_key_base64, IF_BYTES},
};

static bool is_text(const bide_job *job, bool visible)
{
    const unsigned char *key = job->key;
    for (size_t i = 0; i < job->key_size; i++)
        if (key[i] == 0 || (visible && (key[i] < ' ' || key[i] >= 0x7f)))
            return false;
    return !visible || job->key_size == 0 || (key[0] != ' ' && key[job->key_size - 1] != ' ');
}

static size_t format_all(const bide_context *context, char (*lines)[BI_WORK_METADATA_SIZE],
                         bool headers)
{
    const bide_job *job = bide_context_job(context);
    enum form form = is_text(job, headers) ? IF_TEXT : IF_BYTES;
    size_t count = 0;
    for (size_t i = 0; i < BI_WORK_METADATA_COUNT; i++) {
        char value[VALUE_SIZE];
        if ((headers && fields[i].header == NULL) ||
            (fields[i].form != ALWAYS && fields[i].form != form) ||
            !fields[i].write(value, context, job))
            continue;
        snprintf(lines[count++], BI_WORK_METADATA_SIZE, "%s%s%s",
                 headers ? fields[i].header : fields[i].variable, headers ? ": " : "=", value);
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
    bool ours = size == strlen("BIDE_URL") && strncmp(line, "BIDE_URL", size) == 0;
    for (size_t i = 0; i < BI_WORK_METADATA_COUNT; i++)
        ours = ours ||
               (strlen(fields[i].variable) == size && strncmp(line, fields[i].variable, size) == 0);
    return ours;
}
