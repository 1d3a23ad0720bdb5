/* SPDX-License-Identifier: MIT */
#include "cli/work/work.h"

#include "util/base64.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define VALUE_SIZE 280

enum field {
    ID,
    TOPIC,
    TOKEN,
    ATTEMPT,
    LAST,
    PRIORITY,
    TTR_MS,
    CREATED_MS,
    RESERVES,
    FAILURES,
    MAX_RETRIES,
    KEY,
    KEY_BASE64,
    FIELDS
};
_Static_assert(FIELDS == BI_WORK_METADATA_COUNT, "one line per field");

static const char *const names[FIELDS + 1] = {
    "BIDE_ID",          "BIDE_TOPIC",  "BIDE_TOKEN",      "BIDE_ATTEMPT",  "BIDE_LAST",
    "BIDE_PRIORITY",    "BIDE_TTR_MS", "BIDE_CREATED_MS", "BIDE_RESERVES", "BIDE_FAILURES",
    "BIDE_MAX_RETRIES", "BIDE_KEY",    "BIDE_KEY_BASE64", "BIDE_URL" /* not of a job */
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

/* BIDE_TTR_MS becomes Bide-Ttr-Ms. */
static void make_header_name(char *line)
{
    for (char *at = line + 1; *at != ':'; at++)
        *at = (char)(*at == '_' ? '-' : at[-1] == '-' ? *at : tolower((unsigned char)*at));
}

size_t bi_work_metadata_format(const bide_context *context, bool header,
                               char (*lines)[BI_WORK_METADATA_SIZE])
{
    const bide_job *job = bide_context_job(context);
    bool key_is_text = is_text(job, header);
    const long long numbers[FIELDS] = {
        [ID] = (long long)job->id,
        [TOKEN] = header ? -1 : (long long)job->token, /* a secret: not sent over the network */
        [ATTEMPT] = bide_context_attempt(context),
        [LAST] = bide_context_is_last(context),
        [PRIORITY] = job->priority,
        [TTR_MS] = job->ttr_ms,
        [CREATED_MS] = job->created_ms,
        [RESERVES] = job->reserves,
        [FAILURES] = job->failures,
        [MAX_RETRIES] = job->max_retries, /* negative: no limit */
    };
    size_t count = 0;

    assert(bi_base64_encoded_size(job->key_size) < VALUE_SIZE);
    for (int i = 0; i < FIELDS; i++) {
        char value[VALUE_SIZE] = "";
        if (i == TOPIC)
            snprintf(value, sizeof(value), "%s", job->topic);
        else if (i == KEY && key_is_text)
            snprintf(value, sizeof(value), "%.*s", (int)job->key_size, (const char *)job->key);
        else if (i == KEY_BASE64 && !key_is_text)
            bi_base64_encode(job->key, job->key_size, value);
        else if (i < KEY && numbers[i] >= 0)
            snprintf(value, sizeof(value), "%lld", numbers[i]);

        if (value[0] == 0)
            continue; /* the job has no such value */
        snprintf(lines[count], sizeof(lines[count]), "%s%s%s", names[i], header ? ": " : "=",
                 value);
        if (header)
            make_header_name(lines[count]);
        count++;
    }
    return count;
}

bool bi_work_metadata_is_reserved(const char *line)
{
    size_t size = strcspn(line, "=");

    for (int i = 0; i <= FIELDS; i++)
        if (strlen(names[i]) == size && strncmp(line, names[i], size) == 0)
            return true;
    return false;
}
