/* SPDX-License-Identifier: MIT */
#include "schedule/schedule.h"

#include "op/job_fields.h"
#include "op/job_json.h"
#include "op/op_table.h"
#include "util/base64.h"
#include "util/datetime.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

BI_SIZED_STRUCT_ENDS_WITH(bide_schedule, problem);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the table ---- */

enum kind {
    TEXT,     /* const char * */
    BYTES,    /* bide_slice; also in base64, under the name with _base64 */
    NUMBER,   /* by the size of the member */
    DURATION, /* a number; also a text under the name without _ms */
    MOMENT,   /* the same: a timestamp */
    FLAG,
    STATE, /* an enum, as its name; and so are the next two */
    MISFIRE,
    OVERLAP,
};

struct field {
    const char *name;
    enum kind kind;
    enum schedule_form form; /* the first form that has it */
    bool option;             /* a member of bide_put_options */
    size_t offset, size;
    int64_t min, max, absent;
    /* The policy of the topic may have a default for it: the number that means "none" excludes it,
     * and the member is BIDE_NO_DEFAULT. */
    bool has_default;
};

#define DEF(member) false, offsetof(bide_schedule, member), sizeof(((bide_schedule *)0)->member)
#define OPTION(member) \
    true, offsetof(bide_put_options, member), sizeof(((bide_put_options *)0)->member)
#define NUMBERS(min, max) min, max, 0, false
#define NO_LIMITS         NUMBERS(0, 0)
#define RANGE_TIME        NUMBERS(0, BIDE_TIME_MAX_MS)
#define RANGE_MOMENT      NUMBERS(0, BIDE_TIMESTAMP_MAX_MS)
#define RANGE_DEFAULT     0, BIDE_TIME_MAX_MS, 0, true

/* The options that each field of a job adds. */
#define KIND_RETRIES    NUMBER
#define KIND_COUNT      NUMBER
#define KIND_DURATION   DURATION
#define KIND_TIMESTAMP  MOMENT
#define LIMIT_RETRIES   BIDE_NO_RETRY_LIMIT, INT32_MAX
#define LIMIT_COUNT     0, UINT32_MAX
#define LIMIT_DURATION  0, BIDE_TIME_MAX_MS
#define LIMIT_TIMESTAMP 0, BIDE_TIMESTAMP_MAX_MS
#define EXT_FIELD(kind, name)                                                                   \
    BI_JOB_IF_PUT_##kind({BI_JOB_NAME(kind, name), KIND_##kind, BI_SCHEDULE_DEFINITION,         \
                          OPTION(BI_JOB_MEMBER_##kind(name)), LIMIT_##kind, BI_JOB_NONE_##kind, \
                          true}, )

#define D BI_SCHEDULE_DEFINITION

/* Every member of bide_put_options has a row, or is rejected by check_options(). The option of a
 * newer version would be dropped silently. */
BI_SIZED_STRUCT_ENDS_WITH(bide_put_options, fallbacks);

static const struct field fields[] = {
    {"name", TEXT, D, DEF(name), NO_LIMITS},
    {"when", TEXT, D, DEF(when), NO_LIMITS},
    {"zone", TEXT, D, DEF(zone), NO_LIMITS},
    {"topic", TEXT, D, DEF(topic), NO_LIMITS},
    {"body", BYTES, D, DEF(body), NO_LIMITS},
    {"priority", NUMBER, D, OPTION(priority), 0, UINT32_MAX, BIDE_DEFAULT_PRIORITY, false},
    {"delay_ms", DURATION, D, OPTION(delay_ms), RANGE_TIME},
    {"ttr_ms", DURATION, D, OPTION(ttr_ms), RANGE_DEFAULT},
    {"key", BYTES, D, OPTION(key), NO_LIMITS},
    {"key_hold_retained", FLAG, D, OPTION(key_hold_retained), NO_LIMITS},
    BI_JOB_EXT(EXT_FIELD){"fallbacks", NUMBER, D, OPTION(fallbacks),
                          NUMBERS(0, BIDE_FALLBACK_RETRIES)},
    {"expires_in_ms", DURATION, D, DEF(expires_in_ms), RANGE_DEFAULT},
    {"jitter_ms", DURATION, D, DEF(jitter_ms), RANGE_TIME},
    {"start_at_ms", MOMENT, D, DEF(start_at_ms), RANGE_MOMENT},
    {"end_at_ms", MOMENT, D, DEF(end_at_ms), RANGE_MOMENT},
    {"misfire", MISFIRE, D, DEF(misfire), NO_LIMITS},
    {"misfire_max", NUMBER, D, DEF(misfire_max), NUMBERS(0, BIDE_SCHEDULE_MISSED_MAX)},
    {"grace_ms", DURATION, D, DEF(grace_ms), RANGE_TIME},
    {"overlap", OVERLAP, D, DEF(overlap), NO_LIMITS},
    {"state", STATE, BI_SCHEDULE_STORED, DEF(state), 0, 0, -1, false},
    {"next_at_ms", NUMBER, BI_SCHEDULE_STORED, DEF(next_at_ms), RANGE_MOMENT},
    {"last_at_ms", NUMBER, BI_SCHEDULE_STORED, DEF(last_at_ms), RANGE_MOMENT},
    {"made", NUMBER, BI_SCHEDULE_STORED, DEF(made), NUMBERS(0, INT64_MAX)},
    {"id", NUMBER, BI_SCHEDULE_FULL, DEF(id), NUMBERS(0, BIDE_ID_MAX)},
    {"problem", TEXT, BI_SCHEDULE_FULL, DEF(problem), NO_LIMITS},
};

#undef D

static void *member_of(struct schedule *schedule, const struct field *field)
{
    return (field->option ? (char *)&schedule->options : (char *)&schedule->def) + field->offset;
}

static int64_t get_number(const struct field *field, const void *member)
{
    if (field->size == sizeof(int64_t))
        return *(const int64_t *)member;
    if (field->size == sizeof(bool))
        return *(const bool *)member;

    /* Enums, counts, and the one number that may be negative. */
    uint32_t number;
    memcpy(&number, member, sizeof(number));
    return field->min < 0 ? (int32_t)number : (int64_t)number;
}

static void set_number(const struct field *field, void *member, int64_t number)
{
    uint32_t narrow = (uint32_t)number;

    if (field->size == sizeof(int64_t))
        *(int64_t *)member = number;
    else if (field->size == sizeof(bool))
        *(bool *)member = number != 0;
    else
        memcpy(member, &narrow, sizeof(narrow));
}

/* The name of a value, "?" for an unknown one; NULL: the field has none. */
static const char *word_of(const struct field *field, unsigned number)
{
    switch (field->kind) {
    case STATE:
        return bide_schedule_state_name((bide_schedule_state)number);
    case MISFIRE:
        return bide_misfire_name((bide_misfire)number);
    case OVERLAP:
        return bide_overlap_name((bide_overlap)number);
    default:
        return NULL;
    }
}

/* ---- encoding ---- */

static bool encode_field(json_t *object, const struct field *field, const void *member)
{
    if (field->kind == TEXT) {
        const char *text = *(const char *const *)member;
        return text == NULL || json_object_set_new(object, field->name, json_string(text)) == 0;
    }
    if (field->kind == BYTES) {
        const bide_slice *bytes = member;
        return bytes->size == 0 ||
               bi_job_json_set_bytes(object, field->name, bytes->data, bytes->size);
    }

    int64_t number = get_number(field, member);
    if (number == field->absent)
        return true;
    if (field->has_default && number == BIDE_NO_DEFAULT)
        number = field->absent;
    const char *word = word_of(field, (unsigned)number);
    json_t *value = field->kind == FLAG ? json_true()
                    : word != NULL      ? json_string(word)
                                        : json_integer(number);
    return json_object_set_new(object, field->name, value) == 0;
}

/* The members of several forms. */
static json_t *encode(const bide_schedule *schedule, enum schedule_form first,
                      enum schedule_form last)
{
    static const bide_put_options defaults = BIDE_PUT_OPTIONS_INIT;
    const bide_put_options *options = schedule->options == NULL ? &defaults : schedule->options;
    json_t *object = json_object();
    bool ok = object != NULL;

    for (size_t i = 0; ok && i < COUNT(fields); i++) {
        const struct field *field = &fields[i];
        const char *base = field->option ? (const char *)options : (const char *)schedule;
        ok = field->form < first || field->form > last ||
             encode_field(object, field, base + field->offset);
    }
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

json_t *bi_schedule_encode(const bide_schedule *schedule, enum schedule_form form)
{
    return encode(schedule, BI_SCHEDULE_DEFINITION, form);
}

/* The bytes of all members that a scheduler changes, when their values are longest. */
#define CHANGING_SIZE                                                            \
    sizeof("{\"state\":\"damaged\",\"next_at_ms\":1234567890123,\"last_at_ms\":" \
           "1234567890123,\"made\":1234567890123456789}")

char *bi_schedule_format_stored(const bide_schedule *schedule)
{
    json_t *stored = bi_schedule_encode(schedule, BI_SCHEDULE_STORED);
    json_t *changing = encode(schedule, BI_SCHEDULE_STORED, BI_SCHEDULE_STORED);
    size_t size = json_dumpb(stored, NULL, 0, JSON_COMPACT);
    size_t changing_size = json_dumpb(changing, NULL, 0, JSON_COMPACT);
    assert(changing_size < CHANGING_SIZE);

    size_t padded = size + CHANGING_SIZE - changing_size;
    char *text = size == 0 || changing_size == 0 ? NULL : malloc(padded + 1);
    if (text != NULL && json_dumpb(stored, text, size, JSON_COMPACT) == size) {
        memset(text + size, ' ', padded - size);
        text[padded] = 0;
    } else {
        free(text);
        text = NULL;
    }
    json_decref(stored);
    json_decref(changing);
    return text;
}

/* ---- decoding: values ---- */

static int no_memory(char *error)
{
    bi_errmsg_set(error, "out of memory");
    return BIDE_ENOMEM;
}

/* A number that a definition gives. */
static void set_given(struct schedule *schedule, const struct field *field, int64_t number)
{
    bool excludes = field->has_default && number == field->absent;
    set_number(field, member_of(schedule, field), excludes ? BIDE_NO_DEFAULT : number);
}

static int decode_text(const struct field *field, const json_t *value, const char **text,
                       char *error)
{
    *text = json_string_value(value);
    if (*text != NULL && strlen(*text) == json_string_length(value))
        return BIDE_OK;
    bi_errmsg_set(error, "\"%s\" must be a string without NUL", field->name);
    return BIDE_EINVAL;
}

static int decode_bytes(struct schedule *schedule, const struct field *field, const json_t *value,
                        bool encoded, char *error)
{
    bide_slice *bytes = member_of(schedule, field);
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);

    if (bytes->data != NULL || text == NULL) {
        bi_errmsg_set(error,
                      bytes->data != NULL ? "\"%s\" is given twice" : "\"%s\" must be a string",
                      field->name);
        return BIDE_EINVAL;
    }
    *bytes = (bide_slice){text, length};
    if (!encoded)
        return BIDE_OK;

    void **block = field->option ? &schedule->key : &schedule->body;
    bool valid = bi_base64_decoded_size(text, length, &bytes->size);
    if (valid && (*block = malloc(bytes->size + 1)) == NULL)
        return no_memory(error);
    if (!valid || !bi_base64_decode(text, length, *block)) {
        bi_errmsg_set(error, "\"%s_base64\" is not base64", field->name);
        return BIDE_EINVAL;
    }
    bytes->data = *block;
    return BIDE_OK;
}

static int decode_word(struct schedule *schedule, const struct field *field, const json_t *value,
                       char *error)
{
    const char *given = json_string_value(value);

    for (unsigned i = 0; given != NULL; i++) {
        const char *word = word_of(field, i);
        assert(word != NULL);
        if (word[0] == '?')
            break;
        if (strcmp(word, given) == 0) {
            set_given(schedule, field, i);
            return BIDE_OK;
        }
    }
    bi_errmsg_set(error, "\"%s\" must be %s, %s or %s", field->name, word_of(field, 0),
                  word_of(field, 1), word_of(field, 2));
    return BIDE_EINVAL;
}

static int decode_number(struct schedule *schedule, const struct field *field, const json_t *value,
                         char *error)
{
    int64_t number = json_integer_value(value);

    if (!json_is_integer(value) || number < field->min || number > field->max) {
        bi_errmsg_set(error, "\"%s\" must be a whole number from %lld to %lld", field->name,
                      (long long)field->min, (long long)field->max);
        return BIDE_EINVAL;
    }
    set_given(schedule, field, number);
    return BIDE_OK;
}

static int decode_value(struct schedule *schedule, const struct field *field, const json_t *value,
                        char *error)
{
    switch (field->kind) {
    case TEXT:
        return decode_text(field, value, member_of(schedule, field), error);
    case BYTES:
        return decode_bytes(schedule, field, value, false, error);
    case STATE:
    case MISFIRE:
    case OVERLAP:
        return decode_word(schedule, field, value, error);
    case FLAG:
        set_given(schedule, field, json_is_true(value));
        if (json_is_boolean(value))
            return BIDE_OK;
        bi_errmsg_set(error, "\"%s\" must be true or false", field->name);
        return BIDE_EINVAL;
    default:
        return decode_number(schedule, field, value, error);
    }
}

int bi_schedule_parse_moment(const char *what, const char *text, const char *zone, int64_t now_ms,
                             int64_t *at_ms, char *error)
{
    struct timezone_rules *rules = NULL;
    char reason[BI_ERRMSG_SIZE];
    int code = zone == NULL ? BIDE_OK : bi_timezone_open(zone, strlen(zone), &rules, error);
    if (code != BIDE_OK)
        return code;

    struct zone calendar = {.rules = rules}; /* without rules the zone of the process */
    if (!bi_datetime_parse(text, &calendar, now_ms, at_ms, reason)) {
        bi_errmsg_set(error, "%s: \"%.100s\" %.200s", what, text, reason);
        code = BIDE_EINVAL;
    }
    bi_timezone_free(rules);
    return code;
}

/* "ttr" is ttr_ms as a text: "5m". */
static int decode_time(struct schedule *schedule, const struct field *field, const char *name,
                       const json_t *value, int64_t now_ms, char *error)
{
    const char *text = json_string_value(value);
    const char *zone = json_string_value(json_object_get(schedule->json, "zone"));
    char reason[BI_ERRMSG_SIZE], what[40];
    int code = BIDE_OK;
    int64_t ms = 0;

    if (text != NULL && field->kind == MOMENT) {
        snprintf(what, sizeof(what), "\"%s\"", name);
        code = bi_schedule_parse_moment(what, text, zone, now_ms, &ms, error);
    } else if (text == NULL) {
        bi_errmsg_set(error, "\"%s\" must be a string; \"%s\" is a number of milliseconds", name,
                      field->name);
        code = BIDE_EINVAL;
    } else if (!bi_duration_parse(text, &ms, reason)) {
        bi_errmsg_set(error, "\"%s\": \"%.100s\" %.200s", name, text, reason);
        code = BIDE_EINVAL;
    }
    if (code == BIDE_OK)
        set_given(schedule, field, ms);
    return code;
}

/* ---- decoding: names ---- */

/* True if the name is that of the field with its end replaced: "ttr" for "ttr_ms", "key_base64" for
 * "key". */
static bool is_variant(const struct field *field, const char *name, const char *own_end,
                       const char *other_end)
{
    size_t length = strlen(field->name) - strlen(own_end);
    return strncmp(field->name, name, length) == 0 && strcmp(field->name + length, own_end) == 0 &&
           strcmp(name + length, other_end) == 0;
}

static int decode_member(struct schedule *schedule, const char *name, const json_t *value,
                         int64_t now_ms, char *error)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;

    for (size_t i = 0; i < COUNT(fields); i++) {
        const struct field *field = &fields[i];
        bool time = field->kind == DURATION || field->kind == MOMENT;
        if (strcmp(field->name, name) == 0)
            return decode_value(schedule, field, value, error);
        if (field->kind == BYTES && is_variant(field, name, "", "_base64"))
            return decode_bytes(schedule, field, value, true, error);
        if (time && now_ms != 0 && is_variant(field, name, "_ms", ""))
            return decode_time(schedule, field, name, value, now_ms, error);
        bi_suggest_consider(&suggestion, field->name, name, strlen(name));
    }

    bi_errmsg_set(error, "unknown name \"%.60s\"%s%s%s", name,
                  suggestion.best == NULL ? "" : "; did you mean \"",
                  suggestion.best == NULL ? "" : suggestion.best,
                  suggestion.best == NULL ? "" : "\"?");
    return BIDE_EINVAL;
}

/* ---- checks ---- */

static bool is_topic(const char *name, size_t size)
{
    return bi_topic_name_valid((bide_slice){name, size});
}

bool bi_schedule_name_valid(const char *name, size_t size)
{
    return size <= BIDE_SCHEDULE_NAME_MAX && is_topic(name, size);
}

static const char *check_options(const struct schedule *schedule)
{
    const bide_put_options *options = &schedule->options;

    if (options->expires_at_ms != 0)
        return "expires_at_ms is not possible; give expires_in_ms";
    if (options->key.size > BIDE_KEY_MAX)
        return "the key has more than 200 bytes";
    if (options->key.size > 0 && schedule->def.overlap == BIDE_OVERLAP_ALLOW)
        return "with a key there is one job at a time: set overlap to skip or replace";
    if (options->key.size == 0 && options->key_hold_retained)
        return "key_hold_retained needs a key";
    return NULL;
}

static const char *check_definition(const struct schedule *schedule)
{
    const bide_schedule *def = &schedule->def;

    if (def->name == NULL || !bi_schedule_name_valid(def->name, strlen(def->name)))
        return "the name must be 1 to 150 letters, digits and -+/;.$_(), with no - in front";
    if (def->when == NULL)
        return "\"when\" is missing: a cron expression, or \"every 15m\"";
    if (def->topic == NULL || !is_topic(def->topic, strlen(def->topic)))
        return "the topic must be 1 to 200 letters, digits and -+/;.$_(), with no - in front";
    if (strcmp(def->topic, BIDE_SCHEDULE_TOPIC) == 0)
        return "the topic " BIDE_SCHEDULE_TOPIC " is that of the schedules themselves";
    if (def->body.size > BIDE_SCHEDULE_BODY_MAX)
        return "the body has more than 1 MiB";
    if (def->end_at_ms != 0 && def->end_at_ms <= def->start_at_ms)
        return "it ends before it starts";
    return check_options(schedule);
}

/* The checks that depend on nothing but the definition; and parses the expression. */
static int complete(struct schedule *schedule, char *error)
{
    const bide_schedule *def = &schedule->def;
    const char *reason = check_definition(schedule);
    if (reason != NULL) {
        bi_errmsg_set(error, "%s", reason);
        return BIDE_EINVAL;
    }

    int code = bi_cron_parse(def->when, strlen(def->when), &schedule->cron, error);
    if (code == BIDE_OK && def->zone != NULL)
        code = bi_timezone_check_name(def->zone, strlen(def->zone), error);
    if (def->start_at_ms != 0)
        schedule->cron.anchor_ms = def->start_at_ms;
    return code;
}

/* ---- schedules ---- */

void bi_schedule_free(struct schedule *schedule)
{
    if (schedule == NULL)
        return;
    bi_timezone_free(schedule->zone);
    json_decref(schedule->json);
    free(schedule->body);
    free(schedule->key);
    free(schedule);
}

static struct schedule *new_schedule(void)
{
    static const bide_schedule def = BIDE_SCHEDULE_INIT;
    static const bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct schedule *schedule = calloc(1, sizeof(*schedule));
    if (schedule == NULL)
        return NULL;
    schedule->def = def;
    schedule->options = options;
    schedule->def.options = &schedule->options;
    return schedule;
}

/* Takes over the object, which may be NULL: out of memory. */
static int decode_object(json_t *object, int64_t now_ms, struct schedule **out, char *error)
{
    struct schedule *schedule = object == NULL ? NULL : new_schedule();
    const char *name;
    json_t *value;
    int code = BIDE_OK;

    if (schedule == NULL) {
        json_decref(object);
        return no_memory(error);
    }

    schedule->json = object;
    json_object_foreach(object, name, value)
    {
        if (code == BIDE_OK)
            code = decode_member(schedule, name, value, now_ms, error);
    }
    if (code == BIDE_OK)
        code = complete(schedule, error);
    if (code == BIDE_OK)
        *out = schedule;
    else
        bi_schedule_free(schedule);
    return code;
}

/* A definition that is not JSON is buried, and jansson does not tell that from lack of memory. So
 * the text is parsed again, provided that there is the memory. */
static int parse_object(const char *text, size_t size, json_t **object, char *error)
{
    *object = bi_job_json_parse(text, size, error);
    if (*object != NULL)
        return BIDE_OK;

    void *volatile probe = malloc(4 * size + 4096); /* of its longest token there are copies */
    bool has_memory = probe != NULL;
    free(probe);
    if (!has_memory)
        return no_memory(error);
    *object = bi_job_json_parse(text, size, error);
    return *object == NULL ? BIDE_EINVAL : BIDE_OK;
}

int bi_schedule_decode(const char *text, size_t size, int64_t now_ms, struct schedule **out,
                       char *error)
{
    json_t *object;
    int code = parse_object(text, size, &object, error);
    return code == BIDE_OK ? decode_object(object, now_ms, out, error) : code;
}

static bool is_text(const char *text)
{
    return text == NULL || bi_text_is_utf8(text, strlen(text));
}

/* What JSON cannot express. */
static const char *check_given(const bide_schedule *def, const bide_put_options *options)
{
    if (options->run_at_ms != 0)
        return "run_at_ms must be 0 in the options of a schedule";
    if (options->conflict != BIDE_REJECT)
        return "conflict must be 0 in the options of a schedule; set overlap";
    if ((def->body.data == NULL && def->body.size > 0) ||
        (options->key.data == NULL && options->key.size > 0))
        return "the body or the key is NULL and has a size";
    if (!is_text(def->name) || !is_text(def->when) || !is_text(def->zone) || !is_text(def->topic))
        return "name, when, zone and topic must be UTF-8";
    return NULL;
}

int bi_schedule_copy(const bide_schedule *given, struct schedule **out, char *error)
{
    bide_schedule def = BIDE_SCHEDULE_INIT;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    int code = bi_sized_struct_copy(&def, given, "BIDE_SCHEDULE_INIT", error);
    if (code == BIDE_OK && def.options != NULL)
        code = bi_sized_struct_copy(&options, def.options, "BIDE_PUT_OPTIONS_INIT", error);
    if (code != BIDE_OK)
        return code;

    def.options = &options;
    const char *reason = check_given(&def, &options);
    if (reason != NULL) {
        bi_errmsg_set(error, "%s", reason);
        return BIDE_EINVAL;
    }

    /* What only the library sets is not taken over. The state is "paused" or nothing. */
    code = decode_object(bi_schedule_encode(&def, BI_SCHEDULE_DEFINITION), 0, out, error);
    if (code == BIDE_OK && def.state == BIDE_SCHEDULE_PAUSED)
        (*out)->def.state = BIDE_SCHEDULE_PAUSED;
    return code;
}

/* Sets the problem. The text may have any bytes, and is shown as JSON, which must be UTF-8. */
static void copy_problem(struct schedule *schedule, const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t used = 0;

    for (size_t at = 0; at < size;) {
        size_t length = bi_text_utf8_size(bytes + at, size - at);
        bool valid = length > 0 && bytes[at] >= ' ';
        if (length == 0)
            length = 1;
        if (used + length >= sizeof(schedule->problem))
            break;
        if (valid)
            memcpy(schedule->problem + used, text + at, length);
        else
            schedule->problem[used] = '?';
        used += valid ? length : 1;
        at += length;
    }

    schedule->problem[used] = 0;
    schedule->def.problem = schedule->problem;
}

/* A schedule whose definition cannot be decoded: its name is the key of the job. */
static struct schedule *new_damaged(const bide_job *job, const char *reason)
{
    bool valid = bi_schedule_name_valid(job->key, job->key_size);
    json_t *name = json_stringn_nocheck(valid ? job->key : "?", valid ? job->key_size : 1);
    struct schedule *schedule = name == NULL ? NULL : new_schedule();
    if (schedule == NULL) {
        json_decref(name);
        return NULL;
    }

    schedule->json = name;
    schedule->def.name = json_string_value(schedule->json);
    schedule->def.state = BIDE_SCHEDULE_DAMAGED;
    copy_problem(schedule, reason, strlen(reason));
    return schedule;
}

/* The last failure of the job, if it has failed since its last turn. */
static void set_problem(struct schedule *schedule, const bide_job *job)
{
    schedule->def.problem = NULL;
    if (job->state == BIDE_STATE_BURIED)
        schedule->def.state = BIDE_SCHEDULE_DAMAGED;
    if (job->last_error_size > 0)
        copy_problem(schedule, job->last_error, job->last_error_size);
}

int bi_schedule_of_job(const bide_job *job, struct schedule **out, char *error)
{
    struct schedule *schedule = NULL;
    int code = bi_schedule_decode(job->body_size == 0 ? "" : job->body, job->body_size, 0,
                                  &schedule, error);
    if (code == BIDE_OK && (strlen(schedule->def.name) != job->key_size ||
                            memcmp(schedule->def.name, job->key, job->key_size) != 0)) {
        bi_errmsg_set(error, "its name is \"%s\", which is not the key of its job",
                      schedule->def.name);
        bi_schedule_free(schedule);
        code = BIDE_EINVAL;
    }
    if (code == BIDE_EINVAL) {
        schedule = new_damaged(job, error);
        code = schedule == NULL ? BIDE_ENOMEM : BIDE_OK;
    } else if (code == BIDE_OK) {
        set_problem(schedule, job);
    }
    if (code != BIDE_OK)
        return code;
    schedule->def.id = job->id;
    *out = schedule;
    return BIDE_OK;
}
