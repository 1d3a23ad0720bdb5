/* SPDX-License-Identifier: MIT */
#include "cli/work/work.h"

#include "util/base64.h"

#include <stdio.h>
#include <string.h>

#define VALUE_SIZE 280 /* a topic, or a key in base64 */

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
    FIELDS,
    /* Not of a job. */
    URL = FIELDS,
    NEXT_FD,
    NAMES
};
_Static_assert(FIELDS == BI_WORK_METADATA_COUNT, "one line per field");

static const char *const names[NAMES] = {
    [ID] = "BIDE_ID",
    [TOPIC] = "BIDE_TOPIC",
    [TOKEN] = "BIDE_TOKEN",
    [ATTEMPT] = "BIDE_ATTEMPT",
    [LAST] = "BIDE_LAST",
    [PRIORITY] = "BIDE_PRIORITY",
    [TTR_MS] = "BIDE_TTR_MS",
    [CREATED_MS] = "BIDE_CREATED_MS",
    [RESERVES] = "BIDE_RESERVES",
    [FAILURES] = "BIDE_FAILURES",
    [MAX_RETRIES] = "BIDE_MAX_RETRIES",
    [KEY] = "BIDE_KEY",
    [KEY_BASE64] = "BIDE_KEY_BASE64",
    [URL] = "BIDE_URL",
    [NEXT_FD] = "BIDE_NEXT_FD",
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
        if (*at == '_')
            *at = '-';
        else if (at[-1] != '-' && *at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
}

size_t bi_work_metadata_format(const bide_context *context, bool header,
                               char (*lines)[BI_WORK_METADATA_SIZE])
{
    const bide_job *job = bide_context_job(context);
    bool key_fits = job->key_size <= BIDE_KEY_MAX; /* the key of a faulty server may not */
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

    for (int i = 0; i < FIELDS; i++) {
        char value[VALUE_SIZE] = "";
        if (i == TOPIC)
            snprintf(value, sizeof(value), "%s", job->topic);
        else if (i == KEY && key_fits && key_is_text)
            snprintf(value, sizeof(value), "%.*s", (int)job->key_size, (const char *)job->key);
        else if (i == KEY_BASE64 && key_fits && !key_is_text)
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

    for (int i = 0; i < NAMES; i++)
        if (strlen(names[i]) == size && strncmp(line, names[i], size) == 0)
            return true;
    return false;
}
